package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// A message that is delivered again, also by another process, arrives once. Others with the same text do not count.
func TestSteerOnce(t *testing.T) {
	ctx, store := t.Context(), journal.Memory()
	loop, err := aycoder.New(script.New(script.Say("done")))
	require.NoError(t, err)
	s, err := session.New(ctx, store, loop)
	require.NoError(t, err)
	for _, id := range []string{"a", "a", "b"} {
		require.NoError(t, s.SteerOnce(ctx, id, "hello", nil, false))
	}
	require.NoError(t, s.Close())
	s, err = session.Open(ctx, store, s.ID(), loop)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.SteerOnce(ctx, "a", "hello", nil, false))
	require.NoError(t, s.SteerOnce(ctx, "b", "", nil, false), "its content is not needed any more")
	require.Error(t, s.SteerOnce(ctx, "c", "", nil, false))
	require.Len(t, s.Queued(), 2)
	for _, err := range s.Run(ctx, aycoder.Input{}) {
		require.NoError(t, err)
	}
	require.NoError(t, s.SteerOnce(ctx, "a", "hello", nil, false))
	require.Empty(t, s.Queued())
	var text strings.Builder
	for _, m := range s.View().Messages(s.Head()) {
		text.WriteString(m.Text())
	}
	require.Equal(t, 2, strings.Count(text.String(), "hello"))
}

// A process that only reads learns the questions of a run, while another one has the session open.
func TestReadPending(t *testing.T) {
	ctx, store := t.Context(), journal.Memory()
	tool, err := aycoder.NewTool("deploy", "Deploys", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("ok"), nil
	})
	require.NoError(t, err)
	ask := aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Suspend() })
	loop, err := aycoder.New(script.New(script.Call("deploy", nil)), aycoder.WithTools(tool), aycoder.WithApprover(ask))
	require.NoError(t, err)
	s, err := session.New(ctx, store, loop)
	require.NoError(t, err)
	defer s.Close()
	p, err := session.ReadPending(ctx, store, s.ID())
	require.NoError(t, err)
	require.Nil(t, p)
	for _, err := range s.Run(ctx, aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
	}
	p, err = session.ReadPending(ctx, store, s.ID())
	require.NoError(t, err)
	require.Equal(t, "deploy", p.Requests[0].Tool)
	require.Equal(t, s.Pending().Requests[0].Digest, p.Requests[0].Digest)
	_, err = session.ReadPending(ctx, store, "missing")
	require.Error(t, err)
	_, err = session.ReadRun(ctx, store, "missing", "x")
	require.Error(t, err)
	p, err = session.ReadRun(ctx, store, s.ID(), "x")
	require.NoError(t, err)
	require.Nil(t, p)
}
