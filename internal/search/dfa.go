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
	maxResets = 8       // after which an expression is held to be one with too many states
)

// machine finds lines that match an expression, many times faster than package regexp,
// in text that is ASCII. It is a deterministic automaton whose states are made when
// they are first needed: a state is a set of instructions, and one step for each byte
// takes the place of one for each instruction. It reads one line after the other
// without stopping, since a line break leads from any state to the first one.
//
// A line with other characters is left to package regexp, also since that has its own way
// with bytes that are not UTF-8. A machine belongs to one goroutine. The states of an
// expression can be exponentially many, so they are made on the way and forgotten when
// there are too many (the lazy DFA of RE2).
type machine struct {
	m     *Matcher
	kinds [256]uint8 // what of a byte can be told after it

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

// state is a set of instructions to go on with, and what was before.
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
	carriage          // the byte is a carriage return: what comes after it counts
	firstState        // the one at the start of a line
)

// newMachine returns the machine of an expression. The kinds of bytes are told apart only
// if the expression asks for word boundaries; otherwise every state would be there twice.
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

// reset forgets all states but the first.
func (d *machine) reset() {
	clear(d.ids)
	d.states = append(d.states[:0], make([]state, firstState)...)
	d.next = append(d.next[:0], make([]uint16, firstState<<8)...)
	d.insts = 0
	d.add(nil, lineStart)
}

// add returns the state of a set, or unknown if there are too many. A set is known by its
// sorted instructions, so the ways on which it was reached do not matter.
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

// find goes through the lines of a text, from the start of one. It returns matched and a
// place in the first line that matches, or odd and a place in a line that is for package
// regexp to decide, or unknown if there is neither, or ctx has ended. A carriage return in
// front of a line break is not part of the line, and neither are the expression's anchors
// about it; so it needs a look at the byte behind it.
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

// run goes on as long as the way is known. Bytes that do not lead out of a state are most
// of them, and are looked at without waiting for where the one before led. It is the loop
// that nearly all of the time is spent in: it only reads the table.
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

// tired reports whether ctx has ended, if it is time to look. Asking the context takes
// longer than a step, so it is asked once for many.
func (d *machine) tired(ctx context.Context) bool {
	if d.work < maxWork {
		return false
	}
	d.work = 0
	return ctx.Err() != nil
}

// on returns where a byte leads from a state.
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

// onReturn does so for a carriage return that does not end the line.
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

// step finds out where a byte leads from a state. Kept is false if the states before were
// forgotten. An expression that keeps running out of states is left to package regexp,
// which needs no more than one at a time.
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

// collect gathers the instructions that are next after a byte, or reports that the
// expression matches before it. A match may begin anywhere, so the first instruction is
// always among those to go on with. It follows the instructions that take no byte first.
// The rounds stand for sets that would have to be cleared.
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

// between returns what holds between what was before a state and a byte, or the end of the
// line. Anchors and word boundaries depend on both sides (regexp/syntax, EmptyOp).
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

// takes reports whether an instruction takes a character.
func takes(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1:
		return in.MatchRune(r)
	case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true // a line has no line break in it
	}
	return false
}
