package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/policy"
)

// A rule about a file holds also for commands that are known to read or write the file.
func TestRulesForFilesHoldForCommands(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "private/more"), 0o755))
	require.NoError(t, os.Symlink("private", filepath.Join(dir, "link")))
	p := newPolicy(t, policy.WithWorkspace(dir), policy.WithMode(policy.FullAuto), policy.WithRules(policy.User,
		entry(t, policy.RuleDeny, "read_file:private/**"), entry(t, policy.RuleDeny, "edit_file:gen/"), entry(t, policy.RuleAsk, "*_file:docs/*.md")))
	for command, want := range map[string]string{
		"cat private/a": "deny", "cd private && cat a": "deny", "head -n 1 < private/a": "deny", "cat src/../private/a": "deny",
		"grep -rn x private": "deny", "cat a private/more/b | wc -l": "deny", "sh -c 'tail private/a'": "deny", "cat link/a": "deny",
		"cat " + dir + "/private/a": "deny", "echo \"$(< private/a)\"": "deny", "cat docs/a.md": "ask",
		"cat private/*": "deny", "cd src; cat ../private/*.md": "deny", "cat link/[a-z]": "deny", "rm gen/*": "deny", "cat docs/*.md": "ask",
		"cat *": "allow", "cat src/*.go": "allow", "rm *.o": "allow",
		"cat a": "allow", "echo private/a": "allow", "cat private.go": "allow", "grep -rn x .": "allow", "ls": "allow", "cat gen/a": "allow",
		"echo x > private/a": "allow",
		"echo x > gen/a":     "deny", "rm gen/a": "deny", "cp a gen/b": "deny", "sed -i s/a/b/ gen/a": "deny", "cd gen; touch a": "deny",
		"echo x > docs/a.md": "ask", "echo x > gen.go": "allow",
	} {
		got, v := ask(t, p, &bashSpec, command)
		require.Equal(t, want, got, "%s: %+v", command, v.Grounds())
	}
}

// Each of many names could be a directory into which the others are put. Nobody looks at so many.
func TestManyNamesOfCopies(t *testing.T) {
	p := newPolicy(t, policy.WithWorkspace(t.TempDir()), policy.WithMode(policy.FullAuto))
	var words []byte
	for i := range 1500 {
		words = fmt.Appendf(words, " %d", i)
	}
	got, v := ask(t, p, &bashSpec, "mv"+string(words))
	require.Equal(t, "ask", got)
	require.Contains(t, fmt.Sprint(v.Grounds().Reasons), "too many")
	got, _ = ask(t, p, &bashSpec, "mv"+string(words[:100])+" to")
	require.Equal(t, "allow", got)
}
