package aycoder

import (
	"context"
	"log/slog"
	"slices"

	"github.com/aycoder/aycoder/edit"
)

// A ChangeWatch begins to watch the files of a workspace for a run. Resumed says that the run continues,
// perhaps in another process. Whoever changes a file finds the run with [RunsFromContext].
//
// The function that it returns is called once, when the run is over or suspended, and returns what the
// run has changed. If its ctx ends, it returns what it knows.
type ChangeWatch func(run string, resumed bool) func(ctx context.Context, suspended bool) *edit.Changes

// WithChanges makes the run tell in [Result].Changes what it has changed in the files of a workspace, with
// the runs inside its calls. Watch of Files in package session is a [ChangeWatch], and a session that has
// files applies this option itself. If the run was cancelled or left, the files are looked at for at most
// [Limits].Grace. Default: Changes is nil.
func WithChanges(watch ChangeWatch) RunOption {
	return func(c *RunConfig) error {
		if watch == nil {
			return isNilError("WithChanges")
		}
		c.extra = append(slices.Clip(c.extra), watch)
		return nil
	}
}

// RunsFromContext returns the ids of the run that a call belongs to and of the runs around it, the
// innermost first, for the ctx that a tool received. For any other ctx, there are none.
func RunsFromContext(ctx context.Context) (ids []string) {
	inv, ok := ctx.Value(placeKey{}).(*Invocation)
	if !ok {
		return nil
	}
	for r := inv.run; r != nil; r = r.parent {
		ids = append(ids, r.id)
	}
	return ids
}

// extend is linked only with WithChanges.
func (watch ChangeWatch) extend(r *run) error {
	end := watch(r.id, r.again != nil)
	r.finish = func(ctx context.Context) {
		r.mu.Lock()
		over := r.state.phase == phaseDone && r.state.end != EndCancelled && r.err == nil && ctx.Err() == nil
		suspended := r.state.end == EndSuspended || r.left
		r.mu.Unlock()
		if !over {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			defer r.loop.clock.AfterFunc(r.setup.Load().Limits.Grace, cancel)()
		}
		defer func() {
			if p := recover(); p != nil {
				r.loop.log(ctx, slog.LevelError, "watch of changes panicked", "run", r.id, "panic", p)
			}
		}()
		changes := end(ctx, suspended)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = changes
	}
	return nil
}
