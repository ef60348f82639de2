package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
)

// TestMain makes the test binary act as the program when a test starts it for that.
func TestMain(m *testing.M) {
	if way := os.Getenv(streamVar); way != "" {
		if err := stream(way); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("CLI_UNDER_TEST") != "" {
		extensions := []Extension{testExtension()}
		if os.Getenv("CLI_SERVERS") != "" {
			extensions = append(extensions, withServers())
		}
		os.Exit(Main(os.Args[1:], extensions...))
	}
	if signal.Ignored(syscall.SIGHUP) { // under nohup: the programs that the tests start would never end by it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	// Package signal makes its goroutine at its first use, which must not be in a bubble of synctest.
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt)
	signal.Stop(first)
	os.Exit(m.Run())
}

// withServers is an extension for servers of a configuration and of .mcp.json: it starts their command, or asks at their
// address, and no more.
func withServers() Extension {
	return Extension{Forms: harness.ServerForms(), Options: []harness.Option{
		harness.WithServers(func(ctx context.Context, _ string, s config.Server) (harness.ToolSource, error) {
			if s.Command != "" {
				return nil, errors.Join(exec.CommandContext(ctx, s.Command, s.Args...).Run(), errors.New("it has ended"))
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				return nil, err
			}
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				err = errors.Join(res.Body.Close(), errors.New("it has ended"))
			}
			return nil, err
		}),
	}}
}

// program returns a command that runs the program in an empty directory, without the
// tester's settings.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		"CLI_UNDER_TEST=1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "TMPDIR=" + t.TempDir(),
		"XDG_STATE_HOME=" + t.TempDir(), "OLLAMA_HOST=127.0.0.1:9", // where nobody answers
		"SYSTEMROOT=" + os.Getenv("SYSTEMROOT"),
	}, env...)
	return cmd
}

type ended struct {
	out, err string
	code     int
}

func runProgram(t *testing.T, env []string, stdin string, args ...string) ended {
	t.Helper()
	cmd := program(t, env, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return wait(t, cmd)
}

// wait runs a program to its end.
func wait(t *testing.T, cmd *exec.Cmd) ended {
	t.Helper()
	var out, errw bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errw
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); !ok {
		require.NoError(t, err)
	}
	return ended{out.String(), errw.String(), cmd.ProcessState.ExitCode()}
}

// finish is wait with the exit code that is expected.
func finish(t *testing.T, cmd *exec.Cmd, code int) ended {
	t.Helper()
	got := wait(t, cmd)
	require.Equal(t, code, got.code, got.out+got.err)
	return got
}

// A service speaks the Messages API. Each request gets the next answer; the last one is
// repeated.
type service struct {
	*httptest.Server
	answers []http.HandlerFunc

	mu     sync.Mutex
	bodies []string
	keys   []string
}

func newService(t *testing.T, answers ...http.HandlerFunc) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := min(len(s.bodies), len(s.answers)-1)
	s.bodies = append(s.bodies, string(body))
	s.keys = append(s.keys, r.Header.Get("x-api-key"))
	s.mu.Unlock()
	s.answers[n](w, r)
}

func (s *service) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

func (s *service) env() []string {
	return []string{"ANTHROPIC_API_KEY=sk-ant-secret-0123", "ANTHROPIC_BASE_URL=" + s.URL}
}

func sse(w io.Writer, kind string, fields map[string]any) {
	fields["type"] = kind
	data, _ := json.Marshal(fields)
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

type object = map[string]any

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	sse(w, "message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
		"content": []any{}, "usage": object{"input_tokens": 10, "output_tokens": 1},
	}})
}

func end(w http.ResponseWriter, stop string) {
	sse(w, "message_delta", object{"delta": object{"stop_reason": stop}, "usage": object{"output_tokens": 5}})
	sse(w, "message_stop", object{})
}

func textBlock(w http.ResponseWriter, index int, text string) {
	sse(w, "content_block_start", object{"index": index, "content_block": object{"type": "text", "text": ""}})
	sse(w, "content_block_delta", object{"index": index, "delta": object{"type": "text_delta", "text": text}})
}

// says answers with text.
func says(text, stop string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		textBlock(w, 0, text)
		sse(w, "content_block_stop", object{"index": 0})
		end(w, stop)
	}
}

// calls answers with a tool call.
func calls(tool, args string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		sse(w, "content_block_start", object{"index": 0, "content_block": object{
			"type": "tool_use", "id": "toolu_" + tool + fmt.Sprint(len(args)), "name": tool, "input": object{},
		}})
		sse(w, "content_block_delta", object{"index": 0, "delta": object{"type": "input_json_delta", "partial_json": args}})
		sse(w, "content_block_stop", object{"index": 0})
		end(w, "tool_use")
	}
}

// hangs sends a text and then blocks until the client has gone.
func hangs(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		textBlock(w, 0, text)
		<-r.Context().Done()
	}
}

func refuses(status int, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(object{"type": "error", "error": object{"type": kind, "message": "model: it is " + kind}})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	hello := []http.HandlerFunc{says("Hello there.", "end_turn")}
	tests := []struct {
		name    string
		answers []http.HandlerFunc // nil means without a key
		stdin   string
		args    []string
		code    int
		out     string // all of stdout
		err     string // a part of stderr
	}{
		{name: "no model", stdin: "\n", args: []string{"-p", "hi"}, code: 2, err: "set ANTHROPIC_API_KEY"},
		{name: "no model, no -p, no terminal", args: []string{"hi"}, code: 2, err: "-model demo"},
		{name: "unknown flag", args: []string{"-p", "hi", "-x"}, code: 2, err: "-x; aycoder -h"},
		{name: "unknown format", args: []string{"-p", "hi", "-output", "xml"}, code: 2, err: "there are text, json"},
		{name: "no prompt", answers: hello, args: []string{"-p"}, code: 2, err: "give a prompt"},
		{name: "a key, and neither a prompt nor a terminal", answers: hello, code: 2, err: "usage: aycoder [flags]"},
		{name: "rule for no tool", answers: hello, args: []string{"-p", "hi", "-allow", "shell"}, code: 2, err: `no tool "shell"; there are read_file`},

		{name: "answer", answers: hello, args: []string{"-p", "hi"}, out: "Hello there.\n"},
		{name: "piped answer", answers: hello, stdin: "hi", out: "Hello there.\n"},
		{name: "flags after the prompt", answers: hello, args: []string{"hi", "-p", "you", "-max-turns", "3"}, out: "Hello there.\n"},
		{name: "cut off", answers: []http.HandlerFunc{says("Half", "max_tokens")}, args: []string{"-p", "hi"}, code: 3, out: "Half\n", err: "warning: the answer was cut off"},
		{name: "key refused", answers: []http.HandlerFunc{refuses(401, "authentication_error")}, args: []string{"-p", "hi"}, code: 1, err: "Check the provider's key, usually in ANTHROPIC_API_KEY or"},
		{name: "unknown model", answers: []http.HandlerFunc{refuses(404, "not_found_error")}, args: []string{"-p", "hi", "-model", "x"}, code: 2, err: "Choose another model"},
		{name: "bad request", answers: []http.HandlerFunc{refuses(400, "invalid_request_error")}, args: []string{"-p", "hi"}, code: 1, err: "invalid_request_error"},
		{name: "wrong number", answers: hello, args: []string{"-p", "hi", "-max-turns", "x"}, code: 2, err: "-max-turns"},
		{name: "zero turns", answers: hello, args: []string{"-p", "hi", "-max-turns", "0"}, code: 2, err: "-max-turns"},
		{name: "limit", answers: []http.HandlerFunc{calls("list_files", `{}`)}, args: []string{"-p", "hi", "-max-turns", "1"}, code: 3, err: "limit of 1 turns reached"},
		{name: "approval", answers: []http.HandlerFunc{calls("bash", `{"command":"go vet ./..."}`)}, args: []string{"-p", "hi"}, code: 4,
			err: "bash needs approval: go vet ./... (allow it with -allow 'bash:go vet ./...', or run without -p, or go on with -r "},
		{name: "allowed", answers: []http.HandlerFunc{calls("bash", `{"command":"echo a,b"}`), says("Ran.", "end_turn")},
			args: []string{"-p", "hi", "-allow", "edit_file,bash:echo a,b"}, out: "Ran.\n", err: "| a,b"},
		{name: "escapes in the answer", answers: []http.HandlerFunc{says("a\x1b]0;x\ab\u009b31mc", "end_turn")}, args: []string{"-p", "hi"}, out: "a␛]0;x␇b<009b>31mc\n"},
		{name: "demo needs an approval", args: []string{"-p", demoTask, "-model", "demo"}, code: 4, err: "-allow 'edit_file:greet.sh'"},
		{name: "demo", args: []string{"-p", demoTask, "-model", "demo", "-allow", "edit_file:greet.sh"}, out: "The check passes: greet.sh now joins names with a comma and a space.\n"},
		{name: "demo is honest", args: []string{"-p", "What is a monad?", "-model", "demo"}, out: demoHonest + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && (tt.name == "demo" || tt.name == "allowed") {
				t.Skip("bash does not run commands here")
			}
			var env []string
			if tt.answers != nil {
				env = newService(t, tt.answers...).env()
			}
			got := runProgram(t, env, tt.stdin, tt.args...)
			assert.Equal(t, tt.code, got.code, got.err)
			assert.Equal(t, tt.out, got.out)
			assert.Contains(t, got.err, tt.err)
			assert.NotContains(t, got.out+got.err, "sk-ant-secret")
			assert.NotContains(t, got.out+got.err, "\x1b")
		})
	}
}

// The first command of the README works without a terminal and without a key, with
// /dev/null or an empty pipe as its input. If there is a prompt to answer, the demo does
// not run.
func TestDemoRunsUnattended(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	devNull := program(t, nil)
	out, err := devNull.Output()
	require.NoError(t, err)
	piped := runProgram(t, nil, "")
	require.Equal(t, 0, piped.code, piped.err)
	named := runProgram(t, []string{"OPENAI_API_KEY=k"}, "", "-model", "demo")
	require.Equal(t, 0, named.code, named.err)
	require.Regexp(t, `^Starting the demo`, named.out)
	for _, out := range []string{string(out), piped.out, "No model configured" + named.out} {
		require.Regexp(t, `(?s)^No model configured.*It is not an AI.*Nobody is at a terminal`, out)
		require.Contains(t, out, "The check passes: greet.sh now joins names with a comma and a space.\n")
	}
	inOrder(t, piped.err, "edit_file greet.sh", "ok   greet Ada Bob", `- for n; do names="$names,$n"; done`, `+ for n; do names="$names, $n"; done`)
	events := runProgram(t, nil, "", "-p", "-model", "demo", "-output", "events")
	require.Equal(t, 0, events.code, events.err)
	require.EqualValues(t, 0, lastLine(t, events.out)["exit_code"])
	require.Contains(t, events.err, "It is not an AI")
	said := runProgram(t, nil, "what broke?\n")
	require.Equal(t, 2, said.code)
	require.Contains(t, said.err, "set ANTHROPIC_API_KEY")
	require.Empty(t, said.out)
}

func TestStdinIsAppended(t *testing.T) {
	t.Parallel()
	s := newService(t, says("ok", "end_turn"))
	got := runProgram(t, s.env(), "panic: boom\n", "-p", "what broke?")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, s.requests()[0], `what broke?\n\npanic: boom`)
	require.Equal(t, []string{"sk-ant-secret-0123"}, s.keys)
}

// The log tells what happened, to whoever is asked for help, without what was said.
func TestLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "a.log")
	s := newService(t, says("the answer is 42", "end_turn"), says("and 43", "end_turn"))
	for _, want := range []int{1, 2} {
		got := runProgram(t, s.env(), "", "-p", "-log", log, "what broke?")
		require.Equal(t, 0, got.code, got.err)
		told, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, want, strings.Count(string(told), `"msg":"run_start"`), "%s", told)
		lastLine(t, string(told))
		for _, text := range []string{"answer is", "what broke", "sk-ant-secret-0123"} {
			require.NotContains(t, string(told), text)
		}
	}
	got := runProgram(t, s.env(), "", "-p", "-log", filepath.Join(log, "x"), "what broke?")
	require.NotEqual(t, 0, got.code)
	require.Contains(t, got.err, "session.log: open ")
}

// lastLine decodes the last line of JSON output.
func lastLine(t *testing.T, out string) object {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var v object
	for _, line := range lines {
		v = nil
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	}
	return v
}

func TestJSONOutput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer []http.HandlerFunc
		args   []string
		want   object
	}{
		{"done", []http.HandlerFunc{says("Hi.", "end_turn")}, nil,
			object{"reason": "done", "stop": "end_turn", "text": "Hi.", "exit_code": 0.0, "turns": 1.0}},
		{"approval", []http.HandlerFunc{calls("bash", `{"command":"rm x"}`)}, nil,
			object{"reason": "suspended", "exit_code": 4.0, "text": ""}},
		{"limit", []http.HandlerFunc{calls("list_files", `{}`)}, []string{"-max-turns", "1"},
			object{"reason": "turns", "exit_code": 3.0, "error": "limit of 1 turns reached"}},
		{"error", []http.HandlerFunc{refuses(401, "authentication_error")}, nil,
			object{"reason": "failed", "exit_code": 1.0}},
		{"escapes", []http.HandlerFunc{says("\x1b[31m\u009b", "end_turn")}, nil,
			object{"text": "\x1b[31m\u009b"}},
	}
	for _, tt := range tests {
		for _, format := range []string{"json", "events"} {
			t.Run(tt.name+" "+format, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"-p", "hi", "-output", format}, tt.args...)
				got := runProgram(t, newService(t, tt.answer...).env(), "", args...)
				require.NotContains(t, got.out, "\u009b")
				last := lastLine(t, got.out)
				require.Equal(t, "run_end", last["type"])
				for k, v := range tt.want {
					require.Equal(t, v, last[k], k)
				}
				require.EqualValues(t, got.code, last["exit_code"])
				if lines := strings.Count(got.out, "\n"); format == "json" {
					require.Equal(t, 1, lines)
				} else {
					require.Greater(t, lines, 1)
					require.True(t, strings.HasPrefix(got.out, `{"type":"run_start","version":1,`))
				}
			})
		}
	}
}

// A signal while standard input is read ends the program, too.
func TestSignalBeforeTheRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signals to send on this system")
	}
	s := newService(t, says("never", "end_turn"))
	cmd := program(t, s.env(), "-p", "hi")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	// The program is reading once this write has succeeded: the pipe holds 64 kB.
	_, err = in.Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	text, err := io.ReadAll(errs)
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Equal(t, exitHangup, cmd.ProcessState.ExitCode(), string(text))
	require.Empty(t, s.requests())
}

// A reader of the output may stop; that is not an error to report.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("pipes break in another way on this system")
	}
	for _, format := range []string{"text", "json", "events"} {
		t.Run(format, func(t *testing.T) {
			s := newService(t, calls("list_files", `{}`), says(strings.Repeat("long ", 10000), "end_turn"))
			cmd := program(t, s.env(), "-p", "hi", "-output", format)
			r, w, err := os.Pipe()
			require.NoError(t, err)
			var errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = w, &errs
			require.NoError(t, r.Close())
			require.NoError(t, cmd.Start())
			require.NoError(t, w.Close())
			_ = cmd.Wait()
			require.Equal(t, exitPipe, cmd.ProcessState.ExitCode())
			require.NotContains(t, errs.String(), "aycoder:")
			require.NotContains(t, errs.String(), "panic")
		})
	}
}
