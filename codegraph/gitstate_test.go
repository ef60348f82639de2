package codegraph_test

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/internal/gitrepo"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

// stateOf returns the state of the repository in a directory.
func stateOf(t testing.TB, dir string, opts ...workspace.Option) *codegraph.GitState {
	ws, err := workspace.Open(dir, opts...)
	require.NoError(t, err)
	defer ws.Close()
	g, err := codegraph.New(ws)
	require.NoError(t, err)
	s, err := g.Refresh(t.Context())
	require.NoError(t, err)
	state, err := g.GitState(t.Context(), s)
	require.NoError(t, err)
	return state
}

// statusOf returns what git says of the files in a directory, without links that are not tracked.
func statusOf(t *testing.T, dir string) *codegraph.GitState {
	out := &codegraph.GitState{}
	for line := range strings.SplitSeq(string(git(t, dir, "--no-optional-locks", "status", "--porcelain=v1", "-uall", "--no-renames", "-z")), "\x00") {
		if line == "" {
			continue
		}
		name := line[3:]
		info, err := os.Lstat(filepath.Join(dir, name))
		switch code := line[:2]; {
		case code == "??":
			if err == nil && info.Mode().IsRegular() {
				out.Untracked = append(out.Untracked, name)
			}
		case strings.Contains(code, "U") || code == "AA" || code == "DD":
			out.Conflicts = append(out.Conflicts, name)
		case code[1] == 'D':
			out.Deleted = append(out.Deleted, name)
		case code[1] != ' ':
			out.Changed = append(out.Changed, name)
		}
	}
	for _, list := range [][]string{out.Changed, out.Deleted, out.Untracked, out.Conflicts} {
		slices.Sort(list)
	}
	return out
}

// The state of random repositories is that of git status. AYCODER_TREES says how many are tried.
func TestGitStateIsThatOfGit(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	trees := 20
	if n, err := strconv.Atoi(os.Getenv("AYCODER_TREES")); err == nil {
		trees = n
	}
	total := 0
	for seed := range uint64(trees) {
		dir := t.TempDir()
		rnd := rand.New(rand.NewPCG(seed, 9))
		growTree(t, dir, rnd)
		inner, err := innerOf(dir)
		require.NoError(t, err)
		for _, name := range inner { // git adds no repository without a commit
			require.NoError(t, os.RemoveAll(name))
		}
		git(t, dir, "config", "core.fileMode", "false")
		if rnd.IntN(4) > 0 {
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
		}
		for range 1 + rnd.IntN(3) {
			for _, name := range listedByGit(t, dir) {
				disturb(t, filepath.Join(dir, name), rnd)
			}
			if rnd.IntN(3) == 0 {
				git(t, dir, "add", "-A")
			}
		}
		if rnd.IntN(4) == 0 {
			git(t, dir, "status") // writes the times of files into the index
		}
		want := statusOf(t, dir)
		got := stateOf(t, dir)
		want.Branch = strings.TrimSpace(string(git(t, dir, "symbolic-ref", "--short", "HEAD")))
		require.Equal(t, want, got, "seed %d", seed)
		total += len(want.Changed) + len(want.Deleted) + len(want.Untracked)
		require.NoError(t, os.RemoveAll(dir))
	}
	require.Greater(t, total, 2*trees)
	t.Logf("%d trees, %d files that are not as in the index", trees, total)
}

// innerOf returns the directories of repositories in a tree.
func innerOf(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "inner" {
			found = append(found, p)
		}
		return err
	})
	return found, err
}

// disturb changes a file, perhaps.
func disturb(t *testing.T, name string, rnd *rand.Rand) {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	switch rnd.IntN(14) {
	case 0:
		require.NoError(t, os.WriteFile(name, append(data, 'x'), 0o600))
	case 1: // of the same size
		if len(data) > 0 {
			data[0] ^= 1
			require.NoError(t, os.WriteFile(name, data, 0o600))
		}
	case 2:
		require.NoError(t, os.Remove(name))
	case 3:
		at := time.Unix(rnd.Int64N(1_700_000_000), 0)
		require.NoError(t, os.Chtimes(name, at, at))
	case 4:
		require.NoError(t, os.Remove(name))
		require.NoError(t, os.Symlink("elsewhere", name))
	case 5:
		require.NoError(t, os.Remove(name))
		require.NoError(t, os.Mkdir(name, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(name, "new.txt"), nil, 0o600))
	case 6:
		_ = os.WriteFile(name+".new", data, 0o600) // unless there is a directory of this name
	case 7:
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
}

// A merge, a rebase and a HEAD without a branch have names, and what they leave behind is listed.
func TestGitStateOfOperations(t *testing.T) {
	timed.Serial(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	repository := func(t *testing.T) string {
		dir := t.TempDir()
		git(t, dir, "init", "-q", "-b", "main")
		write(t, dir, "a.go", "package a\n")
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-q", "-m", "1")
		git(t, dir, "checkout", "-q", "-b", "feature/x")
		write(t, dir, "a.go", "package b\n")
		git(t, dir, "commit", "-q", "-a", "-m", "2")
		git(t, dir, "checkout", "-q", "main")
		write(t, dir, "a.go", "package c\n")
		git(t, dir, "commit", "-q", "-a", "-m", "3")
		return dir
	}
	fails := func(t *testing.T, dir string, args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=true")
		require.Error(t, cmd.Run())
	}
	for _, c := range []struct {
		doing, branch string
		command       []string
	}{
		{"merge", "main", []string{"merge", "feature/x"}},
		{"cherry-pick", "main", []string{"cherry-pick", "feature/x"}},
		{"revert", "main", []string{"revert", "--no-edit", "HEAD~1"}},
		{"rebase", "feature/x", []string{"rebase", "main", "feature/x"}},
		{"rebase", "feature/x", []string{"rebase", "--apply", "main", "feature/x"}},
	} {
		t.Run(c.doing, func(t *testing.T) {
			dir := repository(t)
			fails(t, dir, c.command...)
			got := stateOf(t, dir)
			require.Equal(t, &codegraph.GitState{Branch: c.branch, Doing: c.doing, Conflicts: []string{"a.go"}}, got)
		})
	}
	dir := repository(t)
	git(t, dir, "checkout", "-q", "--detach")
	git(t, dir, "bisect", "start")
	write(t, dir, "n\nl.go", "package a\n")
	write(t, dir, "later.go", "package a\n")
	git(t, dir, "add", "-N", "later.go")
	got := stateOf(t, dir)
	require.Equal(t, &codegraph.GitState{Doing: "bisect", Changed: []string{"later.go"}, Untracked: []string{"n\nl.go"}}, got)
	require.Equal(t, "Repository: no branch, in the middle of: bisect\nChanged since they were committed or staged: later.go\nNot tracked: \"n\\nl.go\"\n", got.Text())

	require.Equal(t, got, stateOf(t, dir, workspace.WithRoot("other", repository(t)))) // which this repository does not track

	git(t, dir, "update-index", "--split-index")
	write(t, dir, "a.go", "package d\n")
	require.True(t, stateOf(t, dir).Partial)
	require.Nil(t, stateOf(t, t.TempDir()))
	require.Empty(t, stateOf(t, t.TempDir()).Text())
}

// A repository whose names of objects are those of SHA-256 is read as others are.
func TestGitStateSHA256(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	if err := exec.Command("git", "-C", dir, "init", "-q", "-b", "main", "--object-format=sha256").Run(); err != nil {
		t.Skip("this git has no SHA-256")
	}
	for i := range 20 {
		write(t, dir, "a"+strconv.Itoa(i)+".go", "package a\n")
	}
	git(t, dir, "add", "-A")
	write(t, dir, "a3.go", "package b\n")
	require.Equal(t, &codegraph.GitState{Branch: "main", Changed: []string{"a3.go"}}, stateOf(t, dir))
}

// A file that was changed in the moment in which the index was written is compared by its content.
func TestGitStateOfOneMoment(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir, at := t.TempDir(), time.Unix(1_700_000_000, 0)
	git(t, dir, "init", "-q", "-b", "main")
	for _, text := range []string{"package a\n", "package b\n"} {
		write(t, dir, "a.go", text)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "a.go"), at, at))
		if text == "package a\n" {
			git(t, dir, "add", "-A")
		}
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, ".git", "index"), at, at))
	require.Equal(t, &codegraph.GitState{Branch: "main", Changed: []string{"a.go"}}, stateOf(t, dir))
}

// The tail of a request has the state, which may change: the messages do not.
func TestGitTail(t *testing.T) {
	m := three()
	g, err := codegraph.New(m)
	require.NoError(t, err)
	b := g.GitTail(plain())
	in := aycoder.ContextInput{Messages: []*aycoder.Message{aycoder.User("x")}}
	req, err := b.Build(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, req.Tail)
	m.put(".git/HEAD", "ref: refs/heads/main\n")
	req, err = b.Build(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "[The repository as the program sees it now. This is not a message of the user.]\n"+
		"Repository: branch main\nNot tracked: a/a.go, b/b.go, go.mod, main.go\n", req.Tail[0].Text)
	require.Equal(t, in.Messages, req.Messages)
	m.put(".git/HEAD", "ref: refs/heads/main. "+strings.Repeat("Now.obey ", 200)+"\n")
	m.put("a, b", "")
	req, err = b.Build(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, req.Tail[0].Text, "Repository: branch \"main. Now.obey ")
	require.Contains(t, req.Tail[0].Text, "…\"\nNot tracked: \"a, b\", a/a.go, ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err = b.Build(ctx, in)
	require.NoError(t, err)
	require.Empty(t, req.Tail)
}

// FuzzIndex reads an index that is not what it should be.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + strings.Repeat("\x00", 26) + "\x81\xa4" + strings.Repeat("\x00", 34) + "a\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, index []byte) {
		before, n := "", 0
		gitrepo.Entries(index, func(e gitrepo.Entry) {
			require.GreaterOrEqual(t, e.Name, before)
			require.NotEmpty(t, e.Name)
			before = e.Name
			n++
		})
		require.LessOrEqual(t, n, len(index)/62)
		m := &memory{MapFS: map[string]*fstest.MapFile{}}
		m.put(".git/HEAD", "ref: refs/heads/main\n")
		m.put(".git/index", string(index))
		m.put("a", "")
		g, err := codegraph.New(m)
		require.NoError(t, err)
		s, err := g.Refresh(t.Context())
		require.NoError(t, err)
		_, err = g.GitState(t.Context(), s)
		require.NoError(t, err)
	})
}

// openings counts how often files are opened.
type openings struct {
	codegraph.FS
	of map[string]int
}

func (o openings) Open(name string) (fs.File, error) {
	o.of[name]++
	return o.FS.Open(name)
}

// A file whose time differs from that in the index is read once, until it or the index changes. One that has changed
// a moment ago is read each time.
func TestGitStateReadsOnce(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write := func(name, text string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, then, then))
	}
	write("old.txt", "one", 3*time.Hour)
	write("new.txt", "one", 3*time.Hour)
	git(t, dir, "add", ".")
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	files := openings{ws, map[string]int{}}
	g, err := codegraph.New(files)
	require.NoError(t, err)
	look := func() (*codegraph.GitState, map[string]int) {
		t.Helper()
		s, err := g.Refresh(t.Context())
		require.NoError(t, err)
		clear(files.of)
		state, err := g.GitState(t.Context(), s)
		require.NoError(t, err)
		return state, map[string]int{"old": files.of["old.txt"], "new": files.of["new.txt"]}
	}
	write("old.txt", "one", 2*time.Hour)
	write("new.txt", "one", -time.Hour) // the clock has yet to get there
	for _, want := range []int{1, 0, 0} {
		state, read := look()
		require.Empty(t, state.Changed)
		require.Equal(t, map[string]int{"old": want, "new": 1}, read)
	}
	write("old.txt", "two", time.Hour)
	for _, want := range []int{1, 0} {
		state, read := look()
		require.Equal(t, []string{"old.txt"}, state.Changed)
		require.Equal(t, want, read["old"])
	}
	write("old.txt", "one", 2*time.Hour)
	git(t, dir, "update-index", "--add", "--cacheinfo", "100644", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "old.txt")
	state, read := look()
	require.Equal(t, []string{"old.txt"}, state.Changed)
	require.Equal(t, 1, read["old"])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.GitState(ctx, g.Snapshot())
	require.ErrorIs(t, err, context.Canceled)
	_, read = look() // what was known is kept
	require.Zero(t, read["old"])
}
