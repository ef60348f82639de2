//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A wire is an API: how its answers are written, and how the floor reads them and writes requests.
type wire struct {
	name, path string
	// answer writes an answer with these texts, and after them as many calls.
	answer func(w *writer, texts []string, calls int)
	// The events with a piece of text, with the beginning of a call, and with a piece of its arguments.
	text, call, args mark
	id, tool         string // before the id of a call and the name of its tool
	// The parts of the floor's requests, in which %1, %2 and %3 stand for values. The head has the system prompt and
	// the schema of the tool; said a text; called an id, a name and arguments, which may be a string; result
	// an id, a name and an output. Between first and last are the calls, between open and shut the results.
	head, user, said, first, called, last, end, open, result, shut string
	escaped                                                        bool
}

// A mark is what an event of a kind contains, and what is before its value.
type mark struct{ in, before string }

// A writer writes the events of an answer.
type writer struct {
	events []string
	calls  int
}

// data adds an event, and event one with its type.
func (w *writer) data(format string, args ...any) {
	w.events = append(w.events, "data: "+fmt.Sprintf(format, args...)+"\n\n")
}

func (w *writer) event(typ, format string, args ...any) {
	w.data(`{"type":"`+typ+`",`+format+"}", args...)
	w.events[len(w.events)-1] = "event: " + typ + "\n" + w.events[len(w.events)-1]
}

// id returns an id for the next call.
func (w *writer) id() string {
	w.calls++
	return fmt.Sprintf("call_0bJQXY2SPQWQ3JhB6TAnz%03d", w.calls)
}

func quote(s string) string {
	data, _ := json.Marshal(s) // a string
	return string(data)
}

// callArgs are the arguments of each call. They come in pieces, except from Gemini.
const callArgs = `{"query":"where the names of the settings are made and who reads them","limit":12}`

func argPieces() []string {
	var out []string
	for i := 0; i < len(callArgs); i += 10 {
		out = append(out, callArgs[i:min(i+10, len(callArgs))])
	}
	return out
}

const schema = `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query","limit"]}`

var wires = []*wire{{
	name: "anthropic", path: "/v1/messages", answer: anthropicAnswer,
	text: mark{`"text_delta"`, `"text":`}, call: mark{in: `"tool_use","id"`}, args: mark{`"input_json_delta"`, `"partial_json":`},
	id: `"id":`, tool: `"name":`,
	head: `{"stream":true,"max_tokens":4096,"model":"claude-sonnet-4-5","system":%1,"tools":[{"name":"lookup",` +
		`"description":"Looks a name up.","input_schema":%2}],"messages":[`,
	user: `{"role":"user","content":%1}`, said: `,{"role":"assistant","content":[{"type":"text","text":%1}`,
	first: `,`, called: `{"type":"tool_use","id":%1,"name":%2,"input":%3}`, end: `]}`,
	open: `,{"role":"user","content":[`, result: `{"type":"tool_result","tool_use_id":%1,"content":%3}`, shut: `]}`,
}, {
	name: "chat", path: "/v1/chat/completions", answer: chatAnswer,
	text: mark{`"delta":{"content":`, `"content":`}, call: mark{in: `"type":"function"`}, args: mark{`"arguments":`, `"arguments":`},
	id: `"index":0,"id":`, tool: `"name":`,
	head: `{"stream":true,"model":"gpt-4o","tools":[{"type":"function","function":{"name":"lookup",` +
		`"description":"Looks a name up.","parameters":%2}}],"messages":[{"role":"system","content":%1},`,
	user: `{"role":"user","content":%1}`, said: `,{"role":"assistant","content":%1`,
	first: `,"tool_calls":[`, called: `{"type":"function","id":%1,"function":{"name":%2,"arguments":%3}}`, last: `]`, end: `}`,
	escaped: true,
	open:    `,`, result: `{"role":"tool","tool_call_id":%1,"content":%3}`,
}, {
	name: "responses", path: "/v1/responses", answer: responsesAnswer,
	text: mark{`output_text.delta"`, `"delta":`}, call: mark{in: `"status":"in_progress","call_id"`}, args: mark{`arguments.delta"`, `"delta":`},
	id: `"call_id":`, tool: `"name":`,
	head: `{"stream":true,"model":"gpt-5","instructions":%1,"tools":[{"type":"function","name":"lookup",` +
		`"description":"Looks a name up.","parameters":%2}],"input":[`,
	user: `{"role":"user","content":%1}`, said: `,{"role":"assistant","content":%1}`,
	first: `,`, called: `{"type":"function_call","call_id":%1,"name":%2,"arguments":%3}`, escaped: true,
	open: `,`, result: `{"type":"function_call_output","call_id":%1,"output":%3}`,
}, {
	name: "gemini", path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent", answer: geminiAnswer,
	text: mark{`{"text": `, `{"text": `}, call: mark{in: `"functionCall"`}, args: mark{`"functionCall"`, `"args": `},
	tool: `"name": `,
	head: `{"systemInstruction":{"parts":[{"text":%1}]},"tools":[{"functionDeclarations":[{"name":"lookup",` +
		`"description":"Looks a name up.","parameters":%2}]}],"contents":[`,
	user: `{"role":"user","parts":[{"text":%1}]}`, said: `,{"role":"model","parts":[{"text":%1}`,
	first: `,`, called: `{"functionCall":{"name":%2,"args":%3}}`, end: `]}`,
	open: `,{"role":"user","parts":[`, result: `{"functionResponse":{"name":%2,"response":{"output":%3}}}`, shut: `]}`,
}}

func anthropicAnswer(w *writer, texts []string, calls int) {
	w.event("message_start", `"message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant",`+
		`"model":"claude-sonnet-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":472,"output_tokens":2}}`)
	w.event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
	for _, t := range texts {
		w.event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":%s}`, quote(t))
	}
	w.event("content_block_stop", `"index":0`)
	for i := 1; i <= calls; i++ {
		w.event("content_block_start", `"index":%d,"content_block":{"type":"tool_use","id":"%s","name":"lookup","input":{}}`, i, w.id())
		for _, p := range argPieces() {
			w.event("content_block_delta", `"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i, quote(p))
		}
		w.event("content_block_stop", `"index":%d`, i)
	}
	w.event("message_delta", `"delta":{"stop_reason":"%s","stop_sequence":null},"usage":{"output_tokens":89}`,
		either(calls > 0, "tool_use", "end_turn"))
	w.events = append(w.events, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
}

func chatAnswer(w *writer, texts []string, calls int) {
	chunk := func(delta, finish string) {
		w.data(`{"id":"chatcmpl-CoC8iBQCAZ4oQmm3uAGgg8etOGtHL","object":"chat.completion.chunk","created":1766079100,`+
			`"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_deacdd5f6f",`+
			`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null,"obfuscation":"h9RiQLLs8"}`,
			delta, finish)
	}
	chunk(`{"role":"assistant","content":"","refusal":null}`, "null")
	for _, t := range texts {
		chunk(`{"content":`+quote(t)+`}`, "null")
	}
	for range calls {
		chunk(`{"tool_calls":[{"index":0,"id":"`+w.id()+`","type":"function","function":{"name":"lookup","arguments":""}}]}`, "null")
		for _, p := range argPieces() {
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+quote(p)+`}}]}`, "null")
		}
	}
	chunk("{}", quote(either(calls > 0, "tool_calls", "stop")))
	w.data("[DONE]")
}

func responsesAnswer(w *writer, texts []string, calls int) {
	const head = `"response":{"id":"resp_0cca","object":"response","created_at":1751569118,"model":"gpt-5",`
	message := `"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"%s","content":[%s]}`
	w.event("response.created", `"sequence_number":0,`+head+`"status":"in_progress","output":[]}`)
	w.event("response.output_item.added", `"sequence_number":1,`+message, "in_progress", "")
	for i, t := range texts {
		w.event("response.output_text.delta", `"sequence_number":%d,"item_id":"msg_6866d2df1c0c819c885ca369ba853e7f",`+
			`"output_index":0,"content_index":0,"delta":%s,"logprobs":[],"obfuscation":"nQtgU7rE2s"`, i+2, quote(t))
	}
	w.event("response.output_item.done", `"sequence_number":2,`+message, "completed",
		`{"type":"output_text","annotations":[],"text":`+quote(strings.Join(texts, ""))+`}`)
	for i := 1; i <= calls; i++ {
		id := w.id()
		item := `"output_index":%d,"item":{"id":"fc_%d","type":"function_call","status":"%s","call_id":"%s","name":"lookup","arguments":%s}`
		w.event("response.output_item.added", `"sequence_number":3,`+item, i, i, "in_progress", id, `""`)
		for _, p := range argPieces() {
			w.event("response.function_call_arguments.delta", `"sequence_number":4,"item_id":"fc_%d","output_index":%d,"delta":%s`, i, i, quote(p))
		}
		w.event("response.output_item.done", `"sequence_number":5,`+item, i, i, "completed", id, quote(callArgs))
	}
	w.event("response.completed", `"sequence_number":6,`+head+`"status":"completed","output":[],`+
		`"usage":{"input_tokens":21,"output_tokens":60,"total_tokens":81}}`)
}

func geminiAnswer(w *writer, texts []string, calls int) {
	chunk := func(part, more string) {
		w.data(`{"candidates": [{"content": {"parts": [%s],"role": "model"}%s,"index": 0}],"usageMetadata": `+
			`{"promptTokenCount": 21,"candidatesTokenCount": 7,"totalTokenCount": 28,"promptTokensDetails": `+
			`[{"modality": "TEXT","tokenCount": 21}]},"modelVersion": "gemini-2.5-pro","responseId": "za9caLp-rJ_Psg-Ou6T4BA"}`,
			part, more)
	}
	for _, t := range texts {
		chunk(`{"text": `+quote(t)+`}`, "")
	}
	for range calls {
		chunk(`{"functionCall": {"name": "lookup","args": `+callArgs+`}}`, "")
	}
	chunk(`{"text": ""}`, `,"finishReason": "STOP"`)
}

func either[T any](b bool, yes, no T) T {
	if b {
		return yes
	}
	return no
}
