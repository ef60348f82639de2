package session

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// An object that is stored before something is said is gone with the session if nothing follows.
func TestLateJournalPut(t *testing.T) {
	dir := t.TempDir()
	store, err := Dir(dir)
	require.NoError(t, err)
	j := &lateJournal{store: store, id: newID()}
	require.True(t, j.hold([][]byte{[]byte(`{"a":1}`)}))
	_, err = j.Get(t.Context(), HashOf([]byte("text")))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, j.Put(t.Context(), HashOf([]byte("text")), []byte("text")))
	data, err := j.Get(t.Context(), HashOf([]byte("text")))
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	require.True(t, j.hold([][]byte{[]byte(`{"b":2}`)}), "nothing has been said yet")
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Append(t.Context(), true, []byte(`{}`)), fs.ErrClosed)
	_, err = os.Stat(dir + "/" + j.id)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
