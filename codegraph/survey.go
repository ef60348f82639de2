package codegraph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/late"
	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/resolve"
)

// This file reads what says how projects are built. Of each kind of file, those that are least deep in the
// workspace say the commands.

// configKinds are the names of the files that are read, or their ends, and what kind each is.
var configKinds = map[string]string{
	"go.mod": "go", "Cargo.toml": "cargo", "package.json": "npm", "pyproject.toml": "python", "pytest.ini": "pytest",
	"tox.ini": "tox", "noxfile.py": "nox", "Makefile": "make", "makefile": "make", "GNUmakefile": "make",
	"Taskfile.yml": "task", "Taskfile.yaml": "task", "justfile": "just", "Justfile": "just", "configure.ac": "configure",
	"CMakeLists.txt": "cmake", "meson.build": "meson", "pom.xml": "maven", "settings.gradle": "gradle",
	"settings.gradle.kts": "gradle", "build.gradle": "gradle", "build.gradle.kts": "gradle", ".sln": "dotnet", ".slnx": "dotnet",
	".csproj": "dotnet", ".fsproj": "dotnet", ".gemspec": "gem", "Rakefile": "rake", "composer.json": "composer", "mix.exs": "mix",
	"Package.swift": "swift", "pubspec.yaml": "dart", "build.sbt": "sbt", "dune-project": "dune", ".cabal": "cabal",
	"build.zig.zon": "zig", "rebar.config": "rebar",
}

// builds are the kinds of which no more is read than a name.
var builds = map[string]struct {
	project  string
	name     func() *regexp.Regexp // nil: that of the file
	commands []string
}{
	"configure": {"C project", late.Regexp(`(?m)^AC_INIT\(\s*\[?([^\]\[,)]+)\]?\s*,`), []string{"autoreconf -i && ./configure && make", "make check"}},
	"cmake":     {"CMake project", late.Regexp(`(?mi)^\s*project\s*\(\s*"?([\w.+-]+)`), []string{"cmake -B build && cmake --build build"}},
	"meson":     {"Meson project", late.Regexp(`(?m)^project\(\s*'([^']+)`), []string{"meson setup build && meson test -C build"}},
	"maven":     {"Maven project", late.Regexp(`(?s)^(?:.*?</parent>)?.*?<artifactId>\s*([^<\s]+)`), []string{"mvn test"}},
	"gradle":    {"Gradle project", late.Regexp(`(?m)^rootProject\.name\s*=\s*["']([^"']+)`), []string{"gradle build"}},
	"dotnet":    {".NET project", nil, []string{"dotnet build", "dotnet test"}},
	"gem":       {"Ruby gem", nil, nil},
	"rake":      {"", nil, []string{"rake"}},
	"composer":  {"PHP package", late.Regexp(`(?m)^\s*"name"\s*:\s*"([^"]+)`), []string{"composer install"}},
	"mix":       {"Elixir project", late.Regexp(`\bapp:\s*:(\w+)`), []string{"mix compile", "mix test"}},
	"swift":     {"Swift package", late.Regexp(`\bname:\s*"([^"]+)`), []string{"swift build", "swift test"}},
	"dart":      {"Dart package", late.Regexp(`(?m)^name:\s*(\w+)`), []string{"dart test"}},
	"sbt":       {"Scala project", late.Regexp(`(?m)\bname\s*:=\s*"([^"]+)`), []string{"sbt test"}},
	"dune":      {"OCaml project", late.Regexp(`\(name\s+([^)\s]+)`), []string{"dune build", "dune test"}},
	"cabal":     {"Haskell package", nil, []string{"cabal build", "cabal test"}},
	"zig":       {"Zig package", late.Regexp(`\.name\s*=\s*[."]*(\w+)`), []string{"zig build", "zig build test"}},
	"rebar":     {"", nil, []string{"rebar3 compile", "rebar3 eunit"}},
}

var (
	serviceFiles = []string{
		".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml", ".travis.yml",
		"bitbucket-pipelines.yml",
	}
	serviceDirs = []string{".github/workflows", ".ci", ".buildkite"}
	// targetOrder are the targets that are named first.
	targetOrder = []string{
		"build", "test", "check", "lint", "typecheck", "fmt", "format", "generate", "run", "start", "dev", "install",
	}
)

const maxTargets = 10 // of one file

// A projectFile is a file that says what a project is.
type projectFile struct {
	kind, path, dir string
	data            []byte
	top             bool // it says the commands
}

// configs reads the files of projects.
func (m *surveyor) configs(ctx context.Context) error {
	var found []projectFile
	for _, f := range m.s.files {
		dir, base := path.Dir(f.path), path.Base(f.path)
		if kind := cmp.Or(configKinds[base], configKinds[path.Ext(base)]); kind != "" {
			found = append(found, projectFile{kind: kind, path: f.path, dir: dir})
		}
		if slices.Contains(serviceFiles, f.path) || slices.Contains(serviceDirs, dir) {
			m.services = append(m.services, label(f.path))
		}
	}
	depth := func(f *projectFile) int { return strings.Count(f.path, "/") }
	order.By(found, func(a, b *projectFile) int { return cmp.Compare(depth(a), depth(b)) })
	tops := map[string]int{} // the least depth of a kind, plus one
	for _, f := range found[:min(len(found), maxConfigs)] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if tops[f.kind] == 0 {
			tops[f.kind] = depth(&f) + 1
		}
		f.top = tops[f.kind] == depth(&f)+1
		f.data = readAll(m.g.files, f.path, maxConfig)
		m.config(f)
	}
	return nil
}

// config adds what one file says.
func (m *surveyor) config(f projectFile) {
	switch f.kind {
	case "go":
		m.project(f, "Go module", first(goModule(), f.data))
		m.command(f, "go build ./...", "go test ./...")
	case "cargo":
		m.cargo(f)
	case "npm":
		m.npm(f)
	case "python":
		m.python(f)
	case "pytest":
		m.command(f, "pytest")
	case "tox":
		if toxSection().Match(f.data) {
			m.command(f, "tox")
		}
	case "nox":
		m.command(f, "nox")
	case "make":
		m.targets(f, "make", makeTarget().FindAllSubmatch(f.data, -1))
	case "just":
		m.targets(f, "just", justTarget().FindAllSubmatch(f.data, -1))
	case "task":
		if _, tasks, ok := strings.Cut("\n"+string(f.data), "\ntasks:"); ok {
			m.targets(f, "task", taskTarget().FindAllSubmatch([]byte(tasks), -1))
		}
	default:
		m.build(f)
	}
}

// build adds what a file of one of the other kinds says.
func (m *surveyor) build(f projectFile) {
	b := builds[f.kind]
	base := path.Base(f.path)
	if b.name != nil {
		m.project(f, b.project, first(b.name(), f.data))
	} else if b.project != "" {
		m.project(f, b.project, strings.TrimSuffix(base, path.Ext(base)))
	}
	for _, c := range b.commands {
		program, rest, _ := strings.Cut(c, " ")
		if w := program + "w"; m.s.file(path.Join(f.dir, w)) != nil { // mvnw, gradlew: of the version that the project wants
			c = "./" + w + " " + rest
		}
		m.command(f, c)
	}
}

var (
	goModule   = late.Regexp(`(?m)^module[ \t]+"?([^\s"]+)`)
	toxSection = late.Regexp(`(?m)^\[(tox|testenv)`)
	makeTarget = late.Regexp(`(?m)^([A-Za-z0-9][A-Za-z0-9_-]*)[ \t]*:(?:[^=\n]|$)`)
	justTarget = late.Regexp(`(?m)^@?([A-Za-z][A-Za-z0-9_-]*)(?:[ \t][^:\n]*)?:(?:[^=\n]|$)`)
	taskTarget = late.Regexp(`(?m)^  ([A-Za-z][A-Za-z0-9_:-]*):[ \t\r]*$`)
)

func first(pattern *regexp.Regexp, data []byte) string {
	if m := pattern.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return ""
}

// in returns where a file is, unless that is the root.
func (f projectFile) in() string {
	if f.dir == "." {
		return ""
	}
	return " in " + label(f.dir)
}

func (m *surveyor) project(f projectFile, kind, name string) {
	if name != "" {
		m.projects = append(m.projects, kind+" "+label(name)+f.in())
	}
}

func (m *surveyor) command(f projectFile, commands ...string) {
	if f.top {
		for _, c := range commands {
			if c += f.in(); !slices.Contains(m.commands, c) {
				m.commands = append(m.commands, c)
			}
		}
	}
}

// targets adds commands for the targets that patterns have found, those first whose names say most.
func (m *surveyor) targets(f projectFile, tool string, found [][][]byte) {
	var names []string
	for _, match := range found[:min(len(found), 1000)] {
		if name := string(match[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	m.named(f, tool, names)
}

func (m *surveyor) named(f projectFile, tool string, names []string) {
	place := func(name string) int {
		if i := slices.Index(targetOrder, name); i >= 0 {
			return i
		}
		return len(targetOrder)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return label(name) != name }) // a shell would read more in it
	order.By(names, func(a, b *string) int { return place(*a) - place(*b) })
	for _, name := range names[:min(len(names), maxTargets)] {
		m.command(f, tool+" "+name)
	}
}

func (m *surveyor) program(f projectFile, name, target string) {
	if name != "" && target != "" {
		m.programs = append(m.programs, label(name)+" = "+label(target)+f.in())
	}
}

func (m *surveyor) cargo(f projectFile) {
	values := resolve.TOML(f.data)
	get := func(key ...string) string {
		if v := values[strings.Join(key, resolve.TOMLSep)]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	name := get("package", "name")
	m.project(f, "Rust package", name)
	if m.s.file(path.Join(f.dir, "src/main.rs")) != nil {
		m.program(f, name, "src/main.rs")
	}
	for i := range 20 {
		bin := get("bin", fmt.Sprint(i), "name")
		m.program(f, bin, cmp.Or(get("bin", fmt.Sprint(i), "path"), "src/bin/"+bin+".rs"))
	}
	m.command(f, "cargo build", "cargo test")
}

func (m *surveyor) python(f projectFile) {
	values := resolve.TOML(f.data)
	tested := false
	var tasks []string // of poethepoet
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts := strings.Split(key, resolve.TOMLSep)
		rest := parts[min(2, len(parts)):]
		switch {
		case key == "project"+resolve.TOMLSep+"name":
			m.project(f, "Python project", values[key][0])
		case parts[0] == "project" && len(rest) == 1 && (parts[1] == "scripts" || parts[1] == "gui-scripts"):
			m.program(f, rest[0], values[key][0])
		case parts[0] == "tool" && len(parts) == 4 && parts[1] == "poetry" && parts[2] == "scripts":
			m.program(f, parts[3], values[key][0])
		case parts[0] == "tool" && len(parts) > 3 && parts[1] == "poe" && parts[2] == "tasks":
			tasks = append(tasks, parts[3])
		case parts[0] == "tool" && len(parts) > 1 && parts[1] == "pytest":
			tested = true
		}
	}
	m.named(f, "poe", slices.Compact(tasks))
	if tested {
		m.command(f, "pytest")
	}
}

func (m *surveyor) npm(f projectFile) {
	var p struct {
		Name    string            `json:"name"`
		Scripts map[string]string `json:"scripts"`
		Bin     any               `json:"bin"`
	}
	if json.Unmarshal(f.data, &p) != nil {
		return
	}
	m.project(f, "JavaScript package", p.Name)
	switch bin := p.Bin.(type) {
	case string:
		m.program(f, path.Base(p.Name), bin)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(bin)) {
			target, _ := bin[name].(string)
			m.program(f, name, target)
		}
	}
	m.named(f, m.manager(f.dir)+" run", slices.Sorted(maps.Keys(p.Scripts)))
}

// manager returns the program that runs the scripts of a package: that of the nearest lock file.
func (m *surveyor) manager(dir string) string {
	for ; ; dir = path.Dir(dir) {
		for _, c := range [][2]string{
			{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
			{"package-lock.json", "npm"},
		} {
			if m.s.file(path.Join(dir, c[0])) != nil {
				return c[1]
			}
		}
		if dir == "." {
			return "npm"
		}
	}
}
