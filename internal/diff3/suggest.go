package diff3

import (
	"bytes"
	"strings"
)

// Suggestion is a possible resolution of a conflict, found by a rule. A user should look at it:
// the merge itself never uses it.
type Suggestion struct {
	Text []byte
	Rule string
	// From is Ours or Theirs if Text is the text of that side, so that the change of the other
	// side is left out unless this side has it, too. It is Both if Text has the changes of both.
	From Kind
	// Confidence is about the share of such suggestions that were exactly the resolution people
	// committed.
	Confidence float64
}

// The names of the rules.
const (
	RuleEndings   = "line endings" // one side changed all line endings, and nothing else
	RuleDeletion  = "deletion"     // one side deleted what the other changed a little
	RuleContained = "contained"    // one side has the other's change and more, in the same order
	RuleTouching  = "touching"     // changes that touch but do not overlap
	RuleFile      = "file"         // one side has the other's lines elsewhere in the file
	RuleLarger    = "larger"       // one side changed as much or more, and has, replaces or deletes the other's change
	RuleImports   = "imports"      // both sides changed a set of imports
	RuleTokens    = "tokens"       // lines that the sides changed in different tokens
	RuleSuperset  = "superset"     // one side has the other's change and more, in any order
)

// rules returns the rules in the order in which they are tried, which is about that of how often they are right.
//
// A rule that takes a side applies only if its condition holds for that side and not for the
// other. People took one side in 55 % of the conflicts, so knowing which one helps more than
// texts that nobody has written.
//
// The bounds in the rules were chosen by a procedure and not by hand: see TestRulesChosen, which also
// chooses in one half of the projects, and measures that choice in the other. The confidence is about
// the share of suggestions that are byte for byte the text that people committed. It was measured on
// 2,837 conflicts in 1,251 merges of 60 public projects, on 2026-11-28, and rounded down to a multiple
// of 0.05, and that of RuleFile further, since it is right less often where others of the file are
// resolved. Projects differ more than rules do, so TestSuggestionsRecorded checks what rules claim on
// two halves of the projects.
func rules() []rule { // a variable would link the merge into every program
	return []rule{
		{RuleEndings, 0.50, (*conflict).endings},
		{RuleDeletion, 0.75, deletion(2)},
		{RuleContained, 0.75, isMerge(contained, 0, 1)},
		{RuleTouching, 0.55, touching(0.4)},
		{RuleFile, 0.65, inFile(0.9, 1)},
		{RuleLarger, 0.60, isMerge(guessed, 1, 1)},
		{RuleImports, 0.60, (*conflict).imports},
		{RuleTokens, 0.50, tokens(0.5, 40)},
		{RuleSuperset, 0.55, (*conflict).superset},
	}
}

type rule struct {
	name       string
	confidence float64
	apply      apply
}

// An apply function returns the text that a rule suggests, and which side it is of.
type apply func(c *conflict) ([]byte, Kind, bool)

const (
	maxConflict = 8 << 10 // bytes of a side of a conflict that rules look into
	// maxConflicts is the sum of that for all conflicts of a merge. It bounds the time: tokens that
	// are hard to compare take a second for a MiB.
	maxConflicts = 1 << 20
)

// The sides of a conflict are numbered, so that a rule is written once for both sides.
const (
	inBase = iota
	inOurs
	inTheirs
)

// suggester looks for resolutions of the conflicts of one merge.
type suggester struct {
	r *Result
	// lineCount is how often each line is in base, ours and theirs, by its number.
	lineCount [][3]int32
	here      [][3]int32 // the same for one conflict, while inFile counts it; otherwise zero
	// changed is how many lines ours and theirs added or deleted.
	changed [3]int
	looked  int // bytes of conflicts that rules have looked into
}

// suggest finds suggestions for all conflicts.
func (r *Result) suggest() {
	var s *suggester
	for i := range r.Regions {
		g := &r.Regions[i]
		if g.Kind != Conflict {
			continue
		}
		if s == nil {
			s = newSuggester(r)
		}
		// The first attempt treats the change of the lines outside of core as made.
		g.Suggestion = s.suggest(g, g.core)
		if g.Suggestion == nil && g.core != g.Base {
			g.Suggestion = s.suggest(g, g.Base)
		}
	}
}

func newSuggester(r *Result) *suggester {
	sides := []*Lines{r.Base, r.Ours, r.Theirs}
	size := 0
	for _, l := range sides {
		for _, id := range l.ids {
			size = max(size, int(id)+1)
		}
	}
	s := &suggester{r: r, lineCount: make([][3]int32, size), here: make([][3]int32, size)}
	for side, l := range sides {
		for _, id := range l.ids {
			s.lineCount[id][side]++
		}
	}
	for _, n := range s.lineCount {
		for side := inOurs; side <= inTheirs; side++ {
			s.changed[side] += int(max(n[side]-n[inBase], n[inBase]-n[side]))
		}
	}
	return s
}

// conflict holds the texts of a conflict, in which base is a range of lines of the region.
type conflict struct {
	*suggester
	text  [3][]byte
	lines [3][]int32 // the numbers of the lines
	words
}

// suggest looks for a resolution. It returns nil if no rule applies.
func (s *suggester) suggest(g *Region, base Span) *Suggestion {
	c, looked := s.conflict(g, base), rules()
	if c.table == nil {
		looked = looked[:1] // line endings need no words
	}
	for _, r := range looked {
		if text, from, ok := r.apply(c); ok {
			return &Suggestion{bytes.Clone(text), r.name, from, r.confidence}
		}
	}
	return nil
}

// conflict returns the texts of a conflict, and its words unless it is too large.
func (s *suggester) conflict(g *Region, base Span) *conflict {
	c := &conflict{suggester: s}
	for i, side := range []struct {
		l    *Lines
		span Span
	}{{s.r.Base, base}, {s.r.Ours, g.Ours}, {s.r.Theirs, g.Theirs}} {
		c.text[i] = side.l.Slice(side.span.Lo, side.span.Hi)
		c.lines[i] = side.l.ids[side.span.Lo:side.span.Hi]
	}
	size := max(len(c.text[0]), len(c.text[1]), len(c.text[2]))
	if size <= maxConflict && s.looked+size <= maxConflicts {
		s.looked += size
		c.cut(&c.text)
		c.merge()
	}
	return c
}

// one returns the side for which a condition holds. It returns false if it holds for both sides.
func (c *conflict) one(holds func(self, other int) bool) ([]byte, Kind, bool) {
	switch ours, theirs := holds(inOurs, inTheirs), holds(inTheirs, inOurs); {
	case ours && !theirs:
		return c.text[inOurs], Ours, true
	case theirs && !ours:
		return c.text[inTheirs], Theirs, true
	}
	return nil, Conflict, false
}

// deletion takes the side that deleted all, if it changed so many times as many tokens as the other side.
func deletion(times int) apply {
	return func(c *conflict) ([]byte, Kind, bool) {
		return c.one(func(self, other int) bool {
			return len(c.text[self]) == 0 && len(c.text[other]) > 0 && len(c.text[inBase]) > 0 &&
				c.change(self) >= times*c.change(other)
		})
	}
}

// isMerge takes the side that already is what a merge of the tokens gives, if that had to guess at most so much,
// and if the side changed so many times as many tokens here, and lines in the file. In rare cases, both sides are.
func isMerge(worst clash, times, inFile int) apply {
	return func(c *conflict) ([]byte, Kind, bool) {
		if bytes.Equal(c.text[inOurs], c.text[inTheirs]) {
			return c.text[inOurs], Both, true
		}
		return c.one(func(self, other int) bool {
			return c.clash <= worst && bytes.Equal(c.merged, c.text[self]) &&
				c.change(self) >= times*c.change(other) && c.changed[self] >= inFile*c.changed[other]
		})
	}
}

// superset takes the side that added all tokens that the other side added, and deleted all that it
// deleted.
func (c *conflict) superset() ([]byte, Kind, bool) {
	return c.one(func(_, other int) bool {
		return c.both.added == c.only[other].added && c.both.deleted == c.only[other].deleted
	})
}

// touching merges changes that touch but do not overlap, if both sides are so alike to base.
func touching(alike float64) apply {
	return func(c *conflict) ([]byte, Kind, bool) {
		if !c.alike(alike) {
			return nil, Conflict, false
		}
		r := mergeLines(c.text[inBase], c.text[inOurs], c.text[inTheirs], Options{Style: StyleDiff3, Touching: true})
		if r.Conflicts() > 0 {
			return nil, Conflict, false
		}
		return r.text(), Both, true
	}
}

// inFile takes the side that has a share of the other side's lines elsewhere in the file, and changed so many times
// as many lines of the file. It has probably moved the lines there, or made the change before.
func inFile(share float64, times int) apply {
	return func(c *conflict) ([]byte, Kind, bool) {
		change, found := c.elsewhere()
		return c.one(func(self, other int) bool {
			return float64(found[other].added) >= share*float64(change[other].added) &&
				float64(found[other].deleted) >= share*float64(change[other].deleted) && c.changed[self] >= times*c.changed[other]
		})
	}
}

// elsewhere returns how many lines each side changed here, and how many of these the other side changed in all
// the file.
func (c *conflict) elsewhere() (change, found [3]diff) {
	for side, ids := range c.lines {
		for _, id := range ids {
			c.here[id][side]++
		}
	}
	for _, ids := range c.lines {
		for _, id := range ids {
			n, file := c.here[id], c.lineCount[id]
			c.here[id] = [3]int32{} // so that the line is counted once
			for side, other := range [3]int{inOurs: inTheirs, inTheirs: inOurs} {
				added, deleted := max(n[side]-n[inBase], 0), max(n[inBase]-n[side], 0)
				change[side].add(added, deleted)
				found[side].add(min(added, file[other]), min(deleted, max(file[inBase]-file[other], 0)))
			}
		}
	}
	return change, found
}

// tokens merges the tokens of a conflict that has few lines, and sides that are so alike to base.
func tokens(alike float64, lines int) apply {
	return func(c *conflict) ([]byte, Kind, bool) {
		few := max(len(c.lines[0]), len(c.lines[1]), len(c.lines[2])) <= lines
		return c.merged, Both, few && c.clash == none && c.alike(alike) && !c.doubled()
	}
}

// words is a conflict that is cut into tokens: words, numbers, strings, signs and blanks.
type words struct {
	table *table
	cuts  [3]*Lines
	count [][3]int32 // how often each token is in base, ours and theirs, by its number
	size  [3]int     // tokens in base, ours and theirs; as all that follows, without blanks
	only  [3]diff    // tokens that a side added or deleted, whatever the other side did
	both  diff       // tokens that both sides added or deleted

	merged []byte // the three-way merge of the tokens
	clash  clash  // how it resolved the tokens that both sides changed
}

// diff is a number of tokens or lines.
type diff struct{ added, deleted int }

func (d *diff) add(added, deleted int32) {
	d.added += int(added)
	d.deleted += int(deleted)
}

// clash says how a merge of tokens resolved those that both sides changed, at worst.
type clash int

const (
	none      clash = iota // no tokens were changed by both sides
	contained              // a side had the tokens of the other side and more, or a higher number
	guessed                // both sides inserted, or one deleted: the sum of both was taken
	unsolved               // there is no merge
)

// cut cuts the texts into tokens and counts them.
func (w *words) cut(texts *[3][]byte) {
	w.table = newTable()
	for i, text := range texts {
		w.cuts[i] = w.table.addPieces(text, tokenLen)
	}
	w.count = make([][3]int32, w.table.size())
	for side, l := range w.cuts {
		for _, id := range l.ids {
			w.count[id][side]++
		}
	}
	for id := range w.count {
		if !isBlank(w.table.line(int32(id))[0]) {
			w.tally(w.count[id])
		}
	}
}

// tally counts a token that is in base, ours and theirs n times.
func (w *words) tally(n [3]int32) {
	for side := range n {
		w.size[side] += int(n[side])
		w.only[side].add(max(n[side]-n[inBase], 0), max(n[inBase]-n[side], 0))
	}
	least, most := min(n[inOurs], n[inTheirs]), max(n[inOurs], n[inTheirs])
	w.both.add(max(least-n[inBase], 0), max(n[inBase]-most, 0))
}

// change returns the number of tokens that a side changed.
func (w *words) change(side int) int { return w.only[side].added + w.only[side].deleted }

// alike reports whether both sides have a share of the tokens in common with base.
func (w *words) alike(share float64) bool {
	for side := inOurs; side <= inTheirs; side++ {
		same := 2 * (w.size[inBase] - w.only[side].deleted)
		if float64(same) < share*float64(w.size[inBase]+w.size[side]) {
			return false
		}
	}
	return true
}

// merge merges the tokens as if each was a line.
func (w *words) merge() {
	m := merger{opts: Options{Style: StyleDiff3}}
	m.base, m.ours, m.theirs = w.cuts[inBase], w.cuts[inOurs], w.cuts[inTheirs]
	r := m.merge(w.table)
	for i := range r.Regions {
		g := &r.Regions[i]
		if g.Kind != Conflict {
			w.merged = append(w.merged, r.Text(g)...)
			continue
		}
		text, clash := r.resolve(g)
		w.merged, w.clash = append(w.merged, text...), max(w.clash, clash)
		if w.clash == unsolved {
			return
		}
	}
}

// resolve resolves a conflict between tokens.
func (r *Result) resolve(g *Region) ([]byte, clash) {
	base, ours, theirs := r.Base.Slice(g.Base.Lo, g.Base.Hi), r.Ours.Slice(g.Ours.Lo, g.Ours.Hi),
		r.Theirs.Slice(g.Theirs.Lo, g.Theirs.Hi)
	o, t := r.Ours.ids[g.Ours.Lo:g.Ours.Hi], r.Theirs.ids[g.Theirs.Lo:g.Theirs.Hi]
	higher := compareNumbers(ours, theirs)
	switch {
	case bytes.Equal(ours, base), len(o) > 0 && within(o, t), higher < 0:
		return theirs, contained
	case bytes.Equal(theirs, base), len(t) > 0 && within(t, o), higher > 0:
		return ours, contained
	case len(base) == 0:
		return append(bytes.Clone(ours), theirs...), guessed
	case len(o) == 0 || len(t) == 0:
		return nil, guessed
	}
	return nil, unsolved
}

// within reports whether b has all tokens of a in the same order.
func within(a, b []int32) bool {
	n := 0
	for _, id := range b {
		if n < len(a) && a[n] == id {
			n++
		}
	}
	return n == len(a)
}

// compareNumbers compares numbers or versions such as 12, "^1.10.2" and v2.0. It returns 0 for all
// other texts, among them versions with a suffix such as 1.0-rc1, whose order has many rules.
func compareNumbers(a, b []byte) int {
	x, y := strings.Trim(string(a), numberSigns), strings.Trim(string(b), numberSigns)
	if !isNumber(x) || !isNumber(y) {
		return 0
	}
	p, q := strings.Split(x, "."), strings.Split(y, ".")
	for i := range min(len(p), len(q)) {
		m, n := strings.TrimLeft(p[i], "0"), strings.TrimLeft(q[i], "0")
		if len(m) != len(n) {
			return len(m) - len(n)
		}
		if m != n {
			return strings.Compare(m, n)
		}
	}
	return len(p) - len(q)
}

// numberSigns may surround a number or version.
const numberSigns = "\"'`^~v"

// isNumber reports whether text consists of digits, or of several such texts between dots.
func isNumber(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}

// doubled reports whether a word that both sides added is in the merged text twice. Then the sides
// added it in different places, although one is enough. It also reports tokens that no side has:
// they were glued together by the merge.
func (w *words) doubled() bool {
	out := w.table.addPieces(w.merged, tokenLen)
	seen := make([]int32, len(w.count))
	for _, id := range out.ids {
		if int(id) >= len(seen) {
			return true
		}
		seen[id]++
	}
	for id, n := range w.count {
		c := w.table.line(int32(id))[0]
		if seen[id] > max(n[inOurs], n[inTheirs]) && min(n[inOurs], n[inTheirs]) > n[inBase] &&
			(isWord(c) || isQuote(c)) {
			return true
		}
	}
	return false
}

// maxOmitted bounds the list of Omitted.
const maxOmitted = 20

// Omitted returns the tokens that a side added to base and that text lacks, at most 20 of them.
func Omitted(base, side, text []byte) []string {
	var w words
	w.cut(&[3][]byte{base, side, text})
	var out []string
	for id, n := range w.count {
		token := w.table.line(int32(id))
		if n[2] < n[1]-n[0] && !isBlank(token[0]) && len(out) < maxOmitted {
			out = append(out, string(token))
		}
	}
	return out
}

// tokenLen returns the length of the first token of text: a word, a number with its suffixes
// ("1.2.3-rc1", "0x1F"), a string that ends on the same line, blanks, or any other single byte.
func tokenLen(text []byte) int {
	c := text[0]
	switch {
	case isQuote(c):
		return quoted(text)
	case isDigit(c):
		return span(text, func(i int) bool {
			return isWord(text[i]) || bytes.IndexByte([]byte(".-+"), text[i]) >= 0 &&
				i+1 < len(text) && isWord(text[i+1])
		})
	case isWord(c):
		return span(text, func(i int) bool {
			return isWord(text[i]) || text[i] == '.' && i+1 < len(text) && isDigit(text[i+1])
		})
	case c == ' ' || c == '\t':
		return span(text, func(i int) bool { return text[i] == ' ' || text[i] == '\t' })
	}
	return 1
}

// span returns how many bytes of text belong to a token. The first byte always does.
func span(text []byte, in func(i int) bool) int {
	for i := 1; i < len(text); i++ {
		if !in(i) {
			return i
		}
	}
	return len(text)
}

// maxString is the distance in bytes within which a string must end. It bounds the time for a
// line that consists of quotes.
const maxString = 1 << 10

// quoted returns the length of a string, or 1 if the string does not end on its line.
func quoted(text []byte) int {
	for i := 1; i < min(len(text), maxString) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 1
}

// isQuote reports whether c is a quote in some language.
func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// isBlank reports whether c is white space.
func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether c may occur in a word. Bytes of other scripts count as letters.
func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80
}
