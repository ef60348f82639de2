package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sse"
)

const bom = "\xEF\xBB\xBF" // the byte order mark

const testKey = "sk-test-SECRET-0123456789"

// A words is the decoder of a service that sends one field in each event: "text",
// "thinking", "call" with a name, "ping", "done", or "error".
type words struct {
	k *Call
	a *Answer
}

type word struct {
	Text, Thinking, Call, Ping, Done string
	Error                            any
}

func (d *words) Event(ev sse.Event) (bool, error) {
	var w word
	if err := json.Unmarshal([]byte(ev.Data), &w); err != nil {
		return false, d.k.Garbled("event", err, ev.Data)
	}
	switch {
	case w.Error != nil:
		return true, d.k.Fail(ParseFailure([]byte(ev.Data), nil))
	case w.Ping != "":
		d.k.Ping()
	case w.Text != "":
		return false, d.a.Text(w.Text)
	case w.Thinking != "":
		return false, d.a.Thinking(w.Thinking)
	case w.Call != "":
		return false, d.a.Call(&aycoder.ToolUse{ID: "1", Name: w.Call})
	case w.Done != "":
		d.a.Done.Stop = aycoder.StopReason(w.Done)
		return true, d.a.End()
	}
	return false, nil
}

func (d *words) Whole(data string) error {
	done, err := d.Event(sse.Event{Data: data})
	if err != nil || done {
		return err
	}
	d.a.Done.Stop = aycoder.StopEndTurn
	return d.a.End()
}

func (d *words) End() error { return ErrUnfinished }

const (
	hi     = "data: {\"text\":\"hi\"}\n\n"
	ping   = "data: {\"ping\":\"x\"}\n\n"
	done   = "data: {\"done\":\"end_turn\"}\n\n"
	wordsI = hi + ping + done
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// body answers with a body.
func body(make func(ctx context.Context) io.Reader) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(make(r.Context())), Request: r}, nil
	})
}

func text(s string) http.RoundTripper {
	return body(func(context.Context) io.Reader { return strings.NewReader(s) })
}

func refuse(status int, body string, h http.Header) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: h, Request: r,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	})
}

// exchange makes a request to url through rt.
func exchange(t testing.TB, url string, rt http.RoundTripper, set ...func(*Config) error) *Exchange {
	c := NewConfig("test", url)
	require.NoError(t, c.SetKey("key", testKey))
	require.NoError(t, c.SetHTTPClient("client", &http.Client{Transport: rt}))
	for _, f := range set {
		require.NoError(t, f(&c))
	}
	return &Exchange{
		Config: &c, Model: "m", URL: url + "/chat",
		Encode:     func() (*Payload, error) { return &Payload{Pieces: [][]byte{[]byte("{"), []byte("}")}}, nil },
		SetHeaders: func(h http.Header) { c.SetHeaders(h, "X-Api-Key", "") },
		Decode:     func(k *Call) Decoder { return &words{k, NewAnswer(k)} },
	}
}

func over(t testing.TB, rt http.RoundTripper, set ...func(*Config) error) *Exchange {
	return exchange(t, "http://service.test", rt, set...)
}

// An outcome is the outcome of an exchange.
type outcome struct {
	text string
	stop aycoder.StopReason
	err  error
}

func run(ctx context.Context, x *Exchange) (o outcome) { return collect(x.Stream(ctx)) }

func collect(seq iter.Seq2[aycoder.ModelEvent, error]) (o outcome) {
	for ev, err := range seq {
		if err != nil {
			o.err = err
		}
		switch ev := ev.(type) {
		case *aycoder.TextDelta:
			o.text += ev.Text
		case *aycoder.MessageDone:
			o.stop = ev.Stop
		}
	}
	return o
}

func TestStream(t *testing.T) {
	const whole = `{"text":"hi"}`
	tests := []struct {
		name, body string
		text       string
		stop       aycoder.StopReason
		err        string
	}{
		{"events", wordsI, "hi", "end_turn", ""},
		{"what comes after the end", wordsI + "data: {\n\n", "hi", "end_turn", ""},
		{"comments and empty data", ": x\n\ndata:\n\n" + wordsI, "hi", "end_turn", ""},
		{"document", whole, "hi", "end_turn", ""},
		{"blank lines before a document", strings.Repeat("\r\n", 400) + whole, "hi", "end_turn", ""},
		{"byte order mark", bom + whole, "hi", "end_turn", ""},
		{"part of a byte order mark", bom[:2], "", "", "stream ended"},
		{"list", `[1]`, "", "", "cannot unmarshal array"},
		{"document not UTF-8", "{\"text\":\"a\xff\"}", "a\ufffd", "end_turn", ""},
		{"event not UTF-8", "data: {\"text\":\"a\xff\"}\n\n" + done, "a\ufffd", "end_turn", ""},
		{"no end", hi, "hi", "", "stream ended before the message was complete"},
		{"inside of an event", hi + "data: {", "hi", "", "inside an event"},
		{"nothing", "", "", "", "stream ended"},
		{"nonsense", "data: {\n\n", "", "", "decode event: unexpected end of JSON input: {"},
		{"failure", hi + "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", "hi", "", "busy"},
		{"failure in a field", hi + "error: {\"error\":\"busy\"}\n\n", "hi", "", "busy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := run(t.Context(), over(t, text(tt.body)))
			assert.Equal(t, tt.text, o.text)
			assert.Equal(t, tt.stop, o.stop)
			if tt.err == "" {
				assert.NoError(t, o.err)
				return
			}
			require.ErrorContains(t, o.err, tt.err)
			_, typed := errors.AsType[*aycoder.ModelError](o.err)
			assert.True(t, typed)
		})
	}
}

// Frames of another kind, and a document instead of them.
func TestFrames(t *testing.T) {
	lines := func(r io.Reader) func() (sse.Event, error) {
		s := bufio.NewScanner(r)
		return func() (sse.Event, error) {
			if !s.Scan() {
				return sse.Event{}, cmp.Or(s.Err(), io.EOF)
			}
			return sse.Event{Data: strings.TrimPrefix(s.Text(), ">")}, nil
		}
	}
	x := over(t, text(`>{"text":"hi"}`+"\n"+`>{"done":"end_turn"}`))
	x.Frames = lines
	assert.Equal(t, outcome{"hi", "end_turn", nil}, run(t.Context(), x))
	x = over(t, text(` {"text":"hi"}`))
	x.Frames, x.OrJSON = lines, true
	assert.Equal(t, outcome{"hi", "end_turn", nil}, run(t.Context(), x))
	x = over(t, text(`{"text":"hi"}`+"\n"+`{"done":"end_turn"}`))
	x.Frames = lines
	assert.Equal(t, outcome{"hi", "end_turn", nil}, run(t.Context(), x))
}

func TestSingleUse(t *testing.T) {
	seq := over(t, text(wordsI)).Stream(t.Context())
	require.NoError(t, collect(seq).err)
	for ev, err := range seq {
		assert.Nil(t, ev)
		assert.Equal(t, aycoder.ErrConsumed, err)
	}
}

type closer struct {
	io.Reader
	closed, ended *bool
}

func (c closer) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.ended = err == io.EOF
	return n, err
}

func (c closer) Close() error { *c.closed = true; return nil }

func TestBreakAtEveryEvent(t *testing.T) {
	for n := range 3 { // a delta, a block, the end
		closed, ended, seen := false, false, 0
		x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: closer{strings.NewReader(wordsI), &closed, &ended}, Request: r}, nil
		}))
		for _, err := range x.Stream(t.Context()) {
			require.NoError(t, err)
			if seen++; seen > n {
				break
			}
		}
		assert.Equal(t, n+1, seen)
		assert.True(t, closed, "body is closed")
		assert.Equal(t, n > 0, ended, "the connection can be used again, since the last event was read")
	}
}

func TestEncodeError(t *testing.T) {
	x := over(t, text(wordsI))
	x.Encode = func() (*Payload, error) { return nil, errors.New("message 3 is nil") }
	e, ok := errors.AsType[*aycoder.BadRequestError](run(t.Context(), x).err)
	require.True(t, ok)
	assert.EqualError(t, e.Err, "encode request: message 3 is nil")
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

// The limit applies to the answer, not to the envelopes in which it comes.
func TestEnvelopesDoNotCount(t *testing.T) {
	const n = 5000
	envelope := ": " + strings.Repeat("p", 1000) + "\n\n"
	x := over(t, text(strings.Repeat(envelope+hi, n)+done))
	x.Config.MaxResponse = 1 << 20
	require.Greater(t, n*len(envelope), 4<<20)
	require.NoError(t, run(t.Context(), x).err)

	x = over(t, text(strings.Repeat(hi, n)+done))
	x.MaxResponse = n // the limit of the request: a word has more than one byte
	limit, ok := errors.AsType[*aycoder.LimitError](run(t.Context(), x).err)
	require.True(t, ok)
	require.Equal(t, int64(n), limit.Max)
}

func TestEndless(t *testing.T) {
	tests := []struct{ name, head, text, limit string }{
		{"deltas", hi, hi, "response bytes"},
		{"one event", "data: ", strings.Repeat("x", 9999), "event bytes"},
		{"blank lines", "", "\n", "response bytes"},
		{"document", `{"text":[`, " ", "response bytes"},
		{"pings", hi, ping, "response bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := over(t, body(func(context.Context) io.Reader {
				return io.MultiReader(strings.NewReader(tt.head), &repeat{text: tt.text})
			}))
			if tt.limit == "response bytes" {
				x.Config.MaxResponse = 1 << 14
			}
			err := run(t.Context(), x).err
			_, typed := errors.AsType[*aycoder.ModelError](err)
			assert.True(t, typed)
			e, ok := errors.AsType[*aycoder.LimitError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, tt.limit, e.Limit)
		})
	}
}

// Data that becomes no event stays in memory, in a signature for example, whatever comes between.
func TestSilentDataCounts(t *testing.T) {
	silent := "data: {}" + strings.Repeat(" ", 1000) + "\n\n"
	for n, limited := range map[int]bool{10: false, 20: true} {
		x := over(t, text(strings.Repeat(silent+hi, n)+done))
		x.Config.MaxResponse = 1 << 14
		_, ok := errors.AsType[*aycoder.LimitError](run(t.Context(), x).err)
		assert.Equal(t, limited, ok, n)
	}
}

// Only a part of an error response is read.
func TestEndlessError(t *testing.T) {
	x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 500, Body: io.NopCloser(&repeat{text: "no "}), Request: r}, nil
	}))
	err := run(t.Context(), x).err
	require.Error(t, err)
	assert.Less(t, len(err.Error()), maxErrorText+200)
}

// For all input there is exactly one end, and it is the last event.
func FuzzStream(f *testing.F) {
	f.Add([]byte(wordsI))
	f.Add([]byte("{\"text\":\"hi\"}"))
	f.Add([]byte(bom + "\r\n data: {\"call\":\"x\"}\r\r" + done))
	f.Fuzz(func(t *testing.T, data []byte) {
		ends := 0
		for ev, err := range over(t, text(string(data))).Stream(t.Context()) {
			require.Zero(t, ends, "something comes after the end")
			if _, ok := ev.(*aycoder.MessageDone); ok || err != nil {
				ends++
			}
			if err != nil {
				_, typed := errors.AsType[*aycoder.ModelError](err)
				require.True(t, typed, "%v", err)
			}
		}
		require.Equal(t, 1, ends)
	})
}

func TestAnswer(t *testing.T) {
	tests := []struct {
		name   string
		events []string
		want   string
	}{
		{"nothing", nil, "end_turn"},
		{"text", []string{"text:a", "text:b"}, "text(ab) end_turn"},
		{"thinking first", []string{"thinking:a", "text:b", "thinking:c"}, "thinking(a) text(b) thinking(c) end_turn"},
		{"the calls decide", []string{"text:a", "call:x"}, "text(a) call(x {}) tool_use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stream strings.Builder
			for _, e := range tt.events {
				key, val, _ := strings.Cut(e, ":")
				fmt.Fprintf(&stream, "data: {%q:%q}\n\n", key, val)
			}
			var got []string
			for ev, err := range over(t, text(stream.String()+done)).Stream(t.Context()) {
				require.NoError(t, err)
				got = append(got, partOf(ev)...)
			}
			assert.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

func partOf(ev aycoder.ModelEvent) []string {
	switch ev := ev.(type) {
	case *aycoder.BlockDone:
		switch p := ev.Part.(type) {
		case *aycoder.Text:
			return []string{"text(" + p.Text + ")"}
		case *aycoder.Thinking:
			return []string{"thinking(" + p.Text + ")"}
		case *aycoder.ToolUse:
			return []string{"call(" + p.Name + " " + string(p.Args) + ")"}
		}
	case *aycoder.MessageDone:
		return []string{string(ev.Stop)}
	}
	return nil
}

func TestMakeID(t *testing.T) {
	assert.Equal(t, MakeID("a", 1), MakeID("a", 1))
	assert.NotEqual(t, MakeID("a", 1), MakeID("a", 2))
	assert.NotEqual(t, MakeID("a", 1), MakeID("b", 1))
	assert.Regexp(t, `^[a-z0-9_]{6,40}$`, MakeID("a", 1))

	long := strings.Repeat("a", 10*maxSeed)
	for name, other := range map[string]string{"beginning": "b" + long[1:], "end": long[1:] + "b", "length": long[1:]} {
		assert.NotEqual(t, MakeID(long, 1), MakeID(other, 1), name)
	}
	assert.Equal(t, MakeID(long, 1), MakeID(strings.Clone(long), 1))
	assert.Regexp(t, `^[a-z0-9_]{6,40}$`, MakeID(long, 1))
}

// BenchmarkMakeID shows that the cost of an id does not grow with the seed.
func BenchmarkMakeID(b *testing.B) {
	for _, size := range []int{32, maxSeed, 1 << 20} {
		seed := strings.Repeat("a", size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = MakeID(seed, 7)
			}
		})
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]int64{-1: 0, 0: 0, 7: 7, math.MinInt64: 0, math.MaxInt64: maxCount} {
		assert.Equal(t, want, Count(n))
	}
}

// A truncated call is reported as far as it came.
func TestAnswerCut(t *testing.T) {
	x := over(t, text(wordsI))
	x.Decode = func(k *Call) Decoder {
		return &answering{words{k, NewAnswer(k)}, func(a *Answer) error {
			err := errors.Join(a.Text("a"), a.Cut(&aycoder.ToolUse{ID: "1", Name: "n", Args: []byte(`{"x`)}))
			assert.Zero(t, a.Calls())
			a.Done.Stop = aycoder.StopEndTurn
			return errors.Join(err, a.End())
		}}
	}
	var got []string
	for ev, err := range x.Stream(t.Context()) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolDelta:
			got = append(got, "delta("+ev.Args+")")
		case *aycoder.BlockTruncated:
			got = append(got, "cut("+ev.Call.Name+" "+string(ev.Call.Args)+")")
		default:
			got = append(got, partOf(ev)...)
		}
	}
	assert.Equal(t, []string{"text(a)", `delta({"x)`, `cut(n {"x)`, "end_turn"}, got)
}

// After its context is done, a call does not emit further events, even if they came in
// one piece of data.
func TestCancelInsideOfAnEvent(t *testing.T) {
	x := over(t, text(wordsI))
	x.Decode = func(k *Call) Decoder {
		return &answering{words{k, NewAnswer(k)}, func(a *Answer) error {
			for range 1000 {
				if err := a.Call(&aycoder.ToolUse{ID: "1", Name: "n"}); err != nil {
					return err
				}
			}
			return a.End()
		}}
	}
	cause := errors.New("the user pressed a key")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	var last error
	for _, err := range x.Stream(ctx) {
		if last = err; err == nil {
			n++
			cancel(cause)
		}
	}
	assert.Equal(t, 1, n)
	require.ErrorIs(t, last, context.Canceled)
	require.ErrorIs(t, last, cause)
	assert.True(t, isTyped(last))
}

// A caller that cancels at an event gets no other error, even if that came with the event in one piece of data.
func TestCancelBeforeAnError(t *testing.T) {
	for _, failure := range []error{errors.New("not JSON"), &aycoder.LimitError{Limit: "response bytes", Max: 1}} {
		t.Run(failure.Error(), func(t *testing.T) {
			x := over(t, text(wordsI))
			x.Decode = func(k *Call) Decoder {
				return &answering{words{k, NewAnswer(k)}, func(a *Answer) error { return errors.Join(a.Text("a"), a.Text("b"), failure) }}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got []error
			for _, err := range x.Stream(ctx) {
				if got = append(got, err); len(got) == 2 {
					cancel()
				}
			}
			require.Len(t, got, 3)
			require.ErrorIs(t, got[2], context.Canceled)
			require.True(t, isTyped(got[2]))
		})
	}
}

// Stop closes an answer in each state, once. After it, Next sends nothing and returns no event.
func TestStopAnywhere(t *testing.T) {
	tests := []struct {
		name  string
		nexts int
		body  string
		want  string // the error of Next behind it
	}{
		{"before the first event", 0, wordsI, "EOF"},
		{"before the other events of a piece", 1, wordsI, "EOF"},
		{"inside of a piece", 2, wordsI, "EOF"},
		{"behind the last event", 3, wordsI, "EOF"},
		{"behind the end", 4, wordsI, "EOF"},
		{"before an error", 1, hi + "data: {\n\n", "EOF"},
		{"behind an error", 2, hi + "data: {\n\n", "test m: connection lost"},
		{"behind a refusal", 1, "", "test m: connection lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sent, closed := 0, false
			var inner context.Context
			x := over(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				inner = r.Context()
				return &http.Response{StatusCode: 200, Body: closer{strings.NewReader(tt.body), &closed, new(bool)}, Request: r}, nil
			}))
			k := x.Open(t.Context()).(*Call)
			for range tt.nexts {
				_, _ = k.Next()
			}
			for range 2 {
				k.Stop()
				ev, err := k.Next()
				require.Nil(t, ev)
				require.ErrorContains(t, err, tt.want)
			}
			require.Equal(t, min(tt.nexts, 1), sent)
			if sent > 0 {
				require.True(t, closed, "body is closed")
				require.Error(t, inner.Err(), "request is over")
				require.False(t, k.body.timer.Stop(), "timer is stopped")
			}
		})
	}
}

// A silent service times out behind the events that came in one piece, and the caller's time does not count.
func TestIdleTimeoutBehindEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := over(t, body(func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader(hi+done), &script{ctx: ctx, every: time.Hour, times: 1})
		}), idleMinute)
		x.Decode = func(k *Call) Decoder { return twice{&words{k, NewAnswer(k)}} }
		k := x.Open(t.Context())
		defer k.Stop()
		for range 4 {
			_, err := k.Next()
			require.NoError(t, err)
			<-time.After(time.Hour)
		}
		start := time.Now()
		_, err := k.Next()
		e, ok := errors.AsType[*aycoder.TimeoutError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, time.Minute, e.Elapsed)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

// twice emits two pieces of text for each event, and does not know an end.
type twice struct{ *words }

func (d twice) Event(sse.Event) (bool, error) {
	return false, errors.Join(d.a.Text("a"), d.a.Text("b"))
}

// BenchmarkEmit measures the cost of an event without its decoding, with a context that
// can be cancelled.
func BenchmarkEmit(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	k := &Call{done: ctx.Done(), limit: 1 << 40}
	ev := &aycoder.TextDelta{}
	b.ReportAllocs()
	for b.Loop() {
		_ = k.Emit(ev)
		_, _ = k.Next()
	}
}

// An answering decoder runs a test's function at the first event.
type answering struct {
	words
	do func(*Answer) error
}

func (d *answering) Event(sse.Event) (bool, error) { return true, d.do(d.a) }

// Data that a service wants back is on the part that it came with.
func TestAnswerExtras(t *testing.T) {
	x := over(t, text(wordsI))
	x.Decode = func(k *Call) Decoder {
		return &answering{words{k, NewAnswer(k)}, func(a *Answer) error {
			err := a.Thinking("a")
			a.Sign("s")
			err = errors.Join(err, a.Text("b"))
			a.Extra([]byte(`{"x":1}`))
			err = errors.Join(err, a.Opaque([]byte(`{"y":2}`)), a.Call(&aycoder.ToolUse{ID: "1", Name: "n", Args: []byte("null")}))
			assert.Equal(t, 1, a.Calls())
			return errors.Join(err, a.End())
		}}
	}
	var got []aycoder.Part
	for ev, err := range x.Stream(t.Context()) {
		require.NoError(t, err)
		if b, ok := ev.(*aycoder.BlockDone); ok {
			got = append(got, b.Part)
		}
	}
	assert.Equal(t, []aycoder.Part{
		&aycoder.Thinking{Text: "a", Signature: "s", Provider: "test"},
		&aycoder.Text{Text: "b", Extra: &aycoder.Opaque{Provider: "test", Raw: []byte(`{"x":1}`)}},
		&aycoder.Opaque{Provider: "test", Raw: []byte(`{"y":2}`)},
		&aycoder.ToolUse{ID: "1", Name: "n", Args: []byte("{}")},
	}, got)
}
