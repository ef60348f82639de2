package ollama_test

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
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/ollama"
)

var (
	_ aycoder.ModelClient     = (*ollama.Client)(nil)
	_ aycoder.ModelNamer      = (*ollama.Client)(nil)
	_ aycoder.ModelInfoer     = (*ollama.Client)(nil)
	_ aycoder.OutputFormatter = (*ollama.Client)(nil)
)

func TestHost(t *testing.T) {
	tests := map[string]string{
		"":                        "http://127.0.0.1:11434",
		"  ":                      "http://127.0.0.1:11434",
		`"example.test"`:          "http://example.test:11434",
		"example.test":            "http://example.test:11434",
		"example.test:1234":       "http://example.test:1234",
		":1234":                   "http://127.0.0.1:1234",
		"0.0.0.0":                 "http://127.0.0.1:11434",
		"0.0.0.0:80":              "http://127.0.0.1:80",
		"[::]:80":                 "http://[::1]:80",
		"::":                      "http://[::1]:11434",
		"::1":                     "http://[::1]:11434",
		"[::1]":                   "http://[::1]:11434",
		"http://example.test":     "http://example.test:80",
		"https://example.test":    "https://example.test:443",
		"https://example.test:1/": "https://example.test:1",
		"http://x.test:5/a/b/":    "http://x.test:5/a/b",
		"x.test/a":                "http://x.test:11434/a",
		"x.test:70000":            "http://x.test:11434",
		"x.test:none":             "http://x.test:11434",
		"ollama.com":              "https://ollama.com",
		"https://ollama.com":      "https://ollama.com",
	}
	for in, want := range tests {
		assert.Equal(t, want, ollama.HostURL(in), "%q", in)
	}
}

func TestNew(t *testing.T) {
	t.Setenv("OLLAMA_HOST", "gpu.test:1234")
	t.Setenv("OLLAMA_API_KEY", "sk-cloud")
	c, err := ollama.New("m")
	require.NoError(t, err)
	assert.Equal(t, "ollama.Client(m at http://gpu.test:1234)", fmt.Sprint(c))
	c, err = ollama.New("m", ollama.WithBaseURL("https://x.test/ollama/"))
	require.NoError(t, err)
	assert.Equal(t, "ollama.Client(m at https://x.test/ollama)", c.GoString())

	t.Setenv("OLLAMA_HOST", "ftp://x")
	_, err = ollama.New("", ollama.WithContextLength(0), ollama.WithThinking("hard"), ollama.WithOption("", 1),
		ollama.WithOption("x", func() {}), ollama.WithAPIKey(""), ollama.WithMaxTokens(0))
	for _, want := range []string{"model", "OLLAMA_HOST", "WithContextLength", "WithThinking", "WithOption: option \"\"", "WithOption: option \"x\"", "WithAPIKey", "WithMaxTokens"} {
		assert.ErrorContains(t, err, want)
	}
	assert.True(t, is[*aycoder.ConfigError](err))
}

// The key in the environment belongs to Ollama and is sent nowhere else.
func TestKey(t *testing.T) {
	t.Setenv("OLLAMA_API_KEY", "sk-cloud-key")
	auth := func(opts ...ollama.Option) (got string) {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.Header.Get("Authorization")
			return says(http.StatusOK, done, 100).RoundTrip(r)
		})
		c, err := ollama.New("m", append([]ollama.Option{ollama.WithHTTPClient(&http.Client{Transport: rt})}, opts...)...)
		require.NoError(t, err)
		_, err = aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
		require.NoError(t, err)
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", c, c, c, slog.AnyValue(c).Resolve()), "sk-")
		return got
	}
	assert.Empty(t, auth())
	assert.Empty(t, auth(ollama.WithBaseURL("https://other.test")))
	assert.Equal(t, "Bearer sk-cloud-key", auth(ollama.WithBaseURL("https://ollama.com")))
	assert.Equal(t, "Bearer sk-mine", auth(ollama.WithBaseURL("https://other.test"), ollama.WithAPIKey("sk-mine")))
	t.Setenv("OLLAMA_API_KEY", "")
	_, err := ollama.New("m", ollama.WithBaseURL("https://ollama.com"))
	assert.True(t, is[*aycoder.AuthError](err), "%v", err)
}

func TestHeaders(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "POST /api/chat", r.Method+" "+r.URL.Path)
		assert.Equal(t, "application/x-ndjson, application/json", r.Header.Get("Accept"))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Equal(t, "yes", r.Header.Get("X-Mine"))
		fmt.Fprint(w, done)
	}, ollama.WithHeader("X-Mine", "yes"))
	_, err := aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
	require.NoError(t, err)
}

func TestUnknownModelNamesThoseThereAre(t *testing.T) {
	c := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/tags" {
			fmt.Fprint(w, `{"models":[{"name":"llama3:8b"},{"name":"qwen3:4b"}]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"model 'qwen3:8b' not found"}`)
	})
	_, err := aycoder.Complete(t.Context(), c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi")}})
	e, ok := errors.AsType[*aycoder.UnknownModelError](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, e.Available, "qwen3:4b")
	_, err = c.Show(t.Context(), "")
	e, ok = errors.AsType[*aycoder.UnknownModelError](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, e.Available, "qwen3:4b")
}

func TestFormatsOutput(t *testing.T) {
	c := clientOf(t, says(http.StatusOK, done, 1))
	for model, want := range map[string]bool{"": true, "qwen3:8b": true, "glm-4.6:cloud": false, "gpt-oss:120b-cloud": false, "cloudy": true} {
		assert.Equal(t, want, c.FormatsOutput(model), model)
	}
}

// loopback returns a server that reports its version at an address of this machine.
func loopback(t *testing.T, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/version" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// dialing returns a client that can connect only to the named servers.
func dialing(t *testing.T, to map[string]*httptest.Server) (ollama.Option, *[]string) {
	t.Helper()
	var asked []string
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		asked = append(asked, addr)
		s := to[addr]
		if s == nil {
			return nil, errors.New("connection refused")
		}
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.URL, "http://"))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return ollama.WithHTTPClient(&http.Client{Transport: tr}), &asked
}

func TestFind(t *testing.T) {
	s := loopback(t, `{"version":"0.12.6"}`)
	tests := []struct {
		name, env string
		opts      []ollama.Option
		to        map[string]*httptest.Server
		want      string
		asked     []string
	}{
		{"on this machine", "", nil, map[string]*httptest.Server{"127.0.0.1:11434": s}, "http://127.0.0.1:11434", []string{"127.0.0.1:11434"}},
		{"on its other address", "", nil, map[string]*httptest.Server{"[::1]:11434": s}, "http://[::1]:11434", []string{"127.0.0.1:11434", "[::1]:11434"}},
		{"where the environment says", "gpu.test", nil, map[string]*httptest.Server{"gpu.test:11434": s}, "http://gpu.test:11434", []string{"gpu.test:11434"}},
		{"not where the environment says", "gpu.test", nil, map[string]*httptest.Server{"127.0.0.1:11434": s}, "http://127.0.0.1:11434", []string{"gpu.test:11434", "127.0.0.1:11434"}},
		{"where an option says", "gpu.test", []ollama.Option{ollama.WithBaseURL("http://x.test:1")}, map[string]*httptest.Server{"x.test:1": s}, "http://x.test:1", []string{"x.test:1"}},
		{"nowhere", "", nil, nil, "", []string{"127.0.0.1:11434", "[::1]:11434"}},
		{"another server of JSON", "", nil, map[string]*httptest.Server{"[::1]:11434": loopback(t, "{}")}, "", []string{"127.0.0.1:11434", "[::1]:11434"}},
		{"another server", "", nil, map[string]*httptest.Server{"127.0.0.1:11434": loopback(t, "<html>")}, "", []string{"127.0.0.1:11434", "[::1]:11434"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OLLAMA_HOST", tt.env)
			opt, asked := dialing(t, tt.to)
			base, err := ollama.Find(t.Context(), append(tt.opts, opt)...)
			assert.Equal(t, tt.want, base)
			assert.Equal(t, tt.asked, *asked)
			assert.Equal(t, tt.want == "", is[*aycoder.ModelError](err), "%v", err)
		})
	}
}

// A key is not sent to an address that was not configured.
func TestFindKeepsTheKey(t *testing.T) {
	t.Setenv("OLLAMA_HOST", "gpu.test")
	var seen []string
	rt := roundTrip(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.URL.Host+" "+r.Header.Get("Authorization")+r.Header.Get("X-Mine"))
		return nil, errors.New("connection refused")
	})
	_, err := ollama.Find(t.Context(), ollama.WithAPIKey("sk-mine"), ollama.WithHeader("X-Mine", "1"),
		ollama.WithHTTPClient(&http.Client{Transport: rt}))
	require.Error(t, err)
	assert.Equal(t, []string{"gpu.test:11434 Bearer sk-mine1", "127.0.0.1:11434 ", "[::1]:11434 "}, seen)
}

func TestFindEnds(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r) }))
	t.Cleanup(hangs.Close)
	t.Setenv("OLLAMA_HOST", "")
	opt, _ := dialing(t, map[string]*httptest.Server{"127.0.0.1:11434": hangs})
	start := time.Now()
	_, err := ollama.Find(t.Context(), opt)
	require.Error(t, err)
	timed.Within(t, start, 10*time.Second)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ollama.Find(ctx, opt)
	assert.ErrorIs(t, err, context.Canceled)
}

// Whatever a server says, the key is in nothing that can be printed.
func TestKeyIsNowhere(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	bodies := map[string]string{
		"error in the stream": `{"error":"key ` + key + ` is not known"}`,
		"garbled line":        `{"message":` + key + "}\n",
		"no object":           key + "\n",
		"pull":                `{"status":"x"}` + "\n" + `{"error":"` + key + `"}`,
	}
	for name, body := range bodies {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusInternalServerError} {
			c := clientOf(t, says(status, body, 7), ollama.WithAPIKey(key), ollama.WithHeader("X-Proxy-Key", key+"-2"))
			_, chat := aycoder.Complete(t.Context(), c, hello())
			_, list := c.List(t.Context())
			var pull error
			for _, pull = range c.Pull(t.Context(), "m") {
			}
			for _, err := range []error{chat, list, pull} {
				require.Error(t, err, "%s, %d", name, status)
				for e := err; e != nil; e = errors.Unwrap(e) {
					assert.NotContains(t, fmt.Sprintf("%v %+v %#v %q %v", e, e, e, e, c), key, "%s, %d", name, status)
				}
			}
		}
	}
}

// A request is abandoned when the server loads for too long, whatever it sent before.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				_, _ = io.WriteString(pw, said("content", "a"))
				<-r.Context().Done()
				_ = pw.CloseWithError(r.Context().Err())
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: pr}, nil
		})
		start := time.Now()
		_, err := aycoder.Complete(t.Context(), clientOf(t, rt, ollama.WithIdleTimeout(time.Minute)), hello())
		e, ok := errors.AsType[*aycoder.TimeoutError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, time.Minute, e.Elapsed)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}
