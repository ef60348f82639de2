package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Canonical returns a document in one form, whatever encoding/json has made of its white
// space, its escapes and the order of its keys in a store. It leaves other texts as they are.
func Canonical(doc json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return string(doc)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(doc)
	}
	return b.String()
}

// Text is a text that JSON holds unchanged: a string, or {"base64": …} for bytes that are not
// UTF-8.
type Text string

type bytesJSON struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(bytesJSON{[]byte(t)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Text) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, (*string)(t))
	}
	var b bytesJSON
	err := json.Unmarshal(data, &b)
	*t = Text(b.Base64)
	return err
}
