package ollama

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// wireKey is the key of messages that are encoded for this API. It is empty, since no
// setting changes the form of a message.
type wireKey struct{}

// encodeMessage returns the wire form of m. The outputs of tools are separate messages on
// the wire, and each message has a leading comma. The result is empty if nothing of m can
// be sent.
func encodeMessage(m *aycoder.Message) ([]byte, error) {
	return encodeWith(m, func(string) string { return "" })
}

// encodeWith is encodeMessage with a function that names the tool of an output that does
// not.
func encodeWith(m *aycoder.Message, nameOf func(id string) string) ([]byte, error) {
	if err := api.CheckParts(m.Parts); err != nil {
		return nil, err
	}
	if m.Role == aycoder.RoleAssistant {
		return encodeAnswer(m), nil
	}
	w := &said{}
	b := make([]byte, 0, api.Room(m.Parts))
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.ToolOutput:
			b = w.output(b, p, cmp.Or(p.Name, nameOf(p.ID)))
		case *aycoder.Text:
			w.text(p.Text)
		case *aycoder.Media:
			w.media(p)
		}
	}
	if len(w.texts)+len(w.images) == 0 {
		return b, nil
	}
	role := "user"
	if m.Role == aycoder.RoleSystem {
		role = "system"
	}
	return w.appendTo(b, role), nil
}

// said is the content of a message: texts, and images beside them.
type said struct {
	texts  []string
	images [][]byte
}

func (w *said) text(s string) {
	if !blank(s) {
		w.texts = append(w.texts, s)
	}
}

// media adds an image, or a text that names media which the model is not shown.
func (w *said) media(m *aycoder.Media) {
	if m = api.Inline(m); isImage(m) {
		w.images = append(w.images, m.Data)
		return
	}
	w.text(api.NotShown(m))
}

// isImage reports whether Ollama can read m: it accepts these types only, and the data
// rather than a URL.
func isImage(m *aycoder.Media) bool {
	typ, _, _ := strings.Cut(strings.ToLower(m.Type), ";")
	known := []string{"image/png", "image/jpeg", "image/jpg", "image/webp"}
	return len(m.Data) > 0 && slices.Contains(known, strings.TrimSpace(typ))
}

func (w *said) appendTo(b []byte, role string) []byte {
	b = append(b, `,{"role":"`+role+`","content":`...)
	b = rawjson.AppendString(b, strings.Join(w.texts, "\n\n"))
	if len(w.images) > 0 {
		b = append(b, `,"images":[`...)
		for _, data := range w.images {
			b = rawjson.AppendBase64(rawjson.AppendComma(b), data)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// output writes the output of a tool. Its images are put into the next user message,
// because models are not shown images in outputs.
func (w *said) output(b []byte, o *aycoder.ToolOutput, name string) []byte {
	in := &said{}
	if o.IsError {
		in.text("Error:")
	}
	for _, p := range o.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			in.text(p.Text)
		case *aycoder.Media:
			p = api.Inline(p)
			if in.media(p); isImage(p) {
				in.text("[image " + p.Name + " follows]")
			}
		}
	}
	w.images = append(w.images, in.images...)
	b = append(b, `,{"role":"tool","content":`...)
	b = rawjson.AppendString(b, strings.Join(in.texts, "\n"))
	if name != "" {
		b = rawjson.AppendField(b, "tool_name", name)
	}
	b = rawjson.AppendField(b, "tool_call_id", o.ID)
	return append(b, '}')
}

// encodeAnswer writes a message of the model. Consecutive texts are concatenated.
func encodeAnswer(m *aycoder.Message) []byte {
	var text, thinking strings.Builder
	var calls []byte
	n := 0
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *aycoder.Text:
			text.WriteString(p.Text)
		case *aycoder.Thinking:
			if p.Provider == provider {
				thinking.WriteString(p.Text)
			}
		case *aycoder.ToolUse:
			calls = appendCall(calls, p, n)
			n++
		}
	}
	if text.Len()+thinking.Len()+len(calls) == 0 {
		return nil
	}
	b := append(make([]byte, 0, api.Room(m.Parts)), `,{"role":"assistant","content":`...)
	b = rawjson.AppendString(b, text.String())
	if thinking.Len() > 0 {
		b = rawjson.AppendField(b, "thinking", thinking.String())
	}
	if len(calls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		b = append(b, calls...)
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendCall writes a call. Ollama refuses a request in which arguments are not an
// object.
func appendCall(b []byte, u *aycoder.ToolUse, index int) []byte {
	if index > 0 {
		b = append(b, ',')
	}
	b = rawjson.AppendField(append(b, '{'), "id", u.ID)
	b = append(b, `,"type":"function","function":{`...)
	b = rawjson.AppendIntField(b, "index", int64(index))
	b = rawjson.AppendField(b, "name", u.Name)
	b = append(b, `,"arguments":`...)
	if rawjson.IsObject(u.Args) {
		b = append(b, api.ValidUTF8(u.Args)...)
	} else {
		b = append(b, `{}`...)
	}
	return append(b, '}', '}')
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
