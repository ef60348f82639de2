// Package payer has models for tests that answer at random, and keep their own account of what they have charged.
package payer

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/aycoder/aycoder"
)

// Bill is what models have charged. It is safe for concurrent use.
type Bill struct {
	mu      sync.Mutex
	answers int
	usage   aycoder.Usage
	cents   int64
	models  map[string]int64
}

// Total returns the number of answers, their tokens, and their costs in US cents.
func (b *Bill) Total() (answers int, usage aycoder.Usage, cents int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers, b.usage, b.cents
}

// Cents returns what a model has charged.
func (b *Bill) Cents(model string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.models[model]
}

// Model is a client whose answers call some of its Tools, with {"text":"x"}, or {"task":"do it"} for the tool "sub".
type Model struct {
	Name  string
	Tools []string
	Bill  *Bill
	mu    sync.Mutex
	rand  *rand.Rand
}

// New returns a model.
func New(bill *Bill, seed uint64, name string, tools ...string) *Model {
	return &Model{Name: name, Tools: tools, Bill: bill, rand: rand.New(rand.NewPCG(seed, 1))}
}

// Stream implements [aycoder.ModelClient].
func (p *Model) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		r, stop := p.rand, aycoder.StopEndTurn
		for i := range r.IntN(4) {
			if len(p.Tools) == 0 || r.IntN(3) == 0 {
				break
			}
			name, args := p.Tools[r.IntN(len(p.Tools))], json.RawMessage(`{"text":"x"}`)
			if name == "sub" {
				args = json.RawMessage(`{"task":"do it"}`)
			}
			use := &aycoder.ToolUse{ID: fmt.Sprintf("c%d_%d", r.Uint32(), i), Name: name, Args: args}
			if stop = aycoder.StopToolUse; !yield(&aycoder.BlockDone{Part: use}, nil) {
				return
			}
		}
		if stop == aycoder.StopEndTurn && !yield(&aycoder.BlockDone{Part: &aycoder.Text{Text: "done"}}, nil) {
			return
		}
		u := aycoder.Usage{Input: r.Int64N(1000), Output: 1 + r.Int64N(100), CacheRead: r.Int64N(50), CacheWrite: r.Int64N(50)}
		cents := 1 + r.Int64N(99)
		p.Bill.charge(p.Name, u, cents)
		yield(&aycoder.MessageDone{Stop: stop, Usage: u, Cost: new(float64(cents) / 100), Model: p.Name, Provider: "fake",
			ID: fmt.Sprint(r.Int64())}, nil)
	}
}

func (b *Bill) charge(model string, u aycoder.Usage, cents int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.models == nil {
		b.models = map[string]int64{}
	}
	b.answers, b.usage, b.cents = b.answers+1, b.usage.Add(u), b.cents+cents
	b.models[model] += cents
}
