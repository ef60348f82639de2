package resolve

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/derive"
)

// A manifest is what a Cargo.toml says.
// See https://doc.rust-lang.org/cargo/reference/manifest.html and workspaces.html.
type manifest struct {
	values map[string][]string
	deps   map[string]dependency // by the name in the file
}

// A dependency is one of a package, or one that a workspace offers to its packages.
type dependency struct {
	pkg       string // the name of the package
	dir       string // where it is, relative to the manifest, or ""
	renamed   bool
	workspace bool // the workspace says the rest
}

// cargoIndex knows the packages of Rust: their crates, and what these call each other.
type cargoIndex struct {
	x         *Index
	manifests *derive.Query[*manifest]
	members   *derive.Query[map[string]string]
	targets   *derive.Query[[]string]
	externs   *derive.Query[map[string]string]
}

func (c *cargoIndex) init(x *Index) {
	c.x = x
	c.manifests = derive.NewQuery(x.table, c.readManifest, nil)
	c.members = derive.NewQuery(x.table, c.findMembers, nil)
	c.targets = derive.NewQuery(x.table, c.findTargets, nil)
	c.externs = derive.NewQuery(x.table, c.findExterns, nil)
}

//go:noinline
func (m *manifest) value(key ...string) string {
	if v := m.values[strings.Join(key, TOMLSep)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (m *manifest) isPackage() bool { return m.value("package", "name") != "" }

// readManifest reads the Cargo.toml in a directory, or returns nil.
func (c *cargoIndex) readManifest(dir string) *manifest {
	data := c.x.read(path.Join(dir, "Cargo.toml"))
	if data == nil {
		return nil
	}
	m := &manifest{TOML(data), map[string]dependency{}}
	for _, key := range slices.Sorted(maps.Keys(m.values)) { // of two places of a dependency, always the same counts
		v, parts := m.values[key], strings.Split(key, TOMLSep)
		if len(parts) > 2 && parts[0] == "target" {
			parts = parts[2:]
		}
		if len(parts) > 1 && parts[0] == "workspace" && parts[1] == "dependencies" {
			parts = parts[1:]
			if len(parts) > 1 {
				parts[1] = TOMLSep + parts[1] // apart from those of the package
			}
		}
		if len(parts) < 2 || !strings.HasSuffix(parts[0], "dependencies") {
			continue
		}
		d, ok := m.deps[parts[1]]
		if !ok {
			d.pkg = strings.TrimPrefix(parts[1], TOMLSep)
		}
		if len(parts) == 3 {
			switch parts[2] {
			case "path":
				d.dir = v[0]
			case "package":
				d.pkg, d.renamed = v[0], true
			case "workspace":
				d.workspace = true
			}
		}
		m.deps[parts[1]] = d
	}
	return m
}

// workspace returns the directory of the workspace that a package is in: its own, or one above.
func (c *cargoIndex) workspace(dir string) (string, *manifest) {
	m := c.manifests.Get(dir)
	if m != nil && m.value("package", "workspace") != "" {
		dir = path.Join(dir, m.value("package", "workspace"))
		m = c.manifests.Get(dir)
		return dir, m
	}
	for ; ; dir = path.Dir(dir) {
		if m = c.manifests.Get(dir); m != nil {
			for key := range m.values {
				if strings.HasPrefix(key, "workspace"+TOMLSep) {
					return dir, m
				}
			}
		}
		if dir == "." {
			return "", nil
		}
	}
}

// findMembers returns the directories of the packages of a workspace, by the names of the packages.
func (c *cargoIndex) findMembers(dir string) map[string]string {
	out := map[string]string{}
	m := c.manifests.Get(dir)
	for _, pattern := range m.values["workspace"+TOMLSep+"members"] {
		for _, d := range c.x.expand(dir, strings.Split(path.Clean(pattern), "/")) {
			if p := c.manifests.Get(d); p != nil && p.isPackage() {
				out[p.value("package", "name")] = d
			}
		}
	}
	if m.isPackage() {
		out[m.value("package", "name")] = dir
	}
	return out
}

// library returns the file and the name of the library of a package.
func (c *cargoIndex) library(dir string) (file, name string) {
	m := c.manifests.Get(dir)
	if m == nil || !m.isPackage() {
		return "", ""
	}
	name, file = m.value("lib", "name"), m.value("lib", "path")
	if name == "" {
		name = crateName(m.value("package", "name"))
	}
	if file == "" {
		file = "src/lib.rs"
	}
	if file = path.Join(dir, file); !c.x.file(file) {
		return "", ""
	}
	return file, name
}

// crateName returns the name that code uses for a package.
func crateName(pkg string) string { return strings.ReplaceAll(pkg, "-", "_") }

// findExterns returns the libraries that the crates of a package can name, by these names.
func (c *cargoIndex) findExterns(dir string) map[string]string {
	out := map[string]string{}
	m := c.manifests.Get(dir)
	for _, key := range slices.Sorted(maps.Keys(m.deps)) {
		d := m.deps[key]
		if strings.HasPrefix(key, TOMLSep) {
			continue
		}
		if file, name := c.library(c.dependencyDir(dir, key, d)); file != "" {
			if d.renamed || c.renamed(dir, key, d) {
				name = crateName(key)
			}
			out[name] = file
		}
	}
	if file, name := c.library(dir); file != "" {
		out[name] = file
	}
	return out
}

func (c *cargoIndex) renamed(dir, key string, d dependency) bool {
	if !d.workspace {
		return false
	}
	_, w := c.workspace(dir)
	return w != nil && w.deps[TOMLSep+key].renamed
}

// dependencyDir returns the directory of the package that a dependency of the package in dir means. A package
// of the same workspace is meant also if only its version is given.
func (c *cargoIndex) dependencyDir(dir, key string, d dependency) string {
	root, w := c.workspace(dir)
	base := dir
	if d.workspace && w != nil {
		d, base = w.deps[TOMLSep+key], root
	}
	if d.dir != "" {
		return path.Join(base, d.dir)
	}
	if w != nil {
		if member, ok := c.members.Get(root)[d.pkg]; ok {
			return member
		}
	}
	return "\x00" // not in the workspace
}

// The kinds of crates besides the library, with the directory in which each file is one.
var cargoTargets = []struct{ kind, dir, auto string }{
	{"bin", "src/bin", "autobins"}, {"example", "examples", "autoexamples"}, {"test", "tests", "autotests"}, {"bench", "benches", "autobenches"},
}

// findTargets returns the roots of the crates of a package.
// See https://doc.rust-lang.org/cargo/reference/cargo-targets.html.
func (c *cargoIndex) findTargets(dir string) (out []string) {
	m := c.manifests.Get(dir)
	add := func(file string) bool {
		ok := c.x.file(file)
		if ok {
			out = appendNew(out, file)
		}
		return ok
	}
	if lib, _ := c.library(dir); lib != "" {
		add(lib)
	}
	add(path.Join(dir, "src/main.rs"))
	build := m.value("package", "build")
	if build == "" {
		build = "build.rs"
	}
	add(path.Join(dir, build))
	for _, t := range cargoTargets {
		for i := 0; ; i++ {
			n := strconv.Itoa(i)
			name := m.value(t.kind, n, "name")
			file := m.value(t.kind, n, "path")
			if name == "" && file == "" {
				break
			}
			if file != "" {
				add(path.Join(dir, file))
			} else if base := path.Join(dir, t.dir, name); !add(base + ".rs") {
				add(base + "/main.rs")
			}
		}
		if m.value("package", t.auto) == "false" {
			continue
		}
		for _, name := range c.x.names(path.Join(dir, t.dir)) {
			if strings.HasSuffix(name, ".rs") {
				add(path.Join(dir, t.dir, name))
			} else if strings.HasSuffix(name, "/") {
				add(path.Join(dir, t.dir, name, "main.rs"))
			}
		}
	}
	return out
}
