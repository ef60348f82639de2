package session

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// WriteJSON writes the tree as one JSON document, from which [Import] makes a session. It holds the
// messages of all branches, and of the files only their names and hashes.
func (v *View) WriteJSON(w io.Writer) error {
	doc := document{Format: documentFormat, Version: recordVersion, Title: v.title, Heads: v.heads}
	for n, m := range v.loaded(v.all()[1:]) {
		doc.Nodes = append(doc.Nodes, &documentNode{n, m, v.labels[n.ID]})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(&doc); err != nil {
		return fmt.Errorf("export session: %w", err)
	}
	return nil
}

const documentFormat = "aycoder-tree"

type document struct {
	Format  string          `json:"format"`
	Version int             `json:"version"`
	Title   string          `json:"title,omitempty"`
	Heads   map[string]ID   `json:"heads"`
	Nodes   []*documentNode `json:"nodes"`
}

type documentNode struct {
	*Node
	Message *aycoder.Message `json:"message,omitempty"`
	Label   string           `json:"label,omitempty"`
}

// A turn is a message as people read it.
type turn struct {
	ID    ID
	Role  string // "user", "model" or "tools"
	Who   string
	Label string
	At    time.Time
	Parts []turnPart
}

type turnPart struct{ Kind, Title, Text string }

// A page is a conversation as people read it.
type page struct {
	Title string
	Turns []turn
}

// page returns the conversation that leads to a node, without what is only for the model. mask may be nil.
func (v *View) page(id ID, mask func(string) string) page {
	if mask == nil {
		mask = func(text string) string { return text }
	}
	out := page{Title: mask(cmp.Or(v.title, "Conversation"))}
	for n, m := range v.loaded(v.path(id)) {
		if m == nil {
			continue
		}
		t := turn{ID: n.ID, Role: "user", Who: "User", Label: mask(v.labels[n.ID]), At: n.At}
		if m.Role == aycoder.RoleAssistant {
			t.Role, t.Who = "model", "Model"
			if n.Answer != nil && n.Answer.Model != "" {
				t.Who = n.Answer.Model
			}
		}
		for _, p := range m.Parts {
			if part, ok := shownPart(p); ok {
				part.Text = mask(part.Text)
				t.Parts = append(t.Parts, part)
			}
		}
		if len(m.Parts) > 0 && !slices.ContainsFunc(t.Parts, func(p turnPart) bool { return p.Kind != "output" }) &&
			m.Role == aycoder.RoleUser {
			t.Role, t.Who = "tools", "Tools"
		}
		if len(t.Parts) > 0 {
			out.Turns = append(out.Turns, t)
		}
	}
	return out
}

func shownPart(p aycoder.Part) (turnPart, bool) {
	switch p := p.(type) {
	case *aycoder.Text:
		return turnPart{Kind: "text", Text: p.Text}, p.Text != ""
	case *aycoder.ToolUse:
		return turnPart{Kind: "call", Title: "call of " + p.Name, Text: string(p.Args)}, true
	case *aycoder.ToolOutput:
		title := "output of " + p.Name
		if p.IsError {
			title = "error of " + p.Name
		}
		return turnPart{Kind: "output", Title: title, Text: p.Text()}, true
	case *aycoder.Media:
		return turnPart{Kind: "text", Text: "[" + cmp.Or(p.Name, p.Type) + "]"}, true
	}
	return turnPart{}, false
}

// WriteMarkdown writes the conversation that leads to a node as Markdown. mask is applied to each
// text once more; it may be nil.
func (v *View) WriteMarkdown(w io.Writer, id ID, mask func(string) string) error {
	var out strings.Builder
	page := v.page(id, mask)
	fmt.Fprintf(&out, "# %s\n", oneLine(page.Title))
	for _, t := range page.Turns {
		fmt.Fprintf(&out, "\n## %s, %s\n", oneLine(t.Who), t.At.UTC().Format(time.DateTime))
		if t.Label != "" {
			fmt.Fprintf(&out, "\n*%s*\n", oneLine(t.Label))
		}
		for _, p := range t.Parts {
			if p.Kind == "text" {
				fmt.Fprintf(&out, "\n%s\n", p.Text)
				continue
			}
			fence := fenceFor(p.Text)
			fmt.Fprintf(&out, "\n%s:\n\n%s\n%s\n%s\n", p.Title, fence, strings.TrimSuffix(p.Text, "\n"), fence)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// fenceFor returns a fence of backticks that is longer than any in the text.
func fenceFor(text string) string {
	longest := 2
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	return strings.Repeat("`", longest+1)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// WriteHTML writes the conversation that leads to a node as one HTML page without scripts, which
// refers to nothing else. mask is applied to each text once more; it may be nil.
func (v *View) WriteHTML(w io.Writer, id ID, mask func(string) string) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("export session: %w", err)
	}
	return t.Execute(w, v.page(id, mask))
}

//go:embed page.html
var pageHTML string
