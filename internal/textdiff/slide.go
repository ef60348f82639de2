package textdiff

import (
	"bytes"

	"github.com/aycoder/aycoder/internal/diff3"
)

const (
	maxSlide  = 100 // maximum lines by which a change is moved
	maxBlanks = 20  // blank lines that are skipped to find the indentation
	maxIndent = 200 // columns
)

// slide moves an insertion or deletion up or down, where the same change can be written at
// several places, to the place that a reader would choose. So a diff adds a whole function
// or block, not the end of one and the head of the next. The rule is in the spirit of git's
// indent heuristic.
func slide(s *diff3.Script) {
	for i := range s.Hunks {
		h := &s.Hunks[i]
		above, below := h.A0, s.A.Len()-h.A1
		if i > 0 {
			above = h.A0 - s.Hunks[i-1].A1 - 1 // one line must stay between two changes
		}
		if i+1 < len(s.Hunks) {
			below = s.Hunks[i+1].A0 - h.A1 - 1
		}
		by := 0
		switch {
		case h.A0 == h.A1:
			by = best(s.B, diff3.Span{Lo: h.B0, Hi: h.B1}, above, below)
		case h.B0 == h.B1:
			by = best(s.A, diff3.Span{Lo: h.A0, Hi: h.A1}, above, below)
		}
		*h = diff3.Hunk{A0: h.A0 + by, A1: h.A1 + by, B0: h.B0 + by, B1: h.B1 + by}
	}
}

// best returns the distance to move a run of lines down. Among equally good places it takes
// the lowest.
func best(l *diff3.Lines, run diff3.Span, above, below int) int {
	up, down := 0, 0
	for up < min(above, maxSlide) && sameLine(l, run.Lo-up-1, run.Hi-up-1) {
		up++
	}
	for down < min(below, maxSlide) && sameLine(l, run.Lo+down, run.Hi+down) {
		down++
	}
	if up+down == 0 {
		return 0
	}
	at, least := 0, 0
	// Going upwards, only a better place replaces one below it.
	for by := down; by >= -up; by-- {
		if c := cost(l, run.Lo+by) + cost(l, run.Hi+by); by == down || c < least {
			at, least = by, c
		}
	}
	return at
}

// sameLine reports whether two lines of a text are equal. A run can move down by one line
// if the line below it equals its first line: the same lines then stay, in another order of
// removing and keeping.
func sameLine(l *diff3.Lines, i, j int) bool {
	return bytes.Equal(l.Slice(i, i+1), l.Slice(j, j+1))
}

// cost returns the cost of a cut before line i. It is low before lines with little
// indentation, after blank lines, and at both ends of the text; it is high before a line
// that closes the block of the line above. The penalty of 12 is three columns of
// indentation: before a bracket that closes a block, a cut is bad even if it is indented a
// little less. A blank line above only decides between places that are equal otherwise.
func cost(l *diff3.Lines, i int) int {
	if i == 0 || i == l.Len() {
		return -1
	}
	before, after := max(nearest(l, i-1, -1), 0), max(nearest(l, i, 1), 0)
	here, above := indent(l.Slice(i, i+1)), indent(l.Slice(i-1, i))
	c := 4 * after
	if here >= 0 && above >= 0 && after < before {
		c += 12
	}
	if above < 0 {
		c--
	}
	return c
}

// nearest returns the indentation of the first line from i on that is not blank, or -1 if
// there is none near. Blank lines say nothing about the block that they are in.
func nearest(l *diff3.Lines, i, step int) int {
	for n := 0; n < maxBlanks && 0 <= i && i < l.Len(); n++ {
		if in := indent(l.Slice(i, i+1)); in >= 0 {
			return in
		}
		i += step
	}
	return -1
}

// indent returns the indentation of a line in columns, or -1 for a blank line. Tabs go to
// the next multiple of 8, as on a terminal; only the order of indentations matters.
func indent(line []byte) int {
	n := 0
	for _, c := range line {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 8 - n%8
		case '\r', '\n', '\v', '\f':
		default:
			return n
		}
		if n >= maxIndent {
			return maxIndent
		}
	}
	return -1
}
