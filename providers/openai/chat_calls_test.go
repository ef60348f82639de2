package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// chatCallPiece returns the fields of a choice with a piece of a call.
func chatCallPiece(fields string) string {
	return `"index":0,"delta":{"tool_calls":[{"index":0,` + fields + `}]}`
}

// A call without a visible end counts as complete only if the answer is complete.
func TestChatCallEnds(t *testing.T) {
	calls := []struct {
		name, body string
		sure       bool // its end is visible
	}{
		{"no arguments", chatCallPiece(`"id":"a","function":{"name":"f","arguments":""}`), false},
		{"null", chatCallPiece(`"id":"a","function":{"name":"f","arguments":null}`), false},
		{"a text that says null", chatCallPiece(`"id":"a","function":{"name":"f","arguments":"null"}`), false},
		{"custom", chatCallPiece(`"id":"a","type":"custom","custom":{"name":"f","input":"rm -rf /tmp/x"}`), false},
		{"quoted object", chatCallPiece(`"id":"a","function":{"name":"f","arguments":"\"{}\""}`), false},
		{"object", chatCallPiece(`"id":"a","function":{"name":"f","arguments":"{}"}`), true},
	}
	ends := map[string]bool{"": false, "length": false, "max_tokens": false, "content_filter": false, "sensitive": false,
		"abort": false, "repetition": false, "time_limit": false, "model_context_window_exceeded": false,
		"stop": true, "tool_calls": true, "function_call": true, "tool_use": true, "eos": true, "end_turn": true}
	for _, c := range calls {
		for end, whole := range ends {
			t.Run(c.name+"/"+end, func(t *testing.T) {
				body := []string{c.body}
				if end != "" {
					body = append(body, `"index":0,"delta":{},"finish_reason":"`+end+`"`)
				}
				a := chatAsk(t, chatChunks(body...), nil)
				require.NoError(t, a.Err)
				run := 0
				if whole || c.sure {
					run = 1
				}
				assert.Len(t, a.Message().Calls(), run, chatShow(a))
				assert.Len(t, a.Cut, 1-run, chatShow(a))
			})
		}
	}
}

func TestChatArguments(t *testing.T) {
	const end = `"index":0,"delta":{},"finish_reason":"tool_calls"`
	piece := func(args string) string {
		quoted, _ := json.Marshal(args)
		return chatCallPiece(`"function":{"arguments":` + string(quoted) + `}`)
	}
	first := func(args string) string {
		quoted, _ := json.Marshal(args)
		return chatCallPiece(`"id":"a","function":{"name":"f","arguments":` + string(quoted) + `}`)
	}
	tests := []struct {
		name   string
		pieces []string
		want   string
	}{
		{"{} before the arguments", []string{first(`{}`), piece(`{"x":1}`)}, `call a f {"x":1}`},
		{"{} before pieces", []string{first(`{}`), piece(`{"x`), piece(`":1}`)}, `call a f {"x":1}`},
		{"{} before the arguments, with the name again", []string{first(`{}`), first(`{"x":1}`)}, `call a f {"x":1}`},
		{"null before the arguments", []string{first(`null`), piece(`{"x":1}`)}, `call a f {"x":1}`},
		{"empty text before the arguments", []string{first(`""`), piece(`{"x":1}`)}, `call a f {"x":1}`},
		{"{} twice", []string{first(`{}`), piece(`{}`)}, `call a f {}`},
		{"{} in pieces", []string{first(`{`), piece(`}`)}, `call a f {}`},
		{"empty text", []string{first(`""`)}, `call a f {}`},
		{"space around", []string{first(" \n"), piece(`{"x":1} `), piece("\n")}, "call a f  \n{\"x\":1} \n"},
		{"number", []string{first(`5`)}, `cut a f 5`},
		{"list", []string{first(`[1]`)}, `cut a f [1]`},
		{"bool", []string{first(`true`)}, `cut a f true`},
		{"text", []string{first(`"x"`)}, `cut a f "x"`},
		{"object as a text", []string{first(`"{\"x\":`), piece(`1}"`)}, `call a f {"x":1}`},
		{"number as it is", []string{chatCallPiece(`"id":"a","function":{"name":"f","arguments":7}`)}, `cut a f 7`},
		{"something behind", []string{first(`{"x":1}`), piece(`}`)}, `cut a f {"x":1}}`},
		{"two objects", []string{first(`{"x":1}`), piece(`{"y":1}`)}, `cut a f {"x":1}{"y":1}`},
		{"brackets that do not fit", []string{first(`{"x":[1}}`)}, `cut a f {"x":[1}}`},
		{"brackets in a text", []string{first(`{"x":"}\"`), first(`{["}`)}, `call a f {"x":"}\"{["}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chatAsk(t, chatChunks(append(tt.pieces, end)...), nil)
			assert.Equal(t, tt.want+"\ntool_use", chatShow(a))
			calls := (&aycoder.Message{Parts: a.Parts}).Calls()
			require.Len(t, calls, 1)
			if d := a.Args["a"]; d != "" {
				assert.Equal(t, string(calls[0].Args), d, "deltas")
			}
		})
	}
}

// Additional data in a call is sent back to the same service, but not to OpenAI itself.
func TestChatExtraContent(t *testing.T) {
	const extra = `{"google": {"thought_signature":"c2ln/+=="}}`
	body := chatChunks(
		chatCallPiece(`"extra_content":`+extra+`,"id":"a","function":{"name":"f","arguments":""}`),
		chatCallPiece(`"extra_content":null,"function":{"arguments":"{}"}`), `"index":0,"delta":{},"finish_reason":"stop"`)
	gemini := WithBaseURL("https://generativelanguage.googleapis.com/v1beta/openai")
	m := wiretest.Stored(t, chatAsk(t, body, nil, gemini).Message())
	sent := func(c *Client) string {
		return string(chatEncoded(t, c, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("x"), m}}))
	}
	rt := chatServed("", 1)
	const call = `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}`
	assert.Contains(t, sent(newChat(t, rt, gemini)), call+`,"extra_content":`+extra+`}`)
	assert.Contains(t, sent(newChat(t, rt)), call+`}`)
	other, err := Groq("m", WithAPIKey("k"), WithHTTPClient(&http.Client{Transport: rt}))
	require.NoError(t, err)
	assert.Contains(t, sent(other), call+`}`)
	for _, raw := range []string{`{"extra_content":null}`, `{"extra_content":"` + "\xff" + `"}`, `{"type":"custom","a":1}`} {
		m = &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: "a", Name: "f",
			Args: json.RawMessage(`{}`), Extra: &aycoder.Opaque{Provider: "openai", Raw: json.RawMessage(raw)}}}}
		assert.Contains(t, sent(newChat(t, rt, gemini)), call+`}`, raw)
	}
}

// A few bytes each begin an object that takes much more memory.
func TestChatBounds(t *testing.T) {
	details := func(list string) string { return `"index":0,"delta":{"reasoning_details":[` + list + `]}` }
	many := func(n int, format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(all, ",")
	}
	calls := func(n int) string {
		return `"index":0,"delta":{"tool_calls":[` + many(n, `{"index":%d,"function":{"name":"f","arguments":"{}"}}`) + `]}`
	}
	choices := func(n int) string { return `{"choices":[` + many(n, `{"index":%d,"delta":{"content":"x"}}`) + `]}` }
	const stop = `"index":0,"delta":{},"finish_reason":"stop"`
	one := details(`{"type":"a","index":0,"text":"x"}`)
	tests := []struct {
		name  string
		body  []string
		limit string
	}{
		{"calls", []string{calls(chatMany), stop}, ""},
		{"too many calls", []string{calls(chatMany + 1), stop}, "calls of an answer"},
		{"details", []string{details(many(chatMany, `{"type":"a","index":%d}`)), stop}, ""},
		{"too many details", []string{details(many(chatMany+1, `{"type":"a","index":%d}`)), stop}, "reasoning details"},
		{"empty details", []string{details(strings.Repeat("{},", 2*chatMany) + "{}"), stop}, ""},
		{"answers", []string{choices(chatMany), stop}, ""},
		{"too many answers", []string{choices(chatMany + 2), stop}, "choices of an answer"},
		{"fields", []string{one, details(`{"type":"a","index":0,` + many(chatDetailFields-3, `"k%d":1`) + `}`), one, stop}, ""},
		{"too many fields", []string{one, details(`{"type":"a","index":0,` + many(chatDetailFields, `"k%d":1`) + `}`), stop}, "fields of a reasoning detail"},
		{"too many fields in pieces", []string{one, details(`{"type":"a","index":0,` + many(90, `"k%d":1`) + `}`),
			details(`{"type":"a","index":0,` + many(90, `"l%d":1`) + `}`), one, stop}, "fields of a reasoning detail"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chatAsk(t, chatChunks(tt.body...), nil)
			if tt.limit == "" {
				require.NoError(t, a.Err)
				return
			}
			var limit *aycoder.LimitError
			require.ErrorAs(t, a.Err, &limit)
			assert.Equal(t, tt.limit, limit.Limit)
		})
	}
	a := chatAsk(t, chatChunks(details(`{},{ }`), stop), nil)
	assert.Equal(t, "end_turn", chatShow(a), "what is empty does not go back")
}

// If several answers were requested, the one with index 0 is used, whichever comes first.
func TestChatFirstAnswer(t *testing.T) {
	choice := func(index int, text string) string {
		return fmt.Sprintf(`"index":%d,"delta":{"content":%q}`, index, text)
	}
	const stop = `"index":0,"delta":{},"finish_reason":"stop"`
	req := &aycoder.Request{Extra: map[string]json.RawMessage{"n": json.RawMessage("2")}}
	a := chatAsk(t, chatChunks(choice(1, "B"), choice(0, "A"), choice(1, "b"), choice(0, "a"), stop), req)
	assert.Equal(t, "text Aa\nend_turn", chatShow(a))
	a = chatAsk(t, chatChunks(choice(1, "B"), choice(2, "C")), req)
	require.Error(t, a.Err, "none of the answers is the first")
}

// A gateway's error inside of a stream may lack an envelope.
func TestChatFailuresWithoutEnvelope(t *testing.T) {
	first := `"index":0,"delta":{"content":"a"}`
	for body, want := range map[string]any{
		`{"message":"Rate limit exceeded","type":"rate_limit_error","code":429}`:                   new(*aycoder.RateLimitError),
		`{"detail":"Internal Server Error"}`:                                                       new(*aycoder.StreamBrokenError),
		`{"statusCode":401,"message":"Unauthorized"}`:                                              new(*aycoder.AuthError),
		`{"code":"50505","msg":"Model service overloaded. Please try again later.","data":null}`:   new(*aycoder.StreamBrokenError),
		`{"id":"r1","choices":null,"usage":null,"message":"Overloaded","type":"overloaded_error"}`: new(*aycoder.OverloadedError),
		`{"id":"r1","choices":[],"x_groq":{"id":"q","error":"over_capacity"}}`:                     new(*aycoder.StreamBrokenError),
	} {
		for _, chunks := range [][]string{{first, body}, {body}} {
			a := chatAsk(t, chatChunks(chunks...), nil)
			require.ErrorAs(t, a.Err, want, body)
			assert.Nil(t, a.Done)
		}
	}
	for _, body := range []string{
		`{"contentType":"text","pathname":"/v1"}`, `{"choices":[],"message":"hello"}`, `{"usage":{"prompt_tokens":1},"detail":"cached"}`,
		`{"message":null,"msg":"","detail":[]}`, `{"error":null}`, `{"error":false}`, `{"choices":[],"x_groq":{"id":"q","error":null}}`,
	} {
		a := chatAsk(t, chatChunks(first, body, `"index":0,"delta":{},"finish_reason":"stop"`), nil)
		assert.Equal(t, "text a\nend_turn", chatShow(a), body)
	}
}

// Requests may wait in DeepSeek's queue for longer than the usual idle timeout.
func TestDeepSeekIdle(t *testing.T) {
	c, err := DeepSeek("deepseek-chat", WithAPIKey("k"))
	require.NoError(t, err)
	assert.Equal(t, 10*time.Minute, c.cfg.Idle)
	c, err = DeepSeek("deepseek-chat", WithAPIKey("k"), WithIdleTimeout(time.Second))
	require.NoError(t, err)
	assert.Equal(t, time.Second, c.cfg.Idle)
}

// Arguments are closed if they are an object, whatever the pieces and however often
// closed is called.
func FuzzChatArgs(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a":[1,{"b":"}\\"}]} `, `{"a":"\"}`, `{]`, `{}x`, `{}{}`, `"{}"`, `null`, ``, "\v{}", `{"a":1}}`} {
		f.Add(s, uint8(1))
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, s string, size uint8) {
		var a chatArgs
		for piece := range slices.Chunk([]byte(s), int(size)+1) {
			a.add(string(piece))
			if got, want := a.closed(), rawjson.IsObject([]byte(a.text.String())); got != want {
				t.Fatalf("closed(%q) = %v, want %v", a.text.String(), got, want)
			}
		}
		if q := a.quoted(); q != nil && !rawjson.IsObject(q) {
			t.Errorf("quoted(%q) = %q", a.text.String(), q)
		}
	})
}

// BenchmarkChatNames decodes arguments in pieces that repeat the name of the tool: the
// time per byte must not depend on their number.
func BenchmarkChatNames(b *testing.B) {
	for _, size := range []int{4000, 40_000} {
		b.Run(fmt.Sprintf("%dpieces", size), func(b *testing.B) {
			piece := func(args string) string {
				return chatCallPiece(`"id":"a","function":{"name":"write","arguments":"` + args + `"}`)
			}
			pieces := append([]string{piece(`{\"text\":\"`)}, slices.Repeat([]string{piece("abcde ")}, size)...)
			body := chatChunks(append(pieces, piece(`\"}`), `"index":0,"delta":{},"finish_reason":"stop"`)...)
			c := newChat(b, chatServed(body, 1<<20))
			req := &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("go")}}
			for b.Loop() {
				resp, err := aycoder.Complete(b.Context(), c, req)
				require.NoError(b, err)
				require.Len(b, resp.Message.Calls(), 1)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/piece")
		})
	}
}

// A piece of arguments is copied once for the call, and its event shares the memory. Events are
// allocated several at a time.
func TestChatArgsAllocateLittle(t *testing.T) {
	piece := `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"0123456789"}}]}}]}` + "\n\n"
	cost := func(pieces int) float64 {
		body := `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",` +
			`"function":{"name":"f","arguments":"{\"a\":\""}}]}}]}` + "\n\n" + strings.Repeat(piece, pieces) +
			`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]},"finish_reason":"tool_calls"}]}` +
			"\n\ndata: [DONE]\n\n"
		return testing.AllocsPerRun(3, func() {
			c, err := New("m", WithAPIKey("sk-test-key"), WithHTTPClient(&http.Client{Transport: respServing(body, 1<<20)}))
			require.NoError(t, err)
			n := 0
			for ev, err := range c.Stream(t.Context(), respHello()) {
				require.NoError(t, err)
				if done, ok := ev.(*aycoder.BlockDone); ok {
					n = len(done.Part.(*aycoder.ToolUse).Args)
				}
			}
			require.Equal(t, len(`{"a":""}`)+10*pieces, n)
		})
	}
	assert.Less(t, (cost(1100)-cost(100))/1000, 0.2)
}
