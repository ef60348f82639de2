package source

import (
	"hash/maphash"
	"slices"
	"strings"
)

// A nameTable numbers names from 1, in the order in which they are seen first; "" is 0. It is a hash table with open
// addressing, since most of the time of a scan goes into looking up names: an entry has no pointer, the texts are in a
// few large strings, and nobody can choose names that collide, as the hash has a seed.
type nameTable struct {
	seed  maphash.Seed
	slots []nameSlot // a power of two, at most half of them used
	names []string   // by number
	text  strings.Builder
}

// A nameSlot has the number of a name and a part of its hash. A free one has the number 0.
type nameSlot struct {
	hash uint32
	id   int32
}

// newNameTable returns a table that has room for a number of names before it grows.
func newNameTable(room int) nameTable {
	t := nameTable{seed: maphash.MakeSeed()}
	t.reset(room)
	return t
}

// reset makes a table like a new one, in the memory that it has.
func (t *nameTable) reset(room int) {
	t.slots, t.text = emptySlots(t.slots, room), strings.Builder{}
	t.names = append(slices.Grow(t.names[:0], len(t.slots)/2+1), "")
}

// emptySlots returns free slots for a number of entries, at least two for each, in the memory of others if it is enough.
func emptySlots[T any](slots []T, room int) []T {
	size := 64
	for size < 2*room {
		size *= 2
	}
	if size > cap(slots) {
		return make([]T, size)
	}
	clear(slots[:size])
	return slots[:size]
}

// id returns the number of a name.
func (t *nameTable) id(name []byte) int32 { return t.number(name, "") }

// number returns the number of a name. A new one is kept as text, or, if that is "", as a copy.
func (t *nameTable) number(name []byte, text string) int32 {
	if len(name) == 0 {
		return 0
	}
	hash := uint32(maphash.Bytes(t.seed, name))
	i := t.at(hash)
	for t.slots[i].id > 0 && (t.slots[i].hash != hash || t.names[t.slots[i].id] != string(name)) {
		i = t.at(uint32(i) + 1)
	}
	if id := t.slots[i].id; id > 0 {
		return id
	}
	id := int32(len(t.names))
	t.slots[i] = nameSlot{hash, id}
	if text == "" {
		text = t.keep(name)
	}
	t.names = append(t.names, text)
	if 2*len(t.names) > len(t.slots) {
		t.grow()
	}
	return id
}

// at returns the slot where a name of a hash is looked for first.
func (t *nameTable) at(hash uint32) int { return int(hash) & (len(t.slots) - 1) }

func (t *nameTable) grow() {
	old := t.slots
	t.slots = make([]nameSlot, 2*len(old))
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := t.at(s.hash)
		for t.slots[i].id > 0 {
			i = t.at(uint32(i) + 1)
		}
		t.slots[i] = s
	}
}

// keep returns a copy of a name. Many share the memory of one string.
func (t *nameTable) keep(name []byte) string {
	if t.text.Len()+len(name) > t.text.Cap() {
		t.text = strings.Builder{}
		t.text.Grow(max(len(name), min(16*len(t.names), 1<<16)))
	}
	t.text.Write(name)
	return t.text.String()[t.text.Len()-len(name):]
}
