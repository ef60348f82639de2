package editmatch

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
)

// tier is a way to compare lines: the later, the more is left out of account. A tier is
// tried only if no earlier one finds a place, so an exact old string is never taken for
// another text that is merely similar.
type tier struct {
	index int
	tail  bool // blanks at line ends do not count
	fold  bool // typographic characters are what a keyboard has for them
	lead  bool // indentation does not count; whole lines only
}

// tiers are ordered by how likely the mistake is that they allow for. Indentation comes
// late, because without it short lines mean many places.
var tiers = [...]tier{
	{index: 0},
	{index: 1, tail: true},
	{index: 2, tail: true, fold: true},
	{index: 3, tail: true, lead: true},
	{index: 4, tail: true, fold: true, lead: true},
}

// key appends the form in which lines are compared. The blanks are cut off after folding,
// which makes blanks of special spaces.
func (t tier) key(dst, line []byte) []byte {
	if t.fold {
		line = fold(nil, line)
	}
	if t.tail {
		line = bytes.TrimRight(line, blanks)
	}
	if t.lead {
		line = bytes.TrimLeft(line, blanks)
	}
	return append(dst, line...)
}

// variant is a form of an edit in which it is looked for.
type variant struct {
	old, new string
	level    Level // what was done to the edit, if anything
	whole    bool  // only whole lines: it begins where one does, and ends where one does
	atEnd    bool  // only at the end of the text
}

// pair is a variant in lines, and what is to be changed in them.
type pair struct {
	variant
	old, new []string
	endings  []bool // of the old lines, true for \r\n; nil if there are none
	hunks    []diff3.Hunk
}

// newPair cuts an edit into lines. Line endings are left out of account, unless
// neither the text nor the old string has \r\n: then one in the new string is meant.
func newPair(s *source, v variant) *pair {
	p := &pair{variant: v, old: lines(v.old), new: lines(v.new)}
	if !s.crlf && !strings.Contains(v.old, "\r\n") {
		return p
	}
	p.endings = make([]bool, len(p.old))
	for i, l := range p.old[:len(p.old)-1] {
		p.old[i], p.endings[i] = strings.CutSuffix(l, "\r")
	}
	for i, l := range p.new[:len(p.new)-1] {
		p.new[i] = strings.TrimSuffix(l, "\r")
	}
	return p
}

// lines cuts a text at line breaks. A byte order mark is not part of a line: no model
// copies it.
func lines(s string) []string { return strings.Split(strings.TrimPrefix(s, mark), "\n") }

// diff finds what is to be changed. There is nothing if only line endings are. The
// comparison is that of diffs, so that what is written is what a reviewer would see. Where both end in
// a line break, the empty text behind it is not compared: taken for a blank line, it would go in place
// of one that has blanks in the text, and these would come before the next line.
func (p *pair) diff() {
	old, to := p.old, p.new
	if n := len(to) - 1; p.ended() && to[n] == "" {
		old, to = old[:len(old)-1], to[:n]
	}
	text := func(lines []string) []byte { return []byte(strings.Join(append(slices.Clone(lines), ""), "\n")) }
	p.hunks = diff3.Diff(text(old), text(to)).Hunks
}

// probe is what a tier looks for. It is text and not lines, so that a place is found by a
// fast search for bytes.
type probe struct {
	*pair
	tier   tier
	needle []byte
	from   bool // has to begin a line
	to     bool // has to end one
}

// probe returns the form in which a tier looks for the old lines. The needle is empty if
// nothing but blanks is left. Where blanks are left out of account at an end of the needle,
// it must begin or end a line: in the middle of one, the blanks would count.
func (p *pair) probe(t tier) probe {
	last := len(p.old) - 1
	r := probe{pair: p, tier: t, from: p.whole, to: p.whole && !p.ended()}
	if t.index == 0 {
		r.needle = []byte(strings.Join(p.old, "\n"))
		return r
	}
	r.from = p.whole || t.lead || last > 0 && isBlank(p.old[0])
	r.to = !p.ended() && (p.whole || t.lead || tailOf(p.old[last]) != "")
	for i, l := range p.old {
		if i > 0 {
			r.needle = append(r.needle, '\n')
		}
		r.needle = t.key(r.needle, []byte(l))
	}
	if len(bytes.Trim(r.needle, blanks+"\n")) == 0 {
		r.needle = nil
	}
	return r
}

// fits reports whether the needle may be at text[at:end]. Only line breaks, and the ends of
// the text, bound lines in a layer.
func (r *probe) fits(text []byte, at, end int) bool {
	switch {
	case r.from && at > 0 && text[at-1] != '\n':
		return false
	case r.to && end < len(text) && text[end] != '\n':
		return false
	}
	return !r.atEnd || end == len(text)
}

// search returns where a tier finds the old lines: at most so many places, which do not
// overlap if all of them are wanted. Places may overlap if one is wanted, because then two
// that overlap are ambiguous, too.
func (s *source) search(r probe, most int, all bool) []int {
	if len(r.needle) == 0 {
		return nil
	}
	text := s.layer(r.tier).text
	var found []int
	for pos := 0; len(found) < most; {
		n := bytes.Index(text[pos:], r.needle)
		if n < 0 {
			break
		}
		at, end := pos+n, pos+n+len(r.needle)
		pos = at + 1
		if !r.fits(text, at, end) {
			continue
		}
		if found = append(found, at); all {
			pos = end
		}
	}
	return found
}

// finding is what was found for an edit.
type finding struct {
	hits  []*hit
	level Level // of the variant
}

// locate finds what an edit means. The edit itself is looked for first, and then what it
// may have been meant to be. The order is that of how little is changed: blank lines, then
// numbers, escapes, and lines left out.
func (s *source) locate(e Edit) (*finding, *Error) {
	v := variant{old: e.Old, new: e.New, whole: e.WholeLines}
	if p := newPair(s, v); strings.Join(p.old, "\n") == strings.Join(p.new, "\n") {
		return nil, &Error{Kind: NoChange, Level: LineEndings}
	}
	tries := []func(variant, bool) (*finding, *Error){s.try, s.tryEnds, s.tryNumbers, s.tryEscapes, s.tryElided}
	if e.WholeLines {
		tries = tries[:3]
	}
	for _, try := range tries {
		if f, err := try(v, e.ReplaceAll); f != nil || err != nil {
			return f, err
		}
	}
	return nil, s.notFound(e.Old)
}

// try looks for a variant, tier by tier. It returns nothing if there is none. More places
// than are wanted are counted up to a bound, for the message.
func (s *source) try(v variant, all bool) (*finding, *Error) {
	p := newPair(s, v)
	most := maxCount + 1
	if all {
		most = maxPlaces + 1
	}
	for _, t := range tiers {
		r := p.probe(t)
		found := s.search(r, most, all)
		if !all && len(found) > 1 {
			found = s.sameEndings(r, found)
		}
		switch {
		case len(found) == 0:
			continue
		case len(found) > 1 && !all:
			return nil, s.ambiguous(t, v.level, found)
		case len(found) > maxPlaces:
			return nil, &Error{Kind: TooLarge, Count: len(found)}
		}
		return s.hits(r, found)
	}
	return nil, nil
}

// sameEndings keeps of several places those with the line endings of the old string,
// if it has some that a model has to write on purpose.
func (s *source) sameEndings(r probe, found []int) []int {
	if r.tier.index > 0 || len(found) > maxCount || !strings.Contains(r.variant.old, "\r\n") {
		return found
	}
	var same []int
	for _, pos := range found {
		if h, err := s.hit(r, pos); err == nil && !h.otherEndings() {
			same = append(same, pos)
		}
	}
	if len(same) == 1 {
		return same
	}
	return found
}

// ambiguous makes the error for several places. A tier that allows for more is not tried
// then: it would find them, and others.
func (s *source) ambiguous(t tier, level Level, found []int) *Error {
	e := &Error{Kind: Ambiguous, Level: cmp.Or(level, t.level()), Count: len(found)}
	for _, pos := range found[:min(len(found), maxListed)] {
		line, _ := s.layer(t).locate(pos)
		e.Lines = append(e.Lines, line+1)
	}
	return e
}

// hits turns the positions that a tier found into places, in the order of the text.
func (s *source) hits(r probe, found []int) (*finding, *Error) {
	r.diff()
	f := &finding{level: r.level, hits: make([]*hit, 0, len(found))}
	for _, pos := range found {
		h, err := s.hit(r, pos)
		if err != nil {
			return nil, err
		}
		if n := len(f.hits); n > 0 {
			f.hits[n-1].apart(h)
		}
		f.hits = append(f.hits, h)
	}
	return f, nil
}

// hit is a place where the lines of an old string are.
type hit struct {
	*pair
	src      *source
	tier     tier
	line     int // of the first old line
	from, to int // in the text
	lead     int // blanks between the beginning of the first line and from
	indent   *indenter
}

// hit turns a position in the layer of a tier into a place of the text.
func (s *source) hit(r probe, pos int) (*hit, *Error) {
	p, t, l := r.pair, r.tier, s.layer(r.tier)
	line, col := l.locate(pos)
	last, endCol := l.locate(pos + len(r.needle))
	h := &hit{pair: p, src: s, tier: t, line: line}
	if t.lead {
		h.from, h.to = s.start(line), s.end(last)
		if p.ended() {
			h.to = s.start(last)
		}
		return h, h.fitIndent()
	}
	var ok1, ok2 bool
	h.from, ok1 = s.column(t, line, col)
	h.to, ok2 = s.column(t, last, endCol)
	if !ok1 || !ok2 {
		return nil, &Error{Kind: NotFound}
	}
	if rest := s.raw[h.to:s.end(last)]; !p.ended() && isBlank(rest) {
		h.to += len(rest)
	}
	if before := s.raw[s.start(line):h.from]; isBlank(before) {
		h.lead = len(before)
	}
	return h, nil
}

// apart leaves the blanks between two hits to neither of them.
func (h *hit) apart(next *hit) {
	h.to = min(h.to, next.from)
	next.lead = min(next.lead, next.from-h.to)
	if next.lead < next.from-next.src.start(next.line) {
		next.lead = 0
	}
}

// ended reports whether the old string ends in a line break. At the end of the text, what is behind
// the last one is a line, of blanks.
func (p *pair) ended() bool { return !p.atEnd && len(p.old) > 1 && p.old[len(p.old)-1] == "" }

// column returns the position in the text of a column of a layer. There is none
// within a character.
func (s *source) column(t tier, line, col int) (int, bool) {
	if !t.fold {
		return s.start(line) + col, true
	}
	c := cursor{text: s.line(line)}
	ok := c.toKey(col)
	return s.start(line) + c.pos, ok
}

// span returns where an old line is in the text. The first and the last may be parts of
// lines.
func (h *hit) span(i int) (from, to int) {
	from, to = h.from, h.to
	if i > 0 {
		from = h.src.start(h.line + i)
	}
	if i < len(h.old)-1 {
		to = h.src.end(h.line + i)
	}
	return from, to
}

// text returns what the text has for an old line.
func (h *hit) text(i int) string {
	from, to := h.span(i)
	return string(h.src.raw[from:to])
}

// lines returns the lines of the place. An empty last line is only the line break before
// it.
func (h *hit) lines() Place {
	last := h.line + len(h.old)
	if h.ended() {
		last--
	}
	return Place{h.line + 1, last}
}

// otherEndings reports whether the text has other line endings than the old string.
func (h *hit) otherEndings() bool {
	for i := range h.endings[:max(0, len(h.endings)-1)] {
		if h.endings[i] != (h.src.lineBreak(h.line+i) == "\r\n") {
			return true
		}
	}
	return false
}
