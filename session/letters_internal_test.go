package session

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// The ids of SteerOnce are not copied for each message.
func TestManyLetters(t *testing.T) {
	loop, err := aycoder.New(script.New())
	require.NoError(t, err)
	s, err := New(t.Context(), journal.Memory(), loop)
	require.NoError(t, err)
	n := 0
	note := func() {
		n++
		s.apply(&record{Kind: kindUnsay, Branch: s.name, Letter: strconv.Itoa(n)})
	}
	for range 5000 {
		note()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, note), 4.0)
	require.Len(t, s.Branch.letters, n)
}
