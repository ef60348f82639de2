package compat

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A decoder decodes a document into the types of an SDK and records every misfit. The
// decoders of the SDKs cannot do this: they are made for answers, ignore unknown fields,
// and take the first variant of a union without a contradiction.
type decoder struct {
	rules
	wrong  []string
	passed int // misfits that the service itself has sent
}

// rules describe the types of an SDK, and the accepted misfits.
type rules struct {
	// known has the values of string types, by package and name of the type.
	known map[string][]string
	// sent reports whether the service itself has sent a value: the SDK may not know
	// everything that must go back unchanged. Default: nothing was sent.
	sent func(doc any) bool
	// variants are the structures that implement an interface.
	variants map[reflect.Type][]reflect.Type
	// open makes the values of interfaces that hold any document.
	open map[reflect.Type]func(doc any) any
	// name returns the name of a field in a document, or "" if it has none. Default: the
	// name in its tag.
	name func(reflect.StructField) string
}

// strictly decodes data into v, a pointer, and returns the misfits and the number of
// accepted ones.
func strictly(rules rules, data []byte, v any) (wrong []string, passed int) {
	doc, err := parse(data)
	if err != nil {
		return []string{err.Error()}, 0
	}
	d := &decoder{rules: rules}
	d.value("", reflect.ValueOf(v).Elem(), doc)
	return d.wrong, d.passed
}

func (d *decoder) fail(at, format string, args ...any) {
	d.wrong = append(d.wrong, at+": "+fmt.Sprintf(format, args...))
}

func (d *decoder) value(at string, v reflect.Value, doc any) {
	t := v.Type()
	switch kind := t.Kind(); {
	case kind == reflect.Pointer && doc != nil:
		v.Set(reflect.New(t.Elem()))
		d.value(at, v.Elem(), doc)
	case kind == reflect.Interface && d.open[t] != nil:
		v.Set(reflect.ValueOf(d.open[t](doc)))
	case kind == reflect.Interface && d.variants[t] != nil:
		d.variant(at, v, d.variants[t], doc)
	case kind == reflect.Struct && embeds(t, "APIUnion"):
		d.union(at, v, doc)
	case kind == reflect.Struct && (embeds(t, "APIObject") || !encodesItself(t)):
		d.structure(at, v, doc)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !encodesItself(t):
		d.list(at, v, doc)
	case kind == reflect.Map && t.Elem().Kind() != reflect.Interface:
		d.table(at, v, doc)
	default:
		d.plain(at, v, doc)
	}
}

// embeds reports whether a type embeds another: the SDKs that Stainless generates mark
// their structures and unions so.
func embeds(t reflect.Type, name string) bool {
	for f := range t.Fields() {
		if f.Anonymous && f.Type.Name() == name {
			return true
		}
	}
	return false
}

func encodesItself(t reflect.Type) bool {
	m := reflect.TypeFor[json.Marshaler]()
	return t.Implements(m) || reflect.PointerTo(t).Implements(m)
}

// union sets the variant that fits, the first in the order of the SDK.
func (d *decoder) union(at string, v reflect.Value, doc any) {
	best := []string{at + ": no variant of " + v.Type().Name()}
	least := math.MaxInt
	if doc == nil {
		best = nil // of a field that need not be there
	}
	for f, fv := range v.Fields() {
		if !strings.HasPrefix(f.Name, "Of") || doc == nil {
			continue
		}
		fits := d.try(at+"("+f.Name+")", fv, doc)
		if len(fits) == 0 {
			return
		}
		fv.SetZero()
		if n := misfit(fits) + meant(f.Type, doc); n < least {
			best, least = fits, n
		}
	}
	if len(best) > 0 && d.sent != nil && d.sent(doc) {
		d.passed++
		return
	}
	d.wrong = append(d.wrong, best...)
}

// misfit returns the distance between a document and a variant. A failing union reports the
// errors of the nearest variant, whose form and constants the document has.
func misfit(wrong []string) int {
	n := 0
	for _, w := range wrong {
		n++
		if strings.Contains(w, ", must be ") || strings.Contains(w, "cannot unmarshal") || strings.Contains(w,
			"is read from") ||
			strings.Contains(w, " knows ") {
			n += 1000
		}
	}
	return n
}

// meant returns a small value for a variant with the constant of the document.
func meant(t reflect.Type, doc any) int {
	m, ok := doc.(map[string]any)
	if !ok || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return 1
	}
	f, ok := t.Elem().FieldByName("Type")
	if ok && f.Tag.Get("default") != "" && f.Tag.Get("default") == m["type"] {
		return 0
	}
	return 100
}

// variant is union for unions that are interfaces.
func (d *decoder) variant(at string, v reflect.Value, types []reflect.Type, doc any) {
	m, _ := doc.(map[string]any)
	for _, t := range types {
		_, name, _ := strings.Cut(t.Name(), "Member")
		inner, ok := m[lower(name)]
		if !ok || len(m) != 1 {
			continue
		}
		p := reflect.New(t)
		d.value(at+"."+lower(name), p.Elem().FieldByName("Value"), inner)
		v.Set(p)
		return
	}
	d.fail(at, "no variant of %s: %v", v.Type().Name(), doc)
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// try decodes and returns the misfits.
func (d *decoder) try(at string, v reflect.Value, doc any) []string {
	sub := &decoder{rules: d.rules}
	sub.value(at, v, doc)
	if len(sub.wrong) == 0 {
		d.passed += sub.passed
	}
	return sub.wrong
}

// fieldName returns the name of a field in a document, or "" if it has none.
func (d *decoder) fieldName(f reflect.StructField) string {
	if d.name != nil {
		return d.name(f)
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" {
		return ""
	}
	return name
}

// structure decodes the fields. A field with a default must have that value.
func (d *decoder) structure(at string, v reflect.Value, doc any) {
	m, ok := doc.(map[string]any)
	if !ok {
		d.fail(at, "%s is read from %v", v.Type().Name(), doc)
		return
	}
	seen := map[string]bool{}
	for f, fv := range v.Fields() {
		name := d.fieldName(f)
		if name == "" {
			continue
		}
		seen[name] = true
		d.field(at, f, fv, m)
	}
	extra := v.FieldByName("ExtraFields")
	for name, inner := range m {
		switch {
		case seen[name]:
		case extra.IsValid() && extra.Kind() == reflect.Map:
			if extra.IsNil() {
				extra.Set(reflect.MakeMap(extra.Type()))
			}
			e := reflect.New(extra.Type().Elem()).Elem()
			d.value(at+"."+name, e, inner)
			extra.SetMapIndex(reflect.ValueOf(name), e)
		default:
			d.fail(at+"."+name, "is no field of %s: %v", v.Type().Name(), inner)
		}
	}
}

func (d *decoder) field(at string, f reflect.StructField, v reflect.Value, m map[string]any) {
	name := d.fieldName(f)
	at += "." + name
	doc, there := m[name]
	fixed := f.Tag.Get("default")
	required := f.Tag.Get("api") == "required" || fixed != "" && !strings.Contains(f.Tag.Get("json"), "omitzero")
	switch {
	case !there && strings.HasSuffix(at, "(OfReasoning).id"):
		// The type requires the id. If nothing is stored, the service accepts an encrypted
		// item without one, as most recorded clients send it. With an id, it looks for the
		// next item under an id that is not stored either.
	case !there && required:
		d.fail(at, "is missing")
	case !there:
	case doc == nil && required && !isOptional(f.Type):
		d.fail(at, "is null")
	case fixed != "" && doc != fixed && f.Type.Kind() == reflect.String:
		d.fail(at, "is %v, must be %q", doc, fixed)
	default:
		d.value(at, v, doc)
	}
}

func isOptional(t reflect.Type) bool {
	return strings.HasSuffix(t.PkgPath(), "/packages/param") && strings.HasPrefix(t.Name(), "Opt[")
}

func (d *decoder) list(at string, v reflect.Value, doc any) {
	list, ok := doc.([]any)
	if !ok {
		d.fail(at, "list is read from %v", doc)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i := range list {
		d.value(fmt.Sprintf("%s[%d]", at, i), v.Index(i), list[i])
	}
}

func (d *decoder) table(at string, v reflect.Value, doc any) {
	m, ok := doc.(map[string]any)
	if !ok {
		d.fail(at, "map is read from %v", doc)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for name, inner := range m {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(at+"."+name, e, inner)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), e)
	}
}

// plain decodes a value without a structure in the SDK. Encoded again, it must be the same.
func (d *decoder) plain(at string, v reflect.Value, doc any) {
	data, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(data, v.Addr().Interface())
	}
	var back []byte
	if err == nil {
		back, err = json.Marshal(v.Addr().Interface())
	}
	if err != nil && d.sent != nil && d.sent(doc) {
		d.passed++
		return
	}
	if err != nil {
		d.fail(at, "%v", err)
		return
	}
	if got, err := parse(back); err != nil || !same(got, doc) {
		d.fail(at, "is %s, read as %s", data, back)
	}
	typ := v.Type().PkgPath() + "." + v.Type().Name()
	if known := d.known[typ]; v.Kind() == reflect.String && len(known) > 0 && !slices.Contains(known, v.String()) {
		d.fail(at, "is %q, %s knows %q", v.String(), typ, known)
	}
}

// A decoder that finds nothing proves nothing, so it must find these.
func TestStrictly(t *testing.T) {
	type inner struct {
		Kind string `json:"kind" default:"inner"`
	}
	type outer struct {
		Name  string         `json:"name" api:"required"`
		Inner []inner        `json:"inner"`
		Any   map[string]any `json:"any"`
		Data  []byte         `json:"data"`
		More  map[string]int `json:"more"`
	}
	for _, c := range []struct{ name, doc, want string }{
		{"same", `{"name":"a","inner":[{"kind":"inner"}],"any":{"a":[1.0,null]},"data":"AQI=","more":{"a":1}}`, ""},
		{"unknown field", `{"name":"a","other":1}`, ".other: is no field of outer: 1"},
		{"unknown field inside", `{"name":"a","inner":[{"kind":"inner","x":1}]}`, ".inner[0].x: is no field of inner: 1"},
		{"missing field", `{}`, ".name: is missing"},
		{"missing constant", `{"name":"a","inner":[{}]}`, ".inner[0].kind: is missing"},
		{"wrong constant", `{"name":"a","inner":[{"kind":"x"}]}`, `.inner[0].kind: is x, must be "inner"`},
		{"wrong base64", `{"name":"a","data":"AQJ="}`, `.data: is "AQJ=", read as "AQI="`},
		{"wrong type", `{"name":1}`, ".name: json: cannot unmarshal number into Go value of type string"},
		{"no list", `{"name":"a","inner":{}}`, ".inner: list is read from map[]"},
		{"no integer", `{"name":"a","more":{"a":1.5}}`,
			".more.a: json: cannot unmarshal number 1.5 into Go value of type int"},
		{"null", `{"name":null}`, ".name: is null"},
		{"twice", `{"name":"a","name":"b"}`, `key "name" is there twice`},
		{"two documents", `{"name":"a"} {}`, "something follows the document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v outer
			wrong, _ := strictly(rules{}, []byte(c.doc), &v)
			require.Equal(t, c.want, strings.Join(wrong, "\n"))
		})
	}
}
