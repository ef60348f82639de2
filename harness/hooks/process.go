package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/program"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxQuoted = 4 << 10   // bytes of standard error that somebody reads
	maxAnswer = 256 << 10 // bytes of what a function answers, as of what a command writes
)

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

// A result is how a hook ended.
type result program.Result

// run runs a hook, which must end in time. The error is an [*Error], or that of ctx.
func (r *Runner) run(ctx context.Context, h *hook, in map[string]any) (*result, error) {
	res, err := r.process(ctx, h, in)
	res.Stderr = r.inert(res.Stderr)
	if err == nil && res.Code != 0 && res.Code != 2 {
		err = fmt.Errorf("it died with exit code %d", res.Code)
	}
	switch {
	case err == nil:
		return (*result)(&res), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, &Error{Hook: h.Hook, Err: err, Stderr: res.Stderr}
}

func (r *Runner) process(ctx context.Context, h *hook, in map[string]any) (program.Result, error) {
	if h.Verify != nil {
		if err := h.Verify(); err != nil {
			return program.Result{}, err
		}
	}
	data, err := json.Marshal(in)
	if err != nil {
		return program.Result{}, err
	}
	if h.Call != nil {
		return h.called(ctx, data)
	}
	return program.Run(ctx, r.conf.Exec, program.Command{
		Line: h.Command, Input: string(data), Root: r.conf.Root, Env: slices.Concat(r.conf.Env, h.Env),
		Timeout: h.Timeout, Network: true,
	})
}

// called lets a function answer. A panic of it is an error, as the death of a command is.
func (h *hook) called(ctx context.Context, input []byte) (res program.Result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fmt.Errorf("it took longer than %s", h.Timeout))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	out, err := h.Call(ctx, input)
	switch {
	case ctx.Err() != nil: // what came too late does not count
		err = context.Cause(ctx)
	case err == nil && len(out) > maxAnswer:
		err = fmt.Errorf("it answered with more than %d bytes", maxAnswer)
	}
	return program.Result{Stdout: runes.Clean(string(out))}, err
}
