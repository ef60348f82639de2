package main

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/providers/script"
)

// open returns the model with a name such as "anthropic/claude-sonnet-4-5", or without a
// name a script, which knows how to repair sum.go.
func open(name string) (aycoder.ModelClient, error) {
	if name != "" {
		return providers.Open(name)
	}
	return script.New(
		script.Reply(script.Say("I will read sum.go.\n"), script.Call("read_file", `{"path":"sum.go"}`)),
		script.Reply(script.Say("The total must start at 0.\n"),
			script.Call("edit_file", `{"path":"sum.go","old_string":"total := 1","new_string":"total := 0"}`)),
		script.Func(func(req *aycoder.Request) script.Step {
			if script.LastOutput(req).IsError {
				return script.Say("I was not allowed to repair it.\n")
			}
			return script.Call("bash", `{"command":"go test ./..."}`)
		}),
		script.Func(func(req *aycoder.Request) script.Step {
			if script.LastOutput(req).IsError {
				return script.Say("I was not allowed to test it.\n")
			}
			return script.Say("Repaired and tested.\n")
		}),
		script.Say("My script ends here.\n"),
	), nil
}
