//go:build !unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
)

const openFlags, directoryFlags = 0, 0

// renamesOpen is false: an open file may not be replaced.
const renamesOpen = false

// keepMode copies the mode of another file. On Windows, that is only the read-only attribute.
func keepMode(f *os.File, like fs.FileInfo) error { return f.Chmod(like.Mode()) }

// sync does nothing: these systems cannot flush a directory, and do not need it.
func (t *target) sync() error { return nil }

// links returns 1: [fs.FileInfo] does not have the number of links here.
func links(fs.FileInfo) uint64 { return 1 }

// inode returns 0: [fs.FileInfo] does not have it here.
func inode(fs.FileInfo) uint64 { return 0 }

// errReadOnly is never returned on these systems.
var errReadOnly = errors.New("the file system is read-only")

const besideMode = 0o600

// writtenHere returns false, so that no record in the workspace is trusted: the owner of a file
// is unknown here.
func writtenHere(fs.FileInfo) bool { return false }
