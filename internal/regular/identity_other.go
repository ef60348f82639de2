//go:build !linux

package regular

import (
	"io/fs"
	"time"
)

// Identity returns 0 and the time at which a file was modified.
func Identity(info fs.FileInfo) (inode uint64, changed time.Time) { return 0, info.ModTime() }
