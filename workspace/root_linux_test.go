package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoRoots is a workspace "ws" with a further root "lib", beside a directory "out".
func twoRoots(t *testing.T, opts ...Option) (w *Workspace, base string) {
	t.Helper()
	base = t.TempDir()
	for name, text := range map[string]string{
		"ws/a": "A\n", "ws/d/b": "B\n", "lib/a": "LA\n", "lib/src/c": "C\n", "out/secret": "SECRET", "lib/.env": "SECRET",
		"ws/lib:x": "COLON\n", "ws/lib:/a": "HIDDEN\n", "ws/other:/f": "HIDDEN\n", "lib/x": "X\n",
	} {
		full := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	w, err := Open(base+"/ws", append([]Option{WithRoot("lib", base+"/lib")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w, base
}

func read(w *Workspace, name string) (string, error) {
	data, err := w.readLarge(name)
	return string(data), err
}

func namesIn(t *testing.T, w *Workspace, dir string) (all []string) {
	t.Helper()
	entries, err := w.ReadDir(t.Context(), dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func apply(t *testing.T, w *Workspace, edits ...edit.File) (*edit.Result, error) {
	t.Helper()
	plan, err := edit.NewPlan(edits...)
	require.NoError(t, err)
	return w.Apply(t.Context(), plan)
}

func TestRootNames(t *testing.T) {
	w, base := twoRoots(t)
	for _, tt := range []struct{ name, rel, text, kind string }{
		{"a", "a", "A\n", ""},
		{"lib:/a", "lib:/a", "LA\n", ""},
		{"lib:/src/../a", "lib:/a", "LA\n", ""},
		{"lib://src///c", "lib:/src/c", "C\n", ""},
		{base + "/lib/src/c", "lib:/src/c", "C\n", ""},
		{base + "/ws/d/b", "d/b", "B\n", ""},
		{base + "/ws/../lib/a", "lib:/a", "LA\n", ""},
		{"lib:x", "lib:x", "COLON\n", ""}, // a file of the first root
		{"./lib:x", "lib:x", "COLON\n", ""},
		{"./lib:/a", "", "", "invalid_path"},
		{"d/../lib:/a", "", "", "invalid_path"},
		{base + "/ws/lib:/a", "", "", "invalid_path"}, // of the first root, and not that of another
		{"lib:", "lib:", "", "is_directory"},
		{"lib:/", "lib:", "", "is_directory"},
		{base + "/lib", "lib:", "", "is_directory"},
		{"lib:/.env", "lib:/.env", "", "sensitive_path"},
		{"lib:/missing", "lib:/missing", "", "not_found"},
		{"lib:" + base + "/lib/a", "lib:" + base + "/lib/a", "", "not_found"}, // no absolute path
		{"Lib:/a", "", "", "no_root"},
		{"other:/f", "", "", "no_root"}, // whether or not there is such a directory
		{"lib:/..", "", "", "outside_workspace"},
		{"lib:/../a", "", "", "outside_workspace"},
		{"lib:/../ws/a", "", "", "outside_workspace"},
		{"lib:/src/../../lib/a", "", "", "outside_workspace"},
		{"lib:/../lib:/a", "", "", "outside_workspace"},
		{"../lib/a", "", "", "outside_workspace"},
		{base + "/out/secret", "", "", "outside_workspace"},
		{base + "/lib2", "", "", "outside_workspace"},
		{"lib:/\x00", "", "", "invalid_path"},
		{"lib:/" + strings.Repeat("d/", 600), "", "", "invalid_path"},
	} {
		rel, err := w.Rel(tt.name)
		text, errRead := read(w, tt.name)
		if tt.rel == "" {
			assert.Equal(t, tt.kind, kindOf(err), "Rel(%q) = %q", tt.name, rel)
		}
		assert.Equal(t, tt.rel, rel, "Rel(%q)", tt.name)
		assert.Equal(t, []string{tt.text, tt.kind}, []string{text, kindOf(errRead)}, "Open(%q): %v", tt.name, errRead)
		if err == nil {
			again, err := w.Rel(rel)
			require.NoError(t, err)
			assert.Equal(t, rel, again, "Rel is the same for its result")
		}
	}
	assert.Equal(t, []string{"a", "d", "lib:", "lib:x", "other:"}, namesIn(t, w, "."))
	assert.Equal(t, []string{".env", "a", "src", "x"}, namesIn(t, w, "lib:"))
	assert.Equal(t, []Root{{"", base + "/ws"}, {"lib", base + "/lib"}}, w.Roots())
	info, err := w.Lstat("lib:")
	require.NoError(t, err)
	assert.True(t, info.IsDir())
}

// Without further roots a name of that form is one that the workspace does not have.
func TestNoRoots(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"lib:/a": "A", "lib:x": "X", "alone:": "ALONE", "d/lib:/a": "DEEP"})
	for name, kind := range map[string]string{"lib:/a": "no_root", "lib:": "is_directory", "alone:": "", "lib:x": "", "d/lib:/a": "", "C:/a": "not_found"} {
		_, err := read(w, name)
		assert.Equal(t, kind, kindOf(err), name)
	}
	_, err := apply(t, w, edit.File{Path: "lib:/b", Kind: edit.Create, Proposed: "x"})
	assert.Equal(t, "no_root", kindOf(err))
	assert.NoFileExists(t, dir+"/lib:/b")
	assert.Equal(t, []string{"alone:", "d", "lib:", "lib:x"}, namesIn(t, w, "."))
	rel, err := RelIn("lib:/a", dir)
	assert.Equal(t, "no_root", kindOf(err), rel)
}

func TestRootOptions(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"ws/in/deep", "lib/in", "Other", "file-dir"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, name), 0o755))
	}
	require.NoError(t, os.WriteFile(base+"/file", nil, 0o644))
	require.NoError(t, os.Symlink("ws/in", base+"/link-in"))
	require.NoError(t, os.Symlink("lib", base+"/link-lib"))
	for what, opts := range map[string][]Option{
		"the same":            {WithRoot("lib", base+"/ws")},
		"the same by a link":  {WithRoot("lib", base+"/lib"), WithRoot("ll", base+"/link-lib")},
		"below":               {WithRoot("lib", base+"/ws/in")},
		"below by a link":     {WithRoot("lib", base+"/link-in/deep")},
		"around":              {WithRoot("lib", base)},
		"the root of all":     {WithRoot("lib", "/")},
		"two that nest":       {WithRoot("lib", base+"/lib"), WithRoot("in", base+"/lib/in")},
		"two of one name":     {WithRoot("lib", base+"/lib"), WithRoot("lib", base+"/Other")},
		"two names, one case": {WithRoot("lib", base+"/lib"), WithRoot("LIB", base+"/Other")},
		"missing":             {WithRoot("lib", base+"/missing")},
		"a file":              {WithRoot("lib", base+"/file")},
		"a drive":             {WithRoot("C", base+"/lib")},
		"no name":             {WithRoot("", base+"/lib")},
		"dots":                {WithRoot("..", base+"/lib")},
		"a slash":             {WithRoot("a/b", base+"/lib")},
		"a colon":             {WithRoot("lib:", base+"/lib")},
		"a blank":             {WithRoot("my lib", base+"/lib")},
		"an option":           {WithRoot("-lib", base+"/lib")},
		"an invisible":        {WithRoot("li\u200bb", base+"/lib")},
		"a control":           {WithRoot("lib\x1b[2J", base+"/lib")},
		"long":                {WithRoot(strings.Repeat("x", 65), base+"/lib")},
	} {
		w, err := Open(base+"/ws", opts...)
		e, ok := errors.AsType[*aycoder.ConfigError](err)
		if assert.True(t, ok, "%s: %v", what, err) {
			assert.Equal(t, "WithRoot", e.Option, what)
		}
		assert.Nil(t, w, what)
	}
	w, err := Open(base+"/ws", WithRoot("lib", base+"/link-lib"), WithRoot("other", base+"/Other"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

func TestRootName(t *testing.T) {
	for dir, want := range map[string]string{
		"/a/lib": "lib", "/a/my lib": "my-lib", "/a/lib.git": "lib.git", "/a/2do": "do", "/a/.config": "config", "/": "dir", "/a/C": "dir",
		"/a/日本": "dir", "/a/x\x1b[2J": "x--2J", "/a/lib:": "lib", "/a/" + strings.Repeat("x", 200): strings.Repeat("x", 60), "": "dir", "/a/--": "dir",
	} {
		assert.Equal(t, want, RootName(dir), "%q", dir)
	}
}

// No link leads from one root to another, whoever puts it there.
func TestRootLinks(t *testing.T) {
	w, base := twoRoots(t)
	for name, to := range map[string]string{
		"ws/rel": "../lib", "ws/abs": base + "/lib", "ws/file": "../lib/a", "ws/colon": "lib:/a", "ws/new": "../lib/new",
		"lib/rel": "../ws", "lib/abs": base + "/ws/a", "lib/new": "../ws/new2", "lib/out": "../out", "lib/in": "src/c", "lib/colon": "lib:/a",
		"lib/envlink": ".env", "ws/up": "d/../../lib/a",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(base, name)))
	}
	before, _ := tree(t, base)
	for _, name := range []string{"rel/a", "abs/a", "file", "up", "lib:/rel/a", "lib:/abs", "lib:/out/secret", "rel/../../lib/a"} {
		text, err := read(w, name)
		assert.Equal(t, "outside_workspace", kindOf(err), "%s: %q", name, text)
		_, err = apply(t, w, edit.File{Path: name, Kind: edit.Change, Base: "A\n", Proposed: "evil\n"})
		assert.Equal(t, "outside_workspace", kindOf(err), name)
	}
	for _, name := range []string{"new", "lib:/new", "rel/n", "lib:/rel/n", "lib:/out/n"} {
		_, err := apply(t, w, edit.File{Path: name, Kind: edit.Create, Proposed: "evil\n"})
		assert.Equal(t, "outside_workspace", kindOf(err), name)
	}
	for _, name := range []string{"rel", "abs", "lib:/rel", "lib:/out"} {
		_, err := w.ReadDir(t.Context(), name)
		assert.Equal(t, "outside_workspace", kindOf(err), name)
		_, err = w.Resolve(name + "/a")
		assert.Equal(t, "outside_workspace", kindOf(err), name)
	}
	// The target of a link is a name of the system, and no path of the workspace.
	text, err := read(w, "colon")
	require.NoError(t, err)
	assert.Equal(t, "HIDDEN\n", text)
	_, err = read(w, "lib:/colon")
	assert.Equal(t, "not_found", kindOf(err))
	text, err = read(w, "lib:/in")
	require.NoError(t, err)
	assert.Equal(t, "C\n", text)
	_, err = read(w, "lib:/envlink")
	assert.Equal(t, "sensitive_path", kindOf(err))
	final, err := w.Resolve("lib:/in")
	require.NoError(t, err)
	assert.Equal(t, "lib:/src/c", final)
	after, _ := tree(t, base)
	assert.Equal(t, before, after)
}

func TestRootGuards(t *testing.T) {
	w, base := twoRoots(t, WithAllowed("*.key", "*/k.key", "?[:a-z]*/s.key", "lib:/ok.pem"))
	before, _ := tree(t, base)
	for name, kind := range map[string]string{
		"lib:/.env": "sensitive_path", "lib:/k.key": "sensitive_path", "lib:/s.key": "sensitive_path", "lib:/.git/config": "protected_path", "lib:/.git/hooks/x": "protected_path",
		"lib:/AGENTS.md": "protected_path", "lib:/.github/workflows/x.yml": "protected_path", "lib:/.vscode/tasks.json": "protected_path",
		"lib:": "protected_path", "lib:/src": "is_directory",
	} {
		_, err := apply(t, w, edit.File{Path: name, Kind: edit.Create, Proposed: "x\n"})
		if e, ok := errors.AsType[*edit.ConflictError](err); ok {
			assert.Equal(t, edit.OutcomeKindChanged, e.Files[0].Outcome, name)
			assert.Equal(t, "is_directory", kind, name)
			continue
		}
		assert.Equal(t, kind, kindOf(err), "%s: %v", name, err)
	}
	after, _ := tree(t, base)
	assert.Equal(t, before, after)
	for _, name := range []string{"x.key", "lib:/ok.pem"} {
		_, err := apply(t, w, edit.File{Path: name, Kind: edit.Create, Proposed: "x\n"})
		require.NoError(t, err, name)
	}
	// A bare repository is one in its own root only.
	for _, dir := range []string{"ws/HEAD", "ws/objects", "ws/refs"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, dir), 0o755))
	}
	_, err := apply(t, w, edit.File{Path: "lib:/free", Kind: edit.Create, Proposed: "x\n"})
	require.NoError(t, err)
	_, err = apply(t, w, edit.File{Path: "held", Kind: edit.Create, Proposed: "x\n"})
	assert.Equal(t, "protected_path", kindOf(err))
}

// A plan over several roots is carried out as a whole.
func TestRootApply(t *testing.T) {
	w, base := twoRoots(t)
	move := []edit.File{ // from one root to another
		{Path: "a", Kind: edit.Delete, Base: "A\n"}, {Path: "lib:/moved/a", Kind: edit.Create, Proposed: "A\n"},
		{Path: "lib:/a", Kind: edit.Change, Base: "LA\n", Proposed: "LA2\n"},
	}
	before, _ := tree(t, base)
	require.NoError(t, os.WriteFile(base+"/lib/a", []byte("the user's\n"), 0o644))
	_, err := apply(t, w, move...)
	_, conflict := errors.AsType[*edit.ConflictError](err)
	require.True(t, conflict, "%v", err)
	require.NoError(t, os.WriteFile(base+"/lib/a", []byte("LA\n"), 0o644))
	now, temps := tree(t, base)
	assert.Equal(t, before, now)
	assert.Zero(t, temps)
	assert.NoDirExists(t, base+"/lib/moved")

	r, err := apply(t, w, move...)
	require.NoError(t, err)
	assert.Equal(t, "lib:/moved/a", r.Files[1].Path)
	now, _ = tree(t, base)
	assert.Equal(t, "A\n", now["lib/moved/a"])
	assert.NotContains(t, now, "ws/a")
	_, err = w.Apply(t.Context(), r.Undo())
	require.NoError(t, err)
	now, _ = tree(t, base)
	assert.Equal(t, before, now)

	_, err = apply(t, w, edit.File{Path: "lib:/a", Kind: edit.Change, Base: "LA\n", Proposed: "1\n"},
		edit.File{Path: base + "/lib/a", Kind: edit.Change, Base: "LA\n", Proposed: "2\n"})
	assert.Equal(t, "invalid_path", kindOf(err), "the same file twice")
	plan, err := edit.NewPlan(edit.File{Path: "lib:/../a", Kind: edit.Change, Base: "A\n", Proposed: "x\n"})
	if err == nil {
		_, err = w.Apply(t.Context(), plan)
	}
	assert.Equal(t, "outside_workspace", kindOf(err), "a plan does not lead to another root by two dots")
	now, _ = tree(t, base)
	assert.Equal(t, before, now)
}

func TestRootRestore(t *testing.T) {
	w, base := twoRoots(t)
	file := func(text string) Version { return Version{Exists: true, Mode: 0o644, Content: text} }
	dir := Version{Exists: true, Mode: fs.ModeDir | 0o755}
	there := []Restoration{
		{"lib:/n", Version{}, dir}, {"lib:/n/f", Version{}, file("N\n")}, {"lib:/a", file("LA\n"), file("LA2\n")}, {"a", file("A\n"), Version{}},
		{"lib:/l", Version{}, Version{Exists: true, Mode: fs.ModeSymlink, Content: "../ws"}},
	}
	before, _ := tree(t, base)
	_, err := w.Restore(t.Context(), append(there, Restoration{"d/b", file("B\n"), Version{}}, Restoration{"lib:", dir, Version{}}))
	assert.Equal(t, "protected_path", kindOf(err))
	now, _ := tree(t, base)
	assert.Equal(t, before, now)
	_, err = w.Restore(t.Context(), there)
	require.NoError(t, err)
	now, _ = tree(t, base)
	assert.Equal(t, "N\n", now["lib/n/f"])
	var back []Restoration
	for _, r := range there {
		back = append(back, Restoration{r.Path, r.To, r.From})
	}
	_, err = w.Restore(t.Context(), back)
	require.NoError(t, err)
	now, temps := tree(t, base)
	assert.Equal(t, before, now)
	assert.Zero(t, temps)
	assert.NoDirExists(t, base+"/lib/n")
}

// If a directory is gone, the error for its files says so, and the other roots go on.
func TestRootGone(t *testing.T) {
	for what, vanish := range map[string]func(base string) error{
		"removed": func(base string) error { return os.RemoveAll(base + "/lib") },
		"moved":   func(base string) error { return os.Rename(base+"/lib", base+"/elsewhere") },
		"replaced": func(base string) error {
			return errors.Join(os.Rename(base+"/lib", base+"/old"), os.Rename(base+"/out", base+"/lib"))
		},
		"a link": func(base string) error {
			return errors.Join(os.Rename(base+"/lib", base+"/old"), os.Symlink("out", base+"/lib"))
		},
		"a file": func(base string) error {
			return errors.Join(os.RemoveAll(base+"/lib"), os.WriteFile(base+"/lib", nil, 0o644))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, base := twoRoots(t)
			require.NoError(t, vanish(base))
			before, _ := tree(t, base)
			_, err := w.Open("lib:/a")
			assert.Equal(t, "no_root", kindOf(err))
			assert.NotErrorIs(t, err, fs.ErrNotExist)
			for _, name := range []string{"lib:", "lib:/src"} {
				_, err = w.ReadDir(t.Context(), name)
				assert.Equal(t, "no_root", kindOf(err))
				_, err = w.Lstat(name)
				assert.Equal(t, "no_root", kindOf(err))
			}
			_, err = apply(t, w, edit.File{Path: "a", Kind: edit.Change, Base: "A\n", Proposed: "A2\n"},
				edit.File{Path: "lib:/n", Kind: edit.Create, Proposed: "N\n"})
			assert.Equal(t, "no_root", kindOf(err))
			_, err = w.Restore(t.Context(), []Restoration{{"a", Version{true, 0o644, "A\n"}, Version{}}, {"lib:/n", Version{}, Version{true, 0o644, "N\n"}}})
			assert.Equal(t, "no_root", kindOf(err))
			now, _ := tree(t, base)
			assert.Equal(t, before, now)
			rel, err := w.Rel("lib:/a")
			require.NoError(t, err, "a name is one without the files")
			assert.Equal(t, "lib:/a", rel)
			_, err = apply(t, w, edit.File{Path: "a", Kind: edit.Change, Base: "A\n", Proposed: "A2\n"})
			require.NoError(t, err)
			assert.Contains(t, namesIn(t, w, "."), "lib:")
		})
	}
}

// A plan that a crash left half done waits for the roots that it was in.
func TestInterruptedRoots(t *testing.T) {
	for _, finish := range []bool{false, true} {
		k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false).withRoot(t)
		k.crash(t, "swapped", k.name(2))
		other := k.dir + ".other"
		require.NoError(t, os.Mkdir(other, 0o755))
		before := k.everything(t)
		lib, _ := tree(t, k.lib)
		for _, opts := range [][]Option{nil, {WithRoot("lib", other)}, {WithRoot("other", k.lib)}} {
			w, err := Open(k.dir, opts...)
			require.NoError(t, err)
			plans := w.Interrupted()
			require.Len(t, plans, 1)
			assert.Empty(t, plans[0].Done)
			_, err = plans[0].Finish(t.Context())
			assert.Equal(t, "no_root", kindOf(unwrapped(err)), "%v", err)
			_, err = plans[0].TakeBack(t.Context())
			assert.Equal(t, "no_root", kindOf(unwrapped(err)), "%v", err)
			require.NoError(t, w.Close())
			assert.Equal(t, before, k.everything(t))
			now, _ := tree(t, k.lib)
			assert.Equal(t, lib, now)
			now, _ = tree(t, other)
			assert.Empty(t, now)
		}
		plans := k.reopened(t).Interrupted()
		require.Len(t, plans, 1)
		assert.Equal(t, []string{"d0/f0", "lib:/d1/f1", "d0/f2"}, plans[0].Done)
		do, version := plans[0].TakeBack, 0
		if finish {
			do, version = plans[0].Finish, 1
		}
		_, err := do(t.Context())
		require.NoError(t, err)
		v, even := k.even(t)
		assert.True(t, even)
		assert.Equal(t, version, v)
		assert.Empty(t, k.temps(t))
	}
	// A plan that was not begun leaves a record that nobody removes who does not know its files.
	k := newKilledDir(t, filepath.Join(t.TempDir(), "ws"), false).withRoot(t)
	k.crash(t, "staged", k.name(1))
	temps := k.temps(t)
	require.NotEmpty(t, temps)
	w, err := Open(k.dir)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	assert.Equal(t, temps, k.temps(t))
	k.reopened(t)
	assert.Empty(t, k.temps(t))
}

func unwrapped(err error) error {
	e, _ := errors.AsType[*Error](err)
	if e == nil {
		return err
	}
	return e
}

// Two processes know the same directories by different names. Neither waits for the other for ever.
func TestRootLockOrder(t *testing.T) {
	base := t.TempDir()
	one, two := base+"/one", base+"/two"
	for _, dir := range []string{one, two} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	var wg sync.WaitGroup
	for i, dirs := range [][2]string{{one, two}, {two, one}} {
		w, err := Open(dirs[0], WithRoot("other", dirs[1]), WithPlanRecords(base+"/records"))
		require.NoError(t, err)
		defer w.Close()
		wg.Go(func() {
			for range 100 {
				own := string(rune('x' + i))
				plan, err := edit.NewPlan(edit.File{Path: own, Kind: edit.Create, Proposed: "1\n"},
					edit.File{Path: "other:/" + own, Kind: edit.Create, Proposed: "2\n"})
				var r *edit.Result
				if assert.NoError(t, err) {
					r, err = w.Apply(context.Background(), plan)
				}
				if assert.NoError(t, err) {
					_, err = w.Apply(context.Background(), r.Undo())
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
	now, temps := tree(t, base)
	assert.Empty(t, now)
	assert.Zero(t, temps)
}
