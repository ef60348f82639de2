//go:build unix

package aycoder

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep an open from waiting for the other end of a pipe, and from making
// a terminal the process's own.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// keepMode gives a new file the mode of another, and its owner where the process
// may do that.
func keepMode(f *os.File, like fs.FileInfo) error {
	if st, ok := like.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		// Before the mode, since a change of owner clears the setuid bit.
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(like.Mode())
}

// sync flushes the folder, so that the new name is there after a power failure.
// Some file systems cannot do that for a folder.
func (t *target) sync() error {
	d, err := t.dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	_ = d.Sync()
	return nil
}
