//go:build unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep an open from waiting for the other end of a pipe, and from making
// a terminal the process's own.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// folderFlags keep a pipe or a device from being opened where a folder is meant.
const folderFlags = syscall.O_DIRECTORY

// renamesOpen says that a file can be replaced while it is open.
const renamesOpen = true

// keepMode gives a new file the mode of another, and its owner where the process
// may do that.
func keepMode(f *os.File, like fs.FileInfo) error {
	mode := like.Mode()
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		// Before the mode, since a change of owner clears the setuid bit.
		kept, err := keepOwner(f.Chown, int(st.Uid), int(st.Gid))
		if err != nil {
			return err
		}
		if !kept { // they would lend the rights of another
			mode &^= fs.ModeSetuid | fs.ModeSetgid
		}
	}
	return f.Chmod(mode)
}

// keepOwner changes the owner and group, or if that is not allowed or the file system
// has none, at least the group. It reports whether it changed both.
func keepOwner(chown func(uid, gid int) error, uid, gid int) (bool, error) {
	err := chown(uid, gid)
	if err == nil {
		return true, nil
	}
	for _, e := range []error{syscall.EPERM, syscall.EINVAL, syscall.ENOTSUP} {
		if errors.Is(err, e) {
			_ = chown(-1, gid)
			return false, nil
		}
	}
	return false, err
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
