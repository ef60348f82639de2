package session

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/aycoder/aycoder/internal/changeset"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/regular"
	"github.com/aycoder/aycoder/workspace"
)

// FileKind is the type of what has a name in the workspace.
type FileKind string

// The kinds of files. A state of no kind is that of a name of which there is nothing.
const (
	KindFile  FileKind = "file"
	KindLink  FileKind = "link"
	KindDir   FileKind = "dir"
	KindOther FileKind = "other" // a pipe, a socket or a device
)

// FileState is the state of a name in the workspace at some time. The zero FileState means that
// there was nothing of this name.
type FileState struct {
	Kind FileKind `json:"kind,omitempty"`
	// Mode is the permissions of a file or a directory.
	Mode fs.FileMode `json:"mode,omitempty"`
	Size int64       `json:"size,omitempty"`
	// Hash identifies the content of a file, or the target of a link. Git is the name of the blob
	// that has this content in the repository of the workspace, if no object of the session does.
	Hash Hash   `json:"hash,omitempty"`
	Git  string `json:"git,omitempty"`
	// NotHeld says why this state cannot be restored. It is "" if it can be.
	NotHeld string `json:"not_held,omitempty"`
	// Time is when a file was changed whose content is unknown.
	Time time.Time `json:"time,omitzero"`
	// Own says that the agent, or a command of it, has created the file, and that nobody else has
	// changed it since.
	Own bool `json:"own,omitempty"`
	// Back says that a checkout has brought the file back, and that nobody has changed it since. A
	// node in which the file was deleted can then be checked out again.
	Back bool `json:"back,omitempty"`
	// First is the state that the name had when the session first saw it. It counts for all nodes
	// that do not mention the name.
	First *FileState `json:"first,omitempty"`
}

// same reports whether two states look alike to a reader of the files.
func (s FileState) same(o FileState) bool {
	return s.Kind == o.Kind && s.Mode == o.Mode && s.Hash == o.Hash &&
		(s.Hash != "" || s.Size == o.Size && s.NotHeld == o.NotHeld && s.Time.Equal(o.Time))
}

// first returns First, which a record of another program may lack.
func (s FileState) first() *FileState {
	return cmp.Or(s.First, &FileState{Kind: KindOther, NotHeld: "it is unknown"})
}

// A tracker knows the files of one workspace: what they were when the agent first saw them, and
// what has become of them.
//
// Before anything changes a file on behalf of the agent, the present content is stored as an
// object, unless the commit that is checked out holds it. Afterwards the tracker finds what has
// changed, came and went. A name is tracked, which means that nodes mention it, from the moment
// when it was shown to the model, or changed by the agent or a command. Of all other names, the
// tracker only remembers the state, so that it knows what was there before a change.
//
// A change counts as the agent's if it was found while commands ran or right after one, and as the
// user's otherwise: nobody can tell who wrote a file. For the same reason, a tracker does not
// distinguish the commands of several agents. The nodes of all agents say how the files were, and
// not which agent changed them.
type tracker struct {
	ws       *workspace.Workspace
	journal  Journal // has the objects
	repo     gitrepo.Repo
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
	ledgers  []*ledger            // of the runs that are watched
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
	state FileState
	sign  signature
	walk  int // the last walk that found it
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

// newTracker returns a tracker of a workspace. known are the last states of the files that nodes
// mention.
func newTracker(ws *workspace.Workspace, journal Journal, known map[string]FileState) *tracker {
	t := &tracker{ws: ws, journal: journal, repo: gitrepo.Repo{Dir: ws.Dir()},
		entries: 100_000, limits: budget{count: 5000, bytes: 64 << 20, size: 8 << 20},
		files: map[string]*trackedFile{}, unseen: unseen{some: true},
		busy: map[string][]*author{}, applying: make(turnLock, 1), turn: make(turnLock, 1)}
	for key, s := range known {
		s.First = s.first()
		f := t.file(changeset.Name(key))
		f.state = s
		t.tracked = append(t.tracked, f)
	}
	return t
}

// file returns what is known of a name.
func (t *tracker) file(name string) *trackedFile {
	f := t.files[name]
	if f == nil {
		f = &trackedFile{path: name}
		t.files[name] = f
	}
	return f
}

// note records the state of a file. Track says that nodes mention the file from now on, as they do
// if the agent has changed it.
func (t *tracker) note(f *trackedFile, s signature, now FileState, track bool) {
	t.noteBy(f, s, now, track, t.authors(f.path))
}

// noteBy is note for a change that is by these authors, or by the user if there are none.
func (t *tracker) noteBy(f *trackedFile, s signature, now FileState, track bool, by []*author) {
	was, agent := f.state, len(by) > 0
	if was.First == nil && was.Kind == "" && !agent { // it may have been there for long
		was = now
	}
	room := was.NotHeld != "" && now.NotHeld == "" && was.Kind == now.Kind && f.sign.same(s) // for its content, at last
	now.First, now.Own, now.Back = was.First, was.Own, was.Back
	if room || was.same(now) {
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
			l.Held(f.path, f.state.plain(), now.plain())
		} else {
			l.Add(f.path, was.plain(), now.plain(), l.of(by))
		}
		if others {
			l.others[f.path] = true
		}
	}
	f.state, f.sign = now, s
}

// diff sets the states of all tracked files that differ from those of a path in the tree. The files
// that the model was shown are tracked. It reports whether a reader of the files sees a difference.
func (t *tracker) diff(ctx context.Context, r *record, from *pathFiles, to *shownFiles) (news bool, err error) {
	if err := t.turn.wait(ctx); err != nil {
		return false, err
	}
	defer t.turn.Unlock()
	if len(t.commands) > 0 {
		if err := t.walk(ctx); err != nil {
			return false, err
		}
	}
	if err := t.trackShown(ctx, to); err != nil {
		return false, err
	}
	r.Files = map[string]FileState{}
	for _, f := range t.tracked {
		key, now := changeset.Key(f.path), f.state
		was, known := from.files[key]
		if !known {
			was = *now.First
		}
		same := now.same(was)
		if !known || !same || now.Own != was.Own || now.Back != was.Back {
			r.Files[key] = now
		}
		news = news || !same
	}
	return news, nil
}

// addObjects adds the objects that the tracker relies on, although perhaps no node mentions them: for
// example the content of a file before a command that has not changed it.
func (t *tracker) addObjects(to map[Hash]bool) {
	if t == nil {
		return
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	for _, f := range t.files {
		for s := &f.state; s != nil; s = s.First {
			to[s.Hash] = to[s.Hash] || s.Git == ""
		}
	}
}

// refresh looks at all tracked files, and stores what the user has changed.
func (t *tracker) refresh(ctx context.Context) error {
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
func (t *tracker) catchUp(ctx context.Context) error {
	if len(t.commands) > 0 {
		return t.walk(ctx)
	}
	return t.repo.Load(ctx)
}

// pin makes nodes mention a file, as if the model had read it.
func (t *tracker) pin(ctx context.Context, name string) error {
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
func (t *tracker) look(ctx context.Context, name string, track bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := t.file(name)
	info, err := t.ws.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.note(f, signature{}, FileState{}, track)
		return nil
	case err != nil:
		t.note(f, signature{}, FileState{Kind: KindOther, NotHeld: err.Error()}, track)
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

// dirsAbove calls do for each directory above a name, from the bottom, until it returns false.
func dirsAbove(name string, do func(dir string) bool) {
	for dir := path.Dir(name); dir != "." && dir != "/" && do(dir); dir = path.Dir(dir) {
	}
}
