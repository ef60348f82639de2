package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// chatChunks returns a stream of choices with these fields.
func chatChunks(choices ...string) string {
	var b strings.Builder
	for _, c := range choices {
		if !strings.HasPrefix(c, "{") {
			c = `{"id":"r1","model":"m","choices":[{` + c + `}]}`
		}
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String() + "data: [DONE]\n\n"
}

// chatAsk decodes a body.
func chatAsk(t testing.TB, body string, req *aycoder.Request, opts ...Option) *wiretest.Answer {
	t.Helper()
	if req == nil {
		req = &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hello")}}
	}
	return wiretest.Ask(t.Context(), t, newChat(t, chatServed(body, 1<<20), opts...), req)
}

// chatShow summarises the parts of an answer.
func chatShow(a *wiretest.Answer) string {
	var out []string
	for _, p := range a.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			s := "text " + p.Text
			if p.Extra != nil {
				s += " + " + string(p.Extra.Raw)
			}
			out = append(out, s)
		case *aycoder.Thinking:
			out = append(out, "think "+p.Text)
		case *aycoder.ToolUse:
			what := "call"
			for _, c := range a.Cut {
				if c == p {
					what = "cut"
				}
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", what, p.ID, p.Name, p.Args))
		case *aycoder.Opaque:
			out = append(out, "opaque "+string(p.Raw))
		}
	}
	if a.Err != nil {
		out = append(out, fmt.Sprintf("error %T", a.Err))
	}
	if a.Done != nil {
		out = append(out, string(a.Done.Stop))
	}
	return strings.Join(out, "\n")
}

func TestChatDecode(t *testing.T) {
	const stop = `"index":0,"delta":{},"finish_reason":"stop"`
	call := func(fields string) string { return `"index":0,"delta":{"tool_calls":[{` + fields + `}]}` }
	tests := []struct{ name, body, want string }{
		{"reasoning under two names", chatChunks(
			`"index":0,"delta":{"reasoning":"a","reasoning_content":"a"}`,
			`"index":0,"delta":{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}`, stop),
			"think ab\nopaque {\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"b\",\"index\":0}]}\nend_turn"},
		{"details in pieces", chatChunks(
			`"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"\ud83d","index":0,"signature":null}]}`,
			`"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"\ude00\"","index":0}]}`,
			`"index":0,"delta":{"content":"x"}`,
			`"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"","signature":"s/=","index":0},{"type":"reasoning.encrypted","data":"d","index":0}]}`, stop),
			"think 😀\"\ntext x\nopaque {\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"\\ud83d\\ude00\\\"\",\"index\":0,\"signature\":\"s/=\"}," +
				"{\"type\":\"reasoning.encrypted\",\"data\":\"d\",\"index\":0}]}\nend_turn"},
		{"details of one chunk stay apart", chatChunks(
			`"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text", "text":"a","index":0},{"type":"reasoning.text","text":"b","index":0}]}`, stop),
			"think ab\nopaque {\"reasoning_details\":[{\"type\":\"reasoning.text\", \"text\":\"a\",\"index\":0},{\"type\":\"reasoning.text\",\"text\":\"b\",\"index\":0}]}\nend_turn"},
		{"content is a list", chatChunks(`"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"so"}]}`, stop),
			"think hm\ntext so\nend_turn"},
		{"content is an object", chatChunks(`"index":0,"delta":{"content":{"type":"text","text":"so"}}`, stop), "text so\nend_turn"},
		{"calls without indexes", chatChunks(
			call(`"id":"a","function":{"name":"f","arguments":"{}"}`), call(`"id":"b","function":{"name":"f","arguments":"{\"x\":"}`),
			call(`"function":{"arguments":"1}"}`), stop),
			"call a f {}\ncall b f {\"x\":1}\ntool_use"},
		{"calls of one index", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":0,"id":"b","function":{"name":"g","arguments":"{}"}`), stop),
			"call a f {\"x\":1}\ncall b g {}\ntool_use"},
		{"calls of one index without ids", chatChunks(
			call(`"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":0,"function":{"name":"f","arguments":"{\"x\":2}"}`), stop),
			"call ID f {\"x\":1}\ncall ID f {\"x\":2}\ntool_use"},
		{"call said twice without an id", chatChunks(
			call(`"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}`), stop),
			"call ID f {\"x\":1}\ntool_use"},
		{"whole message behind its pieces", chatChunks(
			`"index":0,"delta":{"reasoning_content":"t"}`, `"index":0,"delta":{"content":"Hel"}`, `"index":0,"delta":{"content":"lo"}`,
			call(`"index":0,"function":{"name":"f","arguments":"{\"x\":1}"}`),
			`"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","reasoning_content":"t","content":"Hello","tool_calls":[`+
				`{"function":{"name":"f","arguments":"{\"x\": 1}"}}]}`),
			"think t\ntext Hello\ncall ID f {\"x\":1}\ntool_use"},
		{"whole message behind a role", chatChunks(
			`"index":0,"delta":{"role":"assistant","content":""}`, `"index":0,"finish_reason":"stop","message":{"content":"Hello"}`),
			"text Hello\nend_turn"},
		{"messages in place of pieces", chatChunks(
			`"index":0,"message":{"content":"Hel"}`, `"index":0,"message":{"content":"lo"}`, stop),
			"text Hello\nend_turn"},
		{"call said twice", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), stop),
			"call a f {\"x\":1}\ntool_use"},
		{"id changes in a call", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`), call(`"index":0,"id":"b","function":{"name":null,"arguments":"{\"x\""}`),
			call(`"index":0,"id":"c","function":{"arguments":":1}"}`), stop),
			"call a f {\"x\":1}\ntool_use"},
		{"interleaved calls", chatChunks(
			call(`"index":1,"id":"a","function":{"name":"f","arguments":"{\"x\""}`), call(`"index":2,"id":"b","function":{"name":"g","arguments":"{\"y\""}`),
			call(`"index":1,"function":{"arguments":":1}"}`), call(`"index":2,"function":{"arguments":":2}"}`), stop),
			"call a f {\"x\":1}\ncall b g {\"y\":2}\ntool_use"},
		{"id used twice", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), call(`"index":1,"id":"a","function":{"name":"f","arguments":"{}"}`), stop),
			"call a f {}\ncall ID f {}\ntool_use"},
		{"arguments are an object, null and a text that says null", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":{"x": 1}}`), call(`"index":1,"id":"b","function":{"name":"f","arguments":null}`),
			call(`"index":2,"id":"c","function":{"name":"f","arguments":"nu"}`), call(`"index":2,"function":{"arguments":"ll"}`), stop),
			"call a f {\"x\": 1}\ncall b f {}\ncall c f {}\ntool_use"},
		{"call after a finish", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), `"index":0,"delta":{},"finish_reason":"tool_calls"`,
			call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`), `"index":0,"delta":{},"finish_reason":null`),
			"call a f {}\ncall b g {}\ntool_use"},
		{"cut by the limit", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), call(`"index":1,"id":"b","function":{"name":"g","arguments":"{\"x"}`),
			`"index":0,"delta":{},"finish_reason":"length"`),
			"call a f {}\ncut b g {\"x\nmax_tokens"},
		{"arguments that did not come", chatChunks(call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`), `"index":0,"delta":{},"finish_reason":"length"`),
			"cut a f \nmax_tokens"},
		{"space after the end of a call", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`),
			call(`"index":0,"function":{"arguments":"\n"}`), stop), "call a f {\"x\":1}\ncall b g {}\ntool_use"},
		{"arguments after the end of a call", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`),
			call(`"index":0,"function":{"arguments":"x"}`), stop), "error *aycoder.StreamBrokenError"},
		{"text between calls", chatChunks(
			call(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), `"index":0,"delta":{"content":"and"}`,
			call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`), stop), "call a f {}\ntext and\ncall b g {}\ntool_use"},
		{"legacy and custom calls", chatChunks(`"index":0,"delta":{"function_call":{"name":"f","arguments":"{\"x\":"}}`, `"index":0,"delta":{"function_call":{"arguments":"1}"}}`, stop),
			"call ID f {\"x\":1}\ntool_use"},
		{"custom call", chatChunks(call(`"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"4 + "}`), call(`"index":0,"custom":{"input":"4"}`), stop),
			"call a f {\"input\":\"4 + 4\"}\ntool_use"},
		{"empty calls of other kinds", chatChunks(`"index":0,"delta":{"content":"x","function_call":{"name":"","arguments":""},"tool_calls":[]}`, stop), "text x\nend_turn"},
		{"call without a name", chatChunks(call(`"index":0,"id":"a","function":{"arguments":"{}"}`), stop), "error *aycoder.StreamBrokenError"},
		{"other answers that open with a role", chatChunks(`"index":0,"delta":{"role":"assistant","content":""}`, `"index":1,"delta":{"role":"assistant","content":""}`,
			`"index":1,"delta":{"content":"no"}`, `"index":0,"delta":{"content":"yes"}`, stop), "text yes\nend_turn"},
		{"other answers that bring the same", chatChunks(`"index":0,"delta":{"content":"a"}`, `"index":1,"delta":{"content":"x"}`, `"index":0,"delta":{"content":"b"}`, stop), "text ab\nend_turn"},
		{"indexes are phases", chatChunks(`"index":0,"delta":{"role":"assistant","reasoning_content":"hm"}`, `"index":1,"delta":{"role":"assistant","content":"so"}`,
			`"index":2,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`, `"index":2,"delta":{},"finish_reason":"tool_calls"`),
			"think hm\ntext so\ncall a f {}\ntool_use"},
		{"message so far beside the delta", chatChunks(`"message":{"content":"a"},"index":0,"delta":{"content":"a"}`, `"index":0,"delta":{"content":"b"},"message":{"content":"ab"},"finish_reason":"stop"`),
			"text ab\nend_turn"},
		{"whole answer after blank lines", "\n\n  \n" + `{"choices":[{"delta":{"content":""},"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, "text a\nend_turn"},
		{"whole answer in two choices", `{"choices":[{"message":{"content":"a"},"finish_reason":"tool_calls"},{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			"text a\ncall a f {}\ntool_use"},
		{"no end marker", strings.TrimSuffix(chatChunks(`"index":0,"delta":{"content":"a"},"finish_reason":"stop"`), "data: [DONE]\n\n"), "text a\nend_turn"},
		{"no end", strings.TrimSuffix(chatChunks(`"index":0,"delta":{"content":"a"}`), "data: [DONE]\n\n"), "error *aycoder.StreamBrokenError"},
		{"end at once", "data: [DONE]\n\n", "error *aycoder.StreamBrokenError"},
		{"refusal", chatChunks(`"index":0,"delta":{"refusal":"I "}`, `"index":0,"delta":{"refusal":"won't"}`, stop), "text I won't + {\"type\":\"refusal\"}\nrefusal"},
		{"content filter", chatChunks(`"index":0,"delta":{"content":"a"},"finish_reason":"content_filter"`), "text a\nrefusal"},
		{"citations", chatChunks(`{"citations":["u"],"choices":[{"index":0,"delta":{"content":"a"}}]}`, `"index":0,"delta":{"annotations":[{"type":"url_citation"}]},"finish_reason":"stop"`),
			"text a + {\"annotations\":[{\"type\":\"url_citation\"}],\"citations\":[\"u\"]}\nend_turn"},
		{"unknown reason", chatChunks(`"index":0,"delta":{"content":"a"},"finish_reason":"tired"`), "text a\ntired"},
		{"error in a chunk", chatChunks(`{"error":{"message":"no","type":"server_error"},"choices":[]}`), "error *aycoder.OverloadedError"},
		{"error in a choice", chatChunks(`"index":0,"error":{"message":"no","type":"server_error"},"delta":{}`), "error *aycoder.OverloadedError"},
		{"error in a field", "error: {\"message\":\"no\",\"type\":\"server_error\"}\n\n", "error *aycoder.OverloadedError"},
		{"error as an object", chatChunks(`{"object":"error","message":"no","type":"rate_limit_error"}`), "error *aycoder.RateLimitError"},
		{"error as a reason", chatChunks(`"index":0,"delta":{},"finish_reason":"error"`), "error *aycoder.StreamBrokenError"},
		{"no resources", chatChunks(`"index":0,"delta":{},"finish_reason":"insufficient_system_resource"`), "error *aycoder.OverloadedError"},
		{"filter in a body", `{"error":{"code":"content_filter","message":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, "error *aycoder.RefusalError"},
		{"body without choices", `{"id":"x","choices":[]}`, "error *aycoder.StreamBrokenError"},
		{"spaces around the end marker", strings.Replace(chatChunks(`"index":0,"delta":{"content":"a"},"finish_reason":"stop"`), "[DONE]", "  [DONE] ", 1), "text a\nend_turn"},
		{"finish_details", `{"choices":[{"message":{"content":"a"},"finish_details":{"type":"max_tokens"}}]}`, "text a\nmax_tokens"},
		{"finish_details beside a reason", `{"choices":[{"finish_details":{"type":"max_tokens"},"message":{"content":"a"},"finish_reason":"stop"}]}`, "text a\nend_turn"},
		{"not JSON", "data: hello\n\n", "error *aycoder.StreamBrokenError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chatAsk(t, tt.body, nil)
			got := chatShow(a)
			for _, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
				if strings.HasPrefix(u.ID, "call_") {
					got = strings.ReplaceAll(got, u.ID, "ID")
				}
				if d := a.Args[u.ID]; d != "" {
					assert.Equal(t, d, string(u.Args), "deltas")
				}
			}
			if strings.HasPrefix(tt.want, "error") {
				got = got[strings.LastIndex(got, "error"):]
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestChatUsage(t *testing.T) {
	tests := []struct {
		name, usage string
		want        aycoder.Usage
	}{
		{"plain", `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, aycoder.Usage{Input: 10, Output: 5}},
		{"cached", `{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8}}`, aycoder.Usage{Input: 2, CacheRead: 8, Output: 5}},
		{"DeepSeek", `{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}`, aycoder.Usage{Input: 2, CacheRead: 8, Output: 5}},
		{"written", `{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cache_write_tokens":9}}`, aycoder.Usage{Input: 1, CacheWrite: 9, Output: 5}},
		{"more cached than read", `{"prompt_tokens":24,"completion_tokens":2,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":161}}`, aycoder.Usage{CacheRead: 24, Output: 2}},
		{"reasoning apart", `{"prompt_tokens":12,"completion_tokens":2,"total_tokens":354,"completion_tokens_details":{"reasoning_tokens":340}}`, aycoder.Usage{Input: 12, Output: 342, Reasoning: 340}},
		{"reasoning within", `{"prompt_tokens":12,"completion_tokens":400,"total_tokens":412,"completion_tokens_details":{"reasoning_tokens":340}}`, aycoder.Usage{Input: 12, Output: 400, Reasoning: 340}},
		{"sounds apart", `{"prompt_tokens":9,"completion_tokens":248,"total_tokens":632,"prompt_tokens_details":{"audio_tokens":375}}`, aycoder.Usage{Input: 384, Output: 248}},
		{"negative", `{"prompt_tokens":-1,"completion_tokens":-5,"completion_tokens_details":{"reasoning_tokens":-3}}`, aycoder.Usage{}},
		{"null", `null`, aycoder.Usage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chatAsk(t, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":`+tt.usage+`}`, nil)
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, a.Done.Usage)
		})
	}
	a := chatAsk(t, chatChunks(`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"completion_tokens":9}}],"usage":null}`,
		`{"choices":[],"usage":{"completion_tokens":3}}`, `{"choices":[],"usage":null,"x_groq":{"usage":{"completion_tokens":7}}}`), nil)
	assert.EqualValues(t, 3, a.Done.Usage.Output, "the last one counts")
}

// Generated ids are the same each time, and differ between responses.
func TestChatMadeUpIDs(t *testing.T) {
	body := func(id string) string {
		return `{` + id + `"created":1,"choices":[{"message":{"tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}}]},"finish_reason":"tool_calls"}]}`
	}
	ids := func(id string) (ids []string) {
		for _, u := range chatAsk(t, body(id), nil).Message().Calls() {
			ids = append(ids, u.ID)
		}
		require.Len(t, ids, 2)
		return ids
	}
	for _, id := range []string{``, `"id":"r1",`} {
		assert.Equal(t, ids(id), ids(id))
		assert.NotEqual(t, ids(id)[0], ids(id)[1])
		assert.NotEqual(t, ids(id)[0], ids(`"id":"r2",`)[0])
	}
}

// A call that is known to be complete is emitted before the stream ends, so that it can
// start.
func TestChatEarlyCalls(t *testing.T) {
	c := newChat(t, chatServed(chatChunks(
		`"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`,
		`"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}`,
		`"index":0,"delta":{},"finish_reason":"tool_calls"`), 1<<20))
	var order []string
	for ev, err := range c.Stream(t.Context(), &aycoder.Request{}) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolDelta:
			order = append(order, "delta "+ev.Name)
		case *aycoder.BlockDone:
			order = append(order, "done "+ev.Part.(*aycoder.ToolUse).Name)
		}
	}
	assert.Equal(t, []string{"delta f", "done f", "delta g", "done g"}, order)
}

// Tools keep their original names, whatever their names on the wire.
func TestChatMappedNames(t *testing.T) {
	req := &aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "a.b"}}}
	name := toolName("a.b")
	require.NotEqual(t, "a.b", name)
	native := chatAsk(t, chatChunks(`"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"`+name+`","arguments":"{}"}}]}`), req)
	assert.Equal(t, "call c a.b {}\ntool_use", chatShow(native))
	text := chatAsk(t, xmlBody("<function="+name+">\n</function>", 3, "stop"), req, WithXMLTools(true)).Message().Calls()
	require.Len(t, text, 1)
	assert.Equal(t, "a.b", text[0].Name)
}

// Printed values do not contain a key, wherever the service quotes it.
func TestChatKeysAreNotShown(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	for _, body := range []string{
		`{"error":{"message":"Incorrect API key provided: ` + key + `","type":"` + key + `","code":"` + key + `"}}`,
		"data: " + key + "\n\n", "data: {\"x\":" + key + "\n\n",
		"error: " + key + "\n\n", chatChunks(`"index":0,"error":{"message":"` + key + `"},"delta":{}`),
	} {
		c := newChat(t, chatServed(body, 1<<20), WithAPIKey(key))
		a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{})
		require.Error(t, a.Err)
		base, ok := errors.AsType[*aycoder.ModelError](a.Err)
		require.True(t, ok)
		for _, shown := range []string{a.Err.Error(), fmt.Sprintf("%+v %#v", a.Err, *base), base.Kind, c.String(), fmt.Sprintf("%+v %#v %v", c, c, *c)} {
			assert.NotContains(t, shown, key)
			assert.NotContains(t, shown, "very-secret")
		}
		assert.Equal(t, "openai", base.Provider)
		assert.Equal(t, "gpt-test", base.Model)
	}
}

func FuzzChatDecode(f *testing.F) {
	for _, s := range []string{
		chatChunks(`"index":0,"delta":{"content":"<think>a</think><function=f>\n<parameter=x>\n1\n</parameter>\n</function>"},"finish_reason":"stop"`),
		chatChunks(`"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`),
		`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"text":"a"}]}],"reasoning_details":[{"type":"reasoning.text","text":"x"}]}}]}`,
		"error: {\"message\":1}\n\n", "data: {\"choices\":[{\"index\":3,\"delta\":{\"function_call\":{\"name\":\"f\",\"arguments\":{}}}}]}\n\ndata: [DONE]\n\n",
	} {
		f.Add([]byte(s), uint8(0), false)
		f.Add([]byte(s), uint8(6), true)
	}
	tools := []*aycoder.ToolSpec{{Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`)}}
	f.Fuzz(func(t *testing.T, body []byte, size uint8, special bool) {
		var opts []Option
		if special {
			opts = []Option{WithThinkTags(true), WithXMLTools(true)}
		}
		c := newChat(t, chatServed(string(body), int(size)+1), opts...)
		a := wiretest.Ask(t.Context(), t, c, &aycoder.Request{Tools: tools})
		if (a.Done == nil) == (a.Err == nil) {
			t.Fatalf("done %v, error %v", a.Done, a.Err)
		}
		seen := map[string]bool{}
		for _, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
			if u.ID == "" || seen[u.ID] || u.Name == "" {
				t.Errorf("call %+v", u)
			}
			seen[u.ID] = true
		}
		for _, u := range a.Message().Calls() {
			if !json.Valid(u.Args) {
				t.Errorf("arguments %q", u.Args)
			}
		}
		if a.Done != nil && (a.Text != a.Message().Text() || len(a.Text) > len(body)*3) {
			t.Errorf("text of deltas is %q, of the message %q", a.Text, a.Message().Text())
		}
		chatEncoded(t, c, &aycoder.Request{Messages: []*aycoder.Message{a.Message()}})
	})
}
