package policy_test

import (
	"strings"
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
		{"??.txt", "e\u0301o\u0308.txt", "deny"},
		{"?\u00e9", "e\u0301e\u0301", "deny"},
		{"[\u00e0-\u00fc][\u00e0-\u00fc]", "e\u0301o\u0308", "deny"},
		{"[\uac00-\ud7a3]", "\u1112\u1161\u11ab", "deny"},
		{"\u30f4\u30f7\u3071/*", "\u30a6\u3099\u30ef\u3099\u306f\u309a/x", "deny"},
		{"\u03b1\u0390", "\u03b1\u03b9\u0308\u0301", "deny"},
		{"\u00c5", "a\u030a", "deny"},
		{"\u212b", "A\u030a", "deny"},
		{strings.Repeat("\u00e9", 600), strings.Repeat("e\u0301", 600), "deny"},
		{"\u00fcber", "uber", "allow"},
		{"\u79d8\u5bc6/*", "\u6587\u6863/x", "allow"},
		{"\u00fc/*", "\u00e9/x", "allow"},
		{"\u00fcber", "u\u0308berall", "allow"},
		{"\u00e9", "e\u0301te\u0301", "allow"},
		{"\ube44\ubc00/*", "\u1106\u116e\u11ab\u1109\u1165/x", "allow"},                   // secret, document
		{"\u03bc\u03c5\u03c3\u03c4\u03b9\u03ba\u03ac/*", "\u03ba\u03b1\u03b9/x", "allow"}, // with an iota, which folds to a combining one
		{"\u79d8\u5bc6/*", "\u304b\u3099\u3089/x", "allow"},
		{"\u0e01\u0e02", "\u0e03\u0e04/e\u0301", "allow"},
	}
	for _, tt := range tests {
		p := newPolicy(t, policy.WithRules(policy.User, policy.Rule{Action: policy.RuleDeny, Tool: "read_file", Pattern: tt.pattern}))
		got, _ := ask(t, p, &readSpec, tt.name)
		require.Equal(t, tt.want, got, "%+q %+q", tt.pattern, tt.name)
	}
}
