package regular

import (
	"io/fs"
	"syscall"
	"time"
)

// Identity returns the number of a file and the time of the last change of its state, which programs cannot set.
// Elsewhere than on Linux, it returns 0 and the time at which the file was modified.
func Identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), time.Unix(st.Ctim.Unix())
	}
	return 0, info.ModTime()
}
