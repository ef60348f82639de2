/*
Package snapshot knows what the files of a workspace were like at certain points, and takes them back. Package session
uses it: a point is a node of a conversation. A host that keeps no sessions can use it to learn which files a run has
changed: see [Files.Watch].

The tools work through [Files], which stores a file before a plan or a command changes it:

	files := snapshot.New(ws)
	list, err := tools.Coding(files, tools.WithExecMiddleware(files.Exec))

With [Files.Attach], the contents are kept in [Objects], and the files can go back to any point:

	t, interrupted, err := files.Attach(ctx, objects, nil)
	…
	states, _, err := t.Diff(ctx, map[string]snapshot.State{}, nil) // a point
	…
	plan, err := t.Plan(ctx, states)
	_, err = t.Checkout(ctx, plan)

A point has a [State] for each file that differs from the point before. Contents are stored once, and not at all if the
commit that is checked out holds them. No change of the user is lost: a [Tracker] stores what the user has
changed before it takes files back, and never removes a file that the user has created or changed.
*/
package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/aycoder/aycoder/journal"
)

// Objects keeps contents by their hashes. The methods must be safe for concurrent use. If Objects also have a method
// Paths() []string, the files and directories with these absolute paths are left alone: see [journal.Store].
type Objects interface {
	// Put stores an object, durably. Storing it again has no effect. If the error is [ErrNoRoom], the content is not held,
	// and everything else goes on.
	Put(ctx context.Context, hash journal.Hash, data []byte) error
	// Get returns an object. If it is missing, errors.Is(err, fs.ErrNotExist) is true.
	Get(ctx context.Context, hash journal.Hash) ([]byte, error)
}

// ErrNoRoom says that a content is not held because of a bound.
var ErrNoRoom = errors.New("there is no room")

// Memory is Objects in memory, up to 64 MiB. The zero value is ready to use.
type Memory struct {
	mu   sync.Mutex
	all  map[journal.Hash][]byte
	size int
}

// maxMemory bounds the objects that a Memory keeps, in bytes.
const maxMemory = 64 << 20

// Put implements [Objects].
func (m *Memory) Put(_ context.Context, hash journal.Hash, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.all[hash] != nil:
		return nil
	case m.size+len(data) > maxMemory:
		return ErrNoRoom
	case m.all == nil:
		m.all = map[journal.Hash][]byte{}
	}
	m.size += len(data)
	m.all[hash] = append([]byte{}, data...)
	return nil
}

// Get implements [Objects].
func (m *Memory) Get(_ context.Context, hash journal.Hash) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data := m.all[hash]; data != nil {
		return bytes.Clone(data), nil
	}
	return nil, fs.ErrNotExist
}

// Kind is the type of what has a name in the workspace.
type Kind string

// The kinds of files. A state of no kind is that of a name of which there is nothing.
const (
	KindFile  Kind = "file"
	KindLink  Kind = "link"
	KindDir   Kind = "dir"
	KindOther Kind = "other" // a pipe, a socket or a device
)

// State is the state of a name in the workspace at some time. The zero State means that
// there was nothing of this name. A point of time is a map of states by path, in which each file has a First.
type State struct {
	Kind Kind `json:"kind,omitempty"`
	// Mode is the permissions of a file or a directory.
	Mode fs.FileMode `json:"mode,omitempty"`
	Size int64       `json:"size,omitempty"`
	// Hash identifies the content of a file, or the target of a link. Git is the name of the blob
	// that has this content in the repository of its root of the workspace, if no object does.
	Hash journal.Hash `json:"hash,omitempty"`
	Git  string       `json:"git,omitempty"`
	// NotHeld says why this state cannot be restored. It is "" if it can be.
	NotHeld string `json:"not_held,omitempty"`
	// Time is when a file was changed whose content is unknown.
	Time time.Time `json:"time,omitzero"`
	// Own says that the agent, or a command of it, has created the file, and that nobody else has
	// changed it since.
	Own bool `json:"own,omitempty"`
	// Back says that a checkout has brought the file back, and that nobody has changed it since. A
	// point at which the file was deleted can then be checked out again.
	Back bool `json:"back,omitempty"`
	// First is the state that the name had when the Tracker first saw it. It counts for all points
	// that do not mention the name.
	First *State `json:"first,omitempty"`
}

// Same reports whether two states look alike to a reader of the files.
func (s State) Same(o State) bool {
	return s.Kind == o.Kind && s.Mode == o.Mode && s.Hash == o.Hash &&
		(s.Hash != "" || s.Size == o.Size && s.NotHeld == o.NotHeld && s.Time.Equal(o.Time))
}

// first returns First, which a record of another program may lack.
func (s State) first() *State {
	return cmp.Or(s.First, &State{Kind: KindOther, NotHeld: "it is unknown"})
}

// AddObjects adds the hashes of the objects that the state and First need, with false for those that git has.
func (s *State) AddObjects(to map[journal.Hash]bool) {
	for ; s != nil; s = s.First {
		to[s.Hash] = to[s.Hash] || s.Git == ""
	}
}
