package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
)

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

const skill = "---\nname: build\ndescription: Builds it.\n---\nRun make.\n"

func TestManifest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "AGENTS.md", "hello @more.md\n")
	write(t, dir, "more.md", "imported\n")
	write(t, dir, ".claude/skills/build/SKILL.md", skill)
	write(t, dir, ".claude/commands/go.md", "Go on.\n")
	write(t, dir, ".claude/agents/a.md", "---\nname: a\ndescription: b\n---\nYou are a.\n")
	h, url := hub(t)
	serving(t, url, dir, WithVersion("1.2"))
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	m := env.Manifest()
	require.Equal(t, []string{dir, "1.2"}, []string{m.Root, m.Version})
	require.Equal(t, []string{"files", "commands"}, m.Tools)
	require.Equal(t, []Text{ // the digests are those of sha256sum
		{"agent", "a", ".claude/agents/a.md", "abdc9966"},
		{"command", "go", ".claude/commands/go.md", "398edbd8"},
		{"skill", "build", ".claude/skills/build/SKILL.md", "9da0e00b"},
		{"instructions", "", "AGENTS.md", "d1837fef"},
		{"instructions", "", "more.md", "db4ad2be"},
	}, short(m.Texts))

	require.Empty(t, env.Changes(t.Context()))
	write(t, dir, ".claude/skills/build/SKILL.md", skill+"And more.\n")
	write(t, dir, ".claude/skills/new/SKILL.md", skill)
	require.NoError(t, os.Remove(filepath.Join(dir, "AGENTS.md")))
	want := []string{`"skill" .claude/skills/build/SKILL.md has changed`, `"instructions" AGENTS.md is gone`, `"instructions" more.md is gone`}
	require.Equal(t, want, env.Changes(t.Context()))
	require.Equal(t, want, env.Changes(t.Context())) // it stays as it was pinned
	_, err = env.Texts().Open(".claude/skills/build/SKILL.md")
	require.Equal(t, KindChanged, kindOf(err), "%v", err)
	require.Equal(t, want, env.Pin(t.Context()))
	require.Empty(t, env.Changes(t.Context()))
	f, err := env.Texts().Open(".claude/skills/build/SKILL.md")
	require.NoError(t, err)
	f.Close()
}

func short(all []Text) (out []Text) {
	for _, t := range all {
		t.Digest = t.Digest[:8]
		out = append(out, t)
	}
	return out
}

// A runner that comes back with another directory is not taken for the same workspace.
func TestAnotherRoot(t *testing.T) {
	h, url := hub(t)
	first, second := t.TempDir(), t.TempDir()
	write(t, second, "f", "text")
	stop := serving(t, url, first)
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	_ = stop()
	serving(t, url, second)
	_, err = h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	_, err = env.ReadDir(t.Context(), ".")
	require.Error(t, err)
	_, err = env.Within(t.Context()).Open("f")
	require.Error(t, err)
	_, err = env.Run(t.Context(), &tools.ExecCommand{Script: "echo x >f", Root: first, Dir: first})
	require.Error(t, err)
	require.Error(t, env.Err())
	require.Equal(t, first, env.Dir())
	require.ErrorContains(t, &Error{Err: os.ErrNotExist}, "runner")
	for _, lines := range [][]string{env.Changes(t.Context()), env.Pin(t.Context())} {
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], second)
	}
}

// After a restart of the runner the same session goes on, and is told.
func TestAnotherProcess(t *testing.T) {
	h, url := hub(t)
	dir := t.TempDir()
	stop := serving(t, url, dir, WithVersion("1"))
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	_ = stop()
	serving(t, url, dir, WithVersion("2"))
	want := []string{`the version of the runner was "1" and is now "2"`, "another process has taken the place of the runner"}
	require.Equal(t, want, env.Changes(t.Context()))
	require.Equal(t, want, env.Pin(t.Context()))
	require.Empty(t, env.Changes(t.Context()))
}

// A whole agent, whose machine is behind a connection that it has dialed. A skill that changes while a run works is not
// read, and the user and the model are told.
func TestAgentOnRunner(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "AGENTS.md", "Say please.")
	write(t, dir, ".claude/skills/build/SKILL.md", skill)
	h, url := hub(t)
	serving(t, url, dir)
	env, err := h.Environment(t.Context(), "laptop")
	require.NoError(t, err)
	call := func() script.Step { return script.Call("skill", map[string]any{"name": "build"}) }
	m := script.New(call(), script.Call("bash", map[string]any{"command": "echo changed >>.claude/skills/build/SKILL.md"}), call(), script.Say("done"),
		call(), script.Say("done"))
	rt, err := harness.New(t.Context(), env.Dir(), harness.WithClient(m), harness.WithAmbient(harness.Ambients()...),
		harness.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict { return aycoder.Allow() })),
		harness.WithEnvironment(harness.Environment{
			Files: env, Exec: env, System: env.Manifest().System, Texts: env.Texts(), Pin: env.Pin, Changes: env.Changes,
		}))
	require.NoError(t, err)
	defer rt.Close()
	run := func() (outputs, notices []string) {
		var res aycoder.Result
		for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if n, ok := ev.(*aycoder.Notice); ok {
				notices = append(notices, n.Text)
			}
		}
		for _, msg := range res.Messages {
			for _, p := range msg.Parts {
				if o, ok := p.(*aycoder.ToolOutput); ok {
					var text strings.Builder
					for _, p := range o.Parts {
						text.WriteString(p.(*aycoder.Text).Text)
					}
					outputs = append(outputs, text.String())
				}
			}
		}
		return outputs, notices
	}
	outputs, notices := run()
	require.Len(t, outputs, 3)
	require.Contains(t, outputs[0], "Run make.")
	require.Contains(t, outputs[2], "is not as it is pinned since this run began")
	require.NotContains(t, outputs[2], "Run make.")
	require.Equal(t, []string{`since the run began: "skill" .claude/skills/build/SKILL.md has changed`}, notices)
	outputs, notices = run()
	require.Contains(t, outputs[0], "Run make.\nchanged")
	require.Equal(t, []string{`since the last run: "skill" .claude/skills/build/SKILL.md has changed`}, notices)
	var system strings.Builder
	for _, s := range m.Requests()[0].System {
		system.WriteString(s.Text)
	}
	require.True(t, strings.Contains(system.String(), "Say please.") && strings.Contains(system.String(), dir), system.String())
}
