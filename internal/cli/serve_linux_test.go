package cli

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A served is a program that serves, with what it has printed.
type served struct {
	t          *testing.T
	cmd        *exec.Cmd
	out        *bufio.Reader
	url, token string
}

func startServe(t *testing.T, env []string) *served {
	s := &served{t: t, cmd: program(t, env, "serve", "127.0.0.1:0")}
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
	require.Equal(t, exitUsage, runProgram(t, nil, "", "serve").code, "without a model")
	require.Equal(t, exitError, runProgram(t, env, "", "serve", "no such address").code)
	short := runProgram(t, append(env, serveToken+"=short"), "", "serve", "127.0.0.1:0")
	require.Contains(t, short.err, "16 characters")
}
