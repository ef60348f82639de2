package ignore

import (
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
)

// automaton is the patterns with wildcards of a layer, all in one, so that a text is
// read once whatever the patterns: each is a chain of states, a bit of a set each, and a
// byte takes all that are in the set one further at a time (the Shift-And method of
// R. Baeza-Yates and G. Gonnet). So the time is the length of the text times the number
// of words of the set, which is bounded. A state may also stay: that is a star. It is
// safe for concurrent use.
type automaton struct {
	starts, ends []uint64
	filesEnd     []uint64    // ends of patterns that are for files, too
	skips        []uint64    // states from which the next one is reached without a byte
	kinds        [256]byte   // of bytes that all states treat alike
	steps        [][]uint64  // by kind: the states that take such a byte
	stay         [2][]uint64 // at a slash, and at any other byte
	patterns     []int32     // by their ends, in order

	// directory is the one that was last asked about, since names are asked about directory
	// by directory.
	directory atomic.Pointer[directorySet]
}

// directorySet is what is in the set after a path that names a directory, with a slash at its
// end. It is nil if nothing is.
type directorySet struct {
	path string
	set  []uint64
}

// state takes a byte of a set to the next state, or with a nil set none: it is an end.
type state struct {
	takes *byteSet
	stay  star
	skip  bool
}

// star is which bytes leave a state as it is. It belongs to the state that stands behind
// it, as the bytes that a star takes do not lead on.
type star uint8

const (
	noStar star = iota
	starName
	starPath // slashes too
)

// newAutomaton returns the automaton of some chains, nil if there are none. The numbers of
// the patterns ascend. Bytes that no pattern tells apart share a row, so that the table has
// a few rows and not 256.
func newAutomaton(chains []chain) *automaton {
	n := 0
	for _, c := range chains {
		n += len(c.states)
	}
	if n == 0 {
		return nil
	}
	words := (n + 63) / 64
	set := func() []uint64 { return make([]uint64, words) }
	a := &automaton{starts: set(), ends: set(), filesEnd: set(), skips: set(), stay: [2][]uint64{set(), set()}}
	var like []byte // a byte of each kind
	for b, first := range kindsOf(chains) {
		if int(first) == b {
			a.steps, like = append(a.steps, set()), append(like, first)
			a.kinds[b] = byte(len(like) - 1)
		}
		a.kinds[b] = a.kinds[first]
	}
	i := 0
	for _, c := range chains {
		add(a.starts, i)
		if c.states[0].skip {
			add(a.starts, i+1)
		}
		for _, s := range c.states {
			switch {
			case s.takes == nil:
				add(a.ends, i)
				if !c.dirOnly {
					add(a.filesEnd, i)
				}
				a.patterns = append(a.patterns, c.pattern)
			default:
				for k, b := range like {
					if s.takes.has(b) {
						add(a.steps[k], i)
					}
				}
			}
			if s.skip {
				add(a.skips, i)
			}
			if s.stay == starPath {
				add(a.stay[0], i)
			}
			if s.stay != noStar {
				add(a.stay[1], i)
			}
			i++
		}
	}
	return a
}

// add puts a state into a set.
func add(set []uint64, i int) { set[i/64] |= 1 << (i % 64) }

// kindsOf returns for each byte the first one that all states treat alike. The kinds are
// refined by one set of bytes after the other: two bytes stay of one kind as long as each
// set has both or neither.
func kindsOf(chains []chain) (kinds [256]byte) {
	done := map[*byteSet]bool{}
	for _, c := range chains {
		for _, s := range c.states {
			if s.takes == nil || done[s.takes] {
				continue
			}
			done[s.takes] = true
			var first [256][2]int // of a kind, within the set and not; plus one
			for b, k := range kinds {
				in := 0
				if s.takes.has(byte(b)) {
					in = 1
				}
				if first[k][in] == 0 {
					first[k][in] = b + 1
				}
				kinds[b] = byte(first[k][in] - 1)
			}
		}
	}
	return kinds
}

// match returns the last pattern that is for a text, or -1. The names in a directory begin
// with the same path, so the set after that path is kept; asking about the next name only
// takes the name.
func (a *automaton) match(text string, isDir bool) int {
	name := strings.LastIndexByte(text, '/') + 1
	f := a.directory.Load()
	if f == nil || f.path != text[:name] {
		f = &directorySet{text[:name], slices.Clone(a.starts)}
		if !a.take(f.set, f.path) {
			f.set = nil
		}
		a.directory.Store(f)
	}
	var room [(maxSteps + 63) / 64]uint64
	set := room[:copy(room[:], f.set)]
	if f.set == nil || !a.take(set, text[name:]) {
		return -1
	}
	ends := a.filesEnd
	if isDir {
		ends = a.ends
	}
	for w, all := range slices.Backward(set) {
		if all &= ends[w]; all != 0 {
			last := 63 - bits.LeadingZeros64(all)
			n := bits.OnesCount64(a.ends[w]<<(63-last)) - 1 // of the ends before it in this word
			for _, before := range a.ends[:w] {
				n += bits.OnesCount64(before)
			}
			return int(a.patterns[n])
		}
	}
	return -1
}

// take takes a text, and reports whether anything is left in the set. Most texts leave an
// empty set after a few bytes.
func (a *automaton) take(set []uint64, text string) bool {
	for i := range len(text) {
		if !a.next(set, text[i]) {
			return false
		}
	}
	return true
}

// next takes a byte, and reports whether anything is left in the set. Words of a set
// without a state are skipped. The bits that leave a word enter the next one.
func (a *automaton) next(set []uint64, b byte) bool {
	step, stay, skips := a.steps[a.kinds[b]][:len(set)], a.stay[1][:len(set)], a.skips[:len(set)]
	if b == '/' {
		stay = a.stay[0][:len(set)]
	}
	var moved, skipped, left uint64 // out of the word before
	for w, was := range set {
		if was|moved|skipped == 0 {
			continue
		}
		taken := was & step[w]
		now := taken<<1 | moved
		moved = taken >> 63
		over := now & skips[w]
		now |= over<<1 | skipped | was&stay[w]
		skipped = over >> 63
		set[w] = now
		left |= now
	}
	return left != 0
}
