// Command measure compares the estimates of package tokens with real counts, for the tables in
// docs/benchmarks.md.
//
//	go run ./measure -cache /tmp/counts.json "$(go env GOROOT)/src" "$(go env GOMODCACHE)" /usr/share
//
// The arguments are directories with texts. Half of the texts of each kind served to fit the
// weights, chosen by a hash of the text; only the other half is measured here.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/bench/vocab"
	"github.com/aycoder/aycoder/tokens"
)

const prompt = "Go on."

func main() {
	limit := flag.Int("limit", 80, "texts of each kind")
	cache := flag.String("cache", "", "`file` that keeps the counts for the next call")
	draws := flag.Int("draws", 10_000, "budgets to fill with each vocabulary")
	uniform := flag.Bool("uniform", false, "choose all kinds of texts with the same probability")
	seed := flag.Uint64("seed", 1, "of the random choices")
	flag.Parse()
	if err := run(flag.Args(), *limit, *cache, *draws, *seed, *uniform); err != nil {
		log.Fatal(err)
	}
}

func run(roots []string, limit int, cache string, draws int, seed uint64, uniform bool) error {
	texts, err := vocab.Read(roots, limit)
	if err != nil {
		return err
	}
	vs, err := vocab.Open()
	if err != nil {
		return err
	}
	counts, err := vocab.Counts(texts, vs, cache)
	if err != nil {
		return err
	}
	m := &measurement{counter: tokens.New(), uniform: uniform, rng: rand.New(rand.NewPCG(seed, seed)), kinds: map[string][]sample{}}
	for i, t := range texts {
		if t.Hash&1 == 1 {
			m.kinds[t.Kind] = append(m.kinds[t.Kind], sample{aycoder.User(t.Data), counts[i], len(t.Data)})
		}
	}
	maps.DeleteFunc(m.kinds, func(_ string, s []sample) bool { return len(s) < 5 })
	m.names = slices.Sorted(maps.Keys(m.kinds))
	m.classify()
	for _, vocabulary := range vs {
		n, err := vocabulary.Count(prompt)
		if err != nil {
			return err
		}
		m.prompt = append(m.prompt, n)
	}
	fmt.Println("## Files: error without a correction, and after three corrections by files of the same kind")
	for v, vocabulary := range vs {
		m.files(vocabulary.Name, v)
	}
	fmt.Println("## Requests of 2 to 30 files of 1 to 4 kinds: the same")
	for v, vocabulary := range vs {
		m.requests(vocabulary.Name, v)
	}
	for _, observed := range []int{0, 3, 8} {
		for _, shift := range []bool{false, true} {
			fmt.Printf("## Budgets after %d corrections; other kinds of files than before: %v\n", observed, shift)
			for v, vocabulary := range vs {
				m.budgets(vocabulary.Name, v, observed, shift, draws)
			}
		}
	}
	return nil
}

// A sample is a text in a message, and its count by each vocabulary.
type sample struct {
	message *aycoder.Message
	counts  []int
	bytes   int
}

type measurement struct {
	counter *tokens.Counter
	models  int // that were asked
	rng     *rand.Rand
	kinds   map[string][]sample
	names   []string // of kinds
	// classes are code, markup, outputs and prose.
	classes [4][]string
	uniform bool
	prompt  []int // its counts
}

// pick returns a text of one of the kinds.
func (m *measurement) pick(kinds []string) sample {
	of := m.kinds[kinds[m.rng.IntN(len(kinds))]]
	return of[m.rng.IntN(len(of))]
}

// toolOutput and markup are the kinds that are neither code nor a natural language.
var (
	toolOutput = []string{"base64", "diff", "grep", "hexdump", "listing", "log", "minified", "stat", "tests"}
	markup     = []string{"css", "csv", "html", "json", "markdown", "proto", "rst", "sql", "svg", "toml", "xml", "yaml"}
)

// mix returns one to four kinds, of the classes that a coding agent meets: half of them programming
// languages, a fifth markup and data, as many outputs of commands, and a tenth prose in any language.
// If uniform is set, all kinds are as likely, so that nearly half of them are natural languages.
func (m *measurement) mix() []string {
	kinds := make([]string, 1+m.rng.IntN(4))
	for i := range kinds {
		of := m.names
		if !m.uniform {
			of = m.classes[[]int{0, 0, 0, 0, 0, 1, 1, 2, 2, 3}[m.rng.IntN(10)]]
		}
		kinds[i] = of[m.rng.IntN(len(of))]
	}
	return kinds
}

// classify sorts the kinds into code, markup, outputs and prose.
func (m *measurement) classify() {
	for _, kind := range m.names {
		class := 0
		switch {
		case slices.Contains(markup, kind):
			class = 1
		case slices.Contains(toolOutput, kind):
			class = 2
		case vocab.Spoken(kind), kind == "manual", kind == "text":
			class = 3
		}
		m.classes[class] = append(m.classes[class], kind)
	}
}

// A request is a request with its true number of tokens. Providers add about as many tokens to a
// request and to each message as the estimate has for that.
type request struct {
	req   aycoder.Request
	count int64
}

// add returns a request with another message.
func (r request) add(s sample, v int) request {
	if len(r.req.Messages) == 0 {
		r.count = 3
	}
	r.req.Messages = append(slices.Clip(r.req.Messages), s.message)
	r.count += 5 + int64(s.counts[v])
	return r
}

// more adds n texts of these kinds.
func (m *measurement) more(r request, kinds []string, v, n int) request {
	for range n {
		r = r.add(m.pick(kinds), v)
	}
	return r
}

// A knowledge is what a counter knows of a model.
type knowledge struct {
	*tokens.Counter
	model tokens.Model
}

// fresh returns a counter that has counted the texts before, and a model of which it knows nothing.
func (m *measurement) fresh() knowledge {
	m.models++
	return knowledge{m.counter, tokens.Model{Provider: "test", Name: strconv.Itoa(m.models)}}
}

func (k knowledge) observe(r request) { k.Observe(k.model, &r.req, aycoder.Usage{Input: r.count}) }

// asked ends a request with a new prompt. A counter finds what it has observed by the last message: if
// that were one of the texts, the count of an earlier draw, with another vocabulary, would pass for a part of a
// later request.
func (m *measurement) asked(r request, v int) request {
	return r.add(sample{message: aycoder.User(prompt), counts: m.prompt}, v)
}

// wrong returns the relative error of the estimate.
func (k knowledge) wrong(r request) float64 {
	return math.Abs(float64(k.Estimate(k.model, &r.req).Tokens)/float64(r.count) - 1)
}

// files prints the errors for single files.
func (m *measurement) files(name string, v int) {
	var quarter, before, after []float64
	for _, kind := range m.names {
		for _, s := range m.kinds[kind] {
			k, r := m.fresh(), request{}.add(s, v)
			quarter = append(quarter, math.Abs(float64(s.bytes)/4/float64(s.counts[v])-1))
			before = append(before, k.wrong(r))
			for range 3 {
				k.observe(m.asked(m.more(request{}, []string{kind}, v, 1), v))
			}
			after = append(after, k.wrong(r))
		}
	}
	fmt.Printf("%-7s bytes/4: %s  without: %s  with: %s\n", name, spread(quarter), spread(before), spread(after))
}

// requests prints the errors for requests.
func (m *measurement) requests(name string, v int) {
	var before, after []float64
	for range 2000 {
		kinds, k := m.mix(), m.fresh()
		r := m.more(request{}, kinds, v, 2+m.rng.IntN(29))
		before = append(before, k.wrong(r))
		for range 3 {
			k.observe(m.asked(m.more(request{}, kinds, v, 2+m.rng.IntN(29)), v))
		}
		after = append(after, k.wrong(r))
	}
	fmt.Printf("%-7s without: %s  with: %s\n", name, spread(before), spread(after))
}

// budgets fills budgets of 20,000 to 200,000 tokens, up to the margin, and prints how many requests
// are larger than their budget, and how full the others are.
func (m *measurement) budgets(name string, v, observed int, shift bool, draws int) {
	over, worst := 0, 0.0
	var fill []float64
	for range draws {
		kinds, k := m.mix(), m.fresh()
		var talk request
		for range observed { // a conversation: each request repeats the one before
			talk = m.asked(m.more(talk, kinds, v, 1+m.rng.IntN(10)), v)
			k.observe(talk)
		}
		if shift {
			kinds = m.mix()
		}
		budget := int64(20_000 * math.Pow(10, m.rng.Float64()))
		var r request
		for misses := 0; misses < 20; {
			next := r.add(m.pick(kinds), v)
			if k.Estimate(k.model, &next.req).Max() > budget {
				misses++
				continue
			}
			r = next
		}
		full := float64(r.count) / float64(budget)
		fill = append(fill, full)
		worst = max(worst, full)
		if full > 1 {
			over++
		}
	}
	slices.Sort(fill)
	fmt.Printf("%-7s over budget: %.2f %%, worst %.2f; filled: median %.1f %%, 5th percentile %.1f %%\n", name,
		100*float64(over)/float64(draws), worst, 100*quantile(fill, 0.5), 100*quantile(fill, 0.05))
}

func spread(errors []float64) string {
	slices.SortFunc(errors, cmp.Compare)
	return fmt.Sprintf("p50 %4.1f %% p95 %4.1f %%", 100*quantile(errors, 0.5), 100*quantile(errors, 0.95))
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }
