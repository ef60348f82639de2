package workspace

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
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

const restoreChild = "AYCODER_TEST_RESTORE"

// versionsIn reads a directory with the functions of package os.
func versionsIn(dir string) (map[string]Version, error) {
	all := map[string]Version{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		if err != nil || rel == "." {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		v := Version{Exists: true, Mode: info.Mode()}
		switch {
		case v.Mode&fs.ModeSymlink != 0:
			v.Mode = fs.ModeSymlink
			v.Content, err = os.Readlink(name)
		case v.Mode.IsRegular():
			var data []byte
			data, err = os.ReadFile(name)
			v.Content = string(data)
		}
		all[rel] = v
		return err
	})
	return all, err
}

func mustVersions(t *testing.T, dir string) map[string]Version {
	t.Helper()
	all, err := versionsIn(dir)
	require.NoError(t, err)
	return all
}

// restorationsOf returns what turns one tree into another.
func restorationsOf(from, to map[string]Version) []Restoration {
	var all []Restoration
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if from[name] != to[name] {
			all = append(all, Restoration{name, from[name], to[name]})
		}
	}
	return all
}

// disturb makes a random change in a directory.
func disturb(r *rand.Rand, dir string) error {
	names := []string{"a", "b", "c", "d", "e"}
	rel := names[r.IntN(5)]
	for range r.IntN(3) {
		rel = path.Join(rel, names[r.IntN(5)])
	}
	name := filepath.Join(dir, rel)
	parent, err := filepath.EvalSymlinks(filepath.Dir(name))
	if err == nil && parent != filepath.Dir(name) {
		return nil // below a link
	}
	if info, errStat := os.Stat(filepath.Dir(name)); err != nil || errStat != nil || !info.IsDir() {
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
	}
	modes := []fs.FileMode{0o644, 0o755, 0o600, 0o444, 0o700, 0}
	switch r.IntN(9) {
	case 0, 1, 2:
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
		return os.WriteFile(name, fmt.Appendf(nil, "%d\n%s", r.IntN(1000), strings.Repeat("x\x00\xff\n", r.IntN(20))), 0o644)
	case 3:
		return os.RemoveAll(name)
	case 4:
		return errors.Join(os.RemoveAll(name), os.Symlink([]string{"../../outside", "/etc/passwd", "a", ".", "nowhere"}[r.IntN(5)], name))
	case 5:
		return errors.Join(os.RemoveAll(name), os.MkdirAll(filepath.Join(name, names[r.IntN(5)]), 0o755))
	case 6, 7:
		if info, err := os.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return os.Chmod(name, modes[r.IntN(len(modes))])
		}
	case 8:
		return errors.Join(os.RemoveAll(name), os.WriteFile(name, nil, 0o644))
	}
	return nil
}

// Trees of files, links and directories turn into each other, in both directions.
func TestRestoreRandom(t *testing.T) {
	timed.Serial(t)
	if os.Geteuid() != 0 {
		t.Skip("the tree has files without permissions")
	}
	inMemory(t)
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	changed := 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		w, dir := testWorkspace(t, nil)
		for range 12 {
			require.NoError(t, disturb(r, dir))
		}
		a := mustVersions(t, dir)
		for range 1 + r.IntN(15) {
			require.NoError(t, disturb(r, dir))
		}
		b := mustVersions(t, dir)
		option := without(seed%3 == 0, seed%5 == 0)
		if seed%4 == 0 { // another step fails
			n, broken := r.IntN(30), errors.New("broken")
			count := func(c *applyConfig) error {
				c.step = func(string, string) error {
					if n--; n == 0 {
						return broken
					}
					return nil
				}
				return nil
			}
			_, err := w.Restore(t.Context(), restorationsOf(b, a), option, count)
			if err != nil {
				require.ErrorIs(t, err, broken, "seed %d", seed)
				require.Equal(t, b, mustVersions(t, dir), "seed %d: taken back", seed)
			} else {
				require.Equal(t, a, mustVersions(t, dir), "seed %d", seed)
				_, err = w.Restore(t.Context(), restorationsOf(a, b))
				require.NoError(t, err, "seed %d", seed)
			}
		}
		todo := restorationsOf(b, a)
		changed += len(todo)
		res, err := w.Restore(t.Context(), todo, option)
		require.NoError(t, err, "seed %d: %+v", seed, todo)
		require.Equal(t, a, mustVersions(t, dir), "seed %d", seed)
		for _, f := range res.Files {
			require.False(t, f.Stops(), "%+v", f)
		}
		_, err = w.Restore(t.Context(), restorationsOf(a, b), option)
		require.NoError(t, err, "seed %d: %+v", seed, restorationsOf(a, b))
		require.Equal(t, b, mustVersions(t, dir), "seed %d", seed)
	}
	assert.Greater(t, changed, rounds)
	t.Logf("%d trees, %d changes", rounds, changed)
}

// A text that the user saves during a restoration is merged, or everything is taken back.
func TestRestoreBesideUser(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"f": applyBase, "g": "g\n"})
	file := func(text string) Version { return Version{Exists: true, Mode: 0o644, Content: text} }
	old := strings.Replace(applyBase, "one\n", "ONE\n", 1)
	todo := []Restoration{{"f", file(applyBase), file(old)}, {"g", file("g\n"), Version{}}, {"n/l", Version{}, Version{true, fs.ModeSymlink, "x"}}}
	save := func(text string) ApplyOption {
		return at("swap", func() { require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte(text), 0o644)) })
	}
	_, err := w.Restore(t.Context(), todo, save(applyBase+"user\n"))
	require.NoError(t, err)
	now, temps := tree(t, dir)
	assert.Equal(t, old+"user\n", now["f"])
	assert.Zero(t, temps)
	to, err := os.Readlink(filepath.Join(dir, "n/l"))
	require.NoError(t, err)
	assert.Equal(t, "x", to)
	assert.NoFileExists(t, filepath.Join(dir, "g"))

	before := mustVersions(t, dir)
	_, err = w.Restore(t.Context(), []Restoration{
		{"n/l", Version{true, fs.ModeSymlink, "x"}, file("x")},
		{"f", file(old + "user\n"), file("all\nnew\n")},
		{"g", Version{}, file("g\n")},
	}, save("ONE, says the user\n"))
	_, conflict := errors.AsType[*edit.ConflictError](err)
	assert.True(t, conflict, "%v", err)
	v := before["f"]
	v.Content = "ONE, says the user\n"
	before["f"] = v
	assert.Equal(t, before, mustVersions(t, dir))
}

// A restoration does not leave the workspace, and refuses what a plan may not write either.
func TestRestoreStaysInside(t *testing.T) {
	outside := t.TempDir()
	w, dir := testWorkspace(t, map[string]string{"d/f": "f\n", "r/HEAD": "", "r/objects/x": "", "r/refs/x": ""})
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("f\n"), 0o644))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("d", filepath.Join(dir, "in")))
	f := Version{Exists: true, Mode: 0o644, Content: "f\n"}
	for _, name := range []string{"../x", "/etc/x", "out/f", "out/new", "in/f", "in/new", ".git/hooks/x", ".env", "d/.git", "r/x",
		"n\xff", "", ".", "a\x00b", ".aycoder-AAAAAAAAAAAAAAAAAAAAAAAAAA.tmp"} {
		for _, todo := range []Restoration{{name, Version{}, Version{true, 0o644, "new"}}, {name, f, Version{true, 0o644, "new"}}, {name, Version{}, Version{true, fs.ModeSymlink, "x"}}, {name, Version{}, Version{Exists: true, Mode: fs.ModeDir | 0o755}}} {
			before := mustVersions(t, dir)
			_, err := w.Restore(t.Context(), []Restoration{todo})
			require.Error(t, err, "%+v", todo)
			require.Equal(t, before, mustVersions(t, dir))
		}
		_, _ = w.Restore(t.Context(), []Restoration{{name, f, Version{}}})
	}
	for _, v := range []Version{{Mode: 0o644}, {Content: "x"}, {true, fs.ModeSymlink, ""}, {true, fs.ModeDir, "x"}, {true, fs.ModeNamedPipe, ""}, {true, fs.ModeDevice, ""}} {
		_, err := w.Restore(t.Context(), []Restoration{{"x", Version{}, v}})
		require.Error(t, err, "%+v", v)
	}
	assert.Equal(t, map[string]Version{"f": f}, mustVersions(t, outside))
	// A file of the user keeps a directory.
	_, err := w.Restore(t.Context(), []Restoration{{"d", Version{Exists: true, Mode: fs.ModeDir | 0o755}, Version{}}})
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "d/f"))
	assert.NoFileExists(t, filepath.Join(dir, "new"))
}

// There is nothing below a link, and a link is itself.
func TestLstat(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"d/f": "f\n", ".env": "x\n"})
	require.NoError(t, os.Symlink("d", filepath.Join(dir, "l")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	for name, want := range map[string]fs.FileMode{"d/f": 0, "d": fs.ModeDir, "l": fs.ModeSymlink, "out": fs.ModeSymlink, ".env": 0, ".": fs.ModeDir} {
		info, err := w.Lstat(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, info.Mode().Type(), name)
	}
	for _, name := range []string{"l/f", "out/passwd", "d/f/x", "none", "none/x"} {
		_, err := w.Lstat(name)
		assert.Equal(t, string(KindNotFound), kindOf(err), name)
		_, err = w.ReadLink(name)
		assert.Error(t, err, name)
	}
	to, err := w.ReadLink("out")
	require.NoError(t, err)
	assert.Equal(t, "/etc", to)
	_, err = w.ReadLink("d/f")
	assert.Error(t, err)
	final, err := w.Resolve("l/f")
	require.NoError(t, err)
	assert.Equal(t, "d/f", final)
	_, err = w.Resolve("out/passwd")
	assert.Equal(t, string(KindOutsideWorkspace), kindOf(err))
}

// restoreForever is the process that is killed: it turns a tree into another one and back.
func restoreForever(dir string) error {
	w, err := Open(filepath.Join(dir, "ws"), WithPlanRecords(filepath.Join(dir, "records")))
	if err != nil {
		return err
	}
	a, err := versionsIn(filepath.Join(dir, "a"))
	if err != nil {
		return err
	}
	b, err := versionsIn(filepath.Join(dir, "b"))
	if err != nil {
		return err
	}
	now, err := versionsIn(filepath.Join(dir, "ws"))
	if err != nil {
		return err
	}
	tell := func(c *applyConfig) error {
		c.step = func(string, string) error { _, err := os.Stdout.WriteString("."); return err }
		return nil
	}
	for ; ; a, b = b, a {
		if maps.Equal(now, b) {
			continue
		}
		if _, err := w.Restore(context.Background(), restorationsOf(now, b), tell); err != nil {
			return err
		}
		now = b
	}
}

// A process that is killed during a restoration leaves it half done. The next process finishes it
// or takes it back, and may be killed in turn.
func TestRestoreKilled(t *testing.T) {
	timed.Serial(t)
	if os.Geteuid() != 0 {
		t.Skip("the tree has files without permissions")
	}
	kills := 60 // AYCODER_KILLS sets another number
	if n, err := strconv.Atoi(os.Getenv("AYCODER_KILLS")); err == nil {
		kills = n
	} else if testing.Short() {
		kills = 20
	}
	inMemory(t)
	half := 0
	r := rand.New(rand.NewPCG(3, 4))
	for round := 0; round < kills; round += 10 {
		dir := t.TempDir()
		for _, sub := range []string{"a", "ws"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
		}
		for range 15 {
			require.NoError(t, disturb(r, filepath.Join(dir, "a")))
		}
		require.NoError(t, exec.Command("cp", "-a", filepath.Join(dir, "a"), filepath.Join(dir, "b")).Run())
		for range 15 {
			require.NoError(t, disturb(r, filepath.Join(dir, "b")))
		}
		a, b := mustVersions(t, filepath.Join(dir, "a")), mustVersions(t, filepath.Join(dir, "b"))
		if maps.Equal(a, b) {
			continue
		}
		require.NoError(t, exec.Command("cp", "-a", filepath.Join(dir, "a")+"/.", filepath.Join(dir, "ws")).Run())
		for i := range 10 {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), restoreChild+"="+dir)
			killAfter(t, cmd, 1+r.IntN(200), r)
			w, err := Open(filepath.Join(dir, "ws"), WithPlanRecords(filepath.Join(dir, "records")))
			require.NoError(t, err)
			plans := w.Interrupted()
			require.LessOrEqual(t, len(plans), 1)
			for _, p := range plans {
				half++
				require.NotEmpty(t, p.Restores)
				if i%2 == 0 {
					_, err = p.Finish(t.Context())
				} else {
					_, err = p.TakeBack(t.Context())
				}
				require.NoError(t, err, "kill %d, done %q, open %q, of %+v", round+i, p.Done, p.Open, p.Restores)
			}
			require.Empty(t, w.Interrupted())
			require.NoError(t, w.Close())
			now := mustVersions(t, filepath.Join(dir, "ws"))
			if !maps.Equal(now, a) && !maps.Equal(now, b) {
				for _, p := range plans {
					t.Logf("kill %d, recovered %q, done %q, open %q", round+i, p.ID, p.Done, p.Open)
				}
				t.Fatalf("kill %d:\nfrom a: %+v\nfrom b: %+v", round+i, restorationsOf(a, now), restorationsOf(b, now))
			}
		}
	}
	t.Logf("%d kills, %d of them left a restoration half done", kills, half)
	assert.Greater(t, half, kills/10)
}

// A record that somebody else wrote cannot do what a plan cannot do either.
func TestRestoreForgedRecord(t *testing.T) {
	setuid := fs.ModeSetuid | 0o755
	for _, forged := range []recordFile{
		{Edit: edit.File{Path: "x", Kind: edit.Create, Proposed: "#!/bin/sh\n", Mode: setuid}},
		{Edit: edit.File{Path: "x", Kind: edit.Create, Proposed: "x"}, Restore: true, Modes: [2]fs.FileMode{0, fs.ModeNamedPipe}},
		{Edit: edit.File{Path: "x", Kind: edit.Create}, Restore: true, Modes: [2]fs.FileMode{0, fs.ModeSymlink}},
		{Edit: edit.File{Path: "../x", Kind: edit.Create, Proposed: "x"}, Restore: true},
		{Edit: edit.File{Path: ".git/config", Kind: edit.Create, Proposed: "x"}, Restore: true},
	} {
		w, dir := testWorkspace(t, map[string]string{"f": "f\n"})
		r := &planRecord{recordStore: w.records, id: strings.Repeat("C", 26)}
		forged.ID, forged.Sizes = r.id, [2]int{0, len(forged.Edit.Proposed)}
		done := recordFile{ID: r.id, Index: 1, Edit: edit.File{Path: "f", Kind: edit.Create, Proposed: "f\n"}, Sizes: [2]int{0, 2},
			Restore: forged.Restore, Modes: [2]fs.FileMode{0, 0o644}}
		if !forged.Restore {
			done.Modes = [2]fs.FileMode{}
		}
		require.NoError(t, r.begin(recordBegin{Version: recordVersion, Workspace: w.first.real, Files: []recordFile{forged, done}}))
		require.NoError(t, r.file.Close())
		before := mustVersions(t, dir)
		plans := w.Interrupted()
		require.Len(t, plans, 1, "%+v", forged)
		_, err := plans[0].Finish(t.Context())
		require.Error(t, err, "%+v", forged)
		assert.Equal(t, before, mustVersions(t, dir))
		assert.NoFileExists(t, filepath.Join(filepath.Dir(dir), "x"))
	}
	// A restoration gives permissions, and no other mode bits.
	w, dir := testWorkspace(t, nil)
	_, err := w.Restore(t.Context(), []Restoration{{"x", Version{}, Version{true, setuid, "x"}}})
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o755), mustVersions(t, dir)["x"].Mode)
}
