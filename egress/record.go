package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/runes"
)

// Record says what went out, or was to. It is made when a response, or a connection by CONNECT,
// has ended.
type Record struct {
	Time        time.Time // of the beginning
	Elapsed     time.Duration
	Destination Destination
	// Method is that of the request. Path has at most 512 bytes and no query, which may hold
	// secrets. It is "" for a connection of which the proxy does not see the requests, whose
	// Method is CONNECT.
	Method, Path string
	// Sent and Received count the bytes of bodies, or of a connection by CONNECT.
	Sent, Received int64
	// Rule is the rule that decided, such as "allow *.example.com", or "" if somebody was asked.
	Rule string
	// Allowed says that the destination could be reached. Err is why it was denied, or why it
	// was not reached, or nil.
	Allowed bool
	Err     error
}

// An entry is a record that is being made.
type entry struct {
	s              *Session
	record         Record
	sent, received atomic.Int64
}

func (s *Session) begin(method, path string) *entry {
	return &entry{s: s, record: Record{Time: time.Now(), Method: runes.Shorten(method, 32), Path: runes.Shorten(runes.Clean(path), 500)}}
}

// allow is that of the session, and notes its destination, rule and outcome.
func (e *entry) allow(ctx context.Context, d Destination) (*rule, error) {
	r, err := e.s.allow(ctx, d)
	if e.record.Destination, e.record.Allowed = d, err == nil; r != nil {
		e.record.Rule = r.String()
	}
	return r, err
}

// end hands the record over.
func (e *entry) end(err error) {
	r := &e.record
	r.Sent, r.Received = e.sent.Load(), e.received.Load()
	if _, denied := errors.AsType[*DeniedError](err); denied {
		r.Allowed = false
	}
	r.Elapsed, r.Err = time.Since(r.Time), err
	e.s.proxy.log(*r)
}

// counted counts what is read from a body. It also writes, for a connection that has changed its
// protocol.
type counted struct {
	io.ReadCloser
	n      *atomic.Int64
	closed func()
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	if w, ok := c.ReadCloser.(io.Writer); ok {
		return w.Write(p)
	}
	return 0, errors.ErrUnsupported
}

func (c *counted) Close() error {
	defer c.closed()
	return c.ReadCloser.Close()
}

// secretForms are texts to mask, the longest first.
type secretForms []string

// secrets returns what may show in a response of a header that was added: the values, their
// words, and the password of basic authentication, each in several encodings.
func secrets(h http.Header) secretForms {
	var forms secretForms
	for _, values := range h {
		for _, v := range values {
			_, after, _ := strings.Cut(v, " ") // a scheme, such as Bearer
			words := append(strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" ;,=\"", r) }), v, after)
			if login, err := base64.StdEncoding.DecodeString(after); err == nil {
				_, password, _ := strings.Cut(string(login), ":")
				words = append(words, string(login), password)
			}
			for _, w := range words {
				if len(w) >= mask.MinValue {
					forms = append(forms, mask.Forms(w)...)
				}
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(forms)
}

// mask masks what comes in a response.
func (f secretForms) mask(resp *http.Response) {
	resp.Status = strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode) // the server's words may be anything
	f.header(resp.Header)
	f.header(resp.Trailer) // its names
	resp.Body = &maskedBody{ReadCloser: resp.Body, forms: f, atEnd: func() { f.header(resp.Trailer) }}
}

func (f secretForms) header(h http.Header) {
	for name, values := range h {
		for i, v := range values {
			b := []byte(v)
			f.bytes(b)
			values[i] = string(b)
		}
		lower := strings.ToLower(name)
		if slices.ContainsFunc(f, func(form string) bool { return strings.Contains(lower, strings.ToLower(form)) }) {
			delete(h, name)
		}
	}
}

// error masks what an error quotes of a response.
func (f secretForms) error(err error) error {
	text := []byte(err.Error())
	if f.bytes(text) {
		return errors.New(string(text))
	}
	return err
}

// bytes writes asterisks over secrets, and reports whether there were any. The length stays.
func (f secretForms) bytes(b []byte) (found bool) {
	for _, form := range f {
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte(form))
			if i < 0 {
				break
			}
			for j := range len(form) {
				b[at+i+j] = '*'
			}
			at, found = at+i+len(form), true
		}
	}
	return found
}

// held returns how many bytes at the end may be the beginning of a secret.
func (f secretForms) held(b []byte) int {
	most := 0
	for _, form := range f {
		for n := min(len(form)-1, len(b)); n > most; n-- {
			if string(b[len(b)-n:]) == form[:n] {
				most = n
			}
		}
	}
	return most
}

// maskedBody masks what is read. It holds back only what may be the beginning of a secret.
type maskedBody struct {
	io.ReadCloser
	forms secretForms
	atEnd func()
	ready []byte // masked
	rest  []byte // may be the beginning of a secret
	err   error
}

func (m *maskedBody) Read(p []byte) (int, error) {
	for len(m.ready) == 0 && m.err == nil {
		chunk := make([]byte, 16<<10)
		var n int
		n, m.err = m.ReadCloser.Read(chunk)
		all := append(m.rest, chunk[:n]...)
		m.forms.bytes(all)
		keep := m.forms.held(all)
		if m.err != nil {
			keep, m.err = 0, m.forms.error(m.err)
			m.atEnd()
		}
		m.ready, m.rest = all[:len(all)-keep], slices.Clone(all[len(all)-keep:])
	}
	if n := copy(p, m.ready); n > 0 || len(p) == 0 {
		m.ready = m.ready[n:]
		return n, nil
	}
	return 0, m.err
}
