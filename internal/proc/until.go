package proc

import (
	"context"
	"io"
)

// Until returns a writer to w whose Write waits no longer than ctx lasts. To close the standard output does not end a Write to
// a program that reads nothing. The caller must not change the bytes afterwards.
func Until(ctx context.Context, w io.Writer) io.Writer { return &until{ctx, w} }

type until struct {
	ctx context.Context
	w   io.Writer
}

// Write implements [io.Writer].
func (u *until) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	type outcome struct {
		n   int
		err error
	}
	written := make(chan outcome, 1)
	go func() {
		n, err := u.w.Write(p)
		written <- outcome{n, err}
	}()
	select {
	case o := <-written:
		return o.n, o.err
	case <-u.ctx.Done():
		return 0, context.Cause(u.ctx)
	}
}
