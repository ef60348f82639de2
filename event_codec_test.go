package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

// recoded decodes an event and encodes it again.
func recoded(t testing.TB, data []byte) aycoder.Event {
	t.Helper()
	ev, err := aycoder.DecodeEvent(data)
	require.NoError(t, err, "%s", data)
	again, err := json.Marshal(ev)
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	return ev
}

// The events of random runs, some of them suspended, decode to events with the same JSON, and the
// last one to the same result.
func TestEventsReplay(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() || timed.Reduced(t) {
		seeds = 50
	}
	events, suspended, finished := 0, 0, 0
	kinds := map[string]int{}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			f := factRun{seed: seed, failAt: -1, event: func(ev aycoder.Event) {
				data, err := json.Marshal(ev)
				require.NoError(t, err)
				back := recoded(t, data)
				require.IsType(t, ev, back)
				events++
				kind, _, _ := strings.Cut(strings.TrimPrefix(string(data), `{"type":"`), `"`)
				kinds[kind]++
				if end, ok := ev.(*aycoder.RunFinished); ok {
					want, err := json.Marshal(end.Result)
					require.NoError(t, err)
					got, err := json.Marshal(back.(*aycoder.RunFinished).Result)
					require.NoError(t, err)
					require.Equal(t, string(want), string(got))
					require.Equal(t, end.Result.Text(), back.(*aycoder.RunFinished).Result.Text())
					finished++
					if end.Result.Pending != nil {
						suspended++
					}
				}
			}}
			f.run(t)
		})
	}
	t.Logf("%d runs, %d finished, %d suspended, %d events: %v", seeds, finished, suspended, events, kinds)
	require.Positive(t, suspended)
	for _, kind := range []string{"text_delta", "tool_delta", "tool_start", "tool_progress", "tool_end", "approval_request",
		"turn_end", "retry", "run_end"} {
		require.Positive(t, kinds[kind], kind)
	}
}

var eventLines = []string{
	`{"type":"thinking_delta","text":"x"}`,
	`{"type":"tool_start","id":"a","name":"n","args":{"x":[1.0]},"subject":"s","eager":true,"by":"user"}`,
	`{"type":"tool_end","id":"a","name":"n","subject":"s","is_error":true,"summary":"s","untrusted":true,"usage":{"input":1,"output":2},"ms":7,"output":"o","changes":[{"path":"p","kind":"change","outcome":"merged","written":true,"exists":true,"user_changes":[{"old_line":1,"new_line":1,"old":"a","new":"b"}],"sidecars":["p.save"]}],"error":"tool n: cancelled"}`,
	`{"type":"merged","id":"a","name":"n","file":{"path":"p","kind":"change","outcome":"merged","written":true,"exists":true}}`,
	`{"type":"conflicted","id":"a","name":"n","file":null}`,
	`{"type":"child","id":"a","event":{"type":"child","id":"b","event":{"type":"approval_request","key":"k","run":"r","id":"c","name":"n","args":{},"digest":"d","created":"2026-01-02T03:04:05.000000006+02:00"}}}`,
	`{"type":"turn_end","turn":1,"stop":"end_turn","usage":{"input":0,"output":0},"provider":"p","model":"m","id":"i","request_id":"r"}`,
	`{"type":"jobs","jobs":[{"id":"agent-1","kind":"agent","name":"n","state":"done","summary":"3 turns","started":"2026-01-02T03:04:05Z","ended":"2026-01-02T03:05:05Z","by":{"run":"r","depth":1,"agent":"a","calls":["c"]},"call":"d","spent":[{"answers":1,"usage":{"input":1,"output":0},"cost":0}]},{"id":"bash-2","kind":"command","name":"make","state":"running","started":"2026-01-02T03:04:05Z","by":{"run":"r"}}]}`,
	`{"type":"notice","source":"hook","text":"the formatter changed 2 files"}`,
	`{"type":"retry","discarded":true,"attempt":1,"after_ms":1000,"error":"context canceled"}`,
	`{"type":"run_end","reason":"done","turns":0,"usage":{"input":0,"output":0},"text":"","messages":null}`,
}

func TestEventLines(t *testing.T) {
	for _, line := range eventLines {
		recoded(t, []byte(line))
	}
	for _, line := range []string{``, `[]`, `{"type":"tool_end","ms":"x"}`, `{"type":"child","id":"a","event":null}`, `{"type":"child"}`,
		`{"type":"run_end","messages":[null]}`, strings.Repeat(`{"type":"child","event":`, 70) + eventLines[0] + strings.Repeat("}", 70)} {
		_, err := aycoder.DecodeEvent([]byte(line))
		require.Error(t, err, line)
	}
	_, err := aycoder.DecodeEvent([]byte(`{"type":"forked"}`))
	unknown, ok := errors.AsType[*aycoder.FormatError](err)
	require.True(t, ok)
	require.Equal(t, aycoder.FormatError{Form: "event", Kind: "forked"}, *unknown)
}

// A decoded question can be shown. Nobody can answer it, and nothing panics.
func TestDecodedQuestionIsNotAnswered(t *testing.T) {
	ev := recoded(t, []byte(eventLines[5]))
	q := ev.(*aycoder.ChildEvent).Innermost().(*aycoder.ApprovalRequested)
	require.Equal(t, "c", q.Request.CallID)
	a := q.Detach()
	require.True(t, a.Decided())
	require.Equal(t, "c", a.Request.CallID)
	require.False(t, q.Allow())
	require.False(t, q.Deny("no"))
	require.False(t, a.Allow())
	require.False(t, a.Deny("no"))
	for _, err := range []error{
		q.AllowWith(nil), q.AllowPlan(edit.Plan{}), q.AllowFor(aycoder.Once, ""), q.AllowFor(aycoder.Saved, "r"),
		q.AllowFor(9, ""), a.AllowWith(nil), a.AllowPlan(edit.Plan{}), a.AllowFor(aycoder.Session, "r"),
	} {
		require.ErrorIs(t, err, aycoder.ErrDecided)
	}
	// A tool may even pass it on.
	tool, err := aycoder.NewTool("sub", "A tool.", func(ctx context.Context, inv *aycoder.Invocation, _ struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), errors.Join(inv.Emit(ctx, ev), inv.Emit(ctx, q))
	})
	require.NoError(t, err)
	m := &fake{turns: [][]any{calls(use("a", "sub", `{}`)), say("done")}}
	_, err = collect(newLoop(t, m, aycoder.WithApprover(allow), aycoder.WithTools(tool)).Run(t.Context(), aycoder.Input{Prompt: "go"}))
	require.NoError(t, err)
}

func FuzzDecodeEvent(f *testing.F) {
	for _, line := range eventLines {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"type":"run_end","messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}],"pending":{"run":"r","requests":[],"state":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := aycoder.DecodeEvent(data)
		if err != nil {
			return
		}
		first, err := json.Marshal(ev)
		if err != nil {
			return // arguments or an opaque block that are not JSON
		}
		recoded(t, first)
	})
}
