package diff3

import "math"

// The bounds of the search, as git's behaviour shows them.
const (
	minCost   = 256 // a search never gives up with fewer edits than this
	longSnake = 20  // a run of more equal lines than this is worth a look
	keenRatio = 4   // how much further than its edits a path must be to be taken
)

// myers finds the lines that differ, with the linear-space algorithm of E. Myers, "An O(ND)
// Difference Algorithm and Its Variations", Algorithmica 1 (1986), section 4b. It searches
// forward and backward at once, splits the texts where both searches meet, and continues in both
// halves.
//
// Two rules bound the search, which Paul Eggert devised for GNU diff. After many edits, a path is
// accepted that has come far through long equal runs. And when the edits exceed about the square
// root of the size, the path that has come furthest is accepted. The time is therefore O(n·√n) at
// worst, and the space O(n).
type myers struct {
	a, b         []int32 // the lines to compare
	onlyA, onlyB func(lo, hi int)
	fwd, bwd     []int32 // furthest point by diagonal, forward and backward
	maxCost      int
}

// box is a part of the edit graph: a[a0:a1] against b[b0:b1]. In an exact box the number of edits
// is known to be small, so the search uses neither of the two shortcuts.
type box struct {
	a0, a1, b0, b1 int
	exact          bool
}

// run compares the two texts. For small texts the bound on the edits never applies, so they get a
// shortest script.
func (m *myers) run() {
	m.maxCost = max(roughSqrt(len(m.a)+len(m.b)+3), minCost)
	m.solve(box{a1: len(m.a), b1: len(m.b)})
}

// solve splits a box until one side is empty. It recurses only into the smaller part, so the
// depth of the stack stays logarithmic.
func (m *myers) solve(x box) {
	for {
		for x.a0 < x.a1 && x.b0 < x.b1 && m.a[x.a0] == m.b[x.b0] {
			x.a0++
			x.b0++
		}
		for x.a0 < x.a1 && x.b0 < x.b1 && m.a[x.a1-1] == m.b[x.b1-1] {
			x.a1--
			x.b1--
		}
		if x.a0 == x.a1 || x.b0 == x.b1 {
			m.onlyA(x.a0, x.a1)
			m.onlyB(x.b0, x.b1)
			return
		}
		lo, hi := m.split(x)
		if lo.size() > hi.size() {
			lo, hi = hi, lo
		}
		m.solve(lo)
		x = hi
	}
}

func (x box) size() int { return x.a1 - x.a0 + x.b1 - x.b0 }

// split splits a box in two, at a point on a good path through it.
func (m *myers) split(x box) (lo, hi box) {
	f := newFront(m, x)
	p := f.search(x.exact, m.maxCost)
	i, j := x.a0+p.i, x.b0+p.j
	lo = box{x.a0, i, x.b0, j, p.exactLo}
	hi = box{i, x.a1, j, x.b1, p.exactHi}
	return lo, hi
}

// point is the place where a box is split. A part that was searched completely is exact.
type point struct {
	i, j             int
	exactLo, exactHi bool
}

// front is the state of one search. A point (i, j) means that i lines of a and j lines of b are
// used. Its diagonal is i-j, which is stored at fwd[mid+i-j].
type front struct {
	a, b       []int32
	fwd, bwd   []int32
	mid        int
	flo, fhi   int // diagonals reached forward, as indices
	blo, bhi   int // diagonals reached backward
	dlo, dhi   int // diagonals there are
	end        int // the last diagonal, where the backward search begins
	odd, snake bool
}

func newFront(m *myers, x box) front {
	a, b := m.a[x.a0:x.a1], m.b[x.b0:x.b1]
	size := len(a) + len(b) + 3
	f := front{a: a, b: b, fwd: m.fwd[:size], bwd: m.bwd[:size], mid: len(b) + 1}
	f.dlo, f.dhi = f.mid-len(b), f.mid+len(a)
	f.end = f.mid + len(a) - len(b)
	f.flo, f.fhi = f.mid, f.mid
	f.blo, f.bhi = f.end, f.end
	f.odd = (f.end-f.mid)&1 != 0
	f.fwd[f.mid] = 0
	f.bwd[f.end] = int32(len(a))
	return f
}

// search alternates between forward and backward steps until the paths meet or a shortcut
// applies.
func (f *front) search(exact bool, maxCost int) point {
	for cost := 1; ; cost++ {
		f.snake = false
		if p, ok := f.forward(); ok {
			return p
		}
		if p, ok := f.backward(); ok {
			return p
		}
		if exact {
			continue
		}
		if f.snake && cost > minCost {
			if p, ok := f.keen(cost); ok {
				return p
			}
		}
		if cost >= maxCost {
			return f.giveUp()
		}
	}
}

// forward adds one edit to each forward path. Most of the time of a diff is spent here and in
// backward. Both are written so that the compiler can omit bounds checks.
func (f *front) forward() (point, bool) {
	f.widenForward()
	a, b, lo := f.a, f.b, f.flo-1
	near := f.fwd[lo : f.fhi+2]
	far := f.bwd[lo : f.fhi+2][:len(near)]
	shift, snake := f.mid-lo, false
	met, width := meeting(f.odd, f.blo-lo, f.bhi-lo)
	above := int(near[len(near)-1])
	for d := len(near) - 2; d >= 1; d -= 2 {
		below := int(near[d-1])
		i := max(below+1, above)
		above = below
		j := i - d + shift
		if uint(i) < uint(len(a)) && uint(j) < uint(len(b)) && a[i] == b[j] {
			from := i
			i, j = i+1, j+1
			for uint(i) < uint(len(a)) && uint(j) < uint(len(b)) && a[i] == b[j] {
				i++
				j++
			}
			snake = snake || i-from > longSnake
		}
		near[d] = int32(i)
		if uint(d-met) < width && int(far[d]) <= i {
			return point{i, j, true, true}, true
		}
	}
	f.snake = f.snake || snake
	return point{}, false
}

// meeting returns the diagonals, from lo up to lo+width, on which a path can meet a path from the
// other end. Paths can only have met if it is the turn of the right direction.
func meeting(turn bool, lo, hi int) (int, uint) {
	if !turn {
		return lo, 0
	}
	return lo, uint(hi - lo + 1)
}

// widenForward adds the diagonals next to those reached. At the edge of the box it drops the
// outermost diagonal instead, which has the wrong parity in this step.
func (f *front) widenForward() {
	if f.flo > f.dlo {
		f.flo--
		f.fwd[f.flo-1] = -1
	} else {
		f.flo++
	}
	if f.fhi < f.dhi {
		f.fhi++
		f.fwd[f.fhi+1] = -1
	} else {
		f.fhi--
	}
}

// backward adds one edit to each backward path.
func (f *front) backward() (point, bool) {
	f.widenBackward()
	a, b, lo := f.a, f.b, f.blo-1
	near := f.bwd[lo : f.bhi+2]
	far := f.fwd[lo : f.bhi+2][:len(near)]
	shift, snake := f.mid-lo, false
	met, width := meeting(!f.odd, f.flo-lo, f.fhi-lo)
	above := int(near[len(near)-1])
	for d := len(near) - 2; d >= 1; d -= 2 {
		below := int(near[d-1])
		i := min(below, above-1)
		above = below
		j := i - d + shift
		if uint(i-1) < uint(len(a)) && uint(j-1) < uint(len(b)) && a[i-1] == b[j-1] {
			from := i
			i, j = i-1, j-1
			for uint(i-1) < uint(len(a)) && uint(j-1) < uint(len(b)) && a[i-1] == b[j-1] {
				i--
				j--
			}
			snake = snake || from-i > longSnake
		}
		near[d] = int32(i)
		if uint(d-met) < width && i <= int(far[d]) {
			return point{i, j, true, true}, true
		}
	}
	f.snake = f.snake || snake
	return point{}, false
}

// widenBackward does for the backward search what widenForward does for the forward search.
func (f *front) widenBackward() {
	if f.blo > f.dlo {
		f.blo--
		f.bwd[f.blo-1] = math.MaxInt32
	} else {
		f.blo++
	}
	if f.bhi < f.dhi {
		f.bhi++
		f.bwd[f.bhi+1] = math.MaxInt32
	} else {
		f.bhi--
	}
}

// keen looks for a path that has come much further than the edits it cost, and that ends after a
// long run of equal lines.
func (f *front) keen(cost int) (point, bool) {
	n, m := len(f.a), len(f.b)
	best, p := keenRatio*cost, point{}
	for d := f.fhi; d >= f.flo; d -= 2 {
		i := int(f.fwd[d])
		j := i - (d - f.mid)
		gain := i + j - abs(d-f.mid)
		if gain > best && longSnake <= i && i < n && longSnake <= j && j < m &&
			f.equalRun(i-longSnake, j-longSnake) {
			best, p = gain, point{i, j, true, false}
		}
	}
	if p.exactLo {
		return p, true
	}
	for d := f.bhi; d >= f.blo; d -= 2 {
		i := int(f.bwd[d])
		j := i - (d - f.mid)
		gain := n - i + m - j - abs(d-f.end)
		if gain > best && 0 < i && i <= n-longSnake && 0 < j && j <= m-longSnake &&
			f.equalRun(i, j) {
			best, p = gain, point{i, j, false, true}
		}
	}
	return p, p.exactHi
}

// equalRun reports whether longSnake lines are equal from (i, j) on.
func (f *front) equalRun(i, j int) bool {
	for k := range longSnake {
		if f.a[i+k] != f.b[j+k] {
			return false
		}
	}
	return true
}

// giveUp accepts the path that has come furthest, forward or backward.
func (f *front) giveUp() point {
	n, m := len(f.a), len(f.b)
	fsum, fi := -1, -1
	for d := f.fhi; d >= f.flo; d -= 2 {
		k := d - f.mid
		i := min(int(f.fwd[d]), n, m+k)
		if sum := 2*i - k; sum > fsum {
			fsum, fi = sum, i
		}
	}
	bsum, bi := math.MaxInt, 0
	for d := f.bhi; d >= f.blo; d -= 2 {
		k := d - f.mid
		i := max(int(f.bwd[d]), 0, k)
		if sum := 2*i - k; sum < bsum {
			bsum, bi = sum, i
		}
	}
	if n+m-bsum < fsum {
		return point{fi, fsum - fi, true, false}
	}
	return point{bi, bsum - bi, false, true}
}

func abs(n int) int { return max(n, -n) }

// roughSqrt returns a power of two near the square root of n.
func roughSqrt(n int) int {
	r := 1
	for ; n > 0; n >>= 2 {
		r <<= 1
	}
	return r
}
