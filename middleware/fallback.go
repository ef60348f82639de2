package middleware

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// FallbackOptions configures [FallbackWith]. The zero value selects the defaults.
type FallbackOptions struct {
	// Refusals says whether to ask the next client if the model of a client refuses to answer
	// (see [aycoder.RefusalError]). Default: false; the error is returned.
	Refusals bool
	// LargerContext says whether to ask another client if a request is too large for the context
	// of a client. Only clients whose context is known to be larger are then asked, in order (see
	// [aycoder.ModelInfoer]). Default: false; the error is returned, so that the loop can shorten
	// the request.
	LargerContext bool
	// Also reports whether to ask the next client after an error that is not listed at
	// [Fallback], such as an error type of the host. Also must be safe for concurrent use.
	// Default: the next client is not asked.
	Also func(error) bool
	// Cooldown is how long a rate-limited client is skipped if its error does not say when to
	// retry. Default: 5 seconds. With a negative value, the client is not skipped.
	Cooldown time.Duration
	// Clock tells when a cool-down is over. Default: [aycoder.SystemClock].
	Clock aycoder.Clock
}

// maxCooldown bounds the wait that a provider can ask for. A wrong reset time must not exclude a
// client for good.
const maxCooldown = time.Hour

const defaultCooldown = 5 * time.Second

// Fallback makes the wrapped client fall back to other clients, which are asked in order. The
// next client is asked after a failure that may not affect it: a rate limit, overload, a timeout,
// a broken stream, a rejected key, or an unknown model. Any other failure, such as a bad request
// or a cancellation, ends the request at once. Fallback is [FallbackWith] with the default
// options.
func Fallback(others ...aycoder.ModelClient) aycoder.ModelMiddleware {
	return FallbackWith(FallbackOptions{}, others...)
}

// FallbackWith makes the wrapped client fall back to other clients, which are asked in order.
// [Fallback] lists the failures after which the next client is asked; the options can add more.
//
// An [aycoder.Retrying] announces each change of client. The part of the answer that arrived
// before it is void. If a client fails after a complete block, no other client is asked, since
// the block may already be in use, and the error is returned unchanged. If no client answers, the
// error is a [*FallbackError] with the error of each client.
//
// Later requests skip a client that reported a rate limit, or an overload together with the time
// to wait. The client is skipped for the time that it named, but for an hour at most. If a rate
// limit names no time, [FallbackOptions.Cooldown] is used. If all clients would have to be
// skipped, no client is skipped.
//
// [aycoder.Request.Model] names a model of the wrapped client. Another client gets this name only
// if its provider and default model (see [aycoder.ModelNamer]) are those of the wrapped client:
// for example a client with another key or region. All remaining clients use their default
// models. [aycoder.Request.Extra] is passed only to clients that have the provider of the wrapped
// client.
//
// [aycoder.As] finds the abilities of the wrapped client only. The exceptions are
// [aycoder.OutputFormatter] and the ToolFormatter of package generate, whose methods return true only
// if all clients have the ability, and [aycoder.ModelInfoer]: without a name, it describes the model of
// the client that the next request asks first, and its context size is always the one of that model.
// Middleware inside of the fallback wraps one client and does not apply to the others.
// FallbackWith panics if one of the clients is nil.
func FallbackWith(o FallbackOptions, others ...aycoder.ModelClient) aycoder.ModelMiddleware {
	o.Clock, o.Cooldown = clockOr(o.Clock), cmp.Or(o.Cooldown, defaultCooldown)
	if slices.Contains(others, nil) {
		panic("middleware: Fallback to a nil client")
	}
	others = slices.Clone(others)
	return wrap("Fallback", func(w wrapper) aycoder.ModelClient {
		f := &fallback{wrapper: w, o: o}
		for i, m := range append([]aycoder.ModelClient{w.next}, others...) {
			p := &provider{client: m}
			p.provider, p.model = nameOf(m)
			p.name = cmp.Or(strings.TrimSpace(p.provider+" "+p.model), "client "+strconv.Itoa(i+1))
			f.providers = append(f.providers, p)
		}
		return f
	})
}

type fallback struct {
	wrapper
	o         FallbackOptions
	providers []*provider // the first is the one that is wrapped
}

// A provider is one of the clients, with the time until which it is skipped.
type provider struct {
	client          aycoder.ModelClient
	provider, model string
	name            string       // for people
	cool            atomic.Int64 // until when it is passed over, in Unix nanoseconds
}

// Stream implements [aycoder.ModelClient].
func (f *fallback) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return part.Once(func(yield yieldFunc) { f.stream(ctx, req, yield) })
}

func (f *fallback) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	failed := &FallbackError{}
	left := f.awake(failed)
	for attempt := 1; ; attempt++ {
		p := left[0]
		t := forward(ctx, p.client, f.request(p, req), yield)
		if t.done {
			p.cool.Store(0)
		}
		if t.err == nil {
			return
		}
		if ctx.Err() != nil {
			yield(nil, t.err)
			return
		}
		f.note(p, t.err)
		failed.add(p, t.err, f.o.Clock.Now())
		left = f.after(left, req, t.err)
		if t.blocks || len(left) == 0 {
			yield(nil, failed.orOnly(t.blocks))
			return
		}
		if !yield(&aycoder.Retrying{Discarded: t.heard, Attempt: attempt, Err: t.err}, nil) {
			return
		}
	}
}

// awake returns the clients that are not skipped. If all would be skipped it returns all, because
// an attempt that may fail is better than no answer.
func (f *fallback) awake(failed *FallbackError) []*provider {
	now := f.o.Clock.Now().UnixNano()
	left := slices.DeleteFunc(slices.Clone(f.providers),
		func(p *provider) bool { return p.cool.Load() > now })
	if len(left) == 0 {
		return f.providers
	}
	for _, p := range f.providers {
		if !slices.Contains(left, p) {
			failed.Skipped = append(failed.Skipped, p.name)
		}
	}
	return left
}

// note records for how long a client must be skipped.
func (f *fallback) note(p *provider, err error) {
	d, now := f.cooldown(err), f.o.Clock.Now()
	if d > 0 {
		p.cool.Store(now.Add(min(d, maxCooldown)).UnixNano())
	}
}

func (f *fallback) cooldown(err error) time.Duration {
	d := asked(err, f.o.Clock.Now())
	if d == 0 && is[*aycoder.RateLimitError](err) {
		return f.o.Cooldown
	}
	return d
}

// after returns the clients that may survive the error of the first client in left.
func (f *fallback) after(left []*provider, req *aycoder.Request, err error) []*provider {
	failed, left := left[0], left[1:]
	if f.o.LargerContext && is[*aycoder.ContextTooLargeError](err) {
		size := f.context(failed, req)
		return slices.DeleteFunc(slices.Clone(left), func(p *provider) bool {
			return size == 0 || f.context(p, req) <= size
		})
	}
	if !f.survivable(err) {
		return nil
	}
	return left
}

// survivable reports whether another provider is likely to answer after this error.
func (f *fallback) survivable(err error) bool {
	return is[*aycoder.RateLimitError](err) || is[*aycoder.OverloadedError](err) ||
		is[*aycoder.TimeoutError](err) || is[*aycoder.StreamBrokenError](err) ||
		is[*aycoder.AuthError](err) || is[*aycoder.UnknownModelError](err) ||
		f.o.Refusals && is[*aycoder.RefusalError](err) || f.o.Also != nil && f.o.Also(err)
}

// context returns the context size of the model that p uses for the request, or 0 if unknown.
func (f *fallback) context(p *provider, req *aycoder.Request) int64 {
	info, _ := f.info(p, req)
	return info.Context
}

func (f *fallback) info(p *provider, req *aycoder.Request) (aycoder.ModelInfo, bool) {
	i, ok := aycoder.As[aycoder.ModelInfoer](p.client)
	if !ok {
		return aycoder.ModelInfo{}, false
	}
	return i.ModelInfo(f.request(p, req).Model)
}

// ModelInfo implements [aycoder.ModelInfoer]. A name can be that of an answer that a client began before it was skipped.
func (f *fallback) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	req := &aycoder.Request{Model: model}
	next, ok := f.info(f.awake(&FallbackError{})[0], req)
	if named, known := f.info(f.providers[0], req); model != "" && known {
		named.Context = next.Context
		return named, true
	}
	return next, ok
}

// request returns the request for client p. It removes the fields that only the first client
// understands.
func (f *fallback) request(p *provider, req *aycoder.Request) *aycoder.Request {
	first := f.providers[0]
	family := p == first || p.provider != "" && p.provider == first.provider
	twin := p == first || family && p.model == first.model
	if twin || req.Model == "" && (family || len(req.Extra) == 0) {
		return req
	}
	own := *req
	own.Model = ""
	if !family {
		own.Extra = nil
	}
	return &own
}

// FormatsOutput implements [aycoder.OutputFormatter]. It returns false if any client lacks the
// ability, because any of them may answer.
func (f *fallback) FormatsOutput(model string) bool {
	return all(f, model, aycoder.OutputFormatter.FormatsOutput)
}

// FormatsWithTools reports whether the clients do what FormatsOutput says also in a request with
// tools. It returns false if any client lacks the ability.
func (f *fallback) FormatsWithTools(model string) bool {
	return all(f, model, toolFormatter.FormatsWithTools)
}

// toolFormatter is the ToolFormatter of package generate.
type toolFormatter interface{ FormatsWithTools(model string) bool }

// all reports whether all clients have an ability for a model.
func all[T any](f *fallback, model string, able func(T, string) bool) bool {
	for _, p := range f.providers {
		t, ok := aycoder.As[T](p.client)
		if !ok || !able(t, f.request(p, &aycoder.Request{Model: model}).Model) {
			return false
		}
	}
	return true
}

// FallbackError reports that no client of a [Fallback] answered. It wraps the errors of the
// clients, so that errors.AsType finds them. If several errors have the wanted type,
// errors.AsType finds the one whose client asks for the shortest wait, so that a caller does not
// wait longer than necessary.
type FallbackError struct {
	// Errs are the errors of the clients, in the order in which the clients were asked.
	Errs []error
	// Skipped are the names of the clients that were not asked because they had reported a rate
	// limit or overload before.
	Skipped []string

	texts []string
	at    time.Time // when the last one said it
}

func (e *FallbackError) add(p *provider, err error, now time.Time) {
	text := err.Error()
	if !strings.HasPrefix(text, p.name) {
		text = p.name + ": " + text
	}
	e.Errs, e.texts, e.at = append(e.Errs, err), append(e.texts, text), now
}

// orOnly returns the error of the last client, if last is set or if it is the only one. Otherwise
// it returns e.
func (e *FallbackError) orOnly(last bool) error {
	if last || len(e.Errs) == 1 && len(e.Skipped) == 0 {
		return e.Errs[len(e.Errs)-1]
	}
	return e
}

// Error implements the error interface. The text names the clients with their errors.
func (e *FallbackError) Error() string {
	s := "no client answered: " + strings.Join(e.texts, "; ")
	if len(e.Skipped) > 0 {
		s += "; rate limited and not asked: " + strings.Join(e.Skipped, ", ")
	}
	return s
}

// Unwrap returns the errors of the clients, the one with the shortest wait first.
func (e *FallbackError) Unwrap() []error {
	now := e.at
	if now.IsZero() { // a host has made it
		now = time.Now()
	}
	return slices.SortedStableFunc(slices.Values(e.Errs), func(a, b error) int {
		return cmp.Compare(asked(a, now), asked(b, now))
	})
}

// asked returns how long the provider asked to wait, or 0 if it did not say.
func asked(err error, now time.Time) time.Duration {
	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
		if e.RetryAfter > 0 || !e.ResetAt.After(now) {
			return max(e.RetryAfter, 0)
		}
		return e.ResetAt.Sub(now)
	}
	if e, ok := errors.AsType[*aycoder.OverloadedError](err); ok {
		return max(e.RetryAfter, 0)
	}
	return 0
}
