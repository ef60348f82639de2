package openai

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

func TestChatRequest(t *testing.T) {
	half, nan := 0.5, math.NaN()
	hello := []*aycoder.Message{aycoder.User("hello")}
	const head, tail = `{"model":"gpt-test","stream":true,"stream_options":{"include_usage":true}`, `,"messages":[{"role":"user","content":"hello"}]}`
	tests := []struct {
		name string
		req  aycoder.Request
		opts []Option
		want string
	}{
		{"plain", aycoder.Request{Messages: hello}, nil, head + tail},
		{"model of the request", aycoder.Request{Model: "other", Messages: hello}, nil, strings.Replace(head, "gpt-test", "other", 1) + tail},
		{"nothing", aycoder.Request{}, nil, head + `,"messages":[]}`},
		{"system", aycoder.Request{System: []*aycoder.Text{{Text: "a"}, {Text: " "}, {Text: "b"}}, Messages: hello}, nil,
			head + `,"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"hello"}]}`},
		{"limits", aycoder.Request{MaxTokens: 7, Temperature: &half, Stop: []string{"a", "b"}, Messages: hello}, nil,
			head + `,"max_completion_tokens":7,"temperature":0.5,"stop":["a","b"]` + tail},
		{"limit of the client", aycoder.Request{Messages: hello}, []Option{WithMaxTokens(9)}, head + `,"max_completion_tokens":9` + tail},
		{"limit elsewhere", aycoder.Request{MaxTokens: 7, Messages: hello}, []Option{WithBaseURL("http://localhost:1")}, head + `,"max_tokens":7` + tail},
		{"effort", aycoder.Request{Messages: hello}, []Option{WithThinking("high")}, head + `,"reasoning_effort":"high"` + tail},
		{"thinking", aycoder.Request{Model: "gpt-5", Thinking: 8000, Temperature: &half, Messages: hello}, []Option{WithThinking("high")},
			strings.Replace(head, "gpt-test", "gpt-5", 1) + `,"reasoning_effort":"medium"` + tail},
		{"temperature of a model that thinks", aycoder.Request{Model: "o3", Temperature: &half, Messages: hello}, nil, strings.Replace(head, "gpt-test", "o3", 1) + tail},
		{"temperature of one that need not", aycoder.Request{Model: "gpt-5.1", Temperature: &half, Messages: hello}, nil, strings.Replace(head, "gpt-test", "gpt-5.1", 1) + `,"temperature":0.5` + tail},
		{"no thinking", aycoder.Request{Model: "gpt-5.1", Thinking: -1, Messages: hello}, nil, strings.Replace(head, "gpt-test", "gpt-5.1", 1) + `,"reasoning_effort":"none"` + tail},
		{"thinking of a model that does not", aycoder.Request{Thinking: 8000, Messages: hello}, nil, head + tail},
		{"tools", aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "f", Description: "d", Schema: json.RawMessage(` {"type":"object"} `)}, {Name: "a.b"}}, Messages: hello}, nil,
			head + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}},` +
				`{"type":"function","function":{"name":"a_b_d8cbc77d9e2bf2f4","parameters":{"type":"object","properties":{}}}}]` + tail},
		{"choice", aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "f"}}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "f"}, Messages: hello}, nil,
			head + `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"tool_choice":{"type":"function","function":{"name":"f"}}` + tail},
		{"choice without tools", aycoder.Request{ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}, Messages: hello}, nil, head + tail},
		{"strict output", aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}, Messages: hello}, nil,
			head + `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}}}` + tail},
		{"output that is a map", aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}, Messages: hello}, nil,
			head + `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":false,"schema":{"type":"object"}}}` + tail},
		{"extra", aycoder.Request{Extra: map[string]json.RawMessage{"z": json.RawMessage(`1`), "a": json.RawMessage(`{"b":2}`), "stream_options": json.RawMessage(`null`)}, Messages: hello},
			[]Option{WithExtra("z", 0), WithExtra("y", "q")}, `{"model":"gpt-test","stream":true,"a":{"b":2},"y":"q","z":1` + tail},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newChat(t, chatServed("", 1), tt.opts...)
			body := chatEncoded(t, c, &tt.req)
			// the hash is not compared
			if strings.Contains(tt.name, "tools") && strings.Contains(tt.want, "a_b_") {
				name := toolName("a.b")
				tt.want = strings.Replace(tt.want, "a_b_d8cbc77d9e2bf2f4", name, 1)
				require.Regexp(t, `^a_b_[0-9a-f]+$`, name)
			}
			assert.Equal(t, tt.want, string(body))
		})
	}
	refused := map[string]aycoder.Request{
		"field \"messages\" is not for Extra":    {Extra: map[string]json.RawMessage{"messages": json.RawMessage(`[]`)}},
		"field \"x\" of Extra is not JSON":       {Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}},
		"temperature NaN is not a number":        {Temperature: &nan},
		"message 0 is nil":                       {Messages: []*aycoder.Message{nil}},
		"message 0: part 0 is nil":               {Messages: []*aycoder.Message{{Parts: []aycoder.Part{(*aycoder.Text)(nil)}}}},
		"message 0: part 0: part 0 is nil":       {Messages: []*aycoder.Message{{Parts: []aycoder.Part{&aycoder.ToolOutput{Parts: []aycoder.Part{nil}}}}}},
		"system block 0 is nil":                  {System: []*aycoder.Text{nil}},
		"tool 0 is nil":                          {Tools: []*aycoder.ToolSpec{nil}},
		"tool \"f\": schema is not":              {Tools: []*aycoder.ToolSpec{{Name: "f", Schema: json.RawMessage(`[]`)}}},
		"output \"x\": schema is not a JSON obj": {Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`5`)}},
	}
	for want, req := range refused {
		t.Run(want, func(t *testing.T) {
			_, err := newChat(t, chatServed("", 1)).encodeChat(&req)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestChatMessages(t *testing.T) {
	own := func(raw string) *aycoder.Opaque {
		return &aycoder.Opaque{Provider: "openai", Raw: json.RawMessage(raw)}
	}
	call := func(id string) *aycoder.ToolUse {
		return &aycoder.ToolUse{ID: id, Name: "f", Args: json.RawMessage(`{"a": "\u00e9"}`)}
	}
	assistant := func(parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleAssistant, Parts: parts}
	}
	user := func(parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: aycoder.RoleUser, Parts: parts}
	}
	png := &aycoder.Media{Type: "image/png", Data: []byte("png")}
	const calls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": \"\\u00e9\"}"}}]`
	thought := &aycoder.Thinking{Text: "hm", Provider: "openai"}
	strange := &aycoder.Thinking{Text: "secret", Signature: "sig", Provider: "anthropic"}
	tests := []struct {
		name string
		m    *aycoder.Message
		form chatForm
		want string
	}{
		{"texts", user(&aycoder.Text{Text: "a"}, &aycoder.Text{Text: "b"}), chatForm{}, `{"role":"user","content":"a\n\nb"}`},
		{"nothing", user(&aycoder.Text{Text: " "}), chatForm{}, ``},
		{"nothing said", assistant(strange), chatForm{}, ``},
		{"system", &aycoder.Message{Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: "a"}}}, chatForm{}, `{"role":"system","content":"a"}`},
		{"system as user", &aycoder.Message{Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: "a"}}}, chatForm{dialect: dialect{userSystem: true}},
			`{"role":"user","content":"<system>\na\n</system>"}`},
		{"image", user(&aycoder.Text{Text: "a"}, png, &aycoder.Text{Text: "b"}), chatForm{},
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}},{"type":"text","text":"b"}]}`},
		{"image at an address", user(&aycoder.Media{Type: "image/jpg", URL: "https://x/y.jpg"}), chatForm{},
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.jpg"}}]}`},
		{"image not seen", user(png), chatForm{dialect: dialect{noImages: true}}, `{"role":"user","content":"[3 bytes of image/png, which this model is not shown]"}`},
		{"document", user(&aycoder.Media{Type: "application/pdf", Name: "a.pdf", Data: []byte("x")}), chatForm{},
			`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,eA=="}}]}`},
		{"document at an address", user(&aycoder.Media{Type: "application/pdf", URL: "https://x/a.pdf"}), chatForm{dialect: dialect{files: fileURL}},
			`{"role":"user","content":[{"type":"document_url","document_url":"https://x/a.pdf"}]}`},
		{"document at an address where none is fetched", user(&aycoder.Media{Type: "application/pdf", URL: "https://x/a.pdf"}), chatForm{},
			`{"role":"user","content":"[0 bytes of application/pdf, which this model is not shown: https://x/a.pdf]"}`},
		{"sound", user(&aycoder.Media{Type: "audio/wav", Data: []byte("x")}), chatForm{}, `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"eA==","format":"wav"}}]}`},
		{"text file", user(&aycoder.Media{Type: "text/plain; charset=utf-8", Data: []byte("x")}), chatForm{}, `{"role":"user","content":"x"}`},
		{"film", user(&aycoder.Media{Type: "video/mp4", Data: []byte("x"), Name: "a"}), chatForm{}, `{"role":"user","content":"[1 bytes of video/mp4, which this model is not shown: a]"}`},
		{"call", assistant(strange, &aycoder.Text{Text: "a"}, call("c1")), chatForm{}, `{"role":"assistant","content":"a",` + calls + `}`},
		{"call alone", assistant(thought, call("c1")), chatForm{}, `{"role":"assistant","content":null,` + calls + `}`},
		{"thinking goes back with calls", assistant(thought, call("c1")), chatForm{dialect: dialect{echo: echoCalls}},
			`{"role":"assistant","content":null,"reasoning_content":"hm",` + calls + `}`},
		{"thinking goes back in a field", assistant(thought, call("c1")), chatForm{field: "reasoning"}, `{"role":"assistant","content":null,"reasoning":"hm",` + calls + `}`},
		{"thinking without calls stays", assistant(thought, &aycoder.Text{Text: "a"}), chatForm{dialect: dialect{echo: echoAlways}}, `{"role":"assistant","content":"a"}`},
		{"empty thinking goes back", assistant(strange, call("c1")), chatForm{dialect: dialect{echo: echoAlways}},
			`{"role":"assistant","content":null,"reasoning_content":"",` + calls + `}`},
		{"thinking is a part", assistant(thought, &aycoder.Text{Text: "a"}), chatForm{dialect: dialect{echo: echoParts}},
			`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`},
		{"details", assistant(thought, own(`{"reasoning_details":[{"a" :1}]}`), call("c1"), own(`{"reasoning_details":[{"b":2}]}`)), chatForm{},
			`{"role":"assistant","content":null,"reasoning_details":[{"a" :1},{"b":2}],` + calls + `}`},
		{"details of another", assistant(&aycoder.Text{Text: "a"}, &aycoder.Opaque{Provider: "openrouter", Raw: json.RawMessage(`{"reasoning_details":[{"a":1}]}`)}), chatForm{},
			`{"role":"assistant","content":"a"}`},
		{"opaque that is broken", assistant(&aycoder.Text{Text: "a"}, own(`{"reasoning_details":`), own(`[]`), own(`{"refusal":1}`)), chatForm{}, `{"role":"assistant","content":"a"}`},
		{"refusal", assistant(&aycoder.Text{Text: "no", Extra: own(`{"type":"refusal"}`)}), chatForm{}, `{"role":"assistant","content":null,"refusal":"no"}`},
		{"call cut off", assistant(&aycoder.ToolUse{ID: "c1", Name: "f", Args: json.RawMessage(`{"a`)}), chatForm{},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`},
		{"custom call", assistant(&aycoder.ToolUse{ID: "c1", Name: "f", Args: json.RawMessage(`{"input":"4 + 4"}`), Extra: own(chatCustomCall)}), chatForm{},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":"4 + 4"}}]}`},
		{"outputs", user(&aycoder.Text{Text: "and"}, &aycoder.ToolOutput{ID: "c1", Parts: []aycoder.Part{&aycoder.Text{Text: "x"}}}, &aycoder.ToolOutput{ID: "c2", IsError: true}, &aycoder.ToolOutput{ID: "c3"}), chatForm{},
			`{"role":"tool","content":"x","tool_call_id":"c1"},{"role":"tool","content":"Error: failed without a message","tool_call_id":"c2"},` +
				`{"role":"tool","content":"(no output)","tool_call_id":"c3"},{"role":"user","content":"and"}`},
		{"output with an image", user(&aycoder.ToolOutput{ID: "c1", Name: "shot", Parts: []aycoder.Part{png}}), chatForm{},
			`{"role":"tool","content":"(in the next message)","tool_call_id":"c1"},{"role":"user","content":[{"type":"text","text":"From the output of shot:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.form.provider = "openai"
			got, err := tt.form.fragment(wiretest.Stored(t, tt.m))
			require.NoError(t, err)
			assert.Equal(t, tt.want, strings.TrimPrefix(string(got), ","))
			assert.True(t, json.Valid([]byte("["+strings.TrimPrefix(string(got), ",")+"]")))
		})
	}
}

func TestChatIDs(t *testing.T) {
	long := strings.Repeat("x", 41)
	id := func(form idForm, id string) string {
		return (&chatWriter{chatForm: chatForm{dialect: dialect{ids: form}}}).id(id)
	}
	assert.Equal(t, "functions.f:0", id(idShort, "functions.f:0"))
	assert.Len(t, id(idShort, long), 40)
	assert.NotEqual(t, id(idShort, long), id(idShort, long+"x"))
	assert.Equal(t, id(idShort, long), id(idShort, id(idShort, long)), "what was mapped stays")
	assert.Regexp(t, `^functions_f_0_[0-9a-f]+$`, id(idPlain, "functions.f:0"))
	assert.Equal(t, "abcDEF123", id(idNine, "abcDEF123"))
	seen := map[string]bool{}
	for _, s := range []string{"", "a", "abcdefgh_", "call_1", "call_2", long, long + "y"} {
		got := id(idNine, s)
		assert.Regexp(t, `^[a-z0-9]{9}$`, got, s)
		assert.Equal(t, got, id(idNine, s))
		assert.False(t, seen[got])
		seen[got] = true
	}
}

// A body begins with that of the previous step, even when a setting takes a new form.
func TestChatBodiesGrow(t *testing.T) {
	history := []*aycoder.Message{aycoder.User("go")}
	for _, opts := range [][]Option{nil, {WithXMLTools(true)}, {WithThinkingField("reasoning")}} {
		c := newChat(t, chatServed("", 1), opts...)
		before := ""
		for n := range 5 {
			body := string(chatEncoded(t, c, &aycoder.Request{Tools: xmlTestTools, Messages: history[:min(n+1, len(history))]}))
			assert.True(t, strings.HasPrefix(body, strings.TrimSuffix(before, "]}")))
			before = body
			if len(history) < 5 {
				history = append(history, &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
					&aycoder.Thinking{Text: "hm", Provider: "openai"}, &aycoder.ToolUse{ID: "c", Name: "now", Args: json.RawMessage(`{}`)}}},
					&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "c", Name: "now"}}})
			}
		}
	}
}

func FuzzChatEncode(f *testing.F) {
	f.Add("hello", "id", "f", `{"a":1}`, `{"reasoning_details":[{}]}`, uint8(0))
	f.Add("\xff\"\\\u2028", "\x00", "a.b", `{"a":`, `{"refusal":"x","reasoning_details":[ ]}`, uint8(7))
	f.Fuzz(func(t *testing.T, text, id, name, args, raw string, form uint8) {
		d := dialect{ids: idForm(form % 3), echo: echoForm(form / 3 % 4), files: fileForm(form / 12 % 3), userSystem: form%2 == 1}
		c := newChat(t, chatServed("", 1))
		if c.cfg.dialect = d; form%5 == 0 {
			c.cfg.xml = xmlTools{}
		}
		media := &aycoder.Media{Type: name, Name: text, Data: []byte(args), URL: id}
		req := &aycoder.Request{System: []*aycoder.Text{{Text: text}}, Stop: []string{text}, Messages: []*aycoder.Message{
			{Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: text}}},
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: text}, &aycoder.Thinking{Text: text, Provider: "openai"},
				&aycoder.Opaque{Provider: "openai", Raw: json.RawMessage(raw)},
				&aycoder.ToolUse{ID: id, Name: name, Args: json.RawMessage(args), Extra: &aycoder.Opaque{Provider: "openai", Raw: json.RawMessage(chatCustomCall)}},
				&aycoder.ToolUse{ID: id, Name: name, Args: json.RawMessage(args)}}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{media, &aycoder.ToolOutput{ID: id, Name: name, Parts: []aycoder.Part{&aycoder.Text{Text: text}, media}}}},
		}}
		chatEncoded(t, c, req) // is valid JSON
	})
}
