package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/derive"
	"github.com/aycoder/aycoder/internal/order"
)

// javaIndex resolves Java.
//
// No build file is read: a package is in each directory whose files say so. If a package is in several, as
// that of the tests of a module is, the class is looked for in the nearest first.
// See https://docs.oracle.com/javase/specs/jls/se21/html/jls-7.html and jls-6.html.
type javaIndex struct {
	x       *Index
	inDir   *derive.Query[map[string]map[string]string]
	below   *derive.Query[map[string][]string]
	members *derive.Query[map[string]bool]
}

func (r *javaIndex) init(x *Index) {
	r.x = x
	r.inDir = derive.NewQuery(x.table, r.readDir, nil)
	r.below = derive.NewQuery(x.table, r.findPackages, nil)
	r.members = derive.NewQuery(x.table, r.readMembers, nil)
}

// readDir returns the files of the classes in a directory, by the package and the name of the class.
func (r *javaIndex) readDir(dir string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, name := range r.x.names(dir) {
		file := path.Join(dir, name)
		if source.LanguageOf(name, nil) != source.Java {
			continue
		}
		f := r.x.surfaceOf(file)
		if f == nil {
			continue
		}
		if out[f.Package] == nil {
			out[f.Package] = map[string]string{}
		}
		for _, d := range f.Decls {
			if _, ok := out[f.Package][d.Name]; !ok && d.Parent < 0 && d.Kind != source.Func && d.Kind != source.Var {
				out[f.Package][d.Name] = file
			}
		}
	}
	return out
}

// findPackages returns the directories of the packages in a directory and below.
func (r *javaIndex) findPackages(dir string) map[string][]string {
	out := map[string][]string{}
	for pkg := range r.inDir.Get(dir) {
		out[pkg] = []string{dir}
	}
	for _, name := range r.x.names(dir) {
		if strings.HasSuffix(name, "/") && name[0] != '.' && name != "node_modules/" {
			for pkg, dirs := range r.below.Get(path.Join(dir, name)) {
				out[pkg] = append(out[pkg], dirs...)
			}
		}
	}
	return out
}

// readMembers returns the names that a file declares, at any depth.
func (r *javaIndex) readMembers(file string) map[string]bool {
	out := map[string]bool{}
	if f := r.x.surfaceOf(file); f != nil {
		for _, d := range f.Decls {
			out[d.Name] = true
		}
	}
	return out
}

// dirs returns the directories of a package that a file can see, the nearest first. Only tests see tests.
func (r *javaIndex) dirs(from, pkg string) []string {
	dirs := slices.Clone(r.below.Get(".")[pkg])
	if !isTest(from) {
		dirs = slices.DeleteFunc(dirs, isTest)
	}
	order.By(dirs, func(a, b *string) int { return common(from, *b+"/") - common(from, *a+"/") })
	return dirs
}

// isTest reports whether a path is in a source set for tests, by the layout of Maven and Gradle: src/test,
// src/androidTest, src/testFixtures; or in a directory of tests.
func isTest(p string) bool {
	before := ""
	for part := range strings.SplitSeq(p, "/") {
		if part == "tests" || before == "src" && (strings.HasPrefix(part, "test") || strings.HasSuffix(part, "Test")) {
			return true
		}
		before = part
	}
	return false
}

// class returns the file of a class of a package.
func (r *javaIndex) class(from, pkg, name string) string {
	for _, dir := range r.dirs(from, pkg) {
		if file := r.inDir.Get(dir)[pkg][name]; file != "" {
			return file
		}
	}
	return ""
}

// find returns what a name with dots leads to: the file of the class that is in it, with the name of that
// and what follows; or else the directories, if all of it is a package.
func (r *javaIndex) find(from, name string) (file, class, rest string, dirs []string) {
	packages := r.below.Get(".")
	for pkg := name; pkg != ""; pkg = pkg[:max(strings.LastIndexByte(pkg, '.'), 0)] {
		if packages[pkg] == nil {
			continue
		}
		if pkg == name {
			dirs = r.dirs(from, pkg)
			continue
		}
		class, rest, _ = strings.Cut(name[len(pkg)+1:], ".")
		if file = r.class(from, pkg, class); file != "" {
			return file, class, rest, nil
		}
	}
	return "", "", "", dirs
}

func (r *javaIndex) imports(file string, f *source.Facts) (out []Edge) {
	for i, m := range f.Imports {
		p, everything := strings.CutSuffix(m.Path, ".*")
		to, _, _, dirs := r.find(file, p)
		if to != "" {
			out = append(out, Edge{To: to, Import: int32(i)})
			continue
		}
		for _, dir := range dirs {
			if everything {
				out = append(out, Edge{To: path.Clean(dir) + "/", Import: int32(i)})
			}
		}
	}
	return out
}

// A javaScope is what the simple names in a file mean.
type javaScope struct {
	*javaIndex
	file  string
	own   map[string]bool
	names map[string][2]string // by simple name, the file and the name there
	wild  []string             // the packages and, with a : before them, the files of which everything is imported
	pkg   string
}

// scope reads the imports of a file. The order in which names are looked up is that of section 6.4.1:
// imports by name, the package, imports of everything.
func (r *javaIndex) scope(file string, f *source.Facts) *javaScope {
	s := &javaScope{r, file, r.members.Get(file), map[string][2]string{}, nil, f.Package}
	for _, m := range f.Imports {
		p, everything := strings.CutSuffix(m.Path, ".*")
		to, class, rest, _ := r.find(file, p)
		switch {
		case everything && to == "":
			s.wild = append(s.wild, p)
		case everything:
			s.wild = append(s.wild, ":"+to)
		case to != "" && m.Names[0].As != "":
			name := class
			if rest != "" && r.members.Get(to)[m.Names[0].Name] {
				name = m.Names[0].Name
			}
			s.names[m.Names[0].As] = [2]string{to, name}
		}
	}
	return s
}

// lookup returns the file that declares a simple name, and the name there.
func (s *javaScope) lookup(name string) (file, decl string) {
	if n, ok := s.names[name]; ok {
		return n[0], n[1]
	}
	if s.own[name] {
		return "", ""
	}
	if file := s.class(s.file, s.pkg, name); file != "" {
		return file, name
	}
	for _, w := range s.wild {
		if to, ok := strings.CutPrefix(w, ":"); ok {
			if s.members.Get(to)[name] {
				return to, name
			}
		} else if file := s.class(s.file, w, name); file != "" {
			return file, name
		}
	}
	return "", ""
}

func (r *javaIndex) refs(file string, f *source.Facts) Refs {
	counts := newRefCounts(0)
	s := r.scope(file, f)
	for _, u := range f.Uses {
		first := u.Name
		if u.Of != "" {
			first = u.Of
		}
		to, name := s.lookup(first)
		if to == "" || to == file {
			continue
		}
		counts.add(to, name, u.Count)
		if u.Of != "" && r.members.Get(to)[u.Name] {
			counts.add(to, u.Name, u.Count)
		}
	}
	for _, n := range s.names {
		if n[0] != file {
			counts.add(n[0], n[1], 0)
		}
	}
	return counts.refs()
}
