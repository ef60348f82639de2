package textdiff

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/pmezard/go-difflib/difflib"
)

// maxWords limits the bytes of a line that are compared word by word. A longer line loses
// the common head and tail first.
const maxWords = 8 << 10

// Two lines, without the words that both begin and end with, are compared only within
// these bounds. The matcher looks at all pairs of equal words in each round, and every
// common word may need a separate round: maxWork keeps its time in proportion to the
// length of the lines.
const (
	maxTokens = 512
	maxWork   = 256 // pairs of equal words, times rounds, for each byte
)

// spans are ranges of a line, in order and without overlap.
type spans [][2]int

// add appends a range unless it is empty, and joins it with the last one if they touch.
func (s spans) add(lo, hi int) spans {
	if lo == hi {
		return s
	}
	if n := len(s); n > 0 && s[n-1][1] == lo {
		s[n-1][1] = hi
		return s
	}
	return append(s, [2]int{lo, hi})
}

// wordSpans returns the differences between two lines, in whole words. The text outside the
// spans is equal in both. A line end that differs is a change by itself, so that it can be
// shown.
func wordSpans(a, b []byte) (inA, inB spans) {
	textA, textB := body(a), body(b)
	inA, inB = bodySpans(textA, textB)
	if !bytes.Equal(a[len(textA):], b[len(textB):]) {
		inA = inA.add(len(textA), len(a))
		inB = inB.add(len(textB), len(b))
	}
	return inA, inB
}

// body returns a line without its end.
func body(line []byte) []byte {
	text, ok := bytes.CutSuffix(line, []byte{'\n'})
	if !ok {
		return line
	}
	return bytes.TrimSuffix(text, []byte{'\r'})
}

// bodySpans returns the differences between two lines without their ends. Blanks between
// two changes count as changed, so that a reworded phrase is one span. Equal words at both
// ends are taken off first: most lines differ in one place, and then nothing is left to
// match.
func bodySpans(a, b []byte) (inA, inB spans) {
	head, tail := 0, 0
	if max(len(a), len(b)) > maxWords {
		head, tail = affixes(a, b)
	}
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	if max(len(a), len(b)) > maxWords {
		return inA.add(head, head+len(a)), inB.add(head, head+len(b))
	}
	x, y := cutTokens(a), cutTokens(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		head += len(x[0])
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if !isCheap(x, y) {
		return inA.add(head, head+size(x)), inB.add(head, head+size(y))
	}
	atA, atB := head, head
	ops := difflib.NewMatcherWithJunk(x, y, false, nil).GetOpCodes()
	for i, op := range ops {
		endA, endB := atA+size(x[op.I1:op.I2]), atB+size(y[op.J1:op.J2])
		between := 0 < i && i < len(ops)-1
		if op.Tag != 'e' || between && isBlank(x[op.I1:op.I2]) {
			inA, inB = inA.add(atA, endA), inB.add(atB, endB)
		}
		atA, atB = endA, endB
	}
	return inA, inB
}

// isCheap reports whether words can be compared within the bounds. The estimate counts
// pairs of equal words before the matcher meets them; lists of zeros or of commas are what
// makes it slow.
func isCheap(x, y []string) bool {
	if max(len(x), len(y)) > maxTokens {
		return false
	}
	count := make(map[string]int, len(x))
	for _, w := range x {
		count[w]++
	}
	pairs, rounds := 0, 0
	for _, w := range y {
		pairs += count[w]
		rounds += min(count[w], 1)
	}
	return pairs*min(rounds, len(x)) <= maxWork*(size(x)+size(y))
}

func size(words []string) (n int) {
	for _, w := range words {
		n += len(w)
	}
	return n
}

// isBlank reports whether words are white space.
func isBlank(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return w[0] != ' ' && w[0] != '\t' })
}

// affixes returns the lengths of the common head and tail of two texts. Both are cut back
// to a boundary of words. It is linear, so it has no bound.
func affixes(a, b []byte) (head, tail int) {
	n := min(len(a), len(b))
	for head < n && a[head] == b[head] {
		head++
	}
	for head > 0 && (inWord(a, head) || inWord(b, head)) {
		head--
	}
	a, b = a[head:], b[head:]
	n = min(len(a), len(b))
	for tail < n && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for tail > 0 && (inWord(a, len(a)-tail) || inWord(b, len(b)-tail)) {
		tail--
	}
	return head, tail
}

// inWord reports whether a place in a text is in the middle of a word.
func inWord(text []byte, i int) bool {
	return 0 < i && i < len(text) && isWord(text[i-1]) && isWord(text[i])
}

// cutTokens cuts a text without newlines into words, blanks and single other characters.
func cutTokens(text []byte) (all []string) {
	for s := string(text); s != ""; {
		n := tokenLen(text)
		all = append(all, s[:n])
		text, s = text[n:], s[n:]
	}
	return all
}

// tokenLen returns the length of the token that text begins with.
func tokenLen(text []byte) int {
	switch c := text[0]; {
	case isWord(c):
		return wordLen(text)
	case c == ' ' || c == '\t':
		return len(text) - len(bytes.TrimLeft(text, " \t"))
	}
	return 1
}

// wordLen returns the length of a word. Each symbol, and each character of a script that
// puts no blanks between words, is a separate word. From U+2E80 on are the scripts of East
// Asia, whose words no blank separates.
func wordLen(text []byte) int {
	n := 0
	for n < len(text) && isWord(text[n]) {
		r, size := utf8.DecodeRune(text[n:])
		if r >= 0x2e80 && n > 0 {
			break
		}
		n += size
		if r >= 0x2e80 {
			break
		}
	}
	return n
}

// isWord reports whether a byte may be part of a word. All bytes outside ASCII may.
func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf
}
