//go:build !windows

package local

import "errors"

// systemMemory cannot tell: Linux and macOS have other ways.
func systemMemory() (total, available int64, err error) { return 0, 0, errors.ErrUnsupported }
