package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func respNew(t testing.TB, model string, opts ...Option) *Client {
	t.Helper()
	c, err := New(model, append([]Option{WithResponses(true), WithAPIKey("sk-test-key")}, opts...)...)
	require.NoError(t, err)
	return c
}

func TestResponsesRequest(t *testing.T) {
	const plain = `"stream":true,"store":false`
	const common = plain + `,"include":["reasoning.encrypted_content"]`
	half, one := 0.5, 1.0
	tool := &aycoder.ToolSpec{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	const wired = `{"type":"function","name":"read","description":"Reads.","parameters":{"type":"object","properties":{}},"strict":false}`
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	chatgpt := WithBaseURL("https://chatgpt.com/backend-api/codex")
	raw := func(s string) map[string]json.RawMessage {
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(s), &m))
		return m
	}
	tests := []struct {
		name, model string
		opts        []Option
		req         aycoder.Request
		want        string // the fields between model and input
	}{
		{"plain", "gpt-test", nil, aycoder.Request{}, common},
		{"a model that does not think", "gpt-4o-mini", nil, aycoder.Request{}, plain},
		{"a model of a provider that does not think", "openai/gpt-4.1", nil, aycoder.Request{}, plain},
		{"a model that was tuned", "ft:gpt-4.1-nano:x", nil, aycoder.Request{}, plain},
		{"a model for chats", "gpt-5-chat-latest", nil, aycoder.Request{Extra: raw(`{"include":["a"]}`)}, plain + `,"include":["a"]`},
		{"system", "gpt-test", nil, aycoder.Request{System: []*aycoder.Text{{Text: "A"}, {Text: " "}, {Text: "B\n"}}},
			common + `,"instructions":"A\n\nB\n"`},
		{"limits", "gpt-test", []Option{WithMaxTokens(50)}, aycoder.Request{Temperature: &half}, common + `,"max_output_tokens":50,"temperature":0.5`},
		{"least", "gpt-test", []Option{WithMaxTokens(50)}, aycoder.Request{MaxTokens: 1}, common + `,"max_output_tokens":16`},
		{"temperature of a model that thinks", "o3", nil, aycoder.Request{Temperature: &half}, common},
		{"temperature 1 of a model that thinks", "gpt-5", nil, aycoder.Request{Temperature: &one}, common + `,"temperature":1`},
		{"temperature of a model that need not think", "gpt-5.2", nil, aycoder.Request{Temperature: &half, Thinking: -1},
			common + `,"reasoning":{"effort":"none","summary":"auto"},"temperature":0.5`},
		{"effort", "gpt-5.2", []Option{WithThinking("xhigh")}, aycoder.Request{Temperature: &half},
			common + `,"reasoning":{"effort":"xhigh","summary":"auto"}`},
		{"thinking", "gpt-5", []Option{WithThinking("low")}, aycoder.Request{Thinking: 30000},
			common + `,"reasoning":{"effort":"high","summary":"auto"}`},
		{"thinking of a model that does not", "gpt-4.1", nil, aycoder.Request{Thinking: 30000}, plain},
		{"no thinking", "gpt-5-mini", nil, aycoder.Request{Thinking: -1}, common + `,"reasoning":{"effort":"minimal","summary":"auto"}`},
		{"no thinking of a model for code", "gpt-5.1-codex", nil, aycoder.Request{Thinking: -1}, common + `,"reasoning":{"effort":"low","summary":"auto"}`},
		{"no thinking of a model that always does", "gpt-5-pro", nil, aycoder.Request{Thinking: -1, Temperature: &half}, common},
		{"thinking elsewhere", "grok", []Option{WithBaseURL("https://example.com")}, aycoder.Request{Thinking: -1},
			common + `,"reasoning":{"effort":"none","summary":"auto"}`},
		{"tools", "gpt-test", nil, aycoder.Request{Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}},
			common + `,"tools":[` + wired + `],"tool_choice":"required"`},
		{"tool without arguments", "gpt-test", nil, aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "a.b"}}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "a.b"}},
			common + fmt.Sprintf(`,"tools":[{"type":"function","name":%q,"parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":{"type":"function","name":%[1]q}`, toolName("a.b"))},
		{"tools of the service too", "gpt-test", nil, aycoder.Request{Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNone},
			Extra: raw(`{"tools":[{"type":"web_search"}],"include":["web_search_call.action.sources"]}`)},
			`"stream":true,"store":false,"include":["reasoning.encrypted_content","web_search_call.action.sources"],"tools":[` + wired + `,{"type":"web_search"}],"tool_choice":"none"`},
		{"output", "gpt-test", nil, aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: schema}, Extra: raw(`{"text":{"verbosity":"low"}}`)},
			common + `,"text":{"verbosity":"low","format":{"type":"json_schema","name":"x","strict":true,"schema":` + string(schema) + `}}`},
		{"output that is a map", "gpt-test", nil, aycoder.Request{Output: &aycoder.OutputFormat{Schema: json.RawMessage(`{"type":"object"}`)}},
			common + `,"text":{"format":{"type":"json_schema","name":"answer","strict":false,"schema":{"type":"object"}}}`},
		{"extra", "gpt-test", []Option{WithPromptCacheKey("k"), WithExtra("truncation", "auto"), WithExtra("user", "u")},
			aycoder.Request{Extra: raw(`{"truncation":"disabled","parallel_tool_calls":false}`)},
			common + `,"parallel_tool_calls":false,"prompt_cache_key":"k","truncation":"disabled","user":"u"`},
		{"extra instead of what is usual", "gpt-test", nil, aycoder.Request{Extra: raw(`{"store":true,"include":null}`)}, `"stream":true,"store":true`},
		{"nothing is usual", "gpt-test", nil, aycoder.Request{Extra: raw(`{"store":null,"include":null}`)}, `"stream":true`},
		{"ChatGPT", "gpt-5.4", []Option{chatgpt, WithMaxTokens(50)}, aycoder.Request{Temperature: &one}, common + `,"instructions":""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []*aycoder.Message{aycoder.User("Hi")}
			body, err := respWire(respNew(t, tt.model, tt.opts...), &tt.req)
			require.NoError(t, err)
			require.True(t, json.Valid(body), "%s", body)
			assert.Equal(t, `{"model":"`+tt.model+`",`+tt.want+`,"input":[{"role":"user","content":"Hi"}]}`, string(body))
		})
	}
}

func TestResponsesRequestErrors(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		req  aycoder.Request
		want string
	}{
		{aycoder.Request{Messages: []*aycoder.Message{nil}}, "message 0 is nil"},
		{aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: []aycoder.Part{nil}}}}, "message 0: part 0 is nil"},
		{aycoder.Request{}, "no message has anything to send"},
		{aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser}, aycoder.User("")}}, "no message has anything to send"},
		{aycoder.Request{System: []*aycoder.Text{nil}}, "system block 0 is nil"},
		{aycoder.Request{Tools: []*aycoder.ToolSpec{nil}}, "tool 0 is nil"},
		{aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x", Schema: json.RawMessage(`[]`)}}}, `tool "x": schema is not a JSON object`},
		{aycoder.Request{Temperature: &nan}, "temperature NaN is not a number"},
		{aycoder.Request{Stop: []string{"x"}}, "stop sequences: the Responses API has none"},
		{aycoder.Request{Extra: map[string]json.RawMessage{"input": json.RawMessage(`[]`)}}, `field "input" is not for Extra`},
		{aycoder.Request{Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}, `field "x" of Extra is not JSON`},
		{aycoder.Request{Extra: map[string]json.RawMessage{"tools": json.RawMessage(`{}`)}}, `field "tools" of Extra is not a list`},
		{aycoder.Request{Extra: map[string]json.RawMessage{"include": json.RawMessage(`["a"`)}}, `field "include" of Extra is not a list`},
		{aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`1`)}}, `output "x": schema is not a JSON object`},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			_, err := respWire(respNew(t, "m"), &tt.req)
			require.ErrorContains(t, err, tt.want)
			for _, err := range respNew(t, "m").Stream(t.Context(), &tt.req) {
				assert.True(t, respIs[*aycoder.BadRequestError](err), "%v", err)
			}
		})
	}
}

func TestLeastEffort(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-5": "minimal", "gpt-5-mini": "minimal", "openai/gpt-5-nano-2025-08-07": "minimal",
		"gpt-5.1": "none", "gpt-5.4-nano": "none",
		"gpt-5-codex": "low", "gpt-5.1-codex": "low", "gpt-5.3-codex": "low", "codex-mini-latest": "low",
		"gpt-5.1-codex-mini": "", "gpt-5-pro": "", "gpt-5.2-pro-2025-12-11": "", "gpt-5.1-chat-latest": "",
		"o3": "low", "o3-pro": "low",
	} {
		assert.Equal(t, want, leastEffort(model), model)
	}
}

// A request for stored input does not need an input.
func TestResponsesStoredInput(t *testing.T) {
	for _, name := range respStores {
		req := aycoder.Request{Extra: map[string]json.RawMessage{name: json.RawMessage(`"x"`)}}
		body, err := respWire(respNew(t, "m"), &req)
		require.NoError(t, err)
		assert.Contains(t, string(body), `"`+name+`":"x","input":[]}`)
		req.Extra[name] = json.RawMessage("null")
		_, err = respWire(respNew(t, "m"), &req)
		assert.ErrorIs(t, err, errRespNoInput)
	}
}

func TestResponsesInput(t *testing.T) {
	const owner = "openai/responses"
	opaque := func(provider, raw string) *aycoder.Opaque {
		return &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(raw)}
	}
	thought := func(raw string) *aycoder.Thinking {
		return &aycoder.Thinking{Text: "Hm", Signature: raw, Provider: owner}
	}
	output := func(parts ...aycoder.Part) *aycoder.ToolOutput {
		return &aycoder.ToolOutput{ID: "c", Name: "f", Parts: parts}
	}
	text := func(s string) *aycoder.Text { return &aycoder.Text{Text: s} }
	call := &aycoder.ToolUse{ID: "c", Name: "f", Args: json.RawMessage(`{"a": 1}`)}
	const wiredCall = `{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\": 1}"}`
	const sealed = `{"id":"rs_1","type":"reasoning","status":"completed","summary":[{"type":"summary_text","text":"Hm"}],"content":[],"encrypted_content":"gAAA"}`
	const open = `{"id":"rs_1","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}],"encrypted_content":null}`
	png := &aycoder.Media{Type: "image/PNG; x=y", Data: []byte("png")}
	tests := []struct {
		name   string
		role   aycoder.Role
		quirks respQuirks
		parts  []aycoder.Part
		want   string
	}{
		{"user", "user", respQuirks{}, []aycoder.Part{text("Hi"), text("")}, `{"role":"user","content":"Hi"}`},
		{"two texts", "user", respQuirks{}, []aycoder.Part{text("A"), text("B")}, `{"role":"user","content":[{"type":"input_text","text":"A"},{"type":"input_text","text":"B"}]}`},
		{"nothing", "user", respQuirks{}, []aycoder.Part{text("")}, ``},
		{"system", "system", respQuirks{}, []aycoder.Part{text("S")}, `{"role":"system","content":"S"}`},
		{"developer", "system", respQuirks{developer: true}, []aycoder.Part{text("S")}, `{"role":"developer","content":"S"}`},
		{"image", "user", respQuirks{}, []aycoder.Part{text("A"), png, &aycoder.Media{Type: "image/jpg", URL: "https://x/y"}},
			`{"role":"user","content":[{"type":"input_text","text":"A"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,cG5n"},{"type":"input_image","detail":"auto","image_url":"https://x/y"}]}`},
		{"files", "user", respQuirks{}, []aycoder.Part{&aycoder.Media{Type: "application/pdf", Name: "a.pdf", Data: []byte("pdf")},
			&aycoder.Media{Type: "application/pdf", Data: []byte("pdf")}, &aycoder.Media{Type: "application/pdf", URL: "https://x/y"},
			&aycoder.Media{Type: "text/plain", Name: "a.txt", Data: []byte("T")}, &aycoder.Media{Type: "audio/mpeg", Name: "a.mp3", Data: []byte("mp3")}},
			`{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,cGRm"},` +
				`{"type":"input_file","filename":"file.pdf","file_data":"data:application/pdf;base64,cGRm"},{"type":"input_file","file_url":"https://x/y"},` +
				`{"type":"input_text","text":"a.txt:\nT"},{"type":"input_text","text":"[3 bytes of audio/mpeg, which this model is not shown: a.mp3]"}]}`},
		{"documents", "user", respQuirks{}, []aycoder.Part{
			&aycoder.Media{Type: "application/vnd.openxmlformats-officedocument.wordprocessingml.document", Data: []byte("PK")},
			&aycoder.Media{Type: "application/json", Name: "a.json", Data: []byte("{}")}, &aycoder.Media{Type: "application/yaml", URL: "https://x/y"},
			&aycoder.Media{Type: "text/plain", Data: []byte("\xff")}},
			`{"role":"user","content":[{"type":"input_file","filename":"file.docx","file_data":"data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,UEs="},` +
				`{"type":"input_text","text":"a.json:\n{}"},{"type":"input_file","file_url":"https://x/y"},` +
				`{"type":"input_file","filename":"file.txt","file_data":"data:text/plain;base64,/w=="}]}`},
		{"what is refused", "user", respQuirks{}, []aycoder.Part{&aycoder.Media{Type: "application/zip", Data: []byte("PK")},
			&aycoder.Media{Type: "application/x-tar", URL: "https://x/y"}, &aycoder.Media{Type: "application/wasm", Data: []byte("W")},
			&aycoder.Media{Type: "application/octet-stream", Data: []byte("W")}},
			`{"role":"user","content":[{"type":"input_text","text":"[2 bytes of application/zip, which this model is not shown]"},` +
				`{"type":"input_text","text":"[0 bytes of application/x-tar, which this model is not shown: https://x/y]"},` +
				`{"type":"input_text","text":"[1 bytes of application/wasm, which this model is not shown]"},` +
				`{"type":"input_text","text":"[1 bytes of application/octet-stream, which this model is not shown]"}]}`},
		{"output before text", "user", respQuirks{}, []aycoder.Part{text("And?"), output(text("A"), text("B"))},
			`{"type":"function_call_output","call_id":"c","output":"A\nB"},{"role":"user","content":"And?"}`},
		{"no output", "user", respQuirks{}, []aycoder.Part{output()}, `{"type":"function_call_output","call_id":"c","output":""}`},
		{"failed without a word", "user", respQuirks{}, []aycoder.Part{&aycoder.ToolOutput{ID: "c", IsError: true}},
			`{"type":"function_call_output","call_id":"c","output":"Error: failed without a message"}`},
		{"failed", "user", respQuirks{}, []aycoder.Part{&aycoder.ToolOutput{ID: "c", IsError: true, Parts: []aycoder.Part{text("A"), text("B")}}},
			`{"type":"function_call_output","call_id":"c","output":"Error: A\nB"}`},
		{"failed with an image", "user", respQuirks{}, []aycoder.Part{&aycoder.ToolOutput{ID: "c", IsError: true, Parts: []aycoder.Part{png}}},
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"Error:"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,cG5n"}]}`},
		{"output with an image", "user", respQuirks{}, []aycoder.Part{output(text("A"), png)},
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"A"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,cG5n"}]}`},
		{"answer for the service's own tool", "user", respQuirks{}, []aycoder.Part{opaque(owner, `{"type":"mcp_approval_response","approve":true}`), text("A")},
			`{"type":"mcp_approval_response","approve":true},{"role":"user","content":"A"}`},
		{"turn", "assistant", respQuirks{}, []aycoder.Part{thought(sealed), text("A"), call},
			`{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"gAAA"},{"role":"assistant","content":"A"},` + wiredCall},
		{"reasoning in parts", "assistant", respQuirks{}, []aycoder.Part{thought(""), thought(sealed), call},
			`{"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"gAAA"},` + wiredCall},
		{"reasoning with its id", "assistant", respQuirks{ids: true}, []aycoder.Part{text("A"), thought(sealed)},
			`{"role":"assistant","content":"A"},{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}],"encrypted_content":"gAAA"}`},
		{"reasoning that is not encrypted", "assistant", respQuirks{}, []aycoder.Part{thought(open), call},
			`{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},` + wiredCall},
		{"reasoning without what it belongs to", "assistant", respQuirks{}, []aycoder.Part{call, thought(sealed)}, wiredCall},
		{"reasoning that was not sent", "assistant", respQuirks{}, []aycoder.Part{thought(`{"id":"rs_1","type":"reasoning","summary":[]}`), call}, wiredCall},
		{"reasoning of others", "assistant", respQuirks{}, []aycoder.Part{&aycoder.Thinking{Text: "Hm", Signature: sealed, Provider: "openai"},
			thought("c2ln"), thought(`{"type":"x"}`), thought("{"), call}, wiredCall},
		{"opaque", "assistant", respQuirks{}, []aycoder.Part{opaque(owner, `{"type":"web_search_call", "id":"ws_1"}`), opaque("x", `{"type":"x"}`), opaque(owner, `[`), text("A")},
			`{"type":"web_search_call", "id":"ws_1"},{"role":"assistant","content":"A"}`},
		{"annotations and phase", "assistant", respQuirks{}, []aycoder.Part{&aycoder.Text{Text: "A", Extra: opaque(owner, `{"phase":"final_answer","annotations":[{"a":1}],"logprobs":[1]}`)},
			&aycoder.Text{Text: "B", Extra: opaque(owner, `{"phase":"final_answer"}`)}, &aycoder.Text{Text: "C", Extra: opaque("x", `{"phase":"x"}`)}},
			`{"role":"assistant","content":"A","phase":"final_answer"},` +
				`{"role":"assistant","content":"B","phase":"final_answer"},{"role":"assistant","content":"C"}`},
		{"refusal", "assistant", respQuirks{}, []aycoder.Part{&aycoder.Text{Text: "No", Extra: opaque(owner, `{"type":"refusal"}`)}},
			`{"role":"assistant","content":"No"}`},
		{"call with more to it", "assistant", respQuirks{}, []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "f", Args: json.RawMessage(`{"a": 1}`), Extra: opaque(owner, `{"namespace":"n","name":"x"}`)}},
			strings.TrimSuffix(wiredCall, "}") + `,"namespace":"n"}`},
		{"call that was cut off", "assistant", respQuirks{}, []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "f", Args: json.RawMessage(`{"a`)}},
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`},
		{"calls last", "assistant", respQuirks{callsLast: true}, []aycoder.Part{call, text("A"), call}, `{"role":"assistant","content":"A"},` + wiredCall + `,` + wiredCall},
		{"image of the model", "assistant", respQuirks{}, []aycoder.Part{png}, `{"role":"assistant","content":"[3 bytes of image/PNG; x=y, which this model is not shown]"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := respForm{owner, tt.quirks}.fragment(&aycoder.Message{Role: tt.role, Parts: tt.parts})
			require.NoError(t, err)
			assert.Equal(t, tt.want, strings.TrimPrefix(string(got), ","))
			assert.True(t, json.Valid([]byte("["+tt.want+"]")))
		})
	}
}

// Ids and names of other services are mapped consistently.
func TestResponsesNames(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"functions.x:0", "functions.x_0", "", strings.Repeat("a", 65), strings.Repeat("a", 66), "ö"} {
		got := respCallID(id)
		assert.Equal(t, got, respCallID(id))
		assert.Empty(t, seen[got], "%q", id)
		assert.LessOrEqual(t, len(got), maxCallID)
		seen[got] = id + "."
	}
	assert.Equal(t, "call_1", respCallID("call_1"))
}

func TestResponsesServices(t *testing.T) {
	for base, want := range map[string]respQuirks{
		"https://api.openai.com/v1":             {},
		"https://openrouter.ai/api/v1":          {ids: true},
		"https://OpenRouter.ai:443/api/v1":      {ids: true},
		"https://chatgpt.com/backend-api/codex": {bare: true, developer: true},
		"https://api.deepseek.com":              {callsLast: true},
		"https://deepseek.com.example.com":      {},
	} {
		assert.Equal(t, want, respNew(t, "m", WithBaseURL(base)).respQuirks(), base)
	}
	a, err := Azure("name", "dep", "2025-04-01-preview", WithResponses(true), WithAPIKey("sk-test-key"))
	require.NoError(t, err)
	assert.Equal(t, "https://name.openai.azure.com/openai/responses?api-version=2025-04-01-preview", a.respURL())
	c, err := OpenRouter("m", WithResponses(true), WithBaseURL("https://proxy.example.com"))
	require.NoError(t, err)
	assert.Equal(t, respQuirks{ids: true}, c.respQuirks())
	assert.Equal(t, "openrouter/responses", c.respOwner())
}

// FuzzResponsesInput checks that all texts, names and raw parts are encoded to valid
// JSON.
func FuzzResponsesInput(f *testing.F) {
	f.Add("text", "call_1", "name", []byte(`{"type":"reasoning","encrypted_content":"x"}`), "image/png", uint8(1))
	f.Add("\xff\u2028", "functions.x:0", "a b", []byte(`{"phase":"x","annotations":[{}],"type":"refusal"}`), "text/plain; x", uint8(2))
	f.Add("", "", "", []byte(`[1]`), "application/pdf", uint8(0))
	f.Fuzz(func(t *testing.T, text, id, name string, raw []byte, typ string, bits uint8) {
		const owner = "o"
		o := &aycoder.Opaque{Provider: owner, Raw: raw}
		form := respForm{owner, respQuirks{ids: bits&1 > 0, callsLast: bits&2 > 0, developer: bits&4 > 0}}
		media := &aycoder.Media{Type: typ, Name: name, Data: raw}
		messages := []*aycoder.Message{
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Thinking{Text: text, Signature: string(raw), Provider: owner},
				o, &aycoder.Text{Text: text, Extra: o}, &aycoder.ToolUse{ID: id, Name: name, Args: raw, Extra: o}, media}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{o, media, &aycoder.Media{Type: typ, URL: text},
				&aycoder.ToolOutput{ID: id, Name: name, Parts: []aycoder.Part{&aycoder.Text{Text: text}, media}}}},
			{Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: text}, media}},
		}
		for _, m := range messages {
			got, err := form.fragment(m)
			require.NoError(t, err)
			if len(got) > 0 {
				require.Equal(t, byte(','), got[0])
				require.True(t, json.Valid([]byte("["+string(got[1:])+"]")), "%s", got)
			}
		}
	})
}
