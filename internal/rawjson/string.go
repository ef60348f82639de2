package rawjson

import (
	"encoding/base64"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ScanString reads a JSON string after its opening quote, and returns the rest after its
// closing quote.
func ScanString(s string) (text, rest string, ok bool) {
	n := plain(s)
	if n < len(s) && s[n] == '"' {
		return s[:n], s[n+1:], true
	}
	if n, ok = stringEnd(s); !ok {
		return "", "", false
	}
	text, ok = Unquote(s[:n])
	return text, s[n+1:], ok
}

// plain returns the length of the beginning of s without quotes, backslashes and control characters. It
// looks at eight bytes at a time, since strings are most of a document. The subtractions set the highest
// bit of the first byte that is found; a byte behind it may have that bit, too.
func plain(s string) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	t := s
	for len(t) >= 8 {
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		found := (w ^ ('"' * ones) - ones) | (w ^ ('\\' * ones) - ones) | (w - ' '*ones)
		if found &= highest &^ w; found != 0 {
			return len(s) - len(t) + bits.TrailingZeros64(found)/8
		}
		t = t[8:]
	}
	for len(t) > 0 && t[0] >= ' ' && t[0] != '"' && t[0] != '\\' {
		t = t[1:]
	}
	return len(s) - len(t)
}

// stringEnd returns the index of the quote that ends a string, if its escapes are valid.
func stringEnd(s string) (int, bool) {
	for i := 0; ; {
		if i += plain(s[i:]); i < len(s) && s[i] == '"' {
			return i, true
		}
		n := escapeLen(s[i:])
		if n == 0 {
			return 0, false
		}
		i += n
	}
}

// escapeLen returns the length of the escape at the beginning of s, or 0.
func escapeLen(s string) int {
	if len(s) < 2 || s[0] != '\\' {
		return 0
	}
	if s[1] == 'u' {
		if _, ok := hex4(s); ok {
			return 6
		}
		return 0
	}
	if strings.IndexByte(`"\/bfnrt`, s[1]) < 0 {
		return 0
	}
	return 2
}

// Unquote resolves the escapes of a JSON string without its quotes. Half of a
// surrogate pair becomes U+FFFD.
func Unquote(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return string(append(b, s...)), true
		}
		b, s = append(b, s[:i]...), s[i:]
		var r rune
		n := escapeLen(s)
		switch n {
		case 0:
			return "", false
		case 2:
			r = rune("\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, s[1])])
		default:
			r, n = escapedRune(s)
		}
		b = utf8.AppendRune(b, r)
		s = s[n:]
	}
}

// escapedRune reads the \u escape at the beginning of s, and a second one if both form a
// surrogate pair.
func escapedRune(s string) (rune, int) {
	r, _ := hex4(s)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(s[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 reads "\uXXXX". Both cases of the digits are valid (RFC 8259, section 7).
func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. A byte that is not UTF-8 becomes U+FFFD, as in encoding/json. Only characters
// for which JSON requires it are escaped.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	b = AppendEscaped(b, s)
	return append(b, '"')
}

// AppendEscaped is [AppendString] without the quotes. Characters such as < are not escaped:
// no reader needs it outside of HTML.
func AppendEscaped(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	for {
		n := plain(s)
		b = append(b, s[:n]...)
		if n == len(s) {
			return b
		}
		b = appendEscape(b, s[n])
		s = s[n+1:]
	}
}

// appendEscape writes a byte that may not stand in a string as it is (RFC 8259, section 7).
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, `\n`...)
	case '\t':
		return append(b, `\t`...)
	case '\r':
		return append(b, `\r`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// AppendBase64 appends data as a JSON string.
func AppendBase64(b, data []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// AppendKey appends a comma, unless an object or a list was just opened or b is
// empty, and the key with its colon.
func AppendKey(b []byte, key string) []byte {
	b = AppendComma(b)
	b = AppendString(b, key)
	return append(b, ':')
}

// AppendComma appends a comma, unless an object or a list was just opened.
func AppendComma(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' && b[n-1] != ',' {
		return append(b, ',')
	}
	return b
}

// AppendField appends a field whose value is a string.
func AppendField(b []byte, key, val string) []byte {
	return AppendString(AppendKey(b, key), val)
}

// AppendIntField appends a field whose value is a whole number.
func AppendIntField(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(AppendKey(b, key), n, 10)
}
