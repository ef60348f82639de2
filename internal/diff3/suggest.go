package diff3

import (
	"bytes"
	"math"
	"slices"
)

// Suggestion is a possible resolution of a conflict, found by a rule. A user should look at it:
// the merge itself never uses it.
type Suggestion struct {
	Text []byte
	Rule string
	// Confidence is the share of such suggestions that were exactly the resolution people
	// committed.
	Confidence float64
}

// The names of the rules.
const (
	RuleEndings   = "line endings" // one side changed all line endings, and nothing else
	RuleWords     = "words"        // lines that both sides changed in different words
	RuleContained = "contained"    // one side made the other's change and more
	RuleTouching  = "touching"     // changes that touch but do not overlap
	RuleBlanks    = "whitespace"   // one side changed white space only
	RuleImports   = "imports"      // both sides changed a set of imports
	RuleTokens    = "tokens"       // a few lines that the sides changed in different tokens
)

// rules are in the order in which they are tried. The confidence is the share of suggestions that
// are byte for byte the text that people committed. Each merged file counts once, since one
// rename can cause a hundred conflicts. The share was measured on merges that were set aside, and
// on projects that were not used to tune a rule. The lower of the two figures counts, rounded
// down, since projects differ more than rules do. TestConfidence compares the figures with
// recorded merges.
var rules = []struct {
	name       string
	confidence float64
	most       int // bytes of a side of a conflict that is looked into
	apply      func(*conflict) ([]byte, bool)
}{
	{RuleEndings, 0.50, maxSize, (*conflict).endings},
	{RuleWords, 0.50, maxConflict, (*conflict).words},
	{RuleContained, 0.65, maxConflict, (*conflict).contained},
	{RuleTouching, 0.60, maxConflict, (*conflict).touching},
	{RuleBlanks, 0.45, maxConflict, (*conflict).blanks},
	{RuleImports, 0.50, maxConflict, (*conflict).imports},
	{RuleTokens, 0.50, maxConflict, (*conflict).tokens},
}

const (
	maxConflict   = 16 << 10 // for rules that look at words, or would double the time of a merge
	maxTokenLines = 10       // lines of a side whose tokens are merged
	// maxRewritten is the percentage of a line's tokens that one side alone may have changed.
	// Above it, people accepted a merge of the words half as often.
	maxRewritten = 40
	anyPart      = math.MaxInt32 // no such bound
)

// conflict holds the three texts of a conflict.
type conflict struct{ base, ours, theirs []byte }

// suggest looks for a resolution. It returns nil if no rule applies.
func suggest(c conflict) *Suggestion {
	size := max(len(c.base), len(c.ours), len(c.theirs))
	for _, r := range rules {
		if size > r.most {
			continue
		}
		if text, ok := r.apply(&c); ok {
			return &Suggestion{Text: bytes.Clone(text), Rule: r.name, Confidence: r.confidence}
		}
	}
	return nil
}

// words merges line by line. All sides must have the same number of lines, and at least one line
// must have been changed by both sides.
func (c *conflict) words() ([]byte, bool) {
	base, ours, theirs := lines(c.base), lines(c.ours), lines(c.theirs)
	if len(base) != len(ours) || len(base) != len(theirs) {
		return nil, false
	}
	var out []byte
	both := false
	for i, b := range base {
		o, t := ours[i], theirs[i]
		switch {
		case bytes.Equal(o, b) || bytes.Equal(o, t):
			out = append(out, t...)
		case bytes.Equal(t, b):
			out = append(out, o...)
		default:
			both = true
			text, ok := mergeTokens(conflict{b, o, t}, maxRewritten)
			if !ok {
				return nil, false
			}
			out = append(out, text...)
		}
	}
	return out, both
}

func lines(text []byte) [][]byte { return slices.Collect(bytes.Lines(text)) }

// tokens merges the tokens of a conflict that has few lines.
func (c *conflict) tokens() ([]byte, bool) {
	for _, side := range [][]byte{c.base, c.ours, c.theirs} {
		if bytes.Count(side, []byte{'\n'}) > maxTokenLines {
			return nil, false
		}
	}
	return mergeTokens(*c, anyPart)
}

// mergeTokens merges a conflict as if each token was a line. It refuses if one side alone changed
// more than the given percentage of base's tokens.
func mergeTokens(c conflict, most int) ([]byte, bool) {
	t := newTable()
	m := merger{opts: Options{Style: StyleDiff3}}
	m.base, m.ours, m.theirs = c.cut(t)
	r := m.merge(t)
	changed := 0
	for _, g := range r.Regions {
		if g.Kind == Ours || g.Kind == Theirs {
			changed += max(g.Base.Len(), g.Ours.Len(), g.Theirs.Len())
		}
	}
	if r.Conflicts() > 0 || most < anyPart && 100*changed > most*m.base.Len() {
		return nil, false
	}
	out := t.addPieces(r.text(), tokenLen)
	return out.data, !m.doubled(out)
}

// cut splits the three sides into tokens.
func (c *conflict) cut(t *table) (base, ours, theirs *Lines) {
	return t.addPieces(c.base, tokenLen), t.addPieces(c.ours, tokenLen),
		t.addPieces(c.theirs, tokenLen)
}

// doubled reports whether a word that both sides added is in the result twice. Then the sides
// added it in different places, although one is enough.
func (m *merger) doubled(out *Lines) bool {
	in := make(map[int32][4]int)
	for side, l := range []*Lines{m.base, m.ours, m.theirs, out} {
		for _, id := range l.ids {
			n := in[id]
			n[side]++
			in[id] = n
		}
	}
	for i, id := range out.ids {
		n := in[id]
		c := out.data[out.off[i]]
		if n[3] > max(n[1], n[2]) && n[1] > n[0] && n[2] > n[0] && (isWord(c) || isQuote(c)) {
			return true
		}
	}
	return false
}

// contained takes the side that made the change of the other side and more. Its tokens are those
// of the other side with some added or, if both sides deleted, some removed.
func (c *conflict) contained() ([]byte, bool) {
	base, ours, theirs := c.cut(newTable())
	switch {
	case within(base, ours) && within(ours, theirs), within(theirs, ours) && within(ours, base):
		return c.theirs, true
	case within(base, theirs) && within(theirs, ours), within(ours, theirs) && within(theirs, base):
		return c.ours, true
	}
	return nil, false
}

// within reports whether b has all pieces of a in the same order.
func within(a, b *Lines) bool {
	n := 0
	for _, id := range b.ids {
		if n < len(a.ids) && a.ids[n] == id {
			n++
		}
	}
	return n == len(a.ids)
}

// touching merges changes that touch but do not overlap.
func (c *conflict) touching() ([]byte, bool) {
	r := mergeLines(c.base, c.ours, c.theirs, Options{Style: StyleDiff3, Touching: true})
	if r.Conflicts() > 0 {
		return nil, false
	}
	return r.text(), true
}

// blanks takes the side that changed more than white space, if the other side changed nothing
// else.
func (c *conflict) blanks() ([]byte, bool) {
	base := squeeze(c.base)
	switch {
	case bytes.Equal(squeeze(c.ours), base):
		return c.theirs, true
	case bytes.Equal(squeeze(c.theirs), base):
		return c.ours, true
	}
	return nil, false
}

// squeeze returns text without white space.
func squeeze(text []byte) []byte { return bytes.Join(bytes.Fields(text), nil) }

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

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether c may occur in a word. Bytes of other scripts count as letters.
func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c >= 0x80
}
