package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

func parsed(t *testing.T, text string) *doc {
	t.Helper()
	d := &doc{data: []byte(text)}
	require.NoError(t, d.parse(), "%.80s", text)
	return d
}

func TestParseAgreesWithEncodingJSON(t *testing.T) {
	tests := []struct {
		name string
		text string
	}{
		{"object", `{"a":{"b":[1,2,{"c":null}]},"d":"e"}`},
		{"empty ones", `[{},[],"",0]`},
		{"space everywhere", " [ 1 ,\t{ \"a\" : true } ,\r\nfalse ] "},
		{"numbers", `[0,-0,1.5,-1.5e10,1E+2,2e-3,1234567890123456789012]`},
		{"escapes", `["\"\\\/\b\f\n\r\t\u00e4\uD83D\uDE00\ud800"]`},
		{"other scripts", `["日本 😀"]`},
		{"DEL is allowed", "[\"\x7f\"]"},
		{"leading zero", `01`},
		{"plus", `+1`},
		{"bare minus", `-`},
		{"point without digits", `1.`},
		{"point first", `.5`},
		{"exponent without digits", `1e`},
		{"exponent with a sign only", `1e+`},
		{"hexadecimal", `0x10`},
		{"not a number", `NaN`},
		{"word cut off", `nul`},
		{"word too long", `nulls`},
		{"word in capitals", `True`},
		{"trailing comma in an array", `[1,]`},
		{"only a comma", `[,]`},
		{"two commas", `[1,,2]`},
		{"no comma", `[1 2]`},
		{"no colon", `{"a" 1}`},
		{"no value", `{"a":}`},
		{"no key", `{:1}`},
		{"key without quotes", `{a:1}`},
		{"wrong end", `[1}`},
		{"end of an object too soon", `{"a":1`},
		{"end of an array too soon", `[1`},
		{"two values", `1 2`},
		{"comment", `[1] // one`},
		{"single quotes", `'a'`},
		{"unknown escape", `"\x41"`},
		{"escape cut off", `"\`},
		{"short hexadecimal", `"\u12"`},
		{"wrong hexadecimal", `"\u12g4"`},
		{"at sign for a digit", `"\u@000"`},
		{"space for a digit", "\"\\u00 1\""},
		{"control character for a digit", "\"\\u00\x101\""},
		{"raw line break", "\"a\nb\""},
		{"raw NUL", "\"\x00\""},
		{"NUL after the value", "1\x00"},
		{"byte order mark", "\ufeff{}"},
		{"form feed", "\f1"},
		{"nothing", ``},
		{"only space", " \n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := (&doc{data: []byte(tt.text)}).parse()
			assert.Equal(t, json.Valid([]byte(tt.text)), err == nil, "%q: %v", tt.text, err)
			if err != nil {
				assert.Regexp(t, `^not valid JSON: .* at byte \d+$|^not valid JSON: empty`, err.Error())
			}
		})
	}
}

func TestStrings(t *testing.T) {
	tests := []string{`""`, `"plain"`, `"\u00e4\n\"\\"`, `"\ud83d\ude00"`, `"\ud800 alone"`, `"日本"`}
	for _, text := range tests {
		var want string
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		assert.Equal(t, want, string(parsed(t, text).str(0)), text)
	}
}

func TestCanon(t *testing.T) {
	tests := []struct {
		name string
		a, b string
		same bool
	}{
		{"order of keys", `{"a":1,"b":[2]}`, `{ "b":[2.0], "a":1e0 }`, true},
		{"order of elements", `[1,2]`, `[2,1]`, false},
		{"escapes", `"\u00e4"`, `"ä"`, true},
		{"string and number", `"1"`, `1`, false},
		{"null and false", `null`, `false`, false},
		{"null and its name", `null`, `"null"`, false},
		{"array and its element", `[1]`, `1`, false},
		{"empty array and object", `[]`, `{}`, false},
		{"a string that looks like members", `{"a":"1,\"b\":2"}`, `{"a":"1","b":2}`, false},
		{"keys in escapes", `{"\u0061":1}`, `{"a":1}`, true},
		{"nesting", `[[1],[2]]`, `[[1,2]]`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := parsed(t, tt.a).canon(nil, 0), parsed(t, tt.b).canon(nil, 0)
			assert.Equal(t, tt.same, string(a) == string(b), "%s and %s", a, b)
		})
	}
}

func TestDuplicateKeys(t *testing.T) {
	tests := []struct {
		name string
		text string
		dup  bool
	}{
		{"none", `{"a":1,"b":2}`, false},
		{"two", `{"a":1,"a":1}`, true},
		{"in escapes", `{"a":1,"\u0061":1}`, true},
		{"inside", `[{"a":{"b":1,"b":2}}]`, true},
		{"in different objects", `{"a":{"a":{"a":1}},"b":{"a":1}}`, false},
		{"other case", `{"a":1,"A":1}`, false},
		{"first of many", strings.Replace(manyKeys(17), `"k16"`, `"k0"`, 1), true},
		{"last of many", strings.Replace(manyKeys(40), `"k39"`, `"k38"`, 1), true},
		{"many", manyKeys(40), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := (&doc{data: []byte(tt.text)}).parse()
			assert.Equal(t, tt.dup, err != nil && strings.HasPrefix(err.Error(), "duplicate key"), "%v", err)
		})
	}
}

func TestDocumentIsBounded(t *testing.T) {
	timed.Serial(t)
	fits := strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting)
	require.NoError(t, (&doc{data: []byte(fits)}).parse())
	assert.ErrorContains(t, (&doc{data: []byte("[" + fits + "]")}).parse(), "nested deeper than 256 at byte 256")
	many := "[" + strings.Repeat("1,", maxCells) + "1]"
	assert.ErrorContains(t, (&doc{data: []byte(many)}).parse(), "more than 2097152 values")
}
