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
	// drainTime and drainBytes limit the effort to keep a connection reusable. The end of
	// a stream usually comes right after its last event; if it does not, waiting is of no
	// use.
	drainTime  = 10 * time.Millisecond
	drainBytes = 4 << 10

	// maxEvent is the largest event size, in bytes, that a request can ask for. Twice
	// this size still fits into a 32-bit int.
	maxEvent = 1 << 30

	// errorTime is the longest wait for the body of an error response. The status, which
	// has already arrived, is the most important part of the response.
	errorTime = 2 * time.Second
	// envelope is the number of bytes that an event may have beside its part of the answer.
	envelope = 4 << 10
)

var (
	// ErrStopped is returned by a decoder that needs nothing more of the response.
	ErrStopped = errors.New("stopped")
	// ErrUnfinished means that a stream ended without its end marker.
	ErrUnfinished = errors.New("stream ended before the message was complete")

	errIdle     = errors.New("idle timeout")
	errGone     = errors.New("context is done")
	errRedirect = errors.New("redirected to another host or method: set the base URL to the service itself")
)

// An Exchange is one request, with the functions that read its response. Its fields must
// not be modified after the call of [Exchange.Open] or [Exchange.Stream].
type Exchange struct {
	call Call // here, so that both are one allocation

	Config *Config
	Model  string // the name of the model, for errors
	URL    string
	Method string // Default: POST
	// Encode returns the body of the request. Its error is reported as an
	// [aycoder.BadRequestError], because the caller's request caused it.
	Encode func() (*Payload, error)
	// SetHeaders sets all headers of the request, except a bearer token from a token
	// source.
	SetHeaders func(http.Header)
	// Decode returns the decoder for the response.
	Decode func(*Call) Decoder
	// Frames returns a function that reads the next event of a response. It returns io.EOF
	// after the last one. If Frames is nil, the response consists of server-sent events, or
	// of one JSON document.
	Frames func(io.Reader) func() (sse.Event, error)
	// OrJSON says that the response may be one JSON document even if Frames is set.
	OrJSON bool
	// ModelsPath is the path of the service's list of models, behind the base URL. If the
	// service does not know the requested model, the client reads similar names from the
	// list for its error. If ModelsPath is empty, the error does not suggest names.
	ModelsPath string
	// Failure parses an error response. If it is nil, [ParseFailure] is used.
	Failure func(data []byte, h http.Header) Failure
	// MaxResponse is the maximum size of the answer in bytes, from the caller's request.
	// If it is 0, the limit in Config applies.
	MaxResponse int64

	used atomic.Bool
}

// A Decoder converts the events of one response to model events, which it passes to
// [Call.Emit]. The data that it receives is valid UTF-8.
type Decoder interface {
	// Event handles one event, and reports whether it was the last event of the response.
	Event(ev sse.Event) (done bool, err error)
	// Whole handles a response that is one JSON document instead of a stream.
	Whole(data string) error
	// End is called if the stream ends before [Decoder.Event] has reported a last event.
	// It returns nil if the message is nevertheless complete, and otherwise
	// [ErrUnfinished].
	End() error
}

// A ViewDecoder is a [Decoder] that can handle frequent events without a copy of their
// data. Only the remaining events are copied and passed to [Decoder.Event].
type ViewDecoder interface {
	Decoder
	// View handles an event whose data is valid only during the call. If it returns
	// false, it has not handled the event, and [Decoder.Event] is called with a copy.
	View(ev sse.Event) (taken bool, err error)
}

// A Call is an [Exchange] in progress: the state of one request and its response.
type Call struct {
	// The fields that each event needs are together, since those of a waiting call are in no processor's cache.
	first  aycoder.ModelEvent   // the next event, or nil
	more   []aycoder.ModelEvent // those behind it
	err    error                // after them
	done   <-chan struct{}      // of the caller's context
	dec    Decoder
	view   ViewDecoder
	frames func() (sse.Event, error) // nil for server-sent events
	half   *sse.Event                // the event that is held back, see joined
	ping   bool
	views  bool  // events are valid only until the next one
	limit  int64 // of the answer, in bytes
	held   int64 // bytes of the answer so far
	silent int64 // bytes of events without a part of the answer so far
	body   meter
	events sse.Reader
	spare  deltas

	// RequestID is the id that the service gave to the request, in a header or in the
	// body.
	RequestID string
	// Status is the HTTP status of an error response. It is 0 for a response with status
	// 200.
	Status int

	x      *Exchange
	start  time.Time
	ctx    context.Context // of the caller
	inner  context.Context // of the request
	cancel context.CancelCauseFunc
	resp   io.Closer // the body of the response, or nil
}

// Open returns the response. Nothing is sent before the first call of its Next.
//
//go:noinline // it would be in each program twice
func (x *Exchange) Open(ctx context.Context) aycoder.ModelReader {
	k := &x.call
	k.x, k.ctx, k.done = x, ctx, ctx.Done()
	return k
}

// Stream returns a sequence that sends the request when the iteration starts, and yields
// the events of the response. The sequence follows the contract of [aycoder.ModelClient].
// It can be used only once; a second iteration yields [aycoder.ErrConsumed].
func (x *Exchange) Stream(ctx context.Context) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if x.used.Swap(true) {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		k := x.Open(ctx)
		defer k.Stop()
		for {
			ev, err := k.Next()
			if err == io.EOF || !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Next implements [aycoder.ModelReader].
func (k *Call) Next() (aycoder.ModelEvent, error) {
	for k.first == nil {
		if k.err != nil {
			return nil, k.end()
		}
		if done, err := k.advance(); err != nil {
			k.err = err
		} else if done {
			k.err = io.EOF
		}
		k.body.stop()
	}
	select {
	case <-k.done:
		k.err = errGone
		return nil, k.end()
	default:
	}
	ev := k.first
	if k.first = nil; len(k.more) > 0 {
		k.first, k.more = k.more[0], k.more[1:]
	}
	return ev, nil
}

// end ends the response, and returns the error of Next from now on. An error is classified here, and not where it was
// found: the caller may have cancelled since, at one of the events before it.
func (k *Call) end() error {
	if k.cancel == nil {
		return k.err
	}
	err := k.err
	if errors.Is(err, ErrStopped) {
		err = io.EOF
	} else if err != io.EOF {
		err = k.failed(err)
	}
	k.Stop()
	k.err = err
	return err
}

// Stop ends the request, so that no connection and no goroutine is left. The connection can
// be used again if Next has returned io.EOF. After Stop, Next returns no more events.
func (k *Call) Stop() {
	if k.cancel == nil {
		if k.err == nil {
			k.err = io.EOF // nothing was sent, and nothing will be
		}
		return
	}
	if k.err == io.EOF {
		k.body.drain()
	}
	k.first, k.err = nil, io.EOF
	k.events.Close()
	if k.resp != nil {
		k.resp.Close()
	}
	k.body.end()
	k.cancel(nil)
	k.cancel = nil
}

// Emit passes an event to the caller, and sets in an [aycoder.MessageDone] who answered. If it returns an error, the decoder must return
// that error at once. The error is an [aycoder.LimitError] if the answer is too large.
func (k *Call) Emit(ev aycoder.ModelEvent) error {
	if k.held += sizeOf(ev); k.held > k.limit {
		return &aycoder.LimitError{Limit: "response bytes", Max: k.limit}
	}
	if done, ok := ev.(*aycoder.MessageDone); ok {
		done.Provider, done.RequestID = k.x.Config.Provider, k.RequestID
		done.Model = cmp.Or(done.Model, k.x.Model)
	}
	k.body.left = k.body.max // the data that was read has produced an event
	k.body.heard()
	if k.first == nil {
		k.first = ev
	} else {
		k.more = append(k.more, ev)
	}
	return nil
}

// sizeOf returns the number of bytes by which an event lengthens the answer.
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
// event in bytes. Both are at least twice the requested size of the answer, because some
// services repeat the whole answer at its end, with escapes. Neither is lower than its
// default, because a response contains more than the answer.
func (x *Exchange) bounds() (silent int64, event int) {
	silent, event = x.Config.MaxResponse, sse.DefaultLimit
	if asked := min(x.MaxResponse, maxEvent/2); asked > sse.DefaultLimit {
		silent, event = max(silent, 2*asked), int(2*asked)
	}
	return silent, event
}

// Ping tells the call that the current event only keeps the connection open. Such an
// event does not restart the idle timeout.
func (k *Call) Ping() { k.ping = true }

// Config returns the settings of the client that makes the call.
func (k *Call) Config() *Config { return k.x.Config }

// Elapsed returns the time since the request began.
//
//go:noinline // it would be in each program five times
func (k *Call) Elapsed() time.Duration { return time.Since(k.start) }

// Model returns the name of the requested model.
func (k *Call) Model() string { return k.x.Model }

// advance sends the request, or else reads the next event, and reports whether the response has ended.
func (k *Call) advance() (done bool, err error) {
	if k.dec == nil {
		return k.begin()
	}
	var ev sse.Event
	if k.frames != nil {
		ev, err = k.frames()
	} else {
		ev, err = k.events.Next()
	}
	if err == io.EOF {
		return true, k.ended()
	}
	if err != nil {
		return false, err
	}
	return k.event(ev)
}

// begin sends the request and reads the beginning of the response.
func (k *Call) begin() (done bool, err error) {
	k.start = time.Now()
	k.inner, k.cancel = context.WithCancelCause(k.ctx)
	k.limit = cmp.Or(k.x.MaxResponse, k.x.Config.MaxResponse)
	silent, _ := k.x.bounds()
	k.body.begin(k.x.Config, silent, k.cancel)
	data, err := k.x.Encode()
	if err != nil {
		return false, &aycoder.BadRequestError{ModelError: k.Base("", fmt.Errorf("encode request: %w", err))}
	}
	r, err := http.NewRequestWithContext(k.inner, cmp.Or(k.x.Method, http.MethodPost), k.x.URL, http.NoBody)
	if err != nil {
		return false, fmt.Errorf("connect: %w", withoutQuery(err))
	}
	k.x.SetHeaders(r.Header)
	if err := k.x.Config.authorise(k.ctx, r.Header); err != nil {
		return false, k.unauthorised(err)
	}
	resp, err := k.send(r, data)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	k.resp, k.body.r = resp.Body, resp.Body
	k.RequestID = k.x.Config.Show(requestID(resp.Header), maxID)
	if resp.StatusCode != http.StatusOK {
		k.Status = resp.StatusCode
		k.body.hurry(errorTime)
		return false, k.refused(resp)
	}
	k.dec = k.decoder()
	return k.choose()
}

// decoder creates the decoder, and releases the data of the request, since reading the
// response may take minutes.
func (k *Call) decoder() Decoder {
	d := k.x.Decode(k)
	k.x.URL = ""
	k.x.Encode, k.x.SetHeaders, k.x.Decode = nil, nil, nil
	return d
}

// send sends the request and waits for the header of the response. An error of the
// transport may quote a text from the service, so secrets are removed from it, whatever
// its type.
func (k *Call) send(r *http.Request, p *Payload) (*http.Response, error) {
	if r.ContentLength = p.Size(); r.ContentLength > 0 {
		r.Body = p.Reader()
		r.GetBody = func() (io.ReadCloser, error) { return p.Reader(), nil }
	}
	k.body.start()
	resp, err := k.x.Config.send(r)
	if err = withoutQuery(err); isTyped(err) {
		err = k.shown(err)
	}
	return resp, err
}

// withoutQuery removes the query and the user information from the URL in an error of
// package net/http, because both may be secrets.
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

// choose decides how the response is read. Its first bytes say that, since the Content-Type is not
// reliable: some services answer with one JSON document although a stream was requested, and some
// proxies answer with a web page.
func (k *Call) choose() (done bool, err error) {
	_, event := k.x.bounds()
	k.events.Reset(&k.body, event)
	switch first, err := k.events.First(); {
	case err == io.EOF:
		return true, k.dec.End()
	case err != nil:
		return false, err
	case (first == '{' || first == '[') && (k.x.Frames == nil || k.x.OrJSON):
		k.body.counts = true
		k.body.heard()
		return true, k.whole(k.events.Rest())
	case k.x.Frames != nil && first != '<' && !isLetter(first): // a byte with which no frame begins
		k.frames = k.x.Frames(k.events.Rest())
		return false, nil
	case k.x.Frames != nil || !k.events.Begins():
		k.body.hurry(errorTime)
		return true, k.foreign(k.events.Rest())
	}
	k.views = true
	k.view, _ = k.dec.(ViewDecoder)
	return false, nil
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

// ended tells the decoder that the stream has ended.
func (k *Call) ended() error {
	if last := k.half; last != nil {
		k.half = nil
		if done, err := k.take(*last); done || err != nil {
			return err
		}
	}
	return k.dec.End()
}

// event passes an event to the decoder. An event without data is only a ping and does not
// restart the idle timeout.
func (k *Call) event(ev sse.Event) (done bool, err error) {
	k.ping = ev.Data == ""
	before := k.held
	switch {
	case k.ping:
	case k.half != nil || hasEscape(ev.Data):
		done, err = k.joined(ev)
	default:
		done, err = k.take(ev)
	}
	if !k.ping && err == nil {
		k.body.heard()
	}
	// The data may be kept, as a signature or citations are. A byte of the answer takes up to
	// six, in an escape, and there is something around them.
	if said := k.held - before; said == 0 {
		k.silent += int64(len(ev.Data))
	} else {
		k.silent += max(0, int64(len(ev.Data))-6*said-envelope)
	}
	if k.silent > k.body.max && !done && err == nil {
		err = &aycoder.LimitError{Limit: "response bytes", Max: k.body.max}
	}
	return done, err
}

// take passes an event to the decoder. For a [ViewDecoder] the data stays in the memory
// of the reader, which saves a copy.
func (k *Call) take(ev sse.Event) (done bool, err error) {
	if !utf8.ValidString(ev.Data) {
		ev.Data = strings.ToValidUTF8(ev.Data, "\uFFFD")
	}
	if !k.views {
		return k.dec.Event(ev)
	}
	if k.view != nil {
		taken, err := k.view.View(ev)
		if taken || err != nil {
			return false, err
		}
	}
	ev.Data = strings.Clone(ev.Data)
	return k.dec.Event(ev)
}

// whole passes an answer that is not a stream to the decoder. The reader bounds its size.
func (k *Call) whole(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return k.dec.Whole(strings.ToValidUTF8(string(data), "\uFFFD"))
}

// failed returns the error for a response that did not reach its end.
func (k *Call) failed(err error) error {
	switch {
	case isTyped(err):
		return err
	case k.ctx.Err() != nil:
		return k.Base("", cancelled(k.ctx))
	case context.Cause(k.inner) == errIdle:
		return &aycoder.TimeoutError{ModelError: k.Base("", nil), Elapsed: k.body.waited()}
	}
	if t, ok := errors.AsType[*sse.TooLargeError](err); ok {
		return k.Base("", &aycoder.LimitError{Limit: "event bytes", Max: int64(t.Limit)})
	}
	if l, ok := errors.AsType[*aycoder.LimitError](err); ok {
		return k.Base("", l)
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return &aycoder.TimeoutError{ModelError: k.Base("", k.shown(err)),
			Elapsed: k.Elapsed()}
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

// Base returns an error with the fields that all errors of this call share. Kind is the
// service's code for the error, and err is the cause.
//
//go:noinline // it would be in each program twelve times
func (k *Call) Base(kind string, err error) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: k.x.Config.Provider, Model: k.x.Model, RequestID: k.RequestID,
		Status: k.Status, Kind: kind, Err: err}
}

// Broken returns the [aycoder.StreamBrokenError] for a stream that cannot be read
// further.
func (k *Call) Broken(err error) error {
	return &aycoder.StreamBrokenError{ModelError: k.Base("", k.shown(err)),
		After: k.Elapsed()}
}

// shown returns err with keys removed from its text, and with the text shortened. An
// error that needs neither is returned unchanged.
func (k *Call) shown(err error) error {
	text := err.Error()
	if shown := k.x.Config.Show(text, 2*maxErrorText); shown != text {
		return errors.New(shown)
	}
	return err
}

// Garbled returns the error for data that does not follow the service's API. The argument
// what names the kind of data, for example "chunk".
func (k *Call) Garbled(what string, err error, data string) error {
	return fmt.Errorf("decode %s: %w: %s", what, err, k.x.Config.Show(data, 200))
}

// refused converts a response with a status other than 200 to an error.
func (k *Call) refused(resp *http.Response) error {
	// a partial body is better than none
	data, _ := io.ReadAll(io.LimitReader(&k.body, maxErrorBody))
	if k.ctx.Err() != nil {
		return k.Base("", cancelled(k.ctx))
	}
	if resp.StatusCode/100 == 3 {
		return &aycoder.BadRequestError{ModelError: k.Base("redirect", errRedirect)}
	}
	parse := k.x.Failure
	if parse == nil {
		parse = ParseFailure
	}
	err := k.Fail(parse(bytes.TrimSpace(data), resp.Header))
	k.known(err)
	return err
}
