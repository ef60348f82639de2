package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type readArgs struct {
	Path  string `json:"path" jsonschema:"description=File to read"`
	Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000,default=200"`
	Mode  string `json:"mode,omitzero" jsonschema:"enum=text,enum=hex,default=text"`
	Note  string `json:"-"`
}

type position struct {
	Line   int  `json:"line"`
	Column *int `json:"column,omitempty"`
}

type base struct {
	Position position `json:"position" jsonschema_description:"Where, counted from 1"`
	ID       uint8
}

type nested struct {
	base
	*Base2
	Tags    []string          `json:"tags" jsonschema:"minItems=1,maxItems=5,uniqueItems=true,enum=a,enum=b"`
	Numbers []int             `json:"numbers,omitempty" jsonschema:"default=1,default=2"`
	Flags   []bool            `json:"flags,omitempty" jsonschema:"default=true"`
	Pair    [2]float64        `json:"pair"`
	Env     map[string]string `json:"env"`
	ByLine  map[int]position  `json:"by_line"`
	Grid    [][]int           `json:"grid"`
	_       func()
}

type Base2 struct {
	Deep bool `json:"deep,omitempty" jsonschema:"default=false"`
}

type special1 struct {
	Raw    json.RawMessage `json:"raw"`
	Any    any             `json:"any,omitempty" jsonschema:"description=Whatever"`
	Anys   []any           `json:"anys"`
	Raws   map[string]any  `json:"raws"`
	At     time.Time       `json:"at"`
	For    time.Duration   `json:"for"`
	Data   []byte          `json:"data"`
	IP     net.IP          `json:"ip"`
	Big    big.Int         `json:"big"`
	Level  level           `json:"level"`
	LevelP *level          `json:"level_p"`
	Size   size            `json:"size" jsonschema:"description=Own words"`
	Quoted int             `json:"quoted,string"`
	Null   string          `json:"null" jsonschema:"nullable"`
	Sets   withDefaults    `json:"sets"`
}

// level describes itself with a method of the value.
type level int

func (level) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["low","high"],"description":"how loud"}`)
}

// size describes itself with a method of the pointer, and with one shared value.
type size struct{ _ int }

var sizeSchema = json.RawMessage(`{"type":"integer","description":"in bytes"}`)

func (*size) JSONSchema() json.RawMessage { return sizeSchema }

type withDefaults struct {
	N int `json:"n,omitempty"`
}

func (w *withDefaults) UnmarshalJSON(data []byte) error {
	type plain withDefaults
	w.N = 7
	return json.Unmarshal(data, (*plain)(w))
}

type self struct {
	Name string `json:"name"`
}

func (*self) UnmarshalJSON([]byte) error { return nil }

func reflected[T any](t *testing.T) string {
	t.Helper()
	raw, err := Reflect(reflect.TypeFor[T]())
	require.NoError(t, err)
	again, err := Reflect(reflect.TypeFor[T]())
	require.NoError(t, err)
	require.Equal(t, string(raw), string(again), "the same type gives the same bytes")
	_, err = Compile(raw)
	require.NoError(t, err, "what Reflect makes compiles")
	return string(raw)
}

func reflectedNow[T any](t *testing.T) string {
	t.Helper()
	raw, err := Reflect(reflect.TypeFor[T]())
	require.NoError(t, err)
	return string(raw)
}

func TestReflect(t *testing.T) {
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"tags", reflected[readArgs](t), `{"properties":{
			"path":{"type":"string","description":"File to read"},
			"limit":{"type":"integer","maximum":2000,"minimum":1,"default":200},
			"mode":{"type":"string","enum":["text","hex"],"default":"text"}},
			"additionalProperties":false,"type":"object","required":["path"]}`},
		{"pointer", reflected[*readArgs](t), reflected[readArgs](t)},
		{"pointer to a pointer", reflected[**readArgs](t), reflected[readArgs](t)},
		{"nothing", reflected[struct{}](t), `{"properties":{},"additionalProperties":false,"type":"object"}`},
		{"reads itself", reflected[self](t), `{"properties":{"name":{"type":"string"}},
			"additionalProperties":false,"type":"object","required":["name"]}`},
		{"nested", reflected[nested](t), `{"properties":{
			"position":{"properties":{"line":{"type":"integer"},"column":{"type":"integer"}},
				"additionalProperties":false,"type":"object","required":["line"],
				"description":"Where, counted from 1"},
			"ID":{"type":"integer"},
			"deep":{"type":"boolean","default":false},
			"tags":{"items":{"type":"string","enum":["a","b"]},"type":"array","maxItems":5,"minItems":1,
				"uniqueItems":true},
			"numbers":{"items":{"type":"integer"},"type":"array","default":[1,2]},
			"flags":{"items":{"type":"boolean"},"type":"array","default":[true]},
			"pair":{"items":{"type":"number"},"type":"array","maxItems":2,"minItems":2},
			"env":{"additionalProperties":{"type":"string"},"type":"object"},
			"by_line":{"patternProperties":{"^-?[0-9]+$":{"properties":{"line":{"type":"integer"},
				"column":{"type":"integer"}},"additionalProperties":false,"type":"object","required":["line"]}},
				"additionalProperties":false,"type":"object"},
			"grid":{"items":{"items":{"type":"integer"},"type":"array"},"type":"array"}},
			"additionalProperties":false,"type":"object",
			"required":["position","ID","tags","pair","env","by_line","grid"]}`},
		{"special types", reflected[special1](t), `{"properties":{
			"raw":{"description":"any JSON value"},
			"any":{"description":"Whatever"},
			"anys":{"items":{"description":"any JSON value"},"type":"array"},
			"raws":{"type":"object"},
			"at":{"type":"string","format":"date-time"},
			"for":{"type":"integer"},
			"data":{"type":"string","contentEncoding":"base64"},
			"ip":{"type":"string"},
			"big":{"description":"any JSON value"},
			"level":{"type":"string","enum":["low","high"],"description":"how loud"},
			"level_p":{"type":"string","enum":["low","high"],"description":"how loud"},
			"size":{"type":"integer","description":"Own words"},
			"quoted":{"type":"string"},
			"null":{"oneOf":[{"type":"string"},{"type":"null"}]},
			"sets":{"properties":{"n":{"type":"integer"}},"additionalProperties":false,"type":"object"}},
			"additionalProperties":false,"type":"object",
			"required":["raw","anys","raws","at","for","data","ip","big","level","level_p","size","quoted",
				"null","sets"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.JSONEq(t, tt.want, tt.got) })
	}
	assert.Contains(t, string(sizeSchema), "in bytes", "a tag does not write into a type's own schema")
}

// loaded describes itself with what is loaded at that time.
type loaded struct{}

var loadedNames = []string{`{"enum":["a"]}`, `{"enum":["b"]}`}

func (loaded) JSONSchema() json.RawMessage { return json.RawMessage(loadedNames[0]) }

func TestReflectKeepsNoDescriptions(t *testing.T) {
	type args struct {
		Names []loaded `json:"names"`
		_     loaded
	}
	assert.Contains(t, reflectedNow[args](t), `{"enum":["a"]}`)
	loadedNames[0] = loadedNames[1]
	assert.Contains(t, reflectedNow[args](t), `{"enum":["b"]}`)
}

func TestReflectGivesEachItsOwn(t *testing.T) {
	first, err := Reflect(reflect.TypeFor[readArgs]())
	require.NoError(t, err)
	clear(first)
	second, err := Reflect(reflect.TypeFor[readArgs]())
	require.NoError(t, err)
	assert.True(t, json.Valid(second))
}

func TestReflectKeepsTheOrderOfFields(t *testing.T) {
	got := reflected[struct {
		Z int `json:"z"`
		A int `json:"a"`
		M int `json:"m"`
	}](t)
	assert.Regexp(t, `"z":.*"a":.*"m":`, got)
	assert.Contains(t, got, `"required":["z","a","m"]`)
}

type (
	node1   struct{ Children []*node1 }
	mutualA struct{ B *mutualB }
	mutualB struct{ A map[string]mutualA }
	viaArr  struct{ Next [1]*viaArr }
	embeds  struct {
		Name string
		*embeds
	}
	Embeds  struct{ *Embeds }
	sliceOf []sliceOf
	Word    string
	noBody  struct{}
	panics  struct{}
	nilOwn  struct{}
	shadow  struct {
		base
		ID string
	}
)

type (
	list        []list // would have no end
	libSchema   struct{}
	libExtend   int
	libAlias    struct{}
	libProperty struct{ F int }
	libWords    struct{ F int }
	protoEnum   int32
	Byte        uint8
)

func (libSchema) JSONSchema() *jsonschema.Schema       { return nil }
func (*libExtend) JSONSchemaExtend(*jsonschema.Schema) {}
func (libAlias) JSONSchemaAlias() any                  { return libAlias{} }
func (libProperty) JSONSchemaProperty(string) any      { return libProperty{} }
func (libWords) GetFieldDocString(string) string       { return "" }
func (protoEnum) EnumDescriptor() ([]byte, []int)      { return nil, nil }

var _ = embeds{embeds: nil} // a field that reflection alone looks at

func (panics) JSONSchema() json.RawMessage         { panic("no schema today") }
func (nilOwn) JSONSchema() json.RawMessage         { return nil }
func (*noBody) UnmarshalText(text []byte) error    { return nil }
func (noBody) MarshalText() (text []byte, _ error) { return nil, nil }

func failure[T any](t *testing.T) string {
	t.Helper()
	raw, err := Reflect(reflect.TypeFor[T]())
	require.Error(t, err, "got %s", raw)
	return err.Error()
}

func TestReflectRefuses(t *testing.T) {
	type field[F any] struct {
		F F `json:"f"`
	}
	type tag struct {
		got  string
		want string
	}
	tests := map[string]tag{
		"recursive slice":       {failure[node1](t), "recursive type: node1.Children → node1"},
		"recursive in two":      {failure[mutualA](t), "recursive type: mutualA.B.A → mutualA"},
		"recursive in an array": {failure[viaArr](t), "recursive type: viaArr.Next → viaArr"},
		"recursive inside":      {failure[field[node1]](t), ".F.Children → node1"},
		"recursive by name":     {failure[field[sliceOf]](t), ".F → sliceOf"},
		"embeds itself":         {failure[Embeds](t), "recursive type: Embeds.Embeds → Embeds"},
		"unexported pointer":    {failure[embeds](t), "embeds.embeds: encoding/json leaves an unexported embedded pointer nil"},
		"int":                   {failure[int](t), "schema of int: not a struct"},
		"slice":                 {failure[[]string](t), "not a struct"},
		"map":                   {failure[map[string]int](t), "not a struct"},
		"any":                   {failure[any](t), "not a struct"},
		"error":                 {failure[error](t), "not a struct"},
		"pointer to int":        {failure[*int](t), "not a struct"},
		"time":                  {failure[time.Time](t), `not an object but "string"`},
		"own schema":            {failure[size](t), `not an object but "integer"`},
		"func":                  {failure[field[func()]](t), ".F: func() has no JSON form"},
		"chan":                  {failure[field[[]chan int]](t), ".F: chan int has no JSON form"},
		"complex":               {failure[field[map[string]complex128]](t), "complex128 has no JSON form"},
		"uintptr":               {failure[field[uintptr]](t), "uintptr has no JSON form"},
		"interface":             {failure[field[io.Reader]](t), "what is in the interface io.Reader"},
		"map key":               {failure[field[map[float64]int]](t), "keys of type float64"},
		"url":                   {failure[field[url.URL]](t), "use a string"},
		"own method panics":     {failure[field[panics]](t), "no schema today"},
		"own method gives nil":  {failure[field[nilOwn]](t), "JSONSchema of schema.nilOwn: "},
		"same name twice":       {failure[shadow](t), `shadow.ID: has the JSON name "ID" of shadow.base.ID`},
		"embedded non-struct":   {failure[struct{ Word }](t), "needs a json tag"},
		"comma in a description": {failure[struct {
			F string `jsonschema:"description=this, that"`
		}](t), `" that" is not key=value`},
		"unknown key": {failure[struct {
			F string `jsonschema:"min=1"`
		}](t), `unknown key "min"`},
		"misspelt key": {failure[struct {
			F string `jsonschema:"minimun=1"`
		}](t), `did you mean "minimum"?`},
		"not a number": {failure[struct {
			F int `jsonschema:"minimum=one"`
		}](t), "minimum=one: not a number"},
		"not a count": {failure[struct {
			F string `jsonschema:"minLength=-1"`
		}](t), "minLength=-1: not a count"},
		"not a bool": {failure[struct {
			F []string `jsonschema:"uniqueItems=often"`
		}](t), "not a bool"},
		"key of another type": {failure[struct {
			F string `jsonschema:"minimum=1"`
		}](t), "F: jsonschema tag: minimum=1: does not fit the type string"},
		"space behind a comma": {failure[struct {
			F string `json:",omitempty" jsonschema:"description=this\\,required"`
		}](t), `F: jsonschema tag: the comma in "this,required" needs a space`},
		"schema of the library":   {failure[field[libSchema]](t), "schema.libSchema has the method of interface"},
		"extended by the library": {failure[field[*libExtend]](t), "JSONSchemaExtend"},
		"alias":                   {failure[field[[]libAlias]](t), "JSONSchemaAlias"},
		"alias of a property":     {failure[libProperty](t), "JSONSchemaProperty"},
		"words of a field":        {failure[struct{ libWords }](t), "GetFieldDocString"},
		"unexported embedded pointer with a name": {failure[struct {
			*base `json:"base"`
		}](t), "encoding/json does not read an unexported embedded ptr"},
		"unexported embedded list with a name": {failure[struct {
			list `json:"list"`
		}](t), "encoding/json does not read an unexported embedded slice"},
		"extras": {failure[struct {
			F string `jsonschema_extras:"a=b"`
		}](t), "no tag jsonschema_extras"},
		"inline": {failure[struct {
			F base `json:",inline"`
		}](t), `no "inline"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Contains(t, tt.got, tt.want) })
	}
}

func TestReflectTextKeysAndCommas(t *testing.T) {
	got := reflected[struct {
		F string         `json:"f" jsonschema:"description=this\\, that,required"`
		M map[noBody]int `json:"m,omitempty"`
		S noBody         `json:"s,omitzero"`
		X chan int       `json:"x" jsonschema:"-"`
		Y func()         `json:"-"`
	}](t)
	assert.JSONEq(t, `{"properties":{"f":{"type":"string","description":"this, that"},
		"m":{"additionalProperties":{"type":"integer"},"type":"object"},"s":{"type":"string"}},
		"additionalProperties":false,"type":"object","required":["f"]}`, got)
}

// For these types the library alone would describe something else than encoding/json reads.
func TestReflectFitsWhatJSONReads(t *testing.T) {
	type args struct {
		base  `json:"base"`
		Enum  protoEnum       `json:"enum"`
		Bytes []Byte          `json:"bytes"`
		Low   map[int]int     `json:"low"`
		High  map[uint]int    `json:"high"`
		Days  map[weekday]int `json:"days"`
		Inf   float64         `json:"inf" jsonschema:"default=inf"`
		Loose any             `json:"loose" jsonschema:"type=array,example=[]"`
	}
	text := `{"base":{"position":{"line":1},"ID":2},"enum":3,"bytes":"AQI=","low":{"-1":1},"high":{"1":1},
		"days":{"1":2},"inf":1,"loose":[]}`
	raw := reflected[args](t)
	s, err := Compile(json.RawMessage(raw))
	require.NoError(t, err)
	assert.Empty(t, s.Validate([]byte(text)), raw)
	var in args
	require.NoError(t, json.Unmarshal([]byte(text), &in))
	assert.Equal(t, args{
		base: base{Position: position{Line: 1}, ID: 2}, Enum: 3, Bytes: []Byte{1, 2}, Low: map[int]int{-1: 1},
		High: map[uint]int{1: 1}, Days: map[weekday]int{0: 2}, Inf: 1, Loose: []any{},
	}, in)
}

// The schema of a type describes the values that encoding/json writes for it.
func TestReflectFitsWhatJSONWrites(t *testing.T) {
	values := []any{
		readArgs{Path: "a", Limit: 3, Mode: "hex"},
		withDefaults{},
		struct{}{},
	}
	schemas := []string{reflected[readArgs](t), reflected[withDefaults](t), reflected[struct{}](t)}
	n := nested{Tags: []string{"a", "b"}, Env: map[string]string{"k": "v"}, Grid: [][]int{{1}, {}}}
	n.ByLine = map[int]position{3: {Line: 4}}
	values, schemas = append(values, n), append(schemas, reflected[nested](t))
	for i, v := range values {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			data, err := json.Marshal(v)
			require.NoError(t, err)
			s, err := Compile(json.RawMessage(schemas[i]))
			require.NoError(t, err)
			assert.Empty(t, s.Validate(data), "%s against %s", data, schemas[i])
		})
	}
}

func BenchmarkReflect(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Reflect(reflect.TypeFor[readArgs]()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCompileOf(t *testing.T) {
	raw, err := Reflect(reflect.TypeFor[readArgs]())
	require.NoError(t, err)
	of := reflect.TypeFor[readArgs]()
	first, err := CompileOf(of, raw)
	require.NoError(t, err)
	second, err := CompileOf(of, bytes.Clone(raw))
	require.NoError(t, err)
	assert.Same(t, first, second)

	other, err := CompileOf(of, []byte(`{"type":"object","required":["x"]}`))
	require.NoError(t, err)
	assert.NotEmpty(t, other.Validate([]byte(`{}`)), "a schema that is not that of the type")
	plain, err := CompileOf(nil, raw)
	require.NoError(t, err)
	assert.NotSame(t, first, plain)
}
