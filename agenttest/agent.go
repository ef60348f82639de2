package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// AgentSetup holds the parts from which [NewAgent] builds the agent under test.
type AgentSetup struct {
	// Model is the scripted model that the agent must ask. Tools are the tools that the agent
	// must offer to the model. The agent uses all of them, unchanged.
	Model aycoder.ModelClient
	Tools []aycoder.Tool
	// Approver decides which tool calls the agent may run.
	Approver aycoder.Approver
}

// NewAgent makes the agent under test from the given parts. [TestAgent] calls it many times.
type NewAgent func(t testing.TB, s AgentSetup) aycoder.Agent

// TestAgent tests that the agents returned by newAgent keep the contract of [aycoder.Agent], and
// that they run tool calls in the order that package aycoder promises. It plays each scripted
// conversation to its end. Then it plays the conversation many times more, and each time ends the
// run at another event: by leaving the loop, by cancelling the context, or by a panic.
//
// Each subtest runs in a bubble of [synctest] and calls newAgent there. Time in the bubble is
// simulated. The test fails if an agent leaves a goroutine behind. The agent must not use the
// network, and must not wait for anything outside the bubble.
//
// Run the test with -race and without: the race detector is slow, so with it TestAgent skips an
// endless answer and slow loop bodies, and ends runs at fewer events.
func TestAgent(t *testing.T, newAgent NewAgent) {
	t.Helper() // failures name the caller's line
	testAgent(t, newAgent, agentRules())
}

func testAgent(t *testing.T, newAgent NewAgent, rules []agentRule) {
	t.Helper()
	reduced := timed.Reduced(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Helper()
			if reduced && r.name == "endless answer" {
				t.Skip("agenttest: left out with the race detector, which makes gigabytes slow")
			}
			check := func(s *suite) { s.reduced = reduced; r.check(s) }
			bubble(t, newAgent, check).report(t)
		})
	}
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Helper()
			for _, w := range ways() {
				t.Run(w.name, func(t *testing.T) {
					t.Helper()
					if reduced && w.settle {
						t.Skip("agenttest: left out with the race detector")
					}
					check := func(s *suite) { s.reduced = reduced; s.playAll(sc, w) }
					bubble(t, newAgent, check).report(t)
				})
			}
		})
	}
}

// A suite is the state of one check of agents.
type suite struct {
	t       testing.TB
	agent   NewAgent
	found   *findings
	reduced bool // the race detector is on
}

// bubble runs a check in a bubble of synctest. If a goroutine remains after the check, synctest
// panics; the panic becomes a finding, so that one broken agent does not end the test binary.
func bubble(t *testing.T, newAgent NewAgent, check func(*suite)) (found *findings) {
	found = &findings{}
	// If goroutines remain when the check has ended, synctest.Test panics here.
	defer func() {
		if p := recover(); p != nil {
			found.add(ruleGone, "%v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) { check(&suite{t: t, agent: newAgent, found: found}) })
	return found
}

// ways returns the behaviours of the loop body. Those that end the loop are tried at every event.
func ways() []way {
	return []way{
		{name: "whole", at: -1},
		{name: "slow", at: -1, settle: true},
		{name: "break", end: breaks},
		{name: "break when settled", end: breaks, settle: true},
		{name: "cancel", end: cancels},
		{name: "cancel when settled", end: cancels, settle: true},
		{name: "panic", end: panics},
	}
}

// playAll plays a scenario until the loop body is no longer called for the event at which it
// would end the loop. From the 32nd event on it skips some, because a scenario with a thousand
// deltas would otherwise be played a thousand times. With the race detector it skips more from the
// 10th on: later events are of the same kinds.
func (s *suite) playAll(sc scenario, w way) {
	for s.found.empty() {
		if tr := s.play(sc, w); !tr.reached {
			return
		}
		every := 32
		if s.reduced && w.at >= 10 {
			every = 2
		}
		w.at += 1 + w.at/every
	}
}

// play plays a scenario once, and then continues the conversation with the history of that run.
func (s *suite) play(sc scenario, w way) *trace {
	// Each run has a new world, since calls are identified by numbers that must be unique in it.
	tr := &trace{found: s.found, world: newWorld(s.found, sc.answers()), way: w}
	if sc.answer != nil {
		tr.answer = func(a *aycoder.ApprovalRequested) { sc.answer(a, tr) }
	}
	tr.run(s.t, s.make(tr.world, sc.asks), aycoder.Input{Prompt: "go"})
	for _, n := range sc.never {
		if tr.world.ran(n) > 0 {
			s.found.add(ruleNotRun, "%s: call %d ran", tr, n)
		}
	}
	if w.at < 0 {
		s.whole(sc, tr)
	}
	s.goOn(tr)
	return tr
}

// make makes an agent with the suite's model and tools. Each check gets a new agent, so that a
// fault in one check does not show up in another.
func (s *suite) make(w *world, asks bool) aycoder.Agent {
	return s.agent(s.t, AgentSetup{Model: w, Tools: w.tools(), Approver: approver(asks)})
}

// approver returns an approver that allows everything or, if asks is set, asks the host about
// each call that may write.
func approver(asks bool) aycoder.Approver {
	return aycoder.ApproverFunc(func(_ context.Context, _ *aycoder.ToolUse,
		spec *aycoder.ToolSpec) aycoder.Verdict {
		if asks && spec.Effect != aycoder.EffectReadOnly {
			return aycoder.Ask()
		}
		return aycoder.Allow()
	})
}

// whole checks the outcome of a run that nobody ended early against the scenario.
func (s *suite) whole(sc scenario, tr *trace) {
	if !sc.err(tr.err) {
		s.found.add(ruleEnds, "%s: error %v", tr, tr.err)
	}
	if got := tr.res.Text(); sc.text != "" && got != sc.text {
		s.found.add(ruleEnds, "%s: the last text is %s, want %s", tr, shown(got), shown(sc.text))
	}
	for _, n := range sc.runs {
		// More than once is already a finding of the world, but here the cause is easier to see.
		if tr.world.ran(n) != 1 {
			s.found.add(ruleEnds, "%s: call %d ran %d times, want once", tr, n, tr.world.ran(n))
		}
	}
	if got := tr.world.requests(); sc.asked > 0 && got != sc.asked {
		s.found.add(ruleRetry, "%s: the model is asked %d times, want %d", tr, got, sc.asked)
	}
	if said, want := tr.said(), text(tr.res.Messages); !tr.retried() && tr.err == nil &&
		said != want {
		s.found.add(ruleEvents, "%s: the deltas say %s, the history %s", tr, shown(said),
			shown(want))
	}
	if last := len(tr.res.Messages) - 1; last < 0 || !strings.HasPrefix(tr.res.Messages[0].Text(),
		"go") {
		s.found.add(ruleInto, "%s: the history does not begin with the prompt", tr)
	}
}

// goOn starts another run with the history of a run. A host must be able to do that however the
// first run ended: an invalid history would make a stored conversation unusable for good.
func (s *suite) goOn(before *trace) {
	if !s.found.empty() {
		return
	}
	next := &trace{found: s.found, world: newWorld(s.found, fixed(says("on"))()), way: way{at: -1}}
	in := aycoder.Input{Messages: before.res.Messages, Prompt: "go on"}
	next.run(s.t, s.make(next.world, false), in)
	if next.err != nil || next.res.Text() != "on" {
		s.found.add(ruleHistory, "%s: going on with its history: text %s, error %v", before,
			shown(next.res.Text()), next.err)
	}
}

// An agentRule is a subtest. It is named after what the subtest does and not after a rule,
// because one check often covers several rules.
type agentRule struct {
	name  string
	check func(*suite)
}

// agentRules returns the checks that are not scenarios.
func agentRules() []agentRule {
	return []agentRule{
		{"lazy", (*suite).lazy},
		{"single use", (*suite).singleUse},
		{"cancelled before it starts", (*suite).cancelledBefore},
		{"slow body delays no tool", (*suite).slowBody},
		{"concurrent runs", (*suite).concurrent},
		{"waits as long as it is told", (*suite).waits},
		{"invalid input", (*suite).invalidInput},
		{"suspend and resume", (*suite).suspend},
		{"never endless", (*suite).endlessTurns},
		{"endless answer", (*suite).endlessAnswer},
		{"endless empty deltas", (*suite).endlessEmpty},
		{"ten thousand calls in one message", (*suite).manyCalls},
		{"large tool result", (*suite).largeResult},
	}
}

// quick prepares a run that nobody ends early, with a model that gives the answers.
func (s *suite) quick(answers ...[]any) *trace {
	return &trace{found: s.found, world: newWorld(s.found, answers), way: way{at: -1}}
}

// lazy checks that calling Run does nothing before the sequence is ranged over. Work that Run
// started in the background would show up as a goroutine with the label.
func (s *suite) lazy() {
	w := newWorld(s.found, fixed(says("Hello"))())
	var res aycoder.Result
	label := labelled(s.t.Context(), func(ctx context.Context) {
		s.make(w, false).Run(ctx, aycoder.Input{Prompt: "go"}, aycoder.Into(&res))
	})
	// Now every goroutine that Run might have started has done what it could.
	synctest.Wait()
	if w.requests() > 0 || res.End != "" {
		s.found.add(ruleLazy, "the model is asked %d times before the sequence is ranged over",
			w.requests())
	}
	if left := goroutinesOf(label); left != "" {
		s.found.add(ruleLazy, "goroutines work before the sequence is ranged over:\n%s", left)
	}
}

// singleUse ranges over a sequence a second time, after the first loop has ended by itself, and
// after a break. A sequence that worked twice would run every tool twice.
func (s *suite) singleUse() {
	for _, at := range []int{-1, 0} {
		w := newWorld(s.found, fixed(says("Hello"))())
		seq := s.make(w, false).Run(s.t.Context(), aycoder.Input{Prompt: "go"})
		n := -1
		each(s.found, ruleAgain, seq, func(aycoder.Event, error) bool {
			n++
			return n != at
		})
		// The second range must not send a request either, because a retried request would cost
		// money.
		asked, again := w.requests(), 0
		for ev, err := range seq {
			if again++; again > 1 || ev != nil || !errors.Is(err, aycoder.ErrConsumed) {
				s.found.add(ruleOnce,
					"ranged over again: pair %d is %T and error %v, want nil and ErrConsumed", again, ev, err)
			}
		}
		if again == 0 || w.requests() != asked {
			s.found.add(ruleOnce, "ranged over again: %d pairs, %d more requests", again,
				w.requests()-asked)
		}
	}
}

// cancelledBefore checks that a run whose context has ended asks no model, but still keeps the
// prompt in the history, so that the user does not have to type it again.
func (s *suite) cancelledBefore() {
	tr := s.quick(says("Hello"))
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	n := 0
	for _, err := range s.make(tr.world, false).Run(ctx, aycoder.Input{Prompt: "go"},
		aycoder.Into(&tr.res)) {
		if n++; err != nil {
			tr.err = err
		}
	}
	if !errors.Is(tr.err, context.Canceled) || n != 1 || tr.world.requests() > 0 {
		s.found.add(ruleCancel, "cancelled before it starts: %d pairs, %d requests, error %v", n,
			tr.world.requests(), tr.err)
	}
	checkHistory(s.found, "cancelled before it starts", tr.res.Messages)
	if len(tr.res.Messages) != 1 || tr.res.End != aycoder.EndCancelled {
		s.found.add(ruleInto, "cancelled before it starts: %d messages, end %q",
			len(tr.res.Messages), tr.res.End)
	}
}

// slowBody keeps the loop body busy at the first event until nothing else can happen. By then all
// tools of the message must have run, but the model must not have been asked again: the host may
// be about to leave the loop, and the next request would cost money.
func (s *suite) slowBody() {
	steps := []any{delta("a"), call("a", "read", 1), call("b", "write", 2), call("c", "read", 3),
		call("d", "write", 4)}
	w := newWorld(s.found, [][]any{calls(steps...), says("so")})
	first := true
	for range s.make(w, false).Run(s.t.Context(), aycoder.Input{Prompt: "go"}) {
		if !first {
			continue
		}
		first = false
		<-time.After(time.Minute) // in a bubble: until nothing else can happen
		if n := len(w.log()); n != 4 {
			s.found.add(ruleSlow, "while the body is at the first event %d of 4 calls have begun", n)
		}
		if n := w.requests(); n != 1 {
			s.found.add(ruleAhead, "while the body is at the first event the model is asked %d times", n)
		}
	}
}

// concurrent starts several runs of one agent at the same time. They must not see each other's
// calls. Run with -race, the check also finds data that the runs share.
func (s *suite) concurrent() {
	w := newWorld(s.found, nil)
	// A world cannot be the client here, since its script counts requests across all runs.
	client := &perRun{answers: [][]any{calls(delta("a"), callArgs("a", "plain", `{}`)), says("so")},
		world: w}
	tool := plainTool(s.t)
	agent := s.agent(s.t, AgentSetup{Model: client, Tools: []aycoder.Tool{tool},
		Approver: approver(false)})
	results := make([]aycoder.Result, 8)
	// Each run sends its last error when its loop has ended, so none outlives the bubble.
	done := make(chan error)
	for i := range results {
		go func() {
			var last error
			for _, err := range agent.Run(s.t.Context(), aycoder.Input{Prompt: "go"},
				aycoder.Into(&results[i])) {
				last = err
			}
			done <- last
		}()
	}
	for range results {
		if err := <-done; err != nil {
			s.found.add(ruleShared, "error %v", err)
		}
	}
	for i := range results {
		checkHistory(s.found, fmt.Sprintf("run %d of %d at the same time", i, len(results)),
			results[i].Messages)
		if n := len(results[i].Messages); n != 4 || results[i].Text() != "so" {
			s.found.add(ruleShared, "run %d: %d messages, last text %s", i, n,
				shown(results[i].Text()))
		}
	}
}

// invalidInput checks that mistakes of the host are reported before a model is asked, because a
// provider would answer an invalid history with an error that does not name the mistake.
func (s *suite) invalidInput() {
	use := &aycoder.ToolUse{ID: "a", Name: "read", Args: []byte("{}")}
	orphan := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{use}}
	inputs := map[string]aycoder.Input{
		"empty": {},
		"call without output": {Messages: []*aycoder.Message{aycoder.User("go"), orphan},
			Prompt: "on"},
		"nil message": {Messages: []*aycoder.Message{nil}, Prompt: "on"},
		"message of no role": {Messages: []*aycoder.Message{{
			Parts: []aycoder.Part{&aycoder.Text{Text: "a"}}}}, Prompt: "on"},
		"nothing to answer": {Messages: []*aycoder.Message{aycoder.User("go"),
			aycoder.Assistant("done")}},
	}
	for name, in := range inputs {
		w := newWorld(s.found, fixed(says("Hello"))())
		n, last := 0, error(nil)
		for _, err := range s.make(w, false).Run(s.t.Context(), in) {
			n, last = n+1, err
		}
		if n != 1 || last == nil || w.requests() > 0 {
			s.found.add(ruleEnds, "input %s: %d pairs, %d requests, error %v", name, n,
				w.requests(), last)
		}
	}
}

// suspend ends a run while a question to the user is open, and continues the run in another agent
// with the user's answer, as a host does that was restarted in between.
func (s *suite) suspend() {
	first := s.quick(calls(call("a", "read", 1), call("b", "write", 2), call("c", "write", 3)),
		says("so"))
	verdicts := aycoder.ApproverFunc(func(_ context.Context, c *aycoder.ToolUse,
		spec *aycoder.ToolSpec) aycoder.Verdict {
		if c.Name == "write" {
			return aycoder.Suspend()
		}
		return aycoder.Allow()
	})
	agent := func(w *world) aycoder.Agent {
		return s.agent(s.t, AgentSetup{Model: w, Tools: w.tools(), Approver: verdicts})
	}
	first.run(s.t, agent(first.world), aycoder.Input{Prompt: "go"})
	if first.res.End != aycoder.EndSuspended || first.res.Pending == nil ||
		len(first.res.Pending.Requests) == 0 {
		s.found.add(ruleEnds, "suspended: end %q, error %v, pending %v", first.res.End, first.err,
			first.res.Pending != nil)
		return
	}
	in := aycoder.Input{Pending: first.res.Pending}
	for _, q := range first.res.Pending.Requests {
		in.Decisions = append(in.Decisions,
			aycoder.Decision{CallID: q.CallID, Digest: q.Digest, Verdict: aycoder.Allow()})
	}
	second := newWorld(s.found, [][]any{says("so")})
	// The second agent never sees the message of these calls, which the first one got completely.
	second.complete[2], second.complete[3] = true, true
	var res aycoder.Result
	for _, err := range agent(second).Run(s.t.Context(), in, aycoder.Into(&res)) {
		if err != nil {
			s.found.add(ruleEnds, "resumed: error %v", err)
		}
	}
	checkHistory(s.found, "resumed", res.Messages)
	// The read ran in the first agent and the writes in the second: none twice, none left out.
	ran := slices.Concat(first.world.log(), second.log())
	if len(ran) != 3 || res.Text() != "so" {
		s.found.add(ruleTwice, "suspended and resumed: 3 calls, %d runs; last text %s", len(ran),
			shown(res.Text()))
	}
}
