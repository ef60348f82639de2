package acp

import (
	"io/fs"
	"syscall"
	"time"
)

// changed returns when a file has changed last. Programs that set the other time, such as tar, cannot set this one.
func changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
