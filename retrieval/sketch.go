package retrieval

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// Most vectors are too far from that of a query to be of use. A sketch of a vector, a bit for each of its numbers, is
// enough to leave out most of these without reading the vector. It is that of Gao and Long, "RaBitQ: Quantizing
// High-Dimensional Vectors with a Theoretical Error Bound for Approximate Nearest Neighbor Search" (2024): the vector,
// as seen from the middle of all, is rotated at random, and the bits are the signs of the result. They give an estimate
// of the cosine to another vector, and how far off it probably is. The cosines that decide are computed from the
// vectors.

// sketcher makes sketches. It does not change.
type sketcher struct {
	middle []float32
	square float64  // of its length
	flips  []uint64 // for each of the two transforms, the signs that change
}

// terms are what is kept of a vector besides its signs.
type terms struct {
	ones   float32 // the number of signs that are positive
	factor float32 // makes the cosine to another vector out of the sum of its numbers with these signs
	base   float32 // the dot product of the vector and the middle
	off    float32 // the standard deviation of an estimate, for another vector with distance 1 from the middle
}

// probe is a vector that others are compared with.
type probe struct {
	planes [][planes]uint64 // the bits of its rotated numbers as integers, the lowest first, of 64 numbers each
	step   float32          // between two integers
	least  float32          // what integer 0 stands for
	sum    float32          // of all numbers
	base   float32
	length float32 // its distance from the middle
}

const (
	planes = 4 // the bits of an integer
	// margin is how many standard deviations an estimate must be below the limit. Of vectors of code, a margin of 2
	// misses 4 of 10,000 neighbours, and one of 3 none that was seen.
	margin = 3
	// leastNumbers is the length of the shortest vectors of which a sketch says enough.
	leastNumbers = 64
)

// newSketcher returns a sketcher for points, of which there is at least one.
func newSketcher(points []*point) *sketcher {
	const some = 10_000 // enough to know the middle
	dim := len(points[0].vec)
	sums, n := make([]float64, dim), 0.0
	for i := 0; i < len(points); i += len(points)/some + 1 {
		for k, x := range points[i].vec {
			sums[k] += float64(x)
		}
		n++
	}
	s := &sketcher{middle: make([]float32, dim), flips: make([]uint64, 2*size(dim)/64)}
	for i, sum := range sums {
		s.middle[i] = float32(sum / n)
		s.square += float64(s.middle[i]) * float64(s.middle[i])
	}
	random := rand.NewPCG(1, 2) // always the same: any bits do that have no pattern
	for i := range s.flips {
		s.flips[i] = random.Uint64()
	}
	return s
}

// words returns the number of words with the signs of a sketch.
func (s *sketcher) words() int { return size(len(s.middle)) / 64 }

// size returns the number of bits of a sketch: a power of two, since the rotation needs one.
func size(dim int) int { return max(64, 1<<bits.Len(uint(dim-1))) }

// rotate returns a vector as seen from the middle, rotated: twice, its numbers get random signs, and then there is a
// Walsh-Hadamard transform.
func (s *sketcher) rotate(vec []float32) []float32 {
	out := make([]float32, size(len(vec)))
	for i, x := range vec {
		out[i] = (x - s.middle[i]) / float32(len(out)) // two transforms make it longer by this factor
	}
	for flips := range slices.Chunk(s.flips, len(out)/64) {
		for i := range out {
			if flips[i/64]>>(i%64)&1 != 0 {
				out[i] = -out[i]
			}
		}
		transform(out)
	}
	return out
}

// transform is the Walsh-Hadamard transform.
func transform(v []float32) {
	for half := 1; half < len(v); half *= 2 {
		for from := 0; from < len(v); from += 2 * half {
			a, b := v[from:from+half], v[from+half:from+2*half]
			for i, x := range a {
				y := b[i]
				a[i], b[i] = x+y, x-y
			}
		}
	}
}

// sketch returns the sketch of a vector of length 1, and puts its signs into empty ones.
func (s *sketcher) sketch(vec []float32, signs []uint64) terms {
	var ones, absolute, square float64
	for i, x := range s.rotate(vec) {
		if x >= 0 {
			signs[i/64] |= 1 << (i % 64)
			ones++
		}
		y := float64(x)
		absolute, square = absolute+math.Abs(y), square+y*y
	}
	t := terms{ones: float32(ones), base: dot(vec, s.middle)}
	if absolute > 0 { // else it is the middle
		n := float64(64 * len(signs))
		t.factor = float32(square / absolute)
		t.off = float32(math.Sqrt(max(n*square/(absolute*absolute)-1, 0) * square / (n - 1)))
	}
	return t
}

// probe returns the probe of a vector of length 1.
func (s *sketcher) probe(vec []float32) *probe {
	rotated := s.rotate(vec)
	var sum, square float64
	for _, x := range rotated {
		y := float64(x)
		sum, square = sum+y, square+y*y
	}
	p := &probe{sum: float32(sum), base: dot(vec, s.middle) - float32(s.square), length: float32(math.Sqrt(square))}
	p.quantize(rotated)
	return p
}

// quantize sets the planes.
func (p *probe) quantize(rotated []float32) {
	p.planes = make([][planes]uint64, len(rotated)/64)
	p.least = slices.Min(rotated)
	p.step = (slices.Max(rotated) - p.least) / (1<<planes - 1)
	if p.step == 0 {
		return
	}
	for i, x := range rotated {
		n := uint64((x-p.least)/p.step + 0.5)
		for b := range planes {
			p.planes[i/64][b] |= n >> b & 1 << (i % 64)
		}
	}
}

// far reports whether the cosine to a vector is probably not above a limit.
func (p *probe) far(signs []uint64, t *terms, limit float32) bool {
	return p.estimate(signs, t)+margin*t.off*p.length <= limit
}

// estimate returns about the cosine to a vector.
func (p *probe) estimate(signs []uint64, t *terms) float32 {
	var sum int
	planes := p.planes[:len(signs)]
	for i, s := range signs {
		w := &planes[i]
		sum += bits.OnesCount64(s&w[0]) + bits.OnesCount64(s&w[1])<<1
		sum += bits.OnesCount64(s&w[2])<<2 + bits.OnesCount64(s&w[3])<<3
	}
	positive := p.step*float32(sum) + p.least*t.ones // the sum of the numbers whose signs are positive
	return (2*positive-p.sum)*t.factor + t.base + p.base
}
