// Package textdiff shows the differences between two texts: as a unified diff, which it can
// also parse and apply, as rows side by side, and by changed words.
package textdiff

import (
	"bytes"

	"github.com/aycoder/aycoder/internal/diff3"
)

// Options control the form of a diff.
type Options struct {
	// OldName and NewName are the paths of the file, with slashes. An empty name means that
	// the file does not exist on that side.
	OldName, NewName string
	// Context is the number of unchanged lines that are shown around a change.
	Context int
}

// Diff holds the differences between two versions of a file.
type Diff struct {
	Options
	// Binary reports that the files differ and are not text. Then there are no hunks.
	Binary bool
	// Old and New are the texts, nil if one of them is binary.
	Old, New *diff3.Lines
	// Hunks are in order, with lines between them that are not shown.
	Hunks []Hunk
	// Added and Removed count lines.
	Added, Removed int
}

// Hunk is a part of a diff: changes with the lines around and between them. A change
// without lines on one side is an insertion or a deletion.
type Hunk struct {
	Old, New diff3.Span
	Changes  []diff3.Hunk
}

// Compare compares two texts by lines, terminators included. The result refers to the
// texts. The line ends are part of a line: a file whose line ends changed differs in every
// line, and a diff has to say so.
func Compare(before, after []byte, o Options) *Diff {
	d := &Diff{Options: o}
	if diff3.Whole(before) || diff3.Whole(after) {
		d.Binary = !bytes.Equal(before, after)
		return d
	}
	s := diff3.Diff(before, after)
	slide(s)
	d.Old, d.New = s.A, s.B
	d.group(s.Hunks)
	return d
}

// group joins changes whose contexts meet. Two changes with up to twice the context between
// them make one hunk, as lines would otherwise be shown twice.
func (d *Diff) group(changes []diff3.Hunk) {
	d.Context = min(max(d.Context, 0), d.Old.Len())
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].A0-changes[n-1].A1 <= 2*d.Context {
			n++
		}
		d.Hunks = append(d.Hunks, d.hunk(changes[:n:n]))
		changes = changes[n:]
	}
}

// hunk returns the changes with their context. The lines before the first and after the
// last change are equal in both texts. So both sides have the same number of context lines.
func (d *Diff) hunk(changes []diff3.Hunk) Hunk {
	first, last := changes[0], changes[len(changes)-1]
	above := min(d.Context, first.A0)
	below := min(d.Context, d.Old.Len()-last.A1)
	for _, c := range changes {
		d.Removed += c.A1 - c.A0
		d.Added += c.B1 - c.B0
	}
	return Hunk{
		Old:     diff3.Span{Lo: first.A0 - above, Hi: last.A1 + below},
		New:     diff3.Span{Lo: first.B0 - above, Hi: last.B1 + below},
		Changes: changes,
	}
}

// op is a step of a hunk: a change, or a range of equal lines.
type op struct {
	diff3.Hunk
	Equal bool
}

// ops returns the steps of the hunk, including equal lines.
func (h *Hunk) ops() []op {
	ops := make([]op, 0, 2*len(h.Changes)+1)
	a, b := h.Old.Lo, h.New.Lo
	same := func(to int) {
		if to > a {
			ops = append(ops, op{diff3.Hunk{A0: a, A1: to, B0: b, B1: b + to - a}, true})
		}
	}
	for _, c := range h.Changes {
		same(c.A0)
		ops = append(ops, op{c, false})
		a, b = c.A1, c.B1
	}
	same(h.Old.Hi)
	return ops
}
