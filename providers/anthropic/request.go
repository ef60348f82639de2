package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// minBudget is the minimum of the API: "budget_tokens: Must be ≥1024 and less than
// max_tokens."
const minBudget = 1024

// outputField is the field with the format of the answer, among other settings.
const outputField = "output_config"

// A body is a request under construction. The order of its fields depends only on which
// of them are set; messages come last, and the bytes before them do not change from step
// to step.
type body struct {
	b     []byte
	req   *aycoder.Request
	cache string // the cache_control object, or empty
	err   error

	adapts bool   // the model takes neither a budget nor a temperature
	silent bool   // it does not think unless asked to
	thinks bool   // thinking is on, by a field that we wrote
	effort string // how much to think, for a model that adapts
	wrote  string // the field of Extra that was already written
	prompt string // asks for an answer to which the API cannot be constrained
}

// encode returns the wire form of req.
func (c *Client) encode(req *aycoder.Request) (*api.Payload, error) {
	w := &body{b: make([]byte, 0, api.HeadRoom(req)), req: req}
	if !req.NoCache {
		w.cache = cacheControl(c.cfg.ttl)
	}
	adapts, byDefault := api.ClaudeAdapts(c.modelOf(req))
	w.adapts, w.silent = adapts, adapts && !byDefault
	w.head(&c.cfg, c.modelOf(req))
	w.limits(&c.cfg)
	format := w.format(c.FormatsOutput(c.modelOf(req)))
	w.system()
	w.tools()
	w.sampling()
	w.output(format)
	messages, stable := api.WithTail(req, api.ClaudeKeepsThinking(c.modelOf(req)))
	growing := w.cache != "" && len(req.Messages) > 0
	// The breakpoint that moves by itself would be behind the tail, and never hit.
	moves := c.cfg.at.option == "" && len(messages) == stable
	if growing && moves && w.key("cache_control") {
		w.b = append(w.b, w.cache...)
	}
	if w.err != nil {
		return nil, w.err
	}
	var err error
	if w.b, err = api.AppendExtra(w.b, w.extra(), "model", "stream", "messages", "anthropic_version"); err != nil {
		return nil, err
	}
	p, pieces, err := w.messages(messages, stable)
	if _, own := req.Extra["cache_control"]; growing && !moves && !own && err == nil {
		w.mark(p, pieces)
	}
	return p, err
}

// head writes the model. For a cloud, the URL names the model, and the body has a version
// instead.
func (w *body) head(c *config, model string) {
	w.b = append(w.b, '{')
	if c.at.option == "" {
		w.b = rawjson.AppendField(w.b, "model", model)
		return
	}
	w.b = rawjson.AppendField(w.b, "anthropic_version", c.at.version)
	if !c.at.bedrock || len(c.betas) == 0 || !w.key("anthropic_beta") {
		return
	}
	for i, name := range c.betas {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.b = rawjson.AppendString(w.b, name)
	}
	w.b = append(w.b, ']')
}

// cacheControl returns the mark of a cache breakpoint. Five minutes are the default of the
// API.
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

// rawKey begins a field that the caller cannot set.
func (w *body) rawKey(name string) {
	w.b = append(w.b, ',')
	w.b = rawjson.AppendString(w.b, name)
	w.b = append(w.b, ':')
}

// limits writes max_tokens and thinking. The API requires a budget below max_tokens. If
// the budget is not lower, max_tokens becomes the budget plus the length of the answer.
func (w *body) limits(c *config) {
	maxTokens := w.req.MaxTokens
	if maxTokens <= 0 {
		maxTokens = c.MaxTokens
	}
	budget := w.budget()
	if budget >= maxTokens {
		maxTokens = budget + min(maxTokens, math.MaxInt-budget)
	}
	if w.key("max_tokens") {
		w.b = strconv.AppendInt(w.b, int64(maxTokens), 10)
	}
	if !c.at.bedrock { // "stream: Extra inputs are not permitted"
		w.b = append(w.b, `,"stream":true`...)
	}
	if budget != 0 && (budget > 0 || !w.silent) && w.key("thinking") {
		w.thinking(budget)
	}
}

// thinking turns thinking on or off. Models that adapt take an effort in place of a number
// of tokens.
func (w *body) thinking(budget int) {
	switch w.thinks = budget > 0; {
	case !w.thinks:
		w.b = append(w.b, `{"type":"disabled"}`...)
	case w.adapts: // such models omit their thinking unless it is requested
		w.b = append(w.b, `{"type":"adaptive","display":"summarized"}`...)
		w.effort = api.ClaudeEffort(budget)
	default:
		w.b = append(w.b, `{"type":"enabled","budget_tokens":`...)
		w.b = append(strconv.AppendInt(w.b, int64(budget), 10), '}')
	}
}

// budget returns the thinking budget: 0 leaves it to the model, a negative value turns
// thinking off. "Thinking may not be enabled when tool_choice forces tool use."
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

// system writes the system prompt, with the cache breakpoint at its last block: everything
// before that is the same in each request.
func (w *body) system() {
	system, last := w.req.System, -1
	if w.prompt != "" {
		system = append(slices.Clip(system), &aycoder.Text{Text: w.prompt})
	}
	for i, t := range system {
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
	for i, t := range system[:last+1] {
		if blank(t.Text) {
			continue
		}
		w.b = append(w.b, `{"type":"text","text":`...)
		w.b = rawjson.AppendString(w.b, t.Text)
		if i < last {
			w.b = append(w.b, `},`...)
		}
	}
	w.closeCached()
	w.b = append(w.b, ']')
}

// closeCached ends an object that is a cache breakpoint.
func (w *body) closeCached() {
	if w.cache != "" {
		w.b = append(w.b, `,"cache_control":`...)
		w.b = append(w.b, w.cache...)
	}
	w.b = append(w.b, '}')
}

// tools writes the tools and the tool choice.
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
		choice = string(api.AppendName([]byte(`{"type":"tool","name":`), w.req.ToolChoice.Name, maxName)) + "}"
	}
	if choice != "" && w.key("tool_choice") {
		w.b = append(w.b, choice...)
	}
}

// sampling writes the temperature and the stop sequences, as far as the model takes them.
func (w *body) sampling() {
	if t := w.req.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			w.err = fmt.Errorf("temperature %v is not a number", *t)
			return
		}
		// "temperature may only be set to 1 when thinking is enabled."
		if (*t == 1 || !w.thinks) && !w.adapts && w.key("temperature") {
			w.b = strconv.AppendFloat(w.b, *t, 'f', -1, 64)
		}
	}
	if len(w.req.Stop) == 0 || !w.key("stop_sequences") {
		return
	}
	for i, s := range w.req.Stop {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.b = rawjson.AppendString(w.b, s)
	}
	w.b = append(w.b, ']')
}

// format returns the schema of the answer in the form that the API requires. If the
// schema cannot be converted, the system prompt asks for the format in words.
func (w *body) format(native bool) []byte {
	out := w.req.Output
	if out == nil || !native {
		return nil
	}
	schema, err := api.CloseSchema(out.Schema)
	switch {
	case err == nil:
		return api.ValidUTF8(schema)
	case !rawjson.IsObject(out.Schema):
		w.err = fmt.Errorf("output %q: %w", out.Name, err)
	default:
		w.prompt = api.OutputPrompt(api.ValidUTF8(out.Schema))
	}
	return nil
}

// output writes the format of the answer and the thinking effort, beside the contents of
// the same field in Extra.
func (w *body) output(schema []byte) {
	if schema == nil && w.effort == "" || w.err != nil {
		return
	}
	var o rawjson.Object
	if own := w.req.Extra[outputField]; rawjson.IsObject(own) {
		o, _ = rawjson.Parse(api.ValidUTF8(own)) // it is valid JSON
	}
	if w.effort != "" && o.Value("effort") == nil {
		o.Set("effort", rawjson.AppendString(nil, w.effort))
	}
	if schema != nil && o.Value("format") == nil {
		o.Set("format", slices.Concat([]byte(`{"type":"json_schema","schema":`), schema, []byte(`}`)))
	}
	w.rawKey(outputField)
	w.b = o.AppendTo(w.b)
	w.wrote = outputField
}

// extra returns the caller's fields that were not written yet.
func (w *body) extra() map[string]json.RawMessage {
	if w.wrote == "" {
		return w.req.Extra
	}
	rest := maps.Clone(w.req.Extra)
	delete(rest, w.wrote)
	return rest
}

// messages appends the conversation, from its encoded messages. It also returns the number of
// pieces that hold the stable ones.
func (w *body) messages(messages []*aycoder.Message, stable int) (*api.Payload, int, error) {
	w.b = append(w.b, `,"messages":[`...)
	p := &api.Payload{Pieces: make([][]byte, 1, len(messages)+2)}
	pieces := 1
	form := wireKey{compacts(w.req)}
	key, encode := any(form), form.encode
	for i, m := range messages {
		if m == nil {
			return nil, 0, fmt.Errorf("message %d is nil", i)
		}
		data, err := m.Encoded(key, encode)
		if err != nil {
			return nil, 0, fmt.Errorf("message %d: %w", i, err)
		}
		if len(data) > 0 && len(p.Pieces) == 1 {
			data = data[1:] // no comma before the first
		}
		if len(data) > 0 {
			p.Pieces = append(p.Pieces, data)
		}
		if i < stable {
			pieces = len(p.Pieces)
		}
	}
	p.Pieces[0] = w.b
	p.Pieces = append(p.Pieces, []byte("]}"))
	return p, pieces, nil
}

// mark sets a cache breakpoint on the last user message among the first pieces, if the breakpoint
// cannot move by itself. Apart from this mark, the body up to the tail is the beginning of the next
// step's body.
func (w *body) mark(p *api.Payload, pieces int) {
	const user, end = `{"role":"user"`, "}]}"
	for i, data := range slices.Backward(p.Pieces[:pieces]) {
		if i == 0 || !bytes.HasPrefix(bytes.TrimPrefix(data, []byte(",")), []byte(user)) {
			continue
		}
		block, ok := bytes.CutSuffix(data, []byte(end))
		if ok && !bytes.Contains(data, []byte(`"cache_control"`)) {
			marked := []byte(`,"cache_control":` + w.cache + end)
			p.Pieces = slices.Replace(p.Pieces, i, i+1, block, marked)
		}
		return
	}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// tool writes a tool, without the closing brace.
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

// appendTool writes a tool. The same tool gives the same bytes, or the prompt cache would
// miss.
func appendTool(b []byte, s *aycoder.ToolSpec) ([]byte, error) {
	b = append(b, `{"name":`...)
	b = api.AppendName(b, s.Name, maxName)
	if s.Description != "" {
		b = append(b, `,"description":`...)
		b = rawjson.AppendString(b, s.Description)
	}
	schema, err := api.ObjectSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	b = append(b, `,"input_schema":`...)
	return append(b, schema...), nil
}
