package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/internal/ondisk"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

// damage changes a byte of a file. The function at finds it.
func damage(t testing.TB, name string, at func(data []byte) int) {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	i := at(data)
	require.GreaterOrEqual(t, i, 0)
	data[i] ^= 2
	require.NoError(t, os.WriteFile(name, data, 0o600))
}

func dirSetup() agenttest.JournalSetup {
	return agenttest.JournalSetup{
		Open: func(t testing.TB, dir string) journal.Store {
			s, err := journal.Dir(dir)
			require.NoError(t, err)
			return s
		},
		DamageObject: func(t testing.TB, dir, id string, hash journal.Hash) {
			name := filepath.Join(dir, id, "objects", string(hash))
			damage(t, name, func(data []byte) int { return len(data) / 2 })
		},
		DamageRecord: func(t testing.TB, dir, id string, n int) {
			damage(t, filepath.Join(dir, id, "journal.jsonl"), func(data []byte) int {
				return bytes.LastIndex(data, []byte{'"', 'n', '"', ':', byte('0' + n)}) + 4
			})
		},
	}
}

func TestDirIsAStore(t *testing.T) {
	ondisk.Use(t)
	setup := dirSetup()
	setup.Kills = 40
	if n, err := strconv.Atoi(os.Getenv("AYCODER_KILLS")); err == nil {
		setup.Kills = n
	} else if testing.Short() || timed.Reduced(t) {
		setup.Kills = 8
	}
	agenttest.TestJournal(t, setup)
}

func TestMemoryIsAStore(t *testing.T) {
	agenttest.TestJournal(t, agenttest.JournalSetup{
		Open:     func(testing.TB, string) journal.Store { return journal.Memory() },
		InMemory: true,
	})
}
