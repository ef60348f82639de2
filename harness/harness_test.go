package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// project returns a directory with files.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return dir
}

func open(t *testing.T, dir string, opts ...harness.Option) *harness.Runtime {
	t.Helper()
	rt, err := harness.New(t.Context(), dir, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// settings returns the defaults with changes.
func settings(t *testing.T, change func(*config.Settings)) config.Settings {
	t.Helper()
	loaded, err := config.Load()
	require.NoError(t, err)
	change(&loaded.Config.Settings)
	return loaded.Config.Settings
}

// run runs a prompt, and returns the texts of the notices.
func run(t *testing.T, a aycoder.Agent, prompt string) (notices []string) {
	t.Helper()
	for ev, err := range a.Run(t.Context(), aycoder.Input{Prompt: prompt}) {
		require.NoError(t, err)
		if n, ok := ev.(*aycoder.Notice); ok {
			notices = append(notices, n.Source+": "+n.Text)
		}
	}
	return notices
}

func system(req *aycoder.Request) string {
	var b strings.Builder
	for _, block := range req.System {
		b.WriteString(block.Text + "\n")
	}
	return b.String()
}

func tail(req *aycoder.Request) string {
	var b strings.Builder
	for _, text := range req.Tail {
		b.WriteString(text.Text)
	}
	return b.String()
}

// files of a project that would like to be heard.
var loud = map[string]string{
	"AGENTS.md":                   "Say the word INSTRUCTED.",
	".aycoder/lessons.md":         "- PATTERN: LESSONED\n",
	".claude/skills/one/SKILL.md": "---\nname: one\ndescription: SKILLED\n---\nDo it.\n",
	"main.go":                     "package main\n",
}

func TestNothingUnasked(t *testing.T) {
	model := script.New(script.Say("ok"))
	rt := open(t, project(t, loud), harness.WithClient(model))
	require.Empty(t, run(t, rt, "hello"))
	req := model.Requests()[0]
	for _, word := range []string{"INSTRUCTED", "LESSONED", "SKILLED", "main.go"} {
		require.NotContains(t, system(req)+tail(req), word)
	}
	require.Nil(t, rt.Memory)
	require.Nil(t, rt.Library)
}

func TestAmbient(t *testing.T) {
	tests := []struct {
		name harness.Ambient
		word string
	}{
		{harness.Instructions, "INSTRUCTED"}, {harness.Lessons, "LESSONED"}, {harness.Skills, "SKILLED"}, {harness.Map, "main.go"},
	}
	for _, tt := range tests {
		t.Run(string(tt.name), func(t *testing.T) {
			model := script.New(script.Say("ok"))
			rt := open(t, project(t, loud), harness.WithClient(model), harness.WithAmbient(tt.name))
			run(t, rt, "hello")
			req := model.Requests()[0]
			for _, other := range tests {
				require.Equal(t, other == tt, strings.Contains(system(req)+tail(req), other.word), other.name)
			}
		})
	}
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithAmbient("weather"))
	require.ErrorContains(t, err, "there is no weather")
}

func TestSections(t *testing.T) {
	model := script.New(script.Say("ok"))
	rt := open(t, project(t, nil), harness.WithClient(model), harness.WithAmbient(harness.Map),
		harness.WithSection("base", "You are a test."), harness.WithSection("environment", "Here."), harness.WithSection("map", ""), harness.WithSection("more", "And more."))
	run(t, rt, "hello")
	require.Equal(t, "You are a test.\nHere.\nAnd more.\n",
		system(model.Requests()[0]))
}

// The key agent.rules adds six rules with their numbers behind the base prompt, and nothing else does.
func TestRules(t *testing.T) {
	said := func(c config.Settings, opts ...harness.Option) []string {
		model := script.New(script.Say("ok"))
		run(t, open(t, project(t, nil), append(opts, harness.WithSettings(c), harness.WithClient(model))...), "hello")
		var blocks []string
		for _, block := range model.Requests()[0].System {
			blocks = append(blocks, block.Text)
		}
		return blocks
	}
	off := said(settings(t, func(*config.Settings) {}))
	require.NotContains(t, strings.Join(off, "\n"), "PLAN.md")
	on := settings(t, func(c *config.Settings) { c.Agent.Rules = true })
	with := said(on)
	require.Equal(t, off[0], with[0])
	require.Len(t, with, len(off)+1)
	rules := map[string][]string{}
	for line := range strings.Lines(with[1]) {
		if name, text, ok := strings.Cut(strings.TrimPrefix(line, "- "), ": "); ok {
			rules[name] = strings.Fields(text)
		}
	}
	for name, words := range map[string]string{
		"plan":      "3 or more different actions 3 or more files new module changes an API PLAN.md",
		"correct":   "2 failures in a row same step stop plan again",
		"verify":    "type check build tests diff done",
		"uncertain": "do not ask best way Assumption:",
		"elegance":  "more than 50 lines 3 or more files review 10 lines or fewer no plan",
		"delegate":  "5 or more files more than 20 % of the context subagent",
	} {
		text := strings.Join(rules[name], " ")
		for word := range strings.FieldsSeq(words) {
			require.Contains(t, text, word, name)
		}
	}
	require.Len(t, rules, 6)
	r := harness.Rules{PlanVerbs: 11, PlanFiles: 12, Failures: 13, ReviewLines: 14, ReviewFiles: 15, SmallLines: 16, UnknownFiles: 17, Used: 18}
	other := said(on, harness.WithSection("rules", r.Text()))
	for n := 11; n <= 18; n++ {
		require.Contains(t, other[1], strconv.Itoa(n))
	}
}

// Two runtimes for one directory share nothing: what the second does is the same whether or not the first is there, with its
// rules, mode, hook, tasks, working directory and what its model has read; and the first goes on as it was.
func TestTwoRuntimes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	dir := project(t, map[string]string{"sub/x": "", "a.txt": "one\n", "b.txt": "b\n", ".aycoder/lessons.md": "- PATTERN: p\n  RULE: r\n"})
	auto := settings(t, func(c *config.Settings) { c.Approval.Mode = policy.FullAuto })
	where := script.Call("bash", map[string]string{"command": "pwd"})
	type seen struct {
		Requests string
		Rules    []policy.Rule
		Mode     policy.Mode
		Hooks    bool
		Dir      string
		Tasks    int
		Read     []string
		Notices  []string
	}
	look := func() seen {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644))
		model := script.New(where, script.Call("edit_file", map[string]string{"path": "a.txt", "old_string": "one", "new_string": "two"}),
			script.Call("read_file", map[string]string{"path": "a.txt"}), script.Say("ok"))
		rt, err := harness.New(t.Context(), dir, harness.WithSettings(auto), harness.WithClient(model), harness.WithAmbient(harness.Ambients()...))
		require.NoError(t, err)
		notices := run(t, rt, "go")
		data, err := json.Marshal(model.Requests())
		require.NoError(t, err)
		s := seen{string(data), rt.Policy.Rules(policy.Session), rt.Policy.Mode(), rt.Hooks != nil, rt.Shell.Dir(), len(rt.Todos.Items()),
			rt.Workspace.Seen().Contents("b.txt"), notices}
		require.NoError(t, rt.Close())
		return s
	}
	alone := look()
	require.Contains(t, alone.Requests, filepath.Base(dir))

	var hooked int
	hook := hooks.Hook{Event: hooks.PostToolUse, Command: "count", Call: func(context.Context, []byte) ([]byte, error) {
		hooked++
		return []byte(`{"hookSpecificOutput": {"additionalContext": "HOOKED"}}`), nil
	}}
	model := script.New(script.Call("bash", map[string]string{"command": "cd sub"}), script.Call("read_file", map[string]string{"path": "b.txt"}),
		script.Call("todo", map[string]any{"todos": []map[string]string{{"content": "TASK", "status": "pending"}}}), script.Say("ok"), where, script.Say("ok"))
	first := open(t, dir, harness.WithSettings(auto), harness.WithClient(model), harness.WithHooks(hook), harness.WithAmbient(harness.Ambients()...))
	run(t, first, "go")
	require.NoError(t, first.Policy.KeepRule(t.Context(), aycoder.Session, "edit_file"))
	require.NoError(t, first.Policy.SetMode(policy.AcceptEdits))
	first.Notify("first", "for the first one")
	before := hooked

	require.Equal(t, alone, look())
	require.Equal(t, before, hooked)

	require.Equal(t, "sub", first.Shell.Dir())
	require.Equal(t, []string{"b\n"}, first.Workspace.Seen().Contents("b.txt"))
	require.Len(t, first.Policy.Rules(policy.Session), 1)
	require.Equal(t, policy.AcceptEdits, first.Policy.Mode())
	require.Equal(t, []string{"first: for the first one"}, run(t, first, "on"))
	requests := model.Requests()
	require.Contains(t, script.LastOutput(requests[len(requests)-1]).Text(), "sub\n")
	require.Contains(t, script.LastOutput(requests[len(requests)-1]).Text(), "HOOKED")
	require.Contains(t, tail(requests[len(requests)-1]), "TASK")
}

// One error lists everything that is missing.
func TestMissing(t *testing.T) {
	c := settings(t, func(c *config.Settings) {
		c.Roles = config.Roles{Main: "anthropic/x", Small: "fast"}
		c.Servers = map[string]config.Server{"wiki": {Command: "wiki"}, "off": {Command: "x", Disabled: true}}
		c.Agent.Budget = "night"
	})
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithSettings(c))
	require.ErrorIs(t, err, harness.ErrNotLinked)
	require.ErrorAs(t, err, new(*aycoder.ConfigError))
	for _, text := range []string{"anthropic/x", "fast", "WithOpener", "servers.wiki", `agent.budget: there is no budget "night"`} {
		require.ErrorContains(t, err, text)
	}
	require.NotContains(t, err.Error(), "servers.off")

	unlinked := func(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
		return nil, fmt.Errorf("provider %s: %w", spec.Provider, harness.ErrNotLinked)
	}
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithOpener(unlinked))
	for _, text := range []string{"models.anthropic/x: provider anthropic", `there is no model "fast"`, "servers.wiki"} {
		require.ErrorContains(t, err, text)
	}
	_, err = harness.New(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "roles.main: no model")
}

// opener opens scripted models, and records what it was asked for.
func opener(specs *[]harness.ModelSpec, models map[string]*script.Model) harness.Opener {
	return func(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
		*specs = append(*specs, spec)
		if m := models[spec.Model]; m != nil {
			return m, nil
		}
		return nil, fmt.Errorf("provider %s: %w", spec.Provider, harness.ErrNotLinked)
	}
}

func TestModels(t *testing.T) {
	c := settings(t, func(c *config.Settings) {
		c.Models = map[string]config.Model{
			"work": {Provider: "acme", Model: "big", KeyEnv: "ACME_KEY", BaseURL: "http://acme.test", Fallbacks: []string{"acme/second"}},
		}
		c.Roles.Main = "work"
	})
	key := func(name string) (string, bool) {
		return map[string]string{"ACME_KEY": "secret"}[name], name == "ACME_KEY"
	}
	var specs []harness.ModelSpec
	big, second := script.New(script.Fail(script.Overloaded())), script.New(script.Say("from the second"))
	models := map[string]*script.Model{"big": big, "second": second}
	rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithLookup(key), harness.WithOpener(opener(&specs, models)))
	run(t, rt, "hello")
	require.Len(t, second.Requests(), 1, "the fallback was asked")
	require.Equal(t, harness.ModelSpec{Provider: "acme", Model: "big", Key: "secret", BaseURL: "http://acme.test"}, specs[0])
	require.Equal(t, harness.ModelSpec{Provider: "acme", Model: "second"}, specs[1], "a fallback does not get the key")

	_, err := harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithOpener(opener(&specs, models)))
	require.ErrorContains(t, err, "models.work.key_env: the variable ACME_KEY is not set")
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithModel("other/x"), harness.WithOpener(opener(&specs, nil)))
	require.ErrorIs(t, err, harness.ErrNotLinked)
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithModel("work"), harness.WithOpener(opener(&specs, nil)))
	require.ErrorContains(t, err, `no model "work"`)
	work := c.Models["work"]
	work.Fallbacks = []string{"work"}
	c.Models["work"] = work
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithLookup(key), harness.WithOpener(opener(&specs, models)))
	require.ErrorContains(t, err, "fallback of itself")
}

// Two models may stand in for each other: each is asked once.
func TestMutualFallbacks(t *testing.T) {
	c := settings(t, func(c *config.Settings) {
		c.Models = map[string]config.Model{
			"one": {Provider: "acme", Model: "one", Fallbacks: []string{"two"}},
			"two": {Provider: "acme", Model: "two", Fallbacks: []string{"one"}},
		}
		c.Roles.Main, c.Agent.Retries = "one", -1
	})
	down := func() *script.Model { return script.New(script.Fail(script.Overloaded())) }
	models := map[string]*script.Model{"one": down(), "two": down()}
	rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithOpener(opener(new([]harness.ModelSpec), models)))
	for _, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "hello"}) {
		if err != nil {
			require.ErrorAs(t, err, new(*aycoder.OverloadedError))
		}
	}
	require.Len(t, models["one"].Requests(), 1)
	require.Len(t, models["two"].Requests(), 1)
}

func TestKeyCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	var specs []harness.ModelSpec
	try := func(command string) error {
		specs = nil
		c := settings(t, func(c *config.Settings) {
			c.Models = map[string]config.Model{"m": {Provider: "acme", Model: "big", KeyCommand: command}}
			c.Roles.Main = "m"
		})
		rt, err := harness.New(t.Context(), t.TempDir(), harness.WithSettings(c),
			harness.WithOpener(opener(&specs, map[string]*script.Model{"big": script.New()})))
		if err == nil {
			err = rt.Close()
		}
		return err
	}
	require.NoError(t, try("echo hush"))
	require.Equal(t, "hush", specs[0].Key)
	for _, command := range []string{"true", "exit 3", "echo hush; echo hush"} {
		err := try(command)
		require.ErrorContains(t, err, "models.m.key_command")
		require.NotContains(t, err.Error(), "hush")
	}
}

func TestStages(t *testing.T) {
	var order []string
	note := func(name string) harness.Stage {
		return harness.Stage{
			Name: name,
			BeforeTurn: func(next aycoder.ContextBuilder) aycoder.ContextBuilder {
				return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
					req, err := next.Build(ctx, in)
					order = append(order, "before "+name)
					return req, err
				})
			},
			AroundTool: func(next aycoder.ToolFunc) aycoder.ToolFunc {
				return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
					order = append(order, "tool "+name)
					return next(ctx, inv)
				}
			},
			AfterTurn: func(_ context.Context, turn *aycoder.TurnFinished) error {
				order = append(order, fmt.Sprintf("after %s %d", name, turn.Turn))
				return nil
			},
		}
	}
	model := script.New(script.Call("list_files", struct{}{}), script.Say("ok"))
	rt := open(t, project(t, nil), harness.WithClient(model), harness.WithStage(note("a")), harness.WithStage(note("b")),
		harness.WithStage(note("todos")), harness.WithStage(harness.Stage{Name: "plan"}))
	var names []string
	for _, s := range rt.Stages() {
		names = append(names, s.Name+": "+s.Points())
	}
	require.Equal(t, []string{
		"a: before turn, around tool, after turn", "b: before turn, around tool, after turn",
		"todos: before turn, around tool, after turn", "redaction: around tool", "repeats: around tool", "compaction: before turn",
	}, names)
	run(t, rt, "hello")
	require.Equal(t, []string{
		"before todos", "before b", "before a", "tool a", "tool b", "tool todos", "after a 1", "after b 1", "after todos 1",
		"before todos", "before b", "before a", "after a 2", "after b 2", "after todos 2",
	}, order)
}

func TestAfterTurnEndsRun(t *testing.T) {
	enough := errors.New("enough")
	model := script.New(script.Call("list_files", struct{}{}), script.Say("never"))
	rt := open(t, project(t, nil), harness.WithClient(model), harness.WithStage(harness.Stage{
		Name: "judge", AfterTurn: func(context.Context, *aycoder.TurnFinished) error { return enough },
	}))
	var res aycoder.Result
	var last error
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NotEqual(t, err == nil, ev == nil)
		last = err
	}
	require.ErrorIs(t, last, enough)
	require.EqualError(t, last, "after turn: judge: enough")
	require.Len(t, model.Requests(), 1)
	require.NoError(t, aycoder.CheckHistory(res.Messages))
	require.Len(t, res.Messages, 3, "the call has its output")
}

func TestPlanGuard(t *testing.T) {
	const task = "Add a flag, rename the option and fix the tests."
	tests := []struct {
		name, prompt string
		files        map[string]string
		want         string
	}{
		{"three verbs", task, nil, "plan: The task has 3 actions (add, rename, fix), and there is no PLAN.md: a plan may help."},
		{"two verbs, often", "Add this, adding that, added and added. Test it.", nil, ""},
		{"a plan is there", task, map[string]string{"PLAN.md": "1. add"}, ""},
		{"inflected", "Dropping the cache, it migrates and modifies the store, and simplified tests.", nil,
			"plan: The task has 5 actions (drop, migrate, modify, simplify, test), and there is no PLAN.md: a plan may help."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := script.New(script.Call("list_files", struct{}{}), script.Say("ok"), script.Say("ok"))
			rt := open(t, project(t, tt.files), harness.WithClient(model))
			require.Equal(t, tt.want, strings.Join(run(t, rt, tt.prompt), "; "))
			require.Equal(t, tt.want != "", strings.Contains(tail(model.Requests()[0]), "PLAN.md first"))
			require.Empty(t, tail(model.Requests()[1]), "only before the first turn")
			require.Empty(t, run(t, rt, tt.prompt), "never twice")
		})
	}
}

func TestRepeats(t *testing.T) {
	read := script.Call("read_file", map[string]any{"path": "a"})
	steps := []script.Step{read, read, read, read, read, read, read, script.Call("read_file", map[string]any{"path": "b"}), script.Say("ok")}
	model := script.New(steps...)
	rt := open(t, project(t, map[string]string{"a": "text", "b": "text"}), harness.WithClient(model))
	run(t, rt, "go")
	var outputs []string
	for _, req := range model.Requests()[1:] {
		var b strings.Builder
		for _, p := range script.LastOutput(req).Parts {
			b.WriteString(p.(*aycoder.Text).Text)
		}
		outputs = append(outputs, b.String())
	}
	for i, out := range outputs[:7] {
		require.Equal(t, i >= 2, strings.Contains(out, "the same result"), "call %d: %s", i+1, out)
	}
	require.Contains(t, outputs[6], "repeated: this call has given the same result 6 times")
	require.NotContains(t, outputs[6], "text\n")
	require.NotContains(t, outputs[7], "the same result")
}

// A limit of money that does not count a model says so, once.
func TestUnpricedModel(t *testing.T) {
	for limit, want := range map[float64]int{0: 0, 1: 1} {
		c := settings(t, func(c *config.Settings) {
			if c.Agent.MaxTokens = 1_000_000; limit > 0 {
				c.Agent.MaxCost = &limit
			}
			c.Budgets = map[string]config.Budget{"tokens": {Tokens: new(int64(1_000_000))}}
			c.Agent.Budget = "tokens"
		})
		answer := script.Say("ok").WithUsage(aycoder.Usage{Input: 10, Output: 10})
		rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithClient(script.New(answer, answer).With(script.WithName("acme", "m1"))))
		notices := append(run(t, rt, "hello"), run(t, rt, "again")...)
		require.Len(t, notices, want)
		if want > 0 {
			require.Equal(t, "budget: budget conversation does not count the cost of acme/m1, whose price is not known", notices[0])
		}
	}
}

func TestBudgetOfNothing(t *testing.T) {
	nothing := 0.0
	c := settings(t, func(c *config.Settings) { c.Agent.MaxCost = &nothing })
	usage := script.Say("ok").WithUsage(aycoder.Usage{Input: 1000, Output: 1000})
	model := script.New(usage, usage).With(script.WithName("anthropic", "claude-sonnet-4-5"))
	rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithClient(model))
	run(t, rt, "hello")
	var last error
	for _, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "again"}) {
		last = err
	}
	require.ErrorAs(t, last, new(*aycoder.LimitError))
	require.ErrorContains(t, last, "agent.max_cost")
}

// A budget of the configuration that has the name of the one of agent.max_cost holds as well, also after a change.
func TestBudgetOfTheSameName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	usage := script.Say("ok").WithUsage(aycoder.Usage{Input: 1000, Output: 1000})
	for text, key := range map[string]string{
		"agent.budget = \"conversation\"\nbudgets.conversation.cost = 0.001\n":                          "budgets.conversation.cost",
		"agent.budget = \"conversation\"\nagent.max_cost = 5.0\nbudgets.conversation.cost = 0.001\n":    "budgets.conversation.cost",
		"agent.budget = \"conversation\"\nagent.max_cost = 0.001\nbudgets.conversation.cost = 5.0\n":    "agent.max_cost",
		"agent.budget = \"conversation\"\nagent.max_cost = 0.001\nbudgets.conversation.tokens = 9000\n": "agent.max_cost",
	} {
		write(text)
		reloader, err := config.NewReloader(config.WithUserFile(file))
		require.NoError(t, err)
		model := script.New(usage, usage).With(script.WithName("anthropic", "claude-sonnet-4-5"))
		rt := open(t, project(t, nil), harness.WithReloader(reloader), harness.WithClient(model))
		require.InDelta(t, 0.001, rt.Budgets["conversation"].Status().Max.Money, 1e-9, text)
		run(t, rt, "hello")
		write("agent.max_turns = 7\n" + text)
		require.NoError(t, rt.Reload(t.Context()))
		require.InDelta(t, 0.001, rt.Budgets["conversation"].Status().Max.Money, 1e-9, text)
		var last error
		for _, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "again"}) {
			last = err
		}
		require.ErrorAs(t, last, new(*aycoder.LimitError), text)
		require.ErrorContains(t, last, key)
	}
}

// The hooks of a configuration see the calls, and can refuse them.
func TestHooks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	dir := project(t, map[string]string{"a.txt": "text\n"})
	user := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(user, []byte(`
[[hooks]]
event = "PreToolUse"
matcher = "Read"
command = "echo not $WHAT >&2; exit 2"
env = ["WHAT"]
`), 0o600))
	loaded, err := config.Load(config.WithUserFile(user))
	require.NoError(t, err)
	what := func(name string) (string, bool) { return "today", name == "WHAT" }
	model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Say("ok"))
	rt := open(t, dir, harness.WithConfig(loaded), harness.WithLookup(what), harness.WithClient(model))
	run(t, rt, "go")
	out := script.LastOutput(model.Requests()[1])
	require.True(t, out.IsError)
	require.Contains(t, out.Parts[0].(*aycoder.Text).Text, "not today")
}

// Hooks of the host run with those of the configuration.
func TestWithHooks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	guard := hooks.Hook{Event: hooks.PreToolUse, Matcher: "Read", Command: "guard", Call: func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"decision":"block","reason":"not this one"}`), nil
	}}
	model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Say("ok"))
	rt := open(t, project(t, map[string]string{"a.txt": "text\n"}), harness.WithClient(model), harness.WithHooks(guard))
	run(t, rt, "go")
	require.Contains(t, script.LastOutput(model.Requests()[1]).Text(), "not this one")
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(model), harness.WithHooks(hooks.Hook{Event: "Never", Command: "x"}))
	require.ErrorContains(t, err, "there is no event")
}

func TestBeginAndEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	ended := filepath.Join(t.TempDir(), "ended")
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	c := settings(t, func(c *config.Settings) {
		c.Hooks = []config.Hook{
			{Event: "SessionStart", Command: "echo The build is broken today."}, {Event: "SessionEnd", Command: "touch " + ended},
		}
		c.Session.Audit = log
	})
	model := script.New(script.Call("list_files", struct{}{}), script.Say("ok"))
	rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithClient(model))
	run(t, rt, "go")
	require.Contains(t, system(model.Requests()[0]), "The build is broken today.")
	require.NoFileExists(t, ended)
	require.NoError(t, rt.Close())
	require.FileExists(t, ended)
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(data), `"name":"list_files"`)

	c.Session.Log = filepath.Join(log, "x")
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithClient(model))
	require.ErrorContains(t, err, "session.log: open ")
	c.Session.Audit = "audit.jsonl"
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithSettings(c), harness.WithClient(model))
	require.ErrorContains(t, err, "session.audit: audit.jsonl is not an absolute path")
}

// All hooks of a conversation are told its id: those before it exists, between runs, in another run and in another
// process.
func TestHooksKnowTheSession(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	seen := filepath.Join(t.TempDir(), "seen")
	events := []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "SessionEnd"}
	c := settings(t, func(c *config.Settings) {
		for _, e := range events {
			c.Hooks = append(c.Hooks, config.Hook{Event: config.Event(e), Command: "cat >>" + seen + "; echo >>" + seen})
		}
	})
	told := func(want string, more ...harness.Option) {
		t.Helper()
		require.NoError(t, os.RemoveAll(seen))
		model := script.New(script.Call("list_files", struct{}{}), script.Say("ok"), script.Say("ok"))
		rt := open(t, project(t, nil), append(more, harness.WithSettings(c), harness.WithClient(model))...)
		run(t, rt, "go")
		run(t, rt, "on")
		_, _, err := rt.Compact(t.Context(), nil, "")
		require.ErrorContains(t, err, "nothing more can be left out")
		require.NoError(t, rt.Close())
		if rt.Session != nil {
			require.Equal(t, want, rt.Session.ID())
		}
		data, err := os.ReadFile(seen)
		require.NoError(t, err)
		ids, had := map[string]bool{}, map[string]bool{}
		for line := range strings.Lines(string(data)) {
			var in struct {
				ID    string `json:"session_id"`
				Event string `json:"hook_event_name"`
				Dir   string `json:"cwd"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &in), line)
			require.Equal(t, rt.Files.Dir(), in.Dir, in.Event)
			ids[in.ID], had[in.Event] = true, true
		}
		require.Len(t, had, len(events))
		require.Len(t, ids, 1, "one id for all")
		require.False(t, ids[""])
		if want != "" {
			require.True(t, ids[want], "%v", ids)
		}
	}
	store := journal.Memory()
	told("mine", harness.WithStore(store, "", session.WithID("mine")))
	told("mine", harness.WithStore(store, "mine"))
	told("") // without a session

	id := filepath.Join(t.TempDir(), "id")
	start := settings(t, func(c *config.Settings) {
		c.Hooks = []config.Hook{{Event: "SessionStart", Command: "cat >" + id}}
	})
	rt := open(t, project(t, nil), harness.WithSettings(start), harness.WithClient(script.New()), harness.WithStore(store, ""))
	data, err := os.ReadFile(id)
	require.NoError(t, err)
	require.Contains(t, string(data), `"session_id":"`+rt.Session.ID()+`"`, "a random id")
}

// Hooks read the mode that is in force, by the name that they know.
func TestHooksReadMode(t *testing.T) {
	var read []string
	hook := hooks.Hook{Event: hooks.UserPromptSubmit, Command: "mode", Call: func(_ context.Context, in []byte) ([]byte, error) {
		var got struct {
			Mode string `json:"permission_mode"`
		}
		err := json.Unmarshal(in, &got)
		read = append(read, got.Mode)
		return nil, err
	}}
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"), script.Say("4"))
	rt := open(t, t.TempDir(), harness.WithClient(model), harness.WithHooks(hook))
	for _, m := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.Plan, policy.FullAuto} {
		require.NoError(t, rt.Policy.SetMode(m))
		run(t, rt, "go")
	}
	require.Equal(t, []string{"default", "acceptEdits", "plan", "bypassPermissions"}, read)
}

// A project brings a hook: it does not run before the user trusts it, and not after it has changed.
func TestHooksOfProject(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	ran := filepath.Join(t.TempDir(), "ran")
	dir := project(t, map[string]string{
		"a.txt": "text\n", "guard.sh": "touch " + ran + "\n",
		".aycoder/config.toml": "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"sh ./guard.sh\"\n",
	})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	read := func(before func()) (*aycoder.ToolOutput, []string) {
		loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust))
		require.NoError(t, err)
		for _, q := range loaded.Questions {
			require.NoError(t, trust.Decide(t.Context(), q, true))
		}
		before()
		model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Say("ok"))
		rt := open(t, dir, harness.WithConfig(loaded), harness.WithClient(model))
		notices := run(t, rt, "go")
		return script.LastOutput(model.Requests()[1]), notices
	}
	out, notices := read(func() {})
	require.False(t, out.IsError)
	require.Contains(t, strings.Join(notices, "; "), "is off until the user trusts it")
	require.NoFileExists(t, ran)

	out, _ = read(func() {})
	require.False(t, out.IsError, "%v", out.Parts[0])
	require.FileExists(t, ran)
	require.NoError(t, os.Remove(ran))

	out, _ = read(func() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "guard.sh"), []byte("touch "+ran+"; true\n"), 0o644))
	})
	require.True(t, out.IsError, "the script has changed since the user trusted it")
	require.NoFileExists(t, ran)
}

func TestDisabledTools(t *testing.T) {
	c := settings(t, func(c *config.Settings) { c.Tools.Disabled = []string{"bash", "bahs"} })
	model := script.New(script.Say("ok"))
	rt := open(t, project(t, nil), harness.WithSettings(c), harness.WithClient(model))
	require.Equal(t, []string{`config: tools.disabled: there is no tool "bahs"`}, run(t, rt, "hi"))
	for _, spec := range model.Requests()[0].Tools {
		require.NotEqual(t, "bash", spec.Name)
	}
}

// A rule for a tool that is not there covers nothing, which its author must know.
func TestRulesForMisnamedTools(t *testing.T) {
	rule := func(tool string) string { return "[[approval.rules]]\naction = \"deny\"\ntool = \"" + tool + "\"\n" }
	note := func(tool, meant string) string {
		return fmt.Sprintf("config: approval.rules: there is no tool %q; did you mean %s?", tool, meant)
	}
	user := filepath.Join(t.TempDir(), "config.toml")
	var text strings.Builder
	text.WriteString("tools.disabled = [\"fetch\"]\nagent_servers.acme.command = \"acme\"\n")
	for _, tool := range []string{
		"bash", "fetch", "network", "recall", "ba*", "{edit_file,bash}", "read_fil?", "mcp__docs__read", "deploy", "acme_permission", // which are or may be there
		"Bash", "Bash", "Edit", "wriet_file", "bash:rm *", "Bash(rm *)",
	} {
		text.WriteString(rule(tool))
	}
	hook := func(event, matcher string) string {
		return "[[hooks]]\nevent = \"" + event + "\"\ncommand = \"true\"\nmatcher = \"" + matcher + "\"\n"
	}
	text.WriteString(hook("PreToolUse", "Bash|bash|Edit|NotebookEdit") + hook("PreToolUse", "Ba.*") + hook("Stop", "bsah") + hook("PostToolUse", "") +
		hook("PreToolUse", "bsah|Edit") + hook("PreToolUse", "Bash(rm *)") + hook("PreToolUse", "Bash(Output)?"))
	require.NoError(t, os.WriteFile(user, []byte(text.String()), 0o600))
	follow, err := config.NewReloader(config.WithUserFile(user))
	require.NoError(t, err)
	agent := func(name string, _ config.AgentServer, _ func() tools.FS, _ *tools.Masker, _ ...aycoder.Option) (aycoder.Tool, error) {
		return aycoder.NewTool(name, "Works.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) { return nil, nil })
	}
	rt := open(t, project(t, nil), harness.WithReloader(follow), harness.WithAgentServers(agent), harness.WithClient(script.New(script.Say("ok"), script.Say("ok"))))
	require.Equal(t, []string{
		note("Bash", "bash"), note("Edit", "edit_file, multi_edit, apply_patch"), note("wriet_file", "write_file"),
		note("bash:rm *", "bash, and the rest as the pattern"), note("Bash(rm *)", "bash, and the rest as the pattern"),
		`config: hooks: there is no tool "bsah"; did you mean bash?`,
		`config: hooks: there is no tool "Bash(rm *)"; did you mean bash, and a command that looks at the rest?`,
	}, run(t, rt, "hi"))

	require.NoError(t, os.WriteFile(user, []byte(text.String()+rule("Read")), 0o600))
	require.NoError(t, rt.Reload(t.Context()))
	require.Equal(t, []string{note("Read", "read_file"), "config: the configuration has changed:\napproval.rules: 16 entries → 17 entries"}, run(t, rt, "hi"))
}

// The conversation, the list of tasks and the mode survive the runtime.
func TestSession(t *testing.T) {
	dir := project(t, map[string]string{"a.txt": "old\n"})
	store := journal.Memory()
	model := script.New(script.Call("todo", map[string]any{"todos": []map[string]string{{"content": "one", "status": "pending"}}}), script.Say("ok"))
	rt := open(t, dir, harness.WithClient(model), harness.WithStore(store, ""))
	run(t, rt, "plan it")
	id := rt.Session.ID()
	require.NoError(t, rt.Close())
	require.NoError(t, rt.Close(), "closing twice")

	model = script.New(script.Say("ok"))
	rt = open(t, dir, harness.WithClient(model), harness.WithStore(store, id))
	run(t, rt, "go on")
	require.Len(t, model.Requests()[0].Messages, 5)
	require.Contains(t, tail(model.Requests()[0]), "[ ] one")
}

func TestConformance(t *testing.T) {
	if timed.Reduced(t) || testing.Short() {
		t.Skip("takes long; the suites of the loop and of sessions run with the race detector")
	}
	agenttest.TestAgent(t, func(t testing.TB, s agenttest.AgentSetup) aycoder.Agent {
		rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(s.Model), harness.WithApprover(s.Approver),
			harness.WithStage(harness.Stage{Name: "compaction"}), // which is more than the contract asks for
			harness.WithTools(s.Tools...), harness.WithToolFilter(func([]aycoder.Tool) []aycoder.Tool { return s.Tools }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rt.Close() })
		return rt.Agent
	})
}

// Nothing is left of runtimes that were opened and closed a thousand times.
func TestNothingIsLeft(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc:", err)
		}
		return len(entries)
	}
	dir, models := project(t, loud), catalog.Default()
	for name, opts := range map[string]func(t *testing.T) []harness.Option{
		"defaults": func(*testing.T) []harness.Option {
			return []harness.Option{harness.WithAmbient(harness.Ambients()...), harness.WithStore(journal.Memory(), "")}
		},
		"fakes": fakes,
	} {
		t.Run(name, func(t *testing.T) {
			more := opts(t)
			one := func() {
				model := script.New(script.Say("ok"))
				rt, err := harness.New(t.Context(), dir, append(more, harness.WithClient(model), harness.WithCatalog(models))...)
				require.NoError(t, err)
				run(t, rt, "hello")
				require.NoError(t, rt.Close())
			}
			one()
			n := 60
			if testing.Short() || timed.Reduced(t) {
				n = 20
			}
			if set, err := strconv.Atoi(os.Getenv("AYCODER_RUNTIMES")); err == nil {
				n = set
			}
			files, routines := open(), runtime.NumGoroutine()
			for range n {
				one()
			}
			require.Equal(t, files, open())
			// One that has done its work may not be gone yet.
			timed.Until(t, func() bool { return runtime.NumGoroutine() <= routines }, "goroutines to end")
			t.Logf("%d runtimes", n)
		})
	}
}

// fakes replaces every part: files, commands, models, tools, stages, servers, the decisions and the texts. Each is
// asked to work, and none is closed by the runtime but the connection to the server.
func fakes(t *testing.T) []harness.Option {
	ws, err := workspace.Open(project(t, loud))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ws.Close()) })
	tool, err := aycoder.NewTool("fake", "Does nothing.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("nothing"), nil
	})
	require.NoError(t, err)
	opened, closed := 0, 0
	t.Cleanup(func() { require.Equal(t, opened, closed) })
	opts := []harness.Option{
		harness.WithEnvironment(harness.Environment{Files: ws, Exec: fakeExec{}}), harness.WithUserFiles(ws), harness.WithAmbient(harness.Ambients()...),
		harness.WithCode(func(*harness.Runtime) (harness.Code, error) { return harness.Code{}, nil }),
		harness.WithSmallClient(script.New()), harness.WithSummaryClient(script.New()),
		harness.WithToolFilter(func([]aycoder.Tool) []aycoder.Tool { return []aycoder.Tool{tool} }),
		harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })),
		harness.WithQuestions(aycoder.DenyAsks), harness.WithStore(journal.Memory(), ""),
		harness.WithOpener(func(context.Context, harness.ModelSpec) (aycoder.ModelClient, error) { return script.New(), nil }),
		harness.WithServers(func(context.Context, string, config.Server) (harness.ToolSource, error) {
			opened++
			return &source{closer: func() error { closed++; return nil }}, nil
		}),
		harness.WithSettings(settings(t, func(s *config.Settings) {
			s.Servers = map[string]config.Server{"fake": {Command: "fake"}}
			s.Hooks = []config.Hook{{Event: "SessionStart", Command: "fake"}, {Event: "SessionEnd", Command: "fake"}}
			s.Agent.MaxCost = new(1.0)
		})),
	}
	for _, name := range []string{"base", "environment", "map", "instructions", "skills", "session"} {
		opts = append(opts, harness.WithSection(name, "a fake"))
	}
	nothing := func(next aycoder.ContextBuilder) aycoder.ContextBuilder { return next }
	for _, name := range []string{"todos", "lessons", "plan", "redaction", "repeats", "hooks", "instructions", "compaction"} {
		opts = append(opts, harness.WithStage(harness.Stage{Name: name, Effect: "nothing", BeforeTurn: nothing}))
	}
	return opts
}

// fakeExec runs nothing.
type fakeExec struct{}

func (fakeExec) Run(context.Context, *tools.ExecCommand) (*tools.ExecResult, error) {
	return &tools.ExecResult{}, nil
}

// Secrets in texts of the project are masked before the model reads them, in the system prompt, in lessons and in
// what a stage adds to the output of a tool.
func TestRedaction(t *testing.T) {
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	dir := project(t, map[string]string{
		"AGENTS.md": "Push with " + secret + ".", "sub/AGENTS.md": "Pull with " + secret + ".", "sub/a.txt": "text",
		".aycoder/lessons.md": "- [ ] PATTERN: a push fails\n  RULE: use " + secret + " for it\n",
	})
	for _, on := range []bool{true, false} {
		model := script.New(script.Call("read_file", map[string]any{"path": "sub/a.txt"}), script.Say("ok"))
		rt := open(t, dir, harness.WithClient(model), harness.WithAmbient(harness.Instructions, harness.Lessons),
			harness.WithSettings(settings(t, func(s *config.Settings) { s.Tools.Mask = on })))
		run(t, rt, "go")
		reqs := model.Requests()
		require.Contains(t, system(reqs[1]), "Push with ")
		require.Equal(t, !on, strings.Contains(system(reqs[1]), secret))
		require.Contains(t, tail(reqs[1]), "a push fails")
		require.Equal(t, !on, strings.Contains(tail(reqs[1]), secret))
		require.Contains(t, script.LastOutput(reqs[1]).Text(), "Pull with ")
		require.Equal(t, !on, strings.Contains(script.LastOutput(reqs[1]).Text(), secret))
	}
}

func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	model := script.New(script.Call("write_file", map[string]string{"path": "hello.txt", "content": "hello\n"}), script.Say("Done."))
	rt, err := harness.New(context.Background(), dir, harness.WithClient(model))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	for ev, err := range rt.Run(context.Background(), aycoder.Input{Prompt: "Write a greeting."}) {
		if err != nil {
			panic(err)
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			fmt.Println(q.Request.Tool, q.Allow())
		}
	}
	for _, s := range rt.Stages() {
		fmt.Printf("%-11s %-24s %s\n", s.Name, s.Points(), s.Effect)
	}
	// Output:
	// write_file true
	// todos       before turn              adds the list of tasks to the end of each request
	// plan        before turn              suggests a plan for a task of several steps, once
	// redaction   around tool              masks secrets in the outputs of tools
	// repeats     around tool              stops a call that gives the same result again and again
	// compaction  before turn              keeps requests within the window of the model
}

func ExampleWithIgnored() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"main.go", "notes.swp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text\n"), 0o600); err != nil {
			panic(err)
		}
	}
	rt, err := harness.New(context.Background(), dir, harness.WithClient(script.New()), harness.WithIgnored("*.swp"))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	for ev, err := range rt.Call(context.Background(), "glob", []byte(`{"pattern": "*"}`)) {
		if err != nil {
			panic(err)
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Print(f.Output.Text())
		}
	}
	// Output:
	// main.go
	// [1 entry left out: ignored by git, version control or dependencies; name such a directory as the path to see into it]
}

func ExampleWithAskUser() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	model := script.New(script.Call("ask_user", map[string]any{"question": "Which port?", "options": []string{"80", "8080"}}), script.Say("Done."))
	rt, err := harness.New(context.Background(), dir, harness.WithClient(model),
		harness.WithAskUser(func(_ context.Context, q tools.Question) (tools.Answer, error) {
			fmt.Println(q.Text, q.Options)
			return tools.Answer{Options: []int{1}}, nil
		}))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	for ev, err := range rt.Run(context.Background(), aycoder.Input{Prompt: "Write a server."}) {
		if err != nil {
			panic(err)
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			fmt.Print(f.Output.Text())
		}
	}
	// Output:
	// Which port? [80 8080]
	// The user chose: 8080
}

// A hook is trusted with the scripts of its project, so it does not run among those of another directory.
func TestHooksOfAnotherDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	ran := filepath.Join(t.TempDir(), "ran")
	dir := project(t, map[string]string{
		"guard.sh": "true\n", "sub/guard.sh": "touch " + ran + "\n", "sub/a.txt": "text\n",
		".aycoder/config.toml": "[[hooks]]\nevent = \"PreToolUse\"\ncommand = \"sh ./guard.sh\"\n",
	})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	loaded, err := config.Load(config.WithProject(dir), config.WithTrust(trust))
	require.NoError(t, err)
	for _, q := range loaded.Questions {
		require.NoError(t, trust.Decide(t.Context(), q, true))
	}
	loaded, err = config.Load(config.WithProject(dir), config.WithTrust(trust))
	require.NoError(t, err)
	require.Len(t, loaded.Config.Hooks, 1)
	model := script.New(script.Call("read_file", map[string]any{"path": "a.txt"}), script.Say("ok"))
	rt := open(t, filepath.Join(dir, "sub"), harness.WithConfig(loaded), harness.WithClient(model))
	run(t, rt, "go")
	require.True(t, script.LastOutput(model.Requests()[1]).IsError)
	require.NoFileExists(t, ran)
}

// A host puts agents around that of the runtime, the last one outside, and each hears of the end before the session closes.
func TestAgentMiddleware(t *testing.T) {
	store := journal.Memory()
	var said []string
	around := func(name string) harness.Option {
		return harness.WithAgentMiddleware(func(rt *harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
			id := rt.Session.ID()
			return func(next aycoder.Agent) aycoder.Agent {
					return agentFunc(func(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
						said = append(said, name+" runs")
						return next.Run(ctx, in, opts...)
					})
				}, func() error {
					require.NotEmpty(t, id)
					said = append(said, name+" ends")
					return errors.New(name)
				}
		})
	}
	rt, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New(script.Say("x"))), harness.WithStore(store, ""),
		around("inner"), around("outer"))
	require.NoError(t, err)
	run(t, rt, "hi")
	require.NotZero(t, rt.Session.Head())
	caller, err := rt.Caller("list_files", []byte(`{}`))
	require.NoError(t, err)
	for _, err := range caller.Run(t.Context(), aycoder.Input{Prompt: "x"}) {
		require.NoError(t, err)
	}
	err = rt.Close()
	require.ErrorContains(t, err, "inner")
	require.ErrorContains(t, err, "outer")
	require.Equal(t, []string{"outer runs", "inner runs", "outer runs", "inner runs", "outer ends", "inner ends"}, said)

	_, err = harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithAgentMiddleware(
		func(*harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) { return nil, nil }))
	require.ErrorContains(t, err, "WithAgentMiddleware")
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithAgentMiddleware(
		func(*harness.Runtime) (func(aycoder.Agent) aycoder.Agent, func() error) {
			return func(aycoder.Agent) aycoder.Agent { return nil }, nil
		}))
	require.ErrorContains(t, err, "WithAgentMiddleware")
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithTools(nil))
	require.ErrorContains(t, err, "WithTools: is nil")
	_, err = harness.New(t.Context(), t.TempDir(), harness.WithAgentMiddleware(nil))
	require.ErrorContains(t, err, "WithAgentMiddleware")
}

type agentFunc func(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error]

func (f agentFunc) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return f(ctx, in, opts...)
}
