package search

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxSize = 5000     // steps of an expression
	maxWork = 2 << 20  // bytes times steps between two looks at the context: some 50 ms
	window  = 64 << 10 // bytes of a line in which the match is looked for that is shown
)

// ErrTooLarge says that an expression would take too long to match: it has too many
// steps, mostly because of counted repetitions of counted repetitions.
var ErrTooLarge = errors.New("expression is too large")

// Matcher finds the lines that match an expression. It is immutable and safe for
// concurrent use.
//
// Most expressions have words in them without which nothing matches. Looking for
// those in a whole file is many times faster than trying the expression on each
// line; it is tried only on lines that have one of them.
type Matcher struct {
	re    *regexp.Regexp
	prog  *syntax.Prog
	looks bool     // it asks whether what is before a place is a word
	size  int      // steps of the expression, at least 1
	words []string // a matching line has one of these; none: unknown
	fold  bool     // the words are lower case and found in any case
	whole bool     // a word is all there is to the expression
	bound bool     // the expression is a word between word boundaries
}

// Compile parses an expression in the syntax of package regexp. A literal one is plain
// text. The error is that of package syntax, or [ErrTooLarge]. The size is bounded before
// anything is compiled, because a program that is made of ((a{100}){100}){100} does not fit
// in memory.
func Compile(expr string, literal, ignoreCase bool) (*Matcher, error) {
	if literal {
		expr = regexp.QuoteMeta(expr)
	}
	if ignoreCase {
		expr = "(?i:" + expr + ")"
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := programSize(tree)
	if size > maxSize {
		return nil, ErrTooLarge
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	tree = tree.Simplify()
	m := &Matcher{re: re, size: max(size, 1)}
	if m.prog, err = syntax.Compile(tree); err != nil {
		return nil, err
	}
	m.looks = slices.ContainsFunc(m.prog.Inst, func(in syntax.Inst) bool {
		return in.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
	})
	// The shape of an expression decides which of three ways is taken: the word alone, the
	// word with boundaries, or the machine on the lines that have a word.
	words := required(tree)
	m.setWords(words)
	if len(words) == 1 {
		// A line has no line break in it, and no \r at its end.
		m.whole = isWord(tree, words[0]) && !strings.ContainsAny(words[0].text, "\r\n")
		m.bound = tree.Op == syntax.OpConcat && len(tree.Sub) == 3 && !m.fold &&
			tree.Sub[0].Op == syntax.OpWordBoundary && tree.Sub[2].Op == syntax.OpWordBoundary &&
			isWord(tree.Sub[1], words[0])
	}
	if !m.whole && !m.bound && slices.ContainsFunc(words,
		func(w word) bool { return len(w.text) < 2 && !rare(w.text) }) {
		m.words = nil // it is on too many lines
	}
	return m, nil
}

// setWords sets what to look for. One word in any case makes all of them so, which those
// that are not ASCII cannot be: their forms differ in length. A search for several words in
// any case is a search for each.
func (m *Matcher) setWords(words []word) {
	ascii := true
	for _, w := range words {
		m.words = append(m.words, w.text)
		m.fold = m.fold || w.fold
		ascii = ascii && !strings.ContainsFunc(w.text,
			func(r rune) bool { return r >= utf8.RuneSelf })
	}
	switch {
	case m.fold && !ascii:
		m.words = nil
	case m.fold:
		for i, w := range m.words {
			m.words[i] = strings.ToLower(w)
		}
	}
}

// programSize is about how many steps package regexp makes of an expression. It is known
// before they are made, which for a large one takes much memory. A repetition is written
// out, so its size is multiplied.
func programSize(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// word is a text that a match contains.
type word struct {
	text string
	fold bool
}

// isWord reports whether an expression is that word and nothing else.
func isWord(re *syntax.Regexp, w word) bool {
	return re.Op == syntax.OpLiteral && strings.EqualFold(string(re.Rune), w.text)
}

// maxWords is the number of words above which looking for each of them takes longer than
// the machine does.
const maxWords = 8

// required returns words of which a match contains at least one, or nil. Of a sequence, the
// words of any part will do, and the rarest are best; of alternatives, the words of all are
// needed. A part that may match nothing requires none.
func required(re *syntax.Regexp) []word {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []word
		for _, sub := range re.Sub {
			if w := required(sub); better(w, best) {
				best = w
			}
		}
		return best
	case syntax.OpAlternate:
		var all []word
		for _, sub := range re.Sub {
			w := required(sub)
			if all = append(all, w...); w == nil || len(all) > maxWords {
				return nil
			}
		}
		return all
	}
	return nil
}

// better prefers the words whose shortest is longer. A longer word is on fewer lines.
func better(a, b []word) bool { return shortest(a) > shortest(b) }

// shortest returns the length of the shortest word, 0 without any.
func shortest(words []word) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w.text) < n {
			n = len(w.text)
		}
	}
	return n
}

// rare reports whether a character is on few lines of code and prose. A single letter is on
// nearly every line, so looking for it costs more than it saves.
func rare(c string) bool { return c != "" && strings.Contains("_-@#%&!?|~^$+\\", c) }

// literal returns the longest part of a literal that is the same bytes in every
// match. U+FFFD also matches bytes that are not UTF-8. Without regard to case only
// ASCII is taken, and k and s are not: U+212A and U+017F are the same letters.
func literal(re *syntax.Regexp) []word {
	fold := re.Flags&syntax.FoldCase != 0
	best := ""
	for part := range strings.FieldsFuncSeq(string(re.Rune), func(r rune) bool {
		return r == utf8.RuneError ||
			fold && (r >= utf8.RuneSelf || strings.ContainsRune("kKsS", r))
	}) {
		if len(part) > len(best) {
			best = part
		}
	}
	if best == "" {
		return nil
	}
	return []word{{best, fold}}
}

// scanner goes through one text. It belongs to one goroutine, since it remembers where
// words were found.
type scanner struct {
	m       *Matcher
	d       *machine // of the same expression
	text    []byte
	finders []finder
	tried   int64 // bytes times steps since the last look at the context
}

// scan begins with a text. The machine is passed in, as it learns from text to text.
func (m *Matcher) scan(d *machine, text []byte) *scanner {
	s := &scanner{m: m, d: d, text: text}
	for _, w := range m.words {
		s.finders = append(s.finders, newFinder([]byte(w), m.fold))
	}
	return s
}

// next returns the first line at or after pos, the start of a line, that matches. A
// candidate costs as much as its line and the expression are long, and these are added up,
// so that a hostile pair of both cannot keep the search from stopping.
func (s *scanner) next(ctx context.Context, pos int) (start, end int, ok bool) {
	for pos < len(s.text) {
		if s.tried > maxWork {
			if s.tried = 0; ctx.Err() != nil {
				return 0, 0, false
			}
		}
		at, sure := s.candidate(ctx, pos)
		if at < 0 {
			return 0, 0, false
		}
		start = pos + bytes.LastIndexByte(s.text[pos:at], '\n') + 1
		end = len(s.text)
		if i := bytes.IndexByte(s.text[at:], '\n'); i >= 0 {
			end = at + i
		}
		if sure || s.match(ctx, start, end) {
			return start, end, true
		}
		pos = end + 1
	}
	return 0, 0, false
}

// candidate returns a place in the first line at or after pos that may match, or
// surely does; -1 if there is none.
func (s *scanner) candidate(ctx context.Context, pos int) (at int, sure bool) {
	if len(s.finders) > 0 {
		return s.word(pos), s.m.whole
	}
	at, what := s.d.find(ctx, s.text, pos)
	if what == unknown {
		at = -1
	}
	return at, what == matched
}

// match decides about a line. The machine is asked first; only lines with characters
// outside ASCII need package regexp.
func (s *scanner) match(ctx context.Context, start, end int) bool {
	if s.m.bound {
		return hasWord(trimCR(s.text[start:end]), s.m.words[0])
	}
	if len(s.finders) > 0 {
		if _, what := s.d.find(ctx, s.text[:end], start); what != odd {
			return what == matched
		}
	}
	s.tried += int64(end-start) * int64(s.m.size)
	return s.m.match(ctx, trimCR(s.text[start:end]))
}

// word returns the first place of one of the words at or after pos, or -1. Each finder
// remembers where its word is next, so a text is gone through once for each word.
func (s *scanner) word(pos int) int {
	first := -1
	for i := range s.finders {
		if at := s.finders[i].next(s.text, pos); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// match has package regexp decide about a line. A long line is read rune by rune, which is
// slower but can be stopped.
func (m *Matcher) match(ctx context.Context, line []byte) bool {
	every := maxWork / m.size
	if len(line) <= every {
		return m.re.Match(line)
	}
	return m.re.MatchReader(&runeReader{line, every, every, ctx.Err}) && ctx.Err() == nil
}

// runeReader reads a text, so that matching a long one can be stopped.
type runeReader struct {
	rest        []byte
	every, left int // runes between two looks whether to stop, and until the next
	stop        func() error
}

// ReadRune implements io.RuneReader.
func (r *runeReader) ReadRune() (rune, int, error) {
	if r.left--; r.left <= 0 {
		if err := r.stop(); err != nil {
			return 0, 0, err
		}
		r.left = r.every
	}
	if len(r.rest) == 0 {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(r.rest)
	r.rest = r.rest[n:]
	return c, n, nil
}

// hasWord does what \b on both sides of a literal does: there, one of the two
// neighbouring bytes is of a word and the other is not.
func hasWord(line []byte, lit string) bool {
	for pos := 0; ; pos++ {
		i := bytes.Index(line[pos:], []byte(lit))
		if i < 0 {
			return false
		}
		pos += i
		if boundary(line, pos) && boundary(line, pos+len(lit)) {
			return true
		}
	}
}

// boundary reports whether a word begins or ends at a place.
func boundary(line []byte, at int) bool {
	before := at > 0 && wordByte(line[at-1])
	after := at < len(line) && wordByte(line[at])
	return before != after
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|32 && b|32 <= 'z'
}

func trimCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }

// finder finds a word again and again in one text, and remembers where it found it,
// so that each text is gone through once.
type finder struct {
	word   []byte
	fold   bool
	pivot  int // index of the letter that is looked for
	lo, up int // where it is next in lower and in upper case, plus one; 0: not looked for yet
	at     int // where the word is next, plus one
}

// frequent are letters from frequent to rare, as they are in source code. Others are
// rarer still.
const frequent = " etaoinrslcdupmfhgbyv_wxkjqz"

func newFinder(w []byte, fold bool) finder {
	f := finder{word: w, fold: fold}
	rarest := -1
	for i, b := range w {
		rank := strings.IndexByte(frequent, b)
		if rank < 0 {
			rank = len(frequent)
		}
		if rank > rarest {
			f.pivot, rarest = i, rank
		}
	}
	return f
}

// next returns the first place of the word at or after pos, or -1.
func (f *finder) next(text []byte, pos int) int {
	if f.at > pos {
		return orNone(f.at-1, len(text))
	}
	at := 0
	if f.fold {
		at = f.nextFold(text, pos)
	} else {
		at = indexFrom(text, pos, func(t []byte) int { return bytes.Index(t, f.word) })
	}
	f.at = at + 1
	return orNone(at, len(text))
}

func orNone(at, end int) int {
	if at >= end {
		return -1
	}
	return at
}

// indexFrom returns where something is at or after pos; the length of the text if it
// is not.
func indexFrom(text []byte, pos int, index func([]byte) int) int {
	if pos < len(text) {
		if i := index(text[pos:]); i >= 0 {
			return pos + i
		}
	}
	return len(text)
}

// nextFold looks for the rarest letter of the word in both cases.
func (f *finder) nextFold(text []byte, pos int) int {
	lo := f.word[f.pivot]
	up := bytes.ToUpper(f.word[f.pivot : f.pivot+1])[0]
	for from := pos + f.pivot; ; from++ {
		if f.lo <= from {
			f.lo = 1 + indexFrom(text, from, func(t []byte) int { return bytes.IndexByte(t, lo) })
		}
		if f.up <= from {
			f.up = 1 + indexFrom(text, from, func(t []byte) int { return bytes.IndexByte(t, up) })
		}
		from = min(f.lo, f.up) - 1
		start := from - f.pivot
		if from >= len(text) || start+len(f.word) > len(text) {
			return len(text)
		}
		if bytes.EqualFold(text[start:start+len(f.word)], f.word) {
			return start
		}
	}
}
