package bedrock

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func opaque(raw string) *aycoder.Opaque {
	return &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(raw)}
}

func TestDecode(t *testing.T) {
	args := func(s string) string {
		text, _ := json.Marshal(s)
		return piece(`{"toolUse":{"input":` + string(text) + `}}`)
	}
	use := func(args string) aycoder.Part {
		return &aycoder.ToolUse{ID: "c", Name: "n", Args: json.RawMessage(args)}
	}
	started := func(start string) string { return `contentBlockStart {"contentBlockIndex":0,"start":` + start + `}` }
	tests := []struct {
		name string
		data []string
		want []aycoder.Part
		cut  int // how many of them are cut off
		stop aycoder.StopReason
	}{
		{"nothing", []string{begin, endTurn, meta}, nil, 0, "end_turn"},
		{"no reason", []string{begin, `messageStop {}`, meta}, nil, 0, "end_turn"},
		{"no usage", []string{begin, textPiece("a"), stop0, endTurn}, []aycoder.Part{&aycoder.Text{Text: "a"}}, 0, "end_turn"},
		{"text", []string{begin, textPiece("a"), textPiece(""), textPiece("b"), stop0, endTurn, meta}, []aycoder.Part{&aycoder.Text{Text: "ab"}}, 0, "end_turn"},
		{"text that never stopped", []string{begin, textPiece("a"), endTurn, meta}, []aycoder.Part{&aycoder.Text{Text: "a"}}, 0, "end_turn"},
		{"arguments", []string{begin, newCall, args(""), args(`{"a"`), args(`: "\"x"}`), stop0, useTool, meta}, []aycoder.Part{use(`{"a": "\"x"}`)}, 0, "tool_use"},
		{"no arguments", []string{begin, newCall, stop0, useTool, meta}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"the calls decide", []string{begin, newCall, stop0, endTurn, meta}, []aycoder.Part{use(`{}`)}, 0, "tool_use"},
		{"cut arguments", []string{begin, newCall, args(`{"a"`), stop0, tooMany, meta}, []aycoder.Part{use(`{"a"`)}, 1, "max_tokens"},
		{"cut after the name", []string{begin, newCall, stop0, tooMany, meta}, []aycoder.Part{use(`{}`)}, 1, "max_tokens"},
		{"never stopped", []string{begin, newCall, args(`{}`), useTool, meta}, []aycoder.Part{use(`{}`)}, 1, "tool_use"},
		{"reasoning", []string{begin, piece(`{"reasoningContent":{"text":"a"}}`), piece(`{"reasoningContent":{"text":"b"}}`), piece(`{"reasoningContent":{"signature":"s=="}}`), stop0, endTurn, meta},
			[]aycoder.Part{&aycoder.Thinking{Text: "ab", Signature: "s==", Provider: "bedrock"}}, 0, "end_turn"},
		{"redacted", []string{begin, piece(`{"reasoningContent":{"redactedContent":"YWJj"}}`), stop0, endTurn, meta},
			[]aycoder.Part{opaque(`{"reasoningContent":{"redactedContent":"YWJj"}}`)}, 0, "end_turn"},
		{"redacted in pieces", []string{begin, piece(`{"reasoningContent":{"redactedContent":"YQ=="}}`), piece(`{"reasoningContent":{"redactedContent":"YmM="}}`), stop0, endTurn, meta},
			[]aycoder.Part{opaque(`{"reasoningContent":{"redactedContent":"YWJj"}}`)}, 0, "end_turn"},
		{"image", []string{begin, started(`{"image":{"format":"png"}}`), piece(`{"image":{"source":{"bytes":"YWJj"}}}`), stop0, endTurn, meta},
			[]aycoder.Part{opaque(`{"image":{"format":"png","source":{"bytes":"YWJj"}}}`)}, 0, "end_turn"},
		{"citations", []string{begin, textPiece("a"), piece(`{"citation":{ "x":1}}`), textPiece("b"), piece(`{"citation":{"y":2}}`), stop0, endTurn, meta},
			[]aycoder.Part{&aycoder.Text{Text: "ab", Extra: opaque(`{"citations":[{ "x":1},{"y":2}]}`)}}, 0, "end_turn"},
		{"server call", []string{begin, started(`{"toolUse":{"toolUseId":"s","name":"w","type":"server_tool_use"}}`), args(`{"q":`), args(`1}`), stop0,
			started(`{"toolResult":{"toolUseId":"s","status":"success"}}`), piece(`{"toolResult":[{"text":"a"}]}`), piece(`{"toolResult":[{"json":{}}]}`), stop0, endTurn, meta},
			[]aycoder.Part{opaque(`{"toolUse":{"toolUseId":"s","name":"w","type":"server_tool_use","input":{"q":1}}}`),
				opaque(`{"toolResult":{"toolUseId":"s","status":"success","content":[{"text":"a"},{"json":{}}]}}`)}, 0, "end_turn"},
		{"server call cut off", []string{begin, started(`{"toolUse":{"toolUseId":"s","name":"w","type":"server_tool_use"}}`), args(`{"q"`), stop0, tooMany, meta}, nil, 0, "max_tokens"},
		{"new block", []string{begin, piece(`{"news":{"a":1}}`), stop0, endTurn, meta}, []aycoder.Part{opaque(`{"news":{"a":1}}`)}, 0, "end_turn"},
		{"guardrail", []string{begin, textPiece("a"), stop0, `messageStop {"stopReason":"guardrail_intervened"}`, meta}, []aycoder.Part{&aycoder.Text{Text: "a"}}, 0, "refusal"},
		{"filter", []string{begin, `messageStop {"stopReason":"content_filtered"}`, meta}, nil, 0, "refusal"},
		{"own reason", []string{begin, `messageStop {"stopReason":"bored"}`, meta}, nil, 0, "bored"},
		{"unknown events", []string{`news {}`, begin, endTurn, `more {"a":1}`, meta, "nonsense {"}, nil, 0, "end_turn"},
		{"stopped twice", []string{begin, textPiece("a"), stop0, stop0, endTurn, meta}, []aycoder.Part{&aycoder.Text{Text: "a"}}, 0, "end_turn"},
		{"not UTF-8", []string{begin, textPiece("a\xff"), stop0, endTurn, meta}, []aycoder.Part{&aycoder.Text{Text: "a\ufffd"}}, 0, "end_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, answered(200, frames(tt.data...)))
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, a.Parts)
			assert.Len(t, a.Cut, tt.cut)
			assert.Equal(t, tt.stop, a.Done.Stop)
			assert.Equal(t, "req-1", a.Done.ID)
			if slices.Contains(tt.data, meta) {
				assert.Equal(t, aycoder.Usage{Input: 3, Output: 2}, a.Done.Usage)
			}
		})
	}
}

func TestDecodeWhole(t *testing.T) {
	whole := func(stop string, blocks string) string {
		return `{"output":{"message":{"role":"assistant","content":[` + blocks + `]}},"stopReason":"` + stop +
			`","usage":{"inputTokens":3,"outputTokens":2,"cacheReadInputTokens":-1},"metrics":{}}`
	}
	const call = `{"toolUse":{"toolUseId":"c","name":"n","input":{ "p":1}}}`
	use := &aycoder.ToolUse{ID: "c", Name: "n", Args: json.RawMessage(`{ "p":1}`)}
	tests := []struct {
		name, body string
		want       []aycoder.Part
		cut        int
		err        string
	}{
		{"text and call", whole("tool_use", `{"text":"a"},`+call), []aycoder.Part{&aycoder.Text{Text: "a"}, use}, 0, ""},
		{"the limit may have cut the last call", whole("max_tokens", call+`,`+call), nil, 1, ""},
		{"reasoning", whole("end_turn", `{"reasoningContent":{"reasoningText":{"text":"a","signature":"s"}}}`),
			[]aycoder.Part{&aycoder.Thinking{Text: "a", Signature: "s", Provider: provider}}, 0, ""},
		{"redacted", whole("end_turn", `{ "reasoningContent":{"redactedContent":"YWJj"} }`),
			[]aycoder.Part{opaque(`{ "reasoningContent":{"redactedContent":"YWJj"} }`)}, 0, ""},
		{"citations", whole("end_turn", `{"citationsContent":{"content":[{"text":"a"},{"text":"b"}],"citations":[ {"x":1} ]}}`),
			[]aycoder.Part{&aycoder.Text{Text: "ab", Extra: opaque(`{"citations":[ {"x":1} ]}`)}}, 0, ""},
		{"citations alone", whole("end_turn", `{"citationsContent":{"citations":[{}]}}`), []aycoder.Part{opaque(`{"citationsContent":{"citations":[{}]}}`)}, 0, ""},
		{"server tools", whole("end_turn", `{"toolUse":{"toolUseId":"s","name":"w","input":{},"type":"server_tool_use"}},{"toolResult":{"x":1}}`),
			[]aycoder.Part{opaque(`{"toolUse":{"toolUseId":"s","name":"w","input":{},"type":"server_tool_use"}}`), opaque(`{"toolResult":{"x":1}}`)}, 0, ""},
		{"cut", whole("end_turn", `{"text":"a"}`)[:90], nil, 0, "has no end"},
		{"failure", `{"message":"The model is busy"}`, nil, 0, "The model is busy"},
		{"something else", `{"hello":1}`, nil, 0, `{"hello":1}`},
		{"no reason", `{"output":{"message":{"content":[]}}}`, nil, 0, "connection lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, answered(200, tt.body))
			if tt.err != "" {
				require.ErrorContains(t, a.Err, tt.err)
				_, typed := errors.AsType[*aycoder.ModelError](a.Err)
				assert.True(t, typed)
				return
			}
			require.NoError(t, a.Err)
			assert.Len(t, a.Cut, tt.cut)
			assert.Equal(t, aycoder.Usage{Input: 3, Output: 2}, a.Done.Usage)
			if tt.cut == 0 {
				assert.Equal(t, tt.want, a.Parts)
			}
		})
	}
}

func TestDecodeNonsense(t *testing.T) {
	tests := []struct {
		name string
		data []string
		want string
	}{
		{"no start", []string{textPiece("a")}, "outside of a message"},
		{"end without a start", []string{endTurn, meta}, "messageStop before messageStart"},
		{"after the end", []string{begin, endTurn, textPiece("a")}, "outside of a message"},
		{"arguments without a call", []string{begin, piece(`{"toolUse":{"input":"{}"}}`)}, "not open"},
		{"text in a call", []string{begin, newCall, textPiece("a")}, `text for a block of type "toolUse"`},
		{"no JSON", []string{begin, `contentBlockDelta {"`}, "decode event \"contentBlockDelta\""},
		{"no object", []string{begin, `contentBlockDelta []`}, "not a JSON object"},
		{"no end", []string{begin, textPiece("a"), stop0}, "before the message was complete"},
		{"usage without an end", []string{begin, meta}, "before the message was complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, answered(200, frames(tt.data...)))
			e, ok := errors.AsType[*aycoder.StreamBrokenError](a.Err)
			require.True(t, ok, "%v", a.Err)
			assert.ErrorContains(t, e, tt.want)
			assert.Nil(t, a.Done)
		})
	}
	many := []string{begin}
	for n := range maxOpen + 1 {
		many = append(many, fmt.Sprintf(`contentBlockDelta {"contentBlockIndex":%d,"delta":{"text":"a"}}`, n))
	}
	assert.ErrorContains(t, ask(t, answered(200, frames(many...))).Err, "more than 1000 blocks are open")
}

func TestErrors(t *testing.T) {
	exception := func(name, message string) string {
		return frames(begin, textPiece("a")) + string(eventstream.AppendException(nil, name, `{"message":"`+message+`"}`))
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   error
	}{
		{"throttled", 200, exception("throttlingException", "slow"), &aycoder.RateLimitError{}},
		{"validation", 200, exception("validationException", "x"), &aycoder.BadRequestError{}},
		{"too long", 200, exception("validationException", "Input is too long for requested model."), &aycoder.ContextTooLargeError{}},
		{"stream error", 200, exception("modelStreamErrorException", "x"), &aycoder.OverloadedError{}},
		{"inside", 200, exception("internalServerException", "x"), &aycoder.OverloadedError{}},
		{"unavailable", 200, exception("serviceUnavailableException", "x"), &aycoder.OverloadedError{}},
		{"unknown", 200, exception("oddException", "x"), &aycoder.StreamBrokenError{}},
		{"status 429", 429, `{"message":"Too many tokens per day, please wait before trying again."}`, &aycoder.RateLimitError{}},
		{"status 403", 403, `{"message":"You don't have access to the model with the specified model ID."}`, &aycoder.AuthError{}},
		{"status 400", 400, `{"message":"The provided model identifier is invalid."}`, &aycoder.UnknownModelError{}},
		{"status 400, length", 400, `{"message":"The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum"}`, &aycoder.ContextTooLargeError{}},
		{"status 424", 424, `{"message":"x"}`, &aycoder.OverloadedError{}},
		{"status 503", 503, `{"message":"x"}`, &aycoder.OverloadedError{}},
		{"proxy", 502, `<html>`, &aycoder.OverloadedError{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, answered(tt.status, tt.body))
			require.IsType(t, tt.want, a.Err)
			base, _ := errors.AsType[*aycoder.ModelError](a.Err)
			assert.Equal(t, "req-1", base.RequestID)
			assert.NotContains(t, fmt.Sprintf("%+v %#v", a.Err, a.Err), testKey)
		})
	}
}

// Every call has its own id, whatever the service sends, and the ids are the same when
// the response is read again.
func TestIDs(t *testing.T) {
	events := []string{begin}
	for n := range 3 {
		events = append(events, fmt.Sprintf(`contentBlockStart {"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":"n"}}}`, n, []string{"", "x", "x"}[n]),
			fmt.Sprintf(`contentBlockStop {"contentBlockIndex":%d}`, n))
	}
	body := frames(append(events, useTool, meta)...)
	var before []string
	for range 2 {
		seen := map[string]bool{}
		var ids []string
		for _, c := range ask(t, answered(200, body)).Message().Calls() {
			assert.False(t, seen[c.ID] || c.ID == "", "%q", c.ID)
			seen[c.ID] = true
			ids = append(ids, c.ID)
		}
		assert.Len(t, ids, 3)
		if before != nil {
			assert.Equal(t, before, ids)
		}
		before = ids
	}
}

// A call is emitted when it is complete, not when the message is.
func TestCallsComeEarly(t *testing.T) {
	a := ask(t, answered(200, frames(begin, newCall, piece(`{"toolUse":{"input":"{\"a\":1}"}}`), stop0)))
	assert.Error(t, a.Err)
	assert.Len(t, a.Message().Calls(), 1)
}

// No input makes the decoder panic, and its events are always consistent. The frames are
// valid, because otherwise nearly every input would fail at a checksum.
func FuzzDecode(f *testing.F) {
	f.Add(begin+"\n"+textPiece("a")+"\n"+stop0+"\n"+endTurn+"\n"+meta, uint16(5), byte(7))
	f.Add(begin+"\n"+newCall+"\n"+piece(`{"toolUse":{"input":"{}"}}`)+"\n"+stop0+"\n"+useTool+"\n"+meta, uint16(300), byte(1))
	f.Add(begin+"\n"+piece(`{"reasoningContent":{"redactedContent":"YQ=="}}`)+"\n"+piece(`{"citation":{}}`)+"\n"+tooMany, uint16(99), byte(3))
	f.Add(`{"output":{"message":{"content":[{"text":"a"},{"toolUse":{"input":[]}}]}},"stopReason":"end_turn"}`, uint16(20), byte(0))
	f.Fuzz(func(t *testing.T, in string, at uint16, size byte) {
		body := in
		if !strings.HasPrefix(strings.TrimSpace(in), "{") {
			body = frames(strings.Split(in, "\n")...)
		}
		for _, b := range []string{body, body[:min(int(at), len(body))]} {
			var i wiretest.Interaction
			i.Response.Status = 200
			check(t, wiretest.Ask(t.Context(), t, newClient(t, i.Transport(b, int(size)+1)), hello()))
		}
	})
}

// check checks the properties of every answer.
func check(t *testing.T, a *wiretest.Answer) {
	require.NotEqual(t, a.Done != nil, a.Err != nil, "either done or an error")
	if a.Err != nil {
		_, typed := errors.AsType[*aycoder.ModelError](a.Err)
		require.True(t, typed, "%v", a.Err)
	}
	for _, call := range a.Message().Calls() {
		require.True(t, json.Valid(call.Args), "%q", call.Args)
		require.NotEmpty(t, call.ID)
	}
	_, err := json.Marshal(a.Message())
	require.NoError(t, err)
	data, err := wireKey{}.fragment(a.Message())
	require.NoError(t, err)
	require.True(t, json.Valid([]byte("["+string(data)+"]")), "%q", data)
}

func TestLargeEvent(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "an event of 10 MB")
	cost := func(size int) time.Duration {
		text := strings.Repeat("é", size/2)
		var i wiretest.Interaction
		i.Response.Status = 200
		body := frames(begin, textPiece(text), stop0, endTurn, meta)
		return timed.Best(2, func() {
			a := wiretest.Ask(t.Context(), t, newClient(t, i.Transport(body, 1000)), hello())
			require.NoError(t, a.Err)
			require.True(t, a.Text == text)
		})
	}
	small, large := cost(1<<20), cost(10<<20)
	t.Logf("1 MB: %v, 10 MB: %v", small, large)
	timed.AtMost(t, large, 60*small)
}

// BenchmarkDecode reads 10,000 deltas, and compares with the least work of any decoder:
// split the frames by length, and find the text between two quotes.
func BenchmarkDecode(b *testing.B) {
	const n = 10_000
	events := append(slices.Repeat([]string{textPiece("some word")}, n), stop0, endTurn, meta)
	body := frames(append([]string{begin}, events...)...)
	b.Run("ours", func(b *testing.B) {
		c := newClient(b, answered(200, body))
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range c.Stream(b.Context(), hello()) {
				require.NoError(b, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.Equal(b, n*len("some word"), floor(b, strings.NewReader(body)))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
	})
}

func floor(b *testing.B, r io.Reader) (text int) {
	br := bufio.NewReader(r)
	var buf []byte
	head := make([]byte, 12)
	for {
		if _, err := io.ReadFull(br, head); err == io.EOF {
			return text
		}
		size := int(binary.BigEndian.Uint32(head)) - len(head)
		buf = slices.Grow(buf[:0], size)[:size]
		_, err := io.ReadFull(br, buf)
		require.NoError(b, err)
		payload := string(buf[binary.BigEndian.Uint32(head[4:]) : size-4])
		if _, rest, ok := strings.Cut(payload, `"delta":{"text":"`); ok {
			text += strings.IndexByte(rest, '"')
		}
	}
}

// Redacted content is kept unchanged, whether or not it is valid base64.
func TestRedactedBytes(t *testing.T) {
	raw := base64.StdEncoding.EncodeToString([]byte("secret"))
	a := ask(t, answered(200, frames(begin, piece(`{"reasoningContent":{"redactedContent":"`+raw+`"}}`), stop0, endTurn, meta)))
	require.NoError(t, a.Err)
	data, err := wireKey{}.fragment(wiretest.Stored(t, a.Message()))
	require.NoError(t, err)
	assert.Equal(t, `{"reasoningContent":{"redactedContent":"`+raw+`"}}`, string(data))
}

// The key is in nothing that is printed, logged or returned.
func TestKeyIsNeverShown(t *testing.T) {
	echo := roundTrip(func(r *http.Request) (*http.Response, error) {
		key := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
		body := `{"message":"bad key ` + key + `"}`
		return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Request-Id": {key}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	})
	c := newClient(t, echo)
	err := wiretest.Ask(t.Context(), t, c, hello()).Err
	require.ErrorContains(t, err, "[key]")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", c, "err", err)
	shown := fmt.Sprintf("%v %+v %#v %s %v %+v %+v %#v", c, c, c, c, c.cfg, c.cfg, err, err) + log.String()
	assert.NotContains(t, shown, "SECRET")
	assert.Contains(t, log.String(), "model=")
}

// Two calls under one index cannot be told apart: the first does not run without the
// arguments that went to the second.
func TestCallsOfOneIndex(t *testing.T) {
	again := strings.Replace(newCall, `"c"`, `"d"`, 1)
	body := frames(begin, newCall, again, piece(`{"toolUse":{"input":"{}"}}`), stop0, stop0, useTool, meta)
	a := ask(t, wiretest.Answering(t, "application/vnd.amazon.eventstream", body))
	require.NoError(t, a.Err)
	require.Len(t, a.Cut, 1)
	assert.Equal(t, "c", a.Cut[0].ID)
}
