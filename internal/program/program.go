// Package program runs a command with a text as its standard input through an Exec of package tools, and keeps the two
// outputs of the command apart.
package program

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxInput  = 900 << 10 // bytes: a script may have 1 MiB
	maxStdout = 256 << 10
	maxOutput = 1 << 20 // of all
	maxQuoted = 4 << 10 // of standard error that somebody reads
)

var errTooMuch = fmt.Errorf("it wrote more than %d bytes", maxOutput)

// Command is what to run.
type Command struct {
	// Line is a command for a shell, and Input what it reads.
	Line, Input string
	// Root is the directory in which it runs, and Env its whole environment.
	Root string
	Env  []string
	// Timeout is how long it may take.
	Timeout time.Duration
	// Network and ReadOnly are those of [tools.ExecCommand].
	Network, ReadOnly bool
}

// Result is how a command ended. Stderr has the beginning and the end of the standard error, also if there is an error.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Quote makes a text one word for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// script returns a shell script that runs a command with a text as its standard input. An Exec passes on
// only one stream of output: the standard error, a line with the mark and the exit code, the standard
// output, and a line with the mark and a 0 if that is whole. So a script that dies, or for which a
// program is missing, cannot be taken for one that has no objection.
func script(command, input, mark string) string {
	return `hook=$({ printf '%s' ` + Quote(input) + ` 2>/dev/null | ( eval ` + Quote(command) + "\n)\n" +
		`printf '\n%s %s\n' ` + mark + ` "$?" >&2; } | { head -c ` + strconv.Itoa(maxStdout+1) +
		` && printf '\n%s %s' ` + mark + " 0; })\nprintf '%s\\n' \"$hook\"\n"
}

// A collector keeps output, and stops the process that writes too much.
type collector struct {
	bytes.Buffer
	stop context.CancelCauseFunc
}

// Write implements io.Writer.
func (c *collector) Write(p []byte) (int, error) {
	if c.Len()+len(p) > maxOutput {
		c.stop(errTooMuch)
		return len(p), nil
	}
	return c.Buffer.Write(p)
}

// Run runs a command, which must end in time. If it could not be started, died, took too long, or wrote too much, there
// is an error. An exit code is none.
func Run(ctx context.Context, exec tools.Exec, c Command) (Result, error) {
	if len(c.Input) > maxInput {
		return Result{}, fmt.Errorf("its input would have %d bytes, and at most %d are passed on", len(c.Input), maxInput)
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %s", c.Timeout))
	defer cancel()
	working, stop := context.WithCancelCause(limited)
	defer stop(nil)
	mark, out := rand.Text(), &collector{stop: stop}
	res, err := exec.Run(working, &tools.ExecCommand{
		Script: script(c.Line, c.Input, mark), Root: c.Root, Dir: c.Root,
		Network: c.Network, ReadOnly: c.ReadOnly, Env: c.Env, Output: out,
	})
	stderr, rest, ended := strings.Cut(runes.Clean(out.String()), "\n"+mark+" ")
	r := Result{Stderr: runes.HeadTail(strings.TrimSpace(stderr), maxQuoted)}
	switch {
	case context.Cause(working) != nil:
		return r, context.Cause(working)
	case err != nil:
		return r, fmt.Errorf("cannot be run: %w", err)
	case res == nil || res.Signal != "" || !ended:
		return r, errors.New("it died")
	}
	number, stdout, _ := strings.Cut(rest, "\n")
	r.Code, err = strconv.Atoi(number)
	stdout, end, whole := strings.Cut(stdout, "\n"+mark+" ")
	if err != nil || !whole || strings.TrimSpace(end) != "0" {
		return r, errors.New("its output is lost")
	}
	if len(stdout) > maxStdout {
		return r, fmt.Errorf("it wrote more than %d bytes to the standard output", maxStdout)
	}
	r.Stdout = stdout
	return r, nil
}
