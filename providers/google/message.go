package google

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// skipSignature replaces the signature that a call of another model lacks. It is the
// documented "skip_thought_signature_validator", in base64 because the field holds bytes.
const skipSignature = `"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="`

// A wireKey is the key of messages that are encoded for this API, with all settings that
// change their form.
type wireKey struct {
	provider string
	strict   bool // see [model.strict]
}

// encode returns the wire form of the parts of m, without brackets.
func (k wireKey) encode(m *aycoder.Message) ([]byte, error) {
	e := &encoder{key: k, nameOf: func(string) string { return "" }}
	return e.encode(m)
}

// An encoder writes the parts of one message.
type encoder struct {
	b      []byte
	key    wireKey
	role   aycoder.Role
	nameOf func(id string) string // names the tool of an output that does not
	calls  int
	media  []*aycoder.Media // media of outputs that cannot hold them
}

// speaker returns the role of a message on the wire, which has two.
func speaker(r aycoder.Role) aycoder.Role {
	if r == aycoder.RoleAssistant {
		return r
	}
	return aycoder.RoleUser
}

func (e *encoder) encode(m *aycoder.Message) ([]byte, error) {
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	e.role, e.b = m.Role, make([]byte, 0, api.Room(m.Parts))
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok && speaker(e.role) == aycoder.RoleUser {
			e.output(out)
		}
	}
	for _, md := range e.media {
		e.shown(md)
	}
	for _, p := range m.Parts {
		e.part(p)
	}
	return e.b, nil
}

func (e *encoder) part(p aycoder.Part) {
	switch p := p.(type) {
	case *aycoder.Text:
		e.text(p)
	case *aycoder.Thinking:
		e.thinking(p)
	case *aycoder.ToolUse:
		e.call(p)
	case *aycoder.Media:
		e.shown(p)
	case *aycoder.Opaque:
		e.opaque(p)
	}
}

// begin begins a part.
func (e *encoder) begin() { e.b = append(rawjson.AppendComma(e.b), '{') }

// end ends a part with its signature, if it has one.
func (e *encoder) end(signature []byte) {
	if len(signature) > 0 {
		e.b = append(rawjson.AppendKey(e.b, signatureField), signature...)
	}
	e.b = append(e.b, '}')
}

// text writes a text. An empty text is sent back if it is signed: "the signature may be
// in a part with empty text", and parts must be returned unchanged.
func (e *encoder) text(t *aycoder.Text) {
	sig := e.signature(t.Extra)
	if t.Text == "" && sig == nil {
		return
	}
	text := t.Text
	if e.role == aycoder.RoleSystem {
		text = "<system>\n" + text + "\n</system>"
	}
	e.begin()
	e.b = rawjson.AppendField(e.b, "text", text)
	e.end(sig)
}

// signature returns the signature of a part as JSON text, or nil.
func (e *encoder) signature(o *aycoder.Opaque) []byte {
	if e.role != aycoder.RoleAssistant || !e.ours(o) {
		return nil
	}
	fields, _ := rawjson.Parse(o.Raw) // ours has checked that it is an object
	if sig := fields.Value(signatureField); len(sig) > 2 && sig[0] == '"' {
		return sig
	}
	return nil
}

// ours reports whether o belongs to this service and can be sent.
func (e *encoder) ours(o *aycoder.Opaque) bool {
	return o != nil && o.Provider == e.key.provider && utf8.Valid(o.Raw) && rawjson.IsObject(o.Raw)
}

// thinking is sent back only with a signature: without one it is a summary for people.
func (e *encoder) thinking(t *aycoder.Thinking) {
	if t.Provider != e.key.provider || t.Signature == "" || e.role != aycoder.RoleAssistant {
		return
	}
	e.begin()
	if t.Text != "" {
		e.b = rawjson.AppendField(e.b, "text", t.Text)
	}
	e.b = append(rawjson.AppendKey(e.b, "thought"), "true"...)
	e.end(rawjson.AppendString(nil, t.Signature))
}

// call writes a call. From Gemini 3 on the first call of a turn must be signed: "If there
// are parallel function calls, the first one will contain a signature".
func (e *encoder) call(u *aycoder.ToolUse) {
	if e.role != aycoder.RoleAssistant {
		return
	}
	sig := e.signature(u.Extra)
	if sig == nil && e.calls == 0 && e.key.strict {
		sig = []byte(skipSignature)
	}
	e.calls++
	e.begin()
	e.b = append(rawjson.AppendKey(e.b, "functionCall"), '{')
	e.id(u.ID)
	e.b = rawjson.AppendField(e.b, "name", wireName(u.Name))
	e.b = rawjson.AppendKey(e.b, "args")
	if rawjson.IsObject(u.Args) {
		e.b = append(e.b, api.ValidUTF8(u.Args)...)
	} else {
		e.b = append(e.b, `{}`...)
	}
	e.b = append(e.b, '}')
	e.end(sig)
}

func (e *encoder) id(id string) {
	if id != "" {
		e.b = rawjson.AppendField(e.b, "id", id)
	}
}

// opaque sends a part back unchanged. Metadata about parts is not a part, and is not
// sent.
func (e *encoder) opaque(o *aycoder.Opaque) {
	if e.role != aycoder.RoleAssistant || !e.ours(o) {
		return
	}
	fields, _ := rawjson.Parse(o.Raw) // ours has checked that it is an object
	about := func(f rawjson.Field) bool { return slices.Contains(metadataFields, f.Key) }
	if len(fields) == 0 || slices.ContainsFunc(fields, about) {
		return
	}
	e.b = append(rawjson.AppendComma(e.b), o.Raw...)
}

// output writes the result of a tool. "Use "output" key to specify function output and
// "error" key to specify error details (if any)."
func (e *encoder) output(o *aycoder.ToolOutput) {
	name := o.Name
	if name == "" {
		name = e.nameOf(o.ID)
	}
	e.begin()
	e.b = append(rawjson.AppendKey(e.b, "functionResponse"), '{')
	e.id(o.ID)
	e.b = rawjson.AppendField(e.b, "name", wireName(name))
	e.b = append(rawjson.AppendKey(e.b, "response"), '{')
	field := "output"
	if o.IsError {
		field = "error"
	}
	e.b = rawjson.AppendField(e.b, field, outputText(o))
	e.b = append(e.b, '}')
	e.inside(o)
	e.b = append(e.b, "}}"...)
}

// outputText returns the text of an output, with one part on each line.
func outputText(o *aycoder.ToolOutput) string {
	var texts []string
	for _, p := range o.Parts {
		if t, ok := p.(*aycoder.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// inside writes the media that an output may contain: "image/png, image/jpeg, image/webp,
// application/pdf, text/plain". The others follow the outputs.
func (e *encoder) inside(o *aycoder.ToolOutput) {
	open := false
	for _, p := range o.Parts {
		m, ok := p.(*aycoder.Media)
		if !ok {
			continue
		}
		m = api.Inline(m)
		typ := mediaType(m)
		if !e.key.strict || m.URL != "" || len(m.Data) == 0 || !slices.Contains(insideTypes, typ) {
			e.media = append(e.media, m)
			continue
		}
		if !open {
			e.b = append(rawjson.AppendKey(e.b, "parts"), '[')
			open = true
		}
		e.begin()
		e.blob(m, typ)
		e.b = append(e.b, '}')
	}
	if open {
		e.b = append(e.b, ']')
	}
}

// shown writes an image, a document, audio or video. Media that the API does not accept
// are replaced by a text that names them, so that one odd file does not make the whole
// conversation unsendable; so are media that another model made.
func (e *encoder) shown(m *aycoder.Media) {
	m = api.Inline(m)
	typ := mediaType(m)
	switch {
	case e.role == aycoder.RoleAssistant, typ == "" && (m.URL == "" || m.Type != ""),
		api.IsData(m.URL):
	case m.URL != "":
		e.begin()
		e.b = append(rawjson.AppendKey(e.b, "fileData"), '{')
		if typ != "" {
			e.b = rawjson.AppendField(e.b, "mimeType", typ)
		}
		e.b = append(rawjson.AppendField(e.b, "fileUri", m.URL), "}}"...)
		return
	case len(m.Data) > 0:
		e.begin()
		e.blob(m, typ)
		e.b = append(e.b, '}')
		return
	}
	e.text(&aycoder.Text{Text: api.NotShown(m)})
}

func (e *encoder) blob(m *aycoder.Media, typ string) {
	e.b = append(rawjson.AppendKey(e.b, "inlineData"), '{')
	e.b = rawjson.AppendField(e.b, "mimeType", typ)
	e.b = rawjson.AppendBase64(rawjson.AppendKey(e.b, "data"), m.Data)
	e.b = append(e.b, '}')
}

// The media types that the API accepts besides audio/… and video/…, those that an output
// of a tool may contain, and text types under other names.
var (
	shownTypes = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
		"application/pdf", "text/plain", "text/html", "text/css", "text/csv", "text/xml",
		"text/rtf"}
	insideTypes = []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
	textTypes   = []string{"application/json", "application/xml", "application/yaml",
		"application/x-yaml", "application/toml", "application/javascript", "application/x-sh"}
)

// mediaType returns the type under which m is sent, or "" if the API does not accept it.
func mediaType(m *aycoder.Media) string {
	typ, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	typ = strings.TrimSpace(typ)
	switch {
	case typ == "image/jpg":
		return "image/jpeg"
	case strings.HasPrefix(typ, "audio/"), strings.HasPrefix(typ, "video/"),
		slices.Contains(shownTypes, typ):
		return typ
	case (strings.HasPrefix(typ, "text/") || slices.Contains(textTypes, typ)) && utf8.Valid(m.Data):
		return "text/plain"
	}
	return ""
}

// maxName is the maximum length of a tool name.
const maxName = 64

// wireName returns the name of a tool on the wire. "Must start with a letter or an
// underscore. Must be a-z, A-Z, 0-9, or contain underscores, dots and dashes, with a
// maximum length of 64."
func wireName(s string) string {
	if s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') {
		s = "t:" + s // a colon is not allowed, so this name is mapped
	}
	b := api.AppendName(make([]byte, 0, maxName+len(`""`)), s, maxName)
	if b = b[1 : len(b)-1]; string(b) == s {
		return s
	}
	return string(b)
}

// renamed returns the original names of the tools that are renamed, by their names on the
// wire.
func renamed(tools []*aycoder.ToolSpec) map[string]string {
	var names map[string]string
	for _, s := range tools {
		name := wireName(s.Name)
		if name == s.Name {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		names[name] = s.Name
	}
	return names
}

// signatureObject returns the Extra of a part with a signature, which is JSON text.
func signatureObject(signature string) json.RawMessage {
	return json.RawMessage(`{"` + signatureField + `":` + signature + `}`)
}
