package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// A driven is a program that a test leads by lines.
type driven struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	lines *bufio.Scanner
}

func (k *kept) drive(args ...string) *driven {
	k.t.Helper()
	d := &driven{t: k.t, cmd: program(k.t, k.env(), append([]string{"-C", k.dir, "-input", "events"}, args...)...)}
	var err error
	d.in, err = d.cmd.StdinPipe()
	require.NoError(k.t, err)
	d.out, err = d.cmd.StdoutPipe()
	require.NoError(k.t, err)
	d.cmd.Stderr = os.Stderr
	d.lines = bufio.NewScanner(d.out)
	d.lines.Buffer(nil, 1<<20)
	require.NoError(k.t, d.cmd.Start())
	return d
}

func (d *driven) send(order object) {
	d.t.Helper()
	data, err := json.Marshal(order)
	require.NoError(d.t, err)
	_, err = d.in.Write(append(data, '\n'))
	require.NoError(d.t, err)
}

// until reads lines to the next one of a type.
func (d *driven) until(kind string) object {
	d.t.Helper()
	for d.lines.Scan() {
		var line object
		require.NoError(d.t, json.Unmarshal(d.lines.Bytes(), &line), d.lines.Text())
		if line["type"] == kind {
			return line
		}
	}
	d.t.Fatalf("no %s came", kind)
	return nil
}

func (d *driven) ends(code int) {
	d.t.Helper()
	d.in.Close()
	for d.lines.Scan() {
	}
	_ = d.cmd.Wait()
	require.Equal(d.t, code, d.cmd.ProcessState.ExitCode())
}

// When the other program has died, a call that works ends, although nothing is written meanwhile.
func TestDriverDies(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("only the next line tells here")
	}
	k := newKept(t, newService(t, calls("bash", `{"command":"sleep 1000"}`), says("Done.", "end_turn")))
	d := k.drive("-allow", "bash")
	d.send(object{"type": "prompt", "text": "wait"})
	d.until("tool_start")
	require.NoError(t, d.in.Close())
	require.NoError(t, d.out.Close())
	_ = d.cmd.Wait()
	require.Equal(t, exitPipe, d.cmd.ProcessState.ExitCode())
	require.Contains(t, k.command(exitOK, "sessions", "show", k.ids()[0]).out, "wait")
}

// With -p, the work is wanted also where nobody reads the answer.
func TestReaderOfAnswerLeaves(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no sleep")
	}
	k := newKept(t, newService(t, calls("bash", `{"command":"sleep 2; touch done"}`), says("Done.", "end_turn")))
	cmd := program(t, k.env(), "-C", k.dir, "-p", "-allow", "bash", "wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, out.Close())
	_ = cmd.Wait()
	require.FileExists(t, filepath.Join(k.dir, "done"))
	require.Equal(t, exitPipe, cmd.ProcessState.ExitCode())
}

func TestDrive(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	k := newKept(t, newService(t,
		calls("bash", `{"command":"touch a"}`), says("One.", "end_turn"), // allowed
		calls("bash", `{"command":"touch bb"}`), says("Two.", "end_turn"), // denied
		calls("bash", `{"command":"touch ccc"}`), says("Three.", "end_turn"), // other arguments
		calls("oracle", `{"question":"why?"}`), says("Four.", "end_turn"),
		hangs("One moment"), says("Five.", "end_turn"),
	))
	d := k.drive()
	start := d.until("run_start")
	require.Equal(t, []any{1.0, "anthropic/claude-sonnet-4-5"}, []any{start["version"], start["model"]})
	require.Empty(t, k.ids(), "nothing has been said")

	d.send(object{"type": "steer", "text": "faster"})
	require.Contains(t, d.until("input_error")["error"], "no run works")
	d.send(object{"type": "prompt", "text": "one"})
	q := d.until("approval_request")
	require.Equal(t, []string{start["session"].(string)}, k.ids())
	d.send(object{"type": "prompt", "text": "two"})
	require.Contains(t, d.until("input_error")["error"], "a run works")
	d.send(object{"type": "allow", "id": "nobody"})
	require.Contains(t, d.until("input_error")["error"], `no question about a call "nobody"`)
	d.send(object{"type": "allow", "id": q["id"], "digest": "x"})
	require.Contains(t, d.until("input_error")["error"], "another digest")
	d.send(object{"type": "allow", "id": q["id"], "digest": q["digest"]})
	require.Equal(t, "One.", d.until("run_end")["text"])
	require.FileExists(t, filepath.Join(k.dir, "a"))

	d.send(object{"type": "prompt", "text": "two"})
	d.send(object{"type": "deny", "id": d.until("approval_request")["id"], "reason": "not today"})
	require.Contains(t, d.until("tool_end")["output"], "not today")
	require.Equal(t, 0.0, d.until("run_end")["exit_code"])

	d.send(object{"type": "prompt", "text": "three"})
	id := d.until("approval_request")["id"]
	d.send(object{"type": "allow", "id": id, "args": object{"command": 7}})
	require.Contains(t, d.until("input_error")["error"], "command")
	d.send(object{"type": "allow", "id": id, "args": object{"command": "touch d"}, "rule": "bash:touch *"})
	require.Contains(t, d.until("input_error")["error"], "either")
	d.send(object{"type": "allow", "id": id, "args": object{"command": "touch d"}})
	require.Equal(t, "Three.", d.until("run_end")["text"])
	require.FileExists(t, filepath.Join(k.dir, "d"))
	require.NoFileExists(t, filepath.Join(k.dir, "ccc"))

	d.send(object{"type": "prompt", "text": "four"})
	d.send(object{"type": "result", "id": d.until("call_request")["id"], "text": "because"})
	require.Equal(t, "because", d.until("tool_end")["output"])
	d.until("run_end")

	d.send(object{"type": "prompt", "text": "five"})
	d.until("text_delta")
	d.send(object{"type": "follow_up", "text": "and then?"})
	d.send(object{"type": "cancel"})
	end := d.until("run_end")
	require.Equal(t, []any{"cancelled", "One moment", 130.0}, []any{end["reason"], end["text"], end["exit_code"]})
	d.send(object{"type": "prompt", "text": "six"})
	require.Equal(t, "Five.", d.until("run_end")["text"])
	_, err := io.WriteString(d.in, "no JSON\n{\"type\":\"dance\"}\n")
	require.NoError(t, err)
	require.Equal(t, 19.0, d.until("input_error")["line"])
	require.Contains(t, d.until("input_error")["error"], `no order "dance"`)
	d.ends(exitOK)
	last := k.service.requests()
	require.Contains(t, last[len(last)-1], "and then?")
}

// When the input ends, nobody can be asked any more: a question suspends the run, and another program goes on.
func TestDriveEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("bash does not run commands here")
	}
	k := newKept(t, newService(t, calls("bash", `{"command":"touch a"}`), says("Done.", "end_turn")))
	got := runProgram(t, k.env(), `{"type":"prompt","text":"touch a"}`+"\n", "-C", k.dir, "-input", "events")
	require.Equal(t, exitApproval, got.code, got.out+got.err)
	d := k.drive("-c")
	require.Equal(t, true, d.until("run_start")["pending"])
	d.send(object{"type": "resume"})
	d.send(object{"type": "allow", "id": d.until("approval_request")["id"]})
	require.Equal(t, "Done.", d.until("run_end")["text"])
	d.send(object{"type": "resume"})
	require.Contains(t, d.until("input_error")["error"], "no run waits")
	d.ends(exitOK)

	d = newKept(t, newService(t, calls("bash", `{"command":"touch a"}`), says("Then not.", "end_turn"))).drive()
	d.send(object{"type": "prompt", "text": "touch a"})
	d.until("approval_request")
	d.ends(exitOK)
}

// A program in another language leads a conversation with approvals.
func TestDriveFromPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("there is no python3")
	}
	script, err := filepath.Abs("testdata/drive.py")
	require.NoError(t, err)
	k := newKept(t, newService(t,
		calls("write_file", `{"path":"a.txt","content":"hello\n"}`), calls("bash", `{"command":"rm a.txt"}`), says("Written.", "end_turn")))
	cmd := program(t, k.env())
	cmd.Args = []string{python, script, "write a.txt", cmd.Path, "-C", k.dir}
	cmd.Path = python
	got := finish(t, cmd, exitOK)
	require.Equal(t, "write_file ok\nbash failed\ndone: Written.\n", got.out, got.err)
	text, err := os.ReadFile(filepath.Join(k.dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(text))
}

// A question that was on its way when the input ended is refused: nobody will answer it.
func TestDriveQuestionAfterEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New(script.Call("write_file", `{"path":"a.txt","content":"a"}`), script.Say("Then not."))))
		require.NoError(t, err)
		defer rt.Close()
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer out.Close()
		d := &driver{printer: newPrinter(&app{stdout: out, stderr: out}, &options{output: formatEvents}), s: &session{Runtime: rt}, gone: new(atomic.Bool)}
		d.gone.Store(true)
		require.Equal(t, exitOK, d.turn(t.Context(), aycoder.Input{Prompt: "write a.txt"}))
		require.NoFileExists(t, filepath.Join(dir, "a.txt"))
	})
}

// Calls of two agents have the same id. A decision that does not say which one it is about decides neither.
func TestDriveSameIDs(t *testing.T) {
	t.Parallel()
	type host struct {
		Host string `json:"host"`
	}
	var allowed sync.Map
	connect, err := aycoder.NewTool("connect", "Connects.", func(_ context.Context, _ *aycoder.Invocation, in host) (*aycoder.ToolResult, error) {
		allowed.Store(in.Host, true)
		return aycoder.TextResult("connected"), nil
	})
	require.NoError(t, err)
	outer, err := aycoder.NewTool("outer", "Works.", func(ctx context.Context, inv *aycoder.Invocation, in host) (*aycoder.ToolResult, error) {
		agent, err := aycoder.New(script.New(script.Block(&aycoder.ToolUse{ID: "network", Name: "connect", Args: inv.Args}), script.Say("ok")), aycoder.WithTools(connect))
		if err != nil {
			return nil, err
		}
		for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: in.Host}, aycoder.WithParent(inv)) {
			if ask, ok := ev.(*aycoder.ApprovalRequested); ok && err == nil {
				err = inv.Emit(ctx, ask)
			}
			if err != nil {
				return nil, err
			}
		}
		return aycoder.TextResult("done"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithTools(outer), harness.WithClient(script.New(
		script.Reply(script.Call("outer", host{"good"}), script.Call("outer", host{"evil"})), script.Say("Done."))),
		harness.WithApprover(aycoder.ApproverFunc(func(_ context.Context, call *aycoder.ToolUse, _ *aycoder.ToolSpec) aycoder.Verdict {
			if call.Name == "connect" {
				return aycoder.Ask()
			}
			return aycoder.Allow()
		})))
	require.NoError(t, err)
	defer rt.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	orders := make(chan inputLine)
	d := &driver{printer: newPrinter(&app{stdout: w, stderr: os.Stderr}, &options{output: formatEvents}), s: &session{Runtime: rt}, lines: orders, gone: new(atomic.Bool)}
	code := make(chan int, 1)
	go func() { code <- d.turn(t.Context(), aycoder.Input{Prompt: "go"}) }()
	led := &driven{t: t, lines: bufio.NewScanner(r)}
	led.lines.Buffer(nil, 1<<20)
	digests := map[string]string{}
	for len(digests) < 2 {
		if q := led.until("child")["event"].(object); q["type"] == "approval_request" {
			require.Equal(t, "network", q["id"])
			digests[q["args"].(object)["host"].(string)] = q["digest"].(string)
		}
	}
	send := func(order object) {
		data, err := json.Marshal(order)
		require.NoError(t, err)
		orders <- inputLine{1, data, nil}
	}
	send(object{"type": "allow", "id": "network"})
	require.Contains(t, led.until("input_error")["error"], "digest")
	send(object{"type": "allow", "id": "network", "digest": digests["good"]})
	send(object{"type": "deny", "id": "network", "digest": digests["evil"]})
	led.until("run_end")
	require.Equal(t, exitOK, <-code)
	_, good := allowed.Load("good")
	_, evil := allowed.Load("evil")
	require.True(t, good)
	require.False(t, evil)
}
