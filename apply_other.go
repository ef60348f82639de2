//go:build !unix

package aycoder

import (
	"errors"
	"io/fs"
)

// links returns 1: how many names a file has is not in its information here.
func links(fs.FileInfo) uint64 { return 1 }

// inode returns 0: it is not in the information here.
func inode(fs.FileInfo) uint64 { return 0 }

// errReadOnly is what no call returns here.
var errReadOnly = errors.New("the file system is read-only")

const besideMode = 0o600

// writtenHere reports false: nothing tells here who wrote a file.
func writtenHere(fs.FileInfo) bool { return false }
