package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// onDisk makes t.TempDir return directories on a disk, and logs its file system. A file system in
// memory neither orders nor delays writes as a disk does, so a kill would show less.
func onDisk(t *testing.T) {
	t.Helper()
	dir := os.TempDir()
	if fileSystem(t, dir) == "tmpfs" {
		var err error
		dir, err = os.MkdirTemp(".", "disk")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		dir, err = filepath.Abs(dir)
		require.NoError(t, err)
		t.Setenv("TMPDIR", dir)
	}
	t.Logf("the file system of %s is %s", dir, fileSystem(t, dir))
}

// fileSystem returns the name of the file system of a directory, or its number.
func fileSystem(t *testing.T, dir string) string {
	t.Helper()
	var st syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &st))
	names := map[uint32]string{0xef53: "ext4", 0x01021994: "tmpfs", 0x9123683e: "btrfs", 0x58465342: "xfs", 0x794c7630: "overlay"}
	if name := names[uint32(st.Type)]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", uint32(st.Type))
}
