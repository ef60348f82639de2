package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

func newRuntime(t *testing.T, dir string, opts ...harness.Option) *harness.Runtime {
	t.Helper()
	loaded, err := config.Load()
	require.NoError(t, err)
	rt, err := harness.New(t.Context(), dir, append([]harness.Option{
		harness.WithClient(script.New()), harness.WithSettings(loaded.Config.Settings),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// serve serves a runtime to a client of the SDK.
func serve(t *testing.T, rt *harness.Runtime, version string, c *mcp.ClientOptions) *mcp.ClientSession {
	return serveWith(t, rt, ServeConfig{}, version, c)
}

func serveWith(t *testing.T, rt *harness.Runtime, config ServeConfig, version string, c *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(context.Background(), rt, in, out, config) }()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, c).Connect(t.Context(),
		&mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, <-ended)
	})
	return s
}

func toolText(t *testing.T, s *mcp.ClientSession, name string, args any) (string, bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	require.NoError(t, err)
	require.NotEmpty(t, res.Content)
	return res.Content[0].(*mcp.TextContent).Text, res.IsError
}

func TestServe(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o600))
		secret := filepath.Join(t.TempDir(), "outside")
		require.NoError(t, os.WriteFile(secret, []byte("outside"), 0o600))
		rt := newRuntime(t, dir)
		var asked []string
		answer := &mcp.ElicitResult{Action: "decline"}
		s := serve(t, rt, version, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = append(asked, req.Params.Message)
			return answer, nil
		}})
		require.Equal(t, version, s.InitializeResult().ProtocolVersion)
		list, err := s.ListTools(t.Context(), nil)
		require.NoError(t, err)
		hints := map[string]bool{}
		for _, tool := range list.Tools {
			hints[tool.Name] = tool.Annotations.ReadOnlyHint
		}
		require.True(t, hints["read_file"])
		require.Contains(t, hints, "edit_file")
		require.False(t, hints["edit_file"])
		require.NotContains(t, hints, "subagent")
		require.NotContains(t, hints, "ask_user")

		got, failed := toolText(t, s, "read_file", map[string]any{"path": "a.txt"})
		require.False(t, failed, got)
		require.Contains(t, got, "one")
		got, failed = toolText(t, s, "read_file", map[string]any{"path": secret})
		require.True(t, failed, got)
		require.NotContains(t, got, "outside\n")
		got, failed = toolText(t, s, "read_file", map[string]any{"path": "a.txt", "strange": 1})
		require.True(t, failed, got)
		require.Contains(t, got, "strange")
		require.Empty(t, asked)

		edit := map[string]any{"path": "a.txt", "old_string": "one", "new_string": "two"}
		for _, refusal := range []*mcp.ElicitResult{answer, {Action: "cancel"}, {Action: "accept", Content: map[string]any{"allow": false}}} {
			answer = refusal
			got, failed = toolText(t, s, "edit_file", edit)
			require.True(t, failed, got)
			require.Contains(t, got, "the user refused")
		}
		require.Len(t, asked, 3)
		require.Contains(t, asked[0], "Allow edit_file a.txt?")
		require.Contains(t, asked[0], "-one\n+two\n")
		answer = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}
		got, failed = toolText(t, s, "edit_file", edit)
		require.False(t, failed, got)
		data, err := os.ReadFile(filepath.Join(dir, "a.txt"))
		require.NoError(t, err)
		require.Equal(t, "two\n", string(data))
	}
}

// A file that changes while the user is asked is another question. A client that can be asked only once for a call learns
// that nothing was done.
func TestServedQuestionChanges(t *testing.T) {
	for version, questions := range map[string]int{"2026-07-28": 2, "2025-11-25": 1} {
		name := filepath.Join(t.TempDir(), "a.txt")
		require.NoError(t, os.WriteFile(name, []byte("one\n"), 0o600))
		asked := 0
		s := serve(t, newRuntime(t, filepath.Dir(name)), version, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if asked++; asked == 1 {
				require.NoError(t, os.WriteFile(name, []byte("of the user\none\n"), 0o600))
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}, nil
		}})
		edit := map[string]any{"path": "a.txt", "old_string": "one", "new_string": "two"}
		got, failed := toolText(t, s, "edit_file", edit)
		require.Equal(t, questions, asked)
		if questions == 1 {
			require.True(t, failed, got)
			require.Contains(t, got, "not carried out")
			got, failed = toolText(t, s, "edit_file", edit)
		}
		require.False(t, failed, got)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "of the user\ntwo\n", string(data))
	}
}

// An answer is about what was shown: it allows neither another call nor the same one again, and nobody can make one up.
func TestServedAnswersCountOnce(t *testing.T) {
	dir := t.TempDir()
	rt := newRuntime(t, dir)
	s := serve(t, rt, "2026-07-28", &mcp.ClientOptions{
		MultiRoundTrip:     &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil },
	})
	call := func(path, state string) *mcp.CallToolResult {
		params := &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": path, "content": "x"}, RequestState: state}
		if state != "" {
			params.InputResponses = mcp.InputResponseMap{questionID: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}}
		}
		res, err := s.CallTool(t.Context(), params)
		require.NoError(t, err)
		return res
	}
	asks := func(res *mcp.CallToolResult) string {
		t.Helper()
		require.Len(t, res.InputRequests, 1)
		return res.RequestState
	}
	asks(call("a", "made up"))
	word := asks(call("a", ""))
	asks(call("b", word)) // and with that, the answer is used up
	asks(call("a", word))
	word = asks(call("a", ""))
	require.Empty(t, call("a", word).InputRequests)
	asks(call("c", word))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.Equal(t, "a", names[0].Name())
}

func TestServedPolicy(t *testing.T) {
	rt := newRuntime(t, t.TempDir(), harness.WithPolicyOptions(policy.WithRules(policy.User,
		policy.Rule{Action: policy.RuleDeny, Tool: "fetch", Reason: "work offline"},
		policy.Rule{Action: policy.RuleAllow, Tool: "write_file", Pattern: "ok.txt"})))
	s := serve(t, rt, "", nil) // cannot ask
	got, failed := toolText(t, s, "fetch", map[string]any{"url": "https://example.com"})
	require.True(t, failed)
	require.Contains(t, got, "work offline")
	got, failed = toolText(t, s, "write_file", map[string]any{"path": "no.txt", "content": "x"})
	require.True(t, failed)
	require.Contains(t, got, "this rule would allow it: write_file:no.txt")
	got, failed = toolText(t, s, "write_file", map[string]any{"path": "ok.txt", "content": "x"})
	require.False(t, failed, got)
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"})
	require.ErrorContains(t, err, "nothing")
	require.ErrorContains(t, Serve(t.Context(), rt, nil, nil, ServeConfig{Tools: []string{"nothing"}}), "there is no tool nothing")
}

// One runtime uses the tools that another one serves: pictures and errors come through.
func TestServeToOurselves(t *testing.T) {
	shot, err := aycoder.NewTool("shot", "Takes a picture.", func(_ context.Context, inv *aycoder.Invocation, in struct {
		Broken bool `json:"broken,omitempty"`
	}) (*aycoder.ToolResult, error) {
		if in.Broken {
			return aycoder.ErrorResult("no camera"), nil
		}
		return &aycoder.ToolResult{Parts: []aycoder.Part{&aycoder.Text{Text: "cheese"}, &aycoder.Media{Type: "image/png", Data: []byte(png)}}}, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	handler, err := Handler(newRuntime(t, t.TempDir(), harness.WithTools(shot)), ServeConfig{Tools: []string{"shot"}})
	require.NoError(t, err)
	s := httptest.NewServer(handler)
	defer s.Close()
	src, err := Connector()(t.Context(), "s", config.Server{URL: s.URL})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	list, err := src.Tools(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	res, err := list[0].Call(t.Context(), aycoder.NewInvocation("1", "", json.RawMessage(`{}`), nil))
	require.NoError(t, err)
	require.Equal(t, []aycoder.Part{&aycoder.Text{Text: "cheese"}, &aycoder.Media{Type: "image/png", Data: []byte(png)}}, res.Parts)
	res, err = list[0].Call(t.Context(), aycoder.NewInvocation("1", "", json.RawMessage(`{"broken":true}`), nil))
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.Equal(t, "no camera", res.Text())
}

// Commands are prompts. One that would run a command which nobody can allow is an error.
func TestServePrompts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".aycoder/commands"), 0o700))
	for name, text := range map[string]string{"review": "---\ndescription: Reviews a file.\n---\nReview $ARGUMENTS well.", "evil": "Look: !`touch evil`"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".aycoder/commands", name+".md"), []byte(text), 0o600))
	}
	s := serve(t, newRuntime(t, dir, harness.WithAmbient(harness.Skills)), "", nil)
	list, err := s.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Prompts, 2)
	require.Equal(t, "Reviews a file.", list.Prompts[1].Description)
	res, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "review", Arguments: map[string]string{"arguments": "a.go"}})
	require.NoError(t, err)
	require.Equal(t, "Review a.go well.", res.Messages[0].Content.(*mcp.TextContent).Text)
	_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "evil"})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "evil"))
}

// deafOutput is a standard output that nobody reads any more: a Write with the result of a call waits, also after Close.
type deafOutput struct {
	io.WriteCloser
	waits, end chan struct{}
}

func (d *deafOutput) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte(`"content"`)) {
		return d.WriteCloser.Write(p)
	}
	close(d.waits)
	<-d.end
	return 0, io.ErrClosedPipe
}

// A client that reads nothing does not keep the program from ending.
func TestServeToNobody(t *testing.T) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	deaf := &deafOutput{out, make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(deaf.end) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, newRuntime(t, t.TempDir()), in, deaf, ServeConfig{}) }()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	require.NoError(t, err)
	go func() { _, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: "list_files", Arguments: map[string]any{}}) }()
	<-deaf.waits
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
