package workspace_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/workspace"
)

// stepping is a workspace whose plans have one more option.
type stepping struct {
	*workspace.Workspace
	opt workspace.ApplyOption
}

func (s *stepping) Apply(ctx context.Context, plan edit.Plan, opts ...workspace.ApplyOption) (*edit.Result, error) {
	return s.Workspace.Apply(ctx, plan, append(opts, s.opt)...)
}

// A user who saves at random moments loses nothing if the plans come over a connection.
func TestApplyTortureElsewhere(t *testing.T) {
	served := &stepping{}
	var c *remote.Client
	workspace.Elsewhere = func(t *testing.T, w *workspace.Workspace, opt workspace.ApplyOption) func(context.Context, edit.Plan, ...workspace.ApplyOption) (*edit.Result, error) {
		if served.opt = opt; c == nil {
			served.Workspace = w
			c = connect(t, served)
		}
		return func(ctx context.Context, plan edit.Plan, _ ...workspace.ApplyOption) (*edit.Result, error) {
			return c.Apply(ctx, plan)
		}
	}
	defer func() { workspace.Elsewhere = nil }()
	workspace.TestApplyTorture(t)
}

func connect(t *testing.T, files *stepping) *remote.Client {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- remote.Serve(context.Background(), toServer, fromServer, files, nil) }()
	c, err := remote.Connect(t.Context(), toClient, fromClient)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, <-done)
	})
	return c
}
