package session_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
	"github.com/aycoder/aycoder/session"
)

// The journal of a long conversation has at most one and a half times the bytes of its messages. AYCODER_TURNS sets
// the number of turns.
func TestJournalSize(t *testing.T) {
	for _, c := range []struct {
		name string
		step []script.Step
	}{
		{"text", []script.Step{script.Say(strings.Repeat("words and more ", 56))}},
		{"tools", []script.Step{script.Reply(call("look", strings.Repeat("line of a file ", 200))), script.Say(strings.Repeat("words ", 30))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := journal.Dir(dir)
			require.NoError(t, err)
			l, err := aycoder.New(script.New(c.step...).With(script.WithLoop(true)), aycoder.WithTools(echo(t, "look", aycoder.EffectReadOnly)))
			require.NoError(t, err)
			s, err := session.New(t.Context(), store, l, session.WithSync(session.SyncTurns))
			require.NoError(t, err)
			turns, most := 100, 1.48 // numbers in records grow: by a hundredth of all from 100 turns to 800
			if n, err := strconv.Atoi(os.Getenv("AYCODER_TURNS")); err == nil {
				turns, most = n, 1.5
			}
			for range turns {
				run(t, s, strings.Repeat("prompt of the user ", 8))
			}
			sum := 0
			for _, m := range s.View().Messages(s.Head()) {
				data, err := json.Marshal(m)
				require.NoError(t, err)
				sum += len(data)
			}
			info, err := os.Stat(filepath.Join(dir, s.ID(), "journal.jsonl"))
			require.NoError(t, err)
			t.Logf("%d bytes a turn of messages, %.2f times that in the journal", sum/turns, float64(info.Size())/float64(sum))
			require.LessOrEqual(t, float64(info.Size()), most*float64(sum))
		})
	}
}
