package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/late"
)

// refuse says why a script is not even parsed; "" if it is. Its time is linear in the
// smaller of the script and the bound. The length comes first, so that it bounds the time
// of the other checks.
func refuse(script string) string {
	if len(script) > maxScript {
		return "is longer than 32 KiB"
	}
	if oddLine(script) {
		return "joins lines in a way that shells read differently"
	}
	if hidden(script) {
		return "has characters that are invisible, control something, or only look like a space"
	}
	if nesting(script) > maxOpen {
		return "has too many brackets and operators"
	}
	return ""
}

// oddLine reports whether a backslash at the end of a line does anything but join two
// lines between words: in a comment it joins nothing for bash, but does for the parser;
// within a word, an operator or a keyword there is no use for it.
func oddLine(script string) bool {
	for line := range strings.Lines(script) {
		text := strings.TrimSuffix(line, "\n")
		if !strings.HasSuffix(text, `\`) {
			continue
		}
		if text = text[:len(text)-1]; line == text+`\` || strings.Contains(text, "#") || strings.TrimSpace(text) == "" ||
			!strings.HasSuffix(text, " ") && !strings.HasSuffix(text, "\t") {
			return true
		}
	}
	return false
}

// swallowed is a backslash or a backquote that ends the character before it for a shell in a locale of
// Big5, GBK or Shift JIS. Other quotes never do, and a backslash before a letter protects nothing.
var swallowed = late.Regexp("[^\x00-\x7f](\\\\[^a-z]|`)")

// nesting is not less than the depth of the tree that a parser could make of the script:
// each level needs one of these, whatever is quoted. It bounds the recursion of the parser
// before it starts: a parser that overflows its stack ends the whole process, and recover
// does not help.
func nesting(s string) int {
	n := 0
	for i := range len(s) {
		switch s[i] {
		case '(', '{', '`', '[', '!', '~', '?', '&', '|', ';':
			n++
		case 'f', 'e', 'o', 'l', 'n', 'c':
			if keyword(s[:i+1]) {
				n++
			}
		}
	}
	return n
}

// keyword reports whether s ends with a word that opens something.
func keyword(s string) bool {
	openers := [...]string{"if", "elif", "else", "while", "until", "case", "time", "do", "function", "coproc"}
	for _, w := range openers {
		if strings.HasSuffix(s, w) && (len(s) == len(w) || !letter(s[len(s)-len(w)-1])) {
			return true
		}
	}
	return false
}

// letter reports whether a byte may be in a name.
func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// hidden reports whether the script has characters that a reader would not see, or would
// take for others. A model, or a text that it read, may hide part of a command from the
// person who approves it (Unicode TR #36 and #39).
func hidden(s string) bool {
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7F {
				return true
			}
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return true
		case unicode.In(r, unicode.C, unicode.Z, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point):
			return true
		}
	}
	return false
}
