package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
)

// Recording at the level of HTTP: the bytes of a response are kept with the places at which
// they were cut into pieces, since decoders have faults that show only there.

// wireBuffer is the size of a read from a connection.
const wireBuffer = 32 << 10

// requestHeaders and responseHeaders are the recorded headers. Headers about rate limits
// are recorded in addition.
var (
	requestHeaders = []string{
		"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Openai-Beta",
	}
	responseHeaders = []string{
		"Apim-Request-Id", "Content-Type", "Location", "Request-Id", "Retry-After",
		"Retry-After-Ms", "X-Amzn-Bedrock-Content-Type", "X-Amzn-Errortype", "X-Amzn-Requestid",
		"X-Goog-Request-Id", "X-Request-Id", "X-Should-Retry",
	}
)

// RoundTrip implements [http.RoundTripper]. According to the [Mode], it sends req and
// records the response, or it returns a recorded response.
func (t *Tape) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := t.readBody(req)
	if err != nil {
		return nil, t.failed(err)
	}
	it := &interaction{http: &httpLine{Method: req.Method, URL: t.secrets.learnURL(req.URL)}}
	t.secrets.learn(req.Header)
	t.secrets.learnBody(req.Header.Get("Content-Type"), body)
	it.http.Header = t.allowed(req.Header, requestHeaders)
	it.http.setBody(body)
	if t.cfg.mode == Record {
		return t.record(req, it, body)
	}
	found, err := t.take(&interaction{http: t.cleanRequest(it.http)})
	switch {
	case found != nil:
		return t.replay(req, found)
	case err != nil:
		return nil, err
	}
	return t.record(req, it, body)
}

// failed wraps an error of the tape in a model error that is not retried.
func (t *Tape) failed(err error) error {
	err = fmt.Errorf("%s %s: %w", t.cfg.mode, t.path, err)
	return &aycoder.ModelError{Provider: "replay", Err: err}
}

// CloseIdleConnections closes the idle connections of the transport that sends the
// requests; see [WithTransport].
func (t *Tape) CloseIdleConnections() {
	if c, ok := t.cfg.transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// readBody reads the body of a request, and closes it.
func (t *Tape) readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(req.Body, t.cfg.maxBytes+1))
	err = errors.Join(err, req.Body.Close())
	if err == nil && int64(len(data)) > t.cfg.maxBytes {
		err = &aycoder.LimitError{Limit: "request bytes", Max: t.cfg.maxBytes}
	}
	return data, err
}

// allowed returns the recorded headers.
func (t *Tape) allowed(h http.Header, names []string) map[string]string {
	var out map[string]string
	for name, values := range h {
		name = http.CanonicalHeaderKey(name)
		limit := strings.Contains(strings.ToLower(name), "ratelimit")
		if !limit && !slices.Contains(names, name) && !slices.Contains(t.cfg.headers, name) ||
			t.secrets.secretHeader(name) {
			continue
		}
		value := strings.Join(values, ", ")
		if name == "Location" {
			u, err := url.Parse(value)
			if err != nil {
				continue
			}
			value = t.secrets.learnURL(u)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// record sends a request and records the response. It sends a copy of the body, because
// the transport may read the body more than once.
func (t *Tape) record(req *http.Request, it *interaction, body []byte) (*http.Response, error) {
	if err := t.begin(it); err != nil {
		return nil, t.failed(err)
	}
	out := req.Clone(req.Context())
	// The transport asks for compression and decompresses by itself.
	out.Header.Del("Accept-Encoding")
	out.Body, out.GetBody, out.ContentLength = http.NoBody, nil, int64(len(body))
	if len(body) > 0 {
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	resp, err := t.cfg.transport.RoundTrip(out)
	if err != nil {
		end, fail := endOf(req.Context(), err)
		t.ended(it, end, fail)
		return nil, err
	}
	resp.Request = req
	t.secrets.learn(resp.Header)
	t.mu.Lock()
	if !it.done {
		it.head = &headLine{Status: resp.StatusCode, Header: t.allowed(resp.Header, responseHeaders)}
	}
	t.mu.Unlock()
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	resp.Body = &recordedBody{tape: t, it: it, src: resp.Body, want: resp.ContentLength,
		buf: make([]byte, wireBuffer), endOf: func(err error) (ending, *failure) { return endOf(req.Context(), err) }}
	return resp, nil
}

// endOf returns the ending of an interaction that failed with a network error. If the
// program canceled the request, the error of the network only follows from that and is
// not recorded.
func endOf(ctx context.Context, err error) (ending, *failure) {
	if ctx.Err() != nil {
		return endCancelled, nil
	}
	return endError, encodeError(err)
}

// A recordedBody records a body while it is read. Read and Close may be called
// concurrently.
type recordedBody struct {
	tape  *Tape
	it    *interaction
	src   io.ReadCloser
	want  int64 // length of the body, or -1
	endOf func(error) (ending, *failure)

	buf, rest []byte // used only by Read
	err       error
}

// Read implements [io.Reader]. It reads each piece that the network delivers into a
// buffer, and copies from the buffer to p. The recorded pieces are therefore the pieces
// of the network, and do not depend on the size of p.
func (b *recordedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.rest) == 0 && b.err == nil {
		n, err := b.src.Read(b.buf)
		b.rest, b.err = b.buf[:n], err
		b.tape.came(b.it, b.rest)
		switch err {
		case nil:
		case io.EOF:
			b.tape.ended(b.it, endComplete, nil)
		default:
			end, fail := b.endOf(err)
			b.tape.ended(b.it, end, fail)
		}
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// came records a piece of a body.
func (t *Tape) came(it *interaction, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(data) == 0 || !t.grow(it, pieceBytes+len(data)) {
		return
	}
	it.body = append(it.body, data...)
	it.cuts = append(it.cuts, len(it.body))
}

// Close implements [io.Closer]. If the program closes the body before all bytes have
// arrived, the response is recorded as incomplete; see [IncompleteError].
func (b *recordedBody) Close() error {
	err := b.src.Close()
	t := b.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	end := endLeft
	if int64(len(b.it.body)) == b.want {
		end = endComplete
	}
	t.finish(b.it, end, nil)
	return err
}

// replay returns the recorded response.
func (t *Tape) replay(req *http.Request, it *interaction) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if it.head == nil {
		return nil, t.tail(req.Context(), it)()
	}
	h := http.Header{}
	for name, value := range it.head.Header {
		h.Set(name, value)
	}
	ctx, cancel := context.WithCancel(req.Context())
	body := &replayedBody{alive: ctx.Err, tail: t.tail(ctx, it), shut: cancel, size: t.cfg.chunk,
		data: it.body, cuts: it.cuts}
	return &http.Response{
		Status: fmt.Sprint(it.head.Status, " ", http.StatusText(it.head.Status)), StatusCode: it.head.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: body, ContentLength: -1, Request: req,
	}, nil
}

// tail returns a function that is called after the recorded part of an answer: it waits
// for the cancellation, if one was recorded.
func (t *Tape) tail(ctx context.Context, it *interaction) func() error {
	return func() error {
		switch it.end {
		case endComplete:
			return io.EOF
		case endError:
			return it.fail.err()
		case endCancelled:
			if ctx.Done() != nil {
				<-ctx.Done()
				return ctx.Err()
			}
		}
		return &IncompleteError{File: t.path, Interaction: it.number, Request: it.label()}
	}
}

// A replayedBody is a recorded body. Read and Close may be called concurrently.
type replayedBody struct {
	alive func() error // returns the error of the context
	tail  func() error
	shut  context.CancelFunc
	size  int // maximum size of a piece, or 0

	data []byte // used only by Read
	cuts []int
	at   int
}

// Read implements [io.Reader]. Each call returns at most one recorded piece, so that the
// program sees the same boundaries as during the recording.
func (b *replayedBody) Read(p []byte) (int, error) {
	if err := b.alive(); err != nil {
		return 0, err
	}
	if b.at == len(b.data) {
		return 0, b.tail()
	}
	n := copy(p, b.data[b.at:b.end()])
	b.at += n
	return n, nil
}

// end returns the end of the current piece.
func (b *replayedBody) end() int {
	if b.size > 0 {
		return min(len(b.data), (b.at/b.size+1)*b.size)
	}
	for len(b.cuts) > 0 && b.cuts[0] <= b.at {
		b.cuts = b.cuts[1:]
	}
	if len(b.cuts) == 0 {
		return len(b.data)
	}
	return b.cuts[0]
}

// Close implements [io.Closer].
func (b *replayedBody) Close() error {
	b.shut()
	return nil
}
