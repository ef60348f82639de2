package glob

import (
	"math/bits"
	"unicode/utf8"
)

// op is what one step of a [prog] takes from the text.
type op uint8

// The steps.
const (
	opSymbol op = iota // the symbol x
	opAny              // one symbol that is not a slash
	opAll              // one symbol
	opClass            // one symbol that class accepts
	opSplit            // nothing; goes on at x and at y
	opDone             // the end of the text
)

// inst is one step. A step that takes a symbol goes on at the next one.
type inst struct {
	op    op
	x, y  int32
	class func(symbol int32) bool
}

// prog is a pattern as a nondeterministic automaton. It is run on all its states
// at once, so that the time is at most the length of the program times that of the
// text, whatever the pattern. It is immutable and safe for concurrent use.
type prog struct {
	insts []inst
	// reached is, for each state of a small program, the set of those it reaches
	// without a symbol and that take one or are the end.
	reached []uint64
}

// newProg returns the program of some steps. The sets of a small program are found once, so
// that matching only joins them.
func newProg(insts []inst) prog {
	p := prog{insts: insts}
	if len(insts) <= 64 {
		p.reached = make([]uint64, len(insts))
		for s := range insts {
			m := machine{prog: insts, mark: make([]int, len(insts))}
			m.add(int32(s))
			for _, t := range m.next {
				p.reached[s] |= 1 << t
			}
		}
	}
	return p
}

// match reports whether the program accepts the whole text.
func (p *prog) match(text string) bool {
	if p.reached != nil {
		return p.matchSmall(text)
	}
	m := machine{prog: p.insts, mark: make([]int, len(p.insts))}
	m.add(0)
	for len(text) > 0 && len(m.next) > 0 {
		c, n := symbol(text)
		text = text[n:]
		m.step(c)
	}
	for _, s := range m.next {
		if len(text) == 0 && p.insts[s].op == opDone {
			return true
		}
	}
	return false
}

// matchSmall does the same with the states as a set of bits. Most patterns of people are
// that small, and are matched against every path of a tree.
func (p *prog) matchSmall(text string) bool {
	states := p.reached[0]
	for len(text) > 0 && states != 0 {
		c, n := symbol(text)
		text = text[n:]
		next := uint64(0)
		for ; states != 0; states &= states - 1 {
			s := bits.TrailingZeros64(states)
			if p.insts[s].takes(c) {
				next |= p.reached[s+1]
			}
		}
		states = next
	}
	done := len(p.insts) - 1
	return states>>done&1 != 0 && len(text) == 0
}

// symbol returns the rune that a text begins with, and its length. A byte that is not
// valid UTF-8 is a separate symbol.
func symbol(text string) (int32, int) {
	if c := text[0]; c < utf8.RuneSelf {
		return int32(c), 1
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && n == 1 {
		return utf8.MaxRune + 1 + int32(text[0]), 1
	}
	return r, n
}

// machine runs a program. A state is in next at most once a round: mark holds the
// round it was added in.
type machine struct {
	prog       []inst
	cur, next  []int32
	mark       []int
	round      int
	unfinished []int32
}

// step goes on from all states with a symbol.
func (m *machine) step(c int32) {
	m.cur, m.next = m.next, m.cur[:0]
	m.round++
	for _, s := range m.cur {
		if in := &m.prog[s]; in.takes(c) {
			m.add(s + 1)
		}
	}
}

// add adds a state and those it reaches without a symbol.
func (m *machine) add(s int32) {
	m.unfinished = append(m.unfinished[:0], s)
	for len(m.unfinished) > 0 {
		s := m.unfinished[len(m.unfinished)-1]
		m.unfinished = m.unfinished[:len(m.unfinished)-1]
		if m.mark[s] == m.round+1 {
			continue
		}
		m.mark[s] = m.round + 1
		if in := &m.prog[s]; in.op == opSplit {
			m.unfinished = append(m.unfinished, in.x, in.y)
			continue
		}
		m.next = append(m.next, s)
	}
}

// takes reports whether a step takes a symbol.
func (in *inst) takes(c int32) bool {
	switch in.op {
	case opSymbol:
		return c == in.x
	case opAny:
		return c != '/'
	case opAll:
		return true
	case opClass:
		return in.class(c)
	default:
		return false
	}
}
