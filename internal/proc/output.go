package proc

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/late"
)

// Output keeps the beginning and the end of what is written to it, in bounded
// memory. It is not safe for concurrent use.
type Output struct {
	head, ring   []byte // ring is a circle once it is full: it starts at pos
	pos, limit   int
	total, lines int64
}

var newline = []byte{'\n'}

// NewOutput returns an output that keeps limit bytes, half of them from the end.
func NewOutput(limit int) *Output { return &Output{limit: limit} }

// Total returns how many bytes were written.
func (o *Output) Total() int64 { return o.total }

// Cut reports whether something of it was not kept.
func (o *Output) Cut() bool { return o.total > int64(o.limit) }

// Write implements io.Writer. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	n := len(p)
	o.total += int64(n)
	o.lines += int64(bytes.Count(p, newline))
	take := min(o.limit/2-len(o.head), n)
	o.head = append(o.head, p[:take]...)
	p = p[take:]
	size := o.limit - o.limit/2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := min(size-len(o.ring), len(p)); room > 0 {
		o.ring = append(o.ring, p[:room]...)
		p = p[room:]
	}
	for len(p) > 0 {
		c := copy(o.ring[o.pos:], p)
		o.pos = (o.pos + c) % size
		p = p[c:]
	}
	return n, nil
}

// Text returns what was kept as valid UTF-8 without NUL bytes and terminal escapes,
// and what is missing in the middle as a line that says how many bytes those are.
// Bytes that are not text become question marks; odd reports whether there were any.
func (o *Output) Text() (text string, odd bool) {
	tail := append(append([]byte(nil), o.ring[o.pos:]...), o.ring[:o.pos]...)
	kept := int64(len(o.head) + len(tail))
	if kept == o.total {
		return Clean(append(append([]byte(nil), o.head...), tail...))
	}
	head := before(o.head)
	tail = Behind(tail)
	omitted := o.total - int64(len(head)+len(tail))
	lines := o.lines - int64(bytes.Count(head, newline)+bytes.Count(tail, newline))
	a, oddA := Clean(bytes.TrimSuffix(head, newline))
	b, oddB := Clean(tail)
	return fmt.Sprintf("%s\n[… %d bytes (%d lines) omitted …]\n%s", a, omitted, lines, b), oddA || oddB
}

// maxPart is how many bytes of a line that is cut are left out.
const maxPart = 4 << 10

// partMarks end what is left of a line that is cut: the line, or a part of a long one.
var partMarks = [...]string{"\n", ",;&{}<>|", " \t"}

// before removes what a cut at the end of b has left of a line, or of a part of a long one: half a secret is not found to
// be one.
func before(b []byte) []byte {
	b = trimEnd(b)
	near := len(b) - min(len(b), maxPart)
	for _, marks := range partMarks {
		if i := bytes.LastIndexAny(b[near:], marks); i >= 0 {
			return b[:near+i+1]
		}
	}
	return b
}

// Behind is the same for a text whose beginning is cut: a secret whose name is missing is not found, either.
func Behind(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	for _, marks := range partMarks {
		if i := bytes.IndexAny(b[:min(len(b), maxPart)], marks); i >= 0 && i+1 < len(b) {
			return b[i+1:]
		}
	}
	return b
}

// trimEnd removes a rune that was cut at the end.
func trimEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			return b
		}
	}
	return b
}

// Whole returns the beginning of b that ends neither within a character nor within an
// escape sequence.
func Whole(b []byte) []byte {
	b = trimEnd(b)
	at := bytes.LastIndexByte(b, 0x1b)
	if at < 0 || len(b)-at > maxEscape {
		return b
	}
	rest := b[at:]
	m := escapes().Find(rest)
	if title := bytes.HasPrefix(rest, []byte("\x1b]")); len(m) == 1 || title && len(m) == len(rest) && m[len(m)-1] != 7 {
		return b[:at]
	}
	return b
}

// maxEscape is how many bytes of a sequence without end are waited for.
const maxEscape = 256

// escapes are the sequences of ECMA-48 that set colours, move the cursor, or set
// the title of a window.
var escapes = late.Regexp(
	`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])?`)

// Clean returns b as valid UTF-8 without NUL bytes and escape sequences, never longer
// than b. Bytes that are not text become question marks; odd reports that there were any.
func Clean(b []byte) (text string, odd bool) {
	b = escapes().ReplaceAll(b, nil)
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return string(b), false
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || r == 0 {
			out = append(out, '?')
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return string(out), true
}
