package harness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/providers/script"
)

func TestParseServers(t *testing.T) {
	parts := plugin.ParseServers([]byte(`{
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "x"], "env": {"KEY": "${KEY}"}, "timeout": 1500},
    "web": {"type": "http",
      "url": "https://x.test/${PART:-a}", "headers": {"A": "b"}, "oauth": {}},
    "both": {"command": "x", "url": "y"},
    "none": {}, "odd": 7, "list": {"command": ["x"]},
    "new": {"type": "ws", "url": "x"}
  },
  "inputs": []
}`))
	require.Equal(t, map[string]config.Server{
		"files": {Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"KEY": "${KEY}"}, Timeout: 1500 * time.Millisecond,
			Origin: config.Origin{Line: 3, Column: 14}},
		"web": {URL: "https://x.test/${PART:-a}", Headers: map[string]string{"A": "b"}, Origin: config.Origin{Line: 4, Column: 12}},
	}, parts.Servers)
	var lines []int
	for _, p := range parts.Problems {
		lines = append(lines, p.Line)
	}
	require.Equal(t, []int{5, 6, 7, 7, 7, 8, 10}, lines, "%v", parts.Problems)
	require.Contains(t, parts.Problems[4].Message, "command is of a wrong type: array")
	require.Len(t, plugin.ParseServers([]byte(`{"a": {"comand": "x"}}`)).Problems, 2, "a mistyped key is named, too")

	parts = plugin.ParseServers([]byte("{\n\"a\": {\"command\": \"x\"}}"))
	require.Equal(t, map[string]config.Server{"a": {Command: "x", Origin: config.Origin{Line: 2, Column: 6}}}, parts.Servers)
	require.Empty(t, parts.Problems)
	for _, text := range []string{"", "[]", "{", `{"mcpServers": []}`, `{"mcpServers": {"a": {"command": "x"}}`, "{\"a\"\n:}"} {
		parts = plugin.ParseServers([]byte(text))
		require.NotEmpty(t, parts.Problems, text)
	}
}

// The place of a fault is that at which another program says it is, and a mark of the order of bytes is none.
func TestSyntaxOfForms(t *testing.T) {
	for _, tt := range []struct {
		text         string
		line, column int // json.loads of Python has the same, but for a text that is cut off
	}{
		{"{\n  \"a\": {\"command\": \"x\",}\n}", 2, 24},
		{"{\n  \"a\": {\"command\": \"x\"}\n  \"b\": {}\n}\n", 3, 3},
		{"{\"a\": {}}\n\n}", 3, 1},
		{"// no comment\n{}", 1, 1},
		{"{\n\"a\": {}\n\n\n", 2, 8},
		{"", 1, 1},
	} {
		problems := plugin.ParseServers([]byte(tt.text)).Problems
		require.Len(t, problems, 1, tt.text)
		require.Equal(t, []int{tt.line, tt.column}, []int{problems[0].Line, problems[0].Column}, tt.text)
		_, found := hooks.Parse("settings.json", []byte(tt.text))
		require.Len(t, found, 1, tt.text)
		require.Equal(t, tt.line, found[0].Line, tt.text)
	}
	parts := plugin.ParseServers([]byte("\ufeff{\"a\": {\"command\": \"x\"}}"))
	require.Empty(t, parts.Problems)
	require.Len(t, parts.Servers, 1)
	_, problems := hooks.Parse("settings.json", []byte("\ufeff{\"hooks\": {}}"))
	require.Empty(t, problems)
}

func FuzzParseServers(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x", "args": ["y"]}, "b": 1}, "c": {}}`))
	f.Add([]byte(`{"a": {"url": "x", "x": 1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts := plugin.ParseServers(data)
		if !json.Valid(data) && len(parts.Problems) == 0 {
			t.Error("the syntax is wrong, and nothing was said")
		}
		for name, s := range parts.Servers {
			if (s.Command == "") == (s.URL == "") || s.Timeout < 0 || s.Origin.Line < 1 || s.Origin.Column < 1 {
				t.Errorf("%q: %+v", name, s)
			}
		}
	})
}

// Hooks and servers of public repositories are read as they are. AYCODER_PUBLIC_FORMS is a directory with a directory
// for each. Everything that python reads in the files is there, or a problem says why not.
func TestPublicForms(t *testing.T) {
	all := os.Getenv("AYCODER_PUBLIC_FORMS")
	if all == "" {
		t.Skip("AYCODER_PUBLIC_FORMS is not set: it is a directory of repositories with hooks.json, settings.json and .mcp.json")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const count = `
import json, sys
d = json.load(open(sys.argv[1]))
if sys.argv[1].endswith(".mcp.json"):
    print(len(d.get("mcpServers", d)))
else:
    print(sum(len(g.get("hooks", [])) for groups in d.get("hooks", {}).values() for g in groups))`
	files, found, problems := 0, 0, 0
	require.NoError(t, filepath.WalkDir(all, func(name string, d fs.DirEntry, err error) error {
		base := filepath.Base(name)
		if err != nil || d.IsDir() || base != ".mcp.json" && base != "hooks.json" && base != "settings.json" {
			return err
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		out, err := exec.Command(python, "-I", "-c", count, name).Output()
		require.NoError(t, err, name)
		var want int
		require.NoError(t, json.Unmarshal(out, &want))
		files++
		got, said := 0, []string{}
		if base == ".mcp.json" {
			parts := plugin.ParseServers(data)
			got = len(parts.Servers)
			for _, p := range parts.Problems {
				said = append(said, p.Message)
			}
		} else {
			list, problems := hooks.Parse(name, data)
			got = len(list)
			for _, p := range problems {
				said = append(said, p.Message)
			}
		}
		for _, s := range said {
			t.Logf("%s: %s", name, s)
		}
		left, events := 0, 0
		for _, s := range said {
			if strings.Contains(s, "left out") {
				left++
			}
			if strings.Contains(s, "there is no event") {
				events++
			}
		}
		if events == 0 {
			require.Equal(t, want, got+left, "%s: %v", name, said)
		} else { // the hooks of an event that is not known are not counted
			require.Less(t, got+left, want, "%s: %v", name, said)
		}
		found, problems = found+got, problems+len(said)
		return nil
	}))
	require.Positive(t, files)
	t.Logf("%d files, %d hooks and servers, %d problems", files, found, problems)
}

// TestServerChild is the server of TestServers: it answers each line.
func TestServerChild(t *testing.T) {
	if os.Getenv("AYCODER_TEST_SERVER") == "" {
		t.Skip("is run by TestServers")
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		os.Stdout.WriteString(os.Getenv("AYCODER_TEST_SERVER") + " heard " + in.Text() + "\n")
	}
}

// connect starts a server as a process, whose one tool sends it a line.
func connect(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
	cmd := exec.Command(s.Command, s.Args...)
	for key, value := range s.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	say := func(_ context.Context, _ *aycoder.Invocation, a struct{ Text string }) (*aycoder.ToolResult, error) {
		if _, err := io.WriteString(in, a.Text+"\n"); err != nil {
			return nil, err
		}
		line, err := lines.ReadString('\n')
		return aycoder.TextResult(line), err
	}
	tool, err := aycoder.NewTool("mcp__"+name+"__say", "Says a line.", say)
	return &source{tools: []aycoder.Tool{tool}, closer: func() error { return errors.Join(in.Close(), cmd.Wait()) }}, err
}

// source has the tools that a test gives it.
type source struct {
	tools   []aycoder.Tool
	err     error
	closer  func() error
	notices []string
}

func (s *source) Tools(context.Context) ([]aycoder.Tool, error) { return s.tools, s.err }

func (s *source) Close() error { return s.closer() }

func (s *source) Notices() (news []string) {
	news, s.notices = s.notices, nil
	return news
}

// A trusted server of the project is started and called, one that is not trusted or does not start is a notice, and
// none is left.
func TestServers(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	server := func(name string) map[string]any {
		return map[string]any{"command": self, "args": []string{"-test.run=^TestServerChild$"}, "env": map[string]string{"AYCODER_TEST_SERVER": name}}
	}
	mcp, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"good": server("${GREETING:-good}"), "absent": map[string]any{"command": "/nowhere/at/all"}, "strange": server("strange"),
	}})
	require.NoError(t, err)
	dir := project(t, map[string]string{".mcp.json": string(mcp)})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	load := func() *config.Loaded {
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust), config.WithForms(harness.ServerForms()...))
		require.NoError(t, err)
		return loaded
	}
	loaded := load()
	require.Empty(t, loaded.Config.Servers)
	require.Len(t, loaded.Questions, 3)
	for _, q := range loaded.Questions {
		require.Equal(t, config.KindServer, q.Kind)
		require.NoError(t, trust.Decide(t.Context(), q, !strings.Contains(q.Command, "strange")))
	}
	loaded = load()
	require.Len(t, loaded.Config.Servers, 2)

	model := script.New(script.Call("mcp__good__say", map[string]string{"Text": "hi"}), script.Say("ok"))
	rt := open(t, dir, harness.WithClient(model), harness.WithConfig(loaded), harness.WithServers(connect))
	var out, notices []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.ToolFinished:
			out = append(out, ev.Output.Text())
		case *aycoder.Notice:
			notices = append(notices, ev.Text)
		}
	}
	require.Equal(t, []string{"good heard hi\n"}, out)
	require.Contains(t, strings.Join(notices, "\n"), "server absent is off: ")
	require.Contains(t, strings.Join(notices, "\n"), "servers.strange is off, since the user does not trust it")

	// A program without a connector works without the servers of a project, but not without those of its user.
	rt = open(t, dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithConfig(loaded))
	require.Contains(t, strings.Join(run(t, rt, "go"), "\n"), "server good is off: "+harness.ErrNotLinked.Error())
	_, err = harness.New(t.Context(), dir, harness.WithClient(model), harness.WithSettings(settings(t, func(s *config.Settings) {
		s.Servers = map[string]config.Server{"x": {Command: "x"}}
	})))
	require.ErrorIs(t, err, harness.ErrNotLinked)

	// A trusted server is looked at again right before it is started.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".mcp.json"), append(mcp, '\n'), 0o644))
	rt = open(t, dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithConfig(loaded), harness.WithServers(connect))
	require.Contains(t, strings.Join(run(t, rt, "go"), "\n"), "server good is off: ")
}

// Hooks of settings.json are asked about one by one, also two in one line.
func TestHooksOfSettings(t *testing.T) {
	dir := project(t, map[string]string{
		".claude/settings.json": `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch one"}, {"type": "command", "command": "sh two.sh"}]}]}}`,
		"two.sh":                "touch two\n",
	})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	load := func() *config.Loaded {
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust), config.WithForms(harness.HookForms()...))
		require.NoError(t, err)
		return loaded
	}
	start := func(l *config.Loaded) {
		rt, err := harness.New(t.Context(), dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithConfig(l))
		require.NoError(t, err)
		require.NoError(t, rt.Close())
	}
	questions := load().Questions
	require.Len(t, questions, 2)
	start(load())
	require.NoFileExists(t, filepath.Join(dir, "one"))
	for _, q := range questions {
		require.NoError(t, trust.Decide(t.Context(), q, true))
	}
	trusted := load()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two.sh"), []byte("touch evil\n"), 0o644))
	start(trusted) // the script has changed since it was loaded
	require.FileExists(t, filepath.Join(dir, "one"))
	require.NoFileExists(t, filepath.Join(dir, "evil"))
	require.NoError(t, os.Remove(filepath.Join(dir, "one"))) // a file that a command names is one of its scripts
	require.Len(t, load().Questions, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two.sh"), []byte("touch two\n"), 0o644))
	start(load())
	require.FileExists(t, filepath.Join(dir, "two"))
}
