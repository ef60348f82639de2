//go:build !linux

package acp

import (
	"io/fs"
	"time"
)

// changed returns when a file has changed last.
func changed(info fs.FileInfo) time.Time { return info.ModTime() }
