package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// objects is the objects of a journal, in memory.
type objects struct {
	mu  sync.Mutex
	all map[journal.Hash][]byte
	err error
}

func (o *objects) Put(_ context.Context, h journal.Hash, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.all[h] = append([]byte{}, data...)
	return nil
}

func (o *objects) Get(_ context.Context, h journal.Hash) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.all[h]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// holds reports whether any object has the text in it.
func (o *objects) holds(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, data := range o.all {
		if strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}

// filesTest is a workspace with a tracker and a branch of nodes.
type filesTest struct {
	*testing.T
	*Tracker
	files *Files
	dir   string
	lib   string // a further root, if the test has one
	objs  *objects
	now   map[string]State // of the last node
}

func newFilesTest(t *testing.T, files map[string]string) *filesTest {
	t.Helper()
	f := &filesTest{T: t, dir: filepath.Join(t.TempDir(), "ws"), now: map[string]State{},
		objs: &objects{all: map[journal.Hash][]byte{}}}
	require.NoError(t, os.Mkdir(f.dir, 0o755))
	opts := []workspace.Option{workspace.WithPlanRecords(f.dir + ".records")}
	for name, text := range files {
		if f.lib == "" && strings.HasPrefix(name, "lib:/") {
			f.lib = f.dir + ".lib"
			require.NoError(t, os.Mkdir(f.lib, 0o755))
			opts = append(opts, workspace.WithRoot("lib", f.lib))
		}
		f.write(name, text)
	}
	ws, err := workspace.Open(f.dir, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	f.Tracker, f.files = newTracker(ws, f.objs, nil), New(ws)
	f.files.tracker.Store(f.Tracker)
	return f
}

func (f *filesTest) path(name string) string {
	if in, ok := strings.CutPrefix(name, "lib:/"); ok {
		return filepath.Join(f.lib, in)
	}
	return filepath.Join(f.dir, name)
}

// write writes a file as a user does.
func (f *filesTest) write(name, text string) {
	f.Helper()
	require.NoError(f, os.MkdirAll(filepath.Dir(f.path(name)), 0o755))
	require.NoError(f, os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *filesTest) git(args ...string) string {
	f.Helper()
	cmd := exec.CommandContext(f.Context(), "git", args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	require.NoError(f, err, "%s", out)
	return string(out)
}

// commit makes the directory a repository.
func (f *filesTest) commit() {
	f.Helper()
	f.git("init", "-q")
	f.git("add", "-A")
	f.git("commit", "-q", "--allow-empty", "-m", "c")
	if f.lib != "" {
		f.git("-C", f.lib, "init", "-q")
		f.git("-C", f.lib, "add", "-A")
		f.git("-C", f.lib, "commit", "-q", "-m", "lib")
	}
}

// command does something as a command.
func (f *filesTest) command(do func() error) {
	f.Helper()
	_, err := f.files.Exec(execFunc(do)).Run(f.Context(), &tools.ExecCommand{})
	require.NoError(f, err)
}

type execFunc func() error

func (e execFunc) Run(context.Context, *tools.ExecCommand) (*tools.ExecResult, error) {
	return &tools.ExecResult{}, e()
}

// apply applies one edit as a tool does.
func (f *filesTest) apply(edits ...edit.File) {
	f.Helper()
	plan, err := edit.NewPlan(edits...)
	require.NoError(f, err)
	_, err = f.files.Apply(f.Context(), plan)
	require.NoError(f, err)
}

// node returns the states of the files of a new node.
func (f *filesTest) node() map[string]State {
	f.Helper()
	require.NoError(f, f.Refresh(f.Context()))
	f.now = changed(f, f.Tracker, f.now)
	return f.now
}

// changed returns the states of the files of a new node that follows a node with the states was.
func changed(t require.TestingT, tr *Tracker, was map[string]State) map[string]State {
	changes, _, err := tr.Diff(context.Background(), was, tr.ws.Seen())
	require.NoError(t, err)
	now := maps.Clone(was)
	maps.Copy(now, changes)
	return now
}

// goTo checks out a node.
func (f *filesTest) goTo(to map[string]State) []Change {
	f.Helper()
	f.node()
	plan, err := f.Plan(f.Context(), to)
	require.NoError(f, err)
	_, err = f.Checkout(f.Context(), plan)
	if err != nil {
		for _, c := range plan {
			f.Logf("%s %s %s: %s %+v, then %+v", c.Action, c.Path, c.Reason, f.disk()[c.Path].Mode, c.Now, c.Then)
		}
	}
	require.NoError(f, err)
	f.node()
	return plan
}

// disk reads a directory with the functions of package os, without version control.
func (f *filesTest) disk() map[string]workspace.Version {
	f.Helper()
	all := f.diskOf(f.dir, "")
	if f.lib != "" {
		maps.Copy(all, f.diskOf(f.lib, "lib:/"))
	}
	return all
}

func (f *filesTest) diskOf(root, prefix string) map[string]workspace.Version {
	f.Helper()
	all := map[string]workspace.Version{}
	require.NoError(f, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		v := workspace.Version{Exists: true, Mode: info.Mode()}
		switch {
		case v.Mode&fs.ModeSymlink != 0:
			v.Mode = fs.ModeSymlink
			v.Content, err = os.Readlink(name)
		case v.Mode.IsRegular() && info.Size() > 1<<20:
			v.Content = fmt.Sprint(info.Size())
		case v.Mode.IsRegular():
			var data []byte
			data, err = os.ReadFile(name)
			v.Content = string(data)
		}
		all[prefix+rel] = v
		return err
	}))
	return all
}

// disturb makes a random change, as a user or a command does.
func disturb(r *rand.Rand, dir string) error {
	names := []string{"a", "b", "c", "d", "e"}
	rel := names[r.IntN(5)]
	for range r.IntN(3) {
		rel = path.Join(rel, names[r.IntN(5)])
	}
	name := filepath.Join(dir, rel)
	if parent, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil && parent != filepath.Dir(name) {
		return nil // below a link
	}
	for p := filepath.Dir(name); p != dir; p = filepath.Dir(p) {
		if info, err := os.Lstat(p); err == nil && !info.IsDir() {
			if err := os.Remove(p); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	replace := func() error { return os.RemoveAll(name) }
	switch r.IntN(8) {
	case 0, 1, 2:
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			if err := replace(); err != nil {
				return err
			}
		}
		return os.WriteFile(name, fmt.Appendf(nil, "%d\n%s", r.IntN(1000), strings.Repeat("x\x00\xff\n", r.IntN(20))), 0o644)
	case 3:
		return replace()
	case 4:
		return errors.Join(replace(), os.Symlink([]string{"../../outside", "/etc/passwd", "a", ".", "nowhere"}[r.IntN(5)], name))
	case 5:
		return errors.Join(replace(), os.MkdirAll(filepath.Join(name, names[r.IntN(5)]), 0o755))
	case 6, 7:
		if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return os.Chmod(name, []fs.FileMode{0o644, 0o755, 0o600, 0o444, 0o700, 0}[r.IntN(6)])
		}
	}
	return nil
}

// edit changes a random file as a tool of the model does.
func (f *filesTest) edit(r *rand.Rand) {
	f.Helper()
	var names []string
	disk := f.disk()
	for _, name := range slices.Sorted(maps.Keys(disk)) {
		v := disk[name]
		if v.Mode.IsRegular() {
			names = append(names, name)
		}
	}
	e := edit.File{Path: fmt.Sprintf("new%d/f%d", r.IntN(3), r.IntN(5)), Kind: edit.Create, Proposed: fmt.Sprint(r.IntN(1000))}
	if f.lib != "" && r.IntN(2) == 0 {
		e.Path = "lib:/" + e.Path
	}
	if len(names) > 0 && r.IntN(3) > 0 {
		e.Path = names[r.IntN(len(names))]
		e.Kind, e.Base = edit.Change, disk[e.Path].Content
		if r.IntN(4) == 0 {
			e.Kind, e.Proposed = edit.Delete, ""
		}
	}
	plan, err := edit.NewPlan(e)
	require.NoError(f, err)
	_, _ = f.files.Apply(f.Context(), plan) // a file that exists already stays
}

// implied returns what a node says of a file that it does not mention.
func (f *filesTest) implied(from, to map[string]State, name string) (State, bool) {
	if _, known := to[name]; known {
		return to[name], false
	}
	for below, s := range to {
		if strings.HasPrefix(below, name+"/") && s.Kind != "" && from[name].First.Kind != KindDir {
			return State{Kind: KindDir, Mode: 0o755}, true
		}
	}
	for above := path.Dir(name); above != "." && above != "lib:"; above = path.Dir(above) {
		if to[above].First == nil && from[above].First == nil {
			continue
		}
		if is, _ := f.implied(from, to, above); is.Kind != KindDir {
			return State{}, true
		}
	}
	return *from[name].First, true
}

// Random operations of the agent, its commands and the user: a checkout brings back what the node
// says, or names it, and the way back is exact.
func TestFilesModel(t *testing.T) {
	timed.Serial(t)
	if os.Geteuid() != 0 {
		t.Skip("the tree has files without permissions")
	}
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("AYCODER_ROUNDS")); err == nil {
		rounds = n
	}
	type snapshot struct {
		states map[string]State
		disk   map[string]workspace.Version
	}
	checkouts, restored, kept := 0, 0, 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		files := map[string]string{"a/b": "committed\n", "c": "c\n", "d/e/f": "f\n"}
		if seed%3 > 0 {
			maps.Copy(files, map[string]string{"lib:/a/b": "library\n", "lib:/c": "c\n"})
		}
		f := newFilesTest(t, files)
		if seed%2 == 0 {
			f.commit()
		}
		dirs := slices.DeleteFunc([]string{f.dir, f.lib}, func(dir string) bool { return dir == "" })
		anywhere := func() error { return disturb(r, dirs[r.IntN(len(dirs))]) }
		var all []snapshot
		for range 12 {
			for range 1 + r.IntN(3) {
				switch r.IntN(3) {
				case 0:
					require.NoError(t, anywhere())
				case 1:
					f.edit(r)
				case 2:
					f.command(func() error {
						var err error
						for range 1 + r.IntN(6) {
							err = errors.Join(err, anywhere())
						}
						return err
					})
				}
			}
			all = append(all, snapshot{f.node(), f.disk()})
			for name, s := range f.now { // what a node says is so, and it is held
				v := all[len(all)-1].disk[name]
				require.Equal(t, v.Exists, s.Kind != "", "seed %d: %s", seed, name)
				if s.Hash != "" && s.Git == "" {
					require.Equal(t, v.Content, string(f.objs.all[s.Hash]), "seed %d: %s", seed, name)
				}
			}
			if r.IntN(2) > 0 {
				continue
			}
			before, from, to := f.disk(), f.now, all[r.IntN(len(all))]
			changes := map[string]Change{}
			for _, c := range f.goTo(to.states) {
				changes[c.Path] = c
			}
			checkouts++
			restored += len(changes)
			after := f.disk()
			for name := range maps.Keys(from) {
				want, c := to.disk[name], changes[name]
				_, named := changes[name]
				if first, implied := f.implied(from, to.states, name); implied {
					want = versionOf(first, nil)
					want.Content = after[name].Content
					if first.Hash != "" && c.Action != ActionKeep {
						require.Equal(t, first.Hash, journal.HashOf([]byte(want.Content)), "seed %d: %s", seed, name)
					}
				}
				switch {
				case named && c.Action == ActionKeep:
					kept++
				case named && c.Action == ActionRemove && c.Now.Kind == KindDir && after[name].Exists:
					// a directory with something of the user in it
				default:
					require.Equal(t, want, after[name], "seed %d: %s %+v", seed, name, c)

				}
			}
			for name, v := range before { // no other file changes
				if _, named := changes[name]; !named {
					require.Equal(t, v, after[name], "seed %d: %s", seed, name)
				}
			}
			if r.IntN(3) > 0 {
				f.goTo(from)
				require.Equal(t, before, f.disk(), "seed %d: the way back", seed)
			} else {
				all = append(all, snapshot{f.now, f.disk()})
			}
		}
	}
	t.Logf("%d checkouts, %d files restored, %d kept", checkouts, restored, kept)
	assert.Greater(t, checkouts, rounds)
	assert.NotZero(t, kept)
}
