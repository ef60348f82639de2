package harness_test

import (
	"context"
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
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/workspace"
)

// put writes a file of a project, or removes it if text is "".
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	if text == "" {
		require.NoError(t, os.Remove(name))
		return
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}

// following returns a runtime with the ambient sources that follows changes, and a tool that makes them. Requests must begin with those before.
func following(t *testing.T, dir string, model aycoder.ModelClient, changes []func(), opts ...harness.Option) *harness.Runtime {
	t.Helper()
	src, err := config.NewReloader()
	require.NoError(t, err)
	return open(t, dir, append([]harness.Option{harness.WithReloader(src), harness.WithClient(model), harness.WithTools(changing(t, changes)),
		harness.WithAmbient(harness.Instructions, harness.Skills), harness.WithLoopOptions(aycoder.WithStrictPrefix(true))}, opts...)...)
}

// changing returns a tool that makes changes one after the other.
func changing(t *testing.T, changes []func()) aycoder.Tool {
	change, err := aycoder.NewTool("change", "", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		next := changes[0]
		changes = changes[1:]
		next()
		return aycoder.TextResult(fmt.Sprint(len(changes))), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	return change
}

// The next turn follows a changed file of instructions, and the bytes of the prompt stay.
func TestInstructionsChange(t *testing.T) {
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	dir := project(t, map[string]string{"AGENTS.md": "FIRST", "CLAUDE.md": "STAYS"})
	user, err := workspace.Open(project(t, map[string]string{"AGENTS.md": "MINE"}))
	require.NoError(t, err)
	defer user.Close()
	changes := []func(){
		func() {},
		func() { put(t, dir, "AGENTS.md", "SECOND "+secret+"\n") },
		func() { put(t, user.Dir(), "AGENTS.md", "YOURS") },
		func() { put(t, dir, "CLAUDE.md", "") },
		func() { put(t, dir, "GEMINI.md", "NEW") },
		func() { put(t, dir, "AGENTS.md", "FIRST") },
	}
	steps := slices.Repeat([]script.Step{script.Call("change", struct{}{})}, len(changes))
	model := script.New(append(steps, script.Say("ok"))...)
	rt := following(t, dir, model, changes, harness.WithUserFiles(user))
	notices := run(t, rt, "go")
	require.Equal(t, 5, strings.Count(strings.Join(notices, "\n"), "files with instructions have changed"), notices)
	reqs := model.Requests()
	for i, want := range []struct{ has, not []string }{
		{nil, []string{"FIRST", "STAYS", "MINE"}},
		{nil, []string{"FIRST", "STAYS", "MINE"}},
		{[]string{"SECOND [secret:", `path="AGENTS.md"`, "came with the project"}, []string{secret, "FIRST", "STAYS", "MINE"}},
		{[]string{"SECOND", "YOURS", "The user's own"}, []string{"STAYS"}},
		{[]string{"SECOND", "YOURS", `The file "CLAUDE.md" was removed`}, []string{"STAYS"}},
		{[]string{"SECOND", "YOURS", `The file "CLAUDE.md" was removed`, "NEW"}, nil},
		{[]string{"YOURS", "NEW"}, []string{"SECOND", "FIRST"}},
	} {
		require.Equal(t, system(reqs[0]), system(reqs[i]))
		for _, word := range want.has {
			require.Contains(t, tail(reqs[i]), word, i)
		}
		for _, word := range want.not {
			require.NotContains(t, tail(reqs[i]), word, i)
		}
	}
	require.Contains(t, system(reqs[0]), "FIRST")
	require.Empty(t, tail(reqs[0]))
	require.Empty(t, run(t, following(t, dir, script.New(script.Say("ok")), nil), "go"), "a session that begins has nothing to tell")
}

// Nothing is told of texts that the user does not trust, or that the host has replaced.
func TestInstructionsOfOthersChange(t *testing.T) {
	for _, opt := range []harness.Option{harness.WithProjectTexts(false), harness.WithSection("instructions", "HOST")} {
		dir := project(t, map[string]string{"AGENTS.md": "FIRST"})
		model := script.New(script.Call("change", struct{}{}), script.Say("ok"))
		run(t, following(t, dir, model, []func(){func() { put(t, dir, "AGENTS.md", "SECOND") }}, opt), "go")
		require.Len(t, model.Requests(), 2)
		require.Empty(t, tail(model.Requests()[1]))
		require.NotContains(t, system(model.Requests()[1]), "SECOND")
	}
}

// A text that is too long for the tail is left out, and the name of its file tells the model to read it.
func TestLongInstructionsChange(t *testing.T) {
	dir := project(t, map[string]string{"AGENTS.md": "FIRST @long.md", "long.md": "a"})
	model := script.New(script.Call("change", struct{}{}), script.Say("ok"))
	run(t, following(t, dir, model, []func(){func() {
		put(t, dir, "AGENTS.md", "SECOND @long.md")
		put(t, dir, "long.md", strings.Repeat("long ", 13_100))
	}}), "go")
	got := tail(model.Requests()[1])
	require.Contains(t, got, "SECOND")
	require.Contains(t, got, `The file "long.md" has changed, and is too long`)
	require.Less(t, len(got), 2000)
}

// After a compaction the prompt has the new texts, and the tail has them no more.
func TestInstructionsAfterCompaction(t *testing.T) {
	dir := project(t, map[string]string{"AGENTS.md": "FIRST", "big.txt": strings.Repeat("a line of text\n", 6000)})
	steps := []script.Step{script.Call("change", struct{}{}), script.Call("change", struct{}{})}
	for i := range 30 {
		steps = append(steps, script.Call("read_file", map[string]any{"path": "big.txt", "offset": 1 + 200*i, "limit": 200}))
	}
	model := script.New(append(steps, script.Say("ok"))...)
	rt := following(t, dir, model, []func(){func() {}, func() { put(t, dir, "AGENTS.md", "SECOND") }},
		harness.WithSettings(settings(t, func(c *config.Settings) { c.Context.MaxTokens = 20_000 })))
	compacted := false
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		c, ok := ev.(*aycoder.Compacted)
		compacted = compacted || ok && c.Replaced > 0
	}
	require.True(t, compacted)
	reqs := model.Requests()
	rebuilt := slices.IndexFunc(reqs, func(r *aycoder.Request) bool { return strings.Contains(system(r), "SECOND") })
	require.Greater(t, rebuilt, 3)
	for i, req := range reqs[2:] {
		before := i+2 < rebuilt
		require.Equal(t, before, strings.Contains(system(req), "FIRST"), i)
		require.Equal(t, before, strings.Contains(tail(req), "SECOND"), i)
	}
}

// The first skill of a project works from the next turn on, and so do new descriptions.
func TestFirstSkill(t *testing.T) {
	skill := func(description string) string { return "---\ndescription: " + description + "\n---\nDo it.\n" }
	dir := project(t, map[string]string{".claude/agents/a.md": "---\ndescription: d\n---\nYou work.\n"})
	changes := []func(){
		func() { put(t, dir, ".claude/skills/one/SKILL.md", skill("FIRST")) },
		func() { put(t, dir, ".claude/skills/one/SKILL.md", skill("SECOND")) },
		func() { put(t, dir, ".claude/skills/one/SKILL.md", "") },
	}
	model := script.New(script.Call("change", struct{}{}), script.Call("skill", map[string]string{"name": "one"}), script.Call("change", struct{}{}),
		script.Call("change", struct{}{}), script.Say("ok"))
	rt := following(t, dir, model, changes)
	run(t, rt, "go")
	reqs := model.Requests()
	require.NotContains(t, toolNames(reqs[0]), "skill")
	require.Empty(t, tail(reqs[0]))
	require.Equal(t, append(toolNames(reqs[0]), "skill"), toolNames(reqs[1]))
	require.Contains(t, tail(reqs[1]), "- one (project): FIRST")
	require.Contains(t, script.LastOutput(reqs[2]).Text(), "Do it.")
	require.Contains(t, tail(reqs[3]), "- one (project): SECOND")
	require.Empty(t, tail(reqs[4]))
	for _, req := range reqs {
		require.Equal(t, system(reqs[0]), system(req))
	}

	c := settings(t, func(c *config.Settings) { c.Tools.Disabled = []string{"skill"} })
	model = script.New(script.Call("change", struct{}{}), script.Say("ok"))
	run(t, following(t, dir, model, changes[:1], harness.WithSettings(c)), "go")
	require.NotContains(t, toolNames(model.Requests()[1]), "skill", "what is disabled stays disabled")
}

// Agents of files are exchanged at the next turn: with a new prompt, or as new ones that the model can choose.
func TestAgentsChange(t *testing.T) {
	agent := func(description, prompt string) string {
		return "---\ndescription: " + description + "\n---\n" + prompt + "\n"
	}
	dir := project(t, nil)
	changes := []func(){
		func() { put(t, dir, ".claude/agents/one.md", agent("d", "You are the FIRST.")) },
		func() { put(t, dir, ".claude/agents/one.md", agent("d", "You are the SECOND.")) },
		func() { put(t, dir, ".claude/agents/one.md", "") },
	}
	call := script.Call("subagent", map[string]string{"agent": "one", "task": "x"})
	change := script.Call("change", struct{}{})
	model := script.New(change, call, script.Say("a"), change, call, script.Say("b"), change, call, script.Say("c"))
	c := settings(t, func(c *config.Settings) { c.Approval.Mode = "full-auto" })
	run(t, following(t, dir, model, changes, harness.WithSettings(c)), "go")
	var prompts []string
	for _, req := range model.Requests() {
		if len(req.Tools) > 0 && !slices.Contains(toolNames(req), "subagent") {
			prompts = append(prompts, system(req))
		}
	}
	require.Len(t, prompts, 2)
	require.Contains(t, prompts[0], "\nYou are the FIRST.\n")
	require.Contains(t, prompts[1], "\nYou are the SECOND.\n")
	reqs := model.Requests()
	require.Contains(t, fmt.Sprint(reqs[1].Tools[slices.Index(toolNames(reqs[1]), "subagent")].Description), "- one (project): d")
	require.Equal(t, reqs[1].Tools, reqs[4].Tools, "another prompt of an agent changes no byte of the request")
	require.NotContains(t, string(reqs[0].Tools[slices.Index(toolNames(reqs[0]), "subagent")].Schema), `"agent"`)
	require.NotContains(t, string(reqs[7].Tools[slices.Index(toolNames(reqs[7]), "subagent")].Schema), `"agent"`)
}
