package tools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/editmatch"
	"github.com/aycoder/aycoder/internal/runes"
)

// Notes tell a model where its old string differed from the file. Without them it repeats
// the difference in the next edit.

const (
	maxTold     = 10  // notes of a result
	maxQuoted   = 5   // notes that quote lines
	quotedLines = 15  // of one note
	quotedWidth = 120 // bytes of a line
)

// note is about an edit whose old string is not in the file verbatim. The exported fields
// are kept in the plan, for the result.
type note struct {
	Name    string `json:"name,omitempty"` // of the edit, such as "edit 2: "; empty if there is only one
	Allowed string `json:"allowed"`        // the differences that were tolerated
	First   int    `json:"first"`          // the lines in which the old string was found
	Last    int    `json:"last"`
	From    int    `json:"from,omitempty"` // the lines after the edit, in bytes of the proposed text
	To      int    `json:"to,omitempty"`
	MovedTo string `json:"moved_to,omitempty"` // of a file whose text goes to another; the rest is empty then

	path    string
	lines   string // the matched lines, quoted
	guessed bool   // more than line endings was tolerated, which a model does not see, and which the file keeps
}

// tolerated lists the differences that a match tolerated.
func tolerated(changes []editmatch.Change) string {
	var b strings.Builder
	for i, c := range changes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s (%s)", c.Level, c.Detail)
	}
	return b.String()
}

// memoOf returns the notes about a file in the form in which a plan keeps them.
func memoOf(notes []note, path string) string {
	notes = slices.DeleteFunc(slices.Clone(notes), func(n note) bool { return n.path != path })
	if len(notes) == 0 {
		return ""
	}
	memo, _ := json.Marshal(notes) // never fails
	return string(memo)
}

// notesOf returns the notes about a file of a plan.
func notesOf(planned edit.File) (notes []note) {
	if planned.Memo != "" {
		_ = json.Unmarshal([]byte(planned.Memo), &notes)
	}
	return notes
}

// withMoved returns a plan without the deletions of renamed files whose new files a review has left out:
// they would take the text with them.
func withMoved(plan edit.Plan) edit.Plan {
	var kept []string
	files := plan.Files()
	for _, f := range files {
		if f.Kind != edit.Delete || !slices.ContainsFunc(notesOf(f), func(n note) bool {
			_, ok := plan.File(n.MovedTo)
			return n.MovedTo != "" && !ok
		}) {
			kept = append(kept, f.Path)
		}
	}
	if len(kept) < len(files) {
		plan, _ = plan.KeepFiles(kept...) // which are in the plan
	}
	return plan
}

// tellNotes tells the model how its edits were interpreted, and what the files contain now.
func tellNotes(b *strings.Builder, plan edit.Plan, res *edit.Result) {
	n, whole := 0, plan.OmittedText() == ""
	for i := range res.Files {
		f := &res.Files[i]
		planned, _ := plan.File(f.Path)
		notes := notesOf(planned)
		for i := range notes {
			if notes[i].MovedTo != "" {
				continue
			}
			if n++; n <= maxTold {
				b.WriteString(notes[i].told(f, planned.Proposed, whole))
			}
		}
	}
	if n > maxTold {
		fmt.Fprintf(b, "[so were %s more]\n", plural(n-maxTold, "edit"))
	}
}

// told tells the model how its edit was interpreted. If the file contains the proposed text
// as a whole, it quotes the lines that the edit made.
func (n *note) told(f *edit.FileResult, proposed string, whole bool) string {
	did, now := "understood", "]\n"
	if f.Written {
		did = "applied"
	}
	to := min(n.To, len(proposed)) // without the line break that a patch is applied with
	if f.Written && whole && 0 <= n.From && n.From < to && f.Content == proposed {
		first := strings.Count(proposed[:n.From], "\n") + 1
		text := strings.TrimSuffix(proposed[n.From:to], "\n")
		now = fmt.Sprintf("; lines %d-%d now read:]\n%s", first, first+strings.Count(text, "\n"),
			quote(text, first))
	}
	return fmt.Sprintf("[%s%s after allowing for %s; old_string was found in lines %d-%d%s",
		n.Name, did, n.Allowed, n.First, n.Last, now)
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
		fmt.Fprintf(&b, "%6d\t%s\n", first+n,
			runes.Shorten(strings.TrimRight(line, "\r\n"), quotedWidth))
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
		n.From, n.To = moved(n.From, splices, false), moved(n.To, splices, true)
	}
	if len(m.Changes) == 0 {
		return
	}
	p := m.Places[0]
	n := note{Name: name, Allowed: tolerated(m.Changes), First: p.FirstLine, Last: p.LastLine}
	n.guessed = slices.ContainsFunc(m.Changes, func(c editmatch.Change) bool { return c.Level != editmatch.LineEndings })
	if len(j.notes) < maxQuoted {
		from := lineStart(text, 0, p.FirstLine-1)
		to := lineStart(text, from, p.LastLine-p.FirstLine+1)
		n.lines = quote(text[from:to], p.FirstLine)
		n.From, n.To = moved(from, splices, false), moved(to, splices, true)
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
