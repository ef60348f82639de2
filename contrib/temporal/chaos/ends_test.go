package chaos

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A workflow that is cancelled, or has less than a minute, ends as what it is. A call that is stopped by a cancel says what it has done.
func TestEndsOfWorkflows(t *testing.T) {
	w := newWorld(t)
	const said = "killed; 3 of 5 files are edited"
	for id, c := range map[string]struct {
		timeout time.Duration
		is      func(error) bool
	}{"cancelled": {0, sdk.IsCanceledError}, "late": {5 * time.Second, sdk.IsTimeoutError}} {
		t.Run(id, func(t *testing.T) {
			ctx, working := t.Context(), make(chan struct{}, 1)
			edit, err := aycoder.NewTool("edit", "Edits.", func(ctx context.Context, _ *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
				working <- struct{}{}
				<-ctx.Done()
				res := aycoder.TextResult(said)
				res.IsError = true
				return res, nil
			})
			w.must(err)
			loop, err := aycoder.New(script.New(script.Call("edit", nil)), aycoder.WithTools(edit), aycoder.WithApprover(aycoder.ApproverFunc(
				func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })))
			w.must(err)
			startWorker(t, w.client, id, temporal.Config{Store: w.store, Heartbeat: time.Second,
				Open: openWith(w.store, func(string) *aycoder.Loop { return loop })})
			w.must(w.temp.Create(ctx, id))
			opts := client.StartWorkflowOptions{ID: id, TaskQueue: id, WorkflowRunTimeout: c.timeout}
			run, err := w.temp.Start(ctx, opts, temporal.Input{Session: id}, aycoder.User("Begin."))
			w.must(err)
			if c.timeout == 0 {
				<-working
				w.must(w.client.CancelWorkflow(ctx, id, ""))
			}
			if err := run.Get(ctx, nil); !c.is(err) {
				t.Errorf("the workflow ends with %v", err)
			}
			if c.timeout > 0 {
				return // the run stays open
			}
			v, _, err := session.Read(ctx, w.store, id)
			w.must(err)
			messages := v.Messages(v.Head(""))
			if o, ok := messages[len(messages)-1].Parts[0].(*aycoder.ToolOutput); !ok || o.Text() != said {
				t.Errorf("the call says %q", o.Text())
			}
		})
	}
}
