package session

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

// A ledger says step by step how the files have become what they are since a run has begun. So the
// changes of the run, or of one agent in it, can be told from those of everybody else.
type ledger struct {
	tracker *tracker
	run     string

	// The mutex of the tracker guards all that follows.
	steps    map[string][]step // by name, from the first step of the run on
	saved    map[string]int    // how many of them are recorded
	commands bool              // the run has run some
	idle     bool              // the run is suspended
	missing  []string
}

// A step is a change of one file. By are the agents of the run, one of whom has made it, or nobody if it
// was somebody else.
type step struct {
	From FileState        `json:"from,omitzero"`
	To   FileState        `json:"to,omitzero"`
	By   []edit.ChangedBy `json:"by,omitempty"`
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
	all := slices.Clip(t.busy[name])
	for _, c := range t.commands {
		all = append(all, c.author)
	}
	return all
}

// of returns those authors that are agents of the run, each once.
func (l *ledger) of(all []*author) (by []edit.ChangedBy) {
	for _, a := range all {
		if slices.Contains(a.runs, l.run) {
			by = addBy(by, a.ChangedBy)
		}
	}
	return by
}

// addBy adds an agent.
func addBy(by []edit.ChangedBy, more ...edit.ChangedBy) []edit.ChangedBy {
	by = slices.Clone(by)
	for _, m := range more {
		i := slices.IndexFunc(by, func(o edit.ChangedBy) bool { return o.Run == m.Run })
		if i < 0 {
			by = append(by, m)
			continue
		}
		by[i].Tool, by[i].Command = by[i].Tool || m.Tool, by[i].Command || m.Command
	}
	return by
}

// plain returns a state without what does not matter to a ledger. It has no directories.
func (s FileState) plain() FileState {
	if s.Kind == KindDir {
		return FileState{}
	}
	s.First, s.Own, s.Back = nil, false, false
	return s
}

// add adds a change.
func (l *ledger) add(name string, from, to FileState, all []*author) {
	from, to = from.plain(), to.plain()
	by, steps := l.of(all), l.steps[name]
	if from.same(to) || len(steps) == 0 && len(by) == 0 {
		return
	}
	l.settle(name, from)
	steps = l.steps[name]
	if n := len(steps); n > l.saved[name] && slices.Equal(steps[n-1].By, by) {
		steps[n-1].To = to
		return
	}
	l.steps[name] = append(steps, step{from, to, by})
}

// settle adds what somebody else has changed unnoticed.
func (l *ledger) settle(name string, now FileState) {
	if steps := l.steps[name]; len(steps) > 0 {
		if last := steps[len(steps)-1].To; !last.same(now.plain()) {
			l.steps[name] = append(steps, step{last, now.plain(), nil})
		}
	}
}

// held notes that the content of a state is held at last.
func (l *ledger) held(name string, was, now FileState) {
	for i := range l.steps[name] {
		for _, s := range []*FileState{&l.steps[name][i].From, &l.steps[name][i].To} {
			if s.NotHeld != "" && s.same(was.plain()) {
				*s = now.plain()
			}
		}
	}
}

// split says that the last step led only to mid, and that somebody else went on from there.
func (l *ledger) split(name string, mid FileState) {
	if n := len(l.steps[name]); n > 0 {
		last := &l.steps[name][n-1]
		to := last.To
		last.To = mid
		l.settle(name, to)
	}
}

// beforeWrite notes what the user has changed between the last look at the files and a plan.
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
		t.noteBy(f, signature{}, now, false, nil)
	}
	return nil
}

// afterWrite notes what the user has changed between a plan and the look at the files after it.
func (t *tracker) afterWrite(ctx context.Context, name string, res *edit.FileResult) error {
	if len(t.ledgers) == 0 || !res.Written || !res.Exists && t.file(name).state.Kind == "" {
		return nil
	}
	mid, err := FileState{}, error(nil)
	if res.Exists {
		mid, err = t.store(ctx, t.file(name).state.Mode, res.Content)
	}
	for _, l := range t.ledgers {
		l.split(name, mid)
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
// have changed the same lines, the file is Mixed. Files that git ignores are seen only if a tool changes
// them. Without a session, contents are held in memory, up to 64 MiB, and a run that another process
// resumes tells only what has changed since.
func (f *Files) Watch(run string, resumed bool) func(ctx context.Context, suspended bool) *edit.Changes {
	l, known := f.open(run)
	if resumed && !known {
		l.missing = append(l.missing, "The run was resumed. What it changed before that is not known.")
	}
	return func(ctx context.Context, suspended bool) *edit.Changes {
		defer f.release(l, suspended)
		return l.changes(ctx, f.masker)
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
	l = &ledger{tracker: t, run: run, steps: map[string][]step{}, saved: map[string]int{}}
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
func (l *ledger) unsaved() map[string][]step {
	if l == nil {
		return nil
	}
	l.tracker.turn.Lock()
	defer l.tracker.turn.Unlock()
	var out map[string][]step
	for name, steps := range l.steps {
		if n := l.saved[name]; n < len(steps) {
			if out == nil {
				out = map[string][]step{}
			}
			out[keyOf(name)] = slices.Clone(steps[n:])
			l.saved[name] = len(steps)
		}
	}
	return out
}

// joined returns steps with those after them.
func joined(a, b map[string][]step) map[string][]step {
	if len(b) == 0 {
		return a
	}
	out := merged(nil, a)
	for name, steps := range b {
		out[name] = append(slices.Clip(out[name]), steps...)
	}
	return out
}

// watch watches a run of the session. If another process has begun the run, the records say what it had
// changed.
func (a *activeRun) watch(run string, resumed bool) func(context.Context, bool) *edit.Changes {
	b, f := a.branch, a.branch.session.config.files
	l, known := f.open(run)
	b.session.mu.Lock()
	a.ledger = l
	steps, requests := b.steps, a.resumed
	b.session.mu.Unlock()
	if resumed && !known {
		l.tracker.turn.Lock()
		for key, s := range steps {
			name := nameOf(key)
			l.steps[name], l.saved[name] = slices.Clone(s), len(s)
			for _, s := range s {
				l.commands = l.commands || slices.ContainsFunc(s.By, func(by edit.ChangedBy) bool { return by.Command })
			}
		}
		if requests != nil && len(requests.Requests) == 0 {
			l.missing = append(l.missing, "The run was interrupted. What its calls had changed since the last message counts as the user's.")
		}
		l.tracker.turn.Unlock()
	}
	return func(ctx context.Context, suspended bool) *edit.Changes {
		defer f.release(l, suspended)
		return l.changes(ctx, f.masker)
	}
}
