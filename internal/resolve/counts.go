package resolve

import (
	"cmp"
	"iter"
	"slices"

	"github.com/aycoder/aycoder/internal/order"
)

// Refs are the references of a file: each declaration once, sorted by To and Name. They do not change.
type Refs struct {
	texts []string // the files and names, each once, sorted
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
type refCounts struct {
	numbers map[string]int32 // of texts
	texts   []string         // in the order in which they are found
	uses    []refUse
}

func newRefCounts(room int) *refCounts {
	return &refCounts{numbers: make(map[string]int32, room), texts: make([]string, 0, room), uses: make([]refUse, 0, room)}
}

// number returns the index of a text.
func (c *refCounts) number(text string) int32 {
	n, ok := c.numbers[text]
	if !ok {
		n = int32(len(c.texts))
		c.numbers[text] = n
		c.texts = append(c.texts, text)
	}
	return n
}

// add is kept out of line, as other small functions here that are called in many places: it makes a program smaller, and
// they do not matter for its speed.
//
//go:noinline
func (c *refCounts) add(file, name string, n int32) {
	u := refUse{name: c.number(name), count: n}
	if i := len(c.uses); i > 0 && c.texts[c.uses[i-1].file] == file { // as it often is
		u.file = c.uses[i-1].file
	} else {
		u.file = c.number(file)
	}
	c.uses = append(c.uses, u)
}

// whole adds those of the files that nothing is used of, but which are imported as a whole.
func (c *refCounts) whole(files []string) {
	used := map[string]bool{}
	for _, u := range c.uses {
		used[c.texts[u.file]] = true
	}
	for _, file := range files {
		if !used[file] {
			c.add(file, "", 0)
		}
	}
}

// refs returns the references. It changes c.
func (c *refCounts) refs() Refs {
	if len(c.uses) == 0 {
		return Refs{}
	}
	texts := slices.Clip(slices.Clone(c.texts))
	slices.Sort(texts)
	sorted := make([]int32, len(texts)) // the index in texts, by that in c.texts
	for i, text := range texts {
		sorted[c.numbers[text]] = int32(i)
	}
	for i, u := range c.uses {
		c.uses[i].file, c.uses[i].name = sorted[u.file], sorted[u.name]
	}
	order.By(c.uses, func(a, b *refUse) int { return cmp.Or(int(a.file-b.file), int(a.name-b.name)) })
	uses := c.uses[:1]
	for _, u := range c.uses[1:] {
		if last := &uses[len(uses)-1]; last.file == u.file && last.name == u.name {
			last.count += u.count
		} else {
			uses = append(uses, u)
		}
	}
	return Refs{texts, slices.Clip(slices.Clone(uses))}
}
