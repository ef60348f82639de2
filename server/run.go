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
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// A run works, or has worked, in this process. Its events are in its log, from which any number of clients read. A run of
// which this process knows nothing but that it is over has no log.
type run struct {
	c     *conversation
	id    string // that of the session, a dot, and that of the run
	log   *log
	stop  context.CancelCauseFunc
	begun chan struct{} // closed when the run has its id
	done  chan struct{} // closed when it is over

	started    startedRun // the key that began it, or none
	unattended bool       // nobody can answer, so questions are denied
	call       bool       // it is a call of a tool without a model

	mu   sync.Mutex
	open []*question // in the order in which they came
	err  error       // why it failed, once it is done
	end  []byte      // what it says last, once it is done, or nil if another process goes on with it

	talks    bool // a part of a message of the model has come
	draining bool // it ends before the next request to the model, and another process goes on with it
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
func (c *conversation) newRun(base position) *run {
	return &run{c: c, log: newLog(base), begun: make(chan struct{}), done: make(chan struct{})}
}

// inSession returns the id of the run in its session.
func (r *run) inSession() string {
	_, id, _ := splitRun(r.id)
	return id
}

// working reports whether the run is not over.
func (r *run) working() bool {
	if r == nil || r.log == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// newest returns the newest run of the session, or nil.
func (c *conversation) newest() *run {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.last
}

func busy() *problem { return refuse(http.StatusConflict, "busy", "a run works in this session") }

// begin lets an agent of the session answer. It returns when the run has begun, or could not. The mutex is held.
func (c *conversation) begin(agent aycoder.Agent, in aycoder.Input, r *run) (err error) {
	before := c.newest()
	if before.working() {
		return busy()
	}
	left := c.pending(r.call)
	if r.started.Key != "" {
		x := r.started
		if left != nil {
			x.After = left.Run
		}
		if err := c.keep(map[string]any{startingValue: x}); err != nil {
			return err
		}
	}
	if err = c.work(agent, in, r); err == nil {
		select {
		case <-r.begun:
		case <-r.done:
			if r.id == "" {
				err = cmp.Or(r.err, errNoFacts)
			}
		}
	}
	if err != nil {
		c.s.mu.Lock()
		c.last = before
		c.s.mu.Unlock()
		if r.started.Key != "" {
			err = errors.Join(err, c.keep(map[string]any{startingValue: nil}))
		}
		return err
	}
	if p := c.pending(r.call); left != nil && left.Run != r.inSession() && (p == nil || p.Run != left.Run) {
		if err := c.keep(map[string]any{failedValue + left.Run: interrupted(left, r.call)}); err != nil {
			c.s.logger.Warn("save why a run failed", "run", left.Run, "error", err)
		}
	}
	if !r.call {
		c.s.metrics.with(c.principal, func(x *figures) { x.Messages["user"]++ })
	}
	return nil
}

var errNoFacts = errors.New("the run has not told its facts")

// work lets the agent answer on a separate goroutine. The session stays open until the run is over.
func (c *conversation) work(agent aycoder.Agent, in aycoder.Input, r *run) error {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return drains()
	}
	c.users++
	c.last = r
	ctx, stop := context.WithCancelCause(s.ctx)
	r.stop = stop
	s.work.Go(func() {
		defer s.release(c)
		defer r.log.close()
		defer stop(nil)
		start := time.Now()
		var res aycoder.Result
		r.err = r.follow(agent.Run(ctx, in, aycoder.Into(&res), aycoder.WithFacts(r.fact)))
		if errors.Is(r.err, errDraining) || context.Cause(ctx) == errClosed {
			close(r.done)
			return // a client comes back, and finds the run in another process
		}
		s.metrics.ended(c.principal, time.Since(start))
		r.end = ending(&res, r.err)
		if r.err != nil && r.id != "" {
			if err := c.keep(map[string]any{failedValue + r.inSession(): problemOf(r.err)}); err != nil {
				s.logger.Warn("save why a run failed", "run", r.id, "error", err)
			}
		}
		if s.feed != nil && !r.call {
			s.feed.Event(c.id, r.inSession(), r.log.at().turn, &aycoder.RunFinished{Result: &res})
		}
		close(r.done) // before clients see the end, which may at once start the next run
		r.log.add(&aycoder.RunFinished{Result: &res}, r.end)
	})
	return nil
}

// follow takes the events of the run, and returns why it failed. An agent of the host that panics ends its own run alone.
func (r *run) follow(events iter.Seq2[aycoder.Event, error]) (err error) {
	defer r.c.caught("the agent", &err)
	for ev, err := range events {
		if err != nil {
			return err
		}
		r.take(ev)
	}
	return nil
}

// caught makes an error of a panic of the host, in the function that defers it.
func (c *conversation) caught(who string, err *error) {
	if v := recover(); v != nil {
		c.s.logger.Error(who+" has panicked", "session", c.id, "panic", v, "stack", string(debug.Stack()))
		*err = errors.New(who + " has panicked: see the log")
	}
}

// fact takes a fact of the run, the first one as its beginning. It ends the run before its next request to the model if the
// server ends.
func (r *run) fact(_ context.Context, rec *aycoder.FactRecord) error {
	if rec.Fact == nil && r.id == "" {
		r.id = r.c.id + "." + rec.Run
		if x := r.started; x.Key != "" {
			if err := r.c.keep(map[string]any{startedValue + x.Key: startedRun{Body: x.Body, Run: rec.Run}, startingValue: nil}); err != nil {
				return err
			}
		}
		close(r.begun)
	}
	r.c.s.metrics.fact(r.c.principal, rec.Fact)
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
		r.asks(approvalQuestion(&q.Request, outer, q.Detach()))
	case *aycoder.CallRequested:
		if r.unattended {
			_ = q.Answer(aycoder.ErrorResult("nobody can be asked here"))
			break
		}
		r.asks(callQuestion(&q.Request, outer, q.Detach()))
	case *aycoder.ToolFinished:
		r.c.s.metrics.call(r.c.principal, q)
	}
	if f := r.c.s.feed; f != nil && !r.call {
		f.Event(r.c.id, r.inSession(), r.log.at().turn, ev)
	}
	r.log.add(ev, encode(ev))
}

// asks keeps a question, or leaves it to another process.
func (r *run) asks(q *question) {
	r.mu.Lock()
	r.open = append(slices.DeleteFunc(r.open, func(q *question) bool { return q.handle.Decided() }), q)
	leave := r.draining
	r.mu.Unlock()
	if leave {
		q.handle.Leave()
	}
}

// drain lets the run end as soon as another process can go on with it without a loss.
func (r *run) drain() {
	r.mu.Lock()
	r.draining = true
	open := slices.Clone(r.open)
	r.mu.Unlock()
	for _, q := range open {
		q.handle.Leave()
	}
}

// questions returns what a client can answer now.
func (r *run) questions() []*question {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.open), func(q *question) bool { return q.handle.Decided() })
}

// awaitQuestion waits until a run that goes on has asked about a call again, or has settled it without asking.
func (r *run) awaitQuestion(ctx context.Context, call string) {
	turn := r.log.at().turn
	for {
		changed := r.log.read(cursor{}).changed
		at := r.log.at()
		if !r.working() || at.turn > turn || slices.Contains(at.calls, mark("s", call)) || slices.Contains(at.calls, mark("f", call)) ||
			slices.ContainsFunc(r.questions(), func(q *question) bool { return q.call == call }) {
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

// ending is the JSON form of the end of a run. It has only the last message, since the session has the others, and says
// what went wrong.
func ending(res *aycoder.Result, failed error) []byte {
	short := *res
	short.Messages, short.Pending = nil, nil // a state has the whole conversation
	for _, m := range slices.Backward(res.Messages) {
		if m.Role == aycoder.RoleAssistant {
			short.Messages = []*aycoder.Message{m}
			break
		}
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
func (c *conversation) resume() (*run, error) {
	p := c.rt.Session.Pending()
	if p == nil {
		return nil, notFound()
	}
	past, err := c.replayed(c.s.ctx, p.Run, position{}, math.MaxInt, func(aycoder.Event) error { return nil })
	if err != nil {
		return nil, err
	}
	r := c.newRun(position{turn: past.turn})
	if past.done != nil || past.began() || p.State.End() == aycoder.EndSuspended { // else the model is asked for the message again
		for _, ev := range past.events {
			r.log.add(ev, encode(ev))
		}
	}
	return r, c.begin(c.rt, aycoder.Input{}, r)
}
