package config

import (
	"io/fs"
	"syscall"
	"time"
)

// inodeOf returns the number of a file and the time of the last change of its state, which programs cannot set.
func inodeOf(info fs.FileInfo) (inode uint64, changed time.Time) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), time.Unix(st.Ctim.Unix())
	}
	return 0, info.ModTime()
}
