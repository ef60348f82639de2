//go:build !linux

package atomicswap

import (
	"errors"
	"os"
)

// Exchange is not supported: the system has no such call.
func Exchange(*os.File, string, string) error { return errors.ErrUnsupported }

// Move is not supported.
func Move(*os.File, string, string) error { return errors.ErrUnsupported }
