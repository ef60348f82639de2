package codegraph

import (
	"cmp"
	"slices"

	"github.com/aycoder/aycoder/codegraph/source"
)

// fits reports whether facts can be those of a source with a size: all that looks at the facts of an analyzer relies
// on their positions, indices and order.
func fits(f *source.Facts, size int) bool {
	inside := func(s source.Span) bool { return 0 <= s.Start && s.Start <= s.End && int(s.End) <= size }
	at, named := int32(0), f.Language == source.Rust || f.Language == source.Java
	for _, i := range f.Imports {
		if named && i.Kind != source.Submodule && len(i.Names) == 0 || !inside(i.At) || i.At.Start < at || i.Kind > source.Submodule {
			return false
		}
		at = i.At.Start
	}
	at = 0
	for i, d := range f.Decls {
		body := d.Body == source.Span{} || d.At.Start <= d.Body.Start && d.Body.End <= d.At.End
		if !inside(d.At) || !inside(d.Body) || !body || d.At.Start < at || d.NameAt < d.At.Start || d.NameAt > d.At.End ||
			d.Parent < -1 || int(d.Parent) >= i || d.Kind > source.Macro {
			return false
		}
		at = d.At.Start
	}
	for _, e := range f.Exports {
		if e.Import < -1 || int(e.Import) >= len(f.Imports) {
			return false
		}
	}
	ordered := slices.IsSortedFunc(f.Uses, func(a, b source.Use) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name), -1) // so that none is there twice
	})
	return ordered && !slices.ContainsFunc(f.Uses, func(u source.Use) bool { return u.Count < 1 || int(u.Count) > size })
}
