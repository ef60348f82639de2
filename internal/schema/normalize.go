package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// maxDigits is how many digits an integer that is written 1.0 or 1e3 may have: all
// numbers of so many fit 64 bits.
const maxDigits = 18

// Normalize returns data with the integers that are written 1.0, 1e3 or -0 in plain
// digits, where the schema wants integers: JSON Schema calls them integers too, but
// encoding/json takes none of them for a Go int. What is valid stays valid and means
// the same. Data that is not JSON comes back as it is, as does data without any such
// number, which is not copied.
func (s *Schema) Normalize(data []byte) []byte {
	r := newRun(data)
	if r.doc.parse() != nil || !slices.ContainsFunc(r.doc.cells, r.doc.odd) {
		return data
	}
	r.root(s)
	return r.normalized()
}

// normalized is the document, which was checked, with its integers in plain digits.
func (r *run) normalized() []byte {
	data := r.doc.data
	var out []byte
	last := int32(0)
	for _, c := range r.doc.cells {
		if !c.integer || !r.doc.odd(c) {
			continue
		}
		out = append(out, data[last:c.start]...)
		out = append(out, parseDecimal(string(data[c.start:c.end])).plain()...)
		last = c.end
	}
	if out == nil {
		return data
	}
	return append(out, data[last:]...)
}

// Problem says in the words of [Schema.Validate] why data did not decode into a Go
// value, which may have room for less than its schema says: "/size: takes no number
// 300". It names no Go type, since a model knows none of them.
func Problem(err error) string {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok:
	case strings.HasPrefix(err.Error(), "json: "): // of a field with the tag ",string"
		return "arguments: a string does not hold what it should"
	default:
		return err.Error()
	}
	where := "arguments"
	if e.Field != "" {
		where = "/" + strings.ReplaceAll(e.Field, ".", "/")
	}
	return short(where) + ": takes no " + short(e.Value)
}

// odd reports whether a cell is a number that is not written in plain digits.
func (d *doc) odd(c cell) bool {
	text := d.data[c.start:c.end]
	return c.kind == kindNumber && (string(text) == "-0" || !inDigits(text))
}

// inDigits reports whether a number has neither a point nor an exponent.
func inDigits(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c == '.' || c == 'e' || c == 'E' })
}

// fits64 reports whether an integer is one that 64 bits hold, with or without a sign.
func fits64(text []byte) bool {
	if !inDigits(text) {
		return parseDecimal(string(text)).point <= maxDigits
	}
	_, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		_, err = strconv.ParseUint(string(text), 10, 64)
	}
	return err == nil
}

// plain returns an integer in digits.
func (d decimal) plain() string {
	if d.digits == "" {
		return "0"
	}
	text := d.digits + strings.Repeat("0", d.point-len(d.digits))
	if d.negative {
		return "-" + text
	}
	return text
}
