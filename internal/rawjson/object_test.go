package rawjson

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// FuzzParse compares the splitter with encoding/json: it finds the same fields with the
// same values, and no object where that finds none.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a":1 , "b" : [1,{"c":"}"}],"d":"\"]","\u0061":null} `, `{"a":{}}`, `[]`, `{"a"}`, `{"a":-1.5e3}`, `{"":""}`, "{}\f", `{"a":true,"a":false}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal([]byte(s), &want)
		o, err := Parse([]byte(s))
		if wantErr != nil || want == nil {
			require.Error(t, err, "%q", s)
			return
		}
		require.NoError(t, err, "%q", s)
		got := map[string]json.RawMessage{}
		for _, fl := range o {
			got[fl.Key] = fl.Val
			require.True(t, json.Valid(fl.Val), "%q: %q", s, fl.Val)
		}
		if utf8.ValidString(s) {
			require.Equal(t, want, got, "%q", s)
		}
	})
}

func TestObject(t *testing.T) {
	merge := func(a, b string) string {
		o, err := Parse([]byte(a))
		require.NoError(t, err)
		more, err := Parse([]byte(b))
		require.NoError(t, err)
		o.Merge(more)
		return string(o.AppendTo(nil))
	}
	tests := []struct{ name, a, b, want string }{
		{"new field", `{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`},
		{"texts are joined", `{"a":"x"}`, `{"a":"\ny"}`, `{"a":"x\ny"}`},
		{"lists are joined", `{"a":[1]}`, `{"a":[ 2,3 ]}`, `{"a":[1,2,3]}`},
		{"empty lists", `{"a":[],"b":[1]}`, `{"a":[1],"b":[ ]}`, `{"a":[1],"b":[1]}`},
		{"anything else is replaced", `{"a":1,"b":{"x":1},"c":null,"d":"x"}`, `{"a":"x","b":{"y":2},"c":[1],"d":null}`,
			`{"a":"x","b":{"y":2},"c":[1],"d":null}`},
		{"the type stays", `{"type":"a"}`, `{"type":"b"}`, `{"type":"a"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, merge(tt.a, tt.b)) })
	}
	o, err := Parse([]byte(` {"a":null,"b":"x","c":"\u0041"} `))
	require.NoError(t, err)
	assert.Equal(t, `{"c":"\u0041"}`, string(o.Without("b").AppendTo(nil)))
	s, err := Str("c", json.RawMessage(`"\u0041"`))
	require.NoError(t, err)
	assert.Equal(t, "A", s)
	_, err = Str("c", json.RawMessage(`5`))
	require.ErrorContains(t, err, "c is not a string")
}

// The time for deltas of an unknown field is proportional to their length, and the
// document from which they were read stays unchanged.
func TestMergeManyDeltas(t *testing.T) {
	timed.Serial(t)
	for _, tt := range []struct{ first, delta, want string }{
		{`{"x":"a","y":1}`, `{"x":"b"}`, `"abbb`}, {`{"x":[1],"y":1}`, `{"x":[2]}`, `[1,2,2,2`}, {`{"x":"","y":1}`, `{"x":""}`, `"`},
	} {
		doc := []byte(tt.first)
		o, err := Parse(doc)
		require.NoError(t, err)
		delta, err := Parse([]byte(tt.delta))
		require.NoError(t, err)
		for range 300_000 { // a quadratic algorithm would take minutes
			o.Merge(delta)
		}
		require.Equal(t, tt.first, string(doc))
		require.Contains(t, string(o.Value("x")), tt.want)
		require.True(t, json.Valid(o.AppendTo(nil)))
		require.Equal(t, "1", string(o.Value("y")))
	}
}
