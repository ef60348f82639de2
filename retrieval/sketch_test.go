package retrieval

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
)

// Estimates of cosines are as far off as the sketches say: vectors near to each other, far from the origin, with few
// numbers that are not zero, equal ones, and of any dimension.
func TestSketch(t *testing.T) {
	timed.Serial(t)
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	kinds := map[string]func(i int) float64{
		"even":   func(int) float64 { return rnd.NormFloat64() },
		"aside":  func(int) float64 { return 3 + rnd.NormFloat64() },
		"uneven": func(i int) float64 { return rnd.NormFloat64() / float64(i+1) },
		"sparse": func(int) float64 { return rnd.NormFloat64() * float64(rnd.IntN(20)/19) },
		"equal":  func(i int) float64 { return float64(i%3 - 2) },
	}
	for name, number := range kinds {
		for _, dim := range []int{64, 65, 384, 768, 1000} {
			points := make([]*point, 40)
			for k := range points {
				values := make([]float32, dim)
				for i := range values {
					values[i] = float32(number(i))
				}
				values[0] += 0.01
				vec, err := normal(values)
				require.NoError(t, err)
				points[k] = &point{vec: vec}
			}
			sum, n := 0.0, 0.0
			s := newSketcher(points)
			for _, p := range points {
				signs := make([]uint64, s.words())
				terms := s.sketch(p.vec, signs)
				for _, o := range points {
					q, cosine := s.probe(o.vec), 0.0
					for i, x := range p.vec {
						cosine += float64(x) * float64(o.vec[i])
					}
					rounding := float64(q.step*terms.factor) * math.Sqrt(float64(64*len(signs))) / 2
					expected := float64(terms.off*q.length) + rounding + 1e-5
					off := math.Abs(float64(q.estimate(signs, &terms))-cosine) / expected
					require.Less(t, off, 6.0, "%s, %d dimensions", name, dim)
					sum, n = sum+off*off, n+1
				}
			}
			require.Less(t, sum/n, 1.5, "%s, %d dimensions", name, dim)
		}
	}
}
