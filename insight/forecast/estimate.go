package forecast

import (
	"math"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder/retrieval"
)

// similar is how many tasks a forecast is made from.
const similar = 10

// past knows tasks by their words.
type past struct {
	words []string
	kinds []string
	index *retrieval.Lexical
}

func newPast(words []string) *past {
	p := &past{words: words, index: retrieval.NewLexical()}
	for i, w := range words {
		p.kinds = append(p.kinds, KindOf(w))
		p.index.Put(retrieval.Item{ID: strconv.Itoa(i)}, w)
	}
	return p
}

// like returns the most similar tasks, the best first. If fewer have a word of the question, the newest of its kind
// follow, and then the newest.
func (p *past) like(words string, keep func(int) bool) []int {
	var out []int
	has := map[int]bool{}
	add := func(i int) {
		if len(out) < similar && !has[i] && (keep == nil || keep(i)) {
			out, has[i] = append(out, i), true
		}
	}
	for _, m := range p.index.Search(words, similar, func(it *retrieval.Item) bool {
		return keep == nil || keep(atoi(it.ID))
	}) {
		add(atoi(m.Item.ID))
	}
	kind := KindOf(words)
	for i := len(p.words) - 1; i >= 0 && len(out) < similar; i-- {
		if p.kinds[i] == kind {
			add(i)
		}
	}
	for i := len(p.words) - 1; i >= 0 && len(out) < similar; i-- {
		add(i)
	}
	return out
}

// Range is what similar tasks took.
type Range struct {
	// Median is that of the similar tasks.
	Median float64 `json:"median"`
	// Least and Most are the ends of a range in which four of five tasks are expected, if Holds is set. Otherwise they are the
	// least and the most of the similar tasks, which says nothing about the next one.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Holds is the part of the newer tasks for which a range made from the older ones was right, from 0.75 to 0.85. It is 0
	// if there were too few to try it, or if no range was right so often.
	Holds float64 `json:"holds,omitempty"`
}

const (
	fewest    = 50   // tasks by which a range is tried
	most      = 400  // of them
	aim       = 0.8  // of the tasks are to be in the range
	tolerance = 0.05 // for this part
)

// quantile returns the value at a part of sorted values, between two of them where it is.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	if i < 0 {
		return sorted[0]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// ends returns the range of sorted values without a part at both ends, rounded outwards to a unit.
func ends(sorted []float64, q, unit float64) (least, most float64) {
	return unit * math.Floor(quantile(sorted, q)/unit), unit * math.Ceil(quantile(sorted, 1-q)/unit)
}

// level returns the part to leave out at both ends so that ranges made from the older half hold four of five tasks of the
// newer half, and how many they do hold. It returns false if there is none, or too few tasks.
func (p *past) level(values []float64, unit float64) (q, holds float64, ok bool) {
	n := len(values)
	first := max(n/2, n-most)
	if n-first < fewest {
		return 0, 0, false
	}
	const levels = 31 // from 0 to 0.3
	var held [levels]int
	for i := first; i < n; i++ {
		near := p.valuesLike(p.words[i], values, func(j int) bool { return j < first })
		slices.Sort(near)
		for l := range levels {
			if a, b := ends(near, float64(l)/100, unit); a <= values[i] && values[i] <= b {
				held[l]++
			}
		}
	}
	best := math.Inf(1)
	for l := range levels {
		part := float64(held[l]) / float64(n-first)
		if d := math.Abs(part - aim); d < best {
			best, q, holds = d, float64(l)/100, part
		}
	}
	return q, holds, best <= tolerance
}

// valuesLike returns the values of the most similar tasks.
func (p *past) valuesLike(words string, values []float64, keep func(int) bool) []float64 {
	var near []float64
	for _, j := range p.like(words, keep) {
		near = append(near, values[j])
	}
	return near
}

// ranges makes forecasts of a value of tasks.
type ranges struct {
	*past
	values         []float64
	unit, q, holds float64
}

func (p *past) ranges(values []float64, unit float64) *ranges {
	r := &ranges{past: p, values: values, unit: unit}
	if q, holds, ok := p.level(values, unit); ok {
		r.q, r.holds = q, holds
	}
	return r
}

// of returns what similar tasks took.
func (r *ranges) of(words string) Range {
	near := r.valuesLike(words, r.values, nil)
	if len(near) == 0 {
		return Range{}
	}
	slices.Sort(near)
	out := Range{quantile(near, 0.5), near[0], near[len(near)-1], r.holds}
	if r.holds > 0 {
		out.Least, out.Most = ends(near, r.q, r.unit)
	}
	return out
}

// atoi returns the number of a task in an index.
func atoi(id string) int {
	i, _ := strconv.Atoi(id)
	return i
}
