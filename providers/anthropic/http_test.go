package anthropic

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
)

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

func sendStream(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, body)
}

// The time for an event of 10 MB in reads of 1 kB is proportional to its size.
func TestLargeEvent(t *testing.T) {
	timed.Long(t, "an event of 10 MB")
	cost := func(size int) time.Duration {
		text := strings.Repeat("é", size/2)
		big := strings.Replace(textDelta, "hi", text, 1)
		var i wiretest.Interaction
		i.Response.Status = http.StatusOK
		c := newClient(t, i.Transport(msgStart+textStart+big+blockStop+msgEnd, 1000))
		return timed.Best(2, func() {
			a := ask(c)
			require.NoError(t, a.err)
			require.True(t, a.Text() == text)
		})
	}
	small, large := cost(1<<20), cost(10<<20)
	t.Logf("1 MB: %v, 10 MB: %v", small, large)
	timed.AtMost(t, large, 60*small)
}

// The key is in nothing that is printed, logged or returned.
func TestKeyIsNeverShown(t *testing.T) {
	echo := roundTrip(func(r *http.Request) (*http.Response, error) {
		key := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		body := `{"type":"error","error":{"type":"e ` + key + `","message":"bad key ` + key + `"}}`
		return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Request-Id": {key}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	c := newClient(t, echo)
	err := ask(c).err
	require.ErrorContains(t, err, "[key]")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", c, "err", err)
	shown := fmt.Sprintf("%v %+v %#v %s %v %+v %+v %#v", c, c, c, c, c.cfg, c.cfg, err, err) + log.String()
	assert.NotContains(t, shown, "SECRET")
	assert.Contains(t, log.String(), "model=")
}
