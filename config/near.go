package config

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/closest"
)

// maxName is the longest name, in characters, that is taken for a mistyped one.
const maxName = 64

// nearest returns the name that somebody may have meant, or "". The name with the fewest typing mistakes
// comes first: package closest does not count a change of two neighbours, which is one of the most common.
func nearest(wrong string, of []string) string {
	found := closest.Closest(wrong, of, 1)
	if len(wrong) > maxName {
		return ""
	}
	best, least := "", 3
	for _, name := range of {
		if n := edits(fold(wrong), fold(name)); n < least && 2*n <= len(name) {
			best, least = name, n
		}
	}
	if best == "" && len(found) > 0 {
		return found[0]
	}
	return best
}

func fold(s string) []rune { return []rune(strings.ToLower(strings.ReplaceAll(s, "-", "_"))) }

// edits returns how many insertions, deletions, changes and swaps of neighbours make b of a.
func edits(a, b []rune) int {
	var before []int // the row before the last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := slices.Repeat([]int{i + 1}, len(b)+1)
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
