package bedrock

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const testKey = "ABSK-SECRET-0123456789"

func newClient(t testing.TB, rt http.RoundTripper, opts ...Option) *Client {
	all := []Option{WithAPIKey(testKey), WithRegion("us-east-1"), WithHTTPClient(&http.Client{Transport: rt})}
	c, err := New("us.anthropic.claude-sonnet-4-5-20250929-v1:0", append(all, opts...)...)
	require.NoError(t, err)
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered(status int, body string) http.RoundTripper {
	var i wiretest.Interaction
	i.Response.Status = status
	i.Response.Headers = map[string]string{"x-amzn-requestid": "req-1"}
	return i.Transport(body, 1<<20)
}

func ask(t testing.TB, rt http.RoundTripper) *wiretest.Answer {
	return wiretest.Ask(context.Background(), t, newClient(t, rt), hello())
}

func hello() *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
}

// frames puts events into frames. Each event is a name and a payload, with a space
// between them.
func frames(events ...string) string {
	var b []byte
	for _, e := range events {
		name, payload, _ := strings.Cut(e, " ")
		b = eventstream.AppendEvent(b, name, payload)
	}
	return string(b)
}

const (
	begin   = `messageStart {"role":"assistant"}`
	stop0   = `contentBlockStop {"contentBlockIndex":0}`
	endTurn = `messageStop {"stopReason":"end_turn"}`
	useTool = `messageStop {"stopReason":"tool_use"}`
	tooMany = `messageStop {"stopReason":"max_tokens"}`
	meta    = `metadata {"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5},"metrics":{"latencyMs":7},"p":"ab"}`
	newCall = `contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c","name":"n"}}}`
)

func piece(delta string) string {
	return `contentBlockDelta {"contentBlockIndex":0,"delta":` + delta + `,"p":"abcd"}`
}

func textPiece(s string) string { return piece(`{"text":"` + s + `"}`) }

// wire returns the bytes of the encoded body.
func (c *Client) wire(req *aycoder.Request) ([]byte, error) {
	p, err := c.encode(req)
	if err != nil {
		return nil, err
	}
	return bytes.Join(p.Pieces, nil), nil
}
