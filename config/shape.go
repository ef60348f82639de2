package config

import (
	_ "embed"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A kind is what a value of a key looks like in a file.
type kind string

const (
	kindText     kind = "text"
	kindInteger  kind = "an integer"
	kindNumber   kind = "a number"
	kindTruth    kind = "true or false"
	kindDuration kind = `a duration, such as "30s"`
	kindList     kind = "a list"
	kindTable    kind = "a table"
	kindDict     kind = "a table of names"
	kindFree     kind = "a value of JSON" // of a key that another program defines
)

// maxFree bounds how deep such values can be in each other: the full name of a key has all names.
const maxFree = 32

// A field is a key that may be in a file, or the document itself. Fields are made from the types of
// this package and their tags, so that there is no other list of the keys:
//
//   - toml: the name of the key.
//   - required: a table without the key is an error.
//   - default: the value without the key, as text.
//   - min, max: bounds, beyond which a value is an error.
//   - low, high: bounds of what makes sense, beyond which a value is a warning.
//   - enum: the possible values, separated by "|". A type with a method values has them as well.
//   - form: "address", "expression" or "path", which the text must be unless it is empty.
//   - literal: ${VAR} in the value means nothing.
//   - tight: in which direction a value restricts more: "lower" for numbers, "limit" for integers that limit
//     nothing unless they are positive, "later" for a value that comes later in enum, or else the only value that restricts.
//   - project: whether a file of a project may set the key. Without the tag it may not, so that
//     a forgotten tag grants nothing. "any" permits each value, "tighter" one that restricts more
//     than the value in force, "add" items of a list that adds up over all files, and any other
//     text only the values in it, separated by "|". Elements that are asked about (see asker) may
//     have all keys.
type field struct {
	name    string
	typ     reflect.Type
	index   []int // of the Go field
	kind    kind
	doc     string
	fields  []*field // of a table
	elem    *field   // of a list or a table of names
	enum    []string
	min     *bound
	max     *bound
	low     *bound
	high    *bound
	tag     reflect.StructTag
	asks    bool // the element is an asker, or in one
	project string
	free    bool            // the value is any value of JSON, or in one
	kinds   map[kind]*field // of kindFree, by the kind of the value
}

// A bound is a limit of a value with its text.
type bound struct {
	value any
	text  string
}

// An asker is an element that runs something or connects somewhere. If it comes from a project, the
// user is asked first.
type asker interface{ ask() Question }

// A valuer is a text with few possible values.
type valuer interface{ values() []string }

// shape returns the document with all keys, which does not change.
var shape = sync.OnceValue(func() *field {
	root := &field{typ: reflect.TypeFor[Config]()}
	root.fill(comments())
	return root
})

// fill sets what follows from the type and the tags.
func (f *field) fill(docs map[string]string) {
	t := f.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f.kind = kindOf(t)
	switch f.kind {
	case kindTable:
		f.asks = f.asks || t.Implements(reflect.TypeFor[asker]())
		f.table(t, nil, docs)
	case kindList, kindDict:
		f.elem = &field{typ: t.Elem(), tag: f.tag, asks: f.asks, project: f.project}
		f.elem.fill(docs)
	case kindFree:
		*f = *freeField()
	}
	if v, ok := reflect.Zero(t).Interface().(valuer); ok {
		f.enum = v.values()
	}
	if text := f.tag.Get("enum"); text != "" && f.kind == kindText {
		f.enum = strings.Split(text, "|")
	}
	f.min, f.max, f.low, f.high = f.bound("min"), f.bound("max"), f.bound("low"), f.bound("high")
}

func kindOf(t reflect.Type) kind {
	if t == reflect.TypeFor[time.Duration]() {
		return kindDuration
	}
	switch t.Kind() {
	case reflect.String:
		return kindText
	case reflect.Bool:
		return kindTruth
	case reflect.Float64:
		return kindNumber
	case reflect.Int, reflect.Int64:
		return kindInteger
	case reflect.Slice:
		return kindList
	case reflect.Map:
		return kindDict
	case reflect.Interface:
		return kindFree
	}
	return kindTable
}

// freeField returns the field of a value that may be any value of JSON.
func freeField() (f *field) {
	for range maxFree { // from the innermost on, so that a document makes no fields
		outer := &field{typ: reflect.TypeFor[any](), kind: kindFree, free: true, kinds: map[kind]*field{}}
		for _, k := range []kind{kindText, kindInteger, kindNumber, kindTruth} {
			outer.kinds[k] = &field{typ: outer.typ, kind: k, free: true}
		}
		if f != nil {
			outer.kinds[kindTable] = &field{typ: reflect.TypeFor[map[string]any](), kind: kindDict, elem: f, free: true}
			outer.kinds[kindList] = &field{typ: reflect.TypeFor[[]any](), kind: kindList, elem: f, free: true}
		}
		f = outer
	}
	return f
}

// as returns the field for a value of a kind, which is another one only if f is that of any value.
func (f *field) as(k kind) *field {
	if g := f.kinds[k]; g != nil {
		return g
	}
	return f
}

// table adds the fields of a struct, also those that it embeds.
func (f *field) table(t reflect.Type, index []int, docs map[string]string) {
	for g := range t.Fields() {
		at := append(slices.Clip(index), g.Index...)
		name := g.Tag.Get("toml")
		switch {
		case g.Anonymous:
			f.table(g.Type, at, docs)
		case name != "-":
			kid := &field{
				name: name, typ: g.Type, index: at, tag: g.Tag, doc: docs[t.Name()+"."+g.Name],
				asks: f.asks, project: g.Tag.Get("project"),
			}
			kid.fill(docs)
			f.fields = append(f.fields, kid)
		}
	}
}

// bound returns the value of a tag, or nil.
func (f *field) bound(tag string) *bound {
	text := f.tag.Get(tag)
	if text == "" || f.kind == kindList || f.kind == kindDict || f.kind == kindTable {
		return nil
	}
	v, problem := f.convert(text)
	if problem != "" {
		panic("config: tag " + tag + " of " + f.name + " " + problem)
	}
	return &bound{v, text}
}

// kid returns the field of a key of a table, or nil.
func (f *field) kid(name string) *field {
	if f.kind == kindDict {
		return f.elem
	}
	i := slices.IndexFunc(f.fields, func(g *field) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return f.fields[i]
}

// names returns the names of the keys of a table.
func (f *field) names() []string {
	var out []string
	for _, g := range f.fields {
		out = append(out, g.name)
	}
	return out
}

// holds reports whether the value has others in it.
func (f *field) holds() bool { return f.kind == kindTable || f.kind == kindDict }

// contains reports whether the value is a table, or a list of tables.
func (f *field) contains() bool { return f.holds() || f.kind == kindList && f.elem.holds() }

// adds reports whether the lists of all files add up.
func (f *field) adds() bool { return f.kind == kindList && (f.project == "add" || f.elem.asks) }

// source is the file with the types, whose comments also describe the keys to editors.
//
//go:embed config.go
var source string

// comments returns the comments of all fields by "Type.Field". The file is formatted, so that each field
// and each comment has its own line.
func comments() map[string]string {
	docs := map[string]string{}
	var typ string
	var doc []string
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\r\n")
		rest, inside := strings.CutPrefix(line, "\t")
		text, comment := strings.CutPrefix(rest, "// ")
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "type ") && len(words) > 1:
			typ = words[1]
		case inside && comment:
			doc = append(doc, text)
			continue
		case inside && len(words) > 1 && doc != nil:
			docs[typ+"."+words[0]] = strings.Join(doc, " ")
		}
		doc = nil
	}
	return docs
}

// join returns the key of a name in a table.
func join(key, name string) string {
	if !bare(name) {
		name = strconv.Quote(name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}

// bare reports whether a key needs no quotes.
func bare(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}
