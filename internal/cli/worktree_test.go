package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
)

// repository makes a repository with one commit and a directory sub, and returns it with a function that runs git in it.
func repository(t *testing.T) (dir string, run func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil || runtime.GOOS == "windows" {
		t.Skip("there is no git, or bash does not run commands here")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	run = func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t.test"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", "a.txt"), []byte("a\n"), 0o644))
	run("init", "-q")
	run("add", ".")
	run("commit", "-qm", "one")
	return dir, run
}

// The texts of a worktree are trusted where those of the directory of the user are. Where that directory is not in the worktree, its
// top is looked up.
func TestWorktreeTrust(t *testing.T) {
	timed.Serial(t)
	dir, run := repository(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("TEXT OF THE PROJECT\n"), 0o644))
	run("add", ".")
	run("commit", "-qm", "two")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "scratch"), 0o755))
	home, state := t.TempDir(), t.TempDir()
	trust := config.NewTrust(filepath.Join(home, "aycoder", "trust.json"))
	sent := func(from string, flags ...string) bool {
		s := newService(t, says("ok", "end_turn"))
		args := append([]string{"-C", filepath.Join(dir, from), "-p", "go"}, flags...)
		got := finish(t, program(t, append(s.env(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+home), args...), exitOK)
		has := strings.Contains(s.requests()[0], "TEXT OF THE PROJECT")
		require.Equal(t, !has && from != "scratch", strings.Contains(got.err, "are off: you have not trusted them"), got.err)
		return has
	}
	require.False(t, sent("sub"))
	q, err := textsOf(filepath.Join(dir, "scratch"))
	require.NoError(t, err)
	require.NoError(t, trust.Decide(t.Context(), q, true))
	log := filepath.Join("..", "a.log") // from the directory of the user, wherever the work is
	require.False(t, sent(".", "-w", "x"))
	s := newService(t, says("ok", "end_turn"))
	finish(t, program(t, append(s.env(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+home), "-C", filepath.Join(dir, "scratch"), "-w", "x", "-p", "go", "-log", log), exitOK)
	require.NotContains(t, s.requests()[0], "TEXT OF THE PROJECT")
	require.FileExists(t, filepath.Join(dir, "a.log"))
	require.NotContains(t, run("worktree", "list"), "[x]", "nothing was made in it")
	q, err = textsOf(dir)
	require.NoError(t, err)
	require.NoError(t, trust.Decide(t.Context(), q, true))
	require.True(t, sent(".", "-w", "x"))
}

// Answers of the user about their own working tree count in a worktree as long as the contents are the same there.
func TestWorktreeSettings(t *testing.T) {
	timed.Serial(t)
	dir, run := repository(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".aycoder"), 0o755))
	rule := "[[approval.rules]]\naction = \"deny\"\ntool = \"bash\"\npattern = \"rm *\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, config.ProjectFile), []byte(rule), 0o644))
	run("add", ".")
	run("commit", "-qm", "two")
	home, state := t.TempDir(), t.TempDir()
	trust := config.NewTrust(filepath.Join(home, "aycoder", "trust.json"))
	refused := func(name string) (bool, string) {
		s := newService(t, calls("bash", `{"command":"rm -f x"}`), says("ok", "end_turn"))
		got := finish(t, program(t, append(s.env(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+home), "-C", dir, "-mode", "full-auto", "-w", name, "-p", "go"), exitOK)
		return strings.Contains(s.requests()[1], "denied: the rule bash:rm * forbids it"), got.err
	}
	no, said := refused("one")
	require.False(t, no)
	require.Contains(t, said, "is off until the user trusts it")
	q, err := config.Question{Kind: config.KindSettings, Root: dir, File: config.ProjectFile}.Bind()
	require.NoError(t, err)
	require.NoError(t, trust.Decide(t.Context(), q, true))
	no, said = refused("two")
	require.True(t, no)
	require.NotContains(t, said, "is off")

	run("branch", "other")
	require.NoError(t, os.WriteFile(filepath.Join(dir, config.ProjectFile), []byte(rule+"# changed\n"), 0o644))
	no, said = refused("other")
	require.False(t, no)
	require.Contains(t, said, "is off until the user trusts it")
}

// A worktree in which nothing was made goes at the end, and another one stays and is found again.
func TestWorktreeOfAPrompt(t *testing.T) {
	timed.Serial(t)
	dir, run := repository(t)
	state := t.TempDir()
	prompt := func(code int, name, allow string, s *service) ended {
		return finish(t, program(t, append(s.env(), "XDG_STATE_HOME="+state), "-C", filepath.Join(dir, "sub"), "-w", name, "-p", "go", "-allow", allow), code)
	}
	prompt(0, "idle", "edit_file", newService(t, says("Nothing to do.", "end_turn")))
	require.NotContains(t, run("worktree", "list")+run("branch"), "idle")

	s := newService(t, calls("bash", `{"command":"pwd > made"}`), says("Made.", "end_turn"))
	got := prompt(0, "fix", "bash:pwd > made", s)
	require.Contains(t, got.err, "the worktree fix is kept: "+filepath.Join(state, "aycoder", "worktrees"))
	require.NoFileExists(t, filepath.Join(dir, "sub", "made"))
	require.Contains(t, run("branch"), "fix")
	got = prompt(0, "fix", "bash:cat made", newService(t, calls("bash", `{"command":"cat made"}`), says("Seen.", "end_turn")))
	require.Contains(t, got.err, filepath.Join("fix", "sub"))

	for _, name := range []string{"../x", "-x", "a/b", "a..b", ""} {
		if name != "" {
			require.Contains(t, prompt(2, name, "edit_file", s).err, "a name has letters")
		}
	}
	out := finish(t, program(t, s.env(), "-w", "x", "-p", "go"), 2)
	require.Contains(t, out.err, "not a git repository")
}

// A file that git ignores or does not show is something that was made, and no hook of the repository runs.
func TestWorktreeWithHiddenFiles(t *testing.T) {
	for _, tt := range []struct{ name, file, setting string }{
		{"ignored", "secret.env", ""}, {"not shown", "new.txt", "status.showUntrackedFiles"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, run := repository(t)
			at(t)
			t.Chdir(dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.env\n"), 0o644))
			run("add", ".")
			run("commit", "-qm", "two")
			if tt.setting != "" {
				run("config", tt.setting, "no")
			}
			ran := filepath.Join(t.TempDir(), "ran")
			hook := []byte("#!/bin/sh\ntouch " + ran + "\n")
			require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "hooks", "post-checkout"), hook, 0o755))
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			require.NoError(t, err)
			defer null.Close()
			w, err := (&app{getenv: os.Getenv}).enterWorktree(t.Context(), "task")
			require.NoError(t, err)
			require.True(t, w.untouched(t.Context()))
			require.NoError(t, os.WriteFile(tt.file, []byte("mine\n"), 0o644))
			require.False(t, w.untouched(t.Context()))
			w.end(&app{stderr: null})
			require.FileExists(t, filepath.Join(w.dir, tt.file))
			require.NoFileExists(t, ran)
		})
	}
}

// The configuration of a repository may be a stranger's: no program that it names runs, unless the user makes the worktree.
func TestWorktreeOfAStranger(t *testing.T) {
	for _, tt := range []struct {
		name, attributes, want string
		set                    func(run func(args ...string) string, dir, program string)
	}{
		{"filter", "*.txt filter=Odd.x", "filter.Odd.x.smudge in the configuration of the repository would run a program",
			func(run func(args ...string) string, _, program string) {
				run("config", "filter.Odd.x.smudge", program)
			}},
		{"included process", "*.txt filter=x", "filter.x.process",
			func(run func(args ...string) string, dir, program string) {
				run("config", "--file", filepath.Join(dir, ".git", "more"), "filter.x.process", program)
				run("config", "include.path", "more")
			}},
		{"partial clone", "", "a.txt",
			func(run func(args ...string) string, dir, program string) {
				blob := strings.TrimSpace(run("rev-parse", "HEAD:a.txt"))
				require.NoError(t, os.Remove(filepath.Join(dir, ".git", "objects", blob[:2], blob[2:])))
				run("config", "core.repositoryformatversion", "1")
				run("config", "extensions.partialClone", "origin")
				run("config", "remote.origin.promisor", "true")
				run("config", "remote.origin.url", dir)
				run("config", "remote.origin.uploadpack", program)
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, run := repository(t)
			at(t)
			t.Chdir(dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("only here\n"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte(tt.attributes+"\n"), 0o644))
			run("add", ".")
			run("commit", "-qm", "two")
			ran := filepath.Join(t.TempDir(), "ran")
			tt.set(run, dir, "touch "+ran+";")
			_, err := (&app{getenv: os.Getenv}).enterWorktree(t.Context(), "task")
			require.ErrorContains(t, err, tt.want)
			require.NoFileExists(t, ran)
		})
	}
}

// A filter of the user works as ever, such as that of git-lfs.
func TestWorktreeFilterOfTheUser(t *testing.T) {
	dir, run := repository(t)
	at(t)
	t.Chdir(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("small\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("*.txt filter=x\n"), 0o644))
	run("add", ".")
	run("commit", "-qm", "two")
	file := filepath.Join(t.TempDir(), "gitconfig")
	require.NoError(t, os.WriteFile(file, []byte("[filter \"x\"]\nsmudge = tr a-z A-Z\n"), 0o644))
	t.Setenv("GIT_CONFIG_GLOBAL", file)
	w, err := (&app{getenv: os.Getenv}).enterWorktree(t.Context(), "task")
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(w.dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "SMALL\n", string(data))
}

// The user is asked what becomes of a worktree in which something was made. Commits stay in any case.
func TestWorktreeAtTheEnd(t *testing.T) {
	timed.Serial(t)
	for _, tt := range []struct {
		name, answer string
		commit       string // what git checks out before it, or "no"
		kept, branch bool
	}{
		{"keep", "k\n", "no", true, true},
		{"remove", "remove\n", "no", false, false},
		{"no answer", "", "no", true, true},
		{"another word", "rm\n", "no", true, true},
		{"remove with a commit", "r\n", "task", false, true},
		{"remove with a commit on no branch", "r\n", "--detach", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, run := repository(t)
			at(t)
			t.Chdir(dir)
			a := &app{getenv: os.Getenv}
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			require.NoError(t, err)
			defer null.Close()
			a.stderr = null
			w, err := a.enterWorktree(t.Context(), "task")
			require.NoError(t, err)
			require.True(t, w.untouched(t.Context()))
			require.NoError(t, os.WriteFile("new", nil, 0o644))
			if tt.commit != "no" {
				run("-C", w.dir, "checkout", "-q", tt.commit)
				run("-C", w.dir, "add", ".")
				run("-C", w.dir, "commit", "-qm", "two")
			}
			s := newStage(tt.answer)
			c := newTestChat(t, s, s, tty.Options{Plain: true}, &chat{})
			w.ask(t.Context(), c)
			w.end(a)
			require.Equal(t, tt.kept, strings.Contains(run("worktree", "list"), w.dir))
			require.Equal(t, tt.branch, strings.Contains(run("branch"), "task"))
			here, err := os.Getwd()
			require.NoError(t, err)
			require.Equal(t, dir, here)
		})
	}
}
