package policy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
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

// The file of rules is the same one by whatever links it is named, and in whatever way it gets its name.
func TestFileOfRulesBehindLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege")
	}
	base := t.TempDir()
	dir := filepath.Join(base, "work")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dotfiles"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "x"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dotfiles/rules.json"), []byte(`{"version":1,"rules":[]}`), 0o600))
	for name, to := range map[string]string{"work/conf": "dotfiles", "work/alias": "conf/rules.json", "linked": "work"} {
		require.NoError(t, os.Symlink(to, filepath.Join(base, name)))
	}
	patches := aycoder.ToolSpec{Name: "apply_patch", Effect: aycoder.EffectWrite, Subject: aycoder.Subject{Arg: "patch", Kind: aycoder.SubjectPatch}}
	for _, workspace := range []string{dir, filepath.Join(base, "linked")} {
		p := newPolicy(t, policy.WithWorkspace(workspace), policy.WithMode(policy.FullAuto), policy.WithFile(filepath.Join(dir, "conf/rules.json")),
			policy.WithRules(policy.User, rules(t, "allow edit_file:**", "allow apply_patch", "allow bash@writes_workspace")...))
		for name, want := range map[string]string{
			"conf/rules.json": "ask", "dotfiles/rules.json": "ask", "alias": "ask", "x/rules.json": "allow", "dotfiles/a": "allow",
		} {
			got, _ := ask(t, p, &editSpec, name)
			require.Equal(t, want, got, name)
			got, _ = ask(t, p, &bashSpec, "echo {} > "+name)
			require.Equal(t, want, got, "command: %s", name)
			if name != "x/rules.json" { // whose name is taken for the file's in a patch
				got, _ = ask(t, p, &patches, "*** Begin Patch\n*** Add File: "+name+"\n+{}\n*** End Patch")
				require.Equal(t, want, got, "patch: %s", name)
			}
		}
		for _, command := range []string{"cp x/rules.json conf", "mv x/rules.json dotfiles/", "cd conf && cp ../x/rules.json ."} {
			got, _ := ask(t, p, &bashSpec, command)
			require.Equal(t, "ask", got, command)
		}
	}
}
