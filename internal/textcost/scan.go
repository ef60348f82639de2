// Package textcost estimates the number of tokens of a text without a vocabulary.
//
// Tokenizers first split a text into words, numbers, marks and white space, and then merge the
// bytes of each piece as far as their vocabulary goes. The first step is nearly the same for all of
// them, so [Scan] repeats it and counts pieces by kind, in one pass without a memory allocation.
// The second step is replaced by a weight for each kind, in thousandths of a token, that was fitted
// to real vocabularies.
package textcost

import "unicode/utf8"

// A Feature is a kind of piece, or a property of pieces that makes them cost more.
type Feature int

// The features that Scan counts. A hump is a piece of an identifier behind another letter or digit,
// as "Name" in "fileName".
const (
	Word         Feature = iota // words of Latin letters, lower case except the first
	WordLetter                  // letters of words and humps after the seventh
	Title                       // words and humps that begin with an upper case letter
	Rare                        // letters j, k, q, w, x, z
	Hump1                       // humps of one letter
	Hump2                       // of two letters
	Hump3                       // of three letters
	Hump                        // of more
	Cap                         // single upper case letters
	Caps                        // runs of upper case letters
	Line                        // runs of newlines
	LineMark                    // runs of newlines behind a mark
	Marks                       // runs of ASCII punctuation
	MarksSpace                  // runs of punctuation behind a space
	Mark                        // characters in a run that differ from the one before
	Repeat                      // characters in a run that repeat the one before, spaces after the 16th
	Indent                      // spaces at the start of a line
	Tabs                        // runs of white space with a tab
	Tab                         // their characters after the first
	Gap                         // runs of spaces elsewhere
	Trailing                    // white space at the end of a line
	Number                      // groups of three digits
	NumberSpace                 // numbers behind a space
	Accent                      // Latin letters beyond ASCII
	Cyrillic                    // runs of letters
	CyrillicMore                // letters after the third
	Greek
	GreekMore
	Arabic
	ArabicMore
	Hebrew
	HebrewMore
	Indic // scripts of India and South East Asia
	IndicMore
	Kana
	Han
	HanRun
	Hangul
	HangulRun
	Wide    // East Asian punctuation and full width forms
	Symbol  // arrows, box drawing, typographic quotes
	Emoji   // and all else beyond the first 65,536 characters
	Invalid // bytes that are not UTF-8
	Other
	features
)

// Features is how often each [Feature] occurs in a text.
type Features [features]uint32

// The classes of bytes. Letters and digits come first, and rareLetter is added to some.
const (
	lower = iota
	upper
	digit
	mark
	space
	tab
	newline
	high

	classes    = 7 // mask
	rareLetter = 8
)

// classOf maps a byte to its class.
var classOf = [256]uint8{
	3, 3, 3, 3, 3, 3, 3, 3, 3, 5, 6, 3, 3, 6, 3, 3,
	3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
	4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
	3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 1, 1, 1, 1,
	1, 9, 1, 1, 1, 1, 1, 9, 9, 1, 9, 3, 3, 3, 3, 3,
	3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 0, 0, 0, 0,
	0, 8, 0, 0, 0, 0, 0, 8, 8, 0, 8, 3, 3, 3, 3, 3,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
}

// Scan counts the features of a text. It takes time proportional to the length.
func Scan(text string) Features {
	s := scanner{text: text}
	before := uint8(newline)
	for i := 0; i < len(text); {
		c := classOf[text[i]] & classes
		next := i
		switch c {
		case lower, upper:
			next = s.word(i, before)
		case digit:
			next = s.run(i, digit)
			s.f[Number] += uint32(next-i+2) / 3
			if before == space {
				s.f[NumberSpace]++
			}
		case mark:
			next = s.marks(i)
			if before == space {
				s.f[MarksSpace]++
			}
		case space, tab:
			next = s.blank(i, before)
		case newline:
			next = s.run(i, newline)
			s.f[Repeat] += uint32(max(next-i-2, 0))
			if before == mark {
				s.f[LineMark]++
			} else {
				s.f[Line]++
			}
		case high:
			if s.accent(i) > 0 {
				next = s.word(i, before)
			} else {
				next = s.beyond(i)
			}
		}
		before = classOf[text[next-1]] & classes
		i = next
	}
	return s.f
}

type scanner struct {
	text string
	f    Features
}

// run returns the end of a run of bytes of one class.
func (s *scanner) run(i int, class uint8) int {
	for i < len(s.text) && classOf[s.text[i]]&classes == class {
		i++
	}
	return i
}

// word counts a word or a hump. In "HTTPServer", the last capital belongs to the second hump.
func (s *scanner) word(i int, before uint8) int {
	end := s.run(i, upper)
	caps := end - i
	if caps > 0 && (end < len(s.text) && classOf[s.text[end]]&classes == lower || s.accent(end) > 0) {
		caps--
	}
	if caps > 0 {
		s.f[Cap+Feature(min(caps, 2)-1)]++
		s.f[WordLetter] += uint32(max(caps-7, 0))
		return i + caps
	}
	n, rare := 0, uint32(0)
	if end > i {
		s.f[Title]++
		rare = uint32(classOf[s.text[i]] / rareLetter)
		n++
		i++
	}
	for i < len(s.text) {
		c, size := classOf[s.text[i]], 1
		if c&classes != lower {
			if size = s.accent(i); size == 0 {
				break
			}
			s.f[Accent]++
		}
		rare += uint32(c / rareLetter)
		n++
		i += size
	}
	s.f[Rare] += rare
	s.f[WordLetter] += uint32(max(n-7, 0))
	if before <= digit {
		s.f[Hump1+Feature(min(n, 4)-1)]++
	} else {
		s.f[Word]++
	}
	return i
}

// accent returns the length of the Latin letter beyond ASCII at i, or 0.
func (s *scanner) accent(i int) int {
	if i >= len(s.text) {
		return 0
	}
	switch b := s.text[i]; {
	case b >= 0xC3 && b <= 0xCA && i+1 < len(s.text) && s.text[i+1]&0xC0 == 0x80:
		return 2
	case b == 0xE1 && i+2 < len(s.text) && s.text[i+1] >= 0xB8 && s.text[i+1] <= 0xBB && s.text[i+2]&0xC0 == 0x80:
		return 3
	}
	return 0
}

// marks counts a run of punctuation.
func (s *scanner) marks(i int) int {
	s.f[Marks]++
	for i++; i < len(s.text) && classOf[s.text[i]] == mark; i++ {
		if s.text[i] == s.text[i-1] {
			s.f[Repeat]++
		} else {
			s.f[Mark]++
		}
	}
	return i
}

// blank counts a run of spaces and tabs. A single space costs nothing: it belongs to the next word.
func (s *scanner) blank(i int, before uint8) int {
	start := i
	i = s.run(i, space)
	n := i - start
	if i < len(s.text) && classOf[s.text[i]] == tab {
		end := s.run(i, tab)
		s.f[Tabs]++
		s.f[Tab] += uint32(end - i - 1)
		s.f[Repeat] += uint32(max(n-16, 0))
		return end
	}
	switch {
	case i == len(s.text) || classOf[s.text[i]] == newline:
		s.f[Trailing]++
	case n == 1:
	case before == newline:
		s.f[Indent]++
	default:
		s.f[Gap]++
	}
	s.f[Repeat] += uint32(max(n-16, 0))
	return i
}

// beyond counts a run of characters of one script beyond ASCII.
func (s *scanner) beyond(i int) int {
	script, r, i := s.decode(i)
	n := 1
	for i < len(s.text) && s.text[i] >= utf8.RuneSelf {
		next, r2, end := s.decode(i)
		if next != script {
			break
		}
		if script == Symbol && r2 == r {
			s.f[Repeat]++
		} else {
			n++
		}
		r, i = r2, end
	}
	switch script {
	case Cyrillic, Greek, Arabic, Hebrew, Indic:
		s.f[script]++
		s.f[script+1] += uint32(max(n-3, 0))
	case Han, Hangul:
		s.f[script] += uint32(n)
		s.f[script+1]++
	default:
		s.f[script] += uint32(n)
	}
	return i
}

// decode returns the script of the character at i, the character and its end.
func (s *scanner) decode(i int) (Feature, rune, int) {
	r, n := utf8.DecodeRuneInString(s.text[i:])
	if n == 1 {
		return Invalid, r, i + 1
	}
	return scriptOf(r), r, i + n
}

// scripts are the ranges of characters beyond ASCII that belong to a feature, in order.
var scripts = [...]struct {
	from, to rune // the first one, and the first one behind
	is       Feature
}{
	{0, 0xC0, Symbol},
	{0x370, 0x400, Greek},
	{0x400, 0x530, Cyrillic},
	{0x590, 0x600, Hebrew},
	{0x600, 0x780, Arabic},
	{0x900, 0x1000, Indic},
	{0x2000, 0x2C00, Symbol},
	{0x3000, 0x3040, Wide},
	{0x3040, 0x3100, Kana},
	{0x3400, 0xA000, Han},
	{0xAC00, 0xD7B0, Hangul},
	{0xFF00, 0xFFF0, Wide},
	{0x10000, utf8.MaxRune + 1, Emoji},
}

// scriptOf returns the feature that counts a character beyond ASCII.
func scriptOf(r rune) Feature {
	for _, s := range scripts {
		if r < s.to {
			if r >= s.from {
				return s.is
			}
			break
		}
	}
	return Other
}
