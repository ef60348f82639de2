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
	"unique"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// respReserved are the fields that Extra must not set.
var respReserved = []string{"model", "stream", "input"}

// respLeast is the least bound of an answer: "Invalid 'max_output_tokens': integer below
// minimum value. Expected a value >= 16".
const respLeast = 16

// A respBody is a request on its way to bytes. The order of its fields depends on
// nothing but which of them are set; the input comes last, and what is before it does
// not change from step to step.
type respBody struct {
	b      []byte
	c      *config
	req    *aycoder.Request
	model  string
	quirks respQuirks
	extra  map[string]json.RawMessage // the client's and the request's, which were not written yet
	asked  bool                       // Extra names what is in the service's store to answer
	err    error
}

var errRespNoInput = errors.New("no message has anything to send")

// respStores are the fields of Extra that hold a conversation in the place of the input.
var respStores = []string{"prompt", "conversation", "previous_response_id"}

// encodeResponses returns the wire form of req. Nothing is stored by the service: what
// it needs to know of the conversation goes with each request, "reasoning items" with
// their "encrypted content" among it.
func (c *Client) encodeResponses(req *aycoder.Request) (*api.Payload, error) {
	w := &respBody{b: make([]byte, 0, 1024), c: &c.cfg, req: req, model: c.modelOf(req), quirks: c.respQuirks(),
		extra: map[string]json.RawMessage{}}
	maps.Copy(w.extra, c.cfg.extra)
	maps.Copy(w.extra, req.Extra)
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
		w.b, w.err = appendExtra(w.b, nil, w.extra, respReserved)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.input(respForm{c.respOwner(), w.quirks})
}

// isNullJSON reports whether an extra field is null: it takes a field away that the
// client sets on its own.
func isNullJSON(val json.RawMessage) bool { return string(bytes.TrimSpace(val)) == "null" }

// raw writes a field that is JSON, unless Extra sets it.
func (w *respBody) raw(name, val string) {
	if _, ok := w.extra[name]; !ok {
		w.b = append(rawjson.AppendKey(w.b, name), val...)
	}
}

// list writes a list: items of the client's own, and those of Extra after them.
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

// fail keeps the first thing that is wrong.
func (w *respBody) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// include asks for what was thought. "Encrypted content is not supported with this
// model", say those that do not think.
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
		w.raw("instructions", string(rawjson.AppendString(nil, strings.Join(texts, "\n\n"))))
	}
}

// limits writes how long the answer may be, and how it is found.
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

// effort is how much the model is to think, or nothing. What a request says of it wins
// over the effort of the client. A model that does not think is not told.
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

// output asks for a document of a schema. What Extra says of the text, such as its
// verbosity, stays.
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

// tools writes the tools and how they are chosen. The service's own tools are of Extra.
func (w *respBody) tools() {
	if err := checkTools(w.req.Tools); err != nil {
		w.fail(err)
		return
	}
	var list []byte
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

// appendRespTool appends a tool that was checked. Strict has to be said: it is the
// default here, and would change what a schema means.
func appendRespTool(b []byte, s *aycoder.ToolSpec) []byte {
	b = rawjson.AppendField(append(b, `{"type":"function"`...), "name", toolName(s.Name))
	if s.Description != "" {
		b = rawjson.AppendField(b, "description", s.Description)
	}
	schema := argsSchema(s.Schema) // was checked
	b = append(rawjson.AppendKey(b, "parameters"), schema...)
	return append(b, `,"strict":false}`...)
}

// input adds the conversation, from its encoded messages.
func (w *respBody) input(form respForm) (*api.Payload, error) {
	w.b = append(w.b, `,"input":[`...)
	p := &api.Payload{Pieces: make([][]byte, 1, len(w.req.Messages)+2)}
	key, encode := any(unique.Make(form)), form.fragment // which is compared as a pointer is
	for i, m := range w.req.Messages {
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
