package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/aycoder/aycoder/internal/changeset"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/internal/rootpath"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
)

// A Tracker knows the files of one workspace: what they were when the agent first saw them, and
// what has become of them. Its methods are safe for concurrent use.
//
// Before anything changes a file on behalf of the agent, the present content is stored as an
// object, unless the commit that is checked out holds it. Afterwards the tracker finds what has
// changed, came and went. A name is tracked, which means that points mention it, from the moment
// when it was shown to the model, or changed by the agent or a command. Of all other names, the
// tracker only remembers the state, so that it knows what was there before a change.
//
// A change counts as the agent's if it was found while commands ran or right after one, and as the
// user's otherwise: nobody can tell who wrote a file. For the same reason, a tracker does not
// distinguish the commands of several agents. Points say how the files were, and
// not which agent changed them.
type Tracker struct {
	owner    *Files
	ws       *workspace.Workspace
	objects  Objects
	repo     repos
	apart    []string // the names of what keeps sessions, which would otherwise keep itself
	applying turnLock // is held while a plan is carried out, so that its changes are its own

	turn turnLock // guards the fields below

	entries int    // how many files and directories a walk looks at
	limits  budget // of what it stores

	files   map[string]*trackedFile
	tracked []*trackedFile
	// commands run, or had not ended when the last walk began.
	commands []*command
	walks    int // the number of the last walk
	unseen   unseen
	busy     map[string][]*author // who is about to change a name by a plan
	ledgers  []*Ledger            // of the runs that are watched
	alone    bool                 // there is no session
}

// A turnLock is a mutex whose waiters can give up: what its holder does may take long.
type turnLock chan struct{}

func (l turnLock) Lock()   { l <- struct{}{} }
func (l turnLock) Unlock() { <-l }

// wait is Lock. If it has to wait, and ctx ends before, it returns the cause.
func (l turnLock) wait(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trackedFile is what is known of a name. It is tracked if its state has a First.
type trackedFile struct {
	path  string
	state State
	sign  signature
	lost  error // why the last look did not find out what has become of it, or nil
	walk  int   // the last walk that found it
}

// signature tells whether a file may have changed.
type signature struct {
	mode    fs.FileMode
	size    int64
	inode   uint64
	changed time.Time
	at      time.Time // when the file was looked at, before its content was read
}

func sign(info fs.FileInfo) signature {
	s := signature{mode: info.Mode(), size: info.Size(), at: time.Now()}
	s.inode, s.changed = regular.Identity(info)
	return s
}

// same reports whether a file shows no change.
func (s signature) same(now signature) bool {
	s.at = now.at
	return s == now
}

// unchanged reports whether there was no change for sure. The clock of a file system has ticks: a
// file that was changed just before it was read could have been changed once more without a new
// time.
func (s signature) unchanged(now signature) bool {
	return s.same(now) && s.changed.Add(2*time.Second).Before(s.at)
}

// newTracker returns a tracker of a workspace. known are the last states of the files that points
// mention.
func newTracker(ws *workspace.Workspace, objects Objects, known map[string]State) *Tracker {
	t := &Tracker{ws: ws, objects: objects, repo: reposOf(ws),
		entries: 100_000, limits: budget{count: 5000, bytes: 64 << 20, size: 8 << 20},
		files: map[string]*trackedFile{}, unseen: unseen{some: true},
		busy: map[string][]*author{}, applying: make(turnLock, 1), turn: make(turnLock, 1)}
	if o, ok := objects.(interface{ Paths() []string }); ok {
		t.apart = namesOf(ws, o.Paths())
	}
	for key, s := range known {
		s.First = s.first()
		f := t.file(changeset.Name(key))
		f.state = s
		t.tracked = append(t.tracked, f)
	}
	return t
}

// file returns what is known of a name.
func (t *Tracker) file(name string) *trackedFile {
	f := t.files[name]
	if f == nil {
		f = &trackedFile{path: name}
		t.files[name] = f
	}
	return f
}

// note records the state of a file. Track says that points mention the file from now on, as they do
// if the agent has changed it.
func (t *Tracker) note(f *trackedFile, s signature, now State, track bool) {
	t.noteBy(f, s, now, track, t.authors(f.path))
}

// noteBy is note for a change that is by these authors, or by the user if there are none.
func (t *Tracker) noteBy(f *trackedFile, s signature, now State, track bool, by []*author) {
	was, agent := f.state, len(by) > 0
	if was.First == nil && was.Kind == "" && !agent { // it may have been there for long
		was = now
	}
	room := was.NotHeld != "" && now.NotHeld == "" && was.Kind == now.Kind && f.sign.same(s) // for its content, at last
	now.First, now.Own, now.Back = was.First, was.Own, was.Back
	if room || was.Same(now) {
		was = now
	} else {
		now.Own, now.Back = agent && (was.Own || was.Kind == "" && was.NotHeld == ""), false
		track = track || agent
	}
	if track && now.First == nil {
		was.Own, was.Back = false, false
		now.First = &was
		t.tracked = append(t.tracked, f)
	}
	others := !room && !was.plain().Same(now.plain()) && t.unwatched(by)
	for _, l := range t.ledgers {
		if room {
			l.steps.Held(f.path, f.state.plain(), now.plain())
		} else {
			l.steps.Add(f.path, was.plain(), now.plain(), l.of(by))
		}
		if others {
			l.others[f.path] = true
		}
	}
	f.state, f.sign = now, s
}

// Diff returns the states of all tracked files that differ from those of a point: see [State]. Seen are files that the
// model was shown, which are tracked from now on; it may be nil. News reports whether a reader of the files
// sees a difference.
func (t *Tracker) Diff(ctx context.Context, from map[string]State, seen *workspace.SeenFiles) (now map[string]State, news bool, err error) {
	if err := t.turn.wait(ctx); err != nil {
		return nil, false, err
	}
	defer t.turn.Unlock()
	if len(t.commands) > 0 {
		if err := t.walk(ctx); err != nil {
			return nil, false, err
		}
	}
	if err := t.trackSeen(ctx, seen); err != nil {
		return nil, false, err
	}
	now = map[string]State{}
	for _, f := range t.tracked {
		key, is := changeset.Key(f.path), f.state
		was, known := from[key]
		if !known {
			was = *is.First
		}
		same := is.Same(was)
		if !known || !same || is.Own != was.Own || is.Back != was.Back {
			now[key] = is
		}
		news = news || !same
	}
	return now, news, nil
}

// trackSeen tracks the files that a model was shown.
func (t *Tracker) trackSeen(ctx context.Context, seen *workspace.SeenFiles) error {
	if seen == nil {
		return nil
	}
	for _, s := range seen.All() {
		name, err := t.ws.Resolve(s.Path)
		if err != nil || t.file(name).state.First != nil {
			continue
		}
		if err := t.look(ctx, name, true); err != nil {
			return err
		}
	}
	return nil
}

// AddObjects adds the objects that the Tracker relies on, although perhaps no point mentions them: for
// example the content of a file before a command that has not changed it. See [State.AddObjects]. A nil Tracker has none.
func (t *Tracker) AddObjects(to map[journal.Hash]bool) {
	if t == nil {
		return
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	for _, f := range t.files {
		f.state.AddObjects(to)
	}
}

// Refresh looks at all tracked files, and stores what the user has changed. A nil Tracker has no files.
func (t *Tracker) Refresh(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.turn.wait(ctx); err != nil {
		return err
	}
	defer t.turn.Unlock()
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	for _, f := range t.tracked {
		if err := t.look(ctx, f.path, false); err != nil {
			return err
		}
	}
	return nil
}

// catchUp finds out what commands have changed, and which commit is checked out.
func (t *Tracker) catchUp(ctx context.Context) error {
	if len(t.commands) > 0 {
		return t.walk(ctx)
	}
	return t.repo.Load(ctx)
}

// Pin makes points mention a file, as if the model had read it.
func (t *Tracker) Pin(ctx context.Context, name string) error {
	if err := t.turn.wait(ctx); err != nil {
		return err
	}
	defer t.turn.Unlock()
	rel, err := t.ws.Resolve(name)
	if err == nil {
		err = t.look(ctx, rel, true)
	}
	return err
}

// look finds out what has become of a name, and tracks it if track is true.
func (t *Tracker) look(ctx context.Context, name string, track bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := t.file(name)
	if t.isApart(name) {
		t.note(f, signature{}, State{Kind: KindOther, NotHeld: "sessions are kept in it"}, track)
		return nil
	}
	info, err := t.ws.Lstat(name)
	f.lost = nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.note(f, signature{}, State{}, track)
		return nil
	case noRoot(err):
		f.lost = err
		return nil
	case err != nil:
		t.note(f, signature{}, State{Kind: KindOther, NotHeld: err.Error()}, track)
		return nil
	}
	s, now := sign(info), f.state
	if !f.sign.unchanged(s) || now.NotHeld != "" {
		// A plan cannot change a file that is larger than package workspace allows.
		now, err = t.capture(ctx, f, info, &budget{count: 1, bytes: 64 << 20, size: 64 << 20})
		if err != nil {
			return err
		}
	}
	t.note(f, s, now, track)
	return nil
}

// noRoot reports whether the workspace does not have the root of a file, or its directory is gone.
func noRoot(err error) bool {
	e, ok := errors.AsType[*workspace.Error](err)
	return ok && e.Kind == workspace.KindNoRoot
}

// dirsAbove calls do for each directory above a name, from the bottom, until it returns false.
func dirsAbove(name string, do func(dir string) bool) {
	for dir := path.Dir(name); dir != "." && dir != "/" && !rootpath.IsRoot(dir) && do(dir); dir = path.Dir(dir) {
	}
}
