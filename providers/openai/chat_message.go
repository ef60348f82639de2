package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Messages in the form of Chat Completions, as some dozen services understand it. The
// documents of the services agree on little more than text and calls. Their treatment of
// the rest was tried, or is known from their error messages, and is in the preset of each;
// this file asks only the preset.

// A chatForm produces the wire form of messages. It is also the key of the cached form,
// so it contains every setting that changes it.
type chatForm struct {
	provider string
	dialect
	field string // see WithThinkingField
	xml   textTools
	lists bool // the content of users is a list, even if it is one text, so that it can have a cache mark
}

// fragment returns the wire form of m, in which each message has a leading comma. It is
// empty if no part of m can be sent.
func (f chatForm) fragment(m *aycoder.Message) ([]byte, error) {
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	w := &chatWriter{chatForm: f, b: make([]byte, 0, api.Room(m.Parts))}
	switch m.Role {
	case aycoder.RoleAssistant:
		w.assistant(m)
	case aycoder.RoleSystem:
		w.system(m)
	default:
		w.user(m)
	}
	return w.b, nil
}

type chatWriter struct {
	chatForm
	b []byte
}

// begin begins a message, up to its content.
func (w *chatWriter) begin(role string) {
	w.b = append(w.b, `,{"role":"`...)
	w.b = append(w.b, role...)
	w.b = append(w.b, `","content":`...)
}

// say writes a message with one text.
func (w *chatWriter) say(role, text string) {
	w.begin(role)
	w.b = append(rawjson.AppendString(w.b, text), '}')
}

// system writes an instruction of the host.
func (w *chatWriter) system(m *aycoder.Message) {
	switch text := m.Text(); {
	case blank(text):
	case w.userSystem:
		w.say("user", "<system>\n"+text+"\n</system>")
	default:
		w.say("system", text)
	}
}

// user writes the outputs of tools, which must follow the calls, and then the user's
// content. A tool message holds only text, so images in an output follow in the user
// message.
func (w *chatWriter) user(m *aycoder.Message) {
	c := &chatContent{form: &w.chatForm}
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok {
			w.output(out, c)
		}
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			c.text(p.Text)
		case *aycoder.Media:
			c.media(p)
		}
	}
	if len(c.items) > 0 {
		if w.toolUser && len(w.b) > 0 {
			w.b = append(w.b, chatGlue[chatBetween]...)
		}
		w.begin("user")
		w.b = append(c.appendTo(w.b), '}')
	}
}

// output writes the result of a call, and adds its media to c.
func (w *chatWriter) output(o *aycoder.ToolOutput, c *chatContent) {
	own := &chatContent{form: &w.chatForm}
	for _, p := range o.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			own.text(p.Text)
		case *aycoder.Media:
			own.media(p)
		}
	}
	text := own.plain()
	if text == "" {
		text = outputInstead(o, own)
	}
	if w.xml != nil {
		c.text(w.xml.result(o, text))
	} else {
		w.begin("tool")
		w.b = rawjson.AppendString(w.b, toolText(o, text))
		w.b = rawjson.AppendField(w.b, "tool_call_id", w.id(o.ID))
		w.b = append(w.b, '}')
	}
	if own.shown > 0 {
		c.text("From the output of " + cmp.Or(o.Name, "call "+o.ID) + ":")
	}
	for _, it := range own.items {
		if it.part != nil {
			c.part(it.part)
		}
	}
}

// outputInstead is the text of an output without any: many services refuse an empty one.
func outputInstead(o *aycoder.ToolOutput, own *chatContent) string {
	switch {
	case own.shown > 0:
		return "(in the next message)"
	case o.IsError:
		return "failed without a message"
	}
	return "(no output)"
}

// id returns a call id in the form that the service accepts; it always maps an id to the
// same one.
func (w *chatWriter) id(id string) string {
	switch w.ids {
	case idNine: // "Tool call id must be a-z, A-Z, 0-9, with a length of 9"
		return nineID(id)
	case idPlain:
		return mapName(id, 64, isNameByte)
	}
	return mapName(id, 40, isPrintable) // "string too long. Expected a string with maximum length 40"
}

// assistant writes a message of the model. The API wants a content unless there are calls,
// where some services refuse an empty text and take null.
func (w *chatWriter) assistant(m *aycoder.Message) {
	a := w.sort(m)
	if a.text == "" && len(a.parts) == 0 && len(a.calls) == 0 && a.refusal == "" && len(a.details) == 0 {
		return
	}
	w.begin("assistant")
	switch {
	case len(a.parts) > 0:
		w.b = append(append(append(w.b, '['), a.parts...), ']')
	case a.text == "" && (len(a.calls) > 0 || a.refusal != ""):
		w.b = append(w.b, `null`...)
	default:
		w.b = rawjson.AppendString(w.b, a.text)
	}
	if a.refusal != "" {
		w.b = rawjson.AppendField(w.b, "refusal", a.refusal)
	}
	w.reasoning(a)
	if len(a.details) > 0 {
		w.b = append(rawjson.AppendKey(w.b, "reasoning_details"), '[')
		w.b = append(append(w.b, a.details...), ']')
	}
	if len(a.calls) > 0 {
		w.b = append(rawjson.AppendKey(w.b, "tool_calls"), '[')
		for _, u := range a.calls {
			w.b = rawjson.AppendComma(w.b)
			w.call(u)
		}
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, '}')
}

// chatSaid is the content of an assistant message, by destination.
type chatSaid struct {
	text, thinking string
	refusal        string
	parts          []byte // of the content, if it includes thinking
	details        []byte // of reasoning_details
	calls          []*aycoder.ToolUse
}

// sort distributes the parts of a message. Parts of other providers are left out.
func (w *chatWriter) sort(m *aycoder.Message) *chatSaid {
	a := &chatSaid{}
	var text, thinking strings.Builder
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			if w.refuses(p) {
				a.refusal += p.Text
				continue
			}
			text.WriteString(p.Text)
		case *aycoder.Thinking:
			if p.Provider == w.provider {
				thinking.WriteString(p.Text)
			}
		case *aycoder.Opaque:
			if p.Provider == w.provider {
				a.opaque(p.Raw)
			}
		case *aycoder.ToolUse:
			if w.xml != nil {
				text.WriteString(w.xml.call(p))
				continue
			}
			a.calls = append(a.calls, p)
		}
	}
	if a.text, a.thinking = text.String(), thinking.String(); blank(a.text) {
		a.text = "" // gateways to Anthropic's models refuse blank text
	}
	if w.echo == echoParts && a.thinking != "" {
		a.thinkingParts()
	}
	return a
}

// refuses reports whether the text is a refusal, which has a separate field.
func (w *chatWriter) refuses(t *aycoder.Text) bool {
	if t.Extra == nil || t.Extra.Provider != w.provider {
		return false
	}
	o, err := rawjson.Parse(t.Extra.Raw)
	return err == nil && string(o.Value("type")) == `"refusal"`
}

// opaque adds the reasoning details that the decoder kept.
func (a *chatSaid) opaque(raw json.RawMessage) {
	o, err := rawjson.Parse(raw)
	if err != nil || !utf8.Valid(raw) {
		return
	}
	d := o.Value("reasoning_details")
	if len(d) < 2 || d[0] != '[' {
		return
	}
	if d = bytes.TrimSpace(d[1 : len(d)-1]); len(d) > 0 {
		if len(a.details) > 0 {
			a.details = append(a.details, ',')
		}
		a.details = append(a.details, d...)
	}
}

// thinkingParts makes the content a list that includes the thinking.
func (a *chatSaid) thinkingParts() {
	b := append(a.parts, `{"type":"thinking","thinking":[{"type":"text","text":`...)
	b = append(rawjson.AppendString(b, a.thinking), `}]}`...)
	if a.text != "" {
		b = append(rawjson.AppendString(append(b, `,{"type":"text","text":`...), a.text), '}')
	}
	a.parts = b
}

// reasoning writes the thinking before calls, for services that want it back.
func (w *chatWriter) reasoning(a *chatSaid) {
	name := w.field
	if name == "" && (w.echo == echoCalls || w.echo == echoAlways) {
		name = "reasoning_content"
	}
	if name == "" || len(a.calls) == 0 || a.thinking == "" && w.echo != echoAlways {
		return
	}
	w.b = rawjson.AppendField(w.b, name, a.thinking)
}

// call writes a call. Arguments that are not an object, such as those of a truncated
// call, are sent as an empty object.
func (w *chatWriter) call(u *aycoder.ToolUse) {
	w.b = rawjson.AppendField(append(w.b, '{'), "id", w.id(u.ID))
	if input, ok := chatCustomInput(u, w.provider); ok {
		w.b = append(w.b, `,"type":"custom","custom":{`...)
		w.b = rawjson.AppendField(w.b, "name", toolName(u.Name))
		w.b = rawjson.AppendField(w.b, "input", input)
		w.b = append(w.b, `}}`...)
		return
	}
	args := "{}"
	if rawjson.IsObject(u.Args) {
		args = string(u.Args)
	}
	w.b = append(w.b, `,"type":"function","function":{`...)
	w.b = rawjson.AppendField(w.b, "name", toolName(u.Name))
	w.b = rawjson.AppendField(w.b, "arguments", args)
	w.b = append(w.b, '}')
	w.extraContent(u)
	w.b = append(w.b, '}')
}

// chatCustomInput returns the input of a call of a custom tool, which is plain text
// rather than JSON.
func chatCustomInput(u *aycoder.ToolUse, provider string) (string, bool) {
	if u.Extra == nil || u.Extra.Provider != provider || string(u.Extra.Raw) != chatCustomCall {
		return "", false
	}
	var args struct{ Input string }
	err := json.Unmarshal(u.Args, &args)
	return args.Input, err == nil
}

// nineID maps an id to nine letters and digits.
func nineID(id string) string {
	plain := len(id) == 9
	for i := range len(id) {
		plain = plain && isNameByte(id[i]) && id[i] != '_' && id[i] != '-'
	}
	if plain {
		return id
	}
	// mapName appends a hash; nine digits in base 36 hold 46 bits of it.
	name := mapName(id+" ", 40, isNameByte)
	_, sum, _ := cutLast(name, "_")
	n, _ := strconv.ParseUint(sum, 16, 64) // it is a valid number
	s := "00000000" + strconv.FormatUint(n, 36)
	return s[len(s)-9:]
}

// chatContent is the content of a user message.
type chatContent struct {
	form  *chatForm
	items []chatItem
	shown int // number of items that are not text
}

// A chatItem is a text or a part of another type.
type chatItem struct {
	text string
	part []byte
}

// text adds a text, unless it is blank: Anthropic's models, behind this API, refuse blank
// texts.
func (c *chatContent) text(s string) {
	if !blank(s) {
		c.items = append(c.items, chatItem{text: s})
	}
}

// part adds a part that is not text. The output of a tool cannot hold one, so it is shown
// in the message behind it.
func (c *chatContent) part(b []byte) {
	c.items = append(c.items, chatItem{part: b})
	c.shown++
}

// plain returns the concatenated text.
func (c *chatContent) plain() string {
	var texts []string
	for _, it := range c.items {
		if it.part == nil {
			texts = append(texts, it.text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// appendTo appends the content: a string, or a list if it includes media.
func (c *chatContent) appendTo(b []byte) []byte {
	if c.shown == 0 && !c.form.lists {
		return rawjson.AppendString(b, c.plain())
	}
	b = append(b, '[')
	for _, it := range c.items {
		b = rawjson.AppendComma(b)
		if it.part != nil {
			b = append(b, it.part...)
			continue
		}
		b = append(b, `{"type":"text","text":`...)
		b = append(rawjson.AppendString(b, it.text), '}')
	}
	return append(b, ']')
}

// media adds an image or a document, or a text that names it.
func (c *chatContent) media(m *aycoder.Media) {
	typ := mediaType(m)
	inline := len(m.Data) > 0
	switch {
	case !inline && m.URL == "":
	case isImage(typ) && !c.form.noImages:
		b := appendMediaURL([]byte(`{"type":"image_url","image_url":{"url":`), m, typ)
		c.part(append(b, `}}`...))
		return
	case inline && isText(typ):
		c.text(string(m.Data))
		return
	case typ == "application/pdf" && c.document(m, typ), inline && c.audio(m, typ):
		return
	}
	c.text(api.NotShown(m))
}

// document adds a document in the form of the service, and reports whether it takes
// documents at all.
func (c *chatContent) document(m *aycoder.Media, typ string) bool {
	var b []byte
	switch {
	case c.form.files == fileURL:
		b = append(appendMediaURL([]byte(`{"type":"document_url","document_url":`), m, typ), '}')
	case c.form.files == fileData && len(m.Data) > 0: // the services do not fetch files from URLs
		b = rawjson.AppendField([]byte(`{"type":"file","file":{`), "filename", cmp.Or(m.Name, "document.pdf"))
		b = appendMediaURL(rawjson.AppendKey(b, "file_data"), m, typ)
		b = append(b, `}}`...)
	default:
		return false
	}
	c.part(b)
	return true
}

// audio adds audio; the API accepts "wav" and "mp3".
func (c *chatContent) audio(m *aycoder.Media, typ string) bool {
	formats := map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
	format, ok := formats[typ]
	if !ok || c.form.files == fileNever {
		return false
	}
	b := rawjson.AppendBase64([]byte(`{"type":"input_audio","input_audio":{"data":`), m.Data)
	b = rawjson.AppendField(b, "format", format)
	c.part(append(b, `}}`...))
	return true
}
