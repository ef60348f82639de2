// Package atomicswap does with files what package os cannot: it exchanges two of them
// in one step, renames without replacing, and keeps writers out of one for a moment.
//
// Names are of one element and relative to an open directory, so that no symbolic link
// on the way can lead elsewhere; the last one is not followed. Where the system or
// the file system cannot do it the error is [errors.ErrUnsupported], and nothing was
// done.
package atomicswap

import "errors"

// ErrBusy says that somebody has the file open for writing.
var ErrBusy = errors.New("is open for writing in another program")
