// Package merge merges two changes of a text, as git does, and keeps what it found: a host
// can show each region, resolve conflicts by choice, and use what a [Suggestion] proposes.
package merge

import (
	"bytes"
	"fmt"

	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
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
//   - Git refuses to merge binary files. Merge takes the side that changed. If both sides
//     did, the file is one conflict as a whole, and [Result.Bytes] returns ours without
//     markers: check [Result.Binary] first. A file is binary if it has a NUL in its first
//     8,000 bytes, or more than 1,023 MiB.
//   - Conflict markers are longer than git's if a line of the texts could be mistaken for
//     one, as [WithMarkerSize] describes.
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
	r := Result{Binary: m.Binary, sides: m.Sides, chosen: make(map[int][][]byte)}
	r.render = func() (text []byte, ends []int) {
		return m.Render(c.format, func(i int) ([][]byte, bool) {
			texts, ok := r.chosen[i]
			return texts, ok
		})
	}
	r.Regions = make([]Region, len(m.Regions))
	for i, g := range m.Regions {
		r.Regions[i] = Region{
			Kind: Kind(g.Kind), Suggestion: (*Suggestion)(g.Suggestion),
			Base: span(m.Base, g.Base), Ours: span(m.Ours, g.Ours),
			Theirs: span(m.Theirs, g.Theirs),
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

// Style says how conflicts are formed and shown. The styles are those of git's
// merge.conflictStyle, and change more than the look of a conflict, as in git: in StyleMerge
// and StyleZdiff3, lines that ours and theirs share are taken out of it and belong to the
// regions around it. So the number of conflicts can depend on the style, and a text can,
// rarely, merge without conflicts in StyleMerge only.
type Style int

// The styles of conflicts.
const (
	// StyleMerge shows ours and theirs, without the lines that they share. It is git's
	// default, and the shortest, but a reader cannot see which side changed what.
	StyleMerge Style = iota
	// StyleDiff3 shows ours, base and theirs, whole: all that is needed to decide.
	StyleDiff3
	// StyleZdiff3 shows what StyleDiff3 shows, less the lines that ours and theirs both
	// begin or end with.
	StyleZdiff3
)

// WithStyle sets how conflicts are formed and shown. Default: StyleMerge.
func WithStyle(style Style) Option {
	return func(c *config) { c.options.Style = diff3.Style(style) }
}

// WithLabels sets the text that follows the conflict markers of base, ours and theirs, in the
// order of the parameters of [Merge]. A label ends at its first line break. After an empty
// label the marker has no trailing space. Default: "base", "ours", "theirs".
func WithLabels(base, ours, theirs string) Option {
	return func(c *config) { c.format.Base, c.format.Ours, c.format.Theirs = base, ours, theirs }
}

// WithMarkerSize sets the length of the conflict markers, from 1 to 250. A greater size
// counts as 250, and zero or less as the default. Git's size is 7.
//
// Default: 7. If lines of the texts begin with a run of a marker character, the default is at
// least one more than the longest such run, so that no line looks like a marker. Runs longer than
// 250 are ignored: the markers differ from them in length anyway.
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

// Kind says which sides changed a [Region], and so where its text comes from.
type Kind int

// The kinds of regions.
const (
	// Unchanged means that the three texts are equal in this place, so there was nothing to
	// merge.
	Unchanged Kind = iota
	// Ours means that only ours differs from base, so the text of ours is taken.
	Ours
	// Theirs means that only theirs differs from base, so the text of theirs is taken.
	Theirs
	// Both means that ours and theirs made the same change, which counts once.
	Both
	// Conflict means that both sides changed the same or adjacent lines. Even so, two of the
	// region's texts may be equal. Neither side is taken until the region is resolved;
	// [Result.Bytes] shows the region between markers.
	Conflict
)

// String returns the name of the kind, such as "conflict".
func (k Kind) String() string {
	names := [...]string{"unchanged", "ours", "theirs", "both", "conflict"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// Region is a part of a merge: what base, ours and theirs have in one place. Base of a conflict
// has all lines that the conflicting changes replaced, even where the style takes lines of
// ours and theirs out of it, so that [ChooseBase] brings them back.
type Region struct {
	Kind               Kind
	Base, Ours, Theirs Span
	// Suggestion is a way out of a conflict, or nil.
	Suggestion *Suggestion
}

// Span is a range of a text, which may be empty. Lines and bytes are counted
// from 0, and the end is not part of it.
type Span struct{ FirstLine, EndLine, Start, End int }

// Of returns the bytes that the span covers. The text must be the one that the span belongs to:
// base, ours, theirs or the merged text.
func (s Span) Of(text []byte) []byte { return text[s.Start:s.End] }

// Suggestion is a text that a conflict could be resolved by, found by a rule that
// knows lines and words but no syntax. It is a proposal to look at.
type Suggestion struct {
	// Text takes the place of the conflict.
	Text []byte
	// Rule names the rule that found the text, such as [RuleWords].
	Rule string
	// Confidence is the share of the rule's suggestions, between 0 and 1, that are byte for
	// byte what people committed when they had such a conflict. It is a constant of the rule,
	// listed with the rules, measured on merges of public projects that were not used to
	// develop the rules. In one project a rule can be right much more often than in another.
	Confidence float64
}

// The rules for suggestions, in the order in which they are tried, with their confidence.
const (
	RuleLineEndings = "line endings" // 0.50: one side changed all line endings and nothing else
	RuleWords       = "words"        // 0.50: both changed different words of the same lines
	RuleContained   = "contained"    // 0.65: one side made the other's change and more
	RuleTouching    = "touching"     // 0.60: the changes touch but do not overlap
	RuleWhitespace  = "whitespace"   // 0.45: one side changed white space only
	RuleImports     = "imports"      // 0.50: both sides changed a set of imports
	RuleTokens      = "tokens"       // 0.50: a few lines, merged token by token
)

// Result is the outcome of a merge. A copy shares the resolutions with the original: a region
// that is resolved in one is resolved in the other.
type Result struct {
	// Regions are in the order in which they occur in the texts, without gaps. They say what Merge found:
	// resolving a region changes neither its Kind nor its index.
	Regions []Region
	// Binary reports whether one of the three texts is binary, whether or not the merge is
	// clean. There is one region then, which holds the whole texts, and conflicts
	// have no markers.
	Binary bool

	// Functions and not the merge itself, so that a program that only hands results on
	// does not link it.
	render func() (text []byte, ends []int)
	sides  func(region int) (base, ours, theirs []byte)
	chosen map[int][][]byte // by region
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

// Clean reports whether no conflict is left: either there was none, or each one was
// resolved.
func (r Result) Clean() bool { return r.Conflicts() == 0 }

// Bytes returns the merged text. Conflicts that are not resolved are written between markers,
// with a newline after a side that has none at its end. As in git, these lines end in CRLF
// where the lines before the conflict do. The conflict of a binary file is ours, without
// markers.
func (r Result) Bytes() []byte {
	if r.render == nil {
		return nil
	}
	text, _ := r.render()
	return text
}

// Spans returns where each of Regions is in the text that [Result.Bytes] returns now, with its
// conflict markers. Lines are counted from 0, so a message to people says FirstLine+1.
func (r Result) Spans() []Span {
	if r.render == nil {
		return nil
	}
	text, ends := r.render()
	out := make([]Span, len(ends))
	at := Span{}
	for i, end := range ends {
		at = Span{FirstLine: at.EndLine, Start: at.End, End: end}
		at.EndLine = at.FirstLine + runes.Lines(view.String(at.Of(text)))
		out[i] = at
	}
	return out
}

// Choice is a way to resolve a region.
type Choice int

// The choices for [Result.Resolve].
const (
	// ChooseOurs takes the text of ours and drops the change of theirs in this region.
	ChooseOurs Choice = iota
	// ChooseTheirs takes the text of theirs and drops the change of ours in this region.
	ChooseTheirs
	// ChooseBase takes the text of base and drops both changes in this region.
	ChooseBase
	// ChooseOursFirst takes the text of ours and then that of theirs, with a line end between
	// them if the first has none.
	ChooseOursFirst
	// ChooseTheirsFirst takes the text of theirs and then that of ours, with a line end
	// between them if the first has none.
	ChooseTheirsFirst
	// ChooseSuggestion takes the text of the region's [Suggestion]. It is an error if the
	// region has none.
	ChooseSuggestion
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
	var texts [][]byte
	switch choice {
	case ChooseOurs:
		texts = [][]byte{ours}
	case ChooseTheirs:
		texts = [][]byte{theirs}
	case ChooseBase:
		texts = [][]byte{base}
	case ChooseOursFirst:
		texts = [][]byte{ours, theirs}
	case ChooseTheirsFirst:
		texts = [][]byte{theirs, ours}
	case ChooseSuggestion:
		s := r.Regions[region].Suggestion
		if s == nil {
			return fmt.Errorf("resolve region %d: it has no suggestion", region)
		}
		texts = [][]byte{bytes.Clone(s.Text)}
	default:
		return fmt.Errorf("resolve region %d: no choice %d", region, choice)
	}
	r.chosen[region] = texts
	return nil
}

// ResolveWith puts text in the place of a region, as [Result.Resolve] does. It
// keeps a copy. The text stands for whole lines: if it does not end in a newline and other
// text follows, a line end like those around it is added.
func (r Result) ResolveWith(region int, text []byte) error {
	if region < 0 || region >= len(r.Regions) {
		return noRegion(region, len(r.Regions))
	}
	r.chosen[region] = [][]byte{bytes.Clone(text)}
	return nil
}

func noRegion(region, n int) error {
	return fmt.Errorf("resolve region %d: there are %d", region, n)
}
