package code

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph"
	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/runes"
)

// Structure is how the code of a workspace depends on itself, as far as package codegraph knows. Files of tests, generated and
// vendored files are left out.
type Structure struct {
	// Cycles are sets of directories that depend on each other, the largest first.
	Cycles [][]string `json:"cycles"`
	// Layers are the directories by what they need: those in the first depend on no other one, and each other directory depends on
	// one in the layer before it. A cycle is in one layer.
	Layers [][]string `json:"layers"`
	// Unused are exported functions and variables that no file of another directory uses, sorted, where others
	// cannot use them either: in Go below internal and in commands, and in TypeScript in files of which others use
	// something else. A use by a test elsewhere counts.
	Unused []Export `json:"unused"`
	// Partial says that the workspace has more files than the graph, so that all of this may be wrong.
	Partial bool `json:"partial,omitempty"`
}

// Export is an exported name of a file.
type Export struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// StructureOf reads the structure of a workspace.
func StructureOf(s *codegraph.Snapshot) *Structure {
	out := &Structure{Partial: s.Partial()}
	needs := map[string]map[string]bool{} // by directory
	used := map[Export]bool{}
	var files []string
	for name := range s.Files() {
		facts := s.Facts(name)
		if facts == nil {
			continue
		}
		for _, r := range s.References(name) {
			if path.Dir(r.File) != path.Dir(name) || facts.Language != source.Go {
				used[Export{r.File, r.Name}] = true
			}
		}
		if facts.Generated || ignore.Vendored(name) || IsTest(name) {
			continue
		}
		files = append(files, name)
		dir := path.Dir(name)
		if needs[dir] == nil {
			needs[dir] = map[string]bool{}
		}
		for _, on := range s.Dependencies(name) {
			if other := path.Dir(on); other != dir && !ignore.Vendored(on) && !IsTest(on) && s.Facts(on) != nil {
				needs[dir][other] = true
			}
		}
	}
	out.order(needs)
	for _, name := range files {
		facts := s.Facts(name)
		for _, d := range facts.Decls {
			if !d.Exported || d.Parent >= 0 || d.Kind != source.Func && d.Kind != source.Var || used[Export{name, d.Name}] {
				continue
			}
			switch {
			case facts.Language == source.Go && (facts.Package == "main" || strings.Contains("/"+name, "/internal/")):
			case facts.Language == source.TypeScript && slices.ContainsFunc(facts.Decls, func(o source.Decl) bool { return used[Export{name, o.Name}] }) && !reexported(s, name):
			default:
				continue
			}
			out.Unused = append(out.Unused, Export{name, d.Name})
		}
	}
	return out
}

// reexported reports whether another file gives all names of a file to others, or takes it as a whole.
func reexported(s *codegraph.Snapshot, name string) bool {
	for _, by := range s.Dependents(name) {
		for _, im := range s.Facts(by).Imports {
			if im.Kind == source.Reexport || im.Kind == source.Dynamic || slices.ContainsFunc(im.Names, func(n source.Name) bool { return n.Name == "*" }) {
				return true
			}
		}
	}
	return false
}

// order finds the cycles and layers of directories.
func (t *Structure) order(needs map[string]map[string]bool) {
	named := maps.Clone(needs)
	for _, on := range needs {
		for dir := range on {
			named[dir] = needs[dir]
		}
	}
	dirs := slices.Sorted(maps.Keys(named))
	deps := make([][]int32, len(dirs))
	for i, dir := range dirs {
		for on := range needs[dir] {
			n, _ := slices.BinarySearch(dirs, on)
			deps[i] = append(deps[i], int32(n))
		}
	}
	part, sets := order.Components(deps)
	layers := make([]int, len(sets))
	for n, set := range sets {
		var names []string
		for _, d := range set {
			names = append(names, dirs[d])
			for _, on := range deps[d] {
				if part[on] != int32(n) {
					layers[n] = max(layers[n], layers[part[on]]+1)
				}
			}
		}
		for len(t.Layers) <= layers[n] {
			t.Layers = append(t.Layers, nil)
		}
		t.Layers[layers[n]] = append(t.Layers[layers[n]], names...)
		if len(names) > 1 {
			t.Cycles = append(t.Cycles, names)
		}
	}
	for _, l := range t.Layers {
		slices.Sort(l)
	}
	slices.SortFunc(t.Cycles, func(a, b []string) int { return cmp.Or(len(b)-len(a), slices.Compare(a, b)) })
}

// WriteText writes the structure for people.
func (t *Structure) WriteText(w io.Writer) error {
	b := &strings.Builder{}
	if t.Partial {
		b.WriteString("! there are too many files: some are missing in all of this\n")
	}
	paths := func(names []string) string {
		var out []string
		for _, n := range names[:min(shown, len(names))] {
			out = append(out, runes.Path(n))
		}
		if len(names) > shown {
			out = append(out, fmt.Sprintf("and %d more", len(names)-shown))
		}
		return strings.Join(out, ", ")
	}
	fmt.Fprintf(b, "directories that depend on each other: %d sets\n", len(t.Cycles))
	for _, c := range t.Cycles {
		fmt.Fprintf(b, "  %s\n", paths(c))
	}
	fmt.Fprintf(b, "\nlayers: each needs one in the line above it\n")
	for i, l := range t.Layers {
		fmt.Fprintf(b, "  %2d  %s\n", i, paths(l))
	}
	fmt.Fprintf(b, "\nexported, and used in no other directory: %d names\n", len(t.Unused))
	for i, u := range t.Unused {
		if i == 5*shown {
			fmt.Fprintf(b, "  and %d more\n", len(t.Unused)-i)
			break
		}
		fmt.Fprintf(b, "  %s  %s\n", runes.Path(u.Path), runes.Line(u.Name))
	}
	return written(w, b.String())
}
