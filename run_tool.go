package aycoder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/runes"
)

// Running a tool: from the start of a call to the result that the model reads.

// runTool runs a call, unless the state says that it must not start any more.
func (r *run) runTool(ctx context.Context, a *RunTool) {
	defer r.gone()
	defer r.flush(ctx)
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return
	}
	t := r.loop.tool(a.Call.Name)
	if t == nil { // a resumed run has fewer tools
		r.reject(a.Call, notFound(a.Call, r.offers()))
		return
	}
	if r.checkStart != nil {
		if err := r.checkStart(ctx, r, a, t); err != nil {
			if ctx.Err() == nil {
				r.reject(a.Call, err)
			}
			return
		}
	}
	use, err := t.fit(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args})
	if err != nil { // of a state that was stored, with tools that were others
		r.reject(a.Call, err)
		return
	}
	args := use.Args
	if !r.beginTool(a, t, args) {
		return
	}
	inv := &Invocation{ID: a.Call.ID, Name: a.Call.Name, Key: a.Key(), Run: r.id, Depth: r.depth, Args: args,
		Plan: a.Plan, ReadOnly: a.ReadOnly, run: r}
	inv.progress = func(p Progress) { r.progress(a, p) }
	inv.emit = func(until context.Context, ev Event) error { return r.emit(ctx, until, a, ev) }
	if !r.single {
		inv.atEnd = r.atEnd
	}
	if r.recorder != nil {
		r.recorder.listen(r, a, inv)
	}
	start, o := r.loop.clock.Now(), outcome{err: errExited}
	defer func() {
		o.elapsed = r.loop.clock.Now().Sub(start)
		r.endTool(ctx, a, o)
	}()
	if pins := r.pins(); pins != nil {
		if o.err = pins(ctx, r, inv, t); o.err != nil {
			return
		}
		o.err = errExited
	}
	o.res, o.err = t.safely(ctx, inv)
}

func (r *run) beginTool(a *RunTool, t *tool, args json.RawMessage) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping || !r.state.holds(a.Call) {
		return false
	}
	if r.again && !r.loop.claim(r.resumeKey(a)) { // somebody resumed it in the same moment
		out := errorOutput(a.Call, errResumed.Error())
		base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID, Err: errResumed}
		_ = r.step(&ToolDone{ID: a.Call.ID, Output: out},
			&ToolFinished{Call: a.Call, Subject: r.loop.subject(a.Call), Output: out, Summary: "not run", Err: base})
		return false
	}
	started := &ToolStarted{Call: a.Call, Args: args, Eager: r.state.phase == phaseModel, By: r.decidedBy[a.Call.ID]}
	started.Subject = shownSubject(&ToolUse{Args: args}, &t.spec)
	if r.step(&ToolBegan{a.Call.ID}, started) != nil {
		return false
	}
	r.running = append(r.running, a)
	return true
}

func (r *run) progress(a *RunTool, p Progress) {
	p.Message = runes.Shorten(runes.Clean(p.Message), 1<<10)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopping && r.runs(a) {
		r.out.push(&ToolProgress{CallID: a.Call.ID, Progress: p})
		r.signal()
	}
}

// runs reports whether a call has begun and not returned. The mutex is held.
func (r *run) runs(a *RunTool) bool { return slices.Contains(r.running, a) }

// safely calls the tool. A panic, and an exit of the goroutine, are errors.
func (t *tool) safely(ctx context.Context, inv *Invocation) (res *ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			res, err = nil, &ToolPanicError{ToolError: base, Value: p, Stack: debug.Stack()}
		}
	}()
	if res, err = t.call(ctx, inv); err != nil {
		_ = err.Error() // one that panics does so here
	}
	return res, err
}

// An outcome is what came of a call.
type outcome struct {
	res     *ToolResult
	err     error
	elapsed time.Duration
}

// endTool reports the outcome of a call. An outcome that comes after the run was closed is
// thrown away.
func (r *run) endTool(ctx context.Context, a *RunTool, o outcome) {
	fin, fatal := r.loop.finished(ctx, a, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(w *RunTool) bool { return w == a })
	if err := r.step(&ToolDone{a.Call.ID, fin.Output, fin.Usage}, append(fin.changes(), fin)...); err != nil {
		r.loop.log.Log(ctx, slog.LevelWarn, "late result of a tool was thrown away", "run", r.id, "key", a.Key())
		return
	}
	if r.recorder != nil {
		r.recorder.ended(r, a.Key(), &ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}, fin, "")
	}
	if fatal {
		r.fail(fin.Err)
		r.signal()
	}
}

// fail ends the run with err. An earlier error comes first.
func (r *run) fail(err error) {
	if r.err != nil {
		err = errors.Join(r.err, err)
	}
	r.err = err
}

// changed is an error that says what became of files: [*ConflictError]. It is asked for
// by its method, so that a program without such errors does not link them.
type changed interface {
	error
	Changes() *ApplyResult
}

// changes are the events that belong before the end of a call.
func (e *ToolFinished) changes() []Event {
	var out []Event
	for i, f := range e.files() {
		switch f.Outcome {
		case OutcomeMerged:
			out = append(out, &Merged{Call: e.Call, File: &e.Changes.Files[i]})
		case OutcomeConflicted:
			out = append(out, &Conflicted{Call: e.Call, File: &e.Changes.Files[i]})
		}
	}
	return out
}

// finished makes the event and the output of a call that ran, and says whether the
// call ends the run. An error whose methods panic is itself a panic of the tool.
func (l *Loop) finished(ctx context.Context, a *RunTool, o outcome) (fin *ToolFinished, fatal bool) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
			err := &ToolPanicError{ToolError: base, Value: p}
			fin, fatal = l.finished(ctx, a, outcome{err: err, elapsed: o.elapsed})
		}
	}()
	shown := &ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}
	fin = &ToolFinished{Call: a.Call, Subject: l.subject(shown), Elapsed: o.elapsed}
	fin.Output = &ToolOutput{ID: a.Call.ID, Name: a.Call.Name}
	if o.err != nil {
		fin.Err, fin.Summary = typed(ctx, a.Call, o), "error"
		fin.Output.IsError = true
		fin.Output.Parts = []Part{&Text{Text: l.bound(modelText(fin.Err, o.err))}}
		if c, ok := errors.AsType[changed](o.err); ok {
			fin.Changes = c.Changes()
		}
	} else if o.res != nil {
		fin.Changes = o.res.Changes
		fin.Summary = runes.Shorten(runes.Clean(o.res.Summary), 200)
		fin.Usage = o.res.Usage
		fin.Output.IsError, fin.Output.Untrusted = o.res.IsError, o.res.Untrusted
		fin.Output.Parts = l.boundParts(o.res.Parts)
	}
	if a.Edited {
		note := "note: whoever approved this call changed its arguments to "
		note += runes.Shorten(runes.Clean(string(a.Args)), maxQuoted) + "\n"
		fin.Output.Parts = append([]Part{&Text{Text: note}}, fin.Output.Parts...)
	}
	if len(fin.Output.Parts) == 0 {
		fin.Output.Parts = []Part{&Text{Text: "(no output)"}}
	}
	return fin, isFatal(o.err)
}

// maxQuoted bounds the words of the model that are quoted to it.
const maxQuoted = 4 << 10

// typed gives an error of a tool its type.
func typed(ctx context.Context, call *ToolUse, o outcome) error {
	if _, ok := errors.AsType[*ToolError](o.err); ok {
		return o.err
	}
	base := &ToolError{Tool: call.Name, CallID: call.ID, Err: o.err}
	switch {
	case ctx.Err() != nil && errors.Is(o.err, ctx.Err()):
		return &ToolCancelledError{ToolError: base}
	case errors.Is(o.err, context.DeadlineExceeded):
		return &ToolTimeoutError{ToolError: base, Elapsed: o.elapsed}
	}
	return base
}

// modelText is what the model reads of an error: the tool's own words.
func modelText(err, cause error) string {
	switch e := err.(type) {
	case *ToolCancelledError:
		return outStopped
	case *ToolTimeoutError:
		return fmt.Sprintf("timed out after %s", e.Elapsed)
	case *ToolPanicError:
		return fmt.Sprintf("the tool broke down: panic: %v", e.Value)
	}
	return cause.Error()
}

// boundParts bounds what one call gives to the model.
func (l *Loop) boundParts(parts []Part) []Part {
	var out []Part
	room := l.maxOutput
	for _, p := range parts {
		switch p := p.(type) {
		case *Text:
			if p == nil || p.Text == "" {
				continue
			}
			t := headTail(runes.Clean(p.Text), max(room, 1024))
			room -= len(t)
			out = append(out, &Text{Text: t})
		case *Media:
			if p != nil {
				out = append(out, boundMedia(cleanMedia(p)))
			}
		default:
			out = append(out, &Text{Text: fmt.Sprintf("[a part of kind %T is left out]", p)})
		}
		if len(out) == maxOutputParts {
			return append(out, &Text{Text: "[further parts are left out]"})
		}
	}
	return out
}

const (
	maxOutputParts = 64
	maxMedia       = 16 << 20
)

func boundMedia(m *Media) Part {
	if len(m.Data) > maxMedia {
		return &Text{Text: fmt.Sprintf("[%s of %d bytes is left out: too large]", m.Type, len(m.Data))}
	}
	return m
}

func (l *Loop) bound(s string) string { return headTail(runes.Clean(s), l.maxOutput) }

// headTail keeps the first and the last part of s, cut between runes, and says what
// is missing.
func headTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := n*2/3, n/3
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	from := len(s) - tail
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", s[:head], from-head, s[from:])
}

// fit checks a call before anybody is asked about it. It returns the call with the
// arguments that the tool gets: where the schema does not allow text, values that the
// model wrote as text are converted, and integers such as 2.0 are in plain digits.
func (t *tool) fit(call *ToolUse) (*ToolUse, error) {
	args, err := fitArgs(t.schema, call.ID, call.Name, call.Args)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(args, call.Args) {
		return call, nil
	}
	return &ToolUse{ID: call.ID, Name: call.Name, Args: args, Extra: call.Extra}, nil
}

// fitArgs returns the arguments of an action as fit does, or unchanged if they do not
// fit.
func (t *tool) fitArgs(a *RunTool) json.RawMessage {
	use, err := t.fit(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args})
	if err != nil {
		return a.Args
	}
	return use.Args
}

func notFound(call *ToolUse, offered []*ToolSpec) error {
	names := make([]string, len(offered))
	for i, s := range offered {
		names[i] = s.Name
	}
	near := closest.Closest(call.Name, names, len(names))
	for _, n := range names {
		if !slices.Contains(near, n) {
			near = append(near, n)
		}
	}
	base := &ToolError{Tool: runes.Shorten(call.Name, 80), CallID: call.ID}
	return &ToolNotFoundError{ToolError: base, Available: near}
}
