//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package policy_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func lockFile(t *testing.T, name string) (unlock func()) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { f.Close() }
}
