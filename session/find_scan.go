package session

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// A search reads the journals of all sessions, which takes as long as it takes to look at each
// byte once or twice. So the text is not decoded to begin with: this file finds the lines of a
// journal that may contain all words of the query, and only these are decoded. It may return a
// line that does not match, but it never leaves out one that does.
//
// If a word has at most one typing error, one of these pieces of it is whole: its first half, its
// second half, or its first half after the two letters in the middle were swapped. All pieces of a
// word are cut to the same length m. Every m-1 bytes, the search looks at two bytes. If a piece is
// in the text, it contains such a pair, so a table says for each pair where it is in a piece.
//
// Lines that contain letters outside ASCII are first folded, see fold. The escapes of JSON are left
// as they are, and plausible takes care of the letters in them.

// maxPiece is the maximum length of a piece. A table entry has a bit for each pair in it.
const maxPiece = 9

// word is a word of the query.
type word struct {
	text   []rune // folded
	fuzzy  bool   // a typing error is allowed
	folded []byte // text in UTF-8
	ascii  bool
	pieces []string
	length int // of a piece
	// pairs has the positions of two bytes in the pieces, as bits.
	pairs [1 << 16]uint8
}

func newWord(text []rune) *word {
	w := &word{text: slices.Clone(text), folded: []byte(string(text))}
	w.fuzzy = len(text) >= minFuzzy && !slices.ContainsFunc(text, isDigit)
	w.ascii = len(w.folded) == len(text)
	w.pieces = []string{string(text)}
	if h := len(text) / 2; w.fuzzy {
		swapped := append(slices.Clone(text[:h-1]), text[h])
		w.pieces = []string{string(text[:h]), string(text[h:]), string(swapped)}
	}
	w.length = maxPiece
	for _, p := range w.pieces {
		w.length = min(w.length, len(p))
	}
	for i, p := range w.pieces {
		w.pieces[i] = p[:w.length]
		for o := range w.length - 1 {
			for _, a := range cases(p[o]) {
				for _, b := range cases(p[o+1]) {
					w.pairs[int(b)<<8|int(a)] |= 1 << o
				}
			}
		}
	}
	return w
}

// cases returns a byte of a folded text in lower case and in upper case.
func cases(c byte) [2]byte {
	if 'a' <= c && c <= 'z' {
		return [2]byte{c, c - 'a' + 'A'}
	}
	return [2]byte{c, c}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

// find returns the position of a piece of a word that may be w, or -1.
func (w *word) find(t []byte, from int) int {
	if w.length < 2 { // anything may be a word of one letter
		if from < len(t) {
			return from
		}
		return -1
	}
	for j := from; j+1 < len(t); j += w.length - 1 {
		for at := w.pairs[binary.LittleEndian.Uint16(t[j:])]; at != 0; at &= at - 1 {
			start := j - bits.TrailingZeros8(at)
			if start >= from && w.begins(t[start:]) && w.plausible(t, start) {
				return start
			}
		}
	}
	return -1
}

// begins reports whether t begins with a piece.
func (w *word) begins(t []byte) bool {
	return slices.ContainsFunc(w.pieces, func(p string) bool {
		for i := range len(p) {
			if i >= len(t) || lower(t[i]) != p[i] {
				return false
			}
		}
		return true
	})
}

// plausible reports whether the word around the piece at t[start] may be w. A letter after a
// backslash may belong to the word, or to an escape such as \n or \u003c.
func (w *word) plausible(t []byte, start int) bool {
	if !w.ascii {
		return true
	}
	const slack = 8 // more than the five bytes of an escape and a letter
	a, b := start, start+w.length
	for a > max(0, start-len(w.folded)-slack) && isAlphanumeric(t[a-1]) {
		a--
	}
	for b < min(len(t), start+len(w.folded)+slack) && isAlphanumeric(t[b]) {
		b++
	}
	if a > 0 && t[a-1] >= utf8.RuneSelf || b < len(t) && t[b] >= utf8.RuneSelf {
		return true
	}
	around := t[a:b]
	if w.mayBe(around) || a == 0 || t[a-1] != '\\' {
		return w.mayBe(around)
	}
	return w.mayBe(around[1:]) || len(around) > 5 && w.mayBe(around[5:])
}

func isAlphanumeric(c byte) bool {
	return 'a' <= lower(c) && lower(c) <= 'z' || '0' <= c && c <= '9'
}

// mayBe reports whether a word in ASCII is w, with one typing error if that is allowed.
func (w *word) mayBe(text []byte) bool {
	if n := len(text) - len(w.folded); n < -1 || n > 1 {
		return false
	}
	var buf [64]byte
	folded := buf[:0]
	for _, c := range text {
		folded = append(folded, lower(c))
	}
	return bytes.Equal(folded, w.folded) || w.fuzzy && near(folded, w.folded)
}

// near reports whether a and b differ by at most one typing error: a letter that is missing, added
// or wrong, or two neighbours that are swapped.
func near[T comparable](a, b []T) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch len(b) - len(a) {
	case 0:
		return len(a) < 2 || slices.Equal(a[1:], b[1:]) ||
			a[0] == b[1] && a[1] == b[0] && slices.Equal(a[2:], b[2:])
	case 1:
		return slices.Equal(a, b[1:])
	}
	return false
}

// scanner finds lines that may contain all words of a query. It belongs to one goroutine.
type scanner struct {
	words  []*word // the longest first, which is probably the rarest
	folded []byte
	starts []int
}

// lines returns the positions of the lines of t that may match, in order. Each line of t ends with
// a line feed. The result is valid until the next call.
func (s *scanner) lines(t []byte) []int {
	s.starts = s.starts[:0]
	first := s.words[0]
	for i := first.find(t, 0); i >= 0; {
		start, end := lineAround(t, i)
		if s.all(t[start:end]) {
			s.starts = append(s.starts, start)
		}
		i = first.find(t, end+1)
	}
	for i := nextForeign(t, 0); i >= 0; {
		start, end := lineAround(t, i)
		s.folded = appendFolded(s.folded[:0], t[start:end])
		if s.all(s.folded) {
			s.starts = append(s.starts, start)
		}
		i = nextForeign(t, end+1)
	}
	slices.Sort(s.starts)
	s.starts = slices.Compact(s.starts)
	return s.starts
}

func (s *scanner) all(line []byte) bool {
	for _, w := range s.words {
		if w.find(line, 0) < 0 {
			return false
		}
	}
	return true
}

func lineAround(t []byte, i int) (start, end int) {
	end = bytes.IndexByte(t[i:], '\n')
	if end < 0 {
		end = len(t) - i
	}
	return bytes.LastIndexByte(t[:i], '\n') + 1, i + end
}

// nextForeign returns the position of the next letter, digit or mark outside ASCII, or -1. It may
// also return that of another rune.
func nextForeign(t []byte, from int) int {
	const high = 0x8080808080808080
	for i := from; i < len(t); {
		if i+8 <= len(t) {
			eight := binary.LittleEndian.Uint64(t[i:]) & high
			if eight == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(eight) / 8
		}
		if isForeign(t[i:]) {
			return i
		}
		i++
	}
	return -1
}

// isForeign reports whether the bytes may begin with a letter, a digit or a mark outside ASCII. It
// knows the punctuation, symbols and emoji that are frequent in texts without such letters.
func isForeign(t []byte) bool {
	switch {
	case !utf8.RuneStart(t[0]) || t[0] < utf8.RuneSelf:
		return false
	case t[0] == 0xE2 && len(t) > 2: // from U+2000, and from U+2190 to U+2BFF
		return t[1] != 0x80 && (t[1] < 0x86 || t[1] > 0xAF || t[1] == 0x86 && t[2] < 0x90)
	case t[0] == 0xF0 && len(t) > 2: // from U+1F000 to U+1FBBF
		return t[1] != 0x9F || t[2] >= 0xAF
	}
	return true
}
