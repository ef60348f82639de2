package source

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/order"
)

// A tally counts the names that a file uses, without those that the current function has declared.
type tally struct {
	nameTable
	useCount
	local []int32 // by name, the last function that declared it
	fn    int32   // the current function
	last  int32   // the number of functions so far

	at      int32     // where the name is that is counted, or -1 if it cannot be a declaration
	counted []counted // in the current declaration, in the order of the source
}

// counted says that a use was counted at a position.
type counted struct {
	at  int32
	key uint64
}

// newTally returns a tally for a file, with room for a number of names.
func newTally(room int) *tally {
	return &tally{nameTable: newNameTable(room), useCount: newUseCount(room / 2), fn: 1, last: 1, at: -1}
}

// nextFunction begins another function, which has declared nothing yet.
func (t *tally) nextFunction() {
	t.last++
	t.fn = t.last
}

// name returns a name as a string that all its uses share.
func (t *tally) name(name []byte) string { return t.names[t.id(name)] }

// setLocal says that the current function declares a name.
func (t *tally) setLocal(name []byte) {
	id := t.id(name)
	if n := len(t.names); n > len(t.local) {
		t.local = append(t.local, make([]int32, n-len(t.local))...)
	}
	t.local[id] = t.fn
}

// isLocal reports whether the current function declares the name of a number.
func (t *tally) isLocal(id int32) bool { return int(id) < len(t.local) && t.local[id] == t.fn }

// use counts a name, or of.name, unless the function has declared what comes first.
func (t *tally) use(of, name []byte) {
	o, n := t.id(of), t.id(name)
	if !t.isLocal(cmp.Or(o, n)) {
		t.count(key(o, n))
	}
}

// call counts a name, or of.name, even if the function has declared it: let args = args() calls another args.
func (t *tally) call(of, name []byte) { t.count(key(t.id(of), t.id(name))) }

func (t *tally) count(k uint64) {
	t.add(k, 1)
	if t.at >= 0 {
		t.counted = append(t.counted, counted{t.at, k})
	}
}

// undo takes back what was counted at a position: it is declared there.
func (t *tally) undo(at int32) {
	i, ok := slices.BinarySearchFunc(t.counted, at, func(c counted, at int32) int { return int(c.at - at) })
	if ok && t.counted[i].key != 0 {
		t.add(t.counted[i].key, -1)
		t.counted[i].key = 0
	}
}

// uses returns what was counted, sorted.
func (t *tally) uses() []Use { return t.useCount.uses(t.names) }

// These bound what is read of a file: no declaration or use behind so many names or declarations, or so many tokens
// of TypeScript, and nothing behind so many imports. A file that a person wrote does not have as many, and the time
// and memory that each takes would grow with their number.
const (
	maxNames  = 1 << 17
	maxTokens = 1 << 20
	maxFacts  = 1 << 16
)

// full reports whether no more declarations are read.
func (t *tally) full(f *Facts) bool { return len(f.Decls) >= maxFacts || len(t.names) > maxNames }

// maxUses is how many different uses are counted in a file. A file with more of them is not one that a person
// wrote, and the time and memory that each takes would grow with their number.
const maxUses = 1 << 15

// A useCount counts uses by their [key]. It is a hash table with open addressing, as a [nameTable] is.
type useCount struct {
	factor uint64  // odd, by which keys are multiplied to spread them, and which nobody can know
	slots  []int32 // a power of two, at most half of them used: 1 + an index in pairs
	pairs  []usePair
	n      int // how many are uses
}

// A usePair is what is known of a key.
type usePair struct {
	key   uint64
	times int32
	note  int32 // in Go, 1 + the number of the name for the two, or 0
}

func newUseCount(room int) useCount {
	c := useCount{factor: rand.Uint64() | 1}
	c.reset(room)
	return c
}

// reset makes a count like a new one, in the memory that it has.
func (c *useCount) reset(room int) {
	c.slots, c.n = emptySlots(c.slots, room), 0
	c.pairs = slices.Grow(c.pairs[:0], len(c.slots)/2)
}

func key(of, name int32) uint64 { return uint64(uint32(of))<<32 | uint64(uint32(name)) }

// pair returns what is known of a key, until the next call.
func (c *useCount) pair(k uint64) *usePair {
	i := c.slot(k)
	if c.slots[i] == 0 {
		if 2*len(c.pairs) >= len(c.slots) {
			c.slots = make([]int32, 2*len(c.slots))
			for n, p := range c.pairs {
				c.slots[c.slot(p.key)] = int32(n + 1)
			}
			i = c.slot(k)
		}
		c.pairs = append(c.pairs, usePair{key: k})
		c.slots[i] = int32(len(c.pairs))
	}
	return &c.pairs[c.slots[i]-1]
}

// slot returns where a key is, or where it can be put.
func (c *useCount) slot(k uint64) int {
	mask := len(c.slots) - 1
	i := int(k*c.factor>>32) & mask
	for c.slots[i] > 0 && c.pairs[c.slots[i]-1].key != k {
		i = (i + 1) & mask
	}
	return i
}

// add counts a key, or, with a negative number, takes back that it was counted.
func (c *useCount) add(k uint64, times int32) {
	p := c.pair(k)
	switch {
	case p.times > 0:
	case c.n == maxUses:
		return
	default:
		c.n++
	}
	if p.times += times; p.times <= 0 {
		p.times = 0
		c.n--
	}
}

// uses returns what was counted, sorted. Names are those of the numbers in the keys.
func (c *useCount) uses(names []string) []Use {
	found := slices.DeleteFunc(c.pairs, func(p usePair) bool { return p.times == 0 })
	order.By(found, func(a, b *usePair) int {
		if a.key>>32 != b.key>>32 {
			return strings.Compare(names[a.key>>32], names[b.key>>32])
		}
		return strings.Compare(names[uint32(a.key)], names[uint32(b.key)])
	})
	out := make([]Use, len(found))
	for i, p := range found {
		out[i] = Use{names[p.key>>32], names[uint32(p.key)], p.times}
	}
	return out
}

// generatedPhrases are what comments say in files that a program wrote, in lower case.
var generatedPhrases = [][]byte{
	[]byte("@generated"), []byte("do not edit"), []byte("auto-generated"), []byte("autogenerated"), []byte("automatically generated"),
}

// generated reports whether a comment says that its file was generated.
func generated(comment []byte) bool {
	comment = bytes.ToLower(comment)
	return slices.ContainsFunc(generatedPhrases, func(phrase []byte) bool { return bytes.Contains(comment, phrase) })
}
