package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Files is a workspace whose files are watched. The tools must work through it.
//
// If the workspace has further roots, their names must mean the same directories whenever the session is
// opened with them. Files of a root that it is opened without stay as they are.
//
// The workspace is one of this machine: Files compares times and inodes, restores files, and asks git,
// for which [tools.FS] and [tools.Exec] have no methods. In a workspace elsewhere (package remote), use
// the tools without Files; the nodes of a session then hold the conversation and no files.
//
// It implements [tools.FS]. One session at a time can have it, and until one has, or [Files.Watch] is
// called, it is the workspace itself. The methods are safe for concurrent use.
type Files struct {
	*workspace.Workspace
	tracker atomic.Pointer[Tracker]
	mu      sync.Mutex           // for a tracker without a session
	masker  func() *tools.Masker // for [Files.secret]
}

// New returns the Files of a workspace.
func New(ws *workspace.Workspace) *Files {
	return &Files{Workspace: ws, masker: sync.OnceValue(func() *tools.Masker { return tools.NewMasker(nil) })}
}

// secret reports whether the tools would mask something in a text.
func (f *Files) secret(text string) bool { return f.masker().Mask(text) != tools.EscapeInvisible(text) }

// Attach keeps the contents of the files in objects until [Tracker.Detach]. Known are the last states of the files at any
// point. Before, it takes back a checkout that a crash has interrupted. It returns the plans of the agent that were
// interrupted, about which the host decides: see [workspace.Workspace.Interrupted]. If the files are attached already,
// the error is an [*aycoder.ConfigError].
func (f *Files) Attach(ctx context.Context, objects Objects, known map[string]State) (*Tracker, []*workspace.InterruptedPlan, error) {
	rest, err := recoverCheckout(ctx, f.Workspace)
	if err != nil {
		return nil, nil, err
	}
	t := newTracker(f.Workspace, objects, known)
	f.give()
	if t.owner = f; !f.tracker.CompareAndSwap(nil, t) {
		return nil, nil, &aycoder.ConfigError{Option: "WithFiles", Err: errors.New("another session has these files")}
	}
	return t, rest, nil
}

// Detach ends the use of the files, which can be attached again. It does nothing to a nil Tracker.
func (t *Tracker) Detach() {
	if t != nil {
		t.owner.tracker.CompareAndSwap(t, nil)
	}
}

// Apply implements [tools.FS]. The present contents of the files are stored before.
func (f *Files) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	t := f.tracker.Load()
	if t == nil {
		return f.Workspace.Apply(ctx, plan, opts...)
	}
	if err := t.applying.wait(ctx); err != nil {
		return nil, err
	}
	defer t.applying.Unlock()
	by := t.author(ctx)
	names, err := t.beforePlan(ctx, plan, by)
	if err != nil {
		return nil, fmt.Errorf("apply plan: %w", err)
	}
	res, err := f.Workspace.Apply(ctx, plan, opts...)
	t.turn.Lock()
	defer t.turn.Unlock()
	err = errors.Join(err, t.afterPlan(ctx, names, by, res))
	for _, name := range names {
		if i := slices.Index(t.busy[name], by); len(t.busy[name]) > 1 {
			t.busy[name] = slices.Delete(t.busy[name], i, i+1)
		} else {
			delete(t.busy, name)
		}
	}
	return res, err
}

// beforePlan stores the files of a plan, and returns the names that the plan may change.
func (t *Tracker) beforePlan(ctx context.Context, plan edit.Plan, by *author) ([]string, error) {
	if err := t.turn.wait(ctx); err != nil {
		return nil, err
	}
	defer t.turn.Unlock()
	if err := t.repo.Load(ctx); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range plan.Files() {
		name, err := t.ws.Resolve(e.Path)
		if e.Kind == edit.Delete { // of a link, the link itself goes
			name, err = t.ws.Resolve(path.Dir(e.Path))
			name = path.Join(name, path.Base(e.Path))
		}
		if err != nil {
			continue // Apply refuses it
		}
		names, err = append(names, name), t.look(ctx, name, false)
		dirsAbove(name, func(dir string) bool { // those that are missing come with the file
			names, err = append(names, dir), errors.Join(err, t.look(ctx, dir, false))
			return t.file(dir).state.Kind == ""
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		t.busy[name] = append(t.busy[name], by)
	}
	return names, nil
}

// afterPlan notes what a plan has made of the files. A file that does not have the content that
// Apply has read last was changed once more by somebody else. The files in which a plan has saved
// what the user wrote are the user's.
func (t *Tracker) afterPlan(ctx context.Context, names []string, by *author, res *edit.Result) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if res != nil {
		errs = append(errs, t.beforeWrite(ctx, res))
	}
	for _, name := range names {
		errs = append(errs, t.look(ctx, name, false))
	}
	if res == nil {
		return errors.Join(errs...)
	}
	for _, f := range res.Files {
		name, err := t.ws.Resolve(f.Path)
		if s := t.files[name]; err == nil && s != nil {
			s.state.Own = s.state.Own && s.state.Hash == journal.HashOf([]byte(f.Content))
			errs = append(errs, t.afterWrite(ctx, name, by, &f))
		}
		for _, name := range f.Sidecars {
			errs = append(errs, t.look(ctx, name, true))
			t.file(name).state.Own = false
		}
	}
	return errors.Join(errs...)
}

// Exec wraps the Exec of the tools: see [tools.WithExecMiddleware]. Before a command that may write,
// the files that it might change are stored, within bounds: up to 5,000 files and 64 MiB, unless
// git's commit has their contents. Afterwards, the Tracker looks at what has changed.
func (f *Files) Exec(next tools.Exec) tools.Exec { return &filesExec{next, f} }

type filesExec struct {
	tools.Exec
	files *Files
}

// Run implements [tools.Exec]. If ctx ends, the command's changes are looked for later.
func (e *filesExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	t := e.files.tracker.Load()
	if t == nil || c.ReadOnly {
		return e.Exec.Run(ctx, c)
	}
	if err := t.turn.wait(ctx); err != nil {
		return nil, err
	}
	err := t.walk(ctx)
	running := &command{author: t.author(ctx)}
	running.Command, running.Tool = true, false
	if err == nil {
		t.commands = append(t.commands, running)
		for _, l := range t.ledgers {
			l.commands = l.commands || slices.Contains(running.runs, l.run)
		}
	}
	t.turn.Unlock()
	if err != nil {
		return nil, fmt.Errorf("store files before the command: %w", err)
	}
	defer func() { // also if the command panics
		running.ended.Store(true)
		t.turn.Lock()
		defer t.turn.Unlock()
		if slices.Contains(t.commands, running) {
			_ = t.walk(ctx) // if it fails, the next diff walks again
		}
	}()
	return e.Exec.Run(ctx, c)
}
