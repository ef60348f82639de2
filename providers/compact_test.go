package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/internal/wiretest"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/openai"
)

// A compactor is a service that compacts conversations as the documentation of its provider says. It
// refuses what is not documented, and a request with one token too many.
type compactor struct {
	responses bool  // the API is OpenAI's, not Anthropic's
	window    int64 // tokens of request and answer
	off       bool  // it takes the field, and never compacts
	fails     bool  // its summaries come to nothing
	talks     bool  // its answers are long

	turn    int
	sum     int64      // of all tokens that it reported
	blocks  int        // that it sent
	refused []string   // what it refused
	old     int        // blocks in the last request
	seen    []string   // of the last request, what the model sees
	sent    []byte     // the last request
	least   [][]string // what the model saw in each request that came after a block
	fresh   bool       // a block was sent and no request has come since
}

const compactTurns = 12 // of a run; the last one ends it

// item is a content block of Anthropic or an item of OpenAI, as the model sees it.
type item struct {
	kind, text, id string
	size           int64
}

// items splits the messages of a request, and reports what is not documented.
func (c *compactor) items(r *http.Request, body map[string]json.RawMessage) (items []item, threshold int64, problem string) {
	strict := func(raw json.RawMessage, to any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		if d.DisallowUnknownFields(); raw != nil && problem == "" {
			if err := d.Decode(to); err != nil {
				problem = err.Error()
			}
		}
	}
	type block struct {
		Type, Text, ID, Name, CallID, Role, Title string
		ToolUseID                                 string          `json:"tool_use_id"`
		Call                                      string          `json:"call_id"`
		Content, Input, Output                    json.RawMessage `json:",omitempty"`
		Arguments, Status                         string
		Encrypted                                 *string `json:"encrypted_content"`
		Cache                                     any     `json:"cache_control"`
		IsError                                   bool    `json:"is_error"`
	}
	add := func(raw json.RawMessage, role string) {
		var b block
		strict(raw, &b)
		it := item{kind: b.Type, text: string(raw), id: b.ID + b.ToolUseID, size: int64(len(raw)+3) / 4}
		if c.responses {
			it.id = b.Call
		}
		if b.Type == "compaction" {
			if it.size = int64(len(b.Content)+3) / 4; c.responses {
				it.size = int64(len(*b.Encrypted)) / 8
			}
			if role == "user" {
				problem = "a user has no compaction"
			}
		}
		items = append(items, it)
	}
	threshold = -1
	if c.responses {
		var field []struct {
			Type             string
			CompactThreshold int64 `json:"compact_threshold"`
		}
		if strict(body["context_management"], &field); len(field) > 0 {
			if threshold = field[0].CompactThreshold; field[0].Type != "compaction" || threshold < 1000 {
				problem = "context_management is not valid"
			}
		}
		var list []json.RawMessage
		strict(body["input"], &list)
		for _, raw := range list {
			add(raw, "")
		}
		return items, threshold, problem
	}
	var field struct {
		Edits []struct {
			Type, Instructions string
			Trigger            struct {
				Type  string
				Value int64
			}
		}
	}
	strict(body["context_management"], &field)
	beta := strings.Contains(r.Header.Get("Anthropic-Beta"), "compact-2026-01-12")
	if len(field.Edits) > 0 {
		e := field.Edits[0]
		if threshold = e.Trigger.Value; e.Type != "compact_20260112" || e.Trigger.Type != "input_tokens" || threshold < 50_000 || !beta {
			problem = "context_management is not valid"
		}
		if !strings.Contains(e.Instructions, "Do not call any tools") {
			problem = "with tools, the summary may fail"
		}
	}
	var messages []struct {
		Role    string
		Content []json.RawMessage
	}
	strict(body["messages"], &messages)
	for _, m := range messages {
		for _, raw := range m.Content {
			if add(raw, m.Role); items[len(items)-1].kind == "compaction" && threshold < 0 {
				problem = "a compaction block needs its strategy"
			}
		}
	}
	return items, threshold, problem
}

func (c *compactor) serve(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	var body map[string]json.RawMessage
	if err := json.Unmarshal(data, &body); err != nil {
		panic(err)
	}
	items, threshold, problem := c.items(r, body)
	old := 0
	for i, it := range slices.Backward(items) { // "all content blocks before it are ignored"
		if it.kind == "compaction" && !strings.Contains(it.text, `"content":null`) {
			if old++; old == 1 {
				items = items[i:]
			}
		}
	}
	n := int64(len(body["system"])+len(body["instructions"])+len(body["tools"])) / 4
	open := map[string]bool{}
	for _, it := range items {
		n += it.size
		switch it.kind {
		case "tool_use", "function_call":
			open[it.id] = true
		case "tool_result", "function_call_output":
			if !open[it.id] {
				problem = "an output has no call: " + it.id
			}
			delete(open, it.id)
		}
	}
	if len(open) > 0 {
		problem = fmt.Sprint("calls without outputs: ", open)
	}
	count := strings.HasSuffix(r.URL.Path, "/count_tokens") || strings.HasSuffix(r.URL.Path, "/input_tokens")
	var most int64
	_ = json.Unmarshal(body[map[bool]string{true: "max_output_tokens", false: "max_tokens"}[c.responses]], &most)
	if n+most > c.window && problem == "" && !count {
		problem = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", n+most, c.window)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case problem != "":
		c.refused = append(c.refused, problem)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, problem)
		return
	case count:
		fmt.Fprintf(w, `{"input_tokens":%d}`, n)
		return
	}
	c.sent, c.seen, c.old = data, nil, old
	for _, it := range items {
		c.seen = append(c.seen, it.text)
	}
	if c.fresh {
		c.least = append(c.least, c.seen)
	}
	c.fresh = false
	c.answer(w, n, !c.off && threshold > 0 && n > threshold)
}

// answer calls a tool, or ends the run after some turns.
func (c *compactor) answer(w http.ResponseWriter, n int64, compact bool) {
	c.turn++
	a := answer{input: int(n), text: fmt.Sprint("Answer ", c.turn, ".")}
	if c.talks {
		a.text += strings.Repeat(" It is done.", 1500)
	}
	if c.turn%compactTurns != 0 {
		a.calls = []toolCall{{fmt.Sprintf("call_%d", c.turn), "look", map[string]any{"n": c.turn}}}
	}
	c.sum += n + 20
	if !compact {
		map[bool]wireForm{true: responsesForm, false: messagesForm}[c.responses](w, a)
		return
	}
	if c.blocks++; !c.fails {
		c.fresh = true
	}
	if c.responses { // after the message, as recorded
		item := fmt.Sprintf(`{"id":"cmp_%d","type":"compaction","encrypted_content":%q}`, c.turn, strings.Repeat("c2Vj", 1000))
		call := ""
		for _, t := range a.calls {
			call = `,` + quoted(map[string]any{"type": "function_call", "id": "fc_" + t.id, "call_id": t.id, "name": t.name, "arguments": t.json()})
		}
		sseEvents(w, fmt.Sprintf(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","role":"assistant",`+
			`"content":[{"type":"output_text","text":%q,"annotations":[]}]},%s%s],"usage":{"input_tokens":%d,"output_tokens":20}}}`, a.text, item, call, n))
		return
	}
	content := quoted(fmt.Sprintf("<summary>Summary %d of the service.</summary>", c.turn))
	if c.fails {
		content = "null"
	}
	c.sum += 300 + 40
	events := messagesEvents(a)
	block := []string{events[0], `{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null,"encrypted_content":null}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":` + content + `,"encrypted_content":"c2Vj"}}`,
		`{"type":"content_block_stop","index":0}`}
	for _, ev := range events[1:] {
		for i := 3; i >= 0; i-- {
			ev = strings.Replace(ev, fmt.Sprintf(`"index":%d`, i), fmt.Sprintf(`"index":%d`, i+1), 1)
		}
		ev = strings.Replace(ev, `"usage":{"output_tokens":20}`, fmt.Sprintf(`"usage":{"output_tokens":20,"iterations":[`+
			`{"type":"compaction","input_tokens":100,"cache_creation_input_tokens":200,"cache_read_input_tokens":0,"output_tokens":40},`+
			`{"type":"message","input_tokens":%d,"output_tokens":20}]}`, n), 1)
		block = append(block, ev)
	}
	sseEvents(w, block...)
}

func (c *compactor) client(t *testing.T) aycoder.ModelClient {
	hc := &http.Client{Transport: wiretest.Loopback(t, c.serve)}
	var m aycoder.ModelClient
	var err error
	if c.responses {
		m, err = openai.New("gpt-5.2", openai.WithResponses(true), openai.WithAPIKey("key-0123456789"), openai.WithHTTPClient(hc))
	} else {
		m, err = anthropic.New("claude-opus-4-6", anthropic.WithAPIKey("key-0123456789"), anthropic.WithHTTPClient(hc))
	}
	require.NoError(t, err)
	return m
}

// A talk is a conversation with a service.
type talk struct {
	messages []*aycoder.Message
	events   []*aycoder.Compacted
	usage    aycoder.Usage
}

const pinned = "PIN: never touch vendor/."

// run plays runs of the conversation with a new Compactor, as a new process has it.
func (k *talk) run(t *testing.T, m aycoder.ModelClient, window int64, runs int, opts ...compaction.Option) {
	t.Helper()
	keep, err := compaction.New(m, append([]compaction.Option{compaction.WithWindow(window), compaction.WithPin(func(m *aycoder.Message) bool {
		return strings.HasPrefix(m.Text(), "PIN")
	})}, opts...)...)
	require.NoError(t, err)
	look, err := aycoder.NewTool("look", "Looks.", func(_ context.Context, _ *aycoder.Invocation, in struct {
		N int `json:"n"`
	}) (*aycoder.ToolResult, error) {
		res := aycoder.TextResult(fmt.Sprintf("output %d: %s", in.N, strings.Repeat("func main() { return nil } // the parser reads it\n", 400)))
		res.Untrusted = in.N == 1
		return res, nil
	}, aycoder.WithEffect(aycoder.EffectReadOnly))
	require.NoError(t, err)
	loop, err := aycoder.New(m, aycoder.WithTools(look), aycoder.WithStrictPrefix(true), aycoder.WithContextMiddleware(keep.Middleware))
	require.NoError(t, err)
	for range runs {
		prompt := fmt.Sprintf("Prompt after %d messages.", len(k.messages))
		if len(k.messages) == 2*compactTurns {
			prompt = pinned
		}
		var res aycoder.Result
		for ev, err := range loop.Run(t.Context(), aycoder.Input{Messages: k.messages, Prompt: prompt}, aycoder.Into(&res)) {
			require.NoError(t, err)
			if ev, ok := ev.(*aycoder.Compacted); ok {
				k.events = append(k.events, ev)
			}
		}
		require.Equal(t, aycoder.StopEndTurn, res.Stop)
		k.messages, k.usage = res.Messages, k.usage.Add(res.Usage)
	}
}

// stored returns the messages as another process reads them.
func stored(t *testing.T, messages []*aycoder.Message) (out []*aycoder.Message) {
	for _, m := range messages {
		out = append(out, wiretest.Stored(t, m))
	}
	return out
}

func total(u aycoder.Usage) int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

func services() map[string]*compactor {
	return map[string]*compactor{"anthropic": {window: 100_000}, "openai": {window: 100_000, responses: true}}
}

const serverRuns = 4

// The service compacts, the Compactor announces it, and no request is refused.
func TestServerCompaction(t *testing.T) {
	timed.Serial(t)
	for name, c := range services() {
		t.Run(name, func(t *testing.T) {
			k := &talk{}
			k.run(t, c.client(t), c.window, serverRuns, compaction.WithServer(true))
			require.Empty(t, c.refused)
			require.Greater(t, c.blocks, 1)
			require.Len(t, k.events, len(c.least), "each is announced, and the Compactor did nothing else")
			for i, ev := range k.events {
				if require.Zero(t, ev.Usage); !c.responses {
					require.Contains(t, ev.Summary, "of the service.")
				}
				require.Positive(t, ev.Replaced)
				require.Less(t, ev.After, ev.Before/2)
				require.True(t, ev.Untrusted)
				require.Contains(t, strings.Join(c.least[i], "\n"), "Prompt after 0 messages.")
			}
			require.Contains(t, strings.Join(c.least[len(c.least)-1], "\n"), pinned)
			require.NotContains(t, string(c.sent), "output 1:", "what the service ignores is not sent")
			require.Equal(t, c.sum, total(k.usage), "each token counts once")
		})
	}
}

// A process that goes on with the stored conversation sends the same requests.
func TestServerCompactionResumed(t *testing.T) {
	timed.Serial(t)
	whole := services()
	for name, c := range services() {
		t.Run(name, func(t *testing.T) {
			(&talk{}).run(t, whole[name].client(t), c.window, serverRuns, compaction.WithServer(true))
			k, m := &talk{}, c.client(t)
			for range serverRuns {
				k.run(t, m, c.window, 1, compaction.WithServer(true))
				k.messages = stored(t, k.messages)
			}
			require.Empty(t, c.refused)
			require.Greater(t, c.blocks, 1)
			require.Equal(t, string(whole[name].sent), string(c.sent))
		})
	}
}

// A summary of the service counts only for that service, as long as it is asked to compact, and only
// in a conversation that has it.
func TestServerCompactionLeft(t *testing.T) {
	if timed.Reduced(t) {
		t.Skip("takes minutes with the race detector, which TestServerCompaction has seen")
	}
	for name, c := range services() {
		k := &talk{}
		k.run(t, c.client(t), c.window, serverRuns, compaction.WithServer(true))
		require.Positive(t, c.blocks)
		before := 0 // the last prompt before the first block
		for i, m := range k.messages {
			if strings.Contains(quoted(m), "compaction") {
				break
			}
			if m.Role == aycoder.RoleUser && m.Text() != "" {
				before = i
			}
		}
		for _, tt := range []struct {
			name string
			to   *compactor
			cut  int
			opts []compaction.Option
		}{
			{"undone", &compactor{window: 1_000_000, responses: c.responses}, before, []compaction.Option{compaction.WithServer(true)}},
			{"the other provider", &compactor{window: 1_000_000, responses: !c.responses}, len(k.messages), []compaction.Option{compaction.WithServer(true)}},
			{"the other provider without", &compactor{window: 1_000_000, responses: !c.responses}, len(k.messages), nil},
			{"small window of the other provider", &compactor{window: 90_000, responses: !c.responses, off: true}, len(k.messages), []compaction.Option{compaction.WithServer(true)}},
			{"without the option", &compactor{window: 1_000_000, responses: c.responses}, len(k.messages), nil},
		} {
			t.Run(name+", "+tt.name, func(t *testing.T) {
				next := &talk{messages: stored(t, k.messages[:tt.cut])}
				tt.to.turn = 1000 * compactTurns
				next.run(t, tt.to.client(t), tt.to.window, 1, tt.opts...)
				require.Empty(t, tt.to.refused)
				require.Equal(t, tt.to.window < 100_000, len(next.events) > 0)
				if tt.to.window > 100_000 {
					require.Contains(t, string(tt.to.sent), "output 1:")
				}
				if tt.opts != nil || !c.responses { // OpenAI needs no field to accept its items
					require.Zero(t, tt.to.old)
					require.NotContains(t, strings.Join(tt.to.seen, "\n"), "of the service.")
				}
			})
		}
	}
}

// If the service does not compact, or fails, the Compactor does it.
func TestServerCompactionMissing(t *testing.T) {
	if timed.Reduced(t) {
		t.Skip("takes minutes with the race detector, which TestServerCompaction has seen")
	}
	for name, change := range map[string]func(*compactor){
		"never": func(c *compactor) { c.off = true },
		"fails": func(c *compactor) { c.fails = true },
	} {
		for service, c := range services() {
			if change(c); c.fails && c.responses {
				continue // nothing is documented
			}
			t.Run(service+" "+name, func(t *testing.T) {
				k := &talk{}
				k.run(t, c.client(t), c.window, serverRuns, compaction.WithServer(true))
				require.Empty(t, c.refused)
				require.NotEmpty(t, k.events)
				for _, ev := range k.events {
					require.NotContains(t, ev.Summary, "of the service")
				}
				require.Equal(t, c.sum, total(k.usage))
			})
		}
	}
}

// A command is obeyed although the service has just compacted. The Compactor goes on from what the
// service has left if that stops, and its own summary then takes the place of the other.
func TestServerCompactionThenOther(t *testing.T) {
	if timed.Reduced(t) {
		t.Skip("takes minutes with the race detector, which TestServerCompaction has seen")
	}
	for name, c := range services() {
		t.Run(name, func(t *testing.T) {
			k, m := &talk{}, c.client(t)
			for c.blocks == 0 {
				k.run(t, m, c.window, 1, compaction.WithServer(true))
			}
			c.off, c.talks = true, true
			last := len(k.events)
			k.messages = append(k.messages, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{compaction.Command("keep output 1")}})
			k.run(t, m, c.window, 1, compaction.WithServer(true))
			require.Greater(t, len(k.events), last)
			require.Less(t, k.events[last].After, k.events[last].Before)
			for range serverRuns {
				k.run(t, m, c.window, 1, compaction.WithServer(true))
			}
			require.Empty(t, c.refused)
			require.Zero(t, c.old)
			seen := strings.Join(c.seen, "\n")
			require.Contains(t, seen, "Prompt after 0 messages.")
			require.Contains(t, seen, pinned)
			require.Contains(t, seen, "Older messages of this conversation are left out here.")
			require.Contains(t, seen, "also of text that strangers wrote")
		})
	}
}
