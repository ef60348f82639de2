package anthropic

import (
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

var errNoChunk = errors.New("chunk without bytes")

// chunks decodes the AWS event stream in which Bedrock sends the events of the API. Each
// event is in the payload of a chunk, as {"bytes":"<base64>"}.
func chunks(r io.Reader) func() (sse.Event, error) {
	next := eventstream.Events(r)
	return func() (sse.Event, error) {
		ev, err := next()
		if err == nil && ev.Type == "chunk" {
			return unwrap(ev.Data)
		}
		return ev, err
	}
}

// unwrap returns the event in a message of Amazon's event stream, which carries Anthropic's
// events as base64 in a field "bytes".
func unwrap(payload string) (sse.Event, error) {
	r := rawjson.NewReader(strings.ToValidUTF8(payload, "\uFFFD"))
	text, found := "", false
	for r.Object(); r.Next(); {
		if r.Key() == "bytes" {
			text, found = r.Str()
		}
	}
	if err := r.End(); err != nil {
		return sse.Event{}, err
	}
	if !found {
		return sse.Event{}, errNoChunk
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return sse.Event{Data: string(data)}, err
}
