// Package sse reads server-sent events as model providers send them: events of many
// megabytes, line ends of every kind, streams that break off in the middle.
//
// Events are parsed by go-sse. Its bufio.Scanner examines an event from its beginning at
// every read, which takes time quadratic in the number of reads. It therefore gets whole
// events, from a framer that examines each byte once. The form that nearly all events
// have is parsed without it.
package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unsafe"

	"github.com/tmaxmax/go-sse"
)

// DefaultLimit is the default maximum size of an event, in bytes.
const DefaultLimit = 32 << 20

const bom = "\xEF\xBB\xBF" // the byte order mark

// ErrTruncated means that the stream ended inside an event. The event was dropped, as the
// standard requires: "Once the end of the file is reached, any pending data must be
// discarded." An event that lacks only its blank line is not dropped, because some
// services end their streams so.
var ErrTruncated = errors.New("stream ended inside an event")

// TooLargeError means that an event exceeds the limit.
type TooLargeError struct {
	// Limit is the maximum size in bytes.
	Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("event larger than %d bytes", e.Limit)
}

// Event is one event. Both fields may be empty.
type Event struct {
	Type string
	Data string
}

// A Reader reads events, each as soon as its blank line was read. Call Reset before any
// other method.
type Reader struct {
	begun bool // a block was read
	f     framer
}

// Reset makes the reader read from another stream. Limit is the maximum size of an event
// in bytes; 0 means [DefaultLimit].
func (r *Reader) Reset(from io.Reader, limit int) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	*r = Reader{f: framer{r: from, limit: limit}}
}

// Close releases the memory of the reader, which other readers use then. It does not close the stream.
// Neither the Reader nor anything that it returned may be used any more.
func (r *Reader) Close() {
	giveBack(r.f.buf)
	*r = Reader{}
}

// First returns the first byte that is neither white space nor a byte order mark, and
// drops the bytes before it. Called before the first event, it shows whether the stream
// consists of events at all.
func (r *Reader) First() (byte, error) { return r.f.first() }

// Begins reports whether the stream begins with a field of an event or a comment, or ends
// before that can be decided. It must be called after First has returned a byte.
func (r *Reader) Begins() bool {
	for {
		head := r.f.buf[r.f.start:]
		end := bytes.IndexAny(head, ":\r\n")
		switch {
		case end >= 0:
			head = head[:end]
		case len(head) <= longestField && r.f.err == nil:
			r.f.fill()
			continue
		case len(head) <= longestField:
			return strings.HasPrefix(bom, string(head)) ||
				slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, string(head)) })
		}
		return slices.Contains(fields, string(head))
	}
}

// fields are the beginnings of the lines of an event; see also withError.
var fields = []string{"", "data", "event", "id", "retry", "error"}

const longestField = len("event")

// Rest returns the unread part of the stream, for callers that found with First that it
// does not consist of events. The Reader must not be used any more.
//
//go:noinline // it would be in a program three times
func (r *Reader) Rest() io.Reader {
	more := r.f.r
	if r.f.err != nil {
		more = failed{r.f.err}
	}
	return io.MultiReader(bytes.NewReader(r.f.buf[r.f.start:]), more)
}

type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// Next returns the next event. Errors of the underlying reader are returned unchanged. At
// the end of the stream the error is io.EOF, or [ErrTruncated] inside an event; an event
// that is too large is a [*TooLargeError].
//
// The data of an event is valid until the next call, so a caller that keeps it must make
// a copy. In a stream of thousands of events with a few bytes of text in each, that saves
// most of the memory.
func (r *Reader) Next() (Event, error) {
	for {
		if ev, ok := r.f.plain(); ok {
			r.begun = true
			return ev, nil
		}
		block, err := r.f.event()
		if err != nil {
			return r.last(err)
		}
		first := !r.begun
		r.begun = true
		if ev, n := plain(block); n > 0 {
			return ev, nil
		}
		if !first && bytes.HasPrefix(block, []byte(bom)) {
			// The parser would take a byte order mark here for that of the stream.
			block = append([]byte(":\n"), block...)
		}
		if ev, ok, err := parse(block, r.f.limit); ok || err != nil {
			return ev, err
		}
	}
}

// last returns the event after the last blank line when the stream ends with err, if it
// is complete: its data is a JSON object, which cannot be continued, or the end marker
// "[DONE]", or it reports an error. A comment does not belong to the event.
func (r *Reader) last(err error) (Event, error) {
	block := r.f.rest()
	if block == nil {
		return Event{}, err
	}
	if onlyComments(block) {
		if err == ErrTruncated {
			err = io.EOF
		}
		return Event{}, err
	}
	ev, ok, perr := parse(append(block, "\n\n"...), r.f.limit)
	if ok && perr == nil && (isWhole(ev.Data) || ev.Type == "error") {
		return ev, nil
	}
	return Event{}, err
}

func isWhole(data string) bool {
	data = strings.TrimSpace(data)
	return data == "[DONE]" || strings.HasPrefix(data, "{") && json.Valid([]byte(data))
}

func onlyComments(block []byte) bool {
	for line := range bytes.FieldsFuncSeq(block, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != ':' {
			return false
		}
	}
	return true
}

// parse parses the event in a block, if there is one.
func parse(block []byte, limit int) (Event, bool, error) {
	// The scanner needs more room than the token.
	cfg := &sse.ReadConfig{MaxEventSize: limit + 4096}
	for ev, err := range sse.Read(bytes.NewReader(block), cfg) {
		return Event{Type: ev.Type, Data: ev.Data}, err == nil, err
	}
	return Event{}, false, nil
}

// plain parses an event at the beginning of b that is one line of data, with or without a type before
// it, as nearly all are. It returns the length of the event with the first byte of its blank line, or 0
// if there is another kind of event, or only the beginning of one. The data is not copied; the general
// parser copies it three times.
func plain(b []byte) (ev Event, n int) {
	line := b[:max(0, bytes.IndexByte(b, '\n'))]
	n = len(line) + 1
	if typ, found := field(line, "event:"); found {
		ev.Type = typeName(typ)
		line = b[n:]
		line = line[:max(0, bytes.IndexByte(line, '\n'))]
		n += len(line) + 1
	}
	data, found := field(line, "data:")
	if !found || n >= len(b) || b[n] != '\n' && b[n] != '\r' {
		return Event{}, 0
	}
	ev.Data = unsafe.String(&data[0], len(data))
	return ev, n + 1
}

// field returns the value of a field, unless it is empty: "If value starts with a U+0020 SPACE character,
// remove it from value." A carriage return is only found at the end of the line.
func field(line []byte, name string) (val []byte, ok bool) {
	if len(line) <= len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	if line = line[len(name):]; line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	if len(line) > 0 && line[0] == ' ' {
		line = line[1:]
	}
	return line, len(line) > 0 && bytes.IndexByte(line, '\r') < 0
}

// typeName converts the name of a type to a string; common names do not allocate.
func typeName(b []byte) string {
	for _, name := range usualTypes {
		if string(b) == name {
			return name
		}
	}
	return string(b)
}

var usualTypes = []string{
	"content_block_delta", "response.output_text.delta", "response.function_call_arguments.delta",
	"response.reasoning_summary_text.delta", "content_block_start", "content_block_stop", "message_delta", "ping",
	"message_start", "message_stop", "response.created", "response.in_progress", "response.completed",
	"response.output_item.added", "response.output_item.done", "response.content_part.added",
	"response.content_part.done", "response.output_text.done", "response.function_call_arguments.done",
}
