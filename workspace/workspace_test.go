package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testWorkspace(t testing.TB, files map[string]string, opts ...Option) (*Workspace, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	require.NoError(t, os.Mkdir(dir, 0o755))
	for name, text := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	w, err := Open(dir, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w, dir
}

func kindOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return string(e.Kind)
	}
	return ""
}

func TestWorkspaceRel(t *testing.T) {
	w, dir := testWorkspace(t, nil)
	tests := []struct{ name, want, kind string }{
		{"a", "a", ""},
		{"./a//b/../c", "a/c", ""},
		{".", ".", ""},
		{dir, ".", ""},
		{dir + "/a", "a", ""},
		{dir + "/a/..", ".", ""},
		{"..a/b", "..a/b", ""},
		{"...", "...", ""},
		{"~", "~", ""},
		{"", "", "invalid_path"},
		{"a\x00b", "", "invalid_path"},
		{strings.Repeat("a/", 3000), "", "invalid_path"},
		{"..", "", "outside_workspace"},
		{"a/../../b", "", "outside_workspace"},
		{"/etc/passwd", "", "outside_workspace"},
		{dir + "2/a", "", "outside_workspace"},
		{dir + "/../ws2", "", "outside_workspace"},
	}
	for _, tt := range tests {
		got, err := w.Rel(tt.name)
		assert.Equal(t, tt.kind, kindOf(err), "Rel(%q)", tt.name)
		assert.Equal(t, tt.want, got, "Rel(%q)", tt.name)
	}
}

// A model that sends an empty path reads what to send instead.
func TestWorkspaceRelSaysWhatEmptyShouldBe(t *testing.T) {
	w, _ := testWorkspace(t, nil)
	_, err := w.Rel("")
	require.ErrorContains(t, err, `the directory of the workspace is "."`)
}

func TestWorkspaceOpen(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"a": "A", "d/b": "B", ".env": "S", ".ssh/x": "S", "ok.env.example": "E"},
		WithAllowed("d/*.pem"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d/k.pem"), []byte("K"), 0o600))
	require.NoError(t, os.WriteFile(dir+"-out", []byte("OUT"), 0o600))
	for name, to := range map[string]string{
		"in": "d/b", "indir": "d", "out": "../ws-out", "abs": dir + "/a", "loop": "loop", "secret": ".env",
		"secretdir": ".ssh", "up": "..", "dangling": "nope",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	tests := []struct{ name, want, kind string }{
		{"a", "A", ""},
		{"in", "B", ""},
		{"indir/b", "B", ""},
		{"d/k.pem", "K", ""},
		{"indir/k.pem", "", "sensitive_path"},
		{"out", "", "outside_workspace"},
		{"abs", "", "outside_workspace"},
		{"up/ws-out", "", "outside_workspace"},
		{"loop", "", "invalid_path"},
		{"dangling", "", "not_found"},
		{"missing", "", "not_found"},
		{"a/b", "", "not_directory"},
		{"d", "", "is_directory"},
		{".env", "", "sensitive_path"},
		{".ENV", "", "sensitive_path"},
		{"secret", "", "sensitive_path"},
		{"secretdir/x", "", "sensitive_path"},
		{strings.Repeat("n", 300), "", "invalid_path"},
	}
	for _, tt := range tests {
		f, err := w.Open(tt.name)
		assert.Equal(t, tt.kind, kindOf(err), "Open(%q): %v", tt.name, err)
		if err != nil {
			assert.Less(t, len(err.Error()), 400)
			continue
		}
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(data), "Open(%q)", tt.name)
		require.NoError(t, f.Close())
	}
}

func TestWorkspaceWrite(t *testing.T) {
	tests := []struct {
		name, file string
		create     bool
		old        string
		kind       string
	}{
		{"replace", "a", false, "A", ""},
		{"replace through a link", "link", false, "A", ""},
		{"stale", "a", false, "other", "stale"},
		{"stale, same length", "a", false, "B", "stale"},
		{"replace nothing", "missing", false, "", "not_found"},
		{"create", "x/y/z", true, "", ""},
		{"create through a dangling link", "dangling", true, "", ""},
		{"create what is there", "a", true, "", "stale"},
		{"create on a directory", "d", true, "", "is_directory"},
		{"create below a file", "a/b", true, "", "not_directory"},
		{"outside", "../x", true, "", "outside_workspace"},
		{"outside by a link", "out", true, "", "outside_workspace"},
		{"outside by a directory", "up/x", true, "", "outside_workspace"},
		{"git", ".git/hooks/x", true, "", "protected_path"},
		{"git in capitals", ".GIT/x", true, "", "protected_path"},
		{"git by a link", "gitlink/hooks/x", true, "", "protected_path"},
		{"agents", "AGENTS.md", true, "", "protected_path"},
		{"secret", ".env", true, "", "sensitive_path"},
		{"allowed", ".github/x", true, "", ""},
		{"the directory", ".", true, "", "protected_path"},
		{"the directory by a link", "self", true, "", "protected_path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, dir := testWorkspace(t, map[string]string{"a": "A", "d/b": "B", ".git/config": "C"}, WithAllowed(".github/**", ".git/**"))
			for name, to := range map[string]string{
				"link": "a", "dangling": "d/new", "out": "../out", "up": "..", "gitlink": ".git", "self": ".",
			} {
				require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
			}
			var err error
			if tt.create {
				err = create(w, tt.file, "new")
			} else {
				err = replace(w, tt.file, tt.old, "new")
			}
			require.Equal(t, tt.kind, kindOf(err), "%v", err)
			if err == nil {
				data, err := os.ReadFile(filepath.Join(dir, tt.file))
				require.NoError(t, err)
				assert.Equal(t, "new", string(data))
			}
			info, err := os.Lstat(filepath.Join(dir, "link"))
			require.NoError(t, err)
			assert.NotZero(t, info.Mode()&os.ModeSymlink)
			assert.NoFileExists(t, filepath.Join(filepath.Dir(dir), "out"))
			assert.NoFileExists(t, filepath.Join(filepath.Dir(dir), "x"))
			left, err := filepath.Glob(filepath.Join(dir, ".aycoder-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestErrorText(t *testing.T) {
	w, _ := testWorkspace(t, nil)
	_, err := w.Open("\x1b[31m" + strings.Repeat("x", 4000))
	assert.True(t, strings.HasPrefix(err.Error(), `read "\x1b[31mxxx`), err)
	assert.Less(t, len(err.Error()), 300)
}

func TestOpenRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Open(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
	_, err = Open(t.TempDir(), WithRoot("lib", missing))
	require.ErrorContains(t, err, missing)
	_, err = Open("")
	require.ErrorContains(t, err, `"." is the current directory`)
	_, err = Open(t.TempDir(), WithAllowed("{"))
	require.ErrorContains(t, err, "WithAllowed")
}

// Somebody exchanges a directory and a link that leads out, again and again.
func TestWorkspaceRace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	w, dir := testWorkspace(t, map[string]string{"d/f": "inside"})
	out := dir + "-out"
	require.NoError(t, os.Mkdir(out, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(out, "f"), []byte("SECRET"), 0o644))
	require.NoError(t, os.Symlink("../ws-out", filepath.Join(dir, "s")))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		swap := func(a, b string) { _ = os.Rename(filepath.Join(dir, a), filepath.Join(dir, b)) }
		for !stop.Load() {
			swap("d", "t")
			swap("s", "d")
			swap("d", "s")
			swap("t", "d")
		}
	})
	read, written, tries := 0, 0, 4000
	text, next := "inside", "inside too"
	for range tries {
		if f, err := w.Open("d/f"); err == nil {
			data, err := io.ReadAll(f)
			require.NoError(t, err)
			require.NotEqual(t, "SECRET", string(data))
			f.Close()
			read++
		}
		if err := replace(w, "d/f", text, next); err == nil {
			text, next = next, text
			written++
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d tries beside the exchange: %d read, %d written", tries, read, written)
	data, err := os.ReadFile(filepath.Join(out, "f"))
	require.NoError(t, err)
	assert.Equal(t, "SECRET", string(data))
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// A directory with very many entries is not read whole.
func TestReadDirIsBounded(t *testing.T) {
	w, _ := testWorkspace(t, map[string]string{"d/a": "", "d/b": "", "d/c": "", "d/d": ""})
	entries, err := w.readDir(t.Context(), "d", 3)
	require.Equal(t, "too_large", kindOf(err))
	require.Len(t, entries, 3)
	entries, err = w.readDir(t.Context(), "d", 4)
	require.NoError(t, err)
	require.Len(t, entries, 4)
}

// replace changes a file, or fails with a kind, as one does that merges nothing.
func replace(w *Workspace, name, old, text string) error {
	return applyOne(w, edit.File{Path: name, Kind: edit.Change, Base: old, Proposed: text})
}

// create makes a file, or fails with a kind.
func create(w *Workspace, name, text string) error {
	return applyOne(w, edit.File{Path: name, Kind: edit.Create, Proposed: text})
}

// applyOne carries out a plan of one edit. A conflict has the kind of what stands in the way.
func applyOne(w *Workspace, e edit.File) error {
	if _, err := w.rel("write", e.Path); err != nil { // before a plan makes it clean
		return err
	}
	plan, err := edit.NewPlan(e)
	if err != nil {
		return &Error{"write", e.Path, "invalid_path", err}
	}
	_, err = w.Apply(context.Background(), plan)
	return conflictKind(err)
}

// conflictKind gives a conflict of one file the kind of what stands in its way.
func conflictKind(err error) error {
	c, ok := errors.AsType[*edit.ConflictError](err)
	if !ok {
		return err
	}
	f := c.Files[0]
	kind := KindStale
	switch {
	case f.Outcome == edit.OutcomeGone:
		kind = KindNotFound
	case f.Reason == "is a directory":
		kind = KindIsDirectory
	case f.Reason == "is not a regular file":
		kind = KindNotRegular
	case f.Outcome == edit.OutcomeKindChanged:
		kind = KindNotDirectory
	}
	return &Error{"write", f.Path, kind, errors.New(f.Reason)}
}

func mustPlan(t testing.TB, edits ...edit.File) edit.Plan {
	t.Helper()
	p, err := edit.NewPlan(edits...)
	require.NoError(t, err)
	return p
}

func change(name, base, proposed string) edit.File {
	return edit.File{Path: name, Kind: edit.Change, Base: base, Proposed: proposed}
}
