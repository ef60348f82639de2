package worker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// machineValue is the value of a session that names the machine whose directory has its files.
const machineValue = "worker machine"

// Place is a directory of this machine with a workspace for each session. If a session has worked on another machine since it
// worked here, or never here, its files are laid out from the snapshots in the store: see [session.LayOut].
type Place struct {
	dir, machine string
}

// NewPlace returns the place in a directory. A file in it, .machine, names the machine, which must not be copied to another one.
func NewPlace(dir string) (*Place, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ".machine")
	name, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		name = []byte(strings.ToLower(rand.Text()))
		err = writeNew(path, name)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			name, err = os.ReadFile(path)
		}
	}
	if err == nil && len(name) == 0 {
		err = fmt.Errorf("%s is empty: remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("name the machine: %w", err)
	}
	return &Place{dir, string(name)}, nil
}

// writeNew writes a file, whole, if there is none.
func writeNew(path string, data []byte) error {
	temp := path + strings.ToLower(rand.Text())
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Link(temp, path), os.Remove(temp))
}

// Open opens the runtime of a session in its workspace here. open does so in a directory. A former workspace that another machine has
// made old is moved aside, and nothing in it is removed. A message in the session tells the user and the model which files could
// not be laid out. The machine that had the session before cannot write to it any more, since open has made this process its
// writer: its late results are refused.
func (p *Place) Open(ctx context.Context, store journal.Store, id string, open func(dir string) (*harness.Runtime, error)) (*harness.Runtime, error) {
	if err := journal.CheckID(id); err != nil {
		return nil, err
	}
	dir := filepath.Join(p.dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	rt, err := open(dir)
	if err != nil {
		return nil, err
	}
	before := machineOf(rt)
	if before == p.machine {
		return rt, nil
	}
	if before != "" {
		head, nodes := rt.Session.Head(), rt.Session.View().Len()
		if err := rt.Close(); err != nil {
			return nil, err
		}
		missing, err := p.move(ctx, store, id, dir)
		if err == nil {
			rt, err = open(dir)
		}
		if err != nil {
			return nil, err
		}
		if machineOf(rt) != before || rt.Session.Head() != head { // the files are older than the session
			return nil, errors.Join(fmt.Errorf("another machine has worked on session %s while its files were laid out", id), rt.Close())
		}
		if len(missing) > 0 {
			err = rt.Session.SteerOnce(ctx, fmt.Sprintf("moved-%s-%d", p.machine, nodes), moved(missing), nil, false)
		}
		if err != nil {
			return nil, errors.Join(err, rt.Close())
		}
	}
	data, _ := json.Marshal(p.machine) // a text always encodes
	if err := rt.Session.SetValues(ctx, map[string]json.RawMessage{machineValue: data}); err != nil {
		return nil, errors.Join(err, rt.Close())
	}
	return rt, nil
}

// machineOf returns the machine that has the files of a session, or "".
func machineOf(rt *harness.Runtime) (name string) {
	if data := rt.Session.Value(machineValue); data != nil {
		_ = json.Unmarshal(data, &name) // an unknown one is another one
	}
	return name
}

// move lays out the files of a session beside its directory, which it then replaces. Meanwhile it has the session open for writing, so
// that no other process of this machine does the same.
func (p *Place) move(ctx context.Context, store journal.Store, id, dir string) (missing []snapshot.Change, err error) {
	j, err := store.Open(ctx, id, true)
	if err != nil {
		return nil, err
	}
	fresh := dir + ".new" // no session has such an id
	defer func() { err = errors.Join(err, os.RemoveAll(fresh), j.Close()) }()
	if err := os.RemoveAll(fresh); err != nil { // of a process that was killed
		return nil, err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return nil, err
	}
	ws, err := workspace.Open(fresh)
	if err != nil {
		return nil, err
	}
	missing, err = session.LayOut(ctx, store, id, ws)
	if damage, ok := errors.AsType[*journal.DamageError](err); ok {
		missing = append(missing, snapshot.Change{Path: "(unknown)", Reason: damage.Error()})
		err = nil
	}
	if err = errors.Join(err, ws.Close()); err != nil {
		return nil, err
	}
	if os.Remove(dir) != nil { // it is not empty
		if err := os.Rename(dir, dir+".left-"+strings.ToLower(rand.Text()[:8])); err != nil {
			return nil, err
		}
	}
	return missing, os.Rename(fresh, dir)
}

// moved tells what is missing.
func moved(missing []snapshot.Change) string {
	var b strings.Builder
	b.WriteString("The workspace is on another machine now. Files that no snapshot holds are not here, among them:\n")
	for i, c := range missing {
		if i == 100 {
			fmt.Fprintf(&b, "and %d more\n", len(missing)-i)
			break
		}
		fmt.Fprintf(&b, "- %s: %s\n", c.Path, c.Reason)
	}
	return b.String()
}
