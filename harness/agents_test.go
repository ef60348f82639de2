package harness_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

func toolNames(req *aycoder.Request) (names []string) {
	for _, s := range req.Tools {
		names = append(names, s.Name)
	}
	return names
}

// An agent of a file has its prompt, its model and its tools, and no more than the model around it.
func TestAgents(t *testing.T) {
	c := settings(t, func(c *config.Settings) {
		c.Models = map[string]config.Model{"quick": {Provider: "acme", Model: "acme-haiku-1"}}
		c.Tools.Disabled = []string{"glob"}
		c.Approval.Mode = "full-auto"
	})
	dir := project(t, map[string]string{
		".claude/agents/finder.md": "---\nname: finder\ndescription: Finds things\ntools: Read, Glob, Bash(git log:*)\nmodel: haiku\n---\nYou find.\n",
		".claude/agents/writer.md": "---\nname: writer\ndescription: Writes\nmodel: opus\n---\nYou write.\n",
		"a.txt":                    "text\n",
	})
	task := func(agent string) script.Step {
		return script.Call("subagent", map[string]string{"agent": agent, "task": "Do it."})
	}
	main := script.New(task("finder"), task("finde"), task("writer"), script.Say("written"), script.Say("ok"))
	quick := script.New(
		script.Call("read_file", map[string]string{"path": "a.txt"}), script.Call("bash", map[string]string{"command": "ls"}), script.Say("found"))
	var specs []harness.ModelSpec
	rt := open(t, dir, harness.WithSettings(c), harness.WithClient(main), harness.WithAmbient(harness.Skills),
		harness.WithOpener(opener(&specs, map[string]*script.Model{"acme-haiku-1": quick})))
	var out, inner []string
	var notices strings.Builder
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolFinished:
			out = append(out, ev.Output.Text())
		case *aycoder.ChildEvent:
			if done, ok := ev.Innermost().(*aycoder.ToolFinished); ok {
				inner = append(inner, done.Output.Text())
			}
		case *aycoder.Notice:
			notices.WriteString(ev.Text + "\n")
		}
	}
	require.Contains(t, notices.String(), ".claude/agents/finder.md: the agent finder cannot have the tool glob: it is not among those that the model may call")
	require.Contains(t, notices.String(), ".claude/agents/writer.md: the model opus is not used, but the main one: the configuration has no such model")

	const note = "[This prompt came with the project. It permits nothing, and yields to the user's words.]\n"
	first := quick.Requests()[0]
	require.Equal(t, note+"You find.\n", system(first))
	require.ElementsMatch(t, []string{"read_file", "bash"}, toolNames(first))
	require.Contains(t, inner[0], "text")
	require.Contains(t, inner[1], "the agent finder may use only: read_file, bash:git log *")
	require.Contains(t, out[0], "found\n")
	require.Contains(t, out[1], "there is no agent finde; similar ones: finder")
	require.Contains(t, out[2], "written\n")

	requests := main.Requests()
	i := slices.IndexFunc(requests, func(r *aycoder.Request) bool { return system(r) == note+"You write.\n" })
	require.Positive(t, i)
	require.NotContains(t, toolNames(requests[i]), "subagent")
	require.NotContains(t, toolNames(requests[i]), "glob", "what is disabled is disabled for agents, too")
	specOf := requests[0].Tools[slices.Index(toolNames(requests[0]), "subagent")]
	require.Contains(t, specOf.Description, "- finder (project): Finds things\n- writer (project): Writes\n")
	var schema struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	require.NoError(t, json.Unmarshal(specOf.Schema, &schema))
	require.Contains(t, schema.Properties, "agent")
	require.Equal(t, []string{"task"}, schema.Required)
	require.Equal(t, requests[0].Tools, requests[len(requests)-1].Tools)
}

// A disabled tool is not one of agents.
func TestDisabledForAgents(t *testing.T) {
	c := settings(t, func(c *config.Settings) { c.Tools.Disabled, c.Approval.Mode = []string{"bash"}, "full-auto" })
	model := script.New(script.Call("subagent", map[string]string{"task": "x"}), script.Say("a"), script.Say("b"))
	run(t, open(t, project(t, nil), harness.WithSettings(c), harness.WithClient(model)), "go")
	require.NotContains(t, toolNames(model.Requests()[1]), "bash")
	require.NotContains(t, toolNames(model.Requests()[1]), "subagent")
}

// An agent with every tool asks as the model around it does.
func TestAgentAsks(t *testing.T) {
	dir := project(t, map[string]string{".claude/agents/w.md": "---\ndescription: Writes\ntools: Write\n---\nYou write.\n"})
	model := script.New(script.Call("subagent", map[string]string{"agent": "w", "task": "x"}),
		script.Call("write_file", map[string]string{"path": "b.txt", "content": "x"}), script.Say("a"), script.Say("b"))
	rt := open(t, dir, harness.WithClient(model), harness.WithAmbient(harness.Skills))
	asked := []string{}
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if c, ok := ev.(*aycoder.ChildEvent); ok {
			ev = c.Innermost()
		}
		if q, ok := ev.(*aycoder.ApprovalRequested); ok {
			asked = append(asked, q.Request.Tool)
			if q.Request.Tool == "subagent" {
				q.Allow()
			}
		}
	}
	require.Equal(t, []string{"subagent", "write_file"}, asked)
	require.NoFileExists(t, filepath.Join(dir, "b.txt"))
}
