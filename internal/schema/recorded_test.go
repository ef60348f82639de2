package schema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The types of testdata/schemas.txt that have a name: they have methods, type
// parameters, or fields that [reflect.StructOf] does not make.
type (
	weekday  int      // reads itself from text
	word     string   // has no methods
	opaque   struct{} // reads itself from JSON, and shows nothing
	loudness string   // describes itself
	labels   []string // describes itself as a list
	anything struct{} // describes itself as any value
	choosy   struct { // reads itself from JSON, and shows its fields
		Word string
	}
	settings struct { // describes itself as an object
		On bool
	}
	pair[A, B any] struct {
		First  A `json:"first"`
		Second B `json:"second,omitzero" jsonschema:"description=the other"`
	}
	optional[T any] struct {
		Value *T  `json:"value,omitempty"`
		Many  []T `json:"many" jsonschema:"maxItems=9"`
	}
	origin struct {
		Source string `json:"source" jsonschema:"enum=disk,enum=net"`
		line   int
	}
	Shared struct {
		Tags []string `json:"tags,omitempty"`
	}
	embedding struct {
		origin
		*Shared
		pair[int8, bool]
		Own string `json:"own"`
	}
	deepEmbedding struct {
		embedding
		Shared optional[embedding] `json:"shared"`
	}
)

var _ = origin{line: 1} // a field that reflection alone looks at

func (*weekday) UnmarshalText([]byte) error { return nil }
func (*opaque) UnmarshalJSON([]byte) error  { return nil }
func (*choosy) UnmarshalJSON([]byte) error  { return nil }

func (loudness) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["low","high"],"description":"how loud"}`)
}

func (*labels) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"array","items":{"type":"string","minLength":1}}`)
}

func (anything) JSONSchema() json.RawMessage { return json.RawMessage(`{}`) }

func (settings) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{}},"x-order":[2,1]}`)
}

var recordedNames = map[string]reflect.Type{
	"any":  reflect.TypeFor[any](),
	"bool": reflect.TypeFor[bool](), "string": reflect.TypeFor[string](), "byte": reflect.TypeFor[byte](),
	"int": reflect.TypeFor[int](), "int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](),
	"int32": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](),
	"uint": reflect.TypeFor[uint](), "uint8": reflect.TypeFor[uint8](), "uint16": reflect.TypeFor[uint16](),
	"uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](),
	"float32": reflect.TypeFor[float32](), "float64": reflect.TypeFor[float64](),

	"time.Time": reflect.TypeFor[time.Time](), "time.Duration": reflect.TypeFor[time.Duration](),
	"json.RawMessage": reflect.TypeFor[json.RawMessage](), "json.Number": reflect.TypeFor[json.Number](),
	"big.Int": reflect.TypeFor[big.Int](), "big.Float": reflect.TypeFor[big.Float](),
	"net.IP": reflect.TypeFor[net.IP](), "netip.Addr": reflect.TypeFor[netip.Addr](),
	"slog.Level": reflect.TypeFor[slog.Level](),

	"weekday": reflect.TypeFor[weekday](), "word": reflect.TypeFor[word](), "opaque": reflect.TypeFor[opaque](), "choosy": reflect.TypeFor[choosy](),
	"loudness": reflect.TypeFor[loudness](), "labels": reflect.TypeFor[labels](),
	"anything": reflect.TypeFor[anything](), "settings": reflect.TypeFor[settings](),
	"level": reflect.TypeFor[level](), "size": reflect.TypeFor[size](), "noBody": reflect.TypeFor[noBody](),
	"withDefaults": reflect.TypeFor[withDefaults](), "self": reflect.TypeFor[self](),
	"embedding": reflect.TypeFor[embedding](), "deepEmbedding": reflect.TypeFor[deepEmbedding](),
	"pair[string, int]":             reflect.TypeFor[pair[string, int]](),
	"pair[[]weekday, any]":          reflect.TypeFor[pair[[]weekday, any]](),
	"pair[embedding, loudness]":     reflect.TypeFor[pair[embedding, loudness]](),
	"optional[time.Time]":           reflect.TypeFor[optional[time.Time]](),
	"optional[pair[word, float32]]": reflect.TypeFor[optional[pair[word, float32]]](),
	"optional[map[int]Shared]":      reflect.TypeFor[optional[map[int]Shared]](),
}

// typeOf returns the type that an expression stands for.
func typeOf(src string, e ast.Expr) (reflect.Type, error) {
	if t := recordedNames[src[e.Pos()-1:e.End()-1]]; t != nil {
		return t, nil
	}
	switch e := e.(type) {
	case *ast.StarExpr:
		t, err := typeOf(src, e.X)
		if err != nil {
			return nil, err
		}
		return reflect.PointerTo(t), nil
	case *ast.ArrayType:
		t, err := typeOf(src, e.Elt)
		if err != nil || e.Len == nil {
			return reflect.SliceOf(t), err
		}
		n, err := strconv.Atoi(e.Len.(*ast.BasicLit).Value)
		return reflect.ArrayOf(n, t), err
	case *ast.MapType:
		key, err := typeOf(src, e.Key)
		if err != nil {
			return nil, err
		}
		t, err := typeOf(src, e.Value)
		if err != nil {
			return nil, err
		}
		return reflect.MapOf(key, t), nil
	case *ast.StructType:
		return structOf(src, e)
	}
	return nil, fmt.Errorf("%s is the type %T", src[e.Pos()-1:e.End()-1], e)
}

// structOf makes a struct. A field with a tag embed is an embedded one.
func structOf(src string, e *ast.StructType) (reflect.Type, error) {
	var fields []reflect.StructField
	for _, f := range e.Fields.List {
		t, err := typeOf(src, f.Type)
		if err != nil {
			return nil, err
		}
		field := reflect.StructField{Name: f.Names[0].Name, Type: t}
		if f.Tag != nil {
			tag, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return nil, err
			}
			field.Tag = reflect.StructTag(tag)
			_, field.Anonymous = field.Tag.Lookup("embed")
		}
		fields = append(fields, field)
	}
	return reflect.StructOf(fields), nil
}

// propertyOrder returns the names of all properties, in their order.
func propertyOrder(raw []byte) (names []string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	var value func(listed bool)
	value = func(listed bool) {
		open, _ := dec.Token()
		if _, nested := open.(json.Delim); !nested {
			return
		}
		for dec.More() {
			inside := false
			if open == json.Delim('{') {
				key, _ := dec.Token()
				if listed {
					names = append(names, key.(string))
				}
				inside = key == "properties" && !listed
			}
			value(inside)
		}
		_, _ = dec.Token()
	}
	value(false)
	return names
}

// The schemas in testdata/schemas.txt were written down before a library made them: of
// the types that tests, examples and tools reflect, and of others with every kind of
// field and tag. A line with a type stands before one with its schema.
func TestReflectAsRecorded(t *testing.T) {
	f, err := os.Open("testdata/schemas.txt")
	require.NoError(t, err)
	defer f.Close()
	r, n := bufio.NewReader(f), 0
	for {
		src, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		if strings.HasPrefix(src, "#") || src == "\n" {
			continue
		}
		want, err := r.ReadString('\n')
		require.NoError(t, err)
		src = strings.TrimSuffix(src, "\n")
		e, err := parser.ParseExpr(src)
		require.NoError(t, err, src)
		typ, err := typeOf(src, e)
		require.NoError(t, err, src)
		got, _, err := reflectType(typ)
		require.NoError(t, err, src)
		require.JSONEq(t, want, string(got), src)
		require.Equal(t, propertyOrder([]byte(want)), propertyOrder(got), src)
		n++
	}
	t.Logf("%d types", n)
	require.GreaterOrEqual(t, n, 300)
}

func TestPropertyOrder(t *testing.T) {
	got := propertyOrder([]byte(`{"type":"object","properties":{"b":{"properties":{"properties":{},"a":{"type":1}}},"a":{}},"x":[{"properties":{"z":1}}]}`))
	require.True(t, slices.Equal([]string{"b", "properties", "a", "a", "z"}, got), got)
}
