package resolve

import (
	"cmp"
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
	if len(c) == 0 {
		return nil
	}
	out := make([]Ref, 0, len(c))
	for ref, n := range c {
		ref.Count = n
		out = append(out, ref)
	}
	slices.SortFunc(out, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Name, b.Name))
	})
	return out
}
