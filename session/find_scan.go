package session

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// A search reads the journals of all sessions, and decoding them takes much longer than reading them.
// So only those lines are decoded that may match: a filter folds the letters of a line, and looks for
// all words of the query in the result. It may accept a line that does not match, but never refuses one
// that does.
//
// A word with one typing error begins or ends as the right one: either all letters before the one in the
// middle are right, or all letters behind it. The filter looks for these two pieces, and then compares
// the word around them. The escapes of JSON are not decoded, since they are many. Therefore the first
// letter of a word may belong to an escape such as \n, and the first five to one such as \u003c.

// filter finds lines that may match. It belongs to one goroutine.
type filter struct {
	words   []*word       // the longest first, which is probably the rarest
	letters [1 << 16]rune // folded letters, as far as they have been seen
	text    []byte        // the folded line
}

func newFilter(words []*word) *filter {
	longest := func(a, b *word) int { return len(b.text) - len(a.text) }
	return &filter{words: slices.SortedStableFunc(slices.Values(words), longest)}
}

// mayMatch reports whether a line may contain all words.
func (f *filter) mayMatch(line []byte) bool {
	f.fold(line)
	for _, w := range f.words {
		if !w.in(f.text) {
			return false
		}
	}
	return true
}

// fold makes the folded text of a line, between two spaces.
func (f *filter) fold(line []byte) {
	f.text = slices.Grow(f.text[:0], 2*len(line)+2) // an ideograph of three bytes gets two spaces
	out := f.text[:cap(f.text)]
	out[0] = ' '
	n := 1
	for len(line) > 0 {
		if line[0] < utf8.RuneSelf {
			plain := foldASCII(out[n:], line)
			n, line = n+plain, line[plain:]
			continue
		}
		r, size := utf8.DecodeRune(line)
		line = line[size:]
		switch l := f.letter(r); {
		case l >= ideograph:
			n += copy(out[n:], " "+string(l-ideograph)+" ")
		case l >= 0:
			n += utf8.EncodeRune(out[n:], l)
		}
	}
	out[n] = ' '
	f.text = out[:n+1]
}

// foldASCII folds the beginning of a text as far as it is ASCII, and returns the length. The bit that it
// sets makes letters lower case, leaves digits as they are, and makes no letter or digit of another
// character of JSON.
func foldASCII(out, text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		eight := binary.LittleEndian.Uint64(text[i:])
		if eight&0x8080808080808080 != 0 {
			break
		}
		binary.LittleEndian.PutUint64(out[i:], eight|0x2020202020202020)
	}
	for ; i < len(text) && text[i] < utf8.RuneSelf; i++ {
		out[i] = text[i] | 0x20
	}
	return i
}

// letter returns letter(r).
func (f *filter) letter(r rune) rune {
	if int(r) >= len(f.letters) {
		return letter(r)
	}
	if f.letters[r] == 0 {
		f.letters[r] = letter(r)
	}
	return f.letters[r]
}

// in reports whether a folded text may contain the word.
func (w *word) in(text []byte) bool {
	for _, p := range w.pieces {
		for at := 1; ; {
			i := bytes.IndexByte(text[at:], p.text[p.rare])
			if i < 0 {
				break
			}
			at += i
			if !bytes.HasPrefix(text[max(at-p.rare, 0):], p.text) {
				at++
				continue
			}
			start := at
			for ; isWordByte(text[start-1]); start-- {
			}
			for ; isWordByte(text[at]); at++ {
			}
			if w.begins(text[start:at]) {
				return true
			}
		}
	}
	return false
}

func isWordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || b >= utf8.RuneSelf
}

// begins reports whether a word in a folded text may be w, perhaps behind an escape.
func (w *word) begins(text []byte) bool {
	if len(text) > utf8.UTFMax*(len(w.text)+1)+5 {
		return false
	}
	folded := []rune(string(text))
	for _, escape := range []int{0, 1, 5} {
		if escape <= len(folded) && w.is(folded[escape:]) {
			return true
		}
	}
	return false
}

// piece is a piece of a word, of which the text has one if it has the word.
type piece struct {
	text []byte
	rare int // the position of the byte that is probably the rarest
}

func newPiece(letters []rune) (p piece) {
	const frequent = "zqjxkv0123456789bpygfwmucldrhsnioate" // the rarest first
	p.text = []byte(string(letters))
	for i, b := range p.text {
		if strings.IndexByte(frequent, b) < strings.IndexByte(frequent, p.text[p.rare]) {
			p.rare = i
		}
	}
	return p
}
