package google

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func says(role aycoder.Role, parts ...aycoder.Part) *aycoder.Message {
	return &aycoder.Message{Role: role, Parts: parts}
}

func text(s string) *aycoder.Text { return &aycoder.Text{Text: s} }

func extra(provider, raw string) *aycoder.Opaque {
	return &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(raw)}
}

func use(id, name, args string) *aycoder.ToolUse {
	return &aycoder.ToolUse{ID: id, Name: name, Args: json.RawMessage(args)}
}

const helloContents = `"contents":[{"role":"user","parts":[{"text":"hello"}]}]`

// Requests express the settings in the words of the API, in a fixed order.
func TestRequest(t *testing.T) {
	half := 0.5
	spec := &aycoder.ToolSpec{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`)}
	output := &aycoder.OutputFormat{Name: "o", Schema: json.RawMessage(`{"type":"object"}`)}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	const declared = `"tools":[{"functionDeclarations":[{"name":"read","description":"Reads.","parametersJsonSchema":{"type":"object"}}]}]`
	tests := []struct {
		name, model string
		req         aycoder.Request
		want        string // before the contents
	}{
		{"nothing", "gemini-2.5-flash", aycoder.Request{}, ``},
		{"system", "gemini-2.5-flash", aycoder.Request{System: []*aycoder.Text{text("a"), text(""), text("b")}},
			`"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},`},
		{"sampling", "gemini-2.5-flash", aycoder.Request{MaxTokens: 7, Temperature: &half, Stop: []string{"x", "\n"}},
			`"generationConfig":{"maxOutputTokens":7,"temperature":0.5,"stopSequences":["x","\n"]},`},
		{"tools", "gemini-2.5-flash", aycoder.Request{Tools: []*aycoder.ToolSpec{spec}}, declared + `,`},
		{"tool without a schema", "gemini-2.5-flash", aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "a b"}}},
			`"tools":[{"functionDeclarations":[{"name":"` + wireName("a b") +
				`","description":"","parametersJsonSchema":{"type":"object","properties":{}}}]}],`},
		{"some tool", "gemini-2.5-flash", aycoder.Request{Tools: []*aycoder.ToolSpec{spec},
			ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}},
			declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},`},
		{"no tool", "gemini-2.5-flash", aycoder.Request{Tools: []*aycoder.ToolSpec{spec},
			ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNone}},
			declared + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},`},
		{"this tool", "gemini-2.5-flash", aycoder.Request{Tools: []*aycoder.ToolSpec{spec},
			ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: "read"}},
			declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["read"]}},`},
		{"choice without tools", "gemini-2.5-flash", aycoder.Request{ToolChoice: aycoder.ToolChoice{Mode: aycoder.ToolAny}}, ``},
		{"thinking by budget", "gemini-2.5-flash", aycoder.Request{Thinking: 2000},
			`"generationConfig":{"thinkingConfig":{"thinkingBudget":2000,"includeThoughts":true}},`},
		{"thinking off", "gemini-2.5-flash", aycoder.Request{Thinking: -1},
			`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}},`},
		{"thinking cannot be off", "gemini-2.5-pro", aycoder.Request{Thinking: -1},
			`"generationConfig":{"thinkingConfig":{"thinkingBudget":128}},`},
		{"thinking raises the bound", "gemini-2.5-pro", aycoder.Request{Thinking: 4000, MaxTokens: 1000},
			`"generationConfig":{"maxOutputTokens":5000,"thinkingConfig":{"thinkingBudget":4000,"includeThoughts":true}},`},
		{"thinking by level", "gemini-3-flash-preview", aycoder.Request{Thinking: 2000},
			`"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}},`},
		{"thinking a little", "models/gemini-3.5-flash", aycoder.Request{Thinking: -1},
			`"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}},`},
		{"does not think", "gemini-2.0-flash", aycoder.Request{Thinking: 2000}, ``},
		{"output", "gemini-2.5-flash", aycoder.Request{Output: output},
			`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}},`},
		{"output beside tools", "gemini-2.5-flash", aycoder.Request{Output: output, Tools: []*aycoder.ToolSpec{spec}},
			`"systemInstruction":{"parts":[{"text":"Answer with one JSON document and nothing else. It must fit this JSON Schema:` +
				`\n{\"type\":\"object\"}"}]},` + declared + `,`},
		{"output beside tools of a newer model", "gemini-3-pro-preview",
			aycoder.Request{Output: output, Tools: []*aycoder.ToolSpec{spec}},
			declared + `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object"}},`},
		{"output of an old model", "gemini-1.5-flash", aycoder.Request{Output: output}, ``},
		{"extra", "gemini-2.5-flash", aycoder.Request{System: []*aycoder.Text{text("a")}, MaxTokens: 7,
			Tools: []*aycoder.ToolSpec{spec}, Extra: map[string]json.RawMessage{
				"safetySettings": raw(`[]`), "generationConfig": raw(`{"topK":3,"maxOutputTokens":9}`),
				"tools": raw(` [{"codeExecution":{}}]`), "labels": raw(`{}`), "systemInstruction": raw(`{"parts":[]}`)}},
			strings.TrimSuffix(declared, `]`) + `,{"codeExecution":{}}],"generationConfig":{"topK":3,"maxOutputTokens":9},` +
				`"labels":{},"safetySettings":[],"systemInstruction":{"parts":[]},`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = []*aycoder.Message{aycoder.User("hello")}
			c, err := New(tt.model, WithAPIKey(testKey))
			require.NoError(t, err)
			got, err := c.wire(&tt.req)
			require.NoError(t, err)
			require.True(t, json.Valid(got), "%s", got)
			assert.Equal(t, "{"+tt.want+helloContents+"}", string(got))
		})
	}
}

// Requests that cannot be sent are refused with an error that says why.
func TestRequestRefused(t *testing.T) {
	nan := math.NaN()
	msgs := []*aycoder.Message{aycoder.User("hello")}
	x := func(name, val string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(val)}
	}
	tests := []struct {
		name string
		req  aycoder.Request
		want string
	}{
		{"no messages", aycoder.Request{}, "no message has anything to send"},
		{"empty message", aycoder.Request{Messages: []*aycoder.Message{aycoder.User("")}}, "no message has anything to send"},
		{"nil message", aycoder.Request{Messages: []*aycoder.Message{nil}}, "message 0 is nil"},
		{"nil part", aycoder.Request{Messages: []*aycoder.Message{says(aycoder.RoleUser, (*aycoder.Text)(nil))}}, "part 0 is nil"},
		{"nil part of an output", aycoder.Request{Messages: []*aycoder.Message{says(aycoder.RoleUser,
			&aycoder.ToolOutput{Name: "x", Parts: []aycoder.Part{nil}})}}, "part 0: part 0 is nil"},
		{"nil system", aycoder.Request{Messages: msgs, System: []*aycoder.Text{nil}}, "system block 0 is nil"},
		{"nil tool", aycoder.Request{Messages: msgs, Tools: []*aycoder.ToolSpec{nil}}, "tool 0 is nil"},
		{"schema", aycoder.Request{Messages: msgs, Tools: []*aycoder.ToolSpec{{Name: "a", Schema: json.RawMessage(`[]`)}}},
			`tool "a": schema is not a JSON object`},
		{"temperature", aycoder.Request{Messages: msgs, Temperature: &nan}, "temperature NaN is not a number"},
		{"reserved", aycoder.Request{Messages: msgs, Extra: x("contents", `[]`)}, `field "contents" is not for Extra`},
		{"extra", aycoder.Request{Messages: msgs, Extra: x("labels", `{`)}, `field "labels" of Extra is not JSON`},
		{"extra tools", aycoder.Request{Messages: msgs, Extra: x("tools", `{}`)}, `field "tools" of Extra is not a list`},
		{"extra config", aycoder.Request{Messages: msgs, Extra: x("generationConfig", `[]`)},
			`field "generationConfig" of Extra: not a JSON object`},
		{"output", aycoder.Request{Messages: msgs, Output: &aycoder.OutputFormat{Name: "o"}},
			`schema of output "o" is not a JSON object`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New("gemini-2.5-flash", WithAPIKey(testKey))
			require.NoError(t, err)
			_, err = aycoder.Complete(t.Context(), c, &tt.req)
			var bad *aycoder.BadRequestError
			require.ErrorAs(t, err, &bad)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// Messages become contents with alternating roles. Everything that the service needs back
// is where it was, and nothing of other services is.
func TestContents(t *testing.T) {
	const sig = `{"thoughtSignature":"c2ln\u003d"}`
	signedUse := use("c1", "read", `{"a":1}`)
	signedUse.Extra = extra(provider, sig)
	foreign := use("functions.x:0", "read", `{"a": 1}`)
	foreign.Extra = extra("openai", sig)
	cut := use("c9", "read", `{"a`)
	out := func(id, s string) *aycoder.ToolOutput {
		return &aycoder.ToolOutput{ID: id, Name: "read", Parts: []aycoder.Part{text(s)}}
	}
	png := &aycoder.Media{Type: "image/png", Data: []byte("png")}
	const pngPart = `{"inlineData":{"mimeType":"image/png","data":"cG5n"}}`
	const response = `{"functionResponse":{"id":"c1","name":"read","response":{"output":"ok"}}}`
	tests := []struct {
		name, model string
		msgs        []*aycoder.Message
		want        string
	}{
		{"roles are joined", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant), aycoder.User("b"),
			aycoder.Assistant("c"), aycoder.Assistant("d"), says(aycoder.RoleSystem, text("e"))},
			`{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"},{"text":"d"}]},` +
				`{"role":"user","parts":[{"text":"<system>\ne\n</system>"}]}`},
		{"the user speaks first", "gemini-2.5-pro", []*aycoder.Message{aycoder.Assistant("a")},
			string(around[firstModel]) + `{"text":"a"}]}`},
		{"signatures go back as they came", "gemini-3-pro-preview", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant,
			&aycoder.Thinking{Text: "summary", Provider: provider},
			&aycoder.Thinking{Text: "signed", Signature: "c2ln", Provider: provider},
			&aycoder.Thinking{Signature: "c2ln", Provider: provider},
			&aycoder.Thinking{Text: "foreign", Signature: "c2ln", Provider: "anthropic"},
			&aycoder.Text{Text: "x", Extra: extra(provider, sig)}, signedUse, use("c2", "read", `{}`),
			&aycoder.Text{Extra: extra(provider, sig)}, text(""))},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[` +
				`{"text":"signed","thought":true,"thoughtSignature":"c2ln"},{"thought":true,"thoughtSignature":"c2ln"},` +
				`{"text":"x","thoughtSignature":"c2ln\u003d"},` +
				`{"functionCall":{"id":"c1","name":"read","args":{"a":1}},"thoughtSignature":"c2ln\u003d"},` +
				`{"functionCall":{"id":"c2","name":"read","args":{}}},{"text":"","thoughtSignature":"c2ln\u003d"}]}`},
		{"calls of another model", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, foreign, cut)},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[` +
				`{"functionCall":{"id":"functions.x:0","name":"read","args":{"a": 1}}},{"functionCall":{"id":"c9","name":"read","args":{}}}]}`},
		{"calls of another model must be signed", "gemini-3-pro-preview",
			[]*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, foreign, use("c2", "read", `{}`))},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[` +
				`{"functionCall":{"id":"functions.x:0","name":"read","args":{"a": 1}},"thoughtSignature":` + skipSignature + `},` +
				`{"functionCall":{"id":"c2","name":"read","args":{}}}]}`},
		{"opaque blocks", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant,
			extra(provider, `{ "executableCode":{"code":"1"}, "thoughtSignature":"x"}`), extra("anthropic", `{"x":1}`),
			extra(provider, `{"groundingMetadata":{"a":1}}`), extra(provider, `{}`))},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{ "executableCode":{"code":"1"}, "thoughtSignature":"x"}]}`},
		{"outputs come first and together", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, signedUse),
			says(aycoder.RoleUser, text("b"), out("c1", "ok"), &aycoder.ToolOutput{ID: "c2", IsError: true,
				Name: "read", Parts: []aycoder.Part{text("no"), text("such")}})},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[` +
				`{"functionCall":{"id":"c1","name":"read","args":{"a":1}},"thoughtSignature":"c2ln\u003d"}]},` +
				`{"role":"user","parts":[` + response +
				`,{"functionResponse":{"id":"c2","name":"read","response":{"error":"no\nsuch"}}},{"text":"b"}]}`},
		{"output without a name", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, use("c1", "read", `{}`)),
			says(aycoder.RoleUser, &aycoder.ToolOutput{ID: "c1", Parts: []aycoder.Part{text("ok")}})},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{}}}]},` +
				`{"role":"user","parts":[` + response + `]}`},
		{"media of outputs", "gemini-2.5-pro", []*aycoder.Message{says(aycoder.RoleUser,
			&aycoder.ToolOutput{ID: "c1", Name: "read", Parts: []aycoder.Part{text("ok"), png}}, text("b"))},
			`{"role":"user","parts":[` + response + `,` + pngPart + `,{"text":"b"}]}`},
		{"media in outputs", "gemini-3-flash", []*aycoder.Message{says(aycoder.RoleUser,
			&aycoder.ToolOutput{ID: "c1", Name: "read", Parts: []aycoder.Part{text("ok"), png,
				&aycoder.Media{Type: "audio/wav", Data: []byte("wav")}, png}})},
			`{"role":"user","parts":[` + strings.TrimSuffix(response, "}}") + `,"parts":[` + pngPart + `,` + pngPart +
				`]}},{"inlineData":{"mimeType":"audio/wav","data":"d2F2"}}]}`},
		{"media", "gemini-2.5-pro", []*aycoder.Message{says(aycoder.RoleUser, png,
			&aycoder.Media{Type: "IMAGE/JPG; q=1", URL: "https://x/y.jpg"}, &aycoder.Media{URL: "https://youtu.be/x"},
			&aycoder.Media{Type: "application/json", Data: []byte("{}")}, &aycoder.Media{Type: "text/csv", Data: []byte("a")},
			&aycoder.Media{Type: "text/x-go", Data: []byte("a")}, &aycoder.Media{Type: "application/zip", Name: "a.zip", Data: []byte("a")},
			&aycoder.Media{Type: "image/png"})},
			`{"role":"user","parts":[` + pngPart + `,{"fileData":{"mimeType":"image/jpeg","fileUri":"https://x/y.jpg"}},` +
				`{"fileData":{"fileUri":"https://youtu.be/x"}},{"inlineData":{"mimeType":"text/plain","data":"e30="}},` +
				`{"inlineData":{"mimeType":"text/csv","data":"YQ=="}},{"inlineData":{"mimeType":"text/plain","data":"YQ=="}},` +
				`{"text":"[1 bytes of application/zip, which this model is not shown: a.zip]"},` +
				`{"text":"[0 bytes of image/png, which this model is not shown]"}]}`},
		{"media in addresses", "gemini-2.5-pro", []*aycoder.Message{says(aycoder.RoleUser,
			&aycoder.Media{URL: "data:image/png;base64,cG5n"}, &aycoder.Media{Type: "image/jpeg", URL: "Data:;BASE64,x"},
			&aycoder.Media{URL: "data:,a%20b"}, &aycoder.Media{Name: "a.zip", URL: "data:application/zip;base64,YQ=="},
			&aycoder.Media{URL: "data:"})},
			`{"role":"user","parts":[` + pngPart + `,{"inlineData":{"mimeType":"image/jpeg","data":"eA=="}},` +
				`{"inlineData":{"mimeType":"text/plain","data":"YSBi"}},` +
				`{"text":"[1 bytes of application/zip, which this model is not shown: a.zip]"},` +
				`{"text":"[0 bytes of , which this model is not shown]"}]}`},
		{"media in the address of an output", "gemini-3-flash", []*aycoder.Message{says(aycoder.RoleUser,
			&aycoder.ToolOutput{ID: "c1", Name: "read", Parts: []aycoder.Part{text("ok"), &aycoder.Media{URL: "data:image/png;base64,cG5n"}}})},
			`{"role":"user","parts":[` + strings.TrimSuffix(response, "}}") + `,"parts":[` + pngPart + `]}}]}`},
		{"media of another model", "gemini-2.5-pro", []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, png)},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"[3 bytes of image/png, which this model is not shown]"}]}`},
		{"calls and outputs in the wrong mouth", "gemini-3-pro", []*aycoder.Message{says(aycoder.RoleUser, text("a"), foreign,
			extra(provider, `{"executableCode":{}}`)), says(aycoder.RoleAssistant, out("c1", "ok"), text("b"))},
			`{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New(tt.model, WithAPIKey(testKey))
			require.NoError(t, err)
			for range 2 { // the second time from the cache
				got, err := c.wire(&aycoder.Request{Messages: tt.msgs})
				require.NoError(t, err)
				require.True(t, json.Valid(got), "%s", got)
				require.Equal(t, `{"contents":[`+tt.want+`]}`, string(got))
			}
		})
	}
}

// A message that was encoded for one model is encoded again for a model that needs
// another form.
func TestEncodedForEachModel(t *testing.T) {
	msgs := []*aycoder.Message{aycoder.User("a"), says(aycoder.RoleAssistant, use("c", "read", `{}`))}
	for _, model := range []string{"gemini-2.5-pro", "gemini-3-pro", "gemini-2.5-flash"} {
		c, err := New(model, WithAPIKey(testKey))
		require.NoError(t, err)
		got, err := c.wire(&aycoder.Request{Messages: msgs})
		require.NoError(t, err)
		assert.Equal(t, model == "gemini-3-pro", strings.Contains(string(got), skipSignature), model)
	}
}

func TestWireName(t *testing.T) {
	long := strings.Repeat("x", 65)
	valid := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)
	seen := map[string]bool{}
	for _, s := range []string{"read", "_b-c9", strings.Repeat("x", 64), "", "9", "_9", "-a", "a b", "a:b", "\u00e9", long, long + "y", "a_b"} {
		got := wireName(s)
		assert.Regexp(t, valid, got, "of %q", s)
		assert.False(t, seen[got], "%q -> %q", s, got)
		seen[got] = true
	}
	assert.Equal(t, "read", wireName("read"))
}

func TestModels(t *testing.T) {
	tests := []struct {
		name            string
		strict, formats bool
		think           thinking // of 5000 tokens
	}{
		{"gemini-1.5-pro", false, false, thinking{}},
		{"gemini-2.0-flash-001", false, true, thinking{}},
		{"gemini-2.5-flash-lite", false, true, thinking{budget: 5000, set: true}},
		{"publishers/google/models/gemini-2.5-pro", false, true, thinking{budget: 5000, set: true}},
		{"gemini-2.5-flash-image", false, false, thinking{}},
		{"gemini-3-pro-preview", true, true, thinking{level: "HIGH"}},
		{"gemini-3.1-pro-preview", true, true, thinking{level: "MEDIUM"}},
		{"gemini-flash-latest", true, true, thinking{level: "MEDIUM"}},
		{"gemini-4-x", true, true, thinking{level: "MEDIUM"}},
		{"gemini-exp-1206", false, false, thinking{}},
		{"gemma-3-27b-it", false, false, thinking{}},
		{"tuned", false, false, thinking{budget: 5000, set: true}},
		{"gemini-", false, false, thinking{}},
		{"", false, false, thinking{budget: 5000, set: true}},
		{"gemini-nan-inf", false, false, thinking{}},
	}
	for _, tt := range tests {
		m := parseModel(tt.name)
		assert.Equal(t, tt.strict, m.strict(), tt.name)
		assert.Equal(t, tt.formats, m.formats(), tt.name)
		assert.Equal(t, tt.think, m.think(5000), tt.name)
	}
	assert.Equal(t, 512, parseModel("gemini-2.5-flash-lite").think(10).budget)
	assert.Equal(t, thinking{set: true}, parseModel("gemini-2.5-flash-lite").think(-1))
	assert.Equal(t, 24576, parseModel("gemini-2.5-flash").think(math.MaxInt).budget)
	assert.Equal(t, 1, parseModel("gemini-2.5-flash").think(1).budget)
	assert.Equal(t, "LOW", parseModel("gemini-3.8-flash").level(-1))
}

// FuzzEncode checks that every conversation becomes a request in valid JSON.
func FuzzEncode(f *testing.F) {
	f.Add("text", "name", `{"a":1}`, `{"thoughtSignature":"x"}`, "image/png", true)
	f.Add("\xff", "a b", `{"a`, `{"groundingMetadata":1}`, "text/x", false)
	f.Add("", "", ``, ` { } `, "", true)
	f.Add("\u2028<>", "\x00", `[]`, `{"thoughtSignature":7}`, "audio/", false)
	f.Fuzz(func(t *testing.T, s, name, args, raw, typ string, strict bool) {
		o := extra(provider, raw)
		u := &aycoder.ToolUse{ID: name, Name: name, Args: json.RawMessage(args), Extra: o}
		media := &aycoder.Media{Type: typ, Name: name, Data: []byte(s)}
		linked := &aycoder.Media{Type: typ, URL: s}
		out := &aycoder.ToolOutput{ID: s, Name: name, IsError: strict, Parts: []aycoder.Part{text(s), media, linked}}
		key := wireKey{provider: provider, strict: strict}
		for _, role := range []aycoder.Role{aycoder.RoleUser, aycoder.RoleAssistant, aycoder.RoleSystem} {
			m := says(role, &aycoder.Text{Text: s, Extra: o}, &aycoder.Thinking{Text: s, Signature: name, Provider: provider},
				u, out, media, linked, o)
			data, err := key.encode(m)
			require.NoError(t, err)
			require.True(t, json.Valid([]byte("["+string(data)+"]")), "%q", data)
		}
	})
}
