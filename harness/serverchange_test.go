package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// connections are servers, each of which has one tool that is called like its command.
type connections struct {
	t   *testing.T
	log []string
	err error
}

func (c *connections) connect(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
	c.log = append(c.log, "open "+s.Command)
	if err := errors.Join(c.err, ctx.Err()); err != nil {
		return nil, err
	}
	tool, err := aycoder.NewTool("mcp__"+name+"__"+s.Command, "", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("done"), nil
	})
	require.NoError(c.t, err)
	return &source{tools: []aycoder.Tool{tool}, closer: func() error { c.log = append(c.log, "close "+s.Command); return nil }}, nil
}

// took returns what has happened since the last call.
func (c *connections) took() []string {
	log := c.log
	c.log = nil
	return log
}

// Servers come, change and go between two turns of a run, and never in one.
func TestReloadOfServers(t *testing.T) {
	c := &connections{t: t}
	const auto = "approval.mode = \"full-auto\"\n"
	var save func(string) error
	var seen [][]string // what has happened before each change, and in it
	step := func(text string) func() {
		return func() {
			seen = append(seen, c.took())
			require.NoError(t, save(auto+text))
			require.Empty(t, c.log)
		}
	}
	change, sub := script.Call("change", struct{}{}), script.Call("subagent", map[string]string{"task": "look"})
	tool := changing(t, []func(){
		step("servers.a.command = \"one\"\n"), step("servers.a.command = \"two\"\nservers.b.command = \"three\"\n"),
		step("# another line\nservers.b.command = \"three\"\nservers.a.command = \"two\"\n"),
		step("servers.b.command = \"three\"\n[servers.a]\ncommand = \"two\"\ndisabled = true\n"), step(""),
	})
	model := script.New(change, change, change, sub, script.Say("inner"), change, change, script.Say("done"))
	rt, save := reloadingModels(t, auto, harness.WithTools(tool), harness.WithClient(model), harness.WithServers(c.connect),
		harness.WithServer("own", config.Server{Command: "own"}))
	notices := strings.Join(run(t, rt, "go"), "\n")
	require.Equal(t, [][]string{{"open own"}, {"open one"}, {"close one", "open two", "open three"}, nil, {"close two"}}, seen)
	require.Equal(t, []string{"close three"}, c.took())
	var tools [][]string
	for _, req := range model.Requests() {
		tools = append(tools, serverTools(req))
	}
	both := []string{"mcp__own__own", "mcp__a__two", "mcp__b__three"}
	require.Equal(t, [][]string{
		{"mcp__own__own"}, {"mcp__own__own", "mcp__a__one"}, both, both, both, both, {"mcp__own__own", "mcp__b__three"}, {"mcp__own__own"},
	}, tools)
	require.NotContains(t, notices, "takes effect")
	require.Contains(t, notices, "servers.a.command: none → …")
	require.NoError(t, rt.Close())
	require.Equal(t, []string{"close own"}, c.took())
}

// A runtime that began without servers marks the first ones as a stranger's, also for agents, and has the search of tools.
func TestReloadOfFirstServer(t *testing.T) {
	c := &connections{t: t}
	model := script.New(script.Say("1"), script.Call("subagent", map[string]string{"task": "look"}), script.Say("inner"), script.Say("2"), script.Say("3"))
	rt, save := reloadingModels(t, "", harness.WithClient(model), harness.WithServers(c.connect))
	run(t, rt, "one")
	require.NoError(t, save("approval.mode = \"full-auto\"\nservers.a.command = \"one\"\n"))
	require.Equal(t, []string{"open one"}, c.took(), "no run works")
	run(t, rt, "two")
	reqs := model.Requests()
	const mark = "Strangers have written the tools"
	require.NotContains(t, system(reqs[0])+tail(reqs[0]), mark)
	require.Equal(t, system(reqs[0]), system(reqs[1]))
	require.Contains(t, tail(reqs[1]), mark)
	require.Contains(t, system(reqs[2]), mark, "the agent")
	for _, req := range reqs[1:] {
		require.Equal(t, []string{"mcp__a__one"}, serverTools(req))
	}
	require.Equal(t, "a", rt.Servers()[0].Name)
	require.NoError(t, save("approval.mode = \"full-auto\"\nservers.b.command = \"two\"\ntools.disabled = [\"bash\"]\n"))
	now := (&aycoder.Request{})
	for _, tool := range rt.ToolsNow() {
		now.Tools = append(now.Tools, new(tool.Spec()))
		require.NotEqual(t, "bash", tool.Spec().Name)
	}
	require.Equal(t, []string{"mcp__b__two"}, serverTools(now))
	for _, err := range rt.Call(t.Context(), "mcp__b__two", json.RawMessage("{}")) {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"close one", "open two"}, c.took())
	require.NoError(t, save("approval.mode = \"full-auto\"\nservers.a.command = \"one\"\n"))
	c.took()

	// One that cannot be reached is a notice, and is not tried again as long as it stays as it is.
	c.err = errors.New("no route")
	require.NoError(t, save("servers.a.command = \"other\"\n"))
	require.Equal(t, []string{"close one", "open other"}, c.took())
	require.Contains(t, strings.Join(run(t, rt, "three"), "\n"), "server a is off: no route")
	require.NoError(t, rt.Reload(t.Context()))
	require.Empty(t, c.took())
	require.Equal(t, []harness.ServerState{{Name: "a", State: "off: no route"}}, rt.Servers())
}

// A server of a project never starts before the user has decided about it as it is now.
func TestReloadOfProjectServers(t *testing.T) {
	c := &connections{t: t}
	dir := project(t, nil)
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	user := filepath.Join(t.TempDir(), "config.toml")
	src, err := config.NewReloader(config.WithProject(dir), config.WithUserFile(user), config.WithTrust(trust), config.WithForms(harness.ServerForms()...))
	require.NoError(t, err)
	rt := open(t, dir, harness.WithClient(script.New()), harness.WithReloader(src), harness.WithServers(c.connect))
	reload := func() []string {
		t.Helper()
		require.NoError(t, rt.Reload(t.Context()))
		return c.took()
	}
	decide := func() {
		t.Helper()
		require.NotEmpty(t, src.Current().Questions)
		for _, q := range src.Current().Questions {
			require.NoError(t, trust.Decide(t.Context(), q, true))
		}
	}
	put(t, dir, ".mcp.json", `{"mcpServers":{"s":{"command":"one"}}}`)
	require.Empty(t, reload())
	decide()
	require.Equal(t, []string{"open one"}, reload())
	put(t, dir, ".mcp.json", `{"mcpServers":{"s":{"command":"two"}}}`)
	require.Equal(t, []string{"close one"}, reload())
	decide()
	require.Equal(t, []string{"open two"}, reload())
	require.Equal(t, []string{"mcp__s__two"}, rt.Servers()[0].Tools)

	// Restrictions of a changed file of the project stay, so that no server starts meanwhile.
	put(t, dir, config.ProjectFile, "agent.max_turns = 20\n")
	reload()
	decide()
	reload()
	put(t, dir, config.ProjectFile, "agent.max_turns = 30\n")
	put(t, filepath.Dir(user), "config.toml", "servers.mine.command = \"mine\"\n")
	require.Empty(t, reload())
	decide()
	require.Equal(t, []string{"open mine"}, reload())

	// A reload that is broken off is made up for.
	put(t, filepath.Dir(user), "config.toml", "servers.mine.command = \"late\"\n")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, rt.Reload(ended))
	require.Equal(t, []string{"close mine"}, c.took())
	require.Equal(t, []string{"open late"}, reload())

	// A runtime that is closed starts none.
	require.NoError(t, rt.Close())
	require.Equal(t, []string{"close late", "close two"}, c.took())
	put(t, filepath.Dir(user), "config.toml", "servers.mine.command = \"later\"\n")
	require.Empty(t, reload())
}

// A server to which the connection was made is kept, also if the reload was cancelled then.
func TestReloadCancelledBehindConnection(t *testing.T) {
	c := &connections{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	src, file := reloader(t)
	var rt *harness.Runtime
	rt = open(t, t.TempDir(), harness.WithReloader(src), harness.WithClient(script.New(script.Say("done"))),
		harness.WithServers(func(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
			defer cancel()
			require.Equal(t, "one", rt.Config().Config.Servers[name].Command, "the configuration can be read meanwhile")
			return c.connect(ctx, name, s)
		}))
	put(t, filepath.Dir(file), "config.toml", "servers.a.command = \"one\"\n")
	require.NoError(t, rt.Reload(ctx))
	require.Error(t, ctx.Err())
	require.NoError(t, rt.Reload(t.Context()))
	require.Equal(t, []string{"open one"}, c.took())
	require.Equal(t, []harness.ServerState{{Name: "a", State: "on", Tools: []string{"mcp__a__one"}}}, rt.Servers())
	require.NotContains(t, strings.Join(run(t, rt, "go"), "\n"), "is off")
}

// The configuration never closes a server of a plugin, whatever its own servers are called.
func TestReloadBesidePlugin(t *testing.T) {
	c := &connections{t: t}
	store, _ := installed(t, lint(t), true)
	rt, save := reloadingModels(t, "", harness.WithPlugins(store), harness.WithClient(script.New(script.Say("done"))),
		harness.WithLookup(func(string) (string, bool) { return "", true }),
		harness.WithServers(func(ctx context.Context, name string, s config.Server) (harness.ToolSource, error) {
			s.Command = filepath.Base(s.Command)
			return c.connect(ctx, name, s)
		}))
	require.NoError(t, save("servers.lint_db.command = \"mine\"\n"))
	require.Contains(t, strings.Join(run(t, rt, "go"), "\n"), "server lint_db is off: a plugin has one of this name")
	require.NoError(t, save(""))
	require.Equal(t, []string{"open db"}, c.took())
	require.Equal(t, []harness.ServerState{{Name: "lint_db", State: "on", Tools: []string{"mcp__lint_db__db"}}}, rt.Servers())
}

// A server that the host has passed is not replaced by one that the configuration gets later: the host may rely on it.
func TestReloadBesideHost(t *testing.T) {
	c := &connections{t: t}
	rt, save := reloadingModels(t, "", harness.WithClient(script.New(script.Say("done"))), harness.WithServers(c.connect),
		harness.WithServer("a", config.Server{Command: "host"}))
	require.Equal(t, []string{"open host"}, c.took())
	require.NoError(t, save("servers.a.command = \"mine\"\n"))
	require.Contains(t, strings.Join(run(t, rt, "go"), "\n"), "servers.a.command: none → … (takes effect when started again)")
	require.NoError(t, save(""))
	require.Empty(t, c.took())
	require.Equal(t, []harness.ServerState{{Name: "a", State: "on", Tools: []string{"mcp__a__host"}}}, rt.Servers())
}

// An agent whose file names tools of a server gets them when the server comes.
func TestReloadOfAgentsTools(t *testing.T) {
	c := &connections{t: t}
	src, file := reloader(t)
	model := script.New(script.Call("subagent", map[string]string{"task": "look", "agent": "rev"}), script.Say("inner"), script.Say("done"))
	dir := project(t, map[string]string{".claude/agents/rev.md": "---\nname: rev\ndescription: Reviews.\ntools: mcp__a__one, mcp__a__two\n---\nReview.\n"})
	rt := open(t, dir, harness.WithReloader(src), harness.WithClient(model), harness.WithAmbient(harness.Skills), harness.WithServers(c.connect))
	put(t, filepath.Dir(file), "config.toml", "approval.mode = \"full-auto\"\nservers.a.command = \"one\"\n")
	require.NoError(t, rt.Reload(t.Context()))
	notices := strings.Join(run(t, rt, "go"), "\n")
	require.Equal(t, []string{"mcp__a__one"}, serverTools(model.Requests()[1]))
	require.Equal(t, 1, strings.Count(notices, "cannot have the tool mcp__a__one"), "before the server came")
	require.Equal(t, 2, strings.Count(notices, "cannot have the tool mcp__a__two"))
}

// reloader returns one for an empty file, and its name.
func reloader(t *testing.T) (*config.Reloader, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.toml")
	put(t, filepath.Dir(name), "config.toml", "\n")
	src, err := config.NewReloader(config.WithUserFile(name))
	require.NoError(t, err)
	return src, name
}
