package resolve

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
)

// A scriptSurface is what a file exports: names that it declares, under the name of the declaration, names of
// other files, and files all of whose names it exports.
type scriptSurface struct {
	local map[string]string
	from  map[string]Ref // the file, or "" if it is not in the workspace, and the name there; "*" is all of it
	stars []string       // also with "" for what is not in the workspace
}

func (r *scriptIndex) findExports(file string) *scriptSurface {
	f := r.x.surfaceOf(file)
	if f == nil || f.Language != source.TypeScript {
		return nil
	}
	s := &scriptSurface{local: map[string]string{}, from: map[string]Ref{}}
	targets := map[int32]string{}
	for _, e := range r.x.imports.Get(file) {
		targets[e.Import] = e.To
	}
	for _, d := range f.Decls {
		if d.Exported && d.Parent < 0 {
			s.local[d.Name] = d.Name
		}
	}
	for _, e := range f.Exports {
		to := targets[max(e.Import, 0)]
		switch {
		case e.Import < 0:
			s.local[e.Name] = e.Local
		case e.Name == "*":
			s.stars = append(s.stars, to)
		default:
			s.from[e.Name] = Ref{To: to, Name: e.Local}
		}
	}
	return s
}

// findDeclared finds where an exported name of a file is declared, given as the file, a zero byte and the
// name. If no file is known to have it, the answer is the file as a whole. If the declaration is, or may be,
// outside of the workspace, it is the zero value.
func (r *scriptIndex) findDeclared(arg string) Ref {
	file, name, _ := strings.Cut(arg, "\x00")
	seen, outside := map[Ref]bool{}, false
	for todo := []Ref{{To: file, Name: name}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		if at.To == "" {
			outside = true
			continue
		}
		s := r.exports.Get(at.To)
		if s == nil || at.Name == "*" {
			return Ref{To: at.To}
		}
		if from, ok := s.from[at.Name]; ok {
			todo = append(todo, from)
			continue
		}
		if local, ok := s.local[at.Name]; ok {
			return Ref{To: at.To, Name: local}
		}
		if at.Name != "default" {
			for _, star := range slices.Backward(s.stars) {
				todo = append(todo, Ref{To: star, Name: at.Name})
			}
		}
	}
	if outside {
		return Ref{}
	}
	return Ref{To: file}
}

func (r *scriptIndex) refs(file string, f *source.Facts) Refs {
	counts := newRefCounts(0)
	uses := map[string]int32{} // by name, alone
	members := map[string][]source.Use{}
	for _, u := range f.Uses {
		if u.Of == "" {
			uses[u.Name] += u.Count
		} else {
			members[u.Of] = append(members[u.Of], u)
		}
	}
	add := func(to, name string, n int32) {
		ref := r.declared.Get(to + "\x00" + name)
		if ref.To != file && ref.To != "" {
			counts.add(ref.To, ref.Name, n)
		}
	}
	for _, e := range r.x.imports.Get(file) {
		if e.Optional {
			continue
		}
		for _, n := range f.Imports[e.Import].Names {
			switch {
			case n.Name != "*":
				total := uses[n.As]
				for _, u := range members[n.As] {
					total += u.Count
				}
				if n.As == "" {
					total = 0
				}
				add(e.To, n.Name, total)
			case n.As == "": // export *
			default:
				for _, u := range members[n.As] {
					add(e.To, u.Name, u.Count)
				}
				if uses[n.As] > 0 || members[n.As] == nil {
					add(e.To, "*", uses[n.As])
				}
			}
		}
	}
	return counts.refs()
}
