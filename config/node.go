package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Source says where a value comes from. The sources below are listed in the order of their precedence.
type Source string

// The sources.
const (
	// Default is the value of a key that nothing sets.
	Default Source = "default"
	// User is the file of the user.
	User Source = "user"
	// Project is the file of the project that is committed with it.
	Project Source = "project"
	// Local is the file of the project that is not committed.
	Local Source = "local"
	// Environment is a variable.
	Environment Source = "environment"
	// Flag is a flag of the command line.
	Flag Source = "flag"
	// Managed is the file of the administrator. It takes precedence, but other sources may restrict more.
	Managed Source = "managed"
)

// theirs reports whether the source comes with the directory that is worked on. The local file does: that it
// is not committed is a custom, and nobody enforces it on the author of an archive or a repository.
func (s Source) theirs() bool { return s == Project || s == Local }

// Origin says where a value comes from.
type Origin struct {
	// Source is the kind of the place.
	Source Source
	// File, Line and Column are the place of a value in a file. See [Diagnostic].
	File         string
	Line, Column int
	// Name is the name of a variable or a flag.
	Name string

	lapsed bool // of a hook that is only kept
}

// String returns the place: "config.toml:3:1", "variable AYCODER_AGENT_MAX_TURNS", "flag -max-turns", or
// "default".
func (o Origin) String() string {
	switch {
	case o.File != "":
		return fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column)
	case o.Source == Environment:
		return "variable " + o.Name
	case o.Name != "":
		return "flag " + o.Name
	}
	return string(o.Source)
}

// A node is a value of a source, with its place. A table has kids, a list has items, and all others have a
// text, and a value unless they are at fault.
type node struct {
	field *field
	key   string
	from  Origin // of the key
	at    Origin // of the value
	text  string
	value any
	kids  map[string]*node
	names []string // of the kids, in the order of the file
	items []*node
	made  manner
	bad   bool // the value was left out

	// mistyped says that the file has another name, and that this one was probably meant.
	mistyped bool
}

// A manner is how a file made a table. It decides what may still be added.
type manner int

const (
	implied  manner = iota // by the header of a table in it
	headed                 // by its own header
	dotted                 // by a dotted key
	assigned               // by a value
)

// faulty reports whether something below the node was left out, so that the whole says nothing.
func (n *node) faulty() bool {
	if n.bad || n.mistyped || slices.ContainsFunc(n.items, (*node).faulty) {
		return true
	}
	for _, kid := range n.kids {
		if kid.faulty() {
			return true
		}
	}
	return false
}

func (n *node) add(name string, kid *node) {
	if n.kids == nil {
		n.kids = map[string]*node{}
	}
	if n.kids[name] == nil {
		n.names = append(n.names, name)
	}
	n.kids[name] = kid
}

func (n *node) remove(name string) {
	delete(n.kids, name)
	n.names = slices.DeleteFunc(n.names, func(s string) bool { return s == name })
}

// find returns the node of a path, or nil.
func (n *node) find(path ...string) *node {
	for _, name := range path {
		if n == nil {
			return nil
		}
		n = n.kids[name]
	}
	return n
}

// each calls f with all values below the node, with empty lists, and with entries that need no key.
func (n *node) each(f func(*node)) {
	for _, name := range n.names {
		n.kids[name].each(f)
	}
	for _, item := range n.items {
		item.each(f)
	}
	if n.value != nil || n.text != "" || n.field.kind == kindList && len(n.items) == 0 || n.empty() {
		f(n)
	}
}

// empty reports whether the node is an entry of a table of names without a key.
func (n *node) empty() bool {
	return n.field.kind == kindTable && n.field.name == "" && n.key != "" && len(n.names) == 0
}

// store sets a Go value to that of the node.
func (n *node) store(v reflect.Value) {
	typ := v.Type()
	switch typ.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v = v.Elem()
	case reflect.Interface:
		typ = n.field.typ
	}
	switch n.field.kind {
	case kindTable:
		n.field.defaults(v)
		for _, name := range n.names {
			n.kids[name].store(v.FieldByIndex(n.field.kid(name).index)) // the kid may be from a profile
		}
		n.mark(v)
	case kindDict:
		all := reflect.MakeMap(typ)
		for _, name := range n.names {
			e := reflect.New(typ.Elem()).Elem()
			n.kids[name].store(e)
			all.SetMapIndex(reflect.ValueOf(name), e)
		}
		v.Set(all)
	case kindList:
		all := reflect.MakeSlice(typ, len(n.items), len(n.items))
		for i, item := range n.items {
			item.store(all.Index(i))
		}
		v.Set(all)
	default:
		if n.value != nil {
			v.Set(reflect.ValueOf(n.value).Convert(v.Type()))
		} else if n.field.kind == kindText {
			v.Set(reflect.ValueOf(n.text).Convert(v.Type())) // as it is in the file, for a question
		}
	}
}

// defaults sets the default values of a table and of those in it.
func (f *field) defaults(v reflect.Value) {
	for _, g := range f.fields {
		text, has := g.tag.Lookup("default")
		switch {
		case g.kind == kindTable:
			g.defaults(v.FieldByIndex(g.index))
		case has:
			value, _ := g.convert(text)
			(&node{field: g, value: value}).store(v.FieldByIndex(g.index))
		}
	}
}

// mark sets the fields of a Go value that say where it comes from.
func (n *node) mark(v reflect.Value) {
	switch e := v.Addr().Interface().(type) {
	case *Rule:
		e.Source = n.from.Source.policy()
	case *Hook:
		e.Origin = n.from
	case *Server:
		e.Origin = n.from
	}
}

// leaves returns all values by their keys.
func (n *node) leaves() map[string]*node {
	all := map[string]*node{}
	n.each(func(l *node) { all[l.key] = l })
	return all
}

// entries adds the places of all entries of lists, and those of the lists.
func (n *node) entries(to map[string]Origin) {
	for i, item := range n.items {
		if to[item.key] = item.from; i == 0 {
			to[n.key] = item.from
		}
		item.entries(to)
	}
	for _, kid := range n.kids {
		kid.entries(to)
	}
}

// rekey sets the keys of a node and of all below it.
func (n *node) rekey(key string) {
	n.key = key
	for name, kid := range n.kids {
		kid.rekey(join(key, name))
	}
	for i, item := range n.items {
		item.rekey(key + "[" + strconv.Itoa(i) + "]")
	}
}

// cut shortens a name or a text of a file for a diagnostic, and makes it one line.
func cut(s string) string {
	q := strconv.Quote(short(s))
	return q[1 : len(q)-1]
}

func short(s string) string {
	if r := []rune(s); len(r) > maxName {
		s = string(r[:maxName]) + "…"
	}
	return s
}

// store returns the Go value of a node.
func store[T any](n *node) T {
	var v T
	n.store(reflect.ValueOf(&v).Elem())
	return v
}
