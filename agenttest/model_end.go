package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// This file checks answers that end early: cut off by a limit, left by the consumer, cancelled, or
// broken off by the network. In each case the client must report the cause by the right type, and
// must not leave a goroutine behind.

// cut checks that an incomplete call is never reported as complete: an agent would run it.
func (s *modelSuite) cut(c Client, want *aycoder.ToolUse) {
	res, err := aycoder.Complete(s.t.Context(), c.Model, request())
	if err != nil || res.Stop != aycoder.StopMaxTokens {
		s.found.add(ruleModelCut, "stop %q, error %v", res.Stop, err)
	}
	if n := len(res.Message.Calls()); n > 0 {
		s.found.add(ruleModelCut, "%d calls are BlockDone", n)
	}
	if len(res.Cut) != 1 || res.Cut[0].ID != want.ID || res.Cut[0].Name != want.Name {
		s.found.add(ruleModelCut, "cut calls %+v, want %+v", res.Cut, *want)
	}
}

// refused checks that a refused answer ends with StopRefusal and keeps its text, which may give
// the reason.
func (s *modelSuite) refused(c Client, text string) {
	s.whole(c)
	s.complete(c, text, aycoder.StopRefusal)
}

// lazy checks that Stream neither starts a goroutine nor sends a request until somebody ranges
// over the sequence, since a host may discard a sequence that it never used.
func (s *modelSuite) lazy(c Client) {
	ctx, cancel := context.WithCancel(s.t.Context())
	label := labelled(ctx, func(ctx context.Context) { c.Model.Stream(ctx, request()) })
	if left := goneWithin(label, 0); left != "" {
		s.found.add(ruleModelLazy, "goroutines work before the sequence is ranged over:\n%s", left)
	}
	seq := c.Model.Stream(ctx, request())
	cancel()
	for ev := range seq {
		if ev != nil {
			s.found.add(ruleModelLazy,
				"%T comes though the context was cancelled before the sequence was ranged over", ev)
		}
	}
}

// leave leaves the loop at each event in turn. The connection and all goroutines must be gone
// when the loop statement has ended, because nobody is left who could stop them.
func (s *modelSuite) leave(c Client) {
	for at, more := 0, true; more && s.found.empty(); at++ {
		more = false
		a := s.ask(c, func(i int, _ func()) bool {
			more = more || i == at
			return i != at
		})
		s.gone(c, a, fmt.Sprintf("left at event %d", at))
	}
}

// cancel cancels the context at each event in turn. If hangs is set, only the cancellation can
// end the answer, so the check first counts the events that come before the silence.
func (s *modelSuite) cancel(c Client, hangs bool) {
	limit := -1
	if hangs {
		limit = s.pieces(c)
	}
	for at, more := 0, true; more && s.found.empty() && (limit < 0 || at < limit); at++ {
		more = false
		a := s.ask(c, func(i int, cancel func()) bool {
			if i == at {
				more = true
				cancel()
			}
			return true
		})
		s.ended(a, more, hangs, fmt.Sprintf("cancelled at event %d", at))
		s.gone(c, a, fmt.Sprintf("cancelled at event %d", at))
	}
}

// pieces returns the number of events that arrive before an answer hangs. It counts them until
// the whole text is there.
func (s *modelSuite) pieces(c Client) int {
	ctx, cancel := context.WithTimeout(s.t.Context(), soon)
	defer cancel()
	said, n := "", 0
	each(s.found, ruleModelAgain, c.Model.Stream(ctx, request()),
		func(ev aycoder.ModelEvent, err error) bool {
			if err != nil {
				s.found.add(ruleModelWhole, "of the pieces only %s comes: %v", shown(said), err)
				n = 0
				return false
			}
			if d, ok := ev.(*aycoder.TextDelta); ok {
				said += d.Text
			}
			n++
			return said != strings.Join(pieces[:3], "")
		})
	return n
}

// ended checks the end of a request that was cancelled at some event. If MessageDone had already
// arrived, the answer is complete, and no error is needed.
func (s *modelSuite) ended(a *answer, cancelled, hangs bool, where string) {
	if cancelled && a.over > soon {
		s.found.add(ruleModelCancel, "%s: it takes %s to end", where, a.over)
	}
	whole := a.completions() > 0
	if cancelled && !whole && !errors.Is(a.err, context.Canceled) {
		s.found.add(ruleModelCancel, "%s: error %v", where, a.err)
	}
	if hangs && whole {
		s.found.add(ruleModelBroken, "%s: MessageDone, and the answer was not complete", where)
	}
}

// silent cancels a request that the server never answers. It uses a second goroutine: a client
// that ignores the context must fail this test, not block the whole test binary.
func (s *modelSuite) silent(c Client) {
	ctx, cancel := context.WithCancel(s.t.Context())
	type end struct {
		err   error
		label string
	}
	over, started := make(chan end), make(chan struct{})
	go func() {
		var e end
		e.label = labelled(ctx, func(ctx context.Context) {
			close(started)
			for _, err := range c.Model.Stream(ctx, request()) {
				e.err = err
			}
		})
		over <- e
	}()
	<-started
	cancel()
	select {
	case e := <-over:
		if !errors.Is(e.err, context.Canceled) {
			s.found.add(ruleModelCancel, "cancelled before the answer: error %v", e.err)
		}
		s.gone(c, &answer{label: e.label}, "cancelled before the answer")
	case <-time.After(soon):
		s.found.add(ruleModelCancel, "cancelled before the answer: it does not end within %s", soon)
	}
}

// unsent checks that no request arrives before the sequence is ranged over, or if the context has
// already ended. A request from the body of Stream needs no goroutine, so lazy does not see it.
func (s *modelSuite) unsent(c Client, body func() []byte) {
	if _, err := aycoder.Complete(s.t.Context(), c.Model, fullRequest(false)); err != nil {
		s.found.add(ruleModelWhole, "error %v", err)
		return
	}
	before := body()
	c.Model.Stream(s.t.Context(), request())
	if !bytes.Equal(before, body()) {
		s.found.add(ruleModelLazy, "a request was sent before the sequence was ranged over")
		return
	}
	s.cancelled(c)
	if !bytes.Equal(before, body()) {
		s.found.add(ruleModelCancel, "cancelled before the request, it was sent")
	}
}

// cancelled checks that the sequence has no event if the context has already ended.
func (s *modelSuite) cancelled(c Client) {
	a := &answer{}
	a.label = labelled(s.t.Context(), func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for ev, err := range c.Model.Stream(ctx, request()) {
			s.take(a, ev, err)
		}
	})
	if len(a.events) > 0 || !errors.Is(a.err, context.Canceled) {
		s.found.add(ruleModelCancel, "cancelled before the request: %d events, error %v",
			len(a.events), a.err)
	}
	s.gone(c, a, "cancelled before the request")
}

// broken checks that a lost connection is reported as an error. An agent that took the incomplete
// answer for a complete one would present half a sentence as the result.
func (s *modelSuite) broken(c Client) {
	a := s.ask(c, stay)
	if _, ok := errors.AsType[*aycoder.StreamBrokenError](a.err); !ok {
		s.found.add(ruleModelBroken, "error %v (%T)", a.err, a.err)
	}
	s.unfinished(a)
	s.gone(c, a, "broken answer")
	if _, err := aycoder.Complete(s.t.Context(), c.Model, request()); err == nil {
		s.found.add(ruleModelBroken, "Complete gives no error")
	}
}

// unfinished checks that no MessageDone declared the answer complete.
func (s *modelSuite) unfinished(a *answer) {
	for range a.completions() {
		s.found.add(ruleModelBroken, "MessageDone comes")
	}
}

// fails checks that a failed request yields an error that unwraps to *ModelError. Hosts look for
// this type to tell a failed request from a fault in the host.
func (s *modelSuite) fails(c Client) {
	a := s.ask(c, stay)
	if _, ok := errors.AsType[*aycoder.ModelError](a.err); !ok {
		s.found.add(ruleModelError, "error %v (%T), want one that unwraps to *ModelError",
			a.err, a.err)
	}
	s.unfinished(a)
	s.gone(c, a, "request that fails")
}

// concurrent sends the same request several times at once, as agents do that share a client.
func (s *modelSuite) concurrent(c Client, want string) {
	req := request()
	before := request()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := aycoder.Complete(s.t.Context(), c.Model, req)
			if err != nil || res.Text() != want {
				s.found.add(ruleModelShared, "text %s, error %v, want %s", shown(res.Text()), err,
					shown(want))
			}
		})
	}
	wg.Wait()
	if what := changed(before, req); what != "" {
		s.found.add(ruleModelReq, "%s differs after concurrent requests", what)
	}
}
