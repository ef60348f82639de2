package tokens

import "weak"

// minSweep is the number of entries from which on a memo looks for dead ones.
const minSweep = 1024

// A memo keeps what is known of values that never change, as long as the values live. It
// does not keep them alive, so it may serve any number of conversations.
type memo[T, V any] struct {
	entries map[memoKey[T]]V
	sweep   int // number of entries at which the dead ones are removed
}

type memoKey[T any] struct {
	of       weak.Pointer[T]
	provider string
}

func (m *memo[T, V]) get(of *T, provider string, compute func(*T) V) (known V) {
	if of == nil {
		return known
	}
	key := memoKey[T]{weak.Make(of), provider}
	known, ok := m.entries[key]
	if !ok {
		known = compute(of)
		m.put(key, known)
	}
	return known
}

func (m *memo[T, V]) put(key memoKey[T], known V) {
	if len(m.entries) >= max(m.sweep, minSweep) {
		for k := range m.entries {
			if k.of.Value() == nil {
				delete(m.entries, k)
			}
		}
		m.sweep = 2 * len(m.entries)
	}
	if m.entries == nil {
		m.entries = map[memoKey[T]]V{}
	}
	m.entries[key] = known
}
