//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// "aycoder serve -metrics -push" offers the figures of what it has served, and sends them at the end.
func TestMetrics(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	pushed := make(chan string, 10)
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		pushed <- r.URL.Path + "\n" + string(body)
	}))
	defer gateway.Close()
	model := newModel(t)
	cmd := program(t, dir, home, "serve", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-push", gateway.URL)
	cmd.Env = append(cmd.Env, "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL="+model.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	line := func(before string) string {
		text, err := lines.ReadString('\n')
		require.NoError(t, err)
		rest, ok := strings.CutPrefix(strings.TrimSpace(text), before)
		require.True(t, ok, text)
		return rest
	}
	metrics, url, token := line("Metrics on "), line("Listening on "), line("Token: ")
	do := func(method, url, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode, string(data))
		return string(data)
	}
	for range 2 { // each in a new session
		require.Contains(t, do("POST", url+"api/prompt", `{"prompt":"hello there"}`), "run_end")
	}
	got := do("GET", metrics, "")
	for _, want := range []string{"aycoder_sessions_total 2", `aycoder_messages_total{role="user"} 2`, `aycoder_messages_total{role="assistant"} 4`,
		"aycoder_response_time_seconds_count 4", "gen_ai_client_operation_duration_seconds_count"} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "hello there")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
	last := <-pushed
	require.True(t, strings.HasPrefix(last, "/metrics/job/aycoder\n"), last)
	require.Contains(t, last, "aycoder_sessions_total")
}

func TestMetricsUsage(t *testing.T) {
	for _, args := range [][]string{{"-metrics", "no such address"}, {"-metrics"}, {"-metrik", "x"}} {
		out, err := program(t, t.TempDir(), t.TempDir(), append([]string{"serve"}, args...)...).CombinedOutput()
		require.Error(t, err)
		require.NotEmpty(t, out)
	}
	out, err := program(t, t.TempDir(), t.TempDir(), "serve", "-h").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "-metrics address")
}
