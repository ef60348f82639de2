package codegraph

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/aycoder/aycoder/internal/order"
)

// Found is a file, or a declaration in it.
type Found struct {
	Path string
	// Decl is the index of the declaration in the facts of the file, or -1 for the file itself.
	Decl int
	// Score says how well it fits: higher is better. Scores of one query can be compared.
	Score int
}

// Find returns the files, and the declarations, whose names have the letters of a query in their order, the best
// first: "usrprof" finds user_profile.go, and "nwc" NewClient. Letters at the begin of words count
// more, and so do letters in a row. A query with a slash is compared with whole paths, another one with the
// names of files, of declarations, and less with paths. Case counts only where the query has a capital
// letter. At most limit results are returned.
func (s *Snapshot) Find(query string, limit int) []Found {
	q := newQuery(query)
	if len(q.letters) == 0 || limit < 1 {
		return nil
	}
	var found []Found
	for _, f := range s.files {
		score := q.score(f.path) / 2
		if !q.slash {
			score = max(score, q.score(path.Base(f.path)))
		}
		if score > 0 {
			found = append(found, Found{f.path, -1, score})
		}
		if f.facts == nil || q.slash {
			continue
		}
		for i, d := range f.facts.Decls {
			if d.Kind == source.Field {
				continue
			}
			if score := q.score(d.Name); score > 0 {
				found = append(found, Found{f.path, i, score})
			}
		}
		if (len(found)-4096)/64 > limit { // which may be the largest number
			found = best(found, limit)
		}
	}
	return best(found, limit)
}

// best sorts by score, and then by path.
func best(found []Found, limit int) []Found {
	order.By(found, func(a, b *Found) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(len(a.Path), len(b.Path)), strings.Compare(a.Path, b.Path), cmp.Compare(a.Decl, b.Decl))
	})
	return slices.Clone(found[:min(len(found), limit)])
}

// A fuzzyQuery is what Find looks for.
type fuzzyQuery struct {
	letters []rune
	exact   bool // case counts
	slash   bool
	first   []int // scratch: scores of the row above, and of this row
	second  []int
}

const maxQuery = 64 // letters

func newQuery(query string) *fuzzyQuery {
	q := &fuzzyQuery{slash: strings.Contains(query, "/")}
	for _, r := range query {
		if !unicode.IsSpace(r) && len(q.letters) < maxQuery {
			q.letters = append(q.letters, r)
			q.exact = q.exact || unicode.IsUpper(r)
		}
	}
	return q
}

// Points for a letter of the query that was found.
const (
	pointFound  = 10
	pointWord   = 25 // it begins a word
	pointNext   = 20 // it follows the letter before
	pointWhole  = 40 // the query is the whole name
	pointCase   = 1
	minusSkip   = 1 // for a letter that is left out, up to maxSkip
	maxSkip     = 15
	unreachable = -1 << 30
)

// score returns how well a name fits, or 0 if it does not have the letters.
func (q *fuzzyQuery) score(name string) int {
	if !q.within(name) {
		return 0
	}
	runes := []rune(name)
	n := len(runes)
	q.first, q.second = resize(q.first, n+1), resize(q.second, n+1)
	above, row := q.first, q.second // the best score so far that ends with the letter at j-1
	for j := range above {
		above[j] = unreachable
	}
	for k, letter := range q.letters {
		reach := unreachable // the best that ends before j
		if k == 0 {
			reach = 0
		}
		row[0] = unreachable
		for j := 1; j <= n; j++ {
			row[j] = unreachable
			if r := runes[j-1]; q.same(letter, r) {
				p := pointFound
				if begins(runes, j-1) {
					p += pointWord
				}
				if r == letter {
					p += pointCase
				}
				if reach > unreachable {
					row[j] = reach + p
				}
				if k > 0 && above[j-1] > unreachable {
					row[j] = max(row[j], above[j-1]+p+pointNext)
				}
			}
			if k > 0 {
				reach = max(reach, above[j]-minusSkip)
			}
		}
		above, row = row, above
	}
	best := slices.Max(above)
	if best <= unreachable {
		return 0
	}
	best -= min(n-len(q.letters), maxSkip) * minusSkip
	if n == len(q.letters) {
		best += pointWhole
	}
	return max(best, 1)
}

// within reports whether a name has the letters in their order. It is fast, as most names do not.
func (q *fuzzyQuery) within(name string) bool {
	letters := q.letters
	for _, r := range name {
		if len(letters) > 0 && q.same(letters[0], r) {
			letters = letters[1:]
		}
	}
	return len(letters) == 0
}

func (q *fuzzyQuery) same(letter, r rune) bool {
	return letter == r || !q.exact && unicode.ToLower(r) == letter
}

// begins reports whether a word begins at a place of a name: user_profile, userProfile, user/profile.
func begins(name []rune, i int) bool {
	if i == 0 {
		return true
	}
	before, r := name[i-1], name[i]
	return !unicode.IsLetter(before) && !unicode.IsDigit(before) || unicode.IsUpper(r) && !unicode.IsUpper(before) ||
		unicode.IsDigit(r) && !unicode.IsDigit(before)
}

func resize(s []int, n int) []int { return slices.Grow(s[:0], n)[:n] }
