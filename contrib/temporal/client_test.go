package temporal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/contrib/temporal"
	"github.com/aycoder/aycoder/journal"
)

// refusing is a server that refuses what is sent.
type refusing struct {
	client.Client
	err error
}

func (r refusing) SignalWorkflow(context.Context, string, string, string, any) error { return r.err }

func (r refusing) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, r.err
}

// A message that nobody can get takes no room in the store. If the server does not say so, the message may be on its way.
func TestRefusedMessagesAreNotKept(t *testing.T) {
	for _, c := range []struct {
		err  error
		left int
	}{
		{serviceerror.NewNotFound("no workflow"), 0},
		{serviceerror.NewWorkflowExecutionAlreadyStarted("works", "", ""), 0},
		{errors.New("the connection broke"), 2},
	} {
		store := journal.Memory()
		client := &temporal.Client{Temporal: refusing{err: c.err}, Store: store}
		require.ErrorIs(t, client.Steer(t.Context(), "w", &aycoder.Steered{Message: aycoder.User("hi")}), c.err)
		_, err := client.Start(t.Context(), startOptions(), temporal.Input{Session: "s"}, aycoder.User("hi"))
		require.ErrorIs(t, err, c.err)
		n := 0
		for _, err := range store.List(t.Context()) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, c.left, n, c.err)
	}
}

func startOptions() client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: "w", TaskQueue: "q"}
}
