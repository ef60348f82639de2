//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
)

// An editor allows every request, and keeps what the agent says.
type editor struct {
	sdk.Client

	on func(title string) // is called at each request, or nil

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
	if e.on != nil {
		e.on(title)
	}
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
	models := modelsOf(s)
	require.Contains(t, models, "anthropic/claude-haiku-4-5", "those whose provider has a key")
	require.NotContains(t, fmt.Sprint(models), "openai/")
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

// modelsOf returns the models that the user may choose in a session, with their descriptions.
func modelsOf(s sdk.NewSessionResponse) map[string]string {
	models := map[string]string{}
	for _, o := range s.ConfigOptions {
		if o.Select != nil && string(o.Select.Id) == "model" {
			for _, v := range *o.Select.Options.Ungrouped {
				models[string(v.Value)] = ""
				if v.Description != nil {
					models[string(v.Value)] = *v.Description
				}
			}
		}
	}
	return models
}

// startEditor starts the program, and an editor that talks to it. The function ends both.
func startEditor(t *testing.T, dir, home, model string, env ...string) (*editor, *sdk.ClientSideConnection, func()) {
	cmd := program(t, dir, home, "acp")
	cmd.Env = append(append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model), env...)
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

// A session has the configuration of its project, and keeps it when the editor opens one of another project. The user's own
// holds for all.
func TestEditorWithTwoProjects(t *testing.T) {
	one, two, home := t.TempDir(), t.TempDir(), t.TempDir()
	trust := config.NewTrust(filepath.Join(home, ".config", "aycoder", "trust.json"))
	own := filepath.Join(home, ".config", "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	kept := filepath.Join(home, "kept")
	require.NoError(t, os.WriteFile(own, fmt.Appendf(nil, "session.dir = %q\nmodels.fast = {provider = \"anthropic\", model = \"claude-haiku-4-5\"}\n", kept), 0o600))
	for dir, text := range map[string]string{
		one: "[[approval.rules]]\naction = \"deny\"\ntool = \"mcp__weather__now\"\n", two: "models.fast.model = \"claude-opus-4-5\"\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, ".aycoder"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".aycoder", "config.toml"), []byte(text), 0o600))
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust), config.WithUserFile(own))
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
	second, err := c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: two, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	require.Equal(t, "anthropic/claude-haiku-4-5, of the configuration", modelsOf(first)["fast"])
	require.Equal(t, "anthropic/claude-opus-4-5, of the configuration", modelsOf(second)["fast"])
	_, err = c.Prompt(t.Context(), sdk.PromptRequest{SessionId: first.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("go")}})
	require.NoError(t, err)
	stop()
	require.Empty(t, e.asked)
	require.NotContains(t, model.heard(), "rain")
	list, err := os.ReadDir(kept)
	require.NoError(t, err, "the conversation is where session.dir says")
	require.NotEmpty(t, list)
	require.NoDirExists(t, filepath.Join(home, ".local", "state", "aycoder", "sessions"))
}

func TestEditorUsage(t *testing.T) {
	for _, args := range [][]string{{"acp", "-C", "x"}, {"acp", "--C=x"}} {
		out, err := program(t, t.TempDir(), t.TempDir(), args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "wrong usage")
	}
}

// An other is an agent that asks for a permission, changes a file through its client, and tells what it has cost.
type other struct {
	sdk.Agent // nil: what is not needed
	conn      *sdk.AgentSideConnection
	dir       string
}

func otherAgentMain() {
	o := &other{}
	in, out := io.Pipe()
	o.conn = sdk.NewAgentSideConnection(o, os.Stdout, in)
	go func() {
		_, _ = io.Copy(out, os.Stdin)
		out.Close()
	}()
	<-o.conn.Done()
}

func (o *other) Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	return sdk.InitializeResponse{ProtocolVersion: 1, AuthMethods: []sdk.AuthMethod{}}, nil
}

func (o *other) NewSession(_ context.Context, p sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	o.dir = p.Cwd
	return sdk.NewSessionResponse{SessionId: "s"}, nil
}

func (o *other) Prompt(ctx context.Context, p sdk.PromptRequest) (resp sdk.PromptResponse, err error) {
	resp.StopReason = sdk.StopReasonEndTurn
	file := filepath.Join(o.dir, "a.txt")
	text, err := o.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: "s", Path: file})
	if err != nil {
		return resp, err
	}
	allowed, err := o.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: "s",
		Options:  []sdk.PermissionOption{{OptionId: "yes", Kind: sdk.PermissionOptionKindAllowOnce, Name: "Yes"}},
		ToolCall: sdk.ToolCallUpdate{ToolCallId: "c", Title: new("Remove the build")}})
	if err != nil || allowed.Outcome.Selected == nil {
		return resp, errors.Join(err, errors.New("no permission"))
	}
	if _, err := o.conn.WriteTextFile(ctx, sdk.WriteTextFileRequest{SessionId: "s", Path: file,
		Content: strings.Replace(text.Content, "one", os.Getenv("WORD"), 1)}); err != nil {
		return resp, err
	}
	return resp, o.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: "s",
		Update: sdk.SessionUpdate{UsageUpdate: &sdk.SessionUsageUpdate{Used: 1, Size: 2, Cost: &sdk.Cost{Amount: 0.75, Currency: "USD"}}}})
}

// Another agent of the user's configuration asks the user of this one, its change is merged with what the user has written
// meanwhile, and its cost counts.
func TestAgentServers(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "a.txt")
	require.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\nfour\n"), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	own := filepath.Join(home, ".config", "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, fmt.Appendf(nil, "agent.max_cost = 0.5\n[agent_servers.colleague]\ncommand = %q\nenv = {AYCODER_TEST = \"agent\", WORD = \"ONE\"}\n", self), 0o600))
	model := newModel(t)
	model.tool, model.input = "colleague", `{"task":"go"}`
	e, c, stop := startEditor(t, dir, home, model.URL)
	e.on = func(string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(text, "user\n"...), 0o600))
	}
	s, err := c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	_, err = c.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("go")}})
	require.NoError(t, err)
	stop()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, []string{"colleague", "colleague_permission Remove the build", "edit_file a.txt"}, e.asked)
	require.Equal(t, "ONE\ntwo\nthree\nfour\nuser\nuser\nuser\n", string(text))
	require.Contains(t, e.said.String(), "budget conversation is used up: $0.7500 of $0.5000")
	require.NotContains(t, e.said.String(), "does not count")

	served, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.CommandTransport{Command: program(t, dir, home, "mcp")}, nil)
	require.NoError(t, err)
	list, err := served.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, served.Close())
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	require.Contains(t, names, "read_file")
	require.NotContains(t, names, "colleague", "which aycoder mcp does not pass on")
}
