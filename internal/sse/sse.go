// Package sse reads server-sent events, as model providers send them: events of
// many megabytes, line ends of every kind, streams that break off in the middle.
//
// Events are parsed by go-sse. It reads through a bufio.Scanner that looks at an
// event from its beginning at every read, which is quadratic in the number of
// reads, so it is given whole events by a reader that looks at each byte once.
package sse

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tmaxmax/go-sse"
)

// DefaultLimit is the largest event, in bytes, where none is set.
const DefaultLimit = 32 << 20

// ErrTruncated says that the stream ended inside an event. The event was dropped,
// as the standard wants: "Once the end of the file is reached, any pending data
// must be discarded."
var ErrTruncated = errors.New("stream ended inside an event")

// TooLargeError says that an event is larger than it may be.
type TooLargeError struct {
	// Limit is in bytes.
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

// Events returns the events of r, each as soon as its blank line was read. An event
// may have limit bytes, or [DefaultLimit] if that is 0; a larger one ends the
// sequence with a [*TooLargeError]. Errors of r end it as they are. The end of r
// ends it without an error, or with [ErrTruncated] if that is inside an event. The
// sequence is single-use.
func Events(r io.Reader, limit int) iter.Seq2[Event, error] {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return func(yield func(Event, error) bool) {
		// The scanner wants room beyond the token.
		cfg := &sse.ReadConfig{MaxEventSize: limit + 4096}
		for ev, err := range sse.Read(&framer{r: r, limit: limit}, cfg) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(Event{Type: ev.Type, Data: ev.Data}, nil) {
				return
			}
		}
	}
}
