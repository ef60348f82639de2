package anthropic

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sse"
)

const (
	// drainTime and drainBytes bound what is spent to leave a connection usable: the
	// end of a stream comes right after its last event, or not at all.
	drainTime  = 50 * time.Millisecond
	drainBytes = 4 << 10

	bom = "\xEF\xBB\xBF" // the byte order mark
)

var (
	// errStopped says that the caller left the loop.
	errStopped = errors.New("stopped")
	errIdle    = errors.New("idle timeout")
)

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	used := false
	return func(yield func(aycoder.ModelEvent, error) bool) {
		if used {
			yield(nil, aycoder.ErrConsumed)
			return
		}
		used = true
		k := &call{c: c, model: c.modelOf(req), start: time.Now()}
		if err := k.run(ctx, req, yield); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// A call is one request and its response.
type call struct {
	c         *Client
	model     string
	start     time.Time
	requestID string
	status    int
}

func (k *call) run(ctx context.Context, req *aycoder.Request, yield func(aycoder.ModelEvent, error) bool) error {
	data, err := k.c.encode(req)
	if err != nil {
		return &aycoder.BadRequestError{ModelError: k.base("", wrap("encode request", err))}
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(k.c.cfg.idle, cancel)
	defer w.timer.Stop()

	resp, err := k.send(inner, w, data)
	if err != nil {
		return k.failed(ctx, inner, w, wrap("connect", err))
	}
	defer resp.Body.Close()
	k.requestID = k.c.cfg.show(resp.Header.Get("Request-Id"), maxID)
	r := &meter{r: resp.Body, w: w, left: k.c.cfg.maxResponse, max: k.c.cfg.maxResponse}
	if resp.StatusCode != http.StatusOK {
		k.status = resp.StatusCode
		return k.refused(ctx, resp, r)
	}
	d := &decoder{yield: yield, call: k}
	if err := k.decode(r, d); err != nil {
		return k.failed(ctx, inner, w, err)
	}
	w.drain(resp.Body)
	return nil
}

// send sends the request and waits for the head of the response.
func (k *call) send(ctx context.Context, w *watch, p *payload) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.c.cfg.endpoint, p.reader())
	if err != nil {
		return nil, err
	}
	r.ContentLength = p.size()
	r.GetBody = func() (io.ReadCloser, error) { return p.reader(), nil }
	k.c.cfg.setHeaders(r.Header)
	defer w.begin()()
	return k.c.http.Do(r)
}

// decode reads the response to its end. Some services answer with one JSON document
// although a stream was asked for; the first byte tells, since their Content-Type
// does not always.
func (k *call) decode(r *meter, d *decoder) error {
	br := bufio.NewReaderSize(r, 64) // for a look at the first byte; larger reads pass by it
	isJSON, err := startsObject(br)
	if err != nil && err != io.EOF {
		return err
	}
	if isJSON {
		r.counts = true
		data, err := io.ReadAll(br)
		if err != nil {
			return err
		}
		return d.whole(data)
	}
	for ev, err := range sse.Events(br, 0) {
		if err != nil {
			return err
		}
		if done, err := d.event(ev); done || err != nil {
			return err
		}
		if d.heard {
			d.heard = false
			r.w.waited = 0
		}
	}
	return errUnfinished
}

// startsObject skips white space and a byte order mark, and reports whether a JSON
// object begins there.
func startsObject(br *bufio.Reader) (bool, error) {
	for {
		head, err := br.Peek(1)
		if err != nil {
			return false, err
		}
		c, skip := head[0], 0
		switch c {
		case ' ', '\t', '\r', '\n':
			skip = 1
		case bom[0]:
			if head, _ := br.Peek(len(bom)); string(head) == bom {
				skip = len(bom)
			}
		}
		if skip == 0 {
			return c == '{', nil
		}
		_, _ = br.Discard(skip) // it was just seen
	}
}

// failed says why a response did not come to its end.
func (k *call) failed(ctx, inner context.Context, w *watch, err error) error {
	switch {
	case errors.Is(err, errStopped), isTyped(err):
		return err
	case ctx.Err() != nil:
		return k.base("", cancelled(ctx))
	case context.Cause(inner) == errIdle:
		return &aycoder.TimeoutError{ModelError: k.base("", nil), Elapsed: w.waited}
	}
	if t, ok := errors.AsType[*sse.TooLargeError](err); ok {
		return k.base("", &aycoder.LimitError{Limit: "event bytes", Max: int64(t.Limit)})
	}
	if l, ok := errors.AsType[*aycoder.LimitError](err); ok {
		return k.base("", l)
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return &aycoder.TimeoutError{ModelError: k.base("", err), Elapsed: time.Since(k.start)}
	}
	return k.broken(err)
}

func isTyped(err error) bool {
	_, ok := errors.AsType[*aycoder.ModelError](err)
	return ok
}

// cancelled is the context's error, with the cause if that says more.
func cancelled(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, err) {
		return &causeError{err, cause}
	}
	return err
}

// causeError is the error of a context that was cancelled with a cause.
type causeError struct{ err, cause error }

func (e *causeError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *causeError) Unwrap() []error { return []error{e.err, e.cause} }

// A watch ends the request when the service is silent for too long. Only the time
// spent waiting for it counts. All but the timer's function belongs to one goroutine.
type watch struct {
	idle   time.Duration
	waited time.Duration
	timer  *time.Timer
	since  time.Time
}

func newWatch(idle time.Duration, cancel context.CancelCauseFunc) *watch {
	w := &watch{idle: idle, timer: time.AfterFunc(idle, func() { cancel(errIdle) })}
	w.timer.Stop()
	return w
}

// begin starts the time; the function it returns stops it.
func (w *watch) begin() (end func()) {
	w.start()
	return w.stop
}

func (w *watch) start() {
	w.since = time.Now()
	w.timer.Reset(w.idle - w.waited)
}

func (w *watch) stop() {
	w.timer.Stop()
	w.waited += time.Since(w.since)
}

// drain reads what is left of a complete response, so that the connection can be
// used again.
func (w *watch) drain(r io.Reader) {
	w.timer.Reset(drainTime)
	_, _ = io.CopyN(io.Discard, r, drainBytes) // the message is complete either way
	w.timer.Stop()
}

// A meter reads a response under a watch and up to a bound.
type meter struct {
	r         io.Reader
	w         *watch
	left, max int64
	counts    bool // every byte ends a silence; else the decoder says what does
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, &aycoder.LimitError{Limit: "response bytes", Max: m.max}
	}
	m.w.start()
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.w.stop()
	m.left -= int64(n)
	if m.counts && n > 0 {
		m.w.waited = 0
	}
	return n, err
}

// base is the common part of the errors of this call.
func (k *call) base(kind string, err error) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: provider, Model: k.model, RequestID: k.requestID,
		Status: k.status, Kind: kind, Err: err}
}

// broken says that the stream is of no use. The cause may quote what came, so one
// that says too much is replaced by what can be shown of it.
func (k *call) broken(err error) error {
	text := err.Error()
	if shown := k.c.cfg.show(text, 2*maxErrorText); shown != text {
		err = errors.New(shown)
	}
	return &aycoder.StreamBrokenError{ModelError: k.base("", err), After: time.Since(k.start)}
}

// wrap says what was being done.
func wrap(op string, err error) error { return &opError{op, err} }

type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// refused turns an answer other than 200 into an error.
func (k *call) refused(ctx context.Context, resp *http.Response, r io.Reader) error {
	data, _ := io.ReadAll(io.LimitReader(r, maxErrorBody)) // what came is all there is to say
	if ctx.Err() != nil {
		return k.base("", cancelled(ctx))
	}
	if resp.StatusCode/100 == 3 {
		return &aycoder.BadRequestError{ModelError: k.base("redirect", errRedirect)}
	}
	var e errorEvent
	if json.Unmarshal(bytes.TrimSpace(data), &e) != nil || e.Error.Message == "" && e.Error.Type == "" {
		e.Error.Message = plainBody(data, resp.Header.Get("Content-Type"))
	}
	if k.requestID == "" {
		k.requestID = k.c.cfg.show(e.RequestID, maxID)
	}
	return k.classify(&e.Error, resp.Header)
}

// plainBody is what can be shown of an error body that is not the API's.
func plainBody(data []byte, contentType string) string {
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "empty answer"
	}
	if strings.Contains(contentType, "html") || strings.HasPrefix(text, "<") {
		return "answered with a web page instead of JSON: is the base URL right?"
	}
	return text
}
