package paint

import (
	"bytes"
	"slices"
	"unicode/utf8"

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
		if column += columns; end > 0 && (column > w.width || end > maxOfColumn*(w.width+1)) {
			break
		}
		end += n
	}
	return end, end
}

// maxOfColumn bounds the bytes of a line that keeps its blanks, for each of its columns.
const maxOfColumn = 32

// wrapped is how much of a row is broken into lines at a time, since what is left is copied for each line.
const wrapped = 4096

// lines returns the lines of a row.
func (r row) lines(width int, pre bool) (lines []row) {
	w := wrapper{width: max(width, 1), pre: pre}
	do := func(line row) {
		text := slices.Clone(line.text)
		i := slices.IndexFunc(line.spans, func(s span) bool { return s.end >= len(text) })
		lines = append(lines, row{text: text, spans: slices.Clone(line.spans[:i+1])})
	}
	start := 0
	for _, s := range r.spans {
		for end := min(s.end, len(r.text)); start < end; {
			n := min(end, start+wrapped)
			for n < end && n > start+1 && !utf8.RuneStart(r.text[n]) {
				n--
			}
			w.add(s.look, string(r.text[start:n]))
			if start = n; len(w.text) > wrapped {
				w.lines(false, do)
			}
		}
	}
	if len(w.text) > 0 || len(r.text) == 0 {
		w.lines(true, do)
	}
	return lines
}
