package linked_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/lsp"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/insight/suggest"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// world is a directory with a checker in node_modules, which is code of the project: it leaves a trace where it has run.
func world(t *testing.T) (dir, trace string) {
	dir, trace = t.TempDir(), filepath.Join(t.TempDir(), "ran")
	program := "#!/bin/sh\necho x >>'" + trace + "'\n" +
		`if grep -q bad "$3"; then printf '[{"filePath":"%s","messages":[{"ruleId":"no-bad","message":"it is bad","line":1,"column":1}]}]' "$PWD/$3"; else echo '[]'; fi` + "\n"
	for name, text := range map[string]string{"a.js": "good\n", "node_modules/.bin/eslint": program} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	return dir, trace
}

// edited lets a runtime with some checks write a file, and returns the result and the notices.
func edited(t *testing.T, dir, name, text string, checks []config.Check, opts ...policy.Option) (result, notices string) {
	model := script.New(
		script.Call("read_file", map[string]any{"path": name}), script.Call("write_file", map[string]any{"path": name, "content": text}), script.Say("ok"))
	defaults, err := config.Load()
	require.NoError(t, err)
	st := defaults.Config.Settings
	st.Tools.Checks = checks
	rt, err := harness.New(t.Context(), dir, harness.WithSettings(st), harness.WithClient(model), harness.WithChecks(linked.Checks), harness.WithPolicyOptions(opts...))
	require.NoError(t, err)
	defer rt.Close()
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			require.Equal(t, "write_file", ev.Request.Tool)
			ev.Allow()
		case *aycoder.Notice:
			notices += ev.Text + "\n"
		case *aycoder.ToolFinished:
			require.NoError(t, ev.Err)
			result = ev.Output.Text()
		}
	}
	return result, notices
}

func TestChecks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands do not run on Windows")
	}
	rule := func(pattern string) policy.Option {
		return policy.WithRules(policy.User, policy.Rule{Action: policy.RuleAllow, Tool: "bash", Pattern: pattern})
	}
	const found, hint = "a.js:1: it is bad (no-bad)", "so it does not run unless a rule allows it: bash:node_modules/.bin/eslint *\n"
	const never = "so it does not run: no rule can allow that here\n"
	for _, tt := range []struct {
		name   string
		checks []config.Check
		opts   []policy.Option
		runs   bool
		notice string
	}{
		{"off", nil, []policy.Option{policy.WithMode(policy.FullAuto)}, false, ""},
		{"asks", []config.Check{"eslint"}, nil, false, hint},
		{"another rule", []config.Check{"eslint"}, []policy.Option{rule("eslint *")}, false, hint},
		{"rule", []config.Check{"eslint"}, []policy.Option{rule("node_modules/.bin/eslint *")}, true, ""},
		{"denied", []config.Check{"eslint"}, []policy.Option{policy.WithMode(policy.FullAuto), policy.WithRules(policy.User,
			policy.Rule{Action: policy.RuleDeny, Tool: "bash", Pattern: "node_modules/.bin/eslint *"})}, false, never},
		{"full auto", []config.Check{"eslint"}, []policy.Option{policy.WithMode(policy.FullAuto)}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, trace := world(t)
			result, notices := edited(t, dir, "a.js", "bad\n", tt.checks, tt.opts...)
			_, err := os.Stat(trace)
			require.Equal(t, tt.runs, err == nil, notices)
			require.Equal(t, tt.runs, strings.HasSuffix(result, "\nwritten; new findings:\n"+found+"\n"), result)
			if tt.notice != "" {
				require.Equal(t, 1, strings.Count(notices, tt.notice), notices)
			}
			require.Equal(t, tt.notice != "", strings.Contains(notices, "does not run"), notices)
		})
	}
}

// go vet runs no code of the project, so naming it is enough.
func TestVet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands do not run on Windows")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	dir := t.TempDir()
	const code = "package x\n\nimport \"fmt\"\n\nfunc F() { fmt.Printf(\"%d\\n\", 1) }\n"
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.21\n", "x.go": code} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	vet := exec.Command("go", "vet", ".") // fills the cache, so that the checks are soon done
	vet.Dir = dir
	require.NoError(t, vet.Run())
	result, _ := edited(t, dir, "x.go", strings.Replace(code, "%d", "%s", 1), []config.Check{"go vet", "staticcheck"})
	require.Contains(t, result, "\nwritten; new findings:\nx.go:5: fmt.Printf format %s has arg 1 of wrong type int (printf)\n")
}

func TestNames(t *testing.T) {
	for _, name := range []string{"go vet", "go fix", "staticcheck", "golangci-lint", "eslint", "ruff", "clippy", "tsc"} {
		file := filepath.Join(t.TempDir(), "c.toml")
		require.NoError(t, os.WriteFile(file, []byte("[tools]\nchecks = [\""+name+"\"]\n"), 0o600))
		l, err := config.Load(config.WithUserFile(file))
		require.NoError(t, err)
		require.Empty(t, l.Diagnostics)
		_, ok := lsp.KnownCommand(string(l.Config.Tools.Checks[0]))
		require.True(t, ok, name)
	}
	for _, key := range []string{"checks = [\"go vet\"]", "insight = [\"forecast\"]", "code = [\"graph\"]"} { // a project switches on none
		dir := t.TempDir()
		file := filepath.Join(dir, ".aycoder", "config.toml")
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("[tools]\n"+key+"\n"), 0o600))
		l, err := config.Load(config.WithProject(dir))
		require.NoError(t, err)
		require.Len(t, l.Diagnostics, 1)
		require.Empty(t, l.Config.Tools.Checks)
		require.Empty(t, l.Config.Tools.Insight)
		require.Empty(t, l.Config.Tools.Code)
	}
	for _, st := range []config.Tools{{Checks: []config.Check{"go vet"}}, {Insight: []config.Insight{"forecast"}}} {
		_, err := harness.New(t.Context(), t.TempDir(), harness.WithSettings(config.Settings{Tools: st}), harness.WithClient(script.New()))
		require.ErrorIs(t, err, harness.ErrNotLinked)
	}
}

func TestInsight(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "-q")
	write("old.txt", strings.Repeat("a line\n", 20))
	git("add", "-A")
	git("commit", "-q", "-m", "begin")
	git("mv", "old.txt", "new.txt")
	git("commit", "-q", "-m", "rename it")
	for _, text := range []string{"one", "two"} {
		write("new.txt", strings.Repeat("a line\n", 20)+text+"\n")
		write("other.go", "package x // "+text+"\n")
		git("add", "-A")
		git("commit", "-q", "-m", "say "+text)
	}
	write("left.txt", "x\n")
	write("other.go", "package x // three\n")

	model := script.New(script.Call("suggestions", map[string]any{}), script.Call("forecast", map[string]any{"task": "say it in other words"}),
		script.Call("file_history", map[string]any{"path": "new.txt"}), script.Call("file_history", map[string]any{"path": "../x"}), script.Say("ok"))
	defaults, err := config.Load()
	require.NoError(t, err)
	st := defaults.Config.Settings
	st.Tools.Insight = []config.Insight{"suggestions", "forecast", "file_history"}
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	all, err := suggest.Find(t.Context(), suggest.Options{Files: ws, Dir: dir})
	require.NoError(t, err)
	i := slices.IndexFunc(all.All, func(s suggest.Suggestion) bool { return strings.Contains(s.Text, "left.txt") })
	require.GreaterOrEqual(t, i, 0)
	dismissed := filepath.Join(t.TempDir(), "d.json")
	require.NoError(t, suggest.Dismiss(dismissed, all.All[i].ID, "it is known"))
	rt, err := harness.New(t.Context(), dir, harness.WithSettings(st), harness.WithClient(model), harness.WithStore(journal.Memory(), ""),
		harness.WithInsight(linked.Insight(func(string) string { return dismissed })))
	require.NoError(t, err)
	defer rt.Close()
	var results []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if e, ok := ev.(*aycoder.ToolFinished); ok {
			results = append(results, e.Output.Text())
		}
		_, asks := ev.(*aycoder.ApprovalRequested)
		require.False(t, asks, "they only read")
	}
	require.Len(t, results, 4)
	require.Contains(t, results[0], "1 changed file is not committed: other.go")
	require.NotContains(t, results[0], "left.txt", "it is dismissed")
	require.Contains(t, results[1], "other.go (in 2 of the similar commits)")
	require.Contains(t, results[2], "new.txt: 4 commits since ")
	require.Contains(t, results[2], "by Ann (4)")
	require.Contains(t, results[2], "renamed from old.txt")
	require.Contains(t, results[2], "other.go in 2 (50 %)")
	require.Contains(t, results[3], "outside")
}

// The model gets git's state in a worktree, too, if its repository knows it there.
func TestCodeInWorktree(t *testing.T) {
	defaults, err := config.Load()
	require.NoError(t, err)
	for _, moved := range []bool{false, true} {
		dir, git := t.TempDir(), t.TempDir()
		known := filepath.Join(dir, ".git")
		if moved {
			known = filepath.Join(t.TempDir(), ".git")
		}
		for name, text := range map[string]string{filepath.Join(dir, ".git"): "gitdir: " + git + "\n", filepath.Join(git, "gitdir"): known + "\n",
			filepath.Join(git, "HEAD"): "ref: refs/heads/topic\n"} {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
		model := script.New(script.Say("ok"))
		rt, err := harness.New(t.Context(), dir, harness.WithSettings(defaults.Config.Settings), harness.WithClient(model), harness.WithProjectTexts(true), harness.WithAmbient(harness.Ambients()...),
			harness.WithCode(linked.Code(nil, time.Hour, nil)))
		require.NoError(t, err)
		for _, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
		}
		require.NoError(t, rt.Close())
		var tail strings.Builder
		for _, p := range model.Requests()[0].Tail {
			tail.WriteString(p.Text)
		}
		require.Equal(t, !moved, strings.Contains(tail.String(), "topic"), tail.String())
	}
}

// The model gets the map of the project, git's state and the tools of the code graph.
func TestCode(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/x\n\ngo 1.21\n", "x.go": "package x\n\nimport \"example.org/x/sub\"\n\nfunc F() { sub.G() }\n",
		"sub/g.go": "package sub\n\nfunc G() {}\n", ".git/HEAD": "ref: refs/heads/topic\n", "made.go": "package x\n\nfunc G() {}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	defaults, err := config.Load()
	require.NoError(t, err)
	var shared *codegraph.Graph
	open := func(trusted bool, names ...config.Code) (*harness.Runtime, *script.Model) {
		st := defaults.Config.Settings
		st.Tools.Code = names
		model := script.New(script.Call("dependents", map[string]any{"path": "sub/g.go"}), script.Call("semantic_search", map[string]any{"query": "G"}), script.Say("ok"))
		rt, err := harness.New(t.Context(), dir, harness.WithSettings(st), harness.WithClient(model), harness.WithProjectTexts(trusted), harness.WithIgnored("made.go"),
			harness.WithAmbient(harness.Ambients()...), harness.WithCode(linked.Code(func(of string) string {
				require.Equal(t, dir, of)
				return kept
			}, time.Hour, func(g *codegraph.Graph) { shared = g })))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		return rt, model
	}
	run := func(rt *harness.Runtime) (results []string) {
		for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
			require.NoError(t, err)
			if f, ok := ev.(*aycoder.ToolFinished); ok {
				results = append(results, f.Output.Text())
			}
		}
		return results
	}
	rt, model := open(true, "graph", "search")
	results := run(rt)
	require.Contains(t, results[0], "x.go")
	require.Contains(t, results[1], "sub/g.go:1-3 func G")
	require.NotNil(t, shared.Snapshot().Facts("x.go"), "the host has the graph that was read")
	require.Nil(t, shared.Snapshot().Facts("made.go"), "it is ignored")
	require.NotContains(t, results[1], "made.go")
	req := model.Requests()[0]
	text := func(parts []*aycoder.Text) (all string) {
		for _, p := range parts {
			all += p.Text + "\n"
		}
		return all
	}
	require.Contains(t, text(req.System), "example.org/x")
	require.Contains(t, text(req.Tail), "topic")

	rt, model = open(true)
	require.Contains(t, run(rt)[0], "dependents: no such tool")
	require.Contains(t, text(model.Requests()[0].Tail), "topic")

	added := func(model *script.Model) string {
		data, err := json.Marshal(model.Requests()[1].Messages)
		require.NoError(t, err)
		require.Len(t, model.Requests(), 3)
		return string(data)
	}
	require.NotContains(t, added(model), "func G()", "nothing is added unasked")
	rt, model = open(true, "context")
	run(rt)
	require.Contains(t, added(model), "[The program has added parts of files")
	require.Contains(t, added(model), "func F()", "which uses the file that the call has named")

	rt, model = open(false, "graph", "context")
	require.Contains(t, run(rt)[0], "x.go")
	require.NotContains(t, added(model), "[The program has added")
	req = model.Requests()[0]
	require.NotContains(t, text(req.System), "example.org/x", "nobody trusts the texts")
	require.NotContains(t, text(req.Tail), "topic")
}
