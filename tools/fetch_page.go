package tools

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/envelope"
	"github.com/aycoder/aycoder/internal/htmltext"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	byteOrderMark = "\uFEFF"
	progressBytes = 256 << 10
)

// A webPage is the text of a response.
type webPage struct {
	url   *url.URL
	kind  string // the media type
	title string
	text  string
	cut   bool // the response is longer than maxBody
}

// readPage converts a response to text. It works in one pass, and bounds the bytes that
// are received, decompressed and decoded.
func readPage(
	ctx context.Context, inv *invocation, u *url.URL, resp *http.Response, raw bool,
) (*webPage, error) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, problemf("http_status", "%s answered %s", showURL(u), showStatus(resp))
	}
	alive := func() error { return context.Cause(ctx) }
	sent := &meter{r: resp.Body, left: maxBody + maxBody/8, alive: alive, inv: inv}
	plain, err := unpack(resp.Header.Get("Content-Encoding"), sent)
	if err != nil {
		return nil, err
	}
	unpacked := &meter{r: plain, left: maxBody, alive: alive}
	head := bufio.NewReaderSize(unpacked, runes.Sniffed)
	start, err := head.Peek(runes.Sniffed)
	if err != nil && err != io.EOF {
		return nil, readProblem(u, err)
	}
	declared := resp.Header.Get("Content-Type")
	kind, ok := textKind(declared, start)
	if !ok {
		return nil, notText(u, kind, resp.ContentLength)
	}
	p := &webPage{url: u, kind: kind}
	if err := p.read(head, declared, raw); err != nil {
		return nil, readProblem(u, err)
	}
	p.cut = p.cut || sent.full() || unpacked.full()
	return p, nil
}

// read decodes the page from its charset, which the server or the page itself declares.
func (p *webPage) read(r io.Reader, declared string, raw bool) error {
	text, err := charset.NewReader(r, declared)
	if errors.Is(err, io.EOF) {
		return nil // an empty response
	}
	if err != nil {
		return err
	}
	if !raw && (p.kind == "text/html" || p.kind == "application/xhtml+xml") {
		got, err := htmltext.Convert(text, p.url, maxBody)
		p.title, p.text, p.cut = got.Title, strings.TrimPrefix(got.Text, byteOrderMark), got.Cut
		return err
	}
	data, err := io.ReadAll(io.LimitReader(text, maxBody))
	p.text, p.cut = strings.TrimPrefix(string(data), byteOrderMark), len(data) == maxBody
	return err
}

// readProblem reports that a page was interrupted. The partial text is not shown, because
// half of a compressed page may be misleading.
func readProblem(u *url.URL, err error) error {
	for _, broken := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum} {
		if errors.Is(err, broken) {
			return problemf("broken_page",
				"%s: the response is not compressed as its header says: %v", showURL(u), err)
		}
	}
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return problemf("broken_page",
			"%s: the response is not compressed as its header says: %v", showURL(u), err)
	}
	return err
}

// unpack decompresses a response. It supports the encodings that fetch asks for, one at a
// time.
func unpack(encoding string, r io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return &lazy{open: func() (io.Reader, error) { return gzip.NewReader(r) }}, nil
	case "deflate": // with or without the zlib header: servers differ
		return &lazy{open: func() (io.Reader, error) {
			b := bufio.NewReader(r)
			if head, err := b.Peek(2); err == nil && head[0]&0xf == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
				return zlib.NewReader(b)
			}
			return flate.NewReader(b), nil
		}}, nil
	}
	return nil, problemf("unsupported_encoding", "the page is compressed as %s, which fetch does not support",
		showHost(runes.Cut(encoding, 40)))
}

// lazy opens the reader at the first read. A compressed page may be empty, without the
// header that gzip expects.
type lazy struct {
	open func() (io.Reader, error)
	r    io.Reader
}

// Read opens the reader in its first call. Opening a decompressor reads data and can block, so it
// must not happen before the caller has checked the context.
func (l *lazy) Read(p []byte) (int, error) {
	if l.r == nil {
		r, err := l.open()
		if err != nil {
			return 0, err
		}
		l.r = r
	}
	return l.r.Read(p)
}

// A meter stops its reader at a limit, and at once when the call is cancelled.
type meter struct {
	r     io.Reader
	left  int64
	alive func() error
	inv   *invocation // receives the progress; may be nil
	done  int64
	told  int64
}

// Read returns [io.EOF] after a limited number of bytes, because a small response can decompress
// to a very large text. If the call is cancelled, Read returns an error.
func (m *meter) Read(p []byte) (int, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	if m.full() {
		return 0, io.EOF
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	m.done += int64(n)
	if m.inv != nil && m.done >= m.told+progressBytes {
		m.told = m.done
		m.inv.Progress(aycoder.Progress{Current: m.done, Message: strconv.FormatInt(m.done>>10, 10) + " kB"})
	}
	return n, err
}

// full reports whether the limit was reached.
func (m *meter) full() bool { return m.left == 0 }

// textKind returns the media type of a page, and whether it is text.
func textKind(declared string, start []byte) (kind string, text bool) {
	kind, params, err := mime.ParseMediaType(declared)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || kind == "application/octet-stream" {
		kind = ""
	}
	wide := strings.HasPrefix(strings.ToLower(params["charset"]), "utf-16") ||
		len(start) > 1 && (start[0] == 0xFE && start[1] == 0xFF || start[0] == 0xFF && start[1] == 0xFE)
	if !wide && runes.Binary(start) {
		if kind == "" {
			kind = http.DetectContentType(start)
		}
		return kind, false
	}
	if kind == "" {
		kind, _, _ = strings.Cut(http.DetectContentType(start), ";")
		return kind, strings.HasPrefix(kind, "text/")
	}
	return kind, textual(kind)
}

// textual reports whether a media type denotes text.
func textual(kind string) bool {
	top, sub, _ := strings.Cut(kind, "/")
	switch {
	case top == "text", top == "message" && sub == "rfc822", kind == "image/svg+xml":
		return true
	case top != "application":
		return false
	}
	return slices.ContainsFunc(textNames, func(s string) bool { return strings.Contains(sub, s) })
}

// textNames are parts of the names of textual media types outside of text/.
var textNames = []string{
	"json", "xml", "yaml", "toml", "javascript", "ecmascript", "sql", "graphql", "x-sh", "x-www-form-urlencoded",
}

// notText is the problem of a page that a model cannot read.
func notText(u *url.URL, kind string, size int64) error {
	long := "of unknown size"
	if size >= 0 {
		long = "of " + plural(int(size), "byte")
	}
	return problemf("binary_content", "%s is %s, %s; fetch reads only text", showURL(u),
		runes.Shorten(EscapeInvisible(kind), 100), long)
}

// result returns the requested part of the text, and how to get the rest.
// The result has up to whole bytes of the text, of which the model gets those that it asked for.
func (p *webPage) result(in fetchArgs, whole int) (*result, error) {
	if in.Offset > len(p.text) || in.Offset == len(p.text) && in.Offset > 0 {
		return nil, problemf("invalid_arguments", "offset %d is behind the end: the text has %d bytes",
			in.Offset, len(p.text))
	}
	size := min(in.MaxBytes, maxFetchBytes)
	if size == 0 {
		size = fetchBytes
	}
	from := in.Offset
	for from > 0 && from < len(p.text) && p.text[from]&0xC0 == 0x80 {
		from-- // back to the start of a character
	}
	end := from + len(runes.Cut(p.text[from:], max(size, 4)))
	part := p.text[from:max(end, from+len(runes.Cut(p.text[from:], whole)))]
	head := fmt.Sprintf("[%s: %s, %s of text]\n", showURL(p.url), runes.Shorten(EscapeInvisible(p.kind), 100),
		plural(len(p.text), "byte"))
	title := ""
	if p.title != "" {
		title = "Title: " + runes.Shorten(p.title, 300) + "\n\n"
	}
	text := head + envelope.Wrap(p.url.Hostname(), title+printable(part)) + p.rest(from, end)
	r := textResult(text, plural(end-from, "byte"))
	if len(part) > end-from {
		begin := len(head) + strings.IndexByte(text[len(head):], '\n') + 1
		r.Head, r.Tail = begin+len(title)+end-from, len(text)-strings.LastIndex(text, "\n</untrusted id=")
	}
	r.Untrusted = true
	return r, nil
}

// rest describes the parts of the page that are not shown.
func (p *webPage) rest(from, end int) string {
	var b strings.Builder
	if end < len(p.text) {
		b.WriteString("[truncated: these are the bytes " + strconv.Itoa(from) + "-" + strconv.Itoa(end) + " of " +
			strconv.Itoa(len(p.text)) + "; go on with offset " + strconv.Itoa(end) + "]\n")
	}
	if p.cut {
		b.WriteString("[truncated: the page is longer than the " + strconv.Itoa(maxBody>>20) + " MB that fetch reads]\n")
	}
	return b.String()
}
