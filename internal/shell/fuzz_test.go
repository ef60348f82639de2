package shell_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/shell"
)

// Whatever a script is: no panic, the same answer each time, allowed only what reads
// only, commands that cover the whole, and no way to hide a second command behind the
// first.
func FuzzAnalyze(f *testing.F) {
	for _, s := range harmless {
		f.Add(s)
	}
	for _, family := range asks {
		for _, s := range family {
			f.Add(s)
		}
	}
	for _, s := range denied {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		a := shell.AnalyzeBare(script, world)
		require.Equal(t, a, shell.Analyze(script, world))
		if a.Allow {
			require.Equal(t, shell.ReadOnly, a.Class)
			require.False(t, a.Deny)
			for _, more := range []string{"\nrm -rf /", "\n: > x", "; rm -rf /", " `rm x`"} {
				if more[0] == '\n' || !strings.Contains(script, "#") { // else it may be in a comment
					require.False(t, shell.Analyze(script+more, world).Allow, "%q then %q", script, more)
				}
			}
			require.False(t, shell.Analyze("rm -rf /;"+script, world).Allow)
		}
		highest := shell.ReadOnly
		for _, c := range a.Commands {
			highest = max(highest, c.Class)
			require.Equal(t, c.Class == shell.ReadOnly, c.Why == "")
		}
		require.Equal(t, a.Class, highest)
		if shell.Analyze(script, shell.World{}).Allow {
			require.True(t, a.Allow, "less is known, and more is allowed")
		}
		_ = a.Prefixes()
	})
}
