package textdiff

import (
	"slices"

	"github.com/aycoder/aycoder/internal/diff3"
)

// Kind is the kind of a row.
type Kind int

// The kinds of rows.
const (
	Equal   Kind = iota // the same line on both sides
	Changed             // an old line and the new one in its place
	Removed             // an old line only
	Added               // a new line only
)

// Row is a line of a view of both texts side by side.
type Row struct {
	Kind     Kind
	Old, New Line
}

// Line is one side of a row.
type Line struct {
	Number  int // 1-based; 0 if the row has no line on this side
	Text    []byte
	Changed [][2]int // byte ranges of Text that differ from the line beside it
}

// Rows returns a hunk as rows. An insertion stands beside nothing, so the numbers of both
// sides run on by themselves.
func (d *Diff) Rows(h *Hunk) []Row {
	rows := make([]Row, 0, max(h.Old.Len(), h.New.Len()))
	for _, op := range h.ops() {
		if op.Equal {
			for i := range op.A1 - op.A0 {
				rows = append(rows, Row{Equal, line(d.Old, op.A0+i), line(d.New, op.B0+i)})
			}
			continue
		}
		rows = d.changed(rows, op.Hunk)
	}
	return rows
}

func line(l *diff3.Lines, i int) Line {
	return Line{Number: i + 1, Text: l.Slice(i, i+1)}
}

// changed appends the rows of a change: pairs of similar lines, and between them the other
// lines, side by side while both sides have some. Lines that are not similar still share a
// row, since a reader expects the new text where the old one was.
func (d *Diff) changed(rows []Row, h diff3.Hunk) []Row {
	for _, p := range d.pairs(h) {
		for h.A0 < p[0] && h.B0 < p[1] {
			rows = append(rows, d.replaced(h.A0, h.B0))
			h.A0, h.B0 = h.A0+1, h.B0+1
		}
		for ; h.A0 < p[0]; h.A0++ {
			rows = append(rows, Row{Kind: Removed, Old: line(d.Old, h.A0)})
		}
		for ; h.B0 < p[1]; h.B0++ {
			rows = append(rows, Row{Kind: Added, New: line(d.New, h.B0)})
		}
		if p[0] < h.A1 && p[1] < h.B1 {
			rows = append(rows, d.reworded(p[0], p[1]))
			h.A0, h.B0 = p[0]+1, p[1]+1
		}
	}
	return rows
}

// replaced returns a row of two unrelated lines. The words that they have in common by
// chance are not marked as equal.
func (d *Diff) replaced(i, j int) Row {
	r := Row{Changed, line(d.Old, i), line(d.New, j)}
	r.Old.Changed = spans{{0, len(r.Old.Text)}}
	r.New.Changed = spans{{0, len(r.New.Text)}}
	return r
}

// reworded returns a row of two similar lines, with their differences.
func (d *Diff) reworded(i, j int) Row {
	r := Row{Changed, line(d.Old, i), line(d.New, j)}
	r.Old.Changed, r.New.Changed = wordSpans(r.Old.Text, r.New.Text)
	return r
}

const (
	maxPairs = 2500 // pairs of lines in a change that are compared with one another
	// The table of a change has a cell for each pair, and comparing a pair takes time in
	// proportion to both lines.
	maxPaired = 16 << 10 // bytes of lines that are compared
)

// pairs returns the similar lines of a change as pairs of line numbers, in order. The last
// pair is the end of the change. Above the bounds, lines are taken to correspond in their
// order, which is right for a column that was renamed throughout.
func (d *Diff) pairs(h diff3.Hunk) [][2]int {
	n, m := h.A1-h.A0, h.B1-h.B0
	size := max(len(d.Old.Slice(h.A0, h.A1)), len(d.New.Slice(h.B0, h.B1)))
	var out [][2]int
	switch {
	case n == 0 || m == 0:
	case n*m > maxPairs || size > maxPaired:
		for i := range min(n, m) {
			if alike(d.Old.Slice(h.A0+i, h.A0+i+1), d.New.Slice(h.B0+i, h.B0+i+1)) >= minAlike {
				out = append(out, [2]int{h.A0 + i, h.B0 + i})
			}
		}
	default:
		for _, p := range d.match(h) {
			out = append(out, [2]int{h.A0 + p[0], h.B0 + p[1]})
		}
	}
	return append(out, [2]int{h.A1, h.B1})
}

// match pairs the lines of a change, in order, with the greatest possible sum of
// similarities. It fills a table from the end, as for a longest common subsequence.
func (d *Diff) match(h diff3.Hunk) [][2]int {
	var v vocabulary
	olds, news := v.bags(d.Old, h.A0, h.A1), v.bags(d.New, h.B0, h.B1)
	n, m := len(olds), len(news)
	like := make([]int, n*m)
	sum := make([]int, (n+1)*(m+1)) // the best sum for the lines from i and j on
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			at := i*(m+1) + j
			sum[at] = max(sum[at+1], sum[at+m+1])
			if p := olds[i].alike(news[j]); p >= minAlike {
				like[i*m+j] = p
				sum[at] = max(sum[at], sum[at+m+2]+p)
			}
		}
	}
	var out [][2]int
	// The table is followed from its start; where a pair and a gap are equally good, the
	// pair is taken, so that lines are paired as early as possible.
	for i, j := 0, 0; i < n && j < m; {
		at := i*(m+1) + j
		switch p := like[i*m+j]; {
		case p > 0 && sum[at] == sum[at+m+2]+p:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case sum[at] == sum[at+m+1]:
			i++
		default:
			j++
		}
	}
	return out
}

// minAlike is the percentage of two lines that must be equal for them to be shown as one
// reworded line. Below it, the marked words would be most of both lines, and two plain
// lines are easier to read.
const minAlike = 40

// bag holds the sorted words of a line, and their number of bytes. The order of the words
// does not count, so that a line whose arguments were exchanged is still similar.
type bag struct {
	words []int32
	size  int
	v     *vocabulary
}

// vocabulary numbers words.
type vocabulary struct {
	ids   map[string]int32
	sizes []int
}

// bags returns the words of the lines from lo up to hi.
func (v *vocabulary) bags(l *diff3.Lines, lo, hi int) []bag {
	out := make([]bag, 0, hi-lo)
	for i := lo; i < hi; i++ {
		out = append(out, v.bag(body(l.Slice(i, i+1))))
	}
	return out
}

// bag returns the words and other characters of a line, without blanks.
func (v *vocabulary) bag(text []byte) bag {
	if v.ids == nil {
		v.ids = make(map[string]int32)
	}
	b := bag{v: v}
	for len(text) > 0 {
		n := tokenLen(text)
		word := text[:n]
		text = text[n:]
		if word[0] == ' ' || word[0] == '\t' {
			continue
		}
		id, ok := v.ids[string(word)]
		if !ok {
			id = int32(len(v.sizes))
			v.ids[string(word)] = id
			v.sizes = append(v.sizes, n)
		}
		b.words = append(b.words, id)
		b.size += n
	}
	slices.Sort(b.words)
	return b
}

// alike returns the percentage, by bytes, of the words of two lines that both have. Blanks
// do not count. Bytes are counted rather than words, since a long name says more about a
// line than a bracket.
func (b bag) alike(c bag) int {
	if b.size+c.size == 0 {
		return 100
	}
	common := 0
	for i, j := 0, 0; i < len(b.words) && j < len(c.words); {
		switch x, y := b.words[i], c.words[j]; {
		case x < y:
			i++
		case x > y:
			j++
		default:
			common += b.v.sizes[x]
			i, j = i+1, j+1
		}
	}
	return 200 * common / (b.size + c.size)
}

// alike compares two lines. Of long lines it compares only the heads and tails.
func alike(a, b []byte) int {
	a, b = body(a), body(b)
	if max(len(a), len(b)) > maxWords {
		head, tail := affixes(a, b)
		return 200 * (head + tail) / (len(a) + len(b))
	}
	var v vocabulary
	return v.bag(a).alike(v.bag(b))
}
