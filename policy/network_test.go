package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/policy"
)

// online puts a command to a policy that is to get the network by an argument.
func online(t *testing.T, p *policy.Policy, command string, network any) (string, aycoder.Verdict) {
	t.Helper()
	args, err := json.Marshal(map[string]any{"command": command, "network": network})
	require.NoError(t, err)
	v := p.Decide(t.Context(), &aycoder.ToolUse{ID: "1", Name: "bash", Args: args}, &bashSpec)
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var w struct{ Kind string }
	require.NoError(t, json.Unmarshal(data, &w))
	if w.Kind == "" {
		w.Kind = "ask"
	}
	return w.Kind, v
}

// A rule for a command that a sandbox keeps from the network does not give it that.
func TestArgumentNetworkIsOfClassNetwork(t *testing.T) {
	for _, rule := range []string{
		"allow bash:make test", "allow bash:make *", "allow bash@needs_approval:make *", "allow bash@needs_approval",
	} {
		p := newPolicy(t, policy.WithRules(policy.User, rules(t, rule)...))
		got, _ := online(t, p, "make test", false)
		require.Equal(t, "allow", got, rule)
		for _, yes := range []any{true, "true", 1} {
			got, v := online(t, p, "make test", yes)
			require.Equal(t, "ask", got, "%s %v", rule, yes)
			require.Equal(t, "network", v.Grounds().Class)
			for _, s := range v.Grounds().Suggested {
				p := newPolicy(t, policy.WithRules(policy.User, entry(t, policy.RuleAllow, s)))
				got, _ := online(t, p, "make test", yes)
				require.Equal(t, "allow", got, s)
			}
		}
	}
}

func TestArgumentNetworkAndRules(t *testing.T) {
	for _, c := range []struct{ rule, command, want string }{
		{"allow bash:go get *", "go get example.com/x", "allow"}, // that needs it
		{"allow bash", "make", "allow"},
		{"allow bash@network:make *", "make", "allow"},
		{"allow bash:rm -r out; make", "rm -r out; make", "ask"},
		{"allow bash@destructive:rm -r out; make", "rm -r out; make", "allow"},
		{"deny bash@network", "make", "deny"},
		{"deny bash@network:make *", "make all", "deny"},
		{"deny bash@destructive:make *", "make all", "ask"},
		{"allow bash:x", "ls -l", "allow"}, // provably has no use for it
	} {
		p := newPolicy(t, policy.WithRules(policy.User, rules(t, c.rule)...))
		got, _ := online(t, p, c.command, true)
		require.Equal(t, c.want, got, "%s: %s", c.rule, c.command)
	}
	p := newPolicy(t, policy.WithMode(policy.FullAuto))
	require.NoError(t, p.Audit(t.Context(), &aycoder.AuditRecord{Untrusted: true}))
	got, _ := online(t, p, "make", true)
	require.Equal(t, "ask", got, "after a stranger's text")
}
