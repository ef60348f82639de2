package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aycoder/aycoder/internal/cli/tty"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

// A run that needed an approval, and nobody could be asked, asks in a terminal.
func TestSuspendedRunAsksAgain(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, calls("bash", `{"command":"touch done"}`), says("Ran.", "end_turn")))
	k.run(exitApproval, "-p", "touch it")
	p := startTerminal(t, k.env(), "-C", k.dir, "-c")
	p.expect("Going on with session " + k.ids()[0])
	p.expect("Run it?")
	p.answers("y")
	p.expect("Ran.")
	p.expect("> ")
	p.Type("/clear\r")
	p.expect("A new conversation begins.")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.FileExists(t, filepath.Join(k.dir, "done"))
}

// Before the first line, the user knows that the conversation is not the one that -c means.
func TestGoOnSaysWhichSession(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("Blue.", "end_turn")))
	k.run(exitOK, "-p", "which colour?")
	store, err := journal.Dir(filepath.Join(k.state, "aycoder", "sessions"))
	require.NoError(t, err)
	j, err := store.Open(t.Context(), k.ids()[0], true)
	require.NoError(t, err)
	defer j.Close()
	p := startTerminal(t, k.env(), "-C", k.dir, "-c")
	p.expect("another process has the newest session")
	p.expect("> ")
	p.Type("\x04")
	p.ends(exitOK)
	require.Len(t, k.service.requests(), 1)
}

// A session that cannot be written goes on only when it is opened again, and the user is told so, once for each line.
func TestSessionThatIsNotKept(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("Blue.", "end_turn")))
	p := startTerminal(t, k.env(), "-C", k.dir)
	p.expect("> ")
	p.Type("which colour?\r")
	p.expect("Blue.")
	p.expect("> ")
	name := filepath.Join(k.state, "aycoder", "sessions", k.ids()[0], "journal.jsonl")
	require.NoError(t, os.Rename(name, name+".gone"))
	p.Type("why?\r")
	p.expect("go on with aycoder -c")
	p.expect("> ")
	require.Equal(t, 1, strings.Count(p.Text(), "\n! "), p.Text())
	p.Type("\x04")
	p.ends(exitOK)
}

// Sessions are not kept in a directory in which nothing can be made.
func TestPlaceThatTakesNothing(t *testing.T) {
	t.Parallel()
	k := newKept(t, newService(t, says("ok", "end_turn")))
	got := runProgram(t, append(k.env(), "AYCODER_SESSION_DIR=/proc/self"), "", "-C", k.dir, "-p", "hi")
	require.Equal(t, exitOK, got.code, got.err)
	require.Contains(t, got.err, "this conversation is not kept: ")
}

// The code of a workspace is read once, for the map that the model gets, for completion and for /init.
func TestCodeIsReadOnce(t *testing.T) {
	dir := at(t)
	name := filepath.Join(dir, "thing.go")
	require.NoError(t, os.WriteFile(name, []byte("package a\n\nfunc Thing() {}\n"), 0o644))
	settled := time.Now().Add(2 * time.Second) // a file that is newer could change without getting another time
	timed.Until(t, func() bool { return time.Now().After(settled) }, "a time to pass")
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, name, unix.IN_OPEN)
	require.NoError(t, err)
	wasOpened := func() bool {
		_, err := unix.Read(fd, make([]byte, 100*unix.SizeofInotifyEvent))
		return err == nil
	}

	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-secret-0123")
	a := &app{getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, asks: newAsks(), mapWait: time.Hour}
	st := newStage("/init\nn\nn\n")
	c := newTestChat(t, st, st, tty.Options{Plain: true}, &chat{app: a, options: &options{trust: true}, asks: a.asks})
	s, err := c.open(context.WithCancelCause(t.Context()))
	require.NoError(t, err)
	c.enter(s)
	defer s.close()
	require.True(t, wasOpened(), "for the map")
	_, list := c.complete("@Thing", 6)
	require.Equal(t, "@thing.go:Thing", list[0].Text)
	require.False(t, wasOpened(), "for completion")
	require.Equal(t, exitOK, c.run(t.Context(), ""))
	require.NoError(t, c.Screen.Close())
	inOrder(t, st.out, "AGENTS.md", "Write it?")
	require.False(t, wasOpened(), "for /init")
}
