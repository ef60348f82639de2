//go:build unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep open from blocking on a pipe, and from making a terminal the controlling one
// of the process.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// directoryFlags make open fail for a pipe or a device in the place of a directory.
const directoryFlags = syscall.O_DIRECTORY

// renamesOpen is true: an open file can be replaced.
const renamesOpen = true

// keepMode copies the mode of another file, and its owner where the process may set it.
func keepMode(f *os.File, like fs.FileInfo) error {
	mode := like.Mode()
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		// The owner comes first, since chown clears the setuid bit.
		kept, err := keepOwner(f.Chown, int(st.Uid), int(st.Gid))
		if err != nil {
			return err
		}
		if !kept { // setuid would lend the rights of another user
			mode &^= fs.ModeSetuid | fs.ModeSetgid
		}
	}
	return f.Chmod(mode)
}

// keepOwner changes the owner and group. If that is not permitted, or the file system has no
// owners, it changes at least the group. It reports whether both were changed.
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

// sync flushes the directory, so that the new name survives a loss of power. Some file systems
// cannot flush a directory.
func (t *target) sync() error {
	_ = t.lock.Sync()
	return nil
}

// links returns the number of hard links of a file.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// inode returns the inode number of a file, or 0 if it is unknown.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// errReadOnly is the error of a write on a read-only file system.
const errReadOnly = syscall.EROFS

// besideMode is the mode of a record in the workspace. Git never sets the sticky bit.
const besideMode = 0o600 | fs.ModeSticky

// writtenHere reports whether this user's process can have written a record in the workspace.
func writtenHere(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode() == besideMode && st.Nlink == 1 && int(st.Uid) == os.Geteuid()
}
