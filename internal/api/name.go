package api

import (
	"hash/fnv"
	"strconv"

	"github.com/aycoder/aycoder"
)

// AppendName appends an id or the name of a tool as a JSON string, for APIs that require
// ^[a-zA-Z0-9_-]{1,limit}$. In any other name, it replaces the characters that are not
// allowed, shortens the name, and appends a hash of the whole name. The same name always
// gives the same result.
func AppendName(b []byte, s string, limit int) []byte {
	b = append(b, '"')
	if validName(s, limit) {
		b = append(b, s...)
		return append(b, '"')
	}
	h := fnv.New64a()
	h.Write([]byte(s)) // never returns an error
	for i := range min(len(s), limit-17) {
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

// Renamed returns the original names of the tools whose names [AppendName] changes, by their
// names on the wire.
func Renamed(tools []*aycoder.ToolSpec, limit int) map[string]string {
	var names map[string]string
	for _, s := range tools {
		if s == nil || validName(s.Name, limit) {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		name := AppendName(nil, s.Name, limit)
		names[string(name[1:len(name)-1])] = s.Name
	}
	return names
}

// validName reports whether a name can be sent as it is.
func validName(s string, limit int) bool {
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= limit
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' ||
		c == '-'
}
