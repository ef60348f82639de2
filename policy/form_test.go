package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/policy"
)

// The file systems of macOS treat composed and decomposed letters as equal, so a deny rule covers a name in any form. The names
// are in the forms NFC and NFD of Unicode, by hand. An allow rule covers only the form in which it is written.
func TestDenyCoversAllForms(t *testing.T) {
	tests := []struct{ pattern, name, want string }{
		{"\u00fcber/*", "u\u0308ber/x", "deny"},
		{"u\u0308ber/*", "\u00fcber/x", "deny"},
		{"\u00fcber/**", "U\u0308BER/a/b", "deny"},
		{"*/\u00e9\u00e9t\u00e9", "x/e\u0301e\u0301te\u0301", "deny"},
		{"\u1ec7", "e\u0323\u0302", "deny"},
		{"\u304c.txt", "\u304b\u3099.txt", "deny"},
		{"\ud55c\uae00/", "\u1112\u1161\u11ab\u1100\u1173\u11af/x", "deny"},
		{"cafe*", "cafe\u0301", "deny"},
		{"caf?", "cafe\u0301", "deny"},
		{"\u00fcber", "uber", "allow"},
		{"\u79d8\u5bc6/*", "\u6587\u6863/x", "allow"},
		{"\u00fc/*", "\u00e9/x", "allow"},
		{"\u00fcber", "u\u0308berall", "allow"},
	}
	for _, tt := range tests {
		p := newPolicy(t, policy.WithRules(policy.User, policy.Rule{Action: policy.RuleDeny, Tool: "read_file", Pattern: tt.pattern}))
		got, _ := ask(t, p, &readSpec, tt.name)
		require.Equal(t, tt.want, got, "%+q %+q", tt.pattern, tt.name)
	}
}
