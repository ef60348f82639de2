package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/order"
)

// The limits of an [Index].
const (
	maxVectors   = 1_000_000
	maxDimension = 1 << 16
)

// MismatchError reports vectors that do not belong into an [Index], since they are from another model or have
// another dimension. Vectors of different models cannot be compared.
type MismatchError struct {
	Model     string // of the index
	Dimension int
	// GotModel is "" if only the dimension differs.
	GotModel     string
	GotDimension int
}

// Error implements the error interface.
func (e *MismatchError) Error() string {
	if e.GotModel != "" {
		return fmt.Sprintf("vectors are of model %q with %d dimensions, not of %q with %d", e.GotModel, e.GotDimension, e.Model, e.Dimension)
	}
	return fmt.Sprintf("vector has %d dimensions, those of model %q have %d", e.GotDimension, e.Model, e.Dimension)
}

// ErrNoDirection is the cause of an error for a vector that is zero, or that has a number that is infinite or
// not a number.
var ErrNoDirection = errors.New("vector has no direction")

// Vector is an item and its vector.
type Vector struct {
	Item
	Values []float32
}

// Stats are the numbers of an [Index].
type Stats struct {
	// Items is the number of items, and Vectors that of their different vectors.
	Items, Vectors int
	// Deleted is the number of deleted vectors that still have a place in the index.
	Deleted int
}

// Index is an index of vectors, which finds the nearest by their cosine. It is safe for concurrent use:
// searches do not wait while vectors are added and deleted.
type Index struct {
	model string
	dim   int

	tending sync.Mutex // held by the one that makes sketches, or takes dead points out

	mu       sync.RWMutex      // guards all that follows
	table                      // a longer slice continues the same array
	byID     map[string]*point // of items
	byVector map[uint64]*point // by hash
	dead     int               // of points
}

// point is a vector with its items. Items with the same vector share a point.
type point struct {
	vec   []float32 // of length 1
	hash  uint64
	items atomic.Pointer[[]*Item] // replaced with Index.mu held; a point without items is dead
}

func (p *point) alive() bool { return len(*p.items.Load()) > 0 }

// near is a point and its cosine to a vector.
type near struct {
	p   *point
	sim float32
}

// NewIndex returns an empty index for the vectors of a model.
func NewIndex(model string, dimension int) (*Index, error) {
	if model == "" || dimension < 1 || dimension > maxDimension {
		return nil, &aycoder.ConfigError{Option: "NewIndex", Err: fmt.Errorf("no vectors of model %q with %d dimensions", model, dimension)}
	}
	return &Index{model: model, dim: dimension, byID: map[string]*point{}, byVector: map[uint64]*point{}}, nil
}

// Model returns the name of the model and the dimension of its vectors.
func (ix *Index) Model() (name string, dimension int) { return ix.model, ix.dim }

// Add adds vectors, and replaces those of items with the same IDs. It copies the values. If one of them is
// refused, nothing is added: the error is a [*MismatchError], wraps [ErrNoDirection], or is an
// [*aycoder.LimitError] for more than a million.
//
// New vectors are found at once, also if ctx ends before Add has made their sketches, for which it uses all
// processors. The next call goes on with that.
func (ix *Index) Add(ctx context.Context, vectors ...Vector) error {
	points := make([]*point, len(vectors))
	for i, v := range vectors {
		vec, err := ix.normal(v.Values)
		if err != nil {
			return fmt.Errorf("add vector of %s: %w", v.ID, err)
		}
		points[i] = newPoint(vec)
	}
	ix.mu.Lock()
	if len(ix.points)-ix.dead+len(points) > maxVectors {
		ix.mu.Unlock()
		return &aycoder.LimitError{Limit: "vectors of an index", Max: maxVectors}
	}
	for i, v := range vectors {
		ix.remove(v.ID)
		item := v.Item // a pointer into v would keep its values
		ix.put(points[i], &item)
	}
	ix.mu.Unlock()
	return ix.tend(ctx)
}

// normal returns a copy of a vector with length 1.
func (ix *Index) normal(values []float32) ([]float32, error) {
	if len(values) != ix.dim {
		return nil, &MismatchError{Model: ix.model, Dimension: ix.dim, GotDimension: len(values)}
	}
	return normal(values)
}

func normal(values []float32) ([]float32, error) {
	sum := 0.0
	for _, x := range values {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil, ErrNoDirection
	}
	out, length := make([]float32, len(values)), math.Sqrt(sum)
	for i, x := range values {
		out[i] = float32(float64(x) / length)
	}
	return out, nil
}

func newPoint(vec []float32) *point {
	h := fnv.New64a()
	h.Write(appendVector(nil, vec))
	p := &point{vec: vec, hash: h.Sum64()}
	p.items.Store(new([]*Item))
	return p
}

// put gives an item to a point, or to one with the same vector. ix.mu must be held.
func (ix *Index) put(p *point, item *Item) {
	if same := ix.byVector[p.hash]; same != nil && slices.Equal(same.vec, p.vec) {
		if p = same; !p.alive() {
			ix.dead--
		}
	} else {
		ix.points = append(ix.points, p)
		ix.byVector[p.hash] = p
	}
	p.items.Store(new(append(slices.Clone(*p.items.Load()), item)))
	ix.byID[item.ID] = p
}

// remove takes an item from its point. ix.mu must be held.
func (ix *Index) remove(id string) {
	p := ix.byID[id]
	if p == nil {
		return
	}
	delete(ix.byID, id)
	rest := slices.DeleteFunc(slices.Clone(*p.items.Load()), func(i *Item) bool { return i.ID == id })
	if p.items.Store(&rest); len(rest) == 0 {
		ix.dead++
	}
}

// Delete removes items, if they are there. Their vectors keep their places until they are a fifth of all.
func (ix *Index) Delete(ctx context.Context, ids ...string) error {
	ix.drop(ids...)
	return ix.tend(ctx)
}

// drop removes items.
func (ix *Index) drop(ids ...string) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, id := range ids {
		ix.remove(id)
	}
}

// Has reports whether the index has an item.
func (ix *Index) Has(id string) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.byID[id] != nil
}

// Items returns all items, in no particular order. They must not be changed.
func (ix *Index) Items() (items []*Item) {
	for _, p := range ix.snapshot().points {
		items = append(items, *p.items.Load()...)
	}
	return items
}

// Stats returns the numbers of the index.
func (ix *Index) Stats() Stats {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return Stats{Items: len(ix.byID), Vectors: len(ix.points) - ix.dead, Deleted: ix.dead}
}

// snapshot returns the present table.
func (ix *Index) snapshot() table {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.table
}

// tend takes dead points out once they are a fifth of all, and makes the sketches of new points. If another call
// does that already, or ctx ends before, those that are left only cost time until the next call.
func (ix *Index) tend(ctx context.Context) error {
	if !ix.tending.TryLock() {
		return ctx.Err()
	}
	defer ix.tending.Unlock()
	ix.mu.Lock()
	if ix.dead*5 > len(ix.points) {
		for _, p := range ix.points {
			if !p.alive() {
				delete(ix.byVector, p.hash)
			}
		}
		ix.table, ix.dead = ix.table.living(), 0
	}
	ix.mu.Unlock()
	for ctx.Err() == nil {
		t := ix.snapshot()
		more := t.sketched()
		if more == nil {
			break
		}
		ix.mu.Lock()
		ix.sketcher, ix.signs, ix.terms = more.sketcher, more.signs, more.terms // nobody else changes them
		ix.mu.Unlock()
	}
	return ctx.Err()
}

// Search returns the k items whose vectors are nearest to a vector, the nearest first. The score is the
// cosine. If keep is not nil, only the items that it accepts are found; it may be called for any item. The
// error is as that of [Index.Add].
func (ix *Index) Search(vector []float32, k int, keep func(*Item) bool) ([]Match, error) {
	q, err := ix.normal(vector)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if k <= 0 {
		return nil, nil
	}
	accept := (*point).alive
	if keep != nil {
		accept = func(p *point) bool { return slices.ContainsFunc(*p.items.Load(), keep) }
	}
	return matches(ix.snapshot().nearest(q, k, accept), k, keep), nil
}

// matches returns the items of points, the best first.
func matches(found []near, k int, keep func(*Item) bool) (out []Match) {
	for _, n := range found {
		for _, i := range *n.p.items.Load() {
			if keep == nil || keep(i) {
				out = append(out, Match{i, float64(n.sim)})
			}
		}
	}
	order.By(out, bestFirst)
	return out[:min(k, len(out))]
}

func bestFirst(a, b *Match) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Item.ID, b.Item.ID))
}
