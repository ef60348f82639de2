package session

import (
	"context"
	"syscall"
	"testing"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
	"github.com/stretchr/testify/require"
)

// An object is needed if the state of one file needs it, although git has the same content of another.
func TestObjectsThatGitHasToo(t *testing.T) {
	held, git := snapshot.State{Kind: snapshot.KindFile, Hash: journal.HashOf([]byte("a"))}, snapshot.State{Kind: snapshot.KindFile, Hash: journal.HashOf([]byte("a")), Git: "blob"}
	for _, files := range [][]snapshot.State{{held, git}, {git, held}} {
		v := &View{}
		var nodes []*Node
		for _, f := range files {
			nodes = append(nodes, &Node{Files: map[string]snapshot.State{"f": f}})
		}
		require.Equal(t, map[journal.Hash]bool{held.Hash: true}, v.objects(nodes))
	}
	require.Equal(t, map[journal.Hash]bool{held.Hash: false}, new(View).objects([]*Node{{Files: map[string]snapshot.State{"f": git}}}))
}

// The contents that the model was shown become the bases of merges in another process.
func TestShownIsStored(t *testing.T) {
	j, err := journal.Memory().Create(t.Context(), "s")
	require.NoError(t, err)
	s := &Session{journal: &depot{journal: j}}
	seen := &shownFiles{SeenFiles: new(workspace.SeenFiles), told: map[string]shownSeen{}}
	seen.Add("a", "shown before\n")
	seen.Add("a", "disk\n")
	files, err := s.storeShown(t.Context(), seen)
	require.NoError(t, err)
	require.Len(t, files, 1)
	again, err := s.storeShown(t.Context(), seen)
	require.NoError(t, err)
	require.Empty(t, again)
	restored, err := s.restoreShown(t.Context(), new(workspace.SeenFiles), files)
	require.NoError(t, err)
	require.Equal(t, []string{"disk\n", "shown before\n"}, restored.Contents("a"))
	require.Equal(t, string(journal.HashOf([]byte("disk\n"))), restored.Hash("a"))
	again, err = s.storeShown(t.Context(), restored)
	require.NoError(t, err)
	require.Empty(t, again)
}

// full is a journal of a full disk.
type full struct{ journal.Journal }

func (full) Put(context.Context, journal.Hash, []byte) error { return syscall.ENOSPC }

// Once an object is only in memory, no record is written, since it could name the object.
func TestSpareJournal(t *testing.T) {
	j, err := journal.Memory().Create(t.Context(), "s")
	require.NoError(t, err)
	spare := &depot{journal: full{j}, spare: true}
	require.NoError(t, spare.append(t.Context(), true, [][]byte{[]byte("{}")}))
	data := []byte("held")
	require.NoError(t, spare.Put(t.Context(), journal.HashOf(data), data))
	held, err := spare.Get(t.Context(), journal.HashOf(data))
	require.NoError(t, err)
	require.Equal(t, data, held)
	require.ErrorIs(t, spare.append(t.Context(), true, [][]byte{[]byte("{}")}), syscall.ENOSPC)
	large := make([]byte, 65<<20)
	err = spare.Put(t.Context(), journal.HashOf(large), large)
	require.ErrorIs(t, err, snapshot.ErrNoRoom)
	require.ErrorIs(t, err, syscall.ENOSPC)
}
