//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// A server of .mcp.json, from the question whether to start it to a rule that a changed definition makes void.
func TestServerOfProject(t *testing.T) {
	s := program(t, "sdk")
	dir := t.TempDir()
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"s": map[string]any{"command": s.Command, "env": s.Env}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".mcp.json"), file, 0o600))
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	load := func() *config.Loaded {
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust), config.WithForms(harness.ServerForms()...))
		require.NoError(t, err)
		return loaded
	}
	loaded := load()
	require.Len(t, loaded.Questions, 1)
	require.NoError(t, trust.Decide(t.Context(), loaded.Questions[0], true))

	model := script.New(script.Call("mcp__s__fails", nil), script.Call("mcp__s__fails", nil), script.Call("mcp__s__rename", nil),
		script.Call("mcp__s__fails", nil), script.Say("done"))
	var c *client
	var rt *harness.Runtime
	reader := trusting{model, func() { rt.Policy.Trust() }} // the user has read it, so that rules count again
	rt, err = harness.New(t.Context(), dir, harness.WithClient(reader), harness.WithConfig(load()), harness.WithServers(
		func(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
			src, err := Connector(fast)(ctx, name, s)
			c, _ = src.(*client)
			return src, err
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	var asked, changed []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			asked = append(asked, ev.Request.Tool)
			if len(asked) == 3 {
				ev.Deny("not this one")
				continue
			}
			require.Len(t, ev.Request.Suggested, 1)
			require.NoError(t, ev.AllowFor(aycoder.Session, ev.Request.Suggested[0]))
		case *aycoder.SetupChanged:
			changed = append(changed, ev.Changed...)
		case *aycoder.TurnFinished:
			if len(asked) == 2 { // the notice of a change comes after the result
				timed.Until(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.stale })
			}
		}
	}
	require.Equal(t, []string{"mcp__s__fails", "mcp__s__rename", "mcp__s__fails"}, asked)
	require.Equal(t, []string{"mcp__s__fails"}, changed)
	require.Empty(t, notes(t, s), "the other tool of this name was not called")
}

// A trusting model calls a function before it is asked: what it is about to read is known then.
type trusting struct {
	aycoder.ModelClient
	asked func()
}

func (m trusting) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	m.asked()
	return m.ModelClient.Stream(ctx, req)
}
