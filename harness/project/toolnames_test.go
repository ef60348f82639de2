package project_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/tools"
)

// Each tool that others know is one of ours.
func TestToolNames(t *testing.T) {
	have := map[string]bool{"ask_user": true, "subagent": true, "skill": true}
	coding, err := tools.Coding(dir(t, nil))
	require.NoError(t, err)
	for _, tool := range coding {
		have[tool.Spec().Name] = true
	}
	for _, theirs := range []string{
		"Read", "Write", "Edit", "MultiEdit", "Bash", "BashOutput", "TaskOutput", "KillShell", "KillBash", "TaskStop", "Glob",
		"Grep", "LS", "WebFetch", "TodoWrite", "Task", "Agent", "AskUserQuestion", "Skill", "read_file", "skill",
	} {
		ours, ok := project.OurTool(theirs)
		require.True(t, ok, theirs)
		require.True(t, have[ours], "there is no tool %s", ours)
	}
	_, ok := project.OurTool("NotebookEdit")
	require.False(t, ok)
	name, ok := project.OurTool("mcp__github__search")
	require.True(t, ok)
	require.Equal(t, "mcp__github__search", name)
}
