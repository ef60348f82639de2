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
	"github.com/aycoder/aycoder/tools"
)

const (
	addDescription = `Keep a lesson for later work in this project: what goes wrong, and the rule that avoids it.
Add one after the user has corrected you, or after you have found the cause of repeated failures.
The lesson goes into .aycoder/lessons.md, and the user may be asked first.`

	closeDescription = `Close a lesson that no longer holds. It stays in .aycoder/lessons.md, marked as done.`

	listDescription = `List all lessons of the project and of the user, also those that are closed.`
)

type addArgs struct {
	Pattern string `json:"pattern" jsonschema:"maxLength=1000" jsonschema_description:"What goes wrong."`
	Rule    string `json:"rule" jsonschema:"maxLength=1000" jsonschema_description:"What to do instead."`
	Context string `json:"context,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Where this holds."`
	Insight string `json:"insight,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Why this is so."`
}

type closeArgs struct {
	ID string `json:"id" jsonschema_description:"The six characters before the lesson."`
}

type listArgs struct{}

// Tools returns the tools for lessons (lesson_add, lesson_close, lesson_list) and for notes (remember,
// recall_notes, forget). Those that list and recall are read-only. The others propose a plan for a file of the
// project: see [tools.NewPlanner]. Without a project, they are left out.
func (m *Memory) Tools() ([]aycoder.Tool, error) {
	list, err3 := aycoder.NewTool("lesson_list", listDescription, m.list, aycoder.WithEffect(aycoder.EffectReadOnly))
	recall, err5 := aycoder.NewTool("recall_notes", recallDescription, m.recall,
		aycoder.WithEffect(aycoder.EffectReadOnly), aycoder.WithSubject(aycoder.SubjectText, "query"))
	if m.project().source != Project {
		return []aycoder.Tool{list, recall}, errors.Join(err3, err5)
	}
	ws := m.project().files
	text := func(arg, file string) aycoder.Subject {
		return aycoder.Subject{Kind: aycoder.SubjectText, Arg: arg, File: path.Join(m.project().path, file)}
	}
	add, err1 := tools.NewPlanner(ws, "lesson_add", addDescription, text("rule", lessonFile), m.add)
	closing, err2 := tools.NewPlanner(ws, "lesson_close", closeDescription, text("id", lessonFile), m.close)
	remember, err4 := tools.NewPlanner(ws, "remember", rememberDescription, text("note", noteDir+"/*.md"), m.remember)
	forget, err6 := tools.NewPlanner(ws, "forget", forgetDescription, text("note", noteDir+"/*.md"), m.forget)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	return []aycoder.Tool{add, closing, list, remember, recall, forget}, nil
}

// add proposes the project's file of lessons with one more.
func (m *Memory) add(ctx context.Context, in addArgs) ([]edit.File, error) {
	l := Lesson{Pattern: line(in.Pattern), Rule: line(in.Rule), Context: line(in.Context), Insight: line(in.Insight)}
	if l.Pattern == "" || l.Rule == "" {
		return nil, errors.New("a lesson needs a pattern and a rule")
	}
	old, err := m.project().read(ctx, lessonFile)
	if err != nil {
		return nil, err
	}
	if l.openIn(old) {
		return nil, fmt.Errorf("the lesson is there already, as %s", l.ID())
	}
	proposed := appended(old, "# Lessons\n", l.item())
	if !l.openIn(proposed) {
		return nil, errors.New("the file ends in a block of code, where a lesson does not count; end the block first")
	}
	return m.change(lessonFile, old, proposed)
}

// openIn reports whether a file has the lesson, and it is not closed.
func (l *Lesson) openIn(text string) bool {
	return slices.ContainsFunc(ParseLessons(text), func(have Lesson) bool {
		return !have.Closed && have.folded() == l.folded()
	})
}

// item returns the lesson as an item of a list.
func (l *Lesson) item() string {
	var b strings.Builder
	lead := "- [ ] "
	for _, name := range fieldNames {
		if text := *l.field(name); text != "" {
			fmt.Fprintf(&b, "%s%s: %s\n", lead, name, text)
			lead = "  "
		}
	}
	return b.String()
}

// line returns a text of the model as one line, in which nothing begins another field.
func line(s string) string {
	return strings.Join(strings.Fields(tools.EscapeInvisible(s)), " ")
}

// appended returns a text with a further block, in the line endings of the text. A new text begins with title.
func appended(old, title, block string) string {
	if old == "" {
		return title + "\n" + block
	}
	end := strings.ReplaceAll(old, "\r\n", "\n")
	for !strings.HasSuffix(end, "\n\n") {
		end, block = end+"\n", "\n"+block
	}
	if strings.Contains(old, "\r\n") {
		block = strings.ReplaceAll(block, "\n", "\r\n")
	}
	return old + block
}

// close proposes the file with the box of a lesson ticked.
func (m *Memory) close(ctx context.Context, in closeArgs) ([]edit.File, error) {
	old, err := m.project().read(ctx, lessonFile)
	if err != nil {
		return nil, err
	}
	for _, l := range ParseLessons(old) {
		if l.ID() == in.ID && !l.Closed {
			return m.change(lessonFile, old, ticked(old, l.Line))
		}
	}
	return nil, fmt.Errorf("the project has no open lesson %q; lesson_list has all", in.ID)
}

// ticked returns a text with a ticked box in a line, counted from 1.
func ticked(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	whole := strings.TrimRight(lines[n-1], "\r\n")
	m := fieldLine().FindStringSubmatch(whole)
	marker := m[2]
	if marker == "" {
		marker = "- "
	}
	lines[n-1] = m[1] + marker + "[x] " + m[4] + lines[n-1][len(whole):]
	return strings.Join(lines, "")
}

// change returns the edit that gives a file of the project its new content.
func (m *Memory) change(name, old, proposed string) ([]edit.File, error) {
	if len(proposed) > maxFile { // and nobody could read it any more
		return nil, fmt.Errorf("%s would be larger than %d bytes", name, maxFile)
	}
	f := edit.File{Path: path.Join(m.project().path, name), Kind: edit.Change, Base: old, Proposed: proposed}
	switch "" {
	case old:
		f.Kind = edit.Create
	case proposed:
		f.Kind = edit.Delete
	}
	return []edit.File{f}, nil
}

func (m *Memory) list(ctx context.Context, _ *aycoder.Invocation, _ listArgs) (*aycoder.ToolResult, error) {
	all, err := m.Lessons(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, l := range all {
		state := "open"
		if l.Closed {
			state = "closed"
		}
		fmt.Fprintf(&b, "- [%s] (%s, %s) %s\n", l.ID(), state, l.Source, inert(l.short().String()))
	}
	if len(all) == 0 {
		b.WriteString("[there are no lessons]\n")
	}
	return aycoder.TextResult(b.String()), nil
}
