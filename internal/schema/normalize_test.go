package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNormalize(t *testing.T) {
	const integer = `{"type":"integer"}`
	ints := `{"properties":{"a":` + integer + `,"b":` + integer + `,"f":{"type":"number"}}}`
	tests := []struct{ name, schema, data, want string }{
		{"plain", ints, `{"a":1}`, `{"a":1}`},
		{"point", ints, `{"a":1.0,"b":-20.00}`, `{"a":1,"b":-20}`},
		{"exponent", ints, ` { "a" : 1e3 , "b" : 1200E-2 } `, ` { "a" : 1000 , "b" : 12 } `},
		{"zero", ints, `{"a":-0,"b":0.0e99}`, `{"a":0,"b":0}`},
		{"a number stays", ints, `{"f":1.0,"z":2.0}`, `{"f":1.0,"z":2.0}`},
		{"a fraction stays", ints, `{"a":1.5,"b":2.0}`, `{"a":1.5,"b":2}`},
		{"too large", ints, `{"a":1e18,"b":1e17}`, `{"a":1e18,"b":100000000000000000}`},
		{"strings stay", ints, `{"a":"1.0","1.0":"-0","b":1.0}`, `{"a":"1.0","1.0":"-0","b":1}`},
		{"or null", prop(`{"type":["integer","null"]}`), `{"x":1.0}`, `{"x":1}`},
		{"or a number", prop(`{"type":["integer","number"]}`), `{"x":1.0}`, `{"x":1.0}`},
		{"elements", prop(`{"items":` + integer + `}`), `{"x":[1.0,[2.0],3.0]}`, `{"x":[1,[2.0],3]}`},
		{"map", prop(`{"additionalProperties":` + integer + `}`), `{"x":{"a":1.0}}`, `{"x":{"a":1}}`},
		{"reference", `{"$defs":{"n":` + integer + `},"properties":{"x":{"$ref":"#/$defs/n"}}}`, `{"x":1.0}`, `{"x":1}`},
		{"choice", prop(`{"anyOf":[{"type":"null"},` + integer + `]}`), `{"x":1.0}`, `{"x":1}`},
		{"no schema", ``, `{"x":1.0}`, `{"x":1.0}`},
		{"no JSON", ints, `{"a":1.0`, `{"a":1.0`},
		{"nothing", ints, ``, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, string(compiled(t, tt.schema).Normalize([]byte(tt.data))))
		})
	}
}

func TestProblem(t *testing.T) {
	type args struct {
		Size   int8    `json:"size"`
		Rate   float64 `json:"rate"`
		Quoted int     `json:"quoted,string"`
		In     struct{ N []uint8 }
	}
	tests := []struct{ name, data, want string }{
		{"small", `{"size":300}`, "/size: takes no number 300"},
		{"huge", `{"rate":1e400}`, "/rate: takes no number 1e400"},
		{"long", `{"rate":1` + strings.Repeat("0", 400) + `}`, "/rate: takes no number 1" + strings.Repeat("0", 72) + "…"},
		{"inside", `{"In":{"N":[1,-1]}}`, "/In/N: takes no number -1"},
		{"string", `{"size":"1"}`, "/size: takes no string"},
		{"quoted", `{"quoted":"x"}`, "arguments: a string does not hold what it should"},
		{"whole", `[]`, "arguments: takes no array"},
		{"no JSON", `{`, "unexpected end of JSON input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := json.Unmarshal([]byte(tt.data), &args{})
			require.Error(t, err)
			assert.Equal(t, tt.want, Problem(err))
		})
	}
	assert.Equal(t, "mine", Problem(errors.New("mine")))
}

// References that double at each step are checked once.
func TestHasPropertyInCircles(t *testing.T) {
	s := compiled(t, `{"allOf":[{"$ref":"#"},{"$ref":"#"},{"properties":{"a":{}}}]}`)
	assert.True(t, s.HasProperty("a"))
	assert.False(t, s.HasProperty("b"))
}

// The result of Normalize is as valid as before, means the same, and decodes where
// the schema wants an integer.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{`{"a":1.0,"b":[1e2,{"a":-0}]}`, `{"a":1e17,"c":9e99}`, `{"a":18446744073709551615}`,
		`{"a":-9223372036854775808.0}`, `{"b":[0.00001e5,"1.0"]}`, `{"a":00}`, `{`} {
		f.Add(s)
	}
	s := compiled(f, `{"properties":{"a":{"type":"integer"},"b":{"items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := s.Normalize([]byte(text))
		if problems := s.Validate([]byte(text)); len(problems) > 0 {
			return
		}
		require.Empty(t, s.Validate(got), "%q", got)
		before, after := doc{data: []byte(text)}, doc{data: got}
		require.NoError(t, before.parse())
		require.NoError(t, after.parse(), "%q", got)
		require.Equal(t, string(before.canon(nil, 0)), string(after.canon(nil, 0)))
		var signed struct{ A int64 }
		var unsigned struct{ A uint64 }
		require.True(t, json.Unmarshal(got, &signed) == nil || json.Unmarshal(got, &unsigned) == nil, "%q", got)
	})
}
