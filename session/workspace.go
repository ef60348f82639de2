package session

import (
	"context"
	"errors"
	"maps"
	"slices"
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
// It implements [tools.FS]. One session at a time can have it, and until one has, it is the
// workspace itself. The methods are safe for concurrent use.
type Files struct {
	*workspace.Workspace
	tracker atomic.Pointer[tracker]
}

// NewFiles returns the connection of a workspace.
func NewFiles(ws *workspace.Workspace) *Files { return &Files{Workspace: ws} }

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
	if t := f.tracker.Load(); t != nil {
		return t.FS().Apply(ctx, plan, opts...)
	}
	return f.Workspace.Apply(ctx, plan, opts...)
}

// Exec wraps the Exec of the tools: see [tools.WithExecMiddleware]. Before a command that may write,
// the files that it might change are stored, within bounds: up to 5,000 files and 64 MiB, unless
// git's commit has their contents. Afterwards, the session looks at what has changed.
func (f *Files) Exec(next tools.Exec) tools.Exec { return &filesExec{next, f} }

type filesExec struct {
	tools.Exec
	files *Files
}

// Run implements [tools.Exec].
func (e *filesExec) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	if t := e.files.tracker.Load(); t != nil {
		return t.Exec(e.Exec).Run(ctx, c)
	}
	return e.Exec.Run(ctx, c)
}

// Pin makes nodes hold a file although the agent has neither read nor changed it.
func (s *Session) Pin(ctx context.Context, name string) error {
	if s.files == nil {
		return &CommandError{Command: "pin", Phase: s.Phase(), Reason: "the session has no files: see WithFiles"}
	}
	return s.files.pin(ctx, name)
}

// Interrupted returns the plans of the agent that a crash left half done, see
// [workspace.Workspace.Interrupted]. Checkouts that a crash interrupted are already taken back.
func (s *Session) Interrupted() []*workspace.InterruptedPlan { return s.interrupted }

// attach connects the workspace with the session, which has been loaded.
func (s *Session) attach(ctx context.Context) error {
	f := s.config.files
	if f == nil {
		return nil
	}
	rest, err := recoverCheckout(ctx, f.Workspace)
	if err != nil {
		return err
	}
	s.interrupted = rest
	v := s.tree.view()
	t := newTracker(trackerConfig{fs: f.Workspace, put: s.journal.Put, get: s.journal.Get, known: s.knownFiles()})
	if !f.tracker.CompareAndSwap(nil, t) {
		return &aycoder.ConfigError{Option: "WithFiles", Err: errors.New("another session has these files")}
	}
	s.files = t
	for _, name := range v.Branches() {
		err = errors.Join(err, s.branch(name).finishMove(ctx))
	}
	if err == nil {
		v = s.tree.view()
		err = t.restoreShown(ctx, v.shown(v.Head("")))
	}
	if err != nil {
		s.detach()
	}
	return err
}

// shown returns which contents of files the model was shown on the path to a node.
func (v *View) shown(id ID) []ShownFile {
	last := map[string]ShownFile{}
	for _, n := range v.Path(id) {
		for _, f := range n.shown {
			last[f.Path] = f
		}
	}
	return slices.Collect(maps.Values(last))
}

// detach releases the workspace.
func (s *Session) detach() {
	if s.files != nil {
		s.config.files.tracker.CompareAndSwap(s.files, nil)
	}
}

// refresh finds out what the user has changed since the last run.
func (s *Session) refresh(ctx context.Context) error {
	if s.files == nil {
		return nil
	}
	return s.files.refresh(ctx)
}

// addFiles completes the record of a node with the files that changed since the last node of the
// branch. The mutex is held.
func (b *Branch) addFiles(ctx context.Context, r *record) error {
	t := b.session.files
	if t == nil {
		return nil
	}
	var err error
	if b.placed {
		r.Files, b.mark, err = t.delta(ctx, b.mark)
	} else { // the last node may be one whose files are not on disk
		r.Files, b.mark, err = t.all(ctx)
		for name, f := range b.session.tree.view().Files(r.parent()) {
			if now, ok := r.Files[name]; ok && now.same(f) && now.Own == f.Own && now.Back == f.Back {
				delete(r.Files, name)
			}
		}
	}
	if err != nil {
		return err
	}
	b.placed = true
	return nil
}

// saveFiles makes a node of what the user has changed since the last node of the branch, so that an
// Undo of the next turn does not take it back. The mutex is held.
func (b *Branch) saveFiles(ctx context.Context) error {
	s := b.session
	r, _, err := b.unsaved(ctx)
	if err != nil || r == nil {
		return err
	}
	return s.write(ctx, true, r)
}

// unsaved returns the record of a node for what has changed since the last node of the branch, or nil
// if nothing has, and the files as they are now. The mutex is held.
func (b *Branch) unsaved(ctx context.Context) (*record, map[string]FileState, error) {
	s := b.session
	if s.files == nil {
		return nil, nil, nil
	}
	mark, placed := b.mark, b.placed
	r := b.node(&record{}, s.tree.next(), s.tree.heads[b.name])
	if err := b.addFiles(ctx, r); err != nil {
		return nil, nil, err
	}
	files := s.tree.view().Files(r.parent())
	news := false
	for name, now := range r.Files {
		was, known := files[name]
		news = news || !known || !now.same(was)
	}
	maps.Copy(files, r.Files)
	if !news {
		b.mark, b.placed = mark, placed
		return nil, files, nil
	}
	return r, files, nil
}

// all returns the states of all files that nodes mention.
func (t *tracker) all(ctx context.Context) (map[string]FileState, int64, error) {
	out, mark, err := t.delta(ctx, 0)
	if err != nil {
		return nil, 0, err
	}
	if err := t.lock(ctx); err != nil {
		return nil, 0, err
	}
	defer t.turn.Release(1)
	for name, f := range t.files {
		if _, ok := out[name]; !ok && f.shown {
			out[keyOf(name)] = f.state
		}
	}
	return out, mark, nil
}

// checkoutFiles makes the files as they are at a node. Changes of the user become a node before.
func (b *Branch) checkoutFiles(ctx context.Context, to *record, c *moveConfig, move *Move) error {
	s, t := b.session, b.session.files
	if err := t.refresh(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	mark, placed := b.mark, b.placed
	before, from, err := b.unsaved(ctx)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if move.Files, err = t.plan(ctx, from, s.View().Files(to.ID), c.paths...); err != nil || c.dry {
		b.mark, b.placed = mark, placed
		return err
	}
	s.mu.Lock()
	var records []*record
	if before != nil {
		before.Parent = nil // other branches may have grown
		records = append(records, b.node(before, s.tree.next(), s.tree.heads[b.name]))
		move.From = before.ID
	}
	if !c.onlyFiles {
		records = append(records, &record{Kind: kindMove, ID: to.ID, Branch: b.name, Name: to.Kind, Paths: c.paths})
	}
	err = s.write(ctx, true, records...)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = t.checkout(ctx, move.Files)
	return err
}

// finishMove moves the head of the branch if a checkout was killed after it had taken the files back.
// If it was killed before, the files are as they were, and so is the head.
func (b *Branch) finishMove(ctx context.Context) error {
	s, r := b.session, b.moving
	if b.moving = nil; r == nil {
		return nil
	}
	v := s.tree.view()
	if v.Node(r.ID) == nil || !slices.Contains([]string{kindHead, kindUndo, kindRedo}, r.Name) {
		return nil
	}
	changes, err := s.files.plan(ctx, v.Files(v.Head(b.name)), v.Files(r.ID), r.Paths...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c FileChange) bool { return c.Action != ActionKeep }) {
		return nil
	}
	return s.write(ctx, true, &record{Kind: r.Name, ID: r.ID, Branch: b.name})
}
