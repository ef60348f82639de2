package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

const (
	maxInput  = 900 << 10 // bytes of JSON: a script may have 1 MiB
	maxStdout = 256 << 10
	maxOutput = 1 << 20 // of all
	maxQuoted = 4 << 10 // of standard error that somebody reads
)

var errTooMuch = fmt.Errorf("it wrote more than %d bytes", maxOutput)

// Error reports that a hook did not work: it could not be started, died, took too long, or answered with
// something that is not understood.
type Error struct {
	Hook   Hook
	Stderr string // the beginning and the end of it
	Err    error
}

// Error implements the error interface.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s hook %s: %v", e.Hook.Event, e.Hook.title(), e.Err)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// title names a hook to people and to the model.
func (h *Hook) title() string {
	return strconv.Quote(runes.Shorten(strings.Join(strings.Fields(runes.Clean(h.Command)), " "), 120))
}

// script returns a shell script that runs a command with a text as its standard input. An Exec passes on
// only one stream of output: the standard error, a line with the mark and the exit code, the standard
// output, and a line with the mark and a 0 if that is whole. So a script that dies, or for which a
// program is missing, cannot be taken for one that has no objection.
func script(command, input, mark string) string {
	return `hook=$({ printf '%s' ` + quote(input) + ` 2>/dev/null | ( eval ` + quote(command) + "\n)\n" +
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

// A result is how a hook ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a hook, which must end in time. The error is an [*Error], or that of ctx.
func (r *Runner) run(ctx context.Context, h *hook, in map[string]any) (*result, error) {
	failed := func(err error, stderr string) (*result, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &Error{Hook: h.Hook, Err: err, Stderr: runes.HeadTail(strings.TrimSpace(stderr), maxQuoted)}
	}
	if h.Verify != nil {
		if err := h.Verify(); err != nil {
			return failed(err, "")
		}
	}
	data, err := json.Marshal(in)
	if err != nil {
		return failed(err, "")
	}
	if len(data) > maxInput {
		return failed(fmt.Errorf("its input would have %d bytes, and at most %d are passed on", len(data), maxInput), "")
	}
	limited, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it took longer than %s", h.Timeout))
	defer cancel()
	working, stop := context.WithCancelCause(limited)
	defer stop(nil)
	mark, out := rand.Text(), &collector{stop: stop}
	res, err := r.conf.Exec.Run(working, &tools.ExecCommand{
		Script: script(h.Command, string(data), mark), Root: r.conf.Root, Dir: r.conf.Root,
		Network: true, Env: slices.Concat(r.conf.Env, h.Env), Output: out,
	})
	stderr, rest, ended := strings.Cut(runes.Clean(out.String()), "\n"+mark+" ")
	switch {
	case context.Cause(working) != nil:
		return failed(context.Cause(working), stderr)
	case err != nil:
		return failed(fmt.Errorf("cannot be run: %w", err), stderr)
	case res == nil || res.Signal != "" || !ended:
		return failed(errors.New("it died"), stderr)
	}
	number, stdout, _ := strings.Cut(rest, "\n")
	code, err := strconv.Atoi(number)
	stdout, end, whole := strings.Cut(stdout, "\n"+mark+" ")
	if err != nil || !whole || strings.TrimSpace(end) != "0" {
		return failed(errors.New("its output is lost"), stderr)
	}
	if len(stdout) > maxStdout {
		return failed(fmt.Errorf("it wrote more than %d bytes to the standard output", maxStdout), stderr)
	}
	if code != 0 && code != 2 {
		return failed(fmt.Errorf("it died with exit code %d", code), stderr)
	}
	return &result{code, stdout, runes.HeadTail(strings.TrimSpace(stderr), maxQuoted)}, nil
}
