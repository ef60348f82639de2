// Package packed writes values in few bytes: structs field by field, lists behind their lengths, numbers as varints,
// and each text once.
//
// The bytes say neither which type they are of nor which version of it. A file with them begins with something that
// does, and has a checksum.
package packed

import (
	"encoding/binary"
	"math"
	"reflect"
)

// Encode returns the bytes of a value: a string, bool, uint8 or int32, or a struct or slice of such values. Fields
// must be exported. It panics if a value is of another kind.
func Encode(value any) []byte {
	e := encoder{texts: map[string]int64{}}
	e.value(reflect.ValueOf(value))
	return e.out
}

type encoder struct {
	out   []byte
	texts map[string]int64 // the number of a text, from 1
}

func (e *encoder) number(n int64) { e.out = binary.AppendVarint(e.out, n) }

func (e *encoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			e.value(field)
		}
	case reflect.Slice:
		e.number(int64(v.Len()))
		for i := range v.Len() {
			e.value(v.Index(i))
		}
	case reflect.String:
		e.text(v.String())
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		e.number(n)
	case reflect.Uint8:
		e.number(int64(v.Uint()))
	case reflect.Int32:
		e.number(v.Int())
	default:
		panic("packed: a value of type " + v.Type().String())
	}
}

func (e *encoder) text(s string) {
	n, ok := e.texts[s]
	e.number(n)
	if !ok {
		e.texts[s] = int64(len(e.texts)) + 1
		e.number(int64(len(s)))
		e.out = append(e.out, s...)
	}
}

// Decode sets a value to what [Encode] made of one of its type, and reports whether the bytes are that, as a whole.
// Value points to a zero value. Whatever the bytes are, it takes no more memory than in proportion to their number.
func Decode(data []byte, value any) bool {
	d := decoder{in: data}
	d.value(reflect.ValueOf(value).Elem())
	return !d.failed && len(d.in) == 0
}

// A decoder reads zeros after an error.
type decoder struct {
	in     []byte
	texts  []string
	failed bool
}

// number returns a number in a range.
func (d *decoder) number(least, most int64) int64 {
	n, size := binary.Varint(d.in)
	if size <= 0 || n < least || n > most {
		d.fail()
		return 0
	}
	d.in = d.in[size:]
	return n
}

func (d *decoder) fail() { d.in, d.failed = nil, true }

// count returns a number of bytes, or of elements, each of which has at least one byte.
func (d *decoder) count() int {
	n := d.number(0, math.MaxInt32)
	if n > int64(len(d.in)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			d.value(field)
		}
	case reflect.Slice:
		if n := d.count(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := 0; i < v.Len() && !d.failed; i++ {
			d.value(v.Index(i))
		}
	case reflect.String:
		v.SetString(d.text())
	case reflect.Bool:
		v.SetBool(d.number(0, 1) > 0)
	case reflect.Uint8:
		v.SetUint(uint64(d.number(0, math.MaxUint8)))
	default:
		v.SetInt(d.number(math.MinInt32, math.MaxInt32))
	}
}

func (d *decoder) text() string {
	if n := d.number(0, int64(len(d.texts))); n > 0 {
		return d.texts[n-1]
	}
	size := d.count()
	s := string(d.in[:size])
	d.in = d.in[size:]
	d.texts = append(d.texts, s)
	return s
}
