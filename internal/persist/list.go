// Package persist has a list whose versions share their items.
package persist

import (
	"slices"
	"sync/atomic"
)

// List is a persistent vector: Append returns a longer list and leaves the receiver as it was.
// As long as only the newest list is appended to, that costs no more than an ordinary append.
// So a value that holds one can be copied, and a step has constant cost, however long the list
// is. The zero value is an empty list. A List is safe for concurrent use.
type List[T any] struct {
	// Items are the items. Whoever reads them does not change them.
	Items []T
	// used is the length of the longest list on this array. The list that advances it from its
	// own length owns the next slot.
	used *atomic.Int64
}

// New returns a list of copied items.
func New[T any](items []T) List[T] { return Own(slices.Clone(items)) }

// Own returns a list of items that the caller no longer uses. Their spare capacity is used for more items.
func Own[T any](items []T) List[T] {
	l := List[T]{Items: items, used: new(atomic.Int64)}
	l.used.Store(int64(len(items)))
	return l
}

// Append returns the list with another item.
func (l List[T]) Append(x T) List[T] {
	n := int64(len(l.Items))
	if l.used == nil || !l.used.CompareAndSwap(n, n+1) {
		l.Items = slices.Clip(l.Items)
		l.used = new(atomic.Int64)
		l.used.Store(n + 1)
	}
	l.Items = append(l.Items, x)
	return l
}

// All returns the items. Appending to the result does not change the list.
func (l List[T]) All() []T { return slices.Clip(l.Items) }

// Continues reports whether l is on the array of m: it is m with further items, and not the
// start of another branch.
func (l List[T]) Continues(m List[T]) bool { return l.used == m.used }
