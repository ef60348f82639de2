package forecast_test

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/insight/forecast"
)

// ranks returns the ranks of values; equal ones share theirs.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			out[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}

// spearman is the correlation of ranks.
func spearman(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	var sx, sy, sxx, syy, sxy float64
	n := float64(len(x))
	for i := range x {
		sx, sy, sxx, syy, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

func TestSpearman(t *testing.T) {
	require.InDelta(t, 1, spearman([]float64{1, 2, 3}, []float64{1, 10, 100}), 1e-9)
	require.InDelta(t, -1, spearman([]float64{1, 2, 3}, []float64{3, 2, 1}), 1e-9)
	// By the definition, with the mean ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4.
	require.InDelta(t, 0.9486832980505138, spearman([]float64{1, 2, 2, 3}, []float64{1, 2, 3, 4}), 1e-9)
}

func medianOf(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	if len(values) == 0 {
		return 0
	}
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// Tasks are commits whose subject names an issue. Forecasts know the older half, and of the newer half only the words: how
// they are related to the lines and files changed, beside the length of the text and the median of its kind; how many tasks
// the ranges hold, where there is one; and how many of the files are among the ten most probable, beside the ten that have
// changed most.
func TestAsHistory(t *testing.T) {
	dirs, _ := filepath.Glob(filepath.Join(os.Getenv("AYCODER_REPOS"), "*"))
	if os.Getenv("AYCODER_REPOS") == "" {
		t.Skip("AYCODER_REPOS names no directory of repositories")
	}
	issue := regexp.MustCompile(`\(?#\d+\)?`)
	for _, dir := range dirs {
		all, err := forecast.Commits(t.Context(), dir)
		require.NoError(t, err)
		var tasks []forecast.Commit
		for _, c := range all {
			if issue.MatchString(c.Subject) && len(c.Files) > 0 {
				c.Subject = issue.ReplaceAllString(c.Subject, "")
				tasks = append(tasks, c)
			}
		}
		half := len(tasks) / 2
		train, test := tasks[:half], tasks[half:]
		f := forecast.New(forecast.Options{Commits: train})
		byKind, changed, known := map[string][2][]float64{}, map[string]int{}, map[string]bool{}
		for _, c := range train {
			k := byKind[forecast.KindOf(c.Subject)]
			byKind[forecast.KindOf(c.Subject)] = [2][]float64{append(k[0], float64(c.Lines)), append(k[1], float64(len(c.Files)))}
			for _, name := range c.Files {
				known[name] = true
				changed[name]++
			}
		}
		var names []string
		for name := range known {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(changed[b]-changed[a], cmp.Compare(a, b)) })
		names = names[:min(10, len(names))]
		var actual, ours, kind [2][]float64
		var length []float64
		var held, shown [2]int
		files, found, most := 0, 0, 0
		for _, c := range test {
			got := f.Of(c.Subject)
			length = append(length, float64(len(c.Subject)))
			for i, r := range []*forecast.Range{got.Lines, got.Files} {
				v := []float64{float64(c.Lines), float64(len(c.Files))}[i]
				actual[i], ours[i] = append(actual[i], v), append(ours[i], r.Median)
				kind[i] = append(kind[i], medianOf(byKind[forecast.KindOf(c.Subject)][i]))
				if r.Holds > 0 {
					shown[i]++
					if r.Least <= v && v <= r.Most {
						held[i]++
					}
				}
			}
			for _, name := range c.Files {
				if known[name] {
					files++
					if slices.ContainsFunc(got.Probable, func(p forecast.Probable) bool { return p.Path == name }) {
						found++
					}
					if slices.Contains(names, name) {
						most++
					}
				}
			}
		}
		for i, what := range []string{"lines", "files"} {
			t.Logf("%s, %s: %d tasks; Spearman %.2f, length %.2f, kind %.2f; range shown for %d, holds %.1f %%", filepath.Base(dir), what, len(test),
				spearman(actual[i], ours[i]), spearman(actual[i], length), spearman(actual[i], kind[i]), shown[i], 100*float64(held[i])/float64(max(1, shown[i])))
		}
		t.Logf("%s: of %d changed files, %.0f %% are among the ten most probable, %.0f %% among the ten most changed", filepath.Base(dir), files,
			100*float64(found)/float64(files), 100*float64(most)/float64(files))
	}
}
