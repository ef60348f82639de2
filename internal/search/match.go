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

// ErrTooLarge reports that an expression would take too long to match. It has too many steps,
// mostly because of a counted repetition inside of another.
var ErrTooLarge = errors.New("expression is too large")

// Matcher finds the lines that match an expression. It is immutable and safe for concurrent use.
//
// Most expressions contain words without which no line matches. Searching a whole file for these
// words is many times faster than trying the expression on each line, so the expression is tried
// only on the lines that contain one of them.
type Matcher struct {
	re    *regexp.Regexp
	prog  *syntax.Prog
	looks bool     // the expression has word boundaries
	size  int      // steps of the expression, at least 1
	words []string // a matching line has one of these; none: unknown
	fold  bool     // the words are lower case and found in any case
	whole bool     // a word is all there is to the expression
	bound bool     // the expression is a word between word boundaries
}

// Compile parses an expression in the syntax of package regexp. If literal is set, expr is plain
// text instead. The error is one of package regexp/syntax, or [ErrTooLarge].
//
// Compile checks the size of an expression before it compiles the expression, because the program
// for ((a{100}){100}){100} does not fit into memory.
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
	// Only such an expression needs to know the kind of the byte before a place.
	m.looks = slices.ContainsFunc(m.prog.Inst, func(in syntax.Inst) bool {
		return in.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
	})
	// There are three ways to find a line: by the word alone, by the word and its boundaries, or
	// by the word followed by the automaton. The shape of the expression decides which of them
	// suffices.
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

// setWords sets the words to search for. If one of them matches in any case, all are searched for
// in any case. Words that are not ASCII cannot be, because their upper-case and lower-case forms
// differ in length.
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

// programSize estimates the number of steps that package regexp makes of an expression. It does
// not need the steps themselves, which take much memory for a large expression. A repetition is
// unrolled by package regexp, and so its size is multiplied.
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

// word is a text that every match contains. If fold is set, the text may be in any case.
type word struct {
	text string
	fold bool
}

// isWord reports whether an expression consists of the word alone.
func isWord(re *syntax.Regexp, w word) bool {
	return re.Op == syntax.OpLiteral && strings.EqualFold(string(re.Rune), w.text)
}

// maxWords is the number of words above which the automaton is faster than a search for each
// word.
const maxWords = 8

// required returns words of which every match contains at least one, or nil if it finds none. For
// a sequence, the words of any one part suffice, and the rarest are the best. For alternatives,
// the words of all of them are needed. A part that can match the empty text requires no word.
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

// better reports whether the shortest word of a is longer than that of b. Longer words occur on
// fewer lines.
func better(a, b []word) bool { return shortest(a) > shortest(b) }

// shortest returns the length of the shortest word, or 0 if there are no words.
func shortest(words []word) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w.text) < n {
			n = len(w.text)
		}
	}
	return n
}

// rare reports whether a character occurs on few lines of code and prose. A letter occurs on
// nearly every line, so searching for a single one costs more time than it saves.
func rare(c string) bool { return c != "" && strings.Contains("_-@#%&!?|~^$+\\", c) }

// literal returns the longest part of a literal that consists of the same bytes in every match.
// U+FFFD is excluded, because it also matches bytes that are not UTF-8. If case does not matter,
// only ASCII is included, without k and s: they also match U+212A and U+017F, which have other
// lengths.
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

// scanner searches one text. It must be used by one goroutine only, since it remembers where
// words were found.
type scanner struct {
	m       *Matcher
	d       *machine // of the same expression
	text    []byte
	finders []finder
	tried   int64 // bytes times steps since the last look at the context
}

// scan starts the search of a text. The caller passes the automaton, which keeps its states from
// text to text.
func (m *Matcher) scan(d *machine, text []byte) *scanner {
	s := &scanner{m: m, d: d, text: text}
	for _, w := range m.words {
		s.finders = append(s.finders, newFinder([]byte(w), m.fold))
	}
	return s
}

// next returns the first matching line that begins at pos or later; pos must be the start of a
// line. Trying a line costs time in proportion to the line and the expression. The costs are
// added up, and the context is checked when they are high enough. A hostile pair of a line and an
// expression therefore cannot keep a search from being cancelled.
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

// candidate returns a place in the first line, at pos or later, that may match, or -1. If sure is
// set, the line does match.
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

// match decides whether a line matches. It asks the automaton first. Package regexp is needed
// only for lines that are not ASCII.
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

// word returns the first place, at pos or later, of any of the words, or -1. Each finder
// remembers the next place of its word, so a text is read only once for each word.
func (s *scanner) word(pos int) int {
	first := -1
	for i := range s.finders {
		if at := s.finders[i].next(s.text, pos); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// match decides with package regexp whether a line matches. A long line is read rune by rune,
// which is slower but can be interrupted.
func (m *Matcher) match(ctx context.Context, line []byte) bool {
	every := maxWork / m.size
	if len(line) <= every {
		return m.re.Match(line)
	}
	return m.re.MatchReader(&runeReader{line, every, every, ctx.Err}) && ctx.Err() == nil
}

// runeReader reads a text rune by rune, and stops with an error when the context has ended.
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

// hasWord reports whether a line contains the literal with a word boundary (\b) on both sides: of
// the two bytes at each end, one must belong to a word and the other must not.
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

// boundary reports whether a word begins or ends at the offset.
func boundary(line []byte, at int) bool {
	before := at > 0 && wordByte(line[at-1])
	after := at < len(line) && wordByte(line[at])
	return before != after
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|32 && b|32 <= 'z'
}

func trimCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }

// finder searches one text for a word, repeatedly. It remembers the last place, so that the text
// is read only once.
type finder struct {
	word   []byte
	fold   bool
	pivot  int // index of the letter that is looked for
	lo, up int // where it is next in lower and in upper case, plus one; 0: not looked for yet
	at     int // where the word is next, plus one
}

// frequent lists the letters from frequent to rare, as they occur in source code. All other bytes
// are rarer.
const frequent = " etaoinrslcdupmfhgbyv_wxkjqz"

// newFinder chooses the rarest byte of the word as the one to search for, which skips most of a
// text.
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

// orNone returns -1 for a place at the end of the text, which means that the word was not found.
func orNone(at, end int) int {
	if at >= end {
		return -1
	}
	return at
}

// indexFrom returns the offset of something at pos or later. If it is not found, the result is
// the length of the text, so that a later search does not start again.
func indexFrom(text []byte, pos int, index func([]byte) int) int {
	if pos < len(text) {
		if i := index(text[pos:]); i >= 0 {
			return pos + i
		}
	}
	return len(text)
}

// nextFold searches for the rarest letter of the word in both cases, and compares the whole word
// only where it finds that letter.
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
