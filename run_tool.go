package aycoder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/runes"
)

// Running a tool: from the start of a call to the result that the model reads.

// reject settles a call that cannot run.
func (r *run) reject(c *ToolUse, err error) {
	out := errorOutput(c, runes.HeadTail(runes.Clean(err.Error()), min(8<<10, r.setup.Load().Limits.ToolOutput)))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.holds(c) {
		fin := endedAs("not run", c, r.setup.Load().subject(c), out, err)
		if r.recorder != nil {
			r.recorder.ended(r, "", c, fin, "not_run")
		}
		_ = r.step(&ToolDone{ID: c.ID, Output: out}, fin)
		if isFatal(err) {
			r.cancel()
			r.fail(err)
		}
	}
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
func (r *run) safely(ctx context.Context, t *tool, inv *Invocation) (res *ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: inv.Name, CallID: inv.ID}
			res, err = nil, &ToolPanicError{ToolError: base, Value: p, Stack: debug.Stack()}
		}
	}()
	call := t.call
	if r.parent != nil {
		call = r.guarded(t)
	}
	if res, err = call(context.WithValue(ctx, placeKey{}, inv), inv); err != nil {
		_ = err.Error() // one that panics does so here
	}
	return res, err
}

// mayStart waits until the fact that a tool begins is recorded, and reports whether the tool may
// start. If not, it settles the call. The mutex is held, but not during the wait.
func (r *run) mayStart(ctx context.Context, a *RunTool) bool {
	text := outUnrecorded
	if r.facts.wait(ctx) {
		if ctx.Err() == nil && !r.stopping {
			return true
		}
		if r.outlives { // another run repeats it if it only reads, and does not know more of it if not
			return false
		}
		text = outCancelled
	}
	r.mu.Unlock()
	defer r.mu.Lock()
	r.reject(a.Call, &ToolError{Tool: a.Call.Name, CallID: a.Call.ID, Err: errors.New(text)})
	return false
}

// endedAs returns the event about a call that has not returned.
//
//go:noinline
func endedAs(summary string, c *ToolUse, subject string, out *ToolOutput, err error) *ToolFinished {
	return &ToolFinished{Call: c, Subject: subject, Output: out, Summary: summary, Err: err}
}

// An outcome is what came of a call.
type outcome struct {
	res     *ToolResult
	err     error
	elapsed time.Duration
}

// endTool reports the outcome of a call. An outcome after the end of the run is thrown away.
func (r *run) endTool(ctx context.Context, a *RunTool, o outcome) {
	fin, fatal := r.finished(ctx, a, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	how := "" // else it tells itself
	if !r.runs(a) {
		how = "not_run"
	}
	r.running = slices.DeleteFunc(r.running, func(w *RunTool) bool { return w == a })
	done := &ToolDone{ID: a.Call.ID, Output: fin.Output, Final: o.err == nil && o.res != nil && o.res.Final}
	done.Spent, fin.Usage = r.spentIn(a, fin.Usage)
	if !r.left && r.leaves != nil && r.leaves(ctx, fin.Output) {
		done.ID, done.Output = "", nil
		_ = r.step(done) // refused if nothing was spent
		return
	}
	if r.left || r.step(done, append(fin.changes(), fin)...) != nil { // another run may have gone on
		r.loop.log(ctx, slog.LevelWarn, "late result of a tool was thrown away",
			"run", r.id, "key", a.Key())
		return
	}
	if r.recorder != nil {
		r.recorder.ended(r, a.Key(), &ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: a.Args}, fin, how)
	}
	if fatal {
		r.cancel() // nothing begins any more, however long the loop body takes
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

// changed is an error that reports what happened to files: [*edit.ConflictError]. The loop looks for
// this method, so that a program without such errors does not link them.
type changed interface {
	error
	Changes() *edit.Result
}

// changes returns the events that come right before e.
func (e *ToolFinished) changes() []Event {
	var out []Event
	for i, f := range e.files() {
		switch f.Outcome {
		case edit.OutcomeMerged:
			out = append(out, &Merged{Call: e.Call, File: &e.Changes.Files[i]})
		case edit.OutcomeConflicted:
			out = append(out, &Conflicted{Call: e.Call, File: &e.Changes.Files[i]})
		}
	}
	return out
}

// finished makes the event and the output of a call that ran, and says whether the
// call ends the run. An error whose methods panic is itself a panic of the tool.
func (r *run) finished(ctx context.Context, a *RunTool, o outcome) (fin *ToolFinished, fatal bool) {
	defer func() {
		if p := recover(); p != nil {
			base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
			err := &ToolPanicError{ToolError: base, Value: p}
			fin, fatal = r.finished(ctx, a, outcome{err: err, elapsed: o.elapsed})
		}
	}()
	most := r.setup.Load().Limits.ToolOutput
	fin = &ToolFinished{Call: a.Call, Subject: a.prepared.display, Elapsed: o.elapsed}
	fin.Output = &ToolOutput{ID: a.Call.ID, Name: a.Call.Name}
	if o.err != nil {
		fin.Err, fin.Summary = typed(ctx, a.Call, o), "error"
		fin.Output.IsError = true
		fin.Output.Parts = []Part{&Text{Text: modelText(ctx, a, fin.Err, o.err)}}
		if c, ok := errors.AsType[changed](o.err); ok {
			fin.Changes = c.Changes()
		}
	} else if o.res != nil {
		fin.Changes = o.res.Changes
		fin.Summary = runes.Shorten(runes.Clean(o.res.Summary), 200)
		fin.Usage = o.res.Usage
		fin.Output.IsError, fin.Output.Untrusted = o.res.IsError, o.res.Untrusted
		fin.Output.Parts = o.res.Parts
	}
	if a.Edited {
		note := "note: whoever approved this call changed its arguments to "
		note += runes.Shorten(runes.Clean(string(a.Args)), min(maxQuoted, most/4)) + "\n"
		fin.Output.Parts = append([]Part{&Text{Text: note}}, fin.Output.Parts...)
	}
	fin.Output.Parts = outputParts(fin.Output.Parts)
	r.loop.cutOutput(ctx, fin.Output, o.res, most)
	if len(fin.Output.Parts) == 0 {
		fin.Output.Parts = []Part{&Text{Text: "(no output)"}}
	}
	return fin, isFatal(o.err)
}

// maxQuoted bounds a text that is quoted to the model, in bytes.
const maxQuoted = 4 << 10

// typed gives an error of a tool its type.
func typed(ctx context.Context, call *ToolUse, o outcome) error {
	if _, ok := errors.AsType[*ToolError](o.err); ok {
		return o.err
	}
	base := &ToolError{Tool: call.Name, CallID: call.ID, Err: o.err}
	switch {
	case ctx.Err() != nil && (errors.Is(o.err, ctx.Err()) || errors.Is(o.err, context.Cause(ctx))):
		return &ToolCancelledError{ToolError: base}
	case errors.Is(o.err, context.DeadlineExceeded):
		return &ToolTimeoutError{ToolError: base, Elapsed: o.elapsed}
	}
	return base
}

// modelText is what the model reads of an error: the tool's own words.
func modelText(ctx context.Context, a *RunTool, err, cause error) string {
	switch e := err.(type) {
	case *ToolCancelledError:
		text, words := stopped(outStopped, a.prepared.tool.spec.Effect), cause.Error()
		if ctx.Err() != nil && words != ctx.Err().Error() && words != context.Cause(ctx).Error() {
			text += "; the tool said: " + words
		}
		return text
	case *ToolTimeoutError:
		return fmt.Sprintf("timed out after %s", e.Elapsed)
	case *ToolPanicError:
		return fmt.Sprintf("the tool broke down: panic: %v", e.Value)
	}
	return cause.Error()
}

const (
	maxWhole   = 4 << 20 // bytes of text of an output that is kept
	maxPointer = 256     // bytes of what the model is told about it
)

// cutOutput bounds what one call gives to the model. The host may keep the rest.
func (l *Loop) cutOutput(ctx context.Context, out *ToolOutput, res *ToolResult, room int) {
	whole := out.Parts
	if l.keepOutput != nil {
		room -= maxPointer
	}
	if res != nil && res.Head+res.Tail > 0 {
		out.Parts = endsOf(whole, max(res.Head, 0), max(res.Tail, 0))
	}
	out.Parts = boundTexts(out.Parts, room)
	if l.keepOutput == nil || slices.Equal(out.Parts, whole) {
		return
	}
	all := *out
	all.Parts = boundTexts(whole, maxWhole)
	if pointer := l.safeKeep(ctx, &all); pointer != "" {
		out.Parts = append(out.Parts, &Text{Text: runes.Shorten(runes.Clean(pointer), maxPointer-len("…"))})
	}
}

// safeKeep lets the host keep an output. The call has had its effect, so a panic costs only the rest
// of its output.
func (l *Loop) safeKeep(ctx context.Context, out *ToolOutput) (pointer string) {
	defer func() {
		if p := recover(); p != nil {
			l.log(ctx, slog.LevelError, "keeping an output panicked", "panic", p, "stack", string(debug.Stack()))
			pointer = ""
		}
	}()
	return l.keepOutput(ctx, out)
}

// endsOf returns parts of which the longest text has only its ends.
func endsOf(parts []Part, head, tail int) []Part {
	longest, at := "", -1
	for i, p := range parts {
		if t, ok := p.(*Text); ok && len(t.Text) > len(longest) {
			longest, at = t.Text, i
		}
	}
	if len(longest) <= head+tail {
		return parts
	}
	parts = slices.Clone(parts)
	parts[at] = &Text{Text: runes.Ends(longest, head, tail)}
	return parts
}

// boundTexts returns parts whose texts have at most room bytes. The texts share the room: each may
// take an equal part of what those before it have left.
func boundTexts(parts []Part, room int) []Part {
	out, texts := slices.Clone(parts), 0
	for _, p := range out {
		if _, ok := p.(*Text); ok {
			texts++
		}
	}
	for i, p := range out {
		t, ok := p.(*Text)
		if !ok {
			continue
		}
		short := runes.HeadTail(t.Text, room/texts)
		if len(short) != len(t.Text) {
			out[i] = &Text{Text: short}
		}
		room -= len(short)
		texts--
	}
	return out
}

// outputParts returns the parts of an output as the model gets them, whatever their size.
func outputParts(parts []Part) []Part {
	var out []Part
	for _, p := range parts {
		if p = outputPart(p); p == nil {
			continue
		}
		if len(out) == maxOutputParts {
			return append(out, &Text{Text: "[further parts are left out]"})
		}
		out = append(out, p)
	}
	return out
}

// outputPart returns a part as the model gets it, or nil if it is empty. A text is a new one.
func outputPart(p Part) Part {
	switch p := p.(type) {
	case *Text:
		if p != nil && p.Text != "" {
			return &Text{Text: runes.Clean(p.Text)}
		}
	case *Media:
		if p != nil {
			return boundMedia(cleanMedia(p))
		}
	default:
		return &Text{Text: fmt.Sprintf("[a part of kind %T is left out]", p)}
	}
	return nil
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
