//go:build !linux

package session_test

import (
	"os"
	"testing"
)

// onDisk logs where t.TempDir returns directories. Other systems have no file system in memory
// there.
func onDisk(t *testing.T) { t.Logf("the files are in %s", os.TempDir()) }
