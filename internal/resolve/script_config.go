package resolve

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A scriptConfig is what a tsconfig.json says, with all that it extends. Paths are relative to the
// workspace. See https://www.typescriptlang.org/tsconfig.
type scriptConfig struct {
	dir            string
	baseURL        string // "" if there is none
	paths          []scriptPaths
	rootDirs       []string
	rootDir        string
	outDir         string
	declarationDir string
	allowJS        bool
	files          []string // nil if not given, also the next ones
	include        []string
	exclude        []string
	references     []string
}

// A scriptPaths is an entry of paths: a pattern with at most one star, and where to look for what matches.
type scriptPaths struct {
	pattern string
	targets []string
}

// maxExtends is how many configurations may extend each other.
const maxExtends = 30

// findConfig reads a configuration. It returns nil if there is none.
func (r *scriptIndex) findConfig(file string) *scriptConfig {
	if !r.x.file(file) {
		return nil
	}
	c := &scriptConfig{dir: path.Dir(file), allowJS: path.Base(file) == "jsconfig.json"}
	paths := pathsOption{value: null()}
	for _, f := range r.chain(file) {
		r.apply(c, f, &paths)
	}
	c.setPaths(paths)
	for _, ref := range r.json.Get(file).get("references").items {
		p := path.Join(c.dir, ref.get("path").text)
		if path.Ext(p) != ".json" {
			p = path.Join(p, "tsconfig.json")
		}
		c.references = append(c.references, p)
	}
	return c
}

// chain returns the configurations that one extends, and it, each after those that it extends.
func (r *scriptIndex) chain(file string) (chain []string) {
	var visit func(file string, depth int)
	seen := map[string]bool{}
	visit = func(file string, depth int) {
		if file == "" || seen[file] || depth > maxExtends {
			return
		}
		seen[file] = true
		for _, base := range r.json.Get(file).get("extends").strings() {
			visit(r.extended(path.Dir(file), base), depth+1)
		}
		chain = append(chain, file)
	}
	visit(file, 0)
	return chain
}

// extended returns the file that extends names: a path, or one in a package.
func (r *scriptIndex) extended(dir, base string) string {
	if strings.HasPrefix(base, ".") {
		p := path.Join(dir, base)
		return r.firstFile(p, p+".json")
	}
	name, sub := splitPackage(base)
	root := r.packageDir(dir, name)
	if root == "" {
		return ""
	}
	pkg := r.pkg.Get(root)
	if pkg != nil && sub != "" {
		for _, target := range subpath(pkg.exports, "./"+sub) {
			if p := path.Join(root, target); r.x.file(p) {
				return p
			}
		}
	}
	if sub == "" && pkg != nil {
		sub = pkg.tsconfig
	}
	p := path.Join(root, sub)
	return r.firstFile(p, p+".json", path.Join(p, "tsconfig.json"))
}

func (r *scriptIndex) firstFile(paths ...string) string {
	for _, p := range paths {
		if r.x.file(p) {
			return p
		}
	}
	return ""
}

// apply lets a configuration replace what those that it extends say.
func (r *scriptIndex) apply(c *scriptConfig, file string, from *pathsOption) {
	v := r.json.Get(file)
	options := v.get("compilerOptions")
	for i, to := range []*string{&c.baseURL, &c.rootDir, &c.outDir, &c.declarationDir} {
		if p := options.get(pathOptions[i]).text; p != "" {
			*to = c.join(path.Dir(file), p)
		}
	}
	if js := options.get("allowJs").kind; js != jsonNull {
		c.allowJS = js == jsonTrue
	}
	lists := []*jsonValue{options.get("rootDirs"), v.get("files"), v.get("include"), v.get("exclude")}
	for i, to := range []*[]string{&c.rootDirs, &c.files, &c.include, &c.exclude} {
		if list := lists[i]; list.kind == jsonArray {
			*to = []string{}
			for _, p := range list.strings() {
				*to = append(*to, c.join(path.Dir(file), p))
			}
		}
	}
	if paths := options.get("paths"); paths.kind == jsonObject {
		*from = pathsOption{paths, path.Dir(file)}
	}
}

// pathOptions are the compiler options that are one path.
var pathOptions = []string{"baseUrl", "rootDir", "outDir", "declarationDir"}

// A pathsOption is the last option paths of a chain of configurations, and the directory where it stands.
type pathsOption struct {
	value *jsonValue
	dir   string
}

// setPaths sets paths. They are relative to baseUrl, which another configuration may set, or else to where they
// stand.
func (c *scriptConfig) setPaths(from pathsOption) {
	for i, pattern := range from.value.keys {
		var targets []string
		for _, t := range from.value.items[i].strings() {
			targets = append(targets, c.join(cmp.Or(c.baseURL, from.dir), t))
		}
		c.paths = append(c.paths, scriptPaths{pattern, targets})
	}
}

// join returns a path of a configuration. It can begin with the directory of the configuration that extends
// the one in which the path stands.
func (c *scriptConfig) join(dir, p string) string {
	if rest, ok := strings.CutPrefix(p, "${configDir}"); ok {
		return path.Join(c.dir, rest)
	}
	return path.Join(dir, p)
}

// findProject returns the configuration that a source file belongs to: the nearest one or, if that has nothing
// to do with the file, the first of the projects it refers to that includes it.
func (r *scriptIndex) findProject(file string) string {
	nearest := r.nearest.Get(path.Dir(file))
	if nearest == "" {
		return ""
	}
	projects := []string{nearest}
	for i := 0; i < len(projects) && i < maxExtends; i++ {
		c := r.config.Get(projects[i])
		if c == nil {
			continue
		}
		if i == 0 && len(c.references) == 0 || c.includes(file) {
			return projects[i]
		}
		for _, ref := range c.references {
			projects = appendNew(projects, ref)
		}
	}
	return nearest
}

// includes reports whether a file belongs to the project.
func (c *scriptConfig) includes(file string) bool {
	if slices.Contains(c.files, file) {
		return true
	}
	switch path.Ext(file) {
	case ".js", ".jsx", ".mjs", ".cjs":
		if !c.allowJS {
			return false
		}
	}
	if c.files != nil && c.include == nil {
		return false
	}
	include := c.include
	if include == nil {
		include = []string{c.dir}
	}
	matches := func(glob string) bool { return matchGlob(glob, file) }
	return slices.ContainsFunc(include, matches) && !slices.ContainsFunc(c.exclude, matches)
}

// matchGlob reports whether a pattern of include matches a file. A pattern that names a directory matches
// all in it.
func matchGlob(glob, file string) bool {
	parts := strings.Split(glob, "/")
	if last := parts[len(parts)-1]; !strings.ContainsAny(last, "*?") && path.Ext(last) == "" || last == "**" {
		parts = append(parts, "**", "*")
	}
	if glob == "." {
		parts = parts[1:]
	}
	return matchParts(parts, strings.Split(file, "/"))
}

// matchParts matches the parts of a pattern with those of a path. Of several positions that two stars may
// reach, only the last is tried again, which is enough, as in all matching with one kind of star.
func matchParts(pattern, parts []string) bool {
	star, from := -1, 0
	for i, j := 0, 0; ; {
		switch {
		case i < len(pattern) && pattern[i] == "**":
			star, from = i, j
			i++
		case j == len(parts):
			return i == len(pattern)
		case i < len(pattern) && matchPart(pattern[i], parts[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
}

func matchPart(pattern, part string) bool {
	ok, _ := path.Match(pattern, part)
	return ok
}

// configOf returns the configuration of the project of a file, or nil.
func (r *scriptIndex) configOf(file string) *scriptConfig {
	project := r.project.Get(file)
	if project == "" {
		return nil
	}
	return r.config.Get(project)
}

// mapped resolves a name by paths and baseUrl of the project of a file.
func (r *scriptIndex) mapped(file, spec string) string {
	c := r.configOf(file)
	if c == nil {
		return ""
	}
	targets, star := c.match(spec)
	for _, t := range targets {
		p := path.Clean(strings.Replace(t, "*", star, 1))
		if to := cmp.Or(r.fileOrDirectory(p), r.fromBuild(p)); to != "" {
			return to
		}
	}
	if c.baseURL == "" {
		return ""
	}
	return r.fileOrDirectory(path.Join(c.baseURL, spec))
}

// fromBuild returns the source of an output of the package that it is in.
func (r *scriptIndex) fromBuild(p string) string {
	if !inside(p) {
		return ""
	}
	dir := path.Dir(r.scope.Get(path.Dir(p)))
	return r.built(dir, below(dir, p))
}

// match returns where to look for a name: the targets of the entry of paths that is the name, or else of the
// one with the longest text before its star.
func (c *scriptConfig) match(spec string) (targets []string, star string) {
	longest := -1
	for _, e := range c.paths {
		before, after, pattern := strings.Cut(e.pattern, "*")
		switch {
		case !pattern && e.pattern == spec:
			return e.targets, ""
		case pattern && len(before) > longest && len(spec) >= len(before)+len(after) && strings.HasPrefix(spec, before) && strings.HasSuffix(spec, after):
			longest, targets, star = len(before), e.targets, spec[len(before):len(spec)-len(after)]
		}
	}
	return targets, star
}

// rooted resolves a relative import over the directories that rootDirs says are one at run time.
func (r *scriptIndex) rooted(file, p string) string {
	c := r.configOf(file)
	if c == nil {
		return ""
	}
	longest := ""
	for _, root := range c.rootDirs {
		if below(root, p) != "" && len(root) >= len(longest) {
			longest = root
		}
	}
	if longest == "" {
		return ""
	}
	for _, root := range c.rootDirs {
		if to := r.fileOrDirectory(path.Join(root, below(longest, p))); to != "" {
			return to
		}
	}
	return ""
}
