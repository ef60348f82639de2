package agenttest

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// Bounds. A model is a program that may never stop, and its answers come over a network: so
// an agent must have a limit for everything that it waits for, keeps or repeats. These
// checks take each limit to its end, with answers that would go on for ever.

// perRun answers by the length of the history instead of by count: it can serve
// several runs at the same time.
type perRun struct {
	world   *world
	answers [][]any

	mu sync.Mutex
}

// The turn is counted in the request, since runs at the same time share the client.
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

// plainTool makes a tool without the bookkeeping of a world.
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

// waits checks that a rate limit is waited for as long as the provider asks, and
// that the run does not wait for ever.
func (s *suite) waits() {
	start := time.Now()
	limit := &aycoder.RateLimitError{ModelError: modelError("slow"), RetryAfter: 7 * time.Second}
	tr := s.quick([]any{limit}, says("so"))
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	if got := time.Since(start); got < limit.RetryAfter {
		s.found.add(ruleRetry, "asked to wait %s, the model is asked again after %s", limit.RetryAfter,
			got)
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

// maxTurns is more turns than an agent may take on its own.
const maxTurns = 5000

// endlessTurns has a model that calls tools for ever. The agent must have a limit of its
// turns.
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
		if turn > maxTurns { // an agent that does not hear that may hear this
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

// maxAnswer is more bytes than an agent may take in one answer.
const maxAnswer = 1 << 30

// endlessAnswer has a model whose answer does not end, in one block and in many. The agent
// must not keep all of it.
func (s *suite) endlessAnswer() {
	chunk := strings.Repeat("x", 1<<20)
	s.endless("an endless text", maxAnswer/len(chunk),
		func(int) aycoder.ModelEvent { return delta(chunk) })
	s.endless("endless blocks", maxAnswer/len(chunk),
		func(int) aycoder.ModelEvent { return block(chunk) })
}

// endlessEmpty has a model that sends empty pieces for ever, which no limit of bytes stops.
func (s *suite) endlessEmpty() {
	s.endless("endless empty deltas", 64<<20, func(int) aycoder.ModelEvent { return delta("") })
}

// endless streams until the agent stops it, or at most n events.
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

// manyCalls has more calls in one message than any agent runs. Each still needs its output,
// or the history is not valid.
func (s *suite) manyCalls() {
	const n = 10000
	tr := s.quick(calls(manyCalls("read", n)...), says("so"))
	tr.run(s.t, s.make(tr.world, false), aycoder.Input{Prompt: "go"})
	if got := len(pairs(tr.res.Messages)); got != n || tr.res.Text() != "so" {
		s.found.add(ruleOutput, "%d calls in one message: %d in the history, last text %s", n, got,
			shown(tr.res.Text()))
	}
}

func (s *suite) largeResult() { s.large(50 << 20) }

// large lets a tool give a result of that many bytes.
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
