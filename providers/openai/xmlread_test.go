package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/timed"
)

// Only an unambiguous text is a call.
func TestXMLAmbiguous(t *testing.T) {
	const open = "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=text>\n"
	tests := []struct{ name, in, finish, want string }{
		{"the end in a value", open + "end with </parameter>\n</function> always\n</parameter>\n</function>", "stop",
			"cut ID write {\"path\":\"a\",\"text\":\"end with \"}\ntext always\n</parameter>\n</function>\ntool_use"},
		{"the end in JSON", `<function=write>{"path":"a","text":"x </parameter></function> y \" </function>"}</function>`, "stop",
			"call ID write {\"path\":\"a\",\"text\":\"x </parameter></function> y \\\" </function>\"}\ntool_use"},
		{"a parameter in a value", open + "x\n</parameter>\n<parameter=path>\ny\n</parameter>\n</function>", "stop",
			"cut ID write {\"path\":\"a\",\"text\":\"x\",\"path\":\"y\"\ntool_use"},
		{"an unknown parameter", open + "x\n</parameter>\n<parameter=foo>\ny\n</parameter>\n</function>", "stop",
			"cut ID write {\"path\":\"a\",\"text\":\"x\",\"foo\":\"y\"\ntool_use"},
		{"filtered in a value", "<function=write>\n<parameter=text>\n// see </function>", "content_filter",
			"cut ID write {\"text\":\"// see </function>\"\nrefusal"},
		{"ended without the end of the call", open + "x\n</parameter>\n", "stop", "call ID write {\"path\":\"a\",\"text\":\"x\"}\ntool_use"},
		{"cut before the end of the call", open + "x\n</parameter>\n", "length", "cut ID write {\"path\":\"a\",\"text\":\"x\"\nmax_tokens"},
		{"unknown reason", open + "x\n</function>", "odd", "cut ID write {\"path\":\"a\",\"text\":\"x\\n</function>\"\nodd"},
		{"JSON without the end of the call", `<function=write>{"path":"a"}`, "stop", "call ID write {\"path\":\"a\"}\ntool_use"},
		{"half of JSON", `<function=write>{"path":"a </function>`, "stop", "cut ID write {\"path\":\"a </function>\ntool_use"},
		{"code in a line", "To see the time use `<function=now>` or ``<function=now></function>``. Done.", "stop",
			"text To see the time use `<function=now>` or ``<function=now></function>``. Done.\nend_turn"},
		{"code in a fence", "Write:\n```xml\n<function=now>\n</function>\n```\nand wait.", "stop",
			"text Write:\n```xml\n<function=now>\n</function>\n```\nand wait.\nend_turn"},
		{"behind a fence", "~~~\n```\n~~~\n`x`\n```x```\n<function=now></function>", "stop", "text ~~~\n```\n~~~\n`x`\n```x```\ncall ID now {}\ntool_use"},
		{"talk", "I call <function=now> to see.", "stop", "text I call <function=now> to see.\nend_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 3, 1000} {
				a := chatAsk(t, xmlBody(tt.in, size, tt.finish), &aycoder.Request{Tools: xmlTestTools}, WithXMLTools(true))
				got := chatShow(a)
				for _, p := range a.Parts {
					if u, ok := p.(*aycoder.ToolUse); ok {
						got = strings.ReplaceAll(got, u.ID, "ID")
					}
				}
				for _, u := range a.Cut {
					got = strings.ReplaceAll(got, u.ID, "ID")
				}
				require.Equal(t, tt.want, got, "pieces of %d", size)
			}
		})
	}
}

var xmlTypedTools = []*aycoder.ToolSpec{{Name: "w", Schema: json.RawMessage(`{"type":"object","properties":{
	"text":{"type":"string"},"null":{"type":["string","null"]},"any":{},"num":{"type":["string","integer"]},
	"opt":{"anyOf":[{"type":"string"},{"type":"null"}]},"ref":{"$ref":"#/$defs/s"},"one":{"oneOf":[{"type":"string"}]},
	"all":{"allOf":[{"$ref":"#/$defs/s"},{"minLength":1}]},"const":{"const":"1"},"enum":{"enum":["1","2"]},"int":{"type":"integer"},
	"list":{"type":"array"},"loop":{"$ref":"#/$defs/loop"}},
	"$defs":{"s":{"type":"string"},"loop":{"anyOf":[{"$ref":"#/$defs/loop"},{"$ref":"#/$defs/loop"}]}},"additionalProperties":true}`)}}

func TestXMLTypes(t *testing.T) {
	for name, want := range map[string]string{
		"text": `"12"`, "null": `"12"`, "any": `12`, "num": `12`, "opt": `"12"`, "ref": `"12"`, "one": `"12"`, "all": `"12"`,
		"const": `"12"`, "enum": `"12"`, "int": `12`, "loop": `12`, "other": `12`,
	} {
		in := "<function=w>\n<parameter=" + name + ">\n12\n</parameter>\n</function>"
		calls := chatAsk(t, xmlBody(in, 100, "stop"), &aycoder.Request{Tools: xmlTypedTools}, WithXMLTools(true)).Message().Calls()
		require.Len(t, calls, 1, name)
		assert.Equal(t, `{"`+name+`":`+want+`}`, string(calls[0].Args))
	}
}

// A call that is written as text is parsed as the same call.
func FuzzXMLRoundTrip(f *testing.F) {
	f.Add("text", "a</parameter>\n</function>\nb", "any", "7", 7)
	f.Add("text", "a</parameter>\n<parameter=null>\nb", "null", "x\r", 1)
	f.Add("a>b", "\r\n", "", "\n\nx\n\n", 3)
	f.Add("text", "", "text", "null", 1000)
	f.Fuzz(func(t *testing.T, key, value, key2, value2 string, size int) {
		args := map[string]any{key: value, key2: value2, "int": size, "list": []any{value, nil, 1.5}, "opt": nil}
		if len(value)%2 == 0 {
			args = map[string]any{key: value, key2: value2, "int": size}
		}
		data, err := json.Marshal(args)
		require.NoError(t, err)
		text := "Now.\n" + xmlTools{}.call(&aycoder.ToolUse{ID: "1", Name: "w", Args: data})
		pieces := min(max(size, 1), 1000)
		a := chatAsk(t, xmlRunes(text, pieces), &aycoder.Request{Tools: xmlTypedTools}, WithXMLTools(true))
		calls := a.Message().Calls()
		require.Len(t, calls, 1, "%q", text)
		require.JSONEq(t, string(data), string(calls[0].Args), "%q", text)
		require.Equal(t, "Now.", a.Message().Text())
	})
}

// A text with many beginnings of calls costs no more than other text.
func TestXMLLinear(t *testing.T) {
	timed.Serial(t)
	timed.Long(t, "texts that begin calls over and over")
	for _, tag := range []string{"<function=", "<function=now>", "<function=now>{", "`<function=now>{}", "<function=write><parameter=text></parameter>"} {
		took := func(n int) time.Duration {
			return timed.Best(3, func() {
				chatAsk(t, xmlBody(strings.Repeat(tag, n), 1<<20, "stop"), &aycoder.Request{Tools: xmlTestTools}, WithXMLTools(true))
			})
		}
		few, many := took(2000), took(16000)
		timed.AtMost(t, many, 40*few+50*time.Millisecond, tag)
	}
}
