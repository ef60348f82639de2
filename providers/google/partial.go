package google

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// Limits for arguments that come in pieces, so that a few bytes do not produce a large
// value or much work: the depth, the number of list elements that the pieces of a call
// may skip, the number of fields of an object, and the total number of values.
const (
	maxPath   = 64
	maxSkip   = 64
	maxKeys   = 1024
	maxValues = 1 << 16

	// fewKeys is the number of fields up to which a linear search is faster than a map.
	fewKeys = 8
)

var (
	errPath   = errors.New("path of a partial argument is not valid")
	errValues = errors.New("partial arguments are of too many values")
)

// A tree is the arguments of a call that come in pieces.
type tree struct {
	root            value
	values, skipped int // so far
}

// A value is a JSON value under construction, from leaves with their paths. The zero
// value is an empty object.
type value struct {
	list   bool
	keys   []string // of an object, parallel to inner
	inner  []*value
	index  map[string]int // of the keys, if there are many
	leaf   *leaf
	newest int // index of the value that was extended last
}

// A leaf is a string, or another value without parts.
type leaf struct {
	text []byte
	raw  string // JSON text, unless it is a string
	more bool   // the string is to be continued
}

// set adds a leaf, or the next piece of a string, at a path such as "$.foo.bar[0].data"
// (RFC 9535).
func (t *tree) set(path string, l leaf) error {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return errPath
	}
	v := &t.root
	for n := 0; rest != ""; n++ {
		key, index, after, ok := step(rest)
		if !ok || n == maxPath {
			return errPath
		}
		if v, ok = t.child(v, key, index); !ok {
			return errPath
		}
		rest = after
	}
	if t.values > maxValues {
		return errValues
	}
	return v.fill(l)
}

// fill sets v to a leaf, or extends its string.
func (v *value) fill(l leaf) error {
	if len(v.inner) > 0 {
		return errPath
	}
	if v.leaf != nil && v.leaf.raw == "" && l.raw == "" {
		v.leaf.text = append(v.leaf.text, l.text...)
		v.leaf.more = l.more
		return nil
	}
	v.leaf = &l
	return nil
}

// child returns the value of v under a key or, if index is not negative, at an index. It
// creates the value if necessary.
func (t *tree) child(v *value, key string, index int) (*value, bool) {
	if v.leaf != nil || len(v.inner) > 0 && v.list != (index >= 0) {
		return nil, false
	}
	v.list = index >= 0
	if !v.list {
		index = v.find(key)
	}
	if skipped := index - len(v.inner); skipped >= 0 {
		if skipped > maxSkip-t.skipped || !v.list && index >= maxKeys {
			return nil, false
		}
		t.skipped += skipped
		t.values += skipped + 1
		v.grow(key, skipped)
	}
	v.newest = index
	c := v.inner[index]
	if v.list && c.leaf != nil && c.leaf.raw == "null" {
		c.leaf = nil // it was skipped before
	}
	return c, true
}

// grow appends a value, behind others that were skipped.
func (v *value) grow(key string, skipped int) {
	for range skipped {
		v.inner = append(v.inner, &value{leaf: &leaf{raw: "null"}})
	}
	v.inner = append(v.inner, &value{})
	if v.list {
		return
	}
	v.keys = append(v.keys, key)
	if len(v.keys) > fewKeys && v.index == nil {
		v.index = map[string]int{}
		for i, k := range v.keys {
			v.index[k] = i
		}
	}
	if v.index != nil {
		v.index[key] = len(v.keys) - 1
	}
}

// find returns the index of a key, which it adds if necessary.
func (v *value) find(key string) int {
	if v.newest < len(v.keys) && v.keys[v.newest] == key {
		return v.newest
	}
	i, ok := v.index[key]
	if v.index == nil {
		i = slices.Index(v.keys, key)
		ok = i >= 0
	}
	if !ok {
		return len(v.keys)
	}
	return i
}

// whole reports whether the arguments are an object without unfinished strings.
func (t *tree) whole() bool { return t.root.leaf == nil && !t.root.list && !t.root.open() }

// open reports whether v contains an unfinished string.
func (v *value) open() bool {
	if v.leaf != nil {
		return v.leaf.more
	}
	return slices.ContainsFunc(v.inner, (*value).open)
}

// step parses a segment of a path: ".name", "['name']" or "[7]". The index of a name is
// -1.
func step(path string) (key string, index int, rest string, ok bool) {
	if name, ok := strings.CutPrefix(path, "."); ok {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		return name[:end], -1, name[end:], end > 0
	}
	if strings.HasPrefix(path, "['") || strings.HasPrefix(path, `["`) {
		return quoted(path[1:])
	}
	inside, rest, closed := strings.Cut(strings.TrimPrefix(path, "["), "]")
	index, err := strconv.Atoi(inside)
	return "", index, rest, closed && path[0] == '[' && err == nil && index >= 0
}

// quoted parses a quoted name and the bracket after it.
func quoted(s string) (key string, index int, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			key = s[1:i]
			if s[0] == '\'' {
				key = strings.ReplaceAll(key, `\'`, `'`)
			}
			key, ok = rawjson.Unquote(key)
			rest, closed := strings.CutPrefix(s[i+1:], "]")
			return key, -1, rest, ok && closed
		}
	}
	return "", -1, "", false
}

// append appends v as JSON. If it is incomplete, the value that was extended last is left
// open.
func (v *value) append(b []byte, whole bool) []byte {
	if v.leaf != nil {
		return v.leaf.append(b, whole)
	}
	open, end := byte('{'), byte('}')
	if v.list {
		open, end = '[', ']'
	}
	b = append(b, open)
	for i, c := range v.inner {
		cut := !whole && i == v.newest
		if v.list {
			b = rawjson.AppendComma(b)
		} else {
			b = rawjson.AppendKey(b, v.keys[i])
		}
		b = c.append(b, !cut)
		if cut {
			return b
		}
	}
	if !whole {
		return b
	}
	return append(b, end)
}

func (l *leaf) append(b []byte, whole bool) []byte {
	if l.raw != "" {
		return append(b, l.raw...)
	}
	b = rawjson.AppendString(b, string(l.text))
	if !whole && l.more {
		b = b[:len(b)-1]
	}
	return b
}
