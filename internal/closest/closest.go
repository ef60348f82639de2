// Package closest finds the names that somebody may have meant.
package closest

import (
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// maxLen bounds the compared part of a name, in runes after folding. Names of tools and
// arguments are shorter, so a longer name is not a typing mistake.
const maxLen = 64

// Closest returns the names in of that are similar to name, the most similar first, at most
// limit of them. Equally similar names keep their order. Case and the separators "_", "-",
// "." and space do not count, so that "readFile" finds "read_file". Two names are similar
// if at most a third of the longer one is missing from the other, in the same order, or if
// one contains the other.
func Closest(name string, of []string, limit int) []string {
	want := fold(name)
	if len(want) == 0 || len(want) > maxLen {
		return nil
	}
	m := difflib.NewMatcherWithJunk(nil, want, false, nil)
	var found []match
	for _, n := range of {
		have := fold(n)
		if !mayBeSimilar(have, want) {
			continue
		}
		m.SetSeq1(have)
		r := m.Ratio()
		if !isSimilar(have, want, r) {
			continue
		}
		found = append(found, match{n, r})
		for i := len(found) - 1; i > 0 && found[i-1].ratio < r; i-- {
			found[i-1], found[i] = found[i], found[i-1]
		}
		found = found[:max(0, min(limit, len(found)))]
	}
	var names []string
	for _, m := range found {
		names = append(names, m.name)
	}
	return names
}

type match struct {
	name  string
	ratio float64
}

// fold makes names comparable and cuts them into letters. Of a long name it reads only the
// beginning.
func fold(name string) []string {
	if len(name) > 8*maxLen {
		return make([]string, maxLen+1)
	}
	return strings.Split(strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, name)), "")
}

// mayBeSimilar rules out names that are too long, or too different in length, before the
// costly comparison.
func mayBeSimilar(a, b []string) bool {
	longer, shorter := max(len(a), len(b)), min(len(a), len(b))
	return longer <= maxLen && shorter > 0 && (isClose(longer, shorter) || contain(a, b))
}

// isSimilar compares the ratio of twice the common letters to the letters of both names.
func isSimilar(a, b []string, ratio float64) bool {
	common := int(ratio*float64(len(a)+len(b))/2 + 0.5)
	return isClose(max(len(a), len(b)), common) || contain(a, b)
}

// isClose reports whether enough letters of the longer name are in both.
func isClose(longer, common int) bool { return longer-common <= (longer+1)/3 }

// contain reports whether one name contains the other.
func contain(a, b []string) bool {
	if min(len(a), len(b)) < 3 {
		return false
	}
	s, t := strings.Join(a, ""), strings.Join(b, "")
	return strings.Contains(s, t) || strings.Contains(t, s)
}

// Hint names up to three strings that may have been meant, for the end of a message, or returns "".
func Hint(word string, candidates []string) string {
	if list := Closest(word, candidates, 3); len(list) > 0 {
		return "; similar ones: " + strings.Join(list, ", ")
	}
	return ""
}
