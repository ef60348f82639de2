package suggest

import (
	"encoding/json"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Package is a version of a package that a lock file names.
type Package struct {
	// Ecosystem is that of the OSV format: "Go", "npm", "PyPI" or "crates.io".
	Ecosystem string `json:"ecosystem"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	// File is the lock file.
	File string `json:"file"`
}

const maxPackages = 100_000 // of a lock file

// Locked returns the packages of a lock file, sorted, or nil if the name is not that of one: go.sum, package-lock.json,
// npm-shrinkwrap.json, yarn.lock, pnpm-lock.yaml, Cargo.lock, poetry.lock or uv.lock. gomod is the go.mod beside a go.sum:
// of a module that it requires, only this version is used. Packages that are not from the ecosystem's registry are left out.
func Locked(name, text, gomod string) ([]Package, error) {
	l := locked{file: name}
	var err error
	switch path.Base(name) {
	case "go.sum":
		l.goSum(text, gomod)
	case "package-lock.json", "npm-shrinkwrap.json":
		err = l.npm(text)
	case "yarn.lock":
		l.yarn(text)
	case "pnpm-lock.yaml":
		l.pnpm(text)
	case "Cargo.lock":
		l.toml(text, "crates.io")
	case "poetry.lock", "uv.lock":
		l.toml(text, "PyPI")
	default:
		return nil, nil
	}
	slices.SortFunc(l.found, func(a, b Package) int { return strings.Compare(a.Name+"\x00"+a.Version, b.Name+"\x00"+b.Version) })
	return slices.Compact(l.found), err
}

type locked struct {
	file  string
	found []Package
}

func (l *locked) add(ecosystem, name, version string) {
	if name != "" && version != "" && len(l.found) < maxPackages && len(name)+len(version) < 500 {
		l.found = append(l.found, Package{ecosystem, name, version, l.file})
	}
}

// goSum takes the version that go.mod requires, or else the highest one whose content was downloaded.
func (l *locked) goSum(text, gomod string) {
	required := map[string]string{}
	for line := range strings.Lines(gomod) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(words) == 2 && strings.HasPrefix(words[1], "v") {
			required[words[0]] = words[1]
		}
	}
	best := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || strings.HasSuffix(words[1], "/go.mod") {
			continue
		}
		name, version := words[0], words[1]
		switch order, ok := compare(version, best[name]); {
		case best[name] == required[name] && best[name] != "":
		case version == required[name] || best[name] == "" || ok && order > 0:
			best[name] = version
		}
	}
	for name, version := range best {
		l.add("Go", name, strings.TrimSuffix(version, "+incompatible"))
	}
}

type npmPackage struct {
	Name, Version string
	Resolved      any // version 6 of npm has written false
	Link          bool
}

// npmOld is a package in version 1 of the format. In later ones, the dependencies of a package are ranges.
type npmOld struct {
	npmPackage
	Dependencies map[string]npmOld
}

func (l *locked) npm(text string) error {
	var all struct {
		Packages     map[string]npmPackage
		Dependencies map[string]npmOld
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return err
	}
	for at, p := range all.Packages {
		if i := strings.LastIndex(at, "node_modules/"); i >= 0 && !p.Link {
			name := at[i+len("node_modules/"):]
			if p.Name != "" { // under another name
				name = p.Name
			}
			l.npmAdd(name, &p)
		}
	}
	if all.Packages == nil { // version 1
		return l.npmOld(all.Dependencies, 0)
	}
	return nil
}

func (l *locked) npmOld(all map[string]npmOld, depth int) error {
	if depth > 100 {
		return errors.New("it is nested too deeply")
	}
	for name, p := range all {
		l.npmAdd(name, &p.npmPackage)
		if err := l.npmOld(p.Dependencies, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// npmAdd adds a package unless it is from a file or from git.
func (l *locked) npmAdd(name string, p *npmPackage) {
	version := p.Version
	if real, ok := strings.CutPrefix(version, "npm:"); ok {
		i := max(0, strings.LastIndexByte(real, '@'))
		name, version = real[:i], strings.TrimPrefix(real[i:], "@")
	}
	resolved, _ := p.Resolved.(string)
	if version != "" && version[0] >= '0' && version[0] <= '9' && (resolved == "" || strings.HasPrefix(resolved, "http")) {
		l.add("npm", name, version)
	}
}

// yarn reads both forms: a line with the names and ranges, and then the version, indented.
func (l *locked) yarn(text string) {
	name, version, resolved := "", "", ""
	end := func() {
		l.npmAdd(name, &npmPackage{Version: version, Resolved: resolved})
		name, version, resolved = "", "", ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.Trim(value, `"`)
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case line[0] != ' ':
			end()
			first, _, _ := strings.Cut(strings.Trim(strings.TrimSuffix(line, ":"), `"`), ",")
			first = strings.Trim(first, `"`)
			if i := strings.IndexByte(first[min(1, len(first)):], '@'); i >= 0 {
				of := first[i+2:]
				name = first[:i+1]
				if real, ok := strings.CutPrefix(of, "npm:"); ok && strings.LastIndexByte(real, '@') > 0 { // under another name
					name = real[:strings.LastIndexByte(real, '@')]
				} else if strings.Contains(of, ":") && !strings.HasPrefix(of, "npm:") && !strings.HasPrefix(of, "patch:") {
					name = "" // from a file, git or this workspace
				}
			}
		case strings.TrimSuffix(key, ":") == "version":
			version = value
		case key == "resolved":
			resolved = value
		}
	}
	end()
}

// ofPNPM matches a package as the versions of pnpm have written it, and as programs that format files do.
var ofPNPM = regexp.MustCompile(`^  ['"]?/?((?:@[^/@]+/)?[^/@'"(]+)[@/](\d[^'"(_:]*)[^:]*['"]?:`)

func (l *locked) pnpm(text string) {
	in := false
	for line := range strings.Lines(text) {
		if line[0] != ' ' && strings.TrimSpace(line) != "" {
			in = strings.HasPrefix(line, "packages:")
		}
		if m := ofPNPM.FindStringSubmatch(line); in && m != nil {
			l.add("npm", m[1], m[2])
		}
	}
}

// toml reads the tables "package" of a lock file, which has one key in a line.
func (l *locked) toml(text, ecosystem string) {
	var p map[string]string
	end := func() {
		registry := ecosystem != "crates.io" // poetry names a source only if it is another one
		if source := p["source"]; source != "" {
			registry = strings.Contains(source, "registry")
		}
		if registry {
			l.add(ecosystem, p["name"], p["version"])
		}
		p = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "[[package]]":
			end()
			p = map[string]string{}
		case strings.HasPrefix(line, "["):
			if strings.HasPrefix(line, "[package.source]") && p != nil {
				p["source"] = "elsewhere"
				continue
			}
			end()
		case ok && p != nil:
			if key = strings.TrimSpace(key); p[key] == "" {
				p[key] = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	end()
}
