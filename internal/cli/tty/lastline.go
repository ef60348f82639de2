package tty

import "strings"

const (
	plainStyle = "\x1b[0m"
	linkStart  = "\x1b]8;"
	linkEnd    = "\x1b]8;;\x1b\\"

	maxTail  = 16 << 10 // bytes of an unfinished line that are known after a resize
	maxStyle = 256
)

// A lastLine is the line at the end of the text, which is not finished.
type lastLine struct {
	col   int    // of the next character in its row; the width if the row is full
	cells int    // columns of the whole line
	tail  string // the characters of the line, unless they are too many
	style string // the sequences that set its style
	link  string // the sequence that opened its link
	ended bool   // the row was full, and the cursor has gone to the next one
}

// add counts characters of w columns in all. Only characters of one column come together.
func (l *lastLine) add(text string, w, cols int) {
	l.ended = false
	l.col = advance(l.col, w, len(text) == w, cols)
	l.cells += w
	if len(l.tail) <= maxTail {
		l.tail += text
	}
}

// advance returns the column behind characters. A wide one does not begin in the last
// column.
func advance(col, w int, narrow bool, cols int) int {
	switch {
	case w == 0 || col+w <= cols:
		return col + w
	case narrow:
		return (col+w-1)%cols + 1
	}
	return min(w, cols)
}

// styled records a sequence for a style or a link.
func (l *lastLine) styled(seq string) {
	switch {
	case seq == linkEnd || strings.HasPrefix(seq, linkStart+";\a"):
		l.link = ""
	case strings.HasPrefix(seq, linkStart):
		l.link = seq
	case seq == plainStyle || seq == "\x1b[m":
		l.style = ""
	case len(l.style) > maxStyle:
		l.style = seq
	default:
		l.style += seq
	}
}

// leave goes to the next row for the area.
func (l *lastLine) leave(b *strings.Builder, cols int) {
	if l.style != "" {
		b.WriteString(plainStyle)
	}
	if l.link != "" {
		b.WriteString(linkEnd)
	}
	if l.col > 0 {
		b.WriteString("\r\n")
	}
	if l.col >= cols {
		l.finish()
	}
}

// finish makes the next row the place of the text that follows.
func (l *lastLine) finish() {
	*l = lastLine{cells: l.cells, style: l.style, link: l.link, ended: true}
}

// reflow finds the column after a resize. It reports whether the column is not known; the
// text must then go on in the next row.
func (l *lastLine) reflow(from, cols int, wraps bool) (lost bool) {
	switch {
	case l.col == 0:
		return false
	case wraps && len(l.tail) <= maxTail:
		l.col = columnAfter(l.tail, cols)
	case wraps || l.col > cols:
		lost = true
	}
	if lost || l.col == cols && cols != from {
		l.finish()
		return true
	}
	return false
}

// columnAfter returns the column behind text that was wrapped by a terminal.
func columnAfter(text string, cols int) int {
	col := 0
	for text != "" {
		n, w := Next(text)
		col = advance(col, w, w == 1, cols)
		text = text[n:]
	}
	return col
}

// wraps returns how often a terminal wraps a line before the character at a column is in
// its place. It wraps for the next character, not when a row is full.
func wraps(text string, at, cols int) (n int) {
	col, all := 0, 0
	for text != "" && all <= at {
		size, w := Next(text)
		if w > 0 && col+w > cols {
			n++
			col = 0
		}
		col += w
		all += w
		text = text[size:]
	}
	return n
}
