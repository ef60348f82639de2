package source

import (
	"cmp"
	"slices"
	"strings"
)

// pyNames counts the names that expressions use, except those that a function binds.
//
// A name that is bound anywhere in a function is local to all of it. So uses are collected up to the end of
// a scope; those that it does not bind then belong to the scope around it. Functions do not see the
// names that the class around them binds.
type pyNames struct {
	ids     map[string]int32
	names   []string        // by id: a name, or several with dots
	first   []int32         // by id: the id of the first name
	mark    []int32         // by id: the number of the last scope that was found to bind it
	marks   int32           // how many scopes have been looked at
	list    []pyUse         // the uses in all open scopes, the innermost last
	bound   []int32         // the ids that they bind, negative for those that are declared global
	imports map[string]bool // the names that imports bind, and with true the paths of import a.b
	star    bool            // there is an import of everything
	scopes  []pyScope
}

type pyUse struct {
	id   int32 // 0 if it is not a use after all
	deep bool  // inside of a function in a class, directly in which the names are not visible
}

type pyScope struct {
	class       bool
	list, bound int // where the scope begins
}

func newPyNames() pyNames {
	n := pyNames{ids: map[string]int32{}, imports: map[string]bool{}, scopes: []pyScope{{}}}
	n.id(nil)
	return n
}

// id returns the number of a name.
func (n *pyNames) id(name []byte) int32 {
	id, ok := n.ids[string(name)]
	if !ok {
		id = n.add(string(name))
		n.first[id] = id
	}
	return id
}

// chain returns the number of names with dots, whose first is known.
func (n *pyNames) chain(names []byte, first int32) int32 {
	id, ok := n.ids[string(names)]
	if !ok {
		id = n.add(string(names))
		n.first[id] = first
	}
	return id
}

func (n *pyNames) add(name string) int32 {
	id := int32(len(n.names))
	n.ids[name] = id
	n.names, n.first, n.mark = append(n.names, name), append(n.first, 0), append(n.mark, 0)
	return id
}

// use counts a use, and returns its number.
func (n *pyNames) use(id int32) int32 {
	n.list = append(n.list, pyUse{id: id})
	return int32(len(n.list) - 1)
}

// drop says that a use is not one.
func (n *pyNames) drop(use int32) { n.list[use].id = 0 }

// bind says that the scope binds a name, or with a negative id, that the name belongs to a scope around it.
func (n *pyNames) bind(id int32) { n.bound = append(n.bound, id) }

// local binds a name of a lambda or comprehension, which is taken as one of the function around it.
func (n *pyNames) local(id int32) {
	if last := len(n.scopes) - 1; last > 0 && !n.scopes[last].class {
		n.bind(id)
	}
}

// imported binds a name of an import in the whole file.
func (n *pyNames) imported(name Name) {
	if name.As == "" {
		n.star = true
		return
	}
	first, _, dotted := strings.Cut(name.As, ".")
	n.imports[first] = false
	if dotted {
		n.imports[name.As] = true
	}
}

func (n *pyNames) push(class bool) {
	n.scopes = append(n.scopes, pyScope{class, len(n.list), len(n.bound)})
}

// pop ends the innermost scope.
func (n *pyNames) pop() {
	last := len(n.scopes) - 1
	s, class := n.scopes[last], n.scopes[last-1].class
	n.scopes = n.scopes[:last]
	n.findBound(n.bound[s.bound:])
	kept := n.list[:s.list]
	for _, u := range n.list[s.list:] {
		if local := n.mark[n.first[u.id]] == n.marks; u.id != 0 && (!local || s.class && u.deep) {
			kept = append(kept, pyUse{u.id, class})
		}
	}
	n.list, n.bound = kept, n.bound[:s.bound]
}

// findBound marks the names that a scope binds.
func (n *pyNames) findBound(bound []int32) {
	n.marks++
	for _, id := range bound {
		if id > 0 {
			n.mark[id] = n.marks
		}
	}
	for _, id := range bound {
		if id < 0 {
			n.mark[-id] = 0
		}
	}
}

// uses returns the uses of names that the file binds or imports, or of all names if it may import them.
func (n *pyNames) uses() []Use {
	for len(n.scopes) > 1 {
		n.pop()
	}
	n.findBound(n.bound)
	for name := range n.imports {
		n.mark[n.id([]byte(name))] = n.marks
	}
	count := map[Use]int32{}
	for _, u := range n.list {
		if u.id != 0 && (n.star || n.mark[n.first[u.id]] == n.marks) {
			count[n.split(n.names[u.id])]++
		}
	}
	out := make([]Use, 0, len(count))
	for u, c := range count {
		u.Count = c
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) })
	return out
}

// split returns the use of names with dots: of the longest module that is imported under them, or of the first.
func (n *pyNames) split(names string) Use {
	if n.imports[names] {
		return Use{Name: names}
	}
	for i := strings.LastIndexByte(names, '.'); i >= 0; i = strings.LastIndexByte(names[:i], '.') {
		if n.imports[names[:i]] {
			name, _, _ := strings.Cut(names[i+1:], ".")
			return Use{Of: names[:i], Name: name}
		}
	}
	of, name, dotted := strings.Cut(names, ".")
	if !dotted {
		return Use{Name: of}
	}
	name, _, _ = strings.Cut(name, ".")
	return Use{Of: of, Name: name}
}
