package project

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/runes"
)

// ConfigFile and AgentsFile are where the texts of a [Draft] belong.
const (
	ConfigFile = ".aycoder/config.toml"
	AgentsFile = "AGENTS.md"
)

// Draft is a proposal for the files of a project.
type Draft struct {
	// Config is for [ConfigFile]. Every setting in it is commented out.
	Config string
	// Agents is for [AgentsFile], or "" if the project has this file.
	Agents string
}

// customary are the commands of projects that have a file in their root, with the checker of tools.checks and the
// language server for them.
var customary = []struct {
	file          string // a pattern of path.Match
	commands      []string
	check, server string
}{
	{"go.mod", []string{"go build ./...", "go test ./...", "go vet ./...", "gofmt -l ."}, "go vet", "gopls"},
	{"staticcheck.conf", []string{"staticcheck ./..."}, "staticcheck", ""},
	{".golangci.y*ml", []string{"golangci-lint run"}, "golangci-lint", ""},
	{"Cargo.toml", []string{"cargo build", "cargo test", "cargo clippy", "cargo fmt --check"}, "clippy", "rust-analyzer"},
	{"pyproject.toml", nil, "", "pyright-langserver"},
	{"ruff.toml", []string{"ruff check .", "ruff format --check ."}, "ruff", "pyright-langserver"},
	{"pytest.ini", []string{"pytest"}, "", "pyright-langserver"},
	{"mypy.ini", []string{"mypy ."}, "", "pyright-langserver"},
	{"tsconfig.json", []string{"npx tsc --noEmit"}, "tsc", "typescript-language-server"},
	{"eslint.config.*", []string{"npx eslint ."}, "eslint", "typescript-language-server"},
	{".prettierrc*", []string{"npx prettier --check ."}, "", ""},
	{".pre-commit-config.yaml", []string{"pre-commit run --all-files"}, "", ""},
}

// generated are directories that people seldom edit.
var generated = []string{
	"node_modules", "vendor", "third_party", "dist", "build", "target", "out", "coverage", ".venv", "venv", "bower_components",
}

// purposes are the kinds of commands, with words that they have.
var purposes = []struct{ name, words string }{
	{"Format", "fmt gofmt format prettier"}, {"Lint", "lint vet clippy ruff eslint mypy tsc typecheck check-types pre-commit golangci"},
	{"Test", "test check pytest tox nox jest vitest"}, {"Build", "build compile"},
}

const maxCommands = 30

// Init looks at the root of a project, and drafts a configuration and instructions for it. commands are further
// commands that are known of it, those of the method Commands of a graph of package codegraph. Nothing is written,
// and nothing in the draft takes effect before a person has read it and removed the mark of the comment. Names that
// could mislead are left out. The error is that of listing the directory.
func Init(ctx context.Context, files Files, commands []string) (*Draft, error) {
	entries, err := files.ReadDir(ctx, ".")
	if err != nil {
		return nil, fmt.Errorf("look at the project: %w", err)
	}
	var ignored, found, checks, servers []string
	has := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		has[name] = true
		if e.IsDir() && slices.Contains(generated, name) {
			ignored = append(ignored, name+"/")
		}
		for _, c := range customary {
			if ok, _ := path.Match(c.file, name); ok && !e.IsDir() {
				found, checks, servers = append(found, c.commands...), append(checks, c.check), append(servers, c.server)
			}
		}
	}
	var all []string
	for _, c := range append(found, commands...) {
		if !slices.Contains(all, c) && runes.Path(c) == c && len(all) < maxCommands {
			all = append(all, c)
		}
	}
	d := &Draft{Config: draftConfig(all, ignored) + draftPrograms(distinct(checks), distinct(servers))}
	if !has[AgentsFile] {
		d.Agents = draftAgents(all)
	}
	return d, nil
}

// purpose returns what a command is for, or "".
func purpose(command string) string {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" :/-_.", r) })
	for _, p := range purposes {
		if slices.ContainsFunc(strings.Fields(p.words), func(w string) bool {
			return slices.Contains(words, w) || strings.Contains(w, "-") && strings.Contains(command, w)
		}) {
			return p.name
		}
	}
	return ""
}

func draftConfig(commands, ignored []string) string {
	var out strings.Builder
	out.WriteString(`# Settings of this project. Each is a suggestion: remove the # before those that you want.
# What this file says can make an agent ask more often, but never less.

# [tools]
# # Directories that searches leave out, beside those that git ignores.
`)
	fmt.Fprintf(&out, "# ignore = %s\n", quotedList(ignored))
	out.WriteString(`
# What is asked about, whatever other rules say.
# [[approval.rules]]
# action = "ask"
# tool = "bash"
# pattern = "git push"
`)
	var rules []string
	for _, c := range commands {
		if !strings.Contains(c, " in ") && !strings.ContainsAny(c, "*&|;<>$`\\") && purpose(c) != "" {
			rules = append(rules, c)
		}
	}
	if len(rules) == 0 {
		return out.String()
	}
	out.WriteString(`
# These commands were found. A rule that allows is taken only from your own config.toml, not from this file: copy
# there what you want to run without a question. Each runs code of the project.
`)
	for _, c := range rules {
		fmt.Fprintf(&out, "# [[approval.rules]] # %s\n# action = \"allow\"\n# tool = \"bash\"\n# pattern = %s\n",
			strings.ToLower(purpose(c)), strconv.Quote(c))
	}
	return out.String()
}

// draftPrograms suggests checkers and language servers.
func draftPrograms(checks, servers []string) string {
	var out strings.Builder
	if len(checks) > 0 {
		fmt.Fprintf(&out, `
# These checkers can look at the files that an edit has changed. They are taken only from your own config.toml, too: copy
# there what you want, into the table [tools].
# checks = %s
`, quotedList(checks))
	}
	if len(servers) > 0 {
		out.WriteString("\n# Language servers for this project, if they are installed. They are taken only from your own config.toml, too, and run\n" +
			"# only where a rule or the mode allows their commands, since they run code of the project.\n")
		for _, name := range servers {
			fmt.Fprintf(&out, "# [language_servers.%s]\n", name)
		}
	}
	return out.String()
}

// distinct returns the texts of a list that are not empty, sorted, each once.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(s string) bool { return s == "" })
}

func quotedList(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, strconv.Quote(name))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// draftAgents returns instructions in which a person fills in what no program can know.
func draftAgents(commands []string) string {
	var out strings.Builder
	out.WriteString("# For coding agents\n\n<!-- Say in a few lines what the project is, and what a stranger gets wrong. -->\n")
	for _, p := range slices.Backward(purposes) {
		n := 0
		for _, c := range commands {
			if purpose(c) != p.name {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(&out, "\n## %s\n\n", p.name)
			}
			command, dir, below := strings.Cut(strings.ReplaceAll(c, "`", "'"), " in ")
			fmt.Fprintf(&out, "- `%s`", command)
			if below {
				out.WriteString(" in " + dir)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}
