package shell_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/shell"
)

// daily reads the commands that developers run all day, with class and reason.
func daily(t testing.TB) (harmless, others []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "harmless.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			require.True(t, strings.HasPrefix(line, "#"), line)
			continue
		}
		class, ok := shell.ParseClass(f[0])
		require.True(t, ok, line)
		if class == shell.ReadOnly {
			harmless = append(harmless, f[2])
		} else {
			others = append(others, f[2])
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
