package project_test

import (
	"encoding/json"
	"testing"

	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/tools"
	"github.com/stretchr/testify/require"
)

// Each tool that others know is one of ours, under its name here, and so are the arguments that are translated.
func TestToolNames(t *testing.T) {
	specs := map[string]string{"ask_user": "", "subagent": "task background", "skill": "name"}
	coding, err := tools.Coding(dir(t, nil))
	require.NoError(t, err)
	for _, tool := range coding {
		specs[tool.Spec().Name] = string(tool.Spec().Schema)
	}
	inputs := map[string]string{
		"Read": `{"file_path":"x"}`, "Write": `{"file_path":"x"}`, "Edit": `{"file_path":"x"}`, "MultiEdit": `{"file_path":"x"}`,
		"Bash": `{"timeout":2000,"run_in_background":true}`, "BashOutput": `{"bash_id":"x"}`, "TaskOutput": `{"task_id":"x"}`,
		"KillShell": `{"shell_id":"x"}`, "KillBash": `{"shell_id":"x"}`, "TaskStop": `{"task_id":"x"}`, "Glob": `{"pattern":"x"}`,
		"Grep": `{"pattern":"x","glob":"*.go","-i":true,"-C":3,"head_limit":5}`, "LS": `{"path":"x"}`, "WebFetch": `{"url":"x"}`,
		"TodoWrite": `{"todos":[]}`, "Task": `{"prompt":"x"}`, "Agent": `{"prompt":"x"}`, "AskUserQuestion": `{}`, "Skill": `{"skill":"x"}`,
	}
	for theirs, input := range inputs {
		ours, ok := project.OurTool(theirs)
		require.True(t, ok, theirs)
		schema, ok := specs[ours]
		require.True(t, ok, "there is no tool %s", ours)
		if theirs == "TaskOutput" || theirs == "TaskStop" || theirs == "KillBash" {
			continue // other names of the same
		}
		args, err := project.ToOurs(ours, json.RawMessage(input))
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, json.Unmarshal(args, &values))
		for name := range values {
			require.Contains(t, schema, name, "%s of %s", name, theirs)
		}
	}
	_, ok := project.OurTool("NotebookEdit")
	require.False(t, ok)
	name, ok := project.OurTool("mcp__github__search")
	require.True(t, ok)
	require.Equal(t, "mcp__github__search", name)
}

func TestToolCalls(t *testing.T) {
	tests := []struct{ ours, args, theirs, input string }{
		{"read_file", `{"path":"a/b.go","offset":3}`, "Read", `{"file_path":"/w/a/b.go","offset":3}`},
		{"edit_file", `{"path":"a","old_string":"x","new_string":"y"}`, "Edit",
			`{"file_path":"/w/a","old_string":"x","new_string":"y"}`},
		{"bash", `{"command":"ls","timeout":3,"working_dir":"a"}`, "Bash", `{"command":"ls","timeout":3000,"working_dir":"a"}`},
		{"code_search", `{"pattern":"x","include":"*.go","ignore_case":true}`, "Grep", `{"pattern":"x","glob":"*.go","-i":true}`},
		{"subagent", `{"task":"look"}`, "Task", `{"prompt":"look"}`},
		{"mcp__a__b", `{"path":1}`, "mcp__a__b", `{"path":1}`},
		{"read_file", `{"path":12345678901234567890}`, "Read", `{"file_path":12345678901234567890}`},
	}
	for _, tt := range tests {
		name, input, err := project.ToTheirs("/w", tt.ours, json.RawMessage(tt.args))
		require.NoError(t, err)
		require.Equal(t, tt.theirs, name)
		require.JSONEq(t, tt.input, string(input))
	}
	args, err := project.ToOurs("bash", json.RawMessage(`{"command":"ls","timeout":1500,"description":"d"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"command":"ls","timeout":2,"description":"d"}`, string(args))

	for _, bad := range []string{``, `[]`, `null`, `{"file_path":"a","path":"b"}`} {
		_, err := project.ToOurs("read_file", json.RawMessage(bad))
		require.Error(t, err, bad)
	}
}
