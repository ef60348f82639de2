package providers_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/openai"
)

// serving answers each request with the same stream.
type serving struct{ stream []byte }

func (s serving) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(bytes.NewReader(s.stream)), Request: r}, nil
}

// lines makes a stream of events.
func lines(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }

// A piece of a text has its part of the memory in which the text is put together, and events are
// allocated several at a time.
func TestPiecesAllocateLittle(t *testing.T) {
	timed.Serial(t)
	const piece = "0123456789"
	for _, tt := range []struct {
		name, before, piece, after string
		open                       func(*http.Client) (aycoder.ModelClient, error)
	}{
		{
			"anthropic",
			lines(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m"}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			lines(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + piece + `"}}`),
			lines(`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
				`{"type":"message_stop"}`),
			func(hc *http.Client) (aycoder.ModelClient, error) {
				return anthropic.New("m", anthropic.WithAPIKey("key-0123456789"), anthropic.WithHTTPClient(hc))
			},
		},
		{
			"chat", "", lines(`{"id":"c","choices":[{"index":0,"delta":{"content":"` + piece + `"},"finish_reason":null}]}`),
			lines(`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`),
			func(hc *http.Client) (aycoder.ModelClient, error) {
				return openai.New("m", openai.WithAPIKey("key-0123456789"), openai.WithHTTPClient(hc), openai.WithResponses(false))
			},
		},
		{
			"responses",
			lines(`{"type":"response.created","response":{"id":"r","status":"in_progress"}}`,
				`{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","content":[]}}`),
			lines(`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"` + piece + `"}`),
			lines(`{"type":"response.output_item.done","output_index":0,"item":{"id":"i","type":"message","content":[]}}`,
				`{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`),
			func(hc *http.Client) (aycoder.ModelClient, error) {
				return openai.New("m", openai.WithAPIKey("key-0123456789"), openai.WithHTTPClient(hc), openai.WithResponses(true))
			},
		},
		{
			"google", "", lines(`{"candidates":[{"content":{"parts":[{"text":"` + piece + `"}],"role":"model"},"index":0}]}`),
			lines(`{"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}]}`),
			func(hc *http.Client) (aycoder.ModelClient, error) {
				return google.New("m", google.WithAPIKey("key-0123456789"), google.WithHTTPClient(hc))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cost := func(pieces int) float64 {
				s := serving{[]byte(tt.before + strings.Repeat(tt.piece, pieces) + tt.after)}
				m, err := tt.open(&http.Client{Transport: s})
				require.NoError(t, err)
				return testing.AllocsPerRun(3, func() {
					n := 0
					for ev, err := range m.Stream(t.Context(), &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}) {
						require.NoError(t, err)
						if d, ok := ev.(*aycoder.TextDelta); ok && d.Text == piece {
							n++
						}
					}
					require.Equal(t, pieces, n)
				})
			}
			each := (cost(1100) - cost(100)) / 1000
			t.Logf("%.2f allocations a piece", each)
			assert.Less(t, each, 0.2)
		})
	}
}
