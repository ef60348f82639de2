package merge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/diff3"
)

// Suggestion is a possible resolution of a conflict. It was found by a rule that compares lines
// and words, but does not know the syntax of any language, or it comes from a [Source]. A user
// should look at the suggestion before it is used.
type Suggestion struct {
	// Text is the text that would replace the conflict.
	Text []byte
	// Rule is the name of the rule that found the text, such as [RuleContained], or the name of
	// the [Source].
	Rule string
	// From is [Ours] or [Theirs] if Text is the text of that side. A change that only the other
	// side has is then left out. It is [Both] if Text has the changes of both sides, and
	// [Conflict] if the text of a Source lacks words that a side added, which Omits then lists.
	From  Kind
	Omits []string
	// Confidence says about how often suggestions of this rule were right, as a share from 0 to 1.
	// Right means equal, byte for byte, to the resolution that people committed. Each rule has a
	// constant confidence, which is listed with the rules (see [RuleContained]). It was measured on
	// merges in public projects. In a single project the share can be much higher or lower, so
	// Grade is often as much as a user needs to know.
	Confidence float64
	Grade      Grade
}

// Grade is a rough confidence.
type Grade int

// The grades, from the lowest to the highest. In two halves of the projects on which the rules were
// measured, the share of right suggestions differed from the given one by less than 0.08.
const (
	Hint   Grade = iota // about 0.58 are right: those with a confidence of less than 0.60
	Even                // about 0.66 are right: those with a confidence of less than 0.70
	Likely              // about 0.78 are right: all others
)

// String returns the name of the grade, such as "likely".
func (g Grade) String() string {
	names := [...]string{"hint", "even", "likely"}
	if g < 0 || int(g) >= len(names) {
		return fmt.Sprintf("Grade(%d)", int(g))
	}
	return names[g]
}

func gradeOf(confidence float64) Grade {
	switch {
	case confidence < 0.60:
		return Hint
	case confidence < 0.70:
		return Even
	}
	return Likely
}

// WithGrade sets the lowest grade of suggestions. Default: [Hint], which means all.
func WithGrade(least Grade) Option { return func(c *config) { c.least = least } }

// The rules for suggestions, with their confidence. [Merge] tries those from RuleLineEndings to
// RuleSuperset in this order. The last three follow what was resolved before: see [Result.Open].
//
// They were measured on 2,837 conflicts in 1,251 merges of 60 public projects, on 2026-11-28.
const (
	RuleLineEndings = "line endings" // 0.50: one side changed all line endings and nothing else
	RuleDeletion    = "deletion"     // 0.75: one side deleted what the other changed a little
	RuleContained   = "contained"    // 0.75: one side has the change of the other and more, or higher versions
	RuleTouching    = "touching"     // 0.55: the changes touch but do not overlap
	RuleFile        = "file"         // 0.65: one side has the other's change elsewhere in the file
	RuleLarger      = "larger"       // 0.60: one side changed as much or more, and has, replaces or deletes the other's change
	RuleImports     = "imports"      // 0.60: both sides changed a set of imports
	RuleTokens      = "tokens"       // 0.50: lines, merged token by token
	RuleSuperset    = "superset"     // 0.55: one side has the other's words, in another order

	RuleAll   = "all"   // 0.90: all conflicts before it, at least two, took this side
	RuleLast  = "last"  // 0.75: the last conflict before it took this side
	RuleFiles = "files" // 0.75: so did three quarters of the conflicts in all files
)

// found makes a suggestion of what a rule found.
func (st *state) found(s *diff3.Suggestion) *Suggestion {
	if s == nil || gradeOf(s.Confidence) < st.least {
		return nil
	}
	return &Suggestion{Text: s.Text, Rule: s.Rule, From: Kind(s.From), Confidence: s.Confidence,
		Grade: gradeOf(s.Confidence)}
}

// Reason says in words why the text was suggested. The parameters name the sides, as in "takes
// yours, which deletes what the agent changed a little".
func (s *Suggestion) Reason(ours, theirs string) string {
	self, other := ours, theirs
	if s.From == Theirs {
		self, other = theirs, ours
	}
	switch s.Rule {
	case RuleLineEndings:
		return "has the change of one side in the line endings of the other"
	case RuleTouching, RuleTokens:
		return "makes both changes, which do not overlap"
	case RuleImports:
		return "has the imports of both"
	}
	because := map[string]string{
		RuleDeletion:  ", which deletes what %s changed a little",
		RuleContained: ", which already contains the change of %s or has higher versions",
		RuleFile:      ": most of what %s has here is elsewhere in that version of the file",
		RuleLarger:    ", which changed as much or more, and has, replaces or deletes the change of %s",
		RuleSuperset:  ", which already has the words of %s, in another order",
		RuleAll:       " and not %s, as all conflicts before",
		RuleLast:      " and not %s, as the last conflict before",
		RuleFiles:     " and not %s, as most conflicts before",
	}[s.Rule]
	switch {
	case s.From == Conflict:
		return "is from " + s.Rule + " and leaves out " + strings.Join(s.Omits, ", ")
	case s.From == Both && because == "":
		return "is from " + s.Rule + " and has the changes of both"
	case s.From == Both:
		return "is what both have"
	case because == "":
		return "takes " + self + ", as " + s.Rule + " proposes"
	}
	return "takes " + self + fmt.Sprintf(because, other)
}

// OpenConflict is a conflict that has not been resolved.
type OpenConflict struct {
	Region int // its index in Regions
	// Suggestions are for this conflict, the one with the highest confidence first. Their texts
	// differ. To use one, pass its Text to [Result.ResolveWith].
	Suggestions []Suggestion
}

// Open returns the conflicts that have not been resolved, in the order of the text. Their
// suggestions are the one of the [Region], those of a [Source], and the side that was taken before.
// People who resolve a conflict by one side often do so for the whole file: the side is suggested
// that the last resolved conflict before this one took, byte for byte, however it was resolved. If
// it took another text, none is suggested. If no conflict before this one is resolved, a side
// counts that most of the resolved conflicts took, in this and in other files; the parameter beside
// has the merges of these.
//
// A resolution can change the suggestions of what is open, so a host should call Open again after
// each. It takes time linear in the number of regions and in the size of the open conflicts. Open
// must not be called concurrently with a method that resolves a conflict of r or of beside.
func (r Result) Open(beside ...Result) []OpenConflict {
	if r.state == nil {
		return nil
	}
	var all, before habit
	r.addTo(&all)
	for _, other := range beside {
		if other.state != r.state {
			other.addTo(&all)
		}
	}
	var out []OpenConflict
	for i := range r.Regions {
		if r.Regions[i].Kind != Conflict {
			continue
		}
		if res, ok := r.state.chosen[i]; ok {
			before.add(res.from)
			continue
		}
		out = append(out, OpenConflict{i, r.suggestions(i, before, all)})
	}
	return out
}

// habit counts by which texts conflicts were resolved.
type habit struct {
	n    int
	took [Conflict + 1]int // by kind
	last Kind
}

func (h *habit) add(from Kind) {
	h.n++
	h.took[from]++
	h.last = from
}

// addTo adds the conflicts of r that are resolved.
func (r Result) addTo(h *habit) {
	if r.state == nil {
		return
	}
	for i, res := range r.state.chosen {
		if r.Regions[i].Kind == Conflict {
			h.add(res.from)
		}
	}
}

// suggestions returns the suggestions for an open conflict, given how the conflicts before it and
// those of all files were resolved.
func (r Result) suggestions(region int, before, files habit) []Suggestion {
	var all []Suggestion
	if s, ok := r.follow(region, before, files); ok && s.Grade >= r.state.least {
		all = append(all, s)
	}
	if s := r.Regions[region].Suggestion; s != nil {
		all = append(all, *s)
	}
	all = append(all, r.state.proposed[region]...)
	slices.SortStableFunc(all, func(a, b Suggestion) int { return cmp.Compare(b.Confidence, a.Confidence) })
	var out []Suggestion
	for _, s := range all {
		if !slices.ContainsFunc(out, func(o Suggestion) bool { return bytes.Equal(o.Text, s.Text) }) {
			out = append(out, s)
		}
	}
	return out
}

// follow suggests the side that was taken before.
func (r Result) follow(region int, before, all habit) (Suggestion, bool) {
	s := Suggestion{Rule: RuleLast, From: before.last, Confidence: 0.75}
	if before.n == 0 {
		s.Rule, s.From = RuleFiles, Ours
		if all.took[Theirs] > all.took[Ours] {
			s.From = Theirs
		}
		if all.n < 2 || 4*all.took[s.From] < 3*all.n {
			return s, false
		}
	} else if before.n >= 2 && before.took[before.last] == before.n {
		s.Rule, s.Confidence = RuleAll, 0.90
	}
	_, ours, theirs := r.state.sides(region)
	switch s.From {
	case Ours:
		s.Text = bytes.Clone(ours)
	case Theirs:
		s.Text = bytes.Clone(theirs)
	default:
		return s, false
	}
	s.Grade = gradeOf(s.Confidence)
	return s, true
}

// Source proposes resolutions of conflicts: a rule of the host, or a question to a model.
type Source struct {
	// Name is the Rule of the suggestions. Confidence is theirs, too.
	Name       string
	Confidence float64
	// Propose returns the text that would replace the conflict, or an error if it has none. It may
	// ask a model: [Sides.Question] has what a model must know.
	Propose func(ctx context.Context, c Sides) (text []byte, err error)
	// Parses reports whether the text of the whole file is well-formed. It is called with the
	// proposal in its place, and with the text of ours for the other conflicts that are open. If it
	// is nil, this is not checked.
	Parses func(file []byte) bool
}

// maxProposal is the size in bytes of the largest text that a source may propose, and of the
// largest conflict that it is asked about.
const maxProposal = 64 << 10

// Ask asks a source about an open conflict, and adds the answer to the suggestions that
// [Result.Open] returns, in place of an earlier one of the same name. Nothing is resolved.
//
// The answer is checked. Ask returns an error if there is no such open conflict, or if it is larger
// than 64 KiB; if the source returns an error; if its text is larger than that, or has conflict
// markers; or if the file does not parse with it, although it parses with the text of ours or
// theirs. A text that lacks words which a side added is not an error, since it can be right: the
// suggestion lists them in Omits. If the text lacks the line ending that both sides have, Ask adds
// it.
//
// Ask must not be called concurrently with any other method of r or its copies.
func (r Result) Ask(ctx context.Context, region int, from Source) (Suggestion, error) {
	s, err := r.ask(ctx, region, from)
	if err != nil {
		return Suggestion{}, fmt.Errorf("ask %s about region %d: %w", from.Name, region, err)
	}
	earlier := func(s Suggestion) bool { return s.Rule == from.Name }
	r.state.proposed[region] = append(slices.DeleteFunc(r.state.proposed[region], earlier), s)
	return s, nil
}

func (r Result) ask(ctx context.Context, region int, from Source) (Suggestion, error) {
	var s Suggestion
	if err := r.check(region); err != nil {
		return s, err
	}
	c := r.Sides(region)
	if !r.isOpen(region) || r.Binary {
		return s, errors.New("it is not an open conflict of a text")
	}
	if max(len(c.Base), len(c.Ours), len(c.Theirs)) > maxProposal {
		return s, errors.New("it is too large")
	}
	text, err := from.Propose(ctx, c)
	if err != nil {
		return s, err
	}
	if n := len(text); n > 0 && text[n-1] != '\n' && endsLine(c.Ours) && endsLine(c.Theirs) {
		text = append(bytes.Clone(text), '\n')
	}
	switch {
	case len(text) > maxProposal:
		return s, errors.New("the answer is too large")
	case hasMarkers(text, c):
		return s, errors.New("the answer has conflict markers")
	case from.Parses != nil && !r.parses(region, text, from.Parses):
		return s, errors.New("the file does not parse with the answer")
	}
	s = Suggestion{Text: bytes.Clone(text), Rule: from.Name, Confidence: from.Confidence,
		Grade: gradeOf(from.Confidence), From: fromSide(text, c.Ours, c.Theirs)}
	if s.From == Conflict {
		s.Omits = append(r.state.omitted(c.Base, c.Ours, text), r.state.omitted(c.Base, c.Theirs, text)...)
		if len(s.Omits) == 0 {
			s.From = Both
		}
	}
	return s, nil
}

func endsLine(text []byte) bool { return bytes.HasSuffix(text, []byte("\n")) }

// hasMarkers reports whether a line of text could be a conflict marker and is in neither side.
func hasMarkers(text []byte, c Sides) bool {
	for line := range bytes.Lines(text) {
		for _, marker := range []string{"<<<<<<<", "|||||||", "=======", ">>>>>>>"} {
			if bytes.HasPrefix(line, []byte(marker)) && !bytes.Contains(c.Ours, line) &&
				!bytes.Contains(c.Theirs, line) {
				return true
			}
		}
	}
	return false
}

// parses reports whether the file parses with a text for a region. If it parses with neither side
// in that place, the text is not to blame.
func (r Result) parses(region int, text []byte, parses func([]byte) bool) bool {
	chosen := make(map[int]resolution)
	for i := range r.Regions {
		if _, ours, _ := r.state.sides(i); r.isOpen(i) {
			chosen[i] = resolution{texts: [][]byte{ours}}
		} else if res, ok := r.state.chosen[i]; ok {
			chosen[i] = res
		}
	}
	with := func(text []byte) bool {
		chosen[region] = resolution{texts: [][]byte{text}}
		file, _ := r.state.render(chosen)
		return parses(file)
	}
	_, ours, theirs := r.state.sides(region)
	return with(text) || !with(ours) && !with(theirs)
}

// Sides are the texts of a conflict, and the lines of ours before and after it.
type Sides struct{ Before, Base, Ours, Theirs, After []byte }

// around is how many lines before and after a conflict Sides has, and in how many bytes.
const (
	aroundLines = 20
	aroundBytes = 8 << 10
)

// Sides returns the texts of a region, with up to 20 lines before and after it, or fewer if these
// are longer than 8 KiB. It returns the zero value if there is no such region. The texts must not
// be changed.
func (r Result) Sides(region int) Sides {
	if r.check(region) != nil {
		return Sides{}
	}
	var c Sides
	c.Base, c.Ours, c.Theirs = r.state.sides(region)
	for n := aroundLines; n > 0; n /= 2 {
		c.Before, c.After = r.state.around(region, n)
		if len(c.Before) <= aroundBytes && len(c.After) <= aroundBytes {
			return c
		}
	}
	c.Before, c.After = nil, nil
	return c
}

// Question returns a prompt that asks a model to resolve the conflict. [Answer] reads its reply.
// The texts of the file are quoted as they are, so a file can try to instruct the model: the reply
// only becomes a suggestion.
func (c Sides) Question() string {
	var b strings.Builder
	b.WriteString("Two people changed the same lines of a file. Merge their changes: keep what both " +
		"want, and write nothing that neither wrote unless the merge needs it. Reply with the lines " +
		"that replace the conflict, between two lines of ```, and with nothing else.\n")
	for _, part := range []struct {
		title string
		text  []byte
	}{
		{"The lines before the conflict", c.Before}, {"The lines as they were", c.Base},
		{"The lines of the first person", c.Ours}, {"The lines of the second person", c.Theirs},
		{"The lines after the conflict", c.After},
	} {
		fence := "```"
		for bytes.Contains(part.text, []byte(fence)) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n%s:\n%s\n%s", part.title, fence, part.text)
		if len(part.text) > 0 && !endsLine(part.text) {
			b.WriteByte('\n')
		}
		b.WriteString(fence + "\n")
	}
	return b.String()
}

// Answer returns the text between the first line and the last line of the reply that begin with
// ```. It returns an error if there are no two such lines.
func Answer(reply string) ([]byte, error) {
	lines := slices.Collect(strings.Lines(reply))
	fence := func(line string) bool { return strings.HasPrefix(line, "```") }
	first := slices.IndexFunc(lines, fence)
	last := len(lines) - 1
	for last > first && !fence(lines[last]) {
		last--
	}
	if first < 0 || last <= first {
		return nil, errors.New("the reply has no text between two lines of ```")
	}
	return []byte(strings.Join(lines[first+1:last], "")), nil
}
