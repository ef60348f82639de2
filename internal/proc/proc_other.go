//go:build !unix

package proc

import "context"

// Run returns [ErrUnsupported]: without process groups nothing could be promised
// about what a command leaves behind.
func Run(context.Context, *Command) (*Result, error) { return nil, ErrUnsupported }
