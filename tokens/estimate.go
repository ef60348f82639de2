package tokens

import (
	"math"
	"reflect"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/textcost"
	"github.com/aycoder/aycoder/internal/view"
)

// Estimate returns an estimate of the number of tokens of a text, without a correction for any
// model. It takes time proportional to the length of the text and allocates no memory. Only the
// empty text has 0 tokens. Bytes that are not valid UTF-8 are counted as well.
func Estimate(text string) int64 {
	var s size
	return s.text(text)
}

// A size is the estimated size of texts, in thousandths of a token, by groups of features.
type size [textcost.Groups]int64

// text adds a text to s, and returns its number of tokens.
func (s *size) text(text string) int64 {
	if text == "" {
		return 0
	}
	f := textcost.Scan(text)
	sum := int64(0)
	for i, n := range f.Count() {
		s[i] += n
		sum += n
	}
	return max((sum+500)/1000, 1)
}

func (s *size) bytes(text []byte) int64 { return s.text(view.String(text)) }

// fixed adds n tokens, which are counted like text.
func (s *size) fixed(n int64) int64 {
	s[0] += 1000 * n
	return n
}

// minus returns what s has more than o, in each group.
func (s size) minus(o size) size {
	for i, n := range o {
		s[i] -= n
	}
	return s
}

// tokens returns the sum of all groups.
func (s size) tokens() float64 {
	n := int64(0)
	for _, g := range s {
		n += g
	}
	return float64(n) / 1000
}

// shares returns the part that each group has. An empty text counts as words.
func (s size) shares() (share [textcost.Groups]float64) {
	total := s.tokens()
	if total == 0 {
		share[0] = 1
		return share
	}
	for i, n := range s {
		share[i] = float64(n) / 1000 / total
	}
	return share
}

// Breakdown is where the tokens of a request are.
type Breakdown struct {
	// System is the system prompt, and what a provider adds to every request.
	System int64 `json:"system"`
	// Tools are the descriptions and schemas of the tools, and of the output.
	Tools int64 `json:"tools"`
	// Instructions are the messages in which the host instructs the model, [aycoder.RoleSystem], and
	// the tail of the request.
	Instructions int64 `json:"instructions"`
	// History is what the user and the model wrote, with thinking and the arguments of calls.
	History int64 `json:"history"`
	// Files are text documents, and the outputs of the tool read_file.
	Files int64 `json:"files"`
	// Outputs are the outputs of all other tools.
	Outputs int64 `json:"outputs"`
	// Images are images, wherever they are, and PDF documents, sounds and films.
	Images int64 `json:"images"`
}

// fields returns all fields.
func (b *Breakdown) fields() [7]*int64 {
	return [...]*int64{&b.System, &b.Tools, &b.Instructions, &b.History, &b.Files, &b.Outputs, &b.Images}
}

// Total returns the sum of all fields.
func (b Breakdown) Total() (n int64) {
	for _, field := range b.fields() {
		n += *field
	}
	return n
}

// A measure is an estimate without a correction: where the tokens are, and of what kind the texts
// are, without images.
type measure struct {
	Breakdown
	size
}

func (m *measure) add(o measure) {
	others := o.fields()
	for i, field := range m.fields() {
		*field += *others[i]
	}
	for i, n := range o.size {
		m.size[i] += n
	}
}

// scaled returns b for a model that counts factor tokens where the estimate has one. The price of
// an image does not depend on the model's vocabulary.
func (b Breakdown) scaled(factor float64) Breakdown {
	for _, field := range b.fields() {
		if field != &b.Images {
			*field = int64(math.Round(float64(*field) * factor))
		}
	}
	return b
}

// Overheads, in tokens. Providers wrap messages and calls in markup that differs by a
// few tokens. The correction of the model makes up for the difference.
const (
	perRequest = 3
	perMessage = 4
	perPart    = 1
	perCall    = 12
	perOutput  = 8
	perTool    = 8
	// toolPrompt is what Anthropic adds to the system prompt as soon as there are tools.
	toolPrompt = 346
)

// A reader counts the parts of requests to one provider.
type reader struct{ provider string }

func (r reader) system(t *aycoder.Text) (m measure) {
	m.System = m.text(t.Text)
	return m
}

func (r reader) tool(t *aycoder.ToolSpec) (m measure) {
	m.Tools = m.fixed(perTool) + m.text(t.Name) + m.text(t.Description) + m.bytes(t.Schema)
	return m
}

func (r reader) message(msg *aycoder.Message) (m measure) {
	text := &m.History
	if msg.Role == aycoder.RoleSystem {
		text = &m.Instructions
	}
	*text = m.fixed(perMessage)
	for _, p := range msg.Parts {
		r.part(&m, text, p)
	}
	return m
}

// part adds a part to m, where text is the field for its text.
func (r reader) part(m *measure, text *int64, p aycoder.Part) {
	if v := reflect.ValueOf(p); !v.IsValid() || v.IsNil() {
		return // the loop refuses such a request
	}
	*text += m.fixed(perPart)
	switch p := p.(type) {
	case *aycoder.Text:
		*text += m.text(p.Text)
	case *aycoder.Thinking:
		switch {
		case !r.sent(p.Provider):
		case p.Text != "":
			*text += m.text(p.Text)
		default:
			*text += m.fixed(hidden(len(p.Signature)))
		}
	case *aycoder.ToolUse:
		*text += m.fixed(perCall) + m.text(p.Name) + m.bytes(p.Args)
	case *aycoder.ToolOutput:
		text = &m.Outputs
		if p.Name == fileTool {
			text = &m.Files
		}
		*text += m.fixed(perOutput)
		for _, p := range p.Parts {
			r.part(m, text, p)
		}
	case *aycoder.Media:
		r.media(m, p)
	case *aycoder.Opaque: // of "openai", or of one of its interfaces, such as "openai/responses"
		if owner, _, _ := strings.Cut(p.Provider, "/"); r.sent(p.Provider) || r.sent(owner) {
			*text += m.fixed(hidden(len(p.Raw)))
		}
	}
}

// sent reports whether r's provider gets a part that only the named provider understands.
func (r reader) sent(provider string) bool {
	return provider != part.Loop && (provider == "" || r.provider == "" || provider == r.provider)
}

// hidden returns the number of tokens in n bytes of encrypted text in base64, if four bytes of the
// text are a token.
func hidden(n int) int64 { return int64(n) * 3 / 16 }
