package aycoder

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aycoder/aycoder/internal/runes"
)

// A log of what a run does has ids, names, kinds, sizes and times, but never texts, arguments, outputs or
// subjects of calls.

// WithLogger sets the logger. Problems that no event reports, such as abandoned tools and panics, are
// logged as warnings and errors. At debug level there is a line for the begin and end of each run, each
// request and answer, each decision about a call, each call, and the other events but the parts of
// answers and reports of progress: see the LogValue methods of the events. These lines have ids, names,
// sizes and times, but no text that the user, the model or a tool has written, and no text of an error.
// The error that is logged of a panic has its value, which may be such a text.
// A separate goroutine writes the lines, so that a slow handler holds up nothing: of more than 4096 that wait,
// the oldest are dropped. The run ends when they are written, or after [Limits].Grace. The runs inside
// calls use the same logger if their agents have none. Whether debug level is enabled is asked when a
// run begins. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return option("WithLogger", l != nil, "is nil", func(c *config) {
		env := c.around()
		l := slog.New(steadyHandler{l.Handler()}) // not once more, if the option is used again
		env.log, env.trace = l.Log, func(ctx context.Context, r *run) factLog {
			if !l.Enabled(ctx, slog.LevelDebug) {
				return r.facts
			}
			return &trace{run: r, next: r.facts, handler: l.Handler()}
		}
	})
}

// A steadyHandler keeps the run from a handler that panics.
type steadyHandler struct{ slog.Handler }

func (h steadyHandler) Enabled(ctx context.Context, level slog.Level) bool {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h steadyHandler) Handle(ctx context.Context, rec slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, rec)
}

// A trace logs what passes through it on the way to the record function of WithFacts, which may be
// missing. Only WithLogger refers to it: programs without a logger do not link it.
type trace struct {
	run     *run
	next    factLog // or nil
	handler slog.Handler
	ctx     context.Context // of the run

	mu      sync.Mutex
	asked   time.Time
	notes   []slog.Record
	dropped int
	busy    bool // a goroutine writes
}

func (t *trace) begin(ctx context.Context, start *StartInput) {
	r := t.run
	t.ctx = ctx
	t.log("run_start", slog.Int("depth", r.depth), slog.Int("messages", r.held), slog.Bool("resumed", r.again != nil))
	build := r.build
	r.build = func(r *run, ctx context.Context, in ContextInput) (*Request, error) {
		req, err := build(r, ctx, in)
		if err == nil {
			t.request(&in, req)
		}
		return req, err
	}
	if t.next != nil {
		t.next.begin(ctx, start)
	}
}

func (t *trace) request(in *ContextInput, req *Request) {
	messages, rest := requestSize(req)
	t.mu.Lock()
	t.asked = t.run.loop.clock.Now()
	t.mu.Unlock()
	t.log("request", slog.Int("turn", in.Turn), word("model", t.run.setup.Load().start().Model),
		slog.Int("messages", len(req.Messages)), slog.Int64("bytes", messages+rest), slog.Int("tools", len(req.Tools)))
}

func (t *trace) note(f Fact) {
	switch f := f.(type) {
	case *MessageDone:
		t.mu.Lock()
		took := t.run.loop.clock.Now().Sub(t.asked)
		t.mu.Unlock()
		t.log("answer", slog.Duration("took", took), word("stop", string(f.Stop)), word("provider", f.Provider), word("model", f.Model),
			word("id", f.ID), word("request_id", f.RequestID))
	case *Decided:
		v := &f.Decision.Verdict
		t.log("decision", word("id", f.Decision.CallID), word("name", t.tool(&f.Decision)),
			slog.String("verdict", verdictNames[v.kind]), slog.String("by", string(f.Decision.By)), word("class", v.Grounds().Class))
	case *ToolBegan:
		t.log("tool_start", word("id", f.ID), word("name", t.called(f.ID)))
	case *Steered:
		t.log("steered", slog.Bool("follow_up", f.FollowUp))
	}
	if t.next != nil {
		t.next.note(f)
	}
}

// tool returns the name of the tool that a decision is about.
func (t *trace) tool(d *Decision) string {
	if d.prepared != nil {
		return d.prepared.call.Name
	}
	return t.called(d.CallID)
}

// called returns the name of the tool of a call in progress.
func (t *trace) called(id string) string {
	if i := t.run.state.find(id); i >= 0 {
		return t.run.state.calls[i].use.Name
	}
	return ""
}

func (t *trace) hold(ev Event, actions ...Action) bool {
	if ev != nil {
		t.event(ev)
	}
	return t.next != nil && t.next.hold(ev, actions...)
}

func (t *trace) retried(ev *Retrying) {
	t.event(ev)
	if t.next != nil {
		t.next.retried(ev)
	}
}

func (t *trace) event(ev Event) {
	attrs := ev.(slog.LogValuer).LogValue().Group()
	t.log(attrs[0].Value.String(), attrs[1:]...)
}

func (t *trace) wait(ctx context.Context) bool { return t.next == nil || t.next.wait(ctx) }

func (t *trace) ends() bool { return t.next != nil && t.next.ends() }

func (t *trace) behind() bool { return t.next != nil && t.next.behind() }

func (t *trace) finish() {
	if t.next != nil {
		t.next.finish()
	}
	r := t.run
	err := r.failure(t.ctx)
	r.mu.Lock()
	attrs := append([]slog.Attr{slog.String("end", string(r.state.end)), slog.Int("turns", r.state.turn)}, usageAttrs(r.state.usage)...)
	r.mu.Unlock()
	if err != nil {
		attrs = append(attrs, errorAttr(err))
	}
	t.log("run_end", attrs...)
	r.await(func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return !t.busy
	})
}

// log passes a line to the goroutine that writes.
func (t *trace) log(what string, attrs ...slog.Attr) {
	r := t.run
	rec := slog.NewRecord(r.loop.clock.Now(), slog.LevelDebug, what, 0)
	rec.AddAttrs(slog.String("run", r.id), word("agent", r.name))
	if n := len(r.calls); n > 0 {
		rec.AddAttrs(word("in", r.calls[n-1]))
	}
	rec.AddAttrs(attrs...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.notes) == maxNotes {
		t.notes, t.dropped = t.notes[1:], t.dropped+1
	}
	t.notes = append(t.notes, rec)
	if !t.busy {
		t.busy = true
		go t.write(context.WithoutCancel(t.ctx))
	}
}

// write writes lines until none is left.
func (t *trace) write(ctx context.Context) {
	defer t.run.signal()
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.busy = false }()
	for len(t.notes) > 0 {
		notes := t.notes
		t.notes = nil
		if t.dropped > 0 {
			notes[0].AddAttrs(slog.Int("dropped", t.dropped))
			t.dropped = 0
		}
		t.pass(ctx, notes)
	}
}

// pass hands lines to the handler, without the lock. One that ends its goroutine loses them.
func (t *trace) pass(ctx context.Context, notes []slog.Record) {
	t.mu.Unlock()
	defer t.mu.Lock()
	for _, rec := range notes {
		if t.handler.Enabled(ctx, rec.Level) {
			_ = t.handler.Handle(ctx, rec)
		}
	}
}

// word is a name or an id, which somebody else may have chosen.
func word(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{} // is left out
	}
	return slog.String(key, runes.Shorten(runes.Clean(value), 128))
}

// errorAttr is what a log says of an error: its type. Its text may have what the model has written.
func errorAttr(err error) slog.Attr {
	name := ErrorType(err)
	if name == "" {
		name = "other"
	}
	return slog.String("error", name)
}

func usageAttrs(u Usage) []slog.Attr {
	return []slog.Attr{slog.Int64("input", u.Input), slog.Int64("output", u.Output), slog.Int64("cache_read", u.CacheRead),
		slog.Int64("cache_write", u.CacheWrite)}
}

func costAttr(cost *float64) slog.Attr {
	if cost == nil {
		return slog.Attr{}
	}
	return slog.Float64("cost", *cost)
}

// line is the value of an event. The type comes first.
func line(kind string, attrs ...slog.Attr) slog.Value {
	return slog.GroupValue(append([]slog.Attr{slog.String("type", kind)}, attrs...)...)
}

// LogValue implements [slog.LogValuer], with the size of the text.
func (e *TextDelta) LogValue() slog.Value { return line("text_delta", slog.Int("bytes", len(e.Text))) }

// LogValue implements [slog.LogValuer], with the size of the text.
func (e *ThinkingDelta) LogValue() slog.Value {
	return line("thinking_delta", slog.Int("bytes", len(e.Text)))
}

// LogValue implements [slog.LogValuer], with the size of the arguments.
func (e *ToolDelta) LogValue() slog.Value {
	return line("tool_delta", word("id", e.ID), word("name", e.Name), slog.Int("bytes", len(e.Args)))
}

// LogValue implements [slog.LogValuer], with the call and who allowed it.
func (e *ToolStarted) LogValue() slog.Value {
	return line("tool_start", word("id", e.Call.ID), word("name", e.Call.Name), slog.Int("bytes", len(e.Args)),
		slog.Bool("eager", e.Eager), slog.String("by", string(e.By)))
}

// LogValue implements [slog.LogValuer], with the numbers, but not the message.
func (e *ToolProgress) LogValue() slog.Value {
	return line("tool_progress", word("id", e.CallID), slog.Int64("current", e.Current), slog.Int64("total", e.Total))
}

// LogValue implements [slog.LogValuer], with how the call ended and the size of its output.
func (e *ToolFinished) LogValue() slog.Value {
	attrs := []slog.Attr{word("id", e.Call.ID), word("name", e.Call.Name), slog.Duration("took", e.Elapsed)}
	if e.Output != nil {
		size := int64(0)
		for _, p := range e.Output.Parts {
			size += partSize(p)
		}
		attrs = append(attrs, slog.Bool("is_error", e.Output.IsError), slog.Int64("bytes", size))
	}
	if e.Err != nil {
		attrs = append(attrs, errorAttr(e.Err))
	}
	return line("tool_end", attrs...)
}

// LogValue implements [slog.LogValuer], with the call, its class and the digest, but not what was asked about.
func (e *ApprovalRequested) LogValue() slog.Value {
	q := &e.Request
	return line("approval_request", word("id", q.CallID), word("name", q.Tool), word("key", q.Key), word("class", q.Class),
		word("digest", q.Digest))
}

// LogValue implements [slog.LogValuer], with the call.
func (e *CallRequested) LogValue() slog.Value {
	return line("call_request", word("id", e.Request.CallID), word("name", e.Request.Tool), word("key", e.Request.Key),
		word("digest", e.Request.Digest))
}

// LogValue implements [slog.LogValuer], with the call.
func (e *Merged) LogValue() slog.Value {
	return line("merged", word("id", e.Call.ID), word("name", e.Call.Name))
}

// LogValue implements [slog.LogValuer], with the call.
func (e *Conflicted) LogValue() slog.Value {
	return line("conflicted", word("id", e.Call.ID), word("name", e.Call.Name))
}

// LogValue implements [slog.LogValuer], with the call and the value of the inner event.
func (e *ChildEvent) LogValue() slog.Value {
	return line("child", word("id", e.CallID), slog.Any("event", e.Event))
}

// LogValue implements [slog.LogValuer], with all fields.
func (e *TurnFinished) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("turn", e.Turn), word("stop", string(e.Stop)), word("provider", e.Provider), word("model", e.Model),
		word("id", e.ID), word("request_id", e.RequestID)}
	return line("turn_end", append(append(attrs, usageAttrs(e.Usage)...), costAttr(e.Cost))...)
}

// LogValue implements [slog.LogValuer], with the type of the error, but not its text.
func (e *Retrying) LogValue() slog.Value {
	return line("retry", slog.Int("attempt", e.Attempt), slog.Duration("after", e.After), slog.Bool("discarded", e.Discarded),
		errorAttr(e.Err))
}

// LogValue implements [slog.LogValuer], with all fields.
func (e *Compacting) LogValue() slog.Value {
	return line("compacting", word("reason", e.Reason), slog.Int64("tokens", e.Tokens), slog.Int64("budget", e.Budget),
		slog.Bool("needed", e.Needed))
}

// LogValue implements [slog.LogValuer], with the numbers, but not the summary.
func (e *Compacted) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Int("replaced", e.Replaced), slog.Int("shortened", e.Shortened), slog.Int64("before", e.Before),
		slog.Int64("after", e.After), word("provider", e.Provider), word("model", e.Model), slog.Bool("failed", e.Error != "")}
	return line("compacted", append(append(attrs, usageAttrs(e.Usage)...), costAttr(e.Cost))...)
}

// LogValue implements [slog.LogValuer], with the model, the limits and how many tools there are.
func (e *SetupChanged) LogValue() slog.Value {
	return line("setup_changed", word("model", e.Model), slog.Int("tools", len(e.Tools)), slog.Int("added", len(e.Added)),
		slog.Int("removed", len(e.Removed)), slog.Int("changed", len(e.Changed)), slog.Int("max_turns", e.MaxTurns),
		slog.Int("max_calls", e.MaxCalls))
}

// LogValue implements [slog.LogValuer], with the number of jobs.
func (e *JobsChanged) LogValue() slog.Value { return line("jobs", slog.Int("jobs", len(e.Jobs))) }

// LogValue implements [slog.LogValuer], with the source and the size of the text.
func (e *Notice) LogValue() slog.Value {
	return line("notice", word("source", e.Source), slog.Int("bytes", len(e.Text)))
}

// LogValue implements [slog.LogValuer], with how the run ended, but not its messages.
func (e *RunFinished) LogValue() slog.Value {
	r := e.Result
	if r == nil {
		return line("run_end")
	}
	attrs := []slog.Attr{slog.String("end", string(r.End)), word("stop", string(r.Stop)), slog.Int("turns", r.Turns),
		slog.Int("messages", len(r.Messages)), slog.Bool("pending", r.Pending != nil)}
	return line("run_end", append(attrs, usageAttrs(r.Usage)...)...)
}
