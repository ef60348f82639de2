package paint

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/aycoder/aycoder/internal/cli/tty"
)

// run reads a run of emphasis characters. Whether it can open or close an emphasis depends on
// the characters beside it (section "Emphasis and strong emphasis").
func (in *inline) run(b []byte, last bool) int {
	n, known := runLength(b, last)
	if !known || n < len(b) && !last && !utf8.FullRune(b[n:]) {
		return 0
	}
	if n == maxRun {
		return in.plain(b[:n])
	}
	next := rune('\n')
	if n < len(b) {
		next, _ = utf8.DecodeRune(b[n:])
	}
	left := !unicode.IsSpace(next) && (!punct(next) || unicode.IsSpace(in.prev) || punct(in.prev))
	right := !unicode.IsSpace(in.prev) && (!punct(in.prev) || unicode.IsSpace(next) || punct(next))
	d := node{kind: runNode, text: b[:1], n: n, length: n, opens: left, closes: right}
	switch {
	case b[0] == '_':
		d.opens, d.closes = left && (!right || punct(in.prev)), right && (!left || punct(next))
	case spaced(in.prev) && spaced(next):
		d.opens = false
	}
	in.expire()
	in.add(d)
	if d.opens || d.closes {
		in.open = append(in.open, len(in.nodes)-1)
		if in.brackets == 0 {
			in.match(0, len(in.open)-1)
		}
	}
	return n
}

func punct(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }

// spaced reports whether r is a letter or digit of a script that has blanks between words.
func spaced(r rune) bool {
	if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return false
	}
	return tty.RuneWidth(r) < 2 && !unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func (in *inline) isBracket(i int) bool { return in.nodes[i].kind == bracketNode }

// match finds the openers of the runs from open[i] on, among those from open[bottom] on. Runs
// that can no longer match are removed from the open ones.
func (in *inline) match(bottom, i int) {
	for i < len(in.open) {
		c := &in.nodes[in.open[i]]
		j := in.opener(bottom, i)
		if j < 0 {
			if c.opens {
				i++
			} else {
				in.open = slices.Delete(in.open, i, i+1)
			}
			continue
		}
		o := &in.nodes[in.open[j]]
		use := 1
		if o.n > 1 && c.n > 1 {
			use = 2
		}
		o.n, c.n = o.n-use, c.n-use
		o.begin[use-1]++
		c.end[use-1]++
		from, to := j+1, i
		if o.n == 0 {
			from = j
		}
		if c.n == 0 {
			to = i + 1
		}
		in.open = slices.Delete(in.open, from, to)
		i = from
	}
}

// opener returns the place of the opener of open[i], or -1.
func (in *inline) opener(bottom, i int) int {
	c := &in.nodes[in.open[i]]
	if c.kind != runNode || !c.closes {
		return -1
	}
	for j := i - 1; j >= bottom; j-- {
		o := &in.nodes[in.open[j]]
		if o.kind != runNode || !o.opens || o.text[0] != c.text[0] {
			continue
		}
		// Rule 9: a run that can do both does not match if the sum is a multiple of 3.
		if (o.closes || c.opens) && (o.length+c.length)%3 == 0 && o.length%3 != 0 {
			continue
		}
		return j
	}
	return -1
}

// openBracket begins a link, or with an exclamation mark an image.
func (in *inline) openBracket(b []byte) int {
	in.expire()
	in.add(node{kind: bracketNode, text: b, image: len(b) == 2})
	in.open = append(in.open, len(in.nodes)-1)
	in.brackets++
	return len(b)
}

// closeBracket ends a link, if an address follows.
func (in *inline) closeBracket(b []byte, last bool) int {
	in.expire()
	if in.brackets == 0 {
		return in.plain(b[:1])
	}
	k := len(in.open) - 1
	for !in.isBracket(in.open[k]) {
		k--
	}
	address, n, known := destination(b[1:], last)
	if !known {
		return 0
	}
	if n == 0 {
		in.open = slices.Delete(in.open, k, k+1)
		in.brackets--
		in.plain(b[:1])
		in.resume(k)
		return 1
	}
	in.link(k, address)
	return 1 + n
}

// plain adds text, and returns its length.
func (in *inline) plain(b []byte) int {
	in.add(node{text: b})
	return len(b)
}

// link makes a link of the nodes from open[k] on. Brackets before it cannot be links, which do
// not nest.
func (in *inline) link(k int, address []byte) {
	bracket := in.open[k]
	in.match(k+1, k+1)
	in.open = in.open[:k]
	o := &in.nodes[bracket]
	o.kind, o.text = textNode, nil
	o.begin[2]++
	in.nodes = append(in.nodes, node{at: in.at, end: [3]int{0, 0, 1}})
	if label := in.label(bracket); len(address) > 0 && !bytes.Equal(label, address) && "mailto:"+string(label) != string(address) {
		sep := " "
		if len(label) == 0 {
			sep = ""
		}
		in.nodes = append(in.nodes, node{at: in.at, text: []byte(sep)}, node{at: in.at, text: slices.Concat([]byte{'('}, address, []byte{')'}), look: comment})
	}
	outer := slices.IndexFunc(in.open, in.isBracket)
	if !o.image {
		in.open = slices.DeleteFunc(in.open, func(i int) bool {
			return in.nodes[i].kind == bracketNode && !in.nodes[i].image
		})
	}
	in.brackets = 0
	for _, i := range in.open {
		if in.isBracket(i) {
			in.brackets++
		}
	}
	if outer < 0 {
		outer = k
	}
	in.resume(outer)
}

func (in *inline) label(from int) (text []byte) {
	for i := from; i < len(in.nodes); i++ {
		text = append(text, in.nodes[i].text...)
	}
	return text
}

// resume matches the runs from open[i] on, which waited for a bracket.
func (in *inline) resume(i int) {
	if in.brackets == 0 {
		in.match(0, i)
	}
}

// expire makes text of markers that have been open for too long.
func (in *inline) expire() {
	for len(in.open) > 0 && in.at-in.nodes[in.open[0]].at > maxHold {
		bracket := in.isBracket(in.open[0])
		in.open = in.open[1:]
		if bracket {
			in.brackets--
			in.resume(0)
		}
	}
}
