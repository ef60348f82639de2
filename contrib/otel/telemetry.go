package otel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tools"
)

// Options configure a [Telemetry].
type Options struct {
	// Tracer and Meter get spans and metrics. Default: nobody.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// Version is the version of the names. Default and at present the only one: [Version].
	Version string
	// Content says that texts, arguments and outputs are told, too, masked by Mask. Each is cut at 16 KiB.
	Content bool
	// Mask hides secrets. Default: the method of a masker of package tools.
	Mask func(string) string
	// Tools and Models are the names that metrics tell apart. Default: the first 100 of each that occur.
	Tools, Models []string
}

// Telemetry tells what agents do. It is safe for concurrent use.
type Telemetry struct {
	o             Options
	tracer        trace.Tracer
	tools, models *names

	operation, firstChunk, agent, tool, response timer
	tokens                                       metric.Int64Histogram
	sessions, messages, tokensTotal, calls       counter
	cost                                         metric.Float64Counter
}

type (
	timer   = metric.Float64Histogram
	counter = metric.Int64Counter
)

// New returns a telemetry, or an error if a meter refuses an instrument or the version is unknown.
func New(o Options) (*Telemetry, error) {
	if o.Version != "" && o.Version != Version {
		return nil, fmt.Errorf("telemetry: the version of names %q is unknown: want %s", o.Version, Version)
	}
	if o.Tracer == nil {
		o.Tracer = nooptrace.NewTracerProvider()
	}
	if o.Meter == nil {
		o.Meter = noopmetric.NewMeterProvider()
	}
	if o.Mask == nil {
		o.Mask = tools.NewMasker(nil).Mask
	}
	const scope = "github.com/aycoder/aycoder/contrib/otel"
	t := &Telemetry{o: o, tracer: o.Tracer.Tracer(scope), tools: newNames(o.Tools), models: newNames(o.Models)}
	return t, t.instruments(o.Meter.Meter(scope))
}

// The bounds of histograms, in seconds and in tokens, are those of the conventions.
var (
	seconds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	counts  = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
)

func (t *Telemetry) instruments(m metric.Meter) error {
	var errs []error
	time := func(name, what string) timer {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), seconds)
		errs = append(errs, err)
		return h
	}
	count := func(name, unit, what string) counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	t.operation = time("gen_ai.client.operation.duration", "Duration of requests to models.")
	t.firstChunk = time("gen_ai.client.operation.time_to_first_chunk", "Time until the first part of an answer.")
	t.agent = time("gen_ai.invoke_agent.duration", "Duration of runs.")
	t.tool = time("gen_ai.execute_tool.duration", "Duration of calls of tools.")
	t.response = time("aycoder.response_time", "Duration of requests that were answered.")
	var err error
	t.tokens, err = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), metric.WithDescription("Tokens of requests and answers."), counts)
	errs = append(errs, err)
	t.sessions = count("aycoder.sessions", "", "Sessions that began.")
	t.messages = count("aycoder.messages", "", "Messages by role.")
	t.tokensTotal = count("aycoder.tokens", "", "Tokens by type.")
	t.calls = count("aycoder.tool_calls", "", "Calls by tool and status.")
	t.cost, err = m.Float64Counter("aycoder.api_cost_dollars", metric.WithDescription("Cost of answers in US dollars, where it is known."))
	return errors.Join(append(errs, err)...)
}

// names bounds the values of an attribute of metrics.
type names struct {
	mu    sync.Mutex
	known map[string]bool
	room  int // for more
}

func newNames(known []string) *names {
	n := &names{known: map[string]bool{}}
	for _, name := range known {
		n.known[name] = true
	}
	if known == nil {
		n.room = 100
	}
	return n
}

// of returns the name, or "other".
func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] {
		if n.room == 0 {
			return "other"
		}
		n.room--
		n.known[name] = true
	}
	return name
}

// errorType returns the value of error.type for an error.
func errorType(err error) string {
	if name := aycoder.ErrorType(err); name != "" {
		return name
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "_OTHER"
}

// end ends a span, with an error or nil. The text of an error is content.
func (t *Telemetry) end(span trace.Span, err error) {
	if err != nil {
		text := ""
		if t.o.Content {
			text = t.text(err.Error())
		}
		span.SetStatus(codes.Error, text)
		span.SetAttributes(attribute.String(attrError, errorType(err)))
	}
	span.End()
}

// maxText bounds texts in attributes, in bytes.
const maxText = 16 << 10

// text returns a text as it may be told.
func (t *Telemetry) text(s string) string {
	return runes.Shorten(t.o.Mask(s), maxText)
}

// arguments returns the arguments of a call as they may be told. JSON can be written so that a secret in it does not look like one.
func (t *Telemetry) arguments(args json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if d.Decode(&v) == nil {
		args, _ = json.Marshal(mask.JSON(v, t.o.Mask)) // what was decoded encodes
	}
	return t.text(string(args))
}

// SessionStarted counts a session in aycoder.sessions.
func (t *Telemetry) SessionStarted(ctx context.Context) { t.sessions.Add(ctx, 1) }

// Run describes the runs of an agent.
type Run struct {
	// Name is the name of the agent, and Conversation the id of the session. Both may be empty.
	Name, Conversation string
	// Provider and Model are those of the agent's client. If they are empty, the span has those of the first answer.
	Provider, Model string
}

// Agent wraps an agent: each run is a span.
func (t *Telemetry) Agent(next aycoder.Agent, r Run) aycoder.Agent { return &agent{t, next, r} }

type agent struct {
	t    *Telemetry
	next aycoder.Agent
	run  Run
}

// Run implements [aycoder.Agent].
func (a *agent) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) { a.t.runs(ctx, a, in, opts, yield) })
}

// runs passes the events of a run on, and ends its span also if the loop body panics.
func (t *Telemetry) runs(ctx context.Context, a *agent, in aycoder.Input, opts []aycoder.RunOption, yield func(aycoder.Event, error) bool) {
	start, r := time.Now(), a.run
	ctx, span := t.tracer.Start(ctx, strings.TrimSpace(opAgent+" "+r.Name), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(present(attribute.String(attrOperation, opAgent), attribute.String(attrProvider, providerName(r.Provider)),
			attribute.String(attrRequestModel, r.Model), attribute.String(attrAgent, r.Name), attribute.String(attrConversation, r.Conversation))...))
	if ctx.Value(costKey{t}) == nil && t.cost.Enabled(ctx) { // else a run around this one counts what it costs
		ctx = context.WithValue(ctx, costKey{t}, true)
		opts = append(slices.Clip(opts), t.costs)
	}
	var failed error
	defer func() {
		attrs := []attribute.KeyValue{attribute.String(attrOperation, opAgent), attribute.String(attrProvider, providerName(cmp.Or(r.Provider, "_OTHER"))),
			attribute.String(attrRequestModel, t.models.of(r.Model))}
		if failed != nil {
			attrs = append(attrs, attribute.String(attrError, errorType(failed)))
		}
		t.agent.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(attrs...))
		t.end(span, failed)
	}()
	if n := len(in.Messages); in.Prompt != "" || len(in.Parts) == 0 && n > 0 && in.Messages[n-1].Role == aycoder.RoleUser {
		t.messages.Add(ctx, 1, metric.WithAttributes(attribute.String("role", "user")))
	}
	for ev, err := range a.next.Run(ctx, in, opts...) {
		switch ev := ev.(type) {
		case *aycoder.TurnFinished:
			r.Provider, r.Model = cmp.Or(r.Provider, ev.Provider), cmp.Or(r.Model, ev.Model)
			span.SetAttributes(present(attribute.String(attrProvider, providerName(r.Provider)), attribute.String(attrRequestModel, r.Model))...)
		case *aycoder.RunFinished:
			span.SetAttributes(usage(ev.Result.Usage)...)
		}
		failed = err
		if !yield(ev, err) {
			return
		}
	}
}

type costKey struct{ *Telemetry }

// costs is a [aycoder.RunOption] that counts what a run costs, with the runs inside its calls.
func (t *Telemetry) costs(c *aycoder.RunConfig) error {
	then := c.Facts
	return aycoder.WithFacts(func(ctx context.Context, rec *aycoder.FactRecord) error {
		for _, s := range part.Spent(rec.Fact) {
			if s.Unpriced < s.Answers {
				t.cost.Add(ctx, s.Cost)
			}
		}
		if then == nil {
			return nil
		}
		return then(ctx, rec)
	})(c)
}

// present leaves out texts that are empty.
func present(attrs ...attribute.KeyValue) []attribute.KeyValue {
	var out []attribute.KeyValue
	for _, a := range attrs {
		if a.Value.Type() != attribute.STRING || a.Value.AsString() != "" {
			out = append(out, a)
		}
	}
	return out
}

// usage returns the attributes of a usage. The conventions count cached tokens as input.
func usage(u aycoder.Usage) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.Int64(attrInput, u.Input+u.CacheRead+u.CacheWrite), attribute.Int64(attrOutput, u.Output)}
	for name, n := range map[string]int64{attrCacheRead: u.CacheRead, attrCacheWrite: u.CacheWrite, attrReasoning: u.Reasoning} {
		if n != 0 {
			out = append(out, attribute.Int64(name, n))
		}
	}
	return out
}

// Tools returns a middleware: each call is a span.
func (t *Telemetry) Tools() aycoder.ToolMiddleware {
	return func(next aycoder.ToolFunc) aycoder.ToolFunc {
		return func(ctx context.Context, inv *aycoder.Invocation) (res *aycoder.ToolResult, err error) {
			start := time.Now()
			ctx, span := t.tracer.Start(ctx, opTool+" "+inv.Name, trace.WithAttributes(attribute.String(attrOperation, opTool),
				attribute.String(attrTool, inv.Name), attribute.String(attrCall, inv.ID), attribute.String(attrToolType, "function")))
			returned := false
			defer func() {
				if !returned && err == nil {
					err = errors.New("panic")
				}
				if t.calls.Enabled(ctx) { // otherwise nobody reads the attributes
					t.called(ctx, t.tools.of(inv.Name), res, err, time.Since(start))
				}
				if t.o.Content && res != nil {
					span.SetAttributes(attribute.String(attrResult, t.text(res.Text())))
				}
				t.end(span, err)
			}()
			if t.o.Content {
				span.SetAttributes(attribute.String(attrArguments, t.arguments(inv.Args)))
			}
			res, err = next(ctx, inv)
			returned = true
			return res, err
		}
	}
}

// called counts a call.
func (t *Telemetry) called(ctx context.Context, name string, res *aycoder.ToolResult, err error, took time.Duration) {
	status := "ok"
	if err != nil || res != nil && res.IsError {
		status = "error"
	}
	attrs := []attribute.KeyValue{attribute.String(attrOperation, opTool), attribute.String(attrTool, name)}
	if err != nil {
		attrs = append(attrs, attribute.String(attrError, errorType(err)))
	}
	t.tool.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
	t.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", name), attribute.String("status", status)))
}

// Model wraps a client: each request is a span. Put it outside of a middleware that retries, to tell one request
// with all its tries, or inside, to tell each try.
func (t *Telemetry) Model(next aycoder.ModelClient) aycoder.ModelClient {
	if next == nil {
		panic("telemetry: Model of a nil client")
	}
	c := &client{t: t, next: next}
	if n, ok := aycoder.As[aycoder.ModelNamer](next); ok {
		c.provider, c.model = n.ModelName()
	}
	return c
}

type client struct {
	t               *Telemetry
	next            aycoder.ModelClient
	provider, model string
}

// Unwrap returns the wrapped client, for [aycoder.As].
func (c *client) Unwrap() aycoder.ModelClient { return c.next }

// Stream implements [aycoder.ModelClient].
func (c *client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return part.Once(func(yield func(aycoder.ModelEvent, error) bool) { c.stream(ctx, req, yield) })
}

func (c *client) stream(ctx context.Context, req *aycoder.Request, yield func(aycoder.ModelEvent, error) bool) {
	a := &answer{client: c, model: cmp.Or(req.Model, c.model), start: time.Now()}
	ctx, a.span = c.t.tracer.Start(ctx, strings.TrimSpace(opChat+" "+a.model), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(a.request(ctx, req)...))
	defer a.end(ctx)
	for ev, err := range c.next.Stream(ctx, req) {
		a.note(ev, err)
		if !yield(ev, err) {
			return
		}
	}
}

// An answer is what a span tells about an answer.
type answer struct {
	*client
	span  trace.Span
	model string // that was asked
	start time.Time
	first time.Duration // until the first event, or 0
	done  *aycoder.MessageDone
	text  []byte
	err   error
}

// request returns the attributes that are known before the answer.
func (a *answer) request(ctx context.Context, req *aycoder.Request) []attribute.KeyValue {
	attrs := present(attribute.String(attrOperation, opChat), attribute.String(attrProvider, providerName(cmp.Or(a.provider, "_OTHER"))),
		attribute.String(attrRequestModel, a.model), attribute.Bool(attrStream, true))
	if place, ok := aycoder.PlaceFromContext(ctx); ok && place.Agent != "" {
		attrs = append(attrs, attribute.String(attrAgent, place.Agent))
	}
	if req.MaxTokens > 0 {
		attrs = append(attrs, attribute.Int(attrMaxTokens, req.MaxTokens))
	}
	if req.Temperature != nil {
		attrs = append(attrs, attribute.Float64(attrTemperature, *req.Temperature))
	}
	if len(req.Stop) > 0 {
		attrs = append(attrs, attribute.StringSlice(attrStop, req.Stop))
	}
	if req.Output != nil {
		attrs = append(attrs, attribute.String(attrOutputType, "json"))
	}
	if n := len(req.Messages); a.t.o.Content && n > 0 {
		m := req.Messages[n-1] // the others were told with earlier requests
		attrs = append(attrs, attribute.String(attrMessagesIn, a.t.message(string(m.Role), m.Text(), "")))
	}
	return attrs
}

// message returns a message in the form of the conventions, a JSON array with one text.
func (t *Telemetry) message(role, text, finish string) string {
	m := map[string]any{"role": role, "parts": []map[string]any{{"type": "text", "content": t.text(text)}}}
	if finish != "" {
		m["finish_reason"] = finish
	}
	data, _ := json.Marshal([]any{m}) // texts only
	return string(data)
}

func (a *answer) note(ev aycoder.ModelEvent, err error) {
	if a.first == 0 && err == nil {
		a.first = max(time.Since(a.start), 1)
	}
	a.err = err
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		if a.t.o.Content && len(a.text) <= 2*maxText { // the rest of a secret tells what it is
			a.text = append(a.text, ev.Text...)
		}
	case *aycoder.Retrying:
		a.text = a.text[:0]
	case *aycoder.MessageDone:
		a.done = ev
	}
}

// end ends the span, also if the consumer has left early.
func (a *answer) end(ctx context.Context) {
	t, took := a.t, time.Since(a.start)
	provider := a.provider
	if a.done != nil {
		provider = cmp.Or(a.done.Provider, provider)
	}
	attrs := []attribute.KeyValue{attribute.String(attrOperation, opChat), attribute.String(attrProvider, providerName(cmp.Or(provider, "_OTHER"))),
		attribute.String(attrRequestModel, t.models.of(a.model))}
	if a.first > 0 {
		a.span.SetAttributes(attribute.Float64(attrFirstChunk, a.first.Seconds()))
		t.firstChunk.Record(ctx, a.first.Seconds(), metric.WithAttributes(attrs...))
	}
	if a.done != nil {
		a.answered(ctx, attrs, took)
	}
	if a.err != nil {
		attrs = append(attrs, attribute.String(attrError, errorType(a.err)))
	}
	t.operation.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
	t.end(a.span, a.err)
}

// answered tells a complete answer.
func (a *answer) answered(ctx context.Context, attrs []attribute.KeyValue, took time.Duration) {
	t, d := a.t, a.done
	model := cmp.Or(d.Model, a.model)
	a.span.SetAttributes(present(attribute.String(attrModel, model), attribute.String(attrID, d.ID))...)
	a.span.SetAttributes(attribute.StringSlice(attrFinish, []string{string(d.Stop)}))
	a.span.SetAttributes(usage(d.Usage)...)
	if t.o.Content {
		a.span.SetAttributes(attribute.String(attrMessagesOut, t.message("assistant", string(a.text), string(d.Stop))))
	}
	attrs = append(attrs, attribute.String(attrModel, t.models.of(model)))
	input := d.Usage.Input + d.Usage.CacheRead + d.Usage.CacheWrite
	for typ, n := range map[string]int64{"input": input, "output": d.Usage.Output} {
		t.tokens.Record(ctx, n, metric.WithAttributes(append(attrs[:len(attrs):len(attrs)], attribute.String(attrTokenType, typ))...))
	}
	for typ, n := range map[string]int64{"input": d.Usage.Input, "output": d.Usage.Output, "cache_read": d.Usage.CacheRead,
		"cache_write": d.Usage.CacheWrite} {
		if n > 0 {
			t.tokensTotal.Add(ctx, n, metric.WithAttributes(attribute.String("type", typ)))
		}
	}
	t.messages.Add(ctx, 1, metric.WithAttributes(attribute.String("role", "assistant")))
	t.response.Record(ctx, took.Seconds())
}
