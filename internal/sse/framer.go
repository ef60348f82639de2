package sse

import (
	"bytes"
	"io"
	"sync"
)

const (
	// A stream that pauses after each event, or is short, is read through a buffer of
	// minBuffer, because thousands may be open at once. A stream that fills its buffer
	// manyFills times gets fullBuffer, and an event gets as much more as it needs.
	minBuffer  = 1 << 10
	fullBuffer = 4 << 10
	manyFills  = 16
	// maxIdle is the number of consecutive empty reads after which reading fails.
	maxIdle = 100
)

// A framer splits a stream into events. It examines every byte once, whatever the sizes
// of the reads.
type framer struct {
	err   error // of r, io.EOF included
	limit int

	buf   []byte // bytes that were read and not returned yet
	start int    // of the event in buf
	line  int    // start of the current line
	scan  int    // bytes before it were examined

	text   bool // the event has a line that is not blank
	failed bool // the event has an error in a separate field
	skipLF bool // the last byte was a carriage return that ended a line

	r     io.Reader
	fills int    // number of reads that filled buf
	lf    int    // the next line feed, or len(buf) if there is none; stale below scan
	out   []byte // the returned event, in buf
}

// event returns the next event, including its line ends. It is valid until the next call.
func (f *framer) event() ([]byte, error) {
	for !f.next() {
		if f.err != nil {
			return nil, f.end()
		}
		if len(f.buf)-f.start > f.limit {
			f.err = &TooLargeError{f.limit}
			continue
		}
		f.fill()
	}
	return f.out, nil
}

// plain returns the next event if it is of the usual form, is small, and none of its bytes was examined.
func (f *framer) plain() (Event, bool) {
	for f.scan == f.start {
		if f.skipLF && f.start < len(f.buf) {
			f.skipLF = false
			if f.buf[f.start] == '\n' {
				f.advance(f.start + 1)
			}
		}
		rest := f.buf[f.start:]
		if ev, n := plain(rest); n > 0 && n <= f.limit {
			f.advance(f.start + n)
			f.skipLF = f.buf[f.start-1] == '\r'
			return ev, true
		}
		if f.err != nil || len(rest) >= min(minBuffer, f.limit) ||
			bytes.IndexByte(rest, '\r') >= 0 || bytes.Contains(rest, []byte("\n\n")) {
			break
		}
		f.fill() // there is no whole event of any form
	}
	return Event{}, false
}

// end returns the error at the end of the stream.
func (f *framer) end() error {
	if f.err == io.EOF && (f.text || f.line < len(f.buf)) {
		return ErrTruncated
	}
	return f.err
}

// rest returns the bytes after the last blank line once the stream has ended, or nil.
func (f *framer) rest() []byte {
	ev := f.buf[min(f.start, len(f.buf)):]
	if _, large := f.err.(*TooLargeError); large || !f.text && f.line >= len(f.buf) {
		return nil
	}
	f.failed = f.failed || hasPrefix(f.buf[f.line:], errorField)
	if ev = append([]byte(nil), ev...); f.failed {
		ev = withError(append(ev, '\n'))
	}
	f.start, f.line, f.scan, f.text, f.failed = len(f.buf), len(f.buf), len(f.buf), false, false
	return ev
}

// next searches the new bytes for the end of an event.
func (f *framer) next() bool {
	for f.scan < len(f.buf) {
		if f.skipLF {
			f.skipLF = false
			if f.buf[f.scan] == '\n' {
				f.advance(f.scan + 1)
				continue
			}
		}
		i := f.lineEnd()
		if i < 0 {
			f.scan = len(f.buf)
			return false
		}
		f.skipLF = f.buf[i] == '\r'
		blank := i == f.line
		f.text = f.text || !blank
		f.failed = f.failed || hasPrefix(f.buf[f.line:], errorField)
		f.advance(i + 1)
		if blank && f.text {
			return f.cut()
		}
	}
	return false
}

// advance begins a new line at i. Blank lines before an event are dropped.
func (f *framer) advance(i int) {
	f.line, f.scan = i, i
	if !f.text {
		f.start = i
	}
}

// cut returns the event that ends before the current line.
func (f *framer) cut() bool {
	ev := f.buf[f.start:f.line]
	failed := f.failed
	f.start, f.text, f.failed = f.line, false, false
	if len(ev) > f.limit {
		f.err = &TooLargeError{f.limit}
		f.scan = len(f.buf)
		return false
	}
	if f.out = ev; failed {
		f.out = withError(ev)
	}
	return true
}

const errorField = "error:"

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// withError rewrites an event that has an error in a separate field, "error: …". The
// field is not in the standard, so parsers drop it. The result is an event of the type
// "error", with the field as its data.
func withError(ev []byte) []byte {
	out := []byte("event: error\n")
	for start := true; len(ev) > 0; ev = ev[1:] {
		if rest, ok := bytes.CutPrefix(ev, []byte(errorField)); ok && start {
			out = append(out, "data:"...)
			ev = rest
		}
		out = append(out, ev[0]) // an event ends with a line break
		start = ev[0] == '\n' || ev[0] == '\r'
	}
	return out
}

// lineEnd returns the index of the next line feed or carriage return, or -1.
func (f *framer) lineEnd() int {
	if f.lf < f.scan {
		f.lf = indexFrom(f.buf, f.scan, '\n')
	}
	if i := bytes.IndexByte(f.buf[f.scan:f.lf], '\r'); i >= 0 {
		return f.scan + i
	}
	if f.lf < len(f.buf) {
		return f.lf
	}
	return -1
}

// indexFrom returns the index of c at or after i, or len(b).
func indexFrom(b []byte, i int, c byte) int {
	if j := bytes.IndexByte(b[i:], c); j >= 0 {
		return i + j
	}
	return len(b)
}

// fill reads once, after making room.
func (f *framer) fill() {
	f.makeRoom()
	f.lf = -1
	for range maxIdle {
		n, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+n]
		if f.err = err; len(f.buf) == cap(f.buf) {
			f.fills++
		}
		if n > 0 || err != nil {
			return
		}
	}
	f.err = io.ErrNoProgress
}

// makeRoom moves the event to the front, or doubles the buffer if the event fills more
// than half of it, so that each byte is moved a constant number of times.
func (f *framer) makeRoom() {
	held := f.buf[f.start:]
	if len(held) > 0 && cap(f.buf) > len(f.buf) {
		return
	}
	size := 0
	switch {
	case f.fills >= manyFills && cap(f.buf) < fullBuffer: // much more is available than fits
		size = fullBuffer
	case len(held) >= cap(f.buf)/2:
		size = max(minBuffer, 2*cap(f.buf))
	}
	if size > 0 {
		old := f.buf
		f.buf = append(buffer(size), held...)
		giveBack(old)
	} else {
		f.buf = append(f.buf[:0], held...)
	}
	f.line -= f.start
	f.scan -= f.start
	f.start = 0
}

// The buffers of streams that have ended, for the streams that come.
var small, full sync.Pool // of *[minBuffer]byte and *[fullBuffer]byte

// buffer returns an empty buffer.
func buffer(size int) []byte {
	switch size {
	case minBuffer:
		if b, ok := small.Get().(*[minBuffer]byte); ok {
			return b[:0]
		}
	case fullBuffer:
		if b, ok := full.Get().(*[fullBuffer]byte); ok {
			return b[:0]
		}
	}
	return make([]byte, 0, size)
}

// giveBack takes a buffer that nobody reads any more. It clears the buffer, so that a mistake
// elsewhere cannot bring the text of one conversation into another, and shows in tests.
func giveBack(b []byte) {
	clear(b[:cap(b)])
	switch cap(b) {
	case minBuffer:
		small.Put((*[minBuffer]byte)(b[:minBuffer]))
	case fullBuffer:
		full.Put((*[fullBuffer]byte)(b[:fullBuffer]))
	}
}

// first returns the first byte of the stream that is neither white space nor a byte order
// mark, and drops the bytes before it.
func (f *framer) first() (byte, error) {
	for {
		rest := f.buf[f.start:]
		if whole := min(len(bom), len(rest)); whole > 0 && string(rest[:whole]) == bom[:whole] {
			if whole == len(bom) {
				f.advance(f.start + whole)
				continue
			}
		} else if len(rest) > 0 {
			if c := rest[0]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
				return c, nil
			}
			f.advance(f.start + 1)
			continue
		}
		if f.err != nil {
			if len(rest) > 0 {
				return rest[0], nil // the stream ends inside the mark
			}
			return 0, f.err
		}
		f.fill()
	}
}
