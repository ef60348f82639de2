// Package derive computes values from inputs and from each other, and computes again only what a
// changed input concerns.
//
// A value is named by a query and an argument. While a query computes, each value that it asks for is
// recorded as something it depends on, also if the answer was "there is no such file": so the recorded
// dependencies are exactly those that the result has. When an input changes, everything that depends on
// it is marked. A marked value is computed again only when somebody asks for it, and only if a value
// that it depends on is no longer equal to what it was. A table therefore answers as a new one over the
// same inputs would, provided that a query is a function of nothing but what it asks the table for.
//
// The method is that of incremental compilers: Acar, Self-Adjusting Computation, 2005; Hammer et al.,
// Adapton, PLDI 2014.
package derive

import (
	"reflect"
	"slices"
)

// Table holds the values. It is not safe for concurrent use.
type Table struct {
	size     int // the number of values
	revision uint64
	computes []*node // what is being computed, the innermost last
	loose    []*node // what a computed value does not use any more; the values that are not done may
	stale    map[string]bool
}

// A query is a [Query] of any type: but for the type of what Get returns, all share one compiled code.
type query struct {
	table *Table
	nodes map[string]*node // by the argument
	run   func(arg string) any
	same  func(a, b any) bool
}

// A node is a value with what it depends on and what depends on it.
type node struct {
	query    *query
	arg      string
	value    any
	deps     []*node
	users    []*node
	changed  uint64 // the revision in which the value became what it is
	verified uint64 // the revision in which it was last known to be right
	marked   bool   // something that it depends on may have changed
	busy     bool
	root     bool // kept without users
	gone     bool // forgotten
}

// New returns an empty table.
func New() *Table { return &Table{revision: 1, stale: map[string]bool{}} }

// Stale returns the arguments of the values that were asked for from outside of all queries and may have
// changed since the last call of Stale.
func (t *Table) Stale() map[string]bool {
	defer func() { t.stale = map[string]bool{} }()
	return t.stale
}

// Len returns the number of values in the table.
func (t *Table) Len() int { return t.size }

// Query is a kind of value in a table.
type Query[V any] struct{ query }

// NewQuery returns a query of a table. Compute must depend on nothing but its argument and other queries of the
// table, or be an input, for which Changed is called whenever its value may have changed. It must
// not ask for the value that it is computing, not even through others. Same reports whether two
// values, which are of type V, are the same to all who use them; nil means reflect.DeepEqual.
func NewQuery[V any](t *Table, compute func(arg string) V, same func(a, b any) bool) *Query[V] {
	q := &Query[V]{}
	q.init(t, func(arg string) any { return compute(arg) }, same)
	return q
}

// init is compiled once, and not into each call of NewQuery.
//
//go:noinline
func (q *query) init(t *Table, run func(arg string) any, same func(a, b any) bool) {
	if same == nil {
		same = reflect.DeepEqual
	}
	*q = query{t, map[string]*node{}, run, same}
}

// Get returns the value for an argument. The caller must not change it.
//
//go:noinline
func (q *Query[V]) Get(arg string) V { return q.get(arg).(V) }

func (q *query) get(arg string) any {
	t := q.table
	n := q.nodes[arg]
	if n == nil {
		n = &node{query: q, arg: arg}
		q.nodes[arg] = n
		t.size++
		t.run(n)
	} else {
		t.verify(n)
	}
	if i := len(t.computes); i > 0 {
		t.computes[i-1].deps = append(t.computes[i-1].deps, n)
	} else {
		n.root = true
	}
	return n.value
}

// Changed says that the value of an input may have changed, and reports whether it has.
func (q *query) Changed(arg string) bool {
	n := q.nodes[arg]
	if n == nil {
		return false
	}
	t := q.table
	t.revision++
	t.run(n)
	if n.changed != t.revision {
		return false
	}
	t.mark(n)
	return true
}

// Drop forgets a value that was asked for from outside of all queries, unless another value uses it.
func (q *query) Drop(arg string) {
	if n := q.nodes[arg]; n != nil {
		n.root = false
		q.table.release(n)
	}
}

func (t *Table) mark(n *node) {
	for _, u := range n.users {
		if !u.marked {
			u.marked = true
			if u.root {
				t.stale[u.arg] = true
			}
			t.mark(u)
		}
	}
}

// verify makes the value of a node right.
func (t *Table) verify(n *node) {
	if n.busy {
		panic("derive: a value depends on itself")
	}
	if !n.marked {
		return
	}
	n.busy = true // also while it only looks: a cycle would not end
	stale := false
	for _, d := range n.deps { // in the order in which they were asked for: a later one may not be needed any more
		t.verify(d)
		if d.changed > n.verified {
			stale = true
			break
		}
	}
	n.busy = false
	if stale {
		t.run(n)
	}
	n.marked, n.verified = false, t.revision
}

// run computes a node and replaces what it depends on.
func (t *Table) run(n *node) {
	if n.busy {
		panic("derive: a value depends on itself")
	}
	before := n.deps
	n.busy, n.deps = true, nil
	t.computes = append(t.computes, n)
	value := n.query.run(n.arg)
	t.computes = t.computes[:len(t.computes)-1]
	n.busy = false
	if n.verified == 0 || !n.query.same(n.value, value) {
		n.value, n.changed = value, t.revision
	}
	n.marked, n.verified = false, t.revision
	t.use(n, before)
	for len(t.computes) == 0 && len(t.loose) > 0 {
		d := t.loose[len(t.loose)-1]
		t.loose = t.loose[:len(t.loose)-1]
		t.release(d)
	}
}

// use makes a node a user of what it depends on now, and no longer of the rest of what it depended on before.
// The nodes that it still depends on are left alone, as they may have very many users.
func (t *Table) use(n *node, before []*node) {
	const old, kept = 1, 2
	seen := make(map[*node]int, len(before)+len(n.deps))
	for _, d := range before {
		seen[d] = old
	}
	deps := n.deps[:0]
	for _, d := range n.deps { // without repetitions, in the order of the first
		switch seen[d] {
		case kept:
			continue
		case 0:
			d.users = append(d.users, n)
		}
		seen[d] = kept
		deps = append(deps, d)
	}
	n.deps = slices.Clip(slices.Clone(deps))
	for _, d := range before {
		if seen[d] == old {
			d.drop(n)
			t.loose = append(t.loose, d)
		}
	}
}

// drop removes a user.
func (n *node) drop(user *node) {
	if i := slices.Index(n.users, user); i >= 0 {
		last := len(n.users) - 1
		n.users[i], n.users[last] = n.users[last], nil
		n.users = n.users[:last]
	}
}

// release forgets a node that nobody uses, and what only it used.
func (t *Table) release(n *node) {
	if n.root || n.busy || len(n.users) > 0 || n.gone {
		return
	}
	n.gone = true
	delete(n.query.nodes, n.arg)
	t.size--
	for _, d := range n.deps {
		d.drop(n)
		t.release(d)
	}
}
