package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// The request. A service refuses fields that it does not know, so each is written only
// where the preset says so, or the caller does.

// A chatBody is a request under construction. The order of its fields depends only on
// which of them are set; messages come last, and the bytes before them do not change from
// step to step.
type chatBody struct {
	b     []byte
	c     *settings
	req   *aycoder.Request
	model string
	extra map[string]json.RawMessage // the fields of client and request
	err   error

	effort string // requested by the client
}

// encodeChat returns the wire form of req.
func (c *Client) encodeChat(req *aycoder.Request) (*api.Payload, error) {
	w := &chatBody{b: make([]byte, 0, api.HeadRoom(req)), c: &c.cfg, req: req, model: c.modelOf(req),
		extra: mergeExtra(c.cfg.extra, req.Extra)}
	w.b = append(w.b, `{"model":`...)
	w.b = rawjson.AppendString(w.b, w.model)
	w.b = append(w.b, `,"stream":true`...)
	if !c.cfg.dialect.noUsage && w.key("stream_options") {
		w.b = append(w.b, `{"include_usage":true}`...)
	}
	w.limits()
	w.thinking()
	w.sampling()
	w.output()
	w.tools()
	messages, stable := api.WithTail(req, false)
	// The mark that moves by itself would be behind the tail, and never hit.
	mark := w.marked() && len(messages) > stable
	if w.marked() && !mark && w.key("cache_control") {
		w.b = append(w.b, chatCacheMark...)
	}
	if w.err == nil {
		w.b, w.err = appendExtra(w.b, w.extra, []string{"model", "stream", "messages"})
	}
	if w.err != nil {
		return nil, w.err
	}
	p, last, err := w.messages(messages, stable)
	if _, own := w.extra["cache_control"]; err == nil && mark && !own && last > 0 {
		p.Pieces[last] = chatMarked(p.Pieces[last])
	}
	return p, err
}

// modelOf returns the model for req.
func (c *Client) modelOf(req *aycoder.Request) string { return cmp.Or(req.Model, c.model) }

// key begins a field, unless Extra sets it, or removes it with null.
func (w *chatBody) key(name string) bool {
	if _, ok := w.extra[name]; ok {
		return false
	}
	w.b = rawjson.AppendKey(w.b, name)
	return true
}

// field writes a string field.
func (w *chatBody) field(name, val string) {
	if w.key(name) {
		w.b = rawjson.AppendString(w.b, val)
	}
}

// raw writes a JSON field.
func (w *chatBody) raw(name, val string) {
	if w.key(name) {
		w.b = append(w.b, val...)
	}
}

// limits writes the limit of the answer, under the name that the service knows. A limit
// that leaves no room beside the thinking budget is raised by the budget.
func (w *chatBody) limits() {
	n := w.req.MaxTokens
	if n <= 0 {
		n = w.c.MaxTokens
	}
	if think := w.req.Thinking; n > 0 && n <= think && w.c.dialect.thinking == thinkObject {
		n += think // "max_tokens must be strictly higher than the reasoning budget"
	}
	if n > 0 {
		w.raw(cmp.Or(w.c.dialect.maxTokens, "max_completion_tokens"), strconv.Itoa(n))
	}
}

// thinking writes the setting for thinking in the service's dialect. The setting of a
// request overrides that of [WithThinking].
func (w *chatBody) thinking() {
	n, effort := w.req.Thinking, w.c.effort
	if n != 0 {
		effort = effortOf(w.model, n)
	}
	switch w.c.dialect.thinking {
	case thinkObject:
		w.thinkingObject(n, effort)
		return
	case thinkSwitch:
		if w.c.dialect.calmForced && w.forced() {
			n = -1
		}
		if n != 0 {
			w.thinkingSwitch(n > 0)
			return
		}
	case thinkTemplate:
		if n != 0 {
			w.raw("chat_template_kwargs", `{"enable_thinking":`+strconv.FormatBool(n > 0)+`}`)
			return
		}
	default:
		effort = w.plainEffort(n, effort)
	}
	if w.effort = effort; effort != "" {
		w.field("reasoning_effort", effort)
	}
}

// plainEffort returns the effort for services whose only setting is an effort. It is
// empty for models that are known not to think, because these refuse the setting.
func (w *chatBody) plainEffort(n int, effort string) string {
	form := w.c.dialect.thinking
	switch {
	case n == 0:
		return effort
	case form == thinkNever, form == thinkEffort && !reasons(w.model):
		return ""
	case form == thinkGroq:
		return groqEffort(w.model, effort)
	case form == thinkAnyModel && n < 0 && !reasons(w.model):
		if isOpenWeight(w.model) {
			return "low"
		}
		return "" // many services refuse unknown values
	case n < 0:
		return leastEffort(w.model)
	}
	return effort
}

// groqEffort returns the effort in the form of a model of Groq; an empty effort turns
// thinking off. "`none` and `default`" are for Qwen 3, "`low`, `medium`, `high`" for
// GPT-OSS, and other models refuse all values.
func groqEffort(model, effort string) string {
	switch {
	case isOpenWeight(model):
		return cmp.Or(effort, "low")
	case !strings.Contains(model, "qwen3"), effort == "" && strings.Contains(model, "thinking"):
		return ""
	case effort == "":
		return "none"
	}
	return "default"
}

// isOpenWeight reports whether a model is an open-weight model of OpenAI, which other
// services host. Such models always think.
func isOpenWeight(model string) bool { return strings.Contains(model, "gpt-oss") }

// thinkingObject writes the setting in the form of OpenRouter.
func (w *chatBody) thinkingObject(n int, effort string) {
	switch {
	case n > 0:
		w.raw("reasoning", `{"max_tokens":`+strconv.Itoa(n)+`}`)
	case n < 0:
		w.raw("reasoning", `{"enabled":false}`)
	case effort != "":
		w.raw("reasoning", string(rawjson.AppendString([]byte(`{"effort":`), effort))+`}`)
	}
}

// forced reports whether the model must call a tool.
func (w *chatBody) forced() bool {
	mode := w.req.ToolChoice.Mode
	return len(w.req.Tools) > 0 && w.c.xml == nil &&
		(mode == aycoder.ToolAny || mode == aycoder.ToolNamed)
}

// thinkingSwitch writes the setting for services that can only turn thinking on or off.
func (w *chatBody) thinkingSwitch(on bool) {
	if on {
		w.raw("thinking", `{"type":"enabled"}`)
		return
	}
	w.raw("thinking", `{"type":"disabled"}`)
}

// sampling writes the temperature and the stop sequences. The temperature is left out if
// the model accepts only the default. Stop sequences that the model refuses are an error,
// because the caller relies on them to end the answer.
func (w *chatBody) sampling() {
	if t := w.req.Temperature; t != nil {
		num, err := appendFloat(nil, "temperature", *t)
		if err != nil {
			w.err = err
			return
		}
		if *t == 1 || w.c.dialect.thinking != thinkEffort || !fixedTemperature(w.model, w.effort) {
			w.raw("temperature", string(num))
		}
	}
	if len(w.req.Stop) > 0 && w.c.dialect.thinking == thinkEffort && noStop(w.model) {
		w.err = fmt.Errorf("stop sequences are not supported by %s", w.model)
		return
	}
	if len(w.req.Stop) == 0 || !w.key("stop") {
		return
	}
	w.b = append(w.b, '[')
	for _, s := range w.req.Stop {
		w.b = rawjson.AppendString(rawjson.AppendComma(w.b), s)
	}
	w.b = append(w.b, ']')
}

// noStop reports whether a model refuses stop sequences: "Unsupported parameter: 'stop'
// is not supported with this model." The first thinking models accepted them.
func noStop(model string) bool {
	_, name, _ := cutLast(model, "/")
	return reasons(model) && !strings.HasPrefix(name, "o1")
}

// FormatsOutput implements [aycoder.OutputFormatter]. It returns false for OpenAI's
// models before GPT-4o. In Chat Completions it also returns false for [DeepSeek],
// [Moonshot] and [ZAI]. For all other models it returns true.
func (c *Client) FormatsOutput(model string) bool {
	if c.cfg.dialect.noStrict && !c.cfg.responses {
		return false
	}
	// "Structured Outputs is available … starting with GPT-4o."
	_, name, _ := cutLast(cmp.Or(model, c.model), "/")
	old := name == "gpt-4" || strings.HasPrefix(name, "gpt-4-") || strings.HasPrefix(name, "gpt-3.5")
	return !old
}

// FormatsWithTools reports whether [aycoder.Request.Output] also constrains the answer in a request
// with tools. It returns true for OpenAI's own service, if [Client.FormatsOutput] does. Other
// services refuse such requests, or constrain calls as if they were the answer.
func (c *Client) FormatsWithTools(model string) bool {
	return c.cfg.BaseURL == defaultBaseURL && c.cfg.xml == nil && c.FormatsOutput(model)
}

// output requests a document that follows a schema. If the schema cannot be made strict,
// the model is asked for it without being constrained.
func (w *chatBody) output() {
	out := w.req.Output
	if out == nil || w.c.dialect.noStrict {
		return
	}
	schema, strict := strictSchema(out.Schema)
	if !strict {
		var err error
		if schema, err = schemaOf(out.Schema); err != nil {
			w.err = fmt.Errorf("output %q: %w", out.Name, err)
			return
		}
	}
	if !w.key("response_format") {
		return
	}
	w.b = append(w.b, `{"type":"json_schema","json_schema":{"name":`...)
	w.b = rawjson.AppendString(w.b, toolName(cmp.Or(out.Name, "answer")))
	w.b = append(w.b, `,"strict":`...)
	w.b = strconv.AppendBool(w.b, strict)
	w.b = append(w.b, `,"schema":`...)
	w.b = append(w.b, schema...)
	w.b = append(w.b, `}}`...)
}

// tools writes the tools and the tool choice. With [WithXMLTools] the system prompt has
// both.
func (w *chatBody) tools() {
	if err := checkTools(w.req.Tools); err != nil {
		w.err = err
		return
	}
	if len(w.req.Tools) == 0 || w.c.xml != nil {
		return
	}
	if w.key("tools") {
		w.b = append(w.b, '[')
		for _, s := range w.req.Tools {
			w.b = appendChatTool(rawjson.AppendComma(w.b), s)
		}
		w.b = append(w.b, ']')
	}
	switch choice := w.req.ToolChoice; choice.Mode {
	case aycoder.ToolNone:
		w.field("tool_choice", "none")
	case aycoder.ToolAny:
		w.field("tool_choice", cmp.Or(w.c.dialect.anyTool, "required"))
	case aycoder.ToolNamed:
		name := rawjson.AppendString(nil, toolName(choice.Name))
		w.raw("tool_choice", `{"type":"function","function":{"name":`+string(name)+`}}`)
	}
}

// checkTools refuses tools that cannot be sent. It runs first, so that the functions that
// write a tool have no errors.
func checkTools(tools []*aycoder.ToolSpec) error {
	for i, s := range tools {
		if s == nil {
			return fmt.Errorf("tool %d is nil", i)
		}
		if _, err := schemaOf(s.Schema); err != nil {
			return fmt.Errorf("tool %q: %w", s.Name, err)
		}
	}
	return nil
}

// appendChatTool appends a validated tool.
func appendChatTool(b []byte, s *aycoder.ToolSpec) []byte {
	b = append(b, `{"type":"function","function":{`...)
	b = rawjson.AppendField(b, "name", toolName(s.Name))
	if s.Description != "" {
		b = rawjson.AppendField(b, "description", s.Description)
	}
	b = append(rawjson.AppendKey(b, "parameters"), argsSchema(s.Schema)...)
	return append(b, `}}`...)
}

// chatCacheMark marks the end of a cached prompt: "When set at the top level, the system
// automatically applies cache breakpoints to the last cacheable block in the request."
const chatCacheMark = `{"type":"ephemeral"}`

// marked reports whether the prompt is cached only up to an explicit mark.
func (w *chatBody) marked() bool {
	return w.c.dialect.cacheMarks && !w.req.NoCache && strings.HasPrefix(w.model, "anthropic/")
}

// chatMarked returns an encoded message with a cache mark at its end: on the last part of a user's
// content, or beside the content of an output, as OpenRouter's own SDK does.
func chatMarked(data []byte) []byte {
	end := "}]}"
	if endsWithTool(data) {
		end = "}"
	}
	block, ok := bytes.CutSuffix(data, []byte(end))
	if !ok {
		return data
	}
	return slices.Concat(block, []byte(`,"cache_control":`+chatCacheMark+end))
}

// messages appends the conversation, from its encoded messages. It also returns the piece of the
// last message of the user among the stable ones, or 0.
func (w *chatBody) messages(messages []*aycoder.Message, stable int) (p *api.Payload, last int, err error) {
	w.b = append(w.b, `,"messages":[`...)
	head := len(w.b)
	if err := w.system(); err != nil {
		return nil, 0, err
	}
	form := w.c.chatForm(w.model)
	form.lists = w.marked()
	key, encode := any(form), form.fragment // which is compared as a pointer is
	turns := &chatTurns{dialect: w.c.dialect, pieces: make([][]byte, 1, len(messages)+2)}
	for i, m := range messages {
		if m == nil {
			return nil, 0, fmt.Errorf("message %d is nil", i)
		}
		data, err := m.Encoded(key, encode)
		if err != nil {
			return nil, 0, fmt.Errorf("message %d: %w", i, err)
		}
		if data = fromUser(m, data, i == 0); len(data) > 0 {
			turns.add(data)
			if i < stable && m.Role == aycoder.RoleUser {
				last = len(turns.pieces) - 1
			}
		}
	}
	p = &api.Payload{Pieces: append(turns.pieces, []byte("]}"))}
	if len(w.b) == head && len(turns.pieces) > 1 {
		p.Pieces[1] = p.Pieces[1][1:] // no comma before the first
	}
	p.Pieces[0] = w.b
	return p, last, nil
}

// system appends the system message, if there is one. The blocks are separate parts only if
// cache marks are used, because most services accept only a string as the content.
func (w *chatBody) system() error {
	texts := make([]string, 0, 4)
	for i, t := range w.req.System {
		if t == nil {
			return fmt.Errorf("system block %d is nil", i)
		}
		if !blank(t.Text) {
			texts = append(texts, t.Text)
		}
	}
	if w.c.xml != nil && len(w.req.Tools) > 0 {
		texts = append(texts, w.c.xml.prompt(w.req.Tools, w.req.ToolChoice))
	}
	if len(texts) == 0 {
		return nil
	}
	w.b = append(w.b, `{"role":"system","content":`...)
	if !w.marked() {
		w.b = append(rawjson.AppendString(w.b, strings.Join(texts, "\n\n")), '}')
		return nil
	}
	w.b = append(w.b, '[')
	for i, t := range texts {
		w.b = rawjson.AppendField(append(rawjson.AppendComma(w.b), `{"type":"text",`...), "text", t)
		if i == len(texts)-1 {
			w.b = append(rawjson.AppendKey(w.b, "cache_control"), chatCacheMark...)
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, `]}`...)
	return nil
}

// chatForm returns the form in which messages are written for a model. Only Claude needs
// ids of calls that consist of plain characters; for other models a short id suffices.
func (c *settings) chatForm(model string) chatForm {
	f := chatForm{provider: c.Provider, dialect: c.dialect, field: c.echo, xml: c.xml}
	if f.ids == idPlain && !slices.ContainsFunc([]string{"claude", "anthropic"}, func(s string) bool {
		return strings.Contains(model, s)
	}) {
		f.ids = idShort
	}
	return f
}
