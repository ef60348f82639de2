package codegraph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tokens"
)

// Sections of a map, in its order, with the tokens that each may have. Together they are below a thousand.
const (
	projectTokens   = 140
	languageTokens  = 60
	directoryTokens = 250
	entryTokens     = 190
	commandTokens   = 240
	serviceTokens   = 60

	maxConfigs = 60        // files that are read
	maxConfig  = 256 << 10 // bytes
	maxLabel   = 80        // bytes of a name
)

// Map describes a workspace in at most 1,000 tokens: the projects in it, its languages, the directories that most
// other files use, the programs, the commands that build and test it, and the files of its continuous
// integration. It says only what it has found: in the graph and in files such as go.mod, package.json,
// pyproject.toml, Cargo.toml and Makefile, up to sixty of them. Names come from the workspace, so they are as
// little to be trusted as its files; they are shortened, those with spaces, control characters or punctuation that
// could mislead are quoted, and scripts with such names are left out. The same files give the same text. A host calls it once, and may put it into the system prompt. The error is that of ctx.
func (g *Graph) Map(ctx context.Context, s *Snapshot) (string, error) {
	m := surveyor{g: g, s: s}
	if err := m.configs(ctx); err != nil {
		return "", err
	}
	m.entries()
	var out strings.Builder
	for _, section := range []struct {
		title, sep string
		items      []string
		room       int64
	}{
		{"Projects", ", ", m.projects, projectTokens},
		{"Source files", ", ", m.languages(), languageTokens},
		{"Directories that most files use", ", ", m.directories(), directoryTokens},
		{"Programs", ", ", m.programs, entryTokens},
		{"Commands found", "; ", m.commands, commandTokens},
		{"Continuous integration", ", ", m.services, serviceTokens},
	} {
		out.WriteString(line(section.title, section.sep, section.items, section.room))
	}
	return out.String(), nil
}

// Commands returns the commands that build and test the projects of a workspace, as [Graph.Map] describes them: those of
// a directory below the root end in " in " and its name. The error is that of ctx.
func (g *Graph) Commands(ctx context.Context, s *Snapshot) ([]string, error) {
	m := surveyor{g: g, s: s}
	err := m.configs(ctx)
	return m.commands, err
}

// line returns the items that have room in a number of tokens, each once, or "" if there are none.
func line(title, sep string, items []string, room int64) string {
	text, seen := title+": ", map[string]bool{}
	left := 0
	for _, item := range items {
		if seen[item] {
			continue
		}
		seen[item] = true
		longer := text + sep + item
		if len(seen) == 1 {
			longer = text + item
		}
		if left > 0 || tokens.Estimate(longer) > room-10 {
			left++
			continue
		}
		text = longer
	}
	switch {
	case len(seen) == left:
		return ""
	case left > 0:
		text += fmt.Sprintf("%sand %d more", sep, left)
	}
	return text + "\n"
}

// label returns a name as it may stand in a map.
func label(name string) string { return quoted(runes.Shorten(name, maxLabel)) }

// quoted returns a name as it may stand in a line for a model. It is quoted if it could pass for a part of the line.
func quoted(name string) string {
	plain := runes.Path(name)
	if plain[0] != '"' && strings.ContainsAny(plain, " ,;|&<>[]`$'") {
		return strconv.Quote(plain)
	}
	return plain
}

// A surveyor collects the items of a map.
type surveyor struct {
	g                                      *Graph
	s                                      *Snapshot
	projects, programs, commands, services []string
}

// languages returns the languages with the number of their files, the most frequent first.
func (m *surveyor) languages() (items []string) {
	counts := map[string]int{}
	for _, f := range m.s.files {
		if f.facts != nil {
			counts[string(f.facts.Language)]++
		}
	}
	for _, lang := range byCount(counts) {
		items = append(items, fmt.Sprintf("%d %s", counts[lang], label(lang)))
	}
	return items
}

// byCount returns the keys, the highest count first.
func byCount(counts map[string]int) []string {
	keys := slices.Sorted(maps.Keys(counts))
	order.By(keys, func(a, b *string) int { return counts[*b] - counts[*a] })
	return keys
}

// directories returns the directories that files of other directories use, by the number of these files.
func (m *surveyor) directories() (items []string) {
	l := m.s.links()
	files, users := map[string]int{}, map[string]int{}
	for i, f := range m.s.files {
		if f.facts == nil {
			continue
		}
		dir := path.Dir(f.path)
		files[dir]++
		used := map[string]bool{dir: true}
		for _, d := range l.deps[i] {
			if of := path.Dir(m.s.files[d].path); !used[of] {
				used[of] = true
				users[of]++
			}
		}
	}
	for _, dir := range byCount(users) {
		s := "s"
		if files[dir] == 1 {
			s = ""
		}
		items = append(items, fmt.Sprintf("%s (%d file%s, used by %d)", label(dir), files[dir], s, users[dir]))
	}
	return items
}

// entries adds the programs that source files are: packages main of Go, files of C and Java that declare main or
// have its name, and __main__.py. Those in directories for examples and tests come last.
func (m *surveyor) entries() {
	var first, last []string
	for _, f := range m.s.files {
		switch name := f.program(); {
		case name == "":
		case aside(name):
			last = append(last, label(name))
		default:
			first = append(first, label(name))
		}
	}
	m.programs = slices.Concat(m.programs, first, last)
}

// program returns the name of a file that is a program, or of its directory in Go, or "".
func (f *file) program() string {
	if f.facts == nil {
		return ""
	}
	switch dir, base := path.Split(f.path); f.facts.Language {
	case source.Go:
		if f.facts.Package == "main" && f.runs() {
			return cmp.Or(dir, base)
		}
	case source.Python:
		if base == "__main__.py" {
			return f.path
		}
	case source.C, source.Java:
		if f.runs() {
			return f.path
		}
	}
	return ""
}

// runs reports whether a file declares main.
func (f *file) runs() bool {
	return strings.HasPrefix(path.Base(f.path), "main.c") || slices.ContainsFunc(f.facts.Decls, func(d source.Decl) bool {
		return d.Name == "main" && (d.Kind == source.Func || d.Kind == source.Method)
	})
}

// aside reports whether a path is one of an example, a test or a helper.
func aside(p string) bool {
	for part := range strings.SplitSeq(strings.ToLower(p), "/") {
		for word := range strings.FieldsSeq("example test sample script fuzz bench doc fixture vendor internal") {
			if strings.HasPrefix(strings.TrimLeft(part, "_."), word) {
				return true
			}
		}
	}
	return false
}
