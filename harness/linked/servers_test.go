package linked_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// traceVariable makes the test binary a language server, which tries to write its process id into the file that it names.
const traceVariable = "AYCODER_FAKE_TRACE"

func TestMain(m *testing.M) {
	if trace := os.Getenv(traceVariable); trace != "" {
		serve(os.WriteFile(trace, []byte(strconv.Itoa(os.Getpid())), 0o600) == nil)
		return
	}
	os.Exit(m.Run())
}

type place struct{ Line, Character int }

// serve is a language server for which the line "bad" is an error, and the name "old" is defined in the first line.
func serve(free bool) {
	in := bufio.NewReader(os.Stdin)
	send := func(m map[string]any) {
		m["jsonrpc"] = "2.0"
		body, _ := json.Marshal(m)
		fmt.Printf("Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	for {
		var size int
		if _, err := fmt.Fscanf(in, "Content-Length: %d\r\n\r\n", &size); err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				TextDocument struct {
					URI     string
					Version int
					Text    string
				}
				ContentChanges []struct{ Text string }
				Position       place
				NewName        string

				InitializationOptions, Settings json.RawMessage
			}
			Result json.RawMessage
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		doc := m.Params.TextDocument
		at := func(p place) map[string]any {
			return map[string]any{"start": map[string]any{"line": p.Line, "character": p.Character},
				"end": map[string]any{"line": p.Line, "character": p.Character + len("old")}}
		}
		switch m.Method {
		case "initialize":
			remember("options", m.Params.InitializationOptions)
			send(map[string]any{"id": m.ID, "result": map[string]any{"capabilities": map[string]any{
				"textDocumentSync": map[string]any{"openClose": true, "change": 1}}}})
		case "workspace/didChangeConfiguration":
			remember("changed", m.Params.Settings)
			send(map[string]any{"id": "settings", "method": "workspace/configuration", "params": map[string]any{"items": []any{
				map[string]any{"section": "fake.deep"}, map[string]any{}, map[string]any{"section": "none"}}}})
		case "":
			remember("asked", m.Result)
		case "textDocument/didOpen", "textDocument/didChange":
			for _, c := range m.Params.ContentChanges {
				doc.Text = c.Text
			}
			found := []any{}
			for i, line := range strings.Split(doc.Text, "\n") {
				if line == "bad" {
					found = append(found, map[string]any{"range": at(place{Line: i}), "severity": 1, "message": fmt.Sprint("it is bad; free: ", free)})
				}
			}
			send(map[string]any{"method": "textDocument/publishDiagnostics", "params": map[string]any{"uri": doc.URI, "version": doc.Version, "diagnostics": found}})
		case "textDocument/definition":
			send(map[string]any{"id": m.ID, "result": []any{map[string]any{"uri": doc.URI, "range": at(place{})}}})
		case "textDocument/rename":
			send(map[string]any{"id": m.ID, "result": map[string]any{"changes": map[string]any{
				doc.URI: []any{map[string]any{"range": at(m.Params.Position), "newText": m.Params.NewName}}}}})
		case "shutdown":
			send(map[string]any{"id": m.ID, "result": nil})
		case "exit":
			return
		}
	}
}

// remember keeps what the server has been told, beside its trace.
func remember(what string, data []byte) {
	_ = os.WriteFile(os.Getenv(traceVariable)+"."+what, data, 0o600) // a sandbox may refuse it
}

// A served runtime has a language server for the extension .fake.
type served struct {
	*harness.Runtime
	t     *testing.T
	trace string // that the server writes

	outputs []string
	notices string
	asked   []string // the tools whose calls needed an approval
}

func withServer(t *testing.T, change func(*config.Settings), steps []script.Step, opts ...harness.Option) *served {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("language servers do not run on Windows")
	}
	dir, s := t.TempDir(), &served{t: t, trace: filepath.Join(t.TempDir(), "trace")}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.fake"), []byte("old\n"), 0o600))
	l, err := config.Load()
	require.NoError(t, err)
	st := l.Config.Settings
	st.LanguageServers = map[string]config.LanguageServer{"fake": {
		Command: os.Args[0], Languages: map[string]string{".fake": "fake"}, Env: map[string]string{traceVariable: s.trace},
	}}
	change(&st)
	s.Runtime, err = harness.New(t.Context(), dir, append([]harness.Option{harness.WithSettings(st), harness.WithClient(script.New(steps...)),
		harness.WithChecks(linked.Checks)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func (s *served) run() {
	s.t.Helper()
	for ev, err := range s.Run(s.t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(s.t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			s.asked = append(s.asked, ev.Request.Tool)
			ev.Allow()
		case *aycoder.Notice:
			s.notices += ev.Text + "\n"
		case *aycoder.ToolFinished:
			s.outputs = append(s.outputs, ev.Output.Text())
		}
	}
}

// pid returns the process of the server, or 0 if none has started.
func (s *served) pid() int {
	text, err := os.ReadFile(s.trace)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(text))
	require.NoError(s.t, err)
	return pid
}

func serverRule() harness.Option {
	return harness.WithPolicyOptions(policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: os.Args[0] + " *"}))
}

var writes = []script.Step{
	script.Call("read_file", map[string]any{"path": "a.fake"}), script.Call("write_file", map[string]any{"path": "a.fake", "content": "old\nbad\n"}),
	script.Call("definition", map[string]any{"path": "a.fake", "line": 1, "name": "old"}),
	script.Call("rename", map[string]any{"path": "a.fake", "line": 1, "name": "old", "new_name": "new"}), script.Say("ok"),
}

// A language server starts when it is first needed and may run, tells of new errors, answers, renames after an approval, and
// ends with the runtime.
func TestLanguageServer(t *testing.T) {
	s := withServer(t, func(*config.Settings) {}, writes, serverRule())
	require.Zero(t, s.pid(), "nothing needs it yet")
	s.run()
	require.Contains(t, s.outputs[1], "\nwritten; new errors:\na.fake:2: it is bad; free: true\n")
	require.Equal(t, "a.fake:1: old\n", s.outputs[2])
	require.Contains(t, s.outputs[3], "-old\n+new\n")
	require.Equal(t, []string{"write_file", "rename"}, s.asked)
	text, err := os.ReadFile(filepath.Join(s.Files.Dir(), "a.fake"))
	require.NoError(t, err)
	require.Equal(t, "new\nbad\n", string(text))
	pid := s.pid()
	require.NotZero(t, pid)
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Error(t, p.Signal(syscall.Signal(0)), "the server has ended")
}

// A server gets its settings in all three ways of the protocol: with its start, as a change, and when it asks for sections.
// They are over those that are known of a server of its name.
func TestSettingsOfLanguageServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	require.NoError(t, os.WriteFile(file, []byte("[language_servers.gopls.settings]\nstaticcheck = true\nfake.deep = { on = true, list = [1.5, \"b\", {}] }\n"), 0o600))
	l, err := config.Load(config.WithUserFile(file))
	require.NoError(t, err)
	s := withServer(t, func(st *config.Settings) {
		server := st.LanguageServers["fake"]
		server.Settings = l.Config.LanguageServers["gopls"].Settings
		st.LanguageServers = map[string]config.LanguageServer{"gopls": server}
	}, writes, serverRule())
	s.run()
	all, deep := `{"diagnosticsDelay": "0s", "staticcheck": true, "fake": {"deep": {"on": true, "list": [1.5, "b", {}]}}}`, `{"on": true, "list": [1.5, "b", {}]}`
	for what, want := range map[string]string{"options": all, "changed": all, "asked": "[" + deep + "," + all + ",null]"} {
		got, err := os.ReadFile(s.trace + "." + what)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), what)
	}
}

// Without a rule or a mode that allows its command, no server starts, and only that is different.
func TestLanguageServerAsks(t *testing.T) {
	s := withServer(t, func(*config.Settings) {}, writes)
	s.run()
	require.Zero(t, s.pid())
	require.NotContains(t, s.outputs[1], "written; new")
	require.Contains(t, s.outputs[2], "it may not run here")
	require.Contains(t, s.outputs[3], "it may not run here")
	require.Equal(t, 1, strings.Count(s.notices, "so it does not run unless a rule allows it: bash:"+os.Args[0]+"\n"), s.notices)

	s = withServer(t, func(*config.Settings) {}, writes, harness.WithPolicyOptions(policy.WithMode(policy.FullAuto)))
	s.run()
	require.NotZero(t, s.pid())
}

// The notice names a rule for exactly the command of the server, which then starts.
func TestRuleOfLanguageServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("language servers do not run on Windows")
	}
	for _, tt := range []struct {
		program string // in the directory DIR
		args    []string
		rule    string
	}{
		{"cargo", []string{"lsp"}, "bash:DIR/cargo lsp"},
		{"gopls", nil, "bash:DIR/gopls"},
		{"golangci-lint", []string{"--a=b", ""}, "bash:DIR/golangci-lint '--a=b' ''"},
		{"my tools", nil, "bash:'DIR/my tools'"},
		{"zls && ", nil, "bash:'DIR/zls && '"},
		{`it's a*b\c`, []string{"~", "-x"}, `bash:'DIR/it'\\''s a\*b\\c' '~' -x`},
	} {
		t.Run(tt.program, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, tt.program)
			require.NoError(t, os.Symlink(os.Args[0], program))
			change := func(st *config.Settings) {
				server := st.LanguageServers["fake"]
				server.Command, server.Args = program, tt.args
				st.LanguageServers["fake"] = server
			}
			s := withServer(t, change, writes)
			s.run()
			require.Zero(t, s.pid())
			text := strings.ReplaceAll(tt.rule, "DIR", dir)
			require.Contains(t, s.notices, "unless a rule allows it: "+text+"\n")
			rule, err := policy.ParseRule(policy.RuleAllow, text)
			require.NoError(t, err)
			s = withServer(t, change, writes, harness.WithPolicyOptions(policy.WithRules(policy.User, rule)))
			s.run()
			require.NotZero(t, s.pid(), s.notices)
		})
	}
	for _, command := range []string{"cargo", " "} { // which are not there
		s := withServer(t, func(st *config.Settings) {
			st.LanguageServers["fake"] = config.LanguageServer{Command: command, Languages: map[string]string{".fake": "fake"}}
		}, writes)
		s.run()
		require.Contains(t, s.outputs[2], "it may not run here")
	}
}

// Without the tool bash, no rule helps, and the notice does not say so.
func TestWithoutBash(t *testing.T) {
	s := withServer(t, func(st *config.Settings) { st.Tools.Disabled = []string{"bash"} }, writes, serverRule())
	s.run()
	require.Zero(t, s.pid())
	require.Contains(t, s.notices, os.Args[0]+" runs code of this project, so it does not run without the tool bash\n")
	require.NotContains(t, s.notices, "unless")

	dir, trace := world(t)
	file := filepath.Join(t.TempDir(), "c.toml")
	save := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte("approval.mode = \"full-auto\"\ntools.checks = [\"eslint\"]\n"+text), 0o600))
	}
	save("")
	src, err := config.NewReloader(config.WithUserFile(file))
	require.NoError(t, err)
	read := script.Call("read_file", map[string]any{"path": "a.js"})
	write := func(text string) script.Step {
		return script.Call("write_file", map[string]any{"path": "a.js", "content": text})
	}
	rt, err := harness.New(t.Context(), dir, harness.WithReloader(src), harness.WithChecks(linked.Checks), harness.WithClient(script.New(
		read, write("bad\n"), script.Say("ok"), read, write("bad\nbad\n"), script.Say("ok"))))
	require.NoError(t, err)
	s = &served{Runtime: rt, t: t}
	defer rt.Close()
	s.run()
	before, err := os.ReadFile(trace)
	require.NoError(t, err)
	save("tools.disabled = [\"bash\"]\n")
	require.NoError(t, rt.Reload(t.Context()))
	s.run()
	after, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.Contains(t, s.outputs[3], "+bad\n")
	require.Equal(t, string(before), string(after))
	require.Contains(t, s.notices, "node_modules/.bin/eslint runs code of this project, so it does not run: no rule can allow that here\n")
	require.NotContains(t, s.notices, "unless")
}

// In a sandbox, a server can do what commands can.
func TestLanguageServerInSandbox(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	box, err := tools.Landlock(ws)
	if err == nil {
		defer box.Close()
		_, err = tools.CheckSandbox(t.Context(), box, tools.SandboxCall{})
	}
	if err != nil {
		t.Skip(err)
	}
	s := withServer(t, func(st *config.Settings) {
		st.Sandbox.Mode, st.Sandbox.Read = "on", []string{filepath.Dir(os.Args[0])}
	}, writes, serverRule())
	s.run()
	require.Contains(t, s.outputs[1], "\nwritten; new errors:\na.fake:2: it is bad; free: false\n")
	require.Zero(t, s.pid(), "it cannot write outside the workspace")
}

// Where the commands run elsewhere, no server runs here.
func TestLanguageServerElsewhere(t *testing.T) {
	local, err := tools.LocalExec()
	require.NoError(t, err)
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	require.NoError(t, os.WriteFile(filepath.Join(ws.Dir(), "a.fake"), []byte("old\n"), 0o600))
	s := withServer(t, func(*config.Settings) {}, writes, harness.WithPolicyOptions(policy.WithMode(policy.FullAuto)),
		harness.WithEnvironment(harness.Environment{Files: ws, Exec: local}))
	s.run()
	require.Contains(t, s.notices, "no language server runs, since the workspace or its commands are on another machine: fake\n")
	require.Zero(t, s.pid())
	require.NotContains(t, s.outputs[1], "written; new")
}

// Each server that the configuration takes without a command is known.
func TestKnownLanguageServers(t *testing.T) {
	for name, works := range map[string]bool{"gopls": true, "pyright-langserver": true, "rust-analyzer": true, "typescript-language-server": true, "other": false} {
		file := filepath.Join(t.TempDir(), "c.toml")
		require.NoError(t, os.WriteFile(file, []byte("[language_servers."+name+"]\n"), 0o600))
		_, err := config.Load(config.WithUserFile(file))
		_, known := lsp.Known(name)
		require.Equal(t, works, err == nil)
		require.Equal(t, works, known, name)
	}
	l, err := config.Load()
	require.NoError(t, err)
	l.Config.LanguageServers = map[string]config.LanguageServer{"gopls": {}}
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithSettings(l.Config.Settings), harness.WithClient(script.New()))
	require.ErrorIs(t, err, harness.ErrNotLinked)
}

// gopls works as it is configured by its name alone, also in a sandbox.
func TestGopls(t *testing.T) {
	for _, name := range []string{"gopls", "go"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not in PATH")
		}
	}
	for _, mode := range []string{"off", "on"} {
		t.Run("sandbox "+mode, func(t *testing.T) {
			s := withServer(t, func(st *config.Settings) {
				st.LanguageServers = map[string]config.LanguageServer{"gopls": {}}
				st.Sandbox.Mode = mode
			}, []script.Step{
				script.Call("write_file", map[string]any{"path": "go.mod", "content": "module x\n\ngo 1.21\n"}),
				script.Call("write_file", map[string]any{"path": "a.go", "content": "package x\n\nfunc F() int { return 1 }\n"}),
				script.Call("definition", map[string]any{"path": "a.go", "name": "F"}),
				script.Call("write_file", map[string]any{"path": "b.go", "content": "package x\n\nvar V string = F()\n"}),
				script.Call("rename", map[string]any{"path": "a.go", "line": 3, "name": "F", "new_name": "G"}), script.Say("ok"),
			}, harness.WithPolicyOptions(policy.WithMode(policy.FullAuto)))
			s.run()
			require.Contains(t, s.outputs[2], "a.go:3: func F() int { return 1 }\n")
			require.Contains(t, s.outputs[3], "\nwritten; new errors:\nb.go:3: cannot use F() (value of type int) as string value in variable declaration")
			text, err := os.ReadFile(filepath.Join(s.Files.Dir(), "b.go"))
			require.NoError(t, err)
			require.Equal(t, "package x\n\nvar V string = G()\n", string(text))
		})
	}
}
