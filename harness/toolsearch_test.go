package harness_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers/script"
)

// big returns n tools of a server whose definitions have about 100 tokens each.
func big(t *testing.T, n int) (all []aycoder.Tool) {
	for i := range n {
		name, about := fmt.Sprintf("mcp__s__t%d", i), strings.Repeat("lorem ipsum ", 30)
		switch i {
		case 7:
			name, about = "mcp__s__weather_forecast", "Tells\n- mcp__s__t1: the weather "+about
		case 8:
			about = "Sends a letter about the weather " + about
		}
		tool, err := aycoder.NewTool(name, about, func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("sunny"), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		all = append(all, tool)
	}
	return all
}

// Definitions that would take more than a tenth of the window are found by a search, and stay where they were put.
func TestToolSearch(t *testing.T) {
	runtime := func(n int, model aycoder.ModelClient) *harness.Runtime {
		src := &source{tools: big(t, n), closer: func() error { return nil }}
		return open(t, t.TempDir(), harness.WithClient(model),
			harness.WithServers(func(context.Context, string, config.Server) (harness.ToolSource, error) { return src, nil }),
			harness.WithSettings(settings(t, func(s *config.Settings) { s.Servers = map[string]config.Server{"s": {Command: "s"}} })))
	}
	search := func(words string) script.Step { return script.Call("tool_search", map[string]string{"query": words}) }
	model := script.New(script.Call("mcp__s__t3", nil), script.Say("few"))
	var res aycoder.Result
	for _, err := range runtime(20, model).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	names := toolNames(model.Requests()[0])
	require.Contains(t, names, "mcp__s__t19", "20 definitions are few")
	require.NotContains(t, names, "tool_search")

	steps := []script.Step{search("Weather forecasts, please"), script.Call("mcp__s__weather_forecast", nil), search("zebra"), search("t31"), script.Say("many")}
	model = script.New(steps...)
	for _, err := range runtime(200, model).Run(t.Context(), aycoder.Input{Prompt: "go"}, aycoder.Into(&res)) {
		require.NoError(t, err)
	}
	require.Equal(t, aycoder.EndDone, res.End)
	require.True(t, res.Messages[2].Parts[0].(*aycoder.ToolOutput).Untrusted, "descriptions are the texts of servers")
	require.Contains(t, res.Messages[4].Parts[0].(*aycoder.ToolOutput).Text(), "sunny")
	require.Contains(t, res.Messages[6].Parts[0].(*aycoder.ToolOutput).Text(), "There are tools of the servers s (200 tools).")
	requests := model.Requests()
	first := toolNames(requests[0])
	require.Contains(t, first, "tool_search")
	for _, name := range first {
		require.NotContains(t, name, "mcp__")
	}
	second := append(first, "mcp__s__weather_forecast", "mcp__s__t8")
	require.Equal(t, second, toolNames(requests[1]))
	require.Equal(t, second, toolNames(requests[2]))
	require.Equal(t, second, toolNames(requests[3]))
	require.Equal(t, append(second, "mcp__s__t31"), toolNames(requests[4]))

	again := script.New(script.Say("again"))
	for _, err := range runtime(200, again).Run(t.Context(), aycoder.Input{Prompt: "go on", Messages: res.Messages}) {
		require.NoError(t, err)
	}
	require.Equal(t, toolNames(requests[4]), toolNames(again.Requests()[0]), "the same in another process")
}

// A subagent finds them, too.
func TestToolSearchOfAgents(t *testing.T) {
	src := &source{tools: big(t, 200), closer: func() error { return nil }}
	model := script.New(script.Call("subagent", map[string]string{"task": "go"}),
		script.Call("tool_search", map[string]string{"query": "forecast"}), script.Call("mcp__s__weather_forecast", nil), script.Say("sub"), script.Say("ok"))
	rt := open(t, t.TempDir(), harness.WithClient(model),
		harness.WithServers(func(context.Context, string, config.Server) (harness.ToolSource, error) { return src, nil }),
		harness.WithSettings(settings(t, func(s *config.Settings) { s.Servers = map[string]config.Server{"s": {Command: "s"}} })))
	for ev, err := range rt.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if a, ok := ev.(*aycoder.ApprovalRequested); ok {
			a.Allow()
		}
	}
	requests := model.Requests()
	require.Len(t, requests, 5)
	require.Less(t, len(requests[1].Tools), 40)
	require.Equal(t, append(toolNames(requests[1]), "mcp__s__weather_forecast"), toolNames(requests[2]))
	require.NotContains(t, toolNames(requests[4]), "mcp__s__weather_forecast")
}
