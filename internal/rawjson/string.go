package rawjson

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ScanString reads a JSON string after its opening quote, and returns the rest after its
// closing quote.
func ScanString(s string) (text, rest string, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			return s[:i], s[i+1:], true
		case c == '\\':
			n, ok := stringEnd(s[i:])
			if !ok {
				return "", "", false
			}
			text, ok = Unquote(s[:i+n])
			return text, s[i+n+1:], ok
		case c < ' ':
			return "", "", false
		}
	}
	return "", "", false
}

// stringEnd returns the index of the quote that ends a string, if its escapes are valid.
func stringEnd(s string) (int, bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i, true
		case c == '\\':
			n := escapeLen(s[i:])
			if n == 0 {
				return 0, false
			}
			i += n - 1
		case c < ' ':
			return 0, false
		}
	}
	return 0, false
}

// escapeLen returns the length of the escape at the beginning of s, or 0.
func escapeLen(s string) int {
	if len(s) < 2 {
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
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b = append(b, s[i])
			i++
			continue
		}
		n := escapeLen(s[i:])
		if n == 0 {
			return "", false
		}
		if n == 2 {
			b = append(b, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, s[i+1])])
			i += 2
			continue
		}
		r, used := escapedRune(s[i:])
		b = utf8.AppendRune(b, r)
		i += used
	}
	return string(b), true
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

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD. Only characters
// for which JSON requires it are escaped.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	b = AppendEscaped(b, s)
	return append(b, '"')
}

// AppendEscaped is [AppendString] without the quotes. Characters such as < are not escaped:
// no reader needs it outside of HTML.
func AppendEscaped(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i += n
		start = i
	}
	return append(b, s[start:]...)
}

// appendEscape writes a byte that may not stand in a string as it is (RFC 8259, section 7).
// A byte that is not UTF-8 becomes U+FFFD, as in encoding/json.
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
	if c >= utf8.RuneSelf {
		return append(b, "\uFFFD"...)
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
