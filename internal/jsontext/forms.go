package jsontext

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
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

// Shorten shortens the texts in the arguments of a call, each to half of the limit. It drops
// arguments that are not valid JSON, or that take more than twice the limit without long texts.
func Shorten(args json.RawMessage, limit int) json.RawMessage {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return json.RawMessage(`{}`)
	}
	short, err := json.Marshal(shorten(v, limit/2))
	if err != nil || len(short) > 2*limit {
		return json.RawMessage(`{}`)
	}
	return short
}

func shorten(v any, each int) any {
	switch v := v.(type) {
	case string:
		return runes.HeadTail(v, each)
	case []any:
		for i := range v {
			v[i] = shorten(v[i], each)
		}
	case map[string]any:
		for k := range v {
			v[k] = shorten(v[k], each)
		}
	}
	return v
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
