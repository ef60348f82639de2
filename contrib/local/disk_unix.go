//go:build darwin || linux

package local

import "golang.org/x/sys/unix"

// freeSpace returns how much the user may still write to the disk of a directory.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
