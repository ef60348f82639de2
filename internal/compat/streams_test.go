package compat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The streams below have benchDeltas deltas in the form of the services: of ten, one is
// thinking, eight are text, and one belongs to the arguments of a call.
const (
	benchDeltas = 10_000
	toolDeltas  = benchDeltas / 10
)

// delta returns the piece of text number n. One of ten contains an escape.
func delta(n int) string {
	if n%10 == 0 {
		return " \"naïve\"\n<b>"
	}
	return " to retrieve"
}

// argument returns a piece of the arguments {"query":"…"}.
func argument(n int) string {
	switch n {
	case 0:
		return `{"query":"`
	case toolDeltas - 1:
		return `"}`
	}
	return "words "
}

func quote(s string) string {
	data, _ := json.Marshal(s) // a string
	return string(data)
}

// A writer writes a stream.
type writer struct{ strings.Builder }

// data writes an event.
func (w *writer) data(format string, args ...any) {
	w.WriteString("data: ")
	fmt.Fprintf(w, format, args...)
	w.WriteString("\n\n")
}

// event writes an event with its type in the event field and in the data.
func (w *writer) event(typ, format string, args ...any) {
	w.WriteString("event: " + typ + "\n")
	w.data(`{"type":"`+typ+`",`+format+"}", args...)
}

// deltas writes the deltas, each with the format of its kind.
func (w *writer) deltas(think, text, tool func(n int, piece string)) {
	for n := range benchDeltas {
		switch {
		case n < toolDeltas:
			think(n, quote(delta(n)))
		case n < benchDeltas-toolDeltas:
			text(n, quote(delta(n)))
		default:
			tool(n, quote(argument(n-benchDeltas+toolDeltas)))
		}
	}
}

func anthropicStream() string {
	w := &writer{}
	w.event("message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],`+
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}`)
	block := -1
	open := func(index int, start string) {
		if block == index {
			return
		}
		if block >= 0 {
			w.event("content_block_stop", `"index":%d`, block)
		}
		block = index
		w.event("content_block_start", `"index":%d,"content_block":%s`, index, start)
	}
	piece := func(index int, start, typ, field string) func(int, string) {
		return func(_ int, s string) {
			open(index, start)
			w.event("content_block_delta", `"index":%d,"delta":{"type":"%s","%s":%s}`, index, typ, field, s)
		}
	}
	w.deltas(piece(0, `{"type":"thinking","thinking":"","signature":""}`, "thinking_delta", "thinking"),
		piece(1, `{"type":"text","text":""}`, "text_delta", "text"),
		piece(2, `{"type":"tool_use","id":"toolu_1","name":"lookup","input":{}}`, "input_json_delta", "partial_json"))
	w.event("content_block_stop", `"index":2`)
	w.event("message_delta", `"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":10000}`)
	w.data(`{"type":"message_stop"}`)
	return w.String()
}

func chatStream() string {
	w := &writer{}
	chunk := func(delta, finish string) {
		w.data(`{"id":"chatcmpl-CoC8iBQCAZ4oQmm3uAGgg8etOGtHL","object":"chat.completion.chunk","created":1766079100,`+
			`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_deacdd5f6f",`+
			`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null,"obfuscation":"h9RiQLLs8"}`,
			delta, finish)
	}
	chunk(`{"role":"assistant","content":"","refusal":null}`, "null")
	call := `"id":"call_1","type":"function",`
	w.deltas(func(_ int, s string) { chunk(`{"reasoning_content":`+s+`}`, "null") },
		func(_ int, s string) { chunk(`{"content":`+s+`}`, "null") },
		func(_ int, s string) {
			name := ""
			if call != "" {
				name = `"name":"lookup",`
			}
			chunk(`{"tool_calls":[{"index":0,`+call+`"function":{`+name+`"arguments":`+s+`}}]}`, "null")
			call = ""
		})
	chunk("{}", `"tool_calls"`)
	w.data("[DONE]")
	return w.String()
}

func responsesStream() string {
	const (
		head = `"id":"resp_0cca","object":"response","created_at":1751569118,"model":"gpt-5"`
		id   = `"item_id":"msg_6866d2df1c0c819c885ca369ba853e7f0847a84b87aad89c","output_index":%d,`
	)
	w := &writer{}
	w.event("response.created",
		`"sequence_number":0,"response":{`+head+`,"status":"in_progress","output":[],"usage":null}`)
	var items []string
	open := func(index int, start string) {
		if index == len(items) {
			items = append(items, start)
			w.event("response.output_item.added", `"sequence_number":1,"output_index":%d,"item":%s`, index, start)
		}
	}
	var texts [3]strings.Builder
	piece := func(index int, start, typ, more string) func(int, string) {
		return func(n int, s string) {
			open(index, start)
			texts[index].WriteString(s[1 : len(s)-1])
			w.event(typ, `"sequence_number":%d,`+id+more+`"delta":%s,"obfuscation":"nQtgU7rE2s"`, n+2, index, s)
		}
	}
	w.deltas(piece(0, `{"id":"rs_1","type":"reasoning","summary":[]}`, "response.reasoning_summary_text.delta",
		`"summary_index":0,`),
		piece(1, `{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`,
			"response.output_text.delta", `"content_index":0,"logprobs":[],`),
		piece(2, `{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"lookup"}`,
			"response.function_call_arguments.delta", ""))
	done := []string{
		`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"` + texts[0].String() + `"}]}`,
		`{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"text":"` +
			texts[1].String() + `"}],"role":"assistant"}`,
		`{"id":"fc_1","type":"function_call","status":"completed","arguments":"` + texts[2].String() +
			`","call_id":"call_1","name":"lookup"}`,
	}
	for i, item := range done {
		w.event("response.output_item.done", `"sequence_number":%d,"output_index":%d,"item":%s`, benchDeltas+i, i, item)
	}
	w.event("response.completed", `"sequence_number":20000,"response":{`+head+`,"status":"completed","output":[%s],`+
		`"usage":{"input_tokens":21,"output_tokens":10000,"total_tokens":10021}}`, strings.Join(done, ","))
	return w.String()
}

// googleStream has its call in one piece, as the service sends it, so the deltas for the
// arguments are text as well.
func googleStream() string {
	w := &writer{}
	chunk := func(part, more string) {
		w.data(`{"candidates": [{"content": {"parts": [%s],"role": "model"}%s,"index": 0}],"usageMetadata": `+
			`{"promptTokenCount": 21,"candidatesTokenCount": 7,"totalTokenCount": 28,"promptTokensDetails": `+
			`[{"modality": "TEXT","tokenCount": 21}]},"modelVersion": "gemini-2.5-flash","responseId": "za9caLp-rJ_Psg-Ou6T4BA"}`,
			part, more)
	}
	text := func(_ int, s string) { chunk(`{"text": `+s+`}`, "") }
	w.deltas(func(_ int, s string) { chunk(`{"text": `+s+`,"thought": true}`, "") }, text, text)
	chunk(`{"functionCall": {"name": "lookup","args": {"query": "words"}}}`, `,"finishReason": "STOP"`)
	return w.String()
}
