package resolve

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// goIndex resolves Go, by the reference of modules (go.dev/ref/mod) and the specification of the language.
type goIndex struct {
	x      *Index
	module *derive.Query[*goModule]         // by directory: what its go.mod or go.work says, nil without one
	paths  *derive.Query[map[string]string] // by directory: the modules in it and below, by their paths
	owner  *derive.Query[string]            // by directory: that of its module, or ""
	lookup *derive.Query[string]            // by the directory of a module and an import path: the package
	pkg    *derive.Query[*goPackage]        // by directory
	scope  *derive.Query[goScope]           // by file: the directories that its imports name
}

func (r *goIndex) init(x *Index) {
	r.x = x
	r.module = derive.NewQuery(x.table, r.readModule, nil)
	r.paths = derive.NewQuery(x.table, r.findModules, nil)
	r.owner = derive.NewQuery(x.table, r.findOwner, nil)
	r.lookup = derive.NewQuery(x.table, r.findPackage, nil)
	r.pkg = derive.NewQuery(x.table, r.readPackage, nil)
	r.scope = derive.NewQuery(x.table, r.findScope, nil)
}

// A goModule is what a go.mod, or a go.work, says.
type goModule struct {
	path    string
	replace map[string]string // the directories of modules that are replaced by local ones
	use     []string          // the directories that a go.work names
}

func (r *goIndex) readModule(file string) *goModule {
	data := r.x.read(file)
	if data == nil {
		return nil
	}
	m := &goModule{replace: map[string]string{}}
	for verb, args := range goDirectives(string(data)) {
		arrow := slices.Index(args, "=>")
		switch {
		case verb == "module" && len(args) > 0:
			m.path = args[0]
		case verb == "use" && len(args) > 0:
			m.use = append(m.use, path.Join(path.Dir(file), args[0]))
		case verb == "replace" && arrow > 0 && arrow+1 < len(args) && strings.HasPrefix(args[arrow+1], "."):
			m.replace[args[0]] = path.Join(path.Dir(file), args[arrow+1])
		}
	}
	return m
}

// goDirectives returns the directives of a go.mod or go.work.
func goDirectives(text string) func(yield func(verb string, args []string) bool) {
	return func(yield func(string, []string) bool) {
		block := ""
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "//")
			words := strings.Fields(line)
			for i, w := range words {
				words[i] = strings.Trim(w, "\"`")
			}
			switch {
			case len(words) == 0:
			case words[0] == ")":
				block = ""
			case block != "":
				if !yield(block, words) {
					return
				}
			case words[len(words)-1] == "(":
				block = words[0]
			default:
				if !yield(words[0], words[1:]) {
					return
				}
			}
		}
	}
}

// findModules returns the modules of a directory and those below it, by their paths. Of two with the same path,
// the outer one counts. Modules in vendor, in testdata and in directories that begin with . or _ are not
// members of the workspace, as for the patterns of the go command.
func (r *goIndex) findModules(dir string) map[string]string {
	out := map[string]string{}
	if m := r.module.Get(path.Join(dir, "go.mod")); m != nil {
		out[m.path] = dir
	}
	for _, name := range r.x.names(dir) {
		if sub, ok := strings.CutSuffix(name, "/"); ok && !goHidden(sub) {
			for p, d := range r.paths.Get(path.Join(dir, sub)) {
				if _, again := out[p]; !again {
					out[p] = d
				}
			}
		}
	}
	return out
}

func goHidden(dir string) bool {
	return dir == "vendor" || dir == "testdata" || dir == "node_modules" || dir[0] == '.' || dir[0] == '_'
}

// findOwner returns the directory of the module that a directory belongs to, or "".
func (r *goIndex) findOwner(dir string) string {
	if r.x.file(path.Join(dir, "go.mod")) {
		return dir
	}
	if dir == "." {
		return ""
	}
	return r.owner.Get(path.Dir(dir))
}

// directory returns the directory of the package that an import in a file names, or "".
func (r *goIndex) directory(file, importPath string) string {
	owner := r.owner.Get(path.Dir(file))
	if owner == "" || importPath == "C" || importPath == "" {
		return ""
	}
	return r.lookup.Get(owner + "\x00" + importPath)
}

// findPackage looks for a package as the go command does from a module: in the module itself, in those that it
// or the workspace replaces or uses, and in its vendor directory. Last come the other modules of the
// tree, which it may require by a version: their sources are those that somebody who works here sees.
func (r *goIndex) findPackage(arg string) string {
	owner, importPath, _ := strings.Cut(arg, "\x00")
	if dir := r.longest(r.known(owner), importPath); dir != "" {
		return dir
	}
	if dir := path.Join(owner, "vendor", importPath); r.isPackage(dir) {
		return dir
	}
	return r.longest(r.paths.Get("."), importPath)
}

// known returns the modules that a module sees by its configuration.
func (r *goIndex) known(owner string) map[string]string {
	m := r.module.Get(path.Join(owner, "go.mod"))
	out := map[string]string{}
	for dir := owner; ; dir = path.Dir(dir) {
		if w := r.module.Get(path.Join(dir, "go.work")); w != nil && slices.Contains(w.use, owner) {
			for _, use := range w.use {
				if u := r.module.Get(path.Join(use, "go.mod")); u != nil {
					maps.Copy(out, u.replace)
					out[u.path] = use
				}
			}
			maps.Copy(out, w.replace)
		}
		if dir == "." {
			break
		}
	}
	if m != nil {
		maps.Copy(out, m.replace)
		out[m.path] = owner
		if m.path == "std" { // Go's library
			out[""] = owner
		}
	}
	return out
}

// longest returns the directory of a package by the module with the longest path that has it.
func (r *goIndex) longest(modules map[string]string, importPath string) string {
	for p := importPath; ; p = path.Dir(p) {
		if p == "." {
			p = ""
		}
		if dir, ok := modules[p]; ok {
			sub := path.Join(dir, strings.TrimPrefix(importPath, p))
			if r.isPackage(sub) && r.owner.Get(sub) == dir {
				return sub
			}
		}
		if p == "" || p == "/" {
			return ""
		}
	}
}

// isPackage reports whether a directory has sources other than tests.
func (r *goIndex) isPackage(dir string) bool {
	return slices.ContainsFunc(r.x.names(dir), func(n string) bool { return isGoFile(n) && !strings.HasSuffix(n, "_test.go") })
}

// isGoFile reports whether the go command looks at a file.
func isGoFile(name string) bool {
	return strings.HasSuffix(name, ".go") && name[0] != '_' && name[0] != '.'
}

func (r *goIndex) imports(file string, f *source.Facts) []Edge {
	var out []Edge
	for i, imp := range f.Imports {
		if dir := r.directory(file, imp.Path); dir != "" {
			out = append(out, Edge{To: dir + "/", Import: int32(i)})
		}
	}
	return out
}
