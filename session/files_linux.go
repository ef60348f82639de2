package session

import (
	"io/fs"
	"syscall"
)

// inodeOf returns the number of a file and the time of the last change of its state, which
// programs cannot set.
func inodeOf(info fs.FileInfo) (inode uint64, ctime int64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), st.Ctim.Nano()
	}
	return 0, 0
}
