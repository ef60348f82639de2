package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func encoded(t testing.TB, req *aycoder.Request, opts ...Option) string {
	data, err := newClient(t, nil, opts...).wire(req)
	require.NoError(t, err)
	require.True(t, json.Valid(data), "%s", data)
	return string(data)
}

func TestEncode(t *testing.T) {
	const head = `{"model":"claude-test","max_tokens":8192,"stream":true`
	tool := &aycoder.ToolSpec{Name: "read", Description: "d", Schema: json.RawMessage(`{"type":"object"}`)}
	tests := []struct {
		name string
		req  aycoder.Request
		opts []Option
		want string
	}{
		{"empty", aycoder.Request{}, nil, head + `,"messages":[]}`},
		{"model", aycoder.Request{Model: "other", MaxTokens: 5}, nil,
			`{"model":"other","max_tokens":5,"stream":true,"messages":[]}`},
		{"client's max tokens", aycoder.Request{}, []Option{WithMaxTokens(7)},
			`{"model":"claude-test","max_tokens":7,"stream":true,"messages":[]}`},
		{"cache", aycoder.Request{System: []*aycoder.Text{{Text: "a"}, {Text: " "}, {Text: "b"}, {}},
			Tools: []*aycoder.ToolSpec{tool, tool}, Messages: []*aycoder.Message{aycoder.User("q")}}, nil,
			head + `,"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]` +
				`,"tools":[{"name":"read","description":"d","input_schema":{"type":"object"}},` +
				`{"name":"read","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]` +
				`,"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}]}`},
		{"cache for an hour", aycoder.Request{System: []*aycoder.Text{{Text: "a"}}}, []Option{WithCacheTTL(time.Hour)},
			head + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[]}`},
		{"no cache", aycoder.Request{NoCache: true, System: []*aycoder.Text{{Text: "a"}},
			Tools: []*aycoder.ToolSpec{tool}, Messages: []*aycoder.Message{aycoder.User("q")}}, nil,
			head + `,"system":[{"type":"text","text":"a"}],"tools":[{"name":"read","description":"d","input_schema":{"type":"object"}}]` +
				`,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}]}`},
		{"thinking raises max tokens", aycoder.Request{Thinking: 10000}, nil,
			`{"model":"claude-test","max_tokens":18192,"stream":true,"thinking":{"type":"enabled","budget_tokens":10000},"messages":[]}`},
		{"least thinking", aycoder.Request{Thinking: 1}, nil,
			head + `,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[]}`},
		{"no thinking", aycoder.Request{Thinking: -1}, nil, head + `,"thinking":{"type":"disabled"},"messages":[]}`},
		{"adaptive thinking", aycoder.Request{Model: "claude-opus-4-8", Thinking: 10000, Temperature: new(1.0)}, nil,
			`{"model":"claude-opus-4-8","max_tokens":18192,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"medium"},"messages":[]}`},
		{"adaptive thinking is off", aycoder.Request{Model: "claude-opus-4-7", Thinking: -1, Temperature: new(0.5)}, nil,
			`{"model":"claude-opus-4-7","max_tokens":8192,"stream":true,"messages":[]}`},
		{"adaptive thinking is turned off", aycoder.Request{Model: "claude-sonnet-5", Thinking: -1}, nil,
			`{"model":"claude-sonnet-5","max_tokens":8192,"stream":true,"thinking":{"type":"disabled"},"messages":[]}`},
		{"thinking before it adapts", aycoder.Request{Model: "claude-opus-4-6", Thinking: 2000}, nil,
			`{"model":"claude-opus-4-6","max_tokens":8192,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[]}`},
		{"effort beside a format", aycoder.Request{Model: "claude-opus-5", Thinking: 99999, MaxTokens: 200000,
			Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}}, nil,
			`{"model":"claude-opus-5","max_tokens":200000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object","properties":{},"additionalProperties":false}}},"messages":[]}`},
		{"a schema without a type", aycoder.Request{NoCache: true, Tools: []*aycoder.ToolSpec{{Name: "x", Schema: json.RawMessage(`{"properties":{}}`)}}}, nil,
			head + `,"tools":[{"name":"x","input_schema":{"type":"object","properties":{}}}],"messages":[]}`},
		{"sampling", aycoder.Request{Temperature: new(0.25), Stop: []string{"a", "\""}}, nil,
			head + `,"temperature":0.25,"stop_sequences":["a","\""],"messages":[]}`},
		{"extra", aycoder.Request{Thinking: 5000, Extra: map[string]json.RawMessage{
			"top_k": json.RawMessage(`3`), "max_tokens": json.RawMessage(`9`), "thinking": json.RawMessage(`{"type":"adaptive"}`)}}, nil,
			`{"model":"claude-test","stream":true,"max_tokens":9,"thinking":{"type":"adaptive"},"top_k":3,"messages":[]}`},
		{"any tool", aycoder.Request{NoCache: true, Tools: []*aycoder.ToolSpec{{Name: "x"}}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}}, nil,
			head + `,"tools":[{"name":"x","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"messages":[]}`},
		{"no tool", aycoder.Request{NoCache: true, Tools: []*aycoder.ToolSpec{{Name: "x"}}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNone}}, nil,
			head + `,"tools":[{"name":"x","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"},"messages":[]}`},
		{"one tool", aycoder.Request{NoCache: true, Tools: []*aycoder.ToolSpec{{Name: "x"}}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "x"}}, nil,
			head + `,"tools":[{"name":"x","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"x"},"messages":[]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, encoded(t, &tt.req, tt.opts...)) })
	}
}

// The API refuses a request with both sides of these.
func TestEncodeLeavesOutWhatExcludes(t *testing.T) {
	tools := []*aycoder.ToolSpec{{Name: "x"}}
	some, one := aycoder.ToolChoice{Mode: aycoder.ToolAny}, aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "x"}
	extra := map[string]json.RawMessage{"tool_choice": json.RawMessage(`{"type":"auto"}`)}
	own := map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"disabled"}`)}
	tests := []struct {
		name                  string
		req                   aycoder.Request
		thinking, temperature string
		maxTokens             int
	}{
		{"auto", aycoder.Request{Thinking: 2000, Tools: tools}, "enabled", "", 8192},
		{"any tool", aycoder.Request{Thinking: 2000, Tools: tools, ToolChoice: some}, "", "", 8192},
		{"one tool", aycoder.Request{Thinking: 2000, Tools: tools, ToolChoice: one}, "", "", 8192},
		{"no room is made", aycoder.Request{Thinking: 9000, Tools: tools, ToolChoice: one}, "", "", 8192},
		{"off and any tool", aycoder.Request{Thinking: -1, Tools: tools, ToolChoice: some}, "disabled", "", 8192},
		{"any of no tools", aycoder.Request{Thinking: 2000, ToolChoice: some}, "enabled", "", 8192},
		{"the caller's own choice", aycoder.Request{Thinking: 2000, Tools: tools, ToolChoice: some, Extra: extra}, "enabled", "", 8192},
		{"temperature", aycoder.Request{Thinking: 2000, Temperature: new(0.5)}, "enabled", "", 8192},
		{"temperature 1", aycoder.Request{Thinking: 2000, Temperature: new(1.0)}, "enabled", "1", 8192},
		{"temperature, off", aycoder.Request{Thinking: -1, Temperature: new(0.5)}, "disabled", "0.5", 8192},
		{"temperature and any tool", aycoder.Request{Thinking: 2000, Temperature: new(0.5), Tools: tools, ToolChoice: some}, "", "0.5", 8192},
		{"temperature, the caller's own thinking", aycoder.Request{Thinking: 2000, Temperature: new(0.5), Extra: own}, "disabled", "0.5", 8192},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got struct {
				Thinking    struct{ Type string }
				Temperature json.Number
				MaxTokens   int `json:"max_tokens"`
			}
			require.NoError(t, json.Unmarshal([]byte(encoded(t, &tt.req)), &got))
			assert.Equal(t, tt.thinking, got.Thinking.Type)
			assert.Equal(t, tt.temperature, got.Temperature.String())
			assert.Equal(t, tt.maxTokens, got.MaxTokens)
		})
	}
}

func TestEncodeMessage(t *testing.T) {
	user, assistant, system := aycoder.RoleUser, aycoder.RoleAssistant, aycoder.RoleSystem
	ours := func(raw string) *aycoder.Opaque {
		return &aycoder.Opaque{Provider: "anthropic", Raw: json.RawMessage(raw)}
	}
	tests := []struct {
		name  string
		role  aycoder.Role
		parts []aycoder.Part
		want  string // the content, empty if the message is left out
	}{
		{"escapes", user, []aycoder.Part{&aycoder.Text{Text: "<a> \"\\\n\r\t\x00\x1f é\u2028 \xff"}},
			`{"type":"text","text":"<a> \"\\\n\r\t\u0000\u001f é` + "\u2028" + ` ` + "\ufffd" + `"}`},
		{"nothing", user, nil, ""},
		{"blank text", user, []aycoder.Part{&aycoder.Text{}, &aycoder.Text{Text: " \n"}}, ""},
		{"citations", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: ours(`{"citations":[ 1 ]}`)}},
			`{"type":"text","text":"a","citations":[ 1 ]}`},
		{"another's extra", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: &aycoder.Opaque{Provider: "x", Raw: json.RawMessage(`{"a":1}`)}}},
			`{"type":"text","text":"a"}`},
		{"broken extra", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: ours(`{"a"`)}, &aycoder.Text{Text: "b", Extra: ours(` { } `)}},
			`{"type":"text","text":"a"},{"type":"text","text":"b"}`},
		{"thinking", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Signature: "s", Provider: "anthropic"}},
			`{"type":"thinking","thinking":"t","signature":"s"}`},
		{"thinking of nothing", assistant, []aycoder.Part{&aycoder.Thinking{Signature: "s", Provider: "anthropic"}},
			`{"type":"thinking","thinking":"","signature":"s"}`},
		{"thinking not signed", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Provider: "anthropic"}}, ""},
		{"another's thinking", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Signature: "s", Provider: "google"}}, ""},
		{"opaque", assistant, []aycoder.Part{ours(`{ "type" : "x" }`), &aycoder.Opaque{Provider: "x", Raw: json.RawMessage(`{}`)}, ours(`[`), ours("{\"a\":\"\xff\"}")},
			`{ "type" : "x" }`},
		{"call", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "toolu_1", Name: "read", Args: json.RawMessage(`{"a": 1}`), Extra: ours(`{"caller":{"type":"direct"}}`)}},
			`{"type":"tool_use","id":"toolu_1","name":"read","input":{"a": 1},"caller":{"type":"direct"}}`},
		{"call that was cut off", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "read", Args: json.RawMessage(`{"a": `)}, &aycoder.ToolUse{ID: "2", Name: "n", Args: json.RawMessage(`[]`)}},
			`{"type":"tool_use","id":"1","name":"read","input":{}},{"type":"tool_use","id":"2","name":"n","input":{}}`},
		{"names of others", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "functions.x:0", Name: "a b"}},
			`{"type":"tool_use","id":"functions_x_0_e8e8c763431edc72","name":"a_b_e63f991904833892","input":{}}`},
		{"results come first", user, []aycoder.Part{&aycoder.Text{Text: "go on"}, &aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{&aycoder.Text{Text: "ok"}}}, &aycoder.ToolOutput{ID: "2", IsError: true}, &aycoder.ToolOutput{ID: "3"}},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"ok"}]},` +
				`{"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"failed without a message"}],"is_error":true},` +
				`{"type":"tool_result","tool_use_id":"3"},{"type":"text","text":"go on"}`},
		{"system", system, []aycoder.Part{&aycoder.Text{Text: "be\nbrief"}}, `{"type":"text","text":"<system>\nbe\nbrief\n</system>"}`},
		{"image", user, []aycoder.Part{&aycoder.Media{Type: "image/PNG", Data: []byte("abc")}, &aycoder.Media{Type: "image/jpg", URL: "https://x/y"}},
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"YWJj"}},{"type":"image","source":{"type":"url","url":"https://x/y"}}`},
		{"documents", user, []aycoder.Part{&aycoder.Media{Type: "application/pdf", Name: "n", Data: []byte("abc")}, &aycoder.Media{Type: "text/csv; charset=utf-8", Data: []byte("a,b")}},
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"YWJj"},"title":"n"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"}}`},
		// "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes", of base64
		{"large image", user, []aycoder.Part{&aycoder.Media{Type: "image/png", Name: "a.png", Data: make([]byte, 3_932_161)}},
			`{"type":"text","text":"[3932161 bytes of image/png, which this model is not shown: a.png]"}`},
		{"sound", user, []aycoder.Part{&aycoder.Media{Type: "audio/wav", Name: "a.wav", Data: []byte("abc")}},
			`{"type":"text","text":"[3 bytes of audio/wav, which this model is not shown: a.wav]"}`},
		{"image in a result", user, []aycoder.Part{&aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{&aycoder.Media{Type: "image/gif", Data: []byte("abc")}, ours(`{}`)}}},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"YWJj"}}]}`},
		{"image in an error", user, []aycoder.Part{&aycoder.ToolOutput{ID: "1", IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "x"}, &aycoder.Media{Type: "image/gif", Name: "a.gif", Data: []byte("abc")}, &aycoder.Media{Type: "application/pdf", URL: "https://x/y"}}}},
			`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"},{"type":"text","text":"[3 bytes of image/gif, which this model is not shown: a.gif]"},` +
				`{"type":"text","text":"[0 bytes of application/pdf, which this model is not shown: https://x/y]"}],"is_error":true}`},
		{"media without data", user, []aycoder.Part{&aycoder.Media{Type: "image/png"}, &aycoder.Media{Type: "application/pdf", Name: "n"}},
			`{"type":"text","text":"[0 bytes of image/png, which this model is not shown]"},{"type":"text","text":"[0 bytes of application/pdf, which this model is not shown: n]"}`},
		{"out of place", user, []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "n"}, &aycoder.Thinking{Text: "t", Signature: "s", Provider: "anthropic"}}, ""},
		{"media by the model", assistant, []aycoder.Part{&aycoder.Media{Type: "image/png", URL: "u"}, &aycoder.ToolOutput{ID: "1"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := wireKey{}.encode(&aycoder.Message{Role: tt.role, Parts: tt.parts})
			require.NoError(t, err)
			if tt.want == "" {
				assert.Empty(t, data)
				return
			}
			assert.True(t, json.Valid(data[1:]))
			role := "user"
			if tt.role == assistant {
				role = "assistant"
			}
			assert.Equal(t, `,{"role":"`+role+`","content":[`+tt.want+`]}`, string(data))
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	field := func(name, val string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(val)}
	}
	parts := func(p ...aycoder.Part) aycoder.Request {
		return aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: p}}}
	}
	tests := []struct {
		name string
		req  aycoder.Request
		want string
	}{
		{"messages in Extra", aycoder.Request{Extra: field("messages", "[]")}, `field "messages" is not for Extra`},
		{"Extra that is not JSON", aycoder.Request{Extra: field("a", "{")}, `field "a" of Extra is not JSON`},
		{"temperature", aycoder.Request{Temperature: new(math.NaN())}, "temperature NaN is not a number"},
		{"schema", aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x", Schema: json.RawMessage(`[]`)}}}, `tool "x": schema is not a JSON object`},
		{"nil tool", aycoder.Request{Tools: []*aycoder.ToolSpec{nil}}, "tool 0 is nil"},
		{"nil message", aycoder.Request{Messages: []*aycoder.Message{nil}}, "message 0 is nil"},
		{"nil system block", aycoder.Request{System: []*aycoder.Text{{Text: "a"}, nil}}, "system block 1 is nil"},
		{"nil part", parts(nil), "message 0: part 0 is nil"},
		{"nil text", parts(&aycoder.Text{Text: "a"}, (*aycoder.Text)(nil)), "message 0: part 1 is nil"},
		{"nil thinking", parts((*aycoder.Thinking)(nil)), "message 0: part 0 is nil"},
		{"nil call", parts((*aycoder.ToolUse)(nil)), "message 0: part 0 is nil"},
		{"nil output", parts((*aycoder.ToolOutput)(nil)), "message 0: part 0 is nil"},
		{"nil media", parts((*aycoder.Media)(nil)), "message 0: part 0 is nil"},
		{"nil opaque", parts((*aycoder.Opaque)(nil)), "message 0: part 0 is nil"},
		{"nil in an output", parts(&aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{(*aycoder.Media)(nil)}}), "message 0: part 0: part 0 is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := askFor(t.Context(), newClient(t, nil), &tt.req)
			e, ok := errors.AsType[*aycoder.BadRequestError](a.err)
			require.True(t, ok, "%v", a.err)
			assert.Equal(t, "encode request: "+tt.want, e.Err.Error())
		})
	}
}

// A request has its own tools, not those of a previous one.
func TestToolCache(t *testing.T) {
	c := newClient(t, nil)
	spec := &aycoder.ToolSpec{Name: "x", Schema: json.RawMessage(`{"a":1}`)}
	req := &aycoder.Request{Tools: []*aycoder.ToolSpec{spec}}
	first, err := c.wire(req)
	require.NoError(t, err)
	again, err := c.wire(req)
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again))
	spec.Schema[5] = '2'
	changed, err := c.wire(req)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(string(first), `"a":1`, `"a":2`, 1), string(changed))
	none, err := c.wire(&aycoder.Request{})
	require.NoError(t, err)
	assert.NotContains(t, string(none), "tools")
}

// history is a conversation of n steps with one call each.
func history(n int) []*aycoder.Message {
	all := []*aycoder.Message{aycoder.User("fix the failing check")}
	for i := range n {
		id := "toolu_" + strings.Repeat("x", 20) + string(rune('a'+i%26))
		all = append(all,
			&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.Thinking{Text: strings.Repeat("let me see. ", 20), Signature: strings.Repeat("c2ln", 80), Provider: "anthropic"},
				&aycoder.Text{Text: "I'll read the file \"main.go\".\n"},
				&aycoder.ToolUse{ID: id, Name: "read_file", Args: json.RawMessage(`{"path": "main.go", "limit": 200}`)},
			}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: id, Name: "read_file", Parts: []aycoder.Part{
					&aycoder.Text{Text: strings.Repeat("12\tfunc main() {\n", 60)}}},
			}})
	}
	return all
}

// The body of a step begins with the previous body, so the provider does not read
// anything twice.
func TestBodiesGrowAtTheEnd(t *testing.T) {
	all := history(50)
	c := newClient(t, nil)
	tool := &aycoder.ToolSpec{Name: "read_file", Schema: json.RawMessage(`{"type":"object"}`)}
	var before []byte
	for n := 1; n <= len(all); n += 2 {
		body, err := c.wire(&aycoder.Request{System: []*aycoder.Text{{Text: "s"}}, Thinking: 2000,
			Tools: []*aycoder.ToolSpec{tool}, Messages: all[:n]})
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(body, bytes.TrimSuffix(before, []byte("]}"))), "step %d", n)
		before = body
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("text", "id", "name", []byte(`{"a":1}`), "image/png")
	f.Add("\xff\x00\"\\\u2028<", "a.b", "", []byte(`{"a":"\xff"}`), "text/plain")
	f.Add("", "", "", []byte(`{`), "")
	c, err := New("m", WithAPIKey(testKey))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text, id, name string, raw []byte, typ string) {
		extra := &aycoder.Opaque{Provider: "anthropic", Raw: raw}
		req := &aycoder.Request{Model: name, System: []*aycoder.Text{{Text: text}}, Stop: []string{text},
			Messages: []*aycoder.Message{
				{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
					&aycoder.Thinking{Text: text, Signature: id, Provider: "anthropic"},
					&aycoder.Text{Text: text, Extra: extra}, extra,
					&aycoder.ToolUse{ID: id, Name: name, Args: raw, Extra: extra}}},
				{Role: aycoder.RoleUser, Parts: []aycoder.Part{
					&aycoder.Media{Type: typ, Name: name, Data: raw}, &aycoder.Media{Type: typ, URL: text},
					&aycoder.ToolOutput{ID: id, Parts: []aycoder.Part{&aycoder.Text{Text: text}}}}},
				{Role: aycoder.Role(name), Parts: []aycoder.Part{&aycoder.Text{Text: text}}},
			}}
		if name != "" {
			req.Tools = []*aycoder.ToolSpec{{Name: name, Description: text}}
			req.ToolChoice = aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: name}
		}
		data, err := c.wire(req)
		require.NoError(t, err)
		var back struct{ System []struct{ Text string } }
		require.NoError(t, json.Unmarshal(data, &back), "%s", data)
		if len(back.System) > 0 {
			assert.Equal(t, []rune(text), []rune(back.System[0].Text))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	c := newClient(b, nil)
	all := history(150)[:300]
	req := &aycoder.Request{Messages: all, System: []*aycoder.Text{{Text: strings.Repeat("be good. ", 500)}}}
	for range 8 {
		req.Tools = append(req.Tools, &aycoder.ToolSpec{Name: "x", Description: strings.Repeat("d", 500),
			Schema: json.RawMessage(`{"type":"object","properties":{"a":"` + strings.Repeat("x", 1000) + `"}}`)})
	}
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := c.encode(req)
			require.NoError(b, err)
			b.SetBytes(p.Size())
		}
	})
	b.Run("cold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cold := *req
			cold.Messages = nil
			for _, m := range all {
				cold.Messages = append(cold.Messages, &aycoder.Message{Role: m.Role, Parts: m.Parts})
			}
			p, err := c.encode(&cold)
			require.NoError(b, err)
			b.SetBytes(p.Size())
		}
	})
}
