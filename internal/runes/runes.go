// Package runes cleans, cuts and quotes texts without splitting a rune.
package runes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var noNUL = strings.NewReplacer("\x00", "\uFFFD")

// Clean replaces invalid UTF-8 and NUL in s by U+FFFD, so that JSON, terminals and databases can
// all hold the result: encoding/json replaces invalid UTF-8 without an error, and PostgreSQL
// refuses NUL in text.
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

// Lines returns the number of lines in s. A last line without a line break counts as a line.
func Lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && s[len(s)-1] != '\n' {
		n++
	}
	return n
}

// Cut returns the first n bytes of s, or fewer if the cut would split a rune. The limit n must
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

// Tail returns the last n bytes of s, or fewer if the cut would split a rune. The limit n must not be
// negative.
func Tail(s string, n int) string {
	from := max(len(s)-n, 0)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// Shorten cuts s like [Cut], and appends "…" if something was removed.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}

const leftOut = "\n[%d bytes are left out here]\n"

// HeadTail shortens s to at most n bytes. It keeps the beginning and the end, cut between runes,
// and puts a line between them that says how many bytes are left out.
func HeadTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	room := n - len(fmt.Sprintf(leftOut, len(s)))
	if room < 0 {
		return Shorten(s, max(n-len("…"), 0))
	}
	return Ends(s, room*2/3, room/3)
}

// Ends returns the first head and the last tail bytes of a longer text, cut between runes, with a
// line between them that says how many bytes are left out.
func Ends(s string, head, tail int) string {
	if len(s) <= head+tail {
		return s
	}
	begin, end := Cut(s, head), Tail(s, tail)
	return begin + fmt.Sprintf(leftOut, len(s)-len(begin)-len(end)) + end
}

// maxPath is the length in bytes at which Path shortens a name.
const maxPath = 200

// Path returns the name of a file as it can be shown in a message. It quotes a name with
// characters that could mislead a reader, such as line breaks or control characters, and shortens
// a long name.
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

// Line makes a text one line of valid UTF-8 without control characters and invisible ones, for a terminal or a page.
func Line(s string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			return -1
		}
		return r
	}, s), "")
}
