package generate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/providers/script"
)

// dynamic is any value of the schema in dynamicSchema.
type dynamic struct{ raw json.RawMessage }

var dynamicSchema json.RawMessage

func (dynamic) JSONSchema() json.RawMessage { return dynamicSchema }

func (d *dynamic) UnmarshalJSON(data []byte) error {
	d.raw = bytes.Clone(data)
	return nil
}

// A shape is a random schema, with a Go type and a value that were made beside it.
type shape struct {
	schema map[string]any
	typ    reflect.Type
	value  any
}

var words = []string{"oak", "élan", "a b", "<x>", "", "line\nline", "\"q\"", "日本"}

func scalar(r *rand.Rand) shape {
	switch r.IntN(5) {
	case 0:
		return shape{map[string]any{"type": "string"}, reflect.TypeFor[string](), words[r.IntN(len(words))]}
	case 1:
		return shape{map[string]any{"type": "string", "enum": []any{"red", "green"}}, reflect.TypeFor[string](), []string{"red", "green"}[r.IntN(2)]}
	case 2:
		return shape{map[string]any{"type": "integer", "minimum": -5.0, "maximum": 1000.0}, reflect.TypeFor[int16](), float64(r.IntN(1006) - 5)}
	case 3:
		return shape{map[string]any{"type": "number"}, reflect.TypeFor[float64](), float64(r.IntN(1000)) / 8}
	}
	return shape{map[string]any{"type": "boolean"}, reflect.TypeFor[bool](), r.IntN(2) == 0}
}

func randomShape(r *rand.Rand, depth int) shape {
	kind := r.IntN(6)
	if depth == 0 {
		kind = 5
	}
	switch kind {
	case 0:
		in := randomShape(r, depth-1)
		list := []any{}
		for range r.IntN(3) {
			list = append(list, in.value)
		}
		return shape{map[string]any{"type": "array", "items": in.schema}, reflect.SliceOf(in.typ), list}
	case 1:
		in := randomShape(r, depth-1)
		return shape{map[string]any{"type": "object", "additionalProperties": in.schema}, reflect.MapOf(reflect.TypeFor[string](), in.typ), map[string]any{"k": in.value}}
	case 2, 3, 4:
		return randomObject(r, depth)
	}
	return scalar(r)
}

func randomObject(r *rand.Rand, depth int) shape {
	props, value, required := map[string]any{}, map[string]any{}, []any{}
	var fields []reflect.StructField
	for i := range 1 + r.IntN(4) {
		in, name, tag := randomShape(r, depth-1), fmt.Sprintf("f%d", i), ""
		props[name] = in.schema
		if r.IntN(3) == 0 {
			tag = ",omitempty"
		} else {
			required = append(required, name)
		}
		if tag == "" || r.IntN(2) == 0 {
			value[name] = in.value
		}
		fields = append(fields, reflect.StructField{Name: strings.ToUpper(name), Type: in.typ, Tag: reflect.StructTag(`json:"` + name + tag + `"`)})
	}
	return shape{map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}, reflect.StructOf(fields), value}
}

// fits is a check of values by schemas that shares no code with the package.
func fits(schema map[string]any, value any) bool {
	switch v := value.(type) {
	case string:
		list, _ := schema["enum"].([]any)
		return schema["type"] == "string" && (list == nil || slices.Contains(list, any(v)))
	case float64:
		low, bounded := schema["minimum"].(float64)
		return schema["type"] == "number" || schema["type"] == "integer" && v == float64(int64(v)) && (!bounded || v >= low && v <= schema["maximum"].(float64))
	case bool:
		return schema["type"] == "boolean"
	case []any:
		return schema["type"] == "array" && !slices.ContainsFunc(v, func(e any) bool { return !fits(schema["items"].(map[string]any), e) })
	case map[string]any:
		if schema["type"] != "object" {
			return false
		}
		props, _ := schema["properties"].(map[string]any)
		for name, e := range v {
			in, ok := props[name].(map[string]any)
			if !ok {
				in, ok = schema["additionalProperties"].(map[string]any)
			}
			if !ok || !fits(in, e) {
				return false
			}
		}
		required, _ := schema["required"].([]any)
		return !slices.ContainsFunc(required, func(k any) bool { _, ok := v[k.(string)]; return !ok })
	}
	return false
}

// boxed puts a shape that is not an object into one, as providers require.
func (s shape) boxed() shape {
	if s.schema["type"] == "object" {
		return s
	}
	return shape{map[string]any{"type": "object", "properties": map[string]any{"value": s.schema}, "required": []any{"value"}, "additionalProperties": false},
		s.typ, map[string]any{"value": s.value}}
}

// damaged returns a document that does not fit, in one of three ways, or nil if the schema has no such.
func (s shape) damaged(r *rand.Rand, way int) any {
	doc := s.boxed()
	for range 20 {
		var v any
		data, _ := json.Marshal(doc.value)
		_ = json.Unmarshal(data, &v)
		v = damage(r, v, way)
		if !fits(doc.schema, v) {
			return v
		}
	}
	return nil
}

func damage(r *rand.Rand, v any, way int) any {
	m, isMap := v.(map[string]any)
	l, isList := v.([]any)
	switch {
	case isMap && len(m) > 0 && r.IntN(3) > 0:
		k := slices.Sorted(maps.Keys(m))[r.IntN(len(m))]
		m[k] = damage(r, m[k], way)
		return m
	case isList && len(l) > 0 && r.IntN(3) > 0:
		l[0] = damage(r, l[0], way)
		return l
	case way == 0: // another type; no text that spells a value, and no value that spells a text
		return []any{"many", true, 7.0, []any{"many"}, map[string]any{"odd": "many"}}[r.IntN(5)]
	case way == 1 && isMap && len(m) > 0:
		delete(m, slices.Sorted(maps.Keys(m))[r.IntN(len(m))])
	case way == 2 && isMap:
		m["zzz"] = "many"
	}
	return v
}

// The meanings of an answer of the model for the run.
const (
	isValid   = iota
	isInWords // valid if the model was asked for text
	isWrongText
	isWrongCall
	isWork // calls of other tools
	isRefused
)

// anAnswer returns one of the answers that models give, and what it means.
func anAnswer(r *rand.Rand, s shape) (script.Step, int, string) {
	doc, _ := json.Marshal(s.boxed().value)
	text := string(doc)
	switch way := r.IntN(16); way {
	case 0:
		return script.Call("dynamic", text), isValid, "call"
	case 1:
		return script.Say(text), isValid, "text"
	case 2:
		return script.Say("```json\n" + text + "\n```\n"), isValid, "fence"
	case 3:
		if !strings.Contains(text, `"`) {
			return script.Say("I am done."), isWrongText, "words"
		}
		return script.Say("Here it is: " + text + " I hope that helps."), isInWords, "words around"
	case 4:
		return script.Say("I am done: {not} it."), isWrongText, "no JSON"
	case 5, 6, 7:
		v := s.damaged(r, way-5)
		if v == nil {
			return script.Call("dynamic", "["), isWrongCall, "no JSON in a call"
		}
		data, _ := json.Marshal(v)
		return script.Call("dynamic", string(data)), isWrongCall, []string{"wrong type", "missing key", "unknown key"}[way-5]
	case 8:
		v := s.damaged(r, r.IntN(3))
		if v == nil {
			return script.Say(""), isWrongText, "empty text"
		}
		data, _ := json.Marshal(v)
		return script.Say(string(data)), isWrongText, "wrong text"
	case 9:
		return script.Cut("dynamic", text[:r.IntN(len(text))]), isWrongCall, "cut call"
	case 10:
		return script.Say(text[:r.IntN(len(text))]).WithStop(aycoder.StopMaxTokens), isWrongText, "cut text"
	case 11:
		return script.Step{}, isWrongText, "empty"
	case 12:
		return script.Call([]string{"nope", "look"}[r.IntN(2)], `{"path":"a"}`), isWork, "another tool"
	case 13:
		return script.Reply(script.Call("dynamic", text), script.Call("look", `{"path":"no"}`)), isWork, "with a call that fails"
	case 14:
		return script.Think("Hm."), isWrongText, "thinking"
	}
	return script.Say("I won't.").WithStop(aycoder.StopRefusal), isRefused, "refusal"
}

// TestRunAsTorture plays models that answer in all these ways, for 300 random schemas. The
// expected end of each run is computed from the meanings of the answers.
func TestRunAsTorture(t *testing.T) {
	const maxTurns = 8
	rounds := 10
	if timed.Reduced(t) {
		rounds = 1
	}
	seen, ends := map[string]int{}, map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := randomShape(r, 3)
		require.True(t, fits(s.schema, s.value))
		dynamicSchema, _ = json.Marshal(s.schema)
		for range rounds {
			native, repairs := r.IntN(2) == 0, r.IntN(5)
			var steps []script.Step
			var names []string
			want, misses, asked := "", 0, false
			for turn := 1; want == ""; turn++ {
				step, means, name := anAnswer(r, s)
				steps, names = append(steps, step), append(names, name)
				seen[name]++
				if native && (name == "call" || name == "with a call that fails") {
					means = isWrongCall // there is no such tool
				}
				if means == isInWords {
					means = isWrongText
					if native || asked {
						means = isValid
					}
				}
				asked = means == isWrongText
				switch {
				case means == isValid:
					want = "value"
				case means == isRefused:
					want = "refused"
				case means == isWrongText:
					if misses++; misses > repairs || turn == maxTurns {
						want = "gave up"
					}
				case turn == maxTurns:
					want = "turns"
				case means == isWrongCall:
					if misses++; misses > repairs {
						want = "gave up"
					}
				}
			}
			ends[want]++
			m := script.New(steps...)
			client := aycoder.ModelClient(m)
			if native {
				client = nativeTools{nativeOf(m)}
			}
			loop := newLoop(t, client, aycoder.WithLimits(aycoder.Limits{Turns: maxTurns}))
			var got dynamic
			var res aycoder.Result
			var failed error
			for _, err := range generate.RunAs(t.Context(), loop, who, &got, generate.WithRepairs(repairs), generate.WithRun(aycoder.Into(&res))) {
				failed = err
			}
			about := fmt.Sprintf("seed %d: %s, %q, native %v, %d repairs: %v", seed, dynamicSchema, names, native, repairs, failed)
			require.Len(t, m.Requests(), len(steps), about)
			require.NoError(t, aycoder.CheckHistory(res.Messages), about)
			gave, gaveUp := errors.AsType[*generate.Error](failed)
			switch want {
			case "value":
				require.NoError(t, failed, about)
				requireValue(t, s, got.raw, about)
			case "gave up":
				require.True(t, gaveUp, about)
				require.Equal(t, misses, gave.Attempts, about)
				require.NotEmpty(t, gave.Problems)
			case "turns":
				require.True(t, is[*aycoder.LimitError](failed) && !gaveUp, about)
			case "refused":
				require.True(t, is[*aycoder.RefusalError](failed), about)
			}
			require.Equal(t, want == "value", got.raw != nil, about)
		}
	}
	t.Logf("300 schemas, %d runs, answers %v, ends %v", 300*rounds, seen, ends)
	require.GreaterOrEqual(t, len(ends), 3)
	require.GreaterOrEqual(t, len(seen), 16)
}

// requireValue compares what RunAs took with the value, by encoding/json and the Go type of the shape.
func requireValue(t *testing.T, s shape, raw json.RawMessage, about string) {
	t.Helper()
	data, err := json.Marshal(s.value)
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(raw), about)
	got, want := reflect.New(s.typ), reflect.New(s.typ)
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(got.Interface()), about)
	require.NoError(t, json.Unmarshal(data, want.Interface()))
	require.Equal(t, want.Interface(), got.Interface(), about)
}
