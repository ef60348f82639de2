package diff3

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkMerge checks what holds for every merge, so that no line can be lost.
func checkMerge(t testing.TB, what string, x triple, r *Result) {
	t.Helper()
	if err := mergeError(x, r); err != nil {
		require.FailNow(t, err.Error(), "%s\nbase %q\nours %q\ntheirs %q", what, x.base, x.ours, x.theirs)
	}
}

func mergeError(x triple, r *Result) error {
	if err := walkError(x, r); err != nil {
		return err
	}
	for i := range r.Regions {
		if err := kindError(r, i); err != nil {
			return fmt.Errorf("region %d: %w", i, err)
		}
	}
	f := Format{Ours: "o", Base: "b", Theirs: "t"}
	out := render(r, f, unresolved)
	if err := markersError(r, out); err != nil {
		return err
	}
	if err := addedError(x.base, x.ours, out); err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	if r.Binary {
		return nil
	}
	if err := addedError(x.base, x.theirs, out); err != nil {
		return fmt.Errorf("theirs: %w", err)
	}
	return baseError(x, r)
}

// baseError checks that choosing base in every conflict gives back the lines of base that it
// gives back in StyleDiff3, which does not take conflicts apart. The exception is a conflict
// of which nothing is left.
func baseError(x triple, r *Result) error {
	if r.style == StyleDiff3 {
		return nil
	}
	whole := mergeLines(x.base, x.ours, x.theirs, Options{Style: StyleDiff3})
	want := map[string]int{}
	for i := range whole.Regions {
		g := &whole.Regions[i]
		if g.Kind == Unchanged || g.Kind == Conflict && r.remains(g) {
			for line := range bytes.Lines(whole.Base.Slice(g.Base.Lo, g.Base.Hi)) {
				want[string(line)]++
			}
		}
	}
	for i := range r.Regions {
		g := &r.Regions[i]
		text := r.Text(g)
		if g.Kind == Conflict {
			text = r.Base.Slice(g.Base.Lo, g.Base.Hi)
		}
		for line := range bytes.Lines(text) {
			want[string(line)]--
		}
	}
	for line, n := range want {
		if n > 0 {
			return fmt.Errorf("%q of base is in no conflict", line)
		}
	}
	return nil
}

// remains reports whether r has a conflict where another merge of the same texts has g.
func (r *Result) remains(g *Region) bool {
	meet := func(a, b Span) bool { return a.Lo <= b.Hi && b.Lo <= a.Hi }
	return slices.ContainsFunc(r.Regions, func(c Region) bool {
		return c.Kind == Conflict && meet(c.Ours, g.Ours) && meet(c.Theirs, g.Theirs)
	})
}

// walkError checks that walking the regions and taking one side gives that side.
func walkError(x triple, r *Result) error {
	var base, ours, theirs []byte
	var at Region
	for i, g := range r.Regions {
		if g.Base.Lo != at.Base.Hi || g.Ours.Lo != at.Ours.Hi || g.Theirs.Lo != at.Theirs.Hi {
			return fmt.Errorf("region %d: gap", i)
		}
		base = append(base, r.Base.Slice(g.Base.Lo, g.Base.Hi)...)
		ours = append(ours, r.Ours.Slice(g.Ours.Lo, g.Ours.Hi)...)
		theirs = append(theirs, r.Theirs.Slice(g.Theirs.Lo, g.Theirs.Hi)...)
		at = g
	}
	if !bytes.Equal(base, x.base) || !bytes.Equal(ours, x.ours) || !bytes.Equal(theirs, x.theirs) {
		return fmt.Errorf("walking gives %q, %q, %q", base, ours, theirs)
	}
	return nil
}

// kindError checks that a region that is taken from one side may be.
func kindError(r *Result, i int) error {
	g := &r.Regions[i]
	base, ours, theirs := r.Sides(i)
	bo, bt, ot := bytes.Equal(base, ours), bytes.Equal(base, theirs), bytes.Equal(ours, theirs)
	ok := false
	switch g.Kind {
	case Unchanged:
		ok = bo && bt
	case Ours:
		ok = bt
	case Theirs:
		ok = bo
	case Both:
		ok = ot
	case Conflict:
		ok = len(base)+len(ours)+len(theirs) > 0
	}
	if !ok {
		return fmt.Errorf("%d of %q, %q, %q", g.Kind, base, ours, theirs)
	}
	s := g.Suggestion
	switch {
	case s == nil:
		return nil
	case g.Kind != Conflict:
		return errors.New("a suggestion, but no conflict")
	}
	return suggestionError(s, base, ours, theirs)
}

// suggested returns what is suggested for a conflict without any text around it.
func suggested(x triple) *Suggestion {
	t := newTable()
	r := &Result{Base: t.add(x.base), Ours: t.add(x.ours), Theirs: t.add(x.theirs)}
	g := Region{Kind: Conflict, Base: Span{0, r.Base.Len()}, Ours: Span{0, r.Ours.Len()},
		Theirs: Span{0, r.Theirs.Len()}}
	g.core = g.Base
	r.Regions = []Region{g}
	r.suggest()
	return r.Regions[0].Suggestion
}

// suggestionError checks that a suggestion is what it says: the text of one side, or a text that
// has all words that either side added, and no others.
func suggestionError(s *Suggestion, base, ours, theirs []byte) error {
	if s.Rule == "" || s.Confidence <= 0 || s.Confidence >= 1 {
		return fmt.Errorf("suggestion %v", *s)
	}
	switch s.From {
	case Ours, Theirs:
		side := ours
		if s.From == Theirs {
			side = theirs
		}
		if !bytes.Equal(s.Text, side) {
			return fmt.Errorf("%s: %q is not a side", s.Rule, s.Text)
		}
		return nil
	case Both:
	default:
		return fmt.Errorf("%s: from %d", s.Rule, s.From)
	}
	if s.Rule != RuleEndings { // its text has line endings that the other side does not have
		for _, side := range [][]byte{ours, theirs} {
			if err := lostError(s.Text, base, side); err != nil {
				return fmt.Errorf("%s: %w", s.Rule, err)
			}
		}
	}
	return inventedError(s.Text, base, ours, theirs)
}

// lostError checks that text has all words that a side added to base.
func lostError(text, base, side []byte) error {
	n := map[string]int{}
	for _, word := range wordsOf(side) {
		n[string(word)]++
	}
	for _, word := range wordsOf(base) {
		n[string(word)]--
	}
	for word, added := range n {
		if added > 0 && !slices.ContainsFunc(wordsOf(text), func(w []byte) bool { return string(w) == word }) {
			return fmt.Errorf("suggestion %q: %q is lost", text, word)
		}
	}
	return nil
}

// inventedError checks that a suggestion has no words that are in neither side.
func inventedError(text []byte, sides ...[]byte) error {
	known := map[string]bool{}
	for _, side := range sides {
		for _, word := range wordsOf(side) {
			known[string(word)] = true
		}
	}
	for _, word := range wordsOf(text) {
		if !known[string(word)] {
			return fmt.Errorf("suggestion %q: nobody wrote %q", text, word)
		}
	}
	return nil
}

func wordsOf(text []byte) [][]byte {
	return bytes.FieldsFunc(text, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) })
}

// markersError reads the conflicts back from the merged text.
func markersError(r *Result, out []byte) error {
	size := r.freeMarker()
	for i := range r.Regions {
		g := &r.Regions[i]
		base, ours, theirs := r.Sides(i)
		if g.Kind != Conflict || r.Binary {
			text := r.Text(g)
			if !bytes.HasPrefix(out, text) {
				return fmt.Errorf("region %d: %q is not in the merged text", i, text)
			}
			out = out[len(text):]
			continue
		}
		parts := []struct {
			marker string
			text   []byte
		}{
			{mark('<', size) + " o", ours}, {mark('|', size) + " b", base},
			{mark('=', size), theirs}, {mark('>', size) + " t", nil},
		}
		for _, p := range parts {
			if r.style == StyleMerge && p.marker[0] == '|' {
				continue
			}
			var line, got []byte
			line, out = cutLine(out)
			if strings.TrimRight(string(line), "\r\n") != p.marker || !bytes.HasSuffix(line, []byte{'\n'}) {
				return fmt.Errorf("region %d: %q in place of marker %q", i, line, p.marker)
			}
			for p.marker[0] != '>' && !isMarker(out, size) {
				line, out = cutLine(out)
				got = append(got, line...)
				if line == nil {
					return fmt.Errorf("region %d: no end", i)
				}
			}
			if !bytes.Equal(got, p.text) && !bytes.Equal(bytes.TrimRight(got, "\r\n"), bytes.TrimRight(p.text, "\r\n")) {
				return fmt.Errorf("region %d: %q after %q, want %q", i, got, p.marker, p.text)
			}
		}
	}
	if len(out) > 0 {
		return fmt.Errorf("%q after the last region", out)
	}
	return nil
}

func mark(c byte, n int) string { return strings.Repeat(string(rune(c)), n) }

func isMarker(text []byte, size int) bool {
	line, _ := cutLine(text)
	return markerRun(line) == size
}

func cutLine(text []byte) (line, rest []byte) {
	i := bytes.IndexByte(text, '\n') + 1
	if i == 0 {
		i = len(text)
	}
	return text[:i:i], text[i:]
}

// addedError looks from outside, as somebody would who knows nothing of regions: a
// line that a side has and base has not is in the merged text as often.
func addedError(base, side, out []byte) error {
	in := map[string]int{}
	for line := range bytes.Lines(side) {
		in[trimEnd(line)]++
	}
	for line := range bytes.Lines(base) {
		delete(in, trimEnd(line))
	}
	for line := range bytes.Lines(out) {
		in[trimEnd(line)]--
	}
	for line, n := range in {
		if n > 0 {
			return fmt.Errorf("%q is lost", line)
		}
	}
	return nil
}

func trimEnd(line []byte) string { return strings.TrimRight(string(line), "\r\n") }
