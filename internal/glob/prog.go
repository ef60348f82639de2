package glob

import "unicode/utf8"

// Op is what one step of a [Prog] takes from the text.
type Op uint8

// The steps.
const (
	OpByte  Op = iota // the symbol X
	OpAny             // one symbol that is not a slash
	OpAll             // one symbol
	OpClass           // one symbol that Class accepts
	OpSplit           // nothing; goes on at X and at Y
	OpDone            // the end of the text
)

// Inst is one step. A step that takes a symbol goes on at the next one.
type Inst struct {
	Op    Op
	X, Y  int32
	Class func(symbol int32) bool
}

// Prog is a pattern as a nondeterministic automaton. It is run on all its states
// at once, so that the time is at most the length of the program times that of the
// text, whatever the pattern. It is immutable and safe for concurrent use.
type Prog struct {
	Insts []Inst
	// Bytes makes a symbol a byte; else it is a rune, and a byte that is not valid
	// UTF-8 is a symbol of its own.
	Bytes bool
}

// Match reports whether the program accepts the whole text.
func (p *Prog) Match(text string) bool {
	m := machine{prog: p.Insts, mark: make([]int, len(p.Insts))}
	m.add(0)
	for len(text) > 0 && len(m.next) > 0 {
		c, n := p.symbol(text)
		text = text[n:]
		m.step(c)
	}
	for _, s := range m.next {
		if len(text) == 0 && p.Insts[s].Op == OpDone {
			return true
		}
	}
	return false
}

func (p *Prog) symbol(text string) (int32, int) {
	if p.Bytes {
		return int32(text[0]), 1
	}
	r, n := utf8.DecodeRuneInString(text)
	if r == utf8.RuneError && n == 1 {
		return badByte(text[0]), 1
	}
	return r, n
}

// badByte is the symbol of a byte that is not part of a rune.
func badByte(b byte) int32 { return utf8.MaxRune + 1 + int32(b) }

// machine runs a program. A state is in next at most once a round: mark holds the
// round it was added in.
type machine struct {
	prog       []Inst
	cur, next  []int32
	mark       []int
	round      int
	unfinished []int32
}

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
		if in := &m.prog[s]; in.Op == OpSplit {
			m.unfinished = append(m.unfinished, in.X, in.Y)
			continue
		}
		m.next = append(m.next, s)
	}
}

func (in *Inst) takes(c int32) bool {
	switch in.Op {
	case OpByte:
		return c == in.X
	case OpAny:
		return c != '/'
	case OpAll:
		return true
	case OpClass:
		return in.Class(c)
	default:
		return false
	}
}
