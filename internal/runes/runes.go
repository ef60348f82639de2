// Package runes cleans, cuts and quotes texts without splitting a rune.
package runes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

var noNUL = strings.NewReplacer("\x00", "\uFFFD")

// Clean makes s valid UTF-8 without NUL, which JSON, terminals and databases can all hold:
// encoding/json replaces invalid UTF-8 without an error, and PostgreSQL refuses NUL in text.
func Clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = noNUL.Replace(s)
	}
	return s
}

// ErrNotUTF8 says that a text is not valid UTF-8.
var ErrNotUTF8 = errors.New("text is not valid UTF-8")

// CheckUTF8 returns [ErrNotUTF8] if one of the texts is not valid UTF-8.
func CheckUTF8(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return ErrNotUTF8
		}
	}
	return nil
}

// Lines counts the lines of s, a last one without a line end too.
func Lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && s[len(s)-1] != '\n' {
		n++
	}
	return n
}

// Cut returns at most the first n bytes of s, and never a part of a rune. The limit n must
// not be negative.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Shorten is [Cut] that appends "…" if it removed something.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}

// HeadTail shortens s to n bytes: to its first and its last part, cut between runes, with a line
// between them that says how much is missing.
func HeadTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const notice = "\n[%d bytes are left out here]\n"
	room := n - len(fmt.Sprintf(notice, len(s)))
	if room < 0 {
		return Shorten(s, max(n-len("…"), 0))
	}
	head, from := Cut(s, room*2/3), len(s)-room/3
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return head + fmt.Sprintf(notice, from-len(head)) + s[from:]
}

const maxPath = 200 // the most bytes of a name in a text

// Path returns a file name for a message. It quotes names with characters that could
// mislead a reader, such as line breaks or controls, and cuts long ones.
func Path(p string) string {
	cut := ""
	if len(p) > maxPath {
		p, cut = Cut(p, maxPath), "…"
	}
	if q := strconv.Quote(p); q != `"`+p+`"` || strings.TrimSpace(p) != p || p == "" {
		p = q
	}
	return p + cut
}
