//go:build unix

package compat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
)

// A dialect has answers with twenty pieces of text and three calls, and one that ends a
// run.
type dialect struct {
	name         string
	client       func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient
	answer, last string
}

func dialects() (all []*dialect) {
	for _, c := range contests() {
		all = append(all, &dialect{c.name, c.ours, stepAnswer(c.name), c.answer})
	}
	return append(all,
		&dialect{"bedrock", func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient { return bedrockClient(t, rt, "m") },
			`{"output":{"message":{"role":"assistant","content":[{"text":"` + stepText + `"},` +
				stepCalls(`{"toolUse":{"toolUseId":"call_%d","name":"lookup","input":`+stepArgs+`}}`) +
				`]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`, bedrockAnswer},
		&dialect{"ollama", func(t testing.TB, rt http.RoundTripper) aycoder.ModelClient { return ollamaClient(t, rt, "m") },
			`{"model":"m","created_at":"2025-01-01T00:00:00Z","message":{"role":"assistant","content":"` + stepText +
				`","tool_calls":[` + stepCalls(`{"id":"call_%d","function":{"name":"lookup","arguments":`+stepArgs+`}}`) +
				`]},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}` + "\n", ollamaAnswer})
}

const (
	stepPieces = 20
	stepPiece  = "some words "
	stepText   = "some words some words some words"
	stepArgs   = `{"query":"words words words words words words words words words words words words"}`
)

// stepCalls is the form of a call, for each of three.
func stepCalls(form string) string {
	return fmt.Sprintf(form+","+form+","+form, 1, 2, 3)
}

func stepAnswer(name string) string {
	w := &writer{}
	args := quote(stepArgs)
	switch name {
	case "anthropic":
		w.event("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],`+
			`"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}`)
		w.event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
		for range stepPieces {
			w.event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"`+stepPiece+`"}`)
		}
		w.event("content_block_stop", `"index":0`)
		for i := 1; i <= 3; i++ {
			w.event("content_block_start", `"index":%d,"content_block":{"type":"tool_use","id":"call_%d","name":"lookup","input":{}}`, i, i)
			w.event("content_block_delta", `"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i, args)
			w.event("content_block_stop", `"index":%d`, i)
		}
		w.event("message_delta", `"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}`)
		w.data(`{"type":"message_stop"}`)
	case "openai-chat":
		chunk := func(delta, finish string) {
			w.data(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1766079100,"model":"m",`+
				`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}`, delta, finish)
		}
		for range stepPieces {
			chunk(`{"content":"`+stepPiece+`"}`, "null")
		}
		for i := range 3 {
			chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"lookup","arguments":%s}}]}`,
				i, i, args), "null")
		}
		chunk("{}", `"tool_calls"`)
		w.data("[DONE]")
	case "openai-responses":
		w.event("response.created", `"response":{"id":"resp_1","object":"response","model":"m","status":"in_progress","output":[]}`)
		w.event("response.output_item.added", `"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}`)
		for range stepPieces {
			w.event("response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"`+stepPiece+`"`)
		}
		w.event("response.output_item.done", `"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant",`+
			`"content":[{"type":"output_text","annotations":[],"text":"%s"}]}`, strings.Repeat(stepPiece, stepPieces))
		for i := 1; i <= 3; i++ {
			item := `"output_index":%d,"item":{"id":"fc_%d","type":"function_call","call_id":"call_%d","name":"lookup","arguments":%s}`
			w.event("response.output_item.added", item, i, i, i, `""`)
			w.event("response.function_call_arguments.delta", `"item_id":"fc_%d","output_index":%d,"delta":%s`, i, i, args)
			w.event("response.output_item.done", item, i, i, i, args)
		}
		w.event("response.completed", `"response":{"id":"resp_1","object":"response","model":"m","status":"completed","output":[],`+
			`"usage":{"input_tokens":21,"output_tokens":20,"total_tokens":41}}`)
	case "google":
		chunk := func(part, more string) {
			w.data(`{"candidates": [{"content": {"parts": [%s],"role": "model"}%s,"index": 0}],"usageMetadata": `+
				`{"promptTokenCount": 21,"candidatesTokenCount": 7,"totalTokenCount": 28},"modelVersion": "m","responseId": "r"}`, part, more)
		}
		for range stepPieces {
			chunk(`{"text": "`+stepPiece+`"}`, "")
		}
		chunk(`{"functionCall": {"name": "lookup","args": `+stepArgs+`}}`, "")
		chunk(`{"functionCall": {"name": "lookup","args": `+stepArgs+`}}`, "")
		chunk(`{"functionCall": {"name": "lookup","args": `+stepArgs+`}}`, `,"finishReason": "STOP"`)
	}
	return w.String()
}

// A stepper answers turns times with calls, and then ends the run. It reports each request.
type stepper struct {
	*dialect
	turns, asked int
	at           func(turn int)
}

// RoundTrip implements [http.RoundTripper].
func (k *stepper) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	if k.at != nil {
		k.at(k.asked)
	}
	answer := k.answer
	if k.asked == k.turns {
		answer = k.last
	}
	k.asked++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Request: r, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// hold runs the whole conversation, with tools that return size bytes.
func (k *stepper) hold(t testing.TB, size int) {
	t.Helper()
	result := strings.Repeat("x", size)
	tool, err := aycoder.NewTool("lookup", "Looks up.", func(context.Context, *aycoder.Invocation,
		lookup) (*aycoder.ToolResult, error) {
		return aycoder.TextResult(strings.Clone(result)), nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	loop, err := aycoder.New(k.client(t, k), aycoder.WithTools(tool), aycoder.WithLimits(aycoder.Limits{Turns: k.turns + 1}))
	require.NoError(t, err)
	calls := 0
	for ev, err := range loop.Run(t.Context(), aycoder.Input{Prompt: "go"}) {
		require.NoError(t, err)
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			require.NoError(t, f.Err)
			calls++
		}
	}
	require.Equal(t, 3*k.turns, calls)
}

// A step of three calls allocates little, and as much after two thousand turns as at the beginning.
func TestStepAllocations(t *testing.T) {
	const turns = 2000
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			marks := map[int]uint64{20: 0, 120: 0, turns - 100: 0, turns: 0} // the first requests allocate data that is made once
			k := &stepper{dialect: d, turns: turns, at: func(turn int) {
				if _, ok := marks[turn]; ok {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					marks[turn] = m.Mallocs
				}
			}}
			k.hold(t, 10)
			first, last := float64(marks[120]-marks[20])/100, float64(marks[turns]-marks[turns-100])/100
			t.Logf("%.0f allocations a step at first, %.0f at last", first, last)
			assert.LessOrEqual(t, last, 1.1*first)
			assert.LessOrEqual(t, first, 355.0)
		})
	}
}

// BenchmarkStep runs 100 turns of three calls with outputs of one kilobyte, and reports the
// cost of a step: one request, its response and the calls.
func BenchmarkStep(b *testing.B) {
	for _, d := range dialects() {
		b.Run(d.name, func(b *testing.B) {
			const turns = 100
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cpu := cpuTime()
			for b.Loop() {
				(&stepper{dialect: d, turns: turns}).hold(b, 1<<10)
			}
			cpu = cpuTime() - cpu
			runtime.ReadMemStats(&after)
			steps := float64(b.N) * turns
			b.ReportMetric(float64(cpu.Microseconds())/steps, "cpu-µs/step")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/steps, "allocs/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}
