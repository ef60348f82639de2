package agenttest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// This file checks that an agent has limits. A model may never stop, and its answers come over a
// network, so an agent must bound everything that it waits for, keeps or repeats. The checks use
// answers without an end.

// perRun is a client that chooses its answer by the length of the history, instead of by the
// number of requests so far. Therefore it can serve several runs at the same time.
type perRun struct {
	world   *world
	answers [][]any

	mu sync.Mutex
}

// Stream finds the next answer by counting the turns in the request. A counter in perRun would be
// wrong, since several runs use the client at the same time.
func (c *perRun) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	turn := 0
	for _, m := range req.Messages {
		if m.Role == aycoder.RoleAssistant {
			turn++
		}
	}
	return func(yield func(aycoder.ModelEvent, error) bool) {
		c.mu.Lock()
		steps := c.answers[min(turn, len(c.answers)-1)]
		c.mu.Unlock()
		for _, step := range steps {
			if !play(ctx, c.world, step, yield) {
				return
			}
		}
	}
}

// plainTool makes a tool that does not log its calls. Runs at the same time give their calls the
// same ids and numbers, which the log of a world would report as a call that ran twice.
func plainTool(t testing.TB) aycoder.Tool {
	tool, err := aycoder.NewTool("plain", "A tool of the suite.",
		func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("ok"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
	if err != nil {
		t.Fatalf("agenttest: %v", err)
	}
	return tool
}

// waits checks that a run waits as long as the provider asks, because an earlier request would be
// refused again. But a provider that asks for weeks must not block the run that long.
func (s *suite) waits() {
	start := time.Now()
	limit := &aycoder.RateLimitError{ModelError: modelError("slow"), RetryAfter: 7 * time.Second}
	tr := s.quick([]any{limit}, says("so"))
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	if got := time.Since(start); got < limit.RetryAfter {
		s.found.add(ruleRetry, "asked to wait %s, the model is asked again after %s",
			limit.RetryAfter, got)
	}
	start = time.Now()
	limit = &aycoder.RateLimitError{ModelError: modelError("slow"), RetryAfter: 1000 * time.Hour}
	tr = s.quick([]any{limit}, says("so"))
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	if got := time.Since(start); got > 24*time.Hour || !is[*aycoder.RateLimitError](tr.err) {
		s.found.add(ruleRetry, "asked to wait %s, the run waits %s and ends with error %v",
			limit.RetryAfter, got, tr.err)
	}
}

// maxTurns is a number of turns that no agent may reach without asking the user.
const maxTurns = 5000

// endlessTurns has a model that calls a tool in every answer. Each turn costs money, so the agent
// must limit the number of turns.
func (s *suite) endlessTurns() {
	w := newWorld(s.found, nil)
	turn := 0
	model := aycoder.ModelFunc(func(ctx context.Context,
		_ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			turn++
			for _, step := range calls(callArgs(fmt.Sprint(turn), "plain", `{}`)) {
				if !play(ctx, w, step, yield) {
					return
				}
			}
		}
	})
	agent := s.agent(s.t, AgentSetup{Model: model, Tools: []aycoder.Tool{plainTool(s.t)},
		Approver: approver(false)})
	var res aycoder.Result
	var last error
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	seq := agent.Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res))
	each(s.found, ruleAgain, seq, func(_ aycoder.Event, err error) bool {
		last = err
		if turn > maxTurns { // an agent may ignore the result of the body, but notice this
			cancel()
			return false
		}
		return true
	})
	checkHistory(s.found, "endless turns", res.Messages)
	if turn > maxTurns || !is[*aycoder.LimitError](last) {
		s.found.add(ruleBounds, "a model that never ends: %d turns, error %v, want a *LimitError", turn,
			last)
	}
}

// maxAnswer is a size in bytes that no agent may accept in one answer.
const maxAnswer = 1 << 30

// endlessAnswer has a model whose answer never ends, first in one block and then in many. The
// agent must not keep all of it in memory.
func (s *suite) endlessAnswer() {
	chunk := strings.Repeat("x", 1<<20)
	s.endless("an endless text", maxAnswer/len(chunk), func(int) aycoder.ModelEvent { return delta(chunk) })
	s.endless("endless blocks", maxAnswer/len(chunk),
		func(int) aycoder.ModelEvent { return block(chunk) })
}

// endlessEmpty has a model that sends empty deltas forever. They add no bytes, so a limit of
// bytes does not stop them.
func (s *suite) endlessEmpty() {
	s.endless("endless empty deltas", 64<<20, func(int) aycoder.ModelEvent { return delta("") })
}

// endless streams events until the agent stops the stream, or until n events have been taken.
func (s *suite) endless(what string, n int, event func(i int) aycoder.ModelEvent) {
	sent, stopped := 0, false
	steps := stream(func(ctx context.Context, yield func(aycoder.ModelEvent) bool) bool {
		for sent < n && !stopped && ctx.Err() == nil {
			sent++
			stopped = !yield(event(sent))
		}
		return false
	})
	tr := s.quick([]any{steps}, []any{&aycoder.BadRequestError{ModelError: modelError("asked again")}})
	var last error
	for _, err := range s.make(tr.world, false).Run(s.t.Context(), aycoder.Input{Prompt: "go"},
		aycoder.Into(&tr.res)) {
		last = err
	}
	checkHistory(s.found, what, tr.res.Messages)
	if sent >= n || last == nil || tr.world.requests() > 1 {
		s.found.add(ruleBounds, "%s: %d events are taken, %d requests, error %v", what, sent,
			tr.world.requests(), last)
	}
}

// manyCalls puts more calls into one message than any agent runs. Each call in the history needs an output all
// the same, because providers refuse a history with a call that has none. The last ones may be left out.
func (s *suite) manyCalls() {
	n := 10000
	if s.reduced {
		n = 1000
	}
	tr := s.quick(calls(manyCalls("read", n)...), says("so"))
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	got := pairs(tr.res.Messages)
	lost := slices.IndexFunc(got, func(p pair) bool { return p.out == nil })
	for i, p := range got {
		if lost < 0 && numberOf(p.use.Args) != i+1 {
			lost = i
		}
	}
	if len(got) == 0 || lost >= 0 || tr.res.Text() != "so" {
		s.found.add(ruleOutput, "%d calls in one message: %d in the history, lost %d, last text %s", n, len(got), lost,
			shown(tr.res.Text()))
	}
}

// largeResult has a tool that returns 50 MiB, far more than fits into the context of any model.
func (s *suite) largeResult() { s.large(50 << 20) }

// large has a tool that returns a result of size bytes. The agent must shorten the result instead
// of ending the run.
func (s *suite) large(size int) {
	tr := s.quick(calls(call("a", "huge", 1), call("b", "read", 2)), says("so"))
	tr.world.huge = size
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	for _, p := range pairs(tr.res.Messages) {
		if n := len(p.out.Text()); n > size/4 {
			s.found.add(ruleBounds, "of a result of %d bytes the history gets %d", size, n)
		}
	}
	if tr.res.Text() != "so" || tr.world.ran(2) != 1 {
		s.found.add(ruleBounds, "a result of %d bytes ends the run: last text %s, error %v",
			size, shown(tr.res.Text()), tr.err)
	}
}
