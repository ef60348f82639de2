package tty

import "strings"

const (
	plainStyle = "\x1b[0m"
	linkStart  = "\x1b]8;"
	linkEnd    = "\x1b]8;;\x1b\\"
	maxStyle   = 256
)

// A tail is the line at the end of the text, while it is not finished. It is painted with
// the area, so that the screen need not know at which column it has ended: after a resize
// that the program has not heard of yet, it could not.
type tail struct {
	text   []byte // begins with the style that the line before has left
	cells  int    // columns of text
	before int    // columns of the line that were written already, for tabs
	style  string // the sequences that set the style
	link   string // the sequence that opened the link
}

func (t *tail) empty() bool { return t.cells == 0 }

// styled records a sequence for a style or a link.
func (t *tail) styled(seq string) {
	t.text = append(t.text, seq...)
	switch {
	case seq == linkEnd || strings.HasPrefix(seq, linkStart+";\a"):
		t.link = ""
	case strings.HasPrefix(seq, linkStart):
		t.link = seq
	case seq == plainStyle || seq == "\x1b[m":
		t.style = ""
	case len(t.style) > maxStyle:
		t.style = seq
	default:
		t.style += seq
	}
}

// reset returns the sequences that end the style and the link.
func (t *tail) reset() string {
	out := ""
	if t.style != "" {
		out += plainStyle
	}
	if t.link != "" {
		out += linkEnd
	}
	return out
}

// finish writes the line, and begins the next one in the same style.
func (t *tail) finish(b *strings.Builder, lineFeed string) {
	b.Write(t.text)
	b.WriteString(t.reset())
	b.WriteString(lineFeed)
	t.cells, t.before = 0, 0
	t.text = append(append(t.text[:0], t.style...), t.link...)
}

// keepLast drops all but the last row of the line.
func (t *tail) keepLast(row string) {
	cells := Width(row)
	t.before += t.cells - cells
	t.text, t.cells = []byte(row), cells
}

// rows returns the line as a terminal wraps it, each row with its style.
func (t *tail) rows(cols int) []string {
	var out []string
	var styles tail
	text := string(t.text)
	start, col := 0, 0
	for i := 0; i < len(text); {
		n, w := Next(text[i:])
		if col+w > cols && w > 0 {
			out = append(out, string(styles.text)+text[start:i])
			styles.text = append(append(styles.text[:0], styles.style...), styles.link...)
			start, col = i, 0
		}
		if part := text[i : i+n]; part[0] == esc {
			keep := styles.text
			styles.styled(part)
			styles.text = keep
		}
		col += w
		i += n
	}
	return append(out, string(styles.text)+text[start:])
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
