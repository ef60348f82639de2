package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// unsupported starts nothing.
type unsupported string

func (u unsupported) name() string { return string(u) }

func (unsupported) close() {}

func (unsupported) report(*view) (*Report, error) {
	return nil, fmt.Errorf("there is none on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (u unsupported) start(*exec.Cmd, *view) error {
	_, err := u.report(nil)
	return err
}
