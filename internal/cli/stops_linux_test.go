package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
)

// A moment is a state of the program in a terminal, with what each way to stop must do in it.
type moment struct {
	name    string
	answers []http.HandlerFunc
	args    []string
	env     []string
	reach   func(p *terminal)
	kept    []string // texts that the conversation on disk has afterwards
	cells   map[string]string
}

// stubborn is a command with a child, both of which ignore what a terminal sends.
const stubborn = `trap '' INT TERM HUP; sleep 60 & echo $! $$ >pids; echo started; wait`

// moments is the table of docs/cli.md. A number is the exit code of a program that ends. Otherwise it goes on, and
//
//	same     nothing has changed
//	clears   the line is empty
//	deletes  the first letter of the line has gone
//	hint     the line is empty, and another ctrl-c would quit
//	tree     /tree was called
//	stops    the turn has ended, and the prompt is back
//	prompt   the prompt is back; the terminal itself drops output at a ctrl-c
//	no       the question has been answered with no
func moments() []moment {
	ask := func(p *terminal) {
		p.expect("> ")
		p.Type("question\r")
	}
	return []moment{
		{name: "text in the line", reach: func(p *terminal) {
			p.expect("> ")
			p.Type("half a line\x01")
			p.stands("half a line")
		}, cells: map[string]string{
			"esc": "clears", "ctrl-c": "hint", "ctrl-c twice": "130", "ctrl-d": "deletes", "SIGINT": "hint", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "empty line", reach: func(p *terminal) { p.expect("> ") }, cells: map[string]string{
			"esc twice": "tree", "ctrl-c": "hint", "ctrl-c twice": "130", "ctrl-d": "0", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "streaming", answers: []http.HandlerFunc{hangs("Let me think")}, reach: func(p *terminal) {
			ask(p)
			p.expect("Let me think")
		}, kept: []string{"question", "Let me think"}, cells: map[string]string{
			"esc": "stops", "ctrl-c": "stops", "ctrl-c five times": "stops", "ctrl-d": "same", "SIGINT": "stops", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "tool running", answers: []http.HandlerFunc{calls("bash", fmt.Sprintf(`{"command":%q}`, stubborn)), says("Never mind.", "end_turn")},
			args: []string{"-mode", "full-auto"}, reach: func(p *terminal) {
				ask(p)
				p.shows("started")
			}, kept: []string{"question", "trap ''", "tool_output"}, cells: map[string]string{
				"esc": "stops", "ctrl-c": "stops", "ctrl-c five times": "stops", "ctrl-d": "same", "SIGINT": "stops", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
			}},
		{name: "tool that never returns", answers: []http.HandlerFunc{calls("deaf", `{}`)}, reach: func(p *terminal) {
			ask(p)
			p.shows("deaf")
		}, kept: []string{"question", "deaf", "tool_output"}, cells: map[string]string{"ctrl-c": "stops", "ctrl-c five times": "stops", "SIGTERM": "143"}},
		{name: "asking", answers: []http.HandlerFunc{calls("bash", `{"command":"touch made"}`), says("Then not.", "end_turn")}, reach: func(p *terminal) {
			ask(p)
			p.shows("Run it?")
		}, kept: []string{"question", "touch made", "tool_output"}, cells: map[string]string{
			"esc": "stops", "ctrl-c": "stops", "ctrl-c five times": "stops", "ctrl-d": "no", "SIGINT": "stops", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "saying why", answers: []http.HandlerFunc{calls("bash", `{"command":"touch made"}`), says("Then not.", "end_turn")}, reach: func(p *terminal) {
			ask(p)
			p.answers("n")
			p.shows("Tell the model why")
		}, kept: []string{"question", "touch made", "tool_output"}, cells: map[string]string{
			"esc": "stops", "ctrl-c": "stops", "ctrl-d": "refused", "SIGTERM": "143", "SIGHUP": "129",
		}},
		{name: "choosing a rule", answers: []http.HandlerFunc{calls("bash", `{"command":"touch made"}`)}, reach: func(p *terminal) {
			ask(p)
			p.answers("a")
			p.shows("Number, with s")
		}, kept: []string{"question", "touch made", "tool_output"}, cells: map[string]string{"ctrl-c": "stops", "SIGTERM": "143"}},
		{name: "plain, empty line", env: []string{"TERM=dumb"}, reach: func(p *terminal) { p.expect("> ") }, cells: map[string]string{
			"ctrl-c": "hint", "ctrl-c twice": "130", "ctrl-d": "0", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "plain, streaming", env: []string{"TERM=dumb"}, answers: []http.HandlerFunc{hangs("Let me think")}, reach: func(p *terminal) {
			ask(p)
			p.expect("Let me think")
		}, kept: []string{"question", "Let me think"}, cells: map[string]string{
			"ctrl-c": "stops", "ctrl-c five times": "prompt", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
		{name: "plain, asking", env: []string{"TERM=dumb"}, answers: []http.HandlerFunc{calls("bash", `{"command":"touch made"}`), says("Then not.", "end_turn")}, reach: func(p *terminal) {
			ask(p)
			p.expect("Run it?")
		}, kept: []string{"question", "touch made", "tool_output"}, cells: map[string]string{
			"ctrl-c": "stops", "SIGTERM": "143", "SIGHUP": "129", "hangup": "129",
		}},
	}
}

// press does what the column of the table says.
func (p *terminal) press(name string) {
	p.t.Helper()
	switch name {
	case "esc":
		p.Type("\x1b")
	case "esc twice":
		p.Type("\x1b", "\x1b")
	case "ctrl-c":
		p.Type("\x03")
	case "ctrl-c twice":
		p.Type("\x03")
		p.expect("again to quit")
		p.Type("\x03")
	case "ctrl-c five times":
		for range 5 {
			p.Type("\x03")
		}
	case "ctrl-d":
		p.Type("\x04")
	case "SIGINT":
		p.Signal(os.Interrupt)
	case "SIGTERM":
		p.Signal(syscall.SIGTERM)
	case "SIGHUP":
		p.Signal(syscall.SIGHUP)
	case "hangup":
		p.Hangup()
	default:
		p.t.Fatal("no such key:", name)
	}
}

// stands waits until the prompt is back, and a text is all that stands in its line.
func (p *terminal) stands(text string) {
	p.t.Helper()
	p.Until(fmt.Sprintf("%q in the line", text), func(e *ttytest.Emulator) bool {
		for _, row := range lastRows(e, 3) {
			if row == strings.TrimSpace("> "+text) {
				return true
			}
		}
		return false
	})
}

// Each key and each signal, in each state of the program: what came is kept, the terminal is as it was, and a stop
// never turns into the end of the program.
func TestStops(t *testing.T) {
	t.Parallel()
	cells := 0
	for _, m := range moments() {
		for key, want := range m.cells {
			cells++
			t.Run(m.name+", "+key, func(t *testing.T) {
				t.Parallel()
				m.stop(t, key, want)
			})
		}
	}
	t.Logf("%d cells", cells)
}

func (m *moment) stop(t *testing.T, key, want string) {
	answers := m.answers
	if answers == nil {
		answers = []http.HandlerFunc{says("Hello.", "end_turn")}
	}
	state := t.TempDir()
	p := startTerminal(t, append(append(newService(t, answers...).env(), "XDG_STATE_HOME="+state), m.env...), m.args...)
	m.reach(p)
	p.press(key)
	code, ends := map[string]int{"0": exitOK, "129": exitHangup, "130": exitInterrupted, "143": exitTerminated}[want]
	plain := len(m.env) > 0
	if !ends {
		p.wentOn(want, plain)
		p.Type("\x05\x15\x04")
	}
	if key == "hangup" {
		require.Equal(t, code, p.Wait())
	} else {
		p.ends(code)
	}
	kept := journals(t, state)
	for _, text := range m.kept {
		require.Contains(t, kept, text)
	}
	require.NoFileExists(t, filepath.Join(p.cmd.Dir, "made"))
	gone(t, filepath.Join(p.cmd.Dir, "pids"))
}

// wentOn checks that the program does what the table says, and leads it to its prompt.
func (p *terminal) wentOn(want string, plain bool) {
	p.t.Helper()
	switch want {
	case "same":
		p.Type("!")
		p.shows("› !")
		require.NotContains(p.t, p.Text(), "interrupted")
		require.NotContains(p.t, p.Text(), "again to quit")
		p.Type("\x03") // stops what still works
		p.expect("interrupted.")
		return
	case "clears":
		p.stands("")
	case "hint":
		p.expect("again to quit")
	case "deletes":
		p.stands("alf a line")
		return
	case "tree":
		p.expect("nothing has been said yet")
	case "stops":
		p.expect("interrupted. The conversation is kept; go on.")
	case "prompt":
	case "no", "refused":
		p.expect(" refused")
		p.expect("Then not.")
	default:
		p.t.Fatal("no such outcome:", want)
	}
	if plain {
		p.expect("> ")
		p.Type("/mode\r")
		p.expect("The mode is")
		p.expect("> ")
		return
	}
	p.Type("!")
	p.stands("!")
}

// journals returns all that is kept of conversations.
func journals(t *testing.T, state string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range filesIn(t, state) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		all.Write(data)
	}
	return all.String()
}

// gone checks that no process runs whose number a file has.
func gone(t *testing.T, name string) {
	t.Helper()
	data, _ := os.ReadFile(name) // only some moments have such processes
	for pid := range strings.FieldsSeq(string(data)) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		require.True(t, err != nil || strings.Contains(string(stat), ") Z "), "it runs: %s", stat)
	}
}

// Ctrl-Z gives the terminal back to the shell as it was, and fg paints what stood on the screen again. An answer that
// broke off meanwhile is asked for again.
func TestStopAndForeground(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("dash") // bash would restore the terminal itself
	if err != nil {
		t.Skip("there is no dash")
	}
	for _, m := range moments() {
		if len(m.env) > 0 || m.name == "tool that never returns" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			answers, dead := m.answers, make(chan struct{})
			again := answers == nil
			if m.name == "streaming" {
				answers, again = []http.HandlerFunc{dies("Let me think", dead), says("Here I am again.", "end_turn")}, true
			} else if answers == nil {
				answers = []http.HandlerFunc{says("Hello.", "end_turn")}
			}
			p := &terminal{t: t, temp: t.TempDir()}
			p.begin(nil, append(newService(t, answers...).env(), "PS1=shell: ", "ENV="), func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, "PROGRAM="+cmd.Path)
				cmd.Path, cmd.Args = shell, []string{shell, "-i"}
			})
			p.expect("shell: ")
			p.Type("stty -g; $PROGRAM " + strings.Join(m.args, " ") + "\r")
			m.reach(p)
			p.Type("\x1a")
			p.expect("Stopped")
			p.expect("shell: ")
			require.False(t, p.Mode("2004"))
			require.True(t, p.Mode("25"), "the cursor is shown")
			close(dead)
			p.Type("stty -g; echo was $?\r")
			p.expect("was 0")
			p.Type("fg\r")
			switch m.name {
			case "text in the line":
				p.stands("half a line")
				p.Type("\x05\x15")
			case "streaming":
				p.expect("trying again")
				p.expect("Here I am again.")
			case "tool running":
				p.shows("started")
			case "asking":
				p.shows("Run it?")
			case "saying why":
				p.shows("Tell the model why")
			case "choosing a rule":
				p.shows("Number, with s")
			}
			if !again {
				p.Type("\x03")
				p.expect("interrupted.")
			}
			p.stands("")
			p.Type("\x04")
			p.Until("the shell", func(e *ttytest.Emulator) bool {
				row, _ := e.Cursor()
				return e.Lines()[row] == "shell:"
			})
			p.Type("stty -g; exit $?\r")
			p.ends(exitOK)
			states := regexp.MustCompile(`[0-9a-f]+(:[0-9a-f]+){20,}`).FindAllString(p.Raw(), -1)
			require.Len(t, states, 3, p.Text())
			require.Equal(t, states[0], states[1], "while it was stopped")
			require.Equal(t, states[0], states[2], "after its end")
		})
	}
}

// dies sends a text and ends the connection without an end of the answer, when it is told to.
func dies(text string, now <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		textBlock(w, 0, text)
		select {
		case <-now:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
}

// A panic restores the terminal before its report is printed, and the conversation is kept.
func TestPanicRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"prompt", "streaming"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			p := startTerminal(t, append(newService(t, hangs("Let me think")).env(), "XDG_STATE_HOME="+state))
			p.expect("> ")
			if at == "streaming" {
				p.Type("question\r")
				p.expect("Let me think")
			}
			p.Type("/panic\r")
			p.expect("\npanic: on purpose")
			p.ends(2)
			if at == "streaming" {
				require.Contains(t, journals(t, state), "Let me think")
			}
		})
	}
}

// Without a terminal a signal ends the run and everything that it has started, and the last line is still the result.
func TestStopsInAPipe(t *testing.T) {
	t.Parallel()
	signals := map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated, syscall.SIGHUP: exitHangup}
	for _, at := range []struct {
		name   string
		answer http.HandlerFunc
		until  string // a text in the output
		text   string // of the answer so far
	}{
		{"streaming", hangs("One moment"), "One moment", "One moment"},
		{"tool running", calls("bash", fmt.Sprintf(`{"command":%q}`, stubborn)), `"started`, ""},
	} {
		for _, way := range []string{"-p", "-input"} {
			for sig, code := range signals {
				t.Run(fmt.Sprint(at.name, " ", way, " ", sig), func(t *testing.T) {
					t.Parallel()
					state := t.TempDir()
					args := []string{"-p", "question", "-output", "events", "-mode", "full-auto"}
					if way == "-input" {
						args = []string{"-input", "events", "-mode", "full-auto"}
					}
					cmd := program(t, append(newService(t, at.answer).env(), "XDG_STATE_HOME="+state), args...)
					in, err := cmd.StdinPipe()
					require.NoError(t, err)
					defer in.Close()
					out, err := cmd.StdoutPipe()
					require.NoError(t, err)
					require.NoError(t, cmd.Start())
					if way == "-input" {
						_, err = io.WriteString(in, `{"type":"prompt","text":"question"}`+"\n")
						require.NoError(t, err)
					} else {
						in.Close()
					}
					var all strings.Builder
					for buf := make([]byte, 1024); !strings.Contains(all.String(), at.until); {
						n, err := out.Read(buf)
						require.NoError(t, err, all.String())
						all.Write(buf[:n])
					}
					require.NoError(t, cmd.Process.Signal(sig))
					rest, err := io.ReadAll(out)
					require.NoError(t, err)
					_ = cmd.Wait()
					require.Equal(t, code, cmd.ProcessState.ExitCode())
					last := lastLine(t, all.String()+string(rest))
					require.Equal(t, []any{"run_end", "cancelled", at.text, float64(code)}, []any{last["type"], last["reason"], last["text"], last["exit_code"]})
					require.Contains(t, journals(t, state), "question")
					require.Contains(t, journals(t, state), at.text)
					gone(t, filepath.Join(cmd.Dir, "pids"))
				})
			}
		}
	}
}

// Interrupts at a terminal that an editor has are for the editor.
func TestInterruptsInAnEditor(t *testing.T) {
	t.Parallel()
	editor := filepath.Join(t.TempDir(), "editor")
	script := "#!/bin/sh\ntrap 'n=$((n+1)); echo caught $n' INT\necho editing\nwhile ! read x; do :; done\n"
	require.NoError(t, os.WriteFile(editor, []byte(script), 0o755))
	p := startTerminal(t, append(newService(t, says("Hello.", "end_turn")).env(), "EDITOR="+editor))
	p.expect("> ")
	p.Type("\x07")
	p.expect("editing")
	p.Type("\x03")
	p.expect("caught 1")
	p.Type("\x03")
	p.expect("caught 2")
	p.Type("\r")
	p.stands("")
	p.Type("question\r")
	p.expect("Hello.")
	p.expect("tokens")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
}

// A signal that ends the program ends an open editor, too, and keeps what that leaves to be found again.
func TestEndInAnEditor(t *testing.T) {
	t.Parallel()
	editor := filepath.Join(t.TempDir(), "editor")
	for _, tt := range []struct {
		signal syscall.Signal
		script string
		left   int
	}{
		{syscall.SIGTERM, "echo editing; exec sleep 1000", 0}, // the line has the text
		{syscall.SIGHUP, "trap 'touch ${1%/*}/.edit.md.swp; exit 1' HUP; echo editing; while :; do sleep 0.1; done", 2},
	} {
		require.NoError(t, os.WriteFile(editor, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755))
		p := startTerminal(t, append(newService(t, says("Hello.", "end_turn")).env(), "EDITOR="+editor))
		p.expect("> ")
		p.Type("draft\x07")
		p.expect("editing")
		p.Signal(tt.signal)
		require.Equal(t, exitCode(tt.signal), p.Wait(), p.Text())
		p.Restored()
		left, err := filepath.Glob(filepath.Join(p.temp, "aycoder-edit-*", "*"))
		require.NoError(t, err)
		require.Len(t, left, tt.left)
	}
}

// An interrupt that the process has got while an editor had the terminal stops nothing later, also if package signal has
// still to pass it on.
func TestInterruptOfAnEditorIsDropped(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u := &ui{signals: make(chan os.Signal, 4)}
	for range 500 {
		signal.Notify(u.signals, os.Interrupt)
		require.NoError(t, unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGINT)) // this thread gets it before the call returns
		u.dropInterrupts()
		signal.Stop(u.signals) // from here on, nothing comes
		require.Empty(t, u.signals)
	}
}

// A program that was started by nohup goes on when its terminal has gone.
func TestHangupIsIgnored(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		textBlock(w, 0, "One moment")
		<-release
		sse(w, "content_block_stop", object{"index": 0})
		end(w, "end_turn")
	}
	cmd := program(t, newService(t, slow).env(), "-p", "question", "-output", "events")
	cmd.Args = append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	var err error
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	d := &driven{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
	d.lines.Buffer(nil, 1<<20)
	d.until("text_delta")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	close(release)
	require.Equal(t, 0.0, d.until("run_end")["exit_code"])
	require.NoError(t, cmd.Wait())
}

// A signal ends the program also while it opens the model.
func TestStopsWhileItOpens(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	fifo := filepath.Join(home, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(home, "aycoder"), 0o700))
	config := fmt.Sprintf("roles.main = \"m\"\n[models.m]\nprovider = \"anthropic\"\nmodel = \"claude-x\"\nkey_command = \"echo opens >%s; exec sleep 60\"\n", fifo)
	require.NoError(t, os.WriteFile(filepath.Join(home, "aycoder", "config.toml"), []byte(config), 0o600))
	for _, args := range [][]string{{"-p", "question"}, {"-input", "events"}} {
		cmd := program(t, []string{"XDG_CONFIG_HOME=" + home}, args...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		if args[0] == "-p" {
			in.Close()
		}
		require.NoError(t, cmd.Start())
		_, err = os.ReadFile(fifo)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		require.Equal(t, exitTerminated, cmd.ProcessState.ExitCode(), args)
		in.Close()
	}
	for sig, code := range map[os.Signal]int{syscall.SIGTERM: exitTerminated, os.Interrupt: exitInterrupted} {
		p := startTerminal(t, []string{"XDG_CONFIG_HOME=" + home})
		_, err := os.ReadFile(fifo)
		require.NoError(t, err)
		p.Signal(sig)
		p.ends(code)
	}
}

// A command of the status line ends with all that it has started, when its time is over and when it has printed its line.
func TestStatusLineEndsWhole(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"wait", "echo line"} {
		held := filepath.Join(t.TempDir(), "held")
		require.NoError(t, syscall.Mkfifo(held, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			_, _ = firstLineOf(ctx, ".", nil, "sh", "-c", "exec 3>"+held+"; echo begun >&3; sleep 600 & "+last)
		})
		f, err := os.Open(held)
		require.NoError(t, err)
		_, err = io.ReadFull(f, make([]byte, len("begun\n")))
		require.NoError(t, err)
		if last == "wait" {
			cancel()
		}
		ended.Wait()
		_, err = io.ReadAll(f) // until the last of its processes has ended
		require.NoError(t, err)
		f.Close()
		cancel()
	}
}

// A worktree in which another process works stays, although nothing was made in it.
func TestWorktreeOfTwo(t *testing.T) {
	t.Parallel()
	dir, run := repository(t)
	env := append(newService(t).env(), "XDG_STATE_HOME="+t.TempDir())
	env = append(env, "XDG_CONFIG_HOME="+t.TempDir())
	var both []*terminal
	for i := range 2 {
		p := &terminal{t: t, temp: t.TempDir()}
		p.begin([]string{"-w", "task"}, env, func(cmd *exec.Cmd) { cmd.Dir = dir })
		if i == 0 { // the answer is for the repository, and so for its worktrees
			p.expect("project: " + dir)
			p.answers("y")
		}
		p.expect("> ")
		both = append(both, p)
	}
	both[0].Type("\x04")
	both[0].ends(exitOK)
	require.Contains(t, both[0].Text(), "another process works in the worktree task")
	require.Contains(t, run("worktree", "list"), "[task]")
	both[1].Type("\x04")
	both[1].expect("Keep it?")
	both[1].Type("\x04")
	both[1].ends(exitOK)
}

// A signal at the question about a worktree ends the program with its exit status, and keeps the worktree.
func TestSignalAtTheWorktreeQuestion(t *testing.T) {
	t.Parallel()
	dir, run := repository(t)
	state := t.TempDir()
	p := &terminal{t: t, temp: t.TempDir()}
	env := append(newService(t).env(), "XDG_STATE_HOME="+state)
	p.begin([]string{"-w", "task"}, env, func(cmd *exec.Cmd) { cmd.Dir = dir })
	p.expect("Do you trust this?")
	p.answers("n")
	p.expect("> ")
	made, err := filepath.Glob(filepath.Join(state, "aycoder", "worktrees", "*", "task"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	require.NoError(t, os.WriteFile(filepath.Join(made[0], "new"), nil, 0o644))
	p.Type("\x04")
	p.expect("Keep it?")
	p.Signal(syscall.SIGTERM)
	p.ends(exitTerminated)
	require.Contains(t, run("worktree", "list"), made[0])
}

// A line that was typed before the question about a plugin does not answer it, and neither does the end of the input.
func TestPluginQuestion(t *testing.T) {
	t.Parallel()
	home, from := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "commands"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "plugin.json"), []byte(`{"name": "lint"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(from, "commands", "fix.md"), []byte("Fix it\n"), 0o644))
	env := []string{"XDG_CONFIG_HOME=" + home}
	for _, tt := range []struct{ before, answer, want string }{
		{"y\r", "\x04", "lint: not trusted"}, {"", "y\x04\x04", "lint: not trusted"}, {"", "yes\r", "lint: on"},
	} {
		p := &terminal{t: t, temp: t.TempDir()}
		p.begin([]string{"plugin", "add", from}, env, func(cmd *exec.Cmd) {
			cmd.Args = append([]string{"sh", "-c", `read x; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
			cmd.Path = "/bin/sh"
		})
		p.Type("go\r" + tt.before)
		p.expect("Do you trust it?")
		p.Type(tt.answer)
		p.ends(exitOK)
		require.Contains(t, runProgram(t, env, "", "plugin", "list").out, tt.want, "%q", tt)
		require.Equal(t, exitOK, runProgram(t, env, "", "plugin", "remove", "lint").code)
	}
}

// An empty file of the program ends it with a message. It is not the end of the input.
func TestEmptyStateFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"trust.json", "rules"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &terminal{t: t, temp: t.TempDir()}
			p.begin(nil, newService(t).env(), func(cmd *exec.Cmd) {
				if name == "rules" {
					name = "rules-" + nameOf(cmd.Dir) + ".json"
				}
				name = filepath.Join(cmd.Dir, ".config", "aycoder", name)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
				require.NoError(t, os.WriteFile(name, nil, 0o600))
			})
			p.ends(exitError)
			require.Contains(t, strings.Join(strings.Fields(p.Text()), " "), "unexpected EOF")
		})
	}
}
