// Package words splits texts into words, and compares them, for searches by words.
package words

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/runes"
)

// MaxLen is the length in bytes of the longest word. A longer one is data, which nobody looks for.
const MaxLen = 64

// A Word is a word of a text.
type Word struct {
	Text  []byte // folded; valid until the next word
	Place int    // counts words from 0
	First int    // the place of the first part of a name as a whole, or else Place
	Start int    // where the name of the word starts in the text
	Part  bool   // it is a part of a name
	Whole bool   // it is a name of several parts
}

// Of returns the words of a text.
//
// A name is a sequence of letters, digits, underscores and hyphens. Its parts are the words: they end at
// underscores and hyphens, between letters and digits, before a capital letter behind a small one, and
// before the last of several capital letters if a small one follows. A name of several parts is also a word as a
// whole, without its underscores and hyphens, in the place of its last part; then parts of one letter are
// left out. So user_profile, userProfile and user-profile have the same words. In the scripts that do not
// separate words, and in that of Korean, whose particles are joined to them, each letter is one. Case and the
// diacritics of Latin letters do not count. Stop words take a place but are left out.
func Of(text string) iter.Seq[Word] {
	return func(yield func(Word) bool) {
		s := splitter{yield: yield}
		for i, r := range text {
			if s.next(i, r); s.stopped {
				return
			}
		}
		s.end()
	}
}

// class is the class of a letter.
type class uint8

const (
	other class = iota
	small
	capital
	digit
	ideograph
	joiner
	mark
)

// splitter splits a text into words.
type splitter struct {
	yield   func(Word) bool
	stopped bool
	place   int

	start  int    // of the name, in the text
	name   []byte // folded
	starts []int  // of its parts
	last   int    // where its last letter starts

	before, previous class // of the last but one letter of the name, and of its last
}

func (s *splitter) next(at int, r rune) {
	folded, c := fold(r)
	switch c {
	case mark:
		return
	case other, ideograph:
		s.end()
		if c == ideograph {
			s.start = at
			s.name = utf8.AppendRune(s.name, folded)
			s.end()
		}
		return
	case joiner:
		if s.previous == joiner || len(s.name) == 0 {
			s.end() // "--x" and "_x" do not join anything
			return
		}
		s.before, s.previous = joiner, joiner
		return
	}
	if len(s.name) == 0 {
		s.start = at
	}
	switch {
	case s.previous == c, c == small && s.previous == capital && s.before != capital: // the part goes on
	case c == small && s.previous == capital: // the capital letter begins the part
		s.starts = append(s.starts, s.last)
	default:
		s.starts = append(s.starts, len(s.name))
	}
	s.last = len(s.name)
	s.name = utf8.AppendRune(s.name, folded)
	s.before, s.previous = s.previous, c
}

// end ends a name.
func (s *splitter) end() {
	switch {
	case len(s.name) == 0:
	case len(s.starts) < 2:
		s.word(Word{Text: s.name, Place: s.place, First: s.place})
		s.place++
	default:
		s.parts()
	}
	s.name, s.starts, s.before, s.previous = s.name[:0], s.starts[:0], other, other
}

func (s *splitter) parts() {
	if len(s.name) > MaxLen {
		return
	}
	first := s.place
	for i, start := range s.starts {
		end := len(s.name)
		if i+1 < len(s.starts) {
			end = s.starts[i+1]
		}
		if end-start > 1 {
			s.word(Word{Text: s.name[start:end], Place: s.place, First: s.place, Part: true})
			s.place++
		}
	}
	if s.place == first {
		s.place++
	}
	s.word(Word{Text: s.name, Place: s.place - 1, First: first, Whole: true})
}

func (s *splitter) word(w Word) {
	w.Start = s.start
	if !s.stopped && len(w.Text) <= MaxLen && !stopWords[string(w.Text)] {
		s.stopped = !s.yield(w)
	}
}

// Letter returns what stands for a letter in a word: the letter in lower case and without diacritics, -1 for a mark, an
// underscore or a hyphen, which are left out, or a space for what is not part of a word.
func Letter(r rune) rune {
	switch folded, c := fold(r); c {
	case mark, joiner:
		return -1
	case other:
		return ' '
	default:
		return folded
	}
}

// fold returns a letter in lower case and, if it is a Latin one, without diacritics.
func fold(r rune) (rune, class) {
	switch {
	case 'a' <= r && r <= 'z':
		return r, small
	case 'A' <= r && r <= 'Z':
		return r - 'A' + 'a', capital
	case '0' <= r && r <= '9':
		return r, digit
	case r == '_' || r == '-':
		return r, joiner
	case r < utf8.RuneSelf || !unicode.In(r, unicode.Letter, unicode.Digit, unicode.Mark):
		return r, other
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return r, ideograph
	case unicode.In(r, unicode.Mn, unicode.Me):
		return r, mark
	case unicode.IsDigit(r):
		return r, digit
	}
	c := small
	if unicode.IsUpper(r) {
		c = capital
	}
	return runes.Plain(r), c
}

// Distance returns the number of typing errors between two words, which are letters that are missing, added or
// wrong, and neighbours that are swapped, or more than limit if there are more. If limit is more than 1, the
// second word has at most [MaxLen] letters.
func Distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch m, n := len(a), len(b); {
	case m == 0 || n == 0:
		return m + n
	case m == 1 && n == 1, m == 2 && n == 2 && a[0] == b[1] && a[1] == b[0]:
		return 1
	case limit < 2: // more than one letter is wrong at both ends
		return 2
	}
	return table(a, b, limit)
}

// table is Distance by dynamic programming.
func table(a, b []rune, limit int) int {
	// rows[i%3][j] is the distance of a[:i] and b[:j].
	var rows [3][MaxLen + 1]uint8
	for j := range len(b) + 1 {
		rows[0][j] = uint8(j)
	}
	for i := 1; i <= len(a); i++ {
		row, up, upUp := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = uint8(i)
		least := row[0]
		for j := 1; j <= len(b); j++ {
			wrong := uint8(1)
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			d := min(up[j]+1, row[j-1]+1, up[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, upUp[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if int(least) > limit {
			return limit + 1
		}
	}
	return int(rows[len(a)%3][len(b)])
}

// Tolerance returns how many typing errors a word of a query may have: none with less than four letters or with a
// digit, one with less than eight letters, else two.
func Tolerance(word []rune) int {
	switch n := len(word); {
	case n < 4 || n > MaxLen || slices.ContainsFunc(word, unicode.IsDigit):
		return 0
	case n < 8:
		return 1
	}
	return 2
}

// Complete returns at most n ways to complete the last word of a half-typed query with a word of a vocabulary, which
// has the words with how often they occur. Those with the most frequent words are first.
func Complete(query string, n int, vocabulary iter.Seq2[string, int]) (out []string) {
	start, half := lastWord(query)
	if half == "" {
		return nil
	}
	type candidate struct {
		word  string
		count int
	}
	var found []candidate
	for word, count := range vocabulary {
		if len(word) > len(half) && strings.HasPrefix(word, half) {
			found = append(found, candidate{word, count})
		}
	}
	order.By(found, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.word, b.word))
	})
	for _, c := range found[:max(min(n, len(found)), 0)] {
		out = append(out, strings.ToValidUTF8(query[:start], string(utf8.RuneError))+c.word)
	}
	return out
}

// lastWord returns where the last word of a query starts, and the word.
func lastWord(query string) (start int, word string) {
	var letters []rune
	for i, r := range query {
		switch _, c := fold(r); c {
		case other, joiner:
			_, size := utf8.DecodeRuneInString(query[i:])
			start, letters = i+size, nil
		case mark:
		default:
			letters = append(letters, Letter(r))
		}
	}
	return start, string(letters)
}

// NearStop reports whether a word differs from a stop word by one typing error, and is long enough for one.
func NearStop(word []rune) bool {
	if Tolerance(word) == 0 {
		return false
	}
	for stop := range stopWords {
		if Tolerance([]rune(stop)) > 0 && Distance([]rune(stop), word, 1) <= 1 {
			return true
		}
	}
	return false
}

// stopWords are words that say nothing about a text in English.
var stopWords = map[string]bool{
	"a": true, "an": true, "and": true, "are": true, "as": true, "at": true, "be": true, "been": true, "but": true, "by": true,
	"can": true, "could": true, "did": true, "do": true, "does": true, "for": true, "from": true, "had": true, "has": true,
	"have": true, "how": true, "i": true, "if": true, "in": true, "into": true, "is": true, "it": true, "its": true, "me": true,
	"my": true, "no": true, "not": true, "of": true, "on": true, "or": true, "our": true, "should": true, "so": true, "some": true,
	"such": true, "that": true, "the": true, "their": true, "then": true, "there": true, "these": true, "they": true,
	"this": true, "to": true, "was": true, "we": true, "were": true, "what": true, "when": true, "where": true, "which": true,
	"who": true, "why": true, "will": true, "with": true, "would": true, "you": true, "your": true,
}
