package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/script"
)

func TestChat(t *testing.T) {
	dir := t.TempDir()
	touch := script.Call("bash", map[string]string{"command": "touch ran"})
	model := script.New(script.Say("Hello."), script.Say("Yes."), touch, script.Say("No."), script.Say("It is short."), script.Fail(errors.New("down")),
		script.Fail(&aycoder.BadRequestError{ModelError: &aycoder.ModelError{Err: errors.New("wrong")}}))
	const page = "https://page.example"
	h, err := newHandler("127.0.0.1", &chat{dir, "a/b", model}, page)
	require.NoError(t, err)
	server := httptest.NewServer(h)
	defer server.Close()
	do := func(method, path, origin, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if resp.StatusCode < 300 && origin != "" {
			require.Equal(t, origin, resp.Header.Get("Access-Control-Allow-Origin"))
		}
		return resp.StatusCode, string(text)
	}
	const done = "data: [DONE]\n\n"
	_, text := do("POST", "/chat", "", `{"message":"Hi"}`)
	require.Equal(t, "event: message\ndata: {\"content\":\"Hello.\"}\n\n"+done, text)
	_, text = do("POST", "/chat", page, `{"message":"And?","history":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."}]}`)
	require.Contains(t, text, "Yes.")
	require.Len(t, model.Requests()[1].Messages, 3, "the conversation goes on")
	_, text = do("POST", "/chat", "", `{"message":"Touch it."}`)
	require.Contains(t, text, "No.")
	require.NoFileExists(t, filepath.Join(dir, "ran"), "the agent only reads")
	_, text = do("POST", "/summarize", "", `{"text":"A text."}`)
	require.JSONEq(t, `{"summary":"It is short."}`, text)
	require.Empty(t, model.Requests()[4].Tools)
	code, _ := do("POST", "/summarize", "", `{"text":"A text."}`)
	require.Equal(t, http.StatusBadGateway, code)
	_, text = do("POST", "/chat", "", `{"message":"Hi"}`)
	require.Contains(t, text, "event: error\n")
	require.NotContains(t, text, done)
	code, _ = do("OPTIONS", "/chat", page, "")
	require.Equal(t, http.StatusOK, code)
	for _, tt := range []struct {
		path, origin, body string
		want               int
	}{
		{"/chat", "", "", 400}, {"/chat", "", "{", 400}, {"/chat", "", `{"message":" "}`, 400}, {"/chat", "", `{"message":3}`, 400},
		{"/chat", "", `{"message":"x","history":[{"role":"system","content":"x"}]}`, 400},
		{"/summarize", "", `{}`, 400}, {"/summarize", "", `{"text":"` + strings.Repeat("x", 50_001) + `"}`, 413},
		{"/chat", "https://other.example", `{"message":"Hi"}`, 403},
	} {
		code, text := do("POST", tt.path, tt.origin, tt.body)
		require.Equal(t, tt.want, code, "%s: %s", tt.body, text)
	}
	req := httptest.NewRequestWithContext(t.Context(), "GET", "http://rebound.example/config", nil)
	resp := httptest.NewRecorder()
	h.ServeHTTP(resp, req)
	require.Equal(t, http.StatusNotFound, resp.Code, "another name that points here")
	_, text = do("GET", "/config", "", "")
	require.JSONEq(t, `{"model":"a/b"}`, text)
	_, text = do("GET", "/health", "", "")
	require.JSONEq(t, `{"status":"ok"}`, text)
}
