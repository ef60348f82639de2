// Package eventstream reads the event streams of AWS, of the media type
// application/vnd.amazon.eventstream. A message consists of
//
//	total length (4 bytes), length of the headers (4), CRC of these 8 bytes (4),
//	headers, payload, CRC of all before it (4)
//
// with numbers in network order and CRC-32 as in Ethernet. A header consists of the
// length of its name (1 byte), the name, the type of its value (1) and the value.
package eventstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

const (
	prelude    = 12
	trailer    = 4
	maxHeaders = 128 << 10
	maxNames   = 32
	readBuffer = 4 << 10
	firstPart  = 64 << 10
)

// Failure is the prefix of the type of an event that reports an error. The name of the
// exception follows it.
const Failure = "failure:"

var (
	errPrelude = errors.New("event stream: checksum of a prelude is wrong")
	errMessage = errors.New("event stream: checksum of a message is wrong")
	errLength  = errors.New("event stream: length of a message is wrong")
	errHeaders = errors.New("event stream: headers of a message are not valid")
)

// Events returns a function that returns the next message of r as soon as it was read completely. The type of
// an event is the message's ":event-type", and its data is the payload. Exceptions and
// errors have the type [Failure] followed by their name, and their data is never empty. A
// message of more than [sse.DefaultLimit] bytes is a [*sse.TooLargeError]. Errors of r are returned
// unchanged. At the end of r the error is io.EOF, or [sse.ErrTruncated] inside of a message.
func Events(r io.Reader) func() (sse.Event, error) {
	return (&decoder{r: bufio.NewReaderSize(r, readBuffer)}).next
}

// A decoder reads messages. It reuses its buffer, as a message is handed on as strings.
type decoder struct {
	r     *bufio.Reader
	buf   []byte
	names []string // names seen so far, so that each is allocated once
}

// next reads a message. It returns io.EOF only between two messages.
func (d *decoder) next() (ev sse.Event, err error) {
	headers, err := d.read()
	if err != nil {
		return ev, err
	}
	h, err := parseHeaders(d.buf[prelude : prelude+headers])
	if err != nil {
		return ev, err
	}
	payload := d.buf[prelude+headers : len(d.buf)-trailer]
	switch {
	case string(h.kind) == "error":
		ev.Type = Failure + string(h.code)
		ev.Data = string(rawjson.AppendField([]byte{'{'}, "message", string(h.message))) + "}"
	case string(h.kind) == "exception":
		ev.Type = Failure + string(h.exception)
		if ev.Data = string(payload); len(payload) == 0 {
			ev.Data = "{}"
		}
	default:
		ev.Type, ev.Data = d.name(h.event), string(payload)
	}
	return ev, nil
}

// read reads a message into the buffer and returns the length of its headers. The prelude
// has a separate checksum, which is verified before its lengths are used: a damaged length
// must neither allocate memory nor wait for bytes that never come. The checksum of the
// whole message comes last and covers the prelude again.
func (d *decoder) read() (headers int, err error) {
	d.buf = slices.Grow(d.buf[:0], prelude)[:prelude]
	if n, err := io.ReadFull(d.r, d.buf); err != nil {
		if n > 0 && (err == io.ErrUnexpectedEOF || err == io.EOF) {
			err = sse.ErrTruncated
		}
		return 0, err
	}
	total, size := binary.BigEndian.Uint32(d.buf), binary.BigEndian.Uint32(d.buf[4:])
	if crc32.ChecksumIEEE(d.buf[:8]) != binary.BigEndian.Uint32(d.buf[8:]) {
		return 0, errPrelude
	}
	if total > sse.DefaultLimit {
		return 0, &sse.TooLargeError{Limit: sse.DefaultLimit}
	}
	if size > maxHeaders || total < prelude+size+trailer {
		return 0, errLength
	}
	if err := d.fill(int(total)); err != nil {
		return 0, err
	}
	end := len(d.buf) - trailer
	if crc32.ChecksumIEEE(d.buf[:end]) != binary.BigEndian.Uint32(d.buf[end:]) {
		return 0, errMessage
	}
	return int(size), nil
}

// fill reads until the buffer holds total bytes. It allocates memory as bytes arrive, and
// does not trust the announced length.
func (d *decoder) fill(total int) error {
	for len(d.buf) < total {
		have := len(d.buf)
		n := min(total-have, max(have, firstPart))
		d.buf = slices.Grow(d.buf, n)[:have+n]
		got, err := io.ReadFull(d.r, d.buf[have:])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return sse.ErrTruncated
		}
		if err != nil {
			d.buf = d.buf[:have+got]
			return err
		}
	}
	return nil
}

// name returns b as a string, which is allocated only the first time. Streams repeat a few
// names thousands of times.
func (d *decoder) name(b []byte) string {
	for _, s := range d.names {
		if s == string(b) {
			return s
		}
	}
	s := string(b)
	if len(d.names) < maxNames {
		d.names = append(d.names, s)
	}
	return s
}

// headers are the values of the headers that are used.
type headers struct {
	kind, event, exception, code, message []byte
}

// The types of values that do not have a fixed size.
const (
	typeBytes  = 6
	typeString = 7
)

// fixedSize returns the size of a value of another type: true, false, a byte, integers of
// 2, 4 and 8 bytes, a time, a UUID. It is -1 for an unknown type.
func fixedSize(kind byte) int {
	switch kind {
	case 0, 1:
		return 0
	case 2:
		return 1
	case 3:
		return 2
	case 4:
		return 4
	case 5, 8:
		return 8
	case 9:
		return 16
	}
	return -1
}

// parseHeaders reads the headers that matter and skips the others by their lengths.
func parseHeaders(b []byte) (h headers, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+1 {
			return h, errHeaders
		}
		name, kind := b[1:1+n], b[1+n]
		val, rest, ok := cutValue(kind, b[1+n+1:])
		if !ok {
			return h, errHeaders
		}
		if kind == typeString {
			h.set(name, val)
		}
		b = rest
	}
	return h, nil
}

// cutValue splits off the value of a header. It returns false if the value is longer than
// the headers.
func cutValue(kind byte, b []byte) (val, rest []byte, ok bool) {
	if kind == typeString || kind == typeBytes {
		if len(b) < 2 {
			return nil, nil, false
		}
		n := int(binary.BigEndian.Uint16(b))
		if b = b[2:]; len(b) < n {
			return nil, nil, false
		}
		return b[:n], b[n:], true
	}
	n := fixedSize(kind)
	if n < 0 || len(b) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// set keeps the value of a header that is used. Unknown ones are for later versions.
func (h *headers) set(name, val []byte) {
	switch string(name) {
	case ":message-type":
		h.kind = val
	case ":event-type":
		h.event = val
	case ":exception-type":
		h.exception = val
	case ":error-code":
		h.code = val
	case ":error-message":
		h.message = val
	}
}

// Append appends a message with string headers, given as alternating names and values.
// Servers in tests use it.
func Append(b []byte, payload string, nameValues ...string) []byte {
	start := len(b)
	b = append(b, make([]byte, prelude)...)
	for i := 0; i+1 < len(nameValues); i += 2 {
		name, val := nameValues[i], nameValues[i+1]
		b = append(b, byte(len(name)))
		b = append(b, name...)
		b = append(b, typeString)
		b = binary.BigEndian.AppendUint16(b, uint16(len(val)))
		b = append(b, val...)
	}
	size := len(b) - start - prelude
	b = append(b, payload...)
	m := b[start:]
	binary.BigEndian.PutUint32(m, uint32(len(m)+trailer))
	binary.BigEndian.PutUint32(m[4:], uint32(size))
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(m))
}

// AppendEvent appends an event with a JSON payload.
func AppendEvent(b []byte, kind, payload string) []byte {
	return Append(b, payload, ":event-type", kind, ":content-type", "application/json", ":message-type", "event")
}

// AppendException appends an exception with a JSON payload.
func AppendException(b []byte, name, payload string) []byte {
	return Append(b, payload, ":exception-type", name, ":content-type", "application/json",
		":message-type", "exception")
}
