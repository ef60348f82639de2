package ttytest_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cli/ttytest"
	"github.com/aycoder/aycoder/internal/timed"
)

func TestEmulator(t *testing.T) {
	t.Parallel()
	e := ttytest.NewEmulator(10, 3)
	fmt.Fprint(e, "one\r\n\x1b[31mtwo\x1b[0m\r\nlong line that wraps\r\n漢字漢字漢字\x1b]0;title\a\a\x1b[?2004h\x1b[?25l\x1b[99x")
	require.Equal(t, "one\ntwo\nlong line\nthat wraps\n漢字漢字漢\n字", e.Text())
	require.Equal(t, []string{"that wraps", "漢字漢字漢", "字"}, e.Lines())
	require.Equal(t, []string{"one", "two", "long line"}, e.Scrollback())
	row, col := e.Cursor()
	require.Equal(t, []int{2, 2}, []int{row, col})
	require.Equal(t, "title", e.Title)
	require.Equal(t, 1, e.Bells)
	require.True(t, e.Modes["2004"])
	require.False(t, e.Modes["25"])
	require.Equal(t, []string{"\x1b[99x"}, e.Unknown)
	e.Resize(20, 3)
	require.Equal(t, "one\ntwo\nlong line that wraps\n漢字漢字漢字", e.Text())
	e.Reflow = false
	e.Resize(5, 3)
	require.Equal(t, "one\ntwo\nlong\n漢字", e.Text())
}

// tmux runs a command of a server that is only for this test.
func tmux(t *testing.T, socket string, args ...string) string {
	t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color", "TMUX=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// The screen, the scrollback and the cursor are those of tmux for the same output, also
// after resizes.
func TestEmulatorIsLikeTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: a comparison with tmux")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	tmux(t, socket, "new-session", "-d", "-s", "first", "exec cat") // keeps the server
	t.Cleanup(func() { tmux(t, socket, "kill-server") })
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 20
	for i := range rounds {
		cols, rows := 10+r.IntN(60), 5+r.IntN(20)
		output := randomOutput(r)
		name := filepath.Join(dir, strconv.Itoa(i))
		require.NoError(t, os.WriteFile(name, []byte(output), 0o600))
		e := ttytest.NewEmulator(cols, rows)
		fmt.Fprint(e, output)

		size := []string{"-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows)}
		tmux(t, socket, append(append([]string{"new-session", "-d", "-s", "s"}, size...), "stty -onlcr -echo; cat "+name+"; touch "+name+".done; exec cat")...)
		timed.Until(t, func() bool {
			_, err := os.Stat(name + ".done")
			return err == nil
		}, "cat ends")
		same(t, socket, e, cols, output)
		for range 3 {
			cols = 10 + r.IntN(60)
			tmux(t, socket, "resize-window", "-t", "s", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows))
			e.Resize(cols, rows)
			same(t, socket, e, cols, output)
		}
		tmux(t, socket, "kill-session", "-t", "s")
	}
}

// same waits until tmux shows the same, since it may still be reading.
func same(t *testing.T, socket string, e *ttytest.Emulator, cols int, output string) {
	t.Helper()
	row, col := e.Cursor()
	want := fmt.Sprintf("%s\n%d %d", e.Text(), len(e.Scrollback())+row, col)
	got := ""
	for range 40 {
		got = strings.TrimRight(tmux(t, socket, "capture-pane", "-p", "-t", "s", "-S", "-"), "\n") + "\n" +
			strings.TrimSpace(tmux(t, socket, "display-message", "-p", "-t", "s", "#{history_size} #{cursor_y} #{cursor_x}"))
		got = absolute(got, cols)
		if got == want {
			return
		}
	}
	require.Equal(t, got, want, "%q", output)
}

// absolute counts the row of the cursor from the begin of the scrollback: terminals differ
// about how much of it comes back to the screen. If the last column is filled, tmux has the
// cursor behind it.
func absolute(text string, cols int) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	var above, row, col int
	last := len(lines) - 1
	_, _ = fmt.Sscan(lines[last], &above, &row, &col)
	lines[last] = fmt.Sprint(above+row, min(col, cols-1))
	return strings.Join(lines, "\n")
}

// randomOutput is what programs with a status area write: text, lines that are replaced,
// wide and combined characters.
func randomOutput(r *rand.Rand) string {
	words := strings.Fields("the quick brown 漢字 fox e\u0301tude ｶﾅ a_word_that_is_much_longer_than_the_others ü ● \x1b[1mbold\x1b[0m")
	var b bytes.Buffer
	for range 5 + r.IntN(60) {
		switch r.IntN(12) {
		case 0:
			fmt.Fprintf(&b, "\r\nabove\r\nline\x1b[%dA\x1b[%dC", r.IntN(3), 1+r.IntN(20))
		case 1:
			b.WriteString("\r\x1b[J")
		case 2:
			b.WriteString("\x1b[K")
		case 3, 4:
			b.WriteString("\r\n")
		case 5:
			b.WriteString("\x1b[?7l" + strings.Repeat("0123456789", 8) + "\x1b[?7h\r\n")
		case 6:
			b.WriteString("\t")
		default:
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
	}
	return b.String()
}
