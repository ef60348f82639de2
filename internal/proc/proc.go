// Package proc runs commands so that nothing of them is left when they end.
package proc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// drainFor is how long output is waited for after everything was killed. Only a
// process that left the session can hold the pipe open longer.
const drainFor = 200 * time.Millisecond

// ErrUnsupported says that commands cannot be run on this system.
var ErrUnsupported = errors.New("running commands is not supported on this system")

// Command is what to run.
type Command struct {
	// Argv is the program, found in PATH or by its path, and its arguments.
	Argv []string
	// Dir is the working directory, Env the whole environment.
	Dir string
	Env []string
	// Files are open in the command as 3 and up.
	Files []*os.File
	// Timeout bounds the run. Default: none.
	Timeout time.Duration
	// Limit is how many bytes of output are kept. Default: 100 kB.
	Limit int
	// Line, if set, is called now and then with the last whole line of the output
	// and the number of bytes so far, never after Run has returned.
	Line func(line string, total int64)
}

// Result is how a command ended.
type Result struct {
	// Output is standard output and error in the order in which they were written.
	Output *Output
	// Code is the exit code, -1 if a signal ended the command; Signal is its name.
	Code   int
	Signal string
	// TimedOut says that the timeout passed, Held that a process that left the
	// command's session still held its output after the end.
	TimedOut, Held bool
}

// drain reads output until its end.
func drain(r io.Reader, c *Command, out *Output) {
	buf := make([]byte, 32<<10)
	report := reporter{line: c.Line}
	for {
		n, err := r.Read(buf)
		_, _ = out.Write(buf[:n])
		report.add(buf[:n], out.total)
		if err != nil {
			return
		}
	}
}

const (
	reportEvery = 100 * time.Millisecond
	reportBytes = 200
)

// reporter passes lines on at a bounded rate.
type reporter struct {
	line func(string, int64)
	rest []byte // of a line that is not whole yet
	last time.Time
}

func (r *reporter) add(p []byte, total int64) {
	end := bytes.LastIndexByte(p, '\n')
	if r.line == nil || end < 0 {
		r.keep(p)
		return
	}
	start := bytes.LastIndexByte(p[:end], '\n') + 1
	if start > 0 {
		r.rest = r.rest[:0]
	}
	r.keep(p[start:end])
	line := r.rest
	if now := time.Now(); len(line) > 0 && now.Sub(r.last) >= reportEvery {
		r.last = now
		text, _ := clean(trimEnd(line))
		r.line(text, total)
	}
	r.rest = r.rest[:0]
	r.keep(p[end+1:])
}

func (r *reporter) keep(p []byte) {
	if room := reportBytes - len(r.rest); r.line != nil && room > 0 {
		r.rest = append(r.rest, p[:min(room, len(p))]...)
	}
}

// wait returns when the command has exited, the context ended, or the timeout
// passed; the latter two as an error.
func wait(ctx context.Context, exited <-chan struct{}, timeout time.Duration) error {
	var passed <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-passed:
		return os.ErrDeadlineExceeded
	}
}
