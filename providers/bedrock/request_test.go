package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/wiretest"
)

const (
	claude = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	llama  = "us.meta.llama3-3-70b-instruct-v1:0"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestEncode(t *testing.T) {
	tool := &aycoder.ToolSpec{Name: "read", Description: "d", Schema: raw(`{"type":"object"}`)}
	const spec = `{"toolSpec":{"name":"read","description":"d","inputSchema":{"json":{"type":"object"}}}}`
	ask := []*aycoder.Message{aycoder.User("q")}
	tests := []struct {
		name, model string
		req         aycoder.Request
		want        string
	}{
		{"empty", llama, aycoder.Request{}, `{"messages":[]}`},
		{"sampling", llama, aycoder.Request{MaxTokens: 5, Temperature: new(0.25), Stop: []string{"a", "\""}},
			`{"inferenceConfig":{"maxTokens":5,"temperature":0.25,"stopSequences":["a","\""]},"messages":[]}`},
		{"cache", claude, aycoder.Request{System: []*aycoder.Text{{Text: "a"}, {Text: " "}, {Text: "b"}}, Tools: []*aycoder.ToolSpec{tool, tool}, Messages: ask},
			`{"system":[{"text":"a"},{"text":"b"},{"cachePoint":{"type":"default"}}],"toolConfig":{"tools":[` + spec + `,` + spec + `,{"cachePoint":{"type":"default"}}]},` +
				`"messages":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}]}]}`},
		{"nova has no cache of tools", "amazon.nova-lite-v1:0", aycoder.Request{System: []*aycoder.Text{{Text: "a"}}, Tools: []*aycoder.ToolSpec{tool}, Messages: ask},
			`{"system":[{"text":"a"},{"cachePoint":{"type":"default"}}],"toolConfig":{"tools":[` + spec + `]},"messages":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}]}]}`},
		{"llama has none", llama, aycoder.Request{System: []*aycoder.Text{{Text: "a"}}, Tools: []*aycoder.ToolSpec{tool}, Messages: ask},
			`{"system":[{"text":"a"}],"toolConfig":{"tools":[` + spec + `]},"messages":[{"role":"user","content":[{"text":"q"}]}]}`},
		{"nor has old claude", "anthropic.claude-3-haiku-20240307-v1:0", aycoder.Request{Messages: ask}, `{"messages":[{"role":"user","content":[{"text":"q"}]}]}`},
		{"no cache", claude, aycoder.Request{NoCache: true, Tools: []*aycoder.ToolSpec{{Name: "x y"}}, Messages: ask},
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"x_y_beccb1197f2b3af4","inputSchema":{"json":{"type":"object"}}}}]},"messages":[{"role":"user","content":[{"text":"q"}]}]}`},
		{"any tool", llama, aycoder.Request{Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}},
			`{"toolConfig":{"tools":[` + spec + `],"toolChoice":{"any":{}}},"messages":[]}`},
		{"one tool", llama, aycoder.Request{Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "read"}},
			`{"toolConfig":{"tools":[` + spec + `],"toolChoice":{"tool":{"name":"read"}}},"messages":[]}`},
		{"no tool", llama, aycoder.Request{Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNone}}, `{"messages":[]}`},
		{"claude thinks", claude, aycoder.Request{Thinking: 10000, Temperature: new(0.5)},
			`{"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":10000}},"inferenceConfig":{"maxTokens":18192},"messages":[]}`},
		{"claude thinks the least", claude, aycoder.Request{Thinking: 1, MaxTokens: 5000, Temperature: new(1.0)},
			`{"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024}},"inferenceConfig":{"maxTokens":5000,"temperature":1},"messages":[]}`},
		{"claude must call", claude, aycoder.Request{NoCache: true, Thinking: 2000, Tools: []*aycoder.ToolSpec{tool}, ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}},
			`{"toolConfig":{"tools":[` + spec + `],"toolChoice":{"any":{}}},"messages":[]}`},
		{"nova thinks", "us.amazon.nova-2-lite-v1:0", aycoder.Request{Thinking: 90000, Temperature: new(0.5)},
			`{"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}},"inferenceConfig":{"temperature":0.5},"messages":[]}`},
		{"gpt-oss thinks", "openai.gpt-oss-120b-1:0", aycoder.Request{Thinking: 90000}, `{"additionalModelRequestFields":{"reasoning_effort":"high"},"messages":[]}`},
		{"gpt-oss thinks some", "openai.gpt-oss-120b-1:0", aycoder.Request{Thinking: 5000}, `{"additionalModelRequestFields":{"reasoning_effort":"medium"},"messages":[]}`},
		{"gpt-oss thinks a little", "openai.gpt-oss-120b-1:0", aycoder.Request{Thinking: 1}, `{"additionalModelRequestFields":{"reasoning_effort":"low"},"messages":[]}`},
		{"llama does not", llama, aycoder.Request{Thinking: 90000}, `{"messages":[]}`},
		{"thinking is off", claude, aycoder.Request{Thinking: -1}, `{"messages":[]}`},
		{"extra", claude, aycoder.Request{Thinking: 5000, MaxTokens: 7, Extra: map[string]json.RawMessage{
			"guardrailConfig": raw(`{"a":1}`), "additionalModelRequestFields": raw(`{"top_k":3}`), "inferenceConfig": raw(`{}`)}},
			`{"additionalModelRequestFields":{"top_k":3},"guardrailConfig":{"a":1},"inferenceConfig":{},"messages":[]}`},
		{"answer of a schema", claude, aycoder.Request{Output: &aycoder.OutputFormat{Name: "paint", Schema: raw(`{"type":"object","properties":{"n":{"minimum":1}}}`)}},
			`{"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"name":"paint","schema":"{\"type\":\"object\",\"properties\":{\"n\":{\"description\":\"(minimum 1)\"}},\"additionalProperties\":false}"}}}},"messages":[]}`},
		{"in words", claude, aycoder.Request{NoCache: true, Output: &aycoder.OutputFormat{Name: "map", Schema: raw(`{"type":"object"}`)}},
			`{"system":[{"text":"Answer with one JSON document and nothing else. It must fit this JSON Schema:\n{\"type\":\"object\"}"}],"messages":[]}`},
		{"not by llama", llama, aycoder.Request{Output: &aycoder.OutputFormat{Name: "map", Schema: raw(`{"type":"object"}`)}}, `{"messages":[]}`},
		{"roles are joined", llama, aycoder.Request{Messages: []*aycoder.Message{aycoder.User("a"), {Role: aycoder.RoleSystem, Parts: []aycoder.Part{&aycoder.Text{Text: "b\n"}}},
			aycoder.Assistant("c"), aycoder.Assistant(" "), aycoder.Assistant("d"), aycoder.User("e")}},
			`{"messages":[{"role":"user","content":[{"text":"a"},{"text":"<system>\nb\n\n</system>"}]},{"role":"assistant","content":[{"text":"c"},{"text":"d"}]},{"role":"user","content":[{"text":"e"}]}]}`},
		{"tools that are gone", llama, aycoder.Request{Messages: []*aycoder.Message{
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "old"}}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: "old"}}}}},
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"old","inputSchema":{"json":{"type":"object"}}}}]},"messages":[{"role":"user","content":[{"text":"(The conversation began before this.)"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"old","input":{}}}]},` +
				`{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"no output"}]}}]}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Model = tt.model
			data, err := newClient(t, nil).wire(&tt.req)
			require.NoError(t, err)
			assert.True(t, json.Valid(data), "%s", data)
			assert.Equal(t, tt.want, string(data))
		})
	}
}

func TestEncodeMessage(t *testing.T) {
	user, assistant := aycoder.RoleUser, aycoder.RoleAssistant
	tests := []struct {
		name  string
		role  aycoder.Role
		parts []aycoder.Part
		want  string
	}{
		{"escapes", user, []aycoder.Part{&aycoder.Text{Text: "<a> \"\\\n\x00 é\xff"}}, `{"text":"<a> \"\\\n\u0000 é` + "\ufffd" + `"}`},
		{"nothing", user, nil, ""},
		{"blank", user, []aycoder.Part{&aycoder.Text{}, &aycoder.Text{Text: " \n"}}, ""},
		{"citations", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: opaque(` {"citations":[ 1 ]}`)}},
			`{"citationsContent":{"content":[{"text":"a"}],"citations":[ 1 ]}}`},
		{"another's extra", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: &aycoder.Opaque{Provider: "x", Raw: raw(`{"citations":[]}`)}}}, `{"text":"a"}`},
		{"broken extra", assistant, []aycoder.Part{&aycoder.Text{Text: "a", Extra: opaque(`{"citations"`)}, &aycoder.Text{Text: "b", Extra: opaque(`{}`)}}, `{"text":"a"},{"text":"b"}`},
		{"thinking", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Signature: "s", Provider: provider}},
			`{"reasoningContent":{"reasoningText":{"text":"t","signature":"s"}}}`},
		{"thinking not signed", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Provider: provider}}, ""},
		{"another's thinking", assistant, []aycoder.Part{&aycoder.Thinking{Text: "t", Signature: "s", Provider: "anthropic"}}, ""},
		{"opaque", assistant, []aycoder.Part{opaque(` { "toolResult" : {} }`), &aycoder.Opaque{Provider: "x", Raw: raw(`{}`)}, opaque(`[`), opaque("{\"a\":\"\xff\"}")},
			`{ "toolResult" : {} }`},
		{"call", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "tooluse_1", Name: "read", Args: raw(`{"a": 1}`)}}, `{"toolUse":{"toolUseId":"tooluse_1","name":"read","input":{"a": 1}}}`},
		{"call that was cut off", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "read", Args: raw(`{"a": `)}, &aycoder.ToolUse{ID: "2", Name: "n", Args: raw(`[]`)}},
			`{"toolUse":{"toolUseId":"1","name":"read","input":{}}},{"toolUse":{"toolUseId":"2","name":"n","input":{}}}`},
		{"names of others", assistant, []aycoder.Part{&aycoder.ToolUse{ID: "functions.x:0", Name: "a b"}},
			`{"toolUse":{"toolUseId":"functions_x_0_e8e8c763431edc72","name":"a_b_e63f991904833892","input":{}}}`},
		{"results come first", user, []aycoder.Part{&aycoder.Text{Text: "go on"}, &aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{&aycoder.Text{Text: "ok"}}}, &aycoder.ToolOutput{ID: "2", IsError: true}},
			`{"toolResult":{"toolUseId":"1","content":[{"text":"ok"}]}},{"toolResult":{"toolUseId":"2","content":[{"text":"failed without a message"}],"status":"error"}},{"text":"go on"}`},
		{"images", user, []aycoder.Part{&aycoder.Media{Type: "image/PNG", Data: []byte("abc")}, &aycoder.Media{Type: "image/jpg", URL: "s3://b/k"}},
			`{"image":{"format":"png","source":{"bytes":"YWJj"}}},{"image":{"format":"jpeg","source":{"s3Location":{"uri":"s3://b/k"}}}}`},
		{"large image", user, []aycoder.Part{&aycoder.Media{Type: "image/png", Data: make([]byte, 3_750_001)}},
			`{"text":"[3750001 bytes of image/png, which this model is not shown]"}`},
		{"document", user, []aycoder.Part{&aycoder.Media{Type: "application/pdf", Name: "a  report.v1", Data: []byte("abc")}, &aycoder.Text{Text: "read it"}},
			`{"document":{"format":"pdf","name":"a--report-v1-1-1","source":{"bytes":"YWJj"}}},{"text":"read it"}`},
		{"document alone", user, []aycoder.Part{&aycoder.Media{Type: "text/x-go; charset=utf-8", Data: []byte("abc")}},
			`{"document":{"format":"txt","name":"document-1-1","source":{"bytes":"YWJj"}}},{"text":"[document]"}`},
		{"video", user, []aycoder.Part{&aycoder.Media{Type: "video/mp4", Data: []byte("abc")}}, `{"video":{"format":"mp4","source":{"bytes":"YWJj"}}}`},
		{"sound, address, nothing", user, []aycoder.Part{&aycoder.Media{Type: "audio/wav", Name: "a.wav", Data: []byte("abc")}, &aycoder.Media{Type: "image/png", URL: "https://x/y"}, &aycoder.Media{Type: "image/png"}},
			`{"text":"[3 bytes of audio/wav, which this model is not shown: a.wav]"},{"text":"[0 bytes of image/png, which this model is not shown: https://x/y]"},{"text":"[0 bytes of image/png, which this model is not shown]"}`},
		{"image in a result", user, []aycoder.Part{&aycoder.ToolOutput{ID: "1", IsError: true, Parts: []aycoder.Part{&aycoder.Media{Type: "image/gif", Data: []byte("abc")}, opaque(`{}`)}}},
			`{"toolResult":{"toolUseId":"1","content":[{"image":{"format":"gif","source":{"bytes":"YWJj"}}}],"status":"error"}}`},
		{"out of place", user, []aycoder.Part{&aycoder.ToolUse{ID: "1", Name: "n"}, &aycoder.Thinking{Text: "t", Signature: "s", Provider: provider}}, ""},
		{"media by the model", assistant, []aycoder.Part{&aycoder.Media{Type: "image/png", URL: "u"}, &aycoder.ToolOutput{ID: "1"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := wireKey{}.fragment(&aycoder.Message{Role: tt.role, Parts: tt.parts})
			require.NoError(t, err)
			assert.True(t, json.Valid([]byte("["+string(data)+"]")), "%s", data)
			assert.Equal(t, tt.want, string(data))
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	field := func(name, val string) map[string]json.RawMessage { return map[string]json.RawMessage{name: raw(val)} }
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
		{"schema", aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x", Schema: raw(`[]`)}}}, `tool "x": schema is not a JSON object`},
		{"schema of an answer", aycoder.Request{Output: &aycoder.OutputFormat{Name: "x", Schema: raw(`[]`)}}, `output "x": schema is not a JSON object`},
		{"nil tool", aycoder.Request{Tools: []*aycoder.ToolSpec{nil}}, "tool 0 is nil"},
		{"nil message", aycoder.Request{Messages: []*aycoder.Message{nil}}, "message 0 is nil"},
		{"nil system block", aycoder.Request{System: []*aycoder.Text{{Text: "a"}, nil}}, "system block 1 is nil"},
		{"nil part", parts(nil), "message 0: part 0 is nil"},
		{"nil call", parts((*aycoder.ToolUse)(nil)), "message 0: part 0 is nil"},
		{"nil output", parts((*aycoder.ToolOutput)(nil)), "message 0: part 0 is nil"},
		{"nil in an output", parts(&aycoder.ToolOutput{ID: "1", Parts: []aycoder.Part{(*aycoder.Media)(nil)}}), "message 0: part 0: part 0 is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := wiretest.Ask(t.Context(), t, newClient(t, nil), &tt.req)
			e, ok := errors.AsType[*aycoder.BadRequestError](a.Err)
			require.True(t, ok, "%v", a.Err)
			assert.Equal(t, "encode request: "+tt.want, e.Err.Error())
		})
	}
}

func TestDocumentNames(t *testing.T) {
	seen := map[string]bool{}
	for i, m := range []*aycoder.Media{{Name: "a.pdf"}, {Name: "a-pdf"}, {Name: "a.pdf"}, {}, {Data: []byte("x")}, {URL: "s3://x"},
		{Name: strings.Repeat("é  ", 200)}, {Name: "\x00\xff"}} {
		name := documentName(m, i/2, i%2)
		assert.Regexp(t, `^[a-zA-Z0-9()\[\]-]{1,120}$`, name)
		assert.False(t, seen[name], name)
		seen[name] = true
	}
}

// A document that occurs twice in a conversation has two names, within a message and
// across messages.
func TestSameDocumentTwice(t *testing.T) {
	pdf := &aycoder.Media{Type: "application/pdf", Name: "a.pdf", Data: []byte("x")}
	out := &aycoder.ToolOutput{ID: "1", Name: "read", Parts: []aycoder.Part{pdf}}
	m := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{out, pdf}}
	p, err := newClient(t, nil).encode(&aycoder.Request{Messages: []*aycoder.Message{m, m}})
	require.NoError(t, err)
	body := string(bytes.Join(p.Pieces, nil))
	for _, name := range []string{"a-pdf-1-1", "a-pdf-1-2", "a-pdf-2-1", "a-pdf-2-2"} {
		assert.Equal(t, 1, strings.Count(body, `"name":"`+name+`"`), "%s in %s", name, body)
	}
}

// Models of other makers accept neither reasoning nor a status.
func TestPlainModels(t *testing.T) {
	messages := []*aycoder.Message{aycoder.User("q"),
		{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
			&aycoder.Thinking{Text: "hm", Signature: "sig", Provider: provider},
			&aycoder.Opaque{Provider: provider, Raw: []byte(`{"reasoningContent":{"redactedContent":"eA=="}}`)},
			&aycoder.ToolUse{ID: "1", Name: "read"}}},
		{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: "read", IsError: true}}}}
	tests := map[string]bool{"us.anthropic.claude-sonnet-4-5-20250929-v1:0": true, "us.meta.llama4-maverick-17b-instruct-v1:0": false,
		"amazon.nova-2-lite-v1:0": true, "mistral.mistral-large-2407-v1:0": false, "arn:aws:bedrock:x:1:application-inference-profile/y": true}
	c := newClient(t, nil)
	for name, want := range tests {
		p, err := c.encode(&aycoder.Request{Model: name, Messages: messages})
		require.NoError(t, err)
		body := string(bytes.Join(p.Pieces, nil))
		assert.Equal(t, want, strings.Contains(body, "reasoningText"), name)
		assert.Equal(t, want, strings.Contains(body, "redactedContent"), name)
		assert.Equal(t, want, strings.Contains(body, `"status":"error"`), name)
	}
}

// Without the breakpoint on the last message, a body begins with the previous one.
func TestBodiesGrowAtTheEnd(t *testing.T) {
	var all []*aycoder.Message
	for range 20 {
		all = append(all, aycoder.User("fix it"), &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
			&aycoder.Thinking{Text: "hm", Signature: "s", Provider: provider}, &aycoder.ToolUse{ID: "1", Name: "read"}}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.ToolOutput{ID: "1", Name: "read"}}})
	}
	c := newClient(t, nil)
	var before []byte
	for n := 1; n <= len(all); n++ {
		body, err := c.wire(&aycoder.Request{System: []*aycoder.Text{{Text: "s"}}, Thinking: 2000,
			Tools: []*aycoder.ToolSpec{{Name: "read"}}, Messages: all[:n]})
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		require.Equal(t, 3, bytes.Count(body, []byte(cachePoint)))
		at := bytes.LastIndex(body, []byte(","+cachePoint))
		body = append(body[:at:at], body[at+1+len(cachePoint):]...)
		require.True(t, bytes.HasPrefix(body, bytes.TrimRight(before, "]}")), "step %d", n)
		before = body
	}
}

func TestNew(t *testing.T) {
	own := WithHTTPClient(&http.Client{})
	tests := []struct {
		name, region, env string
		opts              []Option
		want              string // of the error
		base, key         string
	}{
		{"from the environment", "eu-west-1", "env", nil, "", "https://bedrock-runtime.eu-west-1.amazonaws.com", "env"},
		{"options", "eu-west-1", "env", []Option{WithRegion("us-west-2"), WithAPIKey("own")}, "", "https://bedrock-runtime.us-west-2.amazonaws.com", "own"},
		{"signed", "us-east-1", "", []Option{own}, "", "https://bedrock-runtime.us-east-1.amazonaws.com", ""},
		{"elsewhere", "", "env", []Option{WithBaseURL("http://localhost:1/")}, "", "http://localhost:1", ""},
		{"no region", "", "env", nil, "WithRegion: no region: set AWS_REGION", "", ""},
		{"bad region", "x/y", "env", nil, `AWS_REGION: region "x/y" is not valid`, "", ""},
		{"bad option", "", "env", []Option{WithRegion("evil.com#")}, "WithRegion: region", "", ""},
		{"no key", "us-east-1", "", nil, "set AWS_BEARER_TOKEN_BEDROCK or pass WithAPIKey", "", ""},
		{"bad key", "us-east-1", "", []Option{WithAPIKey("a b")}, "WithAPIKey: key", "", ""},
		{"tokens", "us-east-1", "k", []Option{WithMaxTokens(0), WithIdleTimeout(0)}, "WithMaxTokens: 0 is less than 1", "", ""},
		{"header", "us-east-1", "k", []Option{WithHeader("a b", "")}, "WithHeader", "", ""},
		{"client", "us-east-1", "k", []Option{WithHTTPClient(nil)}, "client is nil", "", ""},
		{"token", "us-east-1", "k", []Option{WithTokenSource(nil)}, "function is nil", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("AWS_REGION", tt.region)
			t.Setenv("AWS_DEFAULT_REGION", "")
			t.Setenv(keyEnv, tt.env)
			c, err := New("m", tt.opts...)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.base, c.cfg.BaseURL)
			assert.Equal(t, tt.key, c.cfg.Key())
			name, model := c.ModelName()
			assert.Equal(t, "bedrock m", name+" "+model)
			assert.Equal(t, "bedrock.Client(m at "+tt.base+")", c.String())
		})
	}
	_, err := New("", WithRegion("us-east-1"), WithAPIKey("k"))
	assert.ErrorContains(t, err, "model: name is empty")
}

func TestFormatsOutput(t *testing.T) {
	c := newClient(t, nil)
	for model, want := range map[string]bool{"": true, claude: true, llama: false, "us.anthropic.claude-opus-4-1-20250805-v1:0": false,
		"global.anthropic.claude-opus-4-6-v1": true, "anthropic.claude-3-haiku-20240307-v1:0": false} {
		assert.Equal(t, want, c.FormatsOutput(model), model)
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("text", "id", "name", []byte(`{"citations":[1]}`), "image/png")
	f.Add("\xff\x00\"\\\u2028<", "a.b", "", []byte(`{"a":"\xff"}`), "text/plain")
	f.Add("", "", "", []byte(`{`), "application/pdf")
	c, err := New(claude, WithAPIKey(testKey), WithRegion("us-east-1"))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text, id, name string, raw []byte, typ string) {
		extra := &aycoder.Opaque{Provider: provider, Raw: raw}
		req := &aycoder.Request{System: []*aycoder.Text{{Text: text}}, Stop: []string{text},
			Messages: []*aycoder.Message{
				{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
					&aycoder.Thinking{Text: text, Signature: id, Provider: provider},
					&aycoder.Text{Text: text, Extra: extra}, extra,
					&aycoder.ToolUse{ID: id, Name: name, Args: raw, Extra: extra}}},
				{Role: aycoder.RoleUser, Parts: []aycoder.Part{
					&aycoder.Media{Type: typ, Name: name, Data: raw}, &aycoder.Media{Type: typ, URL: text},
					&aycoder.ToolOutput{ID: id, Name: name, Parts: []aycoder.Part{&aycoder.Text{Text: text}}}}},
				{Role: aycoder.Role(name), Parts: []aycoder.Part{&aycoder.Text{Text: text}}},
			}}
		if name != "" {
			req.Tools = []*aycoder.ToolSpec{{Name: name, Description: text, Schema: raw}}
			req.Output = &aycoder.OutputFormat{Name: name, Schema: raw}
		}
		data, err := c.wire(req)
		if err != nil {
			return // a schema instead of an instance
		}
		require.True(t, json.Valid(data), "%s", data)
	})
}
