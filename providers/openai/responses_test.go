package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/wiretest"
)

// respEvents joins the data of events into a stream.
func respEvents(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// respAsk returns the answer of a client whose service responds with body.
func respAsk(t testing.TB, body string) *wiretest.Answer {
	t.Helper()
	return wiretest.Ask(t.Context(), t, respClient(t, respServing(body, 1<<20)), respHello())
}

// respShown summarises an answer.
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
			"cut call call_1 f {\"a\":1}\ntool_use"}, // the item was not completed
		{"pieces before their item",
			respEvents(respBegin, respPiece("function_call_arguments", 0, 0, `{"a":`), respPiece("function_call_arguments", 0, 0, `1}`),
				respDone(0, call), respEnd),
			"call call_1 f {\"a\":1}\ntool_use"},
		{"arguments that are an object", respEvents(respDone(0, `{"type":"function_call","name":"f","call_id":"c","arguments":{"a":1}}`), respEnd),
			"call c f {\"a\":1}\ntool_use"},
		{"no arguments", respEvents(respDone(0, `{"type":"function_call","name":"f","call_id":"c","arguments":null}`), respEnd),
			"call c f {}\ntool_use"},
		{"items of one index", respEvents(respDone(0, `{"type":"message","id":"m","content":[{"type":"output_text","text":"Hi"}]}`), respDone(0, call),
			respDone(0, strings.Replace(call, "call_1", "call_2", 1)), respDone(0, strings.Replace(call, "call_1", "call_2", 1)), respEnd),
			"text \"Hi\"\ncall call_1 f {\"a\":1}\ncall call_2 f {\"a\":1}\ntool_use"},
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
		{"a call with the id of its item only", respEvents(respDone(0, `{"type":"function_call","id":"fc_77","name":"f","arguments":"{}"}`), respEnd),
			"call fc_77 f {}\ntool_use"},
		{"an error that says nothing", `{"id":"r","status":"completed","error":{ },"output":[` + call + `]}`, "call call_1 f {\"a\":1}\ntool_use"},
		{"an error that is a text with nothing in it", `{"status":"completed","error":"","output":[]}`, "end_turn"},
		{"an error that is false", `{"status":"completed","error":false,"output":[]}`, "end_turn"},
		{"an error of an item", respEvents(respDone(0, call), `{"type":"response.mcp_call.failed","output_index":1,"error":{"message":"oh"}}`, respEnd),
			"call call_1 f {\"a\":1}\ntool_use"},
		{"a phase that is not a word", respEvents(respDone(0, `{"type":"message","phase":{"a":1},"content":[{"text":"A"}]}`),
			respDone(1, `{"type":"message","phase":"`+strings.Repeat("p", maxPhase)+`","content":[{"text":"B"}]}`), respEnd),
			"text \"A\"\ntext \"B\"\nend_turn"},
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

// The last event repeats the items, at other positions if the stream left some out.
func TestResponsesBackfill(t *testing.T) {
	const (
		thought = `{"type":"reasoning","id":"rs_1","summary":[]}`
		call    = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"rm","arguments":"{\"p\":1}"}`
		done    = "call c1 rm {\"p\":1}\n"
	)
	said := func(id, text string) string {
		return `{"type":"message","id":"` + id + `","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	last := func(items ...string) string {
		return strings.Replace(respEnd, `[]`, `[`+strings.Join(items, ",")+`]`, 1)
	}
	tests := []struct {
		name   string
		events []string
		want   string
	}{
		{"a call", []string{respDone(0, call), last(thought, call)}, done + "thinking \"\" " + thought + "\ntool_use"},
		{"a call whose item has another id", []string{respDone(0, call), last(thought, strings.Replace(call, "fc_1", "fc_2", 1))},
			done + "thinking \"\" " + thought + "\ntool_use"},
		{"a call with another id", []string{respDone(0, call), last(thought, strings.NewReplacer("c1", "c2", "fc_1", "fc_2").Replace(call))},
			done + "thinking \"\" " + thought + "\ntool_use"},
		{"a call beside it", []string{respDone(0, call), last(strings.NewReplacer("c1", "c0", "fc_1", "fc_0", ":1", ":0").Replace(call), call)},
			done + "call c0 rm {\"p\":0}\ntool_use"},
		{"a call that was not done", []string{respAdd(0, `{"type":"function_call","call_id":"c1","name":"rm"}`),
			respPiece("function_call_arguments", 0, 0, `{"p"`), last(thought, call)}, done + "thinking \"\" " + thought + "\ntool_use"},
		{"a message", []string{respDone(0, said("m1", "hello")), last(thought, said("m1", "hello"))},
			"text \"hello\"\nthinking \"\" " + thought + "\nend_turn"},
		{"a message with another id", []string{respDone(0, said("m1", "hello")), last(thought, said("m2", "hello"))},
			"text \"hello\"\nthinking \"\" " + thought + "\nend_turn"},
		{"a message before it", []string{respDone(0, said("m2", "B")), last(said("m1", "A"), said("m2", "B"))},
			"text \"B\"\ntext \"A\"\nend_turn"},
		{"a message that was not done", []string{respPiece("output_text", 0, 0, "hel"), last(thought, said("m1", "hello"))},
			"text \"hello\"\nthinking \"\" " + thought + "\nend_turn"},
		{"messages that say the same", []string{respDone(0, said("m1", "A")), last(said("m2", "A"), said("m1", "A"))},
			"text \"A\"\ntext \"A\"\nend_turn"},
		{"without indexes", []string{`{"type":"response.output_item.done","item":` + said("m1", "hello ") + `}`, last(said("m2", "hello"), call)},
			"text \"hello \"\n" + done + "tool_use"},
		{"items of the service's own", []string{respDone(0, `{"type":"x","id":"1"}`), last(`{"type":"y","id":"2"}`, `{"type":"x","id":"1","more":1}`)},
			"opaque {\"type\":\"x\",\"id\":\"1\"}\nopaque {\"type\":\"y\",\"id\":\"2\"}\nend_turn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := respAsk(t, respEvents(append([]string{respBegin}, tt.events...)...))
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, respShown(a))
			respCheck(t, a)
		})
	}
}

// A call runs with the arguments of the complete item, or not at all.
func TestResponsesArguments(t *testing.T) {
	args := func(s string) string { return fmt.Sprintf(`"arguments":%q`, s) }
	begin := respAdd(0, `{"type":"function_call","call_id":"c","name":"f","arguments":""}`)
	piece := func(s string) string { return respPiece("function_call_arguments", 0, 0, s) }
	whole := func(s string) string {
		return `{"type":"response.function_call_arguments.done","output_index":0,` + args(s) + `}`
	}
	done := func(s string) string {
		return respDone(0, `{"type":"function_call","call_id":"c","name":"f",`+args(s)+`}`)
	}
	cut := `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`
	message := respDone(1, `{"type":"message","content":[{"type":"output_text","text":"A"}]}`)
	tests := []struct {
		name   string
		events []string
		want   string
	}{
		{"pieces were lost", []string{begin, piece(`{"p":"/`), piece(`"}`), whole(`{"p":"/x"}`), done(`{"p":"/x"}`), respEnd},
			`cut call c f {"p":"/x"}` + "\ntool_use"},
		{"pieces were lost, as one event says", []string{begin, piece(`{"p":1}`), whole(`{"p":12}`), done(""), respEnd},
			`cut call c f {"p":12}` + "\ntool_use"},
		{"the item says so, the event before it does not", []string{begin, piece(`{"p":1}`), whole(`{"p":12}`), done(`{"p":1}`), respEnd},
			`call c f {"p":1}` + "\ntool_use"},
		{"the end was lost", []string{begin, piece(`{"p":`), done(`{"p":1}`), respEnd}, `call c f {"p":1}` + "\ntool_use"},
		{"written in another way", []string{begin, piece(`{"p": 1, "q": "ö"}`), done(`{"q":"\u00f6","p":1}`), respEnd},
			`call c f {"p": 1, "q": "ö"}` + "\ntool_use"},
		{"large numbers", []string{begin, piece(`{"p":9007199254740993}`), done(`{"p":9007199254740992}`), respEnd},
			`cut call c f {"p":9007199254740992}` + "\ntool_use"},
		{"no arguments", []string{begin, done(""), respEnd}, "call c f {}\ntool_use"},
		{"no arguments, in the middle", []string{begin, done(""), message, cut}, "call c f {}\ntext \"A\"\nmax_tokens"},
		{"cut off before the first", []string{begin, done(""), cut}, "cut call c f \nmax_tokens"},
		{"cut off before the first, in the last event", []string{begin, strings.Replace(cut, `"status"`, `"output":[{"type":"function_call","call_id":"c","name":"f","arguments":""}],"status"`, 1)},
			"cut call c f \nmax_tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := respAsk(t, respEvents(append([]string{respBegin}, tt.events...)...))
			require.NoError(t, a.Err)
			assert.Equal(t, tt.want, respShown(a))
		})
	}
	a := respAsk(t, `{"status":"incomplete","output":[{"type":"function_call","call_id":"b","name":"f","arguments":""},{"type":"function_call","call_id":"c","name":"f","arguments":""}]}`)
	require.NoError(t, a.Err)
	assert.Equal(t, "call b f {}\ncut call c f \nmax_tokens", respShown(a))
}

// Tools are called under the names that the host gave them.
func TestResponsesToolNames(t *testing.T) {
	req := respHello()
	req.Tools = []*aycoder.ToolSpec{{Name: "fs.read"}, {Name: "read"}}
	add := respAdd(0, `{"type":"function_call","call_id":"c","name":"`+toolName("fs.read")+`"}`)
	done := func(i int, name string) string {
		return respDone(i, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":%q,"arguments":"{}"}`, i, name))
	}
	body := respEvents(add, respPiece("function_call_arguments", 0, 0, "{}"), done(0, toolName("fs.read")), done(1, "read"),
		done(2, "other"), respEnd)
	var names []string
	for ev, err := range respClient(t, respServing(body, 1<<20)).Stream(t.Context(), req) {
		require.NoError(t, err)
		switch ev := ev.(type) {
		case *aycoder.ToolDelta:
			names = append(names, ev.Name)
		case *aycoder.BlockDone:
			names = append(names, ev.Part.(*aycoder.ToolUse).Name)
		}
	}
	assert.Equal(t, []string{"fs.read", "fs.read", "fs.read", "read", "read", "read", "other", "other", "other"}, names)
}

// The error for an unknown model lists the existing models.
func TestResponsesUnknownModel(t *testing.T) {
	asked := respRoundTripper(func(r *http.Request) (*http.Response, error) {
		status, body := http.StatusNotFound, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`
		if r.URL.Path == "/v1/models" {
			status, body = http.StatusOK, `{"data":[{"id":"gpt-5"},{"id":"o3"}]}`
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r}, nil
	})
	a := wiretest.Ask(t.Context(), t, respClient(t, asked), respHello())
	e, ok := errors.AsType[*aycoder.UnknownModelError](a.Err)
	require.True(t, ok, "%v", a.Err)
	assert.Contains(t, e.Available, "gpt-5")
}

type respRoundTripper func(*http.Request) (*http.Response, error)

func (f respRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Usage is never negative, and no sums of it overflow.
func TestResponsesUsage(t *testing.T) {
	tests := []struct {
		in   string
		want aycoder.Usage
	}{
		{`{"input_tokens":5,"input_tokens_details":{"cached_tokens":9},"output_tokens":-1}`, aycoder.Usage{Input: 5, CacheRead: 9}},
		{`{"input_tokens":9,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":3}}`, aycoder.Usage{Input: 4, CacheRead: 2, CacheWrite: 3}},
		{`{"input_tokens":9000000000000000000,"output_tokens":9000000000000000000}`, aycoder.Usage{Input: api.Count(math.MaxInt64), Output: api.Count(math.MaxInt64)}},
		{`{"output_tokens":2,"output_tokens_details":{"reasoning_tokens":3}}`, aycoder.Usage{Output: 3, Reasoning: 3}},
	}
	for _, tt := range tests {
		a := respAsk(t, `{"status":"completed","output":[],"usage":`+tt.in+`}`)
		require.NoError(t, a.Err)
		assert.Equal(t, tt.want, a.Done.Usage, tt.in)
	}
}

// Emitted values do not keep their events in memory.
func TestResponsesMemory(t *testing.T) {
	big := strings.Repeat("i", 1<<20)
	body := respEvents(strings.Replace(respEnd, `[]`, `[{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"instructions":"`+big+`"`, 1))
	texts := strings.Repeat(`{"type":"output_text","text":"x"},`, maxOpenItems-1) + `{"type":"output_text","text":"x"}`
	phase := respEvents(respDone(0, `{"type":"message","content":[`+texts+`],"phase":"`+strings.Repeat("p", 64<<10)+`"}`), respEnd)
	for name, body := range map[string]string{"events": body, "phase": phase} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			held := []*wiretest.Answer{respAsk(t, body)}
			runtime.GC()
			runtime.ReadMemStats(&before)
			for range 10 {
				held = append(held, respAsk(t, body))
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(6<<20))
			runtime.KeepAlive(held)
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
		{"[DONE] does not end it", respEvents(respBegin, "[DONE]"), "broken"},
		{"nothing", "", "broken"},
		{"no JSON", respEvents(`{"type":`), "broken"},
		{"not a response", `{"hello":"world"}`, "*aycoder.BadRequestError"},
		{"error in an object", respEvents(respBegin, `{"type":"error","error":{"code":"rate_limit_exceeded","message":"slow"}}`), "rate limit"},
		{"error", respEvents(respBegin, `{"type":"error","code":"server_error","message":"oh"}`), "overloaded"},
		{"error of a gateway", respEvents(respBegin, `{"error":{"code":502,"message":"Service unavailable","type":"server_error"}}`), "overloaded"},
		{"error in a separate field", respEvents(respBegin) + "error: {\"code\":\"rate_limit_exceeded\",\"message\":\"slow\"}\n\n", "rate limit"},
		{"error of another name", respEvents(respBegin, `{"type":"response.error","error":{"code":"rate_limit_exceeded","message":"slow"}}`), "rate limit"},
		{"error that is new", respEvents(respBegin, `{"type":"some.new.event","error":{"type":"overloaded_error","message":"oh"}}`), "overloaded"},
		{"failed without a response", respEvents(respBegin, `{"type":"response.failed","error":{"code":"server_error","message":"oh"}}`), "overloaded"},
		{"too many items", `{"output":[` + strings.Repeat(`{},`, maxItems) + `{}]}`, "broken"},
		{"too many items in the last event", respEvents(strings.Replace(respEnd, `[]`, `[`+strings.Repeat(`{},`, maxItems)+`{}]`, 1)), "broken"},
		{"failed", respEvents(respBegin, fmt.Sprintf(failed, "server_error", "oh")), "overloaded"},
		{"failed since it is too large", respEvents(respBegin, fmt.Sprintf(failed, "context_length_exceeded", "oh")), "too large"},
		{"failed without a reason", respEvents(respBegin, `{"type":"response.failed","response":{"status":"failed","error":null}}`), "broken"},
		{"failed in JSON", `{"status":"failed","error":{"code":"server_error","message":"oh"},"output":[]}`, "overloaded"},
		{"call without a name", respEvents(respDone(0, `{"type":"function_call","call_id":"c"}`), respEnd), "broken"},
		{"item that is not an object", respEvents(respDone(0, `[1]`), respEnd), ""},
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

// Text continues to stream while a server-side tool is running.
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

// The number of items is limited, and so is the work for them.
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

// FuzzResponses checks that any bytes, whole or in pieces, decode to an error or a
// MessageDone, with calls that have valid JSON and unique ids.
func FuzzResponses(f *testing.F) {
	f.Add([]byte(respEvents(respBegin, respPiece("output_text", 0, 0, "A"), respEnd)), uint8(3))
	f.Add([]byte(respEvents(respAdd(0, `{"type":"reasoning"}`), respPiece("reasoning_text", 0, 0, "A"), respPiece("reasoning_text", 0, 1, "B"),
		respDone(0, `{"type":"reasoning","summary":[{"text":"C"}],"content":[{"text":"AB"}]}`), respEnd)), uint8(1))
	f.Add([]byte(respEvents(respAdd(1, `{"type":"function_call","name":"f"}`), respPiece("function_call_arguments", 1, 0, "{}"),
		respDone(1, `{"type":"function_call","call_id":"c","arguments":"{}"}`), respAdd(0, `{"type":"x"}`), respEnd)), uint8(7))
	f.Add([]byte(respEvents(respAdd(0, `{"type":"function_call","name":"f","call_id":"c"}`), respPiece("function_call_arguments", 0, 0, "{"),
		respDone(1, `{"type":"message","content":[{"text":"A"}]}`), strings.Replace(respEnd, `[]`, `[{"type":"x"},{"type":"message","content":[{"text":"A"}]},{"type":"function_call","call_id":"c","arguments":"{}"}]`, 1))), uint8(5))
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

// Texts of an event stay as they are when the buffer is used for the next events, whose
// data lies in the same place.
func TestResponsesKeepsCopies(t *testing.T) {
	const args = "{}" // without escapes, so that it is not a copy in any case
	done := fmt.Sprintf(`{"type":"response.function_call_arguments.done","output_index":1,"arguments":%q}`, args)
	noise := strings.Repeat(`{"type":"response.unknown","note":"`+strings.Repeat("x", len(done))+"\"}\n\ndata: ", 60) +
		`{"type":"response.unknown"}`
	body := respEvents(
		`{"type":"response.created","response":{"id":"resp_7","model":"gpt-7","status":"in_progress","output":[]}}`, noise,
		respAdd(0, `{"type":"message","id":"msg_1","content":[]}`), noise,
		`{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I can"}`, noise,
		`{"type":"response.refusal.done","output_index":0,"content_index":0,"refusal":"I can not"}`, noise,
		respAdd(1, `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":""}`), noise,
		done, noise,
		respDone(1, `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f"}`), noise,
		respDone(0, `{"type":"message","id":"msg_1","content":[{"type":"refusal","refusal":"I can not"}]}`),
		respEnd)
	for _, size := range []int{len(body), 100} {
		a := wiretest.Ask(t.Context(), t, respClient(t, respServing(body, size)), respHello())
		require.NoError(t, a.Err)
		assert.Equal(t, "gpt-7", a.Done.Model)
		require.Len(t, a.Parts, 2)
		assert.Equal(t, "I can not", a.Parts[0].(*aycoder.Text).Text)
		assert.Equal(t, &aycoder.ToolUse{ID: "call_1", Name: "f", Args: json.RawMessage(args)}, a.Parts[1])
	}
}

// Only the events whose data is kept are copied.
func TestResponsesAllocatesLittle(t *testing.T) {
	event := `{"type":"response.content_part.done","output_index":0,"part":{"type":"output_text","text":"` + strings.Repeat("x", 1000) + `"}}`
	cost := func(events int) int64 { // in bytes, with some of other tests
		c := respClient(t, respServing(respEvents(append(slices.Repeat([]string{event}, events), respEnd)...), 1<<20))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := aycoder.Complete(t.Context(), c, respHello())
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	cost(1)
	assert.Less(t, (cost(1100)-cost(100))/1000, int64(100))
}
