package compat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// A testCase is a request that the SDKs must understand.
type testCase struct {
	name string
	req  *aycoder.Request
}

const schema = `{"type":"object","properties":{"city":{"type":"string","description":"a <city> & \"more\""},` +
	`"days":{"type":"integer","minimum":1,"maximum":7},"unit":{"enum":["c","f"]},"tags":{"type":"array",` +
	`"items":{"$ref":"#/$defs/tag"}},"more":{"anyOf":[{"type":"string","pattern":"^a"},{"type":"null"}]}},` +
	`"required":["city"],"additionalProperties":false,"$defs":{"tag":{"type":"string","maxLength":9}}}`

// coding are the tools of this library, and others with more in their schemas.
func coding(t testing.TB) []*aycoder.ToolSpec {
	t.Helper()
	ws, err := workspace.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ws.Close()) })
	all, err := tools.Coding(ws)
	require.NoError(t, err)
	var specs []*aycoder.ToolSpec
	for _, tool := range all {
		specs = append(specs, new(tool.Spec()))
	}
	return append(specs,
		&aycoder.ToolSpec{Name: "weather", Description: "Tells the weather.", Schema: json.RawMessage(schema)},
		&aycoder.ToolSpec{Name: "now"},
		&aycoder.ToolSpec{Name: "mcp.server/odd näme", Description: "Has an odd name.",
			Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
}

func text(s string) *aycoder.Text { return &aycoder.Text{Text: s} }

func call(id, name, args string) *aycoder.ToolUse {
	return &aycoder.ToolUse{ID: id, Name: name, Args: json.RawMessage(args)}
}

func output(id, name string, parts ...aycoder.Part) *aycoder.ToolOutput {
	return &aycoder.ToolOutput{ID: id, Name: name, Parts: parts}
}

func failed(id, name string, parts ...aycoder.Part) *aycoder.ToolOutput {
	return &aycoder.ToolOutput{ID: id, Name: name, Parts: parts, IsError: true}
}

func user(parts ...aycoder.Part) *aycoder.Message {
	return &aycoder.Message{Role: aycoder.RoleUser, Parts: parts}
}

func assistant(parts ...aycoder.Part) *aycoder.Message {
	return &aycoder.Message{Role: aycoder.RoleAssistant, Parts: parts}
}

func system(s string) *aycoder.Message {
	return &aycoder.Message{Role: aycoder.RoleSystem, Parts: []aycoder.Part{text(s)}}
}

func talk(messages ...*aycoder.Message) *aycoder.Request { return &aycoder.Request{Messages: messages} }

var (
	png   = &aycoder.Media{Type: "image/png", Name: "a.png", Data: []byte("\x89PNG\r\n")}
	photo = &aycoder.Media{Type: "image/jpeg", URL: "https://example.com/a.jpg"}
	pdf   = &aycoder.Media{Type: "application/pdf", Name: "a.pdf", Data: []byte("%PDF-1.4")}
	sound = &aycoder.Media{Type: "audio/wav", Name: "a.wav", Data: []byte("RIFF....WAVE")}
	notes = &aycoder.Media{Type: "text/markdown", Name: "a.md", Data: []byte("# Title\n")}
)

const unicode = "ä \u2028 \U0001F600 \u0000 \u0007 \xff </script> \\ \" \t\r\n \u200d\ufeff"

// cases returns requests with everything that a request can have: settings, tools, parts,
// and difficult contents. The parameter own has parts that the service wants back
// unchanged.
func cases(t testing.TB, own []aycoder.Part, extra map[string]json.RawMessage) []testCase {
	t.Helper()
	all := append(settings(t), conversations()...)
	all = append(all, troubles()...)
	all = append(all, testCase{"own parts", talk(user(text("go")), assistant(append(own, call("c1", "now", "{}"))...),
		user(output("c1", "now", text("12:00"))), assistant(append(own, text("It is noon."))...), user(text("thanks")))})
	all = append(all, testCase{"extra", &aycoder.Request{Messages: talk(user(text("go"))).Messages, Extra: extra}})
	for _, c := range all {
		if len(c.req.Tools) == 0 && c.req.Output == nil {
			with := *c.req
			with.Tools, with.NoCache = coding(t), true
			all = append(all, testCase{c.name + ", with tools and no cache", &with})
		}
	}
	return all
}

// settings returns requests that differ in everything but the conversation.
func settings(t testing.TB) []testCase {
	t.Helper()
	hello := []*aycoder.Message{aycoder.User("hello")}
	specs := coding(t)
	all := []testCase{
		{"hello", talk(hello...)},
		{"model", &aycoder.Request{Messages: hello, Model: "another-model"}},
		{"system", &aycoder.Request{Messages: hello, System: []*aycoder.Text{text("Be brief."), text(" \n"),
			text("Be kind.")}}},
		{"max tokens", &aycoder.Request{Messages: hello, MaxTokens: 1234}},
		{"few tokens", &aycoder.Request{Messages: hello, MaxTokens: 1}},
		{"cold", &aycoder.Request{Messages: hello, Temperature: new(0.0)}},
		{"warm", &aycoder.Request{Messages: hello, Temperature: new(0.7)}},
		{"warm and thinking", &aycoder.Request{Messages: hello, Temperature: new(0.7), Thinking: 2000}},
		{"stop", &aycoder.Request{Messages: hello, Stop: []string{"END", "\"\n"}}},
		{"thinks a little", &aycoder.Request{Messages: hello, Thinking: 1}},
		{"thinks", &aycoder.Request{Messages: hello, Thinking: 4096, MaxTokens: 2048}},
		{"thinks a lot", &aycoder.Request{Messages: hello, Thinking: 100_000}},
		{"does not think", &aycoder.Request{Messages: hello, Thinking: -1}},
		{"no cache", &aycoder.Request{Messages: hello, NoCache: true, System: []*aycoder.Text{text("Be brief.")}}},
		{"output", &aycoder.Request{Messages: hello, Output: &aycoder.OutputFormat{Name: "forecast",
			Schema: json.RawMessage(schema)}}},
		{"output, strict", &aycoder.Request{Messages: hello, Output: &aycoder.OutputFormat{Name: "city",
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],` +
				`"additionalProperties":false}`)}}},
		{"output and tools", &aycoder.Request{Messages: hello, Tools: specs, Output: &aycoder.OutputFormat{Name: "city",
			Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}}},
	}
	for name, choice := range map[string]aycoder.ToolChoice{
		"auto": {}, "none": {Mode: aycoder.ToolNone}, "any": {Mode: aycoder.ToolAny},
		"named": {Mode: aycoder.ToolNamed, Name: "weather"}, "oddly named": {Mode: aycoder.ToolNamed, Name: specs[7].Name},
	} {
		all = append(all,
			testCase{"tools, " + name, &aycoder.Request{Messages: hello, Tools: specs, ToolChoice: choice}},
			testCase{"tools, thinks, " + name, &aycoder.Request{Messages: hello, Tools: specs, ToolChoice: choice,
				Thinking: 3000}},
			testCase{"choice without tools, " + name, &aycoder.Request{Messages: hello, ToolChoice: choice}})
	}
	return all
}

// conversations returns histories like those of a run.
func conversations() []testCase {
	return []testCase{
		{"talk", talk(user(text("hello")), assistant(text("hi")), user(text("and"), text("more")))},
		{"call", talk(user(text("go")), assistant(text("Let me see."), call("call_1", "weather", `{"city":"Ulm"}`)),
			user(output("call_1", "weather", text("rain"))), assistant(text("It rains.")))},
		{"parallel calls", talk(user(text("go")),
			assistant(call("call_1", "weather", `{"city":"Ulm","days":3,"tags":["a"],"more":null}`), call("call_2", "now",
				"{}"),
				call("call_3", "weather", `{"city":"Rom","big":12345678901234567890,"f":1e3}`)),
			user(output("call_1", "weather", text("rain"), text("and wind")), failed("call_2", "now", text("no clock")),
				output("call_3", "weather")),
			assistant(text("It rains.")), user(text("thanks")))},
		{"outputs of media", talk(user(text("go")), assistant(call("c1", "now", "{}"), call("c2", "now", "{}"), call("c3",
			"now", "{}")),
			user(output("c1", "now", text("see"), png), output("c2", "now", pdf, photo, sound, notes), failed("c3", "now",
				png, text("oh"))))},
		{"outputs and a word", talk(user(text("go")), assistant(call("c1", "now", "{}")),
			user(text("By the way:"), output("c1", "now", text("12:00")), text("stop")))},
		{"media", talk(user(text("look"), png, photo, pdf, notes))},
		{"media alone", talk(user(png), assistant(text("nice")), user(pdf))},
		{"sound", talk(user(text("listen"), sound, &aycoder.Media{Type: "audio/mpeg", Data: []byte("ID3")}))},
		{"film", talk(user(text("watch"), &aycoder.Media{Type: "video/mp4", Data: []byte("ftyp")}))},
		{"odd media", talk(user(text("look"), &aycoder.Media{Type: "image/tiff", Data: []byte("II*")},
			&aycoder.Media{Type: "image/png"},
			&aycoder.Media{Type: "application/zip", Name: "a.zip", Data: []byte("PK")},
			&aycoder.Media{URL: "https://example.com/x"},
			&aycoder.Media{Type: "application/pdf", URL: "https://example.com/a.pdf"}))},
		{"system in the middle", talk(user(text("hello")), assistant(text("hi")), system("Be brief from now on."),
			user(text("go on")))},
		{"system first", talk(system("Be brief."), user(text("go on")))},
		{"several of one role", talk(user(text("a")), user(text("b")), assistant(text("c")), assistant(text("d")),
			user(text("e")))},
		{"assistant last", talk(user(text("hello")), assistant(text("Once upon a")))},
	}
}

// troubles returns histories from other sources: other providers, broken answers, unusual
// hosts.
func troubles() []testCase {
	foreign := []aycoder.Part{
		&aycoder.Thinking{Text: "hm", Signature: "sig", Provider: "elsewhere"}, &aycoder.Thinking{Text: "unsigned"},
		&aycoder.Opaque{Provider: "elsewhere", Raw: json.RawMessage(`{"type":"blob","data":"x"}`)},
		&aycoder.Opaque{Raw: json.RawMessage(`{"kind":"unknown"}`)},
		&aycoder.Text{Text: "said", Extra: &aycoder.Opaque{Provider: "elsewhere",
			Raw: json.RawMessage(`{"citations":[]}`)}},
		&aycoder.ToolUse{ID: "functions.now:0", Name: "now", Args: json.RawMessage("{}"),
			Extra: &aycoder.Opaque{Provider: "elsewhere", Raw: json.RawMessage(`{"thoughtSignature":"AA=="}`)}},
	}
	long := strings.Repeat("x", 300)
	many := []*aycoder.Message{user(text("go"))}
	for i := range 30 {
		id := fmt.Sprintf("c%d", i)
		many = append(many, assistant(text(fmt.Sprint(i)), call(id, "now", "{}")), user(output(id, "now", text(long))))
	}
	return []testCase{
		{"foreign parts", talk(user(text("go")), assistant(foreign...), user(output("functions.now:0", "now",
			text("12:00"))), user(text("so")))},
		{"only foreign parts", talk(user(text("go")), assistant(foreign[:4]...), user(text("so")))},
		{"odd ids", talk(user(text("go")), assistant(call("functions.x:0", "now", "{}"), call(long, "now", "{}"),
			call("ä|/ b", "now", "{}")),
			user(output("functions.x:0", "now", text("1")), output(long, "now", text("2")), output("ä|/ b", "now",
				text("3"))))},
		{"odd names", talk(user(text("go")), assistant(call("c1", "mcp.server/odd näme", "{}"), call("c2", long, "{}")),
			user(output("c1", "mcp.server/odd näme", text("1")), output("c2", long, text("2"))))},
		{"cut call", talk(user(text("go")), assistant(text("so"), call("c1", "weather", `{"city":"Ul`)),
			user(failed("c1", "weather", text("cut off"))))},
		{"odd arguments", talk(user(text("go")), assistant(call("c1", "now", ""), call("c2", "now", "null"), call("c3",
			"now", "[1]")),
			user(output("c1", "now", text("1")), output("c2", "now", text("2")), output("c3", "now", text("3"))))},
		{"unicode", talk(user(text(unicode)), assistant(text(unicode), call("c1", "weather",
			`{"city":"\ud83d\ude00 \u0000 ä\u2028 \ud800"}`)),
			user(output("c1", "weather", text(unicode)), text(unicode)))},
		{"empty texts", talk(user(text("go"), text(""), text(" \n")), assistant(text(""), call("c1", "now", "{}"),
			text("  ")),
			user(output("c1", "now", text("")), text("")), assistant(text("done"), text("")), user(text("so")))},
		{"empty failure", talk(user(text("go")), assistant(call("c1", "now", "{}")), user(failed("c1", "now")))},
		{"empty messages", talk(user(text("go")), assistant(), user(), assistant(text("")), user(text("so")))},
		{"many", talk(many...)},
	}
}
