// Package merge merges two changed versions of a text, as git does. It also keeps the details of
// the merge: a host can show each region, resolve conflicts by a choice, and use the resolution
// that a [Suggestion] proposes.
package merge

import (
	"bytes"
	"fmt"

	"github.com/aycoder/aycoder/internal/diff3"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/view"
)

// Merge merges ours and theirs, two texts that were both made from base. Except in the two cases
// listed below, the merged bytes and the conflicts are those of git merge-file:
//
//   - Lines are compared including their line endings.
//   - A change of one side is made if at least one unchanged line of base lies between it and
//     each change of the other side.
//   - If both sides made the same change, the change is made once.
//   - All other changes are conflicts.
//
// Merge never resolves a conflict by itself. For many conflicts it finds a [Suggestion], which is
// used only if the caller passes [ChooseSuggestion] to [Result.Resolve]. The rules look into
// conflicts of up to 8 KiB, and into the first MiB of them.
//
// With the default options, Merge differs from git in two cases only:
//
//   - Git refuses to merge binary files. Merge takes the side that changed. If both sides
//     changed, the whole file is one conflict, and [Result.Bytes] returns ours without markers;
//     callers can check [Result.Binary] first. A file is binary if it has a NUL in its first
//     8,000 bytes, or if it is larger than 1,023 MiB.
//   - Conflict markers are longer than git's if a line of the texts could be mistaken for a
//     marker (see [WithMarkerSize]).
//
// No line is lost. The regions of the result (see [Region]) cover all three texts without a gap,
// and Merge takes the text of one side for a region only if the other side did not change that
// region. Line endings, a missing newline at the end, a byte order mark and bytes that are not
// UTF-8 are preserved.
//
// Merge is a pure function and accepts any bytes. For n lines it usually takes time linear in n,
// and at worst O(n·√n). Memory is linear in n: less than 100 bytes for each line if there are few
// changes, and up to 500 bytes if all lines conflict. The result refers to the texts, which must
// not change while the result is in use.
func Merge(base, ours, theirs []byte, opts ...Option) Result {
	c := config{format: diff3.Format{Ours: "ours", Base: "base", Theirs: "theirs"}}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	m := diff3.Merge(base, ours, theirs, c.options)
	st := &state{sides: m.Sides, around: m.Around, omitted: diff3.Omitted, least: c.least,
		chosen: make(map[int]resolution), proposed: make(map[int][]Suggestion)}
	st.render = func(chosen map[int]resolution) (text []byte, ends []int) {
		return m.Render(c.format, func(i int) ([][]byte, bool) {
			res, ok := chosen[i]
			return res.texts, ok
		})
	}
	r := Result{Binary: m.Binary, Regions: make([]Region, len(m.Regions)), state: st}
	for i, g := range m.Regions {
		r.Regions[i] = Region{
			Kind: Kind(g.Kind), Base: span(m.Base, g.Base), Ours: span(m.Ours, g.Ours),
			Theirs: span(m.Theirs, g.Theirs), Suggestion: st.found(g.Suggestion),
		}
	}
	return r
}

func span(l *diff3.Lines, s diff3.Span) Span {
	return Span{FirstLine: s.Lo, EndLine: s.Hi, Start: l.Offset(s.Lo), End: l.Offset(s.Hi)}
}

// Option configures [Merge].
type Option func(*config)

type config struct {
	options diff3.Options
	format  diff3.Format
	least   Grade
}

// Style says which lines belong to a conflict and how the conflict is shown. The styles are those
// of git's merge.conflictStyle.
//
// As in git, a style changes more than the look of a conflict. StyleMerge and StyleZdiff3 move
// lines that ours and theirs have in common out of a conflict, into the regions around it.
// StyleMerge may split a conflict in this way, so it can have more conflicts than the other
// styles. In rare cases ours and theirs have all lines of a conflict in common. StyleMerge then
// has no conflict there, but the other styles have one.
type Style int

// The styles of conflicts.
const (
	// StyleMerge shows ours and theirs, without the lines that both have in common. It is the
	// default of git, and the shortest style, but a reader cannot see which side changed what.
	StyleMerge Style = iota
	// StyleDiff3 shows all lines of ours, base and theirs, so that a reader can see what each
	// side changed.
	StyleDiff3
	// StyleZdiff3 shows ours, base and theirs like StyleDiff3, but leaves out common lines at the
	// beginning and at the end of ours and theirs.
	StyleZdiff3
)

// WithStyle sets which lines belong to a conflict and how it is shown. Default: StyleMerge.
func WithStyle(style Style) Option {
	return func(c *config) { c.options.Style = diff3.Style(style) }
}

// WithLabels sets the texts that follow the conflict markers of base, ours and theirs. The order
// is that of the parameters of [Merge]. A label is cut off at its first line break. If a label is
// empty, its marker has no trailing space. Default: "base", "ours", "theirs".
func WithLabels(base, ours, theirs string) Option {
	return func(c *config) { c.format.Base, c.format.Ours, c.format.Theirs = base, ours, theirs }
}

// WithMarkerSize sets the length of the conflict markers in bytes, from 1 to 250. A value above
// 250 means 250, and a value of 0 or less means the default.
//
// Default: 7, as in git, unless a line of the texts begins with 7 or more of the same marker
// character ("<", "|", "=" or ">"). In that case, the markers are longer than the longest such
// run, so that no line looks like a marker. Runs of more than 250 characters are the exception:
// the markers may be shorter than such a run, but never have the same length.
func WithMarkerSize(n int) Option {
	return func(c *config) { c.format.MarkerSize = min(n, 250) }
}

// WithTouchingEdits sets whether Merge merges changes that touch but do not overlap: one side
// changed or deleted some lines, and the other side changed or deleted the lines directly after
// them. Git reports a conflict for such changes. Even with this option, an insertion directly
// beside a change of the other side is a conflict, since Merge would have to guess the order of
// the lines. Default: false.
func WithTouchingEdits(on bool) Option {
	return func(c *config) { c.options.Touching = on }
}

// Kind says which sides changed a [Region], and therefore from which side Merge takes the text of
// the region.
type Kind int

// The kinds of regions.
const (
	// Unchanged means that the three texts are equal in this region.
	Unchanged Kind = iota
	// Ours means that only ours differs from base. The region is taken from ours.
	Ours
	// Theirs means that only theirs differs from base. The region is taken from theirs.
	Theirs
	// Both means that ours and theirs made the same change. The change is made once.
	Both
	// Conflict means that both sides changed the same lines or adjacent ones in different ways.
	// Until the region is resolved, no side is taken, and [Result.Bytes] shows the region between
	// conflict markers. In rare cases two of the three texts are equal in the region, since a
	// region need not have exactly the lines that were changed (see [Style]).
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

// Region is a part of a merge. Base, Ours and Theirs are the corresponding ranges of the three
// texts.
//
// In a conflict, Base has all lines that the conflicting changes replaced, even if the [Style]
// moved some lines of ours and theirs out of the conflict. [ChooseBase] therefore restores all of
// the replaced lines.
type Region struct {
	Kind               Kind
	Base, Ours, Theirs Span
	// Suggestion is a proposed resolution of a conflict. It is nil if no rule found one, and for
	// regions that are not conflicts.
	Suggestion *Suggestion
}

// Span is a range of a text: the lines from FirstLine up to but not including EndLine, which are
// the bytes from Start up to but not including End. All four count from 0. A span may be empty.
type Span struct{ FirstLine, EndLine, Start, End int }

// Of returns the bytes that the span covers. The parameter text must be the text to which the
// span belongs: base, ours, theirs or the merged text.
func (s Span) Of(text []byte) []byte { return text[s.Start:s.End] }

// Result is the outcome of a merge. Copies of a Result share their resolutions: a region that is
// resolved in one copy is resolved in all copies.
type Result struct {
	// Regions are in the order of the texts, without gaps. They describe the merge as Merge found
	// it: resolving a region changes neither its Kind nor its index.
	Regions []Region
	// Binary reports whether at least one of the three texts is binary. In that case there is one
	// region, which holds the whole texts, and [Result.Bytes] writes no conflict markers.
	Binary bool

	state *state // nil in the zero value
}

// state is what copies of a result share.
type state struct {
	// These are functions, and not a reference to the merge, so that a program that only passes
	// results on does not link the merge algorithm.
	render  func(chosen map[int]resolution) (text []byte, ends []int)
	sides   func(region int) (base, ours, theirs []byte)
	around  func(region, lines int) (before, after []byte)
	omitted func(base, side, text []byte) []string

	least    Grade                // of suggestions
	chosen   map[int]resolution   // by region
	proposed map[int][]Suggestion // by region
}

// resolution is a text that was chosen for a region, in one or two parts.
type resolution struct {
	texts [][]byte
	from  Kind // Ours or Theirs if the text is that of one side
}

// Conflicts returns the number of conflicts that have not been resolved.
func (r Result) Conflicts() int {
	n := 0
	for i := range r.Regions {
		if r.isOpen(i) {
			n++
		}
	}
	return n
}

// isOpen reports whether a region is a conflict that has not been resolved.
func (r Result) isOpen(region int) bool {
	if r.Regions[region].Kind != Conflict {
		return false
	}
	if r.state == nil {
		return true
	}
	_, ok := r.state.chosen[region]
	return !ok
}

// Clean reports whether all conflicts have been resolved. It is true if there were none.
func (r Result) Clean() bool { return r.Conflicts() == 0 }

// Bytes returns the merged text. A conflict that has not been resolved is written between
// conflict markers. If a side of the conflict does not end in a newline, a line ending is added.
// The marker lines usually end in LF. As in git, they end in CRLF if the first line of base and
// the lines directly before the conflict end in CRLF.
//
// Binary files are an exception: an unresolved conflict is written as the bytes of ours, without
// markers.
func (r Result) Bytes() []byte {
	if r.state == nil {
		return nil
	}
	text, _ := r.state.render(r.state.chosen)
	return text
}

// Spans returns the place of each region in the text that [Result.Bytes] currently returns,
// conflict markers included. The spans are in the order of Regions. Lines count from 0, so a
// message to users should show FirstLine+1.
func (r Result) Spans() []Span {
	if r.state == nil {
		return nil
	}
	text, ends := r.state.render(r.state.chosen)
	out := make([]Span, len(ends))
	at := Span{}
	for i, end := range ends {
		at = Span{FirstLine: at.EndLine, Start: at.End, End: end}
		at.EndLine = at.FirstLine + runes.Lines(view.String(at.Of(text)))
		out[i] = at
	}
	return out
}

// Choice is a way to resolve a region; see [Result.Resolve].
type Choice int

// The choices for [Result.Resolve].
const (
	// ChooseOurs takes the text of ours and discards the change of theirs in this region.
	ChooseOurs Choice = iota
	// ChooseTheirs takes the text of theirs and discards the change of ours in this region.
	ChooseTheirs
	// ChooseBase takes the text of base and discards the changes of both sides in this region.
	ChooseBase
	// ChooseOursFirst takes the text of ours followed by that of theirs. If the text of ours does
	// not end in a newline, a line ending is added between the two.
	ChooseOursFirst
	// ChooseTheirsFirst takes the text of theirs followed by that of ours. If the text of theirs
	// does not end in a newline, a line ending is added between the two.
	ChooseTheirsFirst
	// ChooseSuggestion takes the text of the region's [Suggestion]. Resolve returns an error if
	// the region has no suggestion.
	ChooseSuggestion
)

// Resolve sets the merged text of the region at the given index of Regions. The region need not
// be a conflict: a host can also undo a change that was merged. If a region is resolved several
// times, the last call wins.
//
// Resolve returns an error if the index is out of range or choice is not one of the constants. It
// also returns an error if choice is [ChooseSuggestion] and the region has no [Suggestion].
// Resolve must not be called concurrently with any other method of r or its copies.
func (r Result) Resolve(region int, choice Choice) error {
	if err := r.check(region); err != nil {
		return err
	}
	base, ours, theirs := r.state.sides(region)
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
	r.choose(region, texts)
	return nil
}

// ResolveWith replaces a region with a copy of text, and otherwise works like [Result.Resolve].
// The text should consist of whole lines. If it does not end in a newline and more text follows,
// a line ending is added: the one that the lines around the region have.
func (r Result) ResolveWith(region int, text []byte) error {
	if err := r.check(region); err != nil {
		return err
	}
	r.choose(region, [][]byte{bytes.Clone(text)})
	return nil
}

// ResolveRest makes the same choice for all conflicts after the given region that have not been
// resolved, and returns their indexes, so that a host can undo it with [Result.Reopen]. The region
// may be -1. ResolveRest returns an error if the choice is not one of the constants, or is
// [ChooseSuggestion]: nobody has seen the suggestions of these conflicts.
func (r Result) ResolveRest(after int, choice Choice) ([]int, error) {
	if choice < ChooseOurs || choice >= ChooseSuggestion {
		return nil, fmt.Errorf("resolve the rest: no choice %d", choice)
	}
	var done []int
	for i := max(after+1, 0); i < len(r.Regions); i++ {
		if !r.isOpen(i) {
			continue
		}
		if err := r.Resolve(i, choice); err != nil {
			return done, err
		}
		done = append(done, i)
	}
	return done, nil
}

// Reopen undoes the resolution of a region: a conflict counts as one again, and any other region
// has the text that [Merge] gave it. It does nothing if the region has not been resolved. It
// returns an error if the index is out of range.
func (r Result) Reopen(region int) error {
	if err := r.check(region); err != nil {
		return err
	}
	delete(r.state.chosen, region)
	return nil
}

// check returns an error if there is no such region.
func (r Result) check(region int) error {
	if region < 0 || region >= len(r.Regions) || r.state == nil {
		return fmt.Errorf("resolve region %d: there are %d", region, len(r.Regions))
	}
	return nil
}

// choose resolves a region. It notes whether the text is that of one side, however it was chosen.
func (r Result) choose(region int, texts [][]byte) {
	_, ours, theirs := r.state.sides(region)
	r.state.chosen[region] = resolution{texts, fromSide(bytes.Join(texts, nil), ours, theirs)}
}

// fromSide returns the side whose text is the given one. It returns Conflict if there is none, or
// if both sides have this text.
func fromSide(text, ours, theirs []byte) Kind {
	switch isOurs, isTheirs := bytes.Equal(text, ours), bytes.Equal(text, theirs); {
	case isOurs && !isTheirs:
		return Ours
	case isTheirs && !isOurs:
		return Theirs
	}
	return Conflict
}
