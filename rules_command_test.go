package aycoder

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A star of a command's pattern does not match anything that would let the command do
// more than the author of the rule can have meant.
func TestStarsOfCommandsHaveACeiling(t *testing.T) {
	tests := []struct {
		pattern, command string
		want             bool
	}{
		{"go test *", "go test ./...", true},
		{"go test *", "go test -v -run TestX ./pkg", true},
		{"go test *", "go test", false},
		{"go test *", "go test -o /root/.bashrc ./...", false},
		{"go test *", "go test -o ../x ./...", false},
		{"go test *", "go test -o conftest.py ./...", false},
		{"go test *", "go test -o/root/x ./...", false},
		{"go test *", "go test -exec ./x ./...", false},
		{"go vet *", "go vet -vettool x ./...", false},
		{"git log *", "git log --oneline -3", true},
		{"git log *", "git log --output /root/.bashrc", false},
		{"git log *", "git log --output .github/workflows/x.yml", false},
		{"git log *", "git log --output .git/config", false},
		{"git log *", "git log --output ../x", false},
		{"git diff *", "git diff --ext-diff", false},
		{"git *", "git status", true},
		{"git *", "git clean -fd", false},
		{"git *", "git checkout .", false},
		{"git *", "git config alias.x y", false},
		{"tar *", "tar -xf a.tar", false},
		{"tar *", "tar xf a.tar --to-command sh", false},
		{"tar -xf *", "tar -xf a.tar", true},
		{"tar -xf *", "tar -xf a.tar --checkpoint-action exec", false},
		{"tar -xf *", "tar -xf a.tar -C /root", false},
		{"rm *", "rm a", false},
		{"rm a", "rm a", true},
		{"/bin/rm *", "/bin/rm a", false},
		{"sudo *", "sudo ls", false},
		{"* x", "rm x", false},
		{"*", "rm x", false},
		{"env *", "env rm x", false},
		{"cp *", "cp a b", true},
		{"cp *", "cp a /etc/x", false},
		{"cp *", "cp a ..", false},
		{"cp *", "cp a x/../../y", false},
		{"cp *", "cp a conftest.py", false},
		{"cp *", "cp a .ENV", false},
		{"cp * conftest.py", "cp a conftest.py", true},
		{"npm run *", "npm run test", true},
		{"npm run *", "npm run test --script-shell sh", false},
		{"curl *", "curl https://example.com/a/b", true},
		{"curl *", "curl https://example.com/a -o x", false},
	}
	spec := &ToolSpec{Name: "bash", Subject: Subject{Arg: "command", Kind: SubjectCommand}}
	for _, tt := range tests {
		args, err := json.Marshal(map[string]string{"command": tt.command})
		require.NoError(t, err)
		r := Rule{Action: RuleAllow, Tool: "bash", Pattern: tt.pattern}
		require.Equal(t, tt.want, r.Covers(&ToolUse{Name: "bash", Args: args}, spec), "%q covers %q", tt.pattern, tt.command)
		r.Action = RuleDeny
		if tt.pattern != "* x" && tt.pattern != "/bin/rm *" {
			require.True(t, r.Covers(&ToolUse{Name: "bash", Args: args}, spec), "a deny rule %q covers %q", tt.pattern, tt.command)
		}
	}
}

// An allow rule for paths covers a patch as a whole or not at all; a deny rule that
// covers any of its files denies it.
func TestRulesOfPatches(t *testing.T) {
	patch := func(body string) *ToolUse {
		args, err := json.Marshal(map[string]string{"patch": "*** Begin Patch\n" + body + "*** End Patch\n"})
		require.NoError(t, err)
		return &ToolUse{Name: "apply_patch", Args: args}
	}
	tests := []struct {
		action  RuleAction
		pattern string
		call    *ToolUse
		want    bool
	}{
		{RuleAllow, "src/**", patch("*** Add File: src/a\n+a\n*** Delete File: src/b\n"), true},
		{RuleAllow, "src/**", patch("*** Add File: src/a\n+a\n*** Delete File: b\n"), false},
		{RuleAllow, "src/**", patch("*** Update File: src/a\n*** Move to: b\n"), false},
		{RuleAllow, "src/**", patch("*** Update File: src/a\n*** Move to: src/b\n"), true},
		{RuleAllow, "src/**", patch("*** Add File: src/../b\n+a\n"), false},
		{RuleAllow, "**", patch("*** Add File: conftest.py\n+a\n"), false},
		{RuleAllow, "", patch("*** Add File: conftest.py\n+a\n"), false},
		{RuleAllow, "", patch("*** Add File: a\n+a\n"), true},
		{RuleAllow, "**", &ToolUse{Name: "apply_patch", Args: json.RawMessage(`{"patch":"x"}`)}, false},
		{RuleDeny, "src/**", patch("*** Add File: a\n+a\n"), false},
		{RuleDeny, "src/**", patch("*** Add File: a\n+a\n*** Delete File: src/b\n"), true},
		{RuleDeny, "src/**", patch("*** Update File: a\n*** Move to: SRC/b\n"), true},
		{RuleDeny, "src/**", &ToolUse{Name: "apply_patch", Args: json.RawMessage(`{"patch":"x"}`)}, true},
		{RuleAsk, "src/**", &ToolUse{Name: "apply_patch", Args: json.RawMessage(`{}`)}, true},
	}
	spec := &ToolSpec{Name: "apply_patch", Effect: EffectWrite, Subject: Subject{Arg: "patch", Kind: SubjectPatch}}
	for _, tt := range tests {
		r := Rule{Action: tt.action, Tool: "apply_patch", Pattern: tt.pattern}
		require.Equal(t, tt.want, r.Covers(tt.call, spec), "%s %s: %s", tt.action, tt.pattern, tt.call.Args)
	}
}
