// Package view converts between strings and bytes without a copy. It is for texts whose
// copy would cost more than their processing.
package view

import "unsafe"

// Bytes returns the bytes of a text. Nobody may write to them, so they must not be handed
// to callers of the module.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// String returns bytes as a text. The bytes must not change afterwards.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
