package tokens

import (
	"reflect"
	"weak"
)

// minSweep is the number of entries from which on a memo looks for dead ones.
const minSweep = 1024

// A memo keeps what was computed from values that never change, as long as the values live. It
// does not keep them alive, so it may serve any number of conversations.
type memo[T, V any] struct {
	entries map[memoKey]memoEntry[T, V]
	sweep   int // number of entries at which the dead ones are removed
}

// A memoKey finds an entry by the address of the value, which is cheaper than a weak pointer. As an
// address may be used again, the entry tells whether it is for the same value.
type memoKey struct {
	address  uintptr
	provider string
}

type memoEntry[T, V any] struct {
	of    weak.Pointer[T]
	value V
}

func (m *memo[T, V]) get(of *T, provider string, compute func(*T) V) V {
	if of == nil {
		var none V
		return none
	}
	key := memoKey{reflect.ValueOf(of).Pointer(), provider}
	if e, ok := m.entries[key]; ok && e.of.Value() == of {
		return e.value
	}
	if len(m.entries) >= max(m.sweep, minSweep) {
		for k, e := range m.entries {
			if e.of.Value() == nil {
				delete(m.entries, k)
			}
		}
		m.sweep = 2 * len(m.entries)
	}
	if m.entries == nil {
		m.entries = map[memoKey]memoEntry[T, V]{}
	}
	v := compute(of)
	m.entries[key] = memoEntry[T, V]{weak.Make(of), v}
	return v
}
