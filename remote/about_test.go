package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A request that was there before is not carried out again: the connection ends.
func TestRequestAgain(t *testing.T) {
	dir := t.TempDir()
	files, e := local(t, dir)
	run := &coder{b: []byte{byte(opRun)}}
	run.code(&request{Command: tools.ExecCommand{Script: "echo x >>log", Dir: dir}})
	frame := frameOf(7, frameLast, run.b)
	for _, id := range []uint32{7, 6} {
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Serve(context.Background(), toServer, fromServer, files, e) }()
		go func() { _, _ = fromClient.Write(append(greeting(), frame...)) }()
		in := newReceiver(toClient)
		require.NoError(t, greeted(in.r))
		for f, err := in.next(); f.id != 7 || f.kind != frameLast; f, err = in.next() { // until the command has ended
			require.NoError(t, err)
		}
		go func() { _, _ = io.Copy(io.Discard, toClient) }()
		_, _ = fromClient.Write(frameOf(id, frameLast, run.b))
		_, ok := errors.AsType[*ProtocolError](<-ended)
		require.True(t, ok)
	}
	f, err := files.Open("log")
	require.NoError(t, err)
	defer f.Close()
	log, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "x\nx\n", string(log)) // once for each connection
}

// A command that is not the one that was approved is not run, wherever it was exchanged.
func TestOnlyApprovedCommands(t *testing.T) {
	dir := t.TempDir()
	c := child(t, dir)
	cmd := func() *tools.ExecCommand {
		return &tools.ExecCommand{Script: "echo yes >>log", Root: dir, Dir: dir, Env: c.Environ(), Output: new(bytes.Buffer)}
	}
	approved := cmd().Digest()
	for name, change := range map[string]func(c *tools.ExecCommand){
		"script":  func(c *tools.ExecCommand) { c.Script = "echo no >>log" },
		"dir":     func(c *tools.ExecCommand) { c.Dir = filepath.Join(dir, "d") },
		"network": func(c *tools.ExecCommand) { c.Network = true },
		"held":    func(c *tools.ExecCommand) { c.ReadOnly = true },
	} {
		x := cmd()
		x.Approved = approved
		change(x)
		_, err := c.Run(t.Context(), x)
		require.ErrorIs(t, err, tools.ErrNotApproved, name)
		require.NoFileExists(t, filepath.Join(dir, "log"), name)
	}
	x := cmd()
	x.Approved = approved
	_, err := c.Run(t.Context(), x)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "log"))
}

func TestAbout(t *testing.T) {
	for _, tt := range []struct {
		opts []ServeOption
		want string
		err  string
	}{
		{nil, "", ""},
		{[]ServeOption{WithAbout(func(context.Context) ([]byte, error) { return []byte("me"), nil })}, "me", ""},
		{[]ServeOption{WithAbout(func(context.Context) ([]byte, error) { return nil, errors.New("not today") })}, "", "not today"},
	} {
		files, _ := local(t, t.TempDir())
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(context.Background(), toServer, fromServer, files, nil, tt.opts...) }()
		c, err := Connect(t.Context(), toClient, fromClient)
		require.NoError(t, err)
		text, err := c.About(t.Context())
		require.Equal(t, tt.want, string(text))
		if tt.err == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
		require.NoError(t, c.Close())
		require.NoError(t, <-done)
	}
}

// A server that is told to end kills its commands. For the client each of them is interrupted, also if its last answer
// would have come through.
func TestServerEndsWhileCommandRuns(t *testing.T) {
	dir := t.TempDir()
	files, _ := local(t, dir)
	for range 200 {
		toServer, fromClient := io.Pipe()
		toClient, fromServer := io.Pipe()
		ctx, end := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, toServer, fromServer, files, quick{end}) }()
		c, err := Connect(t.Context(), toClient, fromClient)
		require.NoError(t, err)
		_, err = c.Run(t.Context(), &tools.ExecCommand{Root: dir, Dir: dir, Output: io.Discard})
		require.Equal(t, workspace.KindInterrupted, kindOf(err), "%v", err)
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, c.Close())
	}
}

// quick runs a command that is killed at once, when the server is told to end.
type quick struct{ end context.CancelFunc }

func (q quick) Run(ctx context.Context, c *tools.ExecCommand) (*tools.ExecResult, error) {
	q.end()
	<-ctx.Done()
	return &tools.ExecResult{Dir: c.Root}, context.Cause(ctx)
}
