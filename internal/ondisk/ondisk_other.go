//go:build !linux

package ondisk

import (
	"os"
	"testing"
)

// Use logs where t.TempDir returns directories. Other systems have no file system in memory
// there.
func Use(t *testing.T) { t.Logf("the files are in %s", os.TempDir()) }
