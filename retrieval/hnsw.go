package retrieval

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// The graph is that of Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using
// Hierarchical Navigable Small World graphs" (2016, revised 2018). A point is in the levels from 0 up to its own, which
// few points have above 0, and has links to near points on each. A search goes down from the highest level,
// always to the point that is nearest to the query, and keeps the best candidates on level 0.
//
// Searches take no locks: a list of links is replaced as a whole and never changed. A point becomes
// reachable only after its own links on all levels are in place. So what a search reads is always a graph,
// if not the newest one. Dead points are passed through but not found.
type graph struct {
	m, build, ef int // M, efConstruction and efSearch of the paper

	sketcher atomic.Pointer[sketcher] // set before the first point is inserted, and then left alone

	entry   atomic.Pointer[point] // one on the highest level, or nil
	seen    sync.Pool             // of map[*point]bool
	raising sync.Mutex            // held by the one that changes entry
}

// near is a point and its cosine to another one.
type near struct {
	p   *point
	sim float32
}

const maxLevel = 15

// level returns the level of a point: l or more for one of m^l points.
func (g *graph) level(hash uint64) int {
	hash = (hash ^ hash>>31) * 0x9E3779B97F4A7C15 // the hash of FNV is not even in its upper bits
	u := (float64(hash>>11) + 1) / (1 << 53)
	return min(int(-math.Log(u)/math.Log(float64(g.m))), maxLevel)
}

// room returns how many links a point may have on a level.
func (g *graph) room(level int) int {
	if level == 0 {
		return 2 * g.m
	}
	return g.m
}

// linksAt returns the links of a point on a level that the point is in. They must not be changed.
func (p *point) linksAt(level int) []near {
	if list := p.links[level].Load(); list != nil {
		return *list
	}
	return nil
}

// search returns the ef nearest points that are accepted, the nearest first, or false if that would take too
// many visits.
func (g *graph) search(q []float32, ef int, accept func(*point) bool, visits int) ([]near, bool) {
	entry := g.entry.Load()
	if entry == nil {
		return nil, true
	}
	from := []near{{entry, dot(q, entry.vec)}}
	_, probe := g.sketcher.Load().sketch(q)
	for l := len(entry.links) - 1; l > 0; l-- {
		from = g.descend(probe, from, l)
	}
	return g.layer(probe, from, ef, 0, accept, visits)
}

// descend returns the nearest point on a level, which may be dead.
func (g *graph) descend(q *probe, from []near, level int) []near {
	found, _ := g.layer(q, from, 1, level, func(*point) bool { return true }, math.MaxInt)
	return found
}

// layer is algorithm 2 of the paper: it visits the neighbours of the best candidates on a level until none
// of them can be among the ef best.
func (g *graph) layer(q *probe, from []near, ef, level int, accept func(*point) bool, visits int) (best []near, ok bool) {
	seen, _ := g.seen.Get().(map[*point]bool)
	if seen == nil {
		seen = map[*point]bool{}
	}
	defer func() {
		if len(seen) < 1<<14 { // clearing a larger one takes long for each later search
			clear(seen)
			g.seen.Put(seen)
		}
	}()
	var todo heap
	for _, n := range from {
		seen[n.p] = true
		todo.push(n)
		if accept(n.p) {
			best = keepBest(best, n, ef)
		}
	}
	for len(todo) > 0 {
		next := todo.pop()
		if len(best) == ef && next.sim < best[ef-1].sim {
			break
		}
		for _, l := range next.p.linksAt(level) {
			if seen[l.p] {
				continue
			}
			if len(seen) >= visits {
				return nil, false
			}
			seen[l.p] = true
			if len(best) == ef && q.far(&l.p.sketch, best[ef-1].sim) {
				continue
			}
			n := near{l.p, dot(q.vec, l.p.vec)}
			if len(best) == ef && n.sim <= best[ef-1].sim {
				continue
			}
			todo.push(n)
			if accept(n.p) {
				best = keepBest(best, n, ef)
			}
		}
	}
	return best, true
}

// insert is algorithm 1 of the paper.
func (g *graph) insert(p *point) {
	var probe *probe
	p.sketch, probe = g.sketcher.Load().sketch(p.vec)
	entry := g.entry.Load()
	if entry == nil {
		entry = g.raise(p)
	}
	if entry == p {
		return
	}
	from := []near{{entry, dot(p.vec, entry.vec)}}
	top := len(p.links) - 1
	for l := len(entry.links) - 1; l >= 0; l-- {
		if l > top {
			from = g.descend(probe, from, l)
			continue
		}
		found, _ := g.layer(probe, from, g.build, l, func(o *point) bool { return o != p && o.alive() }, math.MaxInt)
		p.links[l].Store(new(choose(found, g.m)))
		if len(found) > 0 {
			from = found
		}
	}
	for l := range min(len(p.links), len(entry.links)) {
		for _, n := range p.linksAt(l) {
			g.link(n.p, near{p, n.sim}, l)
		}
	}
	g.raise(p)
}

// link adds a link to a point, and drops others if it has no room.
func (g *graph) link(from *point, to near, level int) {
	from.mu.Lock()
	defer from.mu.Unlock()
	list := from.linksAt(level)
	if slices.ContainsFunc(list, func(n near) bool { return n.p == to.p }) { // by relink
		return
	}
	if list = append(slices.Clone(list), to); len(list) > g.room(level) {
		slices.SortFunc(list, nearestFirst)
		list = choose(list, g.room(level))
	}
	from.links[level].Store(&list)
}

// raise makes a point the entry if it is in a higher level, and returns the entry.
func (g *graph) raise(p *point) *point {
	g.raising.Lock()
	defer g.raising.Unlock()
	if e := g.entry.Load(); e != nil && len(p.links) <= len(e.links) {
		return e
	}
	g.entry.Store(p)
	return p
}

// enter chooses the entry again, from the points that stay in the graph.
func (g *graph) enter(kept []*point) {
	g.raising.Lock()
	defer g.raising.Unlock()
	if e := g.entry.Load(); e != nil && !e.gone.Load() {
		return
	}
	var top *point
	for _, p := range kept {
		if p.linked.Load() && (top == nil || len(p.links) > len(top.links)) {
			top = p
		}
	}
	g.entry.Store(top)
}

// relink replaces the links of a point to points that are gone: the neighbours of those, and what a search
// finds if there are few, are the candidates together with the links that stay.
func (g *graph) relink(p *point) {
	for l := range p.links {
		if slices.ContainsFunc(p.linksAt(l), isGone) {
			g.relinkAt(p, l)
		}
	}
}

func isGone(n near) bool { return n.p.gone.Load() }

func (g *graph) relinkAt(p *point, level int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[*point]bool{p: true}
	var found []near
	add := func(n near) {
		if !seen[n.p] && !isGone(n) {
			found = append(found, n)
		}
		seen[n.p] = true
	}
	old := p.linksAt(level)
	for _, n := range old {
		add(n)
	}
	for _, n := range old {
		if !isGone(n) {
			continue
		}
		for _, next := range n.p.linksAt(level) {
			if !seen[next.p] {
				add(near{next.p, dot(p.vec, next.p.vec)})
			}
		}
	}
	if len(found) < g.m {
		entry := g.entry.Load()
		_, probe := g.sketcher.Load().sketch(p.vec)
		more, _ := g.layer(probe, []near{{entry, dot(p.vec, entry.vec)}}, g.build, min(level, len(entry.links)-1), (*point).alive, math.MaxInt)
		for _, n := range more {
			if level < len(n.p.links) {
				add(n)
			}
		}
	}
	slices.SortFunc(found, nearestFirst)
	p.links[level].Store(new(choose(found, g.room(level))))
}

// choose is algorithm 4 of the paper: of the candidates, the nearest first, it prefers those that are nearer to the
// point than to any other that is chosen, so that links go into all directions. If these are few, it adds the
// nearest of the others.
func choose(candidates []near, limit int) []near {
	if len(candidates) <= limit {
		return slices.Clip(candidates)
	}
	chosen := make([]near, 0, limit)
	var others []near
	for _, c := range candidates {
		if len(chosen) == limit {
			break
		}
		if slices.ContainsFunc(chosen, func(o near) bool { return dot(c.p.vec, o.p.vec) > c.sim }) {
			others = append(others, c)
		} else {
			chosen = append(chosen, c)
		}
	}
	return append(chosen, others[:min(len(others), limit-len(chosen))]...)
}

func nearestFirst(a, b near) int {
	switch {
	case a.sim > b.sim:
		return -1
	case a.sim < b.sim:
		return 1
	}
	return 0
}

// keepBest inserts into a list of at most limit points, the nearest first.
func keepBest(best []near, n near, limit int) []near {
	if len(best) == limit {
		if n.sim <= best[limit-1].sim {
			return best
		}
		best = best[:limit-1]
	}
	i, _ := slices.BinarySearchFunc(best, n, nearestFirst)
	return slices.Insert(best, i, n)
}

// heap is a binary heap with the nearest point first.
type heap []near

func (h *heap) push(n near) {
	s := append(*h, n)
	i := len(s) - 1
	for parent := (i - 1) / 2; i > 0 && s[parent].sim < n.sim; i, parent = parent, (parent-1)/2 {
		s[i] = s[parent]
	}
	s[i] = n
	*h = s
}

func (h *heap) pop() near {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	i := 0
	for child := 1; child < len(s); child = 2*i + 1 {
		if child+1 < len(s) && s[child+1].sim > s[child].sim {
			child++
		}
		if s[child].sim <= last.sim {
			break
		}
		s[i] = s[child]
		i = child
	}
	if len(s) > 0 {
		s[i] = last
	}
	*h = s
	return top
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
