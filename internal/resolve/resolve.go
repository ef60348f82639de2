// Package resolve finds the files that imports lead to and the declarations that names mean, by the rules of
// each language and the configuration in the workspace.
//
// An [Index] computes its answers with package derive, so what a file resolves to depends on what was
// looked at for it and on nothing else: each path that was found or not found, each list of a
// directory, each configuration. After [Index.Changed], only what had looked at the changed paths is
// resolved again, and the answers are those of a new index.
package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// Files are the files of a workspace, at one time. Paths are relative to its root, with slashes.
type Files interface {
	// Facts returns the facts of a source file, or nil if there is no such file or it is not source code.
	Facts(path string) *source.Facts
	// IsFile reports whether there is a regular file, of any kind.
	IsFile(path string) bool
	// Content returns the content of a file, or nil. It is asked only for configuration files.
	Content(path string) []byte
	// List returns the names in a directory, sorted: files, and directories that have files in them, these
	// with a slash at the end. If there is no such directory, it returns nil. The root is ".".
	List(dir string) []string
}

// Edge says that a file imports another.
type Edge struct {
	// To is the file, or, for an import of a package in Go or of a package in Java, its directory with
	// a slash at the end ("./" for the root).
	To string
	// Import is the index of the import in the facts of the file.
	Import int32
	// Optional says that the import does not depend on the file in the usual sense: a mock, an include in
	// a branch that is not compiled, an __init__.py that runs because its package is imported.
	Optional bool
}

// Ref says that a file uses a declaration of another, directly or through re-exports.
type Ref struct {
	// To is the file that declares the name.
	To string
	// Name is the name there. It is "" if the file is used as a whole, for example as a namespace of which
	// nothing is known to be used.
	Name string
	// Count is how often it is used; 0 if it is imported and not used.
	Count int32
}

// Index resolves the files of a workspace. It is not safe for concurrent use.
type Index struct {
	files Files
	table *derive.Table

	facts   *derive.Query[*source.Facts]
	surface *derive.Query[*source.Facts]
	isFile  *derive.Query[bool]
	content *derive.Query[[]byte]
	list    *derive.Query[[]string]

	imports *derive.Query[[]Edge]
	refs    *derive.Query[Refs]

	golang goIndex
	python pythonIndex
	script scriptIndex
	rust   rustIndex
	java   javaIndex
	c      cIndex
}

// New returns an index over files.
func New(files Files) *Index {
	x := &Index{files: files, table: derive.New()}
	x.facts = derive.NewQuery(x.table, files.Facts, nil)
	x.surface = derive.NewQuery(x.table, x.factsOf, sameSurface)
	x.isFile = derive.NewQuery(x.table, files.IsFile, nil)
	x.content = derive.NewQuery(x.table, files.Content, nil)
	x.list = derive.NewQuery(x.table, files.List, nil)
	x.imports = derive.NewQuery(x.table, x.findImports, nil)
	x.refs = derive.NewQuery(x.table, x.findRefs, nil)
	x.golang.init(x)
	x.python.init(x)
	x.script.init(x)
	x.rust.init(x)
	x.java.init(x)
	x.c.init(x)
	return x
}

// Imports returns the files that a file imports, in the order of its imports.
func (x *Index) Imports(file string) []Edge { return x.imports.Get(file) }

// Refs returns the declarations in other files that a file uses.
func (x *Index) Refs(file string) Refs { return x.refs.Get(file) }

// Changed says that a file was written. If it was created or removed, listed is true. All files that differ
// between what Files said before and what it says now must be named before the next question.
func (x *Index) Changed(file string, listed bool) {
	x.facts.Changed(file)
	x.content.Changed(file)
	if !listed {
		return
	}
	x.isFile.Changed(file)
	for dir := file; dir != "."; {
		dir = path.Dir(dir)
		x.list.Changed(dir)
	}
	if x.files.Facts(file) == nil {
		x.imports.Drop(file)
		x.refs.Drop(file)
	}
}

// Stale calls f with the files whose imports or references may be others than when they were asked for
// last.
func (x *Index) Stale(f func(file string)) {
	for arg := range x.table.Stale() {
		f(arg)
	}
}

// A resolver knows the rules of one language.
type resolver interface {
	imports(file string, f *source.Facts) []Edge
	refs(file string, f *source.Facts) Refs
}

func (x *Index) resolver(lang source.Language) resolver {
	switch lang {
	case source.Go:
		return &x.golang
	case source.Python:
		return &x.python
	case source.TypeScript:
		return &x.script
	case source.Rust:
		return &x.rust
	case source.Java:
		return &x.java
	case source.C:
		return &x.c
	}
	return nil
}

func (x *Index) findImports(file string) []Edge {
	if f := x.factsOf(file); f != nil {
		if r := x.resolver(f.Language); r != nil {
			return r.imports(file, f)
		}
	}
	return nil
}

func (x *Index) findRefs(file string) Refs {
	if f := x.factsOf(file); f != nil {
		if r := x.resolver(f.Language); r != nil {
			return r.refs(file, f)
		}
	}
	return Refs{}
}

// Resolvers look at files only with the following methods, which record it.

// factsOf returns the facts of the file that is being resolved.
func (x *Index) factsOf(file string) *source.Facts { return x.facts.Get(file) }

// surfaceOf returns what other files can see of a file: its facts, whose positions and uses may be those of
// an older version. So what looks at a file is not resolved again when only its text has moved.
//
//go:noinline
func (x *Index) surfaceOf(file string) *source.Facts { return x.surface.Get(file) }

// sameSurface reports whether two files look the same to others.
func sameSurface(x, y any) bool {
	a, b := x.(*source.Facts), y.(*source.Facts)
	if a == nil || b == nil {
		return a == b
	}
	return a == b || a.Language == b.Language && a.Package == b.Package && a.Script == b.Script &&
		slices.EqualFunc(a.Imports, b.Imports, func(a, b source.Import) bool {
			return a.Path == b.Path && a.Kind == b.Kind && a.Within == b.Within && slices.Equal(a.Names, b.Names)
		}) &&
		slices.Equal(a.Exports, b.Exports) &&
		slices.EqualFunc(a.Decls, b.Decls, func(a, b source.Decl) bool {
			a.At, a.Body, a.NameAt = b.At, b.Body, b.NameAt
			return a == b
		})
}

func (x *Index) file(p string) bool { return inside(p) && x.isFile.Get(p) }
func (x *Index) read(p string) []byte {
	if !x.file(p) {
		return nil
	}
	return x.content.Get(p)
}

func (x *Index) names(dir string) []string {
	if !inside(dir) {
		return nil
	}
	return x.list.Get(dir)
}

// appendNew appends an element, unless the list has it.
//
//go:noinline
func appendNew[T comparable](list []T, e T) []T {
	if slices.Contains(list, e) {
		return list
	}
	return append(list, e)
}

// inside reports whether a path is one of the workspace: clean, and not above its root.
//
//go:noinline
func inside(p string) bool { return p != ".." && !strings.HasPrefix(p, "../") && !path.IsAbs(p) }
