package journal

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// mount mounts a file system for a test, which needs the right to do so.
func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	err := syscall.Mount(source, dir, kind, flags, data)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("mounting %s is not permitted here: %v", kind, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// On a full disk, each call fails as a whole. Once there is space, the journal goes on.
func TestDirFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=256k,mode=700")
	s, err := Dir(dir)
	require.NoError(t, err)
	j, err := s.Create(t.Context(), testID)
	require.NoError(t, err)
	ballast := filepath.Join(dir, "ballast")
	var known []any
	full := 0
	for i := range 40 {
		record := `"` + strings.Repeat("x", 7000+i) + `"`
		if err := j.Append(t.Context(), i%2 == 0, []byte(record)); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			_, ok := errors.AsType[*OpError](err)
			require.True(t, ok)
			full++
		} else {
			known = append(known, record)
		}
		require.Equal(t, known, results(t, j))
		if i == 10 {
			require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
		}
		if i == 20 {
			data := make([]byte, 100<<10)
			_, _ = rand.Read(data)
			require.ErrorIs(t, j.Put(t.Context(), HashOf(data), data), syscall.ENOSPC)
			_, err := j.Get(t.Context(), HashOf(data))
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorIs(t, j.Rewrite(t.Context(), slices.Values([][]byte{data[:0], make([]byte, 1<<20)}), nil),
				syscall.ENOSPC)
			require.ErrorIs(t, j.Describe(t.Context(), Entry{Title: strings.Repeat("x", 1<<20)}), syscall.ENOSPC)
			require.NoError(t, os.Remove(ballast))
		}
	}
	require.Positive(t, full)
	require.Greater(t, len(known), 20)
	require.NoError(t, j.Close())
	require.Equal(t, known, results(t, open(t, s, true)))
	require.Empty(t, listed(t, s)[testID].Title)
}

// A store that became read-only can be read, and every other call is a typed error.
func TestDirReadOnly(t *testing.T) {
	s, file := dirWith(t, sample...)
	dir := filepath.Dir(filepath.Dir(file))
	mount(t, dir, dir, "", syscall.MS_BIND, "")
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, open1 := s.Open(t.Context(), testID, true)
	_, create := s.Create(t.Context(), "b")
	j := open(t, s, false)
	for _, err := range []error{open1, create, s.Delete(t.Context(), testID), j.Describe(t.Context(), Entry{})} {
		require.ErrorIs(t, err, syscall.EROFS)
		_, ok := errors.AsType[*OpError](err)
		require.True(t, ok)
	}
	require.Equal(t, []any{sample[0], sample[1], sample[2]}, results(t, j))
	require.Len(t, listed(t, s), 1)
}

// A process that is being started has copies of all open files for a moment. They do not keep a closed
// session locked.
func TestDirCloseEndsTheLock(t *testing.T) {
	t.Parallel()
	s, _ := dirWith(t)
	j, err := s.Open(t.Context(), testID, true)
	require.NoError(t, err)
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	copies := 0
	for _, fd := range fds {
		name, err := os.Readlink("/proc/self/fd/" + fd.Name())
		n, number := strconv.Atoi(fd.Name())
		if err != nil || number != nil || !strings.HasSuffix(name, testID+"/"+lockName) || !strings.HasPrefix(name, s.(*dirStore).path) {
			continue
		}
		dup, err := syscall.Dup(n)
		require.NoError(t, err)
		defer syscall.Close(dup)
		copies++
	}
	require.Positive(t, copies)
	require.NoError(t, j.Close())
	j, err = s.Open(t.Context(), testID, true)
	require.NoError(t, err)
	require.NoError(t, j.Close())
}

// A process that is killed while it starts a command leaves its lock to the copy of itself that becomes the command. Others
// wait for that, but not for a writer that lives, or that may live on another machine.
func TestDirWaitsForACopyOfTheDead(t *testing.T) {
	here, err := os.Hostname()
	require.NoError(t, err)
	const none = 1 << 30 // not a process: PID_MAX_LIMIT of the kernel is 1 << 22
	for name, tt := range map[string]struct {
		holder Holder
		held   int // how many tries
		want   time.Duration
		opens  bool
	}{
		"killed":                   {Holder{PID: none, Host: here}, 3, 30 * time.Millisecond, true},
		"killed, and does not end": {Holder{PID: none, Host: here}, 1000, time.Second, false},
		"alive":                    {Holder{PID: os.Getpid(), Host: here}, 3, 0, false},
		"on another machine":       {Holder{PID: none, Host: here + "-2"}, 3, 0, false},
		"unknown":                  {Holder{}, 3, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeFS()
				_, err := f.store().Create(t.Context(), testID)
				require.NoError(t, err)
				data, err := json.Marshal(tt.holder)
				require.NoError(t, err)
				f.root.names[testID].names[lockName].data = data
				tries := 0
				f.fault = func(op, _ string) error {
					if op == "lock" {
						if tries++; tries > tt.held {
							f.killed()
						}
					}
					return nil
				}
				start := time.Now()
				j, err := f.store().Open(t.Context(), testID, true)
				require.Equal(t, tt.want, time.Since(start))
				if tt.opens {
					require.NoError(t, err)
					require.NoError(t, j.Close())
					return
				}
				busy, ok := errors.AsType[*BusyError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tt.holder, busy.Holder)
			})
		})
	}
}
