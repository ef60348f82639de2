package schema

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Numbers are compared as texts. A model may write an id of 20 digits, or 1e400: both are
// JSON, and float64 would round the one and refuse the other.

// A decimal is a JSON number in its written form: 0.digits × 10^point. Comparisons and
// tests for integers are exact at any size and need no arithmetic. For example, 12.50 is
// 0.125 × 10^2: the digits "125" and the point 2. A float64 would make 2^53+1 and 2^53
// equal.
type decimal struct {
	negative bool
	digits   string // no zero at either end; "" is 0
	point    int
}

// maxExponent limits exponents, so that their sum does not overflow. A JSON text may hold
// an exponent of any length. Beyond this bound numbers compare as equal in size, which no
// sensible schema tells apart.
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
	// A zero in front moves the point, one at the end does not.
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

// integer reports whether no digit stands behind the point.
func (d decimal) integer() bool { return d.point >= len(d.digits) }

// compare returns a number less than, equal to, or greater than 0, as cmp.Compare does.
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

// magnitude compares the sizes. Without zeros in front, the number with the larger point is
// larger, and digits of equal points compare like text.
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
// counts as a multiple of 0.1. A schema with 0.01 means cents: an exact test of float64
// values would refuse 0.07, of which the quotient is 7.000000000000001. A quotient that is
// not a number or infinite cannot be judged, and passes.
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

// canonObject sorts the members, because their order has no meaning (RFC 8259, section 4).
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
