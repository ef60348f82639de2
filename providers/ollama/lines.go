package ollama

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/aycoder/aycoder/internal/sse"
)

const (
	minBuffer = 4 << 10
	// maxIdle is the number of consecutive empty reads after which reading fails.
	maxIdle = 100
)

// lines returns a function that returns the next line of a response as soon as its end was read. White
// space around a line and blank lines are dropped. A line may have up to limit bytes. The
// last line may lack a line end if it ends an object, as an answer in one document does.
// If the first line begins an object without ending it, the whole response is one
// document, because some proxies indent it. Every byte is examined once, whatever the
// sizes of the reads.
func lines(r io.Reader, limit int) func() (sse.Event, error) {
	l := &lineReader{r: r, limit: limit}
	first, end := true, error(nil)
	return func() (sse.Event, error) {
		for end == nil {
			line, err := l.next()
			if first && len(line) > 0 {
				first = false
				if err == nil && unfinished(line) {
					line, err = l.rest(line)
				}
			}
			if end = err; len(line) > 0 {
				return sse.Event{Data: string(line)}, nil
			}
		}
		return sse.Event{}, end
	}
}

// unfinished reports whether line is the beginning of an incomplete object.
func unfinished(line []byte) bool { return line[0] == '{' && !json.Valid(line) }

type lineReader struct {
	r     io.Reader
	limit int
	err   error // of r

	buf   []byte // bytes that were read and not returned yet
	start int    // of the line in buf
	scan  int    // bytes before it were examined
}

// next returns the next line, and io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	for {
		i := bytes.IndexByte(l.buf[l.scan:], '\n')
		end := len(l.buf)
		if i >= 0 {
			end = l.scan + i
		}
		switch {
		case end-l.start > l.limit:
			return nil, &sse.TooLargeError{Limit: l.limit}
		case i >= 0:
			line := bytes.TrimSpace(l.buf[l.start:end])
			l.start, l.scan = end+1, end+1
			return line, nil
		case l.err != nil:
			return l.last()
		}
		l.scan = end
		l.fill()
	}
}

// rest returns a line together with all that follows it.
func (l *lineReader) rest(line []byte) ([]byte, error) {
	doc := append(bytes.Clone(line), '\n')
	for {
		doc = append(doc, l.buf[l.start:]...)
		l.start, l.scan = len(l.buf), len(l.buf)
		if len(doc) > l.limit {
			return nil, &sse.TooLargeError{Limit: l.limit}
		}
		if l.err != nil {
			break
		}
		l.fill()
	}
	l.buf, l.start = doc, 0
	return l.last()
}

// last returns the bytes after the last line end.
func (l *lineReader) last() ([]byte, error) {
	line := bytes.TrimSpace(l.buf[l.start:])
	switch {
	case l.err != io.EOF:
		return nil, l.err
	case len(line) > 0 && line[len(line)-1] != '}':
		return nil, sse.ErrTruncated
	}
	return line, io.EOF
}

// fill reads once, after making room. Each byte is moved a constant number of times:
// bytes are moved only when the buffer is full, and afterwards it is at most half full.
func (l *lineReader) fill() {
	if len(l.buf) == cap(l.buf) {
		held, to := l.buf[l.start:], l.buf[:0]
		if 2*len(held) >= cap(l.buf) {
			to = make([]byte, 0, max(minBuffer, 2*cap(l.buf)))
		}
		l.buf = append(to, held...)
		l.scan -= l.start
		l.start = 0
	}
	for range maxIdle {
		var n int
		n, l.err = l.r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		if n > 0 || l.err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
