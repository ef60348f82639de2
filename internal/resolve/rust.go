package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
)

// rustIndex resolves Rust.
//
// The unit is the crate: a root file, which Cargo.toml names, and the modules below it. An import leads to the
// deepest module that its path reaches without following re-exports; a reference follows them.
// See https://doc.rust-lang.org/reference/items/modules.html and …/items/use-declarations.html.
type rustIndex struct {
	x      *Index
	cargo  cargoIndex
	crates *derive.Query[*rustCrate]
	places *derive.Query[[]rustPlace]
	names  *derive.Query[*rustNames]
}

// A rustCrate is the tree of the modules of a crate.
type rustCrate struct {
	mods   map[string][]string    // the files of each module, by its path a::b
	places map[string][]rustPlace // where each file is in the tree
	macros map[string]string      // the first file that declares a macro that is known everywhere
	open   map[string]bool        // the files whose macros are
}

// A rustPlace is a file as a module of a crate.
type rustPlace struct {
	root string // the root file of the crate
	mod  string // the path of the module, "" for the root
	base string // the directory for the files of its modules
}

func (r *rustIndex) init(x *Index) {
	r.x = x
	r.cargo.init(x)
	r.crates = derive.NewQuery(x.table, r.readCrate, nil)
	r.places = derive.NewQuery(x.table, r.findPlaces, nil)
	r.names = derive.NewQuery(x.table, r.readNames, nil)
}

// within returns the path of a module in another one.
//
//go:noinline
func within(outer, inner string) string {
	if outer == "" || inner == "" {
		return outer + inner
	}
	return outer + "::" + inner
}

// A rustFile is a file and one of its places.
type rustFile struct {
	file string
	rustPlace
}

// usesMacros reports whether a module has the attribute macro_use: its macros are known outside of it.
func usesMacros(m *source.Import) bool { return len(m.Names) > 1 }

// readCrate follows the modules from a root. A file with more places than any has in earnest is in a
// cycle of #[path].
func (r *rustIndex) readCrate(root string) *rustCrate {
	c := &rustCrate{map[string][]string{}, map[string][]rustPlace{}, map[string]string{}, map[string]bool{root: true}}
	for queue := []rustFile{{root, rustPlace{root, "", path.Dir(root)}}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		f := r.x.surfaceOf(at.file)
		if f == nil || f.Language != source.Rust || len(c.places[at.file]) == 4 || slices.Contains(c.places[at.file], at.rustPlace) {
			continue
		}
		c.places[at.file] = append(c.places[at.file], at.rustPlace)
		c.add(at.mod, at.file)
		for i, d := range f.Decls {
			switch d.Kind {
			case source.Module:
				c.add(within(at.mod, inlineModule(f, int32(i))), at.file)
			case source.Macro:
				if c.macros[d.Name] == "" && (d.Exported || c.open[at.file]) {
					c.macros[d.Name] = at.file
				}
			}
		}
		for i := range f.Imports {
			for _, next := range r.submodule(at, &f.Imports[i]) {
				c.open[next.file] = c.open[next.file] || c.open[at.file] && usesMacros(&f.Imports[i])
				queue = append(queue, next)
			}
		}
	}
	return c
}

func (c *rustCrate) add(mod, file string) {
	c.mods[mod] = appendNew(c.mods[mod], file)
}

// inlineModule returns the path, in its file, of the module that a declaration is, or of the one that it is in.
func inlineModule(f *source.Facts, i int32) (mod string) {
	for ; i >= 0; i = f.Decls[i].Parent {
		if f.Decls[i].Kind == source.Module {
			mod = within(f.Decls[i].Name, mod)
		}
	}
	return mod
}

// submodule returns the file of a module without a block: name.rs, name/mod.rs, or what #[path] says.
func (r *rustIndex) submodule(at rustFile, m *source.Import) []rustFile {
	if m.Kind != source.Submodule {
		return nil
	}
	name := m.Names[0].Name
	next := rustPlace{at.root, within(within(at.mod, m.Within), name), ""}
	dir := path.Join(at.base, strings.ReplaceAll(m.Within, "::", "/"))
	if m.Path != name {
		if m.Within == "" {
			dir = path.Dir(at.file)
		}
		file := path.Join(dir, m.Path)
		next.base = path.Dir(file)
		if r.x.file(file) {
			return []rustFile{{file, next}}
		}
		return nil
	}
	next.base = path.Join(dir, name)
	for _, file := range []string{next.base + ".rs", next.base + "/mod.rs"} {
		if r.x.file(file) {
			return []rustFile{{file, next}}
		}
	}
	return nil
}

// findPlaces returns where a file is in the crates of the package around it, or of one around that. A file that
// no crate has is taken as the root of one.
func (r *rustIndex) findPlaces(file string) (out []rustPlace) {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if m := r.cargo.manifests.Get(dir); m != nil && m.isPackage() {
			for _, root := range r.cargo.targets.Get(dir) {
				out = append(out, r.crates.Get(root).places[file]...)
			}
		}
		if len(out) > 0 {
			return out
		}
		if dir == "." {
			return []rustPlace{{file, "", path.Dir(file)}}
		}
	}
}

// externs returns the libraries that a crate can name.
func (r *rustIndex) externs(root string) (names map[string]string, m *manifest) {
	for dir := path.Dir(root); ; dir = path.Dir(dir) {
		if m := r.cargo.manifests.Get(dir); m != nil && m.isPackage() {
			return r.cargo.externs.Get(dir), m
		}
		if dir == "." {
			return nil, nil
		}
	}
}

// A rustModule is a module of a crate.
type rustModule struct{ root, mod string }

func (r *rustIndex) crate(root string) *rustCrate { return r.crates.Get(root) }

func (r *rustIndex) files(m rustModule) []string { return r.crate(m.root).mods[m.mod] }

// head finds the module that a path begins with, and returns what is left of the path.
func (r *rustIndex) head(from rustModule, segments []string) (m rustModule, rest []string, ok bool) {
	switch first := segments[0]; first {
	case "crate", "$crate":
		return rustModule{from.root, ""}, segments[1:], true
	case "self", "super":
		for len(segments) > 0 && (segments[0] == "super" || segments[0] == "self") {
			if segments[0] == "super" {
				from.mod = from.mod[:max(strings.LastIndex(from.mod, "::"), 0)]
			}
			segments = segments[1:]
		}
		return from, segments, true
	case "":
		segments = segments[1:]
	default:
		if r.files(rustModule{from.root, within(from.mod, first)}) != nil {
			return from, segments, true
		}
	}
	if len(segments) == 0 {
		return m, nil, false
	}
	externs, manifest := r.externs(from.root)
	name, names := segments[0], r.names.Get(from.root)
	if manifest != nil && manifest.edition() == "2015" && (names.decls[name] || r.files(rustModule{from.root, name}) != nil) {
		return rustModule{from.root, ""}, segments, true
	}
	for _, i := range names.imports[name] { // extern crate a as b
		if p := r.x.surfaceOf(from.root).Imports[i].Path; strings.HasPrefix(p, "::") && !strings.Contains(p[2:], "::") {
			name = p[2:]
		}
	}
	if root, ok := externs[name]; ok {
		return rustModule{root, ""}, segments[1:], true
	}
	return m, nil, false
}

func (r *rustIndex) imports(file string, f *source.Facts) (out []Edge) {
	places := r.places.Get(file)
	for i := range f.Imports {
		var to []string
		for _, p := range places {
			to = append(to, r.imported(rustFile{file, p}, &f.Imports[i])...)
		}
		for k, t := range to {
			if t != file && !slices.Contains(to[:k], t) {
				out = append(out, Edge{To: t, Import: int32(i)})
			}
		}
	}
	return out
}

// imported returns the files that an import leads to. There are several if a module has one for each
// platform.
func (r *rustIndex) imported(at rustFile, i *source.Import) (out []string) {
	for _, next := range r.submodule(at, i) {
		out = append(out, next.file)
	}
	if i.Kind == source.Submodule {
		return out
	}
	m, rest, ok := r.head(rustModule{at.root, within(at.mod, i.Within)}, strings.Split(i.Path, "::"))
	if !ok {
		return nil
	}
	for _, name := range rest {
		next := rustModule{m.root, within(m.mod, name)}
		if r.files(next) == nil {
			break
		}
		m = next
	}
	return r.files(m)
}

// rustNames are the names that the modules of a file declare or import, by within(module, name).
type rustNames struct {
	decls   map[string]bool // also Type::method
	imports map[string][]int
	globs   map[string][]int // by the module alone
	inline  []string         // the modules
}

func (r *rustIndex) readNames(file string) *rustNames {
	n := &rustNames{map[string]bool{}, map[string][]int{}, map[string][]int{}, []string{""}}
	f := r.x.surfaceOf(file)
	if f == nil {
		return n
	}
	for i, d := range f.Decls {
		of := d.Of
		if of == "" && d.Parent >= 0 && f.Decls[d.Parent].Kind != source.Module {
			of = f.Decls[d.Parent].Name
		}
		if d.Kind == source.Module {
			n.inline = append(n.inline, inlineModule(f, int32(i)))
		} else {
			n.decls[within(inlineModule(f, d.Parent), within(of, d.Name))] = true
		}
	}
	for i, m := range f.Imports {
		switch {
		case m.Kind == source.Submodule:
		case m.Names[0].Name == "*":
			n.globs[m.Within] = append(n.globs[m.Within], i)
		default:
			key := within(m.Within, m.Names[0].As)
			n.imports[key] = append(n.imports[key], i)
		}
	}
	return n
}

// A rustDef is what a path means: a declaration, or a module.
type rustDef struct {
	file, name string
	owner      string // the type that the name is a member of
	mod        *rustModule
}

// A rustLookup follows one path through modules and re-exports.
type rustLookup struct {
	*rustIndex
	left  *int              // the steps that are left for all paths of a file
	busy  map[rustName]bool // what is being looked up, since re-exports may be in a circle
	steps int
}

// A rustName is a name in a module, before a :: or alone.
type rustName struct {
	rustModule
	name   string
	before bool
}

func (r *rustIndex) lookup(m rustModule, p string, left *int) (rustDef, bool) {
	if *left--; *left < 0 {
		return rustDef{}, false
	}
	l := rustLookup{r, left, map[rustName]bool{}, 0}
	return l.path(m, p)
}

// path finds what a path means in a module.
func (l *rustLookup) path(m rustModule, p string) (rustDef, bool) {
	segments := strings.Split(p, "::")
	at, left, ok := m, segments, false
	switch segments[0] {
	case "crate", "$crate", "self", "super", "":
		at, left, ok = l.head(m, segments)
	default:
		if d, found := l.name(m, segments[0], len(segments) > 1); found {
			return l.rest(d, segments[1:])
		}
		at, left, ok = l.head(m, segments)
	}
	if !ok {
		return rustDef{}, false
	}
	return l.rest(rustDef{mod: &at}, left)
}

// rest follows the rest of a path from what its beginning means.
func (l *rustLookup) rest(d rustDef, segments []string) (rustDef, bool) {
	for i, s := range segments {
		if d.mod == nil { // a name that belongs to a type
			if l.names.Get(d.file).decls[within(d.name, segments[i])] {
				d.owner, d.name = d.name, s
			}
			return d, true
		}
		next, ok := l.name(*d.mod, s, i+1 < len(segments))
		if !ok {
			return rustDef{}, false
		}
		d = next
	}
	return d, true
}

// name finds what a name means in a module: what is declared there, or what is imported. Before a ::, a module
// hides a function.
func (l *rustLookup) name(m rustModule, name string, before bool) (rustDef, bool) {
	key := rustName{m, name, before}
	l.steps++
	if *l.left--; l.busy[key] || l.steps > 500 || *l.left < 0 {
		return rustDef{}, false
	}
	l.busy[key] = true
	defer delete(l.busy, key)
	crate := l.crate(m.root)
	child := rustModule{m.root, within(m.mod, name)}
	isModule := crate.mods[child.mod] != nil
	if isModule && before {
		return rustDef{mod: &child}, true
	}
	parts := l.parts(m)
	for _, p := range parts {
		if l.names.Get(p.file).decls[within(p.inner, name)] {
			return rustDef{file: p.file, name: name}, true
		}
	}
	for _, p := range parts {
		for _, i := range l.names.Get(p.file).imports[within(p.inner, name)] {
			if d, ok := l.path(m, l.x.surfaceOf(p.file).Imports[i].Path); ok {
				return d, true
			}
		}
	}
	if isModule {
		return rustDef{mod: &child}, true
	}
	for _, p := range parts {
		for _, i := range l.names.Get(p.file).globs[p.inner] {
			outer, ok := l.path(m, strings.TrimSuffix(l.x.surfaceOf(p.file).Imports[i].Path, "::*"))
			if !ok || outer.mod == nil { // the variants of an enum
				continue
			}
			if d, ok := l.name(*outer.mod, name, before); ok {
				return d, true
			}
		}
	}
	return rustDef{}, false
}

// A rustPart is a file of a module, and which inline module of the file it is.
type rustPart struct{ file, inner string }

func (r *rustIndex) parts(m rustModule) (parts []rustPart) {
	crate := r.crate(m.root)
	for _, file := range crate.mods[m.mod] {
		for _, p := range crate.places[file] {
			if inner, ok := inlinePart(p.mod, m.mod); ok {
				parts = append(parts, rustPart{file, inner})
			}
		}
	}
	return parts
}

// inlinePart returns the path of an inline module in the module of its file.
func inlinePart(outer, mod string) (inner string, ok bool) {
	if outer == "" || outer == mod {
		return strings.TrimPrefix(mod, outer), true
	}
	return strings.CutPrefix(mod, outer+"::")
}

// edition returns the edition of a package. One that the workspace says is not the first, which has no
// workspaces that say it.
func (m *manifest) edition() string {
	if m.value("package", "edition") == "" && m.value("package", "edition", "workspace") == "" {
		return "2015"
	}
	return m.value("package", "edition")
}

func (r *rustIndex) refs(file string, f *source.Facts) Refs {
	counts := newRefCounts(0)
	for _, p := range r.places.Get(file) {
		if r.count(rustFile{file, p}, f, counts); len(counts.uses) > 0 {
			break // another crate that has the file would use the same
		}
	}
	return counts.refs()
}

// maxRustSteps bounds the work for one file: each name that it uses is looked for in each of its inline modules,
// of which a file that was generated may have thousands. Names beyond that are not known.
const maxRustSteps = 1 << 17

// count counts the declarations that a file uses, as part of one crate.
func (r *rustIndex) count(at rustFile, f *source.Facts, counts *refCounts) {
	names, left := r.names.Get(at.file), maxRustSteps
	for _, u := range f.Uses {
		if d, ok := r.used(at, names, within(u.Of, u.Name), &left); ok && d.file != at.file && d.mod == nil {
			counts.add(d.file, d.name, u.Count)
			if d.owner != "" {
				counts.add(d.file, d.owner, u.Count)
			}
		}
	}
	var modules []string
	for i := range f.Imports {
		m := &f.Imports[i]
		if m.Kind == source.Submodule || m.Names[0].Name == "*" {
			continue
		}
		d, ok := r.lookup(rustModule{at.root, within(at.mod, m.Within)}, m.Path, &left)
		switch {
		case ok && d.mod == nil && d.file != at.file:
			counts.add(d.file, d.name, 0)
		case ok && d.mod != nil:
			modules = append(modules, r.files(*d.mod)...)
		}
	}
	counts.whole(slices.DeleteFunc(modules, func(file string) bool { return file == at.file }))
}

// used finds what a path in an expression means. The facts do not say in which of the inline modules of the
// file it is.
func (r *rustIndex) used(at rustFile, names *rustNames, p string, left *int) (rustDef, bool) {
	for _, inline := range names.inline {
		if d, ok := r.lookup(rustModule{at.root, within(at.mod, inline)}, p, left); ok {
			return d, true
		}
	}
	file, ok := r.crate(at.root).macros[p]
	return rustDef{file: file, name: p}, ok
}
