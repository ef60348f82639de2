package session

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
	"golang.org/x/sync/semaphore"
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

// restorer is what a tracker needs of the file system beyond [tools.FS]. Without it, a tracker
// does nothing. [*workspace.Workspace] implements it.
type restorer interface {
	tools.FS
	Lstat(name string) (fs.FileInfo, error)
	ReadLink(name string) (string, error)
	Resolve(name string) (string, error)
	Restore(ctx context.Context, files []workspace.Restoration, opts ...workspace.ApplyOption) (*edit.Result, error)
}

// trackerConfig is what a tracker is made of.
type trackerConfig struct {
	fs restorer
	// put stores an object durably, and get returns it.
	put func(ctx context.Context, hash Hash, data []byte) error
	get func(ctx context.Context, hash Hash) ([]byte, error)
	// ignored are patterns in the form of .gitignore, besides those of the workspace.
	ignored string
	// known is the last state of the files that the session knows. The tracker owns the map.
	known map[string]FileState

	// The bounds of what one walk looks at and stores. Zero values stand for the defaults.
	entries, count int
	bytes, size    int64
}

const (
	defaultEntries = 100_000  // files and directories of the workspace that are watched
	defaultCount   = 5000     // files that are stored before or after a command
	defaultBytes   = 64 << 20 // their size
	defaultSize    = 8 << 20  // size of one file that is stored because of a command
	maxPlanned     = 64 << 20 // size of a file of a plan, as in package workspace
)

// A tracker knows the files of one workspace: what they were when the agent first saw them, and
// what has become of them.
//
// Before anything changes a file on behalf of the agent, the present content is stored as an
// object, unless the commit that is checked out holds it. Afterwards the tracker finds what has
// changed, came and went. A name is tracked, which means that nodes mention it, from the moment
// when it was shown to the model, or changed by the agent or a command. Of all other names, the
// tracker only remembers the state, so that it knows what was there before a change.
//
// A change counts as the user's if it was found while no command ran, and as the agent's if it was
// found while commands ran or right after one: nobody can tell who wrote a file. For the same
// reason, a tracker does not distinguish the commands of several agents. The nodes of all agents
// say how the files were, and not which agent changed them.
type tracker struct {
	trackerConfig
	repo gitRepo

	running atomic.Int64 // commands
	owed    atomic.Bool  // a command has ended that no walk has followed

	turn *semaphore.Weighted // guards the fields below

	files   map[string]*trackedFile
	changed list.List // of tracked files, the last change at the back
	seq     int64
	walks   int  // the number of the last walk
	partial bool // the last walk did not see everything
	skipped map[string]bool
	busy    map[string]int // names that a plan is about to change
	told    map[string]string

	mu     sync.Mutex // guards stored and the budget, which are used by several goroutines
	stored map[Hash]bool
}

// trackedFile is what is known of a name.
type trackedFile struct {
	path  string
	state FileState
	sign  signature
	walk  int           // the last walk that found it
	seq   int64         // of the last change, if it is tracked
	elem  *list.Element // in changed
	seen  bool          // state is known
	shown bool          // it is tracked
}

// signature tells whether a file may have changed.
type signature struct {
	mode         fs.FileMode
	size         int64
	mtime, ctime int64
	inode        uint64
	at           int64 // when the file was looked at, before its content was read
}

// same reports whether a file shows no change. That does not mean that there was none: a file that was
// changed just before it was read could have been changed once more without a new time: the clock
// of a file system has ticks.
func (s signature) same(now signature) bool {
	s.at = now.at
	return s == now
}

// unchanged reports whether there was no change for sure.
func (s signature) unchanged(now signature) bool {
	last := s.ctime
	if last == 0 {
		last = s.mtime
	}
	tick := int64(20 * time.Millisecond)
	if last%int64(time.Second) == 0 {
		tick = int64(2 * time.Second)
	}
	return s.same(now) && last+tick < s.at
}

func sign(info fs.FileInfo) signature {
	s := signature{mode: info.Mode(), size: info.Size(), mtime: info.ModTime().UnixNano(),
		at: time.Now().UnixNano()}
	s.inode, s.ctime = inodeOf(info)
	return s
}

// newTracker returns a tracker of a workspace.
func newTracker(c trackerConfig) *tracker {
	c.entries, c.count = cmp.Or(c.entries, defaultEntries), cmp.Or(c.count, defaultCount)
	c.bytes, c.size = cmp.Or(c.bytes, defaultBytes), cmp.Or(c.size, defaultSize)
	t := &tracker{trackerConfig: c, turn: semaphore.NewWeighted(1), files: map[string]*trackedFile{},
		skipped: map[string]bool{}, busy: map[string]int{}, told: map[string]string{},
		stored: map[Hash]bool{}, repo: gitRepo{dir: c.fs.Dir()}}
	for name, s := range c.known {
		if unspeakable(name) {
			continue
		}
		t.files[name] = &trackedFile{path: name, state: s, seen: true, shown: true}
		for s := &s; s != nil; s = s.First {
			t.stored[s.Hash] = t.stored[s.Hash] || s.Git == ""
		}
	}
	return t
}

func (t *tracker) lock(ctx context.Context) error {
	if t.turn.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
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

// An author is who has changed a file.
type author int

const (
	byUser author = iota
	byAgent
)

// now returns who has made a change that is found now.
func (t *tracker) now() author {
	if t.running.Load() > 0 || t.owed.Load() {
		return byAgent
	}
	return byUser
}

// note records the state of a file. Track says that nodes mention the file from now on, as they do
// if the agent has changed it.
func (t *tracker) note(f *trackedFile, now FileState, by author, track bool) {
	if !f.seen && by == byUser { // it may have been there for long
		f.state = now
	}
	f.seen = true
	was := f.state
	now.First, now.Own, now.Back = was.First, was.Own, was.Back
	if was.same(now) {
		if now.Git != "" && was.Git == "" && was.NotHeld == "" {
			now.Git = ""
		}
		f.state = now
		if track && !f.shown {
			t.track(f, now)
		}
		return
	}
	if t.busy[f.path] > 0 {
		by = byAgent
	}
	now.Back = false
	now.Own = by == byAgent && (was.Own || was.Kind == "" && was.NotHeld == "")
	f.state = now
	switch {
	case f.shown:
		t.bump(f)
	case track || by == byAgent:
		t.track(f, was)
	}
}

// track makes nodes mention a file. First is the state that it had before.
func (t *tracker) track(f *trackedFile, first FileState) {
	first.First, first.Own, first.Back = nil, false, false
	f.state.First, f.shown = &first, true
	t.bump(f)
}

func (t *tracker) bump(f *trackedFile) {
	t.seq++
	f.seq = t.seq
	if f.elem == nil {
		f.elem = t.changed.PushBack(f)
	} else {
		t.changed.MoveToBack(f.elem)
	}
}

// delta returns the state of all files that changed after the mark that the previous call has
// returned, which is 0 at first. Each branch of the session keeps a separate mark. If a name is
// not valid UTF-8, its key is the name in quotes.
func (t *tracker) delta(ctx context.Context, mark int64) (map[string]FileState, int64, error) {
	if err := t.lock(ctx); err != nil {
		return nil, mark, err
	}
	defer t.turn.Release(1)
	if t.now() == byAgent {
		if err := t.walk(ctx, byAgent); err != nil {
			return nil, mark, err
		}
	}
	if err := t.trackShown(ctx); err != nil {
		return nil, mark, err
	}
	out := map[string]FileState{}
	for e := t.changed.Back(); e != nil; e = e.Prev() {
		f := e.Value.(*trackedFile)
		if f.seq <= mark {
			break
		}
		out[keyOf(f.path)] = f.state
	}
	return out, t.seq, nil
}

// keyOf returns the key of a name in a delta.
func keyOf(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

// unspeakable reports whether the key of a delta stands for a name that is not valid UTF-8.
func unspeakable(key string) bool {
	name, err := strconv.Unquote(key)
	return err == nil && !utf8.ValidString(name)
}

// keeps reports whether the tracker relies on an object, although perhaps no node mentions it: the
// content of a file before a command that has not changed it.
func (t *tracker) keeps(hash Hash) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stored[hash]
}

// refresh looks at all tracked files, and stores what the user has changed.
func (t *tracker) refresh(ctx context.Context) error {
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.turn.Release(1)
	if t.now() == byAgent {
		return t.walk(ctx, byAgent)
	}
	if err := t.repo.load(ctx); err != nil {
		return err
	}
	for _, f := range t.files {
		if f.shown {
			if err := t.look(ctx, f.path, byUser, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// pin makes nodes mention a file, as if the model had read it.
func (t *tracker) pin(ctx context.Context, name string) error {
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.turn.Release(1)
	rel, err := t.fs.Resolve(name)
	if err == nil {
		err = t.look(ctx, rel, t.now(), true)
	}
	return err
}

// look finds out what has become of a name.
func (t *tracker) look(ctx context.Context, name string, by author, track bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := t.file(name)
	info, err := t.fs.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		f.sign = signature{}
		t.note(f, FileState{}, by, track)
		return nil
	}
	if err != nil {
		t.note(f, FileState{Kind: KindOther, NotHeld: err.Error()}, by, track)
		return nil
	}
	s := sign(info)
	if f.sign.unchanged(s) && f.state.NotHeld == "" {
		t.note(f, f.state, by, track)
		return nil
	}
	got, err := t.capture(ctx, name, info, &budget{count: 1, bytes: maxPlanned, size: maxPlanned})
	if err != nil {
		return err
	}
	t.found(f, s, got, by, track)
	return nil
}

// found notes a state that was captured.
func (t *tracker) found(f *trackedFile, s signature, got FileState, by author, track bool) {
	if f.sign.same(s) && f.state.NotHeld != "" && got.NotHeld == "" { // there was no room for it before
		got.First, got.Own, got.Back = f.state.First, f.state.Own, f.state.Back
		if f.state = got; f.shown {
			t.bump(f)
		}
	}
	f.sign = s
	t.note(f, got, by, track)
}

// dirsAbove calls do for each directory above a name, from the bottom.
func dirsAbove(name string, do func(dir string) bool) {
	for dir := path.Dir(name); dir != "." && dir != "/" && do(dir); dir = path.Dir(dir) {
	}
}
