// Command fit finds the weights of package internal/textcost, and prints them in thousandths.
//
//	go run ./fit -cache /tmp/counts.json "$(go env GOROOT)/src" "$(go env GOMODCACHE)" /usr/share
//
// The arguments are directories with texts. Half of them are used, chosen by a hash of the text;
// the other half is for command measure.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"slices"

	"github.com/aycoder/aycoder/bench/vocab"
	"github.com/aycoder/aycoder/internal/textcost"
)

// features is the number of weights.
const features = len(textcost.Features{})

// fitted is the number of vocabularies, from the first on, to which the weights are fitted.
const fitted = 4

func main() {
	limit := flag.Int("limit", 80, "texts of each kind")
	cache := flag.String("cache", "", "`file` that keeps the counts for the next call")
	flag.Parse()
	texts, err := vocab.Read(flag.Args(), *limit)
	if err != nil {
		log.Fatal(err)
	}
	vs, err := vocab.Open()
	if err != nil {
		log.Fatal(err)
	}
	counts, err := vocab.Counts(texts, vs[:fitted], *cache)
	if err != nil {
		log.Fatal(err)
	}
	var f fit
	kinds := map[string]float64{}
	for i, t := range texts {
		if t.Hash&1 == 0 {
			kinds[t.Kind]++
			f.samples = append(f.samples, sample{textcost.Scan(t.Data), counts[i], t.Kind})
		}
	}
	for _, s := range f.samples {
		f.kindWeight = append(f.kindWeight, 1/math.Sqrt(kinds[s.kind]))
	}
	f.run()
	for i, w := range f.weights {
		fmt.Printf("%2d: %4.0f\n", i, 1000*w)
	}
	for v := range fitted {
		fmt.Printf("%s counts %.3f times the estimate\n", vs[v].Name, f.scale(v))
	}
}

type sample struct {
	features textcost.Features
	counts   []int
	kind     string
}

// A fit minimizes the absolute relative errors by least squares with weights that are adapted in
// each round. Each vocabulary has a scale, so that only the differences between texts count.
type fit struct {
	samples    []sample
	kindWeight []float64
	weights    [features]float64
}

func (f *fit) estimate(s sample) float64 {
	sum := 0.0
	for i, n := range s.features {
		sum += float64(n) * f.weights[i]
	}
	return max(sum, 1)
}

// scale returns the median ratio of count to estimate.
func (f *fit) scale(v int) float64 {
	ratios := make([]float64, len(f.samples))
	for i, s := range f.samples {
		ratios[i] = float64(s.counts[v]) / f.estimate(s)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func (f *fit) run() {
	for i := range f.weights {
		f.weights[i] = 1
	}
	for range 40 {
		var scales [fitted]float64
		mean := 1.0
		for v := range scales {
			scales[v] = f.scale(v)
			mean *= math.Pow(scales[v], 1.0/fitted)
		}
		var a [features][features]float64
		var b [features]float64
		for i, s := range f.samples {
			estimate := f.estimate(s)
			for v := range scales {
				want := float64(s.counts[v]) * mean / scales[v] // the mean of all scales becomes 1
				weight := f.kindWeight[i] / max(math.Abs(estimate*mean/want-1), 0.03)
				f.add(&a, &b, s.features, want, weight)
			}
		}
		f.solve(&a, &b)
	}
}

// add adds the equation features × weights = want to the normal equations.
func (f *fit) add(a *[features][features]float64, b *[features]float64, x textcost.Features, want, weight float64) {
	for i := range x {
		if x[i] == 0 {
			continue
		}
		xi := weight * float64(x[i]) / want
		b[i] += xi
		for j := range x {
			a[i][j] += xi * float64(x[j]) / want
		}
	}
}

// solve finds the weights, none below 0, by coordinate descent.
func (f *fit) solve(a *[features][features]float64, b *[features]float64) {
	for range 300 {
		for i := range a {
			if a[i][i] == 0 {
				continue
			}
			gradient := b[i]
			for j := range a {
				gradient -= a[i][j] * f.weights[j]
			}
			f.weights[i] = max(0, f.weights[i]+gradient/a[i][i])
		}
	}
}
