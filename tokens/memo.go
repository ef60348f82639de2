package tokens

import "weak"

// minSweep is the number of entries from which on a memo looks for dead ones.
const minSweep = 1024

// A memo keeps the measures of values that never change, as long as the values live. It
// does not keep them alive, so it may serve any number of conversations.
type memo[T any] struct {
	entries map[memoKey[T]]measure
	sweep   int // number of entries at which the dead ones are removed
}

type memoKey[T any] struct {
	of       weak.Pointer[T]
	provider string
}

func (m *memo[T]) get(of *T, provider string, compute func(*T) measure) measure {
	if of == nil {
		return measure{}
	}
	key := memoKey[T]{weak.Make(of), provider}
	if known, ok := m.entries[key]; ok {
		return known
	}
	if len(m.entries) >= max(m.sweep, minSweep) {
		for k := range m.entries {
			if k.of.Value() == nil {
				delete(m.entries, k)
			}
		}
		m.sweep = 2 * len(m.entries)
	}
	if m.entries == nil {
		m.entries = map[memoKey[T]]measure{}
	}
	m.entries[key] = compute(of)
	return m.entries[key]
}
