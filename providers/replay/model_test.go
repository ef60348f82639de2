package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/agenttest"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/replay"
	"github.com/aycoder/aycoder/providers/script"
)

// A fake yields events and an error.
type fake struct {
	events []aycoder.ModelEvent
	err    error
	hang   bool
}

func (f *fake) Stream(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for _, ev := range f.events {
			if ctx.Err() != nil {
				break
			}
			if !yield(ev, nil) {
				return
			}
		}
		if f.hang {
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			yield(nil, &aycoder.ModelError{Provider: "fake", Err: ctx.Err()})
			return
		}
		if f.err != nil {
			yield(nil, f.err)
		}
	}
}

// everyEvent returns one event of each kind, with every part.
func everyEvent() []aycoder.ModelEvent {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	opaque := &aycoder.Opaque{Provider: "p", Raw: raw("{ \"a\" : \"<&>\\u2028\" }")}
	return []aycoder.ModelEvent{
		&aycoder.TextDelta{Text: "void"},
		&aycoder.Retrying{Discarded: true, Attempt: 2, After: time.Second + 3, Err: &aycoder.OverloadedError{
			ModelError: &aycoder.ModelError{Provider: "p", Status: 529}}},
		&aycoder.ThinkingDelta{Text: "Hm\n\x00 "}, &aycoder.ThinkingDelta{Text: "<b>"},
		&aycoder.BlockDone{Part: &aycoder.Thinking{Text: "Hm\n\x00 <b>", Signature: "c2ln+/==", Provider: "p"}},
		&aycoder.TextDelta{}, &aycoder.TextDelta{Text: "A ☃ \u2028😀"},
		&aycoder.BlockDone{Part: &aycoder.Text{Text: "A ☃ \u2028😀", Extra: opaque}},
		&aycoder.ToolDelta{ID: "1", Name: "f"}, &aycoder.ToolDelta{ID: "1", Name: "f", Args: "{\"a\": \"\\u00e9"},
		&aycoder.BlockDone{Part: &aycoder.ToolUse{ID: "1", Name: "f", Args: raw("{\"a\": \"\\u00e9\" }"), Extra: opaque}},
		&aycoder.BlockDone{Part: opaque},
		&aycoder.BlockDone{Part: &aycoder.Opaque{Raw: raw(`{"type":"later","x":[1]}`)}},
		&aycoder.BlockDone{Part: &aycoder.Media{Type: "image/png", Name: "n", Data: []byte("\x89PNG\xff")}},
		&aycoder.BlockDone{Part: &aycoder.Media{Type: "image/png", URL: "https://x/y?a=b&c"}},
		&aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "2", Name: "g", Args: raw(`{"path":"a/b`)}},
		&aycoder.MessageDone{Stop: "odd", Usage: aycoder.Usage{Input: 1, Output: 2, Reasoning: 3, CacheRead: 4, CacheWrite: 5},
			Cost: new(0.25), Model: "m", ID: "msg"},
	}
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	path := tapePath(t)
	tape := record(t, path)
	want := everyEvent()
	o := stream(t.Context(), tape.Client(&fake{events: want}), ask("q"), -1)
	require.NoError(t, o.err)
	require.Equal(t, want, o.events)
	require.NoError(t, tape.Close())
	for range 2 {
		o = stream(t.Context(), openTape(t, path).Client(nil), ask("q"), -1)
		require.NoError(t, o.err)
		require.Equal(t, everyEvent(), o.events)
	}
	require.Equal(t, 1+1+len(want)+1+1, strings.Count(readTape(t, path), "\n"), "a line an event")
}

func TestErrorsComeBackAsTheyWere(t *testing.T) {
	base := func() *aycoder.ModelError {
		return &aycoder.ModelError{Provider: "p", Model: "m", RequestID: "req", Status: 429, Kind: "k", Err: errors.New("why <&>")}
	}
	at := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	wrapped := fmt.Errorf("ask twice: %w", &aycoder.RateLimitError{ModelError: base(), RetryAfter: 7 * time.Second, ResetAt: at})
	exact := []error{
		&aycoder.RateLimitError{ModelError: base(), RetryAfter: 7 * time.Second, ResetAt: at},
		&aycoder.OverloadedError{ModelError: base(), RetryAfter: 1}, &aycoder.AuthError{ModelError: base()},
		&aycoder.UnknownModelError{ModelError: base(), Available: []string{"a", "b"}},
		&aycoder.ContextTooLargeError{ModelError: base(), Actual: 9, Max: 8}, &aycoder.BadRequestError{ModelError: base()},
		&aycoder.RefusalError{ModelError: base()}, &aycoder.TimeoutError{ModelError: base(), Elapsed: 3 * time.Millisecond},
		&aycoder.StreamBrokenError{ModelError: base(), After: 5 * time.Second}, base(), &aycoder.OverloadedError{},
		&aycoder.ModelError{Provider: "p", Err: &aycoder.LimitError{Limit: "event bytes", Max: 5}}, &aycoder.LimitError{Limit: "x", Max: 1},
	}
	others := []error{
		wrapped, errors.New("plain"), errors.Join(errors.New("a"), &aycoder.AuthError{ModelError: base()}),
		&aycoder.StreamBrokenError{ModelError: &aycoder.ModelError{Err: fmt.Errorf("read: %w", io.ErrUnexpectedEOF)}},
		&aycoder.ModelError{Err: context.DeadlineExceeded}, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		&aycoder.ModelError{Err: context.Canceled}, (*aycoder.AuthError)(nil),
	}
	path := tapePath(t)
	tape := record(t, path)
	for _, err := range append(exact, others...) {
		o := stream(t.Context(), tape.Client(&fake{err: err}), ask("q"), -1)
		require.Equal(t, err, o.err, "as it is")
	}
	require.NoError(t, tape.Close())
	c := openTape(t, path).Client(nil)
	for _, want := range exact {
		got := stream(t.Context(), c, ask("q"), -1).err
		require.IsType(t, want, got)
		require.Equal(t, want.Error(), got.Error())
		require.Equal(t, flat(want), flat(got))
		p := aycoder.RetryPolicy{}
		require.Equal(t, p.Decide(aycoder.Failure{Err: want, Now: at.Add(-time.Minute)}), p.Decide(aycoder.Failure{Err: got, Now: at.Add(-time.Minute)}))
	}
	for _, want := range others[:len(others)-1] {
		got := stream(t.Context(), c, ask("q"), -1).err
		require.EqualError(t, got, want.Error())
		for _, is := range []error{io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded} {
			require.Equal(t, errors.Is(want, is), errors.Is(got, is), "%v is %v", want, is)
		}
		for _, as := range []any{new(*aycoder.RateLimitError), new(*aycoder.AuthError), new(*aycoder.ModelError)} {
			require.Equal(t, errors.As(want, as), errors.As(got, as), "%v as %T", want, as)
		}
		n, ok := errors.AsType[net.Error](want)
		m, _ := errors.AsType[net.Error](got)
		require.Equal(t, ok && n.Timeout(), m != nil && m.Timeout(), "%v", want)
	}
	require.ErrorContains(t, stream(t.Context(), c, ask("q"), -1).err, "nil *aycoder.AuthError")
}

// flat formats an error with its causes.
func flat(err error) string {
	data, _ := json.Marshal(err)
	e, _ := errors.AsType[*aycoder.ModelError](err)
	if e == nil {
		return string(data)
	}
	return fmt.Sprintf("%T %+v %v", err, []any{e.Provider, e.Model, e.RequestID, e.Status, e.Kind}, e.Err) +
		fmt.Sprint(errors.AsType[*aycoder.LimitError](err))
}

// Values that cannot be written are passed on unchanged, and not recorded silently.
func TestWhatCannotBeRecorded(t *testing.T) {
	for name, ev := range map[string]aycoder.ModelEvent{
		"not UTF-8": &aycoder.TextDelta{Text: "\xff"},
		"nil part":  &aycoder.BlockDone{},
		"nil call":  &aycoder.BlockTruncated{},
		"nil event": nil,
	} {
		path := tapePath(t)
		tape := record(t, path)
		o := stream(t.Context(), tape.Client(&fake{events: []aycoder.ModelEvent{ev}}), ask("q"), -1)
		require.Equal(t, outcome{events: []aycoder.ModelEvent{ev}}, o, name)
		require.Error(t, tape.Close(), name)
		require.NoFileExists(t, path)
	}
	tape := record(t, tapePath(t))
	o := stream(t.Context(), tape.Client(&fake{}), ask("\xff"), -1)
	require.ErrorAs(t, o.err, new(*aycoder.ModelError))
	require.NoError(t, tape.Close(), "the request was not made")
}

func TestRequestsOfModels(t *testing.T) {
	req := func() *aycoder.Request {
		return &aycoder.Request{
			Model: "m", System: []*aycoder.Text{{Text: "sys"}}, MaxTokens: 5, Temperature: new(0.5), Stop: []string{"x"},
			Tools:      []*aycoder.ToolSpec{{Name: "f", Description: "d", Schema: json.RawMessage(`{"type": "object"}`)}},
			ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "f"}, Thinking: 7,
			Output: &aycoder.OutputFormat{Name: "o", Schema: json.RawMessage(`{}`)},
			Extra:  map[string]json.RawMessage{"b": json.RawMessage(`1`), "a": json.RawMessage(`[2]`)},
			Tail:   []*aycoder.Text{{Text: "open: a.go"}},
			Messages: []*aycoder.Message{aycoder.User("hi"), {Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.ToolUse{ID: "1", Name: "f", Args: json.RawMessage(`{ }`)}}}},
		}
	}
	path := tapePath(t)
	tape := record(t, path)
	require.NoError(t, stream(t.Context(), tape.Client(script.New(script.Say("x"))), req(), -1).err)
	require.NoError(t, tape.Close())
	same := req()
	same.Tools[0].Effect, same.Tools[0].Schema = aycoder.EffectReadOnly, json.RawMessage(`{"type":"object"}`)
	require.NoError(t, stream(t.Context(), openTape(t, path).Client(nil), same, -1).err)
	for want, change := range map[string]func(*aycoder.Request){
		`~ model: "m" → "n"`:                       func(r *aycoder.Request) { r.Model = "n" },
		`~ system[0].text: "sys" → "other"`:        func(r *aycoder.Request) { r.System[0] = &aycoder.Text{Text: "other"} },
		`~ tail[0].text: "open: a.go" → "none"`:    func(r *aycoder.Request) { r.Tail = []*aycoder.Text{{Text: "none"}} },
		`~ tools[0].description: "d" → "e"`:        func(r *aycoder.Request) { r.Tools[0].Description = "e" },
		`- tool_name: "f"`:                         func(r *aycoder.Request) { r.ToolChoice = aycoder.ToolChoice{} },
		`~ max_tokens: 5 → 6`:                      func(r *aycoder.Request) { r.MaxTokens = 6 },
		`- temperature: 0.5`:                       func(r *aycoder.Request) { r.Temperature = nil },
		`+ stop[1]: "y"`:                           func(r *aycoder.Request) { r.Stop = append(r.Stop, "y") },
		`~ thinking: 7 → -1`:                       func(r *aycoder.Request) { r.Thinking = -1 },
		`+ no_cache: true`:                         func(r *aycoder.Request) { r.NoCache = true },
		`- output: {"name":"o","schema":{}}`:       func(r *aycoder.Request) { r.Output = nil },
		`~ extra.a[0]: 2 → 3`:                      func(r *aycoder.Request) { r.Extra["a"] = json.RawMessage(`[3]`) },
		`~ messages[0].parts[0].text: "hi" → "ho"`: func(r *aycoder.Request) { r.Messages[0] = aycoder.User("ho") },
	} {
		changed := req()
		change(changed)
		err := stream(t.Context(), openTape(t, path).Client(nil), changed, -1).err
		require.ErrorAs(t, err, new(*replay.MismatchError))
		require.ErrorContains(t, err, want)
	}
}

// A replayed client has the properties of the recorded one.
func TestAbilities(t *testing.T) {
	inner := &able{fake{events: []aycoder.ModelEvent{&aycoder.MessageDone{}}}}
	path := tapePath(t)
	tape := record(t, path)
	c := tape.Client(inner)
	got, ok := aycoder.As[*able](c)
	require.True(t, ok && got == inner)
	for _, model := range []string{"", "plain"} {
		require.NoError(t, stream(t.Context(), c, &aycoder.Request{Model: model}, -1).err)
	}
	require.NoError(t, tape.Close())
	back := openTape(t, path)
	for _, c := range []aycoder.ModelClient{back.Client(nil), back.Client(inner)} {
		n, ok := aycoder.As[aycoder.ModelNamer](c)
		require.True(t, ok)
		provider, model := n.ModelName()
		require.Equal(t, "able able-1", provider+" "+model)
		f, ok := aycoder.As[aycoder.OutputFormatter](c)
		require.True(t, ok)
		require.True(t, f.FormatsOutput(""))
		require.False(t, f.FormatsOutput("plain"))
		with, ok := aycoder.As[generate.ToolFormatter](c)
		require.True(t, ok)
		require.True(t, with.FormatsWithTools(""))
		require.False(t, with.FormatsWithTools("plain"))
		i, ok := aycoder.As[aycoder.ModelInfoer](c)
		require.True(t, ok)
		info, ok := i.ModelInfo("")
		require.True(t, ok)
		require.EqualValues(t, 1000, info.Context)
		_, ok = i.ModelInfo("plain")
		require.False(t, ok)
	}
	require.Panics(t, func() { record(t, tapePath(t)).Client(nil) })
}

type able struct{ fake }

func (*able) ModelName() (provider, model string) { return "able", "able-1" }
func (*able) FormatsOutput(model string) bool     { return model == "" }
func (*able) FormatsWithTools(model string) bool  { return model == "" }
func (*able) ModelInfo(m string) (aycoder.ModelInfo, bool) {
	return aycoder.ModelInfo{Context: 1000}, m == ""
}

func TestModelLeftAndCancelled(t *testing.T) {
	path := tapePath(t)
	events := everyEvent()
	synctest.Test(t, func(t *testing.T) {
		run := func(tape *replay.Tape, c aycoder.ModelClient) {
			require.Len(t, stream(t.Context(), c, ask("left"), 3).events, 3)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := stream(ctx, c, ask("hangs"), -1)
			require.Equal(t, events, o.events)
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			gone, cancel2 := context.WithCancelCause(t.Context())
			cancel2(errors.New("because"))
			o = stream(gone, c, ask("never"), -1)
			require.ErrorIs(t, o.err, context.Canceled)
			seq := c.Stream(t.Context(), ask("panic"))
			require.Panics(t, func() {
				for range seq {
					panic("a program's own")
				}
			})
			for _, err := range seq {
				require.ErrorIs(t, err, aycoder.ErrConsumed)
			}
			require.NoError(t, tape.Close())
		}
		tape := record(t, path)
		run(tape, tape.Client(&fake{events: events, hang: true}))
		back := openTape(t, path)
		run(back, back.Client(nil))
		require.Empty(t, back.Unused())

		o := stream(t.Context(), openTape(t, path).Client(nil), ask("left"), -1)
		require.Equal(t, events[:3], o.events)
		require.ErrorAs(t, o.err, new(*replay.IncompleteError))
		require.ErrorIs(t, stream(t.Context(), back.Client(nil), ask("left"), -1).err, os.ErrClosed)
	})
}

// A run of an agent with tools is reproduced byte for byte, at both levels.
func TestLoop(t *testing.T) {
	call := func(id, path string) string {
		block := `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"%s","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"%s\"}"}}

`
		all := sse("tool_use", "")
		return all[0] + fmt.Sprintf(block, id, path) + strings.Join(all[3:], "")
	}
	n := 0
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch n++; n {
		case 1:
			send(w, call("toolu_1", "a.go"))
		case 2:
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(529)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		case 3:
			send(w, call("toolu_2", "b.go"))
		default:
			send(w, sse("end_turn", "Done", " it.")...)
		}
	})
	type args struct {
		Path string `json:"path"`
	}
	run := func(m aycoder.ModelClient, prompt string) ([]byte, []string, error) {
		tool, err := aycoder.NewTool("read", "Reads.", func(_ context.Context, _ *aycoder.Invocation, in args) (*aycoder.ToolResult, error) {
			return aycoder.TextResult("content of " + in.Path), nil
		}, aycoder.WithEffect(aycoder.EffectReadOnly))
		require.NoError(t, err)
		loop, err := aycoder.New(m, aycoder.WithTools(tool), aycoder.WithRetry(aycoder.RetryPolicy{Base: time.Millisecond}))
		require.NoError(t, err)
		var res aycoder.Result
		var events []string
		for ev, err2 := range loop.Run(t.Context(), aycoder.Input{Prompt: prompt}, aycoder.Into(&res)) {
			err = err2
			events = append(events, fmt.Sprintf("%T", ev))
		}
		data, err2 := json.Marshal(res.Messages)
		require.NoError(t, err2)
		return data, events, err
	}
	wirePath, eventPath := tapePath(t), tapePath(t)
	wire, events := record(t, wirePath), record(t, eventPath)
	want, _, err := run(events.Client(claude(t, s.URL, wire)), "Read both.")
	require.NoError(t, err)
	require.Contains(t, string(want), "content of b.go")
	require.NoError(t, errors.Join(wire.Close(), events.Close()))
	s.Close()
	require.Equal(t, 4, n)

	for name, m := range map[string]func() (*replay.Tape, aycoder.ModelClient){
		"wire":   func() (*replay.Tape, aycoder.ModelClient) { b := openTape(t, wirePath); return b, claude(t, s.URL, b) },
		"events": func() (*replay.Tape, aycoder.ModelClient) { b := openTape(t, eventPath); return b, b.Client(nil) },
	} {
		for range 2 {
			tape, c := m()
			got, _, err := run(c, "Read both.")
			require.NoError(t, err, name)
			require.Equal(t, string(want), string(got), name)
			require.Empty(t, tape.Unused(), name)
		}
		_, c := m()
		events, _, err := run(c, "Read one.")
		require.ErrorAs(t, err, new(*replay.MismatchError), name)
		require.ErrorContains(t, err, `"Read both." → "Read one."`, name)
		require.NotContains(t, string(events), `"type":"retry"`, name)
	}
}

// recorded is a client that plays back one answer, recorded at one of the two levels.
func recorded(t testing.TB, wire bool, answers http.HandlerFunc) agenttest.Client {
	path := tapePath(t)
	s := serve(t, answers)
	tape := record(t, path)
	inner := claude(t, s.URL, tape)
	if wire {
		_ = stream(t.Context(), inner, ask("q"), -1)
		require.NoError(t, tape.Close())
		s.Close()
		return agenttest.Client{Model: claude(t, s.URL, openTape(t, path, replay.WithReuse(true), replay.WithIgnore("**")))}
	}
	eventPath := filepath.Join(t.TempDir(), "events")
	events := record(t, eventPath)
	_ = stream(t.Context(), events.Client(inner), ask("q"), -1)
	require.NoError(t, events.Close())
	s.Close()
	back := openTape(t, eventPath, replay.WithReuse(true), replay.WithIgnore("**"))
	return agenttest.Client{Model: back.Client(nil)}
}

// live is a client during recording.
func live(t testing.TB, wire bool, answers http.HandlerFunc) agenttest.Client {
	s := serve(t, answers)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	tape := record(t, tapePath(t), replay.WithTransport(tr))
	t.Cleanup(func() { require.NoError(t, tape.Close()) })
	if wire {
		return agenttest.Client{Model: claude(t, s.URL, tape), Idle: tape.CloseIdleConnections}
	}
	c, err := anthropic.New("claude-test", anthropic.WithAPIKey(testKey), anthropic.WithBaseURL(s.URL),
		anthropic.WithHTTPClient(&http.Client{Transport: tr}))
	require.NoError(t, err)
	return agenttest.Client{Model: tape.Client(c), Idle: tr.CloseIdleConnections}
}

func TestConformance(t *testing.T) {
	type maker func(testing.TB, bool, http.HandlerFunc) agenttest.Client
	for name, mk := range map[string]maker{"recording": live, "playing back": recorded} {
		for _, wire := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s wire %t", name, wire), func(t *testing.T) {
				t.Parallel()
				agenttest.TestModelClient(t, clients(name == "recording", func(t testing.TB, h http.HandlerFunc) agenttest.Client {
					return mk(t, wire, h)
				}))
			})
		}
	}
}

// clients returns the clients for the suite. A cancelled one is only tested during
// recording: TestCancelled plays it back.
func clients(live bool, client func(testing.TB, http.HandlerFunc) agenttest.Client) agenttest.Clients {
	refuse := func(status int, header, kind, message string) func(testing.TB) agenttest.Client {
		return func(t testing.TB) agenttest.Client {
			return client(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
			})
		}
	}
	broken := func(after func(*http.Request)) func(testing.TB, ...string) agenttest.Client {
		return func(t testing.TB, pieces ...string) agenttest.Client {
			return client(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				send(w, sse("end_turn", pieces...)[:2+len(pieces)]...)
				after(r)
			})
		}
	}
	c := agenttest.Clients{
		Text: func(t testing.TB, pieces ...string) agenttest.Client { return client(t, saying(pieces...)) },
		Refused: func(t testing.TB, text string) agenttest.Client {
			return client(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				send(w, sse("refusal", text)...)
			})
		},
		Broken:      broken(func(*http.Request) { panic(http.ErrAbortHandler) }),
		Refuse:      refuse(529, "", "overloaded_error", "Overloaded"),
		RateLimited: refuse(429, "7", "rate_limit_error", "slow down"),
		TooLarge:    refuse(400, "", "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
		Garbage: func(t testing.TB) agenttest.Client {
			return client(t, func(w http.ResponseWriter, _ *http.Request) { send(w, "data: \xff\x00{\n\n") })
		},
	}
	hang := func(r *http.Request) { <-r.Context().Done() }
	if live {
		c.Hang = broken(hang)
		c.Silent = func(t testing.TB) agenttest.Client {
			return client(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); hang(r) })
		}
	}
	return c
}

// Nil values in a request are passed to the client, and the result is played back.
func TestNilInRequests(t *testing.T) {
	hello := ask("x").Messages
	requests := []*aycoder.Request{
		{Messages: []*aycoder.Message{nil}},
		{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{nil}}}},
		{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{(*aycoder.Text)(nil)}}}},
		{Messages: hello, Tools: []*aycoder.ToolSpec{nil}},
		{Messages: hello, System: []*aycoder.Text{nil}},
	}
	client, err := anthropic.New("m", anthropic.WithAPIKey(testKey), anthropic.WithBaseURL("http://127.0.0.1:1"))
	require.NoError(t, err)
	path := tapePath(t)
	tape := record(t, path)
	check := func(m aycoder.ModelClient) {
		for _, req := range requests {
			require.ErrorAs(t, stream(t.Context(), m, req, -1).err, new(*aycoder.BadRequestError))
		}
	}
	check(tape.Client(client))
	require.NoError(t, tape.Close())
	check(openTape(t, path).Client(nil))
}
