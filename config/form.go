package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Form says how to read another file of a project, in the form of another program: see [WithForms].
type Form struct {
	// File is the file, relative to the project and with slashes, such as ".mcp.json".
	File string
	// Parse reads its contents, which may be anything.
	Parse func(data []byte) Parts
}

// Parts are what a [Form] has found. The lines and columns in the origins are those of the file, and no two parts of
// a kind have the same.
type Parts struct {
	Hooks []Hook
	// Servers may have ${VAR} and ${VAR:-default} in all of their texts.
	Servers map[string]Server
	// Problems say what is not understood, and where.
	Problems []Diagnostic
}

// WithForms adds files of the project in other forms, which need not exist. Their hooks follow those of the
// configuration; a server of the configuration with the same name comes before theirs. Each part is off until the
// user trusts it. It appends. Default: none.
func WithForms(forms ...Form) Option {
	return set(func(s *setup) { s.forms = append(s.forms, forms...) })
}

// formFiles returns the files of the forms.
func (s *setup) formFiles() []file {
	var out []file
	for _, f := range s.forms {
		if s.project != "" {
			out = append(out, s.inProject(Project, f.File))
		}
	}
	return out
}

// readForms adds what the files of the forms have, like elements of the project's own file.
func (l *loader) readForms() {
	hook, server := l.doc.kid("hooks").elem, l.doc.kid("servers").elem
	for i, f := range l.formFiles() {
		data, ok := l.contents(f)
		if !ok {
			continue
		}
		at := func(line, column int) Origin {
			return Origin{Source: Project, File: f.name, Line: line, Column: column}
		}
		parts := l.forms[i].Parse(data)
		for _, p := range parts.Problems {
			l.add(Warning, p.Key, at(p.Line, p.Column), p.Message, p.Help)
		}
		for _, h := range parts.Hooks {
			n := hook.nodeOf(reflect.ValueOf(h), "hook "+string(h.Event), at(h.Origin.Line, h.Origin.Column))
			if l.part(f, n) {
				list := l.root("hooks")
				list.items = append(list.items, n)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(parts.Servers)) {
			s := parts.Servers[name]
			n := server.nodeOf(reflect.ValueOf(s), join("servers", name), at(s.Origin.Line, s.Origin.Column))
			switch {
			case s.Disabled:
			case l.tree.find("servers", name) != nil:
				l.add(Warning, n.key, n.from, "is left out: there is another of this name", "")
			case l.part(f, n):
				l.root("servers").add(name, n)
			}
		}
	}
}

// root returns the node of a key of the document, which it makes if it is missing.
func (l *loader) root(name string) *node {
	if l.tree.kids[name] == nil {
		l.tree.add(name, &node{field: l.doc.kid(name), key: name})
	}
	return l.tree.kids[name]
}

// part reports whether the user trusts a part of a form, and whether the variables that it needs are there.
func (l *loader) part(f file, n *node) bool {
	if !l.element(f, n, &l.report) {
		return false
	}
	var r report
	if r.expand(n, l.lookup); r.failed {
		l.add(Warning, n.key, n.from, "is off: it "+r.faults[0].Message, r.faults[0].Help)
	}
	return !r.failed
}

// nodeOf returns a Go value as a node. A zero is a key that is not there.
func (f *field) nodeOf(v reflect.Value, key string, at Origin) *node {
	n := &node{field: f, key: key, from: at, at: at}
	switch f.kind {
	case kindTable:
		for _, g := range f.fields {
			if kid := v.FieldByIndex(g.index); !kid.IsZero() {
				n.add(g.name, g.nodeOf(kid, join(key, g.name), at))
			}
		}
	case kindDict:
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			n.add(k.String(), f.elem.nodeOf(v.MapIndex(k), join(key, k.String()), at))
		}
	case kindList:
		for i := range v.Len() {
			n.items = append(n.items, f.elem.nodeOf(v.Index(i), fmt.Sprintf("%s[%d]", key, i), at))
		}
	case kindText:
		if n.text = v.String(); !n.variable() {
			n.value = n.text
		}
	default:
		n.value = v.Interface()
	}
	return n
}
