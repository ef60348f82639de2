package anthropic

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxName is the longest id or name that the API takes.
const maxName = 128

// wireKey is the key of messages that are encoded for this API, with the only setting that changes the
// form of a message.
type wireKey struct {
	compacts bool // blocks in which the service has summarised the conversation are sent as its own, see [compacts]
}

// encode returns the wire form of m with a leading comma, or nothing if no part of
// it can be sent: the API refuses a message without content.
func (k wireKey) encode(m *aycoder.Message) ([]byte, error) {
	role := aycoder.RoleUser
	if m.Role == aycoder.RoleAssistant {
		role = aycoder.RoleAssistant
	}
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	w := &blocks{b: append(make([]byte, 0, api.Room(m.Parts)), `,{"role":"`...), role: m.Role, wireKey: k}
	w.b = append(append(w.b, role...), `","content":[`...)
	// "In the user message containing tool results, the tool_result blocks must come
	// FIRST in the content array. Any text must come AFTER all tool results."
	for _, p := range m.Parts {
		if out, ok := p.(*aycoder.ToolOutput); ok && role == aycoder.RoleUser {
			w.output(out)
		}
	}
	for _, p := range m.Parts {
		w.part(p)
	}
	if w.n == 0 {
		return nil, nil
	}
	return append(w.b, ']', '}'), nil
}

// blocks is a list of content blocks under construction.
type blocks struct {
	wireKey
	b    []byte
	n    int
	role aycoder.Role
}

// begin begins a block.
func (w *blocks) begin(s string) {
	if w.n > 0 {
		w.b = append(w.b, ',')
	}
	w.n++
	w.b = append(w.b, s...)
}

func (w *blocks) part(p aycoder.Part) {
	switch p := p.(type) {
	case *aycoder.Text:
		w.text(p)
	case *aycoder.Thinking:
		w.thinking(p)
	case *aycoder.ToolUse:
		w.use(p)
	case *aycoder.Media:
		w.shown(p, true)
	case *aycoder.Opaque:
		if ours(p) && (w.compacts && w.role == aycoder.RoleAssistant || !isCompaction(p)) {
			w.begin("")
			w.b = append(w.b, p.Raw...)
		}
	}
}

func (w *blocks) text(t *aycoder.Text) {
	if blank(t.Text) {
		return
	}
	w.begin(`{"type":"text","text":"`)
	if w.role == aycoder.RoleSystem {
		w.b = append(w.b, `<system>\n`...)
	}
	w.b = rawjson.AppendEscaped(w.b, t.Text)
	if w.role == aycoder.RoleSystem {
		w.b = append(w.b, `\n</system>`...)
	}
	w.b = append(w.b, '"')
	w.end(t.Extra, "citations")
}

// end ends a block with those of its original fields that the API accepts. The API
// refuses all other fields ("Extra inputs are not permitted"), and with them the whole
// conversation.
func (w *blocks) end(extra *aycoder.Opaque, names ...string) {
	if ours(extra) {
		for _, f := range rawjson.Split(bytes.TrimSpace(extra.Raw)) {
			if slices.Contains(names, f.Key) && !rawjson.IsNull(f.Val) {
				w.b = append(rawjson.AppendKey(w.b, f.Key), f.Val...)
			}
		}
	}
	w.b = append(w.b, '}')
}

// thinking is sent back only with the signature that proves its origin.
func (w *blocks) thinking(t *aycoder.Thinking) {
	if t.Provider != provider || t.Signature == "" || w.role != aycoder.RoleAssistant {
		return
	}
	w.begin(`{"type":"thinking","thinking":`)
	w.b = rawjson.AppendString(w.b, t.Text)
	w.b = append(w.b, `,"signature":`...)
	w.b = rawjson.AppendString(w.b, t.Signature)
	w.b = append(w.b, '}')
}

func (w *blocks) use(u *aycoder.ToolUse) {
	if w.role != aycoder.RoleAssistant {
		return
	}
	w.begin(`{"type":"tool_use","id":`)
	w.b = api.AppendName(w.b, u.ID, maxName)
	w.b = append(w.b, `,"name":`...)
	w.b = api.AppendName(w.b, u.Name, maxName)
	w.b = append(w.b, `,"input":`...)
	if rawjson.IsObject(u.Args) {
		w.b = append(w.b, api.ValidUTF8(u.Args)...)
	} else {
		w.b = append(w.b, `{}`...)
	}
	w.end(u.Extra, "caller")
}

// output writes the result of a tool. The API refuses an empty text, and an error without
// content: "all content must be type `text` if `is_error` is true".
func (w *blocks) output(o *aycoder.ToolOutput) {
	w.begin(`{"type":"tool_result","tool_use_id":`)
	w.b = api.AppendName(w.b, o.ID, maxName)
	before := len(w.b)
	in := &blocks{b: append(w.b, `,"content":[`...), role: aycoder.RoleUser}
	for _, p := range o.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			in.text(p)
		case *aycoder.Media:
			in.shown(p, !o.IsError)
		}
	}
	if in.n == 0 && o.IsError {
		in.part(&aycoder.Text{Text: "failed without a message"})
	}
	if w.b = in.b[:before]; in.n > 0 {
		w.b = append(in.b, ']')
	}
	if o.IsError {
		w.b = append(w.b, `,"is_error":true`...)
	}
	w.b = append(w.b, '}')
}

// shown writes an image or a document. A type for which the API has no block is replaced
// by a text that names it, so that one odd file does not make the whole conversation
// unsendable.
func (w *blocks) shown(m *aycoder.Media, allowed bool) {
	if w.role == aycoder.RoleAssistant {
		return
	}
	empty := len(m.Data) == 0 && m.URL == ""
	if allowed && !empty && w.media(m) {
		return
	}
	w.text(&aycoder.Text{Text: api.NotShown(m)})
}

// maxImage is how large an image may be, in bytes: "image exceeds 5 MB maximum", of its base64.
const maxImage = 5 << 20 / 4 * 3

// media writes a block, or reports that there is none for it.
func (w *blocks) media(m *aycoder.Media) bool {
	typ, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	switch typ = strings.TrimSpace(typ); typ {
	case "image/jpg":
		typ = "image/jpeg"
		fallthrough
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		if len(m.Data) > maxImage {
			return false
		}
		w.begin(`{"type":"image","source":`)
		w.source(m, typ)
		w.b = append(w.b, '}')
		return true
	case "application/pdf":
		w.document(m, typ)
		return true
	}
	if !strings.HasPrefix(typ, "text/") || m.URL == "" && blank(string(m.Data)) {
		return false
	}
	w.document(m, typ)
	return true
}

func (w *blocks) document(m *aycoder.Media, typ string) {
	w.begin(`{"type":"document","source":`)
	w.source(m, typ)
	if m.Name != "" {
		w.b = append(w.b, `,"title":`...)
		w.b = rawjson.AppendString(w.b, m.Name)
	}
	w.b = append(w.b, '}')
}

func (w *blocks) source(m *aycoder.Media, typ string) {
	switch {
	case m.URL != "":
		w.b = append(w.b, `{"type":"url","url":`...)
		w.b = rawjson.AppendString(w.b, m.URL)
	case strings.HasPrefix(typ, "text/"):
		w.b = append(w.b, `{"type":"text","media_type":"text/plain","data":`...)
		w.b = rawjson.AppendString(w.b, string(m.Data))
	default:
		w.b = append(w.b, `{"type":"base64","media_type":`...)
		w.b = rawjson.AppendString(w.b, typ)
		w.b = append(w.b, `,"data":`...)
		w.b = rawjson.AppendBase64(w.b, m.Data)
	}
	w.b = append(w.b, '}')
}

// ours reports whether o belongs to this provider and can be sent.
func ours(o *aycoder.Opaque) bool {
	return o != nil && o.Provider == provider && utf8.Valid(o.Raw) && rawjson.IsObject(o.Raw)
}
