package resolve

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
)

// A goPackage is the declarations of the files in a directory: usually one package, its tests, and
// perhaps files for other systems, which all count.
type goPackage struct {
	name  string    // by which an import knows it
	files []*goFile // sorted by path
	order []goPlace // of the declarations: sorted
}

// A goPlace is where a declaration is: a hash of its owner and key, so that it can be found without looking at
// others, its number among those of all files, and a bit that says that it is embedded, so that its key is "".
// An embedded field is there twice, with this bit and without.
type goPlace uint64

func newGoPlace(owner, key string, number int, embedded uint64) goPlace {
	hash := uint32(2166136261) // FNV-1a
	for _, text := range [2]string{owner, key} {
		for i := range len(text) {
			hash = (hash ^ uint32(text[i])) * 16777619
		}
		hash = (hash ^ 0xff) * 16777619
	}
	return goPlace(uint64(hash)<<32 | uint64(number)<<1 | embedded)
}

// A goDecl is a declaration.
type goDecl struct {
	*source.Decl
	in *goFile
}

type goFile struct {
	path  string
	of    *goPackage
	pkg   string // the name of the package in it
	test  bool
	facts *source.Facts
	first int // the number of its first declaration in the package
}

// newFile returns a file in the directory of a package.
func (p *goPackage) newFile(file string, f *source.Facts) *goFile {
	return &goFile{file, p, f.Package, strings.HasSuffix(file, "_test.go"), f, 0}
}

func (r *goIndex) readPackage(dir string) *goPackage {
	p := &goPackage{}
	for _, name := range r.x.names(dir) {
		if !isGoFile(name) {
			continue
		}
		file := path.Join(dir, name)
		if f := r.x.surfaceOf(file); f != nil {
			p.add(p.newFile(file, f))
		}
	}
	order.By(p.order, func(a, b *goPlace) int { return cmp.Compare(*a, *b) })
	p.order = slices.Clip(slices.Clone(p.order))
	return p
}

func (p *goPackage) add(in *goFile) {
	if !in.test && (p.name == "" || p.name == "main" || p.name == "documentation") {
		p.name = in.pkg
	}
	if n := len(p.files); n > 0 {
		in.first = p.files[n-1].first + len(p.files[n-1].facts.Decls)
	}
	p.files = append(p.files, in)
	for i := range in.facts.Decls {
		d := &in.facts.Decls[i]
		owner := in.owner(d)
		p.order = append(p.order, newGoPlace(owner, d.Name, in.first+i, 0))
		if d.Kind == source.Field && d.Name == d.Type[strings.LastIndexByte(d.Type, '.')+1:] {
			p.order = append(p.order, newGoPlace(owner, "", in.first+i, 1))
		}
	}
}

// file returns the file of a path in the directory of the package.
func (p *goPackage) file(name string, f *source.Facts) *goFile {
	if i, found := slices.BinarySearchFunc(p.files, name, func(in *goFile, name string) int { return strings.Compare(in.path, name) }); found {
		return p.files[i]
	}
	return p.newFile(name, f)
}

// owner returns the type of a field or method.
func (in *goFile) owner(d *source.Decl) string {
	if d.Parent >= 0 {
		return in.facts.Decls[d.Parent].Name
	}
	return d.Of
}

// at returns the declaration at a place.
func (p *goPackage) at(place goPlace) goDecl {
	number := int(uint32(place) >> 1)
	i, found := slices.BinarySearchFunc(p.files, number, func(in *goFile, n int) int { return in.first - n })
	if !found {
		i--
	}
	for len(p.files[i].facts.Decls) == 0 { // the next file has the same number
		i++
	}
	in := p.files[i]
	return goDecl{&in.facts.Decls[number-in.first], in}
}

// find appends the declarations of a name in a type, or in the package if owner is "", that a file sees. Key is the
// name, or "" for the embedded fields.
func (p *goPackage) find(out []goDecl, owner, key string, sees func(*goFile) bool) []goDecl {
	first := newGoPlace(owner, key, 0, 0)
	i, _ := slices.BinarySearch(p.order, first)
	for ; i < len(p.order) && p.order[i]>>32 == first>>32; i++ {
		d := p.at(p.order[i])
		name := d.Name
		if p.order[i]&1 > 0 {
			name = ""
		}
		if name == key && d.in.owner(d.Decl) == owner && sees(d.in) {
			out = append(out, d)
		}
	}
	return out
}

// A goScope is what the names of imports stand for in a file, sorted by name.
type goScope []goScoped

// A goScoped is the directory of a package, or "" if it is not in the workspace, by its name in a file. That of
// an import with a dot begins with one.
type goScoped struct{ as, dir string }

// at returns the index of a name, or where it would be.
func (s goScope) at(as string) (int, bool) {
	return slices.BinarySearchFunc(s, as, func(g goScoped, as string) int { return strings.Compare(g.as, as) })
}

// findScope returns the directories of the imports of a file, by the names that they have in it. A package whose
// import has no name is also known by the name in its files.
func (r *goIndex) findScope(file string) goScope {
	f := r.x.surfaceOf(file)
	if f == nil {
		return nil
	}
	var out goScope
	for _, imp := range f.Imports {
		dir := r.directory(file, imp.Path)
		for _, n := range imp.Names {
			switch {
			case n.As == "":
				out = append(out, goScoped{"." + imp.Path, dir})
			case dir != "" && strings.Contains(imp.Path, n.As): // it may be a guess
				out = append(out, goScoped{n.As, dir})
				if as := r.pkg.Get(dir).name; as != "" && as != n.As { // no file may say its name yet
					out = append(out, goScoped{as, dir})
				}
			default:
				out = append(out, goScoped{n.As, dir})
			}
		}
	}
	slices.Reverse(out) // of two with a name, the last one counts
	order.By(out, func(a, b *goScoped) int { return strings.Compare(a.as, b.as) })
	return slices.Clip(slices.CompactFunc(out, func(a, b goScoped) bool { return a.as == b.as }))
}

func (r *goIndex) refs(file string, f *source.Facts) Refs {
	if len(f.Uses) == 0 {
		return Refs{}
	}
	g := &goRefs{goIndex: r, from: r.pkg.Get(path.Dir(file)).file(file, f), memo: map[goExpr]goValue{}}
	counts := newRefCounts(len(f.Uses))
	for _, u := range f.Uses {
		g.found = g.found[:0]
		for _, d := range g.find(u) {
			if d.in.path != file {
				counts.add(d.in.path, u.Name, u.Count)
			}
		}
	}
	return counts.refs()
}

// goRefs resolves the uses of one file. The types that facts name are enough to follow most values to the
// declarations of their types: through variables, fields, results of functions, elements and embedded
// fields, but not through type parameters and second results.
type goRefs struct {
	*goIndex
	from  *goFile
	memo  map[goExpr]goValue
	found []goDecl // memory for declarations of which the use of a name needs no more
}

// A goExpr is the notation of a type in a file.
type goExpr struct {
	in   *goFile
	text string
}

func (g *goRefs) find(u source.Use) []goDecl {
	if u.Of == "" {
		return g.names(g.from, u.Name)
	}
	return g.member(g.value(g.from, u.Of, 0), u.Name, 0)
}

// names returns the declarations of a name in the package of a file, or in those that it imports with a dot.
func (g *goRefs) names(from *goFile, name string) []goDecl {
	out := g.visible(from.of, "", name, func(in *goFile) bool { return in.pkg == from.pkg && (from.test || !in.test) })
	if len(out) > 0 {
		return out
	}
	n := len(g.found)
	scope := g.scope.Get(from.path)
	for i, _ := scope.at("."); i < len(scope) && strings.HasPrefix(scope[i].as, "."); i++ {
		if scope[i].dir != "" {
			g.exported(g.pkg.Get(scope[i].dir), name)
		}
	}
	return g.found[n:]
}

// exported returns the declarations of a name in a package that is imported. A test of the package that is
// outside of it sees what the tests inside of it declare.
func (g *goRefs) exported(p *goPackage, name string) []goDecl {
	tests := g.from.test && g.from.of == p
	return g.visible(p, "", name, func(in *goFile) bool { return in.pkg == p.name && (tests || !in.test) })
}

func (g *goRefs) visible(p *goPackage, owner, name string, sees func(*goFile) bool) []goDecl {
	n := len(g.found)
	g.found = p.find(g.found, owner, name, sees)
	return g.found[n:]
}

func everywhere(*goFile) bool { return true }

// A goValue is what is known of a value: a type by its name, or one that is made from it, with "[]" and "()" in
// wrap for what an element and a call take off; or a package.
type goValue struct {
	wrap   string
	pkg    *goPackage // nil if nothing is known
	name   string     // "" for a package
	isType bool       // the type itself, so that a call is a conversion
}

// goDepth is how many declarations are followed for the type of one value, and goTypes in how many types a
// member is looked for.
const (
	goDepth = 10
	goTypes = 40
)

// value returns what the notation of a type in a file stands for.
func (g *goRefs) value(from *goFile, expr string, depth int) goValue {
	key := goExpr{from, expr}
	v, ok := g.memo[key]
	if ok || expr == "" || depth > goDepth {
		return v
	}
	g.memo[key] = v // what it is while it is looked for: nothing
	v = g.evaluate(from, expr, depth)
	g.memo[key] = v
	return v
}

func (g *goRefs) evaluate(from *goFile, expr string, depth int) goValue {
	n := 0
	for strings.HasPrefix(expr[n:], "[]") || strings.HasPrefix(expr[n:], "()") {
		n += 2
	}
	first, rest := cutName(expr[n:])
	var v goValue
	scope := g.scope.Get(from.path)
	if i, ok := scope.at(first); ok {
		if scope[i].dir != "" {
			v.pkg = g.pkg.Get(scope[i].dir)
		}
	} else {
		v = g.typeOf(g.names(from, first), depth)
	}
	for rest != "" && v.pkg != nil {
		if rest[0] == '.' {
			first, rest = cutName(rest[1:])
			v = g.typeOf(g.member(v, first, depth), depth)
		} else {
			v = g.take(v, rest[:2], depth)
			rest = rest[2:]
		}
	}
	v.wrap = expr[:n] + v.wrap
	return v
}

// cutName cuts an expression after the name that it begins with.
func cutName(expr string) (name, rest string) {
	if i := strings.IndexAny(expr, ".[("); i >= 0 {
		return expr[:i], expr[i:]
	}
	return expr, ""
}

// typeOf returns the type of a name by its declarations, of which the first counts.
func (g *goRefs) typeOf(found []goDecl, depth int) goValue {
	if len(found) == 0 {
		return goValue{}
	}
	d := found[0]
	if d.Kind == source.Type || d.Kind == source.Interface {
		return goValue{pkg: d.in.of, name: d.Name, isType: true}
	}
	v := g.value(d.in, d.Type, depth+1)
	v.isType = false
	if d.Kind == source.Func || d.Kind == source.Method {
		v.wrap = "()" + v.wrap
	}
	return v
}

// take returns an element of a value, or the result of calling it.
func (g *goRefs) take(v goValue, op string, depth int) goValue {
	if v.wrap == "" && (op == "[]" || !v.isType) {
		if u := g.underlying(v, depth); strings.HasPrefix(u.wrap, op) {
			v = u
		}
	}
	rest, ok := strings.CutPrefix(v.wrap, op)
	if !ok && v.wrap == "" && !v.isType {
		return goValue{}
	}
	v.wrap, v.isType = rest, false // if it is not cut, it is a conversion, or an instance of what is generic
	return v
}

// underlying returns what a type is declared to be.
func (g *goRefs) underlying(v goValue, depth int) goValue {
	for _, d := range g.visible(v.pkg, "", v.name, everywhere) {
		u := g.value(d.in, d.Type, depth+1)
		u.isType = false
		return u
	}
	return goValue{}
}

// member returns the declarations of a name in a package, or of a field or method of a type, of those that it
// embeds, or of the one that it is made from.
func (g *goRefs) member(v goValue, name string, depth int) []goDecl {
	if v.pkg != nil && v.name == "" {
		return g.exported(v.pkg, name)
	}
	todo := []goValue{v}
	for i := 0; i < len(todo) && i < goTypes; i++ {
		v := todo[i]
		if v.pkg == nil || v.wrap != "" {
			continue
		}
		if found := g.visible(v.pkg, v.name, name, everywhere); len(found) > 0 {
			return found
		}
		for _, d := range g.visible(v.pkg, v.name, "", everywhere) {
			todo = appendType(todo, g.typeOf([]goDecl{d}, depth))
		}
		todo = appendType(todo, g.underlying(v, depth))
	}
	return nil
}

// appendType appends a type that is not in the list.
func appendType(list []goValue, v goValue) []goValue {
	v.isType = false
	return appendNew(list, v)
}
