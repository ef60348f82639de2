package search

import (
	"context"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

const (
	maxStates = 1024    // of an automaton, with half a kilobyte each
	maxInsts  = 1 << 19 // in all of them
	maxResets = 8       // number of resets after which an expression has too many states
)

// machine finds the lines that match an expression, in text that is ASCII, and many times faster
// than package regexp. It is a deterministic automaton. Each of its states is a set of
// instructions of the expression, so that one step for a byte replaces a step for each
// instruction. It reads line after line without stopping, since a line break leads from any state
// to the first one.
//
// The number of states can be exponential in the size of the expression. They are therefore made
// when they are first needed, and all are discarded when there are too many, as in the lazy DFA
// of RE2.
//
// A line with other characters is left to package regexp, which also defines what bytes that are
// not UTF-8 match. A machine must be used by one goroutine only.
type machine struct {
	m     *Matcher
	kinds [256]uint8 // the kind of each byte, for conditions at the place after it

	states []state
	ids    map[string]uint16
	next   []uint16 // of each state and byte
	insts  int      // in all states
	resets int
	failed bool

	set   []uint16 // scratch: instructions of the next state
	stack []uint16
	seen  []uint32 // round in which an instruction was reached last
	taken []uint32 // round in which it came into the set
	round uint32
	work  int // steps since the last look at the context
}

// The kind of byte before a state.
const (
	lineStart = iota // there is none
	otherByte
	wordByteKind
)

// state is a set of instructions to continue with, and the kind of the byte before.
type state struct {
	insts []uint16
	kind  uint8
	cr    uint16 // the next state after a carriage return that does not end the line
}

// Where a state and a byte may lead, beside to other states.
const (
	unknown    = iota // not looked at yet
	matched           // the line matches
	odd               // it is not ASCII
	carriage          // the byte is a carriage return, so the next byte decides
	firstState        // the one at the start of a line
)

// newMachine returns the automaton of an expression. It distinguishes kinds of bytes only if the
// expression has word boundaries. Otherwise every state would exist twice.
func newMachine(m *Matcher) *machine {
	d := &machine{m: m, ids: map[string]uint16{}, seen: make([]uint32, len(m.prog.Inst)),
		taken: make([]uint32, len(m.prog.Inst))}
	for b := range d.kinds {
		d.kinds[b] = otherByte
		if m.looks && wordByte(byte(b)) {
			d.kinds[b] = wordByteKind
		}
	}
	d.reset()
	return d
}

// reset discards all states but the first.
func (d *machine) reset() {
	clear(d.ids)
	d.states = append(d.states[:0], make([]state, firstState)...)
	d.next = append(d.next[:0], make([]uint16, firstState<<8)...)
	d.insts = 0
	d.add(nil, lineStart)
}

// add returns the state for a set of instructions, or unknown if there are too many states. The
// instructions are sorted, so that each set has one state, however it was reached.
func (d *machine) add(insts []uint16, kind uint8) uint16 {
	slices.Sort(insts)
	key := []byte{kind}
	for _, pc := range insts {
		key = binary.LittleEndian.AppendUint16(key, pc)
	}
	if id, ok := d.ids[string(key)]; ok {
		return id
	}
	if d.insts += len(insts); len(d.states) == maxStates || d.insts > maxInsts {
		return unknown
	}
	id := uint16(len(d.states))
	d.ids[string(key)] = id
	d.states = append(d.states, state{insts: slices.Clone(insts), kind: kind})
	row := make([]uint16, 256)
	row['\r'] = carriage
	for b := utf8.RuneSelf; b < 256; b++ {
		row[b] = odd
	}
	d.next = append(d.next, row...)
	return id
}

// find searches the lines of a text from pos, which must be the start of a line. The result is
// one of: matched, with a place in the first line that matches; odd, with a place in a line that
// package regexp has to decide; or unknown, if there is neither or if ctx has ended.
//
// A carriage return before a line break does not belong to the line, and the anchors of the
// expression ignore it. So a carriage return can be handled only when the byte after it is known.
func (d *machine) find(ctx context.Context, text []byte, pos int) (at int, what uint16) {
	s, i := uint16(firstState), pos
	for !d.failed {
		s, i = d.run(text, s, i)
		if i == len(text) && i > pos && text[i-1] == '\n' {
			return i, unknown
		}
		ends := i == len(text) || text[i] == '\r' && (i+1 == len(text) || text[i+1] == '\n')
		var to uint16
		switch {
		case ends:
			to = d.on(s, '\n')
			i = min(i+1, len(text)) // at the line break, if there is one
		case text[i] == '\r':
			to = d.onReturn(s)
		default:
			to = d.on(s, text[i])
		}
		switch {
		case to == matched && ends:
			return i - 1, matched
		case to < firstState:
			return i, to
		case ends && i == len(text) || d.tired(ctx):
			return i, unknown
		}
		s = to
		i++
	}
	return pos, odd
}

// run continues while the next state is known. Nearly all of the time is spent in this loop,
// which only reads the table. Most bytes lead back to the same state; the inner loop handles them
// without waiting for the result of the step before.
func (d *machine) run(text []byte, s uint16, i int) (uint16, int) {
	for i < len(text) {
		row := (*[256]uint16)(d.next[int(s)<<8:])
		to := row[text[i]]
		for to == s {
			if i++; i == len(text) {
				return s, i
			}
			to = row[text[i]]
		}
		if to < firstState {
			break
		}
		s = to
		i++
	}
	return s, i
}

// tired reports whether ctx has ended. It asks the context only after many steps, because asking
// takes longer than a step.
func (d *machine) tired(ctx context.Context) bool {
	if d.work < maxWork {
		return false
	}
	d.work = 0
	return ctx.Err() != nil
}

// on returns the state to which a byte leads.
func (d *machine) on(s uint16, b byte) uint16 {
	to := d.next[int(s)<<8|int(b)]
	if to == unknown {
		var kept bool
		if to, kept = d.step(s, b); kept {
			d.next[int(s)<<8|int(b)] = to
		}
	}
	return to
}

// onReturn returns the state to which a carriage return leads that does not end the line.
func (d *machine) onReturn(s uint16) uint16 {
	to := d.states[s].cr
	if to == unknown {
		var kept bool
		if to, kept = d.step(s, '\r'); kept {
			d.states[s].cr = to
		}
	}
	return to
}

// step computes the state to which a byte leads. The result kept is false if the earlier states
// were discarded. If an expression needs too many states again and again, it is left to package
// regexp, which only needs one set of instructions at a time.
func (d *machine) step(s uint16, b byte) (to uint16, kept bool) {
	from := d.states[s]
	if d.collect(from, b) {
		return matched, true
	}
	if b == '\n' {
		return firstState, true
	}
	if to := d.add(d.set, d.kinds[b]); to != unknown {
		return to, true
	}
	d.resets++
	d.failed = d.resets > maxResets
	d.reset()
	return d.add(d.set, d.kinds[b]), false
}

// collect sets d.set to the instructions that follow a byte. It returns true if the expression
// matches before the byte. The first instruction of the expression is always included, because a
// match may begin anywhere. Instructions that consume no byte are followed at once. The number of
// the round marks the instructions that were seen, which avoids clearing the marks.
func (d *machine) collect(from state, b byte) (match bool) {
	d.set, d.stack = d.set[:0], append(append(d.stack[:0], from.insts...), uint16(d.m.prog.Start))
	empty := between(from.kind, b)
	d.round++
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[pc] == d.round {
			continue
		}
		d.seen[pc] = d.round
		d.work++
		in := &d.m.prog.Inst[pc]
		switch in.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, uint16(in.Out), uint16(in.Arg))
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, uint16(in.Out))
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^empty == 0 {
				d.stack = append(d.stack, uint16(in.Out))
			}
		default:
			if d.taken[in.Out] != d.round && b != '\n' && takes(in, rune(b)) {
				d.taken[in.Out] = d.round
				d.set = append(d.set, uint16(in.Out))
			}
		}
	}
	return false
}

// between returns the conditions that hold between the byte before a state and the byte b, or the
// end of the line. Anchors and word boundaries depend on both sides (see EmptyOp in
// regexp/syntax).
func between(kind uint8, b byte) syntax.EmptyOp {
	before, after := rune(' '), rune(b)
	switch kind {
	case lineStart:
		before = -1
	case wordByteKind:
		before = 'a'
	}
	if b == '\n' {
		after = -1
	}
	return syntax.EmptyOpContext(before, after)
}

// takes reports whether an instruction matches a character.
func takes(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1:
		return in.MatchRune(r)
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true // a line has no line break in it
	}
	return false
}
