package aycoder_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// waysToNest are the ways in which a tool can start a run, or only a turn, of another agent.
var waysToNest = map[string]func(context.Context, *aycoder.Invocation, *aycoder.Loop, string) iter.Seq2[aycoder.Event, error]{
	"parent": func(ctx context.Context, inv *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		return child.Run(ctx, aycoder.Input{Prompt: prompt}, aycoder.WithParent(inv))
	},
	"parent without its context": func(_ context.Context, inv *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		return child.Run(context.Background(), aycoder.Input{Prompt: prompt}, aycoder.WithParent(inv))
	},
	"a copy as parent": func(ctx context.Context, inv *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		return child.Run(ctx, aycoder.Input{Prompt: prompt}, aycoder.WithParent(inv.WithProgress(nil)))
	},
	"context": func(ctx context.Context, _ *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		return child.Run(ctx, aycoder.Input{Prompt: prompt})
	},
	"context that is not cancelled": func(ctx context.Context, _ *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		return child.Run(context.WithoutCancel(ctx), aycoder.Input{Prompt: prompt})
	},
	"another parent": func(ctx context.Context, _ *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		other := aycoder.NewInvocation("other", "agent", nil, nil)
		return child.Run(ctx, aycoder.Input{Prompt: prompt}, aycoder.WithParent(other))
	},
	"turn": func(ctx context.Context, _ *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(prompt)}}
		return child.Turn(ctx, req, new(aycoder.TurnResult))
	},
	"goroutine": func(ctx context.Context, _ *aycoder.Invocation, child *aycoder.Loop, prompt string) iter.Seq2[aycoder.Event, error] {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for range child.Run(ctx, aycoder.Input{Prompt: prompt}) {
			}
		})
		return func(func(aycoder.Event, error) bool) {}
	},
}

// A watcher is all guards of a run at once, and writes down what they see.
type watcher struct {
	mu   sync.Mutex
	seen []string
	deny string // a tool
}

func (w *watcher) note(guard, tool string, p aycoder.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf("%s %s %d %s %v", guard, p.Agent, p.Depth, tool, p.Calls))
}

func (w *watcher) Decide(ctx context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
	p, ok := aycoder.PlaceFromContext(ctx)
	if !ok || call.Name == w.deny {
		return aycoder.Deny("no")
	}
	w.note("approver", call.Name, p)
	return aycoder.Allow()
}

func (w *watcher) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if rec.Kind == aycoder.AuditEffect {
		w.note("auditor", rec.Tool, rec.Place)
	}
	return nil
}

func (w *watcher) around(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if p, ok := aycoder.PlaceFromContext(ctx); !ok || p.Run != inv.Run || !slices.Equal(p.Calls, inv.Calls) {
			return nil, fmt.Errorf("the context says %v and the call %v", p, inv.Place)
		}
		w.note("middleware", inv.Name, inv.Place)
		return next(ctx, inv)
	}
}

func (w *watcher) options(name string) []aycoder.Option {
	return []aycoder.Option{aycoder.WithName(name), aycoder.WithApprover(w), aycoder.WithToolMiddleware(w.around)}
}

// deep makes three agents, each inside a call of the one before; the last one writes.
func deep(t *testing.T, nest func(context.Context, *aycoder.Invocation, *aycoder.Loop, string) iter.Seq2[aycoder.Event, error],
	guards []aycoder.Option, wrote *int,
) *aycoder.Loop {
	return deepFrom(t, nest, guards, wrote, calls(use("a", "agent", `{"text":"go"}`)))
}

// deepFrom is deep with the first turns of the outermost agent.
func deepFrom(t *testing.T, nest func(context.Context, *aycoder.Invocation, *aycoder.Loop, string) iter.Seq2[aycoder.Event, error],
	guards []aycoder.Option, wrote *int, turns ...[]any,
) *aycoder.Loop {
	t.Helper()
	write := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) {
		*wrote++
		return "done", nil
	})
	own := []aycoder.Option{aycoder.WithName("third"), aycoder.WithApprover(allow), aycoder.WithTools(write)}
	loop := newLoop(t, &fake{turns: [][]any{calls(use("w", "write", `{"text":"x"}`)), say("3")}}, own...)
	for _, name := range []string{"second", "first"} {
		child := loop
		agent, err := aycoder.NewTool("agent", "A tool.", func(ctx context.Context, inv *aycoder.Invocation, in echoArgs) (*aycoder.ToolResult, error) {
			for _, err := range nest(ctx, inv, child, in.Text) {
				if err != nil {
					return nil, err
				}
			}
			return aycoder.TextResult("done"), nil
		})
		require.NoError(t, err)
		m := &fake{turns: [][]any{calls(use("b", "agent", `{"text":"go"}`)), say("done")}}
		opts := []aycoder.Option{aycoder.WithName(name), aycoder.WithApprover(allow)}
		if name == "first" {
			m.turns = append(turns, say("done"))
			opts = guards
		}
		loop = newLoop(t, m, append(opts, aycoder.WithTools(agent))...)
	}
	return loop
}

// However runs are nested, the guards of the outermost one see every call with its place, and can stop it.
func TestGuardsReachNestedRuns(t *testing.T) {
	for way, nest := range waysToNest {
		t.Run(way, func(t *testing.T) {
			w, wrote := &watcher{}, 0
			_, err := collect(deep(t, nest, w.options("first"), &wrote).Run(t.Context(), aycoder.Input{Prompt: "go"}))
			require.NoError(t, err)
			require.Equal(t, 1, wrote)
			var want []string
			for _, guard := range []string{"approver", "middleware", "auditor"} {
				want = append(want, guard+" first 0 agent []", guard+" second 1 agent [a]", guard+" third 2 write [a b]")
			}
			if way == "another parent" {
				for i := range want { // the context wins over a call of no run
					require.NotContains(t, want[i], "other")
				}
			}
			slices.Sort(want)
			seen := slices.Clone(w.seen)
			slices.Sort(seen)
			require.Equal(t, want, seen)

			w, wrote = &watcher{deny: "write"}, 0
			_, err = collect(deep(t, nest, w.options("first"), &wrote).Run(t.Context(), aycoder.Input{Prompt: "go"}))
			require.NoError(t, err)
			require.Zero(t, wrote, "denied by the approver")

			stop := aycoder.WithToolMiddleware(func(next aycoder.ToolFunc) aycoder.ToolFunc {
				return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
					if inv.Name == "write" {
						return nil, fmt.Errorf("not in %s", inv.Agent)
					}
					return next(ctx, inv)
				}
			})
			_, err = collect(deep(t, nest, []aycoder.Option{aycoder.WithApprover(allow), stop}, &wrote).Run(t.Context(), aycoder.Input{Prompt: "go"}))
			require.NoError(t, err)
			require.Zero(t, wrote, "stopped by the middleware")

			fails := failingAuditor{}
			_, err = collect(deep(t, nest, []aycoder.Option{aycoder.WithApprover(allow), aycoder.WithAudit(fails)}, &wrote).Run(t.Context(), aycoder.Input{Prompt: "go"}))
			require.NoError(t, err)
			require.Zero(t, wrote, "stopped by the auditor")
		})
	}
}

// failingAuditor refuses what happens in nested runs.
type failingAuditor struct{}

func (failingAuditor) Audit(_ context.Context, rec *aycoder.AuditRecord) error {
	if rec.Depth > 0 {
		return fmt.Errorf("disk full")
	}
	return nil
}
