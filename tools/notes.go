package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	maxTold     = 10  // notes of a result
	maxQuoted   = 5   // notes that quote lines
	quotedLines = 15  // of one note
	quotedWidth = 120 // bytes of a line
)

// note is about an edit whose old string is not in the file verbatim.
type note struct {
	name  string // of the edit, such as "edit 2: "; empty if there is only one
	match editmatch.Match
	lines string // the matched lines, quoted

	path     string
	from, to int    // the lines after the edit, in bytes of proposed
	proposed string // the file with all edits
}

// guessed reports whether the match tolerated more than line endings, which a model does
// not see, and which the file keeps.
func (n *note) guessed() bool {
	return slices.ContainsFunc(n.match.Changes, func(c editmatch.Change) bool { return c.Level != editmatch.LineEndings })
}

// allowed lists the differences that were tolerated.
func (n *note) allowed() string {
	var b strings.Builder
	for i, c := range n.match.Changes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s (%s)", c.Level, c.Detail)
	}
	return b.String()
}

// told tells the model how its edit was interpreted, and what the file contains now.
func (n *note) told(res *aycoder.ApplyResult) string {
	did, now := "understood", ""
	i := slices.IndexFunc(res.Files, func(f aycoder.FileResult) bool { return f.Path == n.path })
	if i >= 0 && res.Files[i].Written {
		did = "applied"
	}
	if did == "applied" && n.from < n.to && res.Files[i].Content == n.proposed {
		first := strings.Count(n.proposed[:n.from], "\n") + 1
		text := strings.TrimSuffix(n.proposed[n.from:n.to], "\n")
		now = fmt.Sprintf("; lines %d-%d now read:]\n%s", first, first+strings.Count(text, "\n"), quote(text, first))
	} else {
		now = "]\n"
	}
	p := n.match.Places[0]
	return fmt.Sprintf("[%s%s after allowing for %s; old_string was found in lines %d-%d%s",
		n.name, did, n.allowed(), p.FirstLine, p.LastLine, now)
}

// quote returns lines with their numbers, as read_file shows them.
func quote(text string, first int) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		if n == quotedLines {
			b.WriteString("[more lines are not shown]\n")
			break
		}
		fmt.Fprintf(&b, "%6d\t%s\n", first+n, runes.Shorten(strings.TrimRight(line, "\r\n"), quotedWidth))
		n++
	}
	return b.String()
}

// journal records how the edits of a call were interpreted, while they are made in order.
type journal struct {
	notes []note
	found lineHash
}

// add records an edit that was made to a text.
func (j *journal) add(name, text string, m editmatch.Match, splices []editmatch.Splice) {
	j.found.add(text, m.Places)
	for i := range j.notes[:min(len(j.notes), maxQuoted)] {
		n := &j.notes[i]
		n.from, n.to = moved(n.from, splices, false), moved(n.to, splices, true)
	}
	if len(m.Changes) == 0 {
		return
	}
	n := note{name: name, match: m}
	if len(j.notes) < maxQuoted {
		p := m.Places[0]
		from := lineStart(text, 0, p.FirstLine-1)
		to := lineStart(text, from, p.LastLine-p.FirstLine+1)
		n.lines = quote(text[from:to], p.FirstLine)
		n.from, n.to = moved(from, splices, false), moved(to, splices, true)
	}
	j.notes = append(j.notes, n)
}

// edited is the outcome of all edits.
func (j *journal) edited(text string) *edited {
	return &edited{text: text, notes: j.notes, found: j.found.sum()}
}

// lineStart returns the start of the line n lines after a position.
func lineStart(text string, pos, n int) int {
	for ; n > 0; n-- {
		i := strings.IndexByte(text[pos:], '\n')
		if i < 0 {
			return len(text)
		}
		pos += i + 1
	}
	return pos
}

// moved returns the position in a text after splices. Text inserted exactly there comes
// before the position if that ends a range, and after it if it begins one.
func moved(pos int, splices []editmatch.Splice, end bool) int {
	shift := 0
	for _, s := range splices {
		switch {
		case s.To < pos, s.To == pos && (end || s.From < pos):
			shift += len(s.Text) - (s.To - s.From)
		case s.From < pos && end:
			return s.From + shift + len(s.Text)
		case s.From < pos:
			return s.From + shift
		default:
			return pos + shift
		}
	}
	return pos + shift
}
