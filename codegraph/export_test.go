package codegraph

import (
	"fmt"
)

// Score returns the score of a name for a query.
func Score(query, name string) int {
	q := newQuery(query)
	if len(q.letters) == 0 {
		return 0
	}
	return q.score(name)
}

// Cached returns the number of files whose facts are in a cache.
func Cached(dir string) int { return len(loadCache(dir)) }

// Edges returns all that is known of the files of a snapshot, in words.
func Edges(s *Snapshot) (out []string) {
	for _, f := range s.files {
		out = append(out, f.path)
		for _, e := range f.imports {
			out = append(out, fmt.Sprintf("%s imports %+v", f.path, e))
		}
		for r := range f.refs.All() {
			out = append(out, fmt.Sprintf("%s uses %+v", f.path, r))
		}
		if f.facts != nil {
			out = append(out, fmt.Sprintf("%s says %+v", f.path, *f.facts))
		}
	}
	return out
}
