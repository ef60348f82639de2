package tools

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sandbox"
	"github.com/aycoder/aycoder/internal/timed"
)

func needReading(t *testing.T) {
	t.Helper()
	r, err := CheckSandbox(t.Context(), NoSandbox(), SandboxCall{ReadOnly: true})
	require.NoError(t, err)
	if !r.ReadOnly {
		t.Skipf("nothing holds commands to reading here: %v", r)
	}
}

// held calls a tool as if the call was not approved.
func (w *world) held(tool aycoder.Tool, in args) *aycoder.ToolResult {
	w.t.Helper()
	inv := aycoder.NewInvocation("1", "bash", mustJSON(w.t, in), nil)
	inv.ReadOnly = true
	r, err := tool.Call(w.t.Context(), inv)
	require.NoError(w.t, err)
	return r
}

// forgetful is a sandbox of a host that was written before commands were confined to
// reading.
type forgetful struct {
	Sandbox
	starts int
}

func (s *forgetful) Start(ctx context.Context, cmd *exec.Cmd, call SandboxCall) (*SandboxReport, error) {
	s.starts++
	return s.Sandbox.Start(ctx, cmd, SandboxCall{Network: call.Network, Require: call.Require})
}

// passing forwards the call it was given.
type passing struct{ Sandbox }

func TestHeldBesideASandbox(t *testing.T) {
	timed.Serial(t)
	needReading(t)
	w := newWorld(t, map[string]string{"f": "text\n"})
	script := "cat f; touch made"
	for name, tt := range map[string]struct {
		open func() Sandbox
		runs bool
	}{
		"none":             {func() Sandbox { return NoSandbox() }, true},
		"passes on":        {func() Sandbox { return passing{NoSandbox()} }, true},
		"first":            {func() Sandbox { return FirstSandbox(refusing{}, NoSandbox()) }, true},
		"forgets":          {func() Sandbox { return &forgetful{Sandbox: NoSandbox()} }, false},
		"first of another": {func() Sandbox { return FirstSandbox(&forgetful{Sandbox: NoSandbox()}, NoSandbox()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.open()
			bash, err := Bash(w.ws, WithSandbox(s))
			require.NoError(t, err)
			r := w.held(bash, args{"command": script})
			require.NoFileExists(t, w.path("made"))
			if tt.runs {
				assert.Contains(t, r.Text(), "text\n")
				assert.Contains(t, r.Text(), "call again with request_approval true")
				assert.Equal(t, "exit 1, held to reading", r.Summary)
				return
			}
			assert.True(t, r.IsError)
			assert.Contains(t, r.Text(), "no_sandbox: the command was not started: the host's sandbox does not hold commands to reading")
			if f, ok := s.(*forgetful); ok {
				assert.Equal(t, 1, f.starts, "the command itself was started")
			}
			r = w.call("bash", args{"command": "cat f"})
			assert.Contains(t, r.Text(), "text\n", "what is approved runs in it")
		})
	}
	for name, s := range sandboxes(t, w.ws) {
		bash, err := Bash(w.ws, WithSandbox(s))
		require.NoError(t, err)
		r := w.held(bash, args{"command": script + "; cat " + os.Args[0] + " >/dev/null", "network": true})
		assert.Contains(t, r.Text(), "text\n", name)
		assert.Contains(t, r.Text(), "call again with request_approval true", name)
		assert.NoFileExists(t, w.path("made"))
	}
}

// Where commands cannot be confined to reading, they run as before, and the report says
// so. Nothing but the lack of a mechanism has that effect.
func TestHeldByNothing(t *testing.T) {
	w := newWorld(t, nil)
	s := &noSandbox{sandbox.Seatbelt(sandbox.Policy{})} // of another system
	defer func() { require.NoError(t, s.reader.Close()) }()
	r, err := CheckSandbox(t.Context(), s, SandboxCall{ReadOnly: true})
	require.NoError(t, err)
	assert.False(t, r.ReadOnly)
	assert.Equal(t, []string{
		"commands can do all that the host can",
		"commands that only read are not held to that: sandbox by seatbelt: look for it: there is none on linux: unsupported operation",
	}, r.Missing)
	bash, err := Bash(w.ws, WithSandbox(s))
	require.NoError(t, err)
	got := w.held(bash, args{"command": "touch made; false"})
	assert.FileExists(t, w.path("made"))
	assert.NotContains(t, got.Text(), "request_approval")
	assert.Equal(t, "exit 1", got.Summary)

	needReading(t)
	closed := &noSandbox{sandbox.Reader()}
	require.NoError(t, closed.reader.Close())
	_, err = CheckSandbox(t.Context(), closed, SandboxCall{ReadOnly: true})
	require.ErrorIs(t, err, ErrSandbox)
	_, err = CheckSandbox(t.Context(), NoSandbox(), SandboxCall{ReadOnly: true, Require: true})
	require.ErrorIs(t, err, ErrSandbox)
}

// A result quotes refusals, and nothing else.
func TestHeldResults(t *testing.T) {
	needReading(t)
	w := newWorld(t, map[string]string{"f": "text\n"})
	bash := w.tool["bash"]
	for _, tt := range []struct {
		command, summary string
		has              []string
		not              string
	}{
		{"cat f", "exit 0", []string{"text\n"}, "held"},
		{"grep -q nothing f", "exit 1, held to reading", []string{"ran without approval", "[exit 1]"}, "refused"},
		{"touch x", "exit 1, held to reading", []string{
			"[refused, perhaps by that: no file may be changed, and there is no network: touch: cannot touch 'x': Permission denied]",
		}, "no mode"},
		{"chmod 777 f", "exit 1, held to reading", []string{
			"[refused, perhaps by that: no mode, owner, time or attribute may be changed, and no other process: chmod: changing permissions of 'f': Operation not permitted]",
		}, "no file may"},
		{"kill -9 $$", "killed by signal: killed, held to reading", nil, "refused"},
		{"exec 3<>/dev/tcp/127.0.0.1/9; exit 3", "exit 3, held to reading", []string{"[refused, perhaps by that: ", "Permission denied"}, "no mode"},
		{"sleep 60", "timed out after 1s", nil, "held"},
	} {
		in := args{"command": tt.command}
		if strings.HasPrefix(tt.command, "sleep") {
			in["timeout"] = 1
		}
		r := w.held(bash, in)
		if strings.HasPrefix(tt.command, "sleep") {
			assert.True(t, r.IsError)
			assert.NotContains(t, r.Text(), tt.not)
			continue
		}
		assert.Equal(t, tt.summary, r.Summary, tt.command)
		for _, want := range tt.has {
			assert.Contains(t, r.Text(), want)
		}
		if tt.not != "held" || tt.command == "cat f" {
			assert.NotContains(t, r.Text(), tt.not, tt.command)
		}
	}
	assert.Equal(t, "text\n", w.read("f"))
}

// Each command has its own directory for temporary files, which is removed with it.
func TestHeldTemporaryFiles(t *testing.T) {
	timed.Long(t, "commands that are held to reading")
	needReading(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	w := newWorld(t, nil)
	left := func() (names []string) {
		entries, err := os.ReadDir(temp)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	r := w.held(w.tool["bash"], args{"command": `echo $TMPDIR; mkdir -p -m 300 $TMPDIR/a/b; echo x >$TMPDIR/a/b/c; mkfifo $TMPDIR/p; seq 300000 | sort -R -S 1M | wc -l; ls -R $TMPDIR | wc -l`})
	dir, rest, _ := strings.Cut(r.Text(), "\n")
	assert.Equal(t, temp, filepath.Dir(dir))
	assert.Contains(t, rest, "300000\n")
	assert.NoDirExists(t, dir)
	assert.Empty(t, left())

	r = w.held(w.tool["bash"], args{"command": "echo x >$TMPDIR/x; sleep 60", "background": true})
	assert.Len(t, left(), 1)
	assert.Contains(t, r.Text(), "bash-1: running")
	w.call("job_stop", args{"id": "bash-1"})
	assert.Empty(t, left())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	inv := aycoder.NewInvocation("1", "bash", mustJSON(t, args{"command": "true"}), nil)
	inv.ReadOnly = true
	_, err := w.tool["bash"].Call(ctx, inv)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, left())
}

// A command that only reads does not start what a partial clone fetches missing objects with.
func TestHeldReadsFetchNothing(t *testing.T) {
	timed.Serial(t)
	w := newWorld(t, map[string]string{"evil": "#!/bin/sh\necho evil ran >&2\n"})
	w.ok("bash", args{"command": "chmod +x evil && git init -q && git config user.name a && git config user.email a@b && git config uploadpack.allowFilter true && " +
		"git add evil && git commit -qm first && git clone -q --no-checkout --filter=blob:none file://$PWD part && git -C part config remote.origin.uploadpack $PWD/evil"})
	show := args{"command": "git -C part show HEAD:evil"}
	assert.NotContains(t, w.held(w.tool["bash"], show).Text(), "evil ran")
	assert.Contains(t, w.call("bash", show).Text(), "evil ran", "else nothing was shown above")
}

// imperfect is a sandbox that cannot hold commands to reading altogether, as on an old kernel.
type imperfect struct{ mechanism string }

func (s imperfect) Start(_ context.Context, cmd *exec.Cmd, _ SandboxCall) (*SandboxReport, error) {
	return &SandboxReport{Mechanism: s.mechanism, Filesystem: true, Network: true}, cmd.Start()
}

// A result says that a command was held to reading only if all of that was enforced.
func TestHeldInPart(t *testing.T) {
	w := newWorld(t, nil)
	for _, mechanism := range []string{"landlock", "seatbelt", "bubblewrap", "none"} {
		e, err := LocalExec(WithSandbox(imperfect{mechanism}))
		require.NoError(t, err)
		e.(*localExec).confiner.holds = true // or this machine, which can do better, refuses it
		var results []*ExecResult
		bash, err := Bash(w.ws, WithExec(fakeExec(func(ctx context.Context, c *ExecCommand) (*ExecResult, error) {
			r, err := e.Run(ctx, c)
			results = append(results, r)
			return r, err
		})))
		require.NoError(t, err)
		got := w.held(bash, args{"command": "touch made; false"})
		assert.False(t, results[0].ReadOnly, mechanism)
		assert.Equal(t, "exit 1", got.Summary, mechanism)
		assert.NotContains(t, got.Text(), "could not change")
		assert.NotContains(t, got.Text(), "in the workspace, in temporary directories")
		assert.Equal(t, mechanism != "none", strings.Contains(got.Text(), "call again with request_approval true"), mechanism)
		assert.NotContains(t, w.held(bash, args{"command": "true"}).Text(), "request_approval")
	}
}

// An Exec of the host gets the request, and reports itself what it has done.
func TestHeldByAnExec(t *testing.T) {
	w := newWorld(t, nil)
	e := fakeExec(func(_ context.Context, c *ExecCommand) (*ExecResult, error) {
		return &ExecResult{Code: 1, ReadOnly: c.ReadOnly && strings.Contains(c.Script, "holds"), Dir: c.Dir}, nil
	})
	bash, err := Bash(w.ws, WithExec(e))
	require.NoError(t, err)
	assert.Contains(t, w.held(bash, args{"command": "holds"}).Text(), "request_approval")
	assert.NotContains(t, w.held(bash, args{"command": "does not"}).Text(), "request_approval")
}
