package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/aycoder/aycoder/internal/view"
)

// An Object is a JSON object whose fields keep their order and whose values stay JSON
// text, so that unknown fields are sent back unchanged.
type Object []Field

// A Field is a field of an [Object].
type Field struct {
	Key string
	Val json.RawMessage
}

// space is the white space of JSON; bytes.TrimSpace removes more.
const space = " \t\r\n"

var errNotObject = errors.New("not a JSON object")

// Parse returns the fields of an object. Their values share raw's bytes.
func Parse(raw []byte) (Object, error) {
	raw = bytes.Trim(raw, space)
	if len(raw) == 0 || raw[0] != '{' || !Valid(raw) {
		return nil, errNotObject
	}
	return Split(raw), nil
}

// Split is Parse for a valid object. It skips over the values without validating them.
func Split(raw []byte) Object {
	o := make(Object, 0, 4)
	for key, val := range fields(raw) {
		o = append(o, Field{unquoteKey(key), val})
	}
	return o
}

// Has reports whether what is known to be a valid object has a field. It allocates only for
// a key with escapes.
func Has(raw []byte, name string) bool {
	for key := range fields(raw) {
		if string(key) == name || bytes.IndexByte(key, '\\') >= 0 && unquoteKey(key) == name {
			return true
		}
	}
	return false
}

// fields are the keys of a valid object, as they are written without their quotes, and
// their values.
func fields(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, val []byte) bool) {
		for i := 1; ; {
			if i = skipTo(raw, i, '"'); i < 0 {
				return
			}
			end := skipValue(raw, i)
			key := raw[i+1 : end-1]
			i = skipTo(raw, end, ':') + 1
			for isSpace(raw[i]) {
				i++
			}
			end = skipValue(raw, i)
			if !yield(key, raw[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// skipTo returns the index of c if only white space and commas precede it, or -1.
func skipTo(raw []byte, i int, c byte) int {
	for i < len(raw) && (isSpace(raw[i]) || raw[i] == ',') {
		i++
	}
	if i == len(raw) || raw[i] != c {
		return -1
	}
	return i
}

// The comparison with a space decides nearly every byte of a document at once, as letters
// and brackets are above it.
func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\t' || c == '\r' || c == '\n') }

// skipValue returns the index after the value that begins at i. The value is known to be
// valid, so brackets need not be told apart. A number or a literal ends where a separator,
// or the bracket around it, begins.
func skipValue(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// unquoteKey returns a key; common keys do not allocate.
func unquoteKey(key []byte) string {
	for _, k := range usualKeys {
		if string(key) == k {
			return k
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key)
	}
	s, _ := Unquote(string(key))
	return s
}

// usualKeys are the keys of most events of a stream. A key from this list costs no memory.
var usualKeys = []string{
	"type", "index", "content_block", "delta", "usage", "message", "id", "name", "input", "text",
}

// Str decodes a value that should be a string; null is an empty string.
func Str(key string, val json.RawMessage) (string, error) {
	if IsNull(val) {
		return "", nil
	}
	if val[0] != '"' {
		return "", fmt.Errorf("%s is not a string", key)
	}
	if bytes.IndexByte(val, '\\') < 0 {
		return string(val[1 : len(val)-1]), nil
	}
	s, ok := Unquote(string(val[1 : len(val)-1]))
	if !ok {
		return "", fmt.Errorf("%s is not a string", key)
	}
	return s, nil
}

// Value returns the value of a field, or nil.
func (o Object) Value(key string) json.RawMessage {
	for _, f := range o {
		if f.Key == key {
			return f.Val
		}
	}
	return nil
}

// Set replaces the value of a field, or adds it.
//
//go:noinline // its loop would be in each program forty times
func (o *Object) Set(key string, val json.RawMessage) {
	for i, f := range *o {
		if f.Key == key {
			(*o)[i].Val = val
			return
		}
	}
	*o = append(*o, Field{key, val})
}

// Without returns o without the given keys and without null values. It works in place: o
// must not be used afterwards.
func (o Object) Without(keys ...string) Object {
	return slices.DeleteFunc(o, func(f Field) bool {
		return IsNull(f.Val) || slices.Contains(keys, f.Key)
	})
}

// AppendTo appends o as JSON.
func (o Object) AppendTo(b []byte) []byte {
	b = append(b, '{')
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, f.Key)
		b = append(b, ':')
		b = append(b, f.Val...)
	}
	return append(b, '}')
}

// Merge adds the fields of a delta of unknown type: strings are appended, lists joined,
// other values replaced.
func (o *Object) Merge(delta Object) {
	for _, f := range delta {
		if f.Key != "type" {
			o.Set(f.Key, MergeValue(o.Value(f.Key), f.Val))
		}
	}
}

// MergeValue returns the value of a field after a delta: see [Object.Merge]. It appends to
// old where possible, so that the time for thousands of deltas is proportional to their
// length; old must not be used afterwards. Citations and signatures come in such deltas.
func MergeValue(old, val json.RawMessage) json.RawMessage {
	if IsNull(old) || IsNull(val) || old[0] != val[0] {
		return val
	}
	inner := func(r json.RawMessage) []byte { return bytes.TrimSpace(r[1 : len(r)-1]) }
	a, b := inner(old), inner(val)
	switch {
	case val[0] == '"':
		return append(old[:len(old)-1], val[1:]...)
	case val[0] != '[' || len(a) == 0:
		return val
	case len(b) == 0:
		return old
	}
	return append(old[:len(old)-1], slices.Concat([]byte(","), b, []byte("]"))...)
}

// IsNull reports whether raw is absent or null.
func IsNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}

// IsObject reports whether raw is a complete JSON object.
func IsObject(raw []byte) bool {
	head := bytes.TrimLeft(raw, space)
	return len(head) > 0 && head[0] == '{' && Valid(raw)
}

// Valid is [json.Valid] in a fraction of its time.
//
//go:noinline // it would be in each program six times
func Valid(raw []byte) bool {
	r := Reader{s: view.String(raw), value: true}
	return r.End() == nil
}
