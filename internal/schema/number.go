package schema

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A decimal is a JSON number in its written form: 0.digits × 10^point. Comparisons and
// tests for integers are exact at any size and need no arithmetic.
type decimal struct {
	negative bool
	digits   string // no zero at either end; "" is 0
	point    int
}

// maxExponent limits exponents, so that their sum does not overflow.
const maxExponent = 1 << 30

// parseDecimal reads a number that follows the grammar of JSON.
func parseDecimal(text string) decimal {
	var d decimal
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		d.point = exponent(text[i+1:])
	}
	mantissa, d.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.point += len(whole)
	digits := whole
	if fraction != "" {
		digits += fraction
	}
	d.digits = strings.TrimLeft(digits, "0")
	d.point -= len(digits) - len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

func exponent(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil { // out of range
		n = maxExponent
		if text[0] == '-' {
			n = -maxExponent
		}
	}
	return min(max(n, -maxExponent), maxExponent)
}

func (d decimal) integer() bool { return d.point >= len(d.digits) }

func (d decimal) compare(e decimal) int {
	switch {
	case d.sign() != e.sign():
		return cmp.Compare(d.sign(), e.sign())
	case d.negative:
		return -d.magnitude(e)
	}
	return d.magnitude(e)
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) magnitude(e decimal) int {
	return cmp.Or(cmp.Compare(d.point, e.point), strings.Compare(d.digits, e.digits))
}

// canon returns a text that is the same for equal numbers.
func (d decimal) canon() string {
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + d.digits + "e" + strconv.Itoa(d.point)
}

// multipleOf is exact for integers. For fractions it uses float64 with a tolerance, so 0.3
// counts as a multiple of 0.1.
func multipleOf(value, of string) bool {
	a, errA := strconv.ParseInt(value, 10, 64)
	b, errB := strconv.ParseInt(of, 10, 64)
	if errA == nil && errB == nil && b != 0 {
		return a%b == 0
	}
	x, _ := strconv.ParseFloat(value, 64)
	y, _ := strconv.ParseFloat(of, 64)
	q := x / y
	if math.IsInf(q, 0) || math.IsNaN(q) {
		return true
	}
	return math.Abs(q-math.Round(q)) <= 1e-9*max(1, math.Abs(q))
}

// canon appends to buf a text that is the same for values that JSON Schema calls equal: the
// order of keys, escapes and the spelling of numbers do not matter.
func (d *doc) canon(buf []byte, at int) []byte {
	switch d.cells[at].kind {
	case kindNumber:
		return append(buf, parseDecimal(string(d.raw(at))).canon()...)
	case kindString:
		return strconv.AppendQuote(buf, string(d.str(at)))
	case kindArray:
		buf = append(buf, '[')
		d.elements(at, func(_, value int) bool {
			buf = append(d.canon(buf, value), ',')
			return true
		})
		return append(buf, ']')
	case kindObject:
		return d.canonObject(buf, at)
	}
	return append(buf, d.raw(at)...)
}

func (d *doc) canonObject(buf []byte, at int) []byte {
	var members [][]byte
	d.members(at, func(key, value int) bool {
		m := strconv.AppendQuote(nil, string(d.str(key)))
		members = append(members, d.canon(append(m, ':'), value))
		return true
	})
	slices.SortFunc(members, bytes.Compare)
	buf = append(buf, '{')
	for _, m := range members {
		buf = append(append(buf, m...), ',')
	}
	return append(buf, '}')
}
