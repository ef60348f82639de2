//go:build !linux

package atomicswap

import (
	"errors"
	"os"
)

// Lease is not supported: nothing tells here who has a file open.
func Lease(*os.File) error { return errors.ErrUnsupported }

// LeaseAlone is not supported.
func LeaseAlone(*os.File) error { return errors.ErrUnsupported }

// Leased reports false.
func Leased(*os.File) bool { return false }

// Release does nothing.
func Release(*os.File) {}
