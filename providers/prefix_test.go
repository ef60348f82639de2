package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/tokens"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// The requests of a long session begin with the bytes of the request before, up to the tail, unless
// a compaction was announced. These tests read the bytes that a server receives from each client,
// and use nothing of the clients to find the tail and the cache markers in them.

const (
	sessionTurns = 200
	promptTurns  = 10 // turns of a run
	holds        = 60 // turns whose growth the window has room for
	tailWord     = "VOLATILE"
)

// An answer is a message of the model.
type answer struct {
	thinking, text string
	calls          []toolCall
	input          int // tokens
}

type toolCall struct {
	id, name string
	args     map[string]any
}

func (c toolCall) json() string { return quoted(c.args) }

func quoted(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// scripted is what the model answers to request n: it reads and edits files, keeps its tasks, and
// ends the run after promptTurns turns.
func scripted(n int) (a answer) {
	call := func(name string, args map[string]any) {
		a.calls = append(a.calls, toolCall{fmt.Sprintf("call_%d_%d", n, len(a.calls)), name, args})
	}
	if n%3 == 0 {
		a.thinking = fmt.Sprintf("This is thought number %d.", n)
	}
	step := func(i int) string { return fmt.Sprintf("const step = %d", i) }
	switch k := n % promptTurns; k {
	case 0:
		status := tools.TodoInProgress
		call("todo", map[string]any{"todos": []tools.TodoItem{{Content: fmt.Sprintf("part %d", n), Status: status}}})
		call("read_file", map[string]any{"path": "main.go"})
	case 1, 5, 7:
		before := n/promptTurns*3 + map[int]int{1: 0, 5: 1, 7: 2}[k]
		call("edit_file", map[string]any{"path": "main.go", "old_string": step(before), "new_string": step(before + 1)})
	case 2:
		call("write_file", map[string]any{"path": fmt.Sprintf("notes/%d.md", n), "content": strings.Repeat("A note.\n", 20)})
	case 3:
		call("read_file", map[string]any{"path": fmt.Sprintf("notes/%d.md", n-1)})
	case 4:
		call("code_search", map[string]any{"pattern": "step"})
		call("glob", map[string]any{"pattern": "*.go"})
	case 6:
		call("read_file", map[string]any{"path": "missing.go"})
	case 8:
		a.text = "I look at it once more."
		call("read_file", map[string]any{"path": "main.go"})
	case 9:
		a.text = fmt.Sprintf("Part %d is done: the step is one of many, and all of them work.", n)
	}
	return a
}

// A wireForm writes an answer in the form of an API.
type wireForm func(w http.ResponseWriter, a answer)

func sseEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", wiretest.Stream)
	for _, ev := range events {
		name := struct{ Type string }{}
		_ = json.Unmarshal([]byte(ev), &name)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name.Type, ev)
	}
}

func messagesEvents(a answer) (events []string) {
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	n := 0
	block := func(start, delta string) {
		add(`{"type":"content_block_start","index":%d,"content_block":%s}`, n, start)
		for d := range strings.SplitSeq(delta, "\n") {
			add(`{"type":"content_block_delta","index":%d,"delta":%s}`, n, d)
		}
		add(`{"type":"content_block_stop","index":%d}`, n)
		n++
	}
	add(`{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":%d,"output_tokens":1}}}`, a.input)
	if a.thinking != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`,
			`{"type":"thinking_delta","thinking":`+quoted(a.thinking)+"}\n"+`{"type":"signature_delta","signature":"c2ln"}`)
	}
	if a.text != "" {
		block(`{"type":"text","text":""}`, `{"type":"text_delta","text":`+quoted(a.text)+`}`)
	}
	for _, c := range a.calls {
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.id, c.name), `{"type":"input_json_delta","partial_json":`+quoted(c.json())+`}`)
	}
	stop := "end_turn"
	if len(a.calls) > 0 {
		stop = "tool_use"
	}
	add(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":20}}`, stop)
	add(`{"type":"message_stop"}`)
	return events
}

func messagesForm(w http.ResponseWriter, a answer) { sseEvents(w, messagesEvents(a)...) }

func messagesChunks(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	for _, ev := range messagesEvents(a) {
		_, _ = w.Write(eventstream.AppendEvent(nil, "chunk", `{"bytes":`+quoted([]byte(ev))+`}`))
	}
}

func chatForm(w http.ResponseWriter, a answer) {
	delta := map[string]any{"role": "assistant", "content": a.text}
	if a.thinking != "" {
		delta["reasoning_content"] = a.thinking
	}
	var calls []any
	for i, c := range a.calls {
		calls = append(calls, map[string]any{"index": i, "id": c.id, "type": "function",
			"function": map[string]any{"name": c.name, "arguments": c.json()}})
	}
	stop := "stop"
	if calls != nil {
		delta["tool_calls"], stop = calls, "tool_calls"
	}
	sseEvents(w, `{"choices":[{"index":0,"delta":`+quoted(delta)+`}]}`, fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":20}}`, stop, a.input), "[DONE]")
}

func responsesForm(w http.ResponseWriter, a answer) {
	var items []any
	if a.thinking != "" {
		items = append(items, map[string]any{"type": "reasoning", "id": "rs_" + a.thinking, "encrypted_content": "c2ln",
			"summary": []any{map[string]any{"type": "summary_text", "text": a.thinking}}})
	}
	if a.text != "" {
		items = append(items, map[string]any{"type": "message", "role": "assistant",
			"content": []any{map[string]any{"type": "output_text", "text": a.text, "annotations": []any{}}}})
	}
	for _, c := range a.calls {
		items = append(items, map[string]any{"type": "function_call", "id": "fc_" + c.id, "call_id": c.id, "name": c.name, "arguments": c.json()})
	}
	sseEvents(w, fmt.Sprintf(`{"type":"response.completed","response":{"id":"r","status":"completed","output":%s,`+
		`"usage":{"input_tokens":%d,"output_tokens":20}}}`, quoted(items), a.input))
}

func geminiForm(w http.ResponseWriter, a answer) {
	var parts []any
	if a.thinking != "" {
		parts = append(parts, map[string]any{"text": a.thinking, "thought": true})
	}
	if a.text != "" {
		parts = append(parts, map[string]any{"text": a.text})
	}
	for i, c := range a.calls {
		p := map[string]any{"functionCall": map[string]any{"id": c.id, "name": c.name, "args": c.args}}
		if i == 0 {
			p["thoughtSignature"] = "c2ln"
		}
		parts = append(parts, p)
	}
	sseEvents(w, fmt.Sprintf(`{"candidates":[{"index":0,"content":{"role":"model","parts":%s},"finishReason":"STOP"}],`+
		`"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":20}}`, quoted(parts), a.input))
}

func ollamaForm(w http.ResponseWriter, a answer) {
	message := map[string]any{"role": "assistant", "content": a.text, "thinking": a.thinking}
	var calls []any
	for i, c := range a.calls {
		calls = append(calls, map[string]any{"id": c.id, "function": map[string]any{"index": i, "name": c.name, "arguments": c.args}})
	}
	message["tool_calls"] = calls
	fmt.Fprintf(w, `{"message":%s,"done":false}`+"\n"+`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",`+
		`"prompt_eval_count":%d,"eval_count":20}`+"\n", quoted(message), a.input)
}

func converseForm(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	event := func(name, format string, args ...any) {
		_, _ = w.Write(eventstream.AppendEvent(nil, name, fmt.Sprintf(format, args...)))
	}
	n := 0
	block := func(deltas ...string) {
		for _, d := range deltas {
			event("contentBlockDelta", `{"contentBlockIndex":%d,"delta":%s}`, n, d)
		}
		event("contentBlockStop", `{"contentBlockIndex":%d}`, n)
		n++
	}
	event("messageStart", `{"role":"assistant"}`)
	if a.thinking != "" {
		block(`{"reasoningContent":{"text":`+quoted(a.thinking)+`}}`, `{"reasoningContent":{"signature":"c2ln"}}`)
	}
	if a.text != "" {
		block(`{"text":` + quoted(a.text) + `}`)
	}
	stop := "end_turn"
	for _, c := range a.calls {
		stop = "tool_use"
		event("contentBlockStart", `{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":%q}}}`, n, c.id, c.name)
		block(`{"toolUse":{"input":` + quoted(c.json()) + `}}`)
	}
	event("messageStop", `{"stopReason":%q}`, stop)
	event("metadata", `{"usage":{"inputTokens":%d,"outputTokens":20},"metrics":{"latencyMs":1}}`, a.input)
}

// A body is a request as a server received it.
type body struct {
	bytes []byte // without cache markers
	marks []int  // where they were in bytes, in order
	top   bool   // one of them was a field of the request itself
	tail  int    // where the tail begins in bytes, or their length without the closing brackets
	has   bool   // there is a tail
}

// readBody finds the cache markers and the tail in the bytes of a request. The tail begins with the
// outermost element of a list that has no other text, or within a text behind something else.
func readBody(data []byte) *body {
	r := &bodyReader{data: data, tail: len(data)}
	r.value(0)
	b := &body{top: r.top, has: r.tail < len(data)}
	from, tail := 0, r.tail
	for _, c := range r.cuts {
		b.bytes = append(b.bytes, data[from:c[0]]...)
		b.marks = append(b.marks, len(b.bytes))
		if from = c[1]; c[0] < r.tail {
			tail -= c[1] - c[0]
		}
	}
	b.bytes = append(b.bytes, data[from:]...)
	if b.tail = tail; !b.has {
		b.tail = len(bytes.TrimRight(b.bytes, "]}"))
	}
	head := bytes.TrimSuffix(b.bytes[:b.tail], []byte(","))
	b.tail = len(bytes.TrimSuffix(head, []byte(mistralGlue)))
	return b
}

// mistralGlue is the message that Mistral's API wants between an output and a user's text.
const mistralGlue = `,{"role":"assistant","content":"OK."}`

// A bodyReader reads JSON that is valid and has no white space between its tokens.
type bodyReader struct {
	data []byte
	at   int
	cuts [][2]int
	top  bool
	tail int
}

// literal reads a string, a number, or a word.
func (r *bodyReader) literal() []byte {
	from := r.at
	if r.data[from] != '"' {
		r.at += bytes.IndexAny(r.data[from:], ",]}")
		return r.data[from:r.at]
	}
	for r.at++; r.data[r.at] != '"'; r.at++ {
		if r.data[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
	return r.data[from:r.at]
}

// mark skips a value that, from a place on, is a cache marker, and the comma before it.
func (r *bodyReader) mark(from int) {
	tail := r.tail
	r.value(1)
	r.tail = tail
	if r.data[from-1] == ',' {
		from--
	}
	r.cuts = append(r.cuts, [2]int{from, r.at})
}

// value reads a value, and reports whether it has no text but that of the tail.
func (r *bodyReader) value(depth int) bool {
	from, open := r.at, r.data[r.at]
	if open != '[' && open != '{' {
		raw := r.literal()
		i := bytes.Index(raw, []byte(tailWord))
		if i > 1 {
			rest := raw[:i]
			for bytes.HasSuffix(rest, []byte(`\n`)) {
				rest = rest[:len(rest)-2]
			}
			r.tail = min(r.tail, from+len(rest))
		}
		return i == 1
	}
	all, mine := 0, 0
	for r.at++; r.data[r.at] != ']' && r.data[r.at] != '}'; {
		if r.data[r.at] == ',' {
			r.at++
		}
		el := r.at
		if bytes.HasPrefix(r.data[el:], []byte(`{"cachePoint":`)) {
			r.mark(el)
			continue
		}
		key := ""
		if open == '{' {
			key = string(r.literal())
			r.at++ // the colon
		}
		if key == `"cache_control"` {
			r.mark(el)
			r.top = r.top || depth == 0
			continue
		}
		pure := r.value(depth + 1)
		if pure && open == '[' {
			r.tail = min(r.tail, el)
		}
		if key != `"role"` && key != `"type"` {
			all++
			if pure {
				mine++
			}
		}
	}
	r.at++
	return all > 0 && all == mine
}

// The reader finds in a body what is put there.
func TestReadBody(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	for _, tt := range []struct {
		name, head, tail string // around the place of the tail
		marks            int
		top              bool
	}{
		{"a message", `{"tools":[{"name":"a"` + mark + `}],"messages":[{"role":"user","content":"q"}`, `,{"role":"user","content":"VOLATILE 1"}]}`, 1, false},
		{"two blocks", `{"messages":[{"role":"user","content":[{"type":"text","text":"q"` + mark + `}`,
			`,{"type":"text","text":"VOLATILE 1"},{"type":"text","text":"VOLATILE 2"}]}]}`, 1, false},
		{"in a text", `{"messages":[{"role":"tool","content":"a\nb`, `\n\nVOLATILE 1\nx","id":"1"}]}`, 0, false},
		{"behind glue", `{"messages":[{"role":"tool","content":"a"}`, mistralGlue + `,{"role":"user","content":"VOLATILE"}]}`, 0, false},
		{"a point", `{"m":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}`, `,{"text":"VOLATILE"}]}]}`, 1, false},
		{"none", `{"model":"m"` + mark + `,"messages":[{"role":"user","content":"q"`, `}]}`, 1, true},
	} {
		b := readBody([]byte(tt.head + tt.tail))
		want := strings.ReplaceAll(strings.ReplaceAll(tt.head, mark, ""), `,{"cachePoint":{"type":"default"}}`, "")
		assert.Equal(t, want, string(b.bytes[:b.tail]), tt.name)
		assert.Len(t, b.marks, tt.marks, tt.name)
		assert.Equal(t, tt.top, b.top, tt.name)
		assert.Equal(t, strings.Contains(tt.tail, tailWord), b.has, tt.name)
	}
}

// A session records what a client sends in a long conversation, and what the loop reports.
type session struct {
	mu        sync.Mutex
	n         int
	last      *body
	announced int
	declared  bool // since the last request
	breaks    []string
	bad       []string
	most      int // markers in one request
	marked    int // requests with a marker among the messages
	close     int // requests with a marker directly before the tail

	compacts int // events
	counter  *tokens.Counter
	sent     int64 // tokens of all requests
	extra    int64 // of which summaries, notices in shortened texts, and requests for summaries
	fixed    int64 // tokens of the first request
	grown    int64 // tokens by which the requests grew
	before   int64
}

func (s *session) serve(form wireForm) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		counts := regexp.MustCompile(`(count_?tokens|input_tokens)$`).MatchString(strings.ToLower(r.URL.Path))
		if err != nil || r.Method == http.MethodGet || counts {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !json.Valid(data) || bytes.Contains(data, []byte("\n")) {
			s.bad = append(s.bad, fmt.Sprintf("request %d is not JSON on one line", s.n))
			return
		}
		s.take(readBody(data))
		a := scripted(s.n)
		a.input = len(data) / 4
		s.n++
		form(w, a)
	}
}

// take compares a request with the one before. The mutex is held.
func (s *session) take(b *body) {
	fail := func(format string, args ...any) { s.bad = append(s.bad, fmt.Sprintf(format, args...)) }
	s.most = max(s.most, len(b.marks))
	list := bytes.Index(b.bytes, []byte(`"messages":[`))
	if n := len(b.marks); n > 0 {
		if b.has && (b.top || b.marks[n-1] > b.tail) {
			fail("request %d has a cache marker behind the tail", s.n)
		}
		if b.top || b.marks[n-1] > list {
			s.marked++
		}
		if b.top || len(bytes.Trim(b.bytes[min(b.marks[n-1], b.tail):b.tail], "]}")) == 0 {
			s.close++
		}
	}
	if want := s.n%25 != 24; want != b.has {
		fail("request %d has a tail: %v", s.n, b.has)
	}
	if s.last != nil {
		if !bytes.HasPrefix(b.bytes, s.last.bytes[:s.last.tail]) {
			at := 0
			for at < min(len(b.bytes), s.last.tail) && b.bytes[at] == s.last.bytes[at] {
				at++
			}
			if !s.declared {
				s.breaks = append(s.breaks, fmt.Sprintf("request %d, byte %d of %d: %.200q, before %.200q", s.n, at, s.last.tail,
					b.bytes[max(0, at-40):], s.last.bytes[max(0, at-40):s.last.tail]))
			}
		} else if n, m := len(b.marks), len(s.last.marks); n > 0 && m > 0 && !b.top && !s.last.top && b.marks[n-1] < s.last.marks[m-1] {
			fail("the last marker of request %d moved back", s.n)
		}
	}
	s.last, s.declared = b, false
}

// counting counts the tokens of each request, and of what compactions put into it.
func (s *session) counting(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	known := map[*aycoder.Message]int64{}
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		announce := in.Compact // whose event is sent before the request, but may be read after it
		in.Compact = func(ctx context.Context, c *aycoder.Compacted) error {
			s.mu.Lock()
			s.announced, s.declared = s.announced+1, true
			s.extra += c.Usage.Input + c.Usage.CacheRead + c.Usage.CacheWrite + c.Usage.Output
			s.mu.Unlock()
			return announce(ctx, c)
		}
		req, err := next.Build(ctx, in)
		if err != nil {
			return nil, err
		}
		n := s.counter.Estimate(tokens.Model{}, req).Tokens
		if s.before == 0 {
			s.fixed = n
		}
		s.grown += max(0, n-s.before)
		s.before, s.sent = n, s.sent+n
		for _, m := range req.Messages {
			n, ok := known[m]
			if !ok {
				n = s.added(m)
				known[m] = n
			}
			s.extra += n
		}
		return req, nil
	})
}

var notice = regexp.MustCompile(`\n\[\d+ bytes are left out here[^\]]*\]\n|\[This is left out: [^\]]*\]`)

// added returns the tokens of a message that a compaction wrote.
func (s *session) added(m *aycoder.Message) (n int64) {
	if text := m.Text(); strings.HasPrefix(text, "[Older messages of this conversation are left out here.") {
		return tokens.Estimate(text)
	}
	for _, p := range m.Parts {
		if o, ok := p.(*aycoder.ToolOutput); ok {
			for _, text := range notice.FindAllString(o.Text(), -1) {
				n += tokens.Estimate(text)
			}
		}
	}
	return n
}

// volatile is a middleware whose tail is different in each request, and sometimes missing.
func (s *session) volatile(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	n := 0
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req, err := next.Build(ctx, in)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		n = s.n
		s.mu.Unlock()
		with := *req
		if with.Tail = nil; n%25 != 24 {
			with.Tail = []*aycoder.Text{{Text: fmt.Sprintf("%s %d: open files are main.go", tailWord, n)}}
			for _, t := range req.Tail {
				with.Tail = append(with.Tail, &aycoder.Text{Text: tailWord + " " + t.Text})
			}
		}
		return &with, nil
	})
}

// run plays the conversation with a client, with a compactor if the window is bounded.
func (s *session) run(t *testing.T, model aycoder.ModelClient, turns int, window int64, opts ...compaction.Option) {
	dir := t.TempDir()
	source := "package main\n\nconst step = 0\n" + strings.Repeat("\n// A line that is only there to be read.\nfunc f() {}\n", 8)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	ws, err := workspace.Open(dir)
	require.NoError(t, err)
	defer ws.Close()
	list := new(tools.TodoList)
	coding, err := tools.Coding(ws, tools.WithTodoList(list))
	require.NoError(t, err)
	s.counter = tokens.New()
	wrap := []aycoder.ContextMiddleware{s.counting}
	if window > 0 {
		keep, err := compaction.New(model, append(opts, compaction.WithWindow(window))...)
		require.NoError(t, err)
		coding, wrap = append(coding, keep.Recall()), append(wrap, keep.Middleware)
	}
	loop, err := aycoder.New(model, aycoder.WithTools(coding...), aycoder.WithSystem("You are a careful programmer."),
		aycoder.WithApprover(aycoder.ApproverFunc(func(context.Context, *aycoder.ToolUse, *aycoder.ToolSpec) aycoder.Verdict {
			return aycoder.Allow()
		})),
		aycoder.WithStrictPrefix(true), aycoder.WithContextMiddleware(append(wrap, s.volatile, list.Remind)...))
	require.NoError(t, err)
	var res aycoder.Result
	failed := 0
	for i := range turns / promptTurns {
		in := aycoder.Input{Messages: res.Messages, Prompt: fmt.Sprintf("Please do part %d of the work.", i)}
		for ev, err := range loop.Run(t.Context(), in, aycoder.Into(&res)) {
			require.NoError(t, err)
			switch ev := ev.(type) {
			case *aycoder.Compacted:
				s.compacts++
			case *aycoder.ToolFinished:
				if ev.Output.IsError {
					failed++
				}
			}
		}
	}
	require.Equal(t, turns, s.n)
	require.Equal(t, s.announced, s.compacts)
	require.Equal(t, turns/promptTurns, failed, "only the reads of a missing file fail")
	data, err := os.ReadFile(filepath.Join(dir, "main.go"))
	require.NoError(t, err)
	require.Contains(t, string(data), "const step = "+strconv.Itoa(turns/promptTurns*3)+"\n")
}

func TestPrefixOfAllProviders(t *testing.T) {
	timed.Serial(t)
	forms := map[string]wireForm{"anthropic": messagesForm, "openai": responsesForm, "google": geminiForm,
		"bedrock": converseForm, "ollama": ollamaForm}
	models := map[string]string{"anthropic": "claude-opus-4-6", "bedrock": "us.anthropic.claude-opus-4-6-v1", "openrouter": "anthropic/claude-sonnet-4.5",
		"google": "gemini-3-pro"}
	type client struct {
		name  string
		form  wireForm
		marks bool // the service needs cache markers
		keeps bool // the model keeps its thinking when the user says something
		open  func(rt http.RoundTripper) (aycoder.ModelClient, error)
	}
	var clients []client
	opened := func(name, model string) func(http.RoundTripper) (aycoder.ModelClient, error) {
		return func(rt http.RoundTripper) (aycoder.ModelClient, error) {
			opts := []providers.Option{providers.WithAPIKey("key-0123456789"), providers.WithHTTPClient(&http.Client{Transport: rt})}
			if name == "azure" {
				opts = append(opts, providers.WithBaseURL("https://test.openai.azure.com"))
			}
			return providers.Open(name+"/"+model, opts...)
		}
	}
	for _, name := range providers.Names() {
		form, model := forms[name], models[name]
		if form == nil {
			form = chatForm
		}
		if model == "" {
			model = "test-model"
		}
		marks := slices.Contains([]string{"anthropic", "bedrock", "openrouter"}, name)
		clients = append(clients, client{name, form, marks, marks && name != "openrouter", opened(name, model)})
	}
	cloud := func(opts ...anthropic.Option) func(http.RoundTripper) (aycoder.ModelClient, error) {
		return func(rt http.RoundTripper) (aycoder.ModelClient, error) {
			return anthropic.New("claude-sonnet-4-5", append(opts, anthropic.WithHTTPClient(&http.Client{Transport: rt}))...)
		}
	}
	token := func(context.Context) (string, error) { return "token", nil }
	clients = append(clients,
		client{"anthropic, forgets its thinking", messagesForm, true, false, opened("anthropic", "claude-haiku-4-5")},
		client{"bedrock, forgets its thinking", converseForm, true, false, opened("bedrock", "us.anthropic.claude-haiku-4-5-v1")},
		client{"anthropic on Vertex", messagesForm, true, false, cloud(anthropic.WithVertex("p", "europe-west1"), anthropic.WithTokenSource(token))},
		client{"anthropic on Bedrock", messagesChunks, true, false, cloud(anthropic.WithBedrock("us-east-1"), anthropic.WithAPIKey("k"))})

	t.Setenv("AWS_REGION", "us-east-1")
	whole := &session{} // without compactions, to know how much a turn adds
	m, err := clients[5].open(wiretest.Loopback(t, whole.serve(ollamaForm)))
	require.NoError(t, err)
	whole.run(t, m, sessionTurns, 0)
	require.Zero(t, whole.compacts)
	turn := (whole.grown - whole.fixed) / sessionTurns
	room := whole.fixed + holds*turn
	t.Logf("the first request has %d tokens, a turn adds %d, the window has room for %d", whole.fixed, turn, room)

	writer := aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			summary := &aycoder.Text{Text: strings.Repeat("What was decided stays so. ", 20)}
			_ = yield(&aycoder.BlockDone{Part: summary}, nil) && yield(&aycoder.MessageDone{Stop: aycoder.StopEndTurn,
				Usage: aycoder.Usage{Input: tokens.Estimate(req.Messages[0].Text()), Output: tokens.Estimate(summary.Text)}}, nil)
		}
	})
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &session{}
			m, err := c.open(wiretest.Loopback(t, s.serve(c.form)))
			require.NoError(t, err)
			var opts []compaction.Option
			if i%2 == 1 {
				opts = append(opts, compaction.WithSummarizer(writer, ""))
			}
			window := room * 8 / 7 // an eighth is kept free for the answer, if the client does not bound it
			if l, ok := aycoder.As[tokens.AnswerLimiter](m); ok && l.AnswerLimit() > 0 {
				window = room + l.AnswerLimit()
			}
			s.run(t, m, sessionTurns, window, opts...)
			assert.Empty(t, s.breaks, "requests that change the prefix")
			assert.Empty(t, s.bad)
			assert.LessOrEqual(t, s.most, 4, "markers")
			if c.marks {
				assert.Equal(t, sessionTurns, s.marked, "requests with a marker among the messages")
				assert.Equal(t, c.keeps, s.close == sessionTurns, "%d requests have a marker directly before the tail", s.close)
			} else {
				assert.Zero(t, s.most)
			}
			assert.Positive(t, s.compacts)
			assert.LessOrEqual(t, s.compacts, sessionTurns/15, "compactions")
			assert.LessOrEqual(t, float64(s.extra), 0.10*float64(s.sent), "tokens of summaries and shortenings")
			t.Logf("%d compactions, %.1f %% of %d tokens are summaries and shortenings, at most %d markers",
				s.compacts, 100*float64(s.extra)/float64(s.sent), s.sent, s.most)
		})
	}
}
