package remote

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// served is the variable that makes the test binary the program on the other machine. It is the
// directory to serve.
const served = "AYCODER_TEST_SERVED"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(served)
	if !ok {
		os.Exit(m.Run())
	}
	os.Unsetenv(served)
	ws, err := workspace.Open(dir)
	var e tools.Exec
	if err == nil {
		e, err = tools.LocalExec()
	}
	if err == nil {
		err = Serve(context.Background(), os.Stdin, os.Stdout, ws, e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// testProgram returns the test binary as the program that serves a directory.
func testProgram(dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), served+"="+dir)
	return cmd
}

// child connects to a process that serves a directory.
func child(t testing.TB, dir string) *Client {
	t.Helper()
	c, err := Start(t.Context(), testProgram(dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// local returns what serves a directory.
func local(t testing.TB, dir string) (tools.FS, tools.Exec) {
	t.Helper()
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { ws.Close() })
	e, err := tools.LocalExec()
	require.NoError(t, err)
	return ws, e
}

// here connects to a goroutine that serves a directory.
func here(t testing.TB, files tools.FS, e tools.Exec) *Client {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), toServer, fromServer, files, e) }()
	c, err := Connect(t.Context(), toClient, fromClient)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, <-done)
	})
	return c
}

// notTwice skips a test with the race detector, which can find no more in two processes than in one: see
// TestFSHere.
func notTwice(t *testing.T) {
	t.Helper()
	if timed.Reduced(t) {
		t.Skip("left out with the race detector: the same runs in one process")
	}
}

func TestFSOfChild(t *testing.T) {
	notTwice(t)
	agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS { return child(t, dir) })
}

func TestExecOfChild(t *testing.T) {
	notTwice(t)
	agenttest.TestExec(t, func(t testing.TB, dir string) (tools.Exec, string) { return child(t, dir), dir })
}

func TestFSHere(t *testing.T) {
	timed.Serial(t)
	agenttest.TestFS(t, func(t testing.TB, dir string) tools.FS { return here(t, must(workspace.Open(dir)), nil) })
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A file that was created through a link is taken back, and the link stays.
func TestUndoThroughLink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("new", filepath.Join(dir, "link")))
	c := child(t, dir)
	plan, err := edit.NewPlan(edit.File{Path: "link", Kind: edit.Create, Proposed: "x\n"})
	require.NoError(t, err)
	res, err := c.Apply(t.Context(), plan)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "new"))
	_, err = c.Apply(t.Context(), res.Undo())
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "new"))
	_, err = os.Readlink(filepath.Join(dir, "link"))
	require.NoError(t, err)
}
