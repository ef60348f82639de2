package schema

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecimalOrder(t *testing.T) {
	// Each line holds spellings of one number; the lines go up.
	lines := [][]string{
		{"-1e99999999999", "-10e99999999999"},
		{"-1e400", "-10e399"},
		{"-9007199254740993"},
		{"-9007199254740992"},
		{"-12.5", "-125e-1", "-0.125e2", "-12.50"},
		{"-1", "-1.0", "-10e-1"},
		{"-1e-400"},
		{"0", "-0", "0.0", "0e5", "-0.00e-7"},
		{"1e-400"},
		{"0.1", "1e-1", "0.10", "100e-3"},
		{"0.9999999999999999999999"},
		{"1", "1.0", "1e0", "1E+0", "0.1e1", "10e-1"},
		{"1.0000000000000000000001"},
		{"99"},
		{"100", "1e2", "1E+2", "100.000"},
		{"101"},
		{"9223372036854775807"},
		{"9223372036854775808"},
		{"18446744073709551615"},
		{"1e400"},
		{"1e99999999999", "10e99999999999"},
	}
	for i, line := range lines {
		for _, a := range line {
			require.True(t, json.Valid([]byte(a)))
			for j, other := range lines {
				for _, b := range other {
					got := parseDecimal(a).compare(parseDecimal(b))
					if abs(parseDecimal(a).point) >= maxExponent-100 && i == j {
						continue // cut exponents do not know the last digits
					}
					assert.Equal(t, sign(i-j), got, "%s and %s", a, b)
					same := parseDecimal(a).canon() == parseDecimal(b).canon()
					assert.Equal(t, i == j, same, "%s and %s", a, b)
				}
			}
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

func abs(n int) int { return max(n, -n) }

func TestDecimalInteger(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"0", true},
		{"-0.0", true},
		{"120", true},
		{"120.00", true},
		{"1.2e1", true},
		{"120e-1", true},
		{"1e400", true},
		{"0e-5", true},
		{"0.5", false},
		{"12e-1", false},
		{"1e-400", false},
		{"-1.5", false},
		{"123456789012345678901234567890.5", false},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, parseDecimal(tt.text).integer(), "integer(%s)", tt.text)
		assert.Equal(t, tt.want, isInteger([]byte(tt.text)), "isInteger(%s)", tt.text)
	}
}

func TestMultipleOf(t *testing.T) {
	tests := []struct {
		value, of string
		want      bool
	}{
		{"10", "5", true},
		{"-10", "5", true},
		{"11", "5", false},
		{"0", "5", true},
		{"9007199254740993", "2", false}, // beyond the precision of float64
		{"0.3", "0.1", true},
		{"4.35", "0.01", true},
		{"4.355", "0.01", false},
		{"7.5", "2.5", true},
		{"5", "0", true}, // a schema like that says nothing
		{"1e400", "3", true},
		{"1e3", "10", true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, multipleOf(tt.value, tt.of), "multipleOf(%s, %s)", tt.value, tt.of)
	}
}

// FuzzDecimal compares with the exact arithmetic of math/big.
func FuzzDecimal(f *testing.F) {
	f.Add("1.50", "15e-1")
	f.Add("-0.001e5", "9223372036854775808")
	f.Add("0e99", "-0")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := rational(a)
		y, okY := rational(b)
		if !okX || !okY {
			return
		}
		d, e := parseDecimal(a), parseDecimal(b)
		require.Equal(t, x.Cmp(y), d.compare(e), "%s and %s", a, b)
		require.Equal(t, x.Cmp(y) == 0, d.canon() == e.canon(), "%s and %s", a, b)
		require.Equal(t, x.IsInt(), d.integer(), a)
	})
}

// rational reads a JSON number that is not too large for math/big.
func rational(text string) (*big.Rat, bool) {
	var n json.Number
	if json.Unmarshal([]byte(text), &n) != nil || n.String() != text || len(text) > 40 {
		return nil, false
	}
	if p := parseDecimal(text).point; p > 2000 || p < -2000 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
