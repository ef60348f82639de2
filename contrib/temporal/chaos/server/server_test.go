package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/aycoder/aycoder/internal/pgcluster"
)

// patiently calls f until it succeeds: a server that was just started answers with errors for a while.
func patiently(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, 5*time.Second)
		err := f(attempt)
		end()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// A workflow that waits for a signal gets it after both servers were killed and started again.
func TestKilled(t *testing.T) {
	s, err := Start()
	if errors.Is(err, ErrMissing) || errors.Is(err, pgcluster.ErrMissing) {
		t.Skip(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Log())
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	begin := time.Now()
	c, err := client.NewLazyClient(client.Options{HostPort: s.Address(), Logger: log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	must(err)
	defer c.Close()
	patiently(t, func(ctx context.Context) error {
		_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: "default",
			WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
		return err
	})
	t.Logf("ready after %v", time.Since(begin))
	w := worker.New(c, "queue", worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (text string, err error) {
		workflow.GetSignalChannel(ctx, "go").Receive(ctx, &text)
		return text, nil
	}, workflow.RegisterOptions{Name: "wait"})
	patiently(t, func(context.Context) error { return w.Start() })
	defer w.Stop()
	var run client.WorkflowRun
	patiently(t, func(ctx context.Context) (err error) {
		run, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "w", TaskQueue: "queue"}, "wait")
		return err
	})
	t.Logf("started after %v", time.Since(begin))
	first := s.PID()
	must(s.Kill())
	must(s.Database.Kill())
	must(s.Database.Run())
	must(s.Run())
	if s.PID() == first {
		t.Error("the server was not killed")
	}
	begin = time.Now()
	patiently(t, func(ctx context.Context) error { return c.SignalWorkflow(ctx, "w", "", "go", "gone on") })
	t.Logf("signalled after %v", time.Since(begin))
	var text string
	patiently(t, func(ctx context.Context) error { return run.Get(ctx, &text) })
	t.Logf("ended after %v", time.Since(begin))
	if text != "gone on" {
		t.Errorf("result %q", text)
	}
}
