package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// A history as a list of items. One message of the conversation may be several items, and
// items of the service go back as they came, with their ids; those of other providers are
// written anew from their parts.

// respForm is the form of messages on the wire, and the key under which they are cached.
type respForm struct {
	owner  string
	quirks respQuirks
}

// maxCallID is the maximum length of a call id: "Expected a string with maximum length
// 64".
const maxCallID = 64

// respCallID shortens and cleans an id of another provider, in the same way each time, so
// that a call and its output still have the same id.
func respCallID(id string) string { return mapName(id, maxCallID, isNameByte) }

// respItems is a list of input items under construction.
type respItems struct {
	respForm
	b       []byte
	held    []byte // reasoning that is sent with the next item
	role    aycoder.Role
	content []respContent // of the open message
}

// A respContent is a part of a message: a text, or JSON.
type respContent struct {
	text string
	raw  []byte
}

// fragment returns the items of m, each with a leading comma. The result depends only on
// the form and the message, so it is cached in the message.
func (f respForm) fragment(m *aycoder.Message) ([]byte, error) {
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	w := &respItems{respForm: f, role: m.Role, b: make([]byte, 0, api.Room(m.Parts))}
	if m.Role == aycoder.RoleAssistant {
		w.assistant(m.Parts)
		return w.b, nil
	}
	w.role = aycoder.RoleUser
	if m.Role == aycoder.RoleSystem {
		w.role = aycoder.RoleSystem
	}
	for _, p := range m.Parts { // outputs of tools come right after the calls
		if out, ok := p.(*aycoder.ToolOutput); ok {
			w.output(out)
		}
	}
	for _, p := range m.Parts {
		w.part(p)
	}
	w.close()
	return w.b, nil
}

// begin begins an item. Reasoning is held until an item follows it: only then may it be
// sent.
func (w *respItems) begin(s string) {
	w.b = append(append(append(w.b, w.held...), ','), s...)
	w.held = nil
}

// assistant writes the parts of an answer, each as a separate item.
func (w *respItems) assistant(parts []aycoder.Part) {
	isCall := func(p aycoder.Part) bool { _, ok := p.(*aycoder.ToolUse); return ok }
	if w.quirks.callsLast {
		// Both halves keep their order.
		parts = slices.Concat(slices.DeleteFunc(slices.Clone(parts), isCall),
			slices.DeleteFunc(slices.Clone(parts), func(p aycoder.Part) bool { return !isCall(p) }))
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			w.said(p)
		case *aycoder.Thinking:
			w.thinking(p)
		case *aycoder.ToolUse:
			w.call(p)
		case *aycoder.Media:
			w.said(&aycoder.Text{Text: api.NotShown(p)})
		case *aycoder.Opaque:
			w.opaque(p)
		}
	}
}

// said writes a text of the model. A message with only a text has the simple form, which
// all services accept.
func (w *respItems) said(t *aycoder.Text) {
	if t.Text == "" {
		return
	}
	w.begin(`{"role":"assistant"`)
	w.b = rawjson.AppendField(w.b, "content", t.Text)
	var phase json.RawMessage
	if w.mine(t.Extra) {
		extra, _ := rawjson.Parse(t.Extra.Raw) // it was validated before
		phase = extra.Value("phase")
	}
	if len(phase) > 0 {
		w.b = append(rawjson.AppendKey(w.b, "phase"), phase...)
	}
	w.b = append(w.b, '}')
}

// thinking writes a reasoning item from the signature of its last part. Without its
// content, encrypted or not, the service would have to look it up, and did not store it.
// Nor may it be the last item: "Item … of type 'reasoning' was provided without its
// required following item."
func (w *respItems) thinking(t *aycoder.Thinking) {
	if t.Provider != w.owner || !strings.HasPrefix(t.Signature, "{") || !utf8.ValidString(t.Signature) {
		return
	}
	o, err := rawjson.Parse([]byte(t.Signature))
	if err != nil || string(o.Value("type")) != `"reasoning"` {
		return
	}
	sealed := len(o.Value("encrypted_content")) > 2 && o.Value("encrypted_content")[0] == '"'
	open := respHasItems(o.Value("content"))
	if !sealed && !open {
		return
	}
	drop := []string{"status"}
	if sealed && !w.quirks.ids {
		drop = append(drop, "id")
	}
	if !open {
		drop = append(drop, "content")
	}
	if o = o.Without(drop...); o.Value("summary") == nil {
		o.Set("summary", json.RawMessage(`[]`))
	}
	w.held = o.AppendTo(append(w.held, ','))
	if w.quirks.ids { // these services accept it anywhere, and send it last
		w.b, w.held = append(w.b, w.held...), nil
	}
}

// respHasItems reports whether raw is a list that is not empty.
func respHasItems(raw json.RawMessage) bool {
	return len(raw) > 2 && raw[0] == '[' && len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0
}

// call writes a call. Truncated arguments are sent as an empty object. The error that the
// tool returned for it tells the model what went wrong.
func (w *respItems) call(u *aycoder.ToolUse) {
	w.begin(`{"type":"function_call"`)
	w.b = rawjson.AppendField(w.b, "call_id", respCallID(u.ID))
	w.b = rawjson.AppendField(w.b, "name", toolName(u.Name))
	args := "{}"
	if rawjson.Valid(u.Args) {
		args = string(u.Args)
	}
	w.b = rawjson.AppendField(w.b, "arguments", args)
	if w.mine(u.Extra) {
		extra, _ := rawjson.Parse(u.Extra.Raw) // it was validated before
		for _, f := range extra {
			// The service accepts only these of the fields that it sends with a call. Others
			// are for the host to read: with them it answers "Unknown parameter".
			switch f.Key {
			case "status", "namespace", "caller":
				w.b = append(rawjson.AppendKey(w.b, f.Key), f.Val...)
			}
		}
	}
	w.b = append(w.b, '}')
}

// mine reports whether o belongs to this API and can be sent. A history may contain parts
// of any provider, or parts that a host has made.
func (w *respItems) mine(o *aycoder.Opaque) bool {
	return o != nil && o.Provider == w.owner && utf8.Valid(o.Raw) && rawjson.IsObject(o.Raw)
}

// opaque writes a server-side item, or one that the host created for the service, such as
// the answer to an approval request.
func (w *respItems) opaque(o *aycoder.Opaque) {
	if w.mine(o) {
		w.begin("")
		w.b = append(w.b, o.Raw...)
	}
}

// output writes the result of a tool: a string, or a list if it has other content.
func (w *respItems) output(o *aycoder.ToolOutput) {
	in := &respItems{respForm: w.respForm, role: aycoder.RoleUser}
	for _, p := range o.Parts {
		if _, ok := p.(*aycoder.Opaque); !ok {
			in.part(p)
		}
	}
	if o.IsError {
		in.failed(o)
	}
	var texts []string
	for _, c := range in.content {
		if c.raw == nil {
			texts = append(texts, c.text)
		}
	}
	w.begin(`{"type":"function_call_output"`)
	w.b = rawjson.AppendField(w.b, "call_id", respCallID(o.ID))
	w.b = rawjson.AppendKey(w.b, "output")
	if len(texts) == len(in.content) {
		w.b = rawjson.AppendString(w.b, strings.Join(texts, "\n"))
	} else {
		w.b = appendRespContent(w.b, in.content)
	}
	w.b = append(w.b, '}')
}

// failed marks the output of a failed tool in its text, because the API has no field for
// that.
func (w *respItems) failed(o *aycoder.ToolOutput) {
	if len(w.content) == 0 {
		w.text("failed without a message")
	} else if w.content[0].raw != nil {
		w.content = slices.Insert(w.content, 0, respContent{})
	}
	w.content[0].text = toolText(o, w.content[0].text)
}

// part adds a part of a message of the user or the system. Outputs of tools were already
// written before.
func (w *respItems) part(p aycoder.Part) {
	switch p := p.(type) {
	case *aycoder.Text:
		w.text(p.Text)
	case *aycoder.Media:
		w.media(p)
	case *aycoder.Opaque:
		w.close()
		w.opaque(p)
	}
}

// text adds a text, unless it is empty, which the service refuses.
func (w *respItems) text(s string) {
	if s != "" {
		w.content = append(w.content, respContent{text: s})
	}
}

// media adds an image or a document. A text document is sent as text, and a type that the
// API does not accept is replaced by a text that names it.
func (w *respItems) media(m *aycoder.Media) {
	typ := mediaType(m)
	switch {
	case len(m.Data) == 0 && m.URL == "" || w.role == aycoder.RoleSystem:
		w.text(api.NotShown(m))
	case isImage(typ):
		b := rawjson.AppendKey([]byte(`{"type":"input_image","detail":"auto"`), "image_url")
		w.content = append(w.content, respContent{raw: append(appendMediaURL(b, m, typ), '}')})
	case len(m.Data) > 0 && isText(typ) && utf8.Valid(m.Data):
		w.text(strings.TrimPrefix(m.Name+":\n"+string(m.Data), ":\n"))
	case respExtension(typ) != "":
		w.content = append(w.content, respContent{raw: appendRespFile(m, typ)})
	default:
		w.text(api.NotShown(m))
	}
}

// respFiles are the "accepted file types" other than text: those of office programs. The
// API refuses archives, audio, video and other images, and with them the whole
// conversation.
var respFiles = []struct{ typ, ext string }{
	{"application/pdf", "pdf"},
	{"application/msword", "doc"},
	{"application/rtf", "rtf"},
	{"application/vnd.ms-excel", "xls"},
	{"application/vnd.ms-powerpoint", "ppt"},
	{"application/vnd.oasis.opendocument.text", "odt"},
	{"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"},
	{"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"},
	{"application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"},
}

// respExtension returns the file name extension for a document, or "" if it cannot be
// sent.
func respExtension(typ string) string {
	for _, f := range respFiles {
		if f.typ == typ {
			return f.ext
		}
	}
	if !isText(typ) {
		return ""
	}
	return "txt"
}

// appendRespFile writes a file, by its content or by its address.
func appendRespFile(m *aycoder.Media, typ string) []byte {
	b := []byte(`{"type":"input_file"`)
	if len(m.Data) == 0 {
		return append(rawjson.AppendField(b, "file_url", m.URL), '}')
	}
	name := cmp.Or(m.Name, "file."+respExtension(typ)) // "filename" is required
	b = rawjson.AppendKey(rawjson.AppendField(b, "filename", name), "file_data")
	return append(appendMediaURL(b, m, typ), '}')
}

// close writes the open message. A single text is sent as a string, which all services
// accept.
func (w *respItems) close() {
	if len(w.content) == 0 {
		return
	}
	role := string(w.role)
	if w.role == aycoder.RoleSystem && w.quirks.developer {
		role = "developer"
	}
	w.begin(`{"role":"` + role + `","content":`)
	if len(w.content) == 1 && w.content[0].raw == nil {
		w.b = rawjson.AppendString(w.b, w.content[0].text)
	} else {
		w.b = appendRespContent(w.b, w.content)
	}
	w.b = append(w.b, '}')
	w.content = nil
}

// appendRespContent writes a content as a list of parts.
func appendRespContent(b []byte, content []respContent) []byte {
	b = append(b, '[')
	for _, c := range content {
		b = rawjson.AppendComma(b)
		if c.raw != nil {
			b = append(b, c.raw...)
			continue
		}
		b = append(rawjson.AppendField(append(b, `{"type":"input_text"`...), "text", c.text), '}')
	}
	return append(b, ']')
}
