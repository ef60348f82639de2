package session

import (
	"context"
	"errors"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// WithFiles makes the nodes of the session hold the files of a workspace: those that the agent has
// read or changed, and those that its commands have changed. The tools of the agent must work through f:
//
//	files := snapshot.New(ws)
//	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
//	loop, err := aycoder.New(model, aycoder.WithTools(list...))
//	s, err := session.New(ctx, store, loop, session.WithFiles(files))
//
// Default: nodes hold no files.
func WithFiles(f *snapshot.Files) Option {
	return func(c *config) error {
		if f == nil || f.Workspace == nil {
			return &aycoder.ConfigError{Option: "WithFiles", Err: errors.New("is nil")}
		}
		c.files = f
		return nil
	}
}

// Pin makes nodes hold a file although the agent has neither read nor changed it.
func (s *Session) Pin(ctx context.Context, name string) error {
	if s.files == nil {
		return &CommandError{Command: "pin", Phase: s.Phase(), Reason: "the session has no files: see WithFiles"}
	}
	return s.files.Pin(ctx, name)
}

// Compare returns the files that differ between two nodes, such as the heads of two branches, in the order of their
// paths. Now is the state at from, and Then that at to; Action is what makes the one the other. A difference that is
// unknown, since a content is not held, has snapshot.ActionKeep and a Reason. The messages that only one of the nodes has
// are those of its [View.Path] behind [View.Ancestor].
func (s *Session) Compare(ctx context.Context, from, to ID) ([]snapshot.Change, error) {
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
	return s.files.Compare(ctx, v.Files(from), v.Files(to))
}

// Interrupted returns the plans of the agent that a crash left half done, see
// [workspace.Workspace.Interrupted]. Checkouts that a crash interrupted are already taken back.
func (s *Session) Interrupted() []*workspace.InterruptedPlan { return s.interrupted }

// attach connects the workspace with the session, which has been loaded. known are the last recorded
// states of the files.
func (s *Session) attach(ctx context.Context, known map[string]snapshot.State) error {
	f := s.config.files
	if f == nil {
		return nil
	}
	err := s.keepRoots(ctx, f.Workspace)
	if err != nil {
		return err
	}
	if s.files, s.interrupted, err = f.Attach(ctx, s.journal, known); err != nil {
		return err
	}
	for _, name := range s.tree.view().Branches() {
		err = errors.Join(err, s.branch(name).finishMove(ctx))
	}
	if err != nil {
		s.files.Detach()
	}
	return err
}

// addFiles completes the record of a node that follows the head of the branch with what has changed
// since. It reports whether a reader of the files sees a difference. The mutex is held.
func (b *Branch) addFiles(ctx context.Context, r *record) (news bool, err error) {
	s := b.session
	if s.files == nil {
		return false, nil
	}
	var seen *workspace.SeenFiles
	if b.shown != nil {
		seen = b.shown.SeenFiles
	}
	if b.files == nil {
		b.files = s.tree.Files(s.tree.heads[b.name])
	}
	r.Files, news, err = s.files.Diff(ctx, b.files, seen)
	return news, err
}

// unsaved returns the record of a node for what the user has changed since the last node of the
// branch, or none, so that an Undo of the next turn does not take it back. The mutex is held.
func (b *Branch) unsaved(ctx context.Context) ([]*record, error) {
	r := b.next(&record{})
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
	if move.Files, err = t.Plan(ctx, s.View().Files(to.ID), c.paths...); err != nil || c.dry {
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
	to.Files, err = t.Checkout(ctx, move.Files)
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
	changes, err := s.files.Plan(ctx, v.Files(r.ID), r.Paths...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c snapshot.Change) bool { return c.Action != snapshot.ActionKeep }) {
		return nil
	}
	return s.write(ctx, true, &record{Kind: r.Name, ID: r.ID, Branch: b.name})
}

// agentsWork says that agents of a run work in the background.
func (b *Branch) agentsWork(run string) []string {
	b.session.mu.Lock()
	g := b.jobs.group
	b.session.mu.Unlock()
	if g == nil || !slices.ContainsFunc(g.Jobs(), func(j aycoder.Job) bool {
		return j.Kind == background.Agent && j.By.Run == run && j.Lives()
	}) {
		return nil
	}
	return []string{"An agent in the background still works."}
}

// stepsOfRun returns what is recorded of the changes of a run. The mutex is held.
func (b *Branch) stepsOfRun(number int64) snapshot.Steps {
	if b.stepsOf != number {
		return nil
	}
	return b.steps
}

// watch watches a run of the session. If another process has begun the run, the records say what it had
// changed.
func (a *activeRun) watch(run string, resumed bool) func(context.Context, bool) *edit.Changes {
	b := a.branch
	l, known := b.session.config.files.Ledger(run)
	b.session.mu.Lock()
	a.ledger = l
	steps, pending := b.stepsOfRun(a.number), a.resumed
	recorded := !b.unsure && (b.shown == nil || !b.shown.forgot) // what the calls that have ended have changed
	b.session.mu.Unlock()
	if resumed && !known {
		var missing []string
		switch {
		case pending == nil: // the run began elsewhere
			missing = []string{snapshot.UnknownBefore}
		case pending.State.End() != aycoder.EndSuspended || !recorded:
			missing = []string{"The run was interrupted. What its calls had changed since the last message counts as the user's."}
		}
		l.Restore(steps, missing...)
	}
	return func(ctx context.Context, suspended bool) *edit.Changes {
		return l.End(ctx, suspended, b.agentsWork(run)...)
	}
}
