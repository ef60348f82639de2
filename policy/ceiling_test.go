package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/shell"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/policy"
)

// A rule with a star and without a class says nothing of what comes in the star's place.
func TestRulesHaveACeiling(t *testing.T) {
	tests := []struct {
		rule, command, want string
	}{
		{"bash:git log *", "git log --oneline -3", "allow"},
		{"bash:git log *", "git log --output=/home/user/.bashrc", "ask"},
		{"bash:git log *", "git log --output=~/.bashrc", "ask"},
		{"bash:git log *", "git log --output /tmp/x", "ask"},
		{"bash:git log *", "git log --output=.github/workflows/x.yml", "ask"},
		{"bash:go test *", "go test -v ./...", "allow"},
		{"bash:go test *", "go test -o ~/.bashrc ./...", "ask"},
		{"bash:go test *", "go test -o /tmp/x ./...", "ask"},
		{"bash:go test *", "go test -c -o conftest.py .", "ask"},
		{"bash:tar *", "tar --checkpoint=1 --checkpoint-action=exec=sh -cf x.tar a", "ask"},
		{"bash:tar *", "tar xf a.tar --to-command=sh", "ask"},
		{"bash:tar *", "tar xf a.tar -C /tmp", "ask"},
		{"bash:tar *", "tar cf x.tar a", "allow"},
		{"bash:rm *", "rm -rf src", "ask"},
		{"bash@destructive:rm *", "rm -rf src", "allow"},
		{"bash:rm -rf src", "rm -rf src", "allow"},
		{"bash:sudo *", "sudo ls", "ask"},
		{"bash:curl *", "curl https://example.com", "allow"},
		{"bash:curl *", "curl -o /tmp/x https://example.com", "ask"},
		{"bash:curl *", "curl -o ~/.bashrc https://example.com", "ask"},
		{"bash@writes_outside:curl *", "curl https://example.com", "ask"},
		{"bash:cp *", "cp a b", "allow"},
		{"bash:cp *", "cp a ../b", "ask"},
		{"bash:cp *", "cp a ~/.ssh/config", "ask"},
		{"bash:cp *", "cp x/conftest.py tests/", "ask"},
		{"bash:cp *", "cp -t tests x/conftest.py", "ask"},
		{"bash:cp /tmp/a /tmp/b", "cp /tmp/a /tmp/b", "allow"},
		{"bash", "touch a", "allow"},
		{"bash", "go test ./...", "allow"},
		{"bash", "rm a", "ask"},
		{"bash", "touch /tmp/a", "ask"},
		{"bash", "touch a && rm a", "ask"},
		{"bash", "sudo ls", "ask"},
		{"bash@escalates", "sudo ls", "allow"},
		{"*", "sudo ls", "ask"},
		{"bash:echo *", "echo a > /tmp/x", "ask"},
		{"bash:*", "rm a", "ask"},
		{"bash:r* *", "rm a", "ask"},
		{"bash:* a", "rm a", "ask"},
		{"bash:rm a*", "rm a", "ask"},
		{"bash:touch *", "touch a/conftest.py", "ask"},
		{"bash:touch a/conftest.py", "touch a/conftest.py", "allow"},
		{"bash@escalates:touch *", "touch a/conftest.py", "ask"}, // no rule but one that names it
	}
	t.Setenv("HOME", "/home/user")
	for _, tt := range tests {
		p := newPolicy(t, policy.WithRules(policy.User, entry(t, policy.RuleAllow, tt.rule)))
		got, v := ask(t, p, &bashSpec, tt.command)
		require.Equal(t, tt.want, got, "%s with %s: %+v", tt.command, tt.rule, v.Grounds())
	}
}

// The ceiling holds whatever the star is made of: no rule of a program's name and a star
// covers a command of the shared cases that reaches farther.
func TestAttacksWithStars(t *testing.T) {
	timed.Serial(t)
	cases := attacks(t)
	t.Setenv("HOME", "/home/user")
	checked := 0
	for _, c := range cases {
		a := shell.Analyze(c.Cmd, shell.World{Dir: root, Root: root, Home: "/home/user"})
		class, ok := shell.ParseClass(c.Class)
		require.True(t, ok, c.ID)
		if class != shell.WritesOutside && class != shell.Destructive && class != shell.Escalates || a.Class <= shell.NeedsApproval {
			continue // what the classifier does not see no rule can
		}
		texts := []string{"*", "bash", "bash:*", "bash:* *"}
		for _, cmd := range a.Commands {
			if len(cmd.Argv) > 0 && cmd.Argv[0] != "" {
				texts = append(texts, "bash:"+cmd.Argv[0]+" *")
			}
		}
		var entries []policy.Rule
		for _, text := range texts {
			entries = append(entries, entry(t, policy.RuleAllow, text))
		}
		checked++
		p := newPolicy(t, policy.WithRules(policy.User, entries...))
		if got, v := ask(t, p, &bashSpec, c.Cmd); got == "allow" {
			t.Errorf("%s (%s) runs by %s: %s", c.ID, c.Class, v.Grounds().Rule, c.Cmd)
		}
	}
	t.Logf("%d commands", checked)
	require.Greater(t, checked, 100)
}

// After a stranger's text, what is opaque asks as well, whatever allows it.
func TestTaintedOpaque(t *testing.T) {
	for _, command := range []string{"./x.sh", "make", "python3 x.py", "npm test", "go generate ./...", "bash x.sh", "touch a && make"} {
		for _, mode := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.FullAuto} {
			p := newPolicy(t, policy.WithMode(mode), policy.WithRules(policy.User,
				entry(t, policy.RuleAllow, "bash"), entry(t, policy.RuleAllow, "bash:"+command)))
			got, _ := ask(t, p, &bashSpec, command)
			require.Equal(t, "allow", got, command)
			require.NoError(t, p.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
			got, v := ask(t, p, &bashSpec, command)
			require.Equal(t, "ask", got, "%s: %s", mode, command)
			require.Contains(t, v.Grounds().Reasons[len(v.Grounds().Reasons)-1], "stranger")
			got, _ = ask(t, p, &bashSpec, "touch a")
			require.Equal(t, "allow", got, "what is known to stay in the workspace")
		}
	}
}

// A catastrophe is denied in every mode, also with rules for all that is like it.
func TestCatastrophesAreDenied(t *testing.T) {
	t.Setenv("HOME", "/home/user")
	denied := 0
	for _, command := range []string{`rm -rf "$UNSET"/`, "reboot", "shutdown", "rm -rf /", "rm -rf ~", ":(){ :|:& };:", "mkfs.ext4 /dev/sda"} {
		a := shell.Analyze(command, shell.World{Dir: root, Root: root, Home: "/home/user"})
		if !a.Deny {
			t.Logf("the classifier does not know it: %s", command)
			continue
		}
		denied++
		for _, mode := range []policy.Mode{policy.Ask, policy.AcceptEdits, policy.Plan, policy.FullAuto} {
			p := newPolicy(t, policy.WithMode(mode), policy.WithRules(policy.User, entry(t, policy.RuleAllow, "bash@escalates"),
				entry(t, policy.RuleAllow, "bash@escalates:* *"), entry(t, policy.RuleAllow, "bash")))
			got, _ := ask(t, p, &bashSpec, command)
			require.Equal(t, "deny", got, "%s: %s", mode, command)
		}
	}
	require.GreaterOrEqual(t, denied, 4)
}
