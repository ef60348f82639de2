package words

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// A search reads the journals of all sessions, and decoding them takes much longer than reading them.
// So only those lines are decoded that may match: a filter folds the letters of a line, and looks for
// all words of the query in the result, also within other words. It may accept a line that does not match,
// but never refuses one that does. The escapes of JSON are not decoded: none stands for a letter, an
// underscore or a hyphen, so none is in a word.
//
// A word with one typing error begins or ends as the right one: either all letters before the one in the
// middle are right, or all letters behind it. The filter looks for these two pieces, and then compares
// the letters beside them.

// Filter finds lines that may match. It belongs to one goroutine.
type Filter struct {
	words   []*word       // those first that are looked for fastest
	letters [1 << 16]rune // what stands for letters, as far as they have been seen
	text    []byte        // the folded line
}

// NewFilter returns the filter of a query.
func NewFilter(q Query) *Filter {
	fastest := func(a, b *word) int {
		return cmp.Or(cmp.Compare(a.stops(), b.stops()), cmp.Compare(len(b.text), len(a.text)))
	}
	return &Filter{words: slices.SortedStableFunc(slices.Values(q.near.words), fastest)}
}

// MayMatch reports whether a line may contain all words.
func (f *Filter) MayMatch(line []byte) bool {
	f.fold(line)
	return !slices.ContainsFunc(f.words, func(w *word) bool { return !w.in(f.text) })
}

// fold makes the folded text of a line. In eight bytes of ASCII, a bit makes letters lower case, leaves digits as they
// are, and makes no letter or digit of another character of JSON.
func (f *Filter) fold(line []byte) {
	f.text = slices.Grow(f.text[:0], 2*len(line)+8) // a letter in lower case may be longer
	out := f.text[:cap(f.text)]
	n := 0
	for i := 0; i < len(line); {
		if i+8 <= len(line) {
			eight := binary.LittleEndian.Uint64(line[i:])
			if eight&high == 0 {
				binary.LittleEndian.PutUint64(out[n:], eight|0x20*ones)
				if n, i = n+8, i+8; joined(eight) {
					n += dropJoiners(out[n-8:n]) - 8
				}
				continue
			}
		}
		r, size := utf8.DecodeRune(line[i:])
		i += size
		if l := f.letter(r); l >= 0 {
			n += utf8.EncodeRune(out[n:], l)
		}
	}
	f.text = out[:n]
}

const (
	ones = 0x0101010101010101
	high = 0x8080808080808080
)

// joined reports whether eight bytes of ASCII have an underscore or a hyphen.
func joined(eight uint64) bool {
	underscore, hyphen := eight^'_'*ones, eight^'-'*ones // a byte is zero where there is one
	return ((underscore-ones)&^underscore|(hyphen-ones)&^hyphen)&high != 0
}

// dropJoiners drops underscores and hyphens of a folded text, and returns the length of the rest.
func dropJoiners(text []byte) (n int) {
	for _, b := range text {
		if text[n] = b; b != '-' && b != '_'|0x20 {
			n++
		}
	}
	return n
}

// letter returns [Letter] of a letter.
func (f *Filter) letter(r rune) rune {
	if int(r) >= len(f.letters) {
		return Letter(r)
	}
	if f.letters[r] == 0 {
		f.letters[r] = Letter(r)
	}
	return f.letters[r]
}

// stops returns about how often the rarest bytes of the word's pieces are in 1,000 bytes of text, where a search for
// them stops.
func (w *word) stops() (n int) {
	for _, p := range w.pieces {
		n += often(p.text[p.rare])
	}
	return n
}

// in reports whether a folded text may contain the word.
func (w *word) in(text []byte) bool {
	for _, p := range w.pieces {
		for at := p.next(text, 0); at >= 0; at = p.next(text, at+1) {
			if !w.fuzzy || w.beside(text[:at+len(p.text)], text[at:], p.back) {
				return true
			}
		}
	}
	return false
}

// beside reports whether a text begins with the word, perhaps with a typing error, or if back is set, whether
// the text before ends with it.
func (w *word) beside(before, text []byte, back bool) bool {
	var letters [MaxLen + 1]rune
	n, most := 0, len(w.letters)+1
	for ; n < most && !back && len(text) > 0; n++ {
		r, size := utf8.DecodeRune(text)
		letters[n], text = r, text[size:]
	}
	for ; n < most && back && len(before) > 0; n++ {
		r, size := utf8.DecodeLastRune(before)
		letters[most-1-n], before = r, before[:len(before)-size]
	}
	for k := len(w.letters) - 1; k <= n; k++ {
		candidate := letters[:k]
		if back {
			candidate = letters[most-k : most]
		}
		if Distance(candidate, w.letters, 1) <= 1 {
			return true
		}
	}
	return false
}

// piece is a piece of a word, of which the text has one if it has the word.
type piece struct {
	text []byte
	rare int  // the position of the byte that is probably the rarest
	back bool // it is the end of the word
}

func newPiece(letters []rune, back bool) (p piece) {
	p.text, p.back = []byte(string(letters)), back
	for i, b := range p.text {
		if often(b) < often(p.text[p.rare]) {
			p.rare = i
		}
	}
	return p
}

// often returns about how often a byte is in 1,000 bytes of English.
func often(b byte) int {
	if b < 'a' || b > 'z' {
		return 8
	}
	return [...]int{82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2, 20, 1}[b-'a']
}

// next returns where the piece occurs in a text first, from a place on, or -1.
func (p *piece) next(text []byte, from int) int {
	for from += p.rare; from < len(text); from++ {
		i := bytes.IndexByte(text[from:], p.text[p.rare])
		if i < 0 {
			return -1
		}
		if from += i; bytes.HasPrefix(text[from-p.rare:], p.text) {
			return from - p.rare
		}
	}
	return -1
}
