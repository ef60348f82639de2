package runes

import "bytes"

// Sniffed is how many bytes of a file [Binary] looks at: as many as git does (FIRST_FEW_BYTES in
// its xdiff-interface.c).
const Sniffed = 8000

// Binary reports whether the content of a file is not text: whether a NUL is among its first
// [Sniffed] bytes. That is the rule of git's buffer_is_binary. All packages use it, so that a
// file that is searched can be read, and one that is read can be edited, merged and compared.
//
// Two uses add to it: texts with a byte order mark of UTF-16, which have NULs, are decoded where
// they are only read, and texts too large for offsets of 32 bits are merged and compared as a
// whole.
func Binary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), Sniffed)], 0) >= 0
}
