package changeset_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/changeset"
	"github.com/stretchr/testify/require"
)

// A history is the contents of one file, each with who has written it: "m" and "h" are agents of the
// run, "u" is the user, "b" is an agent of another run, and "mb" one of both. The content "-" is that of no
// file.
func changesOf(t *testing.T, history ...string) *edit.Changes {
	t.Helper()
	contents := map[string]string{}
	state := func(text string) changeset.State {
		if text == "-" {
			return changeset.State{}
		}
		sum := sha256.Sum256([]byte(text))
		hash := hex.EncodeToString(sum[:])
		contents[hash] = text
		return changeset.State{Kind: changeset.File, Mode: 0o644, Size: int64(len(text)), Hash: hash}
	}
	var l changeset.Ledger
	for i := 1; i < len(history); i++ {
		who, text, _ := strings.Cut(history[i], " ")
		_, before, _ := strings.Cut(history[i-1], " ")
		by := changeset.Authors{Other: strings.Contains(who, "b")}
		if who == "m" || who == "h" || who == "mb" {
			by.By = []edit.ChangedBy{{Run: who, Tool: true}}
		}
		l.Add("f", state(before), state(text), by)
	}
	return l.Changes(t.Context(), changeset.Source{
		Content: func(_ context.Context, s changeset.State, _ map[string][]byte) ([]byte, error) {
			return []byte(contents[s.Hash]), nil
		},
		Git:    func(context.Context, map[string]int64) map[string][]byte { return nil },
		Secret: func(string) bool { return false },
	}, nil)
}

func TestNet(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	tests := []struct {
		name    string
		history []string
		hunks   string // the changed lines, or "none"
		mixed   bool
	}{
		{"one", []string{"u " + text, "m " + with("2", "two")}, "-2 +two", false},
		{"the user's alone", []string{"u " + text, "u " + with("2", "two")}, "none", false},
		{"the user's before", []string{"u " + text, "u " + with("5", "five"), "m " + with("5", "five", "2", "two")}, "-2 +two", false},
		{"the user's after", []string{"u " + text, "m " + with("2", "two"), "u " + with("2", "two", "9", "nine")}, "-2 +two", false},
		{"the user's between", []string{"u " + text, "m " + with("2", "two"), "u " + with("2", "two", "9", "nine"), "m " + with("2", "too", "9", "nine")}, "-2 +too", false},
		{"the user's on it", []string{"u " + text, "m " + with("2", "two"), "u " + with("2", "TWO")}, "-2 +TWO", true},
		{"undone by the user", []string{"u " + text, "m " + with("2", "two"), "u " + text}, "none", false},
		{"undone by the agent", []string{"u " + text, "m " + with("2", "two"), "m " + text}, "none", false},
		{"the last one undone", []string{"u " + text, "m " + with("2", "two"), "m " + with("2", "x"), "u " + with("2", "two")}, "-2 +two", false},
		{"the last one of two agents undone", []string{"u " + text, "h " + with("2", "two"), "m " + with("2", "x"), "u " + with("2", "two")}, "-2 +two", false},
		{"created", []string{"u -", "m x\n"}, "+x", false},
		{"created, and the user went on", []string{"u -", "m x\n", "u x\ny\n"}, "+x +y", true},
		{"deleted by the user", []string{"u " + text, "m " + with("2", "two"), "u -"}, "none", false},
		{"deleted, and created by the user", []string{"u " + text, "m -", "u x\n"}, "none", false},
		{"created and deleted", []string{"u -", "m x\n", "m -"}, "none", false},
		{"another run's before", []string{"u " + text, "b " + with("8", "eight"), "m " + with("8", "eight", "2", "two")}, "-2 +two", false},
		{"another run's after", []string{"u " + text, "m " + with("2", "two"), "b " + with("8", "eight", "2", "two")}, "-2 +two", false},
		{"another run's on it", []string{"u " + text, "b " + with("2", "two"), "m " + with("2", "TWO")}, "-two +TWO", true},
		{"another run's, deleted", []string{"u " + text, "b " + with("2", "two"), "m -"}, "-1 -two -3 -4 -5 -6 -7 -8 -9", true},
		{"another run's, taken back", []string{"u " + text, "b " + with("2", "two"), "m " + text}, "-two +2", true},
		{"another run's, created", []string{"u -", "b 1\n", "m 1\n2\n"}, "+2", true},
		{"another run's alone", []string{"u " + text, "b " + with("2", "two")}, "none", false},
		{"taken back by another run", []string{"u " + text, "m " + with("2", "two"), "b " + text}, "none", false},
		{"perhaps another run's", []string{"u " + text, "mb " + with("2", "two")}, "-2 +two", true},
		{"perhaps another run's, and taken back", []string{"u " + text, "mb " + with("2", "two"), "u " + text, "m " + with("5", "five")}, "-5 +five", false},
		{"deleted and created", []string{"u " + text, "m -", "m " + with("2", "two")}, "-2 +two", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := changesOf(t, tt.history...).Files()
			if tt.hunks == "none" {
				require.Empty(t, files)
				return
			}
			require.Len(t, files, 1)
			require.Equal(t, tt.mixed, files[0].Mixed)
			var got []string
			_, body, _ := strings.Cut(files[0].Diff, "@@\n")
			for line := range strings.Lines(body) {
				if line[0] != ' ' {
					got = append(got, strings.TrimSpace(line))
				}
			}
			require.Equal(t, tt.hunks, strings.Join(got, " "))
		})
	}
}

// Each agent has the part that it has made, whoever came after it.
func TestNetOfAgents(t *testing.T) {
	const text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	c := changesOf(t, "u "+text, "m "+with("2", "two"), "h "+with("2", "two", "8", "eight"), "u "+with("2", "two", "8", "eight", "5", "five"))
	require.Contains(t, c.Diff(), "-2\n+two")
	require.Contains(t, c.Diff(), "-8\n+eight")
	require.NotContains(t, c.Diff(), "-5")
	require.Contains(t, c.Diff("m"), "-2\n+two")
	require.NotContains(t, c.Diff("m"), "-8")
	require.Contains(t, c.Diff("h"), "-8\n+eight")
	require.NotContains(t, c.Diff("h"), "-2")
	c = changesOf(t, "u "+text, "m "+with("2", "two"), "h "+with("2", "TWO"))
	require.Empty(t, c.Diff("m"))
	require.Contains(t, c.Diff(), "-2\n+TWO")
}
