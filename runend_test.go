package aycoder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// noted collects the names of the functions that were called.
type noted struct {
	mu    sync.Mutex
	calls []string
}

func (n *noted) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, s)
}

func (n *noted) sorted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.calls))
}

type callFunc = func(context.Context, *aycoder.Invocation, echoArgs) (*aycoder.ToolResult, error)

func ownTool(t testing.TB, name string, fn callFunc) aycoder.Tool {
	t.Helper()
	tool, err := aycoder.NewTool(name, "A test.", fn, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return tool
}

// traceKey is the key of a value in a context.
type traceKey struct{}

// traces is a slog.Handler that notes the value of the context of each record.
type traces struct{ *noted }

func (traces) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (h traces) WithAttrs([]slog.Attr) slog.Handler         { return h }
func (h traces) WithGroup(string) slog.Handler              { return h }
func (h traces) Handle(ctx context.Context, r slog.Record) error {
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	h.add(fmt.Sprintf("%s: %v in %s", r.Message, ctx.Value(traceKey{}), filepath.Base(frame.File)))
	return nil
}

// A record of the log has the context of its run, for its trace, and the place in the code
// that it comes from, whatever panicked.
func TestLogHasContext(t *testing.T) {
	tests := []struct {
		name string
		turn []any
		want string
	}{
		{"clean-up", calls(use("a", "start", `{"text":"x"}`)), "function at the end of a run panicked: T1 in run_end.go"},
		{"error", []any{badError{}}, "error of the model panicked: T1 in run_model.go"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen noted
			start := func(_ context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
				inv.Cleanup(func() { panic("x") })
				return aycoder.TextResult("started"), nil
			}
			m := &fake{turns: [][]any{tt.turn, say("end")}}
			ctx := context.WithValue(t.Context(), traceKey{}, "T1")
			for range newLoop(t, m, aycoder.WithTools(ownTool(t, "start", start)), aycoder.WithLogger(slog.New(traces{&seen}))).
				Run(ctx, aycoder.Input{Prompt: "go"}) {
				continue
			}
			require.Equal(t, []string{tt.want}, seen.sorted())
		})
	}
}

// badError is an error whose methods panic.
type badError struct{}

func (badError) Error() string { return "bad" }
func (badError) Unwrap() error { panic("unwrap") }

// A function that a tool registers for the end of a run is called once, before the loop
// statement ends, however that happens.
func TestAtRunEnd(t *testing.T) {
	for _, end := range []string{"done", "break", "cancel"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen noted
				start := func(_ context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
					require.True(t, inv.Cleanup(func() {
						<-time.After(time.Second / 2) // within the grace
						seen.add("slow " + inv.ID)
					}))
					require.True(t, inv.Cleanup(func() { panic(inv.ID) }))
					require.True(t, inv.Cleanup(func() { seen.add("fast " + inv.ID) }))
					return aycoder.TextResult("started"), nil
				}
				m := &fake{turns: [][]any{calls(use("a", "start", `{"text":"x"}`)), calls(use("b", "start", `{"text":"y"}`)), say("end")}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for ev := range newLoop(t, m, aycoder.WithTools(ownTool(t, "start", start))).
					Run(ctx, aycoder.Input{Prompt: "go"}) {
					fin, ok := ev.(*aycoder.ToolFinished)
					if !ok || fin.Call.ID != "b" {
						continue
					}
					require.Empty(t, seen.sorted(), "the run goes on")
					if end == "break" {
						break
					}
					if end == "cancel" {
						cancel()
					}
				}
				require.Equal(t, []string{"fast a", "fast b", "slow a", "slow b"}, seen.sorted())
			})
		})
	}
}

// A function that is registered late is called at once, and one that hangs is
// abandoned.
func TestAtRunEndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen noted
		hang := make(chan struct{})
		wait := func(ctx context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
			<-ctx.Done()
			inv.Cleanup(func() { seen.add("late") })
			inv.Cleanup(func() { <-hang; seen.add("hung") })
			return nil, ctx.Err()
		}
		m := &fake{turns: [][]any{calls(use("a", "wait", `{"text":"x"}`))}}
		for ev := range newLoop(t, m, aycoder.WithTools(ownTool(t, "wait", wait))).
			Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			if _, ok := ev.(*aycoder.ToolStarted); ok {
				break
			}
		}
		require.Equal(t, []string{"late"}, seen.sorted())
		close(hang)
		synctest.Wait()
		require.Equal(t, []string{"hung", "late"}, seen.sorted())
	})
}

func TestAtRunEndOutsideARun(t *testing.T) {
	never := func() { t.Error("was called") }
	require.False(t, aycoder.NewInvocation("a", "b", json.RawMessage(`{}`), nil).Cleanup(never))
	start := func(_ context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
		require.False(t, inv.Cleanup(never))
		return aycoder.TextResult("started"), nil
	}
	m := &fake{turns: [][]any{calls(use("a", "start", `{"text":"x"}`))}}
	l := newLoop(t, m, aycoder.WithTools(ownTool(t, "start", start)))
	req := &aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "go"}}}}}
	for _, err := range l.Turn(t.Context(), req, nil) {
		require.NoError(t, err)
	}
}
