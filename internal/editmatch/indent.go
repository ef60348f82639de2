package editmatch

import (
	"bytes"
	"slices"
	"strings"
)

// indenter turns the indentation of the edit into that of the text. Models often write a
// block with the indentation that it has on its own, or with spaces for tabs. The matched
// lines show what was done; the new lines are then indented in the same way, or not at all
// if that does not tell.
type indenter struct {
	known   map[string]string // from the matched lines: edit → text
	rules   []rule
	style   style // of the text
	trimmed bool  // the old string begins after the indentation of its first line
}

// style is what the lines of a text are indented with.
type style struct {
	tabs, spaces bool
	unit         int // that divides all indentations of spaces only
}

// style returns the style of the text. It is found once for all edits, and only if one
// needs it.
func (s *source) style() style {
	if s.indents != nil {
		return *s.indents
	}
	var y style
	s.indents = &y
	for i := range s.starts {
		line := s.line(i)
		indent := line[:len(line)-len(bytes.TrimLeft(line, blanks))]
		if len(indent) == len(line) {
			continue
		}
		tabs, spaces := bytes.Count(indent, []byte{'\t'}), bytes.Count(indent, []byte{' '})
		y.tabs, y.spaces = y.tabs || tabs > 0, y.spaces || spaces > 0
		if tabs == 0 {
			y.unit = gcd(y.unit, spaces)
		}
	}
	return y
}

// gcd returns the greatest common divisor, and the other number if one of them is 0.
func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// has reports whether an indentation is of this style. A text without any may get
// any.
func (y style) has(indent string) bool {
	tabs, spaces := strings.Count(indent, "\t"), strings.Count(indent, " ")
	switch {
	case !y.tabs && !y.spaces:
		return true
	case tabs > 0 && !y.tabs, spaces > 0 && !y.spaces:
		return false
	}
	return tabs > 0 || y.unit == 0 || spaces%y.unit == 0
}

// units are how many spaces may stand for a tab.
var units = [...]int{2, 3, 4, 8}

// fitIndent finds how the indentation of the old lines became that of the text. All
// of them have to agree.
func (h *hit) fitIndent() *Error {
	if in, ok := h.fit(0); ok && len(in.rules) > 0 {
		h.indent = in
		return nil
	}
	// A model often drops the indentation of the first line only.
	if h.old[0] != "" && indentOf(h.old[0]) == "" && indentOf(h.text(0)) != "" {
		if in, ok := h.fit(1); ok && len(in.rules) > 0 {
			in.trimmed, h.indent = true, in
			return nil
		}
	}
	in, ok := h.fit(0)
	if !ok {
		return &Error{Kind: Unclear, Lines: []int{h.line + 1}, Near: h.src.excerpt(h.line, len(h.old))}
	}
	h.indent = in
	return nil
}

// fit compares the indentation of the lines from one on. Two lines with one indentation in
// the edit and two in the text show that the edit has lost some: then nothing is guessed.
func (h *hit) fit(first int) (*indenter, bool) {
	in := &indenter{known: map[string]string{}, style: h.src.style()}
	for i := first; i < len(h.old); i++ {
		if isBlank(h.old[i]) {
			continue
		}
		from, to := indentOf(h.old[i]), indentOf(h.text(i))
		if was, ok := in.known[from]; ok && was != to {
			return nil, false
		}
		in.known[from] = to
	}
	in.rules = in.find()
	return in, true
}

// rule turns an indentation of the edit into one of the text, if it can.
type rule func(string) (string, bool)

// find returns the rules that explain the known pairs: a shift of the block, or else tabs
// for spaces or spaces for tabs, or else these within a shifted block. An explanation with
// fewer parts goes first; several of one kind are kept, and of then asks all of them.
func (in *indenter) find() []rule {
	from, to := in.shallowest()
	if head, ok := strings.CutSuffix(to, from); ok {
		if add := rule(func(s string) (string, bool) { return head + s, true }); in.proves(add) {
			return []rule{add}
		}
	}
	if head, ok := strings.CutSuffix(from, to); ok {
		if take := rule(func(s string) (string, bool) { return strings.CutPrefix(s, head) }); in.proves(take) {
			return []rule{take}
		}
	}
	var plain, shifted []rule
	for _, n := range units {
		for _, convert := range [...]conversion{in.tabbed, in.spaced} {
			head, r := in.converted(convert, n)
			switch {
			case r == nil || !in.proves(r):
			case head == "":
				plain = append(plain, r)
			case in.steps(convert, n): // else the shift and the unit could be others
				shifted = append(shifted, r)
			}
		}
	}
	if len(plain) > 0 {
		return plain
	}
	return shifted
}

// conversion is tabbed or spaced. It returns the other form of an indentation, and
// how many units it has.
type conversion func(indent string, n int) (to string, count int, ok bool)

// converted returns the rule that converts and puts the same in front each time.
func (in *indenter) converted(convert conversion, n int) (head string, r rule) {
	from, to := in.shallowest()
	form, _, ok := convert(from, n)
	head, is := strings.CutSuffix(to, form)
	if !ok || !is {
		return "", nil
	}
	return head, func(s string) (string, bool) {
		form, _, ok := convert(s, n)
		return head + form, ok
	}
}

// steps reports whether the known pairs differ in units. A single step does not tell
// whether it is two spaces for a tab or four.
func (in *indenter) steps(convert conversion, n int) bool {
	counts := map[int]bool{}
	for from := range in.known {
		_, count, _ := convert(from, n)
		counts[count] = true
	}
	return len(counts) > 1
}

// shallowest returns the known pair with the shortest indentation in the edit. Among equals
// the order of the texts decides, so that the result does not depend on that of the map.
func (in *indenter) shallowest() (from, to string) {
	first := true
	for f, t := range in.known {
		if first || len(f) < len(from) || len(f) == len(from) && f < from {
			from, to, first = f, t, false
		}
	}
	return from, to
}

// proves reports whether all known pairs follow a rule.
func (in *indenter) proves(r rule) bool {
	for from, to := range in.known {
		if got, ok := r(from); !ok || got != to {
			return false
		}
	}
	return true
}

// of returns what the text has for an indentation of the edit, unless the rules
// disagree, or there are none, or they give one that is not like the others in it.
func (in *indenter) of(indent string) (string, bool) {
	if known, ok := in.known[indent]; ok {
		return known, true
	}
	got := make([]string, 0, len(in.rules))
	for _, r := range in.rules {
		to, ok := r(indent)
		if !ok || !in.style.has(to) {
			return "", false
		}
		got = append(got, to)
	}
	if got = slices.Compact(got); len(got) != 1 {
		return "", false
	}
	return got[0], true
}

// tabbed puts a tab for every so many spaces. Spaces that are left over align with
// something, as the star in a comment does: more than one has to be known.
func (in *indenter) tabbed(indent string, n int) (to string, count int, ok bool) {
	tabs, rest := strings.Count(indent, "\t"), len(strings.ReplaceAll(indent, "\t", ""))
	ok = rest%n <= 1
	for known := range in.known {
		ok = ok || len(strings.ReplaceAll(known, "\t", ""))%n == rest%n
	}
	return strings.Repeat("\t", tabs+rest/n) + strings.Repeat(" ", rest%n), rest / n, ok
}

// spaced puts so many spaces for every tab.
func (in *indenter) spaced(indent string, n int) (to string, count int, ok bool) {
	return strings.ReplaceAll(indent, "\t", strings.Repeat(" ", n)), strings.Count(indent, "\t"), true
}
