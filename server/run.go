package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// A run works, or has worked, in this process. Its events are in its log, from which any number of clients read.
type run struct {
	c     *conversation
	id    string // that of the session, a dot, and that of the run
	log   *log
	stop  context.CancelCauseFunc
	begun chan struct{} // closed when the run has its id
	done  chan struct{} // closed when it is over

	unattended bool // nobody can answer, so questions are denied
	call       bool // it is a call of a tool without a model

	mu    sync.Mutex
	asks  map[string]asking // by the run that asks, the id of the call, and the digest of the question
	calls map[string]*aycoder.OpenCall
	err   error  // why it failed, once it is done
	end   []byte // what it says last, once it is done, or nil if another process goes on with it

	talks    bool // a part of a message of the model has come
	draining bool // it ends before the next request to the model, and another process goes on with it
}

// An asking is an open question, and the call of the run in which it came up.
type asking struct {
	*aycoder.Approval
	outer string
}

// Causes of the end of a run.
var (
	errCancelled = errors.New("a client has cancelled the run")
	errDraining  = fmt.Errorf("the server ends, and another process goes on with the run: %w", context.Canceled)
	errClosed    = errors.New("the server is closed")
)

func splitRun(id string) (session, run string, ok bool) {
	session, run, ok = strings.Cut(id, ".")
	return session, run, ok && session != "" && run != "" && len(id) <= 256
}

// newRun makes a run whose log begins at a base.
func (c *conversation) newRun(base position, facts int) *run {
	return &run{c: c, log: newLog(base, facts), begun: make(chan struct{}), done: make(chan struct{}),
		asks: map[string]asking{}, calls: map[string]*aycoder.OpenCall{}}
}

// working reports whether the run is not over.
func (r *run) working() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// begin lets the agent answer. It returns when the run has begun, or could not. The mutex of the conversation is held.
func (c *conversation) begin(in aycoder.Input, r *run, key, body string) error {
	return c.beginOn(c.rt, in, r, key, body)
}

func (c *conversation) busy() bool { return c.last != nil && c.last.working() }

func busy() *problem { return refuse(http.StatusConflict, "busy", "a run works in this session") }

// beginOn lets an agent of the session answer.
func (c *conversation) beginOn(agent aycoder.Agent, in aycoder.Input, r *run, key, body string) error {
	if c.busy() {
		return busy()
	}
	if key != "" {
		c.started.put(startedRun{Key: key, Body: body})
	}
	facts := aycoder.WithFacts(func(_ context.Context, rec *aycoder.FactRecord) error {
		if rec.Fact == nil && r.id == "" {
			r.id = c.id + "." + rec.Run
			if key != "" {
				c.started.put(startedRun{Key: key, Body: body, Run: rec.Run})
			}
			close(r.begun)
		}
		return r.drained(rec)
	})
	var res aycoder.Result
	if err := c.work(r, func(ctx context.Context) iter.Seq2[aycoder.Event, error] {
		return agent.Run(ctx, in, aycoder.Into(&res), facts)
	}, &res); err != nil {
		c.started.remove(key)
		return err
	}
	select {
	case <-r.begun:
		c.last = r
		if !r.call {
			c.s.metrics.with(c.principal, func(x *figures) { x.Messages["user"]++ })
		}
		return nil
	case <-r.done:
		if r.id != "" {
			c.last = r
			return nil
		}
		if key != "" {
			c.started.remove(key)
		}
		if r.err == nil {
			r.err = errors.New("the run has not told its facts")
		}
		return r.err
	}
}

// over notes that no run works in a session.
func (s *Server) over(c *conversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.working = nil
}

// work runs a sequence of events on a separate goroutine. The session stays open until it is over.
func (c *conversation) work(r *run, events func(context.Context) iter.Seq2[aycoder.Event, error], res *aycoder.Result) error {
	s := c.s
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return drains()
	}
	c.users++
	c.working = r
	s.mu.Unlock()
	ctx, stop := context.WithCancelCause(s.ctx)
	r.stop = stop
	s.work.Go(func() {
		defer s.release(c)
		defer r.log.close()
		defer stop(nil)
		start := time.Now()
		for ev, err := range events(ctx) {
			if err != nil {
				r.err = err
				break
			}
			r.take(ev)
		}
		s.over(c) // before the next run can begin, which is when this one is done
		if errors.Is(r.err, errDraining) || context.Cause(ctx) == errClosed {
			close(r.done)
			return // a client comes back, and finds the run in another process
		}
		s.metrics.ended(c.principal, time.Since(start))
		r.end = ending(res, r.err)
		if r.err != nil && r.id != "" {
			_, run, _ := splitRun(r.id)
			c.failures.put(run, problemOf(r.err))
			if err := c.rt.Session.Save(context.WithoutCancel(ctx)); err != nil {
				s.logger.Warn("save why a run failed", "run", r.id, "error", err)
			}
		}
		close(r.done) // before clients see the end, which may at once start the next run
		r.log.add(&aycoder.RunFinished{Result: res}, r.end)
	})
	return nil
}

// take puts an event into the log, and keeps what a client can answer.
func (r *run) take(ev aycoder.Event) {
	if _, end := ev.(*aycoder.RunFinished); end {
		return // it comes when the run is over, with its error
	}
	inner, outer := ev, ""
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		inner, outer = child.Innermost(), child.CallID
	}
	switch q := inner.(type) {
	case *aycoder.ApprovalRequested:
		if r.unattended {
			q.Deny("nobody can be asked here")
			break
		}
		a := q.Detach()
		r.mu.Lock()
		r.asks[q.Request.Run+" "+q.Request.CallID+" "+q.Request.Digest] = asking{a, cmp.Or(outer, q.Request.CallID)} // runs in calls may ask the same
		leave := r.draining
		r.mu.Unlock()
		if leave {
			a.Leave()
		}
	case *aycoder.CallRequested:
		if r.unattended {
			_ = q.Answer(aycoder.ErrorResult("nobody can be asked here"))
			break
		}
		o := q.Detach()
		r.mu.Lock()
		r.calls[q.Request.CallID+" "+q.Request.Digest] = o
		leave := r.draining
		r.mu.Unlock()
		if leave {
			o.Leave()
		}
	case *aycoder.ToolFinished:
		r.forget(q.Call.ID)
	}
	if _, turn := ev.(*aycoder.TurnFinished); !turn || !r.call {
		r.c.s.metrics.event(r.c.principal, ev)
	}
	r.log.add(ev, encode(ev))
}

// forget drops the questions about a call that is over.
func (r *run) forget(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, a := range r.asks {
		if a.Request.CallID == call && a.Decided() {
			delete(r.asks, k)
		}
	}
	for k, o := range r.calls {
		if o.Request.CallID == call && o.Decided() {
			delete(r.calls, k)
		}
	}
}

// drained ends the run before its next request to the model if the server ends.
func (r *run) drained(rec *aycoder.FactRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch rec.Fact.(type) {
	case *aycoder.BlockDone, *aycoder.BlockTruncated:
		r.talks = true
	case *aycoder.MessageDone, *aycoder.ModelFailed:
		r.talks = false
	}
	asks := slices.ContainsFunc(rec.State.Outstanding(), func(a aycoder.Action) bool { _, ok := a.(*aycoder.CallModel); return ok })
	if r.draining && asks && !r.talks {
		return errDraining
	}
	return nil
}

// drain lets the run end as soon as another process can go on with it without a loss.
func (r *run) drain() {
	r.mu.Lock()
	r.draining = true
	var leave []interface{ Leave() bool }
	for _, a := range r.asks {
		leave = append(leave, a)
	}
	for _, o := range r.calls {
		leave = append(leave, o)
	}
	r.mu.Unlock()
	for _, l := range leave {
		l.Leave()
	}
}

// asked returns the question about a call that waits, or nil. If several runs inside of calls ask the same, it is the first
// one.
func (r *run) asked(call, digest string) (q *aycoder.Approval) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if x := a.Request; x.CallID == call && x.Digest == digest && !a.Decided() && (q == nil || x.Created.Before(q.Request.Created)) {
			q = a.Approval
		}
	}
	return q
}

// requested returns the call with a digest that waits for its result, or nil.
func (r *run) requested(call, digest string) *aycoder.OpenCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.calls[call+" "+digest]; o != nil && !o.Decided() {
		return o
	}
	return nil
}

// awaitQuestion waits until a run that goes on has asked about a call again, or has settled it without asking.
func (r *run) awaitQuestion(ctx context.Context, call string) {
	turn := r.log.at().turn
	for {
		changed := r.log.read(cursor{}).changed
		asks, calls := r.questions()
		at := r.log.at()
		if !r.working() || at.turn > turn || slices.Contains(at.calls, mark("s", call)) || slices.Contains(at.calls, mark("f", call)) ||
			slices.ContainsFunc(asks, func(q *aycoder.ApprovalRequest) bool { return q.CallID == call }) ||
			slices.ContainsFunc(calls, func(q *aycoder.CallRequest) bool { return q.CallID == call }) {
			return
		}
		select {
		case <-changed:
		case <-r.done:
		case <-ctx.Done():
			return
		}
	}
}

// questions returns what a client can answer now.
func (r *run) questions() (asks []*aycoder.ApprovalRequest, calls []*aycoder.CallRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		if !a.Decided() {
			q := *a.Request
			q.Plan = nil // holds whole files, which may have secrets
			asks = append(asks, &q)
		}
	}
	for _, o := range r.calls {
		if !o.Decided() {
			calls = append(calls, o.Request)
		}
	}
	slices.SortFunc(asks, func(a, b *aycoder.ApprovalRequest) int { return a.Created.Compare(b.Created) })
	slices.SortFunc(calls, func(a, b *aycoder.CallRequest) int { return a.Created.Compare(b.Created) })
	return asks, calls
}

// ending is the JSON form of the end of a run. It has only the last message, since the session has the others, and says
// what went wrong.
func ending(res *aycoder.Result, failed error) []byte {
	short := *res
	short.Messages = nil
	for _, m := range slices.Backward(res.Messages) {
		if m.Role == aycoder.RoleAssistant {
			short.Messages = []*aycoder.Message{m}
			break
		}
	}
	if short.Pending != nil { // its state has the whole conversation
		p := struct {
			Run      string                    `json:"run"`
			Requests []aycoder.ApprovalRequest `json:"requests"`
			Calls    []aycoder.CallRequest     `json:"calls,omitempty"`
		}{res.Pending.Run, slices.Clone(res.Pending.Requests), res.Pending.Calls}
		for i := range p.Requests {
			p.Requests[i].Plan = nil
		}
		short.Pending = nil
		return with(encode(&aycoder.RunFinished{Result: &short}), "pending", p)
	}
	data := encode(&aycoder.RunFinished{Result: &short})
	if failed != nil {
		data = with(data, "error", problemOf(failed))
	}
	return data
}

// with adds a key to a JSON object.
func with(object []byte, key string, v any) []byte {
	more, err := json.Marshal(map[string]any{key: v})
	if err != nil {
		return object
	}
	return append(append(bytes.TrimSuffix(object, []byte("}")), ','), more[1:]...)
}

// resume goes on with the pending run of the session, as its last process left it. The mutex of the conversation is held.
func (c *conversation) resume(ctx context.Context, in aycoder.Input) (*run, error) {
	p := c.rt.Session.Pending()
	if p == nil {
		return nil, notFound()
	}
	past, err := c.replayed(ctx, p.Run, position{}, position{}, math.MaxInt, func(aycoder.Event) error { return nil })
	if err != nil {
		return nil, err
	}
	base := position{turn: past.turn}
	facts := past.facts
	if past.done == nil && !past.began() && p.State.End() != aycoder.EndSuspended {
		facts = past.whole // the model is asked again for the message in progress
	} else {
		for _, ev := range past.events {
			base = base.after(ev)
		}
	}
	r := c.newRun(base, facts)
	if err := c.begin(in, r, "", ""); err != nil {
		return nil, err
	}
	return r, nil
}
