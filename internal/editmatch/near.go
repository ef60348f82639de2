package editmatch

import (
	"bytes"
	"slices"
	"strings"
)

const (
	nearOld    = 200     // lines of an old string that are compared
	nearText   = 500_000 // lines of the text that are
	nearShown  = 15      // lines of a place that are shown
	nearWidth  = 120     // bytes of a line that are shown or compared
	nearPlaces = 3       // places that are shown
)

// notFound says what is like an old string that is not in the text, and why it may not have
// been found. The lines are compared in the form of the last tier, which leaves most out of
// account: what is like the old string should be found by its words.
func (s *source) notFound(old string) *Error {
	want := lines(old)
	if len(want) > 1 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	n := &nearest{src: s, layer: s.layer(tiers[len(tiers)-1]), length: len(want), count: min(len(s.starts), nearText)}
	if bare := cutNumbers(slices.Clone(want)); bare.numbered() {
		want = bare.lines
	}
	for _, l := range want[:min(len(want), nearOld)] {
		n.want = append(n.want, string(tiers[len(tiers)-1].key(nil, []byte(strings.TrimSuffix(l, "\r")))))
	}
	e := &Error{Kind: NotFound, Hint: hint(old)}
	if s.end(len(s.starts)-1) == s.bom {
		e.Hint = " The file is empty: leave old_string empty to write to it."
		return e
	}
	for _, p := range n.find() {
		e.Near = append(e.Near, n.show(p))
	}
	return e
}

// hint names a mistake that the old string seems to have. A hint is a guess, and is worded
// as one.
func hint(old string) string {
	if cutNumbers(lines(old)).numbered() {
		return " It seems to have line numbers in it, which are not part of the file."
	}
	if e := splitElided(lines(old)); len(e.marks) > 0 {
		return " It seems to leave out lines, as \"...\"; write all lines, or edit the parts one by one."
	}
	if strings.Contains(old, `\n`) || strings.Contains(old, `\"`) {
		return ` It has \n or \" as a backslash and a character; send a line break or a quote if that is meant.`
	}
	return ""
}

// nearest finds places by the lines that are in both texts.
type nearest struct {
	src    *source
	layer  *layer
	want   []string // keys of the old lines
	length int      // how many old lines there are
	count  int      // lines of the text that are looked at
}

func (n *nearest) line(i int) []byte {
	from := int(n.layer.starts[i])
	end := len(n.layer.text)
	if i+1 < len(n.layer.starts) {
		end = int(n.layer.starts[i+1]) - 1
	}
	return n.layer.text[from:end]
}

// block is a range of lines.
type block struct{ from, to int }

// find returns the places where the old string would be. Places that overlap are joined, as
// they are one place with lines added or removed.
func (n *nearest) find() []block {
	starts := n.vote()
	if len(starts) == 0 {
		starts = n.similar()
	}
	var out []block
	for _, at := range starts {
		b := block{at, min(at+n.length, len(n.src.starts))}
		if last := len(out) - 1; last >= 0 && b.from < out[last].to {
			out[last].to = b.to // the same place, with lines more or fewer in it
		} else if len(out) < nearPlaces {
			out = append(out, b)
		}
	}
	return out
}

// vote returns where the old string would begin for most of its lines to be where they are
// in it. A line that is a bracket says nothing. It takes one step for each line of the
// text, whatever the old string is, and counts at most five places of a line that the old
// string repeats.
func (n *nearest) vote() []int {
	at := map[string][]int{}
	for i, w := range n.want {
		if len(w) > 2 && len(at[w]) < 5 {
			at[w] = append(at[w], i)
		}
	}
	votes := make([]int32, n.count+len(n.want)) // by where it begins, plus len(want)
	most := int32(0)
	for i := range n.count {
		for _, k := range at[string(n.line(i))] {
			start := i - k + len(n.want)
			votes[start]++
			most = max(most, votes[start])
		}
	}
	var best []int
	for i := range votes {
		if most > 0 && votes[i] == most && len(best) < nearOld {
			best = append(best, max(0, i-len(n.want)))
		}
	}
	return best
}

// similar aligns the longest old line with the line that shares the most pairs of bytes
// with it. It is tried only if no line is the same. Pairs of bytes tell lines apart well
// enough, and take one pass over the text.
func (n *nearest) similar() []int {
	key := 0
	for i, w := range n.want {
		if len(w) > len(n.want[key]) {
			key = i
		}
	}
	var in [1 << 16]bool
	longest := cut(n.want[key])
	for i := 1; i < len(longest); i++ {
		in[pairOf(longest[i-1], longest[i])] = true
	}
	best, score := -1, 0.5
	for i := range n.count {
		line := n.line(i)
		line = line[:min(len(line), nearWidth)]
		same := 0
		for j := 1; j < len(line); j++ {
			if in[pairOf(line[j-1], line[j])] {
				same++
			}
		}
		if s := 2 * float64(same) / float64(max(1, len(line)+len(longest)-2)); s > score {
			best, score = i, s
		}
	}
	if best < 0 {
		return nil
	}
	return []int{max(0, best-key)}
}

// pairOf numbers a pair of bytes.
func pairOf(a, b byte) int { return int(a)<<8 | int(b) }

// show returns the lines of a place, and the first that is not as wanted.
func (n *nearest) show(p block) Near {
	near := n.src.excerpt(p.from, p.to-p.from)[0]
	for i, w := range n.want {
		if at := p.from + i; at >= len(n.src.starts) || !bytes.Equal(n.line(at), []byte(w)) {
			near.Differs, near.Wants = at+1, cut(w)
			break
		}
	}
	return near
}

// excerpt returns lines of the text, shortened.
func (s *source) excerpt(first, count int) []Near {
	near := Near{FirstLine: first + 1}
	for i := first; i < min(first+min(count, nearShown), len(s.starts)); i++ {
		line := s.line(i)
		near.Lines = append(near.Lines, cut(string(line[:min(len(line), nearWidth+4)])))
	}
	return []Near{near}
}
