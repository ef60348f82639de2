package aycoder_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// thatWrites is the model of an inner agent, which calls a tool once, or several times.
func thatWrites(times int) *fake {
	m := &fake{}
	for range times {
		m.turns = append(m.turns, calls(use("w", "write", `{"text":"x"}`)))
	}
	m.turns = append(m.turns, say("inner"))
	return m
}

// handmade is a tool that was not made by this package, such as that of a server.
type handmade struct{ aycoder.Tool }

// answering hands each question of a run to answer.
func answering(run iter.Seq2[aycoder.Event, error], answer func(*aycoder.ApprovalRequested)) error {
	for ev, err := range run {
		if err != nil {
			return err
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			answer(q)
		}
	}
	return nil
}

// reportedWays are ways round the guards of a run that users have reported of other agents: of Claude Code
// (anthropics/claude-code issues 40580, 43772, 52557, 78970), Continue (continuedev/continue 13289), OpenCode
// (anomalyco/opencode 26597, 30610) and openJiuwen (agent-core 963). In each, an inner agent makes the call "write"
// of a tool, in a run that the function starts.
var reportedWays = map[string]func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error{
	// The subagent runs in a mode that allows everything, or the model chooses one.
	"allows everything": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		l := newLoop(t, thatWrites(1), aycoder.WithTools(write), aycoder.WithApprover(allow))
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)))
		return err
	},
	// Questions are answered by the subagent's side, without the user.
	"answers its own questions": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		l := newLoop(t, thatWrites(1), aycoder.WithTools(write), aycoder.WithApprover(asks))
		return answering(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)),
			func(q *aycoder.ApprovalRequested) { q.Allow() })
	},
	"edits the arguments": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		l := newLoop(t, thatWrites(1), aycoder.WithTools(write), aycoder.WithApprover(asks))
		return answering(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)),
			func(q *aycoder.ApprovalRequested) { _ = q.AllowWith(json.RawMessage(`{"text":"y"}`)) })
	},
	// The guard knows the tools with which the subagent was started.
	"gets its tools later": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		m := thatWrites(1)
		m.turns = append([][]any{calls(use("e", "echo", `{"text":"x"}`))}, m.turns...)
		turn := 0
		l := newLoop(t, m, aycoder.WithTools(newTool(t, "echo", aycoder.EffectReadOnly, echo)), aycoder.WithApprover(allow),
			aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
				if turn++; turn == 2 {
					now.Tools = append(now.Tools, write)
				}
				return now, nil
			}))
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)))
		return err
	},
	"brings a tool from elsewhere": func(t *testing.T, ctx context.Context, _ *aycoder.Invocation, write aycoder.Tool) error {
		l := newLoop(t, thatWrites(1), aycoder.WithTools(handmade{write}), aycoder.WithApprover(allow))
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}))
		return err
	},
	// An approval of another run, or of before, counts.
	"resumes a run that was approved elsewhere": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		suspends := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Suspend() })
		var res aycoder.Result
		_, err := collect(newLoop(t, thatWrites(1), aycoder.WithTools(write), aycoder.WithApprover(suspends)).
			Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res))) // not within the call
		if err != nil {
			return err
		}
		q := res.Pending.Requests[0]
		in := aycoder.Input{Pending: res.Pending,
			Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
		_, err = collect(newLoop(t, &fake{turns: [][]any{say("inner")}}, aycoder.WithTools(write), aycoder.WithApprover(allow)).
			Run(ctx, in, aycoder.WithParent(inv)))
		return err
	},
	// The second agent of a chain no longer knows what the first one may not.
	"lets another agent do it": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		third := newLoop(t, thatWrites(1), aycoder.WithTools(write), aycoder.WithApprover(allow))
		agent := newTool(t, "other", aycoder.EffectUnknown, func(ctx context.Context, _ string) (string, error) {
			_, err := collect(third.Run(context.WithoutCancel(ctx), aycoder.Input{Prompt: "go"}))
			return "", err
		})
		m := &fake{turns: [][]any{calls(use("o", "other", `{"text":"x"}`)), say("inner")}}
		_, err := collect(newLoop(t, m, aycoder.WithTools(agent), aycoder.WithApprover(allow)).
			Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)))
		return err
	},
	// A denied call is made again until it passes.
	"tries again": func(t *testing.T, ctx context.Context, inv *aycoder.Invocation, write aycoder.Tool) error {
		l := newLoop(t, thatWrites(5), aycoder.WithTools(write), aycoder.WithApprover(allow))
		_, err := collect(l.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.WithParent(inv)))
		return err
	},
}

// guardsAgainst are the guards of a run, each of which refuses the call "write" of whoever makes it.
func guardsAgainst(tool string) map[string][]aycoder.Option {
	named := errors.New("refused: " + tool)
	return map[string][]aycoder.Option{
		"none": {aycoder.WithApprover(allow)},
		"approver": {aycoder.WithApprover(aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if call.Name == tool {
				return aycoder.Deny("no")
			}
			return aycoder.Allow()
		}))},
		"middleware": {aycoder.WithApprover(allow), aycoder.WithToolMiddleware(func(next aycoder.ToolFunc) aycoder.ToolFunc {
			return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				if inv.Name == tool {
					return nil, named
				}
				return next(ctx, inv)
			}
		})},
		"auditor": {aycoder.WithApprover(allow), aycoder.WithAudit(auditFunc(func(rec *aycoder.AuditRecord) error {
			if rec.Tool == tool {
				return named
			}
			return nil
		}))},
	}
}

type auditFunc func(*aycoder.AuditRecord) error

func (f auditFunc) Audit(_ context.Context, rec *aycoder.AuditRecord) error { return f(rec) }

// No way that was reported of other agents leads round a guard of the outer run. Without a guard, each leads to
// the tool.
func TestReportedWaysRoundGuards(t *testing.T) {
	for way, inner := range reportedWays {
		for guard, opts := range guardsAgainst("write") {
			t.Run(way+"/"+guard, func(t *testing.T) {
				wrote := 0
				write := newTool(t, "write", aycoder.EffectWrite, func(context.Context, string) (string, error) {
					wrote++
					return "done", nil
				})
				agent, err := aycoder.NewTool("agent", "A tool.", func(ctx context.Context, inv *aycoder.Invocation, _ echoArgs) (*aycoder.ToolResult, error) {
					return aycoder.TextResult("done"), inner(t, ctx, inv, write)
				})
				require.NoError(t, err)
				m := &fake{turns: [][]any{calls(use("a", "agent", `{"text":"go"}`)), say("done")}}
				_, err = collect(newLoop(t, m, append(opts, aycoder.WithTools(agent))...).Run(t.Context(), aycoder.Input{Prompt: "go"}))
				require.NoError(t, err)
				if guard == "none" {
					require.Positive(t, wrote)
				} else {
					require.Zero(t, wrote)
				}
			})
		}
	}
}

// A refused call that would start an agent starts none (anthropics/claude-code issue 44534).
func TestRefusedAgentDoesNotStart(t *testing.T) {
	for guard, opts := range guardsAgainst("agent") {
		started := 0
		agent := newTool(t, "agent", aycoder.EffectUnknown, func(context.Context, string) (string, error) { started++; return "", nil })
		m := &fake{turns: [][]any{calls(use("a", "agent", `{"text":"go"}`)), say("done")}}
		_, err := collect(newLoop(t, m, append(opts, aycoder.WithTools(agent))...).Run(t.Context(), aycoder.Input{Prompt: "go"}))
		if guard != "auditor" { // a run whose auditor fails ends
			require.NoError(t, err, guard)
		}
		require.Equal(t, guard == "none", started == 1, guard)
	}
}

// The guards of a run that goes on in another process reach the agents inside its calls (reported of
// giuseppecrj/pi-herdr-agents, issue 26).
func TestGuardsReachAgentsOfResumedRuns(t *testing.T) {
	for way, nest := range waysToNest {
		for _, denied := range []string{"", "write"} {
			wrote := 0
			suspends := aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
				return aycoder.Suspend()
			}))
			var res aycoder.Result
			_, err := collect(deep(t, nest, []aycoder.Option{suspends}, &wrote).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)))
			require.NoError(t, err)
			require.Zero(t, wrote)
			data, err := json.Marshal(res.Pending)
			require.NoError(t, err)
			var p aycoder.Pending
			require.NoError(t, json.Unmarshal(data, &p))

			w := &watcher{deny: denied}
			q := p.Requests[0]
			in := aycoder.Input{Pending: &p, Decisions: []aycoder.Decision{{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()}}}
			resumed := deepFrom(t, nest, w.options("first"), &wrote) // its first message was in another process
			_, err = collect(resumed.Run(t.Context(), in))
			require.NoError(t, err)
			require.Equal(t, denied == "", wrote == 1, "%s, denied %q", way, denied)
			if denied == "" {
				require.Contains(t, w.seen, "approver third 2 write [a b]", way)
				require.Contains(t, w.seen, "middleware third 2 write [a b]", way)
				require.Contains(t, w.seen, "auditor third 2 write [a b]", way)
			}
		}
	}
}
