package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// Connections are reused, and the service gets the length of the body.
func TestConnections(t *testing.T) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "{}", string(data))
		assert.EqualValues(t, 2, r.ContentLength)
		assert.Equal(t, testKey, r.Header.Get("X-Api-Key"))
		assert.Equal(t, "yes", r.Header.Get("X-Own"))
		_, _ = io.WriteString(w, wordsI)
	}))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for range 3 {
		x := exchange(t, s.URL, tr, func(c *Config) error { return c.SetHeader("own", "X-Own", "yes") })
		assert.Equal(t, outcome{"hi", "end_turn", nil}, run(t.Context(), x))
	}
	assert.EqualValues(t, 1, conns.Load())
}

// Neither the key nor the conversation may be sent to another host.
func TestRedirects(t *testing.T) {
	var leaked atomic.Int32
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		leaked.Add(1)
		_, _ = io.WriteString(w, wordsI)
	})
	tests := []struct {
		name   string
		status int
		to     string
		ok     bool
	}{
		{"307 to another host", 307, other.URL + "/chat", false},
		{"308 to another host", 308, other.URL + "/chat", false},
		{"302 to another host", 302, other.URL + "/chat", false},
		{"302 on the same host", 302, "/elsewhere", false},
		{"307 on the same host", 307, "/elsewhere", true},
		{"no location", 307, "", false},
		{"in a circle", 307, "/chat", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					assert.Equal(t, testKey, r.Header.Get("X-Api-Key"))
					data, err := io.ReadAll(r.Body)
					assert.NoError(t, err)
					assert.Equal(t, "{}", string(data), "the body is sent again")
					_, _ = io.WriteString(w, wordsI)
					return
				}
				if tt.to != "" {
					w.Header().Set("Location", tt.to)
				}
				w.WriteHeader(tt.status)
			})
			err := run(t.Context(), exchange(t, s.URL, nil)).err
			if tt.ok {
				assert.NoError(t, err)
				return
			}
			_, typed := errors.AsType[*aycoder.ModelError](err)
			assert.True(t, typed, "%v", err)
			assert.Zero(t, leaked.Load())
		})
	}
}

// script is a body that is sent step by step, and then hangs until the request is
// cancelled.
type script struct {
	ctx   context.Context
	every time.Duration
	text  string
	times int // 0 means for ever
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
		name  string
		head  string
		every time.Duration
		text  string
		times int
	}{
		{"silent at once", "", time.Second, "", 1},
		{"silent after text", hi, time.Second, hi, 3},
		{"pings only", hi, 15 * time.Second, ping, 0},
		{"comments only", hi, 15 * time.Second, ": alive\n\n", 0},
		{"blank lines only", "", 15 * time.Second, "\n", 0},
		{"silent inside of a document", `{"type":`, time.Second, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				x := over(t, body(func(ctx context.Context) io.Reader {
					tail := &script{ctx: ctx, every: tt.every, text: tt.text, times: tt.times}
					return io.MultiReader(strings.NewReader(tt.head), tail)
				}))
				e, ok := errors.AsType[*aycoder.TimeoutError](run(t.Context(), x).err)
				require.True(t, ok)
				assert.Equal(t, 5*time.Minute, e.Elapsed)
				assert.Less(t, time.Since(start), 6*time.Minute)
			})
		})
	}
}

// The status of an error response is not delayed by a body that does not end.
func TestErrorBodyThatHangs(t *testing.T) {
	const said = `{"error":{"message":"slow down"}}`
	tests := []struct {
		name  string
		every time.Duration
		text  string
		times int
		idle  time.Duration
		want  time.Duration
	}{
		{"silence", time.Hour, "", 0, time.Hour, errorTime},
		{"drops", time.Second / 4, " ", 0, time.Hour, errorTime},
		{"idle timeout that is shorter", time.Hour, "", 0, time.Second, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
					tail := &script{ctx: r.Context(), every: tt.every, text: tt.text, times: tt.times}
					h := http.Header{"Retry-After": {"9"}}
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: h, Request: r,
						Body: io.NopCloser(io.MultiReader(strings.NewReader(said), tail))}, nil
				}), func(c *Config) error { return c.SetIdle("idle", tt.idle) })
				e, ok := errors.AsType[*aycoder.RateLimitError](run(t.Context(), x).err)
				require.True(t, ok)
				assert.ErrorContains(t, e, "slow down")
				assert.Equal(t, 9*time.Second, e.RetryAfter)
				assert.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

func idleMinute(c *Config) error { return c.SetIdle("idle", time.Minute) }

func TestIdleTimeoutBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), idleMinute)
		e, ok := errors.AsType[*aycoder.TimeoutError](run(t.Context(), x).err)
		require.True(t, ok)
		assert.Equal(t, time.Minute, e.Elapsed)
	})
}

// Each piece of an answer that is one document restarts the timeout, the first one too.
func TestIdleTimeoutInsideOfADocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := over(t, body(func(ctx context.Context) io.Reader {
			slow := func(text string) io.Reader {
				return io.LimitReader(&script{ctx: ctx, every: time.Minute - 1, text: text, times: 1}, int64(len(text)))
			}
			return io.MultiReader(slow(`{"done":`), slow(`"end_`), slow(`turn"}`))
		}), idleMinute)
		o := run(t.Context(), x)
		require.NoError(t, o.err)
		require.Equal(t, aycoder.StopEndTurn, o.stop)
	})
}

// Invalid data at the time of the timeout does not hide the duration of the silence.
func TestIdleTimeoutThenGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := over(t, body(func(ctx context.Context) io.Reader {
			return lastWords(func(p []byte) (int, error) {
				<-ctx.Done()
				return copy(p, "data: {\n\n"), io.EOF
			})
		}), idleMinute)
		e, ok := errors.AsType[*aycoder.TimeoutError](run(t.Context(), x).err)
		require.True(t, ok)
		assert.Equal(t, time.Minute, e.Elapsed)
	})
}

type lastWords func(p []byte) (int, error)

func (f lastWords) Read(p []byte) (int, error) { return f(p) }

// A caller may take its time between two events.
func TestSlowCallerIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range over(t, text(wordsI), idleMinute).Stream(t.Context()) {
			require.NoError(t, err)
			<-time.After(time.Hour)
		}
	})
}

// The timeout does not expire while the caller takes its time, however little of it is
// left.
func TestSlowCallerAfterLongSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := over(t, body(func(ctx context.Context) io.Reader {
			slow := &script{ctx: ctx, every: time.Minute - 1, text: hi, times: 2}
			return io.MultiReader(io.LimitReader(slow, int64(2*len(hi))), strings.NewReader(done))
		}), idleMinute)
		for _, err := range x.Stream(t.Context()) {
			require.NoError(t, err)
			<-time.After(time.Hour)
		}
	})
}

// A response may take longer than the idle timeout if it is never silent for that long.
func TestLongStream(t *testing.T) {
	tests := []struct{ name, head, text, end, want string }{
		{"events", "", hi, done, strings.Repeat("hi", 20)},
		{"document", `{"text":"`, "x", `"}`, strings.Repeat("x", 20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := over(t, body(func(ctx context.Context) io.Reader {
					slow := &script{ctx: ctx, every: 50 * time.Second, text: tt.text, times: 20}
					return io.MultiReader(strings.NewReader(tt.head), io.LimitReader(slow, int64(20*len(tt.text))),
						strings.NewReader(tt.end))
				}), idleMinute)
				o := run(t.Context(), x)
				require.NoError(t, o.err)
				assert.Equal(t, tt.want, o.text)
			})
		})
	}
}

// The wait for data after the last event is short.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		x := over(t, body(func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader(wordsI), &script{ctx: ctx, every: time.Hour})
		}))
		require.NoError(t, run(t.Context(), x).err)
		assert.Equal(t, drainTime, time.Since(start))
	})
}

func TestCancel(t *testing.T) {
	cause := errors.New("the user pressed a key")
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
				o := run(ctx, over(t, body(func(ctx context.Context) io.Reader {
					return io.MultiReader(strings.NewReader(hi), &script{ctx: ctx, every: time.Hour})
				})))
				for _, want := range tt.want {
					assert.ErrorIs(t, o.err, want)
				}
				_, broken := errors.AsType[*aycoder.StreamBrokenError](o.err)
				assert.False(t, broken)
				assert.Equal(t, "hi", o.text)
			})
		})
	}
}

// stopThen returns a function that stops a timer and then calls the timer's function.
func stopThen(timer *time.Timer, then func()) context.CancelFunc {
	return func() { timer.Stop(); then() }
}

func TestCancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, wordsI) })
	assert.ErrorIs(t, run(ctx, exchange(t, s.URL, nil)).err, context.Canceled)
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
			e, ok := errors.AsType[*aycoder.StreamBrokenError](run(t.Context(), exchange(t, tt.base, nil)).err)
			require.True(t, ok)
			assert.Contains(t, e.Error(), "connect: ")
		})
	}
}

// Errors contain neither the query of the URL nor another value that was marked as
// secret.
func TestSecretsOfTheAddress(t *testing.T) {
	const secret = "top secret/1"
	escaped := url.QueryEscape(secret)
	limit := &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Provider: "proxy", Err: errors.New("no " + secret)}}
	tests := []struct {
		name string
		url  string
		rt   http.RoundTripper
	}{
		{"connection", "http://127.0.0.1:1/v1?key=" + escaped, nil},
		{"user", "http://u:" + url.PathEscape(secret) + "@127.0.0.1:1/v1", nil},
		{"not an address", "http://[/?key=" + escaped, nil},
		{"transport", "http://h.test/?key=" + escaped, roundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errors.New("no " + secret)}
		})},
		{"error with a type", "http://h.test/", roundTrip(func(*http.Request) (*http.Response, error) { return nil, limit })},
		{"timeout", "http://h.test/?key=" + escaped, roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, &net.DNSError{Err: "no " + secret, IsTimeout: true}
		})},
		{"answer", "http://h.test/", refuse(400, `{"error":"wrong key `+secret+` or `+escaped+`"}`, nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := exchange(t, tt.url, tt.rt, func(c *Config) error { c.AddSecret(secret); return nil })
			if x.URL = tt.url; tt.rt == nil {
				x.Config.do = http.DefaultClient.Do
			}
			err := run(t.Context(), x).err
			require.Error(t, err)
			assert.True(t, isTyped(err), "%v", err)
			for e := err; e != nil; e = errors.Unwrap(e) {
				for _, hidden := range []string{secret, escaped, url.PathEscape(secret)} {
					assert.NotContains(t, fmt.Sprintf("%v %+v", e, e), hidden)
				}
			}
			_, err = Models(t.Context(), x.Config, x.URL, func(http.Header) {})
			assert.NotContains(t, err.Error(), escaped)
		})
	}
	c := NewConfig("p", "https://x")
	c.AddSecret("v1")
	assert.Equal(t, "v1", c.Show("v1", 10), "a short one is in too many texts")
}

// A typed error of the transport stays in the chain.
func TestErrorOfTheTransport(t *testing.T) {
	limit := &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Provider: "proxy", Err: errors.New("wait")}, RetryAfter: 7}
	err := run(t.Context(), over(t, roundTrip(func(*http.Request) (*http.Response, error) { return nil, limit }))).err
	assert.ErrorIs(t, err, limit)
}

// echo repeats the key that it received in all its responses.
func echo(status int) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		key := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		data := fmt.Sprintf(`{"error":{"type":"e %s","message":"bad key %s"},"request_id":"%[1]s"}`, key, key)
		if status == http.StatusOK {
			data = "data: " + data + "\n\n"
		}
		h := http.Header{"Request-Id": {key}, "Content-Type": {"application/json"}}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(data)), Request: r}, nil
	})
}

// The key is in nothing that is printed, logged or returned.
func TestKeyIsNeverShown(t *testing.T) {
	notJSON := roundTrip(func(r *http.Request) (*http.Response, error) {
		data := "data: {" + r.Header.Get("X-Api-Key") + r.Header.Get("Authorization") + "\n\n"
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(data)), Request: r}, nil
	})
	auth := map[string]func(*Config) error{
		"key":    func(c *Config) error { return c.SetKey("key", testKey) },
		"header": func(c *Config) error { return c.SetHeader("h", "x-api-key", testKey) },
		"bearer": func(c *Config) error { return c.SetHeader("h", "Authorization", "Bearer "+testKey) },
		"token": func(c *Config) error {
			return c.SetToken("t", func(context.Context) (string, error) { return "ya29-SECRET", nil })
		},
	}
	for name, set := range auth {
		for n, rt := range []http.RoundTripper{echo(400), echo(401), echo(429), echo(500), echo(200), notJSON} {
			x := over(t, rt, set)
			err := run(t.Context(), x).err
			require.Error(t, err)
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", x.Config.LogValue("m"), "err", err)
			base, ok := errors.AsType[*aycoder.ModelError](err)
			require.True(t, ok)
			c := *x.Config
			shown := fmt.Sprintf("%v %+v %#v %s %v %+v %#v %v %+v %s %s", c, c, c, x.Config.Describe("m"),
				x.Config, err, err, *base, *base, &log, err)
			assert.NotContains(t, shown, "SECRET", "%s %d", name, n)
		}
	}
}

// Servers that quote a request as JSON may escape characters of the key: PHP the slash, .NET the plus sign.
func TestEscapedKeyIsNeverShown(t *testing.T) {
	const key = "ABSK/SECRET+0123="
	for _, escaped := range []string{`ABSK\/SECRET+0123=`, `ABSK/SECRET\u002B0123=`, `ABSK\/SECRET\u002b0123\u003d`} {
		for body, status := range map[string]int{
			`{"request":{"auth":"Bearer ` + escaped + `"}}`: 500, `{"request":"` + escaped: 400, `<p>` + escaped: 500, "data: {" + escaped + "\n\n": 200,
		} {
			x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			}), func(c *Config) error { return c.SetKey("key", key) })
			err := run(t.Context(), x).err
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "SECRET", body)
		}
	}
}

// A text that is shortened within a key does not end in the first part of the key.
func TestKeyIsNeverCut(t *testing.T) {
	tests := []struct {
		name  string
		limit int // length to which the text is shortened
		rt    func(text string) http.RoundTripper
	}{
		{"plain body", maxErrorText, func(s string) http.RoundTripper { return refuse(400, s, nil) }},
		{"message", maxErrorText, func(s string) http.RoundTripper {
			return refuse(400, `{"error":{"type":"x","message":"`+s+`"}}`, nil)
		}},
		{"kind", maxErrorKind, func(s string) http.RoundTripper { return refuse(400, `{"error":{"type":"`+s+`"}}`, nil) }},
		{"request id", maxID, func(s string) http.RoundTripper {
			return refuse(400, `{}`, http.Header{"Request-Id": {s}})
		}},
		{"request id in the body", maxID, func(s string) http.RoundTripper {
			return refuse(400, `{"error":"x","request_id":"`+s+`"}`, nil)
		}},
		{"failure in the stream", maxErrorText, func(s string) http.RoundTripper {
			return text("data: {\"error\":\"" + s + "\"}\n\n")
		}},
		{"event that is not JSON", 200, func(s string) http.RoundTripper { return text("data: " + s + "\n\n") }},
		{"broken", 2 * maxErrorText, func(s string) http.RoundTripper {
			return roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New(s) })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for pad := tt.limit - len(testKey) - 1; pad <= tt.limit; pad++ {
				s := strings.Repeat("x", max(pad, 0)) + testKey
				err := run(t.Context(), over(t, tt.rt(s+strings.Repeat("y", 8000)))).err
				require.Error(t, err)
				require.NotContains(t, err.Error(), testKey[:5], "key at %d", pad)
				require.Less(t, len(err.Error()), 5000)
			}
		})
	}
}

// The caller's headers are as secret as the key.
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
			x := over(t, refuse(400, `{"error":"`+tt.text+`"}`, nil),
				func(c *Config) error { return c.SetHeader("h", tt.header, tt.value) })
			e, ok := errors.AsType[*aycoder.BadRequestError](run(t.Context(), x).err)
			require.True(t, ok)
			assert.EqualError(t, e.Err, tt.want)
		})
	}
}

func TestTokens(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	gone := errors.New("logged out")
	tests := []struct {
		name  string
		token func(context.Context) (string, error)
		own   string
		want  string // the header
		err   string
	}{
		{"its own context", func(ctx context.Context) (string, error) { return ctx.Value(key{}).(string), nil }, "", "Bearer here", ""},
		{"the caller's header wins", func(context.Context) (string, error) { return "x", gone }, "Bearer own", "Bearer own", ""},
		{"none", func(context.Context) (string, error) { return "", nil }, "", "", "get token: it is empty"},
		{"two lines", func(context.Context) (string, error) { return "a\r\nHost: x", nil }, "", "", "get token: it is empty or has"},
		{"failure", func(context.Context) (string, error) { return "", gone }, "", "", "get token: logged out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := ""
			x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				asked = r.Header.Get("Authorization")
				return text(wordsI).RoundTrip(r)
			}), func(c *Config) error { return c.SetToken("token", tt.token) })
			if tt.own != "" {
				require.NoError(t, x.Config.SetHeader("own", "Authorization", tt.own))
			}
			err := run(ctx, x).err
			assert.Equal(t, tt.want, asked)
			if tt.err == "" {
				assert.NoError(t, err)
				return
			}
			e, ok := errors.AsType[*aycoder.AuthError](err)
			require.True(t, ok, "%v", err)
			assert.ErrorContains(t, e, tt.err)
		})
	}
	c := NewConfig("p", "https://x")
	_, ok := errors.AsType[*aycoder.ConfigError](c.SetToken("WithTokenSource", nil))
	assert.True(t, ok)
}

// The errors of a token source quote the tokens it has returned.
func TestTokenErrorHidesTokens(t *testing.T) {
	n := 0
	c := over(t, text(wordsI), func(c *Config) error {
		return c.SetToken("token", func(context.Context) (string, error) {
			if n++; n > 1 {
				return "", errors.New("refresh of ya29-SECRET refused")
			}
			return "ya29-SECRET", nil
		})
	})
	again := over(t, text(wordsI))
	again.Config = c.Config
	require.NoError(t, run(t.Context(), c).err)
	err := run(t.Context(), again).err
	e, ok := errors.AsType[*aycoder.AuthError](err)
	require.True(t, ok, "%v", err)
	assert.EqualError(t, e.Err, "get token: refresh of [key] refused")
}
