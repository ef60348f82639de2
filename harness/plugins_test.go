package harness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

// lint is a plugin with a part of each kind.
func lint(t *testing.T) string {
	return project(t, map[string]string{
		"plugin.json": `{"name": "lint", "tools": [{"name": "echo", "description": "Says it again.", "effect": "read",
			"command": ["sh", "${CLAUDE_PLUGIN_ROOT}/echo.sh"]}]}`,
		"echo.sh":         "cat >/dev/null\nprintf '{\"text\": \"in %s\"}' \"$(basename \"$PWD\")\"\ntouch echoed 2>/dev/null\nexit 0\n",
		"commands/fix.md": "Fix $ARGUMENTS well\n", "commands/run.md": "See !`touch called`\n", "skills/style/SKILL.md": "---\nname: style\ndescription: STYLED\n---\nShort.\n",
		"hooks/hooks.json": `{"hooks": {"PreToolUse": [{"matcher": "list_files", "hooks": [{"type": "command",
			"command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/no.sh"]}]}]}}`,
		"no.sh":     "echo NOLIST >&2\ntouch hooked\nexit 2\n",
		".mcp.json": `{"mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db", "args": ["${TOKEN}"]}}}`,
	})
}

func installed(t *testing.T, from string, trust bool) (*plugin.Store, *plugin.Plugin) {
	t.Helper()
	store := plugin.NewStore(t.TempDir())
	st, err := store.Stage(t.Context(), plugin.Source{Path: from})
	require.NoError(t, err)
	require.NoError(t, st.Install(t.Context()))
	if trust {
		require.NoError(t, store.Trust(t.Context(), st.Plugin, true))
	}
	return store, st.Plugin
}

// answered runs a prompt, allows all calls that are asked about, and returns their names and all outputs.
func answered(t *testing.T, a aycoder.Agent) (asked, out []string) {
	t.Helper()
	for ev, err := range a.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ApprovalRequested:
			asked = append(asked, ev.Request.Tool)
			ev.Allow()
		case *aycoder.ToolFinished:
			out = append(out, ev.Output.Text())
		}
	}
	return asked, out
}

func TestPlugins(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	from, dir := lint(t), t.TempDir()
	calls := []script.Step{
		script.Call("plugin__lint__echo", map[string]any{}), script.Call("list_files", map[string]any{}),
		script.Call("skill", map[string]any{"name": "lint:style"}), script.Say("ok"),
	}

	// An untrusted plugin does nothing.
	store, p := installed(t, from, false)
	model := script.New(calls...)
	rt := open(t, dir, harness.WithClient(model), harness.WithPlugins(store))
	require.Nil(t, rt.Library)
	require.Nil(t, rt.Hooks)
	_, out := answered(t, rt)
	require.Contains(t, out[0], "plugin__lint__echo")
	require.NotContains(t, out[1], "NOLIST")
	require.NoFileExists(t, filepath.Join(dir, "hooked"))
	rt = open(t, dir, harness.WithClient(script.New(script.Say("ok"))), harness.WithPlugins(store))
	require.Equal(t, []string{"plugins: lint is off, since nobody has said that it is trusted"}, run(t, rt, "go"))

	// A trusted one works, under the policy.
	require.NoError(t, store.Trust(t.Context(), p, true))
	model = script.New(calls...)
	var server config.Server
	rt = open(t, dir, harness.WithClient(model), harness.WithPlugins(store), harness.WithLookup(func(string) (string, bool) { return "t0", true }),
		harness.WithServers(func(_ context.Context, name string, s config.Server) (harness.ToolSource, error) {
			require.Equal(t, "lint_db", name)
			server = s
			return nil, nil
		}))
	require.Equal(t, []string{"t0"}, server.Args)
	require.Equal(t, filepath.Join(p.Dir, "db"), server.Command)
	asked, out := answered(t, rt)
	require.Equal(t, []string{"plugin__lint__echo"}, asked, "the effect that a plugin claims decides nothing")
	require.Equal(t, "in "+filepath.Base(dir), out[0])
	if r, err := tools.CheckSandbox(t.Context(), tools.NoSandbox(), tools.SandboxCall{ReadOnly: true}); err == nil && r.ReadOnly {
		require.NoFileExists(t, filepath.Join(dir, "echoed"), "but holds it to reading")
	}
	require.Contains(t, out[1], "NOLIST")
	require.Contains(t, out[2], "of the plugin lint, which the user trusts")
	require.Contains(t, system(model.Requests()[0]), "lint:style: STYLED")
	var typed harness.Typed
	for _, err := range rt.Expand(t.Context(), "/lint:fix it", &typed) {
		require.NoError(t, err)
	}
	require.Equal(t, "Fix it well", strings.TrimSpace(typed.Input.Prompt))

	// A change while the runtime works counts at once, also for the scripts of commands.
	require.NoError(t, store.Enable(t.Context(), "lint", false))
	for _, err := range rt.Expand(t.Context(), "/lint:run", &typed) {
		require.ErrorContains(t, err, "is switched off")
	}
	require.NoFileExists(t, filepath.Join(dir, "called"))
	for _, change := range []func(){
		func() { require.NoError(t, store.Enable(t.Context(), "lint", false)) },
		func() {
			require.NoError(t, store.Enable(t.Context(), "lint", true))
			require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "echo.sh"), []byte("touch evil\n"), 0o644))
		},
	} {
		model := script.New(calls...)
		change()
		rt := open(t, dir, harness.WithClient(model), harness.WithPlugins(store))
		_, out := answered(t, rt)
		require.NotContains(t, out[0], "in "+filepath.Base(dir))
		require.NotContains(t, out[1], "NOLIST")
	}
	require.NoFileExists(t, filepath.Join(dir, "evil"))
}

// A plugin that is changed, switched off or removed between two calls does not run again, and its hook refuses.
func TestPluginChangesDuringRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for name, change := range map[string]func(*plugin.Store, *plugin.Plugin) error{
		"changed": func(_ *plugin.Store, p *plugin.Plugin) error {
			return os.WriteFile(filepath.Join(p.Dir, "no.sh"), []byte("touch evil"), 0o644)
		},
		"off":       func(s *plugin.Store, _ *plugin.Plugin) error { return s.Enable(context.Background(), "lint", false) },
		"untrusted": func(s *plugin.Store, p *plugin.Plugin) error { return s.Trust(context.Background(), p, false) },
		"removed":   func(s *plugin.Store, _ *plugin.Plugin) error { return s.Remove(context.Background(), "lint") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, p := installed(t, lint(t), true)
			model := script.New(
				script.Call("plugin__lint__echo", map[string]any{}),
				script.Func(func(*aycoder.Request) script.Step {
					if err := change(store, p); err != nil {
						t.Error(err)
					}
					return script.Call("plugin__lint__echo", map[string]any{})
				}),
				script.Call("list_files", map[string]any{}), script.Say("ok"))
			_, out := answered(t, open(t, dir, harness.WithClient(model), harness.WithPlugins(store)))
			require.Equal(t, "in "+filepath.Base(dir), out[0])
			require.Contains(t, out[1], "lint")
			require.NotEqual(t, out[0], out[1])
			require.NotContains(t, out[2], "plugin.json")
			require.NoFileExists(t, filepath.Join(dir, "evil"))
			require.NoFileExists(t, filepath.Join(dir, "hooked"))
		})
	}
}

func ExampleWithPlugins() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	from, err := os.MkdirTemp("", "plugin")
	must(err)
	defer os.RemoveAll(from)
	must(os.Mkdir(filepath.Join(from, "commands"), 0o755))
	must(os.WriteFile(filepath.Join(from, "plugin.json"), []byte(`{"name": "team"}`), 0o644))
	must(os.WriteFile(filepath.Join(from, "commands", "review.md"), []byte("Review $1."), 0o644))
	data, err := os.MkdirTemp("", "data")
	must(err)
	defer os.RemoveAll(data)

	store := plugin.NewStore(data)
	staged, err := store.Stage(ctx, plugin.Source{Path: from})
	must(err)
	defer staged.Discard()
	fmt.Println(strings.Join(staged.Plugin.Brings(), "\n")) // for the user to decide
	must(staged.Install(ctx))
	must(store.Trust(ctx, staged.Plugin, true))

	dir, err := os.MkdirTemp("", "project")
	must(err)
	defer os.RemoveAll(dir)
	rt, err := harness.New(ctx, dir, harness.WithClient(script.New()), harness.WithPlugins(store))
	must(err)
	defer rt.Close()
	var typed harness.Typed
	for _, err := range rt.Expand(ctx, "/team:review main.go", &typed) {
		must(err)
	}
	fmt.Println(typed.Input.Prompt)
	// Output:
	// command /team:review
	// Review main.go.
}
