package session

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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

// query is what a user looks for.
type query struct{ words []*word }

func newQuery(text string) *query {
	q := new(query)
	eachWord(text, func(_ int, folded []rune) bool {
		q.words = append(q.words, newWord(folded))
		return len(q.words) < maxWords
	})
	return q
}

// scanner returns a scanner for the words of the query.
func (q *query) scanner() *scanner {
	longest := slices.Clone(q.words)
	slices.SortStableFunc(longest, func(a, b *word) int { return cmp.Compare(len(b.text), len(a.text)) })
	return &scanner{words: longest}
}

// match returns how well a text matches, and where the match begins. The words of the query are
// the bits of a number. A sequence of words matches the beginning of the query if its last word
// does so, and the words before it match a beginning that is shorter by one.
func (q *query) match(text string) (quality, at int) {
	var exact, fuzzy struct{ seen, ends, first uint64 }
	var starts [maxWords]int // of the last words
	last := uint64(1) << (len(q.words) - 1)
	all := last | (last - 1)
	nearAt, firstExact, firstFuzzy := -1, -1, -1
	n := 0
	eachWord(text, func(start int, folded []rune) bool {
		var same, similar uint64
		for i, w := range q.words {
			switch {
			case slices.Equal(folded, w.text):
				same |= 1 << i
				similar |= 1 << i
			case w.fuzzy && near(folded, w.text):
				similar |= 1 << i
			}
		}
		starts[n%maxWords] = start
		n++
		exact.seen, exact.ends = exact.seen|same, (exact.ends<<1|1)&same
		fuzzy.seen, fuzzy.ends = fuzzy.seen|similar, (fuzzy.ends<<1|1)&similar
		if firstExact < 0 && same != 0 {
			firstExact = start
		}
		if firstFuzzy < 0 && similar != 0 {
			firstFuzzy = start
		}
		began := starts[(n-len(q.words)+maxWords)%maxWords]
		if nearAt < 0 && fuzzy.ends&last != 0 {
			nearAt = began
		}
		if exact.ends&last != 0 {
			quality, at = phrase, began
		}
		return quality != phrase
	})
	switch {
	case quality == phrase:
		return quality, at
	case exact.seen == all:
		return allWords, firstExact
	case nearAt >= 0:
		return nearPhrase, nearAt
	case fuzzy.seen == all:
		return nearWords, firstFuzzy
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
		if !isWord(r) || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) {
			if len(folded) > 0 && !yield(start, folded) {
				return
			}
			folded = folded[:0]
			if isWord(r) && !yield(i, append(folded, fold(r))) {
				return
			}
			continue
		}
		if len(folded) == 0 {
			start = i
		}
		if r = fold(r); r >= 0 {
			folded = append(folded, r)
		}
	}
	if len(folded) > 0 {
		yield(start, folded)
	}
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return isAlphanumeric(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func isDigit(r rune) bool { return unicode.IsDigit(r) }

// The letters of ranges of Unicode without their diacritics. A space stands for a letter that has
// none.
const (
	from00C0 = "aaaaaa ceeeeiiii nooooo ouuuuy  aaaaaa ceeeeiiii nooooo ouuuuy yaaaaaaccccccccddddeeeeeeeeeegggg" +
		"gggghhhhiiiiiiiii   jjkk llllll  llnnnnnn   oooooo  rrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzz"
	from1E00 = "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppp" +
		"rrrrrrrrssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwy"
	from1EA0 = "aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy"
)

// fold returns a letter in lower case and, if it is a Latin one, without diacritics. For a
// combining mark it returns -1.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lower(byte(r)))
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return -1
	}
	for _, t := range []struct {
		first   rune
		letters string
	}{{0xC0, from00C0}, {0x1E00, from1E00}, {0x1EA0, from1EA0}} {
		if i := int(r - t.first); i >= 0 && i < len(t.letters) && t.letters[i] != ' ' {
			return rune(t.letters[i])
		}
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// appendFolded appends a text with folded letters.
func appendFolded(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			dst = append(dst, lower(c))
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if r = fold(r); r >= 0 {
			dst = utf8.AppendRune(dst, r)
		}
		i += n
	}
	return dst
}

// excerpt returns the text around a match in one line, without control characters.
func excerpt(text string, at int) string {
	const before, after = 60, 140
	a, b := max(0, at-before), min(len(text), at+after)
	for a > 0 && !utf8.RuneStart(text[a]) {
		a++
	}
	for b < len(text) && b > a && !utf8.RuneStart(text[b]) {
		b--
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text[a:b], "\uFFFD"))
	clean = oneLine(clean)
	if a > 0 {
		clean = "…" + clean
	}
	if b < len(text) {
		clean += "…"
	}
	return clean
}
