//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
)

// An address often has a key in it, which came from a variable, and no error may have it.
func TestKeysInAddresses(t *testing.T) {
	for _, rest := range []string{"mcp?apiKey=hush-hush-1", "s/hush-hush-1/mcp", "s/hush%2Dhush-1/mcp?x=%22hush-hush-1%22", "mcp?a=1&key=hush-hush-1"} {
		_, err := Connector()(t.Context(), "s", config.Server{URL: "http://127.0.0.1:1/" + rest})
		require.ErrorContains(t, err, "http://127.0.0.1:1/…")
		require.NotContains(t, err.Error(), "hush")
		require.ErrorAs(t, err, new(*url.Error))
		err = Login(t.Context(), "s", config.Server{URL: "http://127.0.0.1:1/" + rest}, WithLogins(t.TempDir()), WithBrowser(visit))
		require.ErrorContains(t, err, "http://127.0.0.1:1/…")
		require.NotContains(t, err.Error(), "hush")
	}
	_, err := Connector()(t.Context(), "s", config.Server{URL: "http://127.0.0.1:1/mcp"})
	require.ErrorContains(t, err, `"http://127.0.0.1:1/mcp"`)

	// The user of an address, which is a token of some services, and an address of which the path alone is told.
	const address = "http://hush-hush-2@host/s/hush-hush-1/mcp?key=hush-hush-3"
	for _, text := range []string{"http://hush-hush-2:***@host/", "http://host/.well-known/x/s/hush-hush-1/mcp", "mcp?key=hush-hush-3"} {
		require.NotContains(t, withoutKeys(errors.New(text), address).Error(), "hush")
	}

	// Nor may the error of a call that was lost have it.
	good := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdkServer() }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		if bytes.Contains(body.Bytes(), []byte(`"tools/call"`)) {
			panic(http.ErrAbortHandler)
		}
		r.Body = readCloser{body}
		good.ServeHTTP(w, r)
	}))
	defer s.Close()
	src, err := Connector(fast)(t.Context(), "s", config.Server{URL: s.URL + "/s/hush-hush-1/mcp"})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	_, err = calls(t.Context(), src, "echo", `{"text":"hi"}`)
	require.ErrorIs(t, err, ErrLost)
	require.NotContains(t, err.Error(), "hush")
}

// A schema of a server that would take the time or the memory of whoever checks arguments by it.
func TestSchemaBombs(t *testing.T) {
	var doubling strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, tt := range map[string]struct{ schema, defines, checks string }{
		"too large": {`{"type":"object","description":"` + strings.Repeat("x", 65<<10) + `"}`, "more than 65536", ""},
		"too deep":  {`{"properties":{"x":` + strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000) + `}}`, "nested deeper", ""},
		"doubling":  {`{"properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + doubling.String() + `"d40":{"type":"string"}}}`, "", "too complex"},
		"cycle":     {`{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "", "too complex"},
		"itself":    {`{"allOf":[{"$ref":"#"}]}`, "", "too complex"},
		"patterns":  {`{"properties":{"x":{"pattern":"` + strings.Repeat("(a{1,1000}b)?", 4000) + `"}}}`, "", ""},
		"a file":    {`{"properties":{"x":{"$ref":"file:///etc/passwd"}}}`, "", ""}, // which nobody reads
		"not one":   {`{"type":["object",7]}`, "schema", ""},
	} {
		c, err := newClient("s", config.Server{Command: "x"}, options{})
		require.NoError(t, err)
		tool, err := c.define(&mcp.Tool{Name: "a", InputSchema: json.RawMessage(tt.schema)})
		if tt.defines != "" {
			require.ErrorContains(t, err, tt.defines, name)
			continue
		}
		require.NoError(t, err, name)
		_, err = tool.spec.CheckArgs(json.RawMessage(`{"x":1}`))
		if tt.checks == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tt.checks, name)
		}
	}
}

// Servers that break the protocol in the middle of a connection.
func TestBrokenServers(t *testing.T) {
	ok := func(t *testing.T, src harness.ToolSource) {
		t.Helper()
		require.Equal(t, "ok", said(t, src, "a", `{}`))
	}
	for _, mode := range []string{"twice", "strays", "storm", "requests", "prints", "replies", "reordered"} { // whose answer counts nevertheless
		t.Run(mode, func(t *testing.T) {
			src := connect(t, program(t, mode))
			ok(t, src)
			ok(t, src)
		})
	}
	for _, mode := range []string{"not json", "half", "binary", "wrong id", "batch", "deep"} {
		t.Run(mode, func(t *testing.T) {
			src := connect(t, program(t, mode))
			src.(*client).s.Timeout = 300 * time.Millisecond // not of the start
			_, err := calls(t.Context(), src, "a", `{}`)
			require.Error(t, err)
			require.True(t, isError(err), "%T", err)
			require.Equal(t, "called\n", notes(t, src.(*client).s), "it is not repeated")
		})
	}
	t.Run("unread", func(t *testing.T) {
		s := program(t, "unread")
		s.Timeout = time.Minute
		_, err := calls(t.Context(), connect(t, s), "a", `{}`)
		require.ErrorIs(t, err, ErrLost)
	})
	t.Run("restless", func(t *testing.T) { // each list says that it has changed
		s := program(t, "restless")
		src := connect(t, s)
		for range 3 {
			_, err := src.Tools(t.Context())
			require.NoError(t, err)
		}
		require.LessOrEqual(t, strings.Count(notes(t, s), "listed"), 4, "one list for a turn")
		ok(t, src)
	})
	t.Run("names", func(t *testing.T) {
		src := connect(t, program(t, "names"))
		list, err := src.Tools(t.Context())
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, tool := range list {
			require.Regexp(t, `^mcp__s__[A-Za-z0-9_-]{1,56}$`, tool.Spec().Name)
			require.LessOrEqual(t, len(tool.Spec().Name), 64)
			require.False(t, seen[tool.Spec().Name])
			seen[tool.Spec().Name] = true
			preview, err := tool.(aycoder.Previewer).Preview(t.Context(), invocation(`{}`))
			require.NoError(t, err)
			require.NotContains(t, preview, "\x1b")
			require.NotContains(t, preview, "\u202e")
			_, err = tool.Call(t.Context(), invocation(`{}`))
			require.NoError(t, err)
		}
		require.Len(t, list, 4)
		told := src.(*client).Notices()
		require.Len(t, told, 2, "the second a, and the one without a name")
		require.NotContains(t, strings.Join(told, ""), "\x1b")
		require.Empty(t, src.(*client).Notices(), "once")
	})
}

// Two servers with the same tools keep them apart, and a call goes to the right one.
func TestSameTools(t *testing.T) {
	a, b := program(t, "sdk"), program(t, "sdk")
	connectAs := func(name string, s config.Server) harness.ToolSource {
		src, err := Connector(fast)(t.Context(), name, s)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, src.Close()) })
		return src
	}
	one, two := connectAs("one", a), connectAs("two", b)
	_, err := calls(t.Context(), two, "die", `{}`)
	require.ErrorIs(t, err, ErrLost)
	require.Empty(t, notes(t, a))
	require.Equal(t, "died\n", notes(t, b))
	first, err := one.Tools(t.Context())
	require.NoError(t, err)
	second, err := two.Tools(t.Context())
	require.NoError(t, err)
	for i := range first {
		require.NotEqual(t, first[i].Spec().Name, second[i].Spec().Name)
	}
}

// An address whose answers are not valid.
func TestBrokenAddresses(t *testing.T) {
	server := sdkServer()
	good := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	for name, answer := range map[string]func(http.ResponseWriter){
		"html":     func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); fmt.Fprint(w, "<p>Welcome") },
		"not json": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, "{") },
		"empty":    func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") },
		"wrong id": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":99,"result":{}}`)
		},
		"server error": func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"gone":         func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"busy": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := new(bytes.Buffer)
				_, _ = body.ReadFrom(r.Body)
				if bytes.Contains(body.Bytes(), []byte(`"tools/call"`)) && bytes.Contains(body.Bytes(), []byte(`"hang"`)) {
					requests.Add(1)
					answer(w)
					return
				}
				r.Body = readCloser{body}
				good.ServeHTTP(w, r)
			}))
			defer s.Close()
			before := runtime.NumGoroutine()
			src, err := Connector(fast)(t.Context(), "s", config.Server{URL: s.URL, Timeout: time.Minute})
			require.NoError(t, err)
			src.(*client).s.Timeout = 300 * time.Millisecond
			_, err = calls(t.Context(), src, "hang", `{}`)
			require.Error(t, err)
			require.True(t, isError(err), "%T", err)
			require.EqualValues(t, 1, requests.Load(), "it is not repeated")
			require.Equal(t, name != "gone", errors.Is(err, ErrLost) || errors.Is(err, context.DeadlineExceeded), "%v", err)
			src.(*client).s.Timeout = time.Minute
			require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))
			require.NoError(t, src.Close())
			timed.Until(t, func() bool { return runtime.NumGoroutine() <= before+4 }, "goroutines to end") // those of the server may stay idle
		})
	}
}

type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

// A server whose calls are cancelled again and again still answers the next one.
func TestManyCancels(t *testing.T) {
	src := connect(t, program(t, "sdk"))
	hang := find(t, src, "hang")
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := hang.Call(ctx, invocation(`{}`))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))
}
