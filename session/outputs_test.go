package session

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/journal"
)

type nobody struct{}

func (nobody) Run(context.Context, aycoder.Input, ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return func(func(aycoder.Event, error) bool) {}
}

// plainStore has journals that cannot remove objects.
type plainStore struct{ journal.Store }

func (s plainStore) Create(ctx context.Context, id string) (journal.Journal, error) {
	j, err := s.Store.Create(ctx, id)
	return struct{ journal.Journal }{j}, err
}

// A session keeps a bounded number of bytes of outputs, also after it was opened again. The oldest
// outputs make room, in memory and on the disk; where objects cannot be removed, no new ones are kept.
func TestOutputsAreBounded(t *testing.T) {
	timed.Serial(t)
	const size, n = 4 << 20, 20
	data := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), size/8) }
	key := func(i int) string { return fmt.Sprintf("out_%016x", i) }
	for _, name := range []string{"dir", "cannot remove"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := journal.Dir(dir)
			require.NoError(t, err)
			if name != "dir" {
				store = plainStore{store}
			}
			s, err := New(t.Context(), store, nobody{})
			require.NoError(t, err)
			objects := func() int {
				names, err := os.ReadDir(filepath.Join(dir, s.ID(), "objects"))
				require.NoError(t, err)
				return len(names)
			}
			held := func() (all []int) {
				for i := range n {
					got, err := outputStore{s}.Get(t.Context(), key(i))
					if err != nil {
						require.ErrorIs(t, err, fs.ErrNotExist)
						continue
					}
					require.True(t, bytes.Equal(data(i), got))
					all = append(all, i)
				}
				return all
			}
			refused := 0
			for i := range n {
				if (outputStore{s}).Put(t.Context(), key(i), data(i)) != nil {
					refused++
				}
			}
			want := []int{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
			if name != "dir" {
				want = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
			}
			require.Equal(t, n-len(want), refused+map[string]int{"dir": 5}[name])
			require.Equal(t, want, held())
			require.Equal(t, len(want), objects())
			require.NoError(t, s.Close())
			require.ErrorContains(t, outputStore{s}.Put(t.Context(), key(99), nil), "closed")
			s, err = Open(t.Context(), store, s.ID(), nobody{})
			require.NoError(t, err)
			require.Empty(t, s.Damage())
			require.NoError(t, s.Trim(t.Context()))
			require.NoError(t, s.Close())
			s, err = Open(t.Context(), store, s.ID(), nobody{})
			require.NoError(t, err)
			require.Equal(t, want, held())
			if sizer, ok := store.(journal.Sizer); ok {
				total, err := sizer.Size(t.Context(), s.ID())
				require.NoError(t, err)
				require.Less(t, total, int64(maxOutputs))
			}
			require.NoError(t, s.Close())
			require.NoError(t, store.Delete(t.Context(), s.ID()))
			_, err = os.Stat(filepath.Join(dir, s.ID()))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// An object that is not an output, such as the content of a file with secrets, is not returned as one,
// whatever name it is asked for by.
func TestOutputsAreNotFiles(t *testing.T) {
	timed.Serial(t)
	s, err := New(t.Context(), journal.Memory(), nobody{})
	require.NoError(t, err)
	defer s.Close()
	secret := []byte("output out_0123456789abcdef of session " + s.ID() + "\npassword")
	hash := journal.HashOf(secret)
	require.NoError(t, s.journal.Put(t.Context(), hash, secret))
	for _, key := range []string{string(hash), "out_0123456789abcdef", "objects/" + string(hash), ""} {
		_, err := outputStore{s}.Get(t.Context(), key)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.NoError(t, outputStore{s}.Put(t.Context(), "out_0123456789abcdef", []byte("text")))
	got, err := outputStore{s}.Get(t.Context(), "out_0123456789abcdef")
	require.NoError(t, err)
	require.Equal(t, "text", string(got))
	require.Error(t, outputStore{s}.Put(t.Context(), "out_2", []byte(strings.Repeat("x", maxOutputs+1))))
}
