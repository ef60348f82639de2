package textdiff

import (
	"bytes"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/diff3"
)

// maxWords is how many bytes of a line are compared word by word. Of a longer line
// the common head and tail are taken off first.
const maxWords = 8 << 10

// spans are ranges of a line, in order and without overlap.
type spans [][2]int

// add appends a range, unless it is empty, and joins it with one that it touches.
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

// wordSpans returns what differs between two lines, in whole words. What is outside
// of the spans is the same in both.
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

// bodySpans returns what differs between two lines without their ends.
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
	for _, h := range x.diff(y) {
		inA = inA.add(head+x.at(h.A0), head+x.at(h.A1))
		inB = inB.add(head+y.at(h.B0), head+y.at(h.B1))
	}
	return inA, inB
}

// affixes returns the lengths of the common head and tail of two texts, which end
// between two words.
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

// tokens is a text that is cut into words, blanks and single other characters. lines
// has one in each line: that is how they are compared.
type tokens struct {
	text, lines []byte
	ends        []int
}

// at returns where token i begins.
func (t *tokens) at(i int) int {
	if i == 0 {
		return 0
	}
	return t.ends[i-1]
}

// blank reports whether the tokens from lo up to hi are white space.
func (t *tokens) blank(lo, hi int) bool {
	return len(bytes.TrimLeft(t.text[t.at(lo):t.at(hi)], " \t")) == 0
}

// cutTokens cuts a text without newlines.
func cutTokens(text []byte) *tokens {
	t := &tokens{text: text}
	for at := 0; at < len(text); {
		end := at + tokenLen(text[at:])
		t.lines = append(append(t.lines, text[at:end]...), '\n')
		t.ends = append(t.ends, end)
		at = end
	}
	return t
}

// diff returns the changes between two lists of tokens. Blanks between two changes
// count as changed: so a phrase is one change.
func (t *tokens) diff(to *tokens) []diff3.Hunk {
	var out []diff3.Hunk
	for _, h := range diff3.Diff(t.lines, to.lines).Hunks {
		if n := len(out); n > 0 && t.blank(out[n-1].A1, h.A0) {
			out[n-1].A1, out[n-1].B1 = h.A1, h.B1
			continue
		}
		out = append(out, h)
	}
	return out
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

// wordLen returns the length of a word. Characters of scripts that put no blanks
// between words, and symbols, are words of their own.
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

// isWord reports whether a byte may be in a word. Those of other scripts may.
func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf
}
