//go:build !darwin && !linux && !windows

package local

import "errors"

// freeSpace cannot tell how much is free.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
