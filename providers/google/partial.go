package google

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// The bounds of arguments that come in pieces, so that a few bytes do not make a large
// value or much work: how deep they are, how many elements of lists the pieces of a call
// may leave out, how many fields an object has, and how many values there are in all.
const (
	maxPath   = 64
	maxSkip   = 64
	maxKeys   = 1024
	maxValues = 1 << 16

	// fewKeys is up to how many fields are looked through one by one.
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

// A value is a JSON value that is being put together, from leaves with their paths.
// The zero value is an empty object.
type value struct {
	list   bool
	keys   []string // of an object, one for each of inner
	inner  []*value
	index  map[string]int // of the keys, if they are many
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

// child returns the value of v under a key, or at an index if that is not less than 0,
// and makes it if there is none.
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
		c.leaf = nil // it was left out before
	}
	return c, true
}

// grow adds a value behind others that were left out.
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

// find returns the index of a key, which may be that of a new one.
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

// whole reports whether the arguments are an object, and nothing in it was to go on.
func (t *tree) whole() bool { return t.root.leaf == nil && !t.root.list && !t.root.open() }

// open reports whether a text in v was to go on.
func (v *value) open() bool {
	if v.leaf != nil {
		return v.leaf.more
	}
	return slices.ContainsFunc(v.inner, (*value).open)
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
