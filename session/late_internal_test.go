package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/providers/script"
)

// fullStore cannot create a session.
type fullStore struct{ journal.Store }

func (fullStore) Create(context.Context, string) (journal.Journal, error) {
	return nil, errors.New("full")
}

// A note that cannot be stored is not lost without an error.
func TestLateNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loop, err := aycoder.New(script.New(script.Say("Hello.")))
		require.NoError(t, err)
		s, err := New(t.Context(), fullStore{journal.Memory()}, loop, WithLateCreate())
		require.NoError(t, err)
		g, err := background.New()
		require.NoError(t, err)
		require.NoError(t, s.SetBackground(t.Context(), g, nil))
		j, err := g.Start(t.Context(), &aycoder.Invocation{}, background.Work{Kind: background.Command, Prefix: "bash", Name: "x",
			Run: func(context.Context, *background.Job) background.Outcome {
				return background.Outcome{State: background.Done}
			}})
		require.NoError(t, err)
		j.Release(false)
		synctest.Wait()
		require.ErrorContains(t, s.Err(), "full")
		require.NoError(t, s.Close())
	})
}

// An object that is stored before something is said is gone with the session if nothing follows.
func TestLateJournalPut(t *testing.T) {
	dir := t.TempDir()
	store, err := journal.Dir(dir)
	require.NoError(t, err)
	j := &depot{store: store, id: newID()}
	require.True(t, j.hold([][]byte{[]byte(`{"a":1}`)}))
	_, err = j.Get(t.Context(), journal.HashOf([]byte("text")))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, j.Put(t.Context(), journal.HashOf([]byte("text")), []byte("text")))
	data, err := j.Get(t.Context(), journal.HashOf([]byte("text")))
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	require.True(t, j.hold([][]byte{[]byte(`{"b":2}`)}), "nothing has been said yet")
	require.NoError(t, j.close())
	require.NoError(t, j.close())
	require.ErrorIs(t, j.begin(t.Context()), fs.ErrClosed)
	_, err = os.Stat(dir + "/" + j.id)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
