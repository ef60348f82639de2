package words

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
)

// Rank returns the indices of the texts that have words of a query, the best first. Each text has as many fields as
// there are weights. A word counts the more, the fewer texts have it, and half if it only differs by a typing error.
// Rank stops when ctx is done, and then returns nil.
func Rank(ctx context.Context, query string, texts [][]string, weights ...float64) []int {
	have := make([][]map[string]bool, len(texts))
	for i, fields := range texts {
		for _, f := range fields {
			have[i] = append(have[i], setOf(f))
		}
	}
	scores := make([]float64, len(texts))
	for _, word := range slices.Sorted(maps.Keys(setOf(query))) { // as sums of floats depend on the order
		if ctx.Err() != nil {
			return nil
		}
		fits, n := make([]float64, len(texts)), 0
		for i, fields := range have {
			for j, w := range weights {
				fits[i] += w * fit(fields[j], word)
			}
			if fits[i] > 0 {
				n++
			}
		}
		for i, f := range fits {
			scores[i] += f * math.Log(1+float64(len(texts))/float64(max(n, 1)))
		}
	}
	var best []int
	for i, s := range scores {
		if s > 0 {
			best = append(best, i)
		}
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return best
}

// fit returns how well a set of words has a word.
func fit(have map[string]bool, word string) float64 {
	if have[word] {
		return 1
	}
	letters := []rune(word)
	limit := Tolerance(letters)
	for w := range have {
		if limit > 0 && Distance(letters, []rune(w), limit) <= limit {
			return 0.5
		}
	}
	return 0
}

func setOf(text string) map[string]bool {
	all := map[string]bool{}
	for w := range Of(text) {
		all[string(w.Text)] = true
	}
	return all
}
