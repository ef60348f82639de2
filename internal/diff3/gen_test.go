package diff3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
)

// triple is an input of a merge.
type triple struct{ base, ours, theirs []byte }

// randomTriple makes a merge of the kinds that are hard: few different lines, so
// that there are many ways to match them, blocks that repeat, that move, missing
// ends of lines, mixed endings, bytes that are not text.
func randomTriple(rng *rand.Rand) triple {
	g := generator{Rand: rng, letters: []int{1, 2, 3, 6, 25, 200, 3000}[rng.IntN(7)]}
	g.crlf, g.blank = rng.IntN(6), rng.IntN(3)
	size := []int{3, 12, 12, 40, 40, 150}[rng.IntN(6)]
	if rng.IntN(200) == 0 {
		size = 1500
	}
	base := g.lines(rng.IntN(size + 1))
	edits := 1 + rng.IntN(1+len(base)/4)
	ours, theirs := base, base
	if rng.IntN(3) == 0 { // a change that both sides share
		shared := g.change(base, 1+rng.IntN(edits))
		ours, theirs = shared, shared
	}
	return triple{g.join(base), g.join(g.change(ours, rng.IntN(edits+1))), g.join(g.change(theirs, rng.IntN(edits+1)))}
}

type generator struct {
	*rand.Rand
	letters     int // how many different lines there are
	crlf, blank int
}

func (g *generator) line() string {
	n := g.IntN(g.letters)
	eol := "\n"
	switch {
	case g.crlf == 1 || g.crlf == 2 && g.IntN(2) == 0:
		eol = "\r\n"
	case g.crlf == 3 && g.IntN(20) == 0:
		return "\xff\xfe\r" + eol
	}
	switch {
	case g.blank == 1 && n%3 == 0:
		return []string{"", "\t}", "  ", "{", "=======", ">>>>>>> x"}[n/3%6] + eol
	case g.blank == 2 && n%2 == 0:
		return fmt.Sprintf("word%d = %d, other(%d)", n, n%7, n%3) + eol
	}
	return fmt.Sprint("v", n) + eol
}

func (g *generator) lines(n int) []string {
	out := make([]string, 0, n)
	for len(out) < n {
		if len(out) > 4 && g.IntN(6) == 0 { // a block again
			i := g.IntN(len(out) - 2)
			out = append(out, out[i:i+2+g.IntN(len(out)-i-1)]...)
			continue
		}
		out = append(out, g.line())
	}
	return out[:n]
}

// change edits a text in n places.
func (g *generator) change(lines []string, n int) []string {
	out := append([]string(nil), lines...)
	for range n {
		i := g.IntN(len(out) + 1)
		j := min(len(out), i+g.IntN(4))
		block := append([]string(nil), out[i:j]...)
		switch g.IntN(8) {
		case 0, 1:
			out = append(out[:i], out[j:]...)
		case 2, 3:
			out = splice(out, i, i, g.lines(1+g.IntN(3)))
		case 4, 5:
			out = splice(out, i, j, g.lines(j-i))
		case 6:
			out = append(out[:i], out[j:]...)
			k := g.IntN(len(out) + 1)
			out = splice(out, k, k, block)
		case 7:
			out = splice(out, j, j, block)
		}
	}
	return out
}

func splice(lines []string, i, j int, in []string) []string {
	tail := append([]string(nil), lines[j:]...)
	return append(append(lines[:i], in...), tail...)
}

func (g *generator) join(lines []string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l)
	}
	if g.IntN(4) == 0 {
		return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	return b.Bytes()
}

func unresolved(int) ([][]byte, bool) { return nil, false }

func render(r *Result, f Format, chosen Chosen) []byte {
	text, _ := r.Render(f, chosen)
	return text
}
