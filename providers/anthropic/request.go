package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// minBudget is the least the API takes: "budget_tokens: Must be ≥1024 and less than
// max_tokens."
const minBudget = 1024

// reserved are the fields that Extra must not set.
var reserved = []string{"model", "stream", "messages"}

// A body is a request on its way to bytes. Its fields are in an order that depends
// on nothing but which of them are set; messages come last, and what is before them
// does not change from step to step.
type body struct {
	b     []byte
	req   *aycoder.Request
	cache string // the cache_control object, or empty
	err   error

	thinks bool // thinking is on, by a field of ours
}

// encode returns the wire form of req.
func (c *Client) encode(req *aycoder.Request) (*payload, error) {
	w := &body{b: make([]byte, 0, 1024), req: req}
	if !req.NoCache {
		w.cache = cacheControl(c.cfg.ttl)
	}
	w.b = append(w.b, `{"model":`...)
	w.b = appendString(w.b, c.modelOf(req))
	w.limits(&c.cfg)
	w.system()
	w.tools()
	w.sampling()
	if w.cache != "" && len(req.Messages) > 0 && w.key("cache_control") {
		w.b = append(w.b, w.cache...)
	}
	w.extra()
	if w.err != nil {
		return nil, w.err
	}
	return w.messages()
}

func cacheControl(ttl time.Duration) string {
	if ttl == time.Hour {
		return `{"type":"ephemeral","ttl":"1h"}`
	}
	return `{"type":"ephemeral"}`
}

// key begins a field, unless Extra sets it.
func (w *body) key(name string) bool {
	if _, ok := w.req.Extra[name]; ok {
		return false
	}
	w.rawKey(name)
	return true
}

func (w *body) rawKey(name string) {
	w.b = append(w.b, ',')
	w.b = appendString(w.b, name)
	w.b = append(w.b, ':')
}

// limits writes max_tokens and thinking. A budget must be less than max_tokens, so
// one that is not raises it by the length the answer may have.
func (w *body) limits(c *config) {
	maxTokens := w.req.MaxTokens
	if maxTokens <= 0 {
		maxTokens = c.maxTokens
	}
	budget := w.budget()
	if budget >= maxTokens {
		maxTokens = budget + min(maxTokens, math.MaxInt-budget)
	}
	if w.key("max_tokens") {
		w.b = strconv.AppendInt(w.b, int64(maxTokens), 10)
	}
	w.b = append(w.b, `,"stream":true`...)
	if budget == 0 || !w.key("thinking") {
		return
	}
	if budget < 0 {
		w.b = append(w.b, `{"type":"disabled"}`...)
		return
	}
	w.thinks = true
	w.b = append(w.b, `{"type":"enabled","budget_tokens":`...)
	w.b = strconv.AppendInt(w.b, int64(budget), 10)
	w.b = append(w.b, '}')
}

// budget returns how much the model may think: 0 says nothing about it, less than 0
// turns it off. "Thinking may not be enabled when tool_choice forces tool use."
func (w *body) budget() int {
	switch n := w.req.Thinking; {
	case n < 0:
		return -1
	case n == 0 || w.forced():
		return 0
	default:
		return max(n, minBudget)
	}
}

// forced reports whether the model must call a tool.
func (w *body) forced() bool {
	mode := w.req.ToolChoice.Mode
	_, own := w.req.Extra["tool_choice"]
	return len(w.req.Tools) > 0 && !own && (mode == aycoder.ToolAny || mode == aycoder.ToolNamed)
}

func (w *body) system() {
	last := -1
	for i, t := range w.req.System {
		if t == nil {
			w.err = fmt.Errorf("system block %d is nil", i)
			return
		}
		if !blank(t.Text) {
			last = i
		}
	}
	if last < 0 || !w.key("system") {
		return
	}
	w.b = append(w.b, '[')
	for i, t := range w.req.System[:last+1] {
		if blank(t.Text) {
			continue
		}
		w.b = append(w.b, `{"type":"text","text":`...)
		w.b = appendString(w.b, t.Text)
		if i < last {
			w.b = append(w.b, `},`...)
		}
	}
	w.closeCached()
	w.b = append(w.b, ']')
}

// closeCached ends an object that is a breakpoint of the prompt cache.
func (w *body) closeCached() {
	if w.cache != "" {
		w.b = append(w.b, `,"cache_control":`...)
		w.b = append(w.b, w.cache...)
	}
	w.b = append(w.b, '}')
}

// tools writes the tools and how they are chosen.
func (w *body) tools() {
	if len(w.req.Tools) == 0 {
		return
	}
	if w.key("tools") {
		w.b = append(w.b, '[')
		for i, s := range w.req.Tools {
			if i > 0 {
				w.b = append(w.b, '}', ',')
			}
			w.tool(i, s)
		}
		w.closeCached()
		w.b = append(w.b, ']')
	}
	choice := ""
	switch w.req.ToolChoice.Mode {
	case aycoder.ToolNone:
		choice = `{"type":"none"}`
	case aycoder.ToolAny:
		choice = `{"type":"any"}`
	case aycoder.ToolNamed:
		choice = string(appendName([]byte(`{"type":"tool","name":`), w.req.ToolChoice.Name)) + "}"
	}
	if choice != "" && w.key("tool_choice") {
		w.b = append(w.b, choice...)
	}
}

func (w *body) sampling() {
	if t := w.req.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			w.err = fmt.Errorf("temperature %v is not a number", *t)
			return
		}
		// "temperature may only be set to 1 when thinking is enabled."
		if (*t == 1 || !w.thinks) && w.key("temperature") {
			w.b = strconv.AppendFloat(w.b, *t, 'f', -1, 64)
		}
	}
	if len(w.req.Stop) == 0 || !w.key("stop_sequences") {
		return
	}
	for i, s := range w.req.Stop {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.b = appendString(w.b, s)
	}
	w.b = append(w.b, ']')
}

// extra writes the fields of the caller's own, sorted.
func (w *body) extra() {
	for _, name := range slices.Sorted(maps.Keys(w.req.Extra)) {
		val := w.req.Extra[name]
		switch {
		case slices.Contains(reserved, name):
			w.err = fmt.Errorf("field %q is not for Extra", name)
		case !json.Valid(val):
			w.err = fmt.Errorf("field %q of Extra is not JSON", name)
		}
		if w.err != nil {
			return
		}
		w.rawKey(name)
		w.b = append(w.b, bytes.ToValidUTF8(val, []byte("\uFFFD"))...)
	}
}

// messages adds the conversation, from its encoded messages.
func (w *body) messages() (*payload, error) {
	w.b = append(w.b, `,"messages":[`...)
	p := &payload{pieces: make([][]byte, 1, len(w.req.Messages)+2)}
	for i, m := range w.req.Messages {
		if m == nil {
			return nil, fmt.Errorf("message %d is nil", i)
		}
		data, err := m.Encoded(wireKey{}, fragment)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(data) > 0 && len(p.pieces) == 1 {
			data = data[1:] // no comma before the first
		}
		if len(data) > 0 {
			p.pieces = append(p.pieces, data)
		}
	}
	p.pieces[0] = w.b
	p.pieces = append(p.pieces, []byte("]}"))
	return p, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// tool writes a tool, and leaves it open.
func (w *body) tool(i int, s *aycoder.ToolSpec) {
	if s == nil {
		w.err = fmt.Errorf("tool %d is nil", i)
		return
	}
	b, err := appendTool(w.b, s)
	if err != nil {
		w.err = fmt.Errorf("tool %q: %w", s.Name, err)
		return
	}
	w.b = b
}

func appendTool(b []byte, s *aycoder.ToolSpec) ([]byte, error) {
	b = append(b, `{"name":`...)
	b = appendName(b, s.Name)
	if s.Description != "" {
		b = append(b, `,"description":`...)
		b = appendString(b, s.Description)
	}
	schema := bytes.TrimSpace(s.Schema)
	if len(schema) == 0 {
		schema = []byte(`{"type":"object"}`)
	}
	if schema[0] != '{' || !json.Valid(schema) {
		return nil, errors.New("schema is not a JSON object")
	}
	b = append(b, `,"input_schema":`...)
	return append(b, bytes.ToValidUTF8(schema, []byte("\uFFFD"))...), nil
}
