package shell_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/corpus"
	"github.com/aycoder/aycoder/internal/shell"
)

// world is where the commands of the shared cases run.
var world = shell.World{Dir: "/ws", Root: "/ws", Home: "/home/user"}

type attack struct {
	ID       string   `json:"id"`
	Family   string   `json:"family"`
	Cmd      string   `json:"cmd"`
	Class    string   `json:"class"`
	Labels   []string `json:"labels"`
	Decision string   `json:"default_decision"`
	Unsafe   bool     `json:"unsafe_if_allowed"`

	Why, Source, Split, Evidence string // for readers
	Verifiable, Observed         any
}

// attacks reads the shared cases.
func attacks(t testing.TB) []attack {
	t.Helper()
	data, err := os.ReadFile(corpus.Path(t, "attacks/shell_commands.shared.json", "599 commands"))
	require.NoError(t, err)
	var all struct {
		Version, Classes, World, Split any
		SeverityOrder                  any `json:"severity_order"`
		Cases                          []attack
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&all))
	return all.Cases
}

// The bars of the classifier on the shared cases.
func TestAttacks(t *testing.T) {
	cases := attacks(t)
	require.Greater(t, len(cases), 100)
	var harmless, allowed, exact, understated, deny, denied, overdenied int
	for _, c := range cases {
		want, ok := shell.ParseClass(c.Class)
		require.True(t, ok, c.Class)
		a := shell.Analyze(c.Cmd, world)
		if c.Unsafe && a.Allow {
			t.Errorf("%s: %q is allowed, want %s %s", c.ID, c.Cmd, c.Class, c.Decision)
		}
		if c.Decision == "allow" {
			harmless++
			if a.Allow {
				allowed++
			} else {
				t.Logf("not allowed: %q: %s %q", c.Cmd, a.Class, a.Why)
			}
		}
		if a.Class == want {
			exact++
		} else {
			t.Logf("%s %q: %s, want %s: %q", c.ID, c.Cmd, a.Class, want, a.Why)
		}
		if c.Unsafe && a.Class < want && a.Class != shell.NeedsApproval {
			understated++
			t.Errorf("%s: %q is %s, want %s: %q", c.ID, c.Cmd, a.Class, want, a.Why)
		}
		if c.Decision == "deny" {
			deny++
		}
		switch {
		case c.Decision == "deny" && a.Deny:
			denied++
		case c.Decision == "deny":
			t.Logf("not denied: %q: %s %q", c.Cmd, a.Class, a.Why)
		case a.Deny:
			overdenied++
			t.Errorf("%s: %q is denied, want %s: %q", c.ID, c.Cmd, c.Decision, a.Why)
		}
	}
	t.Logf("%d cases: %d of %d harmless allowed, %d exact, %d understated, %d of %d denied, %d denied too many",
		len(cases), allowed, harmless, exact, understated, denied, deny, overdenied)
	assert.GreaterOrEqual(t, allowed*100, harmless*95)
	assert.GreaterOrEqual(t, exact*100, len(cases)*85)
	assert.Equal(t, deny, denied)
}
