package resolve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
)

// declared follows a name from a file to its declaration. If there is none, the file of the result is "".
func (r *pythonIndex) declared(file, name string) Ref {
	if file == "" {
		return Ref{}
	}
	return r.origin.Get(file + "\x00" + name)
}

func (r *pythonIndex) findOrigin(arg string) Ref {
	file, name, _ := strings.Cut(arg, "\x00")
	seen := map[Ref]bool{}
	for todo := []Ref{{To: file, Name: name}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f := r.x.surfaceOf(at.To)
		switch {
		case at.Name == "" || f != nil && declares(f, at.Name):
			return at
		case f != nil && !seen[at]:
			seen[at] = true
			next := r.exports(at, f)
			slices.Reverse(next)
			todo = append(todo, next...)
		}
	}
	return Ref{}
}

// exports returns where a name may come from that a file has without declaring it, the likeliest first:
// from an import of it, an import of everything, or a submodule.
func (r *pythonIndex) exports(at Ref, f *source.Facts) (out []Ref) {
	var all []Ref
	for _, imp := range f.Imports {
		for _, n := range imp.Names {
			switch {
			case n.As == at.Name:
				t, _ := r.taken(at.To, r.module(at.To, f.Script, imp.Path), n)
				out = append(out, Ref{To: t.module.file, Name: t.name})
			case n.As == "" && !strings.HasPrefix(at.Name, "_"):
				all = append(all, Ref{To: r.module(at.To, f.Script, imp.Path).file, Name: at.Name})
			}
		}
	}
	out = append(out, all...)
	if isInit(at.To) {
		sub := r.relative(at.To, 1, at.Name)
		out = append(out, Ref{To: sub.file})
	}
	return slices.DeleteFunc(out, func(o Ref) bool { return o.To == "" })
}

func (r *pythonIndex) refs(file string, f *source.Facts) Refs {
	names := map[string]pyTaken{}
	var all []pyStar
	for _, imp := range f.Imports {
		m := r.module(file, f.Script, imp.Path)
		for _, n := range imp.Names {
			t, _ := r.taken(file, m, n)
			switch _, again := names[n.As]; {
			case n.As == "":
				all = append(all, r.star(m.file))
			case !again && t.module.found():
				names[n.As] = t
			}
		}
	}
	all = all[max(len(all)-maxStars, 0):]
	counts := newRefCounts(0)
	count := func(to Ref, n int32) {
		if to.To != "" && to.To != file {
			counts.add(to.To, to.Name, n)
		}
	}
	for _, t := range names {
		count(r.follow(t, ""), 0)
	}
	for _, u := range f.Uses {
		t, ok := names[cmp.Or(u.Of, u.Name)]
		switch {
		case !ok && !declares(f, cmp.Or(u.Of, u.Name)):
			count(r.anyOf(all, cmp.Or(u.Of, u.Name)), u.Count)
		case ok && u.Of == "":
			count(r.follow(t, ""), u.Count)
		case ok:
			count(r.follow(t, u.Name), u.Count)
		}
	}
	return counts.refs()
}

// A pyStar is a module from which everything is imported.
type pyStar struct {
	file  string
	names map[string]bool // that are bound in it
	open  bool            // it may have others: by importing everything itself, or as submodules
}

// maxStars is how many imports of everything are looked at in a file, the last ones.
const maxStars = 50

func (r *pythonIndex) star(file string) pyStar {
	s := pyStar{file, map[string]bool{}, isInit(file)}
	if file == "" {
		return s
	}
	f := r.x.surfaceOf(file)
	if f == nil {
		return s
	}
	for _, d := range f.Decls {
		if d.Parent < 0 {
			s.names[d.Name] = true
		}
	}
	for _, imp := range f.Imports {
		for _, n := range imp.Names {
			s.names[n.As] = true
			s.open = s.open || n.As == ""
		}
	}
	return s
}

// anyOf looks for a name in the modules from which everything is imported. Most names are in none of them, so the
// answers are not kept.
func (r *pythonIndex) anyOf(all []pyStar, name string) Ref {
	for _, m := range slices.Backward(all) { // the last one binds it
		if !m.open && !m.names[name] || m.file == "" {
			continue
		}
		if o := r.findOrigin(m.file + "\x00" + name); o.To != "" {
			return o
		}
	}
	return Ref{}
}

// follow returns where what an import took is declared, or if it is a module, its attribute.
func (r *pythonIndex) follow(t pyTaken, attribute string) Ref {
	o := Ref{To: t.module.file}
	if t.name != "" {
		if o = r.declared(t.module.file, t.name); o.To == "" {
			return Ref{To: t.module.file}
		}
	}
	if o.Name != "" || attribute == "" {
		return o
	}
	if in := r.declared(o.To, attribute); in.To != "" {
		return in
	}
	if t.name == "" {
		if sub := r.submodule(t.module, attribute); sub.file != "" {
			return Ref{To: sub.file}
		}
	}
	return o
}
