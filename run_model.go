package aycoder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// This file asks the model: it builds the request, reads the stream, and handles failures.

// startAsking starts the goroutine that asks the model, or wakes it. A run keeps this
// goroutine, since its stack has grown to what decoding needs. The mutex is held.
func (r *run) startAsking(ctx context.Context) {
	switch {
	case r.stopping:
	case r.streaming:
		select {
		case r.asks <- struct{}{}:
		default: // it is awake
		}
	default:
		if r.asks == nil {
			r.asks = make(chan struct{}, 1)
		}
		r.streaming = true
		r.live++
		go r.askModel(ctx)
	}
}

// takeCall takes the model call that is to be made, or returns nil. If near is true, it is called by the goroutine of
// the loop body.
func (r *run) takeCall(near bool) *CallModel {
	r.mu.Lock()
	var a *CallModel
	if r.near == near {
		a, r.call = r.call, nil
	}
	r.mu.Unlock()
	return a
}

// askModel asks the model until the run is done. A client may end the goroutine with runtime.Goexit:
// another goroutine then takes its place.
func (r *run) askModel(ctx context.Context) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.streaming = false
		r.live--
		if r.call != nil || r.reader != nil && !r.near {
			r.startAsking(ctx)
		}
		r.signal()
	}()
	growStack()
	if r.loop.setups != nil {
		ctx = context.WithValue(ctx, placeKey{}, r)
	}
	for {
		if a := r.takeCall(false); a != nil {
			r.callModel(ctx, a)
		}
		for r.mustRead() {
			r.pull(ctx)
		}
		if r.answered() {
			return // so that the end of the run need not wait for it
		}
		select {
		case <-r.asks:
		case <-ctx.Done():
			return
		}
	}
}

// growStack makes the stack of a new goroutine as large as asking a model or calling a tool needs, while
// there is little on it. Otherwise it would grow twice on the way, and all that is on it would be moved.
//
//go:noinline
func growStack() {
	var room [5 << 10]byte
	runtime.KeepAlive(&room)
}

// answered reports whether the run does not need the model any more, unless somebody continues it.
func (r *run) answered() bool {
	r.mu.Lock()
	done := r.state.phase == phaseDone
	r.mu.Unlock()
	return done
}

// callModel asks the model, and reports the outcome to the state.
func (r *run) callModel(ctx context.Context, a *CallModel) {
	err := errExited
	defer func() {
		if err != nil {
			r.modelFailed(ctx, err)
		}
	}()
	if over := r.exhausted(); over != nil {
		err = over
		return
	}
	if a = r.configure(ctx, a); a != nil {
		err = r.stream(ctx, a)
	} else {
		err = nil
	}
}

// errExited is the error of a step whose goroutine ended itself, as t.FailNow does.
var errExited = errors.New("goroutine exited before it returned")

var errLateRetry = errors.New("retry after a block was complete")

var errNilEvent = errors.New("client yielded neither event nor error")

// stream asks the model once.
func (r *run) stream(ctx context.Context, a *CallModel) (err error) {
	in := &r.reading
	*in = stream{n: in.n + 1, ctx: ctx}
	n := in.n
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		panicked := r.clientPanicked(ctx, p)
		if err = in.failed; !in.done && err == nil {
			err = panicked
		}
	}()
	req, err := r.prepare(ctx, a)
	if err != nil {
		return err
	}
	in.start = r.loop.clock.Now()
	client := r.setup.Load().client
	if r.direct {
		reader := client.(ModelOpener).Open(ctx, req)
		if reader == nil {
			return &ModelError{Err: errors.New("client opened nothing")}
		}
		r.mu.Lock()
		r.reader, r.ahead = reader, !r.near
		r.mu.Unlock()
		return nil
	}
	client.Stream(ctx, req)(func(ev ModelEvent, err error) bool { return r.event(n, ev, err) })
	state := in.state
	in.state = streamLeft
	switch state {
	case streamLeft:
		return in.failed
	case streamBusy:
		return &ModelError{Err: errors.New("client recovered a panic that was not its own")}
	}
	return streamEnded(client, r.loop.clock.Now().Sub(in.start))
}

// A stream is an answer that is read. It has the checks of a range loop, but is a part of the run, while each
// variable that the body of such a loop changes is one allocation.
type stream struct {
	_      [0]func() // not comparable, which would be code in each program
	n      int       // of the run
	ctx    context.Context
	start  time.Time
	state  int8
	done   bool
	failed error // what the client said before it panicked, if it did
}

const (
	streamOpen = iota
	streamBusy // with an event
	streamLeft // no event may follow
)

// event takes an event of the nth stream, and reports whether another one may follow.
func (r *run) event(n int, ev ModelEvent, err error) bool {
	s := &r.reading
	if s.n != n || s.state != streamOpen {
		panic("event after the end")
	}
	s.state = streamBusy
	if s.failed = err; err == nil {
		s.done, s.failed = r.modelEvent(s.ctx, ev)
	}
	if s.done || s.failed != nil {
		s.state = streamLeft
		return false
	}
	s.state = streamOpen
	return true
}

func eventSize(ev ModelEvent) int64 {
	switch ev := ev.(type) {
	case *TextDelta:
		return int64(len(ev.Text))
	case *ThinkingDelta:
		return int64(len(ev.Text))
	case *ToolDelta:
		return int64(len(ev.ID) + len(ev.Name) + len(ev.Args))
	case *BlockTruncated:
		if ev.Call != nil {
			return partSize(ev.Call)
		}
	case *BlockDone:
		if !isNil(ev.Part) {
			return partSize(ev.Part)
		}
	}
	return 0
}

// A refusal is the model's answer to a request that was too large.
type refusal struct {
	err  *ContextTooLargeError
	size int64 // of the request
	// unsent says that the request that should have taken its place was not smaller.
	unsent bool
}

// prepare builds the request of an action. If it replaces a request that was too large, it must be
// smaller, because the same bytes would be refused again.
func (r *run) prepare(ctx context.Context, a *CallModel) (*Request, error) {
	in := ContextInput{Run: r.id, Turn: a.Turn, Elide: a.Elide, Limit: a.Limit, Base: &r.base, Client: r.setup.Load().client}
	r.mu.Lock()
	refused := r.refused
	in.Messages, in.Window, in.Usage, in.Note = r.state.history.All(), r.window, r.usage, r.state.note
	if r.builder != ContextBuilder(plainContext{}) { // which would not call them
		in.Compacting, in.Compact = r.compacting, r.compacted
	}
	r.mu.Unlock()
	if refused != nil {
		in.Overflow = refused.err
	}
	req, err := r.build(r, ctx, in)
	if err != nil {
		return nil, err
	}
	if err := r.checkPrefix(ctx, a, req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.request, r.offered = req, req.Tools
	if all := r.base.Tools; len(req.Tools) == len(all) && (len(all) == 0 || &req.Tools[0] == &all[0]) {
		r.offered = nil
	} else if r.offered == nil {
		r.offered = []*ToolSpec{}
	}
	if refused == nil {
		return req, nil
	}
	messages, rest := requestSize(req)
	if refused.unsent = messages+rest >= refused.size; refused.unsent {
		return nil, refused.err
	}
	return req, nil
}

// compacting passes on that a builder begins a compaction.
func (r *run) compacting(c *Compacting) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(c)
	r.signal()
	return nil
}

// compacted records what a builder announces. The tokens of a summary count even if the run was
// cancelled before it could be used.
func (r *run) compacted(ctx context.Context, c *Compacted) error {
	r.used(c.Usage.total())
	if cost := r.costOf(&MessageDone{Usage: c.Usage, Cost: c.Cost, Provider: c.Provider, Model: c.Model}); cost != c.Cost {
		c = new(*c)
		c.Cost = cost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.stopping {
		if c.Usage != (Usage{}) {
			spent := &Compacted{Usage: c.Usage, Cost: c.Cost, Provider: c.Provider, Model: c.Model}
			_ = r.step(spent, spent) // refused if the run did not wait for the builder
		}
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	if err := r.step(c, c); err != nil {
		return err
	}
	r.declared = r.declared || c.Note != nil
	if r.facts != nil && !r.facts.wait(ctx) {
		return errors.New("the note could not be recorded")
	}
	return context.Cause(ctx)
}

// requestSize returns the approximate size, in bytes, of the messages of a request and of its rest.
func requestSize(req *Request) (messages, rest int64) {
	if req == nil {
		return 0, 0
	}
	for _, t := range slices.Concat(req.System, req.Tail) {
		rest += partSize(t)
	}
	for _, t := range req.Tools {
		rest += int64(len(t.Name) + len(t.Description) + len(t.Schema))
	}
	return sizeOf(req.Messages, 0), rest
}

// modelEvent passes an event on, and reports whether it was the last one. Text for which the
// client has not yielded a block becomes a block.
func (r *run) modelEvent(ctx context.Context, ev ModelEvent) (bool, error) {
	if d, ok := ev.(*MessageDone); ok && d != nil {
		ev = r.priced(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		return true, nil
	}
	r.heard = true
	missed, err := r.incoming.note(ev)
	if missed != nil {
		err = errors.Join(err, r.step(&BlockDone{&Text{Text: runes.Clean(missed.Text)}}))
	}
	done := false
	if err == nil {
		done, err = r.accept(ctx, ev)
	}
	if err != nil {
		return false, misfit(err)
	}
	return done, nil
}

// misfit returns the error of an event that the state refuses.
func misfit(err error) error {
	if _, over := errors.AsType[*LimitError](err); !over {
		err = fmt.Errorf("client yields what does not fit: %w", err)
	}
	return &ModelError{Err: err}
}

// priced returns d with its cost, if that is known.
func (r *run) priced(d *MessageDone) *MessageDone {
	if cost := r.costOf(d); cost != d.Cost {
		d = new(*d)
		d.Cost = cost
	}
	return d
}

// keepText makes a block of the text that was received for an incomplete block, before the message
// ends early. The caller holds the mutex.
func (r *run) keepText() {
	if text := r.incoming.rest(); text != nil && r.state.phase == phaseModel {
		_ = r.step(&BlockDone{&Text{Text: runes.Clean(text.Text)}})
	}
}

// accept passes an event to the state and the consumer. The caller holds the mutex.
func (r *run) accept(ctx context.Context, ev ModelEvent) (bool, error) {
	switch ev := ev.(type) {
	case *TextDelta, *ThinkingDelta, *ToolDelta:
		if r.near && len(r.out.items) == 0 && eventSize(ev) > 0 {
			r.delta = cleanDelta(ev) // nothing waits, and nobody has to be woken
			r.occupy()
			return false, nil
		}
		r.out.push(cleanDelta(ev))
	case *BlockDone:
		p, ok := cleanPart(ev.Part)
		if !ok {
			r.loop.log(ctx, slog.LevelWarn, "block of the model is no JSON and is left out", "run", r.id)
			return false, nil
		}
		if call, ok := p.(*ToolUse); ok {
			if r.state.full() {
				return false, nil
			}
			if t := r.setup.Load().tool(call.Name); t != nil {
				call.Name = t.spec.Name // the history need not keep another copy
			}
		}
		return false, r.step(&BlockDone{p})
	case *BlockTruncated:
		if r.state.full() {
			return false, nil
		}
		return false, r.step(&BlockTruncated{cleanCall(ev.Call)})
	case *Retrying:
		return false, r.restarted(ev)
	case *MessageDone:
		ev = cleanDone(ev)
		r.heard, r.waited, r.shrunk, r.refused, r.done, r.usage = false, 0, 0, nil, *ev, ev.Usage
		r.incoming.next()
		r.used(ev.Usage.total())
		if ev.Stop == StopRefusal {
			clear(r.open)
		}
		return true, r.step(ev)
	default:
		return false, errNilEvent
	}
	r.signal()
	return false, nil
}

// restarted discards the deltas of the current message, as the client does. It is an error if the
// client has sent a complete block, which may already be in use. The caller holds the mutex.
func (r *run) restarted(ev *Retrying) error {
	if ev == nil || len(r.state.parts.Items) > 0 {
		return errLateRetry
	}
	told := *ev
	told.Discarded = told.Discarded || r.incoming.lost
	r.heard = false
	if r.facts != nil {
		r.facts.retried(&told)
	}
	r.out.push(&told)
	r.signal()
	return nil
}

// modelFailed asks the policy whether to retry, unless the failure is only that of the context.
func (r *run) modelFailed(ctx context.Context, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.stopping {
		return
	}
	f := r.retry(ctx, err)
	f.Began = r.heard
	told := true
	if f.Shrink {
		told = r.refused == nil || !r.refused.unsent
		err = r.shrink(&f, err)
		r.shrunk++
	}
	r.waited += f.After
	heard := r.heard
	if f.Keep {
		r.keepText()
	}
	r.incoming.next()
	r.heard, r.suspended, r.done = false, nil, MessageDone{}
	clear(r.open)
	if !f.Retry {
		r.fail(err)
		_ = r.step(&f)
		return
	}
	begun := slices.ContainsFunc(r.state.calls, func(c call) bool { return c.ran })
	if !begun {
		r.reported = r.reported[:0] // the next try may use the same ids
	}
	if !told {
		_ = r.step(&f)
		return
	}
	_ = r.step(&f, &Retrying{Discarded: heard && !begun,
		Attempt: r.state.attempt + 1, After: f.After, Err: err})
}

// shrink decides which limit the next request has, after one that was too large. If nothing more
// can be left out, it stops the retry. The caller holds the mutex.
func (r *run) shrink(f *ModelFailed, err error) error {
	if r.refused != nil && r.refused.unsent { // the builder took too small a step
		f.Limit = r.state.cut.limit / 2
	} else if e, ok := errors.AsType[*ContextTooLargeError](err); ok {
		messages, rest := requestSize(r.request)
		r.refused = &refusal{err: e, size: messages + rest}
		r.window = cmp.Or(e.Max, r.window)
	}
	next := r.state
	_, _ = next.accept(f)
	if next.broken == nil || next.broken.Retry {
		return err
	}
	f.Retry = false
	return &ContextError{Op: "make request smaller",
		Err: fmt.Errorf("nothing more can be left out: %w", err)}
}

// retry asks the policy about an error. An error with a method that panics is not retried.
func (r *run) retry(ctx context.Context, err error) (f ModelFailed) {
	defer func() {
		if p := recover(); p != nil {
			r.loop.log(ctx, slog.LevelError, "error of the model panicked", "panic", p)
			f = ModelFailed{}
		}
	}()
	if _, ok := errors.AsType[*ContextError](err); ok && r.refused != nil && errors.Is(err, r.refused.err) {
		return ModelFailed{} // the builder knows of the refusal, and cannot help it
	}
	attempt := r.state.attempt
	if _, large := errors.AsType[*ContextTooLargeError](err); !large {
		attempt -= r.shrunk
	}
	sent, fixed := requestSize(r.request)
	return r.loop.retry.Decide(Failure{
		Err: err, Attempt: attempt, Waited: r.waited,
		Now: r.loop.clock.Now(), Random: r.loop.random(), Shrunk: r.fixed, Sent: sent, Fixed: fixed,
	})
}
