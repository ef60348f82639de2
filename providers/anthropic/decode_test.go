package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	gosse "github.com/tmaxmax/go-sse"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// events formats data lines as an event stream.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var head struct{ Type string }
		_ = json.Unmarshal([]byte(d), &head)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", head.Type, d)
	}
	return b.String()
}

const (
	begin   = `{"type":"message_start","message":{"id":"m","model":"x","content":[],"usage":{"input_tokens":1}}}`
	stop0   = `{"type":"content_block_stop","index":0}`
	endTurn = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	useTool = `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`
	tooMany = `{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`
	end     = `{"type":"message_stop"}`
)

func started(block string) string {
	return `{"type":"content_block_start","index":0,"content_block":` + block + `}`
}

func piece(delta string) string {
	return `{"type":"content_block_delta","index":0,"delta":` + delta + `}`
}

func TestDecode(t *testing.T) {
	call := started(`{"type":"tool_use","id":"c","name":"n","input":{}}`)
	args := func(s string) string {
		text, _ := json.Marshal(s)
		return piece(`{"type":"input_json_delta","partial_json":` + string(text) + `}`)
	}
	use := func(args string) aycoder.Part {
		return &aycoder.ToolUse{ID: "c", Name: "n", Args: json.RawMessage(args)}
	}
	opaque := func(raw string) aycoder.Part {
		return &aycoder.Opaque{Provider: "anthropic", Raw: json.RawMessage(raw)}
	}
	tests := []struct {
		name string
		data []string
		want []aycoder.Part
		cut  int // how many of them are cut off
		stop aycoder.StopReason
	}{
		{"nothing", []string{begin, endTurn, end}, nil, 0, "end_turn"},
		{"no reason", []string{begin, end}, nil, 0, "end_turn"},
		{"no reason, a call", []string{begin, call, args("{}"), stop0, end}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"arguments", []string{begin, call, args(""), args(`{"a"`), args(`: "\"x"}`), stop0, useTool, end}, []aycoder.Part{use(`{"a": "\"x"}`)}, 0, "tool_use"},
		{"no arguments", []string{begin, call, stop0, useTool, end}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"null arguments", []string{begin, call, args("null"), stop0, useTool, end}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"null input", []string{begin, started(`{"type":"tool_use","id":"c","name":"n","input":null}`), stop0, useTool, end}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"whole input", []string{begin, started(`{"type":"tool_use","id":"c","name":"n","input":{ "a":1}}`), stop0, useTool, end}, []aycoder.Part{use(`{ "a":1}`)}, 0, "tool_use"},
		{"cut arguments", []string{begin, call, args(`{"a"`), stop0, tooMany, end}, []aycoder.Part{use(`{"a"`)}, 1, "max_tokens"},
		{"cut after the name", []string{begin, call, stop0, tooMany, end}, []aycoder.Part{use(`{}`)}, 1, "max_tokens"},
		{"never stopped", []string{begin, call, args(`{}`), useTool, end}, []aycoder.Part{use(`{}`)}, 1, "tool_use"},
		{"two without arguments", []string{begin, call, stop0, started(`{"type":"tool_use","id":"d","name":"n","input":{}}`), stop0, tooMany, end},
			[]aycoder.Part{use(`{}`), &aycoder.ToolUse{ID: "d", Name: "n", Args: json.RawMessage(`{}`)}}, 1, "max_tokens"},
		{"whole input before the limit", []string{begin, started(`{"type":"tool_use","id":"c","name":"n","input":{"a":1}}`), stop0, tooMany, end}, []aycoder.Part{use(`{"a":1}`)}, 1, "max_tokens"},
		{"arguments that are not an object", []string{begin, call, args(`[1]`), stop0, useTool, end}, []aycoder.Part{use(`[1]`)}, 1, "tool_use"},
		{"an id twice", []string{begin, call, args("{}"), stop0, call, args("{}"), stop0, useTool, end},
			[]aycoder.Part{use(`{}`), &aycoder.ToolUse{ID: api.MakeID("m", 1), Name: "n", Args: json.RawMessage(`{}`)}}, 0, "tool_use"},
		{"no id", []string{begin, started(`{"type":"tool_use","id":null,"name":"n"}`), args("{}"), stop0, useTool, end},
			[]aycoder.Part{&aycoder.ToolUse{ID: api.MakeID("m", 0), Name: "n", Args: json.RawMessage(`{}`)}}, 0, "tool_use"},
		{"text that never stopped", []string{begin, started(`{"type":"text","text":"a"}`), piece(`{"type":"text_delta","text":"b"}`), endTurn, end}, []aycoder.Part{&aycoder.Text{Text: "ab"}}, 0, "end_turn"},
		{"citations", []string{begin, started(`{"type":"text","text":"a","citations":[]}`), piece(`{"type":"citations_delta","citation":{ "x":1}}`), piece(`{"type":"citations_delta","citation":{"y":2}}`), stop0, endTurn, end},
			[]aycoder.Part{&aycoder.Text{Text: "a", Extra: opaque(`{"citations":[{ "x":1},{"y":2}]}`).(*aycoder.Opaque)}}, 0, "end_turn"},
		{"signature only", []string{begin, started(`{"type":"thinking","thinking":"","signature":""}`), piece(`{"type":"signature_delta","signature":"s"}`), stop0, endTurn, end},
			[]aycoder.Part{&aycoder.Thinking{Signature: "s", Provider: "anthropic"}}, 0, "end_turn"},
		{"texts that are not of the kind", []string{begin, started(`{"type":"thinking","thinking":""}`), piece(`{"text":"x","thinking":"a","type":"thinking_delta"}`), piece(`{"text":"x","type":"signature_delta","signature":"s"}`), piece(`{"text":"x","type":"thinking_delta"}`), stop0, endTurn, end},
			[]aycoder.Part{&aycoder.Thinking{Text: "a", Signature: "s", Provider: "anthropic"}}, 0, "end_turn"},
		{"server call", []string{begin, started(`{"type":"server_tool_use","id":"s","name":"w","input":{},"x":null}`), args(`{"q":1}`), stop0, endTurn, end},
			[]aycoder.Part{opaque(`{"type":"server_tool_use","id":"s","name":"w","input":{"q":1},"x":null}`)}, 0, "end_turn"},
		{"server call cut off", []string{begin, started(`{"type":"server_tool_use","id":"s","name":"w","input":{}}`), args(`{"q"`), stop0, tooMany, end}, nil, 0, "max_tokens"},
		{"as it came", []string{begin, started(`{ "type":"new_thing", "text": 5 }`), stop0, endTurn, end}, []aycoder.Part{opaque(`{ "type":"new_thing", "text": 5 }`)}, 0, "end_turn"},
		{"unknown deltas", []string{begin, started(`{"type":"new","a":"x","b":null,"c":[1]}`), piece(`{"type":"new_delta","a":"\n","b":{"z":1},"c":[2,3]}`), piece(`{"type":"new_delta","a":"y","b":2,"c":[]}`), stop0, endTurn, end},
			[]aycoder.Part{opaque(`{"type":"new","a":"x\ny","b":2,"c":[1,2,3]}`)}, 0, "end_turn"},
		{"content in the start", []string{`{"type":"message_start","message":{"id":"m","model":"x","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"n","input":{}}]}}`, useTool, end},
			[]aycoder.Part{&aycoder.Text{Text: "a"}, use(`{}`)}, 0, "tool_use"},
		{"stopped twice", []string{begin, started(`{"type":"text","text":"a"}`), stop0, stop0, endTurn, end}, []aycoder.Part{&aycoder.Text{Text: "a"}}, 0, "end_turn"},
		{"unknown events", []string{begin, `{"type":"news"}`, "[DONE]", endTurn, end, "nonsense after the end"}, nil, 0, "end_turn"},
		{"not UTF-8", []string{begin, started(`{"type":"text","text":""}`), piece("{\"type\":\"text_delta\",\"text\":\"a\xff\"}"), stop0, endTurn, end}, []aycoder.Part{&aycoder.Text{Text: "a\ufffd"}}, 0, "end_turn"},
		{"NUL and half a pair", []string{begin, started(`{"type":"text","text":""}`), piece(`{"type":"text_delta","text":"\u0000\ud83d"}`), stop0, endTurn, end}, []aycoder.Part{&aycoder.Text{Text: "\x00\ufffd"}}, 0, "end_turn"},
		{"own reason", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"bored"}}`, end}, nil, 0, "bored"},
		{"paused", []string{begin, `{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, end}, nil, 0, aycoder.StopPaused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(newClient(t, stream(events(tt.data...))))
			require.NoError(t, a.err)
			assert.Equal(t, tt.want, a.parts)
			assert.Len(t, a.Cut, tt.cut)
			assert.Equal(t, tt.stop, a.Stop)
		})
	}
}

// A service answers with a document although a stream was requested.
func TestDecodeWhole(t *testing.T) {
	const ok = `{"type":"message","id":"m","model":"x","stop_reason":%q,"content":[{"type":"text","text":"a` + "\xff" + `"},` +
		`{"type":"tool_use","id":"c","name":"n","input":{"p":1}}],"usage":{"input_tokens":1,"output_tokens":2}}`
	tests := []struct {
		name, body string
		calls, cut int
		err        string
	}{
		{"tool use", fmt.Sprintf(ok, "tool_use"), 1, 0, ""},
		{"blank lines first", strings.Repeat("\r\n", 400) + fmt.Sprintf(ok, "tool_use"), 1, 0, ""},
		{"byte order mark", "\xEF\xBB\xBF" + fmt.Sprintf(ok, "tool_use"), 1, 0, ""},
		{"part of a byte order mark", "\xEF\xBB", 0, 0, "stream ended"},
		{"the limit may have cut the last call", fmt.Sprintf(ok, "max_tokens"), 0, 1, ""},
		{"no end", fmt.Sprintf(ok, ""), 0, 0, "not a complete message"},
		{"cut", fmt.Sprintf(ok, "tool_use")[:90], 0, 0, "unexpected end"},
		{"something else", `{"hello":1}`, 0, 0, "bad request"},
		{"error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 0, 0, "Overloaded"},
		{"web page", `<html></html>`, 0, 0, "web page instead of JSON"},
		{"nothing", ``, 0, 0, "stream ended before the message was complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(newClient(t, stream(tt.body)))
			if tt.err != "" {
				require.ErrorContains(t, a.err, tt.err)
				_, typed := errors.AsType[*aycoder.ModelError](a.err)
				assert.True(t, typed)
				return
			}
			require.NoError(t, a.err)
			assert.Equal(t, "a\ufffd", a.text)
			assert.Len(t, a.Message.Calls(), tt.calls)
			assert.Len(t, a.Cut, tt.cut)
			assert.Equal(t, `{"p":1}`, a.args["c"])
			assert.Equal(t, aycoder.Usage{Input: 1, Output: 2}, a.Usage)
		})
	}
}

func TestDecodeNonsense(t *testing.T) {
	tests := []struct {
		name string
		data []string
		want string
	}{
		{"no start", []string{started(`{"type":"text"}`)}, "before message_start"},
		{"end without a start", []string{end}, "before message_start"},
		{"delta without a start", []string{endTurn}, "before message_start"},
		{"block that is not open", []string{begin, piece(`{"type":"text_delta","text":"a"}`)}, "not open"},
		{"new delta for no block", []string{begin, piece(`{"type":"x"}`)}, "not open"},
		{"delta of another kind", []string{begin, started(`{"type":"text"}`), piece(`{"type":"thinking_delta","thinking":"a"}`)}, `for a block of type "text"`},
		{"arguments of a text", []string{begin, started(`{"type":"text"}`), piece(`{"type":"input_json_delta","partial_json":"{}"}`)}, `input_json_delta for a block of type "text"`},
		{"arguments of a thought", []string{begin, started(`{"type":"thinking"}`), piece(`{"partial_json":"{}","type":"input_json_delta"}`)}, `input_json_delta for a block of type "thinking"`},
		{"no JSON", []string{begin, `{"type":`}, "decode event"},
		{"no object", []string{begin, `[]`}, "not a JSON object"},
		{"index that is not a number", []string{begin, `{"type":"content_block_stop","index":"0"}`}, "index is not a number"},
		{"text that is none", []string{begin, started(`{"type":"text"}`), piece(`{"type":"text_delta","text":5}`)}, "text is not a string"},
		{"wrong types", []string{begin, started(`{"type":"text","text":5}`)}, "decode content_block_start"},
		{"no block", []string{begin, `{"type":"content_block_start","index":0}`}, "decode content_block_start"},
		{"no delta", []string{begin, started(`{"type":"text"}`), `{"type":"content_block_delta","index":0}`}, "decode content_block_delta"},
		{"too many are open", append([]string{begin}, slices.Repeat([]string{started(`{"type":"text"}`)}, maxOpen+1)...), "more than 1000 blocks are open"},
		{"no end", []string{begin, started(`{"type":"text","text":"a"}`), stop0, endTurn}, "before the message was complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(newClient(t, stream(events(tt.data...))))
			e, ok := errors.AsType[*aycoder.StreamBrokenError](a.err)
			require.True(t, ok, "%v", a.err)
			assert.ErrorContains(t, e, tt.want)
			assert.False(t, a.done)
		})
	}
}

// A call is emitted when it is complete, not when the message is.
func TestCallsComeEarly(t *testing.T) {
	data := events(begin, started(`{"type":"tool_use","id":"c","name":"n","input":{}}`),
		piece(`{"type":"input_json_delta","partial_json":"{\"a\":1}"}`), stop0)
	a := ask(newClient(t, stream(data)))
	assert.Error(t, a.err)
	assert.Len(t, a.Message.Calls(), 1)
}

// Blocks may stop in another order than that of the message.
func TestBlocksComeInOrder(t *testing.T) {
	start := func(index int, block string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
	}
	text := func(index int) string { return start(index, fmt.Sprintf(`{"type":"text","text":"t%d"}`, index)) }
	call := func(index int) string {
		return start(index, fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"n","input":{}}`, index))
	}
	args := func(index int) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, index)
	}
	stop := func(index int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index) }
	tests := []struct {
		name string
		data []string
		want string // the parts in their order, with "!" after a truncated one
	}{
		{"one after the other", []string{text(0), stop(0), call(1), stop(1), useTool, end}, "t0 c1"},
		{"second stops first", []string{text(0), text(1), stop(1), stop(0), endTurn, end}, "t0 t1"},
		{"third stops first", []string{text(0), call(1), text(2), stop(2), stop(0), stop(1), useTool, end}, "t0 c1 t2"},
		{"second begins first", []string{text(1), text(0), stop(0), stop(1), endTurn, end}, "t0 t1"},
		{"until the first has stopped", []string{text(0), call(1), stop(1)}, ""},
		{"as soon as the first has stopped", []string{text(0), call(1), args(1), stop(1), stop(0)}, "t0 c1"},
		{"a call whose turn it is", []string{call(0), text(1), args(0), stop(0)}, "c0"},
		{"a call that may be cut, then another stops", []string{call(0), text(1), stop(0), stop(1)}, "c0 t1"},
		{"the first never stops", []string{text(0), call(1), stop(1), useTool, end}, "t0 c1"},
		{"a call that never stops", []string{call(0), call(1), args(1), stop(1), useTool, end}, "c0! c1"},
		{"cut after the name, as the last that stopped", []string{call(0), call(1), args(1), stop(1), stop(0), tooMany, end}, "c0! c1"},
		{"whole, since another stopped later", []string{call(0), call(1), stop(1), args(0), stop(0), tooMany, end}, "c0 c1"},
		{"an open index that is used again", []string{text(0), call(0), args(0), stop(0), useTool}, "c0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(newClient(t, stream(events(append([]string{begin}, tt.data...)...))))
			assert.Equal(t, tt.want, order(&a))
		})
	}
}

// order lists the parts of an answer.
func order(a *answer) string {
	var names []string
	for _, p := range a.parts {
		switch p := p.(type) {
		case *aycoder.Text:
			names = append(names, p.Text)
		case *aycoder.ToolUse:
			if slices.Contains(a.Cut, p) {
				names = append(names, p.ID+"!")
			} else {
				names = append(names, p.ID)
			}
		}
	}
	return strings.Join(names, " ")
}

func TestManyCalls(t *testing.T) {
	timed.Serial(t)
	data := []string{begin}
	for n := range 10_000 {
		data = append(data, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%[1]d","name":"n","input":{}}}`, n),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, n))
	}
	a := ask(newClient(t, stream(events(append(data, useTool, end)...))))
	require.NoError(t, a.err)
	assert.Len(t, a.Message.Calls(), 10_000)
}

// The fast path reads the same from a delta as the slow one, and as encoding/json.
func FuzzReadEvent(f *testing.F) {
	for _, s := range []string{
		piece(`{"type":"text_delta","text":"a\n\"\u00e9\ud83d\ude00\/é"}`) + "  ", piece(`{"type":"input_json_delta","partial_json":""}`),
		piece(`{"type":"thinking_delta","thinking":"a\x"} `), piece(`{"type":"signature_delta","signature":"\\"}`),
		piece(`{"text":"a","signature":"b","type":"signature_delta"}`), piece(`{"type":"text_delta","text":"a","text":"b"}`),
		`{"type":"content_block_delta","index":01,"delta":{"type":"text_delta","text":"a"}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "\ufffd")
		var slow event
		quick := event{kind: "content_block_delta"}
		var ok bool
		quick.index, ok = quick.delta.scan(s)
		err := slow.read(s)
		if err != nil {
			require.False(t, ok, "%q: %v", s, err)
			return
		}
		require.True(t, json.Valid([]byte(s)), "%q", s)
		if !ok {
			return
		}
		require.Equal(t, slow, quick, "%q", s)
		var e struct {
			Type  string
			Index int
			Delta struct{ Type, Text, Partial_json, Thinking, Signature string }
		}
		require.NoError(t, json.Unmarshal([]byte(s), &e), "%q", s)
		d := e.Delta
		got := quick.delta
		require.Equal(t, []any{e.Type, e.Index, d.Type, d.Text + d.Partial_json + d.Thinking + d.Signature},
			[]any{quick.kind, quick.index, got.kind, got.text}, "%q", s)
	})
}

// No input makes the decoder panic, and no truncated input makes it report a complete
// message.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(helloStream), uint16(40))
	f.Add([]byte(events(begin, started(`{"type":"tool_use","id":"c","name":"n"}`),
		piece(`{"type":"input_json_delta","partial_json":"{}"}`), stop0, useTool, end)), uint16(300))
	f.Add([]byte(`{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"x"}]}`), uint16(20))
	f.Add([]byte(events(begin, started(`{"type":"new","a":[1]}`), piece(`{"type":"x_delta","a":[2]}`), stop0, endTurn, end)), uint16(99))
	f.Fuzz(func(t *testing.T, body []byte, at uint16) {
		whole := ask(newClient(t, stream(string(body))))
		check(t, whole)
		cut := ask(newClient(t, stream(string(body[:min(int(at), len(body))]))))
		check(t, cut)
		framed := chunked(strings.Split(string(body), "\n")...)
		aws := WithBedrock("us-east-1")
		check(t, ask(newClient(t, stream(framed), aws)))
		check(t, ask(newClient(t, stream(framed[:min(int(at), len(framed))]), aws)))
		if !whole.done && cut.done {
			t.Logf("complete only when cut: %q at %d", body, at) // the rest was invalid
		}
	})
}

// check checks the properties of every answer.
func check(t *testing.T, a answer) {
	require.NotEqual(t, a.done, a.err != nil, "either done or an error")
	if a.err != nil {
		_, typed := errors.AsType[*aycoder.ModelError](a.err)
		require.True(t, typed, "%v", a.err)
	}
	for _, call := range a.Message.Calls() {
		require.True(t, json.Valid(call.Args), "%q", call.Args)
	}
	_, err := json.Marshal(a.Message)
	require.NoError(t, err)
	data, err := wireKey{}.encode(a.Message)
	require.NoError(t, err)
	require.True(t, len(data) == 0 || json.Valid(data[1:]), "%q", data)
}

func deltas(n int, one string) string {
	return msgStart + textStart + strings.Repeat(one, n) + blockStop + msgEnd
}

func BenchmarkDecode(b *testing.B) {
	const n = 10_000
	escaped := strings.Replace(textDelta, "hi", `a \"b\"\n`, 1)
	for _, in := range []struct{ name, body string }{{"plain", deltas(n, textDelta)}, {"escapes", deltas(n, escaped)}} {
		b.Run(in.name+"/ours", func(b *testing.B) {
			c := newClient(b, stream(in.body))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range c.Stream(b.Context(), hello()) {
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
		})
		b.Run(in.name+"/floor", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.Positive(b, floor(strings.NewReader(in.body)))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
		})
		b.Run(in.name+"/go-sse+json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text := 0
				for ev, err := range gosse.Read(bytes.NewReader([]byte(in.body)), nil) {
					require.NoError(b, err)
					var e struct {
						Type  string
						Index int
						Delta struct{ Type, Text string }
					}
					require.NoError(b, json.Unmarshal([]byte(ev.Data), &e))
					text += len(e.Delta.Text)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
		})
	}
}

// floor is the least work of any decoder: find the lines, and the text between two
// quotes.
func floor(r io.Reader) (text int) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if _, rest, ok := strings.Cut(string(data), `"text_delta","text":"`); ok {
			text += strings.LastIndexByte(rest, '"')
		}
	}
	return text
}

// Gateways report errors without the type "error".
func TestErrorWithoutType(t *testing.T) {
	const failure = `{"error":{"type":"rate_limit_error","message":"slow down"}}`
	for name, body := range map[string]string{"event": events(begin, failure), "document": failure} {
		t.Run(name, func(t *testing.T) {
			a := ask(newClient(t, stream(body)))
			_, ok := errors.AsType[*aycoder.RateLimitError](a.err)
			require.True(t, ok, "%v", a.err)
		})
	}
}

// Two calls under one index cannot be told apart: the first does not run without the
// arguments that went to the second.
func TestCallsOfOneIndex(t *testing.T) {
	call := func(id string) string { return started(`{"type":"tool_use","id":"` + id + `","name":"n","input":{}}`) }
	args := piece(`{"type":"input_json_delta","partial_json":"{}"}`)
	body := events(begin, call("a"), call("b"), args, stop0, stop0, useTool, end)
	c := newClient(t, wiretest.Answering(t, wiretest.Stream, body))
	a := wiretest.Ask(t.Context(), t, c, hello())
	require.NoError(t, a.Err)
	require.Len(t, a.Cut, 1)
	assert.Equal(t, "a", a.Cut[0].ID)
}

// The buffer that events are read into is used again, for later events and by other streams.
func TestNothingOfTheBufferIsKept(t *testing.T) {
	var data strings.Builder
	data.WriteString(events(
		`{"type":"message_start","message":{"id":"msg_1","model":"model-1","content":[{"type":"text","text":"early"}],"usage":{"input_tokens":1}}}`,
		started(`{"type":"tool_use","id":"call_1","name":"lookup","input":{},"caller":{"type":"direct"}}`),
		piece(`{"type":"input_json_delta","partial_json":"{\"a\":1}"}`), stop0,
		started(`{"type":"text","text":"","citations":[{"n":1}]}`), piece(`{"type":"text_delta","text":"late"}`),
		piece(`{"type":"citations_delta","citation":{"n":2}}`), stop0,
		`{"type":"message_delta","delta":{"stop_reason":"some_reason"},"usage":{"output_tokens":2}}`))
	for range 40 { // more than a buffer
		data.WriteString(events(`{"type":"ping","overwrite":"` + strings.Repeat("x", 50) + `"}`))
	}
	a := ask(newClient(t, stream(data.String()+events(end))))
	other := ask(newClient(t, stream(strings.Repeat(": yyyyyyyyyyyyyyyyyyyyyyyy\n\n", 100)+events(begin, endTurn, end))))
	require.NoError(t, a.err)
	require.NoError(t, other.err)
	assert.Equal(t, "msg_1", a.ID)
	assert.Equal(t, "model-1", a.Model)
	assert.Equal(t, aycoder.StopReason("some_reason"), a.Stop)
	assert.Equal(t, []aycoder.Part{
		&aycoder.Text{Text: "early"},
		&aycoder.ToolUse{ID: "call_1", Name: "lookup", Args: json.RawMessage(`{"a":1}`),
			Extra: &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(`{"caller":{"type":"direct"}}`)}},
		&aycoder.Text{Text: "late",
			Extra: &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(`{"citations":[{"n":1},{"n":2}]}`)}},
	}, a.parts)
}
