//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/internal/timed"
)

// program is this test binary as a server.
func program(t *testing.T, mode string) config.Server {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return config.Server{Command: self, Env: map[string]string{
		modeVariable: mode, "NOTES": filepath.Join(t.TempDir(), "notes"), "GORACE": "atexit_sleep_ms=0",
	}, Timeout: time.Minute}
}

func notes(t *testing.T, s config.Server) string {
	data, err := os.ReadFile(s.Env["NOTES"])
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	return string(data)
}

// fast makes the waits of a client short.
func fast(o *options) error { o.pause, o.leave = time.Millisecond, 50*time.Millisecond; return nil }

// connect connects, and sees to it that nothing is left of it.
func connect(t *testing.T, s config.Server, opts ...Option) harness.ToolSource {
	t.Helper()
	before := runtime.NumGoroutine()
	src, err := Connector(append([]Option{fast}, opts...)...)(t.Context(), "s", s)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, src.Close())
		timed.Until(t, func() bool { return runtime.NumGoroutine() <= before }, "goroutines to end")
		_, err := calls(context.Background(), src, "a", `{}`)
		require.ErrorIs(t, err, ErrClosed)
	})
	return src
}

// find returns a tool by the end of its name, or nil.
func find(t *testing.T, src harness.ToolSource, name string) aycoder.Tool {
	t.Helper()
	list, err := src.Tools(t.Context())
	require.NoError(t, err)
	for _, tool := range list {
		if tool.Spec().Name == "mcp__s__"+name {
			return tool
		}
	}
	return nil
}

func invocation(args string) *aycoder.Invocation {
	return aycoder.NewInvocation("1", "x", json.RawMessage(args), nil)
}

// calls calls the first tool, or one by the end of its name.
func calls(ctx context.Context, src harness.ToolSource, name, args string) (*aycoder.ToolResult, error) {
	list, err := src.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, tool := range list {
		if strings.HasSuffix(tool.Spec().Name, "__"+name) {
			return tool.Call(ctx, invocation(args))
		}
	}
	return list[0].Call(ctx, invocation(args))
}

func said(t *testing.T, src harness.ToolSource, name, args string) string {
	t.Helper()
	res, err := calls(t.Context(), src, name, args)
	require.NoError(t, err)
	require.True(t, res.Untrusted)
	return res.Text()
}

func TestProgram(t *testing.T) {
	t.Setenv("AYCODER_TEST_SECRET", "secret")
	s := program(t, "sdk")
	s.Env["NAMED"] = "yes"
	t.Setenv("LANG", "from outside")
	s.Env["LANG"] = "C"
	src := connect(t, s)
	require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))

	env := "\n" + said(t, src, "env", `{}`) + "\n"
	require.Contains(t, env, "\nNAMED=yes\n")
	require.Contains(t, env, "\nPATH="+os.Getenv("PATH")+"\n")
	require.Contains(t, env, "\nLANG=C\n", "what the configuration names counts")
	require.NotContains(t, env, "AYCODER_TEST_SECRET")

	res, err := calls(t.Context(), src, "many", `{}`)
	require.NoError(t, err)
	require.Equal(t, []aycoder.Part{
		&aycoder.Text{Text: "one"}, &aycoder.Media{Type: "image/png", Data: []byte(png)},
		&aycoder.Text{Text: "[audio/wav, 3 bytes, is left out]"}, &aycoder.Text{Text: "[resource a://b]\ninside"},
		&aycoder.Text{Text: "[resource a://c: c ]"}, &aycoder.Text{Text: `{"n":1}`},
	}, res.Parts)
	res, err = calls(t.Context(), src, "fails", `{}`)
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.Equal(t, "no such thing", res.Text())
	got := said(t, src, "long", `{}`)
	require.Equal(t, strings.Repeat("x", 256<<10)+"\n[the result was cut after 262144 bytes]", got)
}

func TestProgress(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s)
	got := make(chan aycoder.Progress, 10)
	res, err := find(t, src, "steps").Call(t.Context(), aycoder.NewInvocation("1", "x", json.RawMessage(`{}`), func(p aycoder.Progress) {
		got <- p
		_ = os.WriteFile(s.Env["NOTES"], nil, 0o600)
	}))
	require.NoError(t, err)
	require.Equal(t, "done", res.Text())
	require.Equal(t, aycoder.Progress{Current: 1, Total: 3, Message: "step"}, <-got)
	require.Empty(t, got)
}

func TestCancelReachesTheServer(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the user has had enough")
	go func() {
		timed.Until(t, func() bool { return notes(t, s) == "began\n" })
		cancel(stop)
	}()
	_, err := find(t, src, "hang").Call(ctx, invocation(`{}`))
	require.ErrorIs(t, err, stop)
	timed.Until(t, func() bool { return notes(t, s) == "began\ncancelled\n" }, "the cancel to arrive")
	require.Equal(t, "heard still there", said(t, src, "echo", `{"text":"still there"}`))
}

// A server that ends during a call has made the call once, the error says so, and the next call starts it again.
func TestKilledDuringCall(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s)
	tool, echo := find(t, src, "die"), find(t, src, "echo")
	for n := 1; n <= 3; n++ {
		_, err := tool.Call(t.Context(), invocation(`{}`))
		require.ErrorIs(t, err, ErrLost)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, "s", e.Server)
		require.Equal(t, "call die", e.Op)
		require.Equal(t, "fatal: out of luck", e.Stderr)
		require.Equal(t, strings.Repeat("died\n", n), notes(t, s))
	}
	res, err := echo.Call(t.Context(), invocation(`{"text":"again"}`))
	require.NoError(t, err)
	require.Equal(t, "heard again", res.Text())
	require.Same(t, echo, find(t, src, "echo"), "the same definition is the same tool")
}

// A connection that is lost is one loss, however many calls were on it: the next call makes another one at once.
func TestOneLossOfManyCalls(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s, func(o *options) error { o.pause = time.Hour; return nil })
	hang := find(t, src, "hang")
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_, err := hang.Call(t.Context(), invocation(`{}`))
			assert.ErrorIs(t, err, ErrLost)
		})
	}
	timed.Until(t, func() bool { return notes(t, s) == strings.Repeat("began\n", 5) }, "the calls to begin")
	_, err := calls(t.Context(), src, "die", `{}`)
	require.ErrorIs(t, err, ErrLost)
	wg.Wait()
	require.Equal(t, "heard again", said(t, src, "echo", `{"text":"again"}`))
}

// Waits between connections grow, and a long one is an error at once.
func TestBackoff(t *testing.T) {
	c, err := newClient("s", config.Server{Command: "/nowhere/at/all"}, options{pause: time.Hour})
	require.NoError(t, err)
	defer c.Close()
	var waits []time.Duration
	for range 9 {
		c.lost()
		waits = append(waits, max(time.Until(c.next), 0).Round(time.Minute)/time.Hour)
	}
	require.Equal(t, []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}, waits)
	require.NoError(t, c.lock(t.Context()))
	_, err = c.connected(t.Context())
	c.unlock()
	require.ErrorIs(t, err, ErrDown)
	c.works()
	require.Zero(t, c.next)
}

// A definition that changes is not what was approved: a call of the old one does nothing, and the tools of the next
// turn have the new one.
func TestToolsChange(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s)
	many, fails, echo := find(t, src, "many"), find(t, src, "fails"), find(t, src, "echo")
	require.Equal(t, "renamed", said(t, src, "rename", `{}`))
	timed.Until(t, func() bool { return find(t, src, "renamed") != nil }, "the change to arrive")
	_, err := many.Call(t.Context(), invocation(`{}`))
	require.ErrorIs(t, err, ErrGone)
	_, err = fails.Call(t.Context(), invocation(`{}`))
	require.ErrorIs(t, err, ErrChanged)
	require.Empty(t, notes(t, s))
	next := find(t, src, "fails")
	require.Equal(t, "Deletes everything.", next.Spec().Description)
	require.NotEqual(t, fails.Spec().Definition, next.Spec().Definition)
	require.Same(t, echo, find(t, src, "echo"))
	require.Nil(t, find(t, src, "many"))

	// The answer to a question is about what was shown.
	preview, err := fails.(aycoder.Previewer).Preview(t.Context(), invocation(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, "tool fails of server s, definition "+fails.Spec().Definition+"\n{\"a\":1}", preview)
}

func TestHintsAreNotBelieved(t *testing.T) {
	s := program(t, "sdk")
	spec := find(t, connect(t, s), "echo").Spec()
	require.Equal(t, aycoder.EffectUnknown, spec.Effect)
	require.True(t, spec.OpenWorld)
	s.Trust = true
	for source, want := range map[config.Source]aycoder.Effect{
		"": aycoder.EffectReadOnly, config.User: aycoder.EffectReadOnly, config.Managed: aycoder.EffectReadOnly,
		config.Project: aycoder.EffectUnknown, config.Local: aycoder.EffectUnknown,
	} {
		s.Origin.Source = source
		c, err := newClient("s", s, options{})
		require.NoError(t, err)
		trusting, err := c.define(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"},
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}})
		require.NoError(t, err)
		require.Equal(t, want, trusting.spec.Effect, source)
		require.Equal(t, want != aycoder.EffectReadOnly, trusting.spec.OpenWorld, source)
	}
	d := &mcp.Tool{Name: "rm", InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true)}}
	c, err := newClient("s", config.Server{Command: "a"}, options{})
	require.NoError(t, err)
	rm, err := c.define(d)
	require.NoError(t, err)
	require.True(t, rm.spec.Destructive, "a warning is taken")
	other, err := newClient("s", config.Server{Command: "b"}, options{})
	require.NoError(t, err)
	same, err := other.define(d)
	require.NoError(t, err)
	require.NotEqual(t, rm.spec.Definition, same.spec.Definition, "another program is another definition")
}

func TestQuestionsOfServers(t *testing.T) {
	src := connect(t, program(t, "sdk"))
	for _, name := range []string{"ask", "sample"} {
		_, err := calls(t.Context(), src, name, `{}`)
		require.ErrorContains(t, err, "client does not support", name)
		require.NotErrorIs(t, err, ErrLost)
	}

	var asked Question
	answer := Answer{Accept: true, Content: json.RawMessage(`{"which":"that"}`)}
	var failed error
	var request *aycoder.Request
	src = connect(t, program(t, "sdk"),
		WithElicitation(func(_ context.Context, q Question) (Answer, error) { asked = q; return answer, failed }),
		WithSampling(func(_ context.Context, server string, req *aycoder.Request) (*aycoder.Response, error) {
			request = req
			return &aycoder.Response{Model: "m", Message: &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "for " + server}}}}, nil
		}))
	require.Equal(t, "accept that", said(t, src, "ask", `{}`))
	require.Equal(t, Question{Server: "s", Message: "Which?", Schema: asked.Schema}, asked)
	require.JSONEq(t, `{"type":"object","properties":{"which":{"type":"string"}}}`, string(asked.Schema))
	for want, a := range map[string]Answer{"decline <nil>": {Decline: true}, "cancel <nil>": {}} {
		answer = a
		require.Equal(t, want, said(t, src, "ask", `{}`))
	}
	// The time that the user takes is not that of the server.
	const limit = 300 * time.Millisecond
	late := connect(t, program(t, "sdk"), WithElicitation(func(context.Context, Question) (Answer, error) {
		time.Sleep(2 * limit)
		return Answer{Decline: true}, nil
	}))
	late.(*client).s.Timeout = limit // not of the start
	require.Equal(t, "decline <nil>", said(t, late, "ask", `{}`))

	failed = errors.New("no time")
	_, err := calls(t.Context(), src, "ask", `{}`)
	require.EqualError(t, err, "server s: call ask: no time")
	require.Equal(t, "for s", said(t, src, "sample", `{}`))
	require.Equal(t, 10, request.MaxTokens)
	require.Equal(t, "be short", request.System[0].Text)
	require.Equal(t, "hello", request.Messages[0].Text())
}

func TestHostileServers(t *testing.T) {
	// Those that never get as far as tools.
	for mode, want := range map[string]string{"silent": "has not answered within", "garbage": "invalid character", "stderr": "the last words"} {
		before := runtime.NumGoroutine()
		s := program(t, mode)
		if mode == "silent" {
			s.Timeout = 200 * time.Millisecond
		}
		_, err := Connector(fast)(t.Context(), "s", s)
		require.ErrorContains(t, err, want, mode)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok, mode)
		require.LessOrEqual(t, len(e.Stderr), 4<<10)
		timed.Until(t, func() bool { return runtime.NumGoroutine() <= before }, mode)
	}
	_, err := Connector(fast)(t.Context(), "s", config.Server{Command: "/nowhere/at/all", Timeout: time.Minute})
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, name := range []string{"", "a__b", "_a", "a_", "a b", strings.Repeat("a", 33), "ä"} {
		_, err := Connector()(t.Context(), name, config.Server{Command: "x"})
		require.ErrorContains(t, err, "its name must", name)
	}

	t.Run("strict", func(t *testing.T) { require.Equal(t, "ok", said(t, connect(t, program(t, "strict")), "a", `{}`)) })
	t.Run("refuses", func(t *testing.T) {
		_, err := calls(t.Context(), connect(t, program(t, "refuses")), "a", `{}`)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.EqualValues(t, -32602, e.Code)
		require.Equal(t, "server s: call a: bad[2J arguments", err.Error())
	})
	t.Run("flood", func(t *testing.T) {
		_, err := calls(t.Context(), connect(t, program(t, "flood")), "a", `{}`)
		require.ErrorIs(t, err, ErrLost)
	})
	t.Run("deaf", func(t *testing.T) { // more than a pipe holds
		src := connect(t, program(t, "deaf"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := calls(ctx, src, "a", `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	for _, name := range []string{"hangs", "chatter"} {
		t.Run(name, func(t *testing.T) {
			s := program(t, name)
			src := connect(t, s)
			src.(*client).s.Timeout = 300 * time.Millisecond // of calls alone
			_, err := calls(t.Context(), src, "a", `{}`)
			require.ErrorContains(t, err, "has not answered within 300ms")
			if name == "hangs" {
				require.Equal(t, "called\n", notes(t, s))
			}
		})
	}
	t.Run("pages", func(t *testing.T) {
		list, err := connect(t, program(t, "pages")).Tools(t.Context())
		require.NoError(t, err)
		require.Len(t, list, maxTools)
	})
	t.Run("blanks", func(t *testing.T) { // pages without end that have nothing
		s := program(t, "blanks")
		s.Timeout = time.Second
		_, err := Connector()(t.Context(), "s", s)
		require.ErrorContains(t, err, "has not answered within 1s")
	})
	t.Run("odd", func(t *testing.T) {
		src := connect(t, program(t, "odd"))
		list, err := src.Tools(t.Context())
		require.NoError(t, err)
		told := src.(*client).Notices()
		require.Len(t, list, 2)
		require.Regexp(t, `^mcp__s__good_one_[0-9a-f]{8}$`, list[0].Spec().Name)
		require.Regexp(t, `^mcp__s__n{47}_[0-9a-f]{8}$`, list[1].Spec().Name)
		require.Equal(t, "a[31mred", list[1].Spec().Description)
		require.Len(t, told, 2)
		require.Contains(t, told[0], "tool bad is left out: schema")
		require.Contains(t, told[1], "tool huge is left out: its schema has")
	})
	t.Run("children", func(t *testing.T) {
		s := program(t, "children")
		var pid int
		t.Run("open", func(t *testing.T) {
			require.Equal(t, "ok", said(t, connect(t, s), "a", `{}`))
			_, err := fmt.Sscan(notes(t, s), &pid)
			require.NoError(t, err)
		})
		timed.Until(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, "its child to be gone")
	})
}

func TestAddress(t *testing.T) {
	var headers atomic.Value
	server := sdkServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers.Store(r.Header.Get("Authorization"))
		handler.ServeHTTP(w, r)
	}))
	defer s.Close()
	t.Run("works", func(t *testing.T) {
		src := connect(t, config.Server{URL: s.URL, Headers: map[string]string{"Authorization": "Bearer x"}, Timeout: time.Minute})
		require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))
		require.Equal(t, "Bearer x", headers.Load())
		require.Equal(t, "renamed", said(t, src, "rename", `{}`))
		timed.Until(t, func() bool { return find(t, src, "renamed") != nil }, "the change to arrive")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := find(t, src, "hang").Call(ctx, invocation(`{}`))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "heard still", said(t, src, "echo", `{"text":"still"}`))
	})

	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		want    string
		is      error
	}{
		"login": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "asks for a login", ErrUnauthorized},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
		}, "another host, is not followed", nil},
		"flood": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<20))); err != nil {
					return
				}
			}
		}, "more than 16777216 bytes", nil},
		"flood of events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := w.Write([]byte("data: " + strings.Repeat("x", 1<<20) + "\n")); err != nil {
					return
				}
			}
		}, "exceeded", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(tt.handler)
			defer s.Close()
			before := runtime.NumGoroutine()
			_, err := Connector(fast)(t.Context(), "s", config.Server{URL: s.URL, Timeout: time.Minute})
			require.ErrorContains(t, err, tt.want)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
			timed.Until(t, func() bool { return runtime.NumGoroutine() <= before }, "goroutines to end")
		})
	}
}

// A connection that breaks during a call over HTTP is the same as a program that ends: nothing is sent twice.
func TestAddressBreaksDuringCall(t *testing.T) {
	server := sdkServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var posts atomic.Int64
	for name, breaks := range map[string]func(http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"in the answer": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\n\n")
			w.(http.Flusher).Flush()
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte(`"name":"die"`)) {
				posts.Add(1)
				breaks(w)
				panic(http.ErrAbortHandler)
			}
			handler.ServeHTTP(w, r)
		}))
		t.Run(name, func(t *testing.T) {
			posts.Store(0)
			src := connect(t, config.Server{URL: s.URL, Timeout: time.Minute})
			_, err := calls(t.Context(), src, "die", `{}`)
			require.Error(t, err)
			require.EqualValues(t, 1, posts.Load())
			require.Equal(t, "heard again", said(t, src, "echo", `{"text":"again"}`))
			require.EqualValues(t, 1, posts.Load())
		})
		s.Close()
	}
}

// A call that comes while its connection is being lost, and was not sent, is made on the next connection.
func TestAddressLostBeforeCall(t *testing.T) {
	server := sdkServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"name":"die"`)) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	src := connect(t, config.Server{URL: s.URL})
	c := src.(*client)
	x, echo := c.conn, find(t, src, "echo").(*tool)
	_, err := c.call(t.Context(), x, "die", nil, nil)
	require.ErrorIs(t, err, ErrLost)
	<-x.ended
	_, err = c.call(t.Context(), x, "echo", json.RawMessage(`{"text":"again"}`), nil)
	require.ErrorIs(t, err, errUnsent)
	require.NotErrorIs(t, err, ErrLost)

	c.conn = &conn{session: x.session, remote: x.remote, ended: make(chan struct{})} // as it was a moment before
	c.works()
	res, err := echo.Call(t.Context(), invocation(`{"text":"again"}`))
	require.NoError(t, err)
	require.Equal(t, "heard again", res.Text())
}

// Close ends calls in flight, and several at once work.
func TestCloseDuringCalls(t *testing.T) {
	s := program(t, "sdk")
	src, err := Connector(fast)(t.Context(), "s", s)
	require.NoError(t, err)
	hang, echo := find(t, src, "hang"), find(t, src, "echo")
	failed := make(chan error, 8)
	for range cap(failed) {
		go func() {
			_, err := hang.Call(context.Background(), invocation(`{}`))
			failed <- err
		}()
	}
	timed.Until(t, func() bool { return strings.Count(notes(t, s), "began") == cap(failed) })
	res, err := echo.Call(t.Context(), invocation(`{"text":"meanwhile"}`))
	require.NoError(t, err)
	require.Equal(t, "heard meanwhile", res.Text())
	require.NoError(t, src.Close())
	for range cap(failed) {
		require.ErrorIs(t, <-failed, ErrClosed)
	}
}

// A server that never stops asking has answered: its connection is not lost.
func TestAsksAgainAndAgain(t *testing.T) {
	s := program(t, "sdk")
	src := connect(t, s, WithElicitation(func(context.Context, Question) (Answer, error) { return Answer{Accept: true}, nil }))
	before := src.(*client).conn
	_, err := calls(t.Context(), src, "insist", `{}`)
	require.ErrorIs(t, err, ErrAsks)
	require.NotErrorIs(t, err, ErrLost)
	require.Equal(t, 10, strings.Count(notes(t, s), "asked"))
	require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))
	require.Same(t, before, src.(*client).conn)
}

// A turn that waits to ask for changed tools asks the connection that a call has made meanwhile.
func TestToolsAfterReconnection(t *testing.T) {
	src := connect(t, program(t, "sdk"))
	c := src.(*client)
	c.changed()
	require.NoError(t, c.lock(t.Context()))
	type outcome struct {
		tools []aycoder.Tool
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		tools, err := src.Tools(t.Context())
		done <- outcome{tools, err}
	}()
	timed.Until(t, func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*client).Tools"))
	})
	c.conn.close()
	_, err := c.connected(t.Context())
	require.NoError(t, err)
	c.changed()
	c.unlock()
	got := <-done
	require.NoError(t, got.err)
	require.NotEmpty(t, got.tools)
}

// An address that answers the request for what it says unasked only when it has something to say works, and one that never does
// after it has broken that request hangs nobody.
func TestSaysNothingUnasked(t *testing.T) {
	server := sdkServer()
	good := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var breaks atomic.Bool
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && breaks.Swap(false):
			panic(http.ErrAbortHandler)
		case r.Method == http.MethodGet:
			<-end
		default:
			good.ServeHTTP(w, r)
		}
	}))
	defer s.Close()
	defer close(end)
	soon := func(o *options) error { o.listen = 50 * time.Millisecond; return nil }
	src, err := Connector(fast, soon)(t.Context(), "s", config.Server{URL: s.URL, Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "heard hi", said(t, src, "echo", `{"text":"hi"}`))
	require.NoError(t, src.Close())

	breaks.Store(true)
	_, err = Connector(fast, soon)(t.Context(), "s", config.Server{URL: s.URL, Timeout: 3 * time.Second}) // the SDK waits a second
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// An answer that broke off and goes on may take longer to do so.
func TestResumedAnswerTakesItsTime(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	r, _ := dial(config.Server{URL: s.URL}, nil, time.Nanosecond)
	defer r.close()
	get := func(event string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		req.Header.Set("Last-Event-ID", event)
		resp, err := r.RoundTrip(req)
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, get("7"))
	require.Equal(t, http.StatusMethodNotAllowed, get(""))
}

// A call that was lost does not pass for one that was refused, as another one was meanwhile.
func TestLostIsNotRefused(t *testing.T) {
	server := sdkServer()
	good := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	begun, refused := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		switch called := bytes.Contains(body.Bytes(), []byte(`"tools/call"`)); {
		case called && bytes.Contains(body.Bytes(), []byte(`"hang"`)):
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-refused
			panic(http.ErrAbortHandler)
		case called:
			w.WriteHeader(http.StatusForbidden)
		default:
			r.Body = readCloser{body}
			good.ServeHTTP(w, r)
		}
	}))
	defer s.Close()
	src, err := Connector(fast)(t.Context(), "s", config.Server{URL: s.URL, Timeout: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	lost := make(chan error, 1)
	go func() { _, err := calls(t.Context(), src, "hang", `{}`); lost <- err }()
	<-begun
	_, err = calls(t.Context(), src, "echo", `{"text":"hi"}`)
	require.ErrorIs(t, err, ErrUnauthorized)
	close(refused)
	err = <-lost
	require.ErrorIs(t, err, ErrLost)
	require.NotErrorIs(t, err, ErrUnauthorized)
}
