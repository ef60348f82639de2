package retrieval

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

// maxWord is the length in bytes from which a word is not one: it is data, which nobody looks for.
const maxWord = 64

// eachWord calls yield for each word of a text with its place, which counts words from 0. The word is valid
// during the call.
//
// A name is a sequence of letters, digits, underscores and hyphens. Its parts are the words: they end at
// underscores and hyphens, between letters and digits, before a capital letter behind a small one, and
// before the last of several capital letters if a small one follows. A name of several parts is also a word as a
// whole, without its underscores and hyphens, in the place of its last part; then parts of one letter are
// left out. So user_profile, userProfile and user-profile have the same words. In the scripts that do not
// separate words, each letter is one. Case and the diacritics of Latin letters do not count. Stop words take
// a place but are left out.
func eachWord(text string, yield func(word []byte, place int)) {
	s := splitter{yield: yield}
	for _, r := range text {
		s.next(r)
	}
	s.end()
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
	yield func(word []byte, place int)
	place int

	name   []byte // folded
	starts []int  // of its parts
	last   int    // where its last letter starts

	before, previous class // of the last but one letter of the name, and of its last
}

func (s *splitter) next(r rune) {
	folded, c := fold(r)
	switch c {
	case mark:
		return
	case other, ideograph:
		s.end()
		if c == ideograph {
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
		s.word(s.name, s.place)
		s.place++
	default:
		s.parts()
	}
	s.name, s.starts, s.before, s.previous = s.name[:0], s.starts[:0], other, other
}

func (s *splitter) parts() {
	if len(s.name) > maxWord {
		return
	}
	first := s.place
	for i, start := range s.starts {
		end := len(s.name)
		if i+1 < len(s.starts) {
			end = s.starts[i+1]
		}
		if end-start > 1 {
			s.word(s.name[start:end], s.place)
			s.place++
		}
	}
	if s.place == first {
		s.place++
	}
	s.word(s.name, s.place-1)
}

func (s *splitter) word(word []byte, place int) {
	if len(word) <= maxWord && !stopWords[string(word)] {
		s.yield(word, place)
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
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
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

// distance returns the number of typing errors between two words, which are letters that are missing, added or
// wrong, and neighbours that are swapped, or more than limit if there are more.
func distance(a, b []rune, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	// rows[i%3][j] is the distance of a[:i] and b[:j].
	var rows [3][maxWord + 1]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, up, upUp := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			wrong := 1
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
		if least > limit {
			return limit + 1
		}
	}
	return rows[len(a)%3][len(b)]
}

// allowed returns how many typing errors a word may have: none with less than four letters or with a digit, one
// with less than eight letters, else two.
func allowed(word []rune) int {
	switch n := len(word); {
	case n < 4 || n > maxWord || strings.ContainsFunc(string(word), unicode.IsDigit):
		return 0
	case n < 8:
		return 1
	}
	return 2
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
