package atomicswap

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An edit on NFS or SMB must not be refused because the server has not granted a lease.
func TestLeaseError(t *testing.T) {
	const ext4, nfs, smb2 = 0xef53, 0x6969, 0xfe534d42
	for _, tt := range []struct {
		err        error
		fileSystem uint32
		want       error
	}{
		{syscall.EAGAIN, ext4, ErrBusy},
		{syscall.EAGAIN, nfs, errors.ErrUnsupported},
		{syscall.EAGAIN, smb2, errors.ErrUnsupported},
		{syscall.EACCES, ext4, errors.ErrUnsupported},
		{syscall.EINVAL, nfs, errors.ErrUnsupported},
	} {
		assert.ErrorIs(t, leaseError(tt.err, tt.fileSystem), tt.want, "%v on %#x", tt.err, tt.fileSystem)
	}
}

func TestLeases(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	own, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer own.Close()
	if err := LeaseAlone(own); errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no leases here: %v", err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		_, err = os.OpenFile(name, flag|syscall.O_NONBLOCK, 0)
		assert.ErrorIs(t, err, syscall.EAGAIN, "nobody else can open it")
	}
	Release(own)
	reader, err := os.Open(name)
	require.NoError(t, err)
	defer reader.Close()
	assert.ErrorIs(t, LeaseAlone(own), ErrBusy, "somebody reads it")
	assert.ErrorIs(t, Lease(reader), ErrBusy, "somebody has it open for writing")
	require.NoError(t, own.Close())
	require.NoError(t, Lease(reader))
	assert.True(t, Leased(reader))
	_, err = os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	assert.ErrorIs(t, err, syscall.EAGAIN)
	assert.False(t, Leased(reader), "somebody wanted to write")
}
