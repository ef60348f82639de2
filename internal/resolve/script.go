package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// scriptIndex resolves TypeScript and JavaScript. It follows the resolution of TypeScript for bundlers and for
// Node.js (https://www.typescriptlang.org/docs/handbook/modules/reference.html) and that of Node.js
// (https://nodejs.org/api/esm.html#resolution-algorithm-specification). It differs in two points, since
// a workspace is seen as it is in version control: packages of the workspace are found by their names, as if
// they were linked into node_modules, and a file that is not built yet stands for its source.
type scriptIndex struct {
	x *Index

	json     *derive.Query[*jsonValue]        // by file
	pkg      *derive.Query[*scriptPackage]    // by directory
	scope    *derive.Query[string]            // by directory: that of the nearest package.json
	members  *derive.Query[map[string]string] // by directory of a workspace: packages by name
	nearest  *derive.Query[string]            // by directory: the nearest tsconfig.json
	config   *derive.Query[*scriptConfig]     // by file
	project  *derive.Query[string]            // by source file: its tsconfig.json
	exports  *derive.Query[*scriptSurface]    // by source file
	declared *derive.Query[Ref]               // by source file and name: where the name is declared
}

func (r *scriptIndex) init(x *Index) {
	r.x = x
	r.json = derive.NewQuery(x.table, func(file string) *jsonValue { return parseJSON(x.read(file)) }, nil)
	r.pkg = derive.NewQuery(x.table, r.findPackage, nil)
	r.scope = derive.NewQuery(x.table, func(dir string) string { return r.above(dir, "package.json") }, nil)
	r.members = derive.NewQuery(x.table, r.findMembers, nil)
	r.nearest = derive.NewQuery(x.table, func(dir string) string { return r.above(dir, "tsconfig.json", "jsconfig.json") }, nil)
	r.config = derive.NewQuery(x.table, r.findConfig, nil)
	r.project = derive.NewQuery(x.table, r.findProject, nil)
	r.exports = derive.NewQuery(x.table, r.findExports, nil)
	r.declared = derive.NewQuery(x.table, r.findDeclared, nil)
}

// above returns the first file of the given names in a directory or, if it has none, one above it. It
// returns "" if there is none.
func (r *scriptIndex) above(dir string, names ...string) string {
	for {
		for _, name := range names {
			if p := path.Join(dir, name); r.x.file(p) {
				return p
			}
		}
		if dir == "." {
			return ""
		}
		dir = path.Dir(dir)
	}
}

func (r *scriptIndex) imports(file string, f *source.Facts) (edges []Edge) {
	for i, imp := range f.Imports {
		if to := r.resolve(file, imp.Path); to != "" {
			edges = append(edges, Edge{to, int32(i), imp.Kind == source.Mock})
		}
	}
	return edges
}

// resolve returns the file that an import leads to, or "".
func (r *scriptIndex) resolve(file, spec string) string {
	spec, _, _ = strings.Cut(spec, "?") // for bundlers: how to load it
	dir := path.Dir(file)
	switch {
	case spec == "" || strings.HasPrefix(spec, "/"):
		return ""
	case spec == "." || spec == ".." || strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../"):
		return r.relative(file, spec)
	case spec[0] == '#':
		return r.private(dir, spec)
	}
	if to := r.mapped(file, spec); to != "" {
		return to
	}
	return r.bare(dir, spec)
}

// relative resolves a path that begins with a dot.
func (r *scriptIndex) relative(file, spec string) string {
	p := path.Join(path.Dir(file), spec)
	base := path.Base(spec)
	if base == "." || base == ".." || strings.HasSuffix(spec, "/") {
		return r.directory(p)
	}
	if to := r.fileOrDirectory(p); to != "" {
		return to
	}
	if to := r.rooted(file, p); to != "" || !inside(p) {
		return to
	}
	return r.fromBuild(p)
}

// fileOrDirectory resolves a path without regard to what is a package.
func (r *scriptIndex) fileOrDirectory(p string) string {
	if to := r.source(p); to != "" {
		return to
	}
	return r.directory(p)
}

// substitutes are the extensions that a file may have instead of the one in an import of it, in the order in
// which TypeScript tries them. See "File extension substitution" in its reference of modules.
var substitutes = map[string][]string{
	".js":  {".ts", ".tsx", ".d.ts", ".js", ".jsx"},
	".jsx": {".tsx", ".ts", ".d.ts", ".jsx", ".js"},
	".mjs": {".mts", ".d.mts", ".mjs"},
	".cjs": {".cts", ".d.cts", ".cjs"},
}

// extensions are those that an import may leave out.
var extensions = []string{".ts", ".tsx", ".d.ts", ".js", ".jsx", ".json"}

// source returns the file that a path names, perhaps with another extension, or "".
func (r *scriptIndex) source(p string) string {
	if !inside(p) {
		return ""
	}
	ext := path.Ext(p)
	for _, other := range substitutes[ext] {
		if to := strings.TrimSuffix(p, ext) + other; r.x.file(to) {
			return to
		}
	}
	if ext != "" && r.x.file(p) {
		return p
	}
	for _, other := range extensions {
		if r.x.file(p + other) {
			return p + other
		}
	}
	return ""
}

// directory returns the file that stands for a directory: what its package.json says, or its index.
func (r *scriptIndex) directory(dir string) string {
	if !inside(dir) || r.x.names(dir) == nil {
		return ""
	}
	if pkg := r.pkg.Get(dir); pkg != nil {
		return r.entry(dir, pkg)
	}
	return r.source(path.Join(dir, "index"))
}

// below returns a path relative to a directory that it is in, or "".
//
//go:noinline
func below(dir, p string) string {
	if dir == "." {
		return p
	}
	if rel, ok := strings.CutPrefix(p, dir+"/"); ok {
		return rel
	}
	return ""
}

// outputs are the usual names of directories that a build writes, and of those in them.
var outputs = []string{"dist", "lib", "build", "out", "output", "esm", "cjs", "es", "types", "typings", "module"}

// built returns the source of a file of a package that a build would make, or "". It goes by the directories in
// the package's configuration of TypeScript and, without, by usual names.
func (r *scriptIndex) built(dir, target string) string {
	if target == "" {
		return ""
	}
	for _, name := range r.x.names(dir) {
		if !strings.HasPrefix(name, "tsconfig") || !strings.HasSuffix(name, ".json") {
			continue
		}
		if to := r.emitted(r.config.Get(path.Join(dir, name)), path.Join(dir, target)); to != "" {
			return to
		}
	}
	for range 3 {
		first, rest, ok := strings.Cut(target, "/")
		if !ok || !slices.Contains(outputs, first) {
			break
		}
		target = rest
		for _, base := range []string{"src", "source", "lib", "."} {
			if to := r.origin(path.Join(dir, base, target)); to != "" {
				return to
			}
		}
	}
	return ""
}

// emitted returns the source of an output of a project.
func (r *scriptIndex) emitted(c *scriptConfig, output string) string {
	if c == nil {
		return ""
	}
	for _, out := range []string{c.outDir, c.declarationDir} {
		rest := below(out, output)
		if out == "" || rest == "" || out == "." {
			continue
		}
		for _, root := range []string{c.rootDir, path.Join(c.dir, "src"), c.dir} {
			if root == "" {
				continue
			}
			if to := r.origin(path.Join(root, rest)); to != "" {
				return to
			}
		}
	}
	return ""
}

// origin returns the source of an output that would be at a path if it were beside its source.
func (r *scriptIndex) origin(p string) string {
	stem := strings.TrimSuffix(p, path.Ext(p))
	switch path.Ext(p) {
	case ".ts", ".mts", ".cts":
		stem = strings.TrimSuffix(stem, ".d")
	case ".js", ".mjs", ".cjs", ".jsx":
	default:
		return r.fileOrDirectory(p)
	}
	for _, ext := range []string{".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"} {
		if r.x.file(stem + ext) {
			return stem + ext
		}
	}
	return ""
}
