package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

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

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func sendStream(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, body)
}

func TestLoopback(t *testing.T) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, int64(len(body)), r.ContentLength)
		assert.Equal(t, "/v1/messages", r.URL.Path)
		assert.Equal(t, testKey, r.Header.Get("X-Api-Key"))
		assert.Equal(t, "2023-06-01", r.Header.Get("Anthropic-Version"))
		assert.Equal(t, "a,b,c", r.Header.Get("Anthropic-Beta"))
		assert.Equal(t, "yes", r.Header.Get("X-Own"))
		sendStream(w, helloStream)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := New("claude-test", WithAPIKey(testKey), WithBaseURL(s.URL+"/"),
		WithBeta("a", "b"), WithBeta("c"), WithHeader("X-Own", "yes"))
	require.NoError(t, err)
	for range 3 {
		a := ask(c)
		require.NoError(t, a.err)
		assert.Equal(t, "hi", a.text)
		assert.Equal(t, aycoder.StopEndTurn, a.Stop)
		assert.Equal(t, aycoder.Usage{Input: 3, Output: 2}, a.Usage)
	}
	assert.EqualValues(t, 1, conns.Load(), "the connection is used again")
}

func TestSingleUse(t *testing.T) {
	seq := newClient(t, stream(helloStream)).Stream(t.Context(), hello())
	for _, err := range seq {
		require.NoError(t, err)
	}
	for ev, err := range seq {
		assert.Nil(t, ev)
		assert.Equal(t, aycoder.ErrConsumed, err)
	}
}

func TestBreakAtEveryEvent(t *testing.T) {
	for n := range 3 {
		var closed atomic.Bool
		c := newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			body := &closer{strings.NewReader(helloStream), &closed}
			return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
		}))
		seen := 0
		for _, err := range c.Stream(t.Context(), hello()) {
			require.NoError(t, err)
			if seen++; seen > n {
				break
			}
		}
		assert.Equal(t, n+1, seen)
		assert.True(t, closed.Load(), "body is closed")
	}
}

type closer struct {
	io.Reader
	closed *atomic.Bool
}

func (c *closer) Close() error { c.closed.Store(true); return nil }

// stream answers with an event stream.
func stream(body string) http.RoundTripper {
	var i interaction
	i.Response.Status = http.StatusOK
	i.Response.Headers = map[string]string{"Content-Type": "text/event-stream"}
	return served(&i, body, 1<<20)
}

// The key must not go to another host, nor the conversation.
func TestRedirects(t *testing.T) {
	var leaked atomic.Int32
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		leaked.Add(1)
		sendStream(w, helloStream)
	})
	tests := []struct {
		name   string
		status int
		to     string
		ok     bool
	}{
		{"307 to another host", 307, other.URL + "/v1/messages", false},
		{"308 to another host", 308, other.URL + "/v1/messages", false},
		{"302 to another host", 302, other.URL + "/v1/messages", false},
		{"302 on the same host", 302, "/elsewhere", false},
		{"307 on the same host", 307, "/elsewhere", true},
		{"no location", 307, "", false},
		{"in a circle", 307, "/v1/messages", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					assert.Equal(t, testKey, r.Header.Get("X-Api-Key"))
					sendStream(w, helloStream)
					return
				}
				if tt.to != "" {
					w.Header().Set("Location", tt.to)
				}
				w.WriteHeader(tt.status)
			})
			c, err := New("m", WithAPIKey(testKey), WithBaseURL(s.URL))
			require.NoError(t, err)
			a := ask(c)
			if tt.ok {
				assert.NoError(t, a.err)
				return
			}
			_, typed := errors.AsType[*aycoder.ModelError](a.err)
			assert.True(t, typed, "%v", a.err)
			assert.Zero(t, leaked.Load())
		})
	}
}

// script is a body that is sent step by step and then hangs until the request is
// given up.
type script struct {
	ctx   context.Context
	every time.Duration
	text  string
	times int // 0: for ever
	n     int
	rest  string
}

func (s *script) Read(p []byte) (int, error) {
	if s.rest == "" {
		var tick <-chan time.Time
		if s.times == 0 || s.n < s.times {
			tick = time.After(s.every)
		}
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-tick:
		}
		s.n++
		s.rest = s.text
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func TestIdleTimeout(t *testing.T) {
	tests := []struct {
		name    string
		head    string
		every   time.Duration
		text    string
		times   int
		elapsed time.Duration
	}{
		{"silent at once", "", time.Second, "", 1, 5 * time.Minute},
		{"silent after text", msgStart + textStart + textDelta, time.Second, textDelta, 3, 5 * time.Minute},
		{"pings only", msgStart, 15 * time.Second, ping, 0, 5 * time.Minute},
		{"comments only", msgStart, 15 * time.Second, ": alive\n\n", 0, 5 * time.Minute},
		{"blank lines only", "", 15 * time.Second, "\n", 0, 5 * time.Minute},
		{"silent inside JSON", `{"type":`, time.Second, "", 1, 5 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					tail := &script{ctx: r.Context(), every: tt.every, text: tt.text, times: tt.times}
					body := io.NopCloser(io.MultiReader(strings.NewReader(tt.head), tail))
					return &http.Response{StatusCode: 200, Body: body, Request: r}, nil
				}))
				a := ask(c)
				e, ok := errors.AsType[*aycoder.TimeoutError](a.err)
				require.True(t, ok, "%v", a.err)
				assert.Equal(t, tt.elapsed, e.Elapsed)
				assert.Less(t, time.Since(start), tt.elapsed+time.Minute)
			})
		})
	}
}

func TestIdleTimeoutBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), WithIdleTimeout(time.Minute))
		a := ask(c)
		e, ok := errors.AsType[*aycoder.TimeoutError](a.err)
		require.True(t, ok, "%v", a.err)
		assert.Equal(t, time.Minute, e.Elapsed)
	})
}

// A caller may take its time between two events.
func TestSlowCallerIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, stream(helloStream), WithIdleTimeout(time.Minute))
		for _, err := range c.Stream(t.Context(), hello()) {
			require.NoError(t, err)
			<-time.After(time.Hour)
		}
	})
}

// A stream that goes on longer than the idle timeout, but is never silent for long.
func TestLongStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			slow := &script{ctx: r.Context(), every: 50 * time.Second, text: textDelta, times: 20}
			n := int64(20 * len(textDelta))
			body := io.MultiReader(strings.NewReader(msgStart+textStart), io.LimitReader(slow, n),
				strings.NewReader(blockStop+msgEnd))
			return &http.Response{StatusCode: 200, Body: io.NopCloser(body), Request: r}, nil
		}), WithIdleTimeout(time.Minute))
		a := ask(c)
		require.NoError(t, a.err)
		assert.Equal(t, strings.Repeat("hi", 20), a.text)
	})
}

func TestCancel(t *testing.T) {
	cause := errors.New("the user pressed a key")
	hang := roundTrip(func(r *http.Request) (*http.Response, error) {
		tail := &script{ctx: r.Context(), every: time.Hour}
		body := io.MultiReader(strings.NewReader(msgStart+textStart+textDelta), tail)
		return &http.Response{StatusCode: 200, Body: io.NopCloser(body), Request: r}, nil
	})
	tests := []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want []error
	}{
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, stopThen(time.AfterFunc(time.Second, cancel), cancel)
		}, []error{context.Canceled}},
		{"with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			stop := func() { cancel(cause) }
			return ctx, stopThen(time.AfterFunc(time.Second, stop), stop)
		}, []error{context.Canceled, cause}},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, []error{context.DeadlineExceeded}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				a := askFor(ctx, newClient(t, hang), hello())
				for _, want := range tt.want {
					assert.ErrorIs(t, a.err, want)
				}
				_, broken := errors.AsType[*aycoder.StreamBrokenError](a.err)
				assert.False(t, broken)
				assert.Equal(t, "hi", a.text)
			})
		})
	}
}

// stopThen returns a function that stops a timer and does what it would do.
func stopThen(timer *time.Timer, then func()) context.CancelFunc {
	return func() { timer.Stop(); then() }
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { sendStream(w, helloStream) })
	c, err := New("m", WithAPIKey(testKey), WithBaseURL(s.URL))
	require.NoError(t, err)
	a := askFor(ctx, c, hello())
	assert.ErrorIs(t, a.err, context.Canceled)
}

func TestConnectErrors(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	tests := []struct{ name, base string }{
		{"refused", s.URL},
		{"certificate of nobody", tls.URL},
		{"no such port", "http://127.0.0.1:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New("m", WithAPIKey(testKey), WithBaseURL(tt.base))
			require.NoError(t, err)
			a := ask(c)
			e, ok := errors.AsType[*aycoder.StreamBrokenError](a.err)
			require.True(t, ok, "%v", a.err)
			assert.Contains(t, e.Error(), "connect: ")
		})
	}
}

// repeat is a body that never ends.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestEndless(t *testing.T) {
	tests := []struct{ name, head, text, limit string }{
		{"deltas", msgStart + textStart, textDelta, "response bytes"},
		{"one event", "data: ", strings.Repeat("x", 9999), "event bytes"},
		{"blank lines", "", "\n", "response bytes"},
		{"JSON", `{"content":[`, " ", "response bytes"},
		{"pings", msgStart, ping, "response bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				body := io.MultiReader(strings.NewReader(tt.head), &repeat{text: tt.text})
				return &http.Response{StatusCode: 200, Body: io.NopCloser(body), Request: r}, nil
			}))
			if tt.limit == "response bytes" {
				c.cfg.maxResponse = 4 << 20
			}
			a := ask(c)
			_, typed := errors.AsType[*aycoder.ModelError](a.err)
			assert.True(t, typed)
			e, ok := errors.AsType[*aycoder.LimitError](a.err)
			require.True(t, ok, "%v", a.err)
			assert.Equal(t, tt.limit, e.Limit)
		})
	}
}

func TestLargeEvent(t *testing.T) {
	text := strings.Repeat("é", 5<<20)
	big := strings.Replace(textDelta, "hi", text, 1)
	a := ask(newClient(t, stream(msgStart+textStart+big+blockStop+msgEnd)))
	require.NoError(t, a.err)
	assert.True(t, a.Text() == text)
}

// Whatever is printed, logged or returned, the key is not in it.
func TestKeyIsNeverShown(t *testing.T) {
	echo := func(status int) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			key := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
			body := fmt.Sprintf(`{"type":"error","error":{"type":"e %s","message":"bad key %s"},"request_id":"%[1]s"}`, key, key)
			h := http.Header{"Request-Id": {key}, "Content-Type": {"application/json"}}
			return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
	}
	notJSON := roundTrip(func(r *http.Request) (*http.Response, error) {
		body := "data: {" + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization") + "\n\n"
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})
	auth := map[string]Option{
		"key":    WithAPIKey(testKey),
		"header": WithHeader("x-api-key", testKey),
		"bearer": WithHeader("Authorization", "Bearer "+testKey),
	}
	for name, opt := range auth {
		for n, rt := range []http.RoundTripper{echo(400), echo(401), echo(429), echo(500), echo(200), notJSON} {
			c, err := New("m", opt, WithHTTPClient(&http.Client{Transport: rt}))
			require.NoError(t, err)
			a := ask(c)
			require.Error(t, a.err)
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", c, "err", a.err)
			base, ok := errors.AsType[*aycoder.ModelError](a.err)
			require.True(t, ok)
			shown := fmt.Sprintf("%v %+v %#v %s %v %+v %#v %v %+v %s", c, c, c, c, c.cfg, a.err, a.err, *base, *base, &log)
			assert.NotContains(t, shown, "SECRET", "%s %d", name, n)
			assert.Contains(t, fmt.Sprint(c), "m at https://api.anthropic.com")
		}
	}
}

// A text that is cut in the middle of a key does not end in the other half of it.
func TestKeyIsNeverCut(t *testing.T) {
	tests := []struct {
		name  string
		limit int // where the text is cut
		rt    func(text string) http.RoundTripper
	}{
		{"plain body", maxErrorText, func(s string) http.RoundTripper { return refuse(400, s, nil) }},
		{"message", maxErrorText, func(s string) http.RoundTripper {
			return refuse(400, `{"error":{"type":"x","message":"`+s+`"}}`, nil)
		}},
		{"kind", 100, func(s string) http.RoundTripper { return refuse(400, `{"error":{"type":"`+s+`"}}`, nil) }},
		{"request id", maxID, func(s string) http.RoundTripper {
			return refuse(400, `{}`, http.Header{"Request-Id": {s}})
		}},
		{"request id in the body", maxID, func(s string) http.RoundTripper {
			return refuse(400, `{"error":"x","request_id":"`+s+`"}`, nil)
		}},
		{"error event without an error", 200 - len(`{"type":"error","x":"`), func(s string) http.RoundTripper {
			return stream(msgStart + events(`{"type":"error","x":"`+s+`"}`))
		}},
		{"request id in an event", maxID, func(s string) http.RoundTripper {
			return stream(msgStart + events(`{"type":"error","error":"x","request_id":"`+s+`"}`))
		}},
		{"event that is no JSON", 200, func(s string) http.RoundTripper { return stream("data: " + s + "\n\n") }},
		{"name of an event", 50, func(s string) http.RoundTripper { return stream("event: " + s + "\ndata: {\n\n") }},
		{"index", 200, func(s string) http.RoundTripper {
			return stream(msgStart + events(`{"type":"content_block_stop","index":"`+s+`"}`))
		}},
		{"delta for no block", 50, func(s string) http.RoundTripper {
			return stream(msgStart + events(piece(`{"type":"`+s+`"}`)))
		}},
		{"delta for another block", 50, func(s string) http.RoundTripper {
			return stream(msgStart + events(started(`{"type":"`+s+`"}`), piece(`{"type":"text_delta","text":"a"}`)))
		}},
		{"document", 50, func(s string) http.RoundTripper { return stream(`{"type":"` + s + `"}`) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for pad := tt.limit - len(testKey) - 1; pad <= tt.limit; pad++ {
				text := strings.Repeat("x", max(pad, 0)) + testKey
				err := ask(newClient(t, tt.rt(text+strings.Repeat("y", 8000)))).err
				require.Error(t, err)
				require.NotContains(t, err.Error(), testKey[:5], "key at %d", pad)
				require.Less(t, len(err.Error()), 5000)
			}
		})
	}
}

// What the caller's own headers say is as secret as the key.
func TestHeadersAreNeverShown(t *testing.T) {
	tests := []struct{ name, header, value, text, want string }{
		{"another key", "Cf-Access-Client-Secret", "top-secret", "bad top-secret!", "bad [key]!"},
		{"key that another is part of", "X-Other", testKey + "-and-more", testKey + "-and-more", "[key]"},
		{"token", "Authorization", "Basic dTpw", "bad dTpw", "bad [key]"},
		{"white space around it", "X-Secret", " top-secret ", "bad top-secret", "bad [key]"},
		{"a word", "X-Own", "yes", "yes or no", "yes or no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt := refuse(400, `{"error":"`+tt.text+`"}`, nil)
			err := ask(newClient(t, rt, WithHeader(tt.header, tt.value))).err
			e, ok := errors.AsType[*aycoder.BadRequestError](err)
			require.True(t, ok, "%v", err)
			assert.EqualError(t, e.Err, tt.want)
		})
	}
}
