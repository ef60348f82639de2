package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The schema of the configuration is that of the types.
func TestConfigSchema(t *testing.T) { matches(t, "config.schema.json", string(config.Schema())) }

// The page about tools is made of what the model reads about them.
func TestToolsPage(t *testing.T) {
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	defer ws.Close()
	all, err := tools.Coding(ws)
	require.NoError(t, err)
	ask, err := tools.AskUser(func(context.Context, tools.Question) (tools.Answer, error) { return tools.Answer{}, nil })
	require.NoError(t, err)
	sub, err := tools.Subagent(tools.SubagentConfig{Model: script.New()})
	require.NoError(t, err)
	var page strings.Builder
	page.WriteString(`# The tools and their arguments

Package ` + "`tools`" + ` has these tools. ` + "`Coding`" + ` returns all but ` + "`ask_user` and `subagent`" + `. The model reads the same
texts. A [rule](policy.md) for a tool may have a pattern, which is compared with one of the arguments.
`)
	for _, tool := range append(all, ask, sub) {
		writeTool(&page, t, tool.Spec())
	}
	matches(t, "tools.md", page.String())
}

func writeTool(w io.Writer, t *testing.T, spec aycoder.ToolSpec) {
	effect := "may change something"
	if spec.Effect == aycoder.EffectReadOnly {
		effect = "only reads"
	}
	switch {
	case spec.OpenWorld && spec.Effect == aycoder.EffectReadOnly:
		// Without an approver, only reads within the workspace run.
		effect += ", but outside of the workspace: without an approver, it is denied"
	case spec.OpenWorld:
		effect += ", also outside of the workspace"
	}
	fmt.Fprintf(w, "\n## %s\n\nIt %s.", spec.Name, effect)
	switch {
	case spec.Subject.Kind == aycoder.SubjectPatch:
		fmt.Fprintf(w, " The pattern of a rule is compared with each file that `%s` names.", spec.Subject.Arg)
	case spec.Subject.Arg != "":
		fmt.Fprintf(w, " The pattern of a rule is compared with `%s`.", spec.Subject.Arg)
	}
	fmt.Fprintf(w, "\n\n```text\n%s\n```\n\n| argument | type | |\n| --- | --- | --- |\n", spec.Description)
	writeArgs(w, t, "", spec.Schema)
}

var quoted = strings.NewReplacer("<", `\<`, "*", `\*`, "|", `\|`, "_", `\_`)

// writeArgs writes a row for each argument of a schema, in the order of the schema.
func writeArgs(w io.Writer, t *testing.T, prefix string, schema json.RawMessage) {
	type property struct {
		Type, Description string
		Enum              []string
		Items             json.RawMessage
	}
	var s struct {
		Properties json.RawMessage
		Required   []string
	}
	require.NoError(t, json.Unmarshal(schema, &s))
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	_, err := dec.Token()
	require.NoError(t, err)
	for dec.More() {
		name, err := dec.Token()
		require.NoError(t, err)
		var p property
		require.NoError(t, dec.Decode(&p))
		kind := p.Type
		if !slices.Contains(s.Required, name.(string)) {
			kind += ", optional"
		}
		if len(p.Enum) > 0 {
			p.Description += " One of " + strings.Join(p.Enum, ", ") + "."
		}
		fmt.Fprintf(w, "| `%s%s` | %s | %s |\n", prefix, name, kind, strings.TrimSpace(quoted.Replace(p.Description)))
		var items struct{ Properties json.RawMessage }
		if p.Items != nil && json.Unmarshal(p.Items, &items) == nil && items.Properties != nil {
			writeArgs(w, t, fmt.Sprintf("%s%s[].", prefix, name), p.Items)
		}
	}
}
