package diff3

import (
	"bytes"

	"github.com/aycoder/aycoder/internal/runes"
)

// Whole reports whether a file is merged and compared as a whole instead of line by line. That is
// the case if it is binary or too large.
func Whole(data []byte) bool { return len(data) > maxSize || runes.Binary(data) }

// mergeBinary takes the side that changed. If both sides changed, the whole file is one conflict.
func mergeBinary(base, ours, theirs []byte, o Options) *Result {
	r := &Result{Base: whole(base), Ours: whole(ours), Theirs: whole(theirs), Binary: true,
		style: o.Style}
	g := Region{Base: Span{0, r.Base.Len()}, Ours: Span{0, r.Ours.Len()},
		Theirs: Span{0, r.Theirs.Len()}}
	switch sameOurs, sameTheirs := bytes.Equal(ours, base), bytes.Equal(theirs, base); {
	case sameOurs && sameTheirs:
		g.Kind = Unchanged
	case sameTheirs:
		g.Kind = Ours
	case sameOurs:
		g.Kind = Theirs
	case bytes.Equal(ours, theirs):
		g.Kind = Both
	default:
		g.Kind = Conflict
	}
	r.Regions = []Region{g}
	return r
}
