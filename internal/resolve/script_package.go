package resolve

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A scriptPackage is what a package.json says of the resolution of its package.
type scriptPackage struct {
	name          string
	entries       []string // what stands for the package if it has no exports, the best first
	exports       *jsonValue
	imports       *jsonValue
	workspaces    []string
	paths         map[string]string // dependencies that are directories
	typesVersions *jsonValue
	tsconfig      string
}

func (r *scriptIndex) findPackage(dir string) *scriptPackage {
	v := r.json.Get(path.Join(dir, "package.json"))
	if v.kind != jsonObject {
		return nil
	}
	p := &scriptPackage{
		name: v.get("name").text, exports: v.get("exports"), imports: v.get("imports"),
		typesVersions: v.get("typesVersions").get("*"), tsconfig: v.get("tsconfig").text, paths: map[string]string{},
	}
	for _, field := range []string{"types", "typings", "main", "module"} {
		if entry := v.get(field).text; entry != "" {
			p.entries = append(p.entries, entry)
		}
	}
	p.workspaces = v.get("workspaces").strings()
	if v.get("workspaces").kind == jsonObject { // as Yarn 1 allows
		p.workspaces = v.get("workspaces").get("packages").strings()
	}
	for _, field := range []string{"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"} {
		deps := v.get(field)
		for i, name := range deps.keys {
			if protocol, to, ok := strings.Cut(deps.items[i].text, ":"); ok && (protocol != "workspace" || strings.HasPrefix(to, ".")) && slices.Contains([]string{"file", "link", "portal", "workspace"}, protocol) {
				p.paths[name] = path.Join(dir, to)
			}
		}
	}
	return p
}

// private resolves a name that begins with #, by the imports of the package.
func (r *scriptIndex) private(dir, spec string) string {
	root := path.Dir(r.scope.Get(dir))
	pkg := r.pkg.Get(root)
	if pkg == nil {
		return ""
	}
	for _, target := range subpath(pkg.imports, spec) {
		to := ""
		if strings.HasPrefix(target, ".") {
			to = r.target(root, target)
		} else {
			to = r.bare(root, target)
		}
		if to != "" {
			return to
		}
	}
	return ""
}

// bare resolves the name of a package, with or without a path in it.
func (r *scriptIndex) bare(dir, spec string) string {
	name, sub := splitPackage(spec)
	if root := r.packageDir(dir, name); root != "" {
		if pkg := r.pkg.Get(root); pkg != nil {
			return r.inPackage(root, pkg, sub)
		}
		return r.fileOrDirectory(path.Join(root, sub))
	}
	return ""
}

// splitPackage divides @scope/name/a/b into the name of a package and the path in it.
func splitPackage(spec string) (name, sub string) {
	i := strings.IndexByte(spec, '/')
	if i > 0 && spec[0] == '@' {
		if n := strings.IndexByte(spec[i+1:], '/'); n >= 0 {
			i += 1 + n
		} else {
			i = -1
		}
	}
	if i < 0 {
		return spec, ""
	}
	return spec[:i], spec[i+1:]
}

// packageDir returns the directory of a package that is imported in another: the importing package by its
// own name, one in a node_modules, or one of the workspace.
func (r *scriptIndex) packageDir(dir, name string) string {
	if own := r.scope.Get(dir); own != "" {
		pkg := r.pkg.Get(path.Dir(own))
		if pkg != nil && pkg.name == name && pkg.exports.kind != jsonNull {
			return path.Dir(own)
		}
		if pkg != nil && pkg.paths[name] != "" && r.x.names(pkg.paths[name]) != nil {
			return pkg.paths[name]
		}
	}
	for {
		if slices.Contains(r.x.names(dir), "node_modules/") {
			if p := path.Join(dir, "node_modules", name); r.x.names(p) != nil {
				return p
			}
		}
		if p := r.members.Get(dir)[name]; p != "" {
			return p
		}
		if dir == "." {
			return ""
		}
		dir = path.Dir(dir)
	}
}

// inPackage resolves a path in a package.
func (r *scriptIndex) inPackage(dir string, pkg *scriptPackage, sub string) string {
	if pkg.exports.kind != jsonNull {
		key := "."
		if sub != "" {
			key = "./" + sub
		}
		for _, target := range subpath(pkg.exports, key) {
			if to := r.target(dir, target); to != "" {
				return to
			}
		}
		if sub != "" {
			return ""
		}
	}
	if sub == "" {
		return r.entry(dir, pkg)
	}
	for _, target := range append(subpath(pkg.typesVersions, sub), sub) {
		p := path.Join(dir, target)
		if to := cmp.Or(r.fileOrDirectory(p), r.built(dir, below(dir, p)), r.fileOrDirectory(path.Join(dir, "src", target))); to != "" {
			return to
		}
	}
	return ""
}

// entry returns the file that stands for a package without exports.
func (r *scriptIndex) entry(dir string, pkg *scriptPackage) string {
	for _, entry := range pkg.entries {
		if to := r.target(dir, entry); to != "" {
			return to
		}
		if p := path.Join(dir, entry); p != dir {
			if to := r.source(path.Join(p, "index")); to != "" {
				return to
			}
		}
	}
	return cmp.Or(r.source(path.Join(dir, "index")), r.source(path.Join(dir, "src/index")))
}

// target returns the file of a target in exports or imports, or its source.
func (r *scriptIndex) target(dir, target string) string {
	p := path.Join(dir, target)
	if to := r.source(p); to != "" {
		return to
	}
	return r.built(dir, below(dir, p))
}

// subpath returns the targets of a key in exports or imports: the ones of the conditions under which
// TypeScript looks for an import first, then all others. An exact key goes before patterns, and of these
// the one with the longest text before the star (PATTERN_KEY_COMPARE in the documentation of Node.js).
func subpath(v *jsonValue, key string) []string {
	if v.kind != jsonObject || len(v.keys) > 0 && v.keys[0] != "" && v.keys[0][0] != '.' && key == "." {
		if key != "." {
			return nil
		}
		return targets(v, "")
	}
	best, star := -1, ""
	for i, k := range v.keys {
		before, after, pattern := strings.Cut(k, "*")
		if k == key {
			return targets(v.items[i], "")
		}
		if !pattern && strings.HasSuffix(k, "/") { // a directory, as older versions allow
			before, after, pattern = k, "", true
		}
		if !pattern || len(key) < len(before)+len(after) || !strings.HasPrefix(key, before) || !strings.HasSuffix(key, after) {
			continue
		}
		if best < 0 || len(before) > len(beforeStar(v.keys[best])) || len(before) == len(beforeStar(v.keys[best])) && len(k) > len(v.keys[best]) {
			best, star = i, key[len(before):len(key)-len(after)]
		}
	}
	if best < 0 {
		return nil
	}
	return targets(v.items[best], star)
}

func beforeStar(pattern string) string {
	before, _, _ := strings.Cut(pattern, "*")
	return before
}

// conditions are the conditions that hold for an import that TypeScript resolves.
var conditions = []string{"types", "import", "require", "node", "default"}

// targets returns the targets of a value of exports, with the text that the star of the key stands for.
func targets(v *jsonValue, star string) []string {
	holds := collect(nil, v, func(c string) bool { return slices.Contains(conditions, c) || strings.HasPrefix(c, "types@") })
	out := collect(holds, v, func(string) bool { return true })
	for i, t := range out {
		if strings.HasSuffix(t, "/") {
			t += "*"
		}
		out[i] = strings.ReplaceAll(t, "*", star)
	}
	return out
}

// collect appends the targets whose conditions hold, in their order.
func collect(out []string, v *jsonValue, holds func(condition string) bool) []string {
	switch v.kind {
	case jsonString:
		out = appendNew(out, v.text)
	case jsonArray:
		for _, item := range v.items {
			out = collect(out, item, holds)
		}
	case jsonObject:
		for i, key := range v.keys {
			if holds(key) {
				out = collect(out, v.items[i], holds)
			}
		}
	}
	return out
}
