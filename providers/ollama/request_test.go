package ollama_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/ollama"
)

func TestRequest(t *testing.T) {
	const head = `{"model":"qwen3:4b","stream":true,"truncate":false,"shift":false`
	const hello = `,"messages":[{"role":"user","content":"hi"}]}`
	schema := &aycoder.OutputFormat{Name: "x", Schema: json.RawMessage(`{"type":"object"}`)}
	tool := func(name string) *aycoder.ToolSpec { return &aycoder.ToolSpec{Name: name, Description: "D."} }
	const toolA = `{"type":"function","function":{"name":"a","description":"D.","parameters":{"type":"object","properties":{}}}}`
	const toolB = `{"type":"function","function":{"name":"b","description":"D.","parameters":{"type":"object","properties":{}}}}`
	tests := []struct {
		name string
		req  aycoder.Request
		opts []ollama.Option
		want string
	}{
		{"nothing else", aycoder.Request{}, nil, head + hello},
		{"system", aycoder.Request{System: []*aycoder.Text{{Text: "a"}, {Text: " "}, {Text: "b"}}}, nil,
			head + `,"messages":[{"role":"system","content":"a\n\nb"},{"role":"user","content":"hi"}]}`},
		{"limits", aycoder.Request{MaxTokens: 5, Temperature: new(0.5), Stop: []string{"x", "\""}},
			[]ollama.Option{ollama.WithContextLength(65536), ollama.WithMaxTokens(9), ollama.WithOption("seed", 42)},
			head + `,"options":{"num_ctx":65536,"num_predict":5,"seed":42,"stop":["x","\""],"temperature":0.5}` + hello},
		{"own bound", aycoder.Request{}, []ollama.Option{ollama.WithMaxTokens(9)}, head + `,"options":{"num_predict":9}` + hello},
		{"options of the request", aycoder.Request{Extra: map[string]json.RawMessage{"options": json.RawMessage(` {"seed":1,"top_k":3}`)}},
			[]ollama.Option{ollama.WithOption("seed", 42)}, head + `,"options":{"seed":1,"top_k":3}` + hello},
		{"keep alive", aycoder.Request{}, []ollama.Option{ollama.WithKeepAlive(90 * time.Second)}, head + `,"keep_alive":"1m30s"` + hello},
		{"keep alive for ever", aycoder.Request{}, []ollama.Option{ollama.WithKeepAlive(-time.Second)}, head + `,"keep_alive":-1` + hello},
		{"keep alive not", aycoder.Request{}, []ollama.Option{ollama.WithKeepAlive(0)}, head + `,"keep_alive":0` + hello},
		{"truncation", aycoder.Request{}, []ollama.Option{ollama.WithTruncation(true)},
			`{"model":"qwen3:4b","stream":true,"truncate":true,"shift":true` + hello},
		{"think", aycoder.Request{Thinking: 1000}, nil, head + `,"think":true` + hello},
		{"think not", aycoder.Request{Thinking: -1}, []ollama.Option{ollama.WithThinking("high")}, head + `,"think":false` + hello},
		{"think as set", aycoder.Request{}, []ollama.Option{ollama.WithThinking("high")}, head + `,"think":"high"` + hello},
		{"think more than set", aycoder.Request{Thinking: 1}, []ollama.Option{ollama.WithThinking("max")}, head + `,"think":"max"` + hello},
		{"gpt-oss thinks in levels", aycoder.Request{Model: "lib/gpt-oss:20b", Thinking: 20000}, nil,
			strings.Replace(head, "qwen3:4b", "lib/gpt-oss:20b", 1) + `,"think":"high"` + hello},
		{"gpt-oss always thinks", aycoder.Request{Model: "gpt-oss:20b", Thinking: -1}, nil,
			strings.Replace(head, "qwen3:4b", "gpt-oss:20b", 1) + `,"think":"low"` + hello},
		{"format", aycoder.Request{Output: schema}, nil, head + `,"format":{"type":"object"}` + hello},
		{"no format in the cloud", aycoder.Request{Output: schema, Model: "gpt-oss:120b-cloud"}, nil,
			strings.Replace(head, "qwen3:4b", "gpt-oss:120b-cloud", 1) + hello},
		{"tools", aycoder.Request{Tools: []*aycoder.ToolSpec{tool("a"), tool("b")}}, nil, head + `,"tools":[` + toolA + `,` + toolB + `]` + hello},
		{"no tool", aycoder.Request{Tools: []*aycoder.ToolSpec{tool("a")}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNone}}, nil, head + hello},
		{"one tool", aycoder.Request{Tools: []*aycoder.ToolSpec{tool("a"), tool("b")}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "b"}},
			nil, head + `,"tools":[` + toolB + `]` + hello},
		{"extra", aycoder.Request{Extra: map[string]json.RawMessage{"think": json.RawMessage(`"x"`), "shift": json.RawMessage(`null`), "logprobs": json.RawMessage(`true`)}, Thinking: 5}, nil,
			`{"model":"qwen3:4b","stream":true,"truncate":false,"logprobs":true,"shift":null,"think":"x"` + hello},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []*aycoder.Message{aycoder.User("hi")}
			assert.Equal(t, tt.want, string(encoded(t, &tt.req, tt.opts...)))
		})
	}
}

func TestMessages(t *testing.T) {
	use := func(args string) *aycoder.ToolUse {
		return &aycoder.ToolUse{ID: "functions.x:0", Name: "x", Args: json.RawMessage(args)}
	}
	png := &aycoder.Media{Type: "image/PNG; q=1", Name: "a.png", Data: []byte("png")}
	pdf := &aycoder.Media{Type: "application/pdf", Name: "a.pdf", Data: []byte("1234")}
	far := &aycoder.Media{Type: "image/png", URL: "https://x.test/a.png"}
	foreign := &aycoder.Opaque{Provider: "other", Raw: json.RawMessage(`{}`)}
	const callHead = `{"role":"assistant","content":"","tool_calls":[{"id":"functions.x:0","type":"function","function":{"index":0,"name":"x","arguments":`
	tests := []struct {
		name  string
		role  aycoder.Role
		parts []aycoder.Part
		want  string
	}{
		{"texts", aycoder.RoleUser, []aycoder.Part{&aycoder.Text{Text: "a"}, &aycoder.Text{Text: "\n"}, &aycoder.Text{Text: "b", Extra: foreign}},
			`{"role":"user","content":"a\n\nb"}`},
		{"instruction", aycoder.RoleSystem, []aycoder.Part{&aycoder.Text{Text: "a"}}, `{"role":"system","content":"a"}`},
		{"media", aycoder.RoleUser, []aycoder.Part{png, pdf, far},
			`{"role":"user","content":"[4 bytes of application/pdf, which this model is not shown: a.pdf]\n\n[0 bytes of image/png, which this model is not shown: https://x.test/a.png]","images":["cG5n"]}`},
		{"answer", aycoder.RoleAssistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Provider: "ollama"}, &aycoder.Text{Text: "a "},
			&aycoder.Thinking{Text: "no", Provider: "other"}, foreign, &aycoder.Text{Text: "b"}}, `{"role":"assistant","content":"a b","thinking":"t"}`},
		{"call", aycoder.RoleAssistant, []aycoder.Part{use(`{"b":1, "a":2}`)}, callHead + `{"b":1, "a":2}}}]}`},
		{"call cut off", aycoder.RoleAssistant, []aycoder.Part{use(`{"b":`)}, callHead + `{}}}]}`},
		{"call with a list", aycoder.RoleAssistant, []aycoder.Part{use(`[1]`)}, callHead + `{}}}]}`},
		{"outputs first", aycoder.RoleUser, []aycoder.Part{&aycoder.Text{Text: "now"},
			&aycoder.ToolOutput{ID: "1", Name: "x", Parts: []aycoder.Part{&aycoder.Text{Text: "a"}, &aycoder.Text{Text: "b"}}},
			&aycoder.ToolOutput{ID: "2", IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "gone"}}}},
			`{"role":"tool","content":"a\nb","tool_name":"x","tool_call_id":"1"},{"role":"tool","content":"Error:\ngone","tool_call_id":"2"},{"role":"user","content":"now"}`},
		{"image of a tool", aycoder.RoleUser, []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: "x", Parts: []aycoder.Part{png, pdf}}},
			`{"role":"tool","content":"[image a.png follows]\n[4 bytes of application/pdf, which this model is not shown: a.pdf]","tool_name":"x","tool_call_id":"1"},{"role":"user","content":"","images":["cG5n"]}`},
		{"image in an address", aycoder.RoleUser, []aycoder.Part{&aycoder.Media{URL: "data:image/png;base64,cG5n"}},
			`{"role":"user","content":"","images":["cG5n"]}`},
		{"image in the address of an output", aycoder.RoleUser, []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: "x",
			Parts: []aycoder.Part{&aycoder.Media{Name: "a.png", URL: "data:image/png;base64,cG5n"}}}},
			`{"role":"tool","content":"[image a.png follows]","tool_name":"x","tool_call_id":"1"},{"role":"user","content":"","images":["cG5n"]}`},
		{"nothing", aycoder.RoleUser, []aycoder.Part{&aycoder.Text{Text: " "}, foreign}, ""},
		{"nothing said", aycoder.RoleAssistant, []aycoder.Part{foreign}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := `{"role":"user","content":"hi"}`
			if tt.want != "" {
				want += "," + tt.want
			}
			body := encoded(t, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi"), {Role: tt.role, Parts: tt.parts}}})
			_, got, _ := strings.Cut(string(body), `"messages":[`)
			assert.Equal(t, want+"]}", got)
		})
	}
}

// An output that does not name its tool gets the name from the call.
func TestUnnamedOutput(t *testing.T) {
	output := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "7", Parts: []aycoder.Part{&aycoder.Text{Text: "a"}}}}}
	for _, name := range []string{"read", "write"} { // this form of the output is not cached
		call := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: "7", Name: name, Args: []byte(`{}`)}}}
		body := encoded(t, &aycoder.Request{Messages: []*aycoder.Message{aycoder.User("hi"), call, output}})
		assert.Contains(t, string(body), `{"role":"tool","content":"a","tool_name":"`+name+`","tool_call_id":"7"}`)
	}
}

func TestRefusedRequests(t *testing.T) {
	var noText *aycoder.Text
	extra := func(name, val string) aycoder.Request {
		return aycoder.Request{Extra: map[string]json.RawMessage{name: json.RawMessage(val)}}
	}
	with := func(parts ...aycoder.Part) aycoder.Request {
		return aycoder.Request{Messages: []*aycoder.Message{{Role: aycoder.RoleUser, Parts: parts}}}
	}
	tests := []struct {
		name, want string
		req        aycoder.Request
	}{
		{"no message", "no message that can be sent", aycoder.Request{Messages: []*aycoder.Message{}}},
		{"nothing to send", "no message that can be sent", with(&aycoder.Text{Text: " "})},
		{"a message that is nil", "message 0 is nil", aycoder.Request{Messages: []*aycoder.Message{nil}}},
		{"a part that is nil", "message 0: part 0 is nil", with(nil)},
		{"a part of a nil type", "message 0: part 0 is nil", with(noText)},
		{"a part of an output that is nil", "message 0: part 0: part 0 is nil", with(&aycoder.ToolOutput{Parts: []aycoder.Part{nil}})},
		{"a system block that is nil", "system block 0 is nil", aycoder.Request{System: []*aycoder.Text{nil}}},
		{"a tool that is nil", "tool 0 is nil", aycoder.Request{Tools: []*aycoder.ToolSpec{nil}}},
		{"a schema that is none", `tool "a": schema is not a JSON object`, aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "a", Schema: json.RawMessage("[]")}}}},
		{"no such tool", `tool "b", which is to be called`, aycoder.Request{ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "b"}}},
		{"not a number", "temperature NaN", aycoder.Request{Temperature: new(math.NaN())}},
		{"an output without a schema", "schema of the output", aycoder.Request{Output: &aycoder.OutputFormat{Name: "a"}}},
		{"model in Extra", `field "model" is not for Extra`, extra("model", `"x"`)},
		{"stream in Extra", `field "stream" is not for Extra`, extra("stream", `false`)},
		{"messages in Extra", `field "messages" is not for Extra`, extra("messages", `[]`)},
		{"no JSON in Extra", `field "x" of Extra is not JSON`, extra("x", `{`)},
		{"options that are none", `"options" of Extra`, extra("options", `[]`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.req.Messages == nil {
				tt.req.Messages = []*aycoder.Message{aycoder.User("hi")}
			}
			c := clientOf(t, roundTrip(func(*http.Request) (*http.Response, error) { panic("it is sent") }))
			_, err := aycoder.Complete(t.Context(), c, &tt.req)
			require.True(t, is[*aycoder.BadRequestError](err), "%v", err)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestParameters(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"nothing", ``, `{"type":"object","properties":{}}`},
		{"as it is", `{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x"]}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x"]}},"required":["a"],"additionalProperties":false}`},
		{"types at the top", `{"type":["object","null"]}`, `{"type":"object","properties":{}}`},
		{"true and false", `{"properties":{"a":true,"b":false,"c":{"anyOf":[true]},"d":{"items":true}}}`,
			`{"properties":{"a":{},"b":{},"c":{"anyOf":[{}]},"d":{"items":{}}},"type":"object"}`},
		{"a reference", `{"$defs":{"p":{"type":"string","description":"P"}},"properties":{"a":{"$ref":"#/$defs/p"},"b":{"$ref":"#/$defs/p","description":"B"},"c":{"items":{"allOf":[{"$ref":"#/$defs/p"}]}}}}`,
			`{"properties":{"a":{"type":"string","description":"P"},"b":{"description":"B","type":"string"},"c":{"items":{"type":"string","description":"P"}}},"type":"object"}`},
		{"a reference at the top", `{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"object","properties":{"x":{"const":1}}}}}`,
			`{"type":"object","properties":{"x":{"enum":[1]}}}`},
		{"references in a ring", `{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"a":{"$ref":"#/$defs/n"}}}`,
			`{"properties":{"a":{"type":"object","properties":{"next":{}}}},"type":"object"}`},
		{"a reference to nothing", `{"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"https://x.test"},"c":{"$ref":1}}}`,
			`{"properties":{"a":{},"b":{},"c":{"$ref":1}},"type":"object"}`},
		{"one of", `{"properties":{"a":{"oneOf":[{"const":"x"},{"type":"null"}]}}}`,
			`{"properties":{"a":{"anyOf":[{"enum":["x"]},{"type":"null"}]}},"type":"object"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ollama.Parameters(json.RawMessage(tt.schema))
			require.NoError(t, err)
			assert.Equal(t, tt.want, string(got))
		})
	}
}

// References that contain each other twice, thirty levels deep, expand to a billion
// schemas.
func TestParametersAreBounded(t *testing.T) {
	timed.Long(t, "parameters of many megabytes")
	var b strings.Builder
	b.WriteString(`{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&b, `"d%d":{"properties":{"x":{"$ref":"#/$defs/d%d"},"y":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	b.WriteString(`"d30":{"type":"string"}}}`)
	got, err := ollama.Parameters(json.RawMessage(b.String()))
	require.NoError(t, err)
	assert.True(t, json.Valid(got))
	assert.Less(t, len(got), 8<<20)
}
