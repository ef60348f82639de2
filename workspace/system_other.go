//go:build !unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
)

const openFlags, folderFlags = 0, 0

// renamesOpen says that a file that is open may not be replaced.
const renamesOpen = false

// keepMode gives a new file the mode of another: on Windows, read-only or not.
func keepMode(f *os.File, like fs.FileInfo) error { return f.Chmod(like.Mode()) }

// sync flushes the folder; here that is not possible, and not needed.
func (t *target) sync() error { return nil }

// links returns 1: how many names a file has is not in its information here.
func links(fs.FileInfo) uint64 { return 1 }

// inode returns 0: it is not in the information here.
func inode(fs.FileInfo) uint64 { return 0 }

// errReadOnly is what no call returns here.
var errReadOnly = errors.New("the file system is read-only")

const besideMode = 0o600

// writtenHere reports false: nothing tells here who wrote a file.
func writtenHere(fs.FileInfo) bool { return false }
