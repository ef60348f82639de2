package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

var xmlTestTools = []*aycoder.ToolSpec{{
	Name: "write", Description: "Writes a file.",
	Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":["string","null"]},"n":{"type":"integer"},"list":{"type":"array"}},"required":["path"]}`),
}, {Name: "now", Description: "Tells the time."}}

// xmlBody returns a stream of a text in pieces.
func xmlBody(text string, size int, finish string) string {
	var chunks []string
	for len(text) > 0 {
		n := min(size, len(text))
		quoted, _ := json.Marshal(text[:n])
		chunks, text = append(chunks, `"index":0,"delta":{"content":`+string(quoted)+`}`), text[n:]
	}
	return chatChunks(append(chunks, `"index":0,"delta":{},"finish_reason":"`+finish+`"`)...)
}

func TestXMLCalls(t *testing.T) {
	tests := []struct{ name, in, finish, want string }{
		{"text", "a < b <function> c", "stop", "text a < b <function> c\nend_turn"},
		{"call", "See:\n\n<function=write>\n<parameter=path>\na.go\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>", "stop",
			"text See:\ncall ID write {\"path\":\"a.go\",\"n\":7}\ntool_use"},
		{"types", "<function=write><parameter=path>7</parameter><parameter=text>null</parameter><parameter=n>x</parameter><parameter=list>[1, 2]</parameter></function>", "stop",
			"call ID write {\"path\":\"7\",\"text\":\"null\",\"n\":\"x\",\"list\":[1, 2]}\ntool_use"},
		{"lines and quotes", "<function=write>\n<parameter=text>\n\"a\"\n\n  b\\\n\n</parameter>\n</function>", "stop",
			"call ID write {\"text\":\"\\\"a\\\"\\n\\n  b\\\\\\n\"}\ntool_use"},
		{"no parameters", "<function=now>\n</function>", "stop", "call ID now {}\ntool_use"},
		{"two calls in wrappers", "Hm.\n<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now></function>\n</tool_call>\n", "stop",
			"text Hm.\ncall ID now {}\ncall ID now {}\ntool_use"},
		{"text after a call", "<function=now></function>\nDone.", "stop", "call ID now {}\ntext Done.\ntool_use"},
		{"unknown tool", "Use <function=other>\n</function> now <function=now></function>", "stop",
			"text Use <function=other>\n</function> now\ncall ID now {}\ntool_use"},
		{"tags in a value", "<function=write><parameter=text>\n</function> and </parameter> and <function=now>\n</parameter></function>", "stop",
			"call ID write {\"text\":\"</function> and </parameter> and <function=now>\"}\ntool_use"},
		{"JSON for parameters", "<function=write>{\"path\": \"a\"}</function>", "stop", "call ID write {\"path\": \"a\"}\ntool_use"},
		{"neither", "<function=write>path a</function>", "stop", "text <function=write>path a</function>\nend_turn"},
		{"cut in a value", "<function=write><parameter=path>\na.go\n</parameter>\n<parameter=text>\nabc", "length",
			"cut ID write {\"path\":\"a.go\",\"text\":\"abc\"\nmax_tokens"},
		{"cut in a tag", "<function=write><parameter=pa", "length", "cut ID write {\nmax_tokens"},
		{"cut in the name", "a <function=wri", "length", "text a <function=wri\nmax_tokens"},
		{"value without an end", "<function=write><parameter=path>\na.go\n</function>\n</tool_call>", "stop", "call ID write {\"path\":\"a.go\"}\ntool_use"},
		{"half a tag", "a <func", "stop", "text a <func\nend_turn"},
		{"space at the end", "a \n", "stop", "text a \n\nend_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, 1000} {
				req := &aycoder.Request{Tools: xmlTestTools, Messages: []*aycoder.Message{aycoder.User("go")}}
				a := chatAsk(t, xmlBody(tt.in, size, tt.finish), req, WithXMLTools(true))
				got := chatShow(a)
				for _, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
					got = strings.ReplaceAll(got, u.ID, "ID")
				}
				require.Equal(t, tt.want, got, "pieces of %d", size)
				require.Equal(t, a.Text, (&aycoder.Message{Parts: a.Parts}).Text())
			}
		})
	}
}

// The text before a call is emitted as it comes.
func TestXMLTextStreams(t *testing.T) {
	c := newChat(t, chatServed(xmlBody("one two three <function=now></function>", 4, "stop"), 1<<20), WithXMLTools(true))
	var pieces []string
	for ev, err := range c.Stream(t.Context(), &aycoder.Request{Tools: xmlTestTools}) {
		require.NoError(t, err)
		if ev, ok := ev.(*aycoder.TextDelta); ok {
			pieces = append(pieces, ev.Text)
		}
	}
	assert.Equal(t, []string{"one", " two", " thre", "e"}, pieces)
}

// Tools, calls and results are sent as text that is parsed as the same calls.
func TestXMLRequest(t *testing.T) {
	c := newChat(t, chatServed("", 1), WithXMLTools(true))
	call := &aycoder.ToolUse{ID: "call_1", Name: "write", Args: json.RawMessage(`{"path":"a.go","text":"x\n\"y\"","n":7,"list":[1,{"a":null}]}`)}
	req := &aycoder.Request{Tools: xmlTestTools, Messages: []*aycoder.Message{
		aycoder.User("go"),
		{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "Yes."}, call}},
		{Role: aycoder.RoleUser, Parts: []aycoder.Part{
			&aycoder.ToolOutput{ID: "call_1", Name: "write", IsError: true, Parts: []aycoder.Part{&aycoder.Text{Text: "disk full"}}}}},
	}}
	body := chatEncoded(t, c, req)
	var w struct {
		Tools    any
		Messages []struct{ Role, Content string }
	}
	require.NoError(t, json.Unmarshal(body, &w))
	require.Nil(t, w.Tools)
	require.Len(t, w.Messages, 4)
	assert.Contains(t, w.Messages[0].Content, `<tool name="write">`)
	assert.Contains(t, w.Messages[0].Content, "Writes a file.")
	assert.Equal(t, "Yes.\n<function=write>\n<parameter=path>\na.go\n</parameter>\n<parameter=text>\nx\n\"y\"\n</parameter>\n"+
		"<parameter=n>\n7\n</parameter>\n<parameter=list>\n[1,{\"a\":null}]\n</parameter>\n</function>", w.Messages[2].Content)
	assert.Equal(t, "user", w.Messages[3].Role)
	assert.Equal(t, "<function_result name=\"write\" error=\"true\">\ndisk full\n</function_result>", w.Messages[3].Content)

	back := chatAsk(t, xmlBody(w.Messages[2].Content, 5, "stop"), req, WithXMLTools(true)).Message()
	assert.Equal(t, "Yes.", back.Text())
	require.Len(t, back.Calls(), 1)
	assert.JSONEq(t, string(call.Args), string(back.Calls()[0].Args))
}

func FuzzXMLCalls(f *testing.F) {
	f.Add("See <function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call> b", uint8(3))
	f.Add("<tool_call> \n<function=now>{}</function><function=other>", uint8(1))
	f.Add("<function=write><parameter=text></parameter> </parameter></function></function>", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		if !json.Valid([]byte(`"` + text + `"`)) {
			text = strings.ToValidUTF8(text, "?")
		}
		req := &aycoder.Request{Tools: xmlTestTools}
		show := func(size int) string {
			a := chatAsk(t, xmlRunes(text, size), req, WithXMLTools(true))
			got := chatShow(a)
			for n, u := range (&aycoder.Message{Parts: a.Parts}).Calls() {
				got = strings.ReplaceAll(got, u.ID, "ID"+string(rune('a'+n%26)))
			}
			return got
		}
		if whole, pieces := show(len(text)+1), show(int(size)+1); whole != pieces {
			t.Errorf("%q in pieces of %d:\n%q, want\n%q", text, int(size)+1, pieces, whole)
		}
	})
}

// xmlRunes is xmlBody without splitting runes.
func xmlRunes(text string, size int) string {
	var chunks []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(size, len(runes))
		quoted, _ := json.Marshal(string(runes[:n]))
		chunks, runes = append(chunks, `"index":0,"delta":{"content":`+string(quoted)+`}`), runes[n:]
	}
	return chatChunks(append(chunks, `"index":0,"delta":{},"finish_reason":"stop"`)...)
}
