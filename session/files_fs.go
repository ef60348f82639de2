package session

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// trackedFS is the workspace as the tools of a session see it.
type trackedFS struct {
	restorer
	t *tracker
}

// FS returns the workspace for the tools. A plan is applied only after the present contents of its
// files were stored.
func (t *tracker) FS() tools.FS { return &trackedFS{t.fs, t} }

// Apply implements [tools.FS].
func (f *trackedFS) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	names, err := f.t.beforePlan(ctx, plan)
	if err != nil {
		return nil, fmt.Errorf("apply plan: %w", err)
	}
	res, err := f.restorer.Apply(ctx, plan, opts...)
	return res, errors.Join(err, f.t.afterPlan(ctx, names, res))
}

// beforePlan stores the files of a plan, and returns the names that the plan may change.
func (t *tracker) beforePlan(ctx context.Context, plan edit.Plan) ([]string, error) {
	if err := t.lock(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Release(1)
	if err := t.repo.load(ctx); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range plan.Files() {
		name, err := t.fs.Resolve(e.Path)
		if e.Kind == edit.Delete { // of a link, the link itself goes
			name, err = t.fs.Resolve(path.Dir(e.Path))
			name = path.Join(name, path.Base(e.Path))
		}
		if err != nil {
			continue // Apply refuses it
		}
		names = t.missingAbove(name, append(names, name))
	}
	for _, name := range names {
		if err := t.look(ctx, name, t.now(), false); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		t.busy[name]++
	}
	return names, nil
}

// afterPlan notes what a plan has made of the files. A file that does not have the content that
// Apply has read last was changed once more by somebody else.
func (t *tracker) afterPlan(ctx context.Context, names []string, res *edit.Result) error {
	ctx = context.WithoutCancel(ctx)
	_ = t.lock(ctx)
	defer t.turn.Release(1)
	var errs []error
	for _, name := range names {
		errs = append(errs, t.look(ctx, name, byAgent, false))
	}
	for _, name := range names {
		if t.busy[name]--; t.busy[name] <= 0 {
			delete(t.busy, name)
		}
	}
	if res == nil {
		return errors.Join(errs...)
	}
	for _, f := range res.Files {
		name, err := t.fs.Resolve(f.Path)
		if s := t.files[name]; err == nil && s != nil && s.state.Own && s.state.Hash != HashOf([]byte(f.Content)) {
			s.state.Own = false
			t.bump(s)
		}
		for _, name := range f.Sidecars {
			errs = append(errs, t.look(ctx, name, byUser, true))
		}
	}
	return errors.Join(errs...)
}

// trackedExec runs the commands of a session.
type trackedExec struct {
	tools.Exec
	t *tracker
}

// Exec returns an Exec that stores files before each command that may write, and finds out what
// the command has changed.
func (t *tracker) Exec(e tools.Exec) tools.Exec { return &trackedExec{e, t} }

// Run implements [tools.Exec]. If ctx ends, the command's changes are looked for later.
func (e *trackedExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	if c.ReadOnly {
		return e.Exec.Run(ctx, c)
	}
	if err := e.t.beforeCommand(ctx); err != nil {
		return nil, fmt.Errorf("store files before the command: %w", err)
	}
	res, err := e.Exec.Run(ctx, c)
	e.t.owed.Store(true)
	e.t.running.Add(-1)
	if ctx.Err() == nil && e.t.lock(ctx) == nil {
		if e.t.owed.Load() {
			_ = e.t.walk(ctx, byAgent) // if it fails, the next delta walks again
		}
		e.t.turn.Release(1)
	}
	return res, err
}

func (t *tracker) beforeCommand(ctx context.Context) error {
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.turn.Release(1)
	if err := t.walk(ctx, t.now()); err != nil {
		return err
	}
	t.running.Add(1)
	return nil
}
