package aycoder

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aycoder/aycoder/edit"
)

// How a run ends: whatever happens, every call has its result and no goroutine stays.

// ending is what the end of a run waits for.
type ending struct {
	live    int   // goroutines that have not returned
	err     error // what the run failed with
	left    bool  // to another run, see WithSteps
	timers  []func() bool
	ends    []func()              // of [Invocation.Cleanup]
	finish  func(context.Context) // of WithChanges, or nil
	changes *edit.Changes
}

// stop cancels tools and the model, waits for them as long as the grace allows, and closes the
// state: open calls get an output that says so.
func (r *run) stop(ctx context.Context, cancel context.CancelFunc) {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return
	}
	r.stopping = true
	ahead := r.ahead
	if r.watch != nil {
		r.watch()
	}
	clear(r.open)
	for _, stop := range r.timers {
		stop()
	}
	r.timers = nil
	ends := r.ends
	r.ends = nil
	r.live += len(ends)
	r.mu.Unlock()
	cancel()
	if !ahead { // nobody else will
		r.closeAnswer(ctx, nil)
	}
	for _, f := range ends {
		go r.end(ctx, f)
	}
	r.await(func() bool { return r.live == 0 })
	r.cancelRest(ctx)
	if r.facts != nil {
		r.facts.finish()
	}
	if r.finish != nil {
		r.finish(ctx)
	}
}

// cancelRest settles the calls that are still open, unless the run is done.
func (r *run) cancelRest(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A run that only waits has ended, too. But nobody may go on with it after a fatal error.
	if r.state.phase == phaseDone && (r.state.end != EndSuspended || !isFatal(r.err)) {
		return
	}
	if r.outlives && r.err == nil {
		r.left = true
		return
	}
	r.keepText()
	var lost []Event
	for _, a := range r.running {
		r.loop.log(ctx, slog.LevelWarn, "tool did not stop and was abandoned",
			"run", r.id, "key", a.Key(), "tool", a.Call.Name)
		base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
		out := errorOutput(a.Call, stopped(outStopped, a.prepared.tool.spec.Effect))
		fin := endedAs("abandoned", a.Call, a.prepared.display, out, &ToolCancelledError{ToolError: base, Abandoned: true})
		if r.recorder != nil {
			r.recorder.ended(r, a.Key(), a.Call, fin, "abandoned")
		}
		lost = append(lost, fin)
	}
	if spent := r.spentInside(); spent != nil {
		_ = r.step(&ToolDone{Spent: spent})
		for _, a := range r.running {
			a.inner, a.runs = nil, nil
		}
	}
	_ = r.step(&Cancelled{Began: r.heard}, lost...)
}

// atEnd lets stop call f. If stop has begun already, f is called now.
func (r *run) atEnd(ctx context.Context, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping {
		r.live++
		go r.end(ctx, f)
		return
	}
	r.ends = append(r.ends, f)
}

func (r *run) end(ctx context.Context, f func()) {
	defer r.gone()
	defer func() {
		if p := recover(); p != nil {
			r.loop.log(ctx, slog.LevelError, "function at the end of a run panicked", "run", r.id, "panic", p)
		}
	}()
	f()
}

// await waits until done, or until the grace is over, and reports whether it is done.
func (r *run) await(done func() bool) bool {
	is := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return done()
	}
	if is() {
		return true
	}
	expired := make(chan struct{})
	defer r.loop.clock.AfterFunc(r.setup.Load().Limits.Grace, func() { close(expired) })()
	for {
		select {
		case <-r.wake:
		case <-expired:
			return false
		}
		if is() {
			return true
		}
	}
}

// close fills the result and detaches the control.
func (r *run) close() {
	if r.ended != nil {
		defer r.ended()
	}
	if r.into != nil {
		r.into()
	}
	if r.parent != nil && !r.apart {
		r.report()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.control != nil {
		r.control.detach(&r.state)
	}
	if h := r.state.history; h.ids.past != nil && len(h.Items) > h.ids.past.n {
		h.ids.past.extend(h.Items)
	}
	release(r.state.history.Items, r.held, r.loop.keepEncoded)
}

func (r *run) result() *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	res := &Result{Messages: slices.Clone(s.history.Items), End: s.end, Stop: s.stop, Turns: s.turn,
		Usage: s.usage, Spent: r.spent(), Changes: r.changes}
	if s.end == EndSuspended || r.left {
		res.End = EndSuspended
		res.Pending = &Pending{Run: r.id, State: State{*s}}
		for i := range s.calls {
			if q := requestAbout(r.suspended, s.calls[i].use.ID); q != nil && s.calls[i].status == callSuspended {
				res.Pending.Requests = append(res.Pending.Requests, *q)
			}
			if s.calls[i].status == callDeferred {
				res.Pending.Calls = append(res.Pending.Calls, *s.calls[i].request)
			}
		}
	}
	return res
}

// failure returns what the run failed with, or nil.
func (r *run) failure(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case r.state.end == EndRefused:
		return &RefusalError{r.modelError()}
	case r.state.end == EndTurns:
		return &LimitError{Limit: "turns", Max: int64(r.state.rules.maxTurns)}
	case r.state.end == EndCancelled:
		if cause := context.Cause(ctx); cause != ctx.Err() {
			return fmt.Errorf("run: %w: %w", ctx.Err(), cause)
		}
		return fmt.Errorf("run: %w", ctx.Err())
	}
	return nil
}

func (r *run) modelError() *ModelError {
	e := &ModelError{Model: r.done.Model, RequestID: cmp.Or(r.done.RequestID, r.done.ID)}
	if n, ok := As[ModelNamer](r.setup.Load().client); ok {
		provider, model := n.ModelName()
		e.Provider = provider
		if e.Model == "" {
			e.Model = model
		}
	}
	return e
}
