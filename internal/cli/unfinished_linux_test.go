package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/workspace"
)

const (
	halfDoneDir   = "AYCODER_TEST_HALF_DONE"
	halfDoneFiles = 200
)

func halfDoneName(i int) string { return fmt.Sprintf("f%03d.txt", i) }

// TestHalfDoneChild is the process that halfDone kills, while it changes many files at once.
func TestHalfDoneChild(t *testing.T) {
	dir := os.Getenv(halfDoneDir)
	if dir == "" {
		t.Skip("is run by TestUnfinishedChange")
	}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	var all []edit.File
	for i := range halfDoneFiles {
		all = append(all, edit.File{Path: halfDoneName(i), Kind: edit.Change, Base: "old\n", Proposed: "new\n"})
	}
	plan, err := edit.NewPlan(all...)
	require.NoError(t, err)
	_, err = ws.Apply(t.Context(), plan)
	require.NoError(t, err)
}

// halfDone leaves a directory as a process does that is killed after it has changed the first of many files.
func halfDone(t *testing.T, dir string) {
	t.Helper()
	for {
		for i := range halfDoneFiles {
			require.NoError(t, os.WriteFile(filepath.Join(dir, halfDoneName(i)), []byte("old\n"), 0o644))
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHalfDoneChild$")
		cmd.Env = append(os.Environ(), halfDoneDir+"="+dir)
		require.NoError(t, cmd.Start())
		for versions(t, dir)["new\n"] == 0 { // as soon as one is changed
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if versions(t, dir)["old\n"] > 0 {
			return
		}
	}
}

// versions counts the files by their contents.
func versions(t *testing.T, dir string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for i := range halfDoneFiles {
		data, err := os.ReadFile(filepath.Join(dir, halfDoneName(i)))
		require.NoError(t, err)
		n[string(data)]++
	}
	return n
}

// A change that a crash has left half done is told at the next start, and taken back only after a yes.
func TestUnfinishedChange(t *testing.T) {
	timed.Serial(t)
	dir := at(t)
	halfDone(t, dir)
	half := versions(t, dir)
	s := newService(t, says("Hi.", "end_turn"))

	k := newKept(t, s)
	k.dir = dir
	got := k.run(exitOK, "-p", "hi")
	require.Contains(t, got.err, "a crash left a change of files half done: changed f")
	require.Contains(t, got.err, "aycoder in a terminal takes that back here, or leaves it")
	require.Equal(t, half, versions(t, dir), "nobody was asked")

	srv := startServeIn(t, dir, append(s.env(), "XDG_STATE_HOME="+t.TempDir()))
	require.Contains(t, srv.do("POST", "/api/prompt", `{"prompt":"hi"}`, 200), "a crash left a change of files half done: changed f")
	srv.end()

	const told, asked = "! a crash left a change of files half done: changed f", "Take that back?  (y/n) "
	inOrder(t, chats(t, s, "n\nhi\n", options{}), told, "- new", "+ old", asked, "The files stay as they are.", "Hi.")
	require.Equal(t, half, versions(t, dir))
	inOrder(t, chats(t, s, "", options{}), told, "Take that back?", "The files stay as they are.")
	require.Equal(t, half, versions(t, dir))
	w := &walk{terminal: startTerminal(t, s.env(), "-C", dir)} // as it is by default
	w.shows("Take that back?  y yes")
	w.Type("n")
	w.shows("The files stay as they are.")
	w.stands("")
	w.Type("\x04")
	w.ends(exitOK)
	require.Equal(t, half, versions(t, dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, halfDoneName(halfDoneFiles-1)), []byte("mine\n"), 0o644))
	inOrder(t, chats(t, s, "y\nhi\n", options{}), told, asked, "applied f", "Hi.")
	require.Equal(t, map[string]int{"old\n": halfDoneFiles - 1, "mine\n": 1}, versions(t, dir))
	require.NotContains(t, chats(t, s, "hi\n", options{}), "half done")
	left, err := filepath.Glob(filepath.Join(dir, ".aycoder-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NotContains(t, strings.Join(s.requests(), ""), "half done", "the model is told nothing of it")
}
