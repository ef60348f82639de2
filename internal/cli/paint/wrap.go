package paint

import (
	"bytes"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// A wrapper breaks the text of its row into lines at blanks, and where there are none in a line,
// anywhere between two characters. A line feed in the text ends a line as well.
type wrapper struct {
	row
	width int
	pre   bool // blanks are kept, and lines are broken at the width
}

// lines takes the first lines from the row: those that no text which follows changes, or all if
// none follows. If blanks are kept, empty lines are, too. A line is valid until do returns.
func (w *wrapper) lines(last bool, do func(row)) {
	for more := last || len(w.text) > 0; more; more = len(w.text) > 0 {
		text, _, hard := bytes.Cut(w.text, []byte{'\n'})
		end, next := len(text), len(text)
		if end > w.width {
			end, next = w.lineEnd(string(text), last || hard)
		}
		if next == len(text) {
			if !last && !hard {
				return
			}
			next = min(next+1, len(w.text))
		}
		line := row{text: w.text[:end], spans: w.spans}
		if !w.pre {
			line.trim()
		}
		if next < len(w.text) {
			w.row = w.rest(next)
		} else {
			w.reset()
		}
		if w.pre || len(line.text) > 0 {
			do(line)
		}
	}
}

func (w *wrapper) lineEnd(text string, whole bool) (end, next int) {
	if !w.pre {
		return tty.LineEnd(text, w.width, whole)
	}
	for column := 0; end < len(text); {
		n, columns := tty.Next(text[end:])
		if column += columns; column > w.width && end > 0 {
			break
		}
		end += n
	}
	return end, end
}

// lines returns the lines of a row.
func (r row) lines(width int, pre bool) (lines []row) {
	w := wrapper{row: r, width: max(width, 1), pre: pre}
	w.lines(true, func(line row) { lines = append(lines, line) })
	return lines
}
