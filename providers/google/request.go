package google

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// A body is a request under construction. The order of its fields depends only on which
// of them are set; contents come last, and the bytes before them do not change from step
// to step.
type body struct {
	b     []byte
	req   *aycoder.Request
	model model
	extra map[string]json.RawMessage
	gen   rawjson.Object // the caller's generationConfig
	err   error
}

// encode returns the wire form of req.
func (c *Client) encode(req *aycoder.Request, m model) (*api.Payload, error) {
	w := &body{b: append(make([]byte, 0, api.HeadRoom(req)), '{'), req: req, model: m}
	w.join(c.cfg.extra)
	w.system()
	w.tools()
	w.toolConfig()
	w.generation(&c.cfg)
	w.rest()
	if w.err != nil {
		return nil, w.err
	}
	return w.contents(wireKey{provider: c.cfg.Provider, strict: m.strict()})
}

// join merges the caller's fields; those of the request override those of the client.
func (w *body) join(all map[string]json.RawMessage) {
	w.extra = w.req.Extra
	if len(all) > 0 {
		w.extra = maps.Clone(all)
		maps.Copy(w.extra, w.req.Extra)
	}
	if len(w.extra) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.extra)) {
		val := w.extra[name]
		switch {
		case name == "contents" || name == "model":
			w.fail(fmt.Errorf("field %q is not for Extra", name))
		case !json.Valid(val):
			w.fail(fmt.Errorf("field %q of Extra is not JSON", name))
		}
	}
	if val, ok := w.extra["generationConfig"]; ok {
		gen, err := rawjson.Parse(api.ValidUTF8(val))
		if err != nil {
			w.fail(fmt.Errorf("field %q of Extra: %w", "generationConfig", err))
		}
		w.gen = gen
	}
}

func (w *body) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// key begins a field, unless Extra sets it.
func (w *body) key(name string) bool {
	if _, ok := w.extra[name]; ok {
		return false
	}
	w.b = rawjson.AppendKey(w.b, name)
	return true
}

func (w *body) system() {
	var texts []string
	for i, t := range w.req.System {
		if t == nil {
			w.fail(fmt.Errorf("system block %d is nil", i))
			return
		}
		if t.Text != "" {
			texts = append(texts, t.Text)
		}
	}
	if w.inWords() {
		texts = append(texts, api.OutputPrompt(api.ValidUTF8(w.req.Output.Schema)))
	}
	if len(texts) == 0 || !w.key("systemInstruction") {
		return
	}
	w.b = append(w.b, `{"parts":[`...)
	for _, text := range texts {
		w.b = append(rawjson.AppendComma(w.b), '{')
		w.b = append(rawjson.AppendField(w.b, "text", text), '}')
	}
	w.b = append(w.b, "]}"...)
}

// tools writes the declarations of our tools, and then those of Extra: server-side tools
// such as {"codeExecution":{}}.
func (w *body) tools() {
	extra, given := w.extra["tools"]
	if len(w.req.Tools) == 0 && !given {
		return
	}
	w.b = append(rawjson.AppendKey(w.b, "tools"), '[')
	if len(w.req.Tools) > 0 {
		w.b = append(w.b, `{"functionDeclarations":[`...)
		for i, s := range w.req.Tools {
			w.tool(i, s)
		}
		w.b = append(w.b, "]}"...)
	}
	if given {
		w.elements("tools", extra)
	}
	w.b = append(w.b, ']')
}

// elements writes the elements of a list in Extra.
func (w *body) elements(name string, list json.RawMessage) {
	r := rawjson.NewReader(string(api.ValidUTF8(list)))
	if r.Kind() != '[' {
		w.fail(fmt.Errorf("field %q of Extra is not a list", name))
		return
	}
	for r.Array(); r.Next(); {
		w.b = append(rawjson.AppendComma(w.b), r.Raw()...)
	}
}

func (w *body) tool(i int, s *aycoder.ToolSpec) {
	if s == nil {
		w.fail(fmt.Errorf("tool %d is nil", i))
		return
	}
	schema := bytes.TrimSpace(s.Schema)
	if len(schema) == 0 {
		schema = []byte(`{"type":"object","properties":{}}`)
	}
	if !rawjson.IsObject(schema) {
		w.fail(fmt.Errorf("tool %q: %w", s.Name, errors.New("schema is not a JSON object")))
		return
	}
	w.b = append(rawjson.AppendComma(w.b), '{')
	w.b = rawjson.AppendField(w.b, "name", wireName(s.Name))
	w.b = rawjson.AppendField(w.b, "description", s.Description)
	w.b = rawjson.AppendKey(w.b, "parametersJsonSchema")
	w.b = append(w.b, api.ValidUTF8(schema)...)
	w.b = append(w.b, '}')
}

// toolConfig writes the tool choice.
func (w *body) toolConfig() {
	choice := w.req.ToolChoice
	mode := ""
	switch choice.Mode {
	case aycoder.ToolNone:
		mode = "NONE"
	case aycoder.ToolAny, aycoder.ToolNamed:
		mode = "ANY"
	}
	if mode == "" || len(w.req.Tools) == 0 || !w.key("toolConfig") {
		return
	}
	w.b = append(w.b, `{"functionCallingConfig":{`...)
	w.b = rawjson.AppendField(w.b, "mode", mode)
	if choice.Mode == aycoder.ToolNamed {
		w.b = append(rawjson.AppendKey(w.b, "allowedFunctionNames"), '[')
		w.b = append(rawjson.AppendString(w.b, wireName(choice.Name)), ']')
	}
	w.b = append(w.b, "}}"...)
}

// generation writes the generationConfig, with the caller's fields after ours.
func (w *body) generation(c *config) {
	start := len(w.b)
	w.b = append(rawjson.AppendKey(w.b, "generationConfig"), '{')
	empty := len(w.b)
	w.limit(c)
	w.sampling()
	w.thinking(c.thoughts)
	w.output()
	for _, f := range w.gen {
		w.b = append(rawjson.AppendKey(w.b, f.Key), f.Val...)
	}
	if len(w.b) == empty {
		w.b = w.b[:start]
		return
	}
	w.b = append(w.b, '}')
}

// genKey is key for the fields of generationConfig.
func (w *body) genKey(name string) bool {
	if w.gen.Value(name) != nil {
		return false
	}
	w.b = rawjson.AppendKey(w.b, name)
	return true
}

// limit writes the limit of the answer. Thinking counts towards it, so a limit that
// leaves no room for the answer is raised by the length of the answer.
func (w *body) limit(c *config) {
	limit := w.req.MaxTokens
	if limit <= 0 {
		limit = c.MaxTokens
	}
	if limit <= 0 || !w.genKey("maxOutputTokens") {
		return
	}
	if n := w.req.Thinking; n >= limit && w.model.thinks() {
		limit += min(n, math.MaxInt-limit)
	}
	w.b = strconv.AppendInt(w.b, int64(min(limit, math.MaxInt32)), 10)
}

func (w *body) sampling() {
	if t := w.req.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			w.fail(fmt.Errorf("temperature %v is not a number", *t))
			return
		}
		if w.genKey("temperature") {
			w.b = strconv.AppendFloat(w.b, *t, 'f', -1, 64)
		}
	}
	if len(w.req.Stop) == 0 || !w.genKey("stopSequences") {
		return
	}
	w.b = append(w.b, '[')
	for _, s := range w.req.Stop {
		w.b = rawjson.AppendString(rawjson.AppendComma(w.b), s)
	}
	w.b = append(w.b, ']')
}

func (w *body) thinking(thoughts bool) {
	t := w.model.think(w.req.Thinking)
	shown := w.model.thinks() && (w.req.Thinking > 0 || thoughts && w.req.Thinking == 0)
	if !shown && t == (thinking{}) || !w.genKey("thinkingConfig") {
		return
	}
	w.b = append(w.b, '{')
	if t.set {
		w.b = rawjson.AppendIntField(w.b, "thinkingBudget", int64(t.budget))
	}
	if t.level != "" {
		w.b = rawjson.AppendField(w.b, "thinkingLevel", t.level)
	}
	if shown {
		w.b = append(rawjson.AppendKey(w.b, "includeThoughts"), "true"...)
	}
	w.b = append(w.b, '}')
}

// inWords reports whether the system prompt asks for a JSON document. Models before
// Gemini 3 refuse the other way: "Function calling with a response mime type:
// 'application/json' is unsupported".
func (w *body) inWords() bool {
	return w.req.Output != nil && w.model.formats() && len(w.req.Tools) > 0 && !w.model.strict()
}

// output asks for a JSON document.
func (w *body) output() {
	o := w.req.Output
	if o == nil || !w.model.formats() {
		return
	}
	if !rawjson.IsObject(o.Schema) {
		w.fail(fmt.Errorf("schema of output %q is not a JSON object", o.Name))
		return
	}
	if w.inWords() {
		return
	}
	if w.genKey("responseMimeType") {
		w.b = append(w.b, `"application/json"`...)
	}
	if w.genKey("responseJsonSchema") {
		w.b = append(w.b, api.ValidUTF8(bytes.TrimSpace(o.Schema))...)
	}
}

// rest writes the other fields of Extra, sorted.
func (w *body) rest() {
	if len(w.extra) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.extra)) {
		if name != "tools" && name != "generationConfig" { // those are merged into ours
			w.b = append(rawjson.AppendKey(w.b, name), api.ValidUTF8(w.extra[name])...)
		}
	}
}

// The delimiters around the parts of messages.
const (
	sameRole = iota
	firstUser
	firstModel
	nextUser
	nextModel
)

var around = [...][]byte{
	sameRole:   []byte(`,`),
	firstUser:  []byte(`{"role":"user","parts":[`),
	firstModel: []byte(`{"role":"user","parts":[{"text":"(The conversation began before this.)"}]},{"role":"model","parts":[`),
	nextUser:   []byte(`]},{"role":"user","parts":[`),
	nextModel:  []byte(`]},{"role":"model","parts":[`),
}

// contents appends the conversation, from its encoded messages: "function call turn comes
// immediately after a user turn or after a function response turn", and the outputs of
// parallel calls are one turn. So messages of one role are joined, and the conversation
// begins with the user.
func (w *body) contents(key wireKey) (*api.Payload, error) {
	w.b = append(rawjson.AppendKey(w.b, "contents"), '[')
	// A text beside the outputs leaves the signatures of thoughts in place, as they are parts of calls.
	messages, _ := api.WithTail(w.req, true)
	p := &api.Payload{Pieces: append(make([][]byte, 0, 2*len(messages)+2), nil)}
	last := aycoder.Role("")
	kept, encode := any(key), key.encode // which is compared as a pointer is
	for i, m := range messages {
		if m == nil {
			return nil, fmt.Errorf("message %d is nil", i)
		}
		var data []byte
		var err error
		if api.Unnamed(m) {
			data, err = w.unnamed(m, key)
		} else {
			data, err = m.Encoded(kept, encode)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(data) > 0 {
			role := speaker(m.Role)
			p.Pieces = append(p.Pieces, between(last, role), data)
			last = role
		}
	}
	if last == "" {
		return nil, errors.New("no message has anything to send")
	}
	p.Pieces[0] = w.b
	p.Pieces = append(p.Pieces, []byte("]}]}"))
	return p, nil
}

// between returns the bytes before the parts of a message.
func between(last, role aycoder.Role) []byte {
	model := role == aycoder.RoleAssistant
	switch {
	case last == role:
		return around[sameRole]
	case last == "" && model:
		return around[firstModel]
	case last == "":
		return around[firstUser]
	case model:
		return around[nextModel]
	}
	return around[nextUser]
}

// unnamed returns the parts of a message with an output that does not name its tool. The
// output gets the name from the call, which is in another message, so this form is not
// cached.
func (w *body) unnamed(m *aycoder.Message, key wireKey) ([]byte, error) {
	messages := w.req.Messages // so that w stays on the stack
	nameOf := func(id string) string { return api.CallName(messages, id) }
	e := &encoder{key: key, nameOf: nameOf}
	return e.encode(m)
}
