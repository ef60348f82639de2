//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// An editor allows every request, and keeps what the agent says.
type editor struct {
	sdk.Client

	mu    sync.Mutex
	said  strings.Builder
	asked []string
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if text := n.Update.AgentMessageChunk; text != nil {
		e.said.WriteString(text.Content.Text.Text)
	}
	return nil
}

func (e *editor) RequestPermission(_ context.Context, r sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	title := ""
	if r.ToolCall.Title != nil {
		title = *r.ToolCall.Title
	}
	e.asked = append(e.asked, title)
	for _, o := range r.Options {
		if o.Kind == sdk.PermissionOptionKindAllowOnce {
			return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(o.OptionId)}, nil
		}
	}
	return sdk.RequestPermissionResponse{}, nil
}

// "aycoder acp" starts the server that an editor passes, asks the editor about its tool, and keeps the conversation.
func TestEditor(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	model := newModel(t)
	start := func() (*editor, *sdk.ClientSideConnection, func()) { return startEditor(t, dir, home, model.URL) }
	server := sdk.McpServer{Stdio: &sdk.McpServerStdio{Name: "weather", Command: self, Args: []string{},
		Env: []sdk.EnvVariable{{Name: "AYCODER_TEST", Value: "server"}}}}
	e, c, stop := start()
	s, err := c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{server}})
	require.NoError(t, err)
	var models []string
	for _, o := range s.ConfigOptions {
		if o.Select != nil && string(o.Select.Id) == "model" {
			for _, v := range *o.Select.Options.Ungrouped {
				models = append(models, string(v.Value))
			}
		}
	}
	require.Contains(t, models, "anthropic/claude-haiku-4-5", "those whose provider has a key")
	require.NotContains(t, strings.Join(models, " "), "openai/")
	_, err = c.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
		SessionId: s.SessionId, ConfigId: "model", Value: "anthropic/claude-haiku-4-5"}})
	require.NoError(t, err)
	answer, err := c.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("go")}})
	require.NoError(t, err)
	require.Equal(t, sdk.StopReasonEndTurn, answer.StopReason)
	stop()
	require.Equal(t, "done", e.said.String())
	require.Len(t, e.asked, 1)

	e, c, stop = start()
	_, err = c.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: s.SessionId, Cwd: dir, McpServers: []sdk.McpServer{server}})
	require.NoError(t, err)
	stop()
	require.Contains(t, e.said.String(), "done")
}

// startEditor starts the program, and an editor that talks to it. The function ends both.
func startEditor(t *testing.T, dir, home, model string) (*editor, *sdk.ClientSideConnection, func()) {
	cmd := program(t, dir, home, "acp")
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	e := &editor{}
	c := sdk.NewClientSideConnection(e, in, out)
	_, err = c.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: 1})
	require.NoError(t, err)
	return e, c, func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	}
}

// A session keeps the configuration of its project when the editor opens one of another project.
func TestEditorWithTwoProjects(t *testing.T) {
	one, two, home := t.TempDir(), t.TempDir(), t.TempDir()
	trust := config.NewTrust(filepath.Join(home, ".config", "aycoder", "trust.json"))
	for dir, text := range map[string]string{
		one: "[[approval.rules]]\naction = \"deny\"\ntool = \"mcp__weather__now\"\n", two: "agent.max_turns = 40\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, ".aycoder"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".aycoder", "config.toml"), []byte(text), 0o600))
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust))
		require.NoError(t, err)
		require.Len(t, loaded.Questions, 1)
		require.NoError(t, trust.Decide(t.Context(), loaded.Questions[0], true))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	model := newModel(t)
	e, c, stop := startEditor(t, home, home, model.URL)
	server := sdk.McpServer{Stdio: &sdk.McpServerStdio{Name: "weather", Command: self, Args: []string{},
		Env: []sdk.EnvVariable{{Name: "AYCODER_TEST", Value: "server"}}}}
	first, err := c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: one, McpServers: []sdk.McpServer{server}})
	require.NoError(t, err)
	_, err = c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: two, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	_, err = c.Prompt(t.Context(), sdk.PromptRequest{SessionId: first.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("go")}})
	require.NoError(t, err)
	stop()
	require.Empty(t, e.asked)
	require.NotContains(t, model.heard(), "rain")
}

func TestEditorUsage(t *testing.T) {
	for _, args := range [][]string{{"acp", "-C", "x"}, {"acp", "--C=x"}} {
		out, err := program(t, t.TempDir(), t.TempDir(), args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "wrong usage")
	}
}
