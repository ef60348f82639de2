package textdiff

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quote returns a name as git writes it: unchanged, or in double quotes with C escapes if a
// reader could mistake it for another name. Letters of all scripts stay. The rules are
// those of core.quotePath=false in git-config(1).
func quote(name string) string {
	if !needsQuotes(name) {
		return name
	}
	return quoted(name)
}

// word returns a name for a line with two names: patch requires quotes around a name with
// blanks.
func word(name string) string {
	if strings.Contains(name, " ") {
		return quoted(name)
	}
	return quote(name)
}

// quoted writes bytes that cannot be shown as three octal digits, which every reader of C
// escapes knows.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + name[i:i+1])
		case isPlain(r, n):
			b.WriteString(name[i : i+n])
		default:
			for _, c := range []byte(name[i : i+n]) {
				b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
			}
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// needsQuotes looks for characters that would end or change the name for a reader: quotes,
// backslashes, control characters, and bytes that are not UTF-8.
func needsQuotes(name string) bool {
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == '"' || r == '\\' || !isPlain(r, n) {
			return true
		}
		i += n
	}
	return false
}

// isPlain reports whether a rune of n bytes can be shown as it is.
func isPlain(r rune, n int) bool {
	return strconv.IsPrint(r) && (r != utf8.RuneError || n > 1)
}

// field returns a name for a line of the header. A tab ends a name with blanks, so that a
// reader does not take a blank for the space before a date. GNU diff writes the date of a
// file there.
func field(name string) string {
	if q := quote(name); q != name || !strings.Contains(name, " ") {
		return q
	}
	return name + "\t"
}
