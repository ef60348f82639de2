package ollama

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

var (
	errNoMessages = errors.New("no message that can be sent")
	errNoOptions  = errors.New(`"options" of Extra is not a JSON object`)
)

// A body is a request under construction. The order of its fields depends only on which
// of them are set; messages come last, and the bytes before them do not change from step
// to step.
type body struct {
	b   []byte
	req *aycoder.Request
	err error // the first error
}

// encode returns the wire form of req.
func (c *Client) encode(req *aycoder.Request) (*api.Payload, error) {
	w := &body{b: make([]byte, 0, api.HeadRoom(req)), req: req}
	model := cmp.Or(req.Model, c.model)
	w.b = rawjson.AppendField(append(w.b, '{'), "model", model)
	w.b = append(w.b, `,"stream":true`...)
	w.field("truncate", strconv.FormatBool(c.cfg.truncate))
	w.field("shift", strconv.FormatBool(c.cfg.truncate))
	w.field("keep_alive", c.cfg.keepAlive)
	w.field("think", thinkValue(model, req.Thinking, c.cfg.think))
	w.options(&c.cfg)
	if c.FormatsOutput(req.Model) {
		w.format()
	}
	w.tools()
	w.extra()
	p := w.messages()
	return p, w.err
}

// field writes a field, unless its value is empty or Extra sets it.
func (w *body) field(name, value string) {
	if _, own := w.req.Extra[name]; own || value == "" {
		return
	}
	w.b = append(rawjson.AppendKey(w.b, name), value...)
}

func (w *body) fail(err error) { w.err = cmp.Or(w.err, err) }

// thinkValue returns the setting for thinking, or "" if it is left to the model. Ollama
// does not accept a number of tokens. gpt-oss "expects one of low, medium, or high to
// tune the trace length" and always thinks.
func thinkValue(model string, tokens int, own string) string {
	levels := strings.HasPrefix(model[strings.LastIndexByte(model, '/')+1:], "gpt-oss")
	t := own
	switch {
	case tokens < 0:
		t = thinkOff
	case tokens > 0 && (own == "" || own == thinkOff || own == thinkOn):
		t = thinkOn
		if levels {
			t = levelOf(tokens)
		}
	}
	switch {
	case t == thinkOff && levels:
		t = "low"
	case t == thinkOn && levels:
		t = "medium"
	}
	switch t {
	case "":
		return ""
	case thinkOn:
		return "true"
	case thinkOff:
		return "false"
	}
	return strconv.Quote(t)
}

func levelOf(tokens int) string {
	switch {
	case tokens <= 4096:
		return "low"
	case tokens <= 16384:
		return "medium"
	}
	return "high"
}

// options writes the options of the model, sorted: those of the client, of Extra, and of
// the request, of which the last wins.
func (w *body) options(c *config) {
	all := maps.Clone(c.options)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	integer := func(name string, n int64) {
		if n > 0 {
			all[name] = strconv.AppendInt(nil, n, 10)
		}
	}
	integer("num_ctx", c.context)
	integer("num_predict", int64(c.MaxTokens))
	if raw, ok := w.req.Extra["options"]; ok {
		own, err := rawjson.Parse(raw)
		if err != nil {
			w.fail(errNoOptions)
		}
		for _, f := range own {
			all[f.Key] = f.Val
		}
	}
	integer("num_predict", int64(w.req.MaxTokens))
	w.sampling(all)
	if len(all) == 0 {
		return
	}
	w.b = append(rawjson.AppendKey(w.b, "options"), '{')
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w.b = append(rawjson.AppendKey(w.b, name), api.ValidUTF8(all[name])...)
	}
	w.b = append(w.b, '}')
}

func (w *body) sampling(all map[string]json.RawMessage) {
	if t := w.req.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			w.fail(fmt.Errorf("temperature %v is not a number", *t))
		}
		all["temperature"] = strconv.AppendFloat(nil, *t, 'f', -1, 64)
	}
	if len(w.req.Stop) == 0 {
		return
	}
	stop := []byte{'['}
	for _, s := range w.req.Stop {
		stop = rawjson.AppendString(rawjson.AppendComma(stop), s)
	}
	all["stop"] = append(stop, ']')
}

// format requests a document that follows a schema.
func (w *body) format() {
	out := w.req.Output
	if out == nil {
		return
	}
	if !rawjson.IsObject(out.Schema) {
		w.fail(errors.New("schema of the output is not a JSON object"))
		return
	}
	w.field("format", string(api.ValidUTF8(out.Schema)))
}

// tools writes the tools that the model may call. This API has no tool_choice: a tool
// that must be called is the only one offered.
func (w *body) tools() {
	choice := w.req.ToolChoice
	if _, own := w.req.Extra["tools"]; own || choice.Mode == aycoder.ToolNone {
		return
	}
	list := []byte{'['}
	for i, s := range w.req.Tools {
		if s == nil {
			w.fail(fmt.Errorf("tool %d is nil", i))
			return
		}
		if choice.Mode == aycoder.ToolNamed && s.Name != choice.Name {
			continue
		}
		var err error
		if list, err = appendTool(rawjson.AppendComma(list), s); err != nil {
			w.fail(fmt.Errorf("tool %q: %w", s.Name, err))
		}
	}
	switch {
	case len(list) > 1:
		w.field("tools", string(append(list, ']')))
	case choice.Mode == aycoder.ToolNamed:
		w.fail(fmt.Errorf("tool %q, which is to be called, is none of the request's", choice.Name))
	}
}

func appendTool(b []byte, s *aycoder.ToolSpec) ([]byte, error) {
	params, err := parameters(s.Schema)
	if err != nil {
		return b, err
	}
	b = append(b, `{"type":"function","function":{`...)
	b = rawjson.AppendField(b, "name", s.Name)
	if s.Description != "" {
		b = rawjson.AppendField(b, "description", s.Description)
	}
	b = append(b, `,"parameters":`...)
	b = append(b, params...)
	return append(b, '}', '}'), nil
}

// extra writes the caller's fields, except for the options, which are already written.
func (w *body) extra() {
	b, err := api.AppendExtra(w.b, without(w.req.Extra, "options"), "model", "stream", "messages")
	if err != nil {
		w.fail(err)
		return
	}
	w.b = b
}

// messages appends the conversation, from its encoded messages.
func (w *body) messages() *api.Payload {
	w.b = append(rawjson.AppendKey(w.b, "messages"), '[')
	empty := !w.system()
	messages, _ := api.WithTail(w.req, false)
	p := &api.Payload{Pieces: make([][]byte, 1, len(messages)+2)}
	for i, m := range messages {
		if m == nil {
			w.fail(fmt.Errorf("message %d is nil", i))
			return nil
		}
		data, err := w.message(m)
		if err != nil {
			w.fail(fmt.Errorf("message %d: %w", i, err))
			return nil
		}
		if len(data) == 0 {
			continue
		}
		if empty {
			data = data[1:] // no comma before the first
		}
		empty = false
		p.Pieces = append(p.Pieces, data)
	}
	if len(p.Pieces) == 1 {
		w.fail(errNoMessages) // Ollama would load the model and return an empty answer
	}
	p.Pieces[0] = w.b
	p.Pieces = append(p.Pieces, []byte("]}"))
	return p
}

// message returns the wire form of m. An output that does not name its tool gets the name
// from the call, which is in another message, so this form is not cached.
func (w *body) message(m *aycoder.Message) ([]byte, error) {
	if !api.Unnamed(m) {
		return m.Encoded(wireKey{}, encodeMessage)
	}
	return encodeWith(m, func(id string) string { return api.CallName(w.req.Messages, id) })
}

// system writes the system prompt as the first message, if there is one.
func (w *body) system() bool {
	texts := make([]string, 0, len(w.req.System))
	for i, t := range w.req.System {
		if t == nil {
			w.fail(fmt.Errorf("system block %d is nil", i))
			return false
		}
		if !blank(t.Text) {
			texts = append(texts, t.Text)
		}
	}
	if len(texts) == 0 {
		return false
	}
	w.b = append(w.b, `{"role":"system","content":`...)
	w.b = rawjson.AppendString(w.b, strings.Join(texts, "\n\n"))
	w.b = append(w.b, '}')
	return true
}
