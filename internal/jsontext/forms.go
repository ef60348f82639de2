package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/runes"
)

// Decode decodes a file of one JSON document. A field that is not known is an error, since nobody
// would notice a misspelt one otherwise. No error is [io.EOF], which callers take for an end that
// is expected.
func Decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something behind the end of the document")
	}
	return nil
}

// Syntax returns why a text is not a JSON document, and the byte at fault, which is behind the end of a text that is cut off.
func Syntax(data []byte) (at int, err error) {
	err = json.Unmarshal(data, new(json.RawMessage))
	if e, ok := errors.AsType[*json.SyntaxError](err); ok && e.Error() != "unexpected end of JSON input" {
		return int(e.Offset) - 1, err
	}
	return len(bytes.TrimRight(data, " \t\r\n")), err
}

// Canonical returns a JSON document in one form, so that two copies of a document can be
// compared. A store may have changed its white space, its escapes and the order of its keys. A
// text that is not a single JSON document is returned unchanged.
func Canonical(doc json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(doc))
	// A float64 would make different large integers equal.
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return string(doc)
	}
	form, err := json.Marshal(v)
	if err != nil {
		return string(doc)
	}
	return string(form)
}

// Shorten shortens each text in the arguments of a call to half of the limit, in bytes. If the
// arguments are not valid JSON, or still take more than twice the limit, it returns an empty
// object, since a provider accepts only an object in the history.
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

// shorten shortens all texts in a JSON value, in place. It does not shorten keys, since two of
// them could become equal.
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

// Text is a text that survives JSON unchanged. It is encoded as a string or, if it is not valid
// UTF-8, as {"base64": …}, because encoding/json would replace invalid bytes without an error.
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
