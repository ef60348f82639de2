package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/linked"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// one is a configuration with something of everything, in the directory of the user and in that of a project.
var one = map[string]string{
	"home/aycoder/config.toml": `roles.main = "work"
roles.small = "ollama/quick"
roles.summary = "work"
agent.max_turns = 17
agent.max_calls = 11
agent.max_tokens = 123456
agent.max_cost = 1.5
agent.budget = "night"
agent.thinking = 1000
approval.mode = "accept-edits"
approval.timeout = "3m"
context.fill = 0.4
tools.max_output = 12345
tools.parallel = 3
tools.disabled = ["fetch"]
tools.ignore = ["*.log"]
[models.work]
provider = "ollama"
model = "big"
max_tokens = 5000
fallbacks = ["ollama/second"]
[budgets.night]
tokens = 1000000
time = "1h"
[[approval.rules]]
action = "allow"
tool = "bash"
pattern = "go test *"
[[hooks]]
event = "PreToolUse"
matcher = "bash"
command = "true"
timeout = "5s"
`,
	"home/aycoder/AGENTS.md":            "Be brief.",
	"home/aycoder/skills/mine/SKILL.md": "---\ndescription: mine\n---\nDo it.\n",
	"ws/.aycoder/config.toml":           "[[approval.rules]]\naction = \"deny\"\ntool = \"bash\"\npattern = \"git push *\"\n[[hooks]]\nevent = \"Stop\"\ncommand = \"true\"\n",
	"ws/.aycoder/lessons.md":            "- [ ] PATTERN: it breaks\n  RULE: mend it\n",
	"ws/AGENTS.md":                      "Use tabs.",
	"ws/.claude/settings.json":          `{"hooks":{"PostToolUse":[{"matcher":"Edit","hooks":[{"type":"command","command":"true"}]}]}}`,
	"ws/.claude/skills/theirs/SKILL.md": "---\ndescription: theirs\n---\nDo it.\n",
	"ws/.claude/agents/finder.md":       "---\nname: finder\ndescription: finds\ntools: Read\n---\nYou find.\n",
	"ws/.claude/commands/review.md":     "---\ndescription: reviews\n---\nReview $1.\n",
	"ws/main.go":                        "package cli\n",
}

// got is everything that a runtime gets from a configuration.
type got struct {
	System   []harness.Section
	Request  *aycoder.Request // the first one of the first run
	Specs    []harness.ModelSpec
	Limits   aycoder.Limits
	Start    aycoder.StartInput
	Rules    map[policy.Source][]policy.Rule
	Mode     policy.Mode
	Budgets  map[string]any
	Hooks    []string
	Stages   []string
	Tools    []string
	Commands []string
	Notices  []string
}

// probe returns options that keep what a runtime asks for.
func (g *got) probe() []harness.Option {
	return []harness.Option{
		harness.WithOpener(func(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
			g.Specs = append(g.Specs, spec)
			return script.New(script.Func(func(req *aycoder.Request) script.Step {
				g.Request = req
				return script.Say("ok")
			})).With(script.WithName(spec.Provider, spec.Model)), nil
		}),
		harness.WithLoopOptions(aycoder.WithSetup(func(_ context.Context, now aycoder.Setup) (aycoder.Setup, error) {
			g.Limits = now.Limits
			return now, nil
		})),
	}
}

// look fills in what the runtime tells.
func (g *got) look(t *testing.T, rt *harness.Runtime) {
	t.Helper()
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if n, ok := ev.(*aycoder.Notice); ok {
			g.Notices = append(g.Notices, n.Source+": "+n.Text)
		}
	}
	g.System, g.Start = rt.Sections, rt.Loop.StartInput()
	if rt.Policy != nil {
		g.Mode, g.Rules = rt.Policy.Mode(), map[policy.Source][]policy.Rule{}
		for _, s := range []policy.Source{policy.Managed, policy.User, policy.Session, policy.Project} {
			g.Rules[s] = rt.Policy.Rules(s)
		}
	}
	g.Budgets = map[string]any{}
	for name, pot := range rt.Budgets {
		g.Budgets[name] = pot.Status().Max
	}
	if rt.Hooks != nil {
		for _, h := range rt.Hooks.Hooks() {
			g.Hooks = append(g.Hooks, strings.Join([]string{string(h.Event), h.Matcher, h.Command, h.Timeout.String(), h.Source}, " "))
		}
	}
	for _, s := range rt.Stages() {
		g.Stages = append(g.Stages, s.Name+" "+s.Points())
	}
	for _, tool := range rt.Tools {
		g.Tools = append(g.Tools, tool.Spec().Name)
	}
	for _, c := range rt.Library.Commands {
		g.Commands = append(g.Commands, c.Name)
	}
}

// The command line, the server, a host that embeds the library, and a test with fakes get the same agent from one configuration. Only
// the approver differs.
func TestOneConfiguration(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	root := t.TempDir()
	for name, text := range one {
		name = filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	home, dir := filepath.Join(root, "home", "aycoder"), filepath.Join(root, "ws")
	t.Setenv("XDG_CONFIG_HOME", filepath.Dir(home))
	t.Setenv("HOME", root)
	t.Chdir(dir)
	sources := []config.Option{config.WithUserFile(filepath.Join(home, "config.toml")), config.WithProject("."), // as messages are to name it
		config.WithForms(harness.HookForms()...), config.WithTrust(config.NewTrust(filepath.Join(home, "trust.json"))),
		config.WithLookup(os.LookupEnv), config.WithEnviron(os.Environ())}
	loaded, err := config.Load(sources...)
	require.NoError(t, err)
	require.Len(t, loaded.Questions, 3)
	for _, q := range loaded.Questions {
		require.NoError(t, config.NewTrust(filepath.Join(home, "trust.json")).Decide(t.Context(), q, true))
	}

	// The command line.
	var cli got
	a, o := &app{getenv: os.Getenv, mapWait: time.Hour}, &options{print: true, trust: true}
	st, err := a.settings(o)
	require.NoError(t, err)
	s := &session{}
	defer s.close()
	opts, err := s.options(t.Context(), o, st)
	require.NoError(t, err)
	require.NoError(t, s.build(t.Context(), ".", o, append(opts, cli.probe()...)))
	cli.look(t, s.Runtime)

	// The server.
	var served got
	t.Setenv("XDG_STATE_HOME", filepath.Join(root, "state"))
	texts, err := textsOf(".")
	require.NoError(t, err)
	require.NoError(t, st.trust.Decide(t.Context(), texts, true))
	k := &call{app: &app{getenv: os.Getenv, mapWait: time.Hour, extensions: []Extension{{Options: served.probe()}}}}
	host, end, err := k.serving(t.Context(), nil)
	require.NoError(t, err)
	rt, err := host.Open(t.Context(), "", "")
	require.NoError(t, err)
	served.look(t, rt)
	require.NoError(t, rt.Close())
	require.NoError(t, end())

	// A host that follows the configuration, and one that reads it once.
	own, err := workspace.Open(home)
	require.NoError(t, err)
	defer own.Close()
	follow, err := config.NewReloader(sources...)
	require.NoError(t, err)
	embed := func(g *got, more ...harness.Option) {
		opts := append([]harness.Option{harness.WithUserFiles(own), harness.WithAmbient(harness.Ambients()...), harness.WithCode(linked.Code(nil, time.Hour, nil))}, more...)
		rt, err := harness.New(t.Context(), dir, append(opts, g.probe()...)...)
		require.NoError(t, err)
		g.look(t, rt)
		require.NoError(t, rt.Close())
	}
	var following, once, fakes got
	embed(&following, harness.WithReloader(follow))
	embed(&once, harness.WithConfig(follow.Current()))

	// A test, whose files and commands could be anywhere.
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	exec, err := tools.LocalExec()
	require.NoError(t, err)
	embed(&fakes, harness.WithConfig(follow.Current()), harness.WithEnvironment(harness.Environment{Files: ws, Exec: exec}),
		harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		})), harness.WithStore(journal.Memory(), ""))

	require.Equal(t, []any{17, 11, int64(123456), 12345, 3, "ollama/big", policy.AcceptEdits, 3}, []any{
		cli.Limits.Turns, cli.Limits.Calls, cli.Limits.Total, cli.Limits.ToolOutput, cli.Limits.Parallel, cli.Start.Model, cli.Mode, len(cli.Hooks)})
	require.Contains(t, cli.Request.Tail[0].Text, "mend it")
	require.Equal(t, cli, served)
	require.Equal(t, cli, following)
	following.Stages = slices.DeleteFunc(following.Stages, func(s string) bool { return s == "changes before turn" }) // nothing changes
	require.Equal(t, following, once)
	fakes.Rules, fakes.Mode = once.Rules, once.Mode // of the policy
	require.Equal(t, once, fakes)
}
