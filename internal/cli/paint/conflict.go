package paint

import (
	"fmt"
	"strings"
)

// Conflict is a change of the agent that meets changes of the user in the same lines.
type Conflict struct {
	Tool, File string
	Note       string // why there are two versions
	Merged     int    // changes of the agent that were merged
	Changes    int    // all of them
	Regions    []Region
}

// Region is where both changed the same lines.
type Region struct {
	Line               int // of the first line in the user's version, from 1
	Yours, Base, Agent string
}

// Paint returns a heading and the regions, with what each side changed of the common base marked.
func (c Conflict) Paint(s Style) []string {
	left := s.line(c.Tool + " " + c.File)
	note := s.line(c.Note)
	lines := []string{}
	if room := s.width() - Width(left) - 4; note == "" || Width(note) <= room {
		lines = append(lines, s.headed(left, note))
	} else {
		lines = append(lines, s.headed(left, ""), s.text(warning, s.fit("  "+note, s.width())))
	}
	count := fmt.Sprintf("  merged %d of %d changes%s%s", c.Merged, c.Changes, s.dot(), counted(len(c.Regions), "conflict"))
	lines = append(lines, s.fit(count, s.width()))
	for _, r := range c.Regions {
		lines = append(lines, r.paint(s)...)
	}
	return lines
}

// headed returns a line with a mark, a subject in bold, and a note.
func (s Style) headed(left, note string) string {
	left = s.fit(left, s.width()-2)
	line := s.text(accent, s.glyph("◆ ", "* ")) + s.text(bold, left)
	if note != "" {
		line += "  " + s.text(warning, note)
	}
	return line
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (r *Region) paint(s Style) (lines []string) {
	rule := func(sign, label string) {
		lines = append(lines, s.text(comment, s.fit(strings.TrimRight("  "+strings.Repeat(sign, 7)+" "+label, " "), s.width())))
	}
	where := "yours"
	if r.Line > 0 {
		where = fmt.Sprintf("yours, line %d", r.Line)
	}
	rule("<", where)
	lines = append(lines, r.side(s, r.Yours, added)...)
	if r.Base != "" {
		rule("|", "base")
		for _, l := range sides(r.Base) {
			lines = append(lines, s.sideLines(l, comment)...)
		}
	}
	rule("=", "")
	lines = append(lines, r.side(s, r.Agent, accent)...)
	rule(">", "agent")
	return lines
}

// side paints one version, with its changes marked.
func (r *Region) side(s Style, text string, l look) (lines []string) {
	news := sides(text)
	if len(news) == 0 {
		return []string{s.text(comment, s.fit("  (no lines)", s.width()))}
	}
	if r.Base != "" {
		mark(sides(r.Base), news, []byte(r.Base), []byte(text))
	}
	for _, n := range news {
		lines = append(lines, s.sideLines(n, l)...)
	}
	return lines
}

func sides(text string) (out []side) {
	for line := range strings.Lines(text) {
		out = append(out, side{text: line})
	}
	return out
}

// sideLines wraps a line of a version.
func (s Style) sideLines(l side, base look) (lines []string) {
	w := &wrapper{style: s, width: max(s.width()-2, 1), pre: true}
	text := strings.TrimRight(l.text, "\r\n")
	s.marked(w, base, text, l.marks)
	if l.cr && strings.HasSuffix(l.text, "\r\n") {
		w.add(base|reverse, []byte(s.glyph("␍", "^M")))
	}
	w.closeLine()
	w.take(func(line []byte, n int) {
		lines = append(lines, blanks(min(n, 2))+string(line))
	})
	return lines
}
