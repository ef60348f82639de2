package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Coerce returns data with strings replaced by the values that they spell, where the
// schema does not accept a string: models send "3" for 3, "true" for true, and lists and
// objects as the text of their JSON. Only unambiguous texts are replaced, so that nothing
// is lost: a number in JSON notation, true and false, and JSON that begins with [ or {.
// Values that fit the schema stay as they are, and so does data that is not JSON. Where
// a schema leaves a choice of forms, Coerce changes nothing.
func (s *Schema) Coerce(data []byte) []byte {
	r := newRun(data)
	if r.doc.parse() != nil {
		return data
	}
	// The ordinary validation finds the strings: speak is called where the type does not
	// fit.
	r.spoken = map[int][]byte{}
	r.root(s)
	if len(r.spoken) == 0 {
		return data
	}
	var out []byte
	last := int32(0)
	for at, c := range r.doc.cells {
		if value, ok := r.spoken[at]; ok {
			out = append(append(out, data[last:c.start]...), value...)
			last = c.end
		}
	}
	return append(out, data[last:]...)
}

// Decode decodes data that matches s into what a pointer points to, a zero value. Integers written
// as 1.0 and values written as text match s, too, but encoding/json refuses them; they are converted
// only then. Nearly all arguments decode at the first try, so the price of the second is paid only by
// those that need it. The value starts anew, because the first try may have filled a part of it.
func Decode(s *Schema, data []byte, into any) error {
	if json.Unmarshal(data, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero()
	return json.Unmarshal(s.Normalize(s.Coerce(data)), into)
}

// speak records the value that a string spells, if that value has the wanted type. During a
// trial it records nothing, because another form may accept the string as it is.
func (r *run) speak(n *node, at int) {
	if r.spoken == nil || r.trying > 0 || r.doc.cells[at].kind != kindString || n.types&(typeString|typeNone) != 0 {
		return
	}
	text := bytes.TrimSpace(r.text(at))
	if len(text) == 0 || !json.Valid(text) {
		return
	}
	value := doc{data: text}
	// "null" is more often a word than a missing value.
	if value.parse() != nil || value.cells[0].kind == kindNull || !n.types.holds(&value, 0) {
		return
	}
	// A model that writes a list as text often writes the numbers in it as text, too.
	if k := value.cells[0].kind; k == kindArray || k == kindObject {
		text = (&Schema{n}).Coerce(text)
	}
	r.spoken[at] = text
}
