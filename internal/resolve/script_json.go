package resolve

import (
	"bytes"
	"encoding/json"
)

// A jsonValue is a value of JSON that keeps the order of objects, which is part of the meaning of exports and
// paths. The zero value stands for null and for what is not valid.
type jsonValue struct {
	text  string // of a string
	kind  jsonKind
	items []jsonValue // of an array or object
	keys  []string    // of an object, one for each item
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

// get returns the value of a key, or the zero value.
func (v jsonValue) get(key string) jsonValue {
	for i, k := range v.keys {
		if k == key {
			return v.items[i]
		}
	}
	return jsonValue{}
}

// strings returns the strings of an array, or the one that the value is.
func (v jsonValue) strings() (out []string) {
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

// parseJSON reads JSON with comments and trailing commas. Of what is not valid it returns the zero value.
func parseJSON(data []byte) jsonValue {
	d := json.NewDecoder(bytes.NewReader(plainJSON(data)))
	v, ok := decodeJSON(d, 0)
	if !ok {
		return jsonValue{}
	}
	return v
}

// maxJSON is how deep values are read in each other.
const maxJSON = 50

func decodeJSON(d *json.Decoder, depth int) (v jsonValue, ok bool) {
	token, err := d.Token()
	if err != nil || depth > maxJSON {
		return v, false
	}
	switch t := token.(type) {
	case string:
		return jsonValue{kind: jsonString, text: t}, true
	case bool:
		if t {
			return jsonValue{kind: jsonTrue}, true
		}
	case nil:
		return jsonValue{}, true
	case json.Delim:
		return decodeItems(d, t, depth)
	}
	return jsonValue{kind: jsonOther}, true
}

// decodeItems reads an array or an object behind its bracket.
func decodeItems(d *json.Decoder, open json.Delim, depth int) (v jsonValue, ok bool) {
	v.kind = jsonArray
	if open == '{' {
		v.kind = jsonObject
	}
	for d.More() {
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return v, false
			}
			v.keys = append(v.keys, key.(string))
		}
		item, ok := decodeJSON(d, depth+1)
		if !ok {
			return v, false
		}
		v.items = append(v.items, item)
	}
	_, err := d.Token()
	return v, err == nil
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
