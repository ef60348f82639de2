package acp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// An editorClient is a client as an editor is one: its buffers are saved when they are written.
type editorClient struct {
	*sdk.ClientSideConnection
	gone chan error // of Serve

	mu      sync.Mutex
	buffers map[string]string // that are open, by absolute path
	lazy    bool              // writing does not save
	asked   []sdk.RequestPermissionRequest
	answer  func(sdk.RequestPermissionRequest) string // the id of an option, or "" to cancel
	updates []sdk.SessionUpdate
	writes  []string
	reading func(name string) // is called before a buffer is read
}

func (c *editorClient) ReadTextFile(_ context.Context, p sdk.ReadTextFileRequest) (r sdk.ReadTextFileResponse, err error) {
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	if reading != nil {
		reading(p.Path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := c.buffers[p.Path]; ok {
		r.Content = text
		return r, nil
	}
	text, err := os.ReadFile(p.Path)
	if err != nil {
		return r, &sdk.RequestError{Code: codeNotFound, Message: err.Error()}
	}
	r.Content = string(text)
	return r, nil
}

func (c *editorClient) WriteTextFile(_ context.Context, p sdk.WriteTextFileRequest) (r sdk.WriteTextFileResponse, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, p.Path)
	c.buffers[p.Path] = p.Content
	if c.lazy {
		return r, nil
	}
	return r, os.WriteFile(p.Path, []byte(p.Content), 0o644)
}

func (c *editorClient) RequestPermission(_ context.Context, p sdk.RequestPermissionRequest) (r sdk.RequestPermissionResponse, err error) {
	c.mu.Lock()
	c.asked = append(c.asked, p)
	answer := c.answer
	c.mu.Unlock()
	if answer == nil {
		return r, errors.New("there is nobody to ask")
	}
	if id := answer(p); id != "" {
		r.Outcome.Selected = &sdk.RequestPermissionOutcomeSelected{OptionId: sdk.PermissionOptionId(id)}
	} else {
		r.Outcome.Cancelled = &sdk.RequestPermissionOutcomeCancelled{}
	}
	return r, nil
}

func (c *editorClient) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updates = append(c.updates, n.Update)
	return nil
}

func (c *editorClient) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (r sdk.CreateTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/create")
}
func (c *editorClient) KillTerminal(context.Context, sdk.KillTerminalRequest) (r sdk.KillTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/kill")
}
func (c *editorClient) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (r sdk.TerminalOutputResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/output")
}
func (c *editorClient) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (r sdk.ReleaseTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/release")
}
func (c *editorClient) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (r sdk.WaitForTerminalExitResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/wait_for_exit")
}

// take returns the updates so far, and forgets them.
func (c *editorClient) take() []sdk.SessionUpdate {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.updates
	c.updates = nil
	return all
}

func (c *editorClient) seen() []sdk.SessionUpdate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.updates)
}

func (c *editorClient) set(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buffers[name] = text
}

func (c *editorClient) buffer(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buffers[name]
}

// said joins the texts of the agent.
func said(all []sdk.SessionUpdate) string {
	var b strings.Builder
	for _, u := range all {
		if u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil {
			b.WriteString(u.AgentMessageChunk.Content.Text.Text)
		}
	}
	return b.String()
}

// outputs joins the texts of finished calls.
func outputs(all []sdk.SessionUpdate) string {
	var b strings.Builder
	for _, u := range all {
		if u.ToolCallUpdate != nil {
			for _, c := range u.ToolCallUpdate.Content {
				if c.Content != nil && c.Content.Content.Text != nil {
					b.WriteString(c.Content.Content.Text.Text + "\n")
				}
			}
		}
	}
	return b.String()
}

// connect starts Serve, and connects to it.
// gate holds back what comes until the connection is complete: the SDK reads at once.
type gate struct {
	io.Reader
	ready <-chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.ready
	return g.Reader.Read(p)
}

func connect(t *testing.T, c Config) *editorClient {
	t.Helper()
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	e := &editorClient{buffers: map[string]string{}, gone: make(chan error, 1)}
	go func() { e.gone <- Serve(context.Background(), toAgent, fromAgent, c) }()
	sdkReady := make(chan struct{})
	e.ClientSideConnection = sdk.NewClientSideConnection(e, in, &gate{out, sdkReady})
	e.SetLogger(slog.New(slog.DiscardHandler))
	close(sdkReady)
	t.Cleanup(func() {
		_ = in.Close()
		require.NoError(t, <-e.gone)
	})
	return e
}

// scripted is a Config whose sessions have a model that follows a script.
func scripted(model aycoder.ModelClient, opts ...harness.Option) Config {
	return Config{Open: func(ctx context.Context, s Start) (*harness.Runtime, error) {
		all := append([]harness.Option{harness.WithClient(model)}, opts...)
		return harness.New(ctx, s.Dir, append(all, s.Options...)...)
	}, Store: journal.Memory()}
}

var (
	both        = sdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}
	readingOnly = sdk.FileSystemCapabilities{ReadTextFile: true}
)

// files makes a directory with files.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range all {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// begin makes a session in a directory with files.
func begin(t *testing.T, e *editorClient, fs sdk.FileSystemCapabilities, all map[string]string) (sdk.SessionId, string) {
	t.Helper()
	dir := files(t, all)
	_, err := e.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: 1, ClientCapabilities: sdk.ClientCapabilities{Fs: fs}})
	require.NoError(t, err)
	resp, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	return resp.SessionId, dir
}

func (c *editorClient) ask(t *testing.T, id sdk.SessionId, text string) sdk.StopReason {
	t.Helper()
	resp, err := c.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}})
	require.NoError(t, err)
	return resp.StopReason
}

func edits(old, now string) map[string]any {
	return map[string]any{"path": "a.txt", "old_string": old, "new_string": now}
}

func TestServe(t *testing.T) {
	model := script.New(
		script.Reply(script.Think("Hm."), script.Say("Look."), script.Call("read_file", map[string]any{"path": "a.txt"})),
		script.Call("edit_file", edits("two", "TWO")),
		script.Call("todo", map[string]any{"todos": []map[string]any{{"content": "one", "status": "in_progress"}, {"content": "x", "status": "cancelled"}}}),
		script.Say("Done."),
	)
	e := connect(t, scripted(model))
	init, err := e.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: 7})
	require.NoError(t, err)
	require.EqualValues(t, 1, init.ProtocolVersion)
	require.True(t, init.AgentCapabilities.LoadSession)
	require.False(t, init.AgentCapabilities.McpCapabilities.Http, "there is no connector")
	id, dir := begin(t, e, sdk.FileSystemCapabilities{}, map[string]string{"a.txt": "one\ntwo\n"})
	file := filepath.Join(dir, "a.txt")
	e.answer = func(sdk.RequestPermissionRequest) string { return allowAnswer }

	resp, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{
		sdk.TextBlock("Change "), sdk.ResourceLinkBlock("a", "file://"+file), sdk.TextBlock(" like "),
		sdk.ResourceBlock(sdk.EmbeddedResourceResource{TextResourceContents: &sdk.TextResourceContents{Uri: "file://" + dir + "/b.txt", Text: "TEXT"}}),
		sdk.ImageBlock(pixel, "image/jpeg"),
	}})
	require.NoError(t, err)
	require.Equal(t, sdk.StopReasonEndTurn, resp.StopReason)
	parts := model.Requests()[0].Messages[0].Parts
	require.Len(t, parts, 3)
	require.Contains(t, parts[0].(*aycoder.Text).Text, "b.txt:\n\nTEXT")
	require.Equal(t, &aycoder.Media{Type: "image/png", Data: pixelData(t)}, parts[1], "the type is what the image has")
	require.Equal(t, "Change a.txt like b.txt", parts[2].(*aycoder.Text).Text)

	all := e.take()
	require.Equal(t, "Look.Done.", said(all))
	var kinds, states []string
	var plan *sdk.SessionUpdatePlan
	var diff *sdk.ToolCallContentDiff
	var thoughts strings.Builder
	for _, u := range all {
		switch {
		case u.AgentThoughtChunk != nil:
			thoughts.WriteString(u.AgentThoughtChunk.Content.Text.Text)
		case u.ToolCall != nil:
			kinds = append(kinds, string(u.ToolCall.Kind)+" "+u.ToolCall.Title)
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			states = append(states, string(*u.ToolCallUpdate.Status))
			for _, c := range u.ToolCallUpdate.Content {
				if c.Diff != nil {
					diff = c.Diff
				}
			}
		case u.Plan != nil:
			plan = u.Plan
		}
	}
	require.Equal(t, "Hm.", thoughts.String())
	require.Equal(t, []string{"read read_file a.txt", "edit edit_file a.txt", "think todo"}, kinds)
	require.Equal(t, []string{"in_progress", "completed", "in_progress", "completed", "in_progress", "completed"}, states)
	require.Equal(t, []sdk.PlanEntry{{Content: "one", Priority: "medium", Status: "in_progress"}}, plan.Entries)
	require.Equal(t, sdk.ToolCallContentDiff{Path: file, OldText: new("one\ntwo\n"), NewText: "one\nTWO\n", Type: "diff"}, *diff)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "one\nTWO\n", string(text))

	require.Len(t, e.asked, 1, "reading and the list of tasks need no question")
	q := e.asked[0]
	require.Equal(t, file, q.ToolCall.Content[0].Diff.Path)
	require.Equal(t, "one\nTWO\n", q.ToolCall.Content[0].Diff.NewText)
	require.Equal(t, file, q.ToolCall.Locations[0].Path)
	require.Equal(t, sdk.PermissionOptionKindAllowOnce, q.Options[0].Kind)
	require.Equal(t, sdk.PermissionOptionKindRejectOnce, q.Options[len(q.Options)-1].Kind)
}

func TestPermissions(t *testing.T) {
	call := func() script.Step { return script.Call("bash", map[string]any{"command": "touch x"}) }
	tests := []struct {
		name, answer string
		asked        int
		ran          bool
	}{
		{"allow", "allow", 2, true}, {"rule", "rule-1", 1, true}, {"reject", "deny", 2, false}, {"cancelled", "", 2, false},
		{"unknown option", "yes", 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := connect(t, scripted(script.New(call(), call(), script.Say("ok"))))
			id, dir := begin(t, e, both, nil)
			e.answer = func(sdk.RequestPermissionRequest) string { return tt.answer }
			require.Equal(t, sdk.StopReasonEndTurn, e.ask(t, id, "go"))
			require.Len(t, e.asked, tt.asked)
			for _, o := range e.asked[0].Options {
				if o.Kind == sdk.PermissionOptionKindAllowAlways {
					require.Contains(t, o.Name, "touch", "the rule is shown")
				}
			}
			require.Equal(t, sdk.ToolKindExecute, *e.asked[0].ToolCall.Kind)
			_, err := os.Stat(filepath.Join(dir, "x"))
			require.Equal(t, tt.ran, err == nil)
		})
	}
	t.Run("error", func(t *testing.T) {
		e := connect(t, scripted(script.New(call(), script.Say("ok"))))
		id, dir := begin(t, e, both, nil)
		require.Equal(t, sdk.StopReasonEndTurn, e.ask(t, id, "go"))
		require.NoFileExists(t, filepath.Join(dir, "x"))
		require.Contains(t, outputs(e.take()), "nobody to ask")
	})
}

func TestCancel(t *testing.T) {
	e := connect(t, scripted(script.New(script.Call("bash", map[string]any{"command": "echo begun; sleep 1000"}), script.Say("again"))))
	id, _ := begin(t, e, both, nil)
	asked := make(chan struct{})
	e.answer = func(sdk.RequestPermissionRequest) string {
		close(asked)
		<-t.Context().Done()
		return ""
	}
	done := make(chan sdk.StopReason, 1)
	go func() { done <- e.ask(t, id, "go") }()
	<-asked
	require.NoError(t, e.Cancel(t.Context(), sdk.CancelNotification{SessionId: id}))
	require.Equal(t, sdk.StopReasonCancelled, <-done)

	e.answer = func(sdk.RequestPermissionRequest) string { return allowAnswer }
	require.Equal(t, sdk.StopReasonEndTurn, e.ask(t, id, "go on"), "the conversation is valid")
	require.Equal(t, "again", said(e.take()))
}

func TestLoad(t *testing.T) {
	model := script.New(
		script.Reply(script.Think("Hm."), script.Call("read_file", map[string]any{"path": "a.txt"})), script.Say("It says one."),
		script.Say("Again."),
	)
	e := connect(t, scripted(model))
	id, dir := begin(t, e, both, map[string]string{"a.txt": "one\n"})
	e.ask(t, id, "read it")
	live := e.take()
	_, err := e.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: id})
	require.NoError(t, err)
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}})
	require.Equal(t, codeNotFound, codeOf(t, err))

	list, err := e.ListSessions(t.Context(), sdk.ListSessionsRequest{Cwd: &dir})
	require.NoError(t, err)
	require.Len(t, list.Sessions, 1)
	require.Equal(t, id, list.Sessions[0].SessionId)
	require.Equal(t, "read it", *list.Sessions[0].Title)
	other := t.TempDir()
	list, err = e.ListSessions(t.Context(), sdk.ListSessionsRequest{Cwd: &other})
	require.NoError(t, err)
	require.Empty(t, list.Sessions)

	_, err = e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: dir, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	past := e.take()
	require.Equal(t, "read it", past[0].UserMessageChunk.Content.Text.Text)
	require.Equal(t, said(live), said(past))
	require.Equal(t, outputs(live), outputs(past))
	require.Contains(t, outputs(past), "one")
	e.ask(t, id, "and now?")
	require.Len(t, model.Requests()[2].Messages, 5, "the conversation goes on")

	_, err = e.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: id, Cwd: dir})
	require.NoError(t, err, "of an open session, too")
	e.take()
	_, err = e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: "none", Cwd: dir, McpServers: []sdk.McpServer{}})
	require.Equal(t, codeNotFound, codeOf(t, err))
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	e, ok := errors.AsType[*sdk.RequestError](err)
	require.True(t, ok, "%v", err)
	return e.Code
}

func TestErrors(t *testing.T) {
	model := script.New(script.Fail(&aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: "p"}}))
	e := connect(t, scripted(model))
	id, dir := begin(t, e, both, nil)
	_, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}})
	require.Equal(t, codeAuth, codeOf(t, err))
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{}})
	require.Equal(t, codeInvalidParams, codeOf(t, err))
	_, err = e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "relative", McpServers: []sdk.McpServer{}})
	require.Equal(t, codeInvalidParams, codeOf(t, err))
	server := sdk.McpServer{Stdio: &sdk.McpServerStdio{Name: "s", Command: "x", Args: []string{}, Env: []sdk.EnvVariable{}}}
	_, err = e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{server}})
	require.Equal(t, codeInvalidParams, codeOf(t, err), "there is no connector")
	_, err = e.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "none"})
	require.Equal(t, codeInvalidParams, codeOf(t, err))
	require.ErrorContains(t, Serve(t.Context(), nil, nil, Config{}), "Config.Open")
}

func TestModes(t *testing.T) {
	e := connect(t, scripted(script.New(script.Call("bash", map[string]any{"command": "touch x"}), script.Say("ok"))))
	id, dir := begin(t, e, both, nil)
	resp, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	require.NoError(t, err)
	require.EqualValues(t, "ask", resp.Modes.CurrentModeId)
	require.Len(t, resp.Modes.AvailableModes, 4)
	require.Len(t, resp.ConfigOptions, 1, "there are no models to choose from")
	_, err = e.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: id, ModeId: "full-auto"})
	require.NoError(t, err)
	e.ask(t, id, "go")
	require.Empty(t, e.asked)
	require.FileExists(t, filepath.Join(dir, "x"))
	set, err := e.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
		SessionId: id, ConfigId: "mode", Value: "plan"}})
	require.NoError(t, err)
	require.EqualValues(t, "plan", set.ConfigOptions[0].Select.CurrentValue)
}

func TestModels(t *testing.T) {
	models := map[string]*script.Model{}
	for _, name := range []string{"one", "two"} {
		models[name] = script.New(script.Say("I am "+name+"."), script.Say("Still.")).With(script.WithName("p", name))
	}
	reloader, err := config.NewReloader()
	require.NoError(t, err)
	offered := func(*harness.Runtime) []Model { return []Model{{ID: "p/one"}, {ID: "p/two", Name: "Two"}} }
	c := Config{Models: offered, Open: func(ctx context.Context, s Start) (*harness.Runtime, error) {
		opener := func(_ context.Context, m harness.ModelSpec) (aycoder.ModelClient, error) { return models[m.Model], nil }
		return harness.New(ctx, s.Dir, append([]harness.Option{harness.WithModel("p/one"), harness.WithOpener(opener),
			harness.WithReloader(reloader)}, s.Options...)...)
	}}
	e := connect(t, c)
	id, _ := begin(t, e, both, nil)
	e.ask(t, id, "who?")
	require.Equal(t, "I am one.", said(e.take()))
	set, err := e.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
		SessionId: id, ConfigId: "model", Value: "p/two"}})
	require.NoError(t, err)
	require.EqualValues(t, "p/two", set.ConfigOptions[1].Select.CurrentValue)
	e.ask(t, id, "who?")
	require.Equal(t, "I am two.", said(e.take()))
	_, err = e.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
		SessionId: id, ConfigId: "model", Value: "p/none"}})
	require.Equal(t, codeInvalidParams, codeOf(t, err))
}

// A server that the client passes is connected to, and its tools are asked about.
func TestServers(t *testing.T) {
	var got config.Server
	tool, err := aycoder.NewTool("mcp__My-files__read", "Reads.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("from the server"), nil
	})
	require.NoError(t, err)
	c := scripted(script.New(script.Call("mcp__My-files__read", map[string]any{}), script.Say("ok")))
	source := &toolSource{tool: tool}
	c.Servers = func(_ context.Context, name string, s config.Server) (harness.ToolSource, error) {
		require.Equal(t, "My-files", name)
		got = s
		return source, nil
	}
	e := connect(t, c)
	_, dir := begin(t, e, both, nil)
	resp, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{{Stdio: &sdk.McpServerStdio{
		Name: "My files", Command: "/bin/files", Args: []string{"-x"}, Env: []sdk.EnvVariable{{Name: "KEY", Value: "v"}}}}}})
	require.NoError(t, err)
	require.Equal(t, "/bin/files", got.Command)
	require.Equal(t, []string{"-x"}, got.Args)
	require.Equal(t, map[string]string{"KEY": "v"}, got.Env)
	require.False(t, got.Trust)
	e.answer = func(sdk.RequestPermissionRequest) string { return allowAnswer }
	e.ask(t, resp.SessionId, "go")
	require.Len(t, e.asked, 1)
	require.Contains(t, outputs(e.take()), "from the server")
	_, err = e.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: resp.SessionId})
	require.NoError(t, err)
	require.True(t, source.closed)
}

type toolSource struct {
	tool   aycoder.Tool
	closed bool
}

func (s *toolSource) Tools(context.Context) ([]aycoder.Tool, error) {
	return []aycoder.Tool{s.tool}, nil
}
func (s *toolSource) Close() error { s.closed = true; return nil }

func TestCommands(t *testing.T) {
	model := script.New(script.Say("reviewed"))
	e := connect(t, scripted(model, harness.WithAmbient(harness.Skills)))
	id, _ := begin(t, e, both, map[string]string{".aycoder/commands/review.md": "---\ndescription: Looks at it\n---\nReview $ARGUMENTS now."})
	timed.Until(t, func() bool {
		return slices.ContainsFunc(e.seen(), func(u sdk.SessionUpdate) bool {
			c := u.AvailableCommandsUpdate
			return c != nil && len(c.AvailableCommands) == 1 && c.AvailableCommands[0].Name == "review" &&
				c.AvailableCommands[0].Description == "Looks at it"
		})
	})
	e.ask(t, id, "/revue x")
	require.Contains(t, said(e.take()), "did you mean /review")
	e.ask(t, id, "/review a.go")
	data, err := json.Marshal(model.Requests()[0].Messages)
	require.NoError(t, err)
	require.Contains(t, string(data), "Review a.go now.")
}

// Prompts of servers are commands, too, and the editor is told of those that are new.
func TestServerCommands(t *testing.T) {
	tool, err := aycoder.NewTool("mcp__notes__read", "Reads.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return nil, nil
	})
	require.NoError(t, err)
	source := &textSource{toolSource: toolSource{tool: tool}, names: []string{"mcp__notes__review"}}
	model := script.New(script.Say("reviewed"), script.Say("again"))
	c := scripted(model)
	c.Servers = func(context.Context, string, config.Server) (harness.ToolSource, error) { return source, nil }
	e := connect(t, c)
	_, dir := begin(t, e, both, nil)
	resp, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{{Stdio: &sdk.McpServerStdio{
		Name: "notes", Command: "/bin/notes", Args: []string{}, Env: []sdk.EnvVariable{}}}}})
	require.NoError(t, err)
	told := func() (lists [][]string) {
		for _, u := range e.seen() {
			if u.AvailableCommandsUpdate == nil {
				continue
			}
			names := []string{}
			for _, c := range u.AvailableCommandsUpdate.AvailableCommands {
				names = append(names, c.Name+": "+c.Description)
			}
			lists = append(lists, names)
		}
		return lists
	}
	review, draft := "mcp__notes__review: Prompt of the server notes", "mcp__notes__draft: Prompt of the server notes"
	timed.Until(t, func() bool { return len(told()) == 2 }) // one of them is that of the session of begin
	require.ElementsMatch(t, [][]string{{}, {review}}, told())
	e.ask(t, resp.SessionId, "/mcp__notes__review now")
	data, err := json.Marshal(model.Requests()[0].Messages)
	require.NoError(t, err)
	require.Contains(t, string(data), "Look at it now.")
	require.Len(t, told(), 2, "nothing has changed")
	source.mu.Lock()
	source.names = append(source.names, "mcp__notes__draft")
	source.mu.Unlock()
	e.ask(t, resp.SessionId, "x")
	require.Equal(t, []string{review, draft}, told()[2])
}

// A textSource is a server with prompts.
type textSource struct {
	toolSource

	mu    sync.Mutex
	names []string
}

func (s *textSource) Prompts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}

func (s *textSource) Prompt(_ context.Context, _, words string) ([]aycoder.Part, error) {
	return []aycoder.Part{&aycoder.Text{Text: "Look at it " + words + "."}}, nil
}

func (s *textSource) Resource(context.Context, string) ([]aycoder.Part, error) { return nil, nil }

// sized is a model that tells its window and price.
type sized struct{ *script.Model }

func (sized) ModelInfo(string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Provider: "script", Model: "script", Context: 100_000, Price: &aycoder.Price{Input: 1e6, Output: 1e6}}, true
}

func TestUsage(t *testing.T) {
	e := connect(t, scripted(sized{script.New(script.Say("ok").WithUsage(aycoder.Usage{Input: 10, CacheRead: 5, Output: 2, Reasoning: 1}))}))
	id, _ := begin(t, e, both, nil)
	resp, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}})
	require.NoError(t, err)
	require.Equal(t, sdk.Usage{InputTokens: 10, OutputTokens: 2, ThoughtTokens: new(1), CachedReadTokens: new(5), CachedWriteTokens: new(0),
		TotalTokens: 17}, *resp.Usage)
	var told *sdk.SessionUsageUpdate
	for _, u := range e.take() {
		if u.UsageUpdate != nil {
			told = u.UsageUpdate
		}
	}
	require.Equal(t, 17, told.Used)
	require.Equal(t, 100_000, told.Size)
	require.Equal(t, sdk.Cost{Amount: 17, Currency: "USD"}, *told.Cost)
}

// A client that leaves in the middle of a run: Serve stops it, and nothing is left.
func TestClientLeaves(t *testing.T) {
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	e := &editorClient{buffers: map[string]string{}}
	gone := make(chan error, 1)
	c := scripted(script.New(script.Call("bash", map[string]any{"command": "sleep 1000"})))
	go func() { gone <- Serve(t.Context(), toAgent, fromAgent, c) }()
	ready := make(chan struct{})
	e.ClientSideConnection = sdk.NewClientSideConnection(e, in, &gate{out, ready})
	e.SetLogger(slog.New(slog.DiscardHandler))
	close(ready)
	id, dir := begin(t, e, both, nil)
	e.answer = func(sdk.RequestPermissionRequest) string { require.NoError(t, in.Close()); return allowAnswer }
	_, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}})
	require.Error(t, err)
	require.NoError(t, <-gone)
	list, err := session.List(t.Context(), c.Store, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, dir, list[0].Dir)
	view, _, err := session.Read(t.Context(), c.Store, list[0].ID)
	require.NoError(t, err)
	messages := view.Messages(view.Head(""))
	require.NotEmpty(t, messages)
	require.NoError(t, aycoder.CheckHistory(messages))
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

func pixelData(t *testing.T) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(pixel)
	require.NoError(t, err)
	return data
}

// Clients that attach files send links without a space between them, and some an image that is none.
func TestContent(t *testing.T) {
	s := &conversation{dir: "/w"}
	link := func(name string) sdk.ContentBlock { return sdk.ResourceLinkBlock(name, "file:///w/"+name) }
	for want, blocks := range map[string][]sdk.ContentBlock{
		"Fix this a.txt b.txt":        {sdk.TextBlock("Fix this"), link("a.txt"), link("b.txt")},
		"a.txt b.txt what is that?":   {link("a.txt"), link("b.txt"), sdk.TextBlock("what is that?")},
		"See `a.txt`, (b.txt) @c.txt": {sdk.TextBlock("See `"), link("a.txt"), sdk.TextBlock("`, ("), link("b.txt"), sdk.TextBlock(") @"), link("c.txt")},
	} {
		got, _, err := s.content(blocks)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, kind := range []string{"image/png", "image/jpg"} {
		_, _, err := s.content([]sdk.ContentBlock{sdk.ImageBlock("aGVsbG8=", kind)})
		require.ErrorContains(t, err, "it is text/plain")
	}
	_, _, err := s.content([]sdk.ContentBlock{sdk.ImageBlock(pixel[:80], "image/png")})
	require.ErrorContains(t, err, "cut off")
	text := "text/plain"
	_, parts, err := s.content([]sdk.ContentBlock{sdk.ResourceBlock(sdk.EmbeddedResourceResource{ // it begins as a bitmap does
		BlobResourceContents: &sdk.BlobResourceContents{Uri: "file:///w/a.txt", MimeType: &text, Blob: "Qk1XIGlzIGEgY2Fy"}})})
	require.NoError(t, err)
	require.Equal(t, &aycoder.Media{Type: text, Name: "a.txt", Data: []byte("BMW is a car")}, parts[0])
	_, parts, err = s.content([]sdk.ContentBlock{sdk.ImageBlock("PHN2Zy8+", "image/svg+xml")}) // which no model is shown
	require.NoError(t, err)
	require.Equal(t, []aycoder.Part{&aycoder.Media{Type: "image/svg+xml", Data: []byte("<svg/>")}}, parts)
}
