// Package ondisk gives tests a directory on a real disk.
package ondisk

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Use makes t.TempDir return directories on a disk, and logs its file system. A file system in
// memory neither orders nor delays writes as a disk does, so a kill would show less.
func Use(t *testing.T) {
	t.Helper()
	dir := os.TempDir()
	if fileSystem(t, dir) == "tmpfs" {
		made, err := os.MkdirTemp(".", "disk")
		if err == nil {
			dir, err = filepath.Abs(made)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		t.Setenv("TMPDIR", dir)
	}
	t.Logf("the file system of %s is %s", dir, fileSystem(t, dir))
}

// fileSystem returns the name of the file system of a directory, or its number.
func fileSystem(t *testing.T, dir string) string {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	names := map[uint32]string{0xef53: "ext4", 0x01021994: "tmpfs", 0x9123683e: "btrfs", 0x58465342: "xfs", 0x794c7630: "overlay"}
	if name := names[uint32(st.Type)]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", uint32(st.Type))
}
