//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// holdMark in a prompt makes the model stop in the middle of its answer, for ever.
const holdMark = "Take your time."

// words are the pieces of every answer.
var words = strings.SplitAfter(strings.Repeat("the parser reads each line once and keeps what it needs ", 5), " ")

// model is the scripted model: the same text in Anthropic Messages and Responses, all pieces at
// once. It is also the proxy for everything else, which it refuses.
type model struct {
	mu            sync.Mutex
	contestant    string
	longest, held int
	elsewhere     map[string]int // requests that were not for the model
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	write := map[string]func(*bytes.Buffer){"/v1/messages": messages, "/v1/responses": responses}[r.URL.Path]
	m.mu.Lock()
	m.longest = max(m.longest, len(body))
	if r.URL.Host != "" || write == nil {
		m.elsewhere[m.contestant+" "+r.Method+" "+r.Host+r.URL.Path]++
		write = nil
	}
	m.mu.Unlock()
	if write == nil {
		http.Error(w, `{"error":{"type":"not_found_error","message":"not here"}}`, http.StatusNotFound)
		return
	}
	var b bytes.Buffer
	write(&b)
	w.Header().Set("Content-Type", "text/event-stream")
	if bytes.Contains(body, []byte(holdMark)) {
		m.hold(w, r, &b)
		return
	}
	_, _ = w.Write(b.Bytes()) // an error is the client's to see
}

// hold sends half of an answer, and then a piece now and then, so that the client waits.
func (m *model) hold(w http.ResponseWriter, r *http.Request, b *bytes.Buffer) {
	events := bytes.SplitAfter(b.Bytes(), []byte("\n\n"))
	for i, e := range events[:len(events)-5] {
		_, _ = w.Write(e)
		w.(http.Flusher).Flush()
		if i < len(events)/2 {
			continue
		}
		if i == len(events)/2 {
			m.mu.Lock()
			m.held++
			m.mu.Unlock()
		}
		select {
		case <-time.After(20 * time.Second):
		case <-r.Context().Done():
			return
		}
	}
	<-r.Context().Done()
}

// reset begins to count for a contestant.
func (m *model) reset(contestant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contestant, m.longest, m.held = contestant, 0, 0
}

// counts returns the bytes of the longest request, and the number of answers that are held.
func (m *model) counts() (longest, held int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.longest, m.held
}

func messages(b *bytes.Buffer) {
	event := func(name, format string, a ...any) {
		fmt.Fprintf(b, "event: %s\ndata: {\"type\":%q%s}\n\n", name, name, fmt.Sprintf(format, a...))
	}
	event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5",`+
		`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":424,"output_tokens":5}}`)
	event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	for _, w := range words {
		event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":%q}`, w)
	}
	event("content_block_stop", `,"index":0`)
	event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":105}`)
	event("message_stop", "")
}

func responses(b *bytes.Buffer) {
	event := func(name, format string, a ...any) {
		fmt.Fprintf(b, "event: %s\ndata: {\"type\":%q%s}\n\n", name, name, fmt.Sprintf(format, a...))
	}
	const message = `{"id":"msg_1","type":"message","role":"assistant","content":[%s]}`
	item := fmt.Sprintf(message, fmt.Sprintf(`{"type":"output_text","text":%q}`, strings.Join(words, "")))
	event("response.created", `,"response":{"id":"resp_1","status":"in_progress","output":[]}`)
	event("response.output_item.added", `,"output_index":0,"item":`+message, "")
	for _, w := range words {
		event("response.output_text.delta", `,"item_id":"msg_1","output_index":0,"content_index":0,"delta":%q`, w)
	}
	event("response.output_item.done", `,"output_index":0,"item":%s`, item)
	event("response.completed", `,"response":{"id":"resp_1","status":"completed","output":[%s],"usage":{`+
		`"input_tokens":424,"output_tokens":105,"total_tokens":529}}`, item)
}
