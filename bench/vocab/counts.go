package vocab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
)

// Counts counts the tokens of each text with each vocabulary, in the order of both. If cache is not
// empty, it is the name of a file in which the counts are kept for the next call.
func Counts(texts []Text, vs []Vocabulary, cache string) ([][]int, error) {
	known := map[uint64]map[string]int{}
	if data, err := os.ReadFile(cache); err == nil {
		if err := json.Unmarshal(data, &known); err != nil {
			return nil, fmt.Errorf("read %s: %w", cache, err)
		}
	} else if cache != "" && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := make([][]int, len(texts))
	errs := make([]error, len(texts))
	work := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range work {
				out[i], errs[i] = count(texts[i], vs, known[texts[i].Hash])
			}
		})
	}
	for i := range texts {
		work <- i
	}
	close(work)
	wg.Wait()
	if err := errors.Join(errs...); err != nil || cache == "" {
		return out, err
	}
	for i, t := range texts {
		if known[t.Hash] == nil {
			known[t.Hash] = map[string]int{}
		}
		for v, n := range out[i] {
			known[t.Hash][vs[v].Name] = n
		}
	}
	data, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	return out, os.WriteFile(cache, data, 0o666)
}

func count(t Text, vs []Vocabulary, known map[string]int) ([]int, error) {
	out := make([]int, len(vs))
	for i, v := range vs {
		n, ok := known[v.Name]
		if !ok {
			var err error
			if n, err = v.Count(t.Data); err != nil {
				return nil, fmt.Errorf("count %s with %s: %w", t.Name, v.Name, err)
			}
		}
		out[i] = n
	}
	return out, nil
}
