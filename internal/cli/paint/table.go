package paint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// maxTable is how many bytes of rows are held to find the widths of the columns.
const maxTable = 16 << 10

// minColumn is the width of a column below which a table is shown as a list of its cells.
const minColumn = 6

// A table is painted when it ends or is too long to hold. Then the columns have widths, and the
// rows that follow are painted as they come.
type table struct {
	*Markdown
	aligns []string // cells of the line below the head
	rows   [][]row  // of cells, the first of which are the head
	size   int
	widths []int
	list   bool // too narrow for columns
}

// startTable makes a table of the paragraph, which is its head.
func (p *Markdown) startTable(delimiters string) {
	p.leaf, p.held = tableRow, false
	p.table = &table{Markdown: p, aligns: aligns(delimiters)}
	p.table.row(p.opening)
}

// cells splits a row at its bars, except those after a backslash.
func cells(line string) (out []string) {
	text := strings.TrimPrefix(strings.Trim(line, " "), "|")
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '|':
			out = append(out, cell(text[start:i]))
			start = i + 1
		}
	}
	if rest := cell(text[start:]); rest != "" || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

func cell(text string) string { return strings.ReplaceAll(strings.Trim(text, " "), `\|`, "|") }

var delimiter = regexp.MustCompile(`^:?-+:?$`)

// aligns returns the cells of the second line of a table, or nil if it is another line.
func aligns(line string) []string {
	out := cells(line)
	if !strings.Contains(line, "|") || slices.ContainsFunc(out, func(c string) bool { return !delimiter.MatchString(c) }) {
		return nil
	}
	return out
}

// row adds a row. Cells beyond the last column are a part of it, so that no text is lost.
func (t *table) row(line string) {
	texts := cells(line)
	if n := len(t.aligns); len(texts) > n {
		texts = append(texts[:n-1:n-1], strings.Join(texts[n-1:], " | "))
	}
	cells, base := make([]row, len(texts)), bold
	if len(t.rows) > 0 {
		base = 0
	}
	for i, text := range texts {
		cells[i] = t.inline.paint(base, text)
	}
	if t.widths != nil {
		t.paint(cells)
		return
	}
	t.rows = append(t.rows, cells)
	if t.size += len(line) + 1; t.size > maxTable {
		t.finish()
	}
}

// finish paints the rows that are held.
func (t *table) finish() {
	if t.widths != nil {
		return
	}
	t.layout()
	if !t.list {
		t.paint(t.rows[0])
		t.rule()
	}
	for _, cells := range t.rows[1:] {
		t.paint(cells)
	}
	if t.list && len(t.rows) == 1 {
		t.paint(nil)
	}
	t.rows = t.rows[:1]
}

// layout finds the widths of the columns. First all get room for their longest words, and then for
// what they need besides. If there is not enough for all, those that need little get it.
func (t *table) layout() {
	n := len(t.aligns)
	t.widths = make([]int, n)
	needs, words := make([]int, n), make([]int, n)
	for _, cells := range t.rows {
		for i, cell := range cells {
			needs[i] = max(needs[i], 1, cell.width())
			words[i] = max(words[i], 1, longest(string(cell.text)))
		}
	}
	t.grow(needs, t.grow(words, t.wrap.width-3*(n-1)))
	for i, w := range t.widths {
		t.list = t.list || w < min(minColumn, words[i])
	}
}

// longest returns the width of the longest part of a text in which a line is not broken.
func longest(text string) (width int) {
	for part := 0; text != ""; {
		n, w := tty.Next(text)
		if part += w; text[0] == ' ' || w > 1 {
			part = 0
		}
		width = max(width, w, part)
		text = text[n:]
	}
	return width
}

// grow shares some columns between those that want to be wider, and returns what is left.
func (t *table) grow(want []int, rest int) int {
	for open := len(want); open > 0 && rest >= open; {
		share := rest / open
		open = 0
		for i := range want {
			add := min(max(want[i]-t.widths[i], 0), share)
			t.widths[i], rest = t.widths[i]+add, rest-add
			if t.widths[i] < want[i] {
				open++
			}
		}
	}
	return rest
}

// paint writes a row, whose cells are wrapped.
func (t *table) paint(cells []row) {
	if t.list {
		t.paintList(cells)
		return
	}
	columns := make([][]row, len(t.widths))
	height := 1
	for i := range cells {
		columns[i] = cells[i].lines(t.widths[i], false)
		height = max(height, len(columns[i]))
	}
	for k := range height {
		t.writeLine(t.line(columns, k))
	}
}

// line joins the lines k of the columns.
func (t *table) line(columns [][]row, k int) (out row) {
	for i, column := range columns {
		if i > 0 {
			out.add(comment, t.style.glyph(" │ ", " | "))
		}
		r := at(column, k)
		before, after := 0, max(t.widths[i]-r.width(), 0)
		switch left, right := t.aligns[i][0] == ':', strings.HasSuffix(t.aligns[i], ":"); {
		case left && right:
			before, after = after/2, after-after/2
		case right:
			before, after = after, 0
		}
		out.add(0, blanks(before))
		out.addRow(r)
		out.add(0, blanks(after))
	}
	out.trim()
	return out
}

// rule writes the line below the head.
func (t *table) rule() {
	dash, cross := t.style.glyph("─", "-"), t.style.glyph("─┼─", "-+-")
	parts := make([]string, len(t.widths))
	for i, n := range t.widths {
		parts[i] = strings.Repeat(dash, n)
	}
	t.writeLine(of(comment, strings.Join(parts, cross)))
}

// paintList writes a row as lines of the form "head: cell", after a rule.
func (t *table) paintList(cells []row) {
	t.writeLine(of(comment, strings.Repeat(t.style.glyph("─", "-"), min(t.wrap.width, 20))))
	for i, name := range t.rows[0] {
		if len(at(cells, i).text) == 0 && len(cells) > 0 { // or a short row would be as long as all heads
			continue
		}
		r := at(name.lines(t.wrap.width, false), 0)
		r.add(bold, ":")
		if i < len(cells) {
			r.add(0, " ")
			r.addRow(cells[i])
		}
		for _, line := range r.lines(t.wrap.width, false) {
			t.writeLine(line)
		}
	}
}
