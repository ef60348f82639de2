package tokens

import (
	"reflect"
	"weak"
)

// minSweep is the number of entries from which on a memo looks for dead ones.
const minSweep = 1024

// A memo keeps the measures of values that never change, as long as the values live. It
// does not keep them alive, so it may serve any number of conversations.
type memo[T any] struct {
	entries map[memoKey]memoEntry[T]
	sweep   int // number of entries at which the dead ones are removed
}

// A memoKey finds an entry by the address of the value, which is cheaper than a weak pointer. As an
// address may be used again, the entry tells whether it is for the same value.
type memoKey struct {
	address  uintptr
	provider string
}

type memoEntry[T any] struct {
	of    weak.Pointer[T]
	value measure
}

func (m *memo[T]) get(of *T, provider string, compute func(*T) measure) measure {
	if of == nil {
		return measure{}
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
		m.entries = map[memoKey]memoEntry[T]{}
	}
	v := compute(of)
	m.entries[key] = memoEntry[T]{weak.Make(of), v}
	return v
}
