package harness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/tools"
)

func serverTools(req *aycoder.Request) (names []string) {
	for _, t := range req.Tools {
		if strings.HasPrefix(t.Name, "mcp__") {
			names = append(names, t.Name)
		}
	}
	return names
}

// Tools of a server that come and go are taken up with the next turn, also by a subagent. A tool that the
// configuration leaves out stays out, and so does one that has the name of another tool.
func TestServerToolsChange(t *testing.T) {
	src := &source{closer: func() error { return nil }}
	make := func(name string) aycoder.Tool {
		tool, err := aycoder.NewTool(name, "Changes the tools.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		return tool
	}
	first := []aycoder.Tool{make("mcp__s__a"), make("mcp__s__off"), make("read_file")}
	second := []aycoder.Tool{make("mcp__s__b"), make("mcp__s__off"), make("mcp__s__hidden"), make("bash")}
	src.tools = first
	args := map[string]string{"task": "go"}
	model := script.New(script.Call("mcp__s__a", nil), script.Call("subagent", args), script.Say("sub"), script.Say("ok"), script.Say("again"))
	rt := open(t, t.TempDir(), harness.WithClient(model),
		harness.WithServers(func(context.Context, string, config.Server) (harness.ToolSource, error) { return src, nil }),
		harness.WithToolFilter(func(all []aycoder.Tool) (out []aycoder.Tool) {
			for _, tool := range all {
				if tool.Spec().Name != "mcp__s__hidden" {
					out = append(out, tool)
				}
			}
			return out
		}),
		harness.WithSettings(settings(t, func(s *config.Settings) {
			s.Servers = map[string]config.Server{"s": {Command: "s"}}
			s.Tools.Disabled = []string{"mcp__s__off"}
		})))
	var changes []*aycoder.SetupChanged
	var told []string
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			src.tools = second
		case *aycoder.ApprovalRequested:
			ev.Allow()
		case *aycoder.SetupChanged:
			changes = append(changes, ev)
		case *aycoder.Notice:
			told = append(told, ev.Text)
		}
	}
	const leftOut = "tool %s of server s is left out: there is another of this name"
	require.Equal(t, []string{fmt.Sprintf(leftOut, "read_file"), fmt.Sprintf(leftOut, "bash")}, told)
	require.Equal(t, []string{"mcp__s__b"}, rt.Servers()[0].Tools)
	require.Len(t, changes, 1)
	require.Equal(t, []string{"mcp__s__b"}, changes[0].Added)
	require.Equal(t, []string{"mcp__s__a"}, changes[0].Removed)
	reqs := model.Requests()
	require.Len(t, reqs, 4)
	require.Equal(t, []string{"mcp__s__a"}, serverTools(reqs[0]))
	for _, req := range reqs { // also that of the subagent
		marked := func(text *aycoder.Text) bool { return strings.HasPrefix(text.Text, "Strangers have written the tools") }
		require.True(t, slices.ContainsFunc(req.System, marked), "definitions are the texts of servers")
	}
	for _, req := range reqs[1:] { // the second one is that of the subagent
		require.Equal(t, []string{"mcp__s__b"}, serverTools(req))
	}
	require.Equal(t, len(reqs[0].Tools), len(reqs[1].Tools))

	// If the source does not answer, the tools stay.
	src.err, src.notices = errors.New("no answer"), []string{"tool c is left out"}
	require.Equal(t, []string{"servers: server s: tool c is left out", "servers: the tools of server s stay as they were: no answer"}, run(t, rt, "go")[:2])
	require.Equal(t, []string{"mcp__s__b"}, serverTools(model.Requests()[4]))
}

// Of two servers with a tool of one name, the second one's is told to be left out, also after a reload, and comes when the
// first one goes.
func TestServersWithOneName(t *testing.T) {
	connect := func(_ context.Context, name string, _ config.Server) (harness.ToolSource, error) {
		tool, err := aycoder.NewTool("mcp__same", "Of "+name+".", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		})
		return &source{tools: []aycoder.Tool{tool}, closer: func() error { return nil }}, err
	}
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"))
	rt, save := reloadingModels(t, "servers.a.command = \"a\"\n", harness.WithClient(model), harness.WithServers(connect))
	run(t, rt, "go")
	require.NoError(t, save("servers.a.command = \"a\"\nservers.b.command = \"b\"\n"))
	require.Contains(t, run(t, rt, "go"), "servers: tool mcp__same of server b is left out: there is another of this name")
	require.Empty(t, rt.Servers()[1].Tools)
	require.NoError(t, save("servers.b.command = \"b\"\n"))
	run(t, rt, "go")
	for i, of := range []string{"a", "a", "b"} {
		specs := model.Requests()[i].Tools
		require.Equal(t, "Of "+of+".", specs[slices.IndexFunc(specs, func(s *aycoder.ToolSpec) bool { return s.Name == "mcp__same" })].Description)
	}
}

// A tool that a server does not offer any more leaves its name to that of another server. The host's filter may ask the
// runtime for what it has.
func TestServersFreeName(t *testing.T) {
	sources := map[string]*source{}
	connect := func(_ context.Context, name string, _ config.Server) (harness.ToolSource, error) {
		tool, err := aycoder.NewTool("mcp__same", "Of "+name+".", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("done"), nil
		})
		sources[name] = &source{tools: []aycoder.Tool{tool}, closer: func() error { return nil }}
		return sources[name], err
	}
	var rt *harness.Runtime
	filter := func(all []aycoder.Tool) []aycoder.Tool {
		if rt != nil {
			require.NotEmpty(t, rt.ToolsNow())
		}
		return all
	}
	model := script.New(script.Say("1"), script.Say("2"), script.Say("3"))
	rt = open(t, t.TempDir(), harness.WithClient(model), harness.WithServers(connect), harness.WithToolFilter(filter),
		harness.WithServer("a", config.Server{Command: "a"}), harness.WithServer("b", config.Server{Command: "b"}))
	require.Equal(t, []string{"servers: tool mcp__same of server b is left out: there is another of this name"}, run(t, rt, "go"))
	sources["a"].tools = nil
	require.Empty(t, run(t, rt, "go"))
	require.Equal(t, []string{"mcp__same"}, rt.Servers()[1].Tools)
	specs := model.Requests()[1].Tools
	require.Equal(t, "Of b.", specs[slices.IndexFunc(specs, func(s *aycoder.ToolSpec) bool { return s.Name == "mcp__same" })].Description)
}

// A host may make a call of any tool, and it is decided about as one of the model.
func TestCall(t *testing.T) {
	rt := open(t, project(t, map[string]string{"a.txt": "hello"}), harness.WithClient(script.New()))
	call := func(tool, args string) (asked int, out string, err error) {
		for ev, e := range rt.Call(t.Context(), tool, []byte(args)) {
			switch ev := ev.(type) {
			case *aycoder.ApprovalRequested:
				asked++
			case *aycoder.ToolFinished:
				out = ev.Output.Text()
			}
			err = e
		}
		return asked, out, err
	}
	asked, out, err := call("read_file", `{"path":"a.txt"}`)
	require.NoError(t, err)
	require.Zero(t, asked)
	require.Contains(t, out, "hello")
	asked, out, err = call("write_file", `{"path":"b.txt","content":"x"}`)
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	require.NotContains(t, out, "wrote")
	require.NoFileExists(t, filepath.Join(rt.Files.Dir(), "b.txt"))
	_, _, err = call("nothing", `{}`)
	require.ErrorContains(t, err, "tool nothing")
}

// A server of the host is one of the user's, unless the configuration has one of its name.
func TestServersOfHost(t *testing.T) {
	var got []string
	connect := func(_ context.Context, name string, s config.Server) (harness.ToolSource, error) {
		got = append(got, name+" "+s.Command)
		return nil, nil
	}
	c := settings(t, func(s *config.Settings) { s.Servers = map[string]config.Server{"both": {Command: "configured"}} })
	rt := open(t, t.TempDir(), harness.WithClient(script.New(script.Say("ok"))), harness.WithSettings(c), harness.WithServers(connect),
		harness.WithServer("both", config.Server{Command: "passed"}), harness.WithServer("own", config.Server{Command: "passed"}))
	require.Equal(t, []string{"both configured", "own passed"}, got)
	require.Contains(t, strings.Join(run(t, rt, "go"), "\n"), "server both is the one of the configuration")
	require.Len(t, c.Servers, 1, "the host's configuration is as it was")

	_, err := harness.New(t.Context(), t.TempDir(), harness.WithClient(script.New()), harness.WithServer("own", config.Server{Command: "x"}))
	require.ErrorIs(t, err, harness.ErrNotLinked)
}

// A program of a server of the project may be started again for each call, so a call needs what the user has trusted.
func TestChangedServerRefuses(t *testing.T) {
	calls := 0
	var connected []string
	tool, err := aycoder.NewTool("mcp__s__a", "Counts.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		calls++
		return aycoder.TextResult("done"), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	src := &source{closer: func() error { return nil }, tools: []aycoder.Tool{tool}}
	file := "[servers.s]\ncommand = \"./serve.sh\"\n"
	dir := project(t, map[string]string{".aycoder/config.toml": file, "serve.sh": "one\n"})
	trust := config.NewTrust(filepath.Join(t.TempDir(), "trust.json"))
	reloader, err := config.NewReloader(config.WithProject(dir), config.WithTrust(trust))
	require.NoError(t, err)
	decide := func(trusted bool) {
		reloader.Reload()
		for _, q := range reloader.Current().Questions {
			require.NoError(t, trust.Decide(t.Context(), q, trusted))
		}
		reloader.Reload()
	}
	decide(true)
	var steps []script.Step
	for range 4 {
		steps = append(steps, script.Call("mcp__s__a", nil), script.Say("ok"))
	}
	model := script.New(steps...)
	rt := open(t, dir, harness.WithClient(model), harness.WithReloader(reloader),
		harness.WithServers(func(_ context.Context, _ string, s config.Server) (harness.ToolSource, error) {
			connected = append(connected, s.Command)
			return src, nil
		}))
	out := func() string {
		run(t, rt, "go")
		return script.LastOutput(model.Requests()[len(model.Requests())-1]).Text()
	}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644))
	}
	require.Equal(t, "done", out())

	write("serve.sh", "two\n")
	require.Contains(t, out(), "is not trusted any more")
	require.Equal(t, 1, calls)

	write(".aycoder/config.toml", "# another line\n"+file)
	decide(true)
	require.Equal(t, "done", out(), "the user trusts the same server again")

	decide(true)
	write(".aycoder/config.toml", "[servers.s]\ncommand = \"./other.sh\"\n")
	require.NoError(t, rt.Reload(t.Context()))
	require.Empty(t, rt.Servers(), "it is another server")
	require.Equal(t, []string{"./serve.sh"}, connected)
	decide(true)
	require.Equal(t, "done", out(), "the user trusts the other one")
	require.Equal(t, []string{"./serve.sh", "./other.sh"}, connected)
	require.Equal(t, 3, calls)
}

// namedFiles are files that say which wrapping they are.
type namedFiles struct {
	tools.FS
	name string
}

func TestFileMiddleware(t *testing.T) {
	wrap := func(name string) harness.Option {
		return harness.WithFileMiddleware(func(inner tools.FS) tools.FS { return &namedFiles{inner, name} })
	}
	rt := open(t, project(t, map[string]string{"a": "text"}), harness.WithClient(script.New(script.Say("ok"))),
		harness.WithStore(journal.Memory(), ""), wrap("inner"), wrap("outer"))
	outer := rt.Files.(*namedFiles)
	require.Equal(t, "outer", outer.name)
	inner := outer.FS.(*namedFiles)
	require.Equal(t, "inner", inner.name)
	require.IsType(t, &snapshot.Files{}, inner.FS)
	require.NotNil(t, rt.Workspace)
	_, err := harness.New(t.Context(), t.TempDir(), harness.WithFileMiddleware(nil))
	require.ErrorContains(t, err, "WithFileMiddleware")
}
