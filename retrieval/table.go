package retrieval

import (
	"runtime"
	"slices"
	"sync"
)

// A table holds points in the order in which they came, and sketches of the first of them, side by side, so that a
// search reads little memory. A search compares its vector with all sketches, and with those vectors that may be among
// the nearest. Unlike a search in a graph of neighbours, it finds all of the nearest but very few, also behind a
// filter, and what is added or deleted leaves nothing to repair. Its time grows with the number of vectors, by about a
// tenth of what comparing them takes.
//
// A longer table may share the memory of a shorter one, which stays as it is.
type table struct {
	points   []*point
	sketcher *sketcher // nil until there are enough points
	signs    []uint64  // of the sketches, one behind the other
	terms    []terms   // of the sketches
}

const (
	// enough is the number of points of which the sketcher knows the middle. Fewer are all compared.
	enough = 1_000
	// portion is the number of sketches that are made before a search can use them, and before a cancelled call ends.
	portion = 4_096
)

// living returns a table without the dead points.
func (t *table) living() table {
	n := table{sketcher: t.sketcher}
	for i, p := range t.points {
		if !p.alive() {
			continue
		}
		n.points = append(n.points, p)
		if i < len(t.terms) {
			words := t.sketcher.words()
			n.signs, n.terms = append(n.signs, t.signs[i*words:(i+1)*words]...), append(n.terms, t.terms[i])
		}
	}
	return n
}

// sketched returns the table with more sketches, or nil if it needs none.
func (t *table) sketched() *table {
	if len(t.points) < enough || len(t.points[0].vec) < leastNumbers || len(t.terms) == len(t.points) {
		return nil
	}
	n := *t
	if n.sketcher == nil {
		n.sketcher = newSketcher(n.points)
	}
	from, words := len(n.terms), n.sketcher.words()
	to := min(from+portion, len(n.points))
	n.signs = slices.Grow(n.signs, (to-from)*words)[:to*words]
	n.terms = slices.Grow(n.terms, to-from)[:to]
	var work sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		work.Go(func() {
			for i := from + w; i < to; i += workers {
				n.terms[i] = n.sketcher.sketch(n.points[i].vec, n.signs[i*words:(i+1)*words])
			}
		})
	}
	work.Wait()
	return &n
}

// nearest returns the k nearest points that are accepted, the nearest first, or all if there are fewer.
func (t table) nearest(q []float32, k int, accept func(*point) bool) (best []near) {
	take := func(p *point) {
		if accept(p) {
			best = keepBest(best, near{p, dot(q, p.vec)}, k)
		}
	}
	if len(t.terms) > 0 {
		probe, words := t.sketcher.probe(q), t.sketcher.words()
		for i := range t.terms {
			if len(best) < k || !probe.far(t.signs[i*words:(i+1)*words], &t.terms[i], best[k-1].sim) {
				take(t.points[i])
			}
		}
	}
	for _, p := range t.points[len(t.terms):] {
		take(p)
	}
	return best
}

// keepBest inserts into a list of at most limit points, the nearest first.
func keepBest(best []near, n near, limit int) []near {
	if len(best) == limit {
		if n.sim <= best[limit-1].sim {
			return best
		}
		best = best[:limit-1]
	}
	best = append(best, n)
	for i := len(best) - 1; i > 0 && best[i-1].sim <= n.sim; i-- {
		best[i-1], best[i] = n, best[i-1]
	}
	return best
}

// dot returns the dot product of two vectors of the same length. The sums are independent, so that the
// processor can work on several at once.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]float32)(a), (*[8]float32)(b)
		s0 += x[0]*y[0] + x[4]*y[4]
		s1 += x[1]*y[1] + x[5]*y[5]
		s2 += x[2]*y[2] + x[6]*y[6]
		s3 += x[3]*y[3] + x[7]*y[7]
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		s0 += x * b[i]
	}
	return s0 + s1 + s2 + s3
}
