package google

import (
	"errors"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// The bounds of arguments that come in pieces, so that a few bytes do not make a large
// value or much work: how deep they are, how many elements of a list a piece may leave
// out, and how many fields an object has.
const (
	maxPath = 64
	maxSkip = 64
	maxKeys = 1024
)

var errPath = errors.New("path of a partial argument is not valid")

// A value is a JSON value that is being put together, from leaves with their paths.
// The zero value is an empty object.
type value struct {
	list   bool
	keys   []string // of an object, one for each of inner
	inner  []*value
	leaf   *leaf
	newest int // index of the one that was added to last
}

// A leaf is a text, or another value without parts.
type leaf struct {
	text []byte
	raw  string // JSON text, if it is not a text
	more bool   // the text goes on
}

// set adds a leaf, or the next piece of a text, at a path such as "$.foo.bar[0].data"
// (RFC 9535).
func (v *value) set(path string, l leaf) error {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return errPath
	}
	for n := 0; rest != ""; n++ {
		key, index, after, ok := step(rest)
		if !ok || n == maxPath {
			return errPath
		}
		if v, ok = v.child(key, index); !ok {
			return errPath
		}
		rest = after
	}
	return v.fill(l)
}

// fill makes v a leaf, or adds to the text that it is.
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

// child returns the value under a key, or at an index if that is not less than 0, and
// makes it if there is none.
func (v *value) child(key string, index int) (*value, bool) {
	if v.leaf != nil || len(v.inner) > 0 && v.list != (index >= 0) {
		return nil, false
	}
	v.list = index >= 0
	if !v.list {
		index = v.find(key)
	}
	if index > len(v.inner)+maxSkip || !v.list && index >= maxKeys {
		return nil, false
	}
	for len(v.inner) <= index {
		v.keys = append(v.keys, key)
		v.inner = append(v.inner, &value{leaf: &leaf{raw: "null"}})
		if len(v.inner) > index {
			v.inner[index].leaf = nil
		}
	}
	v.newest = index
	c := v.inner[index]
	if v.list && c.leaf != nil && c.leaf.raw == "null" {
		c.leaf = nil // it was left out before
	}
	return c, true
}

// find returns the index of a key, which may be that of a new one.
func (v *value) find(key string) int {
	if v.newest < len(v.keys) && v.keys[v.newest] == key {
		return v.newest
	}
	for i, k := range v.keys {
		if k == key {
			return i
		}
	}
	return len(v.inner)
}

// step reads a segment of a path: ".name", "['name']" or "[7]". The index of a name is
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

// quoted reads a name in quotes, with the bracket after it.
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

// append appends v as JSON. Where it is not whole, what was added to last is left open.
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
