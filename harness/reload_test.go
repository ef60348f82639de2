package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/providers/script"
)

// turnClock is set by hand. It is far behind the times of files, so that only it decides when a file rests.
type turnClock struct{ now time.Time }

func (c *turnClock) Now() time.Time                              { return c.now }
func (c *turnClock) AfterFunc(time.Duration, func()) func() bool { return func() bool { return true } }

// version returns a file in which everything that can change has the same number.
func version(n int) string {
	return fmt.Sprintf(`approval.mode = "full-auto"
agent.max_turns = %[1]d
budgets.night.tokens = %[1]d000000
[[approval.rules]]
action = "deny"
tool = "bash"
pattern = "make %[1]d"
[[hooks]]
event = "Notification"
command = "true %[1]d"
`, n)
}

// seen returns the number that everything has.
func seen(t *testing.T, rt *harness.Runtime) int {
	n := rt.Config().Config.Agent.MaxTurns
	require.Equal(t, fmt.Sprintf("make %d", n), rt.Policy.Rules(policy.User)[0].Pattern)
	require.Equal(t, fmt.Sprintf("true %d", n), rt.Hooks.Hooks()[0].Command)
	require.EqualValues(t, n*1_000_000, rt.Budgets["night"].Status().Max.Tokens)
	return n
}

// saves are ways in which programs save a file, as steps of which each is made inside of a turn of 300 ms.
func saves(t *testing.T, name string) [][]func(text string) {
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o644)) }
	return [][]func(string){
		{func(text string) { write(name, text) }},
		{func(text string) {
			write(name+"~", text)
			require.NoError(t, os.Rename(name+"~", name))
		}},
		{func(text string) { // a valid file that is not the whole, and then the rest
			write(name, text[:60])
		}, func(text string) { write(name, text) }},
		{func(string) { write(name, "") }, func(text string) { write(name, text) }},
		{func(string) { require.NoError(t, os.Remove(name)) }, func(text string) { write(name, text) }},
		{func(text string) { // equal length and equal time
			info, err := os.Stat(name)
			require.NoError(t, err)
			write(name, text)
			require.NoError(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
		}},
		{func(text string) {
			for i := range 100 {
				write(name, version(2000+i))
			}
			write(name, text)
		}},
		{func(text string) {
			other := filepath.Join(t.TempDir(), "other.toml")
			write(other, text)
			if err := os.Symlink(other, name+"~"); err != nil {
				write(name, text) // a system without links
				return
			}
			require.NoError(t, os.Rename(name+"~", name))
		}},
		{func(text string) {
			write(name+".text", text)
			vi, err := exec.LookPath("vi")
			if err == nil {
				err = exec.Command(vi, "-e", "-s", "-c", "%d", "-c", "0read "+name+".text", "-c", "wq", name).Run()
			}
			if err != nil {
				t.Logf("vi is not used: %v", err)
				write(name, text)
			}
		}},
	}
}

// Each save is one reload of its last state, between two turns, and as a whole. Every turn saves a step between two
// looks at what is in force.
func TestReloadBetweenTurns(t *testing.T) {
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("AYCODER_RELOAD_ROUNDS")); err == nil {
		rounds = n
	}
	name := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(name, []byte(version(1000)), 0o644))
	clock := &turnClock{time.Now().Add(-time.Hour)}
	src, err := config.NewReloader(config.WithUserFile(name), config.WithClock(clock))
	require.NoError(t, err)

	var plan []func() // what each turn does
	want := []int{1000}
	for range rounds {
		for _, way := range saves(t, name) {
			n := 1000 + len(want)
			want = append(want, n)
			for _, step := range way {
				plan = append(plan, func() { step(version(n)) })
			}
			plan = append(plan, func() {}, func() {}, func() {})
		}
	}
	type args struct{ Turn int }
	var rt *harness.Runtime
	var got []int
	limit, limits, inTurns := 1000, []int(nil), []int(nil)
	save, err := aycoder.NewTool("save", "", func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
		before := seen(t, rt)
		plan[in.Turn]()
		clock.now = clock.now.Add(300 * time.Millisecond)
		require.Equal(t, before, seen(t, rt), "nothing changes inside of a turn")
		inTurns = append(inTurns, before)
		if len(got) == 0 || got[len(got)-1] != before {
			got = append(got, before)
		}
		return aycoder.TextResult(strconv.Itoa(in.Turn)), nil
	})
	require.NoError(t, err)
	var steps []script.Step
	for i := range plan {
		steps = append(steps, script.Call("save", args{i}))
	}
	model := script.New(append(steps, script.Say("done"))...)
	rt = open(t, t.TempDir(), harness.WithClient(model), harness.WithReloader(src), harness.WithTools(save))
	notices := 0
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "save"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.SetupChanged:
			limit = ev.MaxTurns
		case *aycoder.TurnFinished:
			limits = append(limits, limit)
		case *aycoder.Notice:
			if !strings.Contains(ev.Text, "has changed") {
				continue // a warning about so many turns
			}
			require.Contains(t, ev.Text, fmt.Sprintf("agent.max_turns: %d → %d", want[notices], want[notices+1]))
			notices++
		}
	}
	require.Len(t, model.Requests(), len(plan)+1)
	require.Equal(t, inTurns, limits[:len(plan)], "the limits of each turn belong to the rest")
	require.Equal(t, want, append(got, seen(t, rt))[:len(want)])
	require.Equal(t, len(want)-1, notices, "each save is one reload")
}

// reloading returns a runtime with a reloader for a user's file, and a function that saves the file and reloads.
func reloading(t *testing.T, text string, opts ...harness.Option) (*harness.Runtime, func(text string) error) {
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"), script.Say("4"))
	return reloadingModels(t, text, append([]harness.Option{harness.WithClient(model)}, opts...)...)
}

// reloadingModels is reloading without a model.
func reloadingModels(t *testing.T, text string, opts ...harness.Option) (*harness.Runtime, func(text string) error) {
	name := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	src, err := config.NewReloader(config.WithUserFile(name))
	require.NoError(t, err)
	rt := open(t, t.TempDir(), append([]harness.Option{harness.WithReloader(src)}, opts...)...)
	return rt, func(text string) error {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return rt.Reload(t.Context())
	}
}

func TestReloadTells(t *testing.T) {
	rt, save := reloading(t, "agent.max_turns = 20\n")
	require.NoError(t, save("agent.max_turns = 30\ntools.memory = 1000000\n"))
	require.Equal(t, []string{"config: the configuration has changed:\nagent.max_turns: 20 → 30\n" +
		"tools.memory: none → 1000000 (takes effect when started again)"}, run(t, rt, "one"))

	require.ErrorAs(t, save("agent.max_turn = 40\n"), new(*config.InvalidError))
	require.Equal(t, 30, rt.Config().Config.Agent.MaxTurns)
	notices := run(t, rt, "two")
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "agent.max_turn is not a key")
	require.Empty(t, run(t, rt, "three"), "it is told once")

	require.NoError(t, save("agent.max_turns = 20\n"))
	require.Equal(t, 20, rt.Config().Config.Agent.MaxTurns)
	require.Len(t, run(t, rt, "four"), 1)

	plain := open(t, t.TempDir(), harness.WithClient(script.New()))
	require.ErrorContains(t, plain.Reload(t.Context()), "WithReloader")
	require.Nil(t, plain.Config())
}

// A reload loosens nothing that the host or the user of the session has set.
func TestReloadKeepsWhatTheHostSets(t *testing.T) {
	deny := policy.Rule{Action: policy.RuleDeny, Tool: "bash", Pattern: "make host"}
	rt, save := reloading(t, "approval.mode = \"ask\"\n", harness.WithPolicyOptions(policy.WithMode(policy.Ask), policy.WithRules(policy.User, deny)))
	require.NoError(t, save("approval.mode = \"full-auto\"\n"))
	require.Equal(t, policy.Ask, rt.Policy.Mode())
	require.Equal(t, []policy.Rule{deny}, rt.Policy.Rules(policy.User))
	require.Contains(t, run(t, rt, "one")[0], "takes effect when started again")

	rt, save = reloading(t, "approval.mode = \"ask\"\n")
	require.NoError(t, save("approval.mode = \"accept-edits\"\n"))
	require.Equal(t, policy.AcceptEdits, rt.Policy.Mode())
	require.NoError(t, rt.Policy.SetMode(policy.Plan))
	require.NoError(t, save("approval.mode = \"full-auto\"\n"))
	require.Equal(t, policy.Plan, rt.Policy.Mode(), "the user has chosen it since")

	for _, tt := range []struct{ host, want int }{{20, 20}, {5, 5}} {
		rt, save = reloading(t, "agent.max_turns = 20\n", harness.WithLoopOptions(aycoder.WithLimits(aycoder.Limits{Turns: tt.host})))
		require.NoError(t, save("agent.max_turns = 30\n"))
		require.Equal(t, tt.want, turns(t, rt))
	}
	rt, save = reloading(t, "agent.max_turns = 20\n")
	require.NoError(t, save("agent.max_turns = 30\n"))
	require.Equal(t, 30, turns(t, rt))
}

// turns returns the limit of a run.
func turns(t *testing.T, rt *harness.Runtime) int {
	limit := rt.Loop.StartInput().MaxTurns
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.SetupChanged); ok {
			limit = c.MaxTurns
		}
	}
	return limit
}

// A file of the project that changes is not trusted any more: what it restricted stays until the user decides.
func TestReloadOfAChangedProject(t *testing.T) {
	dir := project(t, map[string]string{config.ProjectFile: "agent.max_turns = 20\ncontext.max_tokens = 20000\nagent.system = \"FIRST\"\ntools.disabled = [\"fetch\"]\n[[approval.rules]]\naction = \"deny\"\ntool = \"bash\"\npattern = \"make x\"\n"})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	src, err := config.NewReloader(config.WithProject(dir), config.WithTrust(trust))
	require.NoError(t, err)
	decide := func(trusted bool) {
		for _, q := range src.Current().Questions {
			require.NoError(t, trust.Decide(t.Context(), q, trusted))
		}
		require.NoError(t, src.Reload().Err)
	}
	decide(true)
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"))
	rt := open(t, dir, harness.WithClient(model), harness.WithReloader(src))
	require.Len(t, rt.Policy.Rules(policy.Project), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, config.ProjectFile), []byte("agent.max_turns = 40\ncontext.max_tokens = 40000\nagent.system = \"SECOND\"\n"), 0o644))
	require.NoError(t, rt.Reload(t.Context()))
	require.Len(t, rt.Policy.Rules(policy.Project), 1)
	require.Equal(t, 20, turns(t, rt))
	window, _ := rt.Window()
	require.EqualValues(t, 20000, window)
	require.Len(t, rt.Config().Questions, 1)
	late := open(t, dir, harness.WithClient(script.New()), harness.WithReloader(src)) // made while it is not decided
	require.False(t, slices.ContainsFunc(late.ToolsNow(), func(tool aycoder.Tool) bool { return tool.Spec().Name == "fetch" }))
	decide(true)
	require.NoError(t, rt.Reload(t.Context()))
	require.Empty(t, rt.Policy.Rules(policy.Project))
	require.Equal(t, 40, turns(t, rt))
	window, _ = rt.Window()
	require.EqualValues(t, 40000, window)
	reqs := model.Requests()
	require.Contains(t, system(reqs[0]), "FIRST")
	require.Empty(t, tail(reqs[0]))
	require.False(t, offers(reqs[0], "fetch"))
	require.Contains(t, tail(reqs[1]), "SECOND")
}

// The model is told at once of what changes in the prompt, and the prompt stays as it was sent.
func TestReloadOfThePrompt(t *testing.T) {
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"), script.Say("4"))
	rt, save := reloadingModels(t, "", harness.WithClient(model))
	run(t, rt, "one")
	require.NoError(t, save("agent.system = \"Speak like a pirate.\"\nagent.rules = true\nagent.thinking = 2000\n"))
	notices := run(t, rt, "two")
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "agent.rules: false → true")
	require.Contains(t, notices[0], "agent.system: ")
	require.NotContains(t, notices[0], "takes effect")
	require.NoError(t, save("agent.rules = true\n"))
	run(t, rt, "three")
	require.NoError(t, save(""))
	run(t, rt, "four")
	reqs := model.Requests()
	for _, req := range reqs {
		require.Equal(t, system(reqs[0]), system(req), "the prompt stays as it was sent")
	}
	require.Equal(t, []int{0, 2000, 0, 0}, []int{reqs[0].Thinking, reqs[1].Thinking, reqs[2].Thinking, reqs[3].Thinking})
	require.Empty(t, tail(reqs[0]))
	require.Contains(t, tail(reqs[1]), "Speak like a pirate.")
	require.Contains(t, tail(reqs[1]), "correct: after 2 failures")
	require.NotContains(t, tail(reqs[2]), "pirate")
	require.Contains(t, tail(reqs[2]), "correct: after 2 failures")
	require.Empty(t, tail(reqs[3]))

	rt, save = reloading(t, "", harness.WithSection("base", "HOST"))
	require.NoError(t, save("agent.system = \"Speak like a pirate.\"\n"))
	require.Contains(t, run(t, rt, "one")[0], "takes effect when started again")
}

// A tool that is switched off is gone from the next turn on, also for agents, and comes back.
func TestReloadOfDisabledTools(t *testing.T) {
	served, err := aycoder.NewTool("mcp__s__a", "", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("done"), nil
	})
	require.NoError(t, err)
	src := &source{closer: func() error { return nil }, tools: []aycoder.Tool{served}}
	connect := func(context.Context, string, config.Server) (harness.ToolSource, error) { return src, nil }
	var steps []script.Step
	for range 3 {
		steps = append(steps, script.Call("subagent", map[string]string{"task": "look"}), script.Say("inner"), script.Say("done"))
	}
	model := script.New(append(steps, script.Say("done"))...)
	const server = "approval.mode = \"full-auto\"\nservers.s.command = \"s\"\ntools.disabled = [\"fetch\"%s]\n"
	rt, save := reloadingModels(t, fmt.Sprintf(server, ""), harness.WithClient(model), harness.WithServers(connect))
	notices := slices.Clone(run(t, rt, "one"))
	src.err = errors.New("no answer") // which does not keep its tool
	require.NoError(t, save(fmt.Sprintf(server, ", \"bash\", \"mcp__s__a\"")))
	notices = append(notices, run(t, rt, "two")...)
	decide := func() string {
		data, err := rt.Approver.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: "bash", Args: []byte(`{"command":"ls"}`)}, &aycoder.ToolSpec{Name: "bash"}).MarshalJSON()
		require.NoError(t, err)
		return string(data)
	}
	require.Contains(t, decide(), "the configuration has switched this tool off", "an agent at work may still have it")
	src.err = nil
	require.NoError(t, save(fmt.Sprintf(server, "")))
	require.Contains(t, decide(), "allow")
	notices = append(notices, run(t, rt, "three")...)
	for i, req := range model.Requests() {
		there := i/3 != 1 // the second of three is that of the agent
		for name, want := range map[string]bool{"fetch": false, "bash": there, "mcp__s__a": there, "read_file": true} {
			require.Equal(t, want, offers(req, name), "%s in request %d", name, i)
		}
	}
	require.Len(t, model.Requests(), 9)
	require.NotContains(t, strings.Join(notices, "\n"), "takes effect")
	require.NoError(t, save("approval.mode = \"full-auto\"\nservers.s.command = \"s\"\n"))
	require.Contains(t, strings.Join(run(t, rt, "four"), "\n"), "takes effect when started again", "New has left fetch out")
}

// A tool of a server that was switched off from the start comes back, so the notice does not say that it does not.
func TestReloadOfServedToolsOffFromTheStart(t *testing.T) {
	named := func(name string) aycoder.Tool {
		tool, err := aycoder.NewTool(name, "", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		})
		require.NoError(t, err)
		return tool
	}
	src := &source{closer: func() error { return nil }, tools: []aycoder.Tool{named("mcp__s__a"), named("mcp__s__b"), named("mcp__s__c")}}
	connect := func(context.Context, string, config.Server) (harness.ToolSource, error) { return src, nil }
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"))
	const server = "[servers.s]\ncommand = \"s\"\ntools = [\"mcp__s__a\", \"mcp__s__b\"]\n[tools]\ndisabled = [%s]\n"
	rt, save := reloadingModels(t, fmt.Sprintf(server, `"mcp__s__a", "mcp__s__b", "mcp__s__c"`), harness.WithClient(model), harness.WithServers(connect))
	run(t, rt, "one")
	require.NoError(t, save(fmt.Sprintf(server, `"mcp__s__b", "mcp__s__c"`)))
	require.NoError(t, save(fmt.Sprintf(server, `"mcp__s__c"`))) // before the server is asked again
	notices := strings.Join(run(t, rt, "two"), "\n")
	require.Contains(t, notices, "tools.disabled")
	require.NotContains(t, notices, "takes effect")
	require.NoError(t, save(fmt.Sprintf(server, "")))
	require.Contains(t, strings.Join(run(t, rt, "three"), "\n"), "takes effect when started again", "the user does not want c of the server")
	for i, there := range []bool{false, true, true} {
		req := model.Requests()[i]
		require.Equal(t, there, offers(req, "mcp__s__a") && offers(req, "mcp__s__b"), i)
		require.False(t, offers(req, "mcp__s__c"), i)
	}
}

// offers reports whether a request has a tool.
func offers(req *aycoder.Request, name string) bool {
	return slices.ContainsFunc(req.Tools, func(s *aycoder.ToolSpec) bool { return s.Name == name })
}

// A new command works at once, and the system prompt stays as it was sent.
func TestReloadOfTheLibrary(t *testing.T) {
	src, err := config.NewReloader()
	require.NoError(t, err)
	dir := project(t, loud)
	model := script.New(script.Say("1"), script.Say("2"))
	rt := open(t, dir, harness.WithClient(model), harness.WithReloader(src), harness.WithAmbient(harness.Skills))
	run(t, rt, "one")
	require.Nil(t, rt.Library.Command("new"))
	for name, text := range map[string]string{
		".claude/commands/new.md": "Do the new thing.\n", ".claude/skills/two/SKILL.md": "---\nname: two\ndescription: SECOND\n---\nDo it.\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	run(t, rt, "two")
	require.NotNil(t, rt.Library.Command("new"))
	require.NotNil(t, rt.Library.Skill("two"))
	require.Equal(t, system(model.Requests()[0]), system(model.Requests()[1]))
	require.NoError(t, os.Remove(filepath.Join(dir, ".claude/commands/new.md")))
	require.NoError(t, rt.Reload(t.Context()))
	require.Nil(t, rt.Library.Command("new"))
}

func ExampleRuntime_ToolsNow() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "config.toml")
	src, err := config.NewReloader(config.WithUserFile(name))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	rt, err := harness.New(ctx, dir, harness.WithClient(script.New()), harness.WithReloader(src))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	if err := os.WriteFile(name, []byte("tools.disabled = ['bash', 'fetch']\n"), 0o600); err != nil {
		panic(err)
	}
	before := len(rt.ToolsNow())
	if err := rt.Reload(ctx); err != nil {
		panic(err)
	}
	fmt.Println("left out:", before-len(rt.ToolsNow()))
	// Output:
	// left out: 2
}

func ExampleWithReloader() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "config.toml")
	src, err := config.NewReloader(config.WithUserFile(name))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	rt, err := harness.New(ctx, dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithReloader(src))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	if err := os.WriteFile(name, []byte("agent.max_turns = 80\n"), 0o600); err != nil {
		panic(err)
	}
	if err := rt.Reload(ctx); err != nil { // the command /reload; without it, the next turns find the change
		panic(err)
	}
	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "hello"}) {
		if n, ok := ev.(*aycoder.Notice); ok {
			fmt.Println(n.Text)
		}
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// the configuration has changed:
	// agent.max_turns: 50 → 80
}
