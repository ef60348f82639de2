package mask

import (
	"slices"
	"strings"
	"sync"
)

// A text is gone through once, whatever the number of rules. The last four bytes are looked
// up in a table of bits, and only where a trigger may begin is anything compared. The check
// of a trigger then looks at the line around it. All checks keep two invariants: their time
// is bounded, also on a line of megabytes; and a text whose secrets were masked gives none,
// so that masking twice changes nothing.

// byPlace is the kind of a secret that is known by where it stands. It is one for all,
// and another kind counts more, so that the same secret has the same placeholder
// everywhere.
const byPlace = "value"

// A span is where a secret is in a text, and what it is.
type span struct {
	from, to int
	kind     string
	key      string // what its placeholder is made of, if not the text
}

// A trigger is a beginning that something may have that a check looks at. All are
// found in one pass over a text: searching for one after the other costs each a pass,
// and one regular expression of all of them is a hundred times slower.
type trigger struct {
	literal string // at least four bytes
	fold    bool   // in letters of any case
	check   func(f *finder, at int)
}

func (t *trigger) at(s string) bool {
	if !t.fold {
		return strings.HasPrefix(s, t.literal)
	}
	return len(s) >= len(t.literal) && strings.EqualFold(s[:len(t.literal)], t.literal)
}

const (
	indexBits = 17
	// foldBits makes letters of both cases the same, and some other characters, which
	// the check tells apart.
	foldBits = 0x20202020

	// maxBefore and maxAfter are how many bytes of a line are looked at around a
	// trigger, so that the time for a long line is bounded.
	maxBefore = 256
	maxAfter  = 8 << 10
)

// index finds triggers by their first four bytes. One look at the bits tells for nearly all
// places that nothing begins there.
type index struct {
	seen     [1 << indexBits / 32]uint32 // bits, by hash
	triggers map[uint32][]*trigger       // of this index, tried before those of rules
	rules    map[uint32][]*trigger       // of ruleIndex, shared
}

// ruleIndex is the index of all rules. It has 260 kB, so all maskers share it.
var ruleIndex = sync.OnceValue(func() *index {
	x := &index{triggers: map[uint32][]*trigger{}}
	x.addRules()
	return &index{seen: x.seen, rules: x.triggers}
})

// newIndex returns an index of the rules, to which triggers can be added that are tried before.
func newIndex() *index {
	x := *ruleIndex()
	x.triggers = map[uint32][]*trigger{}
	return &x
}

// slot returns the place of four bytes, by multiplicative hashing (Knuth, vol. 3, 6.4).
func slot(word uint32) uint32 { return word * 0x9E3779B1 >> (32 - indexBits) }

// word returns four bytes as a number, letters in lower case.
func word(s string) uint32 {
	return (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) | foldBits
}

// add makes the index find a trigger. One that was added before is tried before.
//
//go:noinline
func (x *index) add(t *trigger) {
	w := word(t.literal)
	h := slot(w)
	x.seen[h>>5] |= 1 << (h & 31)
	x.triggers[w] = append(x.triggers[w], t)
}

// addNext adds triggers for a literal of three bytes and each of the bytes after it.
func (x *index) addNext(literal, next string, check func(*finder, int)) {
	for i := range len(next) {
		x.add(&trigger{literal: literal + next[i:i+1], check: check})
	}
}

// finder looks for secrets in one text. A check sees only the line it is in or, for a block
// of a private key, the lines of the block; so a text that comes in pieces can be looked at
// line by line. Time is linear: each check looks at a bounded part of a line, and runs are
// remembered.
type finder struct {
	s      string
	around bool   // the lines around may tell, see Excerpt
	spans  []span // in order, apart
	runs   [sets]stretch
}

// A stretch of the text.
type stretch struct{ from, to int }

func (x *index) find(s string) []span { return x.look(s, false).spans }

// look goes through a text byte by byte, with the last four in a word.
func (x *index) look(s string, around bool) *finder {
	f := &finder{s: s, around: around}
	var w uint32
	for i := range len(s) {
		w = w>>8 | uint32(s[i])<<24
		k := w | foldBits
		h := slot(k)
		if x.seen[h>>5]&(1<<(h&31)) != 0 && i >= 3 {
			f.try(x.triggers[k], i-3)
			f.try(x.rules[k], i-3)
		}
	}
	return f
}

// try has the checks look at a place, in the order in which they were added.
func (f *finder) try(triggers []*trigger, at int) {
	for _, t := range triggers {
		if t.at(f.s[at:]) && f.sealed(at) == 0 {
			t.check(f, at)
		}
	}
}

// sealed returns the end of the placeholder that a position is in, or 0: what was
// masked stays as it is.
func (f *finder) sealed(at int) int {
	from := strings.LastIndexByte(f.s[max(0, at-maxPlaceholder):at+1], '[')
	if from < 0 {
		return 0
	}
	from += max(0, at-maxPlaceholder)
	if n := placeholderAt(f.s[from:]); from+n > at {
		return from + n
	}
	return 0
}

// mark adds a span. Where it overlaps with others they become one.
//
//go:noinline
func (f *finder) mark(from, to int, kind string) { f.markAs(span{from: from, to: to, kind: kind}) }

// A span inside another one changes nothing, unless it knows better what it is.
func (f *finder) markAs(s span) {
	if f.sealed(s.to-1) > 0 {
		return // it reaches into a placeholder
	}
	i := len(f.spans)
	for i > 0 && f.spans[i-1].to > s.from {
		i--
	}
	j := i
	for j < len(f.spans) && f.spans[j].from < s.to {
		other := f.spans[j]
		if other.from <= s.from && other.to >= s.to && (other.from < s.from || other.to > s.to || other.kind != byPlace) {
			return
		}
		if other.from < s.from || other.to > s.to {
			s.key = "" // it is another text now
		}
		s.from, s.to = min(s.from, other.from), max(s.to, other.to)
		if other.kind != byPlace {
			s.kind = other.kind
		}
		j++
	}
	rest := slices.Clone(f.spans[j:]) // nearly always empty
	f.spans = append(append(f.spans[:i], s), rest...)
}

// start returns where what stands before a position begins: the end of the secret before it,
// the beginning of the line, or some way back. Nothing is looked at across a secret, so that a
// text whose secrets are masked has no others than before.
func (f *finder) start(at int) int {
	from := max(0, at-maxBefore)
	from += strings.LastIndexByte(f.s[from:at], '\n') + 1
	if i := strings.LastIndexByte(f.s[from:at], ']'); i >= 0 && f.endsPlaceholder(from+i) {
		from += i + 1
	}
	for i := len(f.spans) - 1; i >= 0; i-- {
		if f.spans[i].to <= at {
			return max(from, f.spans[i].to)
		}
	}
	return from
}

func (f *finder) endsPlaceholder(bracket int) bool { return f.sealed(bracket) == bracket+1 }

// run returns where the bytes of a set end that begin at from. It remembers where those
// ended that it saw last, as a run may have many beginnings of secrets in it.
func (f *finder) run(from int, set charset) int {
	last := &f.runs[set]
	if last.from <= from && from < last.to {
		return last.to
	}
	to := from
	for to < len(f.s) && set.has(f.s[to]) {
		to++
	}
	*last = stretch{from, to}
	return to
}

// back returns where the bytes of a set begin that end before to, at most so many. Without
// the bound, many triggers in one run would take the square of its length.
func (f *finder) back(to int, set charset, most int) int {
	limit := max(f.near(to), to-most)
	for to > limit && set.has(f.s[to-1]) {
		to--
	}
	return to
}

// near is start for a search that stops at a line break anyway.
func (f *finder) near(at int) int {
	for i := len(f.spans) - 1; i >= 0; i-- {
		if f.spans[i].to <= at {
			return f.spans[i].to
		}
	}
	return 0
}

// rest returns the rest of the line from a position, as much as is looked at.
func (f *finder) rest(at int) string {
	s := f.s[at:min(len(f.s), at+maxAfter)]
	if before, _, ok := strings.Cut(s, "\n"); ok {
		return before
	}
	return s
}

// edge reports whether a word begins at a position: no letter or digit stands before
// it, except in an escape sequence of JSON or a URL: \n, \u003d, %3D.
func (f *finder) edge(at int) bool {
	s := f.s[f.near(at):at]
	n := len(s)
	switch {
	case n == 0 || !alnum.has(s[n-1]):
		return true
	case n >= 2 && s[n-2] == '\\':
		return strings.IndexByte("nrtbf", s[n-1]) >= 0
	case n >= 3 && s[n-3] == '%':
		return hexadecimal.has(s[n-2]) && hexadecimal.has(s[n-1])
	}
	return n >= 6 && s[n-6] == '\\' && s[n-5] == 'u'
}

// goesOn reports whether a word does not end at a position.
func (f *finder) goesOn(end int) bool { return end < len(f.s) && alnum.has(f.s[end]) }

// charset is a set of bytes.
type charset int

const (
	alnum       charset = iota
	hexadecimal         // of either case
	base32              // A-Z, 2-7
	digits
	base64Set // with padding
	base64URL // letters, digits, - and _
	tokenSet  // base64URL, and what tokens of several parts have: . ~ + / = %
	dotted    // base64URL and .
	cryptSet  // what a hash of crypt(5) has behind its first part
	sets      // how many there are
)

func (c charset) has(b byte) bool {
	letter := 'a' <= b|0x20 && b|0x20 <= 'z'
	digit := '0' <= b && b <= '9'
	switch c {
	case digits:
		return digit
	case hexadecimal:
		return digit || 'a' <= b|0x20 && b|0x20 <= 'f'
	case base32:
		return '2' <= b && b <= '7' || 'A' <= b && b <= 'Z'
	case base64Set:
		return letter || digit || b == '+' || b == '/' || b == '='
	case base64URL:
		return letter || digit || b == '-' || b == '_'
	case dotted:
		return letter || digit || b == '-' || b == '_' || b == '.'
	case cryptSet:
		return letter || digit || strings.IndexByte("$./+=,", b) >= 0
	case tokenSet:
		return letter || digit || strings.IndexByte("-_.~+/=%", b) >= 0
	}
	return letter || digit
}
