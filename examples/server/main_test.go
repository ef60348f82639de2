package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/server"
)

// Each member has separate sessions, although the workspace is one.
func TestMembers(t *testing.T) {
	team := &team{
		dir: t.TempDir(), tokens: map[string]string{"Bearer a": "alice", "Bearer b": "bob"},
		stores: map[string]journal.Store{"alice": journal.Memory(), "bob": journal.Memory()},
		model:  func() aycoder.ModelClient { return script.New(script.Say("Hello.")) },
	}
	srv, err := server.New(team.host())
	require.NoError(t, err)
	ts := httptest.NewServer(srv)
	defer ts.Close()
	do := func(method, path, token, body string) (int, string, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(data), res.Header
	}
	status, text, head := do("POST", "/api/prompt", "a", `{"prompt":"hi"}`)
	require.Equal(t, 200, status)
	require.Contains(t, text, `"text":"Hello."`)
	path := "/api/sessions/" + head.Get("Aycoder-Session")
	for token, want := range map[string]int{"a": 200, "b": 404, "c": 401} {
		status, _, _ := do("GET", path, token, "")
		require.Equal(t, want, status, token)
	}
	require.NoError(t, srv.Shutdown(t.Context()))
}

// The program ends in order when it is told to.
func TestServe(t *testing.T) {
	ctx := t.Context()
	require.Error(t, serve(ctx, "no such address", alone(t.TempDir(), answers)))
	require.Error(t, serve(ctx, "127.0.0.1:0", server.Host{}))
}
