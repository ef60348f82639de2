package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// maxDigits limits the digits of an integer that is written 1.0 or 1e3: every number of
// this length fits in 64 bits. The largest int64 has 19 digits, and not every number of 19
// digits is below it.
const maxDigits = 18

// Normalize returns data with integers such as 1.0, 1e3 or -0 in plain digits, where the
// schema wants integers: JSON Schema calls them integers too, but encoding/json decodes
// none of them into a Go int. Valid data stays valid and keeps its meaning. Data that is
// not JSON, or has no such number, is returned as it is, without a copy. The search for
// such a number comes first, as hardly any arguments have one and a validation costs more.
func (s *Schema) Normalize(data []byte) []byte {
	r := newRun(data)
	if r.doc.parse() != nil || !slices.ContainsFunc(r.doc.cells, r.doc.odd) {
		return data
	}
	r.root(s) // it marks the integers that fit 64 bits
	return r.normalized()
}

// normalized returns the checked document with its integers in plain digits.
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

// Problem describes, in the words of [Schema.Validate], why data did not decode into a Go
// value, whose type may hold less than its schema allows: "/size: takes no number 300". It
// does not name Go types, because they mean nothing to a model.
func Problem(err error) string {
	e, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok: // e is described below
	case strings.HasPrefix(err.Error(), "json: "): // a field with the tag ",string"; it has no type
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

// odd reports whether a cell is a number that is not written in plain digits. -0 is an
// integer that a Go int reads as 0, but a float keeps its sign; as an integer it is written
// 0.
func (d *doc) odd(c cell) bool {
	text := d.data[c.start:c.end]
	return c.kind == kindNumber && (string(text) == "-0" || !inDigits(text))
}

// inDigits reports whether a number has neither a point nor an exponent.
func inDigits(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return c == '.' || c == 'e' || c == 'E' })
}

// fits64 reports whether an integer fits in an int64 or a uint64. A number with an exponent
// is not expanded to find out: 1e999999999 would take a gigabyte.
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

// plain returns an integer in digits. It is called only for integers that fit 64 bits, so
// the zeros it adds are few.
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
