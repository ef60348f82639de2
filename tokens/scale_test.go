package tokens

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/textcost"
)

// sane reports whether s can be the result of observations.
func (s *scale) sane() bool {
	for i := range s.factor {
		if !(s.factor[i] >= 1.0/mismatch && s.factor[i] <= mismatch) {
			return false
		}
		for j, c := range s.cov[i] {
			if c != s.cov[j][i] || !(c*c <= s.cov[i][i]*s.cov[j][j]*1.001) || s.cov[i][i] < 0 || s.cov[i][i] > 4 {
				return false
			}
		}
	}
	return s.observed > 0 && s.noise > 0 && s.noise <= maxNoise
}

func TestScalesAreBounded(t *testing.T) {
	var s scales
	for i := range maxModels + 50 {
		s.observe(Model{Name: fmt.Sprint(i)}, size{1000}, 1)
	}
	require.Len(t, s.models, maxModels)
}

// Whatever a model reports, the scale stays in range.
func TestScaleStaysSane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s scales
		for range 200 {
			var text size
			for i := range text {
				if rng.IntN(2) == 0 {
					text[i] = rng.Int64N(1_000_000)
				}
			}
			s.observe(gpt, text, int64(text.tokens()*math.Exp(4*rng.Float64()-2)))
			known := s.get(gpt)
			require.True(t, known.observed == 0 || known.sane(), "%+v", known)
			factor, margin := s.of(gpt, text)
			require.Greater(t, factor, 0.0)
			require.GreaterOrEqual(t, margin, 1.05)
			require.Less(t, margin, 20.0)
		}
	}
}

// Equal counts make a scale sure, but never so sure that it cannot change.
func TestScaleOfEqualCounts(t *testing.T) {
	var s scales
	for range 50_000 {
		s.observe(gpt, size{1_000_000}, 1000)
	}
	for range 30 {
		s.observe(gpt, size{1_000_000}, 1300)
	}
	known := s.get(gpt)
	require.True(t, known.sane(), "%+v", known)
	factor, _ := s.of(gpt, size{1 << 40})
	require.InDelta(t, 1.3, factor, 0.01)
}

// The filter finds the factors of a model from requests that mix the groups at random, as solving
// the linear equations would.
func TestScaleFindsFactors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	truth := [textcost.Groups]float64{1.1, 0.9, 1.4, 1.6, 1.2, 2, 1.7, 2.2, 1.3, 2.4, 0.7}
	var s scales
	for range 300 {
		var text size
		count := 0.0
		for i := range text {
			text[i] = rng.Int64N(1_000_000)
			count += truth[i] * float64(text[i]) / 1000
		}
		s.observe(gpt, text, int64(count))
	}
	known := s.get(gpt)
	for i, want := range truth {
		require.InEpsilon(t, want, known.factor[i], 0.05, "group %d", i)
	}
}

// Counts of one alphabet say little about another.
func TestScaleOfAlphabets(t *testing.T) {
	var s scales
	scanned := func(text string) (n size) {
		n.text(text)
		return n
	}
	russian, hebrew := scanned(strings.Repeat("Файл не найден ", 100)), scanned(strings.Repeat("הקובץ לא נמצא ", 100))
	for range 20 {
		s.observe(gpt, russian, int64(russian.tokens()))
	}
	factor, margin := s.of(gpt, russian)
	require.InDelta(t, 1, factor*margin, 0.35)
	factor, margin = s.of(gpt, hebrew)
	require.Greater(t, factor*margin, 1.6)
}

// Claude is known to count more than others.
func TestScaleOfUnknown(t *testing.T) {
	c := New()
	factor, margin := c.Scale(Model{Provider: "anthropic", Name: "claude"})
	require.InDelta(t, 1.25, factor, 0.01)
	require.InDelta(t, 1.28, margin, 0.08)
	factor, margin = c.Scale(Model{})
	require.InDelta(t, 1, factor, 0.01)
	require.InDelta(t, 1.35, margin, 0.01)
	tool := &aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x"}}}
	require.Greater(t, c.Estimate(Model{Provider: "anthropic"}, tool).Tokens, c.Estimate(gpt, tool).Tokens+300)
}
