package session

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
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Files connects a workspace with a session, so that nodes know what the files looked like. The
// tools must work through it:
//
//	files := session.NewFiles(ws)
//	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
//	loop, err := aycoder.New(model, aycoder.WithTools(list...))
//	s, err := session.New(ctx, store, loop, session.WithFiles(files))
//
// The workspace is one of this machine: Files compares times and inodes, restores files, and asks git,
// for which [tools.FS] and [tools.Exec] have no methods. In a workspace elsewhere (package remote), use
// the tools without Files; nodes then hold the conversation and no files.
//
// It implements [tools.FS]. One session at a time can have it, and until one has, or [Files.Watch] is
// called, it is the workspace itself. The methods are safe for concurrent use.
type Files struct {
	*workspace.Workspace
	tracker atomic.Pointer[tracker]
	mu      sync.Mutex           // for a tracker without a session
	masker  func() *tools.Masker // for [Files.secret]
}

// NewFiles returns the connection of a workspace.
func NewFiles(ws *workspace.Workspace) *Files {
	return &Files{Workspace: ws, masker: sync.OnceValue(func() *tools.Masker { return tools.NewMasker(nil) })}
}

// secret reports whether the tools would mask something in a text.
func (f *Files) secret(text string) bool { return f.masker().Mask(text) != tools.EscapeInvisible(text) }

// WithFiles makes the nodes of the session hold the files of a workspace: those that the agent has
// read or changed, and those that its commands have changed. Default: nodes hold no files.
func WithFiles(f *Files) Option {
	return func(c *config) error {
		if f == nil || f.Workspace == nil {
			return &aycoder.ConfigError{Option: "WithFiles", Err: errors.New("is nil")}
		}
		c.files = f
		return nil
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
func (t *tracker) beforePlan(ctx context.Context, plan edit.Plan, by *author) ([]string, error) {
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
func (t *tracker) afterPlan(ctx context.Context, names []string, by *author, res *edit.Result) error {
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
			s.state.Own = s.state.Own && s.state.Hash == HashOf([]byte(f.Content))
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
// git's commit has their contents. Afterwards, the session looks at what has changed.
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
	res, err := e.Exec.Run(ctx, c)
	running.ended.Store(true)
	t.turn.Lock()
	defer t.turn.Unlock()
	if slices.Contains(t.commands, running) {
		_ = t.walk(ctx) // if it fails, the next diff walks again
	}
	return res, err
}
