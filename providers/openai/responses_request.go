package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// respLeast is the minimum of the answer's limit: "Invalid 'max_output_tokens': integer
// below minimum value. Expected a value >= 16".
const respLeast = 16

// A respBody is a request under construction. The order of its fields depends only on
// which of them are set; the input comes last, and the bytes before it do not change from
// step to step.
type respBody struct {
	b      []byte
	c      *settings
	req    *aycoder.Request
	model  string
	quirks respQuirks
	extra  map[string]json.RawMessage // the fields of client and request that were not written yet
	asked  bool                       // Extra refers to stored input
	err    error
}

var errRespNoInput = errors.New("no message has anything to send")

// respStores are the fields of Extra that refer to a stored conversation in place of the
// input.
var respStores = []string{"prompt", "conversation", "previous_response_id"}

// encodeResponses returns the wire form of req. The service does not store the
// conversation, so each request contains everything that it needs, including "reasoning
// items" with their "encrypted content".
func (c *Client) encodeResponses(req *aycoder.Request) (*api.Payload, error) {
	w := &respBody{b: make([]byte, 0, api.HeadRoom(req)), c: &c.cfg, req: req, model: c.modelOf(req), quirks: c.respQuirks(),
		extra: mergeExtra(c.cfg.extra, req.Extra)}
	w.asked = slices.ContainsFunc(respStores, func(s string) bool {
		return len(w.extra[s]) > 0 && !isNullJSON(w.extra[s])
	})
	w.b = append(w.b, `{"model":`...)
	w.b = rawjson.AppendString(w.b, w.model)
	w.b = append(w.b, `,"stream":true`...)
	w.raw("store", "false")
	w.list("include", w.include())
	w.instructions()
	w.limits()
	w.output()
	w.tools()
	if w.err == nil {
		maps.DeleteFunc(w.extra, func(_ string, val json.RawMessage) bool { return isNullJSON(val) })
		w.b, w.err = appendExtra(w.b, w.extra, []string{"model", "stream", "input"})
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.input(respForm{c.respOwner(), w.quirks})
}

// isNullJSON reports whether an extra field is null: it then removes a field that the
// client sets by itself.
func isNullJSON(val json.RawMessage) bool { return string(bytes.TrimSpace(val)) == "null" }

// raw writes a JSON field, unless Extra sets it.
func (w *respBody) raw(name, val string) {
	if _, ok := w.extra[name]; !ok {
		w.b = append(rawjson.AppendKey(w.b, name), val...)
	}
}

// list writes a list: the client's items, followed by those of Extra. So a host can add
// server-side tools without repeating its own.
func (w *respBody) list(name string, own []byte) {
	val, ok := w.extra[name]
	if ok && isNullJSON(val) {
		return
	}
	delete(w.extra, name)
	if ok {
		more := bytes.TrimSpace(val)
		if !json.Valid(more) || more[0] != '[' {
			w.fail(fmt.Errorf("field %q of Extra is not a list", name))
			return
		}
		if more = bytes.TrimSpace(more[1 : len(more)-1]); len(more) > 0 {
			own = append(rawjson.AppendComma(own), api.ValidUTF8(more)...)
		}
	}
	if len(own) > 0 {
		w.b = append(append(append(rawjson.AppendKey(w.b, name), '['), own...), ']')
	}
}

// fail records the first error.
func (w *respBody) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// include requests encrypted reasoning, except for models that do not think: "Encrypted
// content is not supported with this model".
func (w *respBody) include() []byte {
	if neverThinks(w.model) {
		return nil
	}
	return []byte(`"reasoning.encrypted_content"`)
}

// instructions writes the system prompt.
func (w *respBody) instructions() {
	var texts []string
	for i, t := range w.req.System {
		if t == nil {
			w.fail(fmt.Errorf("system block %d is nil", i))
			return
		}
		if !blank(t.Text) {
			texts = append(texts, t.Text)
		}
	}
	if len(texts) > 0 || w.quirks.bare {
		if _, ok := w.extra["instructions"]; !ok {
			w.b = rawjson.AppendString(rawjson.AppendKey(w.b, "instructions"), strings.Join(texts, "\n\n"))
		}
	}
}

// limits writes the maximum length of the answer and the sampling settings. A limit below
// the API's minimum is raised, because an error would be of less use than a longer
// answer.
func (w *respBody) limits() {
	if n := cmp.Or(max(w.req.MaxTokens, 0), w.c.MaxTokens); n > 0 && !w.quirks.bare {
		w.raw("max_output_tokens", strconv.Itoa(max(n, respLeast)))
	}
	effort := w.effort()
	if effort != "" {
		b := rawjson.AppendField([]byte{'{'}, "effort", effort)
		w.raw("reasoning", string(append(b, `,"summary":"auto"}`...)))
	}
	if len(w.req.Stop) > 0 {
		w.fail(errors.New("stop sequences: the Responses API has none"))
	}
	if t := w.req.Temperature; t != nil {
		num, err := appendFloat(nil, "temperature", *t)
		if err != nil {
			w.fail(err)
			return
		}
		if !w.quirks.bare && (*t == 1 || !fixedTemperature(w.model, effort)) {
			w.raw("temperature", string(num))
		}
	}
}

// effort returns the reasoning effort, or "". The setting of a request overrides that of
// [WithThinking]. Models that do not think get none.
func (w *respBody) effort() string {
	n, effort := w.req.Thinking, w.c.effort
	if n == 0 {
		return effort
	}
	effort = effortOf(w.model, n)
	switch w.c.dialect.thinking {
	case thinkNever:
		return ""
	case thinkEffort:
		if !reasons(w.model) {
			return ""
		}
		return cmp.Or(effort, leastEffort(w.model))
	}
	return cmp.Or(effort, "none")
}

// output requests a document that follows a schema. Other fields of "text" in Extra, such
// as its verbosity, are kept.
func (w *respBody) output() {
	out := w.req.Output
	if out == nil {
		return
	}
	schema, strict := strictSchema(out.Schema)
	if !strict {
		var err error
		if schema, err = schemaOf(out.Schema); err != nil {
			w.fail(fmt.Errorf("output %q: %w", out.Name, err))
			return
		}
	}
	text, err := rawjson.Parse([]byte(cmp.Or(string(w.extra["text"]), "{}")))
	if err != nil {
		w.fail(fmt.Errorf("field \"text\" of Extra: %w", err))
		return
	}
	b := rawjson.AppendField([]byte(`{"type":"json_schema"`), "name", toolName(cmp.Or(out.Name, "answer")))
	b = strconv.AppendBool(rawjson.AppendKey(b, "strict"), strict)
	b = append(append(rawjson.AppendKey(b, "schema"), schema...), '}')
	if text.Value("format") == nil {
		text.Set("format", b)
	}
	delete(w.extra, "text")
	w.raw("text", string(text.AppendTo(nil)))
}

// tools writes the tools and the tool choice. Server-side tools come from Extra.
func (w *respBody) tools() {
	if err := checkTools(w.req.Tools); err != nil {
		w.fail(err)
		return
	}
	room := 0
	for _, s := range w.req.Tools {
		room += 128 + len(s.Description) + len(s.Schema)
	}
	list := make([]byte, 0, room)
	for _, s := range w.req.Tools {
		list = appendRespTool(rawjson.AppendComma(list), s)
	}
	own := len(w.extra["tools"]) > 0
	w.list("tools", list)
	if len(list) == 0 && !own {
		return
	}
	switch choice := w.req.ToolChoice; choice.Mode {
	case aycoder.ToolNone:
		w.raw("tool_choice", `"none"`)
	case aycoder.ToolAny:
		w.raw("tool_choice", `"required"`)
	case aycoder.ToolNamed:
		name := rawjson.AppendField([]byte(`{"type":"function"`), "name", toolName(choice.Name))
		w.raw("tool_choice", string(name)+"}")
	}
}

// appendRespTool appends a validated tool. "strict" must be explicit: it is true by
// default here, and would change the meaning of a schema.
func appendRespTool(b []byte, s *aycoder.ToolSpec) []byte {
	b = rawjson.AppendField(append(b, `{"type":"function"`...), "name", toolName(s.Name))
	if s.Description != "" {
		b = rawjson.AppendField(b, "description", s.Description)
	}
	schema := argsSchema(s.Schema) // it was validated before
	b = append(rawjson.AppendKey(b, "parameters"), schema...)
	return append(b, `,"strict":false}`...)
}

// input appends the conversation, from its encoded messages.
func (w *respBody) input(form respForm) (*api.Payload, error) {
	w.b = append(w.b, `,"input":[`...)
	messages, _ := api.WithTail(w.req, false)
	p := &api.Payload{Pieces: make([][]byte, 1, len(messages)+2)}
	key, encode := any(form), form.fragment // which is compared as a pointer is
	for i, m := range messages {
		if m == nil {
			return nil, fmt.Errorf("message %d is nil", i)
		}
		data, err := m.Encoded(key, encode)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(data) > 0 && len(p.Pieces) == 1 {
			data = data[1:] // no comma before the first
		}
		if len(data) > 0 {
			p.Pieces = append(p.Pieces, data)
		}
	}
	if len(p.Pieces) == 1 && !w.asked {
		return nil, errRespNoInput
	}
	p.Pieces[0] = w.b
	p.Pieces = append(p.Pieces, []byte("]}"))
	return p, nil
}
