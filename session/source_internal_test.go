package session

import (
	"context"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
)

// silent is an agent that is never asked.
type silent struct{}

func (silent) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(func(aycoder.Event, error) bool) {}
}

// talked is a session with n messages, which nobody has.
func talked(t *testing.T, n int) *Session {
	store, err := journal.Dir(t.TempDir())
	require.NoError(t, err)
	s, err := New(t.Context(), store, silent{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	say(t, s, n)
	return s
}

// say adds messages.
func say(t *testing.T, s *Session, n int) {
	for range n {
		m := aycoder.User("message " + strconv.Itoa(int(s.tree.next())))
		w, err := wire(m, nil)
		require.NoError(t, err)
		require.NoError(t, s.write(t.Context(), true, s.Branch.next(&record{Message: w, message: m})))
	}
}

// text returns the text of a message as the journal has it.
func text(s *Session, id ID) string {
	rec, err := s.source.record(id)
	if err != nil {
		return err.Error()
	}
	return rec.message.Text()
}

// Nodes are found by who has begun to read when the records are rewritten.
func TestReadingWhileRecordsAreRewritten(t *testing.T) {
	s := talked(t, 4)
	require.NoError(t, s.SetLabel(t.Context(), 1, "a label at the end of the records"))
	say(t, s, 4)
	was := s.source.place(7)
	require.Equal(t, "message 1", text(s, 1))
	require.NoError(t, s.Trim(t.Context()))
	require.NotEqual(t, was, s.source.place(7))
	require.Equal(t, "message 7", text(s, 7))
	s.source.put(7, was) // as for who looked it up before
	require.Equal(t, "message 7", text(s, 7))
}

// A reader that looks for a node again does not forget where nodes are that were added meanwhile.
func TestFindingWhileNodesAreAdded(t *testing.T) {
	s := talked(t, 4)
	wrong, added := journal.Place{At: 5, Size: 6}, journal.Place{At: 7, Size: 8}
	s.source.put(2, wrong)
	s.source.put(5, added) // the records that are about to be read do not have it
	require.True(t, s.source.find(2, wrong))
	require.Equal(t, added, s.source.place(5))
	require.Equal(t, "message 2", text(s, 2))
}

// Reading a message does not take the memory of what other branches have written between its parts.
func TestReadingBetweenOtherRecords(t *testing.T) {
	s := talked(t, 1)
	part := &aycoder.Text{Text: "of the fact"}
	fact := &record{seq: 1}
	var err error
	fact.line, err = (aycoder.FactRecord{Run: runRef(1), Seq: 1, Fact: &aycoder.BlockDone{Part: part}}).MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, s.write(t.Context(), true, fact))
	const size, others = 1 << 20, 20
	for range others {
		m := aycoder.User(strings.Repeat("x", size))
		w, err := wire(m, nil)
		require.NoError(t, err)
		require.NoError(t, s.write(t.Context(), true, s.Branch.next(&record{Message: w, message: m})))
	}
	m := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{part}}
	w, err := wire(m, map[aycoder.Part]*record{part: fact})
	require.NoError(t, err)
	node := s.Branch.next(&record{Run: 1, Message: w, message: m})
	node.needs(fact)
	require.NoError(t, s.write(t.Context(), true, node))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Equal(t, "of the fact", text(s, node.ID))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(others/2*size))
}
