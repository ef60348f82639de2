package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/sse"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// events formats documents as server-sent events.
func events(docs ...string) string {
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, "data: %s\r\n\r\n", d)
	}
	return b.String()
}

// parts returns a document with these parts and further fields of the candidate.
func parts(list, more string) string {
	return `{"candidates":[{"content":{"parts":[` + list + `],"role":"model"}` + more + `}],"responseId":"r"}`
}

const stop = `,"finishReason":"STOP"`

func asked(t testing.TB, body string) *wiretest.Answer {
	t.Helper()
	return wiretest.Ask(t.Context(), t, newClient(t, streaming(body, 1<<20)), hello())
}

// shown summarises an answer.
func shown(a *wiretest.Answer) string {
	var b strings.Builder
	for _, p := range a.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			fmt.Fprintf(&b, "text(%s%s) ", p.Text, raw(p.Extra))
		case *aycoder.Thinking:
			fmt.Fprintf(&b, "thinking(%s %s) ", p.Text, p.Signature)
		case *aycoder.ToolUse:
			if slices.Contains(a.Cut, p) {
				b.WriteString("cut:")
			}
			fmt.Fprintf(&b, "%s(%s%s) ", p.Name, p.Args, raw(p.Extra))
		case *aycoder.Opaque:
			fmt.Fprintf(&b, "opaque(%s) ", p.Raw)
		}
	}
	if a.Done != nil {
		b.WriteString(string(a.Done.Stop))
	}
	return b.String()
}

func raw(o *aycoder.Opaque) string {
	if o == nil {
		return ""
	}
	return " " + string(o.Raw)
}

// Unusual answers, most of which were never recorded.
func TestDecode(t *testing.T) {
	const sig = `"thoughtSignature":"c2ln\u003d"`
	call := func(fields string) string { return `{"functionCall":{` + fields + `}}` }
	open := parts(call(`"name":"f","willContinue":true,"partialArgs":[{"jsonPath":"$.a","stringValue":"/et","willContinue":true}]`), "")
	tests := []struct{ name, body, want string }{
		{"text in pieces", events(parts(`{"text":"a"}`, ""), parts(`{"text":"b"},{"text":""},{"text":"c"}`, stop)), "text(abc) end_turn"},
		{"a signed text is a block", events(parts(`{"text":"a"}`, ""), parts(`{"text":"b",`+sig+`}`, ""), parts(`{"text":"c"}`, stop)),
			`text(a) text(b {` + sig + `}) text(c) end_turn`},
		{"an empty text is signed", events(parts(`{"text":"a"}`, ""), parts(`{`+sig+`,"text":""}`, stop)), `text(a) text( {` + sig + `}) end_turn`},
		{"nothing is signed", events(parts(`{`+sig+`}`, stop)), `text( {` + sig + `}) end_turn`},
		{"thoughts", events(parts(`{"thought":true,"text":"a"}`, ""), parts(`{"text":"b","thought":true}`, ""),
			parts(`{"text":"c","thought":true,`+sig+`}`, ""), parts(`{"text":"d"}`, stop)),
			"thinking(ab ) thinking(c c2ln=) text(d) end_turn"},
		{"parallel calls", events(parts(`{"functionCall":{"name":"f","args":{"a":1}},`+sig+`},`+call(`"name":"g"`), stop)),
			`f({"a":1} {` + sig + `}) g({}) tool_use`},
		{"args are null", events(parts(call(`"name":"f","args":null`), stop)), `f({}) tool_use`},
		{"args are in pieces", events(parts(call(`"name":"f","willContinue":true`), ""),
			parts(call(`"partialArgs":[{"jsonPath":"$.a","stringValue":"x\"","willContinue":true}],"willContinue":true`), ""),
			parts(call(`"partialArgs":[{"jsonPath":"$.a","stringValue":"y"},{"jsonPath":"$['b c'][1]","boolValue":true},`+
				`{"jsonPath":"$.d","nullValue":"NULL_VALUE"},{"jsonPath":"$['b c'][0].e","numberValue":1.5}],"willContinue":true`), ""),
			parts(call(``), ""), parts(call(``), stop)),
			`f({"a":"x\"y","b c":[{"e":1.5},true],"d":null}) tool_use`},
		{"a call follows an open one", events(parts(call(`"name":"f","willContinue":true`), ""), parts(call(`"name":"g"`), stop)),
			`cut:f() g({}) tool_use`},
		{"text follows an open call", events(parts(call(`"name":"f","willContinue":true`), ""), parts(`{"text":"a"}`, stop)),
			`cut:f() text(a) end_turn`},
		{"the end follows an open call", events(open, parts(``, stop)), `cut:f({"a":"/et) end_turn`},
		{"an empty text says nothing", events(open, parts(`{"text":""}`, ""), parts(call(`"partialArgs":[{"jsonPath":"$.a","stringValue":"c"}]`), stop)),
			`f({"a":"/etc"}) tool_use`},
		{"text and the limit follow an open call", events(open, parts(`{"text":"a"}`, `,"finishReason":"MAX_TOKENS"`)),
			`cut:f({"a":"/et) text(a) max_tokens`},
		{"another kind follows an open call", events(open, parts(`{"executableCode":{}}`, stop)),
			`cut:f({"a":"/et) opaque({"executableCode":{}}) end_turn`},
		{"a call follows an open text", events(open, parts(call(`"name":"g"`), stop)), `cut:f({"a":"/et) g({}) tool_use`},
		{"a call ends with an open text", events(open, parts(call(``), stop)), `cut:f({"a":"/et) end_turn`},
		{"a call ends with an open text elsewhere", events(open, parts(call(`"partialArgs":[{"jsonPath":"$.b","boolValue":true}]`), stop)),
			`cut:f({"a":"/et","b":true) end_turn`},
		{"args in a text", events(parts(call(`"name":"f","args":"{\"a\":1}"`), stop)), `f({"a":1}) tool_use`},
		{"args in an empty text", events(parts(call(`"name":"f","args":""`), stop)), `f({}) tool_use`},
		{"args in half a text", events(parts(call(`"name":"f","args":"{\"a\":"`), stop)), `cut:f({"a":) end_turn`},
		{"args are blank", events(parts(call(`"name":"f","args":" "`), stop)), `cut:f() end_turn`},
		{"args are a list", events(parts(call(`"name":"f","args":[{"a":1}]`), stop)), `cut:f([{"a":1}]) end_turn`},
		{"args are a number", events(parts(call(`"name":"f","args":7`)+`,`+call(`"name":"g"`), stop)), `cut:f(7) g({}) tool_use`},
		{"partial args are a text", events(parts(call(`"name":"f","partialArgs":[{"jsonPath":"$","stringValue":"a"}]`), stop)),
			`cut:f("a") end_turn`},
		{"partial args are a list", events(parts(call(`"name":"f","partialArgs":[{"jsonPath":"$[0]","stringValue":"a"}]`), stop)),
			`cut:f(["a") end_turn`},
		{"cut off", events(parts(call(`"name":"f","willContinue":true`), ""), parts(call(`"partialArgs":[{"jsonPath":"$.a[0]",`+
			`"stringValue":"x","willContinue":true}],"willContinue":true`), `,"finishReason":"MAX_TOKENS"`)), `cut:f({"a":["x) max_tokens`},
		{"cut off before the args", events(parts(call(`"name":"f","willContinue":true`), `,"finishReason":"MAX_TOKENS"`)), `cut:f() max_tokens`},
		{"args of no call", events(parts(call(`"args":{}`), stop)), `*aycoder.StreamBrokenError`},
		{"path of no kind", events(parts(call(`"name":"f","partialArgs":[{"jsonPath":"a"}]`), stop)), `*aycoder.StreamBrokenError`},
		{"opaque", events(parts(`{ "executableCode": {"code":"1"}, `+sig+`},{"codeExecutionResult":{}},{"text":"a"}`, stop)),
			`opaque({ "executableCode": {"code":"1"}, ` + sig + `}) opaque({"codeExecutionResult":{}}) text(a) end_turn`},
		{"grounding", events(parts(`{"text":"a"}`, `,"groundingMetadata":{"x":1}`), parts(`{"text":"b"}`, `,"groundingMetadata":{}`+
			`,"citationMetadata":{"y":2}`+stop)), `text(ab) opaque({"groundingMetadata":{"x":1},"citationMetadata":{"y":2}}) end_turn`},
		{"the first candidate", events(`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP","index":1},`+
			`{"content":{"parts":[{"text":"a"}]},"index":0}]}`, `{"candidates":[{"finishReason":"STOP"},{"content":{"parts":[{"text":"c"}]}}]}`),
			"text(a) end_turn"},
		{"parts after the end", events(parts(`{"text":"a"}`, stop), parts(`{"text":"b"}`, stop)), "text(ab) end_turn"},
		{"not finished", events(parts(`{"text":"a"}`, ""), parts(`{"text":"b"}`, `,"finishReason":"FINISH_REASON_UNSPECIFIED"`)),
			"*aycoder.StreamBrokenError"},
		{"finished without content", events(`{"candidates":[{"finishReason":"BREAKFAST"}]}`), "*aycoder.StreamBrokenError"},
		{"a call that is none of the tools", events(`{"candidates":[{"finishReason":"UNEXPECTED_TOOL_CALL"}]}`), "UNEXPECTED_TOOL_CALL"},
		{"malformed call", events(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`), "*aycoder.StreamBrokenError"},
		{"malformed call behind a whole one", events(parts(`{"functionCall":{"id":"a","name":"f","args":{}}}`, `,"finishReason":"MALFORMED_FUNCTION_CALL"`)), "f({}) MALFORMED_FUNCTION_CALL"},
		{"too many calls", events(parts(`{"text":"a"}`, `,"finishReason":"TOO_MANY_TOOL_CALLS"`)), "*aycoder.StreamBrokenError"},
		{"a signature is missing", events(`{"candidates":[{"finishReason":"MISSING_THOUGHT_SIGNATURE"}]}`), "*aycoder.BadRequestError"},
		{"another language", events(parts(`{"text":"a"}`, `,"finishReason":"LANGUAGE"`)), "text(a) refusal"},
		{"filtered", events(parts(`{"text":"a"}`, ""), `{"candidates":[{"finishReason":"RECITATION"}]}`), "text(a) refusal"},
		{"a number", events(parts(`{"text":"a"}`, `,"finishReason":3`)), "text(a) refusal"},
		{"another number", events(parts(`{"text":"a"}`, `,"finishReason":5`)), "text(a) OTHER"},
		{"a new number", events(parts(`{"text":"a"}`, `,"finishReason":77`)), "text(a) 77"},
		{"prompt blocked", events(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{}}`), "*aycoder.RefusalError"},
		{"prompt not blocked", events(`{"promptFeedback":{"safetyRatings":[]}}`, parts(`{"text":"a"}`, stop)), "text(a) end_turn"},
		{"error in the stream", events(parts(`{"text":"a"}`, ""), `{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`),
			"*aycoder.OverloadedError"},
		{"error in an event", "event: error\ndata: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n", "*aycoder.RateLimitError"},
		{"error in a list", `[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]`, "*aycoder.BadRequestError"},
		{"no candidates", events(`{"usageMetadata":{}}`, `{"candidates":[]}`), "*aycoder.StreamBrokenError"},
		{"nothing", "", "*aycoder.StreamBrokenError"},
		{"no JSON", events(`hello`), "*aycoder.StreamBrokenError"},
		{"no object", events(`"hello"`), "*aycoder.StreamBrokenError"},
		{"an invalid rest is noticed first", events(parts(`{"text":"a"}`, stop) + "x"), "*aycoder.StreamBrokenError"},
		{"gateways say that they are done", events(parts(`{"text":"a"}`, stop), `[DONE]`), "text(a) end_turn"},
		{"a list", ` [` + parts(`{"text":"a"}`, "") + `,` + parts(`{"text":"b"}`, stop) + `]`, "text(ab) end_turn"},
		{"a list that is cut", `[` + parts(`{"text":"a"}`, stop) + `,`, "*aycoder.StreamBrokenError"},
		{"a list in an event", events(`[`+parts(`{"text":"a"}`, "")+`]`, parts(`{"text":"b"}`, stop)), "text(ab) end_turn"},
		{"fields of the wrong kind", events(`{"candidates":[7,{"content":[],"finishReason":{},"index":"x"}],"usageMetadata":7,`+
			`"responseId":[],"modelVersion":null,"promptFeedback":[],"error":null}`, parts(`7,{"text":7,"thought":"x","thoughtSignature":{}}`+
			`,{"functionCall":[]},{"text":"a"}`, stop)), "text(a) end_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := asked(t, tt.body)
			got := shown(a)
			if a.Err != nil {
				got = fmt.Sprintf("%T", a.Err) // the blocks before it do not matter
			}
			assert.Equal(t, tt.want, strings.TrimSpace(got), "%v", a.Err)
		})
	}
}

// The ids of calls are unique in the message, not empty, and the same each time.
func TestIDs(t *testing.T) {
	body := events(parts(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}},{"functionCall":{"id":"x","name":"f"}},`+
		`{"functionCall":{"id":"x","name":"f","args":{"a":1}}}`, stop))
	var first []string
	for range 2 {
		var ids []string
		seen := map[string]bool{}
		for _, c := range asked(t, body).Message().Calls() {
			assert.False(t, seen[c.ID] || c.ID == "", c.ID)
			seen[c.ID] = true
			ids = append(ids, c.ID)
		}
		require.Len(t, ids, 4)
		assert.Equal(t, "x", ids[2])
		if first != nil {
			assert.Equal(t, first, ids)
		}
		first = ids
	}
	other := asked(t, strings.ReplaceAll(body, `"responseId":"r"`, `"responseId":"s"`)).Message().Calls()
	assert.NotEqual(t, first[0], other[0].ID, "another answer has other ids")
	none := asked(t, strings.ReplaceAll(body, `,"responseId":"r"`, ``)).Message().Calls()
	assert.NotEqual(t, none[0].ID, none[1].ID)
}

// A gateway may send a call twice. The same call with the same id must not run twice.
func TestRepeatedCall(t *testing.T) {
	call := `{"functionCall":{"id":"x","name":"f","args":{"a":1}}}`
	pieces := `{"functionCall":{"id":"x","name":"f","willContinue":true}},` +
		`{"functionCall":{"partialArgs":[{"jsonPath":"$.a","numberValue":1}]}}`
	none := `{"functionCall":{"id":"y","name":"f"}}`
	tests := []struct{ name, body, want string }{
		{"in another event", events(parts(call, ""), parts(call, stop)), `f({"a":1}) tool_use`},
		{"in the same event", events(parts(call+","+call+","+call, stop)), `f({"a":1}) tool_use`},
		{"in pieces", events(parts(pieces, ""), parts(call, ""), parts(pieces, stop)), `f({"a":1}) tool_use`},
		{"without arguments", events(parts(none+`,{"functionCall":{"id":"y","name":"f","args":{}}}`, stop)), `f({}) tool_use`},
		{"other arguments", events(parts(call+`,{"functionCall":{"id":"x","name":"f","args":{"a":2}}}`, stop)), `f({"a":1}) f({"a":2}) tool_use`},
		{"after other arguments", events(parts(call+strings.Repeat(`,{"functionCall":{"id":"x","name":"f","args":{"a":2}}}`, 2)+","+call, stop)), `f({"a":1}) f({"a":2}) tool_use`},
		{"another tool", events(parts(call+`,{"functionCall":{"id":"x","name":"g","args":{"a":1}}}`, stop)), `f({"a":1}) g({"a":1}) tool_use`},
		{"another id", events(parts(call+`,{"functionCall":{"id":"z","name":"f","args":{"a":1}}}`, stop)), `f({"a":1}) f({"a":1}) tool_use`},
		{"no id", events(parts(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}`, stop)), `f({}) f({}) tool_use`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, strings.TrimSpace(shown(asked(t, tt.body))))
		})
	}
}

// The memory for partial arguments depends on what was sent, not on the gaps.
func TestPartialArgsAreBounded(t *testing.T) {
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"jsonPath":"$.k%d","numberValue":%[1]d},`, i)
		}
		return b.String()
	}
	deep := strings.Repeat(".a", maxPath)
	tests := []struct {
		name, pieces, want string
	}{
		{"elements are left out", `{"jsonPath":"$.a[40]","nullValue":0},{"jsonPath":"$.b[24]","nullValue":0}`, ""},
		{"too many for a list", `{"jsonPath":"$.a[65]","nullValue":0}`, errPath.Error()},
		{"too many for a call", `{"jsonPath":"$.a[40]","nullValue":0},{"jsonPath":"$.b[25]","nullValue":0}`, errPath.Error()},
		{"too many further in", `{"jsonPath":"$.a[33][33]","nullValue":0}`, errPath.Error()},
		{"an index that overflows", `{"jsonPath":"$.a[9223372036854775807]","nullValue":0}`, errPath.Error()},
		{"deep", `{"jsonPath":"$` + deep + `","nullValue":0}`, ""},
		{"too deep", `{"jsonPath":"$` + deep + `.b","nullValue":0}`, errPath.Error()},
		{"many keys", keys(maxKeys) + `{"jsonPath":"$.k7","numberValue":0}`, ""},
		{"too many keys", keys(maxKeys+1) + `{"jsonPath":"$.k7","numberValue":0}`, errPath.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := asked(t, events(parts(`{"functionCall":{"name":"f","partialArgs":[`+tt.pieces+`]}}`, stop)))
			if tt.want != "" {
				assert.ErrorContains(t, a.Err, tt.want)
				return
			}
			require.NoError(t, a.Err)
			assert.Empty(t, a.Cut)
		})
	}
	args := &tree{}
	var err error
	n := 0
	for ; err == nil; n++ {
		err = args.set(fmt.Sprintf("$.a%d[%d]", n/1000, n%1000), leaf{raw: "0"})
	}
	assert.Equal(t, errValues, err)
	assert.Less(t, n, maxValues)
	assert.Greater(t, n, maxValues*9/10)
}

// Many fields keep their order, and can be continued.
func TestManyKeys(t *testing.T) {
	args := &tree{}
	var want strings.Builder
	for i := range 100 {
		require.NoError(t, args.set(fmt.Sprintf("$.k%d", i), leaf{text: []byte("a"), more: true}))
		fmt.Fprintf(&want, `,"k%d":"ab"`, i)
	}
	assert.False(t, args.whole())
	for i := range 100 {
		require.NoError(t, args.set(fmt.Sprintf("$.k%d", i), leaf{text: []byte("b")}))
	}
	assert.True(t, args.whole())
	assert.Equal(t, "{"+want.String()[1:]+"}", string(args.root.append(nil, true)))
}

// The time for server-side parts is proportional to their number, and the time for an id
// does not depend on the size of the answer.
func TestManyParts(t *testing.T) {
	const n = 20_000
	a := asked(t, events(parts(strings.Repeat(`{"x":0},`, n)+`{"x": 1}`, stop)))
	require.NoError(t, a.Err)
	require.Len(t, a.Parts, n+1)
	assert.Equal(t, &aycoder.Opaque{Provider: provider, Raw: json.RawMessage(`{"x": 1}`)}, a.Parts[n])

	body := parts(strings.Repeat(`{"functionCall":{"name":"f"}},`, n)+`{"functionCall":{"name":"g"}}`, stop)
	a = asked(t, events(strings.Replace(body, `"responseId":"r"`, `"responseId":"`+strings.Repeat("r", 1<<20)+`"`, 1)))
	require.NoError(t, a.Err)
	assert.Len(t, a.Parts, n+1)
}

// A gateway that says that it is done is believed, since it may leave the connection
// open.
func TestDoneThenOpen(t *testing.T) {
	for body, want := range map[string]string{
		events(parts(`{"text":"a"}`, stop), "[DONE]"): "text(a) end_turn",
		events(parts(`{"text":"a"}`, ""), "[DONE]"):   "",
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			a := wiretest.Ask(t.Context(), t, newClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
				hang := io.NopCloser(readFunc(func([]byte) (int, error) {
					<-r.Context().Done()
					return 0, r.Context().Err()
				}))
				return &http.Response{StatusCode: http.StatusOK, Request: r,
					Body: io.NopCloser(io.MultiReader(strings.NewReader(body), hang))}, nil
			})), hello())
			if want == "" {
				_, ok := errors.AsType[*aycoder.StreamBrokenError](a.Err)
				assert.True(t, ok, "%v", a.Err)
			} else {
				assert.Equal(t, want, shown(a))
			}
			assert.Less(t, time.Since(start), time.Second)
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// The contents of a foreign document are in the error.
func TestForeignDocument(t *testing.T) {
	const said = `{"message":"no Route matched with those values"}`
	for _, body := range []string{said, events(said), "[" + said + "]"} {
		err := asked(t, body).Err
		assert.ErrorContains(t, err, "no Route matched")
		_, refused := errors.AsType[*aycoder.BadRequestError](err)
		assert.True(t, refused, "%T", err)
	}
}

// Tools that are renamed on the wire are called under their original names.
func TestRenamedTools(t *testing.T) {
	req := hello()
	req.Tools = []*aycoder.ToolSpec{{Name: "files/read", Description: "Reads."}, {Name: "ok"}}
	body := events(parts(`{"functionCall":{"name":"`+wireName("files/read")+`"}},{"functionCall":{"name":"ok"}}`, stop))
	a := wiretest.Ask(t.Context(), t, newClient(t, streaming(body, 1<<20)), req)
	require.NoError(t, a.Err)
	assert.Equal(t, "files/read({}) ok({}) tool_use", shown(a))
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name, raw string
		want      aycoder.Usage
	}{
		{"nothing", ``, aycoder.Usage{}},
		{"all", `{"promptTokenCount":100,"cachedContentTokenCount":60,"toolUsePromptTokenCount":7,"candidatesTokenCount":5,` +
			`"thoughtsTokenCount":3,"totalTokenCount":115}`, aycoder.Usage{Input: 47, CacheRead: 60, Output: 8, Reasoning: 3}},
		{"more cached than read", `{"promptTokenCount":1,"cachedContentTokenCount":60,"toolUsePromptTokenCount":2}`, aycoder.Usage{Input: 2, CacheRead: 1}},
		{"more than there can be", `{"promptTokenCount":9223372036854775807,"candidatesTokenCount":4611686018427387904}`,
			aycoder.Usage{Input: 1 << 40, Output: 1 << 40}},
		{"nonsense", `{"promptTokenCount":-1,"candidatesTokenCount":"x","thoughtsTokenCount":9e99}`, aycoder.Usage{}},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, parseUsage(tt.raw), tt.name)
	}
}

// A prompt without tokens is none: a usage with zeros at the end of a stream does not count.
func TestUsageOfZeros(t *testing.T) {
	const some = `,"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}`
	for _, last := range []string{`{}`, `{"promptTokenCount":0}`, `{"candidatesTokenCount":0,"promptTokenCount":0}`} {
		a := wiretest.Ask(t.Context(), t, newClient(t, streaming(events(`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]`+some+`}`,
			`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":`+last+`}`), 1<<20)), hello())
		require.NoError(t, a.Err)
		assert.Equal(t, aycoder.Usage{Input: 9, Output: 3}, a.Done.Usage, last)
	}
}

// The numbers of finish reasons differ between the services.
func TestFinishWord(t *testing.T) {
	for _, tt := range []struct{ reason, google, vertex string }{
		{"", "", ""}, {"0", "", ""}, {"1", "STOP", "STOP"}, {"9", "SPII", "MALFORMED_FUNCTION_CALL"},
		{"6", "LANGUAGE", "BLOCKLIST"}, {"-1", "-1", "-1"}, {"STOP", "STOP", "STOP"}, {"FINISH_REASON_UNSPECIFIED", "", ""},
	} {
		assert.Equal(t, tt.google, finishWord(tt.reason, provider), tt.reason)
		assert.Equal(t, tt.vertex, finishWord(tt.reason, vertexProvider), tt.reason)
	}
}

// A blocked prompt is an error that names the filter and the reason, and hides keys.
func TestBlockedPrompt(t *testing.T) {
	a := asked(t, events(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"of `+testKey+`"}}`))
	e, ok := errors.AsType[*aycoder.RefusalError](a.Err)
	require.True(t, ok, "%v", a.Err)
	assert.Equal(t, "PROHIBITED_CONTENT", e.Kind)
	assert.Equal(t, "google gemini-test: refused to answer: prompt was blocked: PROHIBITED_CONTENT: of [key]", a.Err.Error())
}

// A large event is read completely, in time proportional to its size.
func TestLargeEvent(t *testing.T) {
	timed.Serial(t)
	text := strings.Repeat("é", 5<<20)
	c := newClient(t, streaming(deltas(1, text), 1<<10))
	a := wiretest.Ask(t.Context(), t, c, hello())
	require.NoError(t, a.Err)
	assert.True(t, a.Text == text)
}

// An endless response is not read for ever.
func TestEndless(t *testing.T) {
	c := newClient(t, streaming(deltas(10_000, "x"), 1<<20))
	c.cfg.MaxResponse = 5 << 10
	a := wiretest.Ask(t.Context(), t, c, hello())
	_, ok := errors.AsType[*aycoder.LimitError](a.Err)
	assert.True(t, ok, "%v", a.Err)
}

// decoded decodes documents, with or without the fast path for documents that have the
// shape of the previous one.
func decoded(t testing.TB, docs []string, short bool) *wiretest.Answer {
	c := newClient(t, streaming("data: {}\n\n", 1<<20))
	x := &api.Exchange{
		Config: &c.cfg.Config, Model: "m", URL: c.endpoint("m", ":streamGenerateContent"),
		Encode:     func() (*api.Payload, error) { return c.encode(hello(), parseModel("m")) },
		SetHeaders: func(http.Header) {},
		Decode:     func(k *api.Call) api.Decoder { return &fed{newDecoder(k, nil), docs, short} },
	}
	m := aycoder.ModelFunc(func(ctx context.Context, _ *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return x.Stream(ctx)
	})
	return wiretest.Ask(t.Context(), t, m, hello())
}

// fed decodes its own documents instead of the incoming ones.
type fed struct {
	*decoder
	docs  []string
	short bool
}

func (f *fed) Event(sse.Event) (bool, error) {
	for _, doc := range f.docs {
		if !f.short {
			f.shape = shape{}
		}
		if err := f.one(doc); err != nil {
			return false, err
		}
	}
	return false, nil
}

// sameBothWays checks that the fast path has the same result as the slow one.
func sameBothWays(t *testing.T, docs []string) {
	t.Helper()
	long, short := decoded(t, docs, false), decoded(t, docs, true)
	require.Equal(t, shown(long), shown(short), "%q", docs)
	require.Equal(t, long.Text+long.Thinking, short.Text+short.Thinking, "%q", docs)
	require.Equal(t, long.Done, short.Done, "%q", docs)
	require.Equal(t, long.Err != nil, short.Err != nil, "%q", docs)
}

// Documents that differ from the previous one in a byte or two are not mistaken for it.
func TestShape(t *testing.T) {
	doc := strings.TrimSuffix(strings.TrimPrefix(textEvent, "data: "), "\r\n\r\n")
	end := strings.TrimSuffix(strings.TrimPrefix(lastEvent, "data: "), "\r\n\r\n")
	thought := strings.Replace(doc, `"@"`, `"@","thought": true`, 1)
	rnd := rand.New(rand.NewPCG(1, 2))
	const with = "0123456789\":,{}[] -.ea\\"
	for range 3000 {
		docs := []string{doc, doc, thought, thought, doc}
		for i, d := range docs {
			b := []byte(d)
			for range rnd.IntN(3) {
				b[rnd.IntN(len(b))] = with[rnd.IntN(len(with))]
			}
			docs[i] = string(b)
		}
		sameBothWays(t, append(docs, end))
	}
	var s shape
	s.learn(doc, &part{text: "@"})
	_, usage, ok := s.match(strings.NewReplacer("@", "x", "21", "9999", "28", "0").Replace(doc))
	assert.True(t, ok)
	assert.Equal(t, aycoder.Usage{Input: 9999, Output: 7}, parseUsage(usage))
}

// FuzzShape checks that the fast path for documents of a known shape has the same result
// as the slow one.
func FuzzShape(f *testing.F) {
	doc := strings.TrimSuffix(strings.TrimPrefix(textEvent, "data: "), "\r\n\r\n")
	f.Add(doc, strings.Replace(doc, "7", "123", 1), strings.Replace(doc, `"index": 0`, `"index": 1`, 1))
	f.Add(doc, strings.Replace(doc, "@", `\u00e9\"`, 1), strings.Replace(doc, "28", "09", 1))
	f.Add(doc, strings.Replace(doc, "21", "-21", 1), strings.Replace(doc, "Count", "", 1))
	f.Add(`{"candidates":[{"content":{"parts":[{"text":"a","thought":true}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"b","thought":true}]}}]}`, `{"candidates":[{"content":{"parts":[{"text":""`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		a, b, c = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?"), strings.ToValidUTF8(c, "?")
		sameBothWays(t, []string{a, b, a, c, b})
	})
}

// FuzzDecode checks that no input makes the decoder panic, whatever the sizes of the
// reads, and that its output can be stored and sent.
func FuzzDecode(f *testing.F) {
	f.Add(deltas(2, "hi"), uint16(40), uint8(7))
	f.Add(`[`+parts(`{"text":"a"},{"functionCall":{"name":"f"},"thoughtSignature":"x"}`, stop)+`]`, uint16(300), uint8(1))
	f.Add(events(parts(`{"functionCall":{"name":"f","willContinue":true}}`, ""), parts(`{"functionCall":{"partialArgs":[{"jsonPath":`+
		`"$.a[1]['b']","stringValue":"c","willContinue":true}]}}`, `,"finishReason":"MAX_TOKENS"`)), uint16(250), uint8(3))
	f.Add(events(parts(`{"executableCode":{}},{"text":"","thoughtSignature":"x"}`, `,"groundingMetadata":{"a":1}`+stop)), uint16(99), uint8(2))
	f.Add("event: error\ndata: {\"error\":{}}\n\n", uint16(5), uint8(200))
	f.Fuzz(func(t *testing.T, body string, at uint16, size uint8) {
		for _, body := range []string{body, body[:min(int(at), len(body))]} {
			a := wiretest.Ask(t.Context(), t, newClient(t, streaming(body, int(size)+1)), hello())
			require.NotEqual(t, a.Done != nil, a.Err != nil, "either done or an error")
			if a.Err != nil {
				_, typed := errors.AsType[*aycoder.ModelError](a.Err)
				require.True(t, typed, "%v", a.Err)
			}
			m := a.Message()
			for _, c := range m.Calls() {
				require.True(t, json.Valid(c.Args), "%q", c.Args)
			}
			_, err := json.Marshal(m)
			require.NoError(t, err)
			data, err := wireKey{provider: provider, strict: true}.encode(m)
			require.NoError(t, err)
			require.True(t, json.Valid([]byte("["+string(data)+"]")), "%q", data)
		}
	})
}

// FuzzPath checks that the paths of partial arguments produce JSON, or an error.
func FuzzPath(f *testing.F) {
	f.Add("$.a.b[0]", "$.a.b[1]['c d']", "x", "1.5")
	f.Add("$", "$[3]", "", "null")
	f.Add(`$["a\"b"]`, `$['it\'s']`, "\xff", "true")
	f.Fuzz(func(t *testing.T, p, q, s, raw string) {
		args := &tree{}
		v := &args.root
		_ = args.set(p, leaf{text: []byte(s), more: true}) // the error is for the caller
		if json.Valid([]byte(raw)) {
			_ = args.set(q, leaf{raw: strings.TrimSpace(raw)})
		}
		_ = args.set(p, leaf{text: []byte(s)})
		whole := v.append(nil, true)
		require.True(t, json.Valid(whole), "%q", whole)
		cut := v.append(nil, false)
		require.True(t, strings.HasPrefix(string(whole), string(cut)) || v.newest < len(v.inner)-1, "%q, %q", whole, cut)
	})
}
