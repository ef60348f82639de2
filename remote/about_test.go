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
)

// A request that was there before is not carried out again: the connection ends.
func TestRequestAgain(t *testing.T) {
	dir := t.TempDir()
	files, e := local(t, dir)
	run := &coder{b: []byte{byte(opRun)}}
	(&request{op: opRun, command: tools.ExecCommand{Script: "echo x >>log", Dir: dir}}).code(run)
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
