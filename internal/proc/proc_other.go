//go:build !unix

package proc

import (
	"context"
	"io"
	"os"
)

// Run returns [ErrUnsupported]: without process groups nothing could be promised
// about what a command leaves behind.
func Run(context.Context, *Command) (*Result, error) { return nil, ErrUnsupported }

// Rest does nothing: nobody has written to the pipe.
func Rest(*os.File, io.Writer) bool { return false }
