package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// An object is a JSON object with its fields in order and their values as they were
// written, so that what is not understood goes back as it came.
type object []field

type field struct {
	key string
	val json.RawMessage
}

// space is what JSON calls so; bytes.TrimSpace knows more.
const space = " \t\r\n"

var errNotObject = errors.New("not a JSON object")

// parseObject returns the fields of an object. Their values share raw's bytes.
func parseObject(raw []byte) (object, error) {
	raw = bytes.Trim(raw, space)
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, errNotObject
	}
	return split(raw), nil
}

// split is parseObject for what is known to be a valid object. It skips over the
// values without looking at what they mean.
func split(raw []byte) object {
	o := make(object, 0, 4)
	for i := 1; ; {
		i = skipTo(raw, i, '"')
		if i < 0 {
			return o
		}
		end := skipValue(raw, i)
		key := raw[i+1 : end-1]
		i = skipTo(raw, end, ':') + 1
		for isSpace(raw[i]) {
			i++
		}
		end = skipValue(raw, i)
		o = append(o, field{unquoteKey(key), raw[i:end:end]})
		i = end
	}
}

// skipTo returns the index of c if only space and commas stand before it, or -1.
func skipTo(raw []byte, i int, c byte) int {
	for i < len(raw) && (isSpace(raw[i]) || raw[i] == ',') {
		i++
	}
	if i == len(raw) || raw[i] != c {
		return -1
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skipValue returns the index after the value that begins at i.
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

// unquoteKey returns a key; the usual ones cost no allocation.
func unquoteKey(key []byte) string {
	for _, k := range usualKeys {
		if string(key) == k {
			return k
		}
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key)
	}
	s, _ := unquote(string(key))
	return s
}

var usualKeys = []string{
	"type", "index", "content_block", "delta", "usage", "message", "id", "name", "input", "text",
}

// str decodes a value that should be a string; null is an empty one.
func str(key string, val json.RawMessage) (string, error) {
	if isNull(val) {
		return "", nil
	}
	if val[0] != '"' {
		return "", fmt.Errorf("%s is not a string", key)
	}
	if bytes.IndexByte(val, '\\') < 0 {
		return string(val[1 : len(val)-1]), nil
	}
	s, ok := unquote(string(val[1 : len(val)-1]))
	if !ok {
		return "", fmt.Errorf("%s is not a string", key)
	}
	return s, nil
}

func (o object) value(key string) json.RawMessage {
	for _, f := range o {
		if f.key == key {
			return f.val
		}
	}
	return nil
}

func (o *object) set(key string, val json.RawMessage) {
	for i, f := range *o {
		if f.key == key {
			(*o)[i].val = val
			return
		}
	}
	*o = append(*o, field{key, val})
}

// without returns o less the keys and less what is null.
func (o object) without(keys ...string) object {
	return slices.DeleteFunc(o, func(f field) bool {
		return isNull(f.val) || slices.Contains(keys, f.key)
	})
}

func (o object) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, f.key)
		b = append(b, ':')
		b = append(b, f.val...)
	}
	return append(b, '}')
}

// merge adds the fields of a delta whose type is not known: texts are appended,
// lists joined, anything else is replaced.
func (o *object) merge(delta object) {
	for _, f := range delta {
		if f.key != "type" {
			o.set(f.key, mergeValue(o.value(f.key), f.val))
		}
	}
}

func mergeValue(old, val json.RawMessage) json.RawMessage {
	if isNull(old) || isNull(val) || old[0] != val[0] {
		return val
	}
	inner := func(r json.RawMessage) []byte { return bytes.TrimSpace(r[1 : len(r)-1]) }
	a, b := inner(old), inner(val)
	switch {
	case val[0] == '"':
		return slices.Concat(old[:len(old)-1], val[1:])
	case val[0] != '[' || len(a) == 0:
		return val
	case len(b) == 0:
		return old
	}
	return slices.Concat([]byte("["), a, []byte(","), b, []byte("]"))
}

// isNull reports whether raw is absent or null.
func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
