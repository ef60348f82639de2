package aycoder

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func fetchCall(address string) (*ToolUse, *ToolSpec) {
	args, _ := json.Marshal(map[string]string{"url": address})
	spec := &ToolSpec{Name: "fetch", Effect: EffectReadOnly, OpenWorld: true}
	spec.Subject = Subject{Arg: "url", Kind: SubjectURL}
	return &ToolUse{ID: "1", Name: "fetch", Args: args}, spec
}

// The URLs that a rule for a host covers, as an allow rule and as a deny rule.
func TestRulesMatchHosts(t *testing.T) {
	tests := []struct {
		pattern, address string
		allow, deny      bool
	}{
		{"example.com", "https://example.com/x?y#z", true, true},
		{"example.com", "HTTP://Example.COM.", true, true},
		{"example.com", "https://example.com:443/", true, true},
		{"example.com", "https://example.com:0443/", true, true},
		{"example.com", "https://example.com:80/", false, true},
		{"example.com", "http://example.com:8080/", false, true},
		{"example.com:8080", "http://example.com:8080/", true, true},
		{"example.com:8080", "http://example.com/", false, false},
		{"example.com:443", "https://example.com/", true, true},
		{"EXAMPLE.com", "https://example.com/", true, true},
		{"example.com.", "https://example.com/", false, true},
		{"https://example.com/docs", "https://example.com/", false, true},
		{"example.com", "https://www.example.com/", false, false},
		{"example.com", "https://example.com.evil.org/", false, false},
		{"example.com", "https://evil.org/example.com", false, false},
		{"example.com", "https://evil.org?example.com", false, false},
		{"example.com", "https://evil.org#@example.com", false, false},
		{"*.example.com", "https://a.b.example.com/", true, true},
		{"*.example.com", "https://example.com/", false, true},
		{"*.example.com", "https://evilexample.com/", false, false},
		{"*.example.com", "http://a.example.com:81/", false, true},
		{"*", "https://anything.org:81/", true, true},
		{"", "https://anything.org/", true, true},
		{"[::1]", "http://[0:0::1]/", true, true},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", true, true},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/", true, true},
		{"127.0.0.1", "http://127.0.0.2/", false, false},
		{"bücher.example", "https://xn--bcher-kva.example/", false, true},
		// Parsers disagree about the host of these.
		{"example.com", "https://example.com@evil.org/", false, true},
		{"example.com", `https://evil.org\@example.com/`, false, true},
		{"example.com", "https://example.com%2eevil.org/", false, true},
		{"example.com", "https://exam\tple.com/", false, true},
		{"example.com", " https://example.com/", false, true},
		{"example.com", "https://ｅxample.com/", false, true},
		{"example.com", "https:example.com/", false, true},
		{"example.com", "//example.com/", false, true},
		{"example.com", "ftp://example.com/", false, true},
		{"example.com", "https://example.com:99999999/", false, true},
		{"example.com", "https://example..com/", false, true},
		{"example.com", "https:///example.com/", false, true},
		{"10.0.0.1", "http://167772161/", false, true},
		{"10.0.0.1", "http://0x0a000001/", false, true},
		{"10.0.0.1", "http://10.1/", false, true},
		{"10.0.0.1", "http://012.0.0.1/", false, true},
		{"10.0.0.1", "http://[::1%25eth0]/", false, true},
		{"example.com", "", false, true},
		{"example.com", "https://example.com/" + strings.Repeat("x", 20_000), false, true},
	}
	for _, tt := range tests {
		call, spec := fetchCall(tt.address)
		allow := Rule{Action: RuleAllow, Tool: "fetch", Pattern: tt.pattern}
		deny := Rule{Action: RuleDeny, Tool: "fetch", Pattern: tt.pattern}
		assert.Equal(t, tt.allow, allow.Covers(call, spec), "allow %s, %.60q", tt.pattern, tt.address)
		assert.Equal(t, tt.deny, deny.Covers(call, spec), "deny %s, %.60q", tt.pattern, tt.address)
	}
}

func TestWhatReachesOutIsAskedAbout(t *testing.T) {
	call, spec := fetchCall("https://go.dev/doc")
	require.Equal(t, Ask(), Rules{}.Decide(context.Background(), call, spec))
	rule, err := ParseRule(RuleAllow, "fetch:go.dev")
	require.NoError(t, err)
	require.Equal(t, Allow(), Rules{rule}.Decide(context.Background(), call, spec))
	spec.OpenWorld = false
	require.Equal(t, Allow(), Rules{}.Decide(context.Background(), call, spec))
}
