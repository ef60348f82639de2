package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

func TestChat(t *testing.T) {
	var models []*script.Model
	steps := []script.Step{script.Say("Hello.")}
	open := func(string) (aycoder.ModelClient, error) {
		models = append(models, script.New(steps...))
		return models[len(models)-1], nil
	}
	dir := t.TempDir()
	server := httptest.NewServer(newHandler("127.0.0.1", dir, journal.Memory(), open, "a", "b"))
	defer server.Close()
	do := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	_, text := do("POST", "/api/chat", `{"message":"Hi"}`)
	var got struct{ Reply, SessionID string }
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, "Hello.", got.Reply)
	code, _ := do("POST", "/api/chat", `{"message":"And?","model":"b","sessionId":"`+got.SessionID+`"}`)
	require.Equal(t, http.StatusOK, code)
	require.Len(t, models[1].Requests()[0].Messages, 3, "the conversation goes on")
	_, text = do("GET", "/api/sessions", "")
	require.Contains(t, text, got.SessionID)
	_, text = do("GET", "/api/sessions/"+got.SessionID+"/messages", "")
	require.JSONEq(t, `[{"Role":"user","Content":"Hi"},{"Role":"assistant","Content":"Hello."},{"Role":"user","Content":"And?"},{"Role":"assistant","Content":"Hello."}]`, text)
	code, _ = do("DELETE", "/api/sessions/"+got.SessionID, "")
	require.Equal(t, http.StatusOK, code)
	code, _ = do("GET", "/api/sessions/"+got.SessionID+"/messages", "")
	require.Equal(t, http.StatusNotFound, code)
	for _, body := range []string{"", "{", `{"message":"x","model":"c"}`, `{"message":"x","sessionId":"../x"}`, `{"message":""}`} {
		code, text = do("POST", "/api/chat", body)
		require.GreaterOrEqual(t, code, 400, "%s: %s", body, text)
	}
	steps = []script.Step{script.Call("bash", map[string]string{"command": "touch ran"}), script.Say("No.")}
	code, _ = do("POST", "/api/chat", `{"message":"Touch it."}`)
	require.Equal(t, http.StatusOK, code)
	require.NoFileExists(t, filepath.Join(dir, "ran"), "nobody is asked, so no command that changes something runs")
	req := httptest.NewRequestWithContext(t.Context(), "GET", "http://rebound.example/api/sessions", nil)
	resp := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(resp, req)
	require.Equal(t, http.StatusNotFound, resp.Code, "another name that points here")
	_, text = do("GET", "/api/models", "")
	require.JSONEq(t, `["a","b"]`, text)
}
