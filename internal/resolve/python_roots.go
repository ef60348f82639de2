package resolve

import (
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Modules are looked for, in this order, in the project that a file belongs to and the projects around it,
// beside a file that is a script, and in all other projects of the workspace, since members of one
// repository are usually installed together. Where a project keeps its modules is what its
// configuration says, a directory src, and the directory of the project itself.

// A pyProject is a directory with the configuration of a project.
type pyProject struct {
	marked bool     // it has configuration of any kind
	strong bool     // it can be built or installed
	roots  []string // the directories that the configuration names
}

// A pyRoot is a directory in which modules are looked for.
type pyRoot struct {
	dir  string
	sure bool   // it comes before Python's library
	only string // the only package that is looked for there, or ""
}

// pyMarks are the files that say that a directory is where a project, its program or its tests are started: with
// true, also in a package. Those can be installed.
var pyMarks = map[string]bool{
	"pyproject.toml": true, "setup.py": true, "setup.cfg": true,
	"pytest.ini": false, ".pytest.ini": false, "tox.ini": false, "conftest.py": false, "mypy.ini": false,
	"pyrightconfig.json": false, "requirements.txt": false, "Pipfile": false, "manage.py": false, "noxfile.py": false,
}

func (r *pythonIndex) readProject(dir string) (p pyProject) {
	names := r.x.names(dir)
	for _, file := range slices.Sorted(maps.Keys(pyMarks)) {
		if !has(names, file) || !pyMarks[file] && inDir(dir, names, "__init__") != "" {
			continue
		}
		p.marked, p.strong = true, p.strong || pyMarks[file]
		if file == "conftest.py" || file == "manage.py" || file == "requirements.txt" {
			continue
		}
		for _, s := range pythonSettings(r.x.read(path.Join(dir, file))) {
			root := path.Join(dir, s)
			if r.x.names(root) != nil {
				p.roots = appendNew(p.roots, root)
			}
		}
	}
	if src := path.Join(dir, "src"); has(names, "src/") && r.isSource(src, p.marked) {
		p.roots = appendNew(p.roots, src)
	}
	return p
}

// isSource reports whether a directory src is a root and not a package. Outside of projects, it must be clear that
// it is one for Python.
func (r *pythonIndex) isSource(src string, project bool) bool {
	names := r.x.names(src)
	if inDir(src, names, "__init__") != "" {
		return false
	}
	return project || slices.ContainsFunc(names, func(n string) bool {
		return isPython(n) || strings.HasSuffix(n, "/") && slices.ContainsFunc(r.x.names(path.Join(src, n)), isPython)
	})
}

func isPython(name string) bool {
	return strings.HasSuffix(name, ".py") || strings.HasSuffix(name, ".pyi")
}

// findProjects returns the roots of the projects in a directory and below.
func (r *pythonIndex) findProjects(dir string) (roots []string) {
	p := r.config.Get(dir)
	roots = append(roots, p.roots...)
	if p.strong && len(p.roots) == 0 || dir == "." {
		roots = append(roots, dir)
	}
	for _, name := range r.x.names(dir) {
		if strings.HasSuffix(name, "/") && !pyForeign(name) {
			for _, root := range r.projects.Get(path.Join(dir, name)) {
				roots = appendNew(roots, root)
			}
		}
	}
	return roots
}

// pyForeign reports whether a directory holds installed packages or caches, not sources of the workspace.
func pyForeign(name string) bool {
	switch name {
	case "node_modules/", "site-packages/", "__pycache__/", "venv/", "testdata/":
		return true
	}
	return name[0] == '.'
}

// findTops returns, for the name of each module and package at the top of a root, these roots.
func (r *pythonIndex) findTops(dir string) map[string][]string {
	out := map[string][]string{}
	for _, root := range r.projects.Get(dir) {
		for _, name := range r.x.names(root) {
			top := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "/"), ".py"), ".pyi")
			if top != name {
				out[top] = appendNew(out[top], root)
			}
		}
	}
	return out
}

// findRoots returns the roots of the projects around a directory, the nearest first. Last comes the directory
// that holds the package of the directory, for this package alone, unless the configuration places the
// directory in a root, or it is in another package: then what is around it is a namespace package.
func (r *pythonIndex) findRoots(dir string) (out []pyRoot) {
	top := dir
	for inDir(path.Dir(top), r.x.names(path.Dir(top)), "__init__") != "" && top != "." {
		top = path.Dir(top)
	}
	placed := inDir(top, r.x.names(top), "__init__") == ""
	for d := dir; ; d = path.Dir(d) {
		p := r.config.Get(d)
		for _, root := range p.roots {
			out = append(out, pyRoot{dir: root, sure: true})
			placed = placed || strings.HasPrefix(dir, root+"/")
		}
		if p.marked || d == "." {
			out = append(out, pyRoot{dir: d, sure: p.strong || d == "."})
		}
		if d == "." {
			break
		}
	}
	if !placed && !r.packaged(path.Dir(top)) {
		out = append(out, pyRoot{dir: path.Dir(top), only: path.Base(top)})
	}
	return out
}

// pythonSettings returns the directories that a configuration file names as places of sources, relative
// to its own. It reads TOML, INI, JSON and the call in a setup.py alike, as keys and what follows them:
//
//	[tool.setuptools.packages.find]      where = ["lib"]
//	[tool.setuptools]                    package-dir = {"" = "lib"}
//	[tool.poetry]                        packages = [{include = "a", from = "lib"}]
//	[tool.hatch.build.targets.wheel]     packages = ["lib/a"]
//	[tool.pytest.ini_options]            pythonpath = ["lib"]
//	setup(package_dir={"": "lib"}, packages=find_packages("lib"))
func pythonSettings(data []byte) (out []string) {
	key, word := "-", ""
	pending := false // word is a value, unless a sign makes it a key
	for token := range settingTokens(string(data)) {
		isSign := strings.Contains("=:(", token[:1])
		switch {
		case !pending:
		case isSign:
			key = word[strings.LastIndexByte(word, '.')+1:]
		case key == "packages" && strings.Contains(word, "/"):
			out = append(out, path.Dir(word))
		case key != "packages" && pyKeys[key]:
			out = append(out, path.Clean(word))
		}
		if pending = !isSign && token[0] != '['; pending {
			word = strings.Trim(token, `"'`)
		} else if token[0] == '[' {
			key = "-"
		}
	}
	return out
}

// pyKeys are the settings that have directories of sources as values, and the key of {"" = "lib"}.
var pyKeys = map[string]bool{
	"": true, "where": true, "from": true, "package-dir": true, "package_dir": true, "packages": true,
	"find_packages": true, "find_namespace_packages": true, "sources": true, "python-source": true, "module-root": true,
	"pythonpath": true, "extraPaths": true, "mypy_path": true,
}

// settingTokens returns the words, strings, signs and headers of a configuration file, and a last header.
func settingTokens(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
			if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") && !strings.ContainsAny(line, `"',`) {
				if !yield(line) {
					return
				}
				continue
			}
			for line != "" {
				n := settingToken(line)
				if n > 0 && !yield(line[:n]) {
					return
				}
				line = line[max(n, 1):]
			}
		}
		yield("[")
	}
}

// settingToken returns the length of the token that a line begins with, or 0.
func settingToken(line string) int {
	switch c := line[0]; {
	case c == '"' || c == '\'':
		if n := strings.IndexByte(line[1:], c); n >= 0 {
			return n + 2
		}
	case strings.IndexByte("=:(", c) >= 0:
		return 1
	default:
		n := strings.IndexFunc(line, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./", r)
		})
		if n < 0 {
			return len(line)
		}
		return n
	}
	return 0
}
