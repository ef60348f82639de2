package workspace

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are what a fuzzer of names starts from.
var names = []string{
	"a", "d/b", "../ws-out", "up/ws-out", "d/../up/../ws-out", "a\x00", "\xff", "in", "ind/b", "chain", "abs", "sec/id",
	"git/config", ".GIT/config", ".g\u200cit/config", "git~1/config", ".env::$DATA", "a/", "a/..", "a/../../ws-out", "ind/../a",
	"x/y/z", "dangling", "loop/x", ".env", "self/self/a", "magic/ws-out", "./.", "~/a", `d\b`, `..\ws-out`, "C:a", "new",
}

// fuzzWorld is a workspace with links of all kinds, beside files that nobody may read.
func fuzzWorld(f *testing.F) (*Workspace, string) {
	f.Helper()
	w, dir := testWorkspace(f, map[string]string{
		"a": "A", "d/b": "B", ".env": "SECRET", ".ssh/id": "SECRET", ".git/config": "C", "server.key": "SECRET",
	})
	require.NoError(f, os.WriteFile(dir+"-out", []byte("OUT"), 0o600))
	for name, to := range map[string]string{
		"up": "..", "in": "d/b", "ind": "d", "chain": "ind/../in", "abs": dir + "/a", "sec": ".ssh", "git": ".git", "self": ".",
		"dangling": "d/new", "far": "../ws-new", "loop": "loop", "magic": "/proc/self/cwd", "d/top": "..", "out": "../ws-out",
	} {
		require.NoError(f, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, s := range names {
		f.Add(s)
		f.Add(dir + "/" + s)
	}
	f.Add(dir)
	f.Add(dir + "-out")
	return w, dir
}

// A path in the workspace is clean, stays within it, and stands for itself.
func FuzzRel(f *testing.F) {
	w, dir := fuzzWorld(f)
	f.Add("A0:/0")
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := w.Rel(name)
		if err != nil {
			require.Contains(t, []string{"invalid_path", "outside_workspace", "no_root"}, kindOf(err))
			require.Less(t, len(err.Error()), 2000)
			return
		}
		require.True(t, filepath.IsLocal(filepath.FromSlash(rel)), rel)
		require.Equal(t, path.Clean(rel), rel)
		require.False(t, path.IsAbs(rel) || rel == ".." || strings.HasPrefix(rel, "../") || strings.Contains(rel, "/../"), rel)
		again, err := w.Rel(rel)
		require.NoError(t, err)
		require.Equal(t, rel, again)
		full := filepath.Join(dir, filepath.FromSlash(rel))
		require.True(t, full == dir || strings.HasPrefix(full, dir+string(filepath.Separator)), full)
		if abs, err := w.Rel(full); err == nil { // it may be too long now
			require.Equal(t, rel, abs)
		}
	})
}

// Every file that is read lies below the directory, and is not secret.
func FuzzWorkspaceOpen(f *testing.F) {
	w, dir := fuzzWorld(f)
	f.Fuzz(func(t *testing.T, name string) {
		file, err := w.Open(name)
		if err != nil {
			require.NotEmpty(t, kindOf(err))
			require.Less(t, len(err.Error()), 2000)
			return
		}
		defer file.Close()
		data, err := io.ReadAll(file)
		require.NoError(t, err)
		require.Contains(t, []string{"A", "B", "C"}, string(data))
		rel, err := w.Rel(name)
		require.NoError(t, err)
		final, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(rel)))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(final, w.first.real+string(filepath.Separator)), final)
	})
}

// Every file that is written lies below the directory too, and outside of protected places.
func FuzzWorkspaceCreate(f *testing.F) {
	w, dir := fuzzWorld(f)
	before := everything(f, filepath.Dir(dir))
	f.Fuzz(func(t *testing.T, name string) {
		if strings.Count(name, "/") > 20 {
			return // slow
		}
		err := create(w, name, "NEW")
		if err != nil {
			require.NotEmpty(t, kindOf(err))
			require.Less(t, len(err.Error()), 2000)
		}
		for p, content := range everything(t, filepath.Dir(dir)) {
			if was, known := before[p]; known {
				require.Equal(t, was, content, p)
				continue
			}
			rel, inside := strings.CutPrefix(p, "ws/")
			require.True(t, inside, p)
			require.False(t, strings.HasPrefix(rel, ".git/") || strings.HasPrefix(rel, ".ssh/"), p)
			require.True(t, content == "NEW" && err == nil || content == "directory", "%s: %s", p, content)
		}
		for p := range everything(t, filepath.Dir(dir)) {
			if _, known := before[p]; !known {
				require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(dir), p)))
			}
		}
	})
}

// everything is what is in a directory, by its path.
func everything(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(dir, p)
		require.NoError(t, err)
		switch {
		case d.IsDir():
			all[rel] = "directory"
		case d.Type().IsRegular():
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			all[rel] = string(data)
		default:
			all[rel] = d.Type().String()
		}
		return nil
	})
	require.NoError(t, err)
	return all
}
