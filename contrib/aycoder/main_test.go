//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// The test binary is also the program, and a server.
func TestMain(m *testing.M) {
	switch os.Getenv("AYCODER_TEST") {
	case "program":
		main()
	case "agent":
		otherAgentMain()
	case "server":
		s := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "now", Description: "Tells the weather.", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				c := req.ClientCapabilities()
				place, _ := req.Params.InputResponses["place"].(*mcp.ElicitResult)
				if c != nil && c.Elicitation != nil && place == nil {
					return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"place": &mcp.ElicitParams{Message: "Where are you?",
						RequestedSchema: json.RawMessage(`{"type":"object","properties":{"town":{"type":"string"}},"required":["town"]}`)}}}, nil
				}
				text := "rain"
				if place != nil {
					text = fmt.Sprint("rain in ", place.Content["town"])
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
		if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// program returns a command that runs the program in a directory, with another one as home.
func program(t *testing.T, dir, home string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = dir
	cmd.Env = []string{"AYCODER_TEST=program", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + t.TempDir()}
	return cmd
}

// "aycoder mcp" serves tools that read, and puts what needs an approval to the client, which cannot ask here.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("hello"), 0o600))
	call := func(tool string, args any, flags ...string) (string, bool) {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.CommandTransport{Command: program(t, dir, t.TempDir(), append([]string{"mcp"}, flags...)...)}, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		require.NoError(t, err)
		return res.Content[0].(*mcp.TextContent).Text, res.IsError
	}
	text, failed := call("read_file", map[string]any{"path": "a.txt"})
	require.False(t, failed, text)
	require.Contains(t, text, "hello")
	write := map[string]any{"path": "b.txt", "content": "new"}
	text, failed = call("write_file", write)
	require.True(t, failed, text)
	require.NoFileExists(t, filepath.Join(dir, "b.txt"))
	text, failed = call("write_file", write, "-mode", "accept-edits")
	require.False(t, failed, text)
	require.FileExists(t, filepath.Join(dir, "b.txt"))
	_, failed = call("read_file", map[string]any{"path": "../x"})
	require.True(t, failed)
	more := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(more, "b.txt"), []byte("besides"), 0o600))
	text, failed = call("read_file", map[string]any{"path": "more:/b.txt"}, "-add-dir", "more="+more)
	require.False(t, failed, text)
	require.Contains(t, text, "besides")
}

func TestServeUsage(t *testing.T) {
	out, err := program(t, t.TempDir(), t.TempDir(), "mcp", "do this").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "there is no conversation here")
}

func TestLoginUsage(t *testing.T) {
	for _, args := range [][]string{{"mcp", "login"}, {"mcp", "login", "none"}} {
		out, err := program(t, t.TempDir(), t.TempDir(), args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "wrong usage")
	}
}

// The user's server is started, and that of the project is not, before the user was asked.
func TestServers(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	own := filepath.Join(home, ".config", "aycoder", "config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, fmt.Appendf(nil, "[servers.weather]\ncommand = %q\nenv = {AYCODER_TEST = \"server\"}\n", self), 0o600))
	theirs, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"evil": map[string]any{"command": "/bin/touch", "args": []string{filepath.Join(dir, "evil")}}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".mcp.json"), theirs, 0o600))
	model := newModel(t)
	cmd := program(t, dir, home, "-p", "-no-session", "-output", "events", "-allow", "mcp__weather__now", "go")
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model.URL)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", out, stderr.String())
	require.Contains(t, string(out), "rain")
	require.Contains(t, string(out)+stderr.String(), "evil")
	require.NoFileExists(t, filepath.Join(dir, "evil"))
}

// newModel is a model that calls a tool, that of the server unless a test sets another, and then ends. It speaks the Messages API.
func newModel(t *testing.T) *model {
	m := &model{tool: "mcp__weather__now", input: "{}"}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.last = string(body)
		m.mu.Unlock()
		block, delta, stop := `{"type":"tool_use","id":"t1","name":"`+m.tool+`","input":{}}`, `{"type":"input_json_delta","partial_json":`+strconv.Quote(m.input)+`}`, "tool_use"
		if strings.Contains(string(body), "tool_result") {
			block, delta, stop = `{"type":"text","text":""}`, `{"type":"text_delta","text":"done"}`, "end_turn"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
			`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"` + stop + `"},"usage":{"output_tokens":1}}`, `{"type":"message_stop"}`,
		} {
			kind := struct{ Type string }{}
			_ = json.Unmarshal([]byte(e), &kind)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, e)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

type model struct {
	*httptest.Server
	tool, input string

	mu   sync.Mutex
	last string
}

// heard returns the last request.
func (m *model) heard() string { m.mu.Lock(); defer m.mu.Unlock(); return m.last }
