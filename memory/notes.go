package memory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/words"
	"github.com/aycoder/aycoder/tools"
)

const (
	rememberDescription = `Write something down for later sessions in this project: a decision, how something works,
what the user prefers. The text is added to the note; the user may be asked first. Write whole sentences.`

	recallDescription = `Look into the notes of earlier sessions. Without a query, it lists the notes; with one, it
returns the paragraphs that have the words.`

	forgetDescription = `Take something out of the notes: the paragraphs of a note that are equal to the text, or the
whole note if no text is given. The user may be asked first.`

	maxNotes  = 500
	maxRead   = 2 << 20  // bytes of all notes
	maxRecall = 16 << 10 // bytes of a result
)

type rememberArgs struct {
	Note string `json:"note" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,62}$" jsonschema_description:"The name of the note, such as build-system."`
	Text string `json:"text" jsonschema:"maxLength=8000" jsonschema_description:"What to remember, in Markdown."`
}

type recallArgs struct {
	Query string `json:"query,omitempty" jsonschema:"maxLength=500" jsonschema_description:"A few words."`
}

type forgetArgs struct {
	Note string `json:"note" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,62}$" jsonschema_description:"The name of the note."`
	Text string `json:"text,omitempty" jsonschema_description:"The paragraph to take out."`
}

// noteName matches the names of notes, which are those of files in all file systems.
var noteName = late.Regexp(`^[a-z0-9][a-z0-9-]{0,62}$`)

func noteFile(name string) (string, error) {
	if !noteName().MatchString(name) {
		return "", fmt.Errorf("%q is not the name of a note: it has small letters, digits and hyphens", runes.Shorten(name, 80))
	}
	return path.Join(noteDir, name+".md"), nil
}

func (m *Memory) remember(ctx context.Context, in rememberArgs) ([]edit.File, error) {
	name, err := noteFile(in.Note)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(tools.EscapeInvisible(strings.ReplaceAll(in.Text, "\r\n", "\n")))
	if text == "" {
		return nil, errors.New("the text is empty")
	}
	old, err := m.project().read(ctx, name)
	if err != nil {
		return nil, err
	}
	if slices.Contains(paragraphs(old), text) {
		return nil, errors.New("the note has this paragraph already")
	}
	return m.change(name, old, appended(old, "# "+in.Note+"\n", text+"\n"))
}

func (m *Memory) forget(ctx context.Context, in forgetArgs) ([]edit.File, error) {
	name, err := noteFile(in.Note)
	if err != nil {
		return nil, err
	}
	old, err := m.project().read(ctx, name)
	switch text := strings.TrimSpace(in.Text); {
	case err != nil:
		return nil, err
	case old == "":
		return nil, fmt.Errorf("the project has no note %q", in.Note)
	case text == "":
		return m.change(name, old, "")
	default:
		rest := without(old, text)
		if rest == old {
			return nil, errors.New("the note has no paragraph with exactly this text; recall_notes shows them")
		}
		return m.change(name, old, rest)
	}
}

// paragraphs splits a text at blank lines.
func paragraphs(text string) []string {
	var out []string
	for _, block := range blocks(text) {
		if p := plain(block); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// blocks splits a text after each run of blank lines, so that the blocks joined are the text.
func blocks(text string) []string {
	var out []string
	var block strings.Builder
	blank := false
	for line := range strings.Lines(text) {
		empty := strings.TrimSpace(line) == ""
		if blank && !empty {
			out = append(out, block.String())
			block.Reset()
		}
		block.WriteString(line)
		blank = empty
	}
	return append(out, block.String())
}

func plain(block string) string {
	return strings.TrimSpace(strings.ReplaceAll(block, "\r\n", "\n"))
}

// without returns a text without the paragraphs that are equal to another text.
func without(text, paragraph string) string {
	kept := slices.DeleteFunc(blocks(text), func(b string) bool { return plain(b) == paragraph })
	return strings.Join(kept, "")
}

// A passage is a paragraph of a note.
type passage struct {
	note, text string
}

func (m *Memory) recall(ctx context.Context, _ *aycoder.Invocation, in recallArgs) (*aycoder.ToolResult, error) {
	all, trouble, err := m.passages(ctx)
	if err != nil {
		return nil, err
	}
	found := all
	if strings.TrimSpace(in.Query) == "" {
		found = slices.CompactFunc(all, func(a, b passage) bool { return a.note == b.note }) // the title of each
	} else {
		found = nil
		texts := make([][]string, len(all))
		for i, p := range all {
			texts[i] = []string{p.note + "\n" + p.text}
		}
		for _, i := range words.Rank(ctx, in.Query, texts, 1) {
			found = append(found, all[i])
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	text := shown(found)
	switch {
	case len(all) == 0:
		text = "[there are no notes]\n"
	case len(found) == 0:
		text = "[no note has one of these words; without a query, recall_notes lists the notes]\n"
	}
	return aycoder.TextResult(text + trouble), nil
}

// shown returns passages as text of bounded size.
func shown(found []passage) string {
	var b strings.Builder
	for i, p := range found {
		entry := fmt.Sprintf("## %s\n%s\n\n", p.note, inert(runes.Shorten(p.text, 4000)))
		if b.Len()+len(entry) > maxRecall {
			fmt.Fprintf(&b, "[%d more; ask with other words]\n", len(found)-i)
			break
		}
		b.WriteString(entry)
	}
	return b.String()
}

// passages reads the notes, sorted by their names, the project's first. Trouble says which notes were left out,
// and why.
func (m *Memory) passages(ctx context.Context) (all []passage, trouble string, err error) {
	room, left := maxRead, 0
	for _, d := range m.dirs {
		entries, err := d.files.ReadDir(ctx, path.Join(d.path, noteDir))
		if err != nil && !isNotFound(err) {
			return nil, "", err
		}
		for i, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".md")
			if !ok || !e.Type().IsRegular() {
				continue
			}
			if i >= maxNotes || room <= 0 {
				left++
				continue
			}
			text, err := d.read(ctx, path.Join(noteDir, e.Name()))
			if err := context.Cause(ctx); err != nil {
				return nil, "", err
			}
			if err != nil {
				trouble += fmt.Sprintf("[%s]\n", inert(err.Error()))
			}
			room -= len(text)
			for _, p := range paragraphs(text) {
				all = append(all, passage{note: inert(name) + " (" + string(d.source) + ")", text: p})
			}
		}
	}
	if left > 0 {
		trouble += fmt.Sprintf("[%d notes were left out: at most %d, and %d MiB, are read]\n", left, maxNotes, maxRead>>20)
	}
	return all, trouble, nil
}
