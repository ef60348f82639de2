package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/server/webhook"
)

// A served is a program that serves, with what it has printed.
type served struct {
	t          *testing.T
	cmd        *exec.Cmd
	out        *bufio.Reader
	err        bytes.Buffer // to be read when it has ended
	url, token string
}

func startServe(t *testing.T, env []string, flags ...string) *served {
	return startServeIn(t, "", env, flags...)
}

// startServeIn starts it in a directory, if one is given.
func startServeIn(t *testing.T, dir string, env []string, flags ...string) *served {
	s := &served{t: t, cmd: program(t, env, append([]string{"serve", "127.0.0.1:0"}, flags...)...)}
	if dir != "" {
		s.cmd.Dir = dir
	}
	s.cmd.Stderr = &s.err
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewReader(out)
	require.NoError(t, s.cmd.Start())
	line := func(before string) string {
		text, err := s.out.ReadString('\n')
		require.NoError(t, err)
		rest, ok := strings.CutPrefix(strings.TrimSpace(text), before)
		require.True(t, ok, text)
		return rest
	}
	s.url = strings.TrimSuffix(line("Listening on "), "/")
	s.token = line("Token: ")
	return s
}

func (s *served) do(method, path, body string, status int) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, status, res.StatusCode, string(data))
	return string(data)
}

func (s *served) end() {
	require.NoError(s.t, s.cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, s.out)
	_ = s.cmd.Wait()
	require.Equal(s.t, exitInterrupted, s.cmd.ProcessState.ExitCode())
}

func TestServe(t *testing.T) {
	t.Parallel()
	env := newService(t, says("Hello.", "end_turn")).env()
	s := startServe(t, env)
	require.Contains(t, s.do("GET", "/", "", 200), "<title>aycoder</title>")
	require.Contains(t, s.do("GET", "/api/sessions", "", 200), `"sessions":[]`)
	require.Contains(t, s.do("POST", "/api/prompt", `{"prompt":"hi"}`, 200), `"text":"Hello."`)
	require.Contains(t, s.do("GET", "/api/sessions", "", 200), `"prompt":"hi"`)
	s.token = "wrong"
	s.do("GET", "/api/sessions", "", 401)
	s.end()
	without := runProgram(t, nil, "", "serve")
	require.Equal(t, exitUsage, without.code)
	require.Contains(t, without.err, "aycoder: no model: ")
	require.Equal(t, exitError, runProgram(t, env, "", "serve", "no such address").code)
	short := runProgram(t, append(env, serveToken+"=short"), "", "serve", "127.0.0.1:0")
	require.Contains(t, short.err, "16 characters")
}

// Endpoints of the user's configuration are told what happens, also across a restart; a project cannot add any.
func TestServeWebhooks(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	type event struct{ Type string }
	got, seen := make(chan event, 100), sync.Map{}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var ev event
		if assert.NoError(t, err) && assert.NoError(t, webhook.Verify([]string{secret}, r.Header, body, time.Now())) &&
			assert.NoError(t, json.Unmarshal(body, &ev)) && assert.NotContains(t, string(body), "hi there") {
			if _, again := seen.LoadOrStore(r.Header.Get("Webhook-Id"), true); !again { // a delivery may be repeated
				got <- ev
			}
		}
		assert.Equal(t, "/mine", r.URL.Path)
	}))
	defer hook.Close()
	home, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	text := "[serve.webhooks.%s]\nurl = \"" + hook.URL + "/%[1]s\"\nsecret_env = [\"HOOK_SECRET\"]\nprivate = true\ntypes = [\"message.*\", \"session.*\"]\n"
	own := filepath.Join(home, ".config", "aycoder", "config.toml")
	write(own, fmt.Sprintf(text, "mine"))
	write(filepath.Join(dir, ".aycoder", "config.toml"), fmt.Sprintf(text, "theirs"))
	env := append(newService(t, says("Hello.", "end_turn")).env(), "HOME="+home, "XDG_STATE_HOME="+home, "HOOK_SECRET="+secret)
	told := func(types ...string) {
		t.Helper()
		for range types {
			select {
			case ev := <-got:
				require.Contains(t, types, ev.Type)
				types[slices.Index(types, ev.Type)] = ""
			case <-t.Context().Done():
				t.Fatal(types)
			}
		}
	}
	s := startServeIn(t, dir, env)
	require.Contains(t, s.do("POST", "/api/prompt", `{"prompt":"hi there"}`, 200), `"text":"Hello."`)
	told("session.start", "message.sent", "message.received")
	s.end()
	s = startServeIn(t, dir, env)
	told("session.end")
	s.end()
	require.Empty(t, got)

	fails := func(more ...string) ended {
		cmd := program(t, append(newService(t, says("", "end_turn")).env(), more...), "serve", "127.0.0.1:0")
		cmd.Dir = dir
		return wait(t, cmd)
	}
	out := fails("HOME=" + home)
	require.Equal(t, exitUsage, out.code)
	require.Contains(t, out.err, "HOOK_SECRET is not set")
	write(own, strings.Replace(fmt.Sprintf(text, "mine"), "private = true", "", 1))
	out = fails("HOME="+home, "HOOK_SECRET="+secret)
	require.Equal(t, exitUsage, out.code)
	require.Contains(t, out.err, "must begin with https")
	require.NotContains(t, out.err, secret)
}
