package policy_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// A tool that does not say what it does may run what it is given the path of.
func TestToolOfUnknownEffectIsNoEdit(t *testing.T) {
	spec := aycoder.ToolSpec{Name: "run_tests", Subject: aycoder.Subject{Arg: "path", Kind: aycoder.SubjectPath}}
	p := newPolicy(t, policy.WithMode(policy.AcceptEdits))
	got, v := ask(t, p, &spec, "a.sh")
	require.Equal(t, "ask", got)
	require.Equal(t, "needs_approval", v.Grounds().Class)
	p = newPolicy(t, policy.WithMode(policy.AcceptEdits), policy.WithEditTools("run_tests"))
	got, _ = ask(t, p, &spec, "a.sh")
	require.Equal(t, "allow", got)
	got, _ = ask(t, p, &spec, "../a.sh")
	require.Equal(t, "ask", got)
}

func TestLineOfALongRunIsBounded(t *testing.T) {
	var out bytes.Buffer
	rec := &aycoder.AuditRecord{
		Place: aycoder.Place{Run: strings.Repeat("r", 40<<10), Agent: strings.Repeat("a", 40<<10), Calls: slices.Repeat([]string{strings.Repeat("c", 1<<10)}, 200)},
		Class: strings.Repeat("\x01", 40<<10),
	}
	require.NoError(t, policy.NewAuditLog(&out).Audit(t.Context(), rec))
	require.LessOrEqual(t, out.Len(), 16<<10)
}

// Rules that are kept in the workspace are not for the agent to write.
func TestFileOfRulesIsNoFileToEdit(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []policy.Mode{policy.AcceptEdits, policy.FullAuto} {
		p := newPolicy(t, policy.WithWorkspace(dir), policy.WithMode(mode), policy.WithFile(filepath.Join(dir, "conf/rules.json")),
			policy.WithRules(policy.User, rules(t, "allow edit_file:**", "allow bash@writes_workspace")...))
		for _, name := range []string{"conf/rules.json", "./conf/x/../Rules.json", filepath.Join(dir, "conf/rules.json")} {
			got, _ := ask(t, p, &editSpec, name)
			require.Equal(t, "ask", got, name)
		}
		got, _ := ask(t, p, &editSpec, "conf/other.json")
		require.Equal(t, "allow", got)
		got, _ = ask(t, p, &bashSpec, "cd conf && echo {} > rules.json")
		require.Equal(t, "ask", got)
		for patch, want := range map[string]string{`conf/r\u0075les.json`: "ask", "conf/x": "allow"} {
			args := json.RawMessage(`{"patch":"*** Begin Patch\n*** Add File: ` + patch + `\n+{}\n*** End Patch"}`)
			v := p.Decide(t.Context(), &aycoder.ToolUse{Name: "apply_patch", Args: args}, &patchSpec)
			data, err := json.Marshal(v)
			require.NoError(t, err)
			require.Equal(t, want == "allow", strings.Contains(string(data), "allow"), patch)
		}
	}
}
