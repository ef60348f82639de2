package codegraph

import (
	"cmp"
	"container/heap"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
)

// links are the dependencies between files, by their index in a snapshot.
type links struct {
	deps  [][]int32   // that a file has, ascending
	uses  [][]float32 // how often it uses each of them
	users [][]int32   // that have a file, ascending
	part  []int32     // the component of a file: files that depend on each other in a cycle
	parts [][]int32   // the files of a component, ascending
	order []int32     // of components: each comes after those that it depends on
}

// links returns the dependencies, computed when they are first asked for.
func (s *Snapshot) links() *links {
	s.linked.Do(func() { s.link = newLinks(s) })
	return s.link
}

func newLinks(s *Snapshot) *links {
	n := len(s.files)
	l := &links{deps: make([][]int32, n), uses: make([][]float32, n), users: make([][]int32, n)}
	for i, f := range s.files {
		l.deps[i], l.uses[i] = s.depsOf(i, f)
		for _, d := range l.deps[i] {
			l.users[d] = append(l.users[d], int32(i))
		}
	}
	l.part, l.parts = order.Components(l.deps)
	l.sort()
	return l
}

// depsOf returns the files that a file uses a declaration of or imports, ascending, and how often it uses
// each. Of a package that it imports, these are the files that declare what it uses, and all of them if it
// uses nothing by name.
func (s *Snapshot) depsOf(self int, f *file) (deps []int32, uses []float32) {
	counts := map[int32]float32{}
	used := map[string]bool{} // directories
	for r := range f.refs.All() {
		if i, ok := s.at(r.To); ok && i != self {
			counts[int32(i)] += float32(max(r.Count, 1))
			used[path.Dir(r.To)+"/"] = true
		}
	}
	for _, e := range f.imports {
		if i, ok := s.at(e.To); ok && i != self && !e.Optional {
			counts[int32(i)] += 0.5
		}
		if strings.HasSuffix(e.To, "/") && !used[e.To] {
			used[e.To] = true
			for _, i := range s.sources(e.To, f.facts.Language) {
				counts[i] += 0.5
			}
		}
	}
	delete(counts, int32(self))
	deps = slices.Sorted(maps.Keys(counts))
	for _, d := range deps {
		uses = append(uses, counts[d])
	}
	return slices.Clip(deps), slices.Clip(uses)
}

// sources returns the files of a language in a directory, whose name ends with a slash.
func (s *Snapshot) sources(dir string, lang source.Language) (files []int32) {
	dir = strings.TrimPrefix(dir, "./")
	for i, _ := s.at(dir); i < len(s.files) && strings.HasPrefix(s.files[i].path, dir); i++ {
		f := s.files[i]
		if f.facts != nil && f.facts.Language == lang && !strings.Contains(f.path[len(dir):], "/") {
			files = append(files, int32(i))
		}
	}
	return files
}

// sort orders the components so that each comes after those that it depends on, and otherwise by their
// first file.
func (l *links) sort() {
	waits := make([]int, len(l.parts)) // the dependencies that are not in order yet
	users := make([][]int32, len(l.parts))
	for i, deps := range l.deps {
		for _, d := range deps {
			if from, to := l.part[i], l.part[d]; from != to {
				waits[from]++
				users[to] = append(users[to], from)
			}
		}
	}
	ready := &byFirst{l: l}
	for p := range l.parts {
		if waits[p] == 0 {
			ready.parts = append(ready.parts, int32(p))
		}
	}
	heap.Init(ready)
	for len(ready.parts) > 0 {
		p := heap.Pop(ready).(int32)
		l.order = append(l.order, p)
		for _, u := range users[p] {
			if waits[u]--; waits[u] == 0 {
				heap.Push(ready, u)
			}
		}
	}
}

// byFirst is a heap of components, that with the first file on top.
type byFirst struct {
	l     *links
	parts []int32
}

func (h *byFirst) Len() int           { return len(h.parts) }
func (h *byFirst) Less(i, j int) bool { return h.l.parts[h.parts[i]][0] < h.l.parts[h.parts[j]][0] }
func (h *byFirst) Swap(i, j int)      { h.parts[i], h.parts[j] = h.parts[j], h.parts[i] }
func (h *byFirst) Push(p any)         { h.parts = append(h.parts, p.(int32)) }
func (h *byFirst) Pop() any {
	p := h.parts[len(h.parts)-1]
	h.parts = h.parts[:len(h.parts)-1]
	return p
}

// Order returns the paths of the source files so that each comes after the files that it depends on, unless
// they depend on each other. It is the same for the same files.
func (s *Snapshot) Order() []string {
	l := s.links()
	var out []string
	for _, p := range l.order {
		for _, i := range l.parts[p] {
			if s.files[i].facts != nil {
				out = append(out, s.files[i].path)
			}
		}
	}
	return out
}

// Cycles returns the sets of files that depend on each other, the largest first. The paths of a set are
// sorted.
func (s *Snapshot) Cycles() [][]string {
	l := s.links()
	var out [][]string
	for _, part := range l.parts {
		if len(part) > 1 {
			out = append(out, s.paths(part))
		}
	}
	order.By(out, func(a, b *[]string) int {
		return cmp.Or(len(*b)-len(*a), strings.Compare((*a)[0], (*b)[0]))
	})
	return out
}

// Dependencies returns the files that a file depends on, sorted: those that declare what it uses, and
// those that it imports.
func (s *Snapshot) Dependencies(path string) []string {
	if i, ok := s.at(path); ok {
		return s.paths(s.links().deps[i])
	}
	return nil
}

// Dependents returns the files that depend on a file, sorted.
func (s *Snapshot) Dependents(path string) []string {
	if i, ok := s.at(path); ok {
		return s.paths(s.links().users[i])
	}
	return nil
}

// Why returns a shortest chain of files, each of which depends on the next, from one file to another, or
// nil if there is none. It is the first by the order of paths.
func (s *Snapshot) Why(from, to string) []string {
	end, ok := s.at(to)
	if !ok {
		return nil
	}
	return s.chain(s.reach([]string{from}, end), end)
}

// reach walks over the dependencies of some files, breadth first, until it comes to a file; for -1, it
// goes everywhere. It returns for each file the one that led to it, plus one, or 0. A file that it begins
// with led to itself. A file is reached from the nearest of them, and from the first of those that are
// equally near.
func (s *Snapshot) reach(from []string, end int) []int32 {
	deps := s.links().deps
	before := make([]int32, len(s.files))
	var queue []int32
	for _, p := range from {
		if i, ok := s.at(p); ok && before[i] == 0 {
			before[i] = int32(i) + 1
			queue = append(queue, int32(i))
		}
	}
	for ; len(queue) > 0 && (end < 0 || before[end] == 0); queue = queue[1:] {
		for _, d := range deps[queue[0]] {
			if before[d] == 0 {
				before[d] = queue[0] + 1
				queue = append(queue, d)
			}
		}
	}
	return before
}

// chain returns the files by which reach came to a file, or nil.
func (s *Snapshot) chain(before []int32, end int) (chain []string) {
	for i := int32(end); before[i] != 0; i = before[i] - 1 {
		chain = append(chain, s.files[i].path)
		if before[i] == i+1 {
			break
		}
	}
	slices.Reverse(chain)
	return chain
}

func (s *Snapshot) paths(files []int32) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = s.files[f].path
	}
	return out
}
