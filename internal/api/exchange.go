package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sse"
)

const (
	// drainTime and drainBytes limit the effort to keep a connection reusable: the end of
	// a stream comes right after its last event, or not at all.
	drainTime  = 50 * time.Millisecond
	drainBytes = 4 << 10

	// maxEvent limits the size that a request may allow, so that it fits into a 32-bit
	// int.
	maxEvent = 1 << 30

	// errorTime is the longest wait for the rest of an error response, whose status is
	// the most important part.
	errorTime = 2 * time.Second
)

var (
	// ErrStopped means that the caller has left the loop.
	ErrStopped = errors.New("stopped")
	// ErrUnfinished means that a stream ended without its end marker.
	ErrUnfinished = errors.New("stream ended before the message was complete")

	errIdle     = errors.New("idle timeout")
	errGone     = errors.New("context is done")
	errRedirect = errors.New("redirected to another host or method: set the base URL to the service itself")
)

// An Exchange is one request and the way to read its response. Its fields must not be
// modified once [Exchange.Stream] is called.
type Exchange struct {
	Config *Config
	HTTP   *http.Client // the result of [Config.HTTP]
	Model  string       // the name of the model, for errors
	URL    string
	Method string // Default: POST
	// Encode returns the body. An error is the caller's fault.
	Encode func() (*Payload, error)
	// SetHeaders sets all headers of the request.
	SetHeaders func(http.Header)
	// Decode returns the decoder for the response.
	Decode func(*Call) Decoder
	// Frames splits a response into events. Default: server-sent events, or one JSON
	// document if the response is one.
	Frames func(io.Reader) iter.Seq2[sse.Event, error]
	// OrJSON says that a response may also be one JSON document in place of Frames.
	OrJSON bool
	// ModelsURL is the URL of the service's list of models, which the error for an
	// unknown model uses. It may be empty.
	ModelsURL string
	// Failure parses an error response. Default: [ParseFailure].
	Failure func(data []byte, h http.Header) Failure
	// MaxResponse is the limit of the request. Default: the limit in Config.
	MaxResponse int64

	used atomic.Bool
}

// A Decoder converts the events of one response to model events, which it passes to
// [Call.Emit]. All texts are valid UTF-8.
type Decoder interface {
	// Event handles one event, and reports whether it was the last.
	Event(ev sse.Event) (done bool, err error)
	// Whole handles a response that is one JSON document.
	Whole(data string) error
	// End is called when the stream ends without a last event. It returns
	// [ErrUnfinished], or nil if the message is complete all the same.
	End() error
}

// A ViewDecoder is a [Decoder] that handles most events without retaining their data,
// which need not be copied for it.
type ViewDecoder interface {
	Decoder
	// View handles an event whose data is valid only during the call, or returns false:
	// then [Decoder.Event] is called with a copy.
	View(ev sse.Event) (taken bool, err error)
}

// A Call is an exchange in progress.
type Call struct {
	// RequestID is the service's id of the request, from a header or the body.
	RequestID string
	// Status is the HTTP status unless it is 200.
	Status int

	x     *Exchange
	yield func(aycoder.ModelEvent, error) bool
	done  <-chan struct{} // of the caller's context
	start time.Time
	ping  bool

	held   int64 // bytes of the answer so far
	body   meter
	events sse.Reader
	views  bool // events are valid only until the next one
	view   ViewDecoder
	half   *sse.Event // the event that is held back, see joined
}

// Stream sends the request when the iteration starts, and yields the events of the
// response. It fulfils the contract of [aycoder.ModelClient].
func (x *Exchange) Stream(ctx context.Context) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if x.used.Swap(true) {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		k := &Call{x: x, yield: yield, done: ctx.Done(), start: time.Now()}
		if err := k.run(ctx); err != nil && !errors.Is(err, ErrStopped) {
			yield(nil, err)
		}
	}
}

// Emit yields an event. It returns an error if the caller has left the loop
// ([ErrStopped]) or the context is done; the decoder must return that error at once.
func (k *Call) Emit(ev aycoder.ModelEvent) error {
	select {
	case <-k.done:
		return errGone
	default:
	}
	limit := cmp.Or(k.x.MaxResponse, k.x.Config.MaxResponse)
	if k.held += sizeOf(ev); k.held > limit {
		return &aycoder.LimitError{Limit: "response bytes", Max: limit}
	}
	k.body.left = k.body.max // the data that was read has produced an event
	if !k.yield(ev, nil) {
		return ErrStopped
	}
	return nil
}

// sizeOf returns the number of bytes that an event adds to the answer.
func sizeOf(ev aycoder.ModelEvent) int64 {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return int64(len(ev.Text))
	case *aycoder.ThinkingDelta:
		return int64(len(ev.Text))
	case *aycoder.ToolDelta:
		return int64(len(ev.Args))
	}
	return 0
}

// bounds returns the maximum number of bytes without an event, and the maximum size of an
// event. Some services repeat the whole answer at its end, with escapes in it. Neither is
// lower than its default, because a response contains more than the answer.
func (x *Exchange) bounds() (silent int64, event int) {
	silent, event = x.Config.MaxResponse, sse.DefaultLimit
	if asked := min(x.MaxResponse, maxEvent/2); asked > sse.DefaultLimit {
		silent, event = max(silent, 2*asked), int(2*asked)
	}
	return silent, event
}

// Ping says that the current event only keeps the connection open, so it does not reset
// the idle timeout.
func (k *Call) Ping() { k.ping = true }

// Config returns the settings of the client.
func (k *Call) Config() *Config { return k.x.Config }

// Elapsed is the time since the request began.
func (k *Call) Elapsed() time.Duration { return time.Since(k.start) }

// Model returns the name of the model.
func (k *Call) Model() string { return k.x.Model }

// run sends the request and reads the answer. Every way out of it ends the request, so that
// no connection and no goroutine stays.
func (k *Call) run(ctx context.Context) error {
	data, err := k.x.Encode()
	if err != nil {
		return &aycoder.BadRequestError{ModelError: k.Base("", fmt.Errorf("encode request: %w", err))}
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent, _ := k.x.bounds()
	k.body.begin(k.x.Config, silent, cancel)
	defer k.body.end()

	h := http.Header{}
	k.x.SetHeaders(h)
	if err := k.x.Config.authorise(ctx, h); err != nil {
		return k.unauthorised(ctx, err)
	}
	resp, err := k.send(inner, data, h)
	if err != nil {
		return k.failed(ctx, inner, fmt.Errorf("connect: %w", err))
	}
	body := resp.Body
	defer body.Close()
	k.body.r = body
	k.RequestID = k.x.Config.Show(requestID(resp.Header), maxID)
	if resp.StatusCode != http.StatusOK {
		k.Status = resp.StatusCode
		k.body.hurry(errorTime)
		return k.refused(ctx, resp)
	}
	if err := k.decode(k.decoder()); err != nil {
		return k.failed(ctx, inner, err)
	}
	k.body.drain(body)
	return nil
}

// decoder creates the decoder, and releases the data of the request, since reading the
// response may take minutes.
func (k *Call) decoder() Decoder {
	d := k.x.Decode(k)
	k.x.URL, k.x.ModelsURL = "", ""
	k.x.Encode, k.x.SetHeaders, k.x.Decode = nil, nil, nil
	return d
}

// unauthorised returns the error for a missing token.
func (k *Call) unauthorised(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return k.Base("", cancelled(ctx))
	}
	return &aycoder.AuthError{ModelError: k.Base("", k.shown(err))}
}

// send sends the request and waits for the head of the response. The transport's errors
// may quote foreign text, whatever their type.
func (k *Call) send(ctx context.Context, p *Payload, h http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, cmp.Or(k.x.Method, http.MethodPost), k.x.URL, http.NoBody)
	if err != nil {
		return nil, withoutQuery(err)
	}
	if r.ContentLength = p.Size(); r.ContentLength > 0 {
		r.Body = p.Reader()
		r.GetBody = func() (io.ReadCloser, error) { return p.Reader(), nil }
	}
	r.Header = h
	k.body.start()
	defer k.body.stop()
	resp, err := k.x.HTTP.Do(r)
	if err = withoutQuery(err); isTyped(err) {
		err = k.shown(err)
	}
	return resp, err
}

// withoutQuery removes possible secrets from the URL in an error of package net/http: the
// query and the user information.
func withoutQuery(err error) error {
	e, ok := err.(*url.Error)
	if !ok {
		return err
	}
	address, _, _ := strings.Cut(e.URL, "?")
	if u, perr := url.Parse(address); perr == nil && u.User != nil {
		u.User = nil
		address = u.String()
	}
	return &url.Error{Op: e.Op, URL: address, Err: withoutQuery(e.Err)}
}

// decode reads the response to its end. Some services answer with one JSON document
// although a stream was requested, and proxies with a page. The first bytes decide, since
// the Content-Type is not reliable.
func (k *Call) decode(d Decoder) error {
	_, event := k.x.bounds()
	k.events.Reset(&k.body, event)
	switch first, err := k.events.First(); {
	case err == io.EOF:
		return d.End()
	case err != nil:
		return err
	case (first == '{' || first == '[') && (k.x.Frames == nil || k.x.OrJSON):
		k.body.counts = true
		return whole(k.events.Rest(), d)
	case k.x.Frames != nil && first != '<' && !isLetter(first): // a byte with which no frame begins
		return k.framed(k.events.Rest(), d)
	case k.x.Frames != nil || !k.events.Begins():
		k.body.hurry(errorTime)
		return k.foreign(k.events.Rest())
	}
	k.views = true
	k.view, _ = d.(ViewDecoder)
	for {
		ev, err := k.events.Next()
		if err == io.EOF {
			return k.ended(d)
		}
		if err != nil {
			return err
		}
		if done, err := k.event(ev, d); done || err != nil {
			return err
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// foreign returns the error for a response that is neither events nor JSON.
func (k *Call) foreign(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxErrorBody))
	if err != nil && len(data) == 0 {
		return err
	}
	return k.Refuse(data)
}

// framed reads the response through [Exchange.Frames].
func (k *Call) framed(r io.Reader, d Decoder) error {
	for ev, err := range k.x.Frames(r) {
		if err != nil {
			return err
		}
		if done, err := k.event(ev, d); done || err != nil {
			return err
		}
	}
	return k.ended(d)
}

// ended tells the decoder that the stream has ended.
func (k *Call) ended(d Decoder) error {
	if last := k.half; last != nil {
		k.half = nil
		if done, err := k.take(*last, d); done || err != nil {
			return err
		}
	}
	return d.End()
}

// event passes an event to the decoder. An event without data is only a ping, which does
// not reset the idle timeout.
func (k *Call) event(ev sse.Event, d Decoder) (done bool, err error) {
	k.ping = ev.Data == ""
	switch {
	case k.ping:
	case k.half != nil || hasEscape(ev.Data):
		done, err = k.joined(ev, func(ev sse.Event) (bool, error) { return k.take(ev, d) })
	default:
		done, err = k.take(ev, d)
	}
	if !k.ping && err == nil {
		k.body.heard()
	}
	return done, err
}

// take hands an event to the decoder. A decoder that takes views sees the text in the
// memory of the reader, and costs no copy.
func (k *Call) take(ev sse.Event, d Decoder) (done bool, err error) {
	if !utf8.ValidString(ev.Data) {
		ev.Data = strings.ToValidUTF8(ev.Data, "\uFFFD")
	}
	if !k.views {
		return d.Event(ev)
	}
	if k.view != nil {
		taken, err := k.view.View(ev)
		if taken || err != nil {
			return false, err
		}
	}
	ev.Data = strings.Clone(ev.Data)
	return d.Event(ev)
}

// whole hands over an answer that is not a stream. Its size is bounded by the reader.
func whole(r io.Reader, d Decoder) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return d.Whole(strings.ToValidUTF8(string(data), "\uFFFD"))
}

// failed returns the error for a response that did not reach its end.
func (k *Call) failed(ctx, inner context.Context, err error) error {
	switch {
	case errors.Is(err, ErrStopped), isTyped(err):
		return err
	case ctx.Err() != nil:
		return k.Base("", cancelled(ctx))
	case context.Cause(inner) == errIdle:
		return &aycoder.TimeoutError{ModelError: k.Base("", nil), Elapsed: k.body.waited}
	}
	if t, ok := errors.AsType[*sse.TooLargeError](err); ok {
		return k.Base("", &aycoder.LimitError{Limit: "event bytes", Max: int64(t.Limit)})
	}
	if l, ok := errors.AsType[*aycoder.LimitError](err); ok {
		return k.Base("", l)
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return &aycoder.TimeoutError{ModelError: k.Base("", k.shown(err)), Elapsed: time.Since(k.start)}
	}
	return k.Broken(err)
}

// isTyped reports whether an error needs no further classification.
func isTyped(err error) bool {
	_, ok := errors.AsType[*aycoder.ModelError](err)
	return ok
}

// cancelled returns the context's error, with the cause if that adds information.
func cancelled(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return &causeError{err, cause}
	}
	return err
}

// causeError is the error of a context with a cause.
type causeError struct{ err, cause error }

func (e *causeError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *causeError) Unwrap() []error { return []error{e.err, e.cause} }

// Base returns the common part of the errors of this call.
func (k *Call) Base(kind string, err error) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: k.x.Config.Provider, Model: k.x.Model, RequestID: k.RequestID,
		Status: k.Status, Kind: kind, Err: err}
}

// Broken returns the error for an unusable stream.
func (k *Call) Broken(err error) error {
	return &aycoder.StreamBrokenError{ModelError: k.Base("", k.shown(err)), After: time.Since(k.start)}
}

// shown returns an error that may quote foreign text with that text made presentable.
func (k *Call) shown(err error) error {
	text := err.Error()
	if shown := k.x.Config.Show(text, 2*maxErrorText); shown != text {
		return errors.New(shown)
	}
	return err
}

// Garbled returns the error for data that does not follow the service's API.
func (k *Call) Garbled(what string, err error, data string) error {
	return fmt.Errorf("decode %s: %w: %s", what, err, k.x.Config.Show(data, 200))
}

// refused converts a response with a status other than 200 to an error.
func (k *Call) refused(ctx context.Context, resp *http.Response) error {
	// a partial body is better than none
	data, _ := io.ReadAll(io.LimitReader(&k.body, maxErrorBody))
	if ctx.Err() != nil {
		return k.Base("", cancelled(ctx))
	}
	if resp.StatusCode/100 == 3 {
		return &aycoder.BadRequestError{ModelError: k.Base("redirect", errRedirect)}
	}
	parse := k.x.Failure
	if parse == nil {
		parse = ParseFailure
	}
	err := k.Fail(parse(bytes.TrimSpace(data), resp.Header))
	k.known(ctx, err)
	return err
}
