package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// pythonIndex resolves Python, by "The import system" of its language reference and PEP 420. Where
// modules are looked for is in python_roots.go.
type pythonIndex struct {
	x        *Index
	config   *derive.Query[pyProject]           // by directory
	projects *derive.Query[[]string]            // by directory: the roots of the projects in and below it
	tops     *derive.Query[map[string][]string] // of ".": the roots that have a module, by its name
	roots    *derive.Query[[]pyRoot]            // by directory: the roots for the files in it
	origin   *derive.Query[Ref]                 // by file and name: where it is declared
}

func (r *pythonIndex) init(x *Index) {
	r.x = x
	r.config = derive.NewQuery(x.table, r.readProject, nil)
	r.projects = derive.NewQuery(x.table, r.findProjects, nil)
	r.tops = derive.NewQuery(x.table, r.findTops, nil)
	r.roots = derive.NewQuery(x.table, r.findRoots, nil)
	r.origin = derive.NewQuery(x.table, r.findOrigin, nil)
}

// A pyModule is what the path of a module leads to.
type pyModule struct {
	file    string   // "" for a namespace package
	dirs    []string // where its submodules are
	parents []string // the __init__ files of the packages around it
}

func (m *pyModule) found() bool { return m.file != "" || len(m.dirs) > 0 }

// submodule looks for a module in a package. In a directory, a package with an __init__ file comes before a
// module file. A directory without such a file is a part of a namespace package if no other directory has the
// module (PEP 420). The parts of a package in later directories, which pkgutil.extend_path adds, come last.
func (r *pythonIndex) submodule(in *pyModule, name string) *pyModule {
	out := &pyModule{}
	if in.file != "" && isInit(in.file) {
		out.parents = append(slices.Clip(in.parents), in.file)
	} else {
		out.parents = in.parents
	}
	for _, dir := range in.dirs {
		names := r.x.names(dir)
		if has(names, name+"/") {
			sub := path.Join(dir, name)
			out.dirs = append(out.dirs, sub)
			if out.file == "" {
				out.file = inDir(sub, r.x.names(sub), "__init__")
			}
		}
		if out.file == "" {
			out.file = inDir(dir, names, name)
		}
	}
	if len(out.dirs) > 1 && out.file != "" && isInit(out.file) { // the package itself comes first
		own := path.Dir(out.file)
		out.dirs = append([]string{own}, slices.DeleteFunc(out.dirs, func(d string) bool { return d == own })...)
	} else if out.file != "" && !isInit(out.file) {
		out.dirs = nil
	}
	return out
}

// inDir returns the file of a module in a directory with these names, or "". A stub only counts alone.
func inDir(dir string, names []string, module string) string {
	for _, ext := range []string{".py", ".pyi"} {
		if has(names, module+ext) {
			return path.Join(dir, module+ext)
		}
	}
	return ""
}

func has(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok
}

func isInit(file string) bool { return strings.HasPrefix(path.Base(file), "__init__.py") }

// module looks for a module by the path that an import in a file has.
func (r *pythonIndex) module(file string, script bool, spec string) *pyModule {
	name := strings.TrimLeft(spec, ".")
	if level := len(spec) - len(name); level > 0 {
		return r.relative(file, level, name)
	}
	top, _, _ := strings.Cut(name, ".")
	dir := path.Dir(file)
	var dirs, late []string
	for _, root := range r.roots.Get(dir) {
		if (root.sure || !isLibrary(top)) && (root.only == "" || root.only == top) {
			dirs = appendNew(dirs, root.dir)
		}
	}
	if !isLibrary(top) && (script || !r.packaged(dir)) {
		dirs = append(dirs, dir)
	}
	for _, root := range r.tops.Get(".")[top] {
		if !slices.Contains(dirs, root) {
			late = append(late, root)
		}
	}
	return r.walk(&pyModule{dirs: append(dirs, late...)}, name)
}

// walk looks for a module by its path from a package.
func (r *pythonIndex) walk(m *pyModule, name string) *pyModule {
	for part := range strings.SplitSeq(name, ".") {
		if m = r.submodule(m, part); !m.found() {
			break
		}
	}
	return m
}

// relative looks for a module by a path with dots before it: from the directory of the file, or if the
// package there is one of several parts of a namespace package, from all of them.
func (r *pythonIndex) relative(file string, level int, name string) *pyModule {
	dir := path.Dir(file)
	for range level - 1 {
		if dir == "." {
			return &pyModule{}
		}
		dir = path.Dir(dir)
	}
	m := &pyModule{dirs: []string{dir}, file: inDir(dir, r.x.names(dir), "__init__")}
	if name == "" {
		return m
	}
	if found := r.walk(m, name); found.found() || m.file != "" {
		return found
	}
	for _, root := range r.roots.Get(path.Dir(file)) {
		if rel, ok := strings.CutPrefix(dir, root.dir+"/"); ok && rel[0] != '.' { // which would be relative again
			return r.module(file, false, strings.ReplaceAll(rel, "/", ".")+"."+name)
		}
	}
	return &pyModule{}
}

// packaged reports whether a directory or one around it is a package with an __init__ file.
func (r *pythonIndex) packaged(dir string) bool {
	for ; ; dir = path.Dir(dir) {
		if inDir(dir, r.x.names(dir), "__init__") != "" {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

func (r *pythonIndex) imports(file string, f *source.Facts) []Edge {
	var out []Edge
	for i, imp := range f.Imports {
		m := r.module(file, f.Script, imp.Path)
		edges := edgeList{from: file, index: int32(i)}
		optional := slices.Clip(m.parents)
		for _, n := range imp.Names {
			t, other := r.taken(file, m, n)
			edges.add(t.module.file, false)
			optional = append(append(optional, t.module.parents...), other)
		}
		for _, to := range optional {
			edges.add(to, true)
		}
		out = append(out, edges.list...)
	}
	return out
}

// An edgeList is the edges of one import, to each file once.
type edgeList struct {
	from  string
	index int32
	list  []Edge
}

func (l *edgeList) add(to string, optional bool) {
	if to != "" && to != l.from && !slices.ContainsFunc(l.list, func(e Edge) bool { return e.To == to }) {
		l.list = append(l.list, Edge{to, l.index, optional})
	}
}

// A pyTaken is what an import takes: a module, or a name in it.
type pyTaken struct {
	module *pyModule
	name   string // "" for the module
}

// taken returns what a name of an import from a module means, and the file that it could mean as well: a
// name in an __init__ file comes before a submodule ("The import statement", 5.1).
func (r *pythonIndex) taken(file string, m *pyModule, n source.Name) (t pyTaken, other string) {
	if n.Name == "*" {
		return pyTaken{module: m}, ""
	}
	sub := r.submodule(m, n.Name)
	switch {
	case !sub.found():
	case m.file == "" || m.file == file || !binds(r.x.surfaceOf(m.file), n.Name):
		return pyTaken{module: sub}, m.file
	}
	return pyTaken{m, n.Name}, sub.file
}

// binds reports whether a name is bound at the top of a file, by a declaration or an import.
func binds(f *source.Facts, name string) bool {
	if f == nil {
		return false
	}
	for _, imp := range f.Imports {
		for _, n := range imp.Names {
			if first, _, _ := strings.Cut(n.As, "."); first == name {
				return true
			}
		}
	}
	return declares(f, name)
}

func declares(f *source.Facts, name string) bool {
	return slices.ContainsFunc(f.Decls, func(d source.Decl) bool { return d.Parent < 0 && d.Name == name })
}
