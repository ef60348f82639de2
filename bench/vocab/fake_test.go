package vocab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A fake is a provider in this process. It counts each request with a vocabulary, refuses one token
// too many with the error of the provider, and checks that each call has its output.
type fake struct {
	*dialect
	lexicon *lexicon
	// next returns the text of the next answer, and the arguments of its call of the tool "look", or
	// "" at the end of a run.
	next func() (text, args string)

	mu       sync.Mutex
	window   int64 // of request and answer, in tokens
	known    map[uint64]sum
	last     []byte // the last request
	places   []place
	answered int
	counted  int // requests that were only counted
	refused  int
	excess   string // of the last refused request
	tokens   int64  // of the last accepted request
	sent     int64  // tokens of all accepted requests
	most     int64  // bytes of the texts of the largest accepted request, without tools and system prompt
	wrong    string // the first thing that is wrong with a request
}

// A sum is what a message or another part of a request has.
type sum struct {
	tokens, bytes  int64
	calls, outputs []string
}

// A place is one in the messages of the last request behind which no call waits for its output.
type place struct {
	end int // in bytes
	sum sum // of the messages before it
}

func (s *sum) add(o sum) {
	s.tokens += o.tokens
	s.bytes += o.bytes
}

// A lexicon counts with a vocabulary, each text once.
type lexicon struct {
	Vocabulary
	mu    sync.Mutex
	known map[uint64]int64
}

var seed = maphash.MakeSeed()

func (l *lexicon) tokens(text string) int64 {
	if text == "" {
		return 0
	}
	key := maphash.String(seed, text)
	l.mu.Lock()
	n, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return n
	}
	count, err := l.Count(text)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[key] = int64(count)
	return int64(count)
}

// Tokens that providers add. OpenAI's cookbook has 3 for a request and for a message, and 7 for a tool;
// Llama's template has 5 for a message, and Anthropic documents 346 for a request with tools.
const (
	forRequest = 3
	forMessage = 5
	forTool    = 7
	forCall    = 10
	forTools   = 346
)

// values are the fields of which the fake counts nothing: they have no text for the model.
var values = []string{"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "cache_control",
	"cachePoint", "status", "tool_name", "index"}

// params are the fields of a request beside the messages that have no text for the model.
var params = []string{"model", "max_tokens", "max_completion_tokens", "max_output_tokens", "stream", "stream_options", "store",
	"include", "truncate", "shift", "keep_alive", "options", "generationConfig", "inferenceConfig", "cache_control", "prompt_cache_key",
	"parallel_tool_calls", "tool_choice", "toolChoice", "reasoning", "think"}

// count counts the texts of a value of JSON. key is its name in the object around it.
func (f *fake) count(s *sum, key string, raw json.RawMessage) error {
	if slices.Contains(values, key) {
		return nil
	}
	switch raw[0] {
	case '{':
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return err
		}
		f.pair(s, key, fields)
		if key == "input" || key == "args" || key == "arguments" || strings.HasSuffix(strings.ToLower(key), "schema") || key == "parameters" {
			s.text(f, string(raw)) // the model gets objects as text
			return nil
		}
		for k, v := range fields {
			if err := f.count(s, k, v); err != nil {
				return err
			}
		}
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, v := range list {
			if key == "tool_calls" {
				s.calls = append(s.calls, callID(v, "id"))
				s.tokens += forCall
			}
			if err := f.count(s, "", v); err != nil {
				return err
			}
		}
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		s.text(f, text)
	}
	return nil
}

func (s *sum) text(f *fake, text string) {
	s.tokens += f.lexicon.tokens(text)
	s.bytes += int64(len(text))
}

// pair notes the call or the output that an object is.
func (f *fake) pair(s *sum, key string, o map[string]json.RawMessage) {
	id := func(name string) (id string) {
		_ = json.Unmarshal(o[name], &id)
		return id
	}
	call, output := "", ""
	switch kind := id("type"); {
	case kind == "tool_use":
		call = id("id")
	case kind == "function_call":
		call = id("call_id")
	case key == "toolUse":
		call = id("toolUseId")
	case key == "functionCall":
		call = "call of " + id("name") + id("id")
	case kind == "tool_result":
		output = id("tool_use_id")
	case kind == "function_call_output":
		output = id("call_id")
	case key == "toolResult":
		output = id("toolUseId")
	case key == "functionResponse":
		output = "call of " + id("name") + id("id")
	case id("role") == "tool":
		output = id("tool_call_id")
	}
	if call != "" {
		s.calls = append(s.calls, call)
		s.tokens += forCall
	}
	if output != "" {
		s.outputs = append(s.outputs, output)
	}
}

func callID(raw json.RawMessage, name string) (id string) {
	var o map[string]json.RawMessage
	_ = json.Unmarshal(raw, &o)
	_ = json.Unmarshal(o[name], &id)
	return id
}

// measured counts a part of a request, or takes the count of the same bytes in an earlier one.
func (f *fake) measured(key string, raw json.RawMessage) (sum, error) {
	at := maphash.Bytes(seed, raw)
	s, ok := f.known[at]
	if !ok {
		if err := f.count(&s, key, raw); err != nil {
			return s, err
		}
		f.known[at] = s
	}
	return s, nil
}

// rest returns a request without the first messages, if the last request began with the same bytes, and
// what these messages have. They need not be read again.
func (f *fake) rest(body []byte) ([]byte, []place) {
	same := 0
	for same < min(len(body), len(f.last)) && body[same] == f.last[same] {
		same++
	}
	for i := len(f.places) - 1; i > 0; i-- {
		if end := f.places[i].end; end < same && body[end] == ',' {
			return slices.Concat(body[:f.places[0].end], body[end+1:]), f.places[:i+1]
		}
	}
	return body, nil
}

// measure counts a request, and returns what it asks for at most.
func (f *fake) measure(body []byte) (all sum, answer int64, err error) {
	read, places := f.rest(body)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(read, &fields); err != nil {
		return all, 0, err
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(fields[f.messages], &messages); err != nil {
		return all, 0, err
	}
	if places == nil {
		places = []place{{end: bytes.Index(body, fields[f.messages]) + 1}}
	}
	at := places[len(places)-1].end
	if len(places) > 1 {
		at++ // a comma
	}
	all = places[len(places)-1].sum
	var open []string
	for i, raw := range messages {
		s, err := f.measured("", raw)
		if err != nil {
			return all, 0, err
		}
		all.add(s)
		all.tokens += forMessage
		for _, id := range s.outputs {
			at := slices.Index(open, id)
			if at < 0 {
				return all, 0, fmt.Errorf("message %d: output %q has no call", i, id)
			}
			open = slices.Delete(open, at, at+1)
		}
		if len(s.outputs) == 0 && len(open) > 0 && !(f.items && len(s.calls) > 0) {
			return all, 0, fmt.Errorf("message %d: calls %q have no output", i, open)
		}
		open = append(open, s.calls...)
		if !bytes.HasPrefix(body[at:], raw) {
			return all, 0, fmt.Errorf("message %d is not where it was expected", i)
		}
		if at += len(raw); len(open) == 0 {
			places = append(places, place{at, all})
		}
		at++ // a comma
	}
	all.tokens += forRequest
	f.last, f.places = body, places
	if len(open) > 0 {
		return all, 0, fmt.Errorf("calls %q have no output at the end", open)
	}
	for key, raw := range fields {
		switch {
		case key == f.messages || slices.Contains(params, key):
		case key == "system" || key == "systemInstruction" || key == "instructions" || key == "tools" || key == "toolConfig":
			s, err := f.measured(key, raw)
			if err != nil {
				return all, 0, err
			}
			all.tokens += s.tokens
			if strings.HasPrefix(key, "tool") {
				all.tokens += forTools
			}
		default:
			return all, 0, fmt.Errorf("field %s is unknown", key)
		}
	}
	for _, path := range f.limit {
		outer, inner, nested := strings.Cut(path, ".")
		raw := fields[outer]
		if nested {
			var o map[string]json.RawMessage
			_ = json.Unmarshal(raw, &o)
			raw = o[inner]
		}
		_ = json.Unmarshal(raw, &answer)
	}
	return all, answer, nil
}

// ServeHTTP implements [http.Handler].
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := strings.HasSuffix(r.URL.Path, "/count_tokens") || strings.HasSuffix(r.URL.Path, ":countTokens")
	if inner := (struct{ GenerateContentRequest json.RawMessage }{}); counts && json.Unmarshal(body, &inner) == nil && inner.GenerateContentRequest != nil {
		body = inner.GenerateContentRequest
	}
	all, answer, err := f.measure(body)
	if err != nil {
		if f.wrong == "" {
			f.wrong = err.Error()
		}
		http.Error(w, `{"error":{"message":"the fake cannot read this"}}`, http.StatusBadRequest)
		return
	}
	if counts {
		f.counted++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"input_tokens":%d,"totalTokens":%d}`, all.tokens, all.tokens)
		return
	}
	if all.tokens+answer > f.window {
		f.refused++
		f.excess = fmt.Sprintf("it has %d tokens and an answer of %d, which is %d too many", all.tokens, answer, all.tokens+answer-f.window)
		status, text := f.refuse(all.tokens, answer, f.window)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return
	}
	f.answered++
	f.tokens, f.sent = all.tokens, f.sent+all.tokens
	f.most = max(f.most, all.bytes)
	text, args := f.next()
	w.Header().Set("Content-Type", f.media)
	_, _ = w.Write(f.answer(fmt.Sprintf("call_%d", f.answered), text, args, all.tokens))
}

// serve returns the address of a server of f.
func (f *fake) serve(t testing.TB) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}
