package codegraph

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/tokens"
)

// Focus says what a context is for.
type Focus struct {
	// Files are the files in play, for example those that are edited. The context shows the declarations
	// that they use. Paths that the graph does not have are left out.
	Files []string
	// Mentions are names of declarations or paths of files that were spoken of. Default: none.
	Mentions []string
	// Budget is the size that the context may have, in tokens.
	Budget int64
	// Tokens counts the tokens of a text. Default: [tokens.Estimate].
	Tokens func(text string) int64
	// Known says that the model has the text of Files already, so that they are left out.
	Known bool

	skip func(f *file) bool // files that are not shown, or nil
}

// Context is a choice of files for a model.
type Context struct {
	// Items are in the order of the text: dependencies come before what uses them, and the files in play
	// come last.
	Items []Item
	// Left are the files that the files in play depend on and that had no room, the most useful first.
	Left []string
	// Tokens is the size of Text.
	Tokens int64
}

// Item is a file of a context.
type Item struct {
	Path  string
	Level Level
	// Why is a chain of files from one in play to this one, each of which uses the next. It is nil if those in
	// play do not use this file, but it uses them, or was mentioned.
	Why []string
	// Text is the line that names the file, and what is shown of it.
	Text string
	// Tokens is the size of Text.
	Tokens int64
}

// Text returns the text of all items.
func (c *Context) Text() string {
	var out strings.Builder
	for _, i := range c.Items {
		out.WriteString(i.Text)
	}
	return out.String()
}

// A context considers a file for each candidateTokens of its budget, within bounds: fewer tokens do not show
// much of a file.
const (
	candidateTokens = 50
	minCandidates   = 32
	maxCandidates   = 400
	mentioned       = 0.05 // the weight of a mention, where a file in play has 1
	maxTokenBytes   = 8    // a token has hardly ever more: what is larger need not be counted
)

// Context chooses what to show of the files that the files in play use, within a budget. The files are ranked
// by how often those in play use them, directly or through others. Each is shown at the level of detail
// that gives most for its tokens, and one that has no room does not keep out a smaller one. The same focus on the same
// files gives the same bytes. Files that have changed since the snapshot are left out. The
// error is that of ctx.
func (g *Graph) Context(ctx context.Context, s *Snapshot, focus Focus) (*Context, error) {
	c := chooser{g: g, s: s, Focus: focus, inPlay: map[int]bool{}, names: map[string]bool{}}
	if c.Tokens == nil {
		c.Tokens = tokens.Estimate
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	if err := c.consider(ctx); err != nil {
		return nil, err
	}
	c.choose()
	return c.context(), nil
}

// A chooser makes one context.
type chooser struct {
	g *Graph
	s *Snapshot
	Focus

	inPlay map[int]bool    // files
	names  map[string]bool // identifiers in the files in play, and mentions
	rank   []float64
	offers []*offer
	left   int64 // of the budget
}

// An offer is a file at the levels that are worth their tokens.
type offer struct {
	file    int
	value   float64
	choices []choice // ascending, of less and less value for a token
	chosen  int      // the number of choices taken; the last of them counts
}

type choice struct {
	level  Level
	text   string
	tokens int64
	value  float64
}

// The part of the value of a file that a level gives. Of a file that is used, most uses need no more than a
// signature.
var levelValue = [...]float64{Names: 0.1, Signatures: 0.75, Skeleton: 0.85, Bodies: 0.97, Whole: 1}

// begin finds the files in play and their identifiers, and ranks all files.
func (c *chooser) begin(ctx context.Context) error {
	c.left = c.Budget
	from := map[int]float64{}
	for _, p := range c.Files {
		if i, ok := c.s.at(p); ok && c.s.files[i].facts != nil {
			c.inPlay[i], from[i] = true, 1
		}
	}
	for _, m := range c.Mentions {
		c.names[m] = true
		if i, ok := c.s.at(m); ok && c.s.files[i].facts != nil {
			from[i] = max(from[i], mentioned)
		}
	}
	for _, files := range c.s.declaring(c.names) { // a name that many files declare says little of each
		for _, i := range files {
			from[i] = max(from[i], mentioned/float64(len(files)))
		}
	}
	c.rank = c.s.rank(from)
	for _, i := range slices.Sorted(maps.Keys(c.inPlay)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f := c.s.files[i]
		src, ok := c.g.current(f)
		if !ok {
			continue
		}
		for t := range source.Tokens(f.facts.Language, src) {
			if t.Kind == source.Identifier {
				c.names[string(src[t.Start:t.End])] = true
			}
		}
	}
	return nil
}

// declaring returns the files that declare each of some names at their top.
func (s *Snapshot) declaring(names map[string]bool) map[string][]int {
	found := map[string][]int{}
	for i, f := range s.files {
		if f.facts == nil || len(names) == 0 {
			continue
		}
		for _, d := range f.facts.Decls {
			if files := found[d.Name]; d.Parent < 0 && names[d.Name] && (len(files) == 0 || files[len(files)-1] != i) {
				found[d.Name] = append(files, i)
			}
		}
	}
	return found
}

// current returns the content of a file, if it is still the one of the snapshot.
func (g *Graph) current(f *file) ([]byte, bool) {
	src := readAll(g.files, f.path, g.maxSize)
	return src, sha256.Sum256(src) == f.hash
}

// consider makes the offers.
func (c *chooser) consider(ctx context.Context) error {
	var files []int
	for i, f := range c.s.files {
		if f.facts == nil || c.skip != nil && c.skip(f) {
			continue
		}
		if c.rank[i] > 0 && !c.inPlay[i] || c.inPlay[i] && !c.Known {
			files = append(files, i)
		}
	}
	order.By(files, func(a, b *int) int { return cmp.Compare(c.rank[*b], c.rank[*a]) })
	limit := int(min(max(c.Budget/candidateTokens, minCandidates), maxCandidates))
	for _, i := range files[:min(len(files), limit)] {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if src, ok := c.g.current(c.s.files[i]); ok {
			c.offers = append(c.offers, c.offer(i, src))
		}
	}
	return nil
}

// offer renders a file at each level, and keeps the levels that are on the convex hull of value over tokens.
func (c *chooser) offer(i int, src []byte) *offer {
	f := c.s.files[i]
	o := &offer{file: i, value: c.rank[i]}
	used := make([]bool, len(f.facts.Decls))
	some := false
	for k, d := range f.facts.Decls {
		if c.names[d.Name] {
			some = true
			for j := int32(k); j >= 0; j = f.facts.Decls[j].Parent {
				used[j] = true
			}
		}
	}
	for level := Names; level <= Whole; level++ {
		if (level == Signatures || level == Bodies) && !some {
			continue
		}
		text := c.header(i, level) + render(f.facts, src, level, used)
		if !strings.HasSuffix(text, "\n") {
			text += "\n" // the next file begins with a separate line
		}
		if int64(len(text))/maxTokenBytes > c.Budget {
			break
		}
		next := choice{level, text, c.Tokens(text), levelValue[level] * o.value}
		for n := len(o.choices); n > 0 && o.choices[n-1].worse(o.before(n-1), next); n-- {
			o.choices = o.choices[:n-1]
		}
		o.choices = append(o.choices, next)
	}
	return o
}

// before returns the choice before the n-th, or nothing.
func (o *offer) before(n int) choice {
	if n == 0 {
		return choice{}
	}
	return o.choices[n-1]
}

// worse reports whether c is not worth its tokens between a smaller choice and a larger one.
func (c choice) worse(smaller, larger choice) bool {
	return larger.tokens <= c.tokens || larger.gain(smaller) >= c.gain(smaller)
}

// gain returns the value for a token of going from a smaller choice to c.
func (c choice) gain(smaller choice) float64 {
	return (c.value - smaller.value) / float64(max(c.tokens-smaller.tokens, 1))
}

// choose takes the steps that give most for their tokens, as long as there is room. The files in play come
// first.
func (c *chooser) choose() {
	for _, o := range c.offers {
		if !c.inPlay[o.file] {
			continue
		}
		for n := len(o.choices); n > 0; n-- { // the largest that has room
			if t := o.choices[n-1].tokens; t <= c.left {
				o.chosen, c.left = n, c.left-t
				break
			}
		}
	}
	type step struct {
		offer *offer
		n     int // of choices after it
	}
	var steps []step
	for _, o := range c.offers {
		for n := range o.choices {
			if !c.inPlay[o.file] {
				steps = append(steps, step{o, n + 1})
			}
		}
	}
	order.By(steps, func(a, b *step) int {
		return cmp.Compare(b.offer.choices[b.n-1].gain(b.offer.before(b.n-1)), a.offer.choices[a.n-1].gain(a.offer.before(a.n-1)))
	})
	for _, s := range steps {
		more := s.offer.choices[s.n-1].tokens
		if s.offer.chosen > 0 {
			more -= s.offer.choices[s.offer.chosen-1].tokens
		}
		if more <= c.left {
			s.offer.chosen, c.left = s.n, c.left-more
		}
	}
}

// context puts what was chosen in order.
func (c *chooser) context() *Context {
	out := &Context{Tokens: c.Budget - c.left}
	l := c.s.links()
	places := make([]int, len(l.parts)) // of components
	for at, p := range l.order {
		places[p] = at
	}
	place := func(o *offer) int {
		at := places[l.part[o.file]]
		if c.inPlay[o.file] {
			at += len(places)
		}
		return at
	}
	order.By(c.offers, func(a, b **offer) int { // within a cycle, the higher rank first
		return cmp.Compare(place(*a), place(*b))
	})
	before := c.s.reach(c.Files, -1)
	for _, o := range c.offers {
		p := c.s.files[o.file].path
		if o.chosen == 0 {
			out.Left = append(out.Left, p)
			continue
		}
		ch := o.choices[o.chosen-1]
		out.Items = append(out.Items, Item{p, ch.level, c.s.chain(before, o.file), ch.text, ch.tokens})
	}
	order.By(out.Left, func(a, b *string) int {
		i, _ := c.s.at(*a)
		j, _ := c.s.at(*b)
		return cmp.Compare(c.rank[j], c.rank[i])
	})
	return out
}

const maxImports = 8 // in the line that names a file

// header returns the line that names a file.
func (c *chooser) header(i int, level Level) string {
	f := c.s.files[i]
	var imports []string
	for _, e := range f.imports {
		imports = append(imports, runes.Path(path.Clean(e.To)))
	}
	line := fmt.Sprintf("== %s (%s)", runes.Path(f.path), level)
	if len(imports) > 0 {
		line += " imports " + listed(slices.Compact(imports), maxImports)
	}
	return line + "\n"
}
