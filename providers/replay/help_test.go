package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/replay"
)

const testKey = "sk-ant-TEST/0123+abcdef=="

// sse returns an Anthropic stream with the texts, and an event for each.
func sse(stop string, texts ...string) []string {
	out := []string{`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}

`, `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

`}
	for _, text := range texts {
		quoted, _ := json.Marshal(text)
		out = append(out, fmt.Sprintf(`event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}

`, quoted))
	}
	return append(out, `event: content_block_stop
data: {"type":"content_block_stop","index":0}

`, fmt.Sprintf(`event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

`, stop))
}

// send writes the pieces of a stream separately.
func send(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

// A service is a server that can be switched off, and that counts requests.
type service struct {
	*httptest.Server
	asked atomic.Int32
}

func serve(t testing.TB, h http.HandlerFunc) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func saying(texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		send(w, sse("end_turn", texts...)...)
	}
}

func openTape(t testing.TB, path string, opts ...replay.Option) *replay.Tape {
	t.Helper()
	tape, err := replay.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tape.Close() })
	return tape
}

func record(t testing.TB, path string, opts ...replay.Option) *replay.Tape {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return openTape(t, path, append([]replay.Option{replay.WithMode(replay.Record), replay.WithTransport(tr)}, opts...)...)
}

func tapePath(t testing.TB) string { return filepath.Join(t.TempDir(), "tape.jsonl") }

// claude is an Anthropic client for url that uses a tape.
func claude(t testing.TB, url string, tape *replay.Tape, opts ...anthropic.Option) aycoder.ModelClient {
	t.Helper()
	opts = append([]anthropic.Option{anthropic.WithAPIKey(testKey), anthropic.WithBaseURL(url),
		anthropic.WithHTTPClient(&http.Client{Transport: tape})}, opts...)
	c, err := anthropic.New("claude-test", opts...)
	require.NoError(t, err)
	return c
}

func ask(text string) *aycoder.Request {
	return &aycoder.Request{Messages: []*aycoder.Message{aycoder.User(text)}}
}

// An outcome is the outcome of a request.
type outcome struct {
	events []aycoder.ModelEvent
	err    error
}

// stream makes a request, and leaves after that many events if leave is not negative.
func stream(ctx context.Context, m aycoder.ModelClient, req *aycoder.Request, leave int) (o outcome) {
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			o.err = err
			break
		}
		if o.events = append(o.events, ev); len(o.events) == leave {
			break
		}
	}
	return o
}

func readTape(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// noTrace checks that the directory of a recording contains no other file.
func noTrace(t testing.TB, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, e := range entries {
		require.Equal(t, filepath.Base(path), e.Name())
	}
}

func texts(o outcome) string {
	var b strings.Builder
	for _, ev := range o.events {
		if d, ok := ev.(*aycoder.TextDelta); ok {
			b.WriteString(d.Text + "|")
		}
	}
	return b.String()
}
