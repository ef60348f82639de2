package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/providers/script"
)

// A function reads and answers as a command does, and a function that does not work refuses the call.
func TestCall(t *testing.T) {
	say := func(text string) func(context.Context, []byte) ([]byte, error) {
		return func(context.Context, []byte) ([]byte, error) { return []byte(text), nil }
	}
	for _, tt := range []struct {
		name, reads string
		call        func(context.Context, []byte) ([]byte, error)
	}{
		{"nothing", "done", say("")},
		{"context", "done\n[hook] mind the gap", say(`{"hookSpecificOutput":{"additionalContext":"mind the gap"}}`)},
		{"reads", "a hook refused this call: Bash ls", func(_ context.Context, input []byte) ([]byte, error) {
			var in struct {
				Tool  string            `json:"tool_name"`
				Input map[string]string `json:"tool_input"`
			}
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			return fmt.Appendf(nil, `{"decision":"block","reason":"%s %s"}`, in.Tool, in.Input["command"]), nil
		}},
		{"error", `PreToolUse hook "guard": no connection`, func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no connection") }},
		{"error with an answer", "no connection", func(context.Context, []byte) ([]byte, error) {
			return []byte(`{"decision":"approve"}`), errors.New("no connection")
		}},
		{"panic", "it panicked: oh", func(context.Context, []byte) ([]byte, error) { panic("oh") }},
		{"too slow", "it took longer than", func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return []byte("{}"), nil
		}},
		{"too much", "more than 262144 bytes", say(`{"reason":"` + strings.Repeat("x", 256<<10) + `"}`)},
		{"not understood", "is not understood", say(`{"decision":7}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hooks.Hook{Event: hooks.PreToolUse, Matcher: "Bash", Command: "guard", Call: tt.call}
			if tt.name == "too slow" {
				h.Timeout = time.Millisecond
			}
			require.Contains(t, newBench(t, h).output("ls").Text(), tt.reads)
		})
	}
}

// A hook may be a function of the program.
func ExampleHook() {
	guard := hooks.Hook{Event: hooks.PreToolUse, Matcher: "Bash", Command: "guard", Call: func(_ context.Context, input []byte) ([]byte, error) {
		if strings.Contains(string(input), "rm -rf") {
			return []byte(`{"decision": "block", "reason": "nothing is removed here"}`), nil
		}
		return nil, nil
	}}
	r, err := hooks.New(hooks.Config{Hooks: []hooks.Hook{guard}, Exec: brokenExec{}, Root: "/work"})
	if err != nil {
		panic(err)
	}
	bash, err := aycoder.NewTool("bash", "Runs a command.", func(context.Context, *aycoder.Invocation, struct {
		Command string `json:"command"`
	}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("it ran"), nil
	})
	if err != nil {
		panic(err)
	}
	allow := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })
	model := script.New(script.Call("bash", map[string]any{"command": "rm -rf /"}), script.Say("I stop."))
	loop, err := aycoder.New(model, aycoder.WithTools(bash), aycoder.WithApprover(r.Approver(allow)))
	if err != nil {
		panic(err)
	}
	for ev, err := range loop.Run(context.Background(), aycoder.Input{Prompt: "clean up"}) {
		if err != nil {
			panic(err)
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Println(f.Output.Text())
		}
	}
	// Output: denied: a hook refused this call: nothing is removed here
}
