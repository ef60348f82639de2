package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/changeset"
	"github.com/aycoder/aycoder/journal"
)

// Steps are what a run has changed, step by step and by file. They are plain data, which encodes as JSON.
type Steps map[string][]changeset.Step

// Join returns the steps with those after them.
func (s Steps) Join(after Steps) Steps { return changeset.Join(s, after) }

// AddObjects adds the objects that the steps need. See [State.AddObjects].
func (s Steps) AddObjects(to map[journal.Hash]bool) {
	for _, steps := range s {
		for _, step := range steps {
			to[journal.Hash(step.From.Hash)], to[journal.Hash(step.To.Hash)] = true, true
		}
	}
}

// A Ledger is the account of what a run changes. The methods are safe for concurrent use.
type Ledger struct {
	files   *Files
	tracker *Tracker
	run     string

	// The mutex of the tracker guards all that follows.
	steps    changeset.Ledger
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

func (t *Tracker) author(ctx context.Context) *author {
	p, _ := aycoder.PlaceFromContext(ctx)
	return &author{edit.ChangedBy{Agent: p.Agent, Run: p.Run, Tool: true}, aycoder.RunsFromContext(ctx)}
}

// authors returns who may have made a change that was just found, other than the user.
func (t *Tracker) authors(name string) []*author {
	return append(t.running(), t.busy[name]...)
}

// running returns the authors whose commands may have changed files since the last walk.
func (t *Tracker) running() (all []*author) {
	for _, c := range t.commands {
		all = append(all, c.author)
	}
	return all
}

// unwatched reports whether some of the authors work for a run, and none for one that is watched.
func (t *Tracker) unwatched(all []*author) bool {
	return slices.ContainsFunc(all, func(a *author) bool { return len(a.runs) > 0 }) &&
		!slices.ContainsFunc(t.ledgers, func(l *Ledger) bool { return len(l.of(all).By) > 0 })
}

// of says which authors are agents of the run, each once, and whether there are some of others.
func (l *Ledger) of(all []*author) (of changeset.Authors) {
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
func (s State) plain() changeset.State {
	if s.Kind == KindDir {
		return changeset.State{}
	}
	return changeset.State{Kind: string(s.Kind), Mode: s.Mode, Size: s.Size, Hash: string(s.Hash), Git: s.Git,
		NotHeld: s.NotHeld, Time: s.Time}
}

// beforeWrite notes what the user or a command has changed between the last look at the files and a plan.
func (t *Tracker) beforeWrite(ctx context.Context, res *edit.Result) error {
	for i := range res.Files {
		undo := res.Files[i].Undo
		if undo == nil || undo.Kind == edit.Delete || len(t.ledgers) == 0 {
			continue
		}
		name, err := t.ws.Resolve(undo.Path)
		f := t.files[name]
		if err != nil || f == nil || f.state.Kind != KindFile || f.state.Hash == journal.HashOf([]byte(undo.Proposed)) {
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
func (t *Tracker) afterWrite(ctx context.Context, name string, by *author, res *edit.FileResult) error {
	undo, mid := res.Undo, t.file(name).state
	if len(t.ledgers) == 0 {
		return nil
	}
	same := res.Exists && mid.Hash == journal.HashOf([]byte(res.Content)) || !res.Exists && mid.Kind == ""
	wrote := res.Written && undo != nil && (undo.Kind == edit.Delete || !res.Exists || undo.Proposed != res.Content)
	if !wrote || same && len(t.commands) == 0 {
		return nil
	}
	var err error
	switch {
	case !res.Exists:
		mid = State{}
	case !same:
		mid, err = t.store(ctx, mid.Mode, res.Content)
	}
	for _, l := range t.ledgers {
		l.steps.Split(name, mid.plain(), l.of([]*author{by}), l.of(t.running()))
	}
	return err
}

// store returns the state of a file that had a content for a moment.
func (t *Tracker) store(ctx context.Context, mode fs.FileMode, content string) (State, error) {
	s := State{Kind: KindFile, Mode: mode, Size: int64(len(content)), Hash: journal.HashOf([]byte(content))}
	err := t.objects.Put(ctx, s.Hash, []byte(content))
	if errors.Is(err, ErrNoRoom) {
		s.NotHeld, s.Hash, err = err.Error(), "", nil
	}
	return s, err
}

// maxIdle bounds how many suspended runs are watched.
const maxIdle = 16

// UnknownBefore is the text for the missing steps of a resumed run.
const UnknownBefore = "The run was resumed. What it changed before that is not known."

// Watch watches the files for a run: see [aycoder.WithChanges]. A run of a session that has the files is
// watched without it. Other runs need only that their tools work through f:
//
//	files := snapshot.New(ws)
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
	l, known := f.Ledger(run)
	if resumed && !known {
		l.Restore(nil, UnknownBefore)
	}
	return func(ctx context.Context, suspended bool) *edit.Changes { return l.End(ctx, suspended) }
}

// Ledger opens the account of a run: [Files.Watch] for a host that records the steps. Known says that the run was suspended
// here before, so that its account goes on. Each account has to be ended.
func (f *Files) Ledger(run string) (l *Ledger, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tracker.Load()
	if t == nil {
		t = newTracker(f.Workspace, new(Memory), nil)
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
	l = &Ledger{files: f, tracker: t, run: run, others: map[string]bool{}}
	t.ledgers = append(t.ledgers, l)
	return l, false
}

// release ends the watch of a run, unless the run may go on.
func (l *Ledger) release(suspended bool) {
	f := l.files
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
		if !slices.ContainsFunc(t.ledgers, func(l *Ledger) bool { return !l.idle }) {
			f.tracker.CompareAndSwap(t, nil)
		}
	}
}

// Restore adds the steps of a run that another process has begun, and texts for what is missing in them.
func (l *Ledger) Restore(steps Steps, missing ...string) {
	l.tracker.turn.Lock()
	defer l.tracker.turn.Unlock()
	l.commands = l.steps.Restore(steps)
	l.missing = append(l.missing, missing...)
}

// Unsaved returns the steps that it has not returned yet, for a record. A nil Ledger has none.
func (l *Ledger) Unsaved() Steps {
	if l == nil {
		return nil
	}
	l.tracker.turn.Lock()
	defer l.tracker.turn.Unlock()
	return l.steps.Unsaved()
}

// End returns what the run has changed, and ends the account unless the run is suspended. More are further texts for what is
// missing.
func (l *Ledger) End(ctx context.Context, suspended bool, more ...string) *edit.Changes {
	defer l.release(suspended)
	t := l.tracker
	t.turn.Lock()
	missing := append(slices.Clone(l.missing), more...)
	err := t.catchUp(ctx)
	for _, name := range l.steps.Names() {
		if err == nil {
			err = t.look(ctx, name, false)
		}
		l.steps.Settle(name, t.file(name).state.plain())
	}
	if err != nil {
		missing = append(missing, "The files were not looked at again when the run was over: "+err.Error()+".")
	}
	if len(l.others) > 0 {
		missing = append(missing, "Agents or commands of another run have changed files: "+names(l.others)+".")
	}
	missing = append(missing, l.unseen()...)
	steps := l.steps.Clone()
	t.turn.Unlock()
	return steps.Changes(ctx, changeset.Source{Secret: l.files.secret, Git: t.repo.Contents,
		Content: func(ctx context.Context, s changeset.State, git map[string][]byte) ([]byte, error) {
			return t.content(ctx, State{Hash: journal.Hash(s.Hash), Git: s.Git, NotHeld: s.NotHeld}, git)
		}}, missing)
}

// unseen says what commands may have changed unseen.
func (l *Ledger) unseen() (out []string) {
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
