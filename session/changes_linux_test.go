package session_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// changedRun is a random run in a workspace of which there is a copy. The copy gets what the user does, and
// in the end the difference of the run, by git.
type changedRun struct {
	*testing.T
	r           *rand.Rand
	dir, before string
	files       *snapshot.Files
	git         bool
	undo, user  bool
	several     bool // branches at the same time

	mu  sync.Mutex // for events of branches at the same time
	log []string
}

var changedNames = []string{"a", "b", "B", "c.txt", "d/e", "d/f", "d/g/h", "sp ace", "-n", "--- a", "q\"u'o\\te", "new\nline", "é→",
	"a/b", "tab\tbed", "$HOME", "diff --git a b", "x{y}", " lead", "trail ", "c:\\d", ".hidden"}

func (c *changedRun) name() string { return changedNames[c.r.IntN(len(changedNames))] }

func (c *changedRun) text() string {
	n := c.r.IntN(1000)
	switch c.r.IntN(9) {
	case 0:
		return ""
	case 1:
		return fmt.Sprint(n)
	case 2:
		return fmt.Sprintf("crlf %d\r\nline\r\n", n)
	case 3:
		return fmt.Sprintf("\x00bin\xff%d\n%s", n, strings.Repeat("z", c.r.IntN(200)))
	case 4:
		return fmt.Sprintf("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-%d\n", n)
	case 5:
		return strings.Repeat(fmt.Sprintf("line %d\n", n), 50)
	}
	return fmt.Sprintf("one\ntwo %d\nthree\nfour\nfive\n", n)
}

func sh(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }

// command returns a random command.
func (c *changedRun) command() string {
	a, b := sh("./"+c.name()), sh("./"+c.name())
	many := []string{
		"printf 'more %s\\n' " + strconv.Itoa(c.r.IntN(100)) + " >> " + a,
		"rm -rf " + a, "mv " + a + " " + b, "cp -r " + a + " " + b, "ln -sfn " + b + " " + a, "chmod +x " + a, "chmod -x " + a,
		"mkdir -p " + a + "; echo x > " + a + "/" + sh(c.name()), ": > " + a, "printf '\\0\\1%s' " + strconv.Itoa(c.r.IntN(100)) + " > " + a,
		"rm -rf " + a + "; mkdir -p \"$(dirname " + a + ")\"; echo new > " + a, "mkdir -p d/g; head -c 300 /dev/urandom > d/g/r",
		"rm -rf d; echo file > d", "rm -rf " + a + "; mkfifo " + a, "echo more >> user1; echo more >> user2",
		"sed -i 's/two/TWO/' " + a, "mv a tmp.$$; mv b a; mv tmp.$$ b", "mkdir -p ign; echo x >> ign/x; echo more >> " + a,
		"chmod 600 " + a, "touch " + a, "echo a > " + a + "; false", "mv c.txt C.txt; mv B b",
	}
	if c.git {
		many = append(many, "git checkout -q .", "git add -A; git stash -q", "git stash pop -q",
			"git add -A; git -c user.name=a -c user.email=a@b commit -qm c", "git clean -fdq")
	}
	cmd := many[c.r.IntN(len(many))]
	c.log = append(c.log, cmd)
	return cmd
}

// calls returns random calls of an agent.
func (c *changedRun) calls(n int, sub bool) (steps []script.Step) {
	for range n {
		name, text := c.name(), c.text()
		path := map[string]any{"path": name, "content": text}
		kind := c.r.IntN(12)
		if c.several && c.r.IntN(2) == 0 {
			kind = 5
		}
		switch kind {
		case 0, 1:
			c.log = append(c.log, "write "+name)
			steps = append(steps, script.Call("read_file", map[string]any{"path": name}), script.Call("write_file", path))
		case 2:
			c.log = append(c.log, "edit "+name)
			steps = append(steps, script.Call("read_file", map[string]any{"path": name}),
				script.Call("edit_file", map[string]any{"path": name, "old_string": "three", "new_string": "3\n3"}))
		case 3:
			c.log = append(c.log, "move "+name)
			patch := "*** Begin Patch\n*** Update File: " + name + "\n*** Move to: moved/" + name + "\n@@\n three\n-four\n+4\n*** End Patch\n"
			steps = append(steps, script.Call("read_file", map[string]any{"path": name}), script.Call("apply_patch", map[string]any{"patch": patch}))
		case 4:
			c.log = append(c.log, "delete "+name)
			patch := "*** Begin Patch\n*** Delete File: " + name + "\n*** End Patch\n"
			steps = append(steps, script.Call("read_file", map[string]any{"path": name}), script.Call("apply_patch", map[string]any{"patch": patch}))
		case 5:
			file, line := fmt.Sprintf("user%d", 1+c.r.IntN(2)), "line 39\n"
			if c.several {
				line = fmt.Sprintf("line %d\n", 4+7*c.r.IntN(6))
			}
			c.log = append(c.log, "edit "+file)
			steps = append(steps, script.Call("read_file", map[string]any{"path": file}),
				script.Call("edit_file", map[string]any{"path": file, "old_string": line, "new_string": fmt.Sprintf("LINE %d\n%s", c.r.IntN(100), line)}))
		case 6:
			if sub {
				steps = append(steps, script.Call("subagent", map[string]any{"task": fmt.Sprint(c.r.IntN(1000))}))
				continue
			}
			fallthrough
		default:
			steps = append(steps, script.Call("bash", map[string]any{"command": c.command()}))
		}
	}
	return append(steps, script.Say("done"))
}

func (c *changedRun) loop(steps ...script.Step) *aycoder.Loop {
	list, err := tools.Coding(c.files, tools.WithExecMiddleware(c.files.Exec))
	require.NoError(c, err)
	var inner []script.Step
	for range 40 {
		inner = append(inner, c.calls(1+c.r.IntN(3), false)...)
	}
	agent, err := tools.Subagent(tools.SubagentConfig{Model: script.New(inner...), Tools: list,
		Options: []aycoder.Option{aycoder.WithName("helper")}})
	require.NoError(c, err)
	l, err := aycoder.New(script.New(steps...), aycoder.WithTools(append(list, agent)...), aycoder.WithName("main"),
		aycoder.WithApprover(verdict(aycoder.Allow())))
	require.NoError(c, err)
	return l
}

// event does what the host and the user do between two calls.
func (c *changedRun) event(ev aycoder.Event) {
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		ev = child.Innermost()
	}
	end, ok := ev.(*aycoder.ToolFinished)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.undo && end.Changes != nil && c.r.IntN(3) == 0 && !slices.ContainsFunc(end.Changes.Files, c.link) {
		c.log = append(c.log, "undo")
		_, _ = c.files.Apply(c.Context(), end.Changes.Undo()) // what has changed since stays
	}
	if c.user && c.r.IntN(2) == 0 {
		file, n := fmt.Sprintf("user%d", 1+c.r.IntN(2)), c.r.IntN(1000)
		c.log = append(c.log, "user "+file)
		for _, dir := range []string{c.dir, c.before} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(c, err)
			lines := strings.SplitAfter(string(data), "\n")
			lines[2] = fmt.Sprintf("user %d\n", n)
			require.NoError(c, os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(lines, "")), 0o644))
		}
	}
}

// link reports whether a file was written by way of a link. To undo that takes the link away, which then is
// a change by the user.
func (c *changedRun) link(f edit.FileResult) bool {
	info, err := os.Lstat(filepath.Join(c.dir, f.Path))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// tree is what a directory has, without version control, directories and what git ignores.
func tree(t testing.TB, dir string) map[string]string {
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if rel == ".git" || rel == "ign" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			all[rel] = "link " + to
			return err
		case mode.IsRegular():
			data, err := os.ReadFile(name)
			all[rel] = fmt.Sprintf("file %v %s", mode&0o100 != 0, data)
			return err
		case !mode.IsDir():
			all[rel] = "other"
		}
		return nil
	}))
	return all
}

func apply(t testing.TB, dir, patch string, args ...string) (string, error) {
	if patch == "" {
		return "", nil
	}
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func shell(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Git makes of the files before a random run, with what the user has changed, the files after it, byte for
// byte, with the difference that the run tells.
func TestChangesLeadFromBeforeToAfter(t *testing.T) {
	timed.Serial(t)
	runs := 5 // the last one has branches
	if n, err := strconv.Atoi(os.Getenv("AYCODER_CHANGES_RUNS")); err == nil {
		runs = n
	}
	var files, binary, moved, several, patched, mixed, empty int
	var branched counted
	for seed := range runs {
		c := &changedRun{T: t, r: rand.New(rand.NewPCG(7, uint64(seed))), dir: filepath.Join(t.TempDir(), "ws")}
		c.before = c.dir + ".before"
		c.prepare()
		if seed%5 == 4 { // with branches at the same time
			c.several, c.user = true, false // commands of others could write at the same moment
			all := c.branches(2 + c.r.IntN(2))
			c.checkBranches(all, func() string {
				data, _ := json.MarshalIndent(all, "", " ")
				return fmt.Sprintf("seed %d: %q\n%s", seed, c.log, data)
			}, &branched)
			continue
		}
		res := c.run(seed%2 == 0)
		got := res.Changes
		diff := got.Diff()
		about := func() string {
			data, _ := json.MarshalIndent(got, "", " ")
			return fmt.Sprintf("seed %d: %q\n%s\n%s", seed, c.log, diff, data)
		}
		plain := c.before + ".patch"
		shell(t, filepath.Dir(c.before), "cp", "-a", c.before, plain)
		if seed%3 == 0 {
			shell(t, c.before, "git", "init", "-q")
		}
		out, err := apply(t, c.before, diff)
		require.NoError(t, err, "%s\n%s", out, about())
		left := map[string]bool{}
		for _, f := range got.Files() {
			files++
			require.NotEmpty(t, f.By, about())
			require.False(t, f.Mixed, about())
			require.Equal(t, f.Diff == "", f.NoDiff != "", about())
			if f.NoDiff != "" {
				left[f.Path] = true
			}
			if f.Kind == edit.ChangeMoved {
				moved++
			}
			if len(f.By) > 1 {
				several++
				for _, by := range f.By {
					if by.Diff == "" {
						mixed++
					}
				}
			}
			if strings.Contains(f.Diff, "GIT binary patch") {
				binary++
			}
		}
		if len(got.Files()) == 0 {
			empty++
		}
		want, is := tree(t, c.dir), tree(t, c.before)
		for name := range left {
			delete(want, name)
			delete(is, name)
		}
		require.Equal(t, want, is, "%s", about())
		if !strings.Contains(diff, "GIT binary") && !strings.Contains(diff, " 120000") && !strings.Contains(diff, "rename ") &&
			!strings.Contains(diff, "\"") && !strings.Contains(diff, " mode 100755") && diff != "" && len(left) == 0 {
			cmd := exec.CommandContext(t.Context(), "patch", "-p1", "-s", "-f", "--binary", "-i", "-")
			cmd.Dir, cmd.Stdin = plain, strings.NewReader(diff)
			if out, err := cmd.CombinedOutput(); err == nil {
				patched++
				require.Equal(t, want, tree(t, plain), about())
			} else {
				t.Logf("patch: %s", out)
			}
		}
		agents := map[string]bool{}
		for _, f := range got.Files() {
			for _, by := range f.By {
				agents[by.Run] = true
			}
		}
		for id := range agents { // what one agent has done can be taken back from the result
			out, err := apply(t, c.dir, got.Diff(id), "-R", "--check")
			require.NoError(t, err, "%s of %s\n%s\n%s", id, out, got.Diff(id), about())
		}
	}
	t.Logf("%d runs (%d without a change), %d files: %d binary, %d moved, %d by several agents (%d parts not told apart); %d runs also by patch",
		runs, empty, files, binary, moved, several, mixed, patched)
	t.Logf("%d of them with branches: %d files, %d of several branches (%d adjacent for git), %d mixed (%d with commands)",
		branched.runs, branched.files, branched.shared, branched.adjacent, branched.mixed, branched.commands)
}

func (c *changedRun) prepare() {
	require.NoError(c, os.Mkdir(c.dir, 0o755))
	for _, name := range changedNames {
		if c.r.IntN(3) == 0 || name == "a/b" && c.r.IntN(9) > 0 {
			continue
		}
		path := filepath.Join(c.dir, name)
		if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
			continue
		}
		if c.r.IntN(8) == 0 {
			_ = os.Symlink(c.name(), path)
			continue
		}
		mode := []fs.FileMode{0o644, 0o644, 0o755, 0o600}[c.r.IntN(4)]
		if _, err := os.Lstat(path); err == nil || os.WriteFile(path, []byte(c.text()), mode) != nil {
			continue
		}
	}
	var lines strings.Builder
	for i := range 40 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	for _, name := range []string{"user1", "user2"} {
		require.NoError(c, os.WriteFile(filepath.Join(c.dir, name), []byte(lines.String()), 0o644))
	}
	require.NoError(c, os.WriteFile(filepath.Join(c.dir, ".gitignore"), []byte("ign/\n"), 0o644))
	if c.git = c.r.IntN(2) == 0; c.git {
		shell(c, c.dir, "git", "init", "-q")
		shell(c, c.dir, "git", "add", "-A")
		shell(c, c.dir, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "c")
	}
	c.undo, c.user = c.r.IntN(3) == 0, c.r.IntN(3) == 0
	if c.git {
		c.user = false // git checkout takes back what the user has changed, too
	}
	shell(c, filepath.Dir(c.dir), "cp", "-a", c.dir, c.before)
	require.NoError(c, os.RemoveAll(filepath.Join(c.before, ".git")))
	ws, err := workspace.Open(c.dir, workspace.WithPlanRecords(c.dir+".records"))
	require.NoError(c, err)
	c.Cleanup(func() { ws.Close() })
	c.files = snapshot.New(ws)
}

// run runs an agent, in a session or not.
func (c *changedRun) run(alone bool) *aycoder.Result {
	loop := c.loop(c.calls(2+c.r.IntN(8), true)...)
	var agent aycoder.Agent = loop
	var opts []aycoder.RunOption
	if alone {
		opts = append(opts, aycoder.WithChanges(c.files.Watch))
	} else {
		s, err := session.New(c.Context(), journal.Memory(), loop, session.WithFiles(c.files))
		require.NoError(c, err)
		c.Cleanup(func() { s.Close() })
		agent = s
	}
	var last *aycoder.Result
	var res aycoder.Result
	for ev, err := range agent.Run(c.Context(), aycoder.Input{Prompt: "go"}, append(opts, aycoder.Into(&res))...) {
		require.NoError(c, err)
		c.event(ev)
		if end, ok := ev.(*aycoder.RunFinished); ok {
			last = end.Result
			data, err := json.Marshal(ev)
			require.NoError(c, err)
			back, err := aycoder.DecodeEvent(data)
			require.NoError(c, err)
			again, err := json.Marshal(back)
			require.NoError(c, err)
			require.JSONEq(c, string(data), string(again))
		}
	}
	require.NotNil(c, last.Changes)
	require.Same(c, last.Changes, res.Changes)
	return last
}
