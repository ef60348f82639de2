//go:build !unix

package aycoder

import (
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
