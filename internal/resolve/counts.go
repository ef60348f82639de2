package resolve

import (
	"iter"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/order"
)

// Refs are the references of a file: each declaration once, sorted by To and Name. They do not change.
type Refs struct {
	texts []string // the files and names, each once
	uses  []refUse
}

// A refUse is a reference. Its file and its name are indices in texts: most occur several times.
type refUse struct{ file, name, count int32 }

// All returns the references, in their order.
func (r Refs) All() iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for _, u := range r.uses {
			if !yield(Ref{r.texts[u.file], r.texts[u.name], u.count}) {
				return
			}
		}
	}
}

// Equal reports whether two files have the same references.
func (r Refs) Equal(other Refs) bool {
	return slices.Equal(r.texts, other.texts) && slices.Equal(r.uses, other.uses)
}

// refCounts are the references of a file as they are found: a declaration may be there several times.
type refCounts []Ref

// add is kept out of line, as other small functions here that are called in many places: it makes a program smaller, and
// they do not matter for its speed.
//
//go:noinline
func (c *refCounts) add(file, name string, n int32) { *c = append(*c, Ref{file, name, n}) }

// whole adds those of the files that nothing is used of, but which are imported as a whole.
func (c *refCounts) whole(files []string) {
	used := map[string]bool{}
	for _, ref := range *c {
		used[ref.To] = true
	}
	for _, file := range files {
		if !used[file] {
			c.add(file, "", 0)
		}
	}
}

// refs returns the references. It changes the order of c.
func (c refCounts) refs() Refs {
	if len(c) == 0 {
		return Refs{}
	}
	order.By(c, func(a, b *Ref) int {
		if n := strings.Compare(a.To, b.To); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	numbers := make(map[string]int32, len(c)/2)
	var texts []string
	number := func(text string) int32 {
		n, ok := numbers[text]
		if !ok {
			n = int32(len(texts))
			numbers[text] = n
			texts = append(texts, text)
		}
		return n
	}
	uses := make([]refUse, 0, len(c))
	for i, ref := range c {
		if i == 0 || c[i-1].To != ref.To || c[i-1].Name != ref.Name {
			uses = append(uses, refUse{file: number(ref.To), name: number(ref.Name)})
		}
		uses[len(uses)-1].count += ref.Count
	}
	return Refs{slices.Clip(slices.Clone(texts)), slices.Clip(slices.Clone(uses))}
}
