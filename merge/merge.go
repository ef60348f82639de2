// Package merge merges two changes of a text, as git does, and keeps what it found: a host
// can show each region, resolve conflicts by choice, and use what a [Suggestion] proposes.
package merge

import (
	"bytes"
	"fmt"

	"github.com/aycoder/aycoder/internal/diff3"
)

// Merge merges ours and theirs, two texts that were both made from base.
//
// Its verdict and its bytes are git's, those of git merge-file: lines are compared
// with their ends, changes of the two sides merge if at least one unchanged line of
// base lies between them, the same change on both sides counts once, and everything
// else is a conflict. Nothing is decided silently below that: for many conflicts a
// region carries a [Suggestion], which is used only if [Result.Resolve] is told
// to. Merge departs from git in two places only:
//
//   - A file that is binary (a NUL in its first 8,000 bytes, or more than 1,023 MiB)
//     merges if only one side changed it. If both did, it is one conflict as a whole,
//     and the merged text is ours.
//   - Conflict markers grow until no line of the texts begins like one.
//
// No line is lost: the regions of the result follow each other without a gap in all
// three texts, and a region is taken from one side only where the other has what base
// has. Line ends, a missing newline at the end, a byte order mark and bytes that are not UTF-8
// come out as they went in.
//
// Merge is pure and takes any bytes. For n lines it takes time linear in n as a rule
// and O(n·√n) at worst, and memory linear in n: less than 100 bytes a line where
// there are few changes, up to 500 where all lines conflict. The result refers to the
// texts, which must not change while it is in use.
func Merge(base, ours, theirs []byte, opts ...Option) Result {
	c := config{format: diff3.Format{Ours: "ours", Base: "base", Theirs: "theirs"}}
	for _, o := range opts {
		o(&c)
	}
	m := diff3.Merge(base, ours, theirs, c.options)
	r := Result{Binary: m.Binary, sides: m.Sides, chosen: make(map[int][]byte)}
	r.render = func(chosen map[int][]byte) []byte {
		return m.Append(nil, c.format, func(i int) ([]byte, bool) {
			text, ok := chosen[i]
			return text, ok
		})
	}
	r.Regions = make([]Region, len(m.Regions))
	for i, g := range m.Regions {
		r.Regions[i] = Region{
			Kind: Kind(g.Kind), Suggestion: (*Suggestion)(g.Suggestion),
			Base: span(m.Base, g.Base), Ours: span(m.Ours, g.Ours), Theirs: span(m.Theirs, g.Theirs),
		}
	}
	return r
}

func span(l *diff3.Lines, s diff3.Span) Span {
	return Span{FirstLine: s.Lo, EndLine: s.Hi, Start: l.Offset(s.Lo), End: l.Offset(s.Hi)}
}

// Option changes how [Merge] works.
type Option func(*config)

type config struct {
	options diff3.Options
	format  diff3.Format
}

// Style says what a conflict in the merged text shows. The styles are those of
// git's merge.conflictStyle.
type Style int

// The styles of conflicts. In StyleMerge and StyleZdiff3 lines that ours and theirs
// share are not part of the conflict, so that it has other regions than in
// StyleDiff3. Now and then nothing is left of a conflict in StyleMerge.
const (
	StyleMerge  Style = Style(diff3.StyleMerge)  // ours and theirs
	StyleDiff3  Style = Style(diff3.StyleDiff3)  // ours, base and theirs, whole
	StyleZdiff3 Style = Style(diff3.StyleZdiff3) // the same, less the head and tail that ours and theirs share
)

// WithStyle sets what conflicts show. Default: StyleMerge.
func WithStyle(style Style) Option {
	return func(c *config) { c.options.Style = diff3.Style(style) }
}

// WithLabels sets what follows the conflict markers of ours, base and theirs.
// Default: "ours", "base", "theirs".
func WithLabels(ours, base, theirs string) Option {
	return func(c *config) { c.format.Ours, c.format.Base, c.format.Theirs = ours, base, theirs }
}

// WithMarkerSize sets the length of the conflict markers, up to 250, whatever the
// texts hold. Git's is 7. Default: 0, which means 7, or one more than the longest
// run of a marker's characters that a line of the texts begins with. Runs of more
// than 250 do not count, but none is as long as the markers.
func WithMarkerSize(n int) Option {
	return func(c *config) { c.format.MarkerSize = min(n, 250) }
}

// WithTouchingEdits merges changes that touch but do not overlap, which git calls a
// conflict: one side changed or deleted some lines, the other the lines right after
// them. Insertions beside a change stay conflicts, since their order would be a
// guess. Default: false.
func WithTouchingEdits(on bool) Option {
	return func(c *config) { c.options.Touching = on }
}

// Kind says where the text of a [Region] comes from.
type Kind int

// The kinds of regions.
const (
	Unchanged Kind = Kind(diff3.Unchanged) // all three are equal
	Ours      Kind = Kind(diff3.Ours)      // theirs is equal to base: ours is taken
	Theirs    Kind = Kind(diff3.Theirs)    // ours is equal to base: theirs is taken
	Both      Kind = Kind(diff3.Both)      // ours and theirs are equal, base is not
	Conflict  Kind = Kind(diff3.Conflict)  // all three differ
)

// String returns the name of the kind, such as "conflict".
func (k Kind) String() string {
	names := [...]string{"unchanged", "ours", "theirs", "both", "conflict"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// Region is a part of a merge: what base, ours and theirs have in one place.
type Region struct {
	Kind               Kind
	Base, Ours, Theirs Span
	// Suggestion is a way out of a conflict, or nil.
	Suggestion *Suggestion
}

// Span is a range of a text, which may be empty. Lines and bytes are counted
// from 0, and the end is not part of it.
type Span struct{ FirstLine, EndLine, Start, End int }

// Of returns the part of text, which must be the one that was merged.
func (s Span) Of(text []byte) []byte { return text[s.Start:s.End] }

// Suggestion is a text that a conflict could be resolved by, found by a rule that
// knows lines and words but no syntax. It is a proposal to look at.
type Suggestion struct {
	// Text takes the place of the conflict.
	Text []byte
	// Rule names how the text was found: "line endings" (one side changed all of
	// them), "whitespace" (one side changed nothing else), "words" (both changed other words of the same lines),
	// "contained" (one side made the other's change and more), "touching" (the changes
	// touch but do not overlap), "imports" (sets of imports), "tokens" (a few lines,
	// merged token by token).
	Rule string
	// Confidence is how often the rule found, byte for byte, what the people committed
	// who had such a conflict in public projects, between 0 and 1. It is measured on
	// merges by which the rules were not tuned; in one project a rule can be right much
	// more often than in another.
	Confidence float64
}

// Result is what [Merge] found. Copies share what was resolved.
type Result struct {
	// Regions are in the order of the texts, without gaps.
	Regions []Region
	// Binary says that the texts were not looked into.
	Binary bool

	// Functions and not the merge itself, so that a program that only hands results on
	// does not link it.
	render func(chosen map[int][]byte) []byte
	sides  func(region int) (base, ours, theirs []byte)
	chosen map[int][]byte // by region
}

// Conflicts returns the number of conflicts that were not resolved.
func (r Result) Conflicts() int {
	n := 0
	for i := range r.Regions {
		if _, ok := r.chosen[i]; !ok && r.Regions[i].Kind == Conflict {
			n++
		}
	}
	return n
}

// Clean reports whether no conflict is left.
func (r Result) Clean() bool { return r.Conflicts() == 0 }

// Bytes returns the merged text. Conflicts are written between markers, with a
// newline after a side that has none at its end.
func (r Result) Bytes() []byte {
	if r.render == nil {
		return nil
	}
	return r.render(r.chosen)
}

// Choice is a way to resolve a region.
type Choice int

// The choices for [Result.Resolve].
const (
	ChooseOurs        Choice = iota // what ours has
	ChooseTheirs                    // what theirs has
	ChooseBase                      // what base has: neither change
	ChooseOursFirst                 // what ours has, then what theirs has
	ChooseTheirsFirst               // what theirs has, then what ours has
	ChooseSuggestion                // the text of the region's suggestion
)

// Resolve decides what a region, given by its index, becomes in the merged text. Any
// region can be decided, so that a host can also take back a change that merged; the
// last decision counts. It is an error if there is no such region or no suggestion.
// Not to be called concurrently with other methods.
func (r Result) Resolve(region int, choice Choice) error {
	if region < 0 || region >= len(r.Regions) {
		return noRegion(region, len(r.Regions))
	}
	base, ours, theirs := r.sides(region)
	switch choice {
	case ChooseOurs:
		return r.ResolveWith(region, ours)
	case ChooseTheirs:
		return r.ResolveWith(region, theirs)
	case ChooseBase:
		return r.ResolveWith(region, base)
	case ChooseOursFirst:
		return r.ResolveWith(region, inLines(ours, theirs))
	case ChooseTheirsFirst:
		return r.ResolveWith(region, inLines(theirs, ours))
	case ChooseSuggestion:
		if s := r.Regions[region].Suggestion; s != nil {
			return r.ResolveWith(region, s.Text)
		}
		return fmt.Errorf("resolve region %d: it has no suggestion", region)
	}
	return fmt.Errorf("resolve region %d: no choice %d", region, choice)
}

// ResolveWith puts text in the place of a region, as [Result.Resolve] does. It
// keeps a copy.
func (r Result) ResolveWith(region int, text []byte) error {
	if region < 0 || region >= len(r.Regions) {
		return noRegion(region, len(r.Regions))
	}
	r.chosen[region] = bytes.Clone(text)
	return nil
}

func noRegion(region, n int) error {
	return fmt.Errorf("resolve region %d: there are %d", region, n)
}

// inLines returns a and b, with a line end between them if a has none.
func inLines(a, b []byte) []byte {
	out := bytes.Clone(a)
	if len(a) > 0 && len(b) > 0 && a[len(a)-1] != '\n' {
		if bytes.Contains(b, []byte("\r\n")) {
			out = append(out, '\r')
		}
		out = append(out, '\n')
	}
	return append(out, b...)
}
