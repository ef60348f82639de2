package diff3

import "bytes"

// Hunk is a change: the lines a[A0:A1] became the lines b[B0:B1]. Either range may be empty, but
// not both.
type Hunk struct{ A0, A1, B0, B1 int }

// Script says how the text A became the text B.
type Script struct {
	A, B  *Lines
	Hunks []Hunk // in order; between two there is at least one equal line
}

// Diff compares two texts by lines, including their line endings, as git does. It accepts any
// bytes. It usually takes linear time, at worst O(n·√n), and linear memory. A text of more than
// 1,023 MiB is compared as one line.
func Diff(a, b []byte) *Script {
	if max(len(a), len(b)) > maxSize {
		return diffWhole(a, b)
	}
	t := newTable()
	s := &Script{A: t.add(a), B: t.add(b)}
	d := newDiffer(t)
	s.Hunks = d.diff(s.A.ids, s.B.ids)
	return s
}

// diffWhole compares two texts as if each was one line.
func diffWhole(a, b []byte) *Script {
	s := &Script{A: whole(a), B: whole(b)}
	if !bytes.Equal(a, b) {
		s.Hunks = []Hunk{{A1: s.A.Len(), B1: s.B.Len()}}
	}
	return s
}

// Change is a change of whole lines, including their line endings. Lines are counted from 1. If
// Old or New is empty, its number is that of the following line.
type Change struct {
	OldLine, NewLine int
	Old, New         string
}

// Changes returns the hunks with their lines.
func (s *Script) Changes() []Change {
	out := make([]Change, len(s.Hunks))
	for i, h := range s.Hunks {
		out[i] = Change{h.A0 + 1, h.B0 + 1, string(s.A.Slice(h.A0, h.A1)),
			string(s.B.Slice(h.B0, h.B1))}
	}
	return out
}

// differ holds memory that several diffs over the lines of one table share.
type differ struct {
	inA, inB []int32 // how often a line occurs, by id; zero between two diffs
	fwd, bwd []int32
}

// newDiffer returns a differ for lines whose numbers are in the table t.
func newDiffer(t *table) *differ {
	return &differ{inA: make([]int32, t.size()), inB: make([]int32, t.size())}
}

// diff returns the changes from a to b.
func (d *differ) diff(a, b []int32) []Hunk {
	p := pair{a: side{ids: a}, b: side{ids: b}}
	p.trim()
	if p.lo == p.hiA && p.lo == p.hiB {
		return nil
	}
	p.a.changed = make([]bool, len(a)+1) // the last element is never set, and so ends the last run
	p.b.changed = make([]bool, len(b)+1)
	d.compare(&p)
	compact(&p.a, &p.b)
	compact(&p.b, &p.a)
	return p.hunks()
}

// pair is two texts and which of their lines differ. Only a[lo:hiA] and b[lo:hiB] can differ,
// because the texts have equal lines before and after these ranges.
type pair struct {
	a, b         side
	lo, hiA, hiB int
}

// side is one text, as the numbers of its lines. It marks the lines that only this text has.
type side struct {
	ids     []int32
	changed []bool
}

// mark marks a range of lines as changed.
func (s *side) mark(lo, hi int) {
	for i := lo; i < hi; i++ {
		s.changed[i] = true
	}
}

// trim skips equal lines at both ends. They are most of the lines of two versions of a file.
func (p *pair) trim() {
	a, b := p.a.ids, p.b.ids
	n := min(len(a), len(b))
	for p.lo < n && a[p.lo] == b[p.lo] {
		p.lo++
	}
	p.hiA, p.hiB = len(a), len(b)
	for p.hiA > p.lo && p.hiB > p.lo && a[p.hiA-1] == b[p.hiB-1] {
		p.hiA--
		p.hiB--
	}
}

// compare marks the lines that differ. It first sets aside the lines that cannot match.
func (d *differ) compare(p *pair) {
	if p.lo == p.hiA || p.lo == p.hiB {
		p.a.mark(p.lo, p.hiA)
		p.b.mark(p.lo, p.hiB)
		return
	}
	count(d.inA, p.a.ids)
	count(d.inB, p.b.ids)
	a := p.a.sift(d.inB, p.lo, p.hiA)
	b := p.b.sift(d.inA, p.lo, p.hiB)
	forget(d.inA, p.a.ids)
	forget(d.inB, p.b.ids)
	size := len(a.ids) + len(b.ids) + 3
	// The arrays are the largest part of the memory, so several diffs share them.
	if cap(d.fwd) < size {
		d.fwd, d.bwd = make([]int32, size), make([]int32, size)
	}
	m := myers{a: a.ids, b: b.ids, fwd: d.fwd[:cap(d.fwd)], bwd: d.bwd[:cap(d.bwd)]}
	m.onlyA = func(lo, hi int) { p.a.markAt(a.at[lo:hi]) }
	m.onlyB = func(lo, hi int) { p.b.markAt(b.at[lo:hi]) }
	m.run()
}

// markAt marks lines that sift has left, whose positions in the text differ from those in the
// search.
func (s *side) markAt(at []int32) {
	for _, i := range at {
		s.changed[i] = true
	}
}

// count counts how often each line occurs.
func count(in, ids []int32) {
	for _, id := range ids {
		in[id]++
	}
}

// forget sets the counts of count to zero again, for the next diff.
func forget(in, ids []int32) {
	for _, id := range ids {
		in[id] = 0
	}
}

// sifted holds the lines of a side that the search compares, and their positions in the text.
type sifted struct{ ids, at []int32 }

// How much a line helps to match two texts.
const (
	useless  = iota // it does not occur in the other text
	useful          // it occurs in the other text
	frequent        // it occurs there so often that a match means little
)

const (
	maxFrequent = 1024 // a line that occurs this often is frequent in any text
	frequentRun = 100  // how far to look around a frequent line
)

// sift marks the lines of s[lo:hi] that do not occur in the other text as changed. It also marks
// frequent lines amid such lines, where a match would be by chance. It returns the other lines.
func (s *side) sift(other []int32, lo, hi int) sifted {
	limit := int32(min(roughSqrt(len(s.ids)), maxFrequent))
	worth := make([]uint8, hi-lo)
	for i, id := range s.ids[lo:hi] {
		switch n := other[id]; {
		case n >= limit:
			worth[i] = frequent
		case n > 0:
			worth[i] = useful
		}
	}
	left := sifted{make([]int32, 0, hi-lo), make([]int32, 0, hi-lo)}
	around := surroundings{worth: worth, above: window{worth: worth}, below: window{worth: worth},
		before: -1}
	for i, w := range worth {
		if w == useful {
			around.before = i
		}
		if w == useful || w == frequent && !around.lost(i) {
			left.ids = append(left.ids, s.ids[lo+i])
			left.at = append(left.at, int32(lo+i))
		} else {
			s.changed[lo+i] = true
		}
	}
	return left
}

// surroundings describes the lines around a line. It must be asked about lines in ascending
// order.
type surroundings struct {
	worth         []uint8
	above, below  window
	before, after int // the useful lines next to the line
}

// lost reports whether the frequent line i is surrounded by useless lines. It looks at the run of
// lines around i that are not useful. There must be useless lines before and after i, and more
// than three times as many as frequent ones, where i counts twice. The rule is git's.
func (s *surroundings) lost(i int) bool {
	s.after = max(s.after, i+1)
	for s.after < len(s.worth) && s.worth[s.after] != useful {
		s.after++
	}
	from, to := max(s.before+1, i-frequentRun), min(s.after, i+1+frequentRun)
	above, below := s.above.useless(from, i), s.below.useless(i+1, to)
	return above > 0 && below > 0 && above+below > 3*(to-from+1-above-below)
}

// window counts the useless lines in a range whose ends only move down.
type window struct {
	worth  []uint8
	lo, hi int
	n      int
}

// useless returns the number of useless lines in a range. As the range only moves down, all calls
// together take linear time.
func (w *window) useless(lo, hi int) int {
	if lo >= w.hi {
		w.lo, w.hi, w.n = lo, lo, 0
	}
	for ; w.hi < hi; w.hi++ {
		if w.worth[w.hi] == useless {
			w.n++
		}
	}
	for ; w.lo < lo; w.lo++ {
		if w.worth[w.lo] == useless {
			w.n--
		}
	}
	return w.n
}

// hunks makes hunks of the marked lines.
func (p *pair) hunks() []Hunk {
	var hs []Hunk
	ca, cb := p.a.changed, p.b.changed
	na, nb := len(p.a.ids), len(p.b.ids)
	for i, j := 0, 0; i < na || j < nb; i, j = i+1, j+1 {
		if !ca[i] && !cb[j] {
			continue
		}
		h := Hunk{A0: i, B0: j}
		for ca[i] {
			i++
		}
		for cb[j] {
			j++
		}
		h.A1, h.B1 = i, j
		hs = append(hs, h)
	}
	return hs
}
