//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package tty

import (
	"errors"
	"io"
	"time"
)

func newSource(r io.Reader) source { return plainSource{r} }

// resizes returns a channel that tells when the size of the terminal may have changed.
func resizes() (<-chan time.Time, func()) {
	t := time.NewTicker(250 * time.Millisecond)
	return t.C, t.Stop
}

func stopGroup() error { return errors.ErrUnsupported }
