package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/changeset"
)

// A ledger is that of a run which is watched.
type ledger struct {
	tracker *tracker
	run     string

	// The mutex of the tracker guards all that follows.
	changeset.Ledger
	commands bool            // the run has run some
	others   map[string]bool // the files that agents and commands of runs that nobody watches have changed
	idle     bool            // the run is suspended
	missing  []string
}

// An author is an agent that may change files, in a run that is inside of others.
type author struct {
	edit.ChangedBy
	runs []string
}

// A command is an author whose changes are not known before it has ended.
type command struct {
	*author
	ended atomic.Bool
}

func (t *tracker) author(ctx context.Context) *author {
	p, _ := aycoder.PlaceFromContext(ctx)
	return &author{edit.ChangedBy{Agent: p.Agent, Run: p.Run, Tool: true}, aycoder.RunsFromContext(ctx)}
}

// authors returns who may have made a change that was just found, other than the user.
func (t *tracker) authors(name string) []*author {
	return append(t.running(), t.busy[name]...)
}

// running returns the authors whose commands may have changed files since the last walk.
func (t *tracker) running() (all []*author) {
	for _, c := range t.commands {
		all = append(all, c.author)
	}
	return all
}

// unwatched reports whether some of the authors work for a run, and none for one that is watched.
func (t *tracker) unwatched(all []*author) bool {
	return slices.ContainsFunc(all, func(a *author) bool { return len(a.runs) > 0 }) &&
		!slices.ContainsFunc(t.ledgers, func(l *ledger) bool { return len(l.of(all).By) > 0 })
}

// of says which authors are agents of the run, each once, and whether there are some of others.
func (l *ledger) of(all []*author) (of changeset.Authors) {
	for _, a := range all {
		if slices.Contains(a.runs, l.run) {
			of.By = changeset.AddBy(of.By, a.ChangedBy)
		} else if len(a.runs) > 0 {
			of.Other = true
		}
	}
	return of
}

// plain returns a state as ledgers have it. They have no directories.
func (s FileState) plain() changeset.State {
	if s.Kind == KindDir {
		return changeset.State{}
	}
	return changeset.State{Kind: string(s.Kind), Mode: s.Mode, Size: s.Size, Hash: string(s.Hash), Git: s.Git,
		NotHeld: s.NotHeld, Time: s.Time}
}

// beforeWrite notes what the user or a command has changed between the last look at the files and a plan.
func (t *tracker) beforeWrite(ctx context.Context, res *edit.Result) error {
	for i := range res.Files {
		undo := res.Files[i].Undo
		if undo == nil || undo.Kind == edit.Delete || len(t.ledgers) == 0 {
			continue
		}
		name, err := t.ws.Resolve(undo.Path)
		f := t.files[name]
		if err != nil || f == nil || f.state.Kind != KindFile || f.state.Hash == HashOf([]byte(undo.Proposed)) {
			continue
		}
		now, err := t.store(ctx, f.state.Mode, undo.Proposed)
		if err != nil {
			return err
		}
		t.noteBy(f, signature{}, now, false, t.running())
	}
	return nil
}

// afterWrite tells what a plan has written from what the user or a command has changed between it and the
// look at the files after it.
func (t *tracker) afterWrite(ctx context.Context, name string, by *author, res *edit.FileResult) error {
	undo, mid := res.Undo, t.file(name).state
	same := res.Exists && mid.Hash == HashOf([]byte(res.Content)) || !res.Exists && mid.Kind == ""
	wrote := res.Written && undo != nil && (undo.Kind == edit.Delete || !res.Exists || undo.Proposed != res.Content)
	if !wrote || len(t.ledgers) == 0 || same && len(t.commands) == 0 {
		return nil
	}
	var err error
	switch {
	case !res.Exists:
		mid = FileState{}
	case !same:
		mid, err = t.store(ctx, mid.Mode, res.Content)
	}
	for _, l := range t.ledgers {
		l.Split(name, mid.plain(), l.of([]*author{by}), l.of(t.running()))
	}
	return err
}

// store returns the state of a file that had a content for a moment.
func (t *tracker) store(ctx context.Context, mode fs.FileMode, content string) (FileState, error) {
	s := FileState{Kind: KindFile, Mode: mode, Size: int64(len(content)), Hash: HashOf([]byte(content))}
	err := t.journal.Put(ctx, s.Hash, []byte(content))
	if errors.Is(err, errNoRoom) {
		s.NotHeld, s.Hash, err = err.Error(), "", nil
	}
	return s, err
}

// maxIdle bounds how many suspended runs are watched.
const maxIdle = 16

const unknownBefore = "The run was resumed. What it changed before that is not known."

// Watch watches the files for a run: see [aycoder.WithChanges]. A run of a session that has the files is
// watched without it. Other runs need only that their tools work through f:
//
//	files := session.NewFiles(ws)
//	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))
//	…
//	for ev, err := range loop.Run(ctx, in, aycoder.WithChanges(files.Watch)) { … }
//
// A file counts as changed by an agent if a tool of it has changed the file, or if the file has changed
// while a command of it ran. All else is the user's, and is not in the changes; where the user and an agent
// have changed the same lines, the file is Mixed. Runs at the same time have their own changes each, and a
// file is Mixed that commands of two may have changed. Files that git ignores are seen only if a tool changes
// them. Without a session, contents are held in memory, up to 64 MiB, and a run that another process
// resumes tells only what has changed since.
func (f *Files) Watch(run string, resumed bool) func(ctx context.Context, suspended bool) *edit.Changes {
	l, known := f.open(run)
	if resumed && !known {
		l.missing = append(l.missing, unknownBefore)
	}
	return func(ctx context.Context, suspended bool) *edit.Changes {
		defer f.release(l, suspended)
		return l.changes(ctx, f.secret)
	}
}

// open returns the ledger of a run, and whether the run was suspended before.
func (f *Files) open(run string) (l *ledger, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tracker.Load()
	if t == nil {
		t = newTracker(f.Workspace, &spareJournal{held: map[Hash][]byte{}}, nil)
		t.alone = true
		f.tracker.Store(t)
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	for _, l := range t.ledgers {
		if l.run == run && l.idle {
			l.idle = false
			return l, true
		}
	}
	l = &ledger{tracker: t, run: run, others: map[string]bool{}}
	t.ledgers = append(t.ledgers, l)
	return l, false
}

// release ends the watch of a run, unless the run may go on.
func (f *Files) release(l *ledger, suspended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, idle := l.tracker, 0
	t.turn.Lock()
	defer t.turn.Unlock()
	l.idle = suspended
	for i := len(t.ledgers) - 1; i >= 0; i-- { // the newest first
		if t.ledgers[i].idle {
			idle++
		}
		if t.ledgers[i] == l && !suspended || t.ledgers[i].idle && idle > maxIdle {
			t.ledgers = slices.Delete(t.ledgers, i, i+1)
		}
	}
	if t.alone && len(t.ledgers) == 0 {
		f.tracker.CompareAndSwap(t, nil)
	}
}

// give makes the files free for a session if only suspended runs are watched.
func (f *Files) give() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tracker.Load(); t != nil && t.alone {
		t.turn.Lock()
		defer t.turn.Unlock()
		if !slices.ContainsFunc(t.ledgers, func(l *ledger) bool { return !l.idle }) {
			f.tracker.CompareAndSwap(t, nil)
		}
	}
}

// unsaved returns the steps that are not recorded yet.
func (l *ledger) unsaved() map[string][]changeset.Step {
	if l == nil {
		return nil
	}
	l.tracker.turn.Lock()
	defer l.tracker.turn.Unlock()
	return l.Unsaved()
}

// changes returns what the run has changed. More are further texts for Missing.
func (l *ledger) changes(ctx context.Context, secret func(string) bool, more ...string) *edit.Changes {
	t := l.tracker
	t.turn.Lock()
	missing := append(slices.Clone(l.missing), more...)
	err := t.catchUp(ctx)
	for _, name := range l.Names() {
		if err == nil {
			err = t.look(ctx, name, false)
		}
		l.Settle(name, t.file(name).state.plain())
	}
	if err != nil {
		missing = append(missing, "The files were not looked at again when the run was over: "+err.Error()+".")
	}
	if len(l.others) > 0 {
		missing = append(missing, "Agents or commands of another run have changed files: "+names(l.others)+".")
	}
	missing = append(missing, l.unseen()...)
	steps := l.Clone()
	t.turn.Unlock()
	return steps.Changes(ctx, changeset.Source{Secret: secret, Git: t.repo.Contents,
		Content: func(ctx context.Context, s changeset.State, git map[string][]byte) ([]byte, error) {
			return t.content(ctx, FileState{Hash: Hash(s.Hash), Git: s.Git, NotHeld: s.NotHeld}, git)
		}}, missing)
}

// unseen says what commands may have changed unseen.
func (l *ledger) unseen() (out []string) {
	t := l.tracker
	runs := func(c *command) bool { return slices.Contains(c.runs, l.run) && !c.ended.Load() }
	if slices.ContainsFunc(t.commands, runs) {
		out = append(out, "A command still runs.")
	}
	switch {
	case !l.commands:
		return out
	case t.walks == 0: // they ran in another process
		return append(out, "Commands are not watched in what git ignores.")
	}
	if ignored := t.unseen.ignored; len(ignored) > 0 {
		out = append(out, "Commands are not watched in what git ignores: "+names(ignored)+".")
	}
	if t.unseen.some {
		out = append(out, "Commands are not watched in all files: there are too many, or some directories cannot be read.")
	}
	return out
}

// names lists the first five names, and says how many more there are.
func names(all map[string]bool) string {
	var keys []string
	for name := range all {
		keys = append(keys, changeset.Key(name))
	}
	slices.Sort(keys)
	more := ""
	if n := len(keys) - 5; n > 0 {
		keys, more = keys[:5], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(keys, ", ") + more
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
func (b *Branch) stepsOfRun(number int64) map[string][]changeset.Step {
	if b.stepsOf != number {
		return nil
	}
	return b.steps
}

// watch watches a run of the session. If another process has begun the run, the records say what it had
// changed.
func (a *activeRun) watch(run string, resumed bool) func(context.Context, bool) *edit.Changes {
	b, f := a.branch, a.branch.session.config.files
	l, known := f.open(run)
	b.session.mu.Lock()
	a.ledger = l
	steps, pending := b.stepsOfRun(a.number), a.resumed
	recorded := !b.unsure && (b.shown == nil || !b.shown.forgot) // what the calls that have ended have changed
	b.session.mu.Unlock()
	if resumed && !known {
		l.tracker.turn.Lock()
		l.commands = l.Restore(steps)
		switch {
		case pending == nil: // the run began elsewhere
			l.missing = append(l.missing, unknownBefore)
		case pending.State.End() != aycoder.EndSuspended || !recorded:
			l.missing = append(l.missing,
				"The run was interrupted. What its calls had changed since the last message counts as the user's.")
		}
		l.tracker.turn.Unlock()
	}
	return func(ctx context.Context, suspended bool) *edit.Changes {
		defer f.release(l, suspended)
		return l.changes(ctx, f.secret, b.agentsWork(run)...)
	}
}
