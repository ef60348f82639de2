package retrieval

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
)

// The limits of an [Index].
const (
	maxVectors   = 1_000_000
	maxDimension = 1 << 16
)

// Params are the parameters of an [Index]. A field that is 0 has its default value.
type Params struct {
	// M is the number of neighbours that a vector is linked to when it is added. Default: 16.
	M int
	// EfConstruction is the number of candidates for them. Default: 200.
	EfConstruction int
	// EfSearch is the number of candidates of a search. More of them find more of the nearest, and take longer.
	// Default: 300.
	EfSearch int
	// ExactBelow is the number of vectors below which all are compared. Default: 20,000.
	ExactBelow int
}

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
	// Linked is the number of vectors that are in the graph.
	Linked int
	// Deleted is the number of deleted vectors that still have a place in the graph.
	Deleted int
}

// Index is an index of vectors, which finds the nearest by their cosine. It is safe for concurrent use:
// searches do not wait while vectors are added and deleted.
type Index struct {
	model string
	dim   int
	graph graph
	exact int

	repairing sync.Mutex // held by the one that repairs the graph

	mu       sync.RWMutex      // guards all that follows
	points   []*point          // a longer slice continues the same array
	byID     map[string]*point // of items
	byVector map[uint64]*point // by hash
	dead     int               // of points
	unlinked int               // all points before this one are linked
}

// point is a vector and its place in the graph. Items with the same vector share a point, because a graph of
// equal vectors falls into pieces: each has enough neighbours that are just like it.
type point struct {
	vec    []float32 // of length 1
	sketch sketch    // once it is in the graph
	hash   uint64
	items  atomic.Pointer[[]*Item] // replaced with Index.mu held; a point without items is dead
	gone   atomic.Bool             // is to be removed from the graph

	claimed, linked atomic.Bool

	mu    sync.Mutex               // held by the one that changes links
	links []atomic.Pointer[[]near] // by level
}

func (p *point) alive() bool { return len(*p.items.Load()) > 0 }

// NewIndex returns an empty index for the vectors of a model.
func NewIndex(model string, dimension int, params Params) (*Index, error) {
	if model == "" || dimension < 1 || dimension > maxDimension {
		return nil, &aycoder.ConfigError{Option: "NewIndex", Err: fmt.Errorf("no vectors of model %q with %d dimensions", model, dimension)}
	}
	if params.M < 0 || params.M == 1 || params.EfConstruction < 0 || params.EfSearch < 0 || params.ExactBelow < 0 {
		return nil, &aycoder.ConfigError{Option: "Params", Err: fmt.Errorf("%+v is out of range", params)}
	}
	return &Index{model: model, dim: dimension, exact: cmp.Or(params.ExactBelow, 20_000),
		graph: graph{m: cmp.Or(params.M, 16), build: cmp.Or(params.EfConstruction, 200), ef: cmp.Or(params.EfSearch, 300)},
		byID:  map[string]*point{}, byVector: map[uint64]*point{}}, nil
}

// Model returns the name of the model and the dimension of its vectors.
func (ix *Index) Model() (name string, dimension int) { return ix.model, ix.dim }

// Add adds vectors, and replaces those of items with the same IDs. It copies the values. If one of them is
// refused, nothing is added: the error is a [*MismatchError], wraps [ErrNoDirection], or is an
// [*aycoder.LimitError] for more than a million.
//
// New vectors are found at once, also if ctx ends before Add has linked them to the graph, for which it
// uses all processors. The next call goes on with that.
func (ix *Index) Add(ctx context.Context, vectors ...Vector) error {
	points := make([]*point, len(vectors))
	for i, v := range vectors {
		vec, err := ix.normal(v.Values)
		if err != nil {
			return fmt.Errorf("add vector of %s: %w", v.ID, err)
		}
		points[i] = ix.newPoint(vec)
	}
	ix.mu.Lock()
	if len(ix.points)-ix.dead+len(points) > maxVectors {
		ix.mu.Unlock()
		return &aycoder.LimitError{Limit: "vectors of an index", Max: maxVectors}
	}
	for i, v := range vectors {
		ix.remove(v.ID)
		ix.put(points[i], &v.Item)
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

// newPoint returns a point. Its level depends on its vector alone, so that it need not be saved.
func (ix *Index) newPoint(vec []float32) *point {
	h := fnv.New64a()
	var b [4]byte
	for _, x := range vec {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		h.Write(b[:])
	}
	p := &point{vec: vec, hash: h.Sum64()}
	p.links = make([]atomic.Pointer[[]near], ix.graph.level(p.hash)+1)
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

// Delete removes items, if they are there. Their vectors keep their places in the graph until they are a fifth of
// it; then Delete or Add repairs the graph, unless ctx ends.
func (ix *Index) Delete(ctx context.Context, ids ...string) error {
	ix.mu.Lock()
	for _, id := range ids {
		ix.remove(id)
	}
	ix.mu.Unlock()
	return ix.tend(ctx)
}

// Has reports whether the index has an item.
func (ix *Index) Has(id string) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.byID[id] != nil
}

// Items returns all items, in no particular order. They must not be changed.
func (ix *Index) Items() (items []*Item) {
	points, _ := ix.snapshot()
	for _, p := range points {
		items = append(items, *p.items.Load()...)
	}
	return items
}

// Stats returns the numbers of the index.
func (ix *Index) Stats() Stats {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	s := Stats{Items: len(ix.byID), Vectors: len(ix.points) - ix.dead, Deleted: ix.dead}
	for _, p := range ix.points {
		if p.linked.Load() {
			s.Linked++
		}
	}
	return s
}

// snapshot returns all points, and the number of them before the first that is not linked.
func (ix *Index) snapshot() (points []*point, unlinked int) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.points, ix.unlinked
}

// tend links new points to the graph, once there are enough, and repairs it after many were deleted.
func (ix *Index) tend(ctx context.Context) error {
	if err := ix.repair(ctx); err != nil {
		return err
	}
	points, first := ix.snapshot()
	if len(points) < ix.exact {
		return ctx.Err()
	}
	if ix.graph.sketcher.Load() == nil {
		ix.graph.sketcher.CompareAndSwap(nil, newSketcher(points))
	}
	each(ctx, points[first:], func(p *point) {
		if p.claimed.CompareAndSwap(false, true) {
			ix.graph.insert(p)
			p.linked.Store(true)
		}
	})
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for ix.unlinked < len(ix.points) && ix.points[ix.unlinked].linked.Load() {
		ix.unlinked++
	}
	return ctx.Err()
}

// each calls do for the points on all processors, until ctx ends.
func each(ctx context.Context, points []*point, do func(*point)) {
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(points)) {
		work.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(points) && ctx.Err() == nil; i = next.Add(1) - 1 {
				do(points[i])
			}
		})
	}
	work.Wait()
}

// repair takes the dead points out of the graph, if they are a fifth of all. If ctx ends before, those that are
// left only cost time and memory until the next repair.
func (ix *Index) repair(ctx context.Context) error {
	if !ix.repairing.TryLock() {
		return ctx.Err()
	}
	defer ix.repairing.Unlock()
	ix.mu.Lock()
	if ix.dead*5 <= len(ix.points) {
		ix.mu.Unlock()
		return ctx.Err()
	}
	var kept []*point
	for _, p := range ix.points {
		if p.alive() {
			kept = append(kept, p)
		} else {
			p.gone.Store(true)
			delete(ix.byVector, p.hash)
		}
	}
	ix.points, ix.dead, ix.unlinked = kept, 0, 0
	ix.mu.Unlock()
	ix.graph.enter(kept)
	each(ctx, kept, func(p *point) {
		if p.linked.Load() {
			ix.graph.relink(p)
		}
	})
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
	return matches(ix.nearest(q, k, accept, keep != nil), k, keep), nil
}

// nearest returns at least the k nearest points that are accepted, or all.
func (ix *Index) nearest(q []float32, k int, accept func(*point) bool, filtered bool) []near {
	points, first := ix.snapshot()
	if len(points) < ix.exact {
		return scan(q, points, k, accept)
	}
	pending := slices.DeleteFunc(slices.Clone(points[first:]), func(p *point) bool { return p.linked.Load() })
	visits := math.MaxInt
	if filtered { // Beyond this, comparing what the filter accepts is faster.
		visits = 2_000 + len(points)/16
	}
	found, ok := ix.graph.search(q, max(k, ix.graph.ef), accept, visits)
	if !ok {
		return scan(q, points, k, accept)
	}
	for _, n := range scan(q, pending, k, accept) {
		if !slices.ContainsFunc(found, func(f near) bool { return f.p == n.p }) { // linked meanwhile
			found = append(found, n)
		}
	}
	return found
}

// scan returns the k nearest of the points that are accepted.
func scan(q []float32, points []*point, k int, accept func(*point) bool) (best []near) {
	for _, p := range points {
		if accept(p) {
			best = keepBest(best, near{p, dot(q, p.vec)}, k)
		}
	}
	return best
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
	slices.SortFunc(out, bestFirst)
	return out[:min(k, len(out))]
}

func bestFirst(a, b Match) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Item.ID, b.Item.ID))
}
