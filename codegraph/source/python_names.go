package source

import "strings"

// pyNames counts the names that expressions use, except those that a function binds.
//
// A name that is bound anywhere in a function is local to all of it. So uses are collected up to the end of
// a scope; those that it does not bind then belong to the scope around it. Functions do not see the
// names that the class around them binds.
type pyNames struct {
	nameTable                 // of names, also of several with dots
	first     []int32         // by id: the id of the first name
	mark      []int32         // by id: the number of the last scope that was found to bind it
	marks     int32           // how many scopes have been looked at
	list      []pyUse         // the uses in all open scopes, the innermost last
	bound     []int32         // the ids that they bind, negative for those that are declared global
	imports   map[string]bool // the names that imports bind, and with true the paths of import a.b
	star      bool            // there is an import of everything
	scopes    []pyScope
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
	return pyNames{
		nameTable: newNameTable(0), first: []int32{0}, mark: []int32{0}, imports: map[string]bool{}, scopes: []pyScope{{}},
	}
}

// id returns the number of a name.
func (n *pyNames) id(name []byte) int32 {
	id := n.nameTable.id(name)
	n.begins(id, id)
	return id
}

// chain returns the number of names with dots, whose first is known.
func (n *pyNames) chain(names []byte, first int32) int32 {
	id := n.nameTable.id(names)
	n.begins(id, first)
	return id
}

// begins notes the first name of names, if they are new.
func (n *pyNames) begins(id, first int32) {
	if int(id) == len(n.first) {
		n.first, n.mark = append(n.first, first), append(n.mark, 0)
	}
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
	times := make([]int32, len(n.names))
	for _, u := range n.list {
		if u.id != 0 && (n.star || n.mark[n.first[u.id]] == n.marks) {
			times[u.id]++
		}
	}
	count := newUseCount(0)
	for id, times := range times {
		if times > 0 {
			of, name := n.split(n.names[id])
			count.add(key(n.nameTable.id([]byte(of)), n.nameTable.id([]byte(name))), times)
		}
	}
	return count.uses(n.names)
}

// split returns the use of names with dots: of the longest module that is imported under them, or of the first.
func (n *pyNames) split(names string) (of, name string) {
	if n.imports[names] {
		return "", names
	}
	for i := strings.LastIndexByte(names, '.'); i >= 0; i = strings.LastIndexByte(names[:i], '.') {
		if n.imports[names[:i]] {
			name, _, _ := strings.Cut(names[i+1:], ".")
			return names[:i], name
		}
	}
	of, name, dotted := strings.Cut(names, ".")
	if !dotted {
		return "", of
	}
	name, _, _ = strings.Cut(name, ".")
	return of, name
}
