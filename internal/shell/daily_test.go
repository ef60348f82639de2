package shell_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/cases"
	"github.com/aycoder/aycoder/internal/shell"
)

// daily reads the commands that developers run all day, with class and reason.
func daily(t testing.TB) (harmless, others []string) {
	t.Helper()
	for _, row := range cases.ReadTable(t, filepath.Join("testdata", "harmless.txt"), 3) {
		class, ok := shell.ParseClass(row[0])
		require.True(t, ok, row)
		if class == shell.ReadOnly {
			harmless = append(harmless, row[2])
		} else {
			others = append(others, row[2])
		}
	}
	return harmless, others
}

// Of what developers run all day and what only reads by the manuals, nearly all runs
// unasked; what looks harmless and is not asks.
func TestDaily(t *testing.T) {
	harmless, others := daily(t)
	require.GreaterOrEqual(t, len(harmless), 300)
	allowed := 0
	for _, cmd := range harmless {
		if a := shell.Analyze(cmd, world); a.Allow {
			allowed++
		} else {
			t.Logf("asks: %q: %s %q", cmd, a.Class, a.Why)
		}
	}
	for _, cmd := range others {
		assert.False(t, shell.Analyze(cmd, world).Allow, cmd)
	}
	t.Logf("%d of %d harmless commands run unasked, none of %d others", allowed, len(harmless), len(others))
	assert.GreaterOrEqual(t, allowed*100, len(harmless)*95)
}
