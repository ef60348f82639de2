package anthropic

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const testKey = "sk-ant-SECRET-0123456789"

const (
	msgStart = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}

`
	textStart = `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

`
	textDelta = `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}

`
	blockStop = `event: content_block_stop
data: {"type":"content_block_stop","index":0}

`
	ping   = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	msgEnd = `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`
	helloStream = msgStart + ping + textStart + textDelta + blockStop + msgEnd
)

func newClient(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	opts = append([]Option{WithAPIKey(testKey), WithHTTPClient(&http.Client{Transport: rt})}, opts...)
	c, err := New("claude-test", opts...)
	require.NoError(t, err)
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stream answers with an event stream.
func stream(body string) http.RoundTripper { return answered("text/event-stream", body) }

func answered(contentType, body string) http.RoundTripper {
	var i wiretest.Interaction
	i.Response.Status = http.StatusOK
	i.Response.Headers = map[string]string{"Content-Type": contentType}
	return i.Transport(body, 1<<20)
}

// wire returns the bytes of the encoded body.
func (c *Client) wire(req *aycoder.Request) ([]byte, error) {
	p, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	data := bytes.Join(p.Pieces, nil)
	if int64(len(data)) != p.Size() {
		panic("size is wrong")
	}
	return data, nil
}

func hello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// answer is the outcome of a response.
type answer struct {
	*aycoder.Response
	parts          []aycoder.Part // including truncated calls
	text, thinking string         // of the deltas
	args           map[string]string
	done           bool
	err            error
}

func ask(c *Client) answer { return askFor(context.Background(), c, hello()) }

func askFor(ctx context.Context, c *Client, req *aycoder.Request) answer {
	a := answer{Response: &aycoder.Response{Message: &aycoder.Message{Role: aycoder.RoleAssistant}},
		args: map[string]string{}}
	var text, thinking strings.Builder
	for ev, err := range c.Stream(ctx, req) {
		if err != nil {
			a.err = err
			continue
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			text.WriteString(ev.Text)
		case *aycoder.ThinkingDelta:
			thinking.WriteString(ev.Text)
		case *aycoder.ToolDelta:
			a.args[ev.ID] += ev.Args
		case *aycoder.BlockDone:
			a.Message.Parts = append(a.Message.Parts, ev.Part)
			a.parts = append(a.parts, ev.Part)
		case *aycoder.BlockTruncated:
			a.Cut = append(a.Cut, ev.Call)
			a.parts = append(a.parts, ev.Call)
		case *aycoder.MessageDone:
			a.Stop, a.Usage, a.Model, a.ID = ev.Stop, ev.Usage, ev.Model, ev.ID
			a.done = true
		}
	}
	a.text, a.thinking = text.String(), thinking.String()
	return a
}
