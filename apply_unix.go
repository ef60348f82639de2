//go:build unix

package aycoder

import (
	"io/fs"
	"os"
	"syscall"
)

// links returns how many names a file has.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// inode returns the number of a file, or 0 where it is not known.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// errReadOnly says that nothing can be written on a file system.
const errReadOnly = syscall.EROFS

// besideMode is that of a record beside the files.
const besideMode = 0o600 | fs.ModeSticky

// writtenHere reports whether a record beside the files can be one that this user's
// process wrote there.
func writtenHere(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode() == besideMode && st.Nlink == 1 && int(st.Uid) == os.Geteuid()
}
