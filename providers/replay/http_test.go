package replay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/replay"
)

// All situations of a client are recorded, and played back with the server switched off.
// Events and errors are the same, whatever the pieces of the bodies.
func TestRecordAndReplay(t *testing.T) {
	lose := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	refuse := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Request-Id", "req_7")
			w.Header().Set(name, value)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	whole := sse("end_turn", "Hel", "lo ☃", " 😀")
	tests := []struct {
		name    string
		handler http.HandlerFunc
		leave   int
		want    any // the expected error
	}{
		{"stream", saying("Hel", "lo ☃", " 😀"), -1, nil},
		{"runes cut by the network", func(w http.ResponseWriter, _ *http.Request) {
			all := strings.Join(whole, "")
			at := strings.Index(all, "☃") + 1
			send(w, all[:at], all[at:])
		}, -1, nil},
		{"one document", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
		}, -1, nil},
		{"left", saying("a", "b", "c", "d"), 2, nil},
		{"broken stream", func(w http.ResponseWriter, r *http.Request) { send(w, whole[:3]...); lose(w, r) }, -1, new(*aycoder.StreamBrokenError)},
		{"no end", func(w http.ResponseWriter, _ *http.Request) { send(w, whole[:3]...) }, -1, new(*aycoder.StreamBrokenError)},
		{"no response", lose, -1, new(*aycoder.StreamBrokenError)},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { send(w, "data: \xff\x00{\n\n") }, -1, new(*aycoder.StreamBrokenError)},
		{"rate limit", refuse(429, "Retry-After: 7", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), -1, new(*aycoder.RateLimitError)},
		{"overloaded", refuse(529, "X-Should-Retry: true", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), -1, new(*aycoder.OverloadedError)},
		{"too large", refuse(400, "A: b", `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), -1, new(*aycoder.ContextTooLargeError)},
		{"no body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, -1, new(*aycoder.OverloadedError)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tapePath(t)
			s := serve(t, tt.handler)
			tape := record(t, path)
			want := stream(t.Context(), claude(t, s.URL, tape), ask("q"), tt.leave)
			if tt.want == nil {
				require.NoError(t, want.err)
				require.NotEmpty(t, want.events)
			} else {
				require.ErrorAs(t, want.err, tt.want)
			}
			require.NoError(t, tape.Close())
			s.Close()
			noTrace(t, path)
			file := readTape(t, path)
			require.NotContains(t, file, testKey)

			for _, chunk := range []int{0, 1, 2, 3, 7, 64, 1 << 20} {
				back := openTape(t, path, replay.WithChunk(chunk))
				got := stream(t.Context(), claude(t, s.URL, back), ask("q"), tt.leave)
				require.Equal(t, want.events, got.events, "chunk %d", chunk)
				require.Equal(t, describe(want.err), describe(got.err), "chunk %d", chunk)
				require.Empty(t, back.Unused())
				require.NoError(t, back.Close())
			}
			require.Equal(t, file, readTape(t, path), "playing back changes nothing")
		})
	}
}

// describe lists the properties of an error that are reproducible.
func describe(err error) (out []string) {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) {
		case *aycoder.RateLimitError:
			out = append(out, e.RetryAfter.String())
		case *aycoder.ContextTooLargeError:
			out = append(out, e.Error())
		case *aycoder.ModelError:
			out = append(out, e.RequestID, e.Kind, http.StatusText(e.Status), e.Error())
		}
	}
	return out
}

// The program gets each piece when the service sends it, not when all have arrived.
func TestRecordIsLive(t *testing.T) {
	heard := make(chan struct{})
	pieces := sse("end_turn", "one", "two")
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, p := range pieces[:3] {
			send(w, p)
		}
		<-heard // the first text arrives before the second is sent
		for _, p := range pieces[3:] {
			send(w, p)
		}
	})
	path := tapePath(t)
	tape := record(t, path)
	n := 0
	for ev, err := range claude(t, s.URL, tape).Stream(t.Context(), ask("q")) {
		require.NoError(t, err)
		if _, ok := ev.(*aycoder.TextDelta); ok {
			if n++; n == 1 {
				close(heard)
			}
		}
	}
	require.NoError(t, tape.Close())
	file := readTape(t, path)
	require.Contains(t, file, `{"end":"complete"}`)
	require.GreaterOrEqual(t, strings.Count(file, `{"chunk":`), 2, "the border is recorded")
}

// get sends a raw request.
func get(t testing.TB, rt http.RoundTripper, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}

func TestBodiesOfAnyKind(t *testing.T) {
	binary := make([]byte, 3000)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	bodies := []string{"", "plain <&> \u2028 text\r\n\n", string(binary), `{"a": 1}`, "\x00", strings.Repeat("long ", 50_000)}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("X-Other", "not recorded")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	path := tapePath(t)
	tape := record(t, path)
	for _, b := range bodies {
		_, got, err := get(t, tape, "PUT", s.URL+"/x?alt=sse", b, "Accept-Encoding", "gzip")
		require.NoError(t, err)
		require.True(t, b == got)
	}
	require.NoError(t, tape.Close())
	s.Close()
	for _, chunk := range []int{0, 1, 999} {
		back := openTape(t, path, replay.WithChunk(chunk))
		for _, b := range bodies {
			resp, got, err := get(t, back, "PUT", "http://elsewhere.test/x?alt=sse", b)
			require.NoError(t, err)
			require.True(t, b == got)
			require.Equal(t, "200 OK", resp.Status)
			require.Equal(t, http.Header{"Content-Type": {"application/octet-stream"}}, resp.Header)
		}
		require.Empty(t, back.Unused())
	}
	back := openTape(t, path)
	resp, err := (&http.Client{Transport: back}).Post("http://elsewhere.test/x?alt=sse", "", nil)
	require.ErrorAs(t, err, new(*replay.MismatchError), "%v", resp)
}

// A replayed body fulfils the contract of io.Reader.
func TestReplayedBodyIsAReader(t *testing.T) {
	text := strings.Repeat("0123456789", 100)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { send(w, text[:300], text[300:301], text[301:]) })
	path := tapePath(t)
	tape := record(t, path)
	_, _, err := get(t, tape, "GET", s.URL, "")
	require.NoError(t, err)
	require.NoError(t, tape.Close())
	for _, chunk := range []int{0, 1, 17} {
		resp, err := (&http.Client{Transport: openTape(t, path, replay.WithChunk(chunk))}).Get(s.URL)
		require.NoError(t, err)
		require.NoError(t, iotest.TestReader(resp.Body, []byte(text)))
		require.NoError(t, resp.Body.Close())
	}
}

// A program that stops waiting behaves the same during playback, and decides itself how
// long it waits.
func TestCancelled(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.Copy(io.Discard, r.Body); r.Header.Get("Anthropic-Beta") == "" {
			send(w, sse("end_turn", "a", "b")[:4]...)
		}
		<-r.Context().Done()
	})
	path := tapePath(t)
	run := func(t *testing.T, tape *replay.Tape) (events int) {
		c := claude(t, s.URL, tape, anthropic.WithIdleTimeout(300*time.Millisecond))
		o := stream(t.Context(), c, ask("q"), -1)
		require.ErrorAs(t, o.err, new(*aycoder.TimeoutError))

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range claude(t, s.URL, tape).Stream(ctx, ask("q")) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			cancel()
		}
		silent := claude(t, s.URL, tape, anthropic.WithBeta("silent"), anthropic.WithIdleTimeout(300*time.Millisecond))
		o2 := stream(t.Context(), silent, ask("q"), -1)
		require.ErrorAs(t, o2.err, new(*aycoder.TimeoutError))
		require.Empty(t, o2.events)
		return len(o.events)
	}
	tape := record(t, path)
	want := run(t, tape)
	require.Equal(t, 2, want)
	require.NoError(t, tape.Close())
	s.Close()
	synctest.Test(t, func(t *testing.T) {
		back := openTape(t, path)
		require.Equal(t, want, run(t, back))
		require.Empty(t, back.Unused())
	})
}

// A program that reads more than was recorded gets an error that is not retried.
func TestMoreThanWasRecorded(t *testing.T) {
	s := serve(t, saying("a", "b", "c"))
	path := tapePath(t)
	hold := make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		send(w, sse("end_turn", "a", "b")[:3]...)
		<-hold
	})
	defer close(hold)
	tape := record(t, path)
	require.Len(t, stream(t.Context(), claude(t, slow.URL, tape), ask("q"), 1).events, 1)
	var err error
	for ev, err2 := range claude(t, slow.URL, tape).Stream(t.Context(), ask("open")) {
		require.NoError(t, err2)
		require.NotNil(t, ev)
		err = tape.Close() // while the answer is read
		break
	}
	require.NoError(t, err)
	require.Contains(t, readTape(t, path), `{"end":"left"}`)
	require.Contains(t, readTape(t, path), `{"end":"open"}`)

	back := openTape(t, path)
	for _, q := range []string{"q", "open"} {
		o := stream(t.Context(), claude(t, s.URL, back), ask(q), -1)
		e, ok := errors.AsType[*replay.IncompleteError](o.err)
		require.True(t, ok, "%v", o.err)
		require.Equal(t, "POST /v1/messages", e.Request)
		require.ErrorContains(t, e, "ends here: it was left while it was recorded")
		require.ErrorAs(t, o.err, new(*aycoder.BadRequestError))
		require.Equal(t, aycoder.ModelFailed{}, aycoder.RetryPolicy{}.Decide(aycoder.Failure{Err: o.err}))
	}
	require.Zero(t, s.asked.Load())
}

func TestRecordMissing(t *testing.T) {
	path := tapePath(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		send(w, "re: "+string(body))
	})
	ask := func(tape *replay.Tape, bodies ...string) {
		t.Helper()
		for _, b := range bodies {
			_, got, err := get(t, tape, "POST", s.URL+"/x", b)
			require.NoError(t, err)
			require.Equal(t, "re: "+b, got)
		}
	}
	missing := func(bodies ...string) {
		t.Helper()
		tape := openTape(t, path, replay.WithMode(replay.RecordMissing))
		ask(tape, bodies...)
		require.NoError(t, tape.Close())
		noTrace(t, path)
	}
	missing("a", "b", "c")
	require.EqualValues(t, 3, s.asked.Load())
	before := readTape(t, path)
	missing("c", "a")
	require.Equal(t, before, readTape(t, path), "nothing was missing")
	missing("a", "new", "c", "a")
	require.EqualValues(t, 5, s.asked.Load())
	s.Close()
	ask(openTape(t, path), "a", "new", "c", "a", "b")

	tape := openTape(t, path, replay.WithMode(replay.RecordMissing))
	_, _, err := get(t, tape, "POST", s.URL+"/x", "a connection that is refused is recorded, too")
	require.ErrorAs(t, err, new(net.Error))
	require.NoError(t, tape.Close())
	back := openTape(t, path, replay.WithMatching(replay.Lenient))
	_, _, again := get(t, back, "POST", s.URL+"/x", "a connection that is refused is recorded, too")
	require.EqualError(t, again, err.Error())
	require.ErrorAs(t, again, new(net.Error))
}

func TestConcurrent(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		send(w, "re: ", string(body))
	})
	path := tapePath(t)
	all := func(tape *replay.Tape) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				body := strings.Repeat("x", i%20+1)
				_, got, err := get(t, tape, "POST", s.URL, body)
				if err != nil || got != "re: "+body {
					t.Errorf("%q: %q, %v", body, got, err)
				}
			})
		}
		wg.Wait()
	}
	tape := record(t, path)
	all(tape)
	require.NoError(t, tape.Close())
	require.NoError(t, tape.Close(), "twice")
	_, _, err := get(t, tape, "POST", s.URL, "")
	require.ErrorIs(t, err, fs.ErrClosed)
	s.Close()
	back := openTape(t, path, replay.WithMatching(replay.Lenient))
	all(back)
	require.Empty(t, back.Unused())
	require.NoError(t, back.Close())
	_, _, err = get(t, back, "POST", s.URL, "")
	require.ErrorIs(t, err, fs.ErrClosed)
}

// Interactions that were finished before a crash are in the part file.
func TestCrash(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	path := tapePath(t)
	require.NoError(t, os.WriteFile(path, []byte("what was there"), 0o600))
	tape := record(t, path)
	for _, b := range []string{"one", "two"} {
		_, _, err := get(t, tape, "POST", s.URL, b)
		require.NoError(t, err)
	}
	part, err := os.ReadFile(path + ".part")
	require.NoError(t, err)
	require.Equal(t, "what was there", readTape(t, path))
	_, err = replay.Open(path, replay.WithMode(replay.Record))
	require.ErrorIs(t, err, fs.ErrExist)

	for cut := len("{\"aycoder_replay\":1}\n"); cut <= len(part); cut++ {
		torn := tapePath(t)
		require.NoError(t, os.WriteFile(torn, part[:cut], 0o600))
		_, err := replay.Open(torn)
		e, ok := errors.AsType[*replay.FormatError](err)
		require.True(t, ok && e.Torn, "cut at %d: %v", cut, err)
		back := openTape(t, torn, replay.WithTorn(true))
		require.Error(t, back.Torn())
		whole := bytes.Count(part[:cut], []byte("{\"end\":\"complete\"}"))
		require.Len(t, back.Unused(), whole, "cut at %d", cut)
	}
	require.NoError(t, tape.Close())
	require.NoError(t, openTape(t, path).Torn())
}
