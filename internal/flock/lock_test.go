package flock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file system without locks is used without them, and every other fault is reported.
func TestWait(t *testing.T) {
	broken := errors.New("input/output error")
	for name, tt := range map[string]struct{ fault, want error }{
		"free": {}, "unsupported": {errors.ErrUnsupported, nil}, "system": {os.NewSyscallError("flock", syscall.ENOTSUP), nil},
		"server": {os.NewSyscallError("flock", syscall.ENOLCK), nil}, "broken": {broken, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				err := wait(t.Context(), func() (bool, error) {
					tries++
					return tries == 3 && tt.fault == nil, map[bool]error{true: tt.fault}[tries == 3]
				})
				require.ErrorIs(t, err, tt.want)
				assert.Equal(t, 3, tries)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*pause)
		defer cancel()
		require.ErrorIs(t, wait(ctx, func() (bool, error) { return false, nil }), context.DeadlineExceeded)
	})
}

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), name)
	require.NoError(t, err)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	if ok, err := Try(f); !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		require.False(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Lock(ctx, name)
		require.ErrorIs(t, err, context.Canceled)
	}
	unlock()
	unlock, err = Lock(t.Context(), name)
	require.NoError(t, err)
	unlock()
	_, err = Lock(t.Context(), filepath.Join(name, "x"))
	require.Error(t, err)
}
