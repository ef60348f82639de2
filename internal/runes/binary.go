package runes

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// Sniffed is how many bytes of a file [Binary] looks at: as many as git does (FIRST_FEW_BYTES in
// its xdiff-interface.c).
const Sniffed = 8000

// Binary reports whether the content of a file is binary, which means that there is a NUL among
// its first [Sniffed] bytes. Git uses the same rule (buffer_is_binary). All packages use this
// function, so that a file that can be searched can also be read, edited, merged and compared.
//
// There are two exceptions. Files that are only read may be in UTF-16, which has NULs, if they
// begin with a byte order mark. And files that are too large for 32-bit offsets are merged and
// compared as a whole, like binary ones.
func Binary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), Sniffed)], 0) >= 0
}

// UTF16 decodes a text that begins with a byte order mark, as Windows programs write it. Half a pair becomes U+FFFD.
func UTF16(data []byte) (text string, ok bool) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return "", false
	}
	units := make([]uint16, 0, len(data)/2)
	for data = data[2:]; len(data) >= 2; data = data[2:] {
		units = append(units, order.Uint16(data))
	}
	return string(utf16.Decode(units)), true
}
