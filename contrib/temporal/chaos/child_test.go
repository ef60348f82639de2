package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

var errNotYet = errors.New("not yet")

// said returns the texts of the messages of a role in a session.
func (w *world) said(id string, role aycoder.Role) (texts []string) {
	v, damage, err := session.Read(w.t.Context(), w.store, id)
	w.must(err)
	w.must(errors.Join(damage...))
	messages := v.Messages(v.Head(""))
	w.must(aycoder.CheckHistory(messages))
	for _, m := range messages {
		if m.Role == role && m.Text() != "" {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

// A schedule of the server sends its message to the session again and again, and a child agent asks its own question.
func TestScheduleAndChild(t *testing.T) {
	w := newWorld(t)
	ctx, id := t.Context(), "nightly"
	declared, err := aycoder.DeclareTool[struct{}]("delegate", "Gives a task to another agent.")
	w.must(err)
	edit, err := aycoder.NewTool("edit", "Edits.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("edited"), nil
	})
	w.must(err)
	asks := aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
		if c.Name == "edit" {
			return aycoder.Ask()
		}
		return aycoder.Allow()
	}))
	steps := []script.Step{script.Call("delegate", nil), script.Say("first")}
	for range 1000 {
		steps = append(steps, script.Say("once more"))
	}
	parent := script.New(steps...)
	var mu sync.Mutex
	children := map[string]aycoder.ModelClient{}
	startWorker(t, w.client, id, temporal.Config{
		Store: w.store,
		Open: openWith(w.store, func(session string) *aycoder.Loop {
			mu.Lock()
			defer mu.Unlock()
			model := aycoder.ModelClient(parent)
			if session != id {
				if children[session] == nil {
					children[session] = script.New(script.Call("edit", nil), script.Say("mended"))
				}
				model = children[session]
			}
			loop, err := aycoder.New(model, aycoder.WithTools(declared, edit), asks)
			w.must(err)
			return loop
		}),
		Children: map[string]func(context.Context, string, *aycoder.CallRequest) (*aycoder.Message, error){
			"delegate": func(context.Context, string, *aycoder.CallRequest) (*aycoder.Message, error) {
				return aycoder.User("Mend it."), nil
			},
		},
	})
	w.must(w.temp.Create(ctx, id))
	schedule, err := w.temp.Schedule(ctx, client.ScheduleOptions{ID: "each-second",
		Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Second}}}},
		client.StartWorkflowOptions{ID: id, TaskQueue: id}, temporal.Input{Session: id}, aycoder.User("Again."))
	w.must(err)

	child := eventually(t, func() (string, error) {
		s, err := w.temp.Status(ctx, id)
		if err == nil && len(s.Children) != 1 {
			err = errNotYet
		}
		if err != nil {
			return "", err
		}
		return s.Children[0], nil
	})
	eventually(t, func() (struct{}, error) {
		p, err := w.temp.Pending(ctx, child)
		if err != nil || p == nil || len(p.Requests) == 0 {
			return struct{}{}, errNotYet
		}
		q := p.Requests[0]
		return struct{}{}, w.temp.Decide(ctx, child, p, aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
	})
	eventually(t, func() (struct{}, error) {
		if len(w.said(id, aycoder.RoleUser)) < 3 {
			return struct{}{}, errNotYet
		}
		return struct{}{}, nil
	})
	w.must(schedule.Delete(ctx))
	eventually(t, func() (struct{}, error) {
		if _, err := w.temp.Status(ctx, id); err == nil {
			p, err := w.temp.Pending(ctx, id)
			w.must(err)
			if p != nil {
				return struct{}{}, errNotYet
			}
		}
		return struct{}{}, nil
	})
	if got := w.said(child, aycoder.RoleAssistant); !slices.Equal(got, []string{"mended"}) {
		t.Errorf("the child says %q", got)
	}
	for _, text := range w.said(id, aycoder.RoleUser) {
		if text != "Again." {
			t.Errorf("somebody says %q", text)
		}
	}
	if got := w.said(id, aycoder.RoleAssistant); len(got) == 0 || got[0] != "first" {
		t.Errorf("the parent says %q", got)
	}
}
