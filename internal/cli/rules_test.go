package cli

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The flag -allow reads the language of package policy: the samples of its tests that consist
// of allow rules for tools of the program have the same verdicts.
func TestAllowReadsTheLanguageOfRules(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	coding, err := tools.Coding(ws)
	require.NoError(t, err)
	specs := map[string]*aycoder.ToolSpec{}
	for _, tool := range coding {
		spec := tool.Spec()
		specs[spec.Name] = &spec
	}
	data, err := os.ReadFile("../../policy/testdata/rules.txt")
	require.NoError(t, err)
	checked := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 4 || specs[f[1]] == nil {
			continue
		}
		var flags []string
		for _, r := range f[3:] {
			text, ok := strings.CutPrefix(r, "allow ")
			if tool := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == '@' }); ok && specs[tool[0]] != nil {
				flags = append(flags, text)
			}
		}
		if len(flags) != len(f)-3 {
			continue
		}
		rules, err := parseRules(flags, coding)
		require.NoError(t, err, line)
		a, err := policy.New(policy.WithWorkspace(ws.Dir()), policy.WithTools(coding...), policy.WithRules(policy.Session, rules...))
		require.NoError(t, err)
		spec := specs[f[1]]
		args, err := json.Marshal(map[string]string{spec.Subject.Arg: f[2]})
		require.NoError(t, err)
		v := a.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: spec.Name, Args: args}, spec)
		kind, err := json.Marshal(v)
		require.NoError(t, err)
		want := `{"kind":"` + strings.TrimPrefix(f[0], "ask") + `"}`
		assert.JSONEq(t, want, string(kind), line)
		checked++
	}
	require.Greater(t, checked, 50)
	t.Logf("%d samples", checked)
}

// A permission that another agent asks for is a call of a tool that the model does not have.
func TestRulesForAgents(t *testing.T) {
	agent, err := aycoder.NewTool("gemini", "Gives a task.", func(context.Context, *aycoder.Invocation, struct{}) (*aycoder.ToolResult, error) {
		return aycoder.TextResult("done"), nil
	})
	require.NoError(t, err)
	rules, err := parseRules([]string{"gemini_permission"}, []aycoder.Tool{agent}, agent)
	require.NoError(t, err)
	require.Equal(t, "gemini_permission", rules[0].Tool)
	_, err = parseRules([]string{"gemini_permission"}, []aycoder.Tool{agent})
	require.ErrorContains(t, err, `no tool "gemini_permission"`)
}
