package paint

import (
	"bytes"
	"strings"
)

// maxTable is how many bytes of rows are held to find the widths of the columns.
const maxTable = 16 << 10

// minColumn is the width of a column below which a table is shown as a list of its cells.
const minColumn = 6

// A table is painted when it ends or is too long to hold. Then the columns have widths, and the
// rows that follow are painted as they come.
type table struct {
	style  Style
	width  int
	write  func(line []byte)
	aligns []byte // l, c or r
	rows   [][]string
	size   int
	widths []int
	bar    string // between two columns
	list   bool   // too narrow for columns
	inline inline
	wrap   wrapper
}

// startTable makes a table of the paragraph, which is its head.
func (p *Markdown) startTable(delimiters []byte) {
	p.wrap.reset()
	p.leaf, p.held = tableRow, false
	p.table = newTable(p.style, p.wrap.width, p.writeLine, aligns(delimiters))
	p.table.add(string(p.opening))
}

func newTable(s Style, width int, write func([]byte), aligns []byte) *table {
	t := &table{style: s, width: width, write: write, aligns: aligns, wrap: wrapper{style: s}}
	t.inline.to = &t.wrap
	t.bar = s.text(comment, s.glyph(" │ ", " | "))
	return t
}

// cells splits a row at its bars, except those after a backslash.
func cells(line []byte) (out []string) {
	text := strings.Trim(string(line), " ")
	text = strings.TrimPrefix(text, "|")
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
	if rest := strings.Trim(text[start:], " "); rest != "" || len(out) == 0 {
		out = append(out, cell(rest))
	}
	return out
}

func cell(text string) string { return strings.ReplaceAll(strings.Trim(text, " "), `\|`, "|") }

// aligns returns the alignments in the second line of a table, or nil if it is another line.
func aligns(line []byte) (out []byte) {
	if bytes.IndexByte(line, '|') < 0 {
		return nil
	}
	for _, c := range cells(line) {
		if strings.Trim(strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":"), "-") != "" || !strings.Contains(c, "-") {
			return nil
		}
		align := byte('l')
		switch left, right := c[0] == ':', c[len(c)-1] == ':'; {
		case left && right:
			align = 'c'
		case right:
			align = 'r'
		}
		out = append(out, align)
	}
	return out
}

// add adds a row. Cells beyond the last column are a part of it, so that no text is lost.
func (t *table) add(line string) {
	row := cells([]byte(line))
	if n := len(t.aligns); len(row) > n {
		row = append(row[:n-1:n-1], strings.Join(row[n-1:], " | "))
	}
	if t.widths != nil {
		t.paint(row, 0)
		return
	}
	t.rows = append(t.rows, row)
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
		t.paint(t.rows[0], bold)
		t.rule()
	}
	for _, row := range t.rows[1:] {
		t.paint(row, 0)
	}
	if t.list && len(t.rows) == 1 {
		t.paint(nil, 0)
	}
	t.rows = t.rows[:1]
}

// layout finds the widths of the columns. First all get room for their longest words, and then for
// what they need besides. If there is not enough for all, those that need little get it.
func (t *table) layout() {
	n := len(t.aligns)
	t.widths = make([]int, n)
	needs, words := make([]int, n), make([]int, n)
	for i := range n {
		needs[i], words[i] = t.measure(i)
	}
	t.grow(needs, t.grow(words, t.width-3*(n-1)))
	for i, w := range t.widths {
		t.list = t.list || w < min(minColumn, words[i])
	}
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

// measure returns the widths of the widest cell of a column and of its longest word.
func (t *table) measure(i int) (need, word int) {
	t.wrap.longest = 1
	for _, row := range t.rows {
		if i < len(row) {
			t.fill(row[i], 1<<30, 0)
			t.wrap.take(func(_ []byte, n int) { need = max(need, n) })
		}
	}
	return max(need, t.wrap.longest), t.wrap.longest
}

func (t *table) fill(text string, width int, l look) {
	t.wrap.width = max(width, 1)
	t.inline.start(l)
	t.inline.feed([]byte(text))
	t.inline.finish()
	t.wrap.close()
}

// paint writes a row, whose cells are wrapped.
func (t *table) paint(cells []string, l look) {
	if t.list {
		t.paintList(cells)
		return
	}
	columns := make([][]string, len(t.widths))
	height := 0
	for i, text := range cells {
		t.fill(text, t.widths[i], l)
		t.wrap.take(func(line []byte, n int) {
			columns[i] = append(columns[i], t.align(i, string(line), n))
		})
		height = max(height, len(columns[i]))
	}
	for k := range max(height, 1) {
		t.write(t.line(columns, k))
	}
}

func (t *table) align(i int, line string, n int) string {
	before, after := 0, max(t.widths[i]-n, 0)
	switch t.aligns[i] {
	case 'r':
		before, after = after, 0
	case 'c':
		before, after = after/2, after-after/2
	}
	return blanks(before) + line + blanks(after)
}

// line joins the lines k of the columns.
func (t *table) line(columns [][]string, k int) []byte {
	var out []byte
	for i, column := range columns {
		if i > 0 {
			out = append(out, t.bar...)
		}
		if k < len(column) {
			out = append(out, column[k]...)
			continue
		}
		out = append(out, blanks(t.widths[i])...)
	}
	return bytes.TrimRight(out, " ")
}

// rule writes the line below the head.
func (t *table) rule() {
	dash, cross := t.style.glyph("─", "-"), t.style.glyph("─┼─", "-+-")
	parts := make([]string, len(t.widths))
	for i, n := range t.widths {
		parts[i] = strings.Repeat(dash, n)
	}
	t.write([]byte(t.style.text(comment, strings.Join(parts, cross))))
}

// paintList writes a row as lines of the form "head: cell", after a rule.
func (t *table) paintList(cells []string) {
	t.write([]byte(t.style.text(comment, strings.Repeat(t.style.glyph("─", "-"), min(t.width, 20)))))
	for i, name := range t.rows[0] {
		text := "**" + name + ":**"
		if i < len(cells) {
			text += " " + cells[i]
		}
		t.fill(text, t.width, 0)
		t.wrap.take(func(line []byte, _ int) { t.write(line) })
	}
}
