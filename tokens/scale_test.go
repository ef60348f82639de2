package tokens

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/textcost"
)

func TestScalesJSON(t *testing.T) {
	var s Scales
	empty, err := json.Marshal(&s)
	require.NoError(t, err)
	require.JSONEq(t, "[]", string(empty))
	s.observe(gpt, size{900_000, 100_000}, 1100)
	s.observe(gpt, size{900_000, 0, 100_000}, 1150)
	s.observe(Model{"google", "x"}, size{1000}, 2)
	data, err := json.Marshal(&s)
	require.NoError(t, err)

	var loaded Scales
	require.NoError(t, json.Unmarshal(data, &loaded))
	require.Equal(t, s.models, loaded.models)
	for _, bad := range []string{
		`{`, `{}`, `[{}]`,
		strings.Replace(string(data), `"noise":`, `"noise":-`, 1),
		strings.Replace(string(data), `"factor":[`, `"factor":[0,`, 1),
		strings.Replace(string(data), `"cov":[[`, `"cov":[[5,`, 1),
		strings.Replace(string(data), `"observed":`, `"observed":-`, 1),
	} {
		require.Error(t, json.Unmarshal([]byte(bad), &loaded), bad)
		require.Equal(t, s.models, loaded.models, "unchanged")
	}
}

func TestScalesAreBounded(t *testing.T) {
	var s Scales
	for i := range maxModels + 50 {
		s.observe(Model{Name: fmt.Sprint(i)}, size{1000}, 1)
	}
	require.Len(t, s.models, maxModels)
}

// Whatever a model reports, the scale stays in range, and can be stored and loaded.
func TestScaleStaysSane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Scales
		for range 200 {
			var text size
			for i := range text {
				if rng.IntN(2) == 0 {
					text[i] = rng.Int64N(1_000_000)
				}
			}
			s.observe(gpt, text, int64(text.tokens()*math.Exp(4*rng.Float64()-2)))
			known := s.get(gpt)
			require.True(t, known.Observed == 0 || known.sane(), "%+v", known)
			factor, margin := s.of(gpt, text)
			require.Greater(t, factor, 0.0)
			require.GreaterOrEqual(t, margin, 1.05)
			require.Less(t, margin, 20.0)
		}
	}
}

// Equal counts make a scale sure, but never so sure that it cannot change.
func TestScaleOfEqualCounts(t *testing.T) {
	var s Scales
	for range 50_000 {
		s.observe(gpt, size{1_000_000}, 1000)
	}
	for range 30 {
		s.observe(gpt, size{1_000_000}, 1300)
	}
	known := s.get(gpt)
	require.True(t, known.sane(), "%+v", known)
	factor, _ := s.Of(gpt)
	require.InDelta(t, 1.3, factor, 0.01)
}

// The filter finds the factors of a model from requests that mix the groups at random, as solving
// the linear equations would.
func TestScaleFindsFactors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	truth := [textcost.Groups]float64{1.1, 0.9, 1.4, 1.6, 1.2, 2, 1.7, 2.2, 1.3, 2.4, 0.7}
	var s Scales
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
		require.InEpsilon(t, want, known.Factor[i], 0.05, "group %d", i)
	}
}

// Counts of one alphabet say little about another.
func TestScaleOfAlphabets(t *testing.T) {
	var s Scales
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
	var s Scales
	factor, margin := s.Of(Model{Provider: "anthropic", Name: "claude"})
	require.InDelta(t, 1.25, factor, 0.01)
	require.InDelta(t, 1.28, margin, 0.08)
	factor, margin = s.Of(Model{})
	require.InDelta(t, 1, factor, 0.01)
	require.InDelta(t, 1.35, margin, 0.01)
	c := newCounter(t)
	tool := &aycoder.Request{Tools: []*aycoder.ToolSpec{{Name: "x"}}}
	require.Greater(t, c.Estimate(Model{Provider: "anthropic"}, tool).Tokens, c.Estimate(gpt, tool).Tokens+300)
}
