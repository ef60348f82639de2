package textdiff

import (
	"bytes"

	"github.com/aycoder/aycoder/internal/diff3"
)

const (
	maxSlide  = 100 // lines by which a change is moved
	maxBlanks = 20  // blank lines that are skipped to find one that is not
	maxIndent = 200 // columns
)

// slide moves insertions and deletions that could as well stand some lines further up
// or down to where a reader would see them: so that a whole function or block is
// added, not the end of one and the head of the next.
func slide(s *diff3.Script) {
	for i := range s.Hunks {
		h := &s.Hunks[i]
		above, below := h.A0, s.A.Len()-h.A1
		if i > 0 {
			above = h.A0 - s.Hunks[i-1].A1 - 1 // a line stays between two changes
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

// best returns how far down a run of lines is to be moved. The lowest place is taken
// among those that are as good.
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
	for by := down; by >= -up; by-- {
		if c := cost(l, run.Lo+by) + cost(l, run.Hi+by); by == down || c < least {
			at, least = by, c
		}
	}
	return at
}

// sameLine reports whether two lines of a text are equal.
func sameLine(l *diff3.Lines, i, j int) bool {
	return bytes.Equal(l.Slice(i, i+1), l.Slice(j, j+1))
}

// cost says how bad it is to cut a text before line i. Good places are before lines
// that are indented little, after blank lines, and at both ends; bad ones are before
// lines that close what the line above is in.
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

// nearest returns the indentation of the first line from i on that is not blank, or
// -1 if there is none near.
func nearest(l *diff3.Lines, i, step int) int {
	for n := 0; n < maxBlanks && 0 <= i && i < l.Len(); n++ {
		if in := indent(l.Slice(i, i+1)); in >= 0 {
			return in
		}
		i += step
	}
	return -1
}

// indent returns by how many columns a line is indented, -1 if it is blank.
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
