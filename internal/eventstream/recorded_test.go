package eventstream_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/sse"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func readAll(r io.Reader) (all []sse.Event, err error) {
	next := eventstream.Events(r)
	for {
		ev, err := next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, ev)
	}
}

// All streams that were recorded are read to their end, and hold what their
// checksums say.
func TestRecorded(t *testing.T) {
	streams, messages := 0, 0
	wiretest.EachWith(t, "aws-eventstream", func(r *wiretest.Recording) {
		for _, i := range r.Interactions {
			if i.Response.Transport != "aws-eventstream" {
				continue
			}
			streams++
			body := i.Body()
			all, err := readAll(wiretest.Sized(strings.NewReader(body), 7))
			assert.NoError(t, err, r.ID)
			var again []byte
			for _, ev := range all {
				again = eventstream.AppendEvent(again, ev.Type, ev.Data)
			}
			back, err := readAll(bytes.NewReader(again))
			assert.NoError(t, err, r.ID)
			assert.Equal(t, all, back, r.ID)
			messages += len(all)
		}
	})
	t.Logf("%d streams, %d messages", streams, messages)
	assert.Greater(t, messages, 1500)
}
