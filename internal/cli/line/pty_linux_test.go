package line_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

const (
	programVar = "AYCODER_TEST_PROGRAM"
	drawnVar   = "AYCODER_TEST_DRAWN" // draw the cursor
)

// TestMain is the program in the terminal, if the tests have started it.
func TestMain(m *testing.M) {
	if os.Getenv(programVar) != "" {
		os.Exit(program())
	}
	os.Exit(m.Run())
}

// A host is a small program with a prompt.
type host struct {
	*tty.Screen

	input  *tty.Input
	editor *line.Editor
	q      *tty.Question
	status string
}

func program() int {
	screen, input, err := tty.Open(os.Stdin, os.Stdout, tty.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer screen.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	h := &host{screen, input, line.New(line.Options{Prompt: "> "}), nil, "ready"}
	h.Print("hello\n")
	for {
		h.paint()
		select {
		case k, ok := <-input.Keys():
			if !ok {
				return 3
			}
			if code := h.key(k); code >= 0 {
				return code
			}
		case <-screen.Resized():
		case <-signals:
			return 143
		}
	}
}

func (h *host) paint() {
	cols, _ := h.Size()
	v := h.editor.View(cols)
	h.Status(append([]string{"* " + h.status + " " + strings.Repeat(".", 70)}, v.Lines...), tty.Cursor{Row: v.Row + 1, Col: v.Col, Drawn: os.Getenv(drawnVar) != ""})
}

// key returns the exit code of the program, or -1.
func (h *host) key(k tty.Key) int {
	if h.q != nil && h.q.Key(k, !h.editor.Empty()) == tty.Answered {
		h.Print("answered " + k.String() + "\n")
		return -1
	}
	switch ev := h.editor.Key(k); {
	case ev.Kind == line.EndOfInput:
		return 0
	case ev.Kind == line.EditText:
		h.lend()
	case ev.Kind == line.Unbound && k.String() == "ctrl+z":
		h.status = fmt.Sprint("resumed ", h.Suspend())
	case ev.Kind == line.Unbound && k.String() == "ctrl+c":
		return 130
	case ev.Kind == line.Submit:
		return h.submit(ev)
	}
	return -1
}

func (h *host) lend() {
	err := h.Lend(func() error {
		cmd := exec.Command("sh", "-c", `stty -a | grep -o -- '-\?icanon'; printf 'name? '; read name; echo "hello $name"`)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd.Run()
	})
	h.status = fmt.Sprint("back ", err)
}

func (h *host) submit(ev line.Event) int {
	if h.q != nil && !h.Fancy() {
		if h.q.Line(ev.Text, ev.Began, time.Now()) == tty.Answered {
			h.Print("answered " + ev.Text + "\n")
			return -1
		}
	}
	word, rest, _ := strings.Cut(ev.Text, " ")
	switch word {
	case "panic":
		panic("as asked")
	case "twice":
		_ = h.Close()
		return 4
	case "ask":
		h.q = &tty.Question{Keys: "yn", Words: []string{"y", "yes", "n"}}
		h.q.Typed(ev.Began)
		h.Print("may I? ")
		_ = h.Flush()
		_ = h.input.Half()
		h.q.Show(time.Now())
		h.Print("[asked]\n")
	case "stream":
		n, _ := strconv.Atoi(rest)
		for i := range 20 {
			h.Print(fmt.Sprintf("word%d.%d ", n, i))
		}
		h.status = fmt.Sprint("streamed ", n)
	case "fill":
		h.Print(strings.Repeat("fill\n", 50))
	case "end":
		h.Print("\n")
	default:
		h.Print(fmt.Sprintf("got %d bytes, %d lines: %.20q\n", len(ev.Text), strings.Count(ev.Text, "\n"), ev.Text))
	}
	return -1
}

func start(t *testing.T, cols, rows int, env ...string) *ttytest.Terminal {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append([]string{programVar + "=1", "TERM=xterm-256color", "NO_COLOR=", "XTERM_VERSION="}, env...)...)
	return ttytest.Start(t, cmd, cols, rows)
}

// The terminal is as it was after every kind of end.
func TestEveryExitRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		keys string
		code int
		text string // the last lines
	}{
		{"the end of the input", "\x04", 0, ""},
		{"an interrupt", "half a line\x03", 130, ""},
		{"closed twice", "twice\r", 4, ""},
		{"a panic", "panic\r", 2, "panic: as asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, 80, 40)
			p.Expect("ready")
			p.Type(tt.keys)
			require.Equal(t, tt.code, p.Wait())
			p.Restored()
			require.True(t, strings.HasPrefix(p.Text(), "hello\n"+tt.text), p.Text())
			require.NotContains(t, p.Text(), "ready")
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, 80, 24)
			p.Expect("ready")
			p.Signal(sig)
			require.Equal(t, 143, p.Wait())
			p.Restored()
			require.Equal(t, "hello\n\n[end]", p.Text())
		})
	}
}

func TestPasteOfManyLines(t *testing.T) {
	t.Parallel()
	p := start(t, 80, 24)
	p.Expect("ready")
	paste := strings.Repeat("one of 5,000 lines\r", 5000)
	p.Type("see \x1b[200~" + paste + "\x1b[201~")
	p.Expect("> see [paste #1: 5,000 lines]")
	p.Type("\r")
	p.Expect(fmt.Sprintf("got %d bytes, 5000 lines", len("see ")+len(paste)))
	p.Type("\x04")
	require.Zero(t, p.Wait())
	p.Restored()
}

// The terminal is lent to another program, which gets what is typed.
func TestLend(t *testing.T) {
	t.Parallel()
	p := start(t, 80, 24)
	p.Expect("ready")
	p.Type("draft", "\x07")
	p.Expect("name?")
	p.Type("Ada\r")
	p.Expect("back <nil>")
	p.Expect("> draft")
	text := p.Text()
	require.Contains(t, text, "hello\nicanon\nname? Ada\nhello Ada\n* back")
	require.Equal(t, 1, strings.Count(text, "> draft"), text)
	p.Type("!\r")
	p.Expect(`got 6 bytes, 0 lines: "draft!"`)
	p.Type("\x04")
	require.Zero(t, p.Wait())
	p.Restored()
}

// Ctrl-Z in a process group that nobody could continue changes nothing.
func TestSuspendWithoutShell(t *testing.T) {
	t.Parallel()
	p := start(t, 80, 24)
	p.Expect("ready")
	p.Type("draft", "\x1a")
	p.Expect("resumed <nil>")
	p.Type("\r")
	p.Expect(`"draft"`)
	p.Type("\x04")
	require.Zero(t, p.Wait())
	p.Restored()
}

// Ctrl-Z stops the process with the terminal restored, and what follows takes it back.
func TestSuspend(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), "PS1=shell> ", "TERM=xterm-256color", "HISTFILE=", programVar+"=1", "INPUTRC=/dev/null")
	p := ttytest.Start(t, cmd, 80, 24)
	p.Expect("shell>")
	p.Type(os.Args[0] + "\r")
	p.Expect("ready")
	p.Type("draft", "\x1a")
	p.Expect("Stopped")
	p.Type("stty -a | grep -o -- '-*icanon'; fg\r")
	p.Expect("resumed <nil>")
	require.Contains(t, p.Text(), "\nicanon\n")
	p.Until("the prompt", func(e *ttytest.Emulator) bool { return strings.Contains(strings.Join(e.Lines(), "\n"), "> draft") })
	p.Type("\r")
	p.Expect(`"draft"`)
	p.Type("\x04")
	p.Until("the shell", func(e *ttytest.Emulator) bool {
		row, _ := e.Cursor()
		return e.Lines()[row] == "shell>"
	})
	p.Type("exit 7\r")
	require.Equal(t, 7, p.Wait())
	p.Restored()
}

// While text streams, the size changes within a line. No word is lost, nothing of the
// status area stays.
func TestResizeWhileStreaming(t *testing.T) {
	t.Parallel()
	for _, first := range []int{40, 60, 80, 200} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			p := start(t, first, 50)
			p.Expect("ready")
			var want strings.Builder
			for i, cols := range []int{60, 40, 200, 80, 41, 199, 60, first} {
				p.Type(fmt.Sprintf("stream %d\r", i))
				for j := range 20 {
					fmt.Fprintf(&want, "word%d.%d ", i, j)
				}
				p.Until("the end of the part", func(e *ttytest.Emulator) bool {
					row, col := e.Cursor()
					last := strings.Join(e.Lines()[:row+1], "\n")
					return strings.Contains(last, fmt.Sprintf("* streamed %d ", i)) && e.Lines()[row] == ">" && col == 2
				})
				p.Resize(cols, 50)
			}
			p.Type("end\r", "\x04")
			require.Zero(t, p.Wait())
			p.Restored()
			text, _, _ := strings.Cut(p.Text(), "\n[end]")
			_, text, _ = strings.Cut(text, "hello\n")
			require.Equal(t, strings.Join(strings.Fields(want.String()), ""), strings.Join(strings.Fields(text), ""), p.Text())
		})
	}
}

// A plain terminal edits lines itself. Text typed before a question does not answer it.
func TestPlainTerminal(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"TERM=dumb", "TERM="} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			p := start(t, 80, 24, env)
			p.Expect("hello")
			p.Type("first\r")
			p.Expect(`got 5 bytes, 0 lines: "first"`)
			p.Type("ask\rye") // in one write, so that half a line is there
			p.Expect("[asked]")
			p.Type("s\r")
			p.Expect(`got 3 bytes, 0 lines: "yes"`)
			p.Type("ask\r")
			p.Until("[asked] twice", func(e *ttytest.Emulator) bool { return strings.Count(e.Text(), "[asked]") == 2 })
			p.Type("yes\r")
			p.Expect("answered yes")
			p.Type("\x04")
			require.Equal(t, 3, p.Wait())
			p.Restored()
			require.NotContains(t, p.Raw(), "\x1b")
		})
	}
}

// A key answers a question in a real terminal, and what was typed before does not.
func TestAnswerInTerminal(t *testing.T) {
	t.Parallel()
	p := start(t, 80, 24)
	p.Expect("ready")
	p.Type("ask\ry")
	p.Expect("[asked]")
	p.Expect("> y")
	p.Type("\r")
	p.Expect(`"y"`)
	require.NotContains(t, p.Text(), "answered")
	p.Type("\x04")
	require.Zero(t, p.Wait())
}

// tmux wraps lines again, and tells programs a new size a while later. Keys that come
// between leave no rubbish.
func TestResizeInTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: resizes in tmux")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	socket := filepath.Join(t.TempDir(), "socket")
	tmux := func(args ...string) string {
		cmd := exec.Command("tmux", append([]string{"-u", "-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color", "TMUX=")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	show := func() string { return tmux("capture-pane", "-p", "-t", "s", "-S", "-") }
	tmux("new-session", "-d", "-s", "s", "-x", "80", "-y", "40", "exec cat")
	t.Cleanup(func() { tmux("kill-server") })
	tmux("set-option", "-t", "s", "remain-on-exit", "on")
	tmux("respawn-pane", "-k", "-t", "s", "-e", programVar+"=1", "-e", drawnVar+"=1", "-e", "NO_COLOR=", "exec "+os.Args[0])
	timed.Until(t, func() bool { return strings.Contains(show(), "* ready") }, "the prompt")
	// tmux moves rows from the top into the scrollback when others are wrapped, even if the
	// screen is not full, and then the cursor may lose its line.
	tmux("send-keys", "-t", "s", "fill", "Enter")
	timed.Until(t, func() bool { return strings.Contains(show(), "fill\nfill\n") }, "the lines") // before more comes at once
	var want strings.Builder
	for i, cols := range []int{60, 41, 200, 40, 99, 55} {
		tmux("send-keys", "-t", "s", fmt.Sprintf("stream %d", i), "Enter")
		for j := range 20 {
			fmt.Fprintf(&want, "word%d.%d ", i, j)
		}
		timed.Until(t, func() bool { return strings.Contains(show(), fmt.Sprintf("* streamed %d ", i)) }, "the words of part ", i)
		tmux("send-keys", "-t", "s", "-l", strings.Repeat("a draft ", 6))
		timed.Until(t, func() bool { return strings.Count(strings.Join(strings.Fields(show()), ""), "draft") == 6 }, "the draft of part ", i)
		tmux("resize-window", "-t", "s", "-x", fmt.Sprint(cols), "-y", "40")
		tmux("send-keys", "-t", "s", "C-u")
		timed.Until(t, func() bool { return !strings.Contains(strings.Join(strings.Fields(show()), ""), "draft") }, "an empty prompt after part ", i)
	}
	tmux("send-keys", "-t", "s", "-l", "end")
	tmux("send-keys", "-t", "s", "Enter", "C-d")
	// tmux says so on the screen as well, but not always.
	timed.Until(t, func() bool { return strings.TrimSpace(tmux("display-message", "-p", "-t", "s", "#{pane_dead}")) == "1" }, "the end")
	text, _, _ := strings.Cut(show(), "Pane is dead")
	text = strings.Join(strings.Fields(text[strings.LastIndex(text, "fill\n")+len("fill\n"):]), "")
	require.Equal(t, strings.Join(strings.Fields(want.String()), ""), text)
}
