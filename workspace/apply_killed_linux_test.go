package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

const (
	killedChild = "AYCODER_TEST_KILLED"
	killedFiles = 6
)

// killedDir is a workspace whose process is killed: plans change all files from one
// version to the next, and create and delete two others.
// With lib, the files of d1 are in a further root.
type killedDir struct{ dir, records, lib string }

func newKilledDir(t *testing.T, dir string, records bool) killedDir {
	t.Helper()
	k := killedDir{dir: dir}
	if records {
		k.records = k.dir + ".records"
		require.NoError(t, os.Mkdir(k.records, 0o700))
	}
	k.fill(t)
	return k
}

// withRoot returns the same in two roots.
func (k killedDir) withRoot(t *testing.T) killedDir {
	t.Helper()
	k.lib = k.dir + ".lib"
	require.NoError(t, os.RemoveAll(k.dir+"/d1"))
	k.fill(t)
	return k
}

func (k killedDir) fill(t *testing.T) {
	t.Helper()
	require.NoError(t, os.MkdirAll(k.dir+"/d0", 0o755))
	require.NoError(t, os.MkdirAll(filepath.Dir(k.file(1)), 0o755))
	for i := range killedFiles {
		require.NoError(t, os.WriteFile(k.file(i), []byte(k.text(i, 0)), 0o644))
	}
}

// crash lets a process end in the middle of its first plan.
func (k killedDir) crash(t *testing.T, step, name string) {
	t.Helper()
	k.end(t, "exit "+step+" "+name)
}

// end runs a process that ends as it is told.
func (k killedDir) end(t *testing.T, how string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killedChild+"="+how, "AYCODER_TEST_DIR="+k.dir, "AYCODER_TEST_RECORDS="+k.records, "AYCODER_TEST_LIB="+k.lib)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func (k killedDir) file(i int) string {
	name, in := strings.CutPrefix(k.name(i), "lib:/")
	if in {
		return filepath.Join(k.lib, name)
	}
	return filepath.Join(k.dir, name)
}

func (k killedDir) name(i int) string {
	name := fmt.Sprintf("d%d/f%d", i%2, i)
	if k.lib != "" && i%2 == 1 {
		return "lib:/" + name
	}
	return name
}

func (k killedDir) text(i, version int) string {
	return strings.Repeat(fmt.Sprintf("file %d, version %d\n", i, version), 200) + "the\nend\n"
}

func (k killedDir) open() (*Workspace, error) {
	var opts []Option
	if k.records != "" {
		opts = append(opts, WithPlanRecords(k.records))
	}
	if k.lib != "" {
		opts = append(opts, WithRoot("lib", k.lib))
	}
	return Open(k.dir, opts...)
}

// versions returns which version each file is of, as it says in each of its lines, or
// -1 for one that is not there. Lines of a user are left out.
func (k killedDir) versions(t *testing.T) (all [killedFiles + 1]int) {
	t.Helper()
	for i := range all {
		data, err := os.ReadFile(k.file(i))
		if all[i] = -1; errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		text := strings.ReplaceAll(string(data), "user\n", "")
		var file int
		_, err = fmt.Sscanf(text, "file %d, version %d\n", &file, &all[i])
		require.NoError(t, err, "%.60q", text)
		require.True(t, text == k.text(i, all[i]), "file %d is not whole", i)
	}
	return all
}

// even reports whether a plan was done as a whole, and which version it made.
func (k killedDir) even(t *testing.T) (int, bool) {
	all := k.versions(t)
	for _, v := range all[:killedFiles] {
		if v != all[0] {
			return 0, false
		}
	}
	return all[0], (all[killedFiles] < 0) == (all[0]%2 == 0)
}

// plan makes the next version: the last file is there in odd ones only.
func (k killedDir) plan(v int) (edit.Plan, error) {
	var edits []edit.File
	for i := range killedFiles {
		edits = append(edits, edit.File{Path: k.name(i), Kind: edit.Change, Base: k.text(i, v), Proposed: k.text(i, v+1)})
	}
	last := edit.File{Path: k.name(killedFiles), Kind: edit.Create, Proposed: k.text(killedFiles, v+1)}
	if v%2 == 1 {
		last = edit.File{Path: last.Path, Kind: edit.Delete, Base: k.text(killedFiles, v)}
	}
	return edit.NewPlan(append(edits, last)...)
}

// applyForever is the process that is killed. It first recovers what is left, if it is
// told how, and then carries out plans.
func applyForever(how string) error {
	k := killedDir{os.Getenv("AYCODER_TEST_DIR"), os.Getenv("AYCODER_TEST_RECORDS"), os.Getenv("AYCODER_TEST_LIB")}
	w, err := k.open()
	if err != nil {
		return err
	}
	tell := func(c *applyConfig) error {
		c.step = func(step, name string) error {
			if strings.HasSuffix(how, "exit "+step+" "+name) {
				os.Exit(0)
			}
			_, err := os.Stdout.WriteString(".")
			return err
		}
		return nil
	}
	ctx := context.Background()
	for _, p := range w.Interrupted() {
		if strings.HasPrefix(how, "finish") {
			_, err = p.Finish(ctx, tell)
		} else {
			_, err = p.TakeBack(ctx, tell)
		}
		if err != nil {
			return err
		}
	}
	data, err := os.ReadFile(k.file(0))
	var file, v int
	if err == nil {
		_, err = fmt.Sscanf(string(data), "file %d, version %d\n", &file, &v)
	}
	for ; err == nil; v++ {
		var p edit.Plan
		if p, err = k.plan(v); err == nil {
			_, err = w.Apply(ctx, p, tell)
		}
		if err == nil && v%3 == 0 { // and a plan of one file
			p, err = edit.NewPlan(edit.File{Path: "one", Kind: edit.Create, Proposed: "1\n"})
			if err == nil {
				var r *edit.Result
				if r, err = w.Apply(ctx, p, tell); err == nil {
					_, err = w.Apply(ctx, r.Undo(), tell)
				}
			}
		}
	}
	return err
}

// kill starts a process and kills it at a random moment.
func (k killedDir) kill(t *testing.T, how string, r *rand.Rand) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killedChild+"="+how, "AYCODER_TEST_DIR="+k.dir, "AYCODER_TEST_RECORDS="+k.records, "AYCODER_TEST_LIB="+k.lib)
	killAfter(t, cmd, 1+r.IntN(120), r)
}

// killAfter starts a process and kills it after it has taken some steps.
func killAfter(t *testing.T, cmd *exec.Cmd, steps int, r *rand.Rand) {
	t.Helper()
	var says strings.Builder
	cmd.Stderr = &says
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in := bufio.NewReader(out)
	for range steps {
		if _, err := in.ReadByte(); err != nil {
			_ = cmd.Wait()
			t.Fatalf("the process ended: %v: %s", err, says.String())
		}
	}
	// Any moment will do: right after a step, or some milliseconds later.
	for range r.IntN([]int{3_000, 60_000}[r.IntN(2)]) {
		runtime.Gosched()
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

// temps returns what the plans have left.
func (k killedDir) temps(t *testing.T) (all []string) {
	t.Helper()
	for _, dir := range []string{k.dir, k.dir + "/d0", filepath.Dir(k.file(1)), k.records, k.lib} {
		entries, err := os.ReadDir(dir)
		if dir == "" {
			continue
		}
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".aycoder-") {
				all = append(all, filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// A process that carries out plans of several files is killed: what it left half done is
// found and finished, or taken back, by the next one, or by the one after that was
// killed too. AYCODER_KILLS is the number of kills.
func TestApplyKilled(t *testing.T) {
	timed.Serial(t)
	kills, _ := strconv.Atoi(os.Getenv("AYCODER_KILLS"))
	kills = max(kills, 24)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	base := t.TempDir()
	half, left, shown := 0, 0, 0
	for n := range kills {
		k := newKilledDir(t, filepath.Join(base, strconv.Itoa(n)), n%2 == 0)
		if n%4 > 1 {
			k = k.withRoot(t)
		}
		k.kill(t, "apply", r)
		how := []string{"finish", "take back"}[r.IntN(2)]
		if r.IntN(3) == 0 { // and the one that recovers is killed too
			k.kill(t, how, r)
		}
		user := r.IntN(3) == 0
		if user { // the user saves in between
			text, err := os.ReadFile(k.file(0))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(k.file(0), append(text, "user\n"...), 0o644))
		}
		_, even := k.even(t)
		if !even {
			half++
		}
		if len(k.temps(t)) > 0 {
			left++
		}
		w, err := k.open()
		require.NoError(t, err)
		plans := w.Interrupted()
		if user && even {
			// Nothing tells the user's save from a plan that was half done.
			assert.LessOrEqual(t, len(plans), 1)
		} else {
			require.Len(t, plans, map[bool]int{true: 0, false: 1}[even], "kill %d, seed %d: %v", n, seed, k.versions(t))
		}
		shown += shownTemps(t, w, ".", "d0", path.Dir(k.name(1)))
		for _, p := range plans {
			do := p.TakeBack
			if how == "finish" {
				do = p.Finish
			}
			res, err := do(t.Context())
			require.NoError(t, err)
			require.Len(t, res.Files, len(p.Plan.Files()))
		}
		v, even := k.even(t)
		require.True(t, even, "kill %d, seed %d: %v", n, seed, k.versions(t))
		if user {
			text, err := os.ReadFile(k.file(0))
			require.NoError(t, err)
			require.Contains(t, string(text), "user\n")
		}
		require.Empty(t, k.temps(t))
		require.Empty(t, w.Interrupted())
		p, err := k.plan(v)
		require.NoError(t, err)
		_, err = w.Apply(t.Context(), p) // nobody holds a lock
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.RemoveAll(k.dir))
	}
	t.Logf("%s: %d kills: %d between two files, %d left temporary files", fileSystem(t, base), kills, half, left)
	assert.Zero(t, shown)
}

// shownTemps counts the temporary files that a listing shows.
func shownTemps(t *testing.T, w *Workspace, dirs ...string) (n int) {
	for _, dir := range dirs {
		entries, err := w.ReadDir(t.Context(), dir)
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".aycoder-") {
				n++
			}
		}
	}
	return n
}

// reopened opens a workspace after a crash.
func (k killedDir) reopened(t *testing.T) *Workspace {
	t.Helper()
	w, err := k.open()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w
}

// everything returns all files, temporary ones too.
func (k killedDir) everything(t *testing.T) map[string]string {
	t.Helper()
	all, _ := tree(t, k.dir)
	for _, name := range k.temps(t) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		all[name] = string(data)
	}
	return all
}

// A plan that was interrupted is reported and waits until somebody asks, and is not the
// business of anybody while its process lives.
func TestInterruptedWaits(t *testing.T) {
	for _, records := range []bool{false, true} {
		for _, back := range []bool{false, true} {
			k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), records)
			k.crash(t, "swapped", k.name(2))
			before := k.everything(t)
			w := k.reopened(t)
			plans := w.Interrupted()
			require.Len(t, plans, 1)
			p := plans[0]
			assert.Equal(t, []string{k.name(0), k.name(1), k.name(2)}, p.Done)
			assert.Equal(t, []string{k.name(3), k.name(4), k.name(5), k.name(6)}, p.Open)
			want, err := k.plan(0)
			require.NoError(t, err)
			assert.Equal(t, want.Digest(), p.Plan.Digest())
			assert.Equal(t, before, k.everything(t), "nobody asked")

			record, err := filepath.Glob(filepath.Join(map[bool]string{false: k.dir, true: k.records}[records], ".aycoder-*"))
			require.NoError(t, err)
			require.Len(t, record, 1)
			alive, err := os.Open(record[0])
			require.NoError(t, err)
			require.NoError(t, syscall.Flock(int(alive.Fd()), syscall.LOCK_EX))
			assert.Empty(t, w.Interrupted())
			_, err = p.Finish(t.Context())
			require.ErrorContains(t, err, "another process")
			k.reopened(t)
			assert.Equal(t, before, k.everything(t), "its process lives")
			require.NoError(t, alive.Close())

			do, version := p.Finish, 1
			if back {
				do, version = p.TakeBack, 0
			}
			r, err := do(t.Context())
			require.NoError(t, err)
			assert.Len(t, r.Files, killedFiles+1)
			v, even := k.even(t)
			assert.True(t, even)
			assert.Equal(t, version, v)
			assert.Empty(t, k.temps(t))
			_, err = do(t.Context())
			require.Error(t, err)
		}
	}
}

// A process ends while it finishes the deletion that another one had begun.
func TestCrashOfRecovery(t *testing.T) {
	timed.Serial(t)
	for _, records := range []bool{false, true} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), records)
		for i := range killedFiles + 1 {
			require.NoError(t, os.WriteFile(k.file(i), []byte(k.text(i, 1)), 0o644))
		}
		k.crash(t, "swap", k.name(killedFiles))
		k.end(t, "finish, exit exchanged "+k.name(killedFiles))
		assert.NoFileExists(t, k.file(killedFiles))
		assert.NotEmpty(t, k.temps(t))
		assert.Empty(t, k.reopened(t).Interrupted())
		assert.Empty(t, k.temps(t))
		v, even := k.even(t)
		assert.True(t, even)
		assert.Equal(t, 2, v)
	}
}

// A text that a user saves after the crash is merged, or stays as it is.
func TestInterruptedAndSaved(t *testing.T) {
	for _, back := range []bool{false, true} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
		k.crash(t, "swapped", k.name(2))
		require.NoError(t, os.WriteFile(k.file(1), []byte("all is new\n"), 0o644))
		// Somebody who was about to write to the old file when the process ended.
		var out []string
		for _, name := range k.temps(t) {
			if strings.HasPrefix(filepath.Base(name), ".aycoder-") && strings.Contains(name, "-0-1.tmp") {
				out = append(out, name)
			}
		}
		require.Len(t, out, 1)
		f, err := os.OpenFile(out[0], os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		_, err = f.WriteString("late\n")
		require.NoError(t, errors.Join(err, f.Close()))
		w := k.reopened(t)
		plans := w.Interrupted()
		require.Len(t, plans, 1)
		do, version := plans[0].Finish, 1
		if back {
			do, version = plans[0].TakeBack, 0
		}
		r, err := do(t.Context())
		require.NoError(t, err)
		assert.Len(t, r.Files, killedFiles+1)
		for _, f := range r.Files {
			assert.Equal(t, f.Path == k.name(1), f.Outcome == edit.OutcomeConflicted, f.Path)
		}
		for i := range killedFiles {
			want := k.text(i, version)
			switch i {
			case 0:
				want += "late\n"
			case 1:
				want = "all is new\n"
			}
			data, err := os.ReadFile(k.file(i))
			require.NoError(t, err)
			assert.Equal(t, want, string(data))
		}
		assert.Empty(t, k.temps(t))
		assert.Empty(t, w.Interrupted())
	}
}

// A record that came with the files, or leads elsewhere, does no harm.
func TestForgedRecord(t *testing.T) {
	k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
	k.crash(t, "swapped", k.name(2))
	copied := killedDir{dir: k.dir + "-copy"}
	for _, mode := range []os.FileMode{0o644, 0o600, 0o600 | os.ModeSticky} {
		require.NoError(t, exec.CommandContext(t.Context(), "cp", "-a", k.dir, copied.dir).Run())
		record, err := filepath.Glob(copied.dir + "/.aycoder-*")
		require.NoError(t, err)
		data, err := os.ReadFile(record[0])
		require.NoError(t, err)
		data = []byte(strings.ReplaceAll(string(data), k.dir, copied.dir))
		require.NoError(t, os.WriteFile(record[0], data, 0o600))
		require.NoError(t, os.Chmod(record[0], mode))
		before := copied.everything(t)
		w := copied.reopened(t)
		assert.Empty(t, w.Interrupted(), "%v", mode)
		assert.Equal(t, before, copied.everything(t))
		require.NoError(t, os.RemoveAll(copied.dir))
	}

	// One that a command in the workspace wrote, which can make it look like ours.
	for _, name := range []string{"../out", "/etc/x", ".git/hooks/pre-commit", ".env", "link/x", "d0/../../out"} {
		w, dir := testWorkspace(t, map[string]string{"a": "a\n"})
		require.NoError(t, os.Mkdir(dir+"-out", 0o755))
		require.NoError(t, os.Symlink("../ws-out", filepath.Join(dir, "link")))
		r := &planRecord{recordStore: w.records, id: strings.Repeat("A", 26)}
		require.NoError(t, r.begin(recordBegin{Version: recordVersion, Workspace: w.first.real, Files: []recordFile{
			{ID: r.id, Index: 0, Edit: edit.File{Path: "a", Kind: edit.Change, Base: "b\n", Proposed: "a\n"}, Sizes: [2]int{2, 2}},
			{ID: r.id, Index: 1, Edit: edit.File{Path: name, Kind: edit.Create, Proposed: "evil"}, Sizes: [2]int{0, 4}},
			{ID: r.id, Index: 2, Edit: edit.File{Path: "n", Kind: edit.Create, Proposed: "n"}, Sizes: [2]int{0, 1}},
		}}))
		require.NoError(t, r.file.Close())
		plans := w.Interrupted()
		require.Len(t, plans, 1)
		for _, p := range plans {
			_, err := p.Finish(t.Context())
			require.Error(t, err, name)
			_, err = p.TakeBack(t.Context())
			require.Error(t, err, name)
		}
		now, _ := tree(t, filepath.Dir(dir))
		delete(now, "ws/a")
		assert.Empty(t, now, name)
	}
}

// A link that was deleted comes back as a link.
func TestInterruptedLink(t *testing.T) {
	for _, step := range []string{"swapped", "swap"} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
		require.NoError(t, os.WriteFile(k.dir+"/to", []byte(k.text(killedFiles, 1)), 0o644))
		require.NoError(t, os.Symlink("../to", k.file(killedFiles)))
		for i := range killedFiles {
			require.NoError(t, os.WriteFile(k.file(i), []byte(k.text(i, 1)), 0o644))
		}
		k.crash(t, step, k.name(killedFiles))
		plans := k.reopened(t).Interrupted()
		require.Len(t, plans, map[string]int{"swapped": 0, "swap": 1}[step], "the link is the last")
		for _, p := range plans {
			_, err := p.TakeBack(t.Context())
			require.NoError(t, err)
			to, err := os.Readlink(k.file(killedFiles))
			require.NoError(t, err)
			assert.Equal(t, "../to", to)
			v, even := k.even(t)
			assert.True(t, even)
			assert.Equal(t, 1, v)
		}
		assert.Empty(t, k.temps(t))
	}
	// And if others came after it.
	k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), true)
	w, err := k.open()
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, os.Symlink("d0/f0", k.dir+"/a"))
	r := &planRecord{recordStore: w.records, id: strings.Repeat("B", 26)}
	file := func(i int, e edit.File, link string) recordFile {
		return recordFile{ID: r.id, Index: i, Edit: e, Sizes: [2]int{len(e.Base), len(e.Proposed)}, Link: link}
	}
	require.NoError(t, r.begin(recordBegin{Version: recordVersion, Workspace: w.first.real, Files: []recordFile{
		file(0, edit.File{Path: "a", Kind: edit.Delete, Base: k.text(0, 0)}, "d0/f0"),
		file(1, edit.File{Path: k.name(1), Kind: edit.Change, Base: k.text(1, 0), Proposed: "x\n"}, ""),
	}}))
	require.NoError(t, os.Rename(k.dir+"/a", k.dir+"/.aycoder-"+r.id+"-0-1.tmp"))
	require.NoError(t, r.file.Close())
	plans := w.Interrupted()
	require.Len(t, plans, 1)
	_, err = plans[0].TakeBack(t.Context())
	require.NoError(t, err)
	to, err := os.Readlink(k.dir + "/a")
	require.NoError(t, err)
	assert.Equal(t, "d0/f0", to)
	assert.Empty(t, k.temps(t))
}

// A record of which only a part was written is that of a plan that was not begun.
func TestTornRecord(t *testing.T) {
	for _, size := range []int64{0, 1, 1000} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
		k.crash(t, "stage", k.name(0))
		temps := k.temps(t)
		require.Len(t, temps, 1)
		require.NoError(t, os.Truncate(temps[0], size))
		w := k.reopened(t)
		assert.Empty(t, w.Interrupted())
		assert.Empty(t, k.temps(t))
		v, even := k.even(t)
		assert.True(t, even)
		assert.Zero(t, v)
	}
}

// A process that carries out a plan of one file leaves nothing either.
func TestCrashOfOneFile(t *testing.T) {
	for _, step := range []string{"stage", "staged", "swap", "swapped", "look", "commit"} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false)
		k.crash(t, step, "one")
		k.reopened(t)
		assert.Empty(t, k.temps(t), step)
	}
}
