package resolve

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A jsonValue is a value of JSON that keeps the order of objects, which is part of the meaning of exports and
// paths. A value that is not valid is null.
type jsonValue struct {
	text  string // of a string
	kind  jsonKind
	items []*jsonValue // of an array or object
	keys  []string     // of an object, one for each item
}

type jsonKind byte

const (
	jsonNull jsonKind = iota
	jsonString
	jsonTrue
	jsonOther // a number, or false
	jsonArray
	jsonObject
)

// null returns a value that is not there.
func null() *jsonValue { return &jsonValue{} }

// get returns the value of a key, or null.
//
//go:noinline
func (v *jsonValue) get(key string) *jsonValue {
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.items[i]
	}
	return null()
}

// strings returns the strings of an array, or the one that the value is.
//
//go:noinline
func (v *jsonValue) strings() (out []string) {
	if v.kind == jsonString {
		return []string{v.text}
	}
	if v.kind == jsonArray {
		for _, item := range v.items {
			if item.kind == jsonString {
				out = append(out, item.text)
			}
		}
	}
	return out
}

// parseJSON reads JSON with comments and trailing commas. Of what is not valid it returns null.
func parseJSON(data []byte) *jsonValue {
	d := json.NewDecoder(bytes.NewReader(plainJSON(data)))
	if v := decodeJSON(d, 0); v != nil {
		return v
	}
	return null()
}

const (
	maxJSON  = 50   // how deep values are read in each other
	maxArray = 1000 // items of an array that count: each may be a path to look for, for each import
)

// decodeJSON reads a value, or returns nil.
func decodeJSON(d *json.Decoder, depth int) *jsonValue {
	token, err := d.Token()
	if err != nil || depth > maxJSON {
		return nil
	}
	switch t := token.(type) {
	case string:
		return &jsonValue{kind: jsonString, text: t}
	case bool:
		if t {
			return &jsonValue{kind: jsonTrue}
		}
	case nil:
		return null()
	case json.Delim:
		return decodeItems(d, t, depth)
	}
	return &jsonValue{kind: jsonOther}
}

// decodeItems reads an array or an object behind its bracket.
func decodeItems(d *json.Decoder, open json.Delim, depth int) *jsonValue {
	v := &jsonValue{kind: jsonArray}
	if open == '{' {
		v.kind = jsonObject
	}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return nil
			}
			v.keys = append(v.keys, key.(string))
		}
		item := decodeJSON(d, depth+1)
		if item == nil {
			return nil
		}
		v.items = append(v.items, item)
	}
	if _, err := d.Token(); err != nil {
		return nil
	}
	if open == '[' {
		v.items = v.items[:min(len(v.items), maxArray)]
	}
	return v
}

// plainJSON returns a copy without comments and trailing commas.
func plainJSON(data []byte) []byte {
	out := bytes.Clone(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	comma := -1 // the last token, if it is a comma
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			i = stringEnd(out, i)
			continue
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := commentEnd(out, i)
			for ; i < end; i++ {
				out[i] = ' '
			}
			continue
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case c != ' ' && c != '\n' && c != '\t' && c != '\r':
			comma = -1
		}
		i++
	}
	return out
}

func stringEnd(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(data))
}

func commentEnd(data []byte, i int) int {
	end := []byte("\n")
	if data[i+1] == '*' {
		end = []byte("*/")
	}
	if n := bytes.Index(data[i+2:], end); n >= 0 {
		return i + 2 + n + len(end)
	}
	return len(data)
}
