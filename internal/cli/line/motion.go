package line

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// next returns the place behind the character at i.
func (b *buffer) next(i int) int {
	n, _ := tty.Next(b.text[i:])
	return i + n
}

// prev returns the begin of the character in front of i.
func (b *buffer) prev(i int) int {
	if i == 0 {
		return 0
	}
	if b.text[i-1] < utf8.RuneSelf {
		return i - 1
	}
	at := b.lineStart(i)
	for next := b.next(at); next < i; next = b.next(at) {
		at = next
	}
	return at
}

// snap moves the cursor out of a character that consists of several code points.
func (b *buffer) snap() {
	if b.at >= len(b.text) || b.at == 0 || b.text[b.at] < utf8.RuneSelf {
		return
	}
	at := b.lineStart(b.at)
	for at < b.at {
		at = b.next(at)
	}
	b.at = at
}

func (b *buffer) lineStart(i int) int { return strings.LastIndexByte(b.text[:i], '\n') + 1 }

func (b *buffer) lineEnd(i int) int {
	if n := strings.IndexByte(b.text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(b.text)
}

// A class of characters; words consist of characters of one class.
type class int

const (
	space class = iota
	symbol
	letter
)

func (b *buffer) class(i int) class {
	r, _ := utf8.DecodeRuneInString(b.text[i:])
	switch {
	case unicode.IsSpace(r):
		return space
	case r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.N) || isMarker(r):
		return letter
	}
	return symbol
}

// bigClass is the class for words that only spaces separate.
func (b *buffer) bigClass(i int) class { return min(b.class(i), symbol) }

// forward returns the first place from i on where the condition does not hold.
func (b *buffer) forward(i int, while func(int) bool) int {
	for i < len(b.text) && while(i) {
		i = b.next(i)
	}
	return i
}

// back returns the last place up to i in front of which the condition does not hold. It looks for the characters of a
// line once, as prev does for each.
func (b *buffer) back(i int, while func(int) bool) int {
	for i > 0 {
		var places []int
		for at := b.lineStart(i); at < i; at = b.next(at) {
			places = append(places, at)
		}
		if places == nil {
			places = []int{i - 1} // the line feed of the line above
		}
		for _, at := range slices.Backward(places) {
			if !while(at) {
				return i
			}
			i = at
		}
	}
	return i
}

func (b *buffer) inWord(i int) bool    { return b.class(i) == letter }
func (b *buffer) notInWord(i int) bool { return b.class(i) != letter }
func (b *buffer) isSpace(i int) bool   { return b.class(i) == space }
func (b *buffer) notSpace(i int) bool  { return b.class(i) != space }

// wordRight returns the end of the word at or behind i.
func (b *buffer) wordRight(i int) int { return b.forward(b.forward(i, b.notInWord), b.inWord) }

// wordLeft returns the begin of the word in front of i.
func (b *buffer) wordLeft(i int) int { return b.back(b.back(i, b.notInWord), b.inWord) }

// spaceLeft returns the begin of what spaces separate in front of i.
func (b *buffer) spaceLeft(i int) int { return b.back(b.back(i, b.isSpace), b.notSpace) }

// column returns the width of the line in front of i.
func (b *buffer) column(i int) int { return tty.Width(b.text[b.lineStart(i):i]) }

// atColumn returns the place in the line at i that is not behind a column.
func (b *buffer) atColumn(i, column int) int {
	i = b.lineStart(i)
	for end := b.lineEnd(i); i < end; {
		n, w := tty.Next(b.text[i:])
		if column < w {
			break
		}
		column -= w
		i += n
	}
	return i
}

// up returns the place in the line above, and reports whether there is one.
func (b *buffer) up(i, column int) (int, bool) {
	start := b.lineStart(i)
	if start == 0 {
		return i, false
	}
	return b.atColumn(start-1, column), true
}

// down returns the place in the line below, and reports whether there is one.
func (b *buffer) down(i, column int) (int, bool) {
	end := b.lineEnd(i)
	if end == len(b.text) {
		return i, false
	}
	return b.atColumn(end+1, column), true
}
