package agenttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aycoder/aycoder"
)

// A way is a behaviour of the loop body.
type way struct {
	name string
	// end ends the loop at event number at, counted from 0. If at is negative, the loop body
	// never ends the loop.
	end func(tr *trace) bool
	at  int
	// settle makes the loop body wait before each return until nothing else can happen. It plays
	// a consumer that is slower than the model and all tools.
	settle bool
}

var errBody = errors.New("the body of the suite panics")

// breaks leaves the loop by a break.
func breaks(tr *trace) bool {
	tr.left = true
	return false
}

// panics leaves the loop by a panic, as a bug in the host would.
func panics(tr *trace) bool {
	tr.left = true
	panic(errBody)
}

// cancels cancels the context, and stays in the loop to read the remaining events.
func cancels(tr *trace) bool {
	tr.cancelled = true
	tr.cancel()
	return true
}

// A trace records one run: its events, its result, and how the loop body behaved.
type trace struct {
	found *findings
	world *world
	way   way

	events    []aycoder.Event
	err       error
	res       aycoder.Result
	reached   bool // the body was called for event way.at
	left      bool // the body has ended the loop
	cancelled bool
	panicked  any

	cancel  context.CancelFunc
	answer  func(a *aycoder.ApprovalRequested)
	open    []*aycoder.ApprovalRequested // not answered when the loop was left
	over    bool
	failed  bool
	mu      sync.Mutex // held while the body runs, so that a second caller is found
	helpers sync.WaitGroup
}

// run ranges over a run of the agent with the behaviour that the trace asks for, and checks the
// rules that hold for every run. It must be called in a bubble of synctest.
func (tr *trace) run(t testing.TB, agent aycoder.Agent, in aycoder.Input) {
	// Counting goroutines is cheap; their labels are only read if there are more than before.
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // only after the checks, which must find what still works
	label := labelled(ctx, func(ctx context.Context) {
		tr.cancel = cancel
		seq := agent.Run(ctx, in, aycoder.Into(&tr.res))
		synctest.Wait()
		if tr.world.requests() > 0 {
			tr.found.add(ruleLazy, "the model is asked before the sequence is ranged over")
		}
		tr.consume(seq)
	})
	tr.after(before, label)
	tr.check(in)
}

// consume ranges over a run. It recovers a panic and records it, since some scenarios panic on
// purpose.
func (tr *trace) consume(seq iter.Seq2[aycoder.Event, error]) {
	defer func() {
		tr.panicked = recover()
		tr.mu.Lock()
		tr.over = true
		tr.mu.Unlock()
	}()
	seq(tr.body)
}

// body is the loop body. It checks that it is always called on the goroutine that ranges, because
// hosts use code in the body that is bound to one goroutine, such as a window toolkit. Only one
// trace ranges at a time, so no other goroutine has consume on its stack.
func (tr *trace) body(ev aycoder.Event, err error) bool {
	if !onStack(reflect.ValueOf((*trace).consume).Pointer()) {
		tr.found.add(ruleOwn, "%s comes on another goroutine", eventName(ev))
	}
	// Waiting for the lock would hide the fault and could block the bubble.
	if !tr.mu.TryLock() {
		tr.found.add(ruleOwn, "%s comes while the body works", eventName(ev))
		return false
	}
	defer tr.mu.Unlock()
	if tr.left || tr.over {
		tr.found.add(ruleAgain, "%s comes after event %d ended the loop", eventName(ev),
			len(tr.events)-1)
		return false
	}
	tr.world.hold(true)
	defer tr.world.hold(false)
	select {
	// The slot may be full: pace only needs to know that at least one event was seen.
	case tr.world.seen <- struct{}{}:
	default:
	}
	return tr.take(ev, err)
}

// take records an event and checks it against the events before it: nothing may come after an
// error.
func (tr *trace) take(ev aycoder.Event, err error) bool {
	if tr.failed {
		tr.found.add(ruleError, "%s comes after the error", eventName(ev))
	}
	index := len(tr.events)
	switch {
	case err != nil && ev != nil:
		tr.found.add(ruleError, "the error comes with %T", ev)
	case err == nil && ev == nil:
		tr.found.add(ruleError, "event %d is nil and so is its error", index)
		return true
	}
	if err != nil {
		tr.failed, tr.err = true, err
	} else {
		tr.events = append(tr.events, ev)
	}
	if tr.way.settle {
		synctest.Wait()
	}
	q, asks := ev.(*aycoder.ApprovalRequested)
	if index == tr.way.at && !tr.reached {
		tr.reached = true
		if asks {
			tr.open = append(tr.open, q)
		}
		return tr.way.end(tr)
	}
	if asks && tr.answer != nil {
		tr.answer(q)
	}
	return true
}

// each ranges over a sequence as a for statement does. If the sequence calls the body again after
// the body has ended the loop, a for statement would panic, but each adds a finding.
func each[E any](found *findings, rule string, seq iter.Seq2[E, error], body func(E, error) bool) {
	over := false
	seq(func(ev E, err error) bool {
		if over {
			found.add(rule, "%T and error %v come after the loop has ended", ev, err)
			return false
		}
		over = !body(ev, err)
		return !over
	})
	over = true
}

// after checks that nothing remains of the run, except for tools that ignore their context. It
// then ends these tools, and gives late answers to the questions that were open: these answers
// must have no effect.
func (tr *trace) after(before int, label string) {
	for _, c := range tr.world.close() {
		if c.tool != "stuck" && c.tool != "stuck_write" {
			tr.found.add(ruleWorking, "call %d (%s) still works", c.n, c.tool)
		}
	}
	// Until here, nothing but the agent could have ended the tools.
	close(tr.world.release)
	tr.helpers.Wait()
	synctest.Wait()
	if runtime.NumGoroutine() > before {
		if left := goroutinesOf(label); left != "" {
			tr.found.add(ruleGone, "%s: these remain:\n%s", tr, left)
		}
	}
	for _, q := range tr.open {
		if q.Allow() && (tr.left || tr.cancelled) {
			tr.found.add(ruleLate, "%s: Allow of call %s after the run reports true", tr,
				q.Request.CallID)
		}
	}
	synctest.Wait()
}

// String says how the run was ended and at which event, for example "break at event 3".
func (tr *trace) String() string {
	if tr.way.at < 0 {
		return "whole run"
	}
	return fmt.Sprintf("%s at event %d", tr.way.name, tr.way.at)
}

// eventName returns the type of an event, for findings.
func eventName(ev aycoder.Event) string {
	if ev == nil {
		return "an error"
	}
	return fmt.Sprintf("%T", ev)
}
