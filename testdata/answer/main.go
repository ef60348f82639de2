// Answer makes one approved edit with other arguments than the model's. It writes the coverage
// between the answer to the question and the start of the tool to the directory that it is
// given.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"path/filepath"
	"runtime/coverage"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(out string) error {
	dir, err := os.MkdirTemp(out, "")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		return err
	}
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	defer ws.Close()
	edit, err := tools.EditFile(ws)
	if err != nil {
		return err
	}
	model := script.New(script.Call("edit_file", `{"path":"f","old_string":"two","new_string":"2"}`), script.Say("Done."))
	answered, written := make(chan struct{}), make(chan error)
	agent, err := aycoder.New(model, aycoder.WithTools(edit), aycoder.WithApprover(aycoder.Rules{}),
		aycoder.WithToolMiddleware(func(next aycoder.ToolFunc) aycoder.ToolFunc {
			return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				<-answered
				written <- errors.Join(coverage.WriteMetaDir(out), coverage.WriteCountersDir(out))
				return next(ctx, inv)
			}
		}))
	if err != nil {
		return err
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "go"}) {
		if err != nil {
			return err
		}
		ask, ok := ev.(*aycoder.ApprovalRequested)
		if !ok {
			continue
		}
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		err = ask.AllowWith(json.RawMessage(`{"path":"f","old_string":"two","new_string":"zwei"}`))
		close(answered)
		if err := errors.Join(err, <-written); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(file)
	if err == nil && string(data) != "one\nzwei\nthree\n" {
		err = errors.New("the file is not what was approved: " + string(data))
	}
	return err
}
