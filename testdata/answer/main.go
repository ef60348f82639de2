// Answer makes one edit that the user approves, as the model wants it or with other arguments,
// and writes the coverage of a part of the run: "call" from the end of the call in the model's
// message to its result, "answer" from the user's answer to the start of the tool. Nothing else
// runs meanwhile, so that the counts are the same each time.
//
//	answer call|answer allow|edit DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log"
	"os"
	"path/filepath"
	"runtime/coverage"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	before = "one\ntwo\nthree\n"
	wanted = `{"path":"f","old_string":"two\n","new_string":"2\n"}`
	edited = `{"path":"f","old_string":"two\n","new_string":"zwei\n"}`
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

// ask leaves each call to the user. A policy would look at the arguments itself.
func ask(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Ask() }

func run(part, how, out string) error {
	dir, err := os.MkdirTemp(out, "")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
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
	write := func() error { return errors.Join(coverage.WriteMetaDir(out), coverage.WriteCountersDir(out)) }
	answered, started := make(chan struct{}), make(chan error)
	tool := func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
			<-answered
			if part == "answer" {
				started <- write()
			}
			return next(ctx, inv)
		}
	}
	model := script.New(script.Call("edit_file", json.RawMessage(wanted)), script.Say("Done."))
	agent, err := aycoder.New(clearing{model, part == "call"}, aycoder.WithTools(edit),
		aycoder.WithApprover(aycoder.ApproverFunc(ask)), aycoder.WithToolMiddleware(tool))
	if err != nil {
		return err
	}
	for ev, err := range agent.Run(context.Background(), aycoder.Input{Prompt: "go"}) {
		if err != nil {
			return err
		}
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			if part == "answer" {
				err = coverage.ClearCounters()
			}
			if how == "edit" {
				err = errors.Join(err, ev.AllowWith(json.RawMessage(edited)))
			} else if !ev.Allow() {
				err = errors.New("the answer did not count")
			}
			close(answered)
			if part == "answer" {
				err = errors.Join(err, <-started)
			}
		case *aycoder.ToolFinished:
			if part == "call" {
				err = write()
			}
		}
		if err != nil {
			return err
		}
	}
	want := map[string]string{"allow": "one\n2\nthree\n", "edit": "one\nzwei\nthree\n"}[how]
	if data, err := os.ReadFile(file); err != nil || string(data) != want {
		return errors.Join(err, errors.New("the file is not what was approved: "+string(data)))
	}
	return nil
}

// clearing clears the counters before each call of the model.
type clearing struct {
	aycoder.ModelClient
	on bool
}

func (c clearing) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range c.ModelClient.Stream(ctx, req) {
			if b, ok := ev.(*aycoder.BlockDone); ok && c.on {
				if _, call := b.Part.(*aycoder.ToolUse); call {
					err = errors.Join(err, coverage.ClearCounters())
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}
