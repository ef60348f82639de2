package bedrock

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

const (
	// maxName is the longest id or name that the API accepts.
	maxName = 64
	// minBudget is the minimum thinking budget of Claude, and thinkingTokens the length
	// of the answer beside it if the request sets no limit.
	minBudget      = 1024
	thinkingTokens = 8192

	cachePoint = `{"cachePoint":{"type":"default"}}`
	moreFields = "additionalModelRequestFields"
)

// The request of the Converse API. Fields that only one vendor's models know, such as
// thinking, go into a separate document, which Amazon passes to the model unread.

// A body is a request under construction. The order of its fields depends only on which
// of them are set; messages come last.
type body struct {
	b     []byte
	req   *aycoder.Request
	model model
	err   error

	thinks bool   // Claude thinks, by a field that we wrote
	prompt string // asks for an answer to which the API cannot be constrained
}

// encode returns the wire form of req.
func (c *Client) encode(req *aycoder.Request) (*api.Payload, error) {
	name := cmp.Or(req.Model, c.model)
	w := &body{b: append(make([]byte, 0, api.HeadRoom(req)), '{'), req: req, model: modelOf(name)}
	maxTokens := w.thinking(cmp.Or(max(req.MaxTokens, 0), c.cfg.MaxTokens))
	w.inference(maxTokens)
	w.output(c.FormatsOutput(name))
	w.system()
	if err := w.tools(); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	var err error
	if w.b, err = api.AppendExtra(w.b, req.Extra, "modelId", "messages"); err != nil {
		return nil, err
	}
	return w.messages()
}

// key begins a field, unless Extra sets it.
func (w *body) key(name string) bool {
	if _, ok := w.req.Extra[name]; ok {
		return false
	}
	w.b = rawjson.AppendKey(w.b, name)
	return true
}

// thinking writes the model's setting for thinking, and returns the maximum length of the
// answer in tokens. Claude requires a budget below that length, so a larger budget raises
// the length.
func (w *body) thinking(maxTokens int) int {
	n := w.req.Thinking
	if n <= 0 || w.model.thinking == nil || w.model.claude && w.forced() || !w.key(moreFields) {
		return maxTokens
	}
	if w.model.claude {
		w.thinks = true
		n = max(n, minBudget)
		maxTokens = cmp.Or(maxTokens, thinkingTokens)
		if n >= maxTokens {
			maxTokens = n + min(maxTokens, math.MaxInt-n)
		}
	}
	w.b = w.model.thinking(w.b, n)
	return maxTokens
}

// forced reports whether the model must call a tool: "Thinking may not be enabled when
// tool_choice forces tool use."
func (w *body) forced() bool {
	mode := w.req.ToolChoice.Mode
	return len(w.req.Tools) > 0 && (mode == aycoder.ToolAny || mode == aycoder.ToolNamed)
}

// inference writes the settings that are the same for all models: the limit of the
// answer, the temperature and the stop sequences.
func (w *body) inference(maxTokens int) {
	in := []byte{'{'}
	if maxTokens > 0 {
		in = rawjson.AppendIntField(in, "maxTokens", int64(maxTokens))
	}
	if t := w.req.Temperature; t != nil {
		if math.IsNaN(*t) || math.IsInf(*t, 0) {
			w.err = fmt.Errorf("temperature %v is not a number", *t)
			return
		}
		// "temperature may only be set to 1 when thinking is enabled."
		if (*t == 1 || !w.thinks) && !w.model.adapts {
			in = strconv.AppendFloat(rawjson.AppendKey(in, "temperature"), *t, 'f', -1, 64)
		}
	}
	if len(w.req.Stop) > 0 {
		in = append(rawjson.AppendKey(in, "stopSequences"), '[')
		for _, s := range w.req.Stop {
			in = rawjson.AppendString(rawjson.AppendComma(in), s)
		}
		in = append(in, ']')
	}
	if len(in) > 1 && w.key("inferenceConfig") {
		w.b = append(append(w.b, in...), '}')
	}
}

// output constrains the answer to a schema, or asks for it in words if the API cannot
// express the schema.
func (w *body) output(native bool) {
	out := w.req.Output
	if out == nil || !native {
		return
	}
	schema, err := api.CloseSchema(out.Schema)
	switch {
	case err == nil:
	case !rawjson.IsObject(out.Schema):
		w.err = fmt.Errorf("output %q: %w", out.Name, err)
		return
	default:
		w.prompt = api.OutputPrompt(api.ValidUTF8(out.Schema))
		return
	}
	if !w.key("outputConfig") {
		return
	}
	w.b = append(w.b, `{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"name":`...)
	w.b = api.AppendName(w.b, out.Name, maxName)
	w.b = rawjson.AppendField(w.b, "schema", string(schema))
	w.b = append(w.b, `}}}}`...)
}

// system writes the system prompt, with a cache breakpoint at its end. Everything up to
// there is the same in each request of a conversation.
func (w *body) system() {
	list := []byte{'['}
	for i, t := range w.req.System {
		if t == nil {
			w.err = fmt.Errorf("system block %d is nil", i)
			return
		}
		list = appendText(list, t.Text)
	}
	list = appendText(list, w.prompt)
	if len(list) == 1 || !w.key("system") {
		return
	}
	if w.caches() {
		list = append(append(list, ','), cachePoint...)
	}
	w.b = append(append(w.b, list...), ']')
}

// appendText appends a block to a list. "The text field in the ContentBlock object …
// is blank" is an error.
func appendText(b []byte, s string) []byte {
	if blank(s) {
		return b
	}
	b = append(rawjson.AppendComma(b), '{')
	return append(rawjson.AppendField(b, "text", s), '}')
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// caches reports whether cache breakpoints are set.
func (w *body) caches() bool { return !w.req.NoCache && w.model.caches }

// tools writes the tools and the tool choice.
func (w *body) tools() error {
	if _, own := w.req.Extra["toolConfig"]; own {
		return nil
	}
	tools := w.offered()
	if len(tools) == 0 {
		return nil
	}
	w.b = append(rawjson.AppendKey(w.b, "toolConfig"), `{"tools":[`...)
	for i, s := range tools {
		if s == nil {
			return fmt.Errorf("tool %d is nil", i)
		}
		if err := w.tool(s); err != nil {
			return fmt.Errorf("tool %q: %w", s.Name, err)
		}
	}
	if w.caches() && w.model.claude {
		w.b = append(append(w.b, ','), cachePoint...)
	}
	w.b = append(w.b, ']')
	switch {
	case w.req.ToolChoice.Mode == aycoder.ToolAny && len(w.req.Tools) > 0:
		w.b = append(w.b, `,"toolChoice":{"any":{}}`...)
	case w.req.ToolChoice.Mode == aycoder.ToolNamed && len(w.req.Tools) > 0:
		w.b = append(w.b, `,"toolChoice":{"tool":{"name":`...)
		w.b = append(api.AppendName(w.b, w.req.ToolChoice.Name, maxName), `}}`...)
	}
	w.b = append(w.b, '}')
	return nil
}

// offered returns the tools of the request. If there are none, or none may be called, it
// returns those that a conversation with calls requires: "The toolConfig field must be
// defined when using toolUse and toolResult content blocks."
func (w *body) offered() []*aycoder.ToolSpec {
	tools := w.req.Tools
	if len(tools) > 0 && w.req.ToolChoice.Mode != aycoder.ToolNone {
		return tools
	}
	used := usedTools(w.req.Messages)
	if len(used) == 0 || len(tools) == 0 {
		return used
	}
	return tools
}

// tool writes a tool. The same tool always gives the same bytes, or the prompt cache
// would miss.
func (w *body) tool(s *aycoder.ToolSpec) error {
	schema, err := api.ObjectSchema(s.Schema)
	if err != nil {
		return err
	}
	w.b = append(rawjson.AppendComma(w.b), `{"toolSpec":{"name":`...)
	w.b = api.AppendName(w.b, s.Name, maxName)
	if !blank(s.Description) {
		w.b = rawjson.AppendField(w.b, "description", s.Description)
	}
	w.b = append(w.b, `,"inputSchema":{"json":`...)
	w.b = append(append(w.b, schema...), `}}}`...)
	return nil
}

// usedTools returns the tools that were called in a conversation; only their names are
// known.
func usedTools(messages []*aycoder.Message) (used []*aycoder.ToolSpec) {
	seen := map[string]bool{}
	for _, m := range messages {
		if m == nil {
			continue
		}
		for _, p := range m.Parts {
			name := usedTool(p)
			if name == "" || seen[name] {
				continue
			}
			seen[name] = true
			used = append(used, &aycoder.ToolSpec{Name: name})
		}
	}
	return used
}

// usedTool returns the name of the tool of a call or an output, or "".
func usedTool(p aycoder.Part) string {
	switch p := p.(type) {
	case *aycoder.ToolUse:
		if p != nil {
			return p.Name
		}
	case *aycoder.ToolOutput:
		if p != nil {
			return p.Name
		}
	}
	return ""
}

// messages appends the conversation, from its encoded messages. "A conversation must
// alternate between user and assistant roles": consecutive messages of one role are
// joined. The last cache breakpoint is before the tail.
func (w *body) messages() (*api.Payload, error) {
	if len(w.b) > 1 {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, `"messages":[`...)
	messages, stable := api.WithTail(w.req, w.model.keeps)
	p := &api.Payload{Pieces: make([][]byte, 1, 2*len(messages)+3)}
	role, lastUser := aycoder.Role(""), 0
	k := wireKey{plain: w.model.plain}
	key, encode := any(k), k.fragment
	for i, m := range messages {
		if m == nil {
			return nil, fmt.Errorf("message %d is nil", i)
		}
		key, encode := key, encode
		if hasMedia(m.Parts) {
			k := wireKey{at: i, plain: w.model.plain}
			key, encode = k, k.fragment
		}
		data, err := m.Encoded(key, encode)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(data) == 0 {
			continue
		}
		p.Pieces = append(p.Pieces, between(role, wireRole(m.Role)), data)
		if role = wireRole(m.Role); role == aycoder.RoleUser && i < stable {
			lastUser = len(p.Pieces)
		}
	}
	if lastUser > 0 && w.caches() {
		p.Pieces = slices.Insert(p.Pieces, lastUser, []byte(","+cachePoint))
	}
	end := "]}]}"
	if role == "" {
		end = "]}"
	}
	p.Pieces[0] = w.b
	p.Pieces = append(p.Pieces, []byte(end))
	return p, nil
}

// turns are the bytes that end the previous message and begin a message of the given
// role.
var turns = map[aycoder.Role][]byte{
	aycoder.RoleUser:      []byte(`]},{"role":"user","content":[`),
	aycoder.RoleAssistant: []byte(`]},{"role":"assistant","content":[`),
}

// between returns the bytes between a message and the previous one, if any.
func between(before, role aycoder.Role) []byte {
	const end = "]}"
	switch before {
	case role:
		return turns[role][len(end) : len(end)+1] // the comma
	case "":
		first := ""
		if role == aycoder.RoleAssistant { // "A conversation must start with a user message."
			first = `{"role":"user","content":[{"text":"(The conversation began before this.)"}]},`
		}
		return append([]byte(first), turns[role][len(end)+1:]...)
	}
	return turns[role]
}
