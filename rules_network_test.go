package aycoder_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A rule for a command's words does not allow the network, which a sandbox blocks
// unless an argument asks for it.
func TestRuleForACommandGivesNoNetwork(t *testing.T) {
	spec := &aycoder.ToolSpec{Name: "bash", Subject: aycoder.Subject{Arg: "command", Kind: aycoder.SubjectCommand}}
	for args, want := range map[string]bool{
		`{"command":"make test"}`:                   true,
		`{"command":"make test","network":false}`:   true,
		`{"command":"make test","network":true}`:    false,
		`{"command":"make test","network":"true"}`:  false,
		`{"command":"make test","network" : true }`: false,
	} {
		call := &aycoder.ToolUse{Name: "bash", Args: json.RawMessage(args)}
		for _, pattern := range []string{"make test", "make *"} {
			allow := aycoder.Rule{Action: aycoder.RuleAllow, Tool: "bash", Pattern: pattern}
			require.Equal(t, want, allow.Covers(call, spec), args)
			deny := aycoder.Rule{Action: aycoder.RuleDeny, Tool: "bash", Pattern: pattern}
			require.True(t, deny.Covers(call, spec), args)
		}
		require.True(t, aycoder.Rule{Action: aycoder.RuleAllow, Tool: "bash"}.Covers(call, spec))
	}
}
