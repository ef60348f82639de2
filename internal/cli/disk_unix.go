//go:build linux || darwin

package cli

import "golang.org/x/sys/unix"

// freeBytes returns how much of the disk of a directory the user may still write.
func freeBytes(dir string) (int64, bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
