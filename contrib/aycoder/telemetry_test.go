//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
)

// Each way to run the agent sends spans and metrics to the collector that the variables name, and prints what it prints
// without. Texts are not sent unless a variable says so.
func TestTelemetry(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path] += string(body)
	}))
	defer collector.Close()
	model := newModel(t)
	on := []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}
	prompt := []string{"-p", "hello there"}
	for _, tt := range []struct {
		name         string
		args         []string // none: an editor
		in           string
		env          []string
		sends, texts bool
	}{
		{"off", prompt, "", on[2:], false, false},
		{"print", prompt, "", on, true, false},
		{"texts", prompt, "", append(on[:3:3], "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"), true, true},
		{"events", []string{"-input", "events"}, `{"type":"prompt","text":"hello there"}`, on, true, false},
		{"editor", nil, "", on, true, false},
		{"claude", []string{"-compat", "claude", "--input-format", "stream-json", "--output-format=stream-json", "--verbose"},
			`{"type":"user","message":{"role":"user","content":"hello there"},"parent_tool_use_id":null}`, on, true, false},
		{"codex", []string{"-compat", "codex", "exec", "--json", "--skip-git-repo-check", "hello there"}, "", on, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clear(got)
			dir, home := t.TempDir(), t.TempDir()
			if tt.args == nil {
				_, c, stop := startEditor(t, dir, home, model.URL, tt.env...)
				s, err := c.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
				require.NoError(t, err)
				_, err = c.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("hello there")}})
				require.NoError(t, err)
				stop()
			} else {
				cmd := program(t, dir, home, tt.args...)
				cmd.Env = append(append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model.URL), tt.env...)
				cmd.Stdin = strings.NewReader(tt.in + "\n")
				out, err := cmd.Output()
				require.NoError(t, err, string(out))
				require.NotContains(t, string(out), "telemetry")
			}
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, tt.sends, strings.Contains(got["/v1/traces"], "invoke_agent aycoder"))
			require.Equal(t, tt.sends, strings.Contains(got["/v1/metrics"], "aycoder.messages"))
			require.Equal(t, tt.texts, strings.Contains(got["/v1/traces"], "hello there"))
		})
	}
}

// A collector that is not there changes neither the answer nor the exit status.
func TestTelemetryFails(t *testing.T) {
	model := newModel(t)
	for _, env := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"} {
		cmd := program(t, t.TempDir(), t.TempDir(), "-p", "hello there")
		cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model.URL, "OTEL_TRACES_EXPORTER=otlp", env)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "done\n", string(out))
		require.Contains(t, errs.String(), "aycoder: telemetry", env)
	}
}
