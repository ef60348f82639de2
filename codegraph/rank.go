package codegraph

import "slices"

// Of a walk over the dependencies, restart is the chance that a step begins anew at the files in play, and
// backward is the weight of a step to a user of a file, for each of its uses.
const (
	restart  = 0.5
	backward = 0.1
	rounds   = 20 // after which a millionth of the weight is still on its way
)

// rank returns how likely a random walk from the given files, which have weights, is to be at each file. The walk
// follows the uses of declarations. This is personalised PageRank (Page, Brin, Motwani and Winograd, The
// PageRank Citation Ranking, 1999, section 6).
func (s *Snapshot) rank(from map[int]float64) []float64 {
	l := s.links()
	start, now := make([]float64, len(s.files)), make([]float64, len(s.files))
	sum := 0.0
	for i := range start {
		start[i] = from[i]
		sum += from[i]
	}
	for i := range start {
		start[i] /= max(sum, 1e-300)
	}
	copy(now, start)
	for range rounds {
		now = l.step(now, start)
	}
	return now
}

// step moves the weight of each file to its neighbours once.
func (l *links) step(now, start []float64) []float64 {
	next := make([]float64, len(now))
	for i, w := range start {
		next[i] = restart * w
	}
	for i, w := range now {
		if w == 0 {
			continue
		}
		total := 0.0
		for _, u := range l.uses[i] {
			total += float64(u)
		}
		for _, u := range l.users[i] {
			total += backward * l.usesOf(u, int32(i))
		}
		if total == 0 {
			next[i] += (1 - restart) * w
			continue
		}
		share := (1 - restart) * w / total
		for k, d := range l.deps[i] {
			next[d] += share * float64(l.uses[i][k])
		}
		for _, u := range l.users[i] {
			next[u] += share * backward * l.usesOf(u, int32(i))
		}
	}
	return next
}

// usesOf returns how often a file uses one of its dependencies.
func (l *links) usesOf(user, dep int32) float64 {
	k, _ := slices.BinarySearch(l.deps[user], dep)
	return float64(l.uses[user][k])
}
