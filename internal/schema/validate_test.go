package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const readSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
	"path":{"type":"string","minLength":1},
	"limit":{"type":"integer","minimum":1,"maximum":2000},
	"mode":{"type":"string","enum":["text","hex"]}}}`

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(schema))
	require.NoError(t, err)
	return s
}

// prop is the schema of an object with one property x.
func prop(schema string) string { return `{"type":"object","properties":{"x":` + schema + `}}` }

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		schema string
		data   string
		want   []string
	}{
		{"fine", readSchema, `{"path":"a","limit":2000,"mode":"hex"}`, nil},
		{"white space", readSchema, " {\n\t\"path\" : \"a\" }\r\n", nil},
		{"all at once", readSchema, `{"pth":"a","limit":5000,"mode":"bin"}`, []string{
			`/pth: unknown, did you mean "path"?`,
			`/limit: must be at most 2000, got 5000`,
			`/mode: must be one of "text", "hex", got "bin"`,
			`/path: required`}},
		{"unknown", readSchema, `{"path":"a","colour":1}`,
			[]string{`/colour: unknown, there are "path", "limit", "mode"`}},
		{"no properties", `{"type":"object","additionalProperties":false}`, `{"x":1}`,
			[]string{`/x: unknown, there are no properties here`}},
		{"null for optional", readSchema, `{"path":"a","limit":null}`,
			[]string{`/limit: must be an integer, got null; leave it out instead`}},
		{"null for required", readSchema, `{"path":null}`, []string{`/path: must be a string, got null`}},
		{"empty string", readSchema, `{"path":""}`,
			[]string{`/path: must be at least 1 characters long, got 0`}},
		{"not an object", readSchema, `["a"]`, []string{`arguments: must be an object, got an array`}},
		{"JSON in a string", prop(`{"type":"object"}`), `{"x":"{\"a\":1}"}`,
			[]string{`/x: must be an object, got "{\"a\":1}" (JSON inside a string)`}},
		{"escaped path", prop(`{"properties":{"a/b~c":{"type":"null"}}}`), `{"x":{"a/b~c":1}}`,
			[]string{`/x/a~1b~0c: must be null, got 1`}},
		{"escaped key", readSchema, `{"p\u0061th":"a"}`, nil},
		{"empty name", `{"type":"object","required":[""]}`, `{}`, []string{`/: required`}},
		{"no schema", ``, `{"x":[1,{"y":null}]}`, nil},
		{"no schema, not an object", ``, `5`, []string{`arguments: must be an object, got 5`}},

		{"types", prop(`{"type":["string","null"]}`), `{"x":null}`, nil},
		{"types, none fits", prop(`{"type":["null","string"]}`), `{"x":1}`,
			[]string{`/x: must be a string or null, got 1`}},
		{"upper case types", prop(`{"type":"STRING"}`), `{"x":1}`, []string{`/x: must be a string, got 1`}},
		{"boolean", prop(`{"type":"boolean"}`), `{"x":"true"}`, []string{`/x: must be a boolean, got "true"`}},
		{"integer 1.0", prop(`{"type":"integer"}`), `{"x":1.0}`, nil},
		{"integer 1e3", prop(`{"type":"integer"}`), `{"x":1e3}`, nil},
		{"integer 0.0", prop(`{"type":"integer"}`), `{"x":-0.0e-5}`, nil},
		{"integer 1.5", prop(`{"type":"integer"}`), `{"x":1.5}`, []string{`/x: must be an integer, got 1.5`}},
		{"integer 15e-1", prop(`{"type":"integer"}`), `{"x":15e-1}`, []string{`/x: must be an integer, got 15e-1`}},
		{"integer, the largest", prop(`{"type":"integer"}`), `{"x":18446744073709551615}`, nil},
		{"integer, the smallest", prop(`{"type":"integer"}`), `{"x":-9223372036854775808}`, nil},
		{"integer of 65 bits", prop(`{"type":"integer"}`), `{"x":18446744073709551616}`,
			[]string{`/x: must be an integer that fits 64 bits, got 18446744073709551616`}},
		{"integer 1e17", prop(`{"type":"integer"}`), `{"x":1e17}`, nil},
		{"integer 1e18", prop(`{"type":"integer"}`), `{"x":1e18}`,
			[]string{`/x: must be an integer that fits 64 bits, got 1e18`}},
		{"integer 1e400 or null", prop(`{"type":["null","integer"]}`), `{"x":1e400}`,
			[]string{`/x: must be an integer that fits 64 bits, got 1e400`}},
		{"integer or number", prop(`{"type":["integer","number"]}`), `{"x":1e400}`, nil},
		{"number is an integer too", prop(`{"type":"number"}`), `{"x":1}`, nil},
		{"false", prop(`false`), `{"x":1}`, []string{`/x: is not allowed`}},
		{"true", prop(`true`), `{"x":1}`, nil},

		{"exact beyond float64", prop(`{"maximum":9007199254740992}`), `{"x":9007199254740993}`,
			[]string{`/x: must be at most 9007199254740992, got 9007199254740993`}},
		{"huge", prop(`{"maximum":1e400}`), `{"x":1e399}`, nil},
		{"huge exponent", prop(`{"maximum":1}`), `{"x":1e99999999999999999999}`,
			[]string{`/x: must be at most 1, got 1e99999999999999999999`}},
		{"tiny", prop(`{"exclusiveMinimum":0}`), `{"x":1e-99999999999999999999}`, nil},
		{"negative", prop(`{"minimum":-5}`), `{"x":-5.5}`, []string{`/x: must be at least -5, got -5.5`}},
		{"negative and positive", prop(`{"minimum":-5,"maximum":5}`), `{"x":0}`, nil},
		{"exclusive", prop(`{"exclusiveMinimum":0,"exclusiveMaximum":1}`), `{"x":1.0}`,
			[]string{`/x: must be less than 1, got 1.0`}},
		{"exclusive of draft 4", prop(`{"minimum":0,"exclusiveMinimum":true}`), `{"x":0}`, nil},
		{"multiple", prop(`{"multipleOf":5}`), `{"x":12}`, []string{`/x: must be a multiple of 5, got 12`}},
		{"fractions", prop(`{"multipleOf":0.1}`), `{"x":0.3}`, nil},
		{"not a multiple", prop(`{"multipleOf":0.1}`), `{"x":0.35}`,
			[]string{`/x: must be a multiple of 0.1, got 0.35`}},
		{"multiple of nothing", prop(`{"multipleOf":0}`), `{"x":3}`, nil},
		{"limits are for numbers", prop(`{"minimum":5}`), `{"x":"a"}`, nil},

		{"runes", prop(`{"maxLength":3}`), `{"x":"äö\u00fc"}`, nil},
		{"too long", prop(`{"maxLength":3}`), `{"x":"abcd"}`,
			[]string{`/x: must be at most 3 characters long, got 4`}},
		{"pattern", prop(`{"pattern":"b+"}`), `{"x":"abbc"}`, nil},
		{"pattern fails", prop(`{"pattern":"^b"}`), `{"x":"abc"}`, []string{`/x: must match ^b, got "abc"`}},
		{"pattern RE2 does not know", prop(`{"pattern":"^(?!b)"}`), `{"x":"b"}`, nil},
		{"pattern too long", prop(`{"pattern":"` + strings.Repeat("b", maxPattern+1) + `"}`), `{"x":"b"}`, nil},

		{"const", prop(`{"const":{"a":[1,2]}}`), `{"x":{"a":[1.0,2e0]}}`, nil},
		{"const fails", prop(`{"const":"a"}`), `{"x":"b"}`, []string{`/x: must be "a", got "b"`}},
		{"enum of all kinds", prop(`{"enum":[null,true,1,"1",[],{}]}`), `{"x":[]}`, nil},
		{"enum of numbers", prop(`{"enum":[1,2]}`), `{"x":"1"}`, []string{`/x: must be one of 1, 2, got "1"`}},
		{"enum, false is not null", prop(`{"enum":[null,0,""]}`), `{"x":false}`,
			[]string{`/x: must be one of null, 0, "", got false`}},
		{"enum, escapes", prop(`{"enum":["\u00e4"]}`), `{"x":"ä"}`, nil},
		{"enum, order of keys", prop(`{"enum":[{"a":1,"b":2}]}`), `{"x":{"b":2,"a":1}}`, nil},

		{"items", prop(`{"items":{"type":"string"}}`), `{"x":["a",1,"b",null]}`,
			[]string{`/x/1: must be a string, got 1`, `/x/3: must be a string, got null`}},
		{"prefix", prop(`{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`), `{"x":["a",1,"b"]}`,
			[]string{`/x/2: must be an integer, got "b"`}},
		{"items as a list", prop(`{"items":[{"type":"string"}]}`), `{"x":[1,2]}`,
			[]string{`/x/0: must be a string, got 1`}},
		{"too few", prop(`{"minItems":2}`), `{"x":[1]}`, []string{`/x: must be at least 2 elements long, got 1`}},
		{"too many", prop(`{"maxItems":1}`), `{"x":[1,[2,3]]}`, []string{`/x: must be at most 1 elements long, got 2`}},
		{"unique", prop(`{"uniqueItems":true}`), `{"x":[1,{"a":1,"b":2},1.0,"1",{"b":2,"a":1}]}`, []string{
			`/x/2: is the same as element 0, elements must differ`,
			`/x/4: is the same as element 1, elements must differ`}},
		{"need not be unique", prop(`{"uniqueItems":false}`), `{"x":[1,1]}`, nil},
		{"members", prop(`{"minProperties":1,"maxProperties":2}`), `{"x":{}}`,
			[]string{`/x: must be at least 1 members in size, got 0`}},
		{"a limit that is huge", prop(`{"maxItems":1e300}`), `{"x":[]}`, nil},

		{"map", prop(`{"additionalProperties":{"type":"integer"}}`), `{"x":{"a":1,"b":"2"}}`,
			[]string{`/x/b: must be an integer, got "2"`}},
		{"pattern properties", prop(`{"patternProperties":{"^[0-9]+$":{"type":"integer"}},
			"additionalProperties":false}`), `{"x":{"1":"a","b":2}}`,
			[]string{`/x/1: must be an integer, got "a"`, `/x/b: unknown, there are no properties here`}},
		{"pattern properties RE2 does not know", prop(`{"patternProperties":{"(?!a)":{"type":"integer"}},
			"additionalProperties":false}`), `{"x":{"b":"c"}}`, nil},
		{"upper case", `{"properties":{"path":{}}}`, `{"path":"safe","Path":"evil"}`,
			[]string{`/Path: write it as "path"`}},
		{"upper case, unknown are refused", readSchema, `{"path":"a","LIMIT":1}`,
			[]string{`/LIMIT: write it as "limit"`}},
		{"upper case, unknown are checked", `{"properties":{"path":{}},"additionalProperties":{"type":"string"}}`,
			`{"PATH":"a"}`, []string{`/PATH: write it as "path"`}},
		{"upper case, a pattern takes it", `{"properties":{"path":{}},"patternProperties":{"^P":{}}}`,
			`{"Path":"a"}`, []string{`/Path: write it as "path"`}},
		{"upper case, named by required only", `{"required":["path"]}`, `{"path":"a","pAth":"b"}`,
			[]string{`/pAth: write it as "path"`}},
		{"upper case, inside", prop(`{"items":{"allOf":[{"properties":{"k":{}}}]}}`), `{"x":[{"k":1},{"\u212a":1}]}`,
			[]string{"/x/1/\u212a: write it as \"k\""}},
		{"upper case, two properties", `{"properties":{"a":{},"A":{}}}`, `{"a":1,"A":2}`, nil},
		{"upper case, two unknown", `{"properties":{"path":{}}}`, `{"b":0,"Mode":1,"c":2,"mode":3}`,
			[]string{`/mode: is the same as "Mode" but for case`}},
		{"upper case, odd letters", `{"properties":{"path":{}}}`, `{"straſe":1,"STRASE":2}`,
			[]string{`/STRASE: is the same as "straſe" but for case`}},
		{"upper case, keys of a map", prop(`{"additionalProperties":{"type":"string"}}`),
			`{"x":{"http_proxy":"a","HTTP_PROXY":"b"}}`, nil},
		{"required only", `{"type":"object","required":["a"],"additionalProperties":false}`, `{"a":1}`,
			[]string{`/a: unknown, there are no properties here`}},

		{"nullable", prop(`{"anyOf":[{"type":"integer","minimum":1},{"type":"null"}]}`), `{"x":0}`,
			[]string{`/x: must be at least 1, got 0`}},
		{"nullable, wrong type", prop(`{"anyOf":[{"type":"integer"},{"type":"null"}]}`), `{"x":"a"}`,
			[]string{`/x: must be an integer or null, got "a"`}},
		{"any of what is not allowed", prop(`{"anyOf":[false,false]}`), `{"x":"a"}`, []string{`/x: is not allowed`}},
		{"any of several", prop(`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`), `{"x":{}}`,
			[]string{`/x: must fit one of 2 forms: /x/a: required; or /x/b: required`}},
		{"one of", prop(`{"oneOf":[{"type":"integer"},{"type":"number"}]}`), `{"x":1}`,
			[]string{`/x: must fit exactly one of 2 forms, fits 2`}},
		{"one of, fits", prop(`{"oneOf":[{"type":"integer"},{"type":"string"}]}`), `{"x":1}`, nil},
		{"one of, not even once", prop(`{"oneOf":[{"const":1},{"const":2}]}`), `{"x":3}`,
			[]string{`/x: must fit one of 2 forms: /x: must be 1, got 3; or /x: must be 2, got 3`}},
		{"all of", prop(`{"allOf":[{"minimum":1},{"maximum":2}]}`), `{"x":3}`, []string{`/x: must be at most 2, got 3`}},
		{"not", prop(`{"not":{"type":"string"}}`), `{"x":"a"}`, []string{`/x: must not be "a"`}},
		{"not, fine", prop(`{"not":{"type":"string"}}`), `{"x":1}`, nil},
		{"any of nothing", prop(`{"anyOf":[],"oneOf":[]}`), `{"x":1}`, nil},

		{"ref", `{"type":"object","properties":{"x":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"integer"}}}`,
			`{"x":"a"}`, []string{`/x: must be an integer, got "a"`}},
		{"ref of draft 4", `{"$ref":"#/definitions/P","definitions":{"P":{"type":"object","required":["a"]}}}`,
			`{}`, []string{`/a: required`}},
		{"ref to itself", `{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#"}}}`,
			`{"v":1,"next":{"v":2,"next":{"v":"3"}}}`, []string{`/next/next/v: must be an integer, got "3"`}},
		{"ref with escapes", `{"type":"object","properties":{"x":{"$ref":"#/$defs/a~1b%20c"}},
			"$defs":{"a/b c":{"type":"null"}}}`, `{"x":1}`, []string{`/x: must be null, got 1`}},
		{"ref into a list", prop(`{"anyOf":[{"type":"null"},{"$ref":"#/properties/x/anyOf/0"}]}`), `{"x":1}`,
			[]string{`/x: must be null, got 1`}},
		{"ref elsewhere", prop(`{"$ref":"https://example.com/s.json"}`), `{"x":1}`, nil},
		{"keywords beside a ref", `{"type":"object","properties":{"x":{"$ref":"#/$defs/P","minimum":5}},
			"$defs":{"P":{"type":"integer"}}}`, `{"x":1}`, []string{`/x: must be at least 5, got 1`}},

		{"empty", readSchema, ``, []string{`arguments: not valid JSON: empty text at byte 0`}},
		{"cut off", readSchema, `{"path":"a`, []string{
			`arguments: not valid JSON: text ends, want the end of a string at byte 10`}},
		{"more text", readSchema, `{"path":"a"}}`, []string{
			`arguments: not valid JSON: more text after the value at byte 12`}},
		{"single quotes", readSchema, `{'path':"a"}`, []string{
			`arguments: not valid JSON: '\'', want a key at byte 1`}},
		{"trailing comma", readSchema, `{"path":"a",}`, []string{
			`arguments: not valid JSON: '}', want a key at byte 12`}},
		{"raw line break", readSchema, "{\"path\":\"a\nb\"}", []string{
			`arguments: not valid JSON: '\n' in a string, want it escaped at byte 10`}},
		{"duplicate key", readSchema, `{"path":"a","p\u0061th":"b"}`, []string{
			`arguments: duplicate key "p\u0061th" at byte 12`}},
		{"not UTF-8", readSchema, "{\"path\":\"a\xff\"}", []string{`arguments: text is not UTF-8 at byte 10`}},
		{"deep", ``, strings.Repeat(`[`, 1000), []string{`arguments: nested deeper than 256 at byte 256`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := compiled(t, tt.schema).Validate([]byte(tt.data))
			assert.Equal(t, tt.want, got, "Validate(%.80s) against %.200s", tt.data, tt.schema)
		})
	}
}

func TestValidateIsBounded(t *testing.T) {
	numbers := "[" + strings.Repeat("1,", 1<<15) + "1]"
	many := strings.Repeat(`{"$ref":"#"},`, 8)
	tests := []struct {
		name   string
		schema string
		data   string
		want   []string // the last problem
		count  int
	}{
		{"many problems", prop(`{"items":{"type":"string"}}`), `{"x":` + numbers + `}`,
			[]string{"and 32749 more"}, 21},
		{"many unknown", `{"type":"object","additionalProperties":false}`, manyKeys(5000),
			[]string{"and 4980 more"}, 21},
		{"many in an alternative", prop(`{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]}`),
			`{"x":` + numbers + `}`, []string{"and 32749 more"}, 21},
		{"reference that goes in circles", `{"$ref":"#"}`, `{}`,
			[]string{"arguments: the schema is too complex to check them"}, 1},
		{"choices that multiply", `{"anyOf":[` + many + `{"type":"null"}]}`, `{}`,
			[]string{"arguments: the schema is too complex to check them"}, 1},
		{"compare the same again and again", prop(`{"allOf":[` + strings.Repeat(`{"uniqueItems":true},`, 2000) +
			`true]}`), `{"x":` + numbers + `}`, nil, 21},
		{"duplicate among many", ``, strings.Replace(manyKeys(5000), `"k4999"`, `"k0"`, 1),
			[]string{`arguments: duplicate key "k0" at byte 48881`}, 1},
		{"long names and values", readSchema, `{"` + strings.Repeat("ä", 1<<20) + `":1,"path":"p","mode":"` +
			strings.Repeat("x", 1<<20) + `"}`, nil, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := compiled(t, tt.schema).Validate([]byte(tt.data))
			require.Len(t, got, tt.count)
			if tt.want != nil {
				assert.Equal(t, tt.want[0], got[len(got)-1])
			}
			for _, p := range got {
				assert.Less(t, len(p), 1000)
				assert.True(t, utf8.ValidString(p))
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestManyProperties(t *testing.T) {
	var props, req []string
	for i := range 200 {
		props = append(props, fmt.Sprintf(`"k%d":{"type":"integer"}`, i))
		req = append(req, fmt.Sprintf(`"k%d"`, i))
	}
	s := compiled(t, `{"type":"object","additionalProperties":false,"required":[`+strings.Join(req, ",")+
		`],"properties":{`+strings.Join(props, ",")+`}}`)
	assert.Empty(t, s.Validate([]byte(manyKeys(200))))
	assert.Equal(t, []string{"/k199: required"}, s.Validate([]byte(manyKeys(199))))
	assert.True(t, s.HasProperty("k150"))
	assert.False(t, s.HasProperty("k200"))
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct {
		name   string
		schema string
		want   string
	}{
		{"not JSON", `{`, "not valid JSON"},
		{"not an object", `true`, "not a JSON object"},
		{"array", `[]`, "not a JSON object"},
		{"a string's schema", `{"type":"string"}`, "not that of an object"},
		{"a string's schema behind a ref", `{"$ref":"#/$defs/S","$defs":{"S":{"type":"string"}}}`, "not that of an object"},
		{"false behind a ref", `{"$ref":"#/$defs/S","$defs":{"S":false}}`, "not that of an object"},
		{"type", prop(`{"type":"strng"}`), `/properties/x/type: no such type: "strng"`},
		{"type is a number", prop(`{"type":5}`), "/properties/x/type: must be a string or an array of strings"},
		{"type in a list", prop(`{"type":["string",5]}`), "must be a string or an array of strings"},
		{"properties", `{"type":"object","properties":[]}`, "/properties: must be an object"},
		{"a property", prop(`"string"`), "/properties/x: is not a schema"},
		{"required", `{"type":"object","required":"a"}`, "/required: must be an array of strings"},
		{"required in draft 3", prop(`{"type":"string","required":true}`), "/properties/x/required: must be an array of strings"},
		{"a required", `{"type":"object","required":[1]}`, "/required: must be an array of strings"},
		{"enum", prop(`{"enum":{}}`), "/properties/x/enum: must be an array"},
		{"anyOf", prop(`{"anyOf":{}}`), "/properties/x/anyOf: must be an array"},
		{"in anyOf", prop(`{"anyOf":[true,5]}`), "/properties/x/anyOf/1: is not a schema"},
		{"items", prop(`{"items":5}`), "/properties/x/items: is not a schema"},
		{"not", prop(`{"not":null}`), "/properties/x/not: is not a schema"},
		{"minimum", prop(`{"minimum":"5"}`), "/properties/x/minimum: must be a number"},
		{"minLength", prop(`{"minLength":-1}`), "/properties/x/minLength: must be a whole number, 0 or more"},
		{"maxItems", prop(`{"maxItems":1.5}`), "must be a whole number"},
		{"maxItems is a text", prop(`{"maxItems":"1"}`), "must be a number"},
		{"pattern", prop(`{"pattern":5}`), "/properties/x/pattern: must be a string"},
		{"unique", prop(`{"uniqueItems":"true"}`), "/properties/x/uniqueItems: must be true or false"},
		{"ref", prop(`{"$ref":5}`), "/properties/x/$ref: must be a string"},
		{"ref to nothing", prop(`{"$ref":"#/$defs/No"}`), `no such place in the schema: "#/$defs/No"`},
		{"ref into a string", prop(`{"$ref":"#/type/a"}`), "no such place"},
		{"ref to what is no schema", prop(`{"$ref":"#/type"}`), "is not a schema"},
		{"bad escape", prop(`{"$ref":"#/%zz"}`), "not a reference"},
		{"duplicate key", `{"type":"object","type":"object"}`, `duplicate key "type"`},
		{"deep", `{"type":"object","properties":{"x":` + strings.Repeat(`{"items":`, 300), "nested deeper than"},
		{"large", `{"description":"` + strings.Repeat("x", maxSchema) + `"}`, "bytes, more than"},
		{"many schemas", prop(`{"allOf":[` + strings.Repeat(`{},`, maxNodes) + `{}]}`), "more than 20000 schemas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(json.RawMessage(tt.schema))
			assert.ErrorContains(t, err, tt.want, "Compile(%.200s)", tt.schema)
		})
	}
}

func TestHasProperty(t *testing.T) {
	tests := []struct {
		name   string
		schema string
		want   bool
	}{
		{"there", `{"type":"object","properties":{"a":{}}}`, true},
		{"not there", `{"type":"object","properties":{"b":{"properties":{"a":{}}}}}`, false},
		{"only required", `{"type":"object","required":["a"]}`, false},
		{"behind a ref", `{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":true}}}}`, true},
		{"in allOf", `{"allOf":[{"type":"object"},{"properties":{"a":{}}}]}`, true},
		{"circle", `{"$ref":"#"}`, false},
		{"no schema", ``, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, compiled(t, tt.schema).HasProperty("a"))
		})
	}
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(readSchema), []byte(`{"path":1}`))
	f.Add([]byte(`{"anyOf":[{"$ref":"#"},{"not":{"$ref":"#"}}]}`), []byte(`{}`))
	f.Add([]byte(prop(`{"enum":[1,"a",{}],"pattern":"a","uniqueItems":true,"multipleOf":0.1}`)), []byte(`{"x":[1]}`))
	f.Add([]byte(`{"properties":{"a":{"prefixItems":[true],"items":false,"maxLength":1e9}}}`), []byte(`{"a":[1,2]}`))
	f.Fuzz(func(t *testing.T, schema, data []byte) {
		s, err := Compile(schema)
		if err != nil {
			require.Nil(t, s)
			return
		}
		s.HasProperty("a")
		first := s.Validate(data)
		require.Equal(t, first, s.Validate(data), "the same again")
		require.LessOrEqual(t, len(first), maxProblems+1)
	})
}

// FuzzValidate compares the parser with that of encoding/json.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{`{"path":"a","limit":1.5e3}`, `{"a":[null,true,false,-0,0.1E-2]}`, `{"a":1,"a":2}`,
		`"\ud800\u12aF\/"`, `01`, `1.`, `-`, `[1,]`, "\"\x00\"", "\xff", `{"a" 1}`, ` [ ] `, `tru`, `"\u00g0"`, `1e700`} {
		f.Add([]byte(seed))
	}
	s := compiled(f, readSchema)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := doc{data: data}
		err := d.parse()
		syntax, isSyntax := errors.AsType[*syntaxError](err)
		bad := isSyntax && strings.HasPrefix(syntax.what, "not valid JSON")
		if utf8.Valid(data) && (err == nil || bad) {
			require.Equal(t, !json.Valid(data), bad, "%q: %v", data, err)
		}
		if err != nil {
			require.Len(t, s.Validate(data), 1)
			return
		}
		var want any
		if json.Unmarshal(data, &want) != nil {
			s.Validate(data) // numbers too large for a float64 are out of scope
			return
		}
		if text, ok := want.(string); ok {
			require.Equal(t, text, string(d.str(0)))
		}
		again, err := json.Marshal(want)
		require.NoError(t, err)
		if !strings.ContainsAny(string(data), "eE.") && len(data) < 15 { // float64 is exact
			e := doc{data: again}
			require.NoError(t, e.parse())
			require.Equal(t, string(d.canon(nil, 0)), string(e.canon(nil, 0)))
		}
		s.Validate(data)
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compiled(b, readSchema)
	args := []byte(`{"path":"internal/schema/validate.go","limit":200,"mode":"text"}`)
	b.ReportAllocs()
	for b.Loop() {
		if p := s.Validate(args); p != nil {
			b.Fatal(p)
		}
	}
}

func BenchmarkValidateLarge(b *testing.B) {
	s := compiled(b, readSchema)
	text, _ := json.Marshal(strings.Repeat("a line of code\n", 1<<16))
	args := []byte(`{"path":` + string(text) + `}`)
	b.SetBytes(int64(len(args)))
	b.ReportAllocs()
	for b.Loop() {
		if p := s.Validate(args); p != nil {
			b.Fatal(p)
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) { // to compare with
	args := []byte(`{"path":"internal/schema/validate.go","limit":200,"mode":"text"}`)
	b.ReportAllocs()
	for b.Loop() {
		var v any
		if err := json.Unmarshal(args, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(json.RawMessage(readSchema)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCompiledSchemaIsSmall(t *testing.T) {
	const n = 1000
	raw := json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string","description":"The file to read"},"limit":{"type":"integer","minimum":1}}}`)
	keep := make([]*Schema, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range keep {
		keep[i] = compiled(t, string(raw))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	size := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	runtime.KeepAlive(keep)
	t.Logf("%d bytes a schema of 2 properties", size)
	assert.Less(t, size, int64(1024))
}
