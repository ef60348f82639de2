package anthropic

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
// Nothing is escaped that JSON does not want escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	b = appendEscaped(b, s)
	return append(b, '"')
}

func appendEscaped(b []byte, s string) []byte {
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

// appendBase64 appends data as a JSON string.
func appendBase64(b, data []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, data)
	return append(b, '"')
}

// maxName is the longest id or name that the API takes.
const maxName = 128

// appendName appends an id or the name of a tool. The API wants
// ^[a-zA-Z0-9_-]{1,128}$; what other providers made is mapped, the same name to the
// same one each time, with a hash of the whole in the place of what is lost.
func appendName(b []byte, s string) []byte {
	b = append(b, '"')
	if validName(s) {
		b = append(b, s...)
		return append(b, '"')
	}
	h := fnv.New64a()
	h.Write([]byte(s)) // never returns an error
	for i := range min(len(s), maxName-17) {
		if !nameByte(s[i]) {
			b = append(b, '_')
			continue
		}
		b = append(b, s[i])
	}
	b = append(b, '_')
	b = strconv.AppendUint(b, h.Sum64(), 16)
	return append(b, '"')
}

func validName(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
