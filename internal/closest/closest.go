// Package closest finds the names that somebody may have meant.
package closest

import (
	"cmp"
	"slices"
	"strings"
)

// maxLen bounds the length of what is compared, in runes after folding. Names of
// tools and arguments are shorter; longer ones are nobody's typing mistake.
const maxLen = 64

// Closest returns the names in of that are similar to name, the most similar
// first, at most limit of them. Equally similar names keep their order. Case and the
// separators "_", "-", "." and space do not count, so that "readFile" finds
// "read_file". Similar means that a third of the longer name may be wrong (a
// letter added, left out, replaced, or swapped with its neighbour), or that one
// name contains the other.
func Closest(name string, of []string, limit int) []string {
	want := fold(name)
	if len(want) == 0 || len(want) > maxLen {
		return nil
	}
	var found []match
	for _, n := range of {
		if d, ok := similar(want, fold(n)); ok {
			found = append(found, match{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, m := range found[:max(0, min(limit, len(found)))] {
		names = append(names, m.name)
	}
	return names
}

type match struct {
	name     string
	distance int
}

// fold makes names comparable. It reads no more than it needs of a long one.
func fold(name string) []rune {
	if len(name) > 8*maxLen {
		return make([]rune, maxLen+1)
	}
	return []rune(strings.ToLower(separators.Replace(name)))
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

func similar(a, b []rune) (int, bool) {
	longer, shorter := max(len(a), len(b)), min(len(a), len(b))
	if longer > maxLen || shorter == 0 {
		return 0, false
	}
	d := distance(a, b)
	if d <= (longer+1)/3 {
		return d, true
	}
	if shorter >= 3 && contains(a, b) {
		return d, true
	}
	return 0, false
}

func contains(a, b []rune) bool {
	s, t := string(a), string(b)
	return strings.Contains(s, t) || strings.Contains(t, s)
}

// distance counts the edits that make b of a, where swapping two neighbours is
// one edit (Damerau-Levenshtein, each place edited once).
func distance(a, b []rune) int {
	var rows [3][maxLen + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
