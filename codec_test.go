package aycoder_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

func decodeMessage(t testing.TB, data []byte) *aycoder.Message {
	t.Helper()
	m := &aycoder.Message{}
	require.NoError(t, json.Unmarshal(data, m), "%s", data)
	return m
}

func encodeMessage(t testing.TB, m *aycoder.Message) []byte {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	require.True(t, json.Valid(data))
	return data
}

// requireSameMessage compares the content of messages. Parts are compared as they are
// in memory, byte for byte.
func requireSameMessage(t testing.TB, want, got *aycoder.Message) {
	t.Helper()
	require.Equal(t, want.Role, got.Role)
	require.Equal(t, want.Parts, got.Parts)
}

func TestMessageRoundTrip(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	opaque := &aycoder.Opaque{Provider: "acme", Raw: raw(`{ "type":"redacted", "data":"<\/b>  &" }`)}
	awkward := "<b> & \u2028\u2029 \x00 \"quoted\" \\ \t ünï 日本 😀 \ufffd"
	tests := []struct {
		name  string
		parts []aycoder.Part
	}{
		{"no parts", []aycoder.Part{}},
		{"text", []aycoder.Part{&aycoder.Text{Text: "hi"}}},
		{"empty text", []aycoder.Part{&aycoder.Text{}}},
		{"awkward text", []aycoder.Part{&aycoder.Text{Text: awkward}}},
		{"text with an extra", []aycoder.Part{&aycoder.Text{Text: "hi", Extra: opaque}}},
		{"thinking", []aycoder.Part{&aycoder.Thinking{Text: "hm", Signature: "EqQB+/==", Provider: "acme"}}},
		{"thinking without text", []aycoder.Part{&aycoder.Thinking{Signature: "EqQB", Provider: "acme"}}},
		{"call", []aycoder.Part{&aycoder.ToolUse{ID: "call_1", Name: "bash", Args: raw(`{}`)}}},
		{"call with spaces in it", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t",
			Args: raw("{ \"a\" :\n\t[ 1.0,1e3 , \"<\" ] }")}}},
		{"call with escapes in it", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t",
			Args: raw(`{"a":"\u003c\u2028\/\ud800"}`)}}},
		{"call with U+2028 in it", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t", Args: raw("{\"a\":\"\u2028<>&\"}")}}},
		{"call that was cut off", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t", Args: raw(`{"path":"a`)}}},
		{"call without arguments", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t"}}},
		{"call with an extra", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t", Args: raw(`{}`), Extra: opaque}}},
		{"duplicate keys", []aycoder.Part{&aycoder.ToolUse{ID: "c", Name: "t", Args: raw(`{"a":1,"a":2}`)}}},
		{"output", []aycoder.Part{&aycoder.ToolOutput{ID: "c", Name: "t", IsError: true, Parts: []aycoder.Part{
			&aycoder.Text{Text: awkward}, &aycoder.Media{Type: "image/png", Data: []byte{0, 255, 10}}}}}},
		{"output without parts", []aycoder.Part{&aycoder.ToolOutput{ID: "c", Name: "t"}}},
		{"media", []aycoder.Part{&aycoder.Media{Type: "image/png", Name: "a.png", Data: []byte("\x89PNG\xff")}}},
		{"media elsewhere", []aycoder.Part{&aycoder.Media{Type: "image/png", URL: "https://example.com/a?b=<c>&d"}}},
		{"opaque", []aycoder.Part{opaque}},
		{"opaque that is no JSON", []aycoder.Part{&aycoder.Opaque{Provider: "acme", Raw: raw(`{"cut`)}}},
		{"all in order", []aycoder.Part{
			&aycoder.Thinking{Text: "a", Signature: "s", Provider: "p"}, opaque, &aycoder.Text{Text: "b"},
			&aycoder.ToolUse{ID: "1", Name: "t", Args: raw(`{}`)}, &aycoder.ToolUse{ID: "2", Name: "t", Args: raw(`{}`)}}},
	}
	roles := []aycoder.Role{aycoder.RoleUser, aycoder.RoleAssistant, aycoder.RoleSystem}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &aycoder.Message{Role: roles[i%len(roles)], Parts: tt.parts}
			first := encodeMessage(t, m)
			back := decodeMessage(t, first)
			requireSameMessage(t, m, back)
			assert.Equal(t, string(first), string(encodeMessage(t, back)), "encoding is stable")
			indented := &bytes.Buffer{}
			require.NoError(t, json.Indent(indented, first, "", "  "))
			requireSameMessage(t, m, decodeMessage(t, indented.Bytes()))
		})
	}
}

func TestMessageWireForm(t *testing.T) {
	m := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.Text{Text: "hi"}, &aycoder.ToolUse{ID: "c", Name: "t", Args: json.RawMessage(`{"a": 1}`)}}}
	assert.JSONEq(t, `{"role":"assistant","parts":[{"type":"text","text":"hi"},
		{"type":"tool_use","id":"c","name":"t","args":"{\"a\": 1}"}]}`, string(encodeMessage(t, m)))
}

func TestUnknownPartsAreKept(t *testing.T) {
	tests := []struct {
		name string
		part string
	}{
		{"new type", `{"type":"hologram","data":{"b":1,"a":[2.50,null]},"text":5}`},
		{"no type", `{"x":1}`},
		{"null", `null`},
		{"escapes", `{"type":"new","x":"\u003c\u2028"}`},
		{"numbers beyond float64", `{"type":"new","x":12345678901234567890.10}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stored := `{"role":"user","parts":[{"type":"text","text":"a"},` + tt.part + `]}`
			m := decodeMessage(t, []byte(stored))
			require.Len(t, m.Parts, 2)
			assert.Equal(t, &aycoder.Opaque{Raw: json.RawMessage(tt.part)}, m.Parts[1])
			assert.Equal(t, stored, string(encodeMessage(t, m)))
		})
	}
	extra := `{"role":"assistant","parts":[{"type":"text","text":"a","extra":{"type":"new","x":1}}]}`
	assert.Equal(t, extra, string(encodeMessage(t, decodeMessage(t, []byte(extra)))))
	nested := `{"role":"user","parts":[{"type":"tool_output","id":"c","name":"t","parts":[{"type":"new","x":1}]}]}`
	assert.JSONEq(t, nested, string(encodeMessage(t, decodeMessage(t, []byte(nested)))))
}

func TestMessageEncodingRefuses(t *testing.T) {
	bad := "a\xffb"
	type nonsense struct{ aycoder.Part }
	tests := []struct {
		name string
		part aycoder.Part
		want string
	}{
		{"text", &aycoder.Text{Text: bad}, "part 1: text is not valid UTF-8"},
		{"thinking", &aycoder.Thinking{Text: bad}, "not valid UTF-8"},
		{"signature", &aycoder.Thinking{Signature: bad}, "not valid UTF-8"},
		{"arguments", &aycoder.ToolUse{Args: json.RawMessage(bad)}, "not valid UTF-8"},
		{"id", &aycoder.ToolUse{ID: bad}, "not valid UTF-8"},
		{"output", &aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.Text{Text: bad}}}, "not valid UTF-8"},
		{"name of an output", &aycoder.ToolOutput{Name: bad}, "not valid UTF-8"},
		{"url", &aycoder.Media{URL: bad}, "not valid UTF-8"},
		{"opaque", &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(bad)}, "not valid UTF-8"},
		{"extra of a text", &aycoder.Text{Extra: &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(bad)}}, "not valid UTF-8"},
		{"extra of a call", &aycoder.ToolUse{Extra: &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(bad)}}, "not valid UTF-8"},
		{"opaque without a provider", &aycoder.Opaque{Raw: json.RawMessage("{")}, "is not JSON"},
		{"no part", nil, "part is nil"},
		{"nil text", (*aycoder.Text)(nil), "part is nil"},
		{"output in an output", &aycoder.ToolOutput{Parts: []aycoder.Part{&aycoder.ToolOutput{}}}, "holds no call and no output"},
		{"someone else's part", nonsense{}, "no such part: aycoder_test.nonsense"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{&aycoder.Text{Text: "fine"}, tt.part}}
			_, err := json.Marshal(m)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestMessageDecodingRefuses(t *testing.T) {
	tests := []struct {
		name string
		data string
	}{
		{"not an object", `[]`},
		{"parts that are no list", `{"role":"user","parts":{}}`},
		{"part that is a number", `{"role":"user","parts":[5]}`},
		{"type that is a number", `{"role":"user","parts":[{"type":5}]}`},
		{"text that is a number", `{"role":"user","parts":[{"type":"text","text":5}]}`},
		{"arguments that are no text", `{"role":"user","parts":[{"type":"tool_use","args":{}}]}`},
		{"data that is not base64", `{"role":"user","parts":[{"type":"media","data":"?"}]}`},
		{"in an output", `{"role":"user","parts":[{"type":"tool_output","parts":[{"type":"text","text":5}]}]}`},
		{"output in an output", `{"role":"user","parts":[{"type":"tool_output","parts":[{"type":"tool_output"}]}]}`},
		{"deep nesting", strings.Repeat(`{"role":"user","parts":[{"type":"tool_output","parts":[`, 1) + strings.Repeat(`{"type":"tool_output","parts":[`, 4000)},
		{"cut off", `{"role":"user","parts":[`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m aycoder.Message
			assert.Error(t, json.Unmarshal([]byte(tt.data), &m))
		})
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"role":"user","parts":[{"type":"text","text":"hi"}]}`,
		`{"role":"assistant","parts":[{"type":"tool_use","id":"a","name":"b","args":"{ \"x\": \"<\" }","extra":{"provider":"p","raw":"{}"}}]}`,
		`{"role":"user","parts":[{"type":"tool_output","is_error":true,"parts":[{"type":"media","data":"AAEC"}]}]}`,
		`{"role":"user","parts":[ {"type":"new", "x": "<\u2028" }, null, {"type":"opaque","provider":"p","raw":"x"}]}`,
		`{"parts":[{"type":"thinking","text":"","signature":"s","provider":"p"}]}`,
		`{"parts":[{"type":"opaque"},{"type":"text","extra":{"type":"new"}}]}`,
		`{"role":"user","parts":[null,{"type":"opaque","raw":"0"},{"type":"opaque","raw":"{\"type\":\"text\"}"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m aycoder.Message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		first, err := json.Marshal(&m)
		if err != nil {
			require.False(t, utf8.Valid(data) && onlyKnownParts(&m), "%q: %v", data, err)
			return
		}
		again := decodeMessage(t, first)
		require.Equal(t, string(first), string(encodeMessage(t, again)), "encoding is stable")
		if onlyKnownParts(&m) {
			requireSameMessage(t, &m, again)
		}
	})
}

// onlyKnownParts reports whether all parts are of known types. Others do not keep their
// white space, nor does an opaque block without a provider.
func onlyKnownParts(m *aycoder.Message) bool {
	data, err := json.Marshal(m.Role)
	known := err == nil && utf8.Valid(data)
	var walk func([]aycoder.Part)
	walk = func(parts []aycoder.Part) {
		for _, p := range parts {
			switch p := p.(type) {
			case *aycoder.Opaque:
				known = known && p.Provider != ""
			case *aycoder.Text:
				known = known && (p.Extra == nil || p.Extra.Provider != "")
			case *aycoder.ToolUse:
				known = known && (p.Extra == nil || p.Extra.Provider != "")
			case *aycoder.ToolOutput:
				walk(p.Parts)
			case *aycoder.Media:
				known = known && (p.Data == nil || len(p.Data) > 0)
			}
		}
	}
	walk(m.Parts)
	return known
}

func TestEncodedIsKept(t *testing.T) {
	type key struct{ dialect string }
	m := aycoder.User("hi")
	calls := 0
	make1 := func(text string) func(*aycoder.Message) ([]byte, error) {
		return func(*aycoder.Message) ([]byte, error) { calls++; return []byte(text), nil }
	}
	for _, step := range []struct {
		dialect, want string
		calls         int
	}{{"a", "a", 1}, {"a", "a", 1}, {"b", "b", 2}, {"a", "a", 3}} {
		got, err := m.Encoded(key{step.dialect}, make1(step.want))
		require.NoError(t, err)
		assert.Equal(t, step.want, string(got))
		assert.Equal(t, step.calls, calls)
	}
	broken := errors.New("mine")
	_, err := m.Encoded(key{"c"}, func(*aycoder.Message) ([]byte, error) { return nil, broken })
	assert.ErrorIs(t, err, broken)
	got, err := m.Encoded(key{"a"}, make1("new"))
	require.NoError(t, err)
	assert.Equal(t, "a", string(got), "an error does not displace what is kept")
	require.NoError(t, json.Unmarshal([]byte(`{"role":"user","parts":[]}`), m))
	got, err = m.Encoded(key{"a"}, make1("new"))
	require.NoError(t, err)
	assert.Equal(t, "new", string(got), "another content has another form")
}

func TestEncodedByManyAtOnce(t *testing.T) {
	m := aycoder.User("hi")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				want := string(rune('a' + i%2))
				got, err := m.Encoded(i%2, func(*aycoder.Message) ([]byte, error) { return []byte(want), nil })
				if !assert.NoError(t, err) || !assert.Equal(t, want, string(got)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestMessageText(t *testing.T) {
	m := &aycoder.Message{Parts: []aycoder.Part{&aycoder.Thinking{Text: "x"}, &aycoder.Text{Text: "a"},
		&aycoder.ToolUse{ID: "1"}, &aycoder.Text{Text: "b"}, &aycoder.ToolUse{ID: "2"}}}
	assert.Equal(t, "ab", m.Text())
	assert.Len(t, m.Calls(), 2)
	assert.Empty(t, (*aycoder.Message)(nil).Text())
}

func BenchmarkMessageCodec(b *testing.B) {
	m := &aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
		&aycoder.Thinking{Text: strings.Repeat("thinking ", 100), Signature: strings.Repeat("A", 500), Provider: "p"},
		&aycoder.Text{Text: strings.Repeat("text ", 100)},
		&aycoder.ToolUse{ID: "toolu_1", Name: "edit_file", Args: json.RawMessage(`{"path":"` + strings.Repeat("a", 1000) + `"}`)}}}
	data := encodeMessage(b, m)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var back aycoder.Message
		if err := json.Unmarshal(data, &back); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(&back); err != nil {
			b.Fatal(err)
		}
	}
}
