package suggest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/insight/suggest"
)

func TestWork(t *testing.T) {
	w := newWorld(t)
	work := func() (out []string) {
		for _, s := range w.find(w.options()) {
			if text, ok := strings.CutPrefix(s, "work :0 "); ok {
				out = append(out, text)
			}
		}
		return out
	}
	w.write("a.txt", "a\n")
	require.Equal(t, []string{"1 new file is not in git: a.txt"}, work())
	w.commit()
	require.Empty(t, work(), "nobody knows where it would be pushed")
	w.git("update-ref", "refs/remotes/origin/main", "HEAD")
	w.write("b.txt", "b\n")
	w.commit()
	require.Equal(t, []string{"1 commit is not pushed"}, work())
	w.write("a.txt", "changed\n")
	w.git("add", "-A")
	w.write("b.txt", "more\n")
	w.write("c.txt", "c\n")
	require.Equal(t, []string{"2 changed files are not committed: a.txt, b.txt", "1 new file is not in git: c.txt", "1 commit is not pushed"}, work())
}

// Without a commit, all that is staged is not committed.
func TestWorkWithoutCommit(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a\n")
	w.git("add", "-A")
	w.write("b.txt", "b\n")
	require.Equal(t, []string{"work :0 1 changed file is not committed: a.txt", "work :0 1 new file is not in git: b.txt"}, w.find(w.options()))
}

// Without git, nothing is said about what is staged.
func TestWorkWithoutGit(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "a\n")
	w.write("b.txt", "b\n")
	w.commit()
	w.write("b.txt", "changed\n")
	t.Setenv("PATH", t.TempDir())
	r, err := suggest.Find(t.Context(), w.options())
	require.NoError(t, err)
	require.Equal(t, []string{"what is staged: git does not read this repository, or is not installed"}, r.Skipped)
	require.Equal(t, []string{"work :0 1 changed file is not committed: b.txt"}, w.find(w.options()))
}

// The repository of another user, as in a container, is read as that of the user.
func TestWorkOfOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	w := newWorld(t)
	w.write("a.txt", "a\n")
	w.commit()
	const other = 12345
	for _, name := range []string{"", ".git"} {
		require.NoError(t, os.Chown(filepath.Join(w.dir, name), other, other))
	}
	r, err := suggest.Find(t.Context(), w.options())
	require.NoError(t, err)
	require.Equal(t, suggest.Report{}, *r)
}

// Where git keeps its index elsewhere, nothing is known about changes, and the report and the tool say so.
func TestWorkElsewhere(t *testing.T) {
	const elsewhere = "what is not committed: git keeps its index outside of this directory"
	w := newWorld(t)
	w.write("sub/a.txt", "a\n")
	w.commit()
	w.git("update-ref", "refs/remotes/origin/main", "HEAD")
	w.write("b.txt", "b\n")
	w.commit()
	linked := filepath.Join(t.TempDir(), "linked") // moved by hand: git does not know it there
	w.git("worktree", "add", "-q", linked)
	moved := linked + "2"
	require.NoError(t, os.Rename(linked, moved))
	for _, dir := range []string{moved, filepath.Join(w.dir, "sub")} {
		in := &world{t, dir}
		in.write("new.txt", "x\n")
		r, err := suggest.Find(t.Context(), in.options())
		require.NoError(t, err)
		require.Equal(t, []string{elsewhere}, r.Skipped)
		require.Equal(t, []string{"work :0 1 commit is not pushed"}, in.find(in.options()))
		tool, err := suggest.Tool(in.options())
		require.NoError(t, err)
		res, err := tool.Call(t.Context(), &aycoder.Invocation{Args: []byte(`{}`)})
		require.NoError(t, err)
		require.Equal(t, []aycoder.Part{&aycoder.Text{Text: r.All[0].Line() + "\n(not looked at: " + elsewhere + ")\n"}}, res.Parts)
	}
	r, err := suggest.Find(t.Context(), (&world{t, t.TempDir()}).options())
	require.NoError(t, err)
	require.Empty(t, r.Skipped, "there is no repository")
}

// In a worktree, all is known.
func TestWorkOfWorktree(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		w.write(name, "a\n")
	}
	w.commit()
	linked := &world{t, filepath.Join(t.TempDir(), "linked")}
	w.git("worktree", "add", "-q", linked.dir)
	require.Empty(t, linked.find(linked.options()))
	linked.write("a.txt", "changed\n")
	linked.git("add", "-A")
	linked.write("b.txt", "changed\n")
	require.NoError(t, os.Remove(filepath.Join(linked.dir, "c.txt")))
	linked.write("new.txt", "token = ghp_"+"aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5\n")
	o := linked.options()
	o.Uncommitted = true
	require.Equal(t, []string{
		`secret new.txt:1 1 secret is in the text, of the kind "github-token"; move it out of the repository, and replace it where it is valid`,
		"work :0 3 changed files are not committed: a.txt, b.txt, c.txt",
		"work :0 1 new file is not in git: new.txt",
	}, linked.find(o))
	require.Empty(t, w.find(w.options()))
}

// In a submodule, all is known of it, also if its name is quoted in the configuration of git.
func TestWorkOfSubmodule(t *testing.T) {
	lib := newWorld(t)
	lib.write("a.txt", "a\n")
	lib.commit()
	w := newWorld(t)
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "a #b")
	w.commit()
	in := &world{t, filepath.Join(w.dir, "a #b")}
	require.Empty(t, in.find(in.options()))
	in.write("a.txt", "changed\n")
	in.write("new.txt", "x\n")
	r, err := suggest.Find(t.Context(), in.options())
	require.NoError(t, err)
	require.Empty(t, r.Skipped)
	require.Equal(t, []string{"work :0 1 changed file is not committed: a.txt", "work :0 1 new file is not in git: new.txt"}, in.find(in.options()))
}

// Permissions, and the commits of submodules, are work as well, staged or not, unless git is told not to look.
func TestWorkBesidesContents(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no permission to execute")
	}
	lib := newWorld(t)
	lib.write("a.txt", "a\n")
	lib.commit()
	lib.write("a.txt", "b\n")
	lib.commit()
	w := newWorld(t)
	for _, name := range []string{"now.sh", "staged.sh", "same.sh"} {
		w.write(name, "x\n")
	}
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "lib")
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "staged")
	w.commit()
	work := func() (out []string) {
		r, err := suggest.Find(t.Context(), w.options())
		require.NoError(t, err)
		require.Equal(t, []string{"what is not committed inside of submodules: lib, staged"}, r.Skipped)
		for _, s := range r.All {
			out = append(out, s.Text)
		}
		return out
	}
	require.Empty(t, work())
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "staged.sh"), 0o755))
	w.git("-C", "staged", "checkout", "-q", "HEAD~1")
	w.git("add", "-A")
	require.Equal(t, []string{"2 changed files are not committed: staged, staged.sh"}, work())
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "now.sh"), 0o755))
	w.git("-C", "lib", "checkout", "-q", "HEAD~1")
	require.Equal(t, []string{"4 changed files are not committed: lib, now.sh, staged …"}, work())
	w.git("config", "core.fileMode", "false")
	require.Equal(t, []string{"3 changed files are not committed: lib, staged, staged.sh"}, work())
	require.NoError(t, os.Remove(filepath.Join(w.dir, "lib", ".git"))) // what git reads there would be this repository
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "lib", ".git"), []byte("gitdir: nowhere\n"), 0o644))
	require.Equal(t, []string{"2 changed files are not committed: staged, staged.sh"}, work())
}

// The index of a sparse checkout has a directory in the place of its files.
func TestWorkOfSparseIndex(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a/1.txt", "b/1.txt", "b/c/2.txt", "gone.txt"} {
		w.write(name, "x\n")
	}
	w.commit()
	w.git("sparse-checkout", "init", "--cone", "--sparse-index")
	w.git("sparse-checkout", "set", "a")
	require.Empty(t, w.find(w.options()))
	w.git("rm", "-q", "gone.txt")
	require.Equal(t, []string{"work :0 1 changed file is not committed: gone.txt"}, w.find(w.options()))
}

// In an index with objects of SHA-256 and few entries, these can look like others.
func TestWorkOfSHA256(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("git", "-C", dir, "init", "-q", "--object-format=sha256").Run(); err != nil {
		t.Skip("git does not know SHA-256")
	}
	w := &world{t, dir}
	w.write("b.go", "package b\n")
	w.commit()
	r, err := suggest.Find(t.Context(), w.options())
	require.NoError(t, err)
	require.Equal(t, suggest.Report{}, *r)
	w.write("b.go", "package bb\n")
	w.git("add", "-A")
	require.Equal(t, []string{"work :0 1 changed file is not committed: b.go"}, w.find(w.options()))
}
