//go:build linux

package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// The directory of the next command follows the one before, in both shells.
func TestDirectoryIsKept(t *testing.T) {
	tests := []struct {
		name, command string
		dir           string
		note          string // in the result
		code          int
	}{
		{"cd", "cd sub", "sub", "[exit 0, in sub]", 0},
		{"cd and back", "cd sub; cd ..", ".", "[exit 0]", 0},
		{"exit", "cd sub; exit 3", "sub", "[exit 3, in sub]", 3},
		{"fails", "cd sub; false", "sub", "[exit 1, in sub]", 1},
		{"set -eux", "set -eux; cd sub; false; cd ..", "sub", "[exit 1, in sub]", 1},
		{"set -eux, well", "set -eux; cd sub", "sub", "+ cd sub\n[exit 0, in sub]\n", 0},
		{"subshell", "(cd sub); (cd sub; exit 4)", ".", "[exit 4]", 4},
		{"pipeline", "cd sub | cat", ".", "[exit 0]", 0},
		{"own trap", "trap 'echo bye; (exit 9)' EXIT; cd sub; (exit 5)", "sub", "bye\n[exit 5, in sub]", 5},
		{"own trap, exit", "trap 'echo bye' EXIT; cd sub; exit 5", ".", "bye\n[the shell did not tell its directory", 5},
		{"no trap", "trap - EXIT; cd sub", "sub", "", 0},
		{"exec", "cd sub; exec true", ".", "[the shell did not tell its directory", 0},
		{"killed", "cd sub; kill -9 $$", ".", "[killed by signal: killed]", -1},
		{"outside", "cd /; pwd", ".", "/\n[the command ended outside the workspace", 0},
		{"through a link", "cd link; pwd", ".", "outside the workspace", 0},
		{"inner link", "cd inner; pwd", "sub", "/inner\n[exit 0, in sub]", 0},
		{"odd names", "mkdir 'a\nb \"c'; cd 'a\nb \"c'", "a\nb \"c", `in "a\nb \"c"]`, 0},
		{"no newline", "printf x; cd sub", "sub", "x\n[exit 0, in sub]", 0},
		{"output closed", "cd sub; exec >&- 2>&-", "sub", "[no output]", 0},
		{"other output", "cd sub; exec >out; echo x", "sub", "[no output]", 0},
		{"separators", "IFS=0123; cd sub; (exit 123)", "sub", "[exit 123, in sub]", 123},
		{"arguments", `cd sub; set -- a b; echo "$1$#"`, "sub", "a2\n", 0},
		{"no arguments", `echo "[$1$#$REPLY]"`, ".", "[0]\n", 0},
		{"no clobber", "set -C; cd sub", "sub", "[exit 0, in sub]", 0},
		{"syntax", "cd sub\nif then", "sub", "yntax error", 2},
		{"comment", "# nothing", ".", "[no output]\n[exit 0]", 0},
		{"line numbers", "\n\nnosuchcommand", ".", "line 3", 127},
		{"here document", "cat <<E\nx\nE", ".", "x\n[exit 0]", 0},
		{"wait", "wait; jobs; echo done", ".", "done\n[exit 0]", 0},
		{"not told", "cd sub; exec 50>&-", ".", "[the shell did not tell", 0},
		{"told wrongly", "printf 'etc\\0' >&50; cd sub; exec true", ".", "[the shell did not tell", 0},
	}
	for _, size := range []string{"short", "long"} {
		for _, tt := range tests {
			t.Run(size+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				w, shell, mark := shellWorld(t, map[string]string{"sub/f": "x"})
				require.NoError(t, os.Symlink(w.base, w.path("link")))
				require.NoError(t, os.Symlink("sub", w.path("inner")))
				command := tt.command
				if size == "long" {
					command += "\n# " + strings.Repeat("x", 150_000)
				}
				r := w.call("bash", args{"command": command})
				assert.Equal(t, tt.dir, shell.Dir())
				assert.Contains(t, r.Text(), tt.note)
				if tt.code >= 0 {
					assert.Equal(t, fmt.Sprint("exit ", tt.code), r.Summary, r.Text())
				}
				real, err := filepath.EvalSymlinks(w.path(tt.dir))
				require.NoError(t, err)
				got, _, _ := strings.Cut(w.ok("bash", args{"command": "pwd -P"}), "\n[exit 0")
				assert.Equal(t, real, got)
				assert.Empty(t, survivors(t, mark))
			})
		}
	}
}

// A directory that was removed, or replaced by a link that leads elsewhere, is left with
// a note.
func TestDirectoryIsGone(t *testing.T) {
	w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x"})
	w.ok("bash", args{"command": "cd sub"})
	require.NoError(t, os.RemoveAll(w.path("sub")))
	assert.Contains(t, w.fails("not_found", "bash", args{"command": "pwd"}), "runs in the directory of the workspace")
	assert.Equal(t, ".", shell.Dir())
	w.ok("bash", args{"command": "mkdir sub; cd sub"})
	require.NoError(t, os.Remove(w.path("sub")))
	require.NoError(t, os.Symlink(w.base, w.path("sub")))
	w.fails("not_found", "bash", args{"command": "pwd"})
	w.ok("bash", args{"command": "pwd"})
	w.fails("outside_workspace", "bash", args{"command": "pwd", "working_dir": "sub"})
}

func TestWorkingDir(t *testing.T) {
	w, shell, _ := shellWorld(t, map[string]string{"a/b/f": "x"})
	w.ok("bash", args{"command": "cd a"})
	assert.Contains(t, w.ok("bash", args{"command": "ls; cd /", "working_dir": "a/b"}), "f\n[exit 0, in a]")
	assert.Equal(t, "a", shell.Dir())
	w.fails("not_directory", "bash", args{"command": "ls", "working_dir": "a/b/f"})
	w.fails("not_found", "bash", args{"command": "ls", "working_dir": "b"})
	w.fails("outside_workspace", "bash", args{"command": "ls", "working_dir": ".."})
}

// Commands that run at the same time start where the last one ended. Of these, the ones
// that change the directory decide where the next starts.
func TestParallelDirectories(t *testing.T) {
	w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x"})
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			if i == 7 {
				w.ok("bash", args{"command": "cd sub"})
				return
			}
			w.ok("bash", args{"command": "true", "working_dir": "."})
		})
	}
	calls.Wait()
	assert.Equal(t, "sub", shell.Dir())
}

func TestPreview(t *testing.T) {
	w, _, _ := shellWorld(t, map[string]string{"sub/f": "x"})
	bash := w.tool["bash"].(aycoder.Previewer)
	inv := func(id string, in args) *aycoder.Invocation {
		return aycoder.NewInvocation(id, "bash", mustJSON(t, in), nil)
	}
	preview := func(id string, in args) string {
		text, err := bash.Preview(t.Context(), inv(id, in))
		require.NoError(t, err)
		return text
	}
	move := args{"command": "cd sub"}
	assert.Equal(t, "in .: cd sub", preview("1", move))
	assert.Equal(t, "in .:\na\nb", preview("2", args{"command": "a\nb"}))
	assert.Equal(t, "in sub, in the background: x", preview("3", args{"command": "x", "background": true, "working_dir": "sub/"}))
	_, err := bash.Preview(t.Context(), inv("4", args{"command": "x", "working_dir": "../x"}))
	require.Error(t, err)
}

// An unusual notation of a number does not hide the command from the approver.
func TestPreviewOfOddNumbers(t *testing.T) {
	for _, timeout := range []string{"5", "5.0", "5e0", `"5.0"`} {
		w, _, _ := shellWorld(t, nil)
		in := json.RawMessage(`{"command":"echo hello","timeout":` + timeout + `}`)
		l, err := aycoder.New(script.New(script.Call("bash", in), script.Say("Done.")),
			aycoder.WithTools(w.tool["bash"]), aycoder.WithApprover(asks))
		require.NoError(t, err)
		preview, text := "", ""
		for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.ApprovalRequested:
				preview = ev.Request.Preview
				ev.Allow()
			case *aycoder.ToolFinished:
				text = ev.Output.Text()
			}
		}
		assert.Equal(t, "in .: echo hello", preview, timeout)
		assert.Contains(t, text, "hello", timeout)
	}
}

// An approval for one directory does not hold in another.
func TestApprovalHoldsForTheDirectory(t *testing.T) {
	w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x"})
	m := script.New(
		script.Reply(script.Call("bash", args{"command": "cd sub"}), script.Call("bash", args{"command": "touch here"})),
		script.Call("bash", args{"command": "touch here"}),
		script.Say("Done."),
	)
	l, err := aycoder.New(m, aycoder.WithTools(w.tool["bash"]), aycoder.WithApprover(asks))
	require.NoError(t, err)
	var previews, errs []string
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			previews = append(previews, ev.Request.Preview)
			ev.Allow()
		case *aycoder.ToolFinished:
			if ev.Output.IsError {
				errs = append(errs, ev.Output.Text())
			}
		}
	}
	assert.Equal(t, "sub", shell.Dir())
	assert.NoFileExists(t, w.path("here"))
	assert.FileExists(t, w.path("sub/here"))
	assert.Equal(t, []string{"in .: cd sub", "in .: touch here", "in sub: touch here"}, previews)
	assert.Len(t, errs, 1)
}

// Nested runs have separate directories, which are forgotten with the runs.
func TestDirectoriesOfInnerRuns(t *testing.T) {
	w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x", "other/f": "x"})
	inner := func(run, command string) string {
		inv := aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": command}), nil)
		inv.Run, inv.Depth = run, 1
		r, err := w.tool["bash"].Call(t.Context(), inv)
		require.NoError(t, err)
		return r.Text()
	}
	w.ok("bash", args{"command": "cd sub"})
	assert.Contains(t, inner("a", "cd other"), "[exit 0]", "without an end of the run nothing is kept")
	assert.Equal(t, "sub", shell.Dir())

	var told []string
	tell := func(next script.Step) script.Step {
		return script.Func(func(req *aycoder.Request) script.Step {
			told = append(told, script.LastOutput(req).Text())
			return next
		})
	}
	agent, err := Subagent(SubagentConfig{Tools: []aycoder.Tool{w.tool["bash"]}, Model: script.New(
		script.Call("bash", args{"command": "cd other"}),
		tell(script.Call("bash", args{"command": "ls"})),
		tell(script.Say("Done.")),
	)})
	require.NoError(t, err)
	outer := script.New(script.Call("subagent", args{"task": "list"}), script.Say("Done."))
	l, err := aycoder.New(outer, aycoder.WithTools(agent, w.tool["bash"]), approveAll())
	require.NoError(t, err)
	for _, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	require.Len(t, told, 2)
	assert.Contains(t, told[0], "[exit 0, in other]")
	assert.Contains(t, told[1], "f\n[exit 0, in other]")
	assert.Equal(t, "sub", shell.Dir())
	assert.Empty(t, shell.inner)
}

// A tool reports its progress, and releases everything when many calls are cancelled.
func TestManyCallsCancelled(t *testing.T) {
	timed.Long(t, "hundreds of commands at once")
	n := 200
	if timed.Reduced(t) {
		n = 80
	}
	t.Setenv("TMPDIR", t.TempDir())
	w, shell, mark := shellWorld(t, nil)
	w.ok("bash", args{"command": "true"}) // initializes what is created once
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := make(chan struct{}, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			script := "sleep 300 & setsid sleep 300 & echo up; wait"
			if i%2 == 0 {
				script += " # " + strings.Repeat("x", 150_000)
			}
			inv := aycoder.NewInvocation(fmt.Sprint(i), "bash", mustJSON(t, args{"command": script, "background": i%4 == 1}),
				func(aycoder.Progress) { up <- struct{}{} })
			r, err := w.tool["bash"].Call(ctx, inv)
			switch {
			case i%4 == 1: // 16 of them stay
			case assert.NoError(t, err):
				assert.True(t, r.IsError)
				assert.Contains(t, r.Text(), "cancelled: ")
			}
		})
	}
	for range n * 3 / 4 {
		<-up
	}
	start := time.Now()
	cancel()
	calls.Wait()
	t.Logf("%d calls returned %v after the cancel", n, time.Since(start))
	all, _ := os.ReadDir(os.Getenv("TMPDIR"))
	assert.Empty(t, all)
	require.NoError(t, shell.Close())
	assert.Empty(t, survivors(t, mark))
	timed.Until(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, "goroutines to end")
	assert.LessOrEqual(t, descriptors(t), files)
	r := w.call("bash", args{"command": "true", "background": true})
	assert.Contains(t, r.Text(), "closed: ")
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

func TestJobs(t *testing.T) {
	w, shell, mark := shellWorld(t, map[string]string{"sub/f": "x"})
	w.ok("bash", args{"command": "cd sub"})
	start := func(command string) string {
		text := w.ok("bash", args{"command": command, "background": true})
		assert.Contains(t, text, "[the next command runs in sub]\n")
		return regexp.MustCompile(`bash-\d+`).FindString(text)
	}
	echo := start("while read -r x; do echo got $x; done <fifo & echo 'ready 1'; echo ready 2; mkfifo fifo; wait")
	get := func(in args) string {
		if in["id"] == nil {
			in["id"] = echo
		}
		return w.ok("job_output", in)
	}
	id := start("i=0; while ! [ -e stop ]; do :; done; cd /; printf 'end\\033[31m é'; exit 7")
	assert.Regexp(t, `^\[no new output\]\n\[bash-2: running for .*\]\n$`, get(args{"id": id}))
	w.write("sub/stop", "")
	assert.Regexp(t, "^end é\n", get(args{"id": id, "wait": 60, "filter": "é$"}))
	get(args{"id": id, "wait": 60}) // waits for the end, if that was not reported yet
	assert.Equal(t, "[no new output]\n[bash-2: ended, exit 7]\n", get(args{"id": id}))
	assert.Contains(t, w.ok("job_stop", args{"id": id}), "already ended")
	assert.Equal(t, "sub", shell.Dir(), "what runs in the background does not move the others")

	lines := start("for i in 1 2 3 4 5; do echo line $i; done; sleep 300")
	assert.Regexp(t, `^\[no new line matches\]\n(\[\d other lines? left out\]\n)?\[bash-3: running`, get(args{"id": lines, "filter": "none"}))
	lines = start("sleep 0.3; for i in 1 2 3 4 5; do echo line $i; done; sleep 300")
	assert.Contains(t, get(args{"id": lines, "filter": "line [5]", "wait": 60}), "line 5\n[4 other lines left out]\n")
	assert.Regexp(t, `\[bash-4: killed\]`, w.ok("job_stop", args{"id": lines}))
	assert.Contains(t, w.fails("unknown_job", "job_output", args{"id": "bash-99"}), "there are bash-1, bash-2")
	w.fails("invalid_regex", "job_output", args{"id": echo, "filter": "a(?=b)"})
	w.fails("invalid_regex", "job_output", args{"id": echo, "filter": strings.Repeat("x", maxFilter+1)})

	timed := start("sleep 300 & wait") // also one with a timeout
	text := w.ok("bash", args{"command": "echo x; sleep 300", "background": true, "timeout": 1})
	short := regexp.MustCompile(`bash-\d+`).FindString(text)
	assert.Regexp(t, `timed out after 1`, get(args{"id": short, "wait": 60, "filter": "never"}))
	require.NoError(t, shell.Close())
	require.NoError(t, shell.Close())
	assert.Empty(t, survivors(t, mark))
	assert.Contains(t, w.ok("job_stop", args{"id": timed}), "already ended")
}

// Unread output is bounded, and its loss is reported.
func TestJobBacklog(t *testing.T) {
	const kept = 1 << 10
	g, err := background.New(background.WithLimits(background.Limits{Output: kept}))
	require.NoError(t, err)
	over := make(chan struct{})
	inv := aycoder.NewInvocation("c", "bash", nil, nil)
	j, err := g.Start(t.Context(), inv, background.Work{Kind: background.Command, Prefix: "bash",
		Run: func(context.Context, *background.Job) background.Outcome {
			<-over
			command := job{res: &ExecResult{Code: 1, Survivors: 2, Notes: []string{"a\x1b[1mnote"}}}
			return command.outcome()
		}})
	require.NoError(t, err)
	report := func() string {
		r, _ := reportJob(j, inv, nil)
		return r.Text()
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 5_000 {
		_, _ = j.Write(line)
	}
	text := report()
	assert.Contains(t, text, fmt.Sprintf("[… %d bytes before this are lost", 5_000*100-kept/100*100), "half a line is not shown")
	assert.Less(t, len(text), kept+500)
	assert.Contains(t, report(), "[no new output]")

	_, _ = j.Write([]byte("a\x1b[3"))
	assert.True(t, strings.HasPrefix(report(), "a\n["))
	_, _ = j.Write([]byte("1mb\xc3"))
	assert.True(t, strings.HasPrefix(report(), "b\n["))
	close(over)
	<-j.Done()
	assert.Equal(t, "?\n[bytes that are not text are shown as ?]\n[2 processes could not be ended and still run]\n[anote]\n[bash-1: ended, exit 1]\n", report())
	require.NoError(t, g.Close())
}

// fakeExec runs a function.
type fakeExec func(ctx context.Context, c *ExecCommand) (*ExecResult, error)

func (f fakeExec) Run(ctx context.Context, c *ExecCommand) (*ExecResult, error) { return f(ctx, c) }

// An Exec of a host gets what it needs, and its faults do no harm.
func TestExec(t *testing.T) {
	var late *ExecCommand
	fake := fakeExec(func(ctx context.Context, c *ExecCommand) (*ExecResult, error) {
		fmt.Fprintln(c.Output, "ran", c.Script)
		switch c.Script {
		case "late":
			late = c
		case "panic":
			panic("oops")
		case "nothing":
			return nil, nil
		case "error":
			return nil, errors.New("no\x00 container")
		case "lost":
			return &ExecResult{}, errors.New("connection lost")
		case "gone":
			return nil, fmt.Errorf("remote: %w", ErrExecDir)
		case "wait":
			<-ctx.Done()
			return &ExecResult{Code: -1}, ctx.Err()
		case "where":
			return &ExecResult{Dir: filepath.Join(c.Root, "sub"), Held: true}, nil
		}
		return &ExecResult{Code: 5}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x"}, WithExec(fake))
		run := func(s string) *aycoder.ToolResult { return w.call("bash", args{"command": s}) }
		assert.Equal(t, "ran x\n[exit 5]\n", run("x").Text())
		run("late")
		_, err := late.Output.Write([]byte("x"))
		require.Error(t, err)
		w.fails("cannot_run", "bash", args{"command": "nothing"})
		assert.Contains(t, w.fails("cannot_run", "bash", args{"command": "error"}), "container")
		w.fails("io", "bash", args{"command": "lost"})
		w.fails("not_found", "bash", args{"command": "gone"})
		assert.Contains(t, run("where").Text(), "still runs; its output is lost]\n[exit 0, in sub]")
		assert.Equal(t, "sub", shell.Dir())
		r := w.call("bash", args{"command": "wait", "timeout": 3})
		assert.Equal(t, "timed out after 3s", r.Summary)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err = w.callCtx(ctx, "bash", args{"command": "wait"})
		require.NoError(t, err)
		assert.Equal(t, "cancelled", r.Summary)

		assert.Contains(t, w.fails("cannot_run", "bash", args{"command": "panic", "background": true}), "oops")
		w.fails("cannot_run", "bash", args{"command": "nothing", "background": true})
		assert.Contains(t, w.ok("bash", args{"command": "wait", "background": true}), "ran wait\n[bash-3: running for 200ms]")
		began := time.Now()
		assert.Contains(t, w.ok("job_output", args{"id": "bash-3", "wait": 1000}), "[no new output]")
		assert.Equal(t, maxWait*time.Second, time.Since(began))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = w.callCtx(ctx, "job_output", args{"id": "bash-3", "wait": 60})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, stop = context.WithTimeout(t.Context(), firstLook/2)
		defer stop()
		_, err = w.callCtx(ctx, "bash", args{"command": "wait", "background": true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w.fails("unknown_job", "job_output", args{"id": "bash-4"})

		for range 40 {
			w.ok("bash", args{"command": "x", "background": true})
		}
		assert.LessOrEqual(t, len(shell.own.Jobs()), 20)
		w.ok("job_output", args{"id": "bash-3"})
		require.NoError(t, shell.Close())
	})
	_, err := Coding(newWorld(t, nil).ws, WithExec(nil))
	require.ErrorContains(t, err, "WithExec")
	_, err = Coding(newWorld(t, nil).ws, WithShell(nil))
	require.ErrorContains(t, err, "WithShell")
}

// A command that has ended by itself was not stopped, even if the call is cancelled before Run returns.
func TestBashEndedBeforeTheCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w, shell, _ := shellWorld(t, map[string]string{"sub/f": "x"}, WithExec(fakeExec(func(_ context.Context, c *ExecCommand) (*ExecResult, error) {
		fmt.Fprintln(c.Output, "pushed")
		cancel()
		return &ExecResult{Dir: filepath.Join(c.Root, "sub")}, nil
	})))
	r, err := w.callCtx(ctx, "bash", args{"command": "git push"})
	require.NoError(t, err)
	assert.Equal(t, "pushed\n[exit 0, in sub]\n", r.Text())
	assert.False(t, r.IsError)
	assert.Equal(t, "sub", shell.Dir())
}

// A repository cannot run programs of its choice when it is inspected, nor on a commit or
// a fetch.
func TestHostileRepository(t *testing.T) {
	timed.Serial(t)
	w, _, _ := shellWorld(t, map[string]string{"f": "a\n"})
	evil := filepath.Join(w.base, "evil")
	require.NoError(t, os.WriteFile(evil, []byte("#!/bin/sh\necho $* >>$0.log\n"), 0o755))
	hooks := filepath.Join(w.base, "hooks")
	require.NoError(t, os.Mkdir(hooks, 0o755))
	require.NoError(t, os.Symlink(evil, filepath.Join(hooks, "pre-commit")))
	w.ok("bash", args{"command": "git init -q && git config user.name a && git config user.email a@b && git add f && git commit -qm first; echo b >f"})
	for _, kind := range []string{"SSH SIGNATURE", "SIGNED MESSAGE"} { // of gpg.ssh and gpg.x509
		w.ok("bash", args{"command": `printf 'tree %s\nparent %s\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n` +
			`gpgsig -----BEGIN ` + kind + `-----\n x\n -----END ` + kind + `-----\n\nx\n' $(git rev-parse HEAD^{tree} HEAD) | ` +
			`git hash-object -t commit -w --stdin | xargs git update-ref HEAD`})
	}
	config := fmt.Sprintf("[core]\nfsmonitor=%[1]s\nhooksPath=%[2]s\npager=%[1]s\nsshCommand=%[1]s\neditor=%[1]s\naskPass=%[1]s\n"+
		"[log]\nshowSignature=true\n[format]\npretty=%%G?\n[gpg]\nprogram=%[1]s\n[gpg \"ssh\"]\nprogram=%[1]s\nallowedSignersFile=f\n"+
		"[gpg \"x509\"]\nprogram=%[1]s\n[commit]\ngpgSign=true\n[credential]\nhelper=%[1]s\n[pager]\nlog=%[1]s\n"+
		"[sequence]\neditor=%[1]s\n[remote \"origin\"]\nurl=ssh://127.0.0.1:1/x\n[remote \"ext\"]\nurl=ext::%[1]s\n", evil, hooks)
	f, err := os.OpenFile(w.path(".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(config)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for _, command := range []string{"status", "diff", "log -p", "blame f", "branch", "commit -am x", "commit --amend", "fetch origin", "fetch ext", "rebase -i HEAD"} {
		w.call("bash", args{"command": "git " + command})
		assert.NoFileExists(t, evil+".log", command)
	}
	assert.Contains(t, w.ok("bash", args{"command": "git diff"}), "+b\n")
	w.ok("bash", args{"command": "git clone -q --bare . docs"})
	assert.Contains(t, w.call("bash", args{"command": "git -C docs log"}).Text(), "safe.bareRepository", "a directory is not a repository unless it is named")
	w.call("bash", args{"command": "env -u GIT_CONFIG_COUNT git status"})
	assert.FileExists(t, evil+".log", "else nothing was shown above")
}

// Commands that were started in a run end with it, before the loop statement ends.
func TestJobsEndWithTheRun(t *testing.T) {
	timed.Long(t, "background commands that end with a run")
	w, shell, mark := shellWorld(t, nil)
	m := script.New(
		script.Call("bash", args{"command": "setsid sleep 300 & sleep 300", "background": true}),
		script.Call("job_output", args{"id": "bash-1"}),
		script.Say("Done."),
	)
	l, err := aycoder.New(m, aycoder.WithTools(w.tool["bash"], w.tool["job_output"]), approveAll())
	require.NoError(t, err)
	var texts []string
	for ev, err := range l.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if fin, ok := ev.(*aycoder.ToolFinished); ok {
			texts = append(texts, fin.Output.Text())
			assert.NotEmpty(t, survivors(t, mark))
		}
	}
	require.Len(t, texts, 2)
	assert.Contains(t, texts[1], "running")
	assert.Empty(t, survivors(t, mark))
	assert.Empty(t, shell.own.Jobs())
}

// Endless output takes no memory.
func TestOutputIsBounded(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "output of many megabytes")
	w, _, _ := shellWorld(t, nil, WithMasking(false))
	for _, command := range []string{"yes | head -c 300000000", "head -c 300000000 /dev/zero", "head -c 30000000 /dev/urandom"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := w.call("bash", args{"command": command})
		runtime.ReadMemStats(&after)
		assert.Less(t, len(r.Text()), maxOutput+500)
		assert.Contains(t, r.Text(), "omitted")
		taken := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d kB allocated", command, taken>>10)
		assert.Less(t, taken, uint64(4<<20))
	}
}

func TestLongScripts(t *testing.T) {
	timed.Serial(t)
	w, _, _ := shellWorld(t, nil)
	for _, n := range []int{maxArgument - 20, maxArgument, 150_000, maxCommand} {
		command := "exec 3>&1; echo " + strings.Repeat("x", n-40) + " | wc -c; cat"
		assert.Contains(t, w.ok("bash", args{"command": command}), fmt.Sprint(n-39, "\n[exit 0]"))
	}
	w.env(t, "PATH=/nowhere")
	r := w.call("bash", args{"command": "true # " + strings.Repeat("x", maxArgument)})
	assert.Equal(t, "exit 127", r.Summary, "a script that could not be read does not seem to have run")
}

// env recreates the tools with additional environment variables.
func (w *world) env(t *testing.T, vars ...string) {
	t.Helper()
	tool, err := Bash(w.ws, WithEnv(vars...))
	require.NoError(t, err)
	w.tool["bash"] = tool
}

func FuzzLastDir(f *testing.F) {
	f.Add([]byte("/a\n\x00/b\n\x00rest"))
	f.Add([]byte("\x00\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := lastDir(data)
		assert.True(t, dir == "" || filepath.IsAbs(dir))
		assert.NotContains(t, dir, "\x00")
		clean := bytes.ReplaceAll(data, []byte{0}, nil)
		assert.Equal(t, "/"+string(clean), lastDir(slices.Concat(data, []byte("\x00/"), clean, []byte("\n\x00"))))
	})
}

func BenchmarkBash(b *testing.B) {
	w, _, _ := shellWorld(b, nil)
	for b.Loop() {
		w.call("bash", args{"command": ":"})
	}
}

// BenchmarkFlood measures a call with a lot of output.
func BenchmarkFlood(b *testing.B) {
	w, _, _ := shellWorld(b, nil)
	const n = 100 << 20
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		w.call("bash", args{"command": fmt.Sprintf("yes | head -c %d", n)})
	}
}

// A member name in another case is not a second command: the policy reads one, and
// encoding/json would take the other.
func TestBashRefusesNamesInAnotherCase(t *testing.T) {
	w := newWorld(t, nil)
	for _, raw := range []string{`{"command":"true","Command":"touch x"}`, `{"COMMAND":"touch x"}`, `{"command":"true","Request_approval":true}`} {
		_, err := w.tool["bash"].Call(t.Context(), aycoder.NewInvocation("c", "bash", json.RawMessage(raw), nil))
		_, refused := errors.AsType[*aycoder.ToolArgsError](err)
		require.True(t, refused, "%s: %v", raw, err)
	}
	require.NoFileExists(t, w.path("x"))
}
