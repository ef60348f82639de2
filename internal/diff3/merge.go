// Package diff3 compares texts by lines and merges them three-way. Its results are those of git:
// the same hunks, the same conflicts, the same bytes. It is pure, accepts any bytes, and is
// bounded in time and memory.
//
// It works in steps, with a file for each:
//
//   - lines.go splits texts into lines and gives equal lines equal numbers, so that all further
//     steps compare numbers.
//   - diff.go sets aside the lines that cannot match, myers.go finds a short script for the
//     others, and compact.go moves its hunks to the places where people expect them.
//   - merge.go combines the scripts from base to ours and from base to theirs. It finds the
//     regions: unchanged, changed on one side, changed in the same way on both, or in conflict.
//   - binary.go handles texts that are not compared by lines.
//   - suggest.go, endings.go and imports.go look for resolutions of conflicts. render.go writes
//     the merged text.
//
// The algorithm is exactly that of git, although others find equally short scripts. If lines
// repeat, there are many shortest scripts, and the choice among them decides whether two changes
// touch. Another choice would be as good in itself, but would find conflicts that git does not
// find, and miss some that git finds.
package diff3

import (
	"slices"
	"sort"
	"sync"
)

// Kind says from which side the text of a region comes.
type Kind int

// The kinds of a [Region].
const (
	Unchanged Kind = iota // base, ours and theirs are equal
	Ours                  // theirs is equal to base: ours is taken
	Theirs                // ours is equal to base: theirs is taken
	Both                  // ours and theirs made the same change
	Conflict              // ours and theirs made different changes
)

// Span is a range of lines, from Lo up to but not including Hi. Lines count from 0.
type Span struct{ Lo, Hi int }

// Len returns the number of lines.
func (s Span) Len() int { return s.Hi - s.Lo }

// Region is a part of a merge. The regions of a merge follow each other without a gap in all
// three texts.
type Region struct {
	Kind               Kind
	Base, Ours, Theirs Span
	Suggestion         *Suggestion // of a conflict, nil if there is none

	// core is a part of Base. It excludes the lines that belong to the conflict only because
	// their replacements were cut off it. Suggestions treat that part of the change as made.
	core Span
}

// Style says which lines of a conflict are shown.
type Style int

// The styles are git's.
const (
	StyleMerge  Style = iota // ours and theirs, without lines they have in common
	StyleDiff3               // all lines of ours, base and theirs
	StyleZdiff3              // like StyleDiff3, without common lines at both ends
)

// Options configures [Merge].
type Options struct {
	Style    Style
	Touching bool // merge changes that touch but do not overlap
}

// Result is the outcome of a merge.
type Result struct {
	Base, Ours, Theirs *Lines
	Regions            []Region
	// Binary reports that the texts were merged as a whole, and not by lines.
	Binary bool

	style Style
}

// Merge merges ours and theirs, which were both made from base.
//
// The algorithm is diff3, as described by S. Khanna, K. Kunal and B. C. Pierce in "A Formal
// Investigation of Diff3" (2007), with the rules of git: changes of the two sides that overlap or
// touch are a conflict unless they are the same, and the style decides which lines belong to a
// conflict.
func Merge(base, ours, theirs []byte, o Options) *Result {
	if slices.ContainsFunc([][]byte{base, ours, theirs}, Whole) {
		return mergeBinary(base, ours, theirs, o)
	}
	r := mergeLines(base, ours, theirs, o)
	r.suggest()
	return r
}

// mergeLines merges texts that are not binary. All three share one table, so that equal lines
// have equal numbers and no bytes are compared afterwards.
func mergeLines(base, ours, theirs []byte, o Options) *Result {
	t := newTable()
	m := merger{opts: o}
	m.base, m.ours, m.theirs = t.add(base), t.add(ours), t.add(theirs)
	return m.merge(t)
}

// manyLines is the number of lines from which a second goroutine saves time.
const manyLines = 5000

// merge merges the texts of m, whose lines are in the table t.
func (m *merger) merge(t *table) *Result {
	m.differ = newDiffer(t)
	if m.base.Len() < manyLines {
		m.toOurs = m.differ.diff(m.base.ids, m.ours.ids)
		m.toTheirs = m.differ.diff(m.base.ids, m.theirs.ids)
	} else {
		// Two goroutines must not share a differ, which holds the counts of one diff.
		var wg sync.WaitGroup
		wg.Go(func() { m.toTheirs = newDiffer(t).diff(m.base.ids, m.theirs.ids) })
		m.toOurs = m.differ.diff(m.base.ids, m.ours.ids)
		wg.Wait()
	}
	m.walk()
	return &Result{Base: m.base, Ours: m.ours, Theirs: m.theirs, Regions: m.fill(),
		style: m.opts.Style}
}

// Conflicts returns the number of conflicts.
func (r *Result) Conflicts() int {
	n := 0
	for i := range r.Regions {
		if r.Regions[i].Kind == Conflict {
			n++
		}
	}
	return n
}

// merger collects the regions of a merge that are not unchanged.
type merger struct {
	opts               Options
	base, ours, theirs *Lines
	differ             *differ
	toOurs, toTheirs   []Hunk
	parts              []part
}

// part is a region that is not unchanged.
type part struct {
	Region
	// plain is set for a change that both sides made in the same place. Git does not count it as
	// a change, so two conflicts may be joined across it.
	plain bool
}

// walk goes through the changes of both sides, and groups those that overlap or touch.
func (m *merger) walk() {
	for i, j := 0, 0; i < len(m.toOurs) || j < len(m.toTheirs); {
		g := m.group(i, j)
		m.add(g)
		i, j = i+len(g.ours), j+len(g.theirs)
	}
}

// group is a range of base in which changes of both sides overlap or touch, with the
// corresponding ranges of ours and theirs.
type group struct {
	Region
	ours, theirs []Hunk
}

// group collects the changes from toOurs[i:] and toTheirs[j:] that overlap or touch. Each change
// that is added may extend the range, so it repeats until none is added.
func (m *merger) group(i, j int) group {
	var g group
	if j == len(m.toTheirs) || i < len(m.toOurs) && m.toOurs[i].A0 <= m.toTheirs[j].A0 {
		g.Base = Span{m.toOurs[i].A0, m.toOurs[i].A0}
	} else {
		g.Base = Span{m.toTheirs[j].A0, m.toTheirs[j].A0}
	}
	for n := -1; n != len(g.ours)+len(g.theirs); {
		n = len(g.ours) + len(g.theirs)
		g.ours = extend(m.toOurs[i:], g.ours, &g.Base)
		g.theirs = extend(m.toTheirs[j:], g.theirs, &g.Base)
	}
	g.Ours = image(m.toOurs, i, len(g.ours), g.Base)
	g.Theirs = image(m.toTheirs, j, len(g.theirs), g.Base)
	g.Kind, g.core = m.kind(&g), g.Base
	return g
}

// extend takes the hunks that begin before or at the end of base, and extends base to their ends.
func extend(hunks, taken []Hunk, base *Span) []Hunk {
	n := len(taken)
	for n < len(hunks) && hunks[n].A0 <= base.Hi {
		base.Hi = max(base.Hi, hunks[n].A1)
		n++
	}
	return hunks[:n]
}

// image returns the range of the new text that corresponds to a range of base. The n hunks from
// index i must lie in the range, and all others outside of it.
func image(hunks []Hunk, i, n int, base Span) Span {
	return Span{base.Lo + shift(hunks, i), base.Hi + shift(hunks, i+n)}
}

// shift returns by how much the lines between hunk i-1 and hunk i have moved.
func shift(hunks []Hunk, i int) int {
	if i == 0 {
		return 0
	}
	return hunks[i-1].B1 - hunks[i-1].A1
}

// kind returns the kind of a group. A change on both sides is a conflict unless both made the
// same change in the same place.
func (m *merger) kind(g *group) Kind {
	switch {
	case len(g.theirs) == 0:
		return Ours
	case len(g.ours) == 0:
		return Theirs
	case len(g.ours) > 1 || len(g.theirs) > 1:
		return Conflict
	case g.ours[0].A0 == g.theirs[0].A0 && g.ours[0].A1 == g.theirs[0].A1 &&
		m.same(g.Ours, g.Theirs):
		return Both
	}
	return Conflict
}

// same reports whether a range of ours is equal to a range of theirs.
func (m *merger) same(ours, theirs Span) bool {
	return slices.Equal(m.ours.ids[ours.Lo:ours.Hi], m.theirs.ids[theirs.Lo:theirs.Hi])
}

// add appends a group. If it is a conflict, its lines are those that the style shows.
func (m *merger) add(g group) {
	switch {
	case g.Kind == Both:
		m.parts = append(m.parts, part{g.Region, true})
	case g.Kind != Conflict:
		m.parts = append(m.parts, part{Region: g.Region})
	case m.opts.Touching && m.split(&g):
	case m.opts.Style == StyleMerge:
		m.refine(&g)
	case m.opts.Style == StyleZdiff3:
		m.peel(&g)
	default:
		m.parts = append(m.parts, part{Region: g.Region})
	}
}

// refine splits a conflict into one conflict for each difference between ours and theirs.
func (m *merger) refine(g *group) {
	if g.Ours.Len() == 0 || g.Theirs.Len() == 0 {
		m.conflict(g.Region)
		return
	}
	ours, theirs := m.ours.ids[g.Ours.Lo:g.Ours.Hi], m.theirs.ids[g.Theirs.Lo:g.Theirs.Hi]
	hunks := m.differ.diff(ours, theirs)
	if len(hunks) == 0 {
		g.Kind = Both
		m.parts = append(m.parts, part{Region: g.Region})
		return
	}
	base, at := g.Base.Lo, g.Ours.Lo // where the conflict before ends
	for _, h := range hunks {
		r := Region{Kind: Conflict}
		r.Ours = Span{g.Ours.Lo + h.A0, g.Ours.Lo + h.A1}
		r.Theirs = Span{g.Theirs.Lo + h.B0, g.Theirs.Lo + h.B1}
		r.Base.Lo = max(base, preimage(g, r.Ours.Lo, false))
		r.Base.Hi = max(r.Base.Lo, preimage(g, r.Ours.Hi, true))
		r.core = r.Base
		if !m.kept(Span{base, r.Base.Lo}, Span{at, r.Ours.Lo}) {
			r.Base.Lo = base
		}
		base, at = r.Base.Hi, r.Ours.Hi
		m.conflict(r)
	}
	if last := &m.parts[len(m.parts)-1]; !m.kept(Span{base, g.Base.Hi}, Span{at, g.Ours.Hi}) {
		last.Base.Hi = g.Base.Hi
	}
}

// kept reports whether ours still has the lines of base beside a conflict. If not, these lines
// must belong to the conflict. Otherwise they would be lost if a user chose base for it.
func (m *merger) kept(base, ours Span) bool {
	return slices.Equal(m.base.ids[base.Lo:base.Hi], m.ours.ids[ours.Lo:ours.Hi])
}

// preimage returns the line of base that corresponds to the boundary before a line of ours. If
// several lines do, it returns the last if end is set, and the first otherwise. Within a change,
// lines correspond one by one, as far as both sides have a line.
func preimage(g *group, at int, end bool) int {
	i := sort.Search(len(g.ours), func(i int) bool { return g.ours[i].B1 >= at })
	if i == len(g.ours) {
		h := g.ours[i-1]
		return h.A1 + at - h.B1
	}
	h := g.ours[i]
	whole := h.B1 - h.B0
	switch {
	case at < h.B0, at == h.B0 && !(end && whole == 0):
		return h.A0 - (h.B0 - at)
	case at == h.B1, end && h.A1-h.A0 != whole:
		return h.A1
	}
	return min(h.A0+at-h.B0, h.A1)
}

// conflict appends a conflict. As in git, it is joined with the conflict before if there are no
// more than three lines between them, or no line with a letter or a digit.
func (m *merger) conflict(r Region) {
	n := len(m.parts)
	for n > 0 && m.parts[n-1].plain {
		n--
	}
	if n > 0 && m.parts[n-1].Kind == Conflict {
		p := &m.parts[n-1].Region
		if r.Ours.Lo-p.Ours.Hi <= 3 || !hasAlnum(m.ours.Slice(p.Ours.Hi, r.Ours.Lo)) {
			p.Base.Hi, p.Ours.Hi, p.Theirs.Hi = r.Base.Hi, r.Ours.Hi, r.Theirs.Hi
			p.core.Hi = r.core.Hi
			m.parts = m.parts[:n]
			return
		}
	}
	m.parts = append(m.parts, part{Region: r})
}

// hasAlnum reports whether a text has a letter or a digit.
func hasAlnum(text []byte) bool {
	return slices.ContainsFunc(text, func(c byte) bool {
		return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	})
}

// peel removes from a conflict the lines that ours and theirs both begin with or both end with.
func (m *merger) peel(g *group) {
	r := g.Region
	for r.Ours.Len() > 0 && r.Theirs.Len() > 0 &&
		m.ours.ids[r.Ours.Lo] == m.theirs.ids[r.Theirs.Lo] {
		r.Ours.Lo++
		r.Theirs.Lo++
	}
	for r.Ours.Len() > 0 && r.Theirs.Len() > 0 &&
		m.ours.ids[r.Ours.Hi-1] == m.theirs.ids[r.Theirs.Hi-1] {
		r.Ours.Hi--
		r.Theirs.Hi--
	}
	m.parts = append(m.parts, part{Region: r})
}

// split appends the changes of a group one by one, if each replaces or deletes different lines.
// It returns false if changes overlap, or if one is an insertion: the order of an insertion and
// the change beside it would be a guess.
func (m *merger) split(g *group) bool {
	at := Region{
		Base: Span{Hi: g.Base.Lo}, Ours: Span{Hi: g.Ours.Lo}, Theirs: Span{Hi: g.Theirs.Lo},
	}
	n := len(m.parts)
	for i, j := 0, 0; i < len(g.ours) || j < len(g.theirs); {
		var h Hunk
		ours := j == len(g.theirs) || i < len(g.ours) && g.ours[i].A0 < g.theirs[j].A0
		if ours {
			h = g.ours[i]
			i++
		} else {
			h = g.theirs[j]
			j++
		}
		if h.A0 < at.Base.Hi || h.A0 == h.A1 {
			m.parts = m.parts[:n]
			return false
		}
		at = at.next(h, ours)
		m.parts = append(m.parts, part{Region: at})
	}
	return true
}

// next returns the region of the next hunk of one side. The lines between r and the hunk are
// unchanged.
func (r *Region) next(h Hunk, ours bool) Region {
	n := h.A0 - r.Base.Hi
	o, t := r.Ours.Hi+n, r.Theirs.Hi+n
	was, is := h.A1-h.A0, h.B1-h.B0
	if ours {
		return Region{Kind: Ours, Base: Span{h.A0, h.A1}, Ours: Span{o, o + is},
			Theirs: Span{t, t + was}}
	}
	return Region{Kind: Theirs, Base: Span{h.A0, h.A1}, Ours: Span{o, o + was},
		Theirs: Span{t, t + is}}
}

// fill returns all regions: the parts and the unchanged regions between them.
func (m *merger) fill() []Region {
	rs := make([]Region, 0, 2*len(m.parts)+1)
	var at Region
	for i := range m.parts {
		p := m.parts[i].Region
		rs = m.between(rs, at, p)
		rs = append(rs, p)
		at = p
	}
	end := Region{}
	end.Base.Lo, end.Ours.Lo, end.Theirs.Lo = m.base.Len(), m.ours.Len(), m.theirs.Len()
	return m.between(rs, at, end)
}

// between appends the region between two parts. Ours and theirs are equal there. Base may differ
// if a conflict beside the region was reduced.
func (m *merger) between(rs []Region, p, q Region) []Region {
	r := Region{
		Base: Span{p.Base.Hi, q.Base.Lo}, Ours: Span{p.Ours.Hi, q.Ours.Lo},
		Theirs: Span{p.Theirs.Hi, q.Theirs.Lo},
	}
	if r.Base.Len() == 0 && r.Ours.Len() == 0 && r.Theirs.Len() == 0 {
		return rs
	}
	if !slices.Equal(m.base.ids[r.Base.Lo:r.Base.Hi], m.ours.ids[r.Ours.Lo:r.Ours.Hi]) {
		r.Kind = Both
	}
	return append(rs, r)
}
