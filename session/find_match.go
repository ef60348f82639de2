package session

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

const (
	// minFuzzy is the number of letters from which a word of a query may have a typing error.
	minFuzzy = 4
	// maxWords is the number of words of a query that count.
	maxWords = 64
)

// The quality of a match.
const (
	noMatch    = iota
	nearWords  // each word, some with a typing error
	nearPhrase // the words in their order, some with a typing error
	allWords
	phrase // the words in their order
)

// word is a word of the query.
type word struct {
	text   []rune // folded
	fuzzy  bool   // a typing error is allowed
	pieces []piece
}

// is reports whether a folded word is w, perhaps with a typing error.
func (w *word) is(folded []rune) bool {
	return slices.Equal(folded, w.text) || w.fuzzy && near(folded, w.text)
}

// near reports whether a and b differ by at most one typing error: a letter that is missing, added
// or wrong, or two neighbours that are swapped.
func near(a, b []rune) bool {
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

// newQuery returns the words of a query.
func newQuery(text string) (words []*word) {
	eachWord(text, func(_ int, folded []rune) bool {
		w := &word{text: slices.Clone(folded), pieces: []piece{newPiece(folded)}}
		if w.fuzzy = len(folded) >= minFuzzy && !slices.ContainsFunc(folded, unicode.IsDigit); w.fuzzy {
			middle := len(folded) / 2
			w.pieces = []piece{newPiece(folded[:middle]), newPiece(folded[middle+1:])}
		}
		words = append(words, w)
		return len(words) < maxWords
	})
	return words
}

// match returns how well a text matches the words of a query, and where the match begins.
func match(words []*word, text string) (quality, at int) {
	exact := func(w *word, folded []rune) bool { return slices.Equal(folded, w.text) }
	if quality, at = matchAs(words, text, exact); quality == noMatch {
		quality, at = matchAs(words, text, (*word).is)
		return max(quality-allWords+nearWords, noMatch), at
	}
	return quality, at
}

// matchAs returns phrase, allWords or noMatch. The words of the query are the bits of a number. A
// sequence of words matches the beginning of the query if its last word does so, and the words before it
// match a beginning that is shorter by one.
func matchAs(words []*word, text string, same func(w *word, folded []rune) bool) (quality, at int) {
	var seen, ends uint64
	var starts [maxWords]int // of the last words
	last := uint64(1) << (len(words) - 1)
	n, first := 0, -1
	eachWord(text, func(start int, folded []rune) bool {
		var bits uint64
		for i, w := range words {
			if same(w, folded) {
				bits |= 1 << i
			}
		}
		starts[n%maxWords] = start
		n++
		seen, ends = seen|bits, (ends<<1|1)&bits
		if first < 0 && bits != 0 {
			first = start
		}
		return ends&last == 0
	})
	switch {
	case ends&last != 0:
		return phrase, starts[(n-len(words)+maxWords)%maxWords]
	case seen == last|(last-1):
		return allWords, first
	}
	return noMatch, 0
}

// eachWord calls yield for each word of a text, with its position and its folded letters, until
// yield returns false. A word is a sequence of letters and digits. In the scripts that do not
// separate words, each letter is one.
func eachWord(text string, yield func(start int, folded []rune) bool) {
	var folded []rune
	start := 0
	for i, r := range text {
		l := letter(r)
		if l == ' ' || l >= ideograph {
			if len(folded) > 0 && !yield(start, folded) {
				return
			}
			folded = folded[:0]
		}
		switch {
		case l >= ideograph:
			if !yield(i, append(folded, l-ideograph)) {
				return
			}
		case l != ' ' && l >= 0:
			if len(folded) == 0 {
				start = i
			}
			folded = append(folded, l)
		}
	}
	if len(folded) > 0 {
		yield(start, folded)
	}
}

// ideograph is added to a letter that is a word.
const ideograph = 1 << 24

// letter returns a letter in lower case and, if it is a Latin one, without diacritics. For a combining
// mark it returns -1, and a space for a rune that is not part of a word.
func letter(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
		return r
	case 'A' <= r && r <= 'Z':
		return r - 'A' + 'a'
	case r < utf8.RuneSelf || !unicode.In(r, unicode.Letter, unicode.Digit, unicode.Mark):
		return ' '
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return r + ideograph
	case unicode.In(r, unicode.Mn, unicode.Me):
		return -1
	}
	return runes.Plain(r)
}

// excerpt returns the text around a match in one line, without control characters.
func excerpt(text string, at int) string {
	const before, after = 60, 140
	a, b := max(0, at-before), min(len(text), at+after)
	whole := strings.ToValidUTF8(text[a:b], "") // without the rest of a rune at either end
	clean := oneLine(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, whole))
	if a > 0 {
		clean = "…" + clean
	}
	if b < len(text) {
		clean += "…"
	}
	return clean
}
