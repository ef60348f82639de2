package bedrock

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Messages in the form of the Converse API. It refuses blank texts, documents of equal
// names and messages without content, so these are changed or left out rather than sent.

// wireKey is the key of messages that are encoded for this API, with everything that
// their form depends on. No two documents of a conversation may have the same name, so
// their names contain the position of the message, which is 0 for a message without
// documents.
type wireKey struct {
	at    int
	plain bool
}

// hasMedia reports whether parts or outputs may contain documents.
func hasMedia(parts []aycoder.Part) bool {
	return slices.ContainsFunc(parts, func(p aycoder.Part) bool {
		switch p := p.(type) {
		case *aycoder.Media:
			return true
		case *aycoder.ToolOutput:
			return p != nil && hasMedia(p.Parts)
		}
		return false
	})
}

// wireRole returns the role of a message on the wire: a system message is the user's.
func wireRole(r aycoder.Role) aycoder.Role {
	if r == aycoder.RoleAssistant {
		return r
	}
	return aycoder.RoleUser
}

// fragment returns the content blocks of m, or nothing if no part of it can be sent.
func (k wireKey) fragment(m *aycoder.Message) ([]byte, error) {
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	w := &blocks{role: m.Role, key: k, b: make([]byte, 0, api.Room(m.Parts))}
	// Claude wants results before anything else that the user says.
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok && wireRole(m.Role) == aycoder.RoleUser {
			w.output(out)
		}
	}
	for _, p := range m.Parts {
		w.part(p)
	}
	// "If you include a ContentBlock with a document field in the array, you must also
	// include a ContentBlock with a text field."
	if w.documents > 0 && !w.texts {
		w.text(&aycoder.Text{Text: "[document]"})
	}
	return w.b, nil
}

// blocks is a list of content blocks under construction.
type blocks struct {
	b    []byte
	role aycoder.Role

	key       wireKey
	texts     bool // there are some
	documents int
}

// begin begins a block.
func (w *blocks) begin(s string) {
	w.b = append(rawjson.AppendComma(w.b), s...)
}

// part writes a part in the form of the Converse API. Blocks of other providers are left
// out.
func (w *blocks) part(p aycoder.Part) {
	switch p := p.(type) {
	case *aycoder.Text:
		w.text(p)
	case *aycoder.Thinking:
		w.thinking(p)
	case *aycoder.ToolUse:
		w.use(p)
	case *aycoder.Media:
		w.shown(p)
	case *aycoder.Opaque:
		if ours(p) && !(w.key.plain && rawjson.Split(bytes.TrimSpace(p.Raw)).Value("reasoningContent") != nil) {
			w.begin("")
			w.b = append(w.b, bytes.TrimSpace(p.Raw)...)
		}
	}
}

// text writes a text. The API has no system messages within a conversation, so such a text
// is marked.
func (w *blocks) text(t *aycoder.Text) {
	if blank(t.Text) {
		return
	}
	w.texts = true
	if extra := t.Extra; ours(extra) && w.role == aycoder.RoleAssistant {
		if cites := rawjson.Split(bytes.TrimSpace(extra.Raw)).Value("citations"); len(cites) > 0 {
			w.begin(`{"citationsContent":{"content":[{"text":`)
			w.b = rawjson.AppendString(w.b, t.Text)
			w.b = append(append(append(w.b, `}],"citations":`...), cites...), `}}`...)
			return
		}
	}
	w.begin(`{"text":"`)
	if w.role == aycoder.RoleSystem {
		w.b = append(w.b, `<system>\n`...)
	}
	w.b = rawjson.AppendEscaped(w.b, t.Text)
	if w.role == aycoder.RoleSystem {
		w.b = append(w.b, `\n</system>`...)
	}
	w.b = append(w.b, `"}`...)
}

// thinking is sent back only with the signature that proves its origin.
func (w *blocks) thinking(t *aycoder.Thinking) {
	if t.Provider != provider || t.Signature == "" || w.role != aycoder.RoleAssistant || w.key.plain {
		return
	}
	w.begin(`{"reasoningContent":{"reasoningText":{"text":`)
	w.b = rawjson.AppendString(w.b, t.Text)
	w.b = rawjson.AppendField(w.b, "signature", t.Signature)
	w.b = append(w.b, `}}}`...)
}

// use writes a call. The arguments of a truncated call may not be valid JSON, which the
// API refuses, so an empty object replaces them.
func (w *blocks) use(u *aycoder.ToolUse) {
	if w.role != aycoder.RoleAssistant {
		return
	}
	w.begin(`{"toolUse":{"toolUseId":`)
	w.b = api.AppendName(w.b, u.ID, maxName)
	w.b = append(w.b, `,"name":`...)
	w.b = api.AppendName(w.b, u.Name, maxName)
	w.b = append(w.b, `,"input":`...)
	if rawjson.IsObject(u.Args) {
		w.b = append(w.b, api.ValidUTF8(u.Args)...)
	} else {
		w.b = append(w.b, `{}`...)
	}
	w.b = append(w.b, `}}`...)
}

// output writes the result of a tool. Not all models accept one without content.
func (w *blocks) output(o *aycoder.ToolOutput) {
	w.begin(`{"toolResult":{"toolUseId":`)
	w.b = api.AppendName(w.b, o.ID, maxName)
	in := &blocks{b: append(w.b, `,"content":[`...), role: aycoder.RoleUser, key: w.key, documents: w.documents}
	before := len(in.b)
	for _, p := range o.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			in.text(p)
		case *aycoder.Media:
			in.shown(p)
		}
	}
	if len(in.b) == before {
		text := "no output"
		if o.IsError {
			text = "failed without a message"
		}
		in.text(&aycoder.Text{Text: text})
	}
	w.b, w.documents = append(in.b, ']'), in.documents
	if o.IsError && !w.key.plain {
		w.b = rawjson.AppendField(w.b, "status", "error")
	}
	w.b = append(w.b, `}}`...)
}

// formats maps the media types that the API accepts to a field and the API's name of the
// type.
var formats = map[string][2]string{
	"image/png": {"image", "png"}, "image/jpeg": {"image", "jpeg"}, "image/jpg": {"image", "jpeg"},
	"image/gif": {"image", "gif"}, "image/webp": {"image", "webp"},
	"application/pdf": {"document", "pdf"}, "text/csv": {"document", "csv"}, "text/html": {"document", "html"},
	"text/markdown": {"document", "md"}, "text/plain": {"document", "txt"},
	"application/msword": {"document", "doc"}, "application/vnd.ms-excel": {"document", "xls"},
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": {"document", "docx"},
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       {"document", "xlsx"},
	"video/mp4": {"video", "mp4"}, "video/quicktime": {"video", "mov"}, "video/webm": {"video", "webm"},
	"video/x-matroska": {"video", "mkv"}, "video/x-flv": {"video", "flv"}, "video/mpeg": {"video", "mpeg"},
	"video/x-ms-wmv": {"video", "wmv"}, "video/3gpp": {"video", "three_gp"},
}

// shown writes media. A type for which the API has no block is replaced by a text that
// names it, so that one odd file does not make the whole conversation unsendable.
func (w *blocks) shown(m *aycoder.Media) {
	if w.role == aycoder.RoleAssistant || w.media(m) {
		return
	}
	w.text(&aycoder.Text{Text: api.NotShown(m)})
}

// maxImage is how large an image may be, in bytes: "The image's size must be no more than 3.75 MB".
const maxImage = 3_750_000

// media writes a block, or reports that there is none for it.
func (w *blocks) media(m *aycoder.Media) bool {
	typ, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	typ = strings.TrimSpace(typ)
	f, known := formats[typ]
	if !known && strings.HasPrefix(typ, "text/") {
		f, known = formats["text/plain"], true
	}
	s3 := strings.HasPrefix(m.URL, "s3://")
	if !known || !s3 && (m.URL != "" || len(m.Data) == 0) || f[0] == "image" && len(m.Data) > maxImage {
		return false
	}
	w.begin(`{"` + f[0] + `":{"format":"` + f[1] + `"`)
	if f[0] == "document" {
		w.documents++
		w.b = rawjson.AppendField(w.b, "name", documentName(m, w.key.at, w.documents))
	}
	w.b = append(w.b, `,"source":{`...)
	if s3 {
		w.b = append(w.b, `"s3Location":{"uri":`...)
		w.b = append(rawjson.AppendString(w.b, m.URL), '}')
	} else {
		w.b = append(w.b, `"bytes":`...)
		w.b = rawjson.AppendBase64(w.b, m.Data)
	}
	w.b = append(w.b, `}}}`...)
	return true
}

// documentName returns a name that the API accepts: "alphanumeric characters, whitespace
// characters (no more than one in a row), hyphens, parentheses, square brackets". It ends
// with the positions of the message and of the document in it, which make it unique.
func documentName(m *aycoder.Media, at, n int) string {
	const most = 100
	var b strings.Builder
	for _, r := range m.Name {
		if b.Len() >= most {
			break
		}
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z',
			strings.ContainsRune("-()[]", r):
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	if b.Len() == 0 {
		b.WriteString("document")
	}
	return b.String() + "-" + strconv.Itoa(at+1) + "-" + strconv.Itoa(n)
}

// ours reports whether o belongs to this provider and can be sent.
func ours(o *aycoder.Opaque) bool {
	return o != nil && o.Provider == provider && utf8.Valid(o.Raw) && rawjson.IsObject(o.Raw)
}
