package resolve

import (
	"cmp"
	"maps"
	"slices"
)

// refCounts are the references of a file as they are counted: the uses, by the declaration.
type refCounts map[Ref]int32

func (c refCounts) add(file, name string, n int32) { c[Ref{To: file, Name: name}] += n }

// whole adds those of the files that nothing is used of, but which are imported as a whole.
func (c refCounts) whole(files []string) {
	used := map[string]bool{}
	for ref := range c {
		used[ref.To] = true
	}
	for _, file := range files {
		if !used[file] {
			c.add(file, "", 0)
		}
	}
}

// sorted returns the references by To and Name.
func (c refCounts) sorted() []Ref {
	out := slices.SortedFunc(maps.Keys(c), func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Name, b.Name))
	})
	for i := range out {
		out[i].Count = c[out[i]]
	}
	return out
}
