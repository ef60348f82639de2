package workspace

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
)

// hostile is a workspace, opened by a link to it, with all that may lie in one.
func hostile(t *testing.T) (w *Workspace, dir string) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "ws")
	for name, text := range map[string]string{
		"ws/a": "A", "ws/d/b": "B", "ws/.env": "SECRET", "ws/.ssh/id_rsa": "SECRET", "ws/.git/config": "C", "out/secret": "SECRET",
		"ws2/secret": "SECRET", "ws/sub/.git/hooks/x": "H", "ws/nul\nline": "N", "ws/-rf": "D", "ws/a (deleted)": "P",
	} {
		full := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, strings.Repeat("n", 255)), []byte("L"), 0o644))
	for name, to := range map[string]string{
		"self": ".", "up": "..", "fd0": "/proc/self/fd/0", "root": "/proc/self/root", "cwd": "/proc/self/cwd", "dev": "/dev",
		"zero": "/dev/zero", "gitlink": ".git", "envlink": ".env", "sshlink": ".ssh", "chain1": "chain2", "chain2": "self/d/../envlink",
		"back": "../ws/a", "abs": dir + "/a", "d/out": "../../out", "newout": "../out/new", "newin": "d/new", "newgit": ".git/new",
		"empty": "d/", "deep": strings.Repeat("self/", 41) + "a", "loop": "loop/x", "fifolink": "fifo",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "hard")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "sock"), Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.NoError(t, os.Symlink("ws", filepath.Join(base, "link")))
	w, err = Open(filepath.Join(base, "link"))
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	return w, dir
}

// whatever stands for any kind of error, and none: what counts is that nothing is read.
const whatever = "whatever"

func TestHostileNames(t *testing.T) {
	w, dir := hostile(t)
	long := strings.Repeat("n", 255)
	tests := []struct{ name, read, list, create string }{
		{"a", "", "not_directory", "stale"},
		{"a/", "", "not_directory", "stale"},
		{"a/.", "", "not_directory", "stale"},
		{"d/../a", "", "not_directory", "stale"},
		{"a/../a", "", "not_directory", "stale"},
		{"./././/a", "", "not_directory", "stale"},
		{dir + "/a", "", "not_directory", "stale"},
		{w.Dir() + "/a", "", "not_directory", "stale"},
		{w.Dir() + "//d/../a/", "", "not_directory", "stale"},
		{w.Dir(), "is_directory", "", "protected_path"},
		{w.Dir() + "2/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{dir + "2/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{filepath.Dir(dir) + "/./out/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"d", "is_directory", "", "is_directory"},
		{"self/self/a", "", "not_directory", "stale"},
		{"self", "is_directory", "", "protected_path"},
		{"empty", "is_directory", "", "is_directory"},
		{"hard", "", "not_directory", "stale"},
		{"nul\nline", "", "not_directory", "stale"},
		{"-rf", "", "not_directory", "stale"},
		{"a (deleted)", "", "not_directory", "stale"},
		{long, "", "not_directory", "stale"},
		{long + "n", "invalid_path", "invalid_path", "invalid_path"},
		{strings.Repeat("d/", 600), "invalid_path", "invalid_path", "invalid_path"},
		{strings.Repeat("x/", 400) + "y", "not_found", "not_found", ""},
		{strings.Repeat("../", 1300), "outside_workspace", "outside_workspace", "outside_workspace"},
		{strings.Repeat("a/../", 800) + "a", "", "not_directory", "stale"},
		{"\x00", "invalid_path", "invalid_path", "invalid_path"},
		{"a\x00/../../out/secret", "invalid_path", "invalid_path", "invalid_path"},
		{"", "invalid_path", "invalid_path", "invalid_path"},
		{" a", "not_found", "not_found", ""},
		{"\xff\xfe", "not_found", "not_found", "invalid_path"},
		{"~/x", "not_found", "not_found", ""},
		{"%2e%2e/out/secret", "not_found", "not_found", ""},
		{"．．/out/secret", "not_found", "not_found", ""},
		{`..\out\secret`, "not_found", "not_found", ""},
		{"file:///etc/passwd", "no_root", "no_root", "no_root"},
		{"fifo", "not_regular", "not_directory", "not_regular"},
		{"fifolink", "not_regular", "not_directory", "not_regular"},
		{"fifo/x", "not_directory", "not_directory", "not_directory"},
		{"sock", "not_regular", "not_directory", "not_regular"},
		{"up", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"up/out/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"d/out/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"d/out/../../a", "", "not_directory", "stale"}, // by its letters
		{"self/up/out/secret", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"fd0", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"root/etc/passwd", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"cwd/workspace.go", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"dev/zero", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"zero", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"back", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"abs", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"newout", "outside_workspace", "outside_workspace", "outside_workspace"},
		{"newin", "not_found", "not_found", ""},
		{"newgit", "not_found", "not_found", "protected_path"},
		{"loop", "invalid_path", "invalid_path", "invalid_path"},
		{"deep", whatever, whatever, whatever},
		{"envlink", "sensitive_path", "not_directory", "sensitive_path"},
		{"chain1", "sensitive_path", "not_directory", "sensitive_path"},
		{"sshlink/id_rsa", "sensitive_path", "not_directory", "sensitive_path"},
		{"self/.ssh/id_rsa", "sensitive_path", "not_directory", "sensitive_path"},
		{"self/sshlink/new", "not_found", "not_found", "sensitive_path"},
		{".ssh/../.env", "sensitive_path", "not_directory", "sensitive_path"},
		{".ENV", "sensitive_path", "not_found", "sensitive_path"},
		{".env.", "sensitive_path", "not_found", "sensitive_path"},
		{".env ", "sensitive_path", "not_found", "sensitive_path"},
		{".env::$DATA", "sensitive_path", "not_found", "sensitive_path"},
		{"ENV~1", "sensitive_path", "not_found", "sensitive_path"},
		{".git", "is_directory", "", "protected_path"},
		{"gitlink/config", "", "not_directory", "protected_path"},
		{"gitlink/hooks/new", "not_found", "not_found", "protected_path"},
		{".GIT/config", "not_found", "not_found", "protected_path"},
		{".g\u200cit/config", "not_found", "not_found", "protected_path"},
		{".git./config", "not_found", "not_found", "protected_path"},
		{`.git\config`, "not_found", "not_found", "protected_path"},
		{"git~1/config", "not_found", "not_found", "protected_path"},
		{"sub/.git/hooks/x", "", "not_directory", "protected_path"},
		{"self/d/../.git/hooks/new", "not_found", "not_found", "protected_path"},
		{"docs/Agents.MD", "not_found", "not_found", "protected_path"},
		{".GitHub/workflows/x.yml", "not_found", "not_found", "protected_path"},
	}
	before := everything(t, filepath.Dir(dir))
	check := func(want, op, name string, err error) {
		t.Helper()
		if want != whatever {
			assert.Equal(t, want, kindOf(err), "%s %.60q: %v", op, name, err)
		}
		if err != nil {
			assert.Less(t, len(err.Error()), 600, "%s %.60q", op, name)
			assert.NotRegexp(t, "[\x00-\x1f]", err.Error(), "%s %.60q", op, name)
		}
	}
	for _, tt := range tests {
		start := time.Now()
		f, err := w.Open(tt.name)
		check(tt.read, "read", tt.name, err)
		if err == nil {
			data, err := io.ReadAll(f)
			require.NoError(t, err)
			assert.NotContains(t, string(data), "SECRET")
			f.Close()
		}
		_, err = w.ReadDir(t.Context(), tt.name)
		check(tt.list, "list", tt.name, err)
		err = create(w, tt.name, "NEW")
		check(tt.create, "create", tt.name, err)
		if plan, err := edit.NewPlan(edit.File{Path: tt.name, Kind: edit.Delete, Base: "SECRET"}); err == nil {
			_, err = w.Apply(t.Context(), plan)
			assert.Error(t, err, tt.name)
		}
		timed.Within(t, start, 2*time.Second, tt.name)
		cleanUp(t, filepath.Dir(dir), before)
	}
}

// cleanUp checks that nothing was changed, and removes what is new in the workspace.
func cleanUp(t *testing.T, base string, before map[string]string) {
	t.Helper()
	for p, content := range everything(t, base) {
		was, known := before[p]
		switch {
		case known:
			require.Equal(t, was, content, p)
		case strings.HasPrefix(p, "ws/"):
			require.NoError(t, os.RemoveAll(filepath.Join(base, p)))
		default:
			t.Errorf("%s was made outside of the workspace", p)
		}
	}
}

// A device in the workspace is not read, and does not keep anybody waiting.
func TestDevices(t *testing.T) {
	w, dir := testWorkspace(t, nil)
	for name, dev := range map[string]int{"zero": 1<<8 | 5, "tty": 5 << 8, "none": 240<<8 | 200} {
		if err := syscall.Mknod(filepath.Join(dir, name), syscall.S_IFCHR|0o666, dev); err != nil {
			t.Skipf("devices cannot be made here: %v", err)
		}
		_, err := w.Open(name)
		assert.Contains(t, []string{"not_regular", "permission"}, kindOf(err), "%s: %v", name, err)
		err = replace(w, name, "", "x")
		assert.Equal(t, "not_regular", kindOf(err), "%s: %v", name, err)
	}
}

// The directory of a workspace is the one that was opened, whatever becomes of its name.
func TestWorkspaceMoves(t *testing.T) {
	w, dir := testWorkspace(t, map[string]string{"d/a": "A"})
	require.NoError(t, os.Symlink("d", filepath.Join(dir, "l")))
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d/a"), []byte("other"), 0o644))
	for _, name := range []string{"d/a", "l/a", filepath.Join(dir, "d/a")} {
		f, err := w.Open(name)
		require.NoError(t, err)
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		assert.Equal(t, "A", string(data))
		require.NoError(t, f.Close())
	}
	require.NoError(t, replace(w, "l/a", "A", "new"))
	data, err := os.ReadFile(dir + "-moved/d/a")
	require.NoError(t, err)
	assert.Equal(t, "new", string(data))
}
