package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/workspace"
)

// Pin makes nodes hold a file although the agent has neither read nor changed it.
func (s *Session) Pin(ctx context.Context, name string) error {
	if s.files == nil {
		return &CommandError{Command: "pin", Phase: s.Phase(), Reason: "the session has no files: see WithFiles"}
	}
	return s.files.pin(ctx, name)
}

// Compare returns the files that differ between two nodes, such as the heads of two branches, in the order of their
// paths. Now is the state at from, and Then that at to; Action is what makes the one the other. A difference that is
// unknown, since a content is not held, has ActionKeep and a Reason. The messages that only one of the nodes has
// are those of its [View.Path] behind [View.Ancestor].
func (s *Session) Compare(ctx context.Context, from, to ID) ([]FileChange, error) {
	s.mu.Lock()
	err, phase := s.usable("compare"), s.phase()
	s.mu.Unlock()
	v := s.View()
	switch {
	case err != nil:
		return nil, err
	case s.files == nil:
		return nil, &CommandError{Command: "compare", Phase: phase, Reason: "the session has no files: see WithFiles"}
	case !v.has(from):
		return nil, noNode("compare", phase, from)
	case !v.has(to):
		return nil, noNode("compare", phase, to)
	}
	now, then := v.Files(from), v.Files(to)
	var all []FileChange
	for _, name := range slices.Sorted(maps.Keys(merged(now, then))) {
		c := FileChange{Path: name, Now: stateAt(name, now, then), Then: stateAt(name, then, now), Action: ActionChange}
		switch {
		case c.Now.same(c.Then):
			continue
		case c.Now.NotHeld != "" || c.Then.NotHeld != "":
			c.Action, c.Reason = ActionKeep, "its content is not held: "+cmp.Or(c.Now.NotHeld, c.Then.NotHeld)
		case c.Now.Kind == "":
			c.Action = ActionCreate
		case c.Then.Kind == "":
			c.Action = ActionRemove
		}
		all = append(all, c)
	}
	return all, s.files.loadContents(ctx, all)
}

// stateAt returns the state of a file at a node. If only another node mentions the file, that one says how it was.
func stateAt(name string, node, other map[string]FileState) FileState {
	if s, ok := node[name]; ok {
		return s
	}
	return *other[name].first()
}

// Interrupted returns the plans of the agent that a crash left half done, see
// [workspace.Workspace.Interrupted]. Checkouts that a crash interrupted are already taken back.
func (s *Session) Interrupted() []*workspace.InterruptedPlan { return s.interrupted }

// attach connects the workspace with the session, which has been loaded. known are the last recorded
// states of the files.
func (s *Session) attach(ctx context.Context, known map[string]FileState) error {
	f := s.config.files
	if f == nil {
		return nil
	}
	rest, err := recoverCheckout(ctx, f.Workspace)
	if err != nil {
		return err
	}
	s.interrupted = rest
	t := newTracker(f.Workspace, s.journal, known)
	f.give()
	if !f.tracker.CompareAndSwap(nil, t) {
		return &aycoder.ConfigError{Option: "WithFiles", Err: errors.New("another session has these files")}
	}
	s.files = t
	for _, name := range s.tree.view().Branches() {
		err = errors.Join(err, s.branch(name).finishMove(ctx))
	}
	if err != nil {
		s.detach()
	}
	return err
}

// detach releases the workspace.
func (s *Session) detach() {
	if s.files != nil {
		s.config.files.tracker.CompareAndSwap(s.files, nil)
	}
}

// pathFiles is what the nodes of the path to a node say of the files.
type pathFiles struct {
	at    ID
	files map[string]FileState
}

// filesAt returns what the path to a node says of the files. The branch remembers the last answer,
// from which that of the next node follows. The mutex is held.
func (b *Branch) filesAt(id ID) *pathFiles {
	v := b.session.tree.view()
	var ids []ID
	at := v.known(id)
	for ; at != Root && (b.files == nil || at != b.files.at); at = v.parent(at) {
		ids = append(ids, at)
	}
	if at == Root {
		b.files = &pathFiles{files: map[string]FileState{}}
	}
	for _, at := range slices.Backward(ids) {
		maps.Copy(b.files.files, v.nodes[at].Files)
	}
	b.files.at = id
	return b.files
}

// addFiles completes the record of a node that follows the head of the branch with what has changed
// since. It reports whether a reader of the files sees a difference. The mutex is held.
func (b *Branch) addFiles(ctx context.Context, r *record) (news bool, err error) {
	s := b.session
	if s.files == nil {
		return false, nil
	}
	return s.files.diff(ctx, r, b.filesAt(s.tree.heads[b.name]), b.shown)
}

// unsaved returns the record of a node for what the user has changed since the last node of the
// branch, or none, so that an Undo of the next turn does not take it back. The mutex is held.
func (b *Branch) unsaved(ctx context.Context) ([]*record, error) {
	r := b.node(&record{}, b.session.tree.next(), b.session.tree.heads[b.name])
	news, err := b.addFiles(ctx, r)
	if err != nil || !news {
		return nil, err
	}
	return []*record{r}, nil
}

// checkoutFiles makes the files as they are at a node. Changes of the user become a node before.
func (b *Branch) checkoutFiles(ctx context.Context, to *record, c *moveConfig, move *Move) error {
	s, t := b.session, b.session.files
	var err error
	if move.Files, err = t.plan(ctx, s.View().Files(to.ID), c.paths...); err != nil || c.dry {
		return err
	}
	s.mu.Lock()
	records, err := b.unsaved(ctx)
	for _, r := range records {
		move.From = r.ID
	}
	if !c.onlyFiles {
		records = append(records, &record{Kind: kindMove, ID: to.ID, Branch: b.name, Name: to.Kind, Paths: c.paths})
	}
	if err == nil {
		err = s.write(ctx, true, records...)
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	to.Files, err = t.checkout(ctx, move.Files)
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
	if !v.has(r.ID) || !slices.Contains([]string{kindHead, kindUndo, kindRedo}, r.Name) {
		return nil
	}
	changes, err := s.files.plan(ctx, v.Files(r.ID), r.Paths...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c FileChange) bool { return c.Action != ActionKeep }) {
		return nil
	}
	return s.write(ctx, true, &record{Kind: r.Name, ID: r.ID, Branch: b.name})
}
