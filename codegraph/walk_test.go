package codegraph_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// The files of a graph are those that git lists, on random trees. AYCODER_TREES says how many.
func TestFilesAreThoseOfGit(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	trees := 40
	if n, err := strconv.Atoi(os.Getenv("AYCODER_TREES")); err == nil {
		trees = n
	}
	files := 0
	for seed := range uint64(trees) {
		dir := t.TempDir()
		growTree(t, dir, rand.New(rand.NewPCG(seed, 7)))
		want := listedByGit(t, dir)
		files += len(want)
		require.Equal(t, want, graphFiles(t, dir), "seed %d", seed)
		require.NoError(t, os.RemoveAll(dir))
	}
	require.Greater(t, files, 5*trees)
	t.Logf("%d trees, %d files", trees, files)
}

// A file that became a symbolic link, or that is now behind one, is gone, also if only this file is looked at.
func TestFileBecomesLink(t *testing.T) {
	t.Run("workspace", func(t *testing.T) { testFileBecomesLink(t, func(ws *workspace.Workspace) codegraph.FS { return ws }) })
	t.Run("another", func(t *testing.T) {
		testFileBecomesLink(t, func(ws *workspace.Workspace) codegraph.FS { return struct{ codegraph.FS }{ws} })
	})
}

func testFileBecomesLink(t *testing.T, of func(*workspace.Workspace) codegraph.FS) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitignore": "private\n", "private/a.go": "package p\n\nfunc Private() {}\n", "a.go": "package p\n\nfunc F() {}\n", "b/a.go": "package p\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	g, err := codegraph.New(of(ws))
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	require.NotNil(t, s.Facts("a.go"))
	require.NotNil(t, s.Facts("b/a.go"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a.go")))
	require.NoError(t, os.Symlink("private/a.go", filepath.Join(dir, "a.go")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "b")))
	require.NoError(t, os.Symlink("private", filepath.Join(dir, "b")))
	s, err = g.Refresh(t.Context(), "a.go", "b/a.go")
	require.NoError(t, err)
	require.Equal(t, graphFiles(t, dir), slices.Collect(s.Files()))
}

func graphFiles(t *testing.T, dir string) []string {
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	g, err := codegraph.New(ws, codegraph.WithDir(dir))
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	return slices.Collect(s.Files())
}

// git runs git without the configuration of the machine.
func git(t *testing.T, dir string, args ...string) []byte {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	require.NoError(t, err, "git %s: %s", args, failure.Bytes())
	return out
}

// listedByGit returns the regular files that git tracks, or would add.
func listedByGit(t *testing.T, dir string) (files []string) {
	for name := range strings.SplitSeq(string(git(t, dir, "ls-files", "-co", "--exclude-standard", "-z")), "\x00") {
		if info, err := os.Lstat(filepath.Join(dir, name)); name != "" && err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

var (
	treeNames = []string{"a", "b.go", "c.o", "build", "dist", "x y", "n\nl", "é", "A", "b", "node_modules", "main.go", "-f", "[x]", "a.b.c", ".hidden", "foo*", "#c", "!n", "q ", "\\e"}
	treeRules = []string{"*.o", "build", "/dist", "dist/", "!keep", "a/*", "!a/b.go", "**/x y", "a/**/b", "[ab]*", "[!a]", "*.go", "!main.go",
		"node_modules/", "# comment", "\\#c", "\\!n", "x y", "?", "**", "!*/", "/a/", "b/", "n*", ".hidden", "foo\\*", "[[:upper:]]", "*.b.*", "/b.go", "q ", "q\\ ", "\\\\e", "!.gitignore", "**/build/**", "é"}
)

// growTree makes a repository of random files, directories, links and ignore files.
func growTree(t *testing.T, dir string, rnd *rand.Rand) {
	git(t, dir, "init", "-q")
	dirs := []string{"."}
	pick := func(s []string) string { return s[rnd.IntN(len(s))] }
	rules := func() []byte {
		var out bytes.Buffer
		for range rnd.IntN(6) {
			fmt.Fprintln(&out, pick(treeRules))
		}
		return out.Bytes()
	}
	for range 10 + rnd.IntN(40) {
		p := path.Join(pick(dirs), pick(treeNames))
		full := filepath.Join(dir, p)
		if _, err := os.Lstat(full); err == nil {
			continue
		}
		switch rnd.IntN(8) {
		case 0, 1:
			require.NoError(t, os.Mkdir(full, 0o700))
			dirs = append(dirs, p)
			if rnd.IntN(3) == 0 {
				require.NoError(t, os.WriteFile(filepath.Join(full, ".gitignore"), rules(), 0o600))
			}
		case 2:
			require.NoError(t, os.Symlink(pick([]string{"a", "..", "/", "none", "b.go"}), full))
		default:
			require.NoError(t, os.WriteFile(full, []byte(p), 0o600))
		}
	}
	if rnd.IntN(2) == 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), rules(), 0o600))
	}
	if rnd.IntN(2) == 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "info", "exclude"), rules(), 0o600))
	}
	if rnd.IntN(2) == 0 { // some are tracked, whatever the patterns say, some of these are gone again
		git(t, dir, "update-index", "--index-version", strconv.Itoa(2+2*rnd.IntN(2)))
		for range rnd.IntN(4) {
			git(t, dir, "--literal-pathspecs", "add", "-f", "--", pick(dirs[min(1, len(dirs)-1):]))
		}
		_ = os.Remove(filepath.Join(dir, pick(treeNames)))
	}
	if rnd.IntN(5) == 0 { // a repository in this one is not of it
		inner := filepath.Join(dir, pick(dirs), "inner")
		require.NoError(t, os.MkdirAll(inner, 0o700)) // the directory may be gone again
		git(t, inner, "init", "-q")
		require.NoError(t, os.WriteFile(filepath.Join(inner, "x.go"), nil, 0o600))
	}
}

// The files are those of git also in a worktree, and where a pattern ignores the .git of another repository.
func TestFilesOfUnusualRepositories(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	top := t.TempDir()
	write := func(dir, name, text string) {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	first, second := filepath.Join(top, "first"), filepath.Join(top, "second")
	require.NoError(t, os.Mkdir(first, 0o700))
	git(t, first, "init", "-q")
	write(first, ".gitignore", ".*\n")
	write(first, "vendor/a.go", "package a\n")
	write(first, "b.gen.go", "package b\n")
	git(t, first, "add", "-A")
	git(t, first, "commit", "-q", "-m", "x")
	git(t, first, "worktree", "add", "-q", second)
	write(first, "inner/b.go", "package b\n")
	write(second, ".gitignore", ".*\n*.gen.go\n")
	git(t, filepath.Join(first, "inner"), "init", "-q")
	require.Equal(t, listedByGit(t, first), graphFiles(t, first))
	require.Equal(t, listedByGit(t, second), graphFiles(t, second))
	require.Equal(t, []string{"b.gen.go", "vendor/a.go"}, graphFiles(t, second))
}

// A damaged index names nothing outside of the workspace and nothing twice, and takes no more memory than it has.
func TestHostileIndex(t *testing.T) {
	entry := func(drop int, suffix string) []byte {
		e := make([]byte, 62, 62+len(suffix)+2)
		e[26], e[27] = 0x81, 0xa4 // a regular file
		return append(append(append(e, byte(drop)), suffix...), 0)
	}
	index := func(entries ...[]byte) []byte {
		head := []byte{'D', 'I', 'R', 'C', 0, 0, 0, 4, 0, 0, 0, byte(len(entries))}
		return bytes.Join(append([][]byte{head}, entries...), nil)
	}
	m := &memory{MapFS: map[string]*fstest.MapFile{}}
	m.put(".git/HEAD", "ref: refs/heads/main\n")
	m.put(".gitignore", "*.o\n")
	m.put("a/x.o", "")
	m.put("b.o", "")
	files := func() []string {
		g, err := codegraph.New(m)
		require.NoError(t, err)
		s, err := g.Refresh(t.Context())
		require.NoError(t, err)
		return slices.Collect(s.Files())
	}
	m.put(".git/index", string(index(entry(0, "../a"), entry(4, "a/../b.o"), entry(8, "a//x.o"), entry(6, "a/x.o"), entry(5, "b.o"))))
	require.Equal(t, []string{".gitignore", "a/x.o", "b.o"}, files())

	long := [][]byte{entry(0, strings.Repeat("a", 60_000))}
	for range 200 {
		long = append(long, entry(0, "b"))
	}
	data := index(long...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Empty(t, gitrepo.Tracked(data))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}
