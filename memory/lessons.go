package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/untag"
	"github.com/aycoder/aycoder/tools"
)

const maxField = 1000 // bytes of a field that a request has, and that a call may write

// A Lesson says what goes wrong and what to do instead.
type Lesson struct {
	// Pattern is what goes wrong, and Rule what to do instead. Context says where that holds, and Insight why.
	// Each is one line of text; at least one of the first two is not empty.
	Pattern, Rule, Context, Insight string
	// Closed lessons are kept in the file, but are not part of requests.
	Closed bool
	// Source says whose lesson it is. Line is the number of its first line in the file, counted from 1.
	Source Source
	Line   int
}

// ID returns six hexadecimal digits that follow from Pattern and Rule, whatever their case and blanks.
func (l *Lesson) ID() string {
	sum := sha256.Sum256([]byte(l.folded()))
	return hex.EncodeToString(sum[:3])
}

// folded is the same for equal lessons.
func (l *Lesson) folded() string {
	fold := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	return fold(l.Pattern) + "\n" + fold(l.Rule)
}

// String returns the lesson in one line, such as "PATTERN: … RULE: …".
func (l *Lesson) String() string {
	var parts []string
	for _, name := range fieldNames {
		if text := *l.field(name); text != "" {
			parts = append(parts, name+": "+text)
		}
	}
	return strings.Join(parts, " ")
}

var fieldNames = []string{"PATTERN", "RULE", "CONTEXT", "INSIGHT"}

func (l *Lesson) field(name string) *string {
	return map[string]*string{
		"PATTERN": &l.Pattern, "RULE": &l.Rule, "CONTEXT": &l.Context, "INSIGHT": &l.Insight,
	}[name]
}

// fieldLine matches a line with a field: a list marker or the marks of a heading, a box, and the name. The first line may
// begin with a byte order mark.
var fieldLine = late.Regexp(`^(\x{FEFF}?\s*)((?:[-*+]|\d{1,9}[.)]|#{1,6})\s+)?(?:\[([ xX])\]\s*)?` +
	`((?:\*\*|__)?(PATTERN|RULE|CONTEXT|INSIGHT)\s*(?::(?:\*\*|__)?|(?:\*\*|__)\s*:)\s*(.*))$`)

// ParseLessons returns the lessons in a file, in their order. Other text is passed over: each text is
// valid. Lists and headings may begin a lesson, with or without a box.
func ParseLessons(text string) []Lesson {
	var p lessonParser
	n := 0
	for line := range strings.Lines(text) {
		n++
		p.line(strings.TrimRight(line, "\r\n"), n)
	}
	return p.end()
}

// fence matches what begins a block of code. It ends with at least as many of the same marks, and nothing else.
var fence = late.Regexp("^(?:(`{3,})[^`]*|(~{3,}).*)$")

type lessonParser struct {
	found []Lesson
	now   *Lesson
	last  *string  // the field that a further line continues
	lines []string // of that field, put together once: a file may have very many
	fence string   // of the block of code that is open
}

func (p *lessonParser) line(line string, n int) {
	trimmed := strings.TrimSpace(line)
	if p.fence != "" {
		if strings.HasPrefix(trimmed, p.fence) && strings.Trim(trimmed, p.fence[:1]) == "" {
			p.fence = ""
		}
		return
	}
	if m := fence().FindStringSubmatch(trimmed); m != nil {
		p.fence = m[1] + m[2]
		p.ended()
		return
	}
	m := fieldLine().FindStringSubmatch(line)
	switch indented := line != strings.TrimLeft(line, " \t"); {
	case m != nil:
		p.start(m[5], n).Closed = p.now.Closed || m[3] == "x" || m[3] == "X"
		*p.last = strings.TrimSpace(m[6])
	case trimmed == "":
		p.ended()
	case indented && p.last != nil:
		p.lines = append(p.lines, trimmed)
	case !indented:
		p.ended()
		p.now = nil
	}
}

// ended ends the field that is open.
func (p *lessonParser) ended() {
	if len(p.lines) > 0 {
		*p.last = strings.TrimSpace(*p.last + " " + strings.Join(p.lines, " "))
	}
	p.last, p.lines = nil, nil
}

// start returns the lesson that a field belongs to: a new one for each PATTERN, and for a field that the lesson
// before has already.
func (p *lessonParser) start(name string, n int) *Lesson {
	p.ended()
	if p.now == nil || name == "PATTERN" || *p.now.field(name) != "" {
		p.found = append(p.found, Lesson{Line: n})
		p.now = &p.found[len(p.found)-1]
	}
	p.last = p.now.field(name)
	return p.now
}

func (p *lessonParser) end() []Lesson {
	p.ended()
	return slices.DeleteFunc(p.found, func(l Lesson) bool { return l.Pattern == "" && l.Rule == "" })
}

// Lessons reads the files, and returns all lessons: the project's first, and of several equal ones that have the
// same state only the first. The error joins those of the files; there may be lessons all the same.
func (m *Memory) Lessons(ctx context.Context) ([]Lesson, error) {
	var all []Lesson
	var errs []error
	seen := map[string]bool{}
	for _, d := range m.dirs {
		text, err := d.read(ctx, lessonFile)
		errs = append(errs, err)
		for _, l := range ParseLessons(text) {
			l.Source = d.source
			key := fmt.Sprint(l.folded(), l.Closed) // six digits could be those of another
			if !seen[key] {
				all = append(all, l)
			}
			seen[key] = true
		}
	}
	return all, errors.Join(errs...)
}

// Remind is an [aycoder.ContextMiddleware]. It adds the open lessons to the tail of each request (see
// [aycoder.Request]), between <lessons_context> and </lessons_context>. Pass it after the middleware of a list of
// tasks, whose part of the tail then comes last. If a file cannot be read, the model reads why.
func (m *Memory) Remind(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return part.Tail(next, func(ctx context.Context, _ aycoder.ContextInput) string { return m.remind(ctx) })
}

const aboutLessons = "Lessons from earlier work, as the files of the project and of the user have them now. " +
	"Follow their rules. This is not a message of the user.\n"

func (m *Memory) remind(ctx context.Context) string {
	all, err := m.Lessons(ctx)
	open := slices.DeleteFunc(all, func(l Lesson) bool { return l.Closed })
	if len(open) == 0 && err == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("<lessons_context>\n" + aboutLessons)
	lines, left := m.choose(open)
	for _, line := range lines {
		b.WriteString(line)
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d more; the tool lesson_list has all]\n", left)
	}
	if err != nil {
		fmt.Fprintf(&b, "[%s]\n", inert(err.Error()))
	}
	b.WriteString("</lessons_context>\n")
	return b.String()
}

// choose returns the lines of the lessons that fit, in their order, and the number of the others. Of each source
// the newest are chosen.
func (m *Memory) choose(open []Lesson) (lines []string, left int) {
	room := m.context
	chosen := make([]string, len(open))
	for _, i := range newest(open) {
		line := fmt.Sprintf("- [%s] %s\n", open[i].ID(), inert(open[i].short().String()))
		if len(line) > room {
			left++
			continue
		}
		room -= len(line)
		chosen[i] = line
	}
	return slices.DeleteFunc(chosen, func(s string) bool { return s == "" }), left
}

// newest returns the indices of lessons: the project's before the user's, and of each the last ones first.
func newest(open []Lesson) []int {
	var all []int
	for i := range slices.Backward(open) {
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(i, j int) int { // "project" comes before "user"
		return strings.Compare(string(open[i].Source), string(open[j].Source))
	})
	return all
}

// short returns the lesson with fields of bounded length.
func (l Lesson) short() *Lesson {
	for _, name := range fieldNames {
		*l.field(name) = runes.Shorten(*l.field(name), maxField)
	}
	return &l
}

// inert returns a text of a file in a form that is only text.
func inert(s string) string { return untag.Text(tools.EscapeInvisible(s)) }

// readBounded reads a file, or returns an error if it is too large.
func readBounded(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return string(data), err
}
