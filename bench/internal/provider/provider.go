// Package provider is the fake model provider that all contestants talk to: a server that
// speaks Anthropic Messages and OpenAI Chat Completions, as streams, and answers from a
// script. It is stateless: the answer follows from the path and the history in the request,
// so a contestant that loses or repeats a message is refused.
package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// The wires that the provider speaks.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

// A Script says how a conversation goes: Turns answers of Deltas pieces of text and Calls
// tool calls each, then one short answer that ends it.
type Script struct {
	Turns, Calls, Deltas int
}

// Path is the first element of the path of a provider that plays s.
func (s Script) Path() string { return fmt.Sprintf("/%d-%d-%d", s.Turns, s.Calls, s.Deltas) }

// words are the words of the answers. A few contain characters that JSON escapes, or that
// are not ASCII.
var words = strings.Fields("the parser reads each line once and keeps what it \"needs\" in a " +
	"table of names so that a second pass can find where every name was set — café func return " +
	"error if nil for range := map[string]int{} that is all there is to it")

// Pieces returns the n pieces of text of an answer.
func Pieces(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = words[i%len(words)] + " "
		if i%25 == 24 {
			out[i] = words[i%len(words)] + "\n"
		}
	}
	return out
}

// Last is the text of the answer that ends a conversation.
const Last = "All done."

// Handler answers the requests of any number of conversations.
type Handler struct {
	mu      sync.Mutex
	answers map[string][]byte
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	answer, err := h.answer(r.URL.Path, body)
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"error":{"type":"invalid_request_error","message":%q}}`, err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = w.Write(answer) // an error is the client's to see
}

func (h *Handler) answer(path string, body []byte) ([]byte, error) {
	var s Script
	if _, err := fmt.Sscanf(path, "/%d-%d-%d/", &s.Turns, &s.Calls, &s.Deltas); err != nil {
		return nil, fmt.Errorf("path %s names no script", path)
	}
	wire := OpenAI
	if strings.HasSuffix(path, "/messages") {
		wire = Anthropic
	} else if !strings.HasSuffix(path, "/chat/completions") {
		return nil, fmt.Errorf("path %s is of no known API", path)
	}
	turn, err := s.turn(body)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s %d %d %s", wire, turn, s.Calls, s.Path())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answers == nil {
		h.answers = map[string][]byte{}
	}
	answer, ok := h.answers[key]
	if !ok {
		answer = s.encode(wire, turn)
		h.answers[key] = answer
	}
	return answer, nil
}

// turn returns the number of the answer that is due, and refuses a history that does not
// follow the script.
func (s Script) turn(body []byte) (int, error) {
	var req struct {
		Stream   bool
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return 0, err
	}
	if !req.Stream {
		return 0, fmt.Errorf("the request asks for no stream")
	}
	turns, results := 0, 0
	for _, m := range req.Messages {
		switch m.Role {
		case "assistant":
			turns++
		case "tool":
			results++
		case "user":
			var parts []struct{ Type string }
			if json.Unmarshal(m.Content, &parts) == nil { // a string has no parts
				for _, p := range parts {
					if p.Type == "tool_result" {
						results++
					}
				}
			}
		}
	}
	if want := turns * s.Calls; results != want {
		return 0, fmt.Errorf("%d tool results after %d answers, want %d", results, turns, want)
	}
	if turns > s.Turns {
		return 0, fmt.Errorf("%d answers in the history, the script has %d", turns, s.Turns)
	}
	return turns, nil
}

// Calls returns the arguments of the calls of a turn.
func (s Script) args(turn int) []string {
	out := make([]string, s.Calls)
	for i := range out {
		out[i] = fmt.Sprintf(`{"query": "%s", "limit": %d}`, strings.Repeat("where is it used? ", 6), turn*s.Calls+i)
	}
	return out
}

func (s Script) encode(wire string, turn int) []byte {
	pieces, args := Pieces(s.Deltas), s.args(turn)
	if turn == s.Turns {
		pieces, args = []string{Last}, nil
	}
	var b bytes.Buffer
	if wire == Anthropic {
		anthropic(&b, turn, pieces, args)
	} else {
		openai(&b, turn, pieces, args)
	}
	return b.Bytes()
}

// fragments cuts arguments in pieces as services send them.
func fragments(s string) []string {
	var out []string
	for len(s) > 8 {
		out = append(out, s[:8])
		s = s[8:]
	}
	return append(out, s)
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func anthropic(b *bytes.Buffer, turn int, pieces, args []string) {
	event := func(name, format string, a ...any) {
		fmt.Fprintf(b, "event: %s\ndata: {\"type\":%q", name, name)
		fmt.Fprintf(b, format, a...)
		b.WriteString("}\n\n")
	}
	event("message_start", `,"message":{"id":"msg_%024d","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":424,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":5}}`, turn)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for _, p := range pieces {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":%s}`, quote(p))
	}
	event("content_block_stop", `,"index":0`)
	for i, a := range args {
		event("content_block_start", `,"index":%d,"content_block":{"type":"tool_use","id":"toolu_%018d%06d","name":"lookup","input":{}}`, i+1, turn, i)
		for _, f := range fragments(a) {
			event("content_block_delta", `,"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i+1, quote(f))
		}
		event("content_block_stop", `,"index":%d`, i+1)
	}
	stop := "end_turn"
	if len(args) > 0 {
		stop = "tool_use"
	}
	event("message_delta", `,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":105}`, stop)
	event("message_stop", ``)
}

func openai(b *bytes.Buffer, turn int, pieces, args []string) {
	head := fmt.Sprintf(`data: {"id":"chatcmpl-%029d","object":"chat.completion.chunk","created":1782321910,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_4fa7959453","choices":[`, turn)
	chunk := func(finish, format string, a ...any) {
		b.WriteString(head + `{"index":0,"delta":`)
		fmt.Fprintf(b, format, a...)
		fmt.Fprintf(b, `,"logprobs":null,"finish_reason":%s}],"usage":null}`+"\n\n", finish)
	}
	chunk("null", `{"role":"assistant","content":"","refusal":null}`)
	for _, p := range pieces {
		chunk("null", `{"content":%s}`, quote(p))
	}
	for i, a := range args {
		chunk("null", `{"tool_calls":[{"index":%d,"id":"call_%018d%06d","type":"function","function":{"name":"lookup","arguments":""}}]}`, i, turn, i)
		for _, f := range fragments(a) {
			chunk("null", `{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(f))
		}
	}
	finish := `"stop"`
	if len(args) > 0 {
		finish = `"tool_calls"`
	}
	chunk(finish, `{}`)
	b.WriteString(head + `],"usage":{"prompt_tokens":106,"completion_tokens":50,"total_tokens":156}}` + "\n\ndata: [DONE]\n\n")
}
