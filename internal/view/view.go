// Package view sees a text as bytes, and bytes as a text, without copying them. It is for
// texts of which a copy costs more than what is done with it.
package view

import "unsafe"

// Bytes returns the bytes of a text. Nobody may write to them, so they do not go to
// callers of the module.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// String returns bytes as a text. Nobody may write to them any more.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
