package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// respEvents joins the data of events to a stream.
func respEvents(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// respAsk asks a client whose service answers with body.
func respAsk(t testing.TB, body string) *wiretest.Answer {
	t.Helper()
	return wiretest.Ask(t.Context(), t, respClient(t, respServing(body, 1<<20)), respHello())
}

// respShown writes an answer in short.
func respShown(a *wiretest.Answer) string {
	var b strings.Builder
	for _, p := range a.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			fmt.Fprintf(&b, "text %q%s\n", p.Text, respShownExtra(p.Extra))
		case *aycoder.Thinking:
			fmt.Fprintf(&b, "thinking %q %s\n", p.Text, p.Signature)
		case *aycoder.ToolUse:
			cut := ""
			for _, c := range a.Cut {
				if c == p {
					cut = "cut "
				}
			}
			fmt.Fprintf(&b, "%scall %s %s %s%s\n", cut, p.ID, p.Name, p.Args, respShownExtra(p.Extra))
		case *aycoder.Opaque:
			fmt.Fprintf(&b, "opaque %s\n", p.Raw)
		}
	}
	if a.Done != nil {
		fmt.Fprintf(&b, "%s", a.Done.Stop)
	}
	return b.String()
}

func respShownExtra(o *aycoder.Opaque) string {
	if o == nil {
		return ""
	}
	return " + " + string(o.Raw)
}

const (
	respBegin = `{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"m","output":[],"usage":null}}`
	respEnd   = `{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}`
)

func respAdd(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item)
}

func respDone(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func respPiece(kind string, index, sub int, delta string) string {
	return fmt.Sprintf(`{"type":"response.%s.delta","output_index":%d,"content_index":%d,"delta":%q}`, kind, index, sub, delta)
}

func TestResponsesDecode(t *testing.T) {
	const call = `{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"a\":1}","call_id":"call_1","name":"f"}`
	tests := []struct {
		name, body, want string
	}{
		{"items are built where the end has none",
			respEvents(respBegin, respAdd(0, `{"type":"message","content":[]}`), respPiece("output_text", 0, 0, "Hi"),
				respDone(0, `{"type":"message","content":[{"type":"output_text","text":"Hi","annotations":[]}]}`), respEnd),
			"text \"Hi\"\nend_turn"},
		{"an item that only the end has",
			respEvents(respBegin, strings.Replace(respEnd, `[]`, `[`+call+`]`, 1)),
			"call call_1 f {\"a\":1}\ntool_use"},
		{"an item before another only the end has",
			respEvents(respBegin, respAdd(0, `{"type":"mcp_list_tools"}`), respAdd(1, `{"type":"message"}`),
				respPiece("output_text", 1, 0, "Hi"), respDone(1, `{"type":"message","content":[{"type":"output_text","text":"Hi"}]}`),
				strings.Replace(respEnd, `[]`, `[{"type":"mcp_list_tools","tools":[]},{"type":"message"}]`, 1)),
			"opaque {\"type\":\"mcp_list_tools\",\"tools\":[]}\ntext \"Hi\"\nend_turn"},
		{"arguments only when they are done",
			respEvents(respBegin, respAdd(0, `{"type":"function_call","name":"f","call_id":"call_1","arguments":""}`),
				`{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}`, respEnd),
			"cut call call_1 f {\"a\":1}\ntool_use"}, // the item was not done
		{"pieces before their item",
			respEvents(respBegin, respPiece("function_call_arguments", 0, 0, `{"a":`), respPiece("function_call_arguments", 0, 0, `1}`),
				respDone(0, call), respEnd),
			"call call_1 f {\"a\":1}\ntool_use"},
		{"arguments that are an object", respEvents(respDone(0, `{"type":"function_call","name":"f","call_id":"c","arguments":{"a":1}}`), respEnd),
			"call c f {\"a\":1}\ntool_use"},
		{"no arguments", respEvents(respDone(0, `{"type":"function_call","name":"f","call_id":"c","arguments":null}`), respEnd),
			"call c f {}\ntool_use"},
		{"calls with one id", respEvents(respDone(0, call), respDone(1, call), respEnd),
			"call call_1 f {\"a\":1}\ncall " + api.MakeID("", 1) + " f {\"a\":1}\ntool_use"},
		{"a call from a program", respEvents(respDone(0, `{"type":"function_call","name":"f","call_id":"c","arguments":"{}","caller":{"type":"program"},"namespace":"n"}`), respEnd),
			"call c f {} + {\"caller\":{\"type\":\"program\"},\"namespace\":\"n\"}\ntool_use"},
		{"a call that was cut off", respEvents(respBegin, respAdd(0, `{"type":"function_call","name":"f","call_id":"c"}`),
			respPiece("function_call_arguments", 0, 0, `{"a":`),
			respDone(0, `{"type":"function_call","status":"incomplete","name":"f","call_id":"c","arguments":"{\"a\":"}`),
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
			"cut call c f {\"a\":\nmax_tokens"},
		{"content filter", respEvents(respBegin, respPiece("output_text", 0, 0, "So"),
			`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`),
			"text \"So\"\nrefusal"},
		{"refusal", respEvents(respBegin, respPiece("refusal", 0, 0, "No"), respPiece("refusal", 0, 0, "."),
			respDone(0, `{"type":"message","content":[{"type":"refusal","refusal":"No."}]}`), respEnd),
			"text \"No.\" + {\"type\":\"refusal\"}\nrefusal"},
		{"a message of two parts and a phase", respEvents(respBegin, respPiece("output_text", 0, 0, "A"), respPiece("output_text", 0, 1, "B"),
			respDone(0, `{"type":"message","phase":"commentary","content":[{"type":"output_text","text":"A","annotations":[{"type":"x"}]},{"type":"output_text","text":"B","logprobs":[]}]}`), respEnd),
			"text \"A\" + {\"phase\":\"commentary\",\"annotations\":[{\"type\":\"x\"}]}\ntext \"B\" + {\"phase\":\"commentary\"}\nend_turn"},
		{"parts that are counted in another way", respEvents(respBegin, respPiece("output_text", 0, 1, "A"),
			respDone(0, `{"type":"message","content":[{"type":"output_text","text":"A"}]}`), respEnd), "text \"A\"\nend_turn"},
		{"summaries", respEvents(respBegin, respAdd(0, `{"type":"reasoning","encrypted_content":"old"}`),
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"One"}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"Two"}`,
			respDone(0, `{"type":"reasoning","encrypted_content":"new","summary":[{"text":"One"},{"text":"Two"}]}`), respEnd),
			"thinking \"One\" \nthinking \"Two\" {\"type\":\"reasoning\",\"encrypted_content\":\"new\",\"summary\":[{\"text\":\"One\"},{\"text\":\"Two\"}]}\nend_turn"},
		{"reasoning without pieces", respEvents(respDone(0, `{"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm"}]}`), respEnd),
			"thinking \"Hm\" {\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm\"}]}\nend_turn"},
		{"what is new", respEvents(respBegin, respAdd(0, `{"type":"telepathy"}`), `{"type":"response.telepathy.delta","output_index":0,"delta":{"a":1}}`,
			respDone(0, `{"type":"telepathy", "x":[1, 2]}`), respEnd), "opaque {\"type\":\"telepathy\", \"x\":[1, 2]}\nend_turn"},
		{"custom call", respEvents(respDone(0, `{"type":"custom_tool_call","call_id":"c","name":"sql","input":"SELECT"}`), respEnd),
			"opaque {\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"sql\",\"input\":\"SELECT\"}\nend_turn"},
		{"an index that is used again", respEvents(respBegin, respAdd(0, `{"type":"message"}`), respPiece("output_text", 0, 0, "A"),
			respAdd(0, `{"type":"message"}`), respPiece("output_text", 0, 0, "B"), respEnd), "text \"A\"\ntext \"B\"\nend_turn"},
		{"an item that begins twice", respEvents(respAdd(0, `{"type":"function_call","call_id":"call_1","name":"f"}`), respAdd(0, `{"type":"function_call","call_id":"call_1","name":"f"}`),
			respPiece("function_call_arguments", 0, 3, `{"a":1}`), respDone(0, call), respEnd), "call call_1 f {\"a\":1}\ntool_use"},
		{"done twice", respEvents(respDone(0, call), respDone(0, call), respEnd), "call call_1 f {\"a\":1}\ntool_use"},
		{"no index", respEvents(`{"type":"response.output_item.added","item":{"type":"message"}}`, `{"type":"response.output_text.delta","delta":"A"}`,
			`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"A!"}]}}`, respEnd), "text \"A!\"\nend_turn"},
		{"type in the event only", "event: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n", "end_turn"},
		{"queued", `{"id":"r","status":"queued","output":[]}`, "queued"},
		{"JSON behind blank lines", "\n\n \n" + `{"id":"r","status":"completed","output":[` + call + `]}`, "call call_1 f {\"a\":1}\ntool_use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := respAsk(t, tt.body)
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, respShown(a))
			assert.Equal(t, a.Message().Text(), a.Text, "deltas")
		})
	}
}

func TestResponsesDecodeErrors(t *testing.T) {
	is := func(err error) string {
		switch {
		case err == nil:
			return ""
		case respIs[*aycoder.StreamBrokenError](err):
			return "broken"
		case respIs[*aycoder.RateLimitError](err):
			return "rate limit"
		case respIs[*aycoder.OverloadedError](err):
			return "overloaded"
		case respIs[*aycoder.ContextTooLargeError](err):
			return "too large"
		}
		return fmt.Sprintf("%T", err)
	}
	failed := `{"type":"response.failed","response":{"status":"failed","error":{"code":"%s","message":"%s"}}}`
	tests := []struct{ name, body, want string }{
		{"ends early", respEvents(respBegin, respPiece("output_text", 0, 0, "A")), "broken"},
		{"[DONE] is no end", respEvents(respBegin, "[DONE]"), "broken"},
		{"nothing", "", "broken"},
		{"no JSON", respEvents(`{"type":`), "broken"},
		{"not a response", `{"hello":"world"}`, "broken"},
		{"error in an object", respEvents(respBegin, `{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}`), "rate limit"},
		{"error", respEvents(respBegin, `{"type":"error","code":"server_error","message":"oh"}`), "overloaded"},
		{"error of a gateway", respEvents(respBegin, `{"error":{"code":502,"message":"Service unavailable","type":"server_error"}}`), "overloaded"},
		{"error in a field of its own", respEvents(respBegin) + "error: {\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}\n\n", "rate limit"},
		{"failed", respEvents(respBegin, fmt.Sprintf(failed, "server_error", "oh")), "overloaded"},
		{"failed since it is too large", respEvents(respBegin, fmt.Sprintf(failed, "context_length_exceeded", "oh")), "too large"},
		{"failed without a reason", respEvents(respBegin, `{"type":"response.failed","response":{"status":"failed","error":null}}`), "broken"},
		{"failed in JSON", `{"status":"failed","error":{"code":"server_error","message":"oh"},"output":[]}`, "overloaded"},
		{"call without a name", respEvents(respDone(0, `{"type":"function_call","call_id":"c"}`), respEnd), "broken"},
		{"item that is no object", respEvents(respDone(0, `[1]`), respEnd), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := respAsk(t, tt.body)
			assert.Equal(t, tt.want, is(a.Err), "%v", a.Err)
			assert.Equal(t, tt.want == "", a.Done != nil)
		})
	}
}

func respIs[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// Text goes on to flow while the service's own tool has not said that it is done.
func TestResponsesFlow(t *testing.T) {
	a := &wiretest.Interaction{}
	a.Response.Status = http.StatusOK
	body := respEvents(respBegin, respAdd(0, `{"type":"image_generation_call"}`), respAdd(1, `{"type":"message"}`),
		respPiece("output_text", 1, 0, "A"), respPiece("output_text", 1, 0, "B"))
	var texts []string
	for ev, err := range respClient(t, a.Transport(body, 1)).Stream(t.Context(), respHello()) {
		if d, ok := ev.(*aycoder.TextDelta); ok {
			texts = append(texts, d.Text)
		}
		require.True(t, ev != nil || respIs[*aycoder.StreamBrokenError](err))
	}
	assert.Equal(t, []string{"A", "B"}, texts)
}

// What comes is bounded, and so is the work for it.
func TestResponsesMany(t *testing.T) {
	var items, parts strings.Builder
	items.WriteString(respEvents(respBegin))
	parts.WriteString(respEvents(respBegin))
	for i := range maxOpenItems + 1 {
		items.WriteString(respEvents(respAdd(i, `{"type":"new"}`)))
		parts.WriteString(respEvents(respPiece("output_text", 0, i, "x")))
	}
	for _, body := range []string{items.String(), parts.String()} {
		a := respAsk(t, body+respEvents(respEnd))
		assert.ErrorIs(t, a.Err, errRespMany)
		assert.True(t, respIs[*aycoder.StreamBrokenError](a.Err))
	}
}

// FuzzResponses decodes any bytes, whole and in odd pieces: always to an error or a
// MessageDone, with calls that are JSON and have ids of their own.
func FuzzResponses(f *testing.F) {
	f.Add([]byte(respEvents(respBegin, respPiece("output_text", 0, 0, "A"), respEnd)), uint8(3))
	f.Add([]byte(respEvents(respAdd(0, `{"type":"reasoning"}`), respPiece("reasoning_text", 0, 0, "A"), respPiece("reasoning_text", 0, 1, "B"),
		respDone(0, `{"type":"reasoning","summary":[{"text":"C"}],"content":[{"text":"AB"}]}`), respEnd)), uint8(1))
	f.Add([]byte(respEvents(respAdd(1, `{"type":"function_call","name":"f"}`), respPiece("function_call_arguments", 1, 0, "{}"),
		respDone(1, `{"type":"function_call","call_id":"c","arguments":"{}"}`), respAdd(0, `{"type":"x"}`), respEnd)), uint8(7))
	f.Add([]byte(`{"status":"incomplete","output":[{"type":"function_call","name":"f","arguments":"{"}],"usage":{"input_tokens":1e9}}`), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		a := respAsk(t, string(body))
		respCheck(t, a)
		b := wiretest.Ask(t.Context(), t, respClient(t, respServing(string(body), int(size)+1)), respHello())
		assert.Equal(t, respShown(a), respShown(b))
	})
}

func respCheck(t *testing.T, a *wiretest.Answer) {
	require.True(t, (a.Done != nil) != (a.Err != nil), "done %v, error %v", a.Done, a.Err)
	if a.Err != nil {
		require.True(t, respIs[*aycoder.ModelError](a.Err), "%T", a.Err)
		return
	}
	assert.Equal(t, a.Message().Text(), a.Text)
	ids := map[string]bool{}
	for _, c := range (&aycoder.Message{Parts: a.Parts}).Calls() {
		assert.False(t, c.ID == "" || ids[c.ID], "id %q", c.ID)
		ids[c.ID] = true
	}
	for _, c := range a.Message().Calls() {
		assert.True(t, json.Valid(c.Args), "%s", c.Args)
	}
	data, err := json.Marshal(a.Message())
	require.NoError(t, err)
	m := &aycoder.Message{}
	require.NoError(t, json.Unmarshal(data, m))
	wire, err := respForm{owner: "openai/responses"}.fragment(m)
	require.NoError(t, err)
	if len(wire) > 0 {
		assert.True(t, json.Valid([]byte("["+string(wire[1:])+"]")), "%s", wire)
	}
}
