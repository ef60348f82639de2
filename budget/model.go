package budget

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/tokens"
)

const (
	longestAnswer = 16 << 10 // tokens, of a model that does not say it
	maxUsage      = 1 << 30  // tokens: more than any request uses
	maxUnpriced   = 64
)

// Model makes a client draw on the budget. It is an [aycoder.ModelMiddleware]. Wrap each client that
// spends, and put Model inside of Cache, Fallback and Retry of package middleware: then each request that
// is really sent has a reservation, and the price is that of the client which answers. Of two clients
// inside of each other that use the same Pot, the outer one counts. Model panics if next is nil.
func (p *Pot) Model(next aycoder.ModelClient) aycoder.ModelClient {
	if next == nil {
		panic("budget: the client is nil")
	}
	return &model{p, next}
}

type model struct {
	pot  *Pot
	next aycoder.ModelClient
}

// Unwrap returns the wrapped client, for [aycoder.As].
func (m *model) Unwrap() aycoder.ModelClient { return m.next }

// heldKey marks the context of a request for which a pot has a reservation.
type heldKey struct{ *Pot }

type yieldFunc = func(aycoder.ModelEvent, error) bool

// Stream implements [aycoder.ModelClient].
func (m *model) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	if req == nil || ctx.Value(heldKey{m.pot}) != nil {
		return m.next.Stream(ctx, req)
	}
	return part.Once(func(yield yieldFunc) { m.stream(ctx, req, yield) })
}

func (m *model) stream(ctx context.Context, req *aycoder.Request, yield yieldFunc) {
	c := m.call(req)
	if err := m.pot.reserve(ctx, c); err != nil {
		yield(nil, c.failed(err))
		return
	}
	defer c.end(ctx)
	if err := c.claim(ctx); err != nil {
		yield(nil, c.failed(err))
		return
	}
	work, end := m.pot.begin(context.WithValue(ctx, heldKey{m.pot}, true))
	defer end()
	for ev, err := range m.next.Stream(work, req) {
		over := c.note(ctx, ev)
		if used, ok := errors.AsType[*ExhaustedError](context.Cause(work)); ok && ctx.Err() == nil && !c.done {
			over = used
		}
		switch {
		case over != nil:
			yield(nil, c.failed(over))
			return
		case err != nil:
			yield(nil, err)
			return
		case !yield(ev, nil):
			return
		}
	}
}

// A call is one request, from its reservation to what it cost.
type call struct {
	pot    *Pot
	client aycoder.ModelClient
	model  tokens.Model
	req    *aycoder.Request
	need   amounts
	priced bool  // the price is known before the answer
	input  int64 // tokens, estimated
	heard  int64 // bytes of the answer that are not paid for
	began  bool
	done   bool // the answer is complete and paid for

	claimed Reservation // in the ledger, or nil
	owed    amounts     // what was counted since then
}

// call estimates a request: its input with a margin, and the longest answer.
func (m *model) call(req *aycoder.Request) *call {
	c := &call{pot: m.pot, client: m.next, model: tokens.ModelOf(m.next, req.Model), req: req}
	n := m.pot.counter.Estimate(c.model, req)
	c.input = n.Tokens
	info, _ := c.info(c.model.Provider, c.model.Name)
	answer := int64(max(req.MaxTokens, 0))
	if l, ok := aycoder.As[tokens.AnswerLimiter](m.next); ok && answer == 0 {
		answer = l.AnswerLimit()
	}
	if answer = cmp.Or(max(answer, 0), info.MaxOutput, longestAnswer); info.MaxOutput > 0 {
		answer = min(answer, info.MaxOutput)
	}
	most := aycoder.Usage{Input: min(n.Max(), maxUsage), Output: min(answer, maxUsage)}
	c.need[tokenCount] = most.Input + most.Output
	if c.priced = info.Price != nil; c.priced {
		written := aycoder.Usage{CacheWrite: most.Input, Output: most.Output}
		c.need[money] = nanos(max(most.Cost(*info.Price), written.Cost(*info.Price)))
	}
	return c
}

// info describes a model.
func (c *call) info(provider, name string) (aycoder.ModelInfo, bool) {
	if c.pot.conf.Models != nil {
		if info, ok := c.pot.conf.Models(provider, name); ok {
			return info, true
		}
	}
	m, ok := aycoder.As[aycoder.ModelInfoer](c.client)
	if !ok {
		return aycoder.ModelInfo{}, false
	}
	info, ok := m.ModelInfo(name)
	if provider != "" && info.Provider != "" && provider != info.Provider {
		return aycoder.ModelInfo{}, false // of another client, to which this one fell back
	}
	return info, ok
}

// failed makes a [*aycoder.ModelError] of an error of the budget.
func (c *call) failed(err error) error {
	return &aycoder.ModelError{Provider: c.model.Provider, Model: c.model.Name, Err: err}
}

// note counts an event. An error says that the budget does not allow another attempt.
func (c *call) note(ctx context.Context, ev aycoder.ModelEvent) error {
	switch ev := ev.(type) {
	case nil:
	case *aycoder.TextDelta:
		c.hear(len(ev.Text))
	case *aycoder.ThinkingDelta:
		c.hear(len(ev.Text))
	case *aycoder.ToolDelta:
		c.hear(len(ev.Name) + len(ev.Args))
	case *aycoder.MessageDone:
		if ev != nil {
			c.answered(ctx, ev)
		}
	case *aycoder.Retrying: // the client sends the request again
		c.brokeOff()
		c.settle(ctx)
		return c.again(ctx)
	default:
		c.hear(0)
	}
	return nil
}

// again reports whether the budget allows another attempt.
func (c *call) again(ctx context.Context) error {
	c.pot.mu.Lock()
	err := c.pot.exhausted(money, tokenCount, work)
	c.pot.mu.Unlock()
	if err != nil {
		return err
	}
	return c.claim(ctx)
}

func (c *call) hear(bytes int) {
	c.began = true
	c.heard += int64(bytes)
}

// answered pays for a complete answer.
func (c *call) answered(ctx context.Context, d *aycoder.MessageDone) {
	u := plausible(d.Usage)
	silent := u == (aycoder.Usage{})
	if !silent {
		c.pot.counter.Observe(c.model, c.req, u)
	}
	if silent = silent && !told(d.Cost); silent {
		u = c.estimate()
	}
	count := c.count(d, u)
	c.pay(func(p *Pot) {
		rate := count()
		if silent {
			p.uncounted++
		}
		p.learn(c, rate)
	})
	c.settle(ctx)
}

// count returns what counts the cost of an answer, under the mutex of the pot: to find it, it asks the host. It
// returns the cost of a token.
func (c *call) count(d *aycoder.MessageDone, u aycoder.Usage) func() float64 {
	cost, known := c.cost(d, u)
	return func() float64 {
		n := u.Input + u.CacheRead + u.CacheWrite + u.Output
		if rate := c.pot.rates[c.model]; !known && rate > 0 {
			cost, known = scaled(rate, n), true
		}
		spent := amounts{cost, n}
		c.pot.spent.add(spent)
		c.owed.add(spent)
		if !known {
			c.pot.lacksPrice(cmp.Or(d.Provider, c.model.Provider) + "/" + cmp.Or(d.Model, c.model.Name))
		}
		return float64(cost) / float64(cmp.Or(n, c.input, 1))
	}
}

// learn notes the cost of a token of a model whose price only its answers tell. The mutex is held, as in guess.
func (p *Pot) learn(c *call, rate float64) {
	if c.priced {
		return
	}
	if len(p.rates) >= maxUnpriced && p.rates[c.model] == 0 {
		clear(p.rates)
	}
	p.rates[c.model] = max(p.rates[c.model], rate)
}

// guess finds what a request to a model without a price may cost: its tokens as dear as those of the dearest answer, or
// all that there is before the first answer.
func (p *Pot) guess(c *call) {
	if c.priced {
		return
	}
	c.need[money] = p.max[money]
	if rate, ok := p.rates[c.model]; ok {
		c.need[money] = scaled(rate, c.need[tokenCount])
	}
}

// scaled returns the cost of tokens.
func scaled(rate float64, n int64) int64 { return nanos(rate * float64(n) / 1e9) }

// estimate returns the usage of an answer of which nobody says it.
func (c *call) estimate() aycoder.Usage {
	return plausible(aycoder.Usage{Input: c.input, Output: c.heard/4 + 1})
}

// told reports whether a cost is one, and not a value that means nothing.
func told(cost *float64) bool { return cost != nil && *cost >= 0 }

// brokeOff pays for an answer that has begun and did not end. Nobody says what it cost.
func (c *call) brokeOff() {
	if !c.began {
		return
	}
	count := c.count(&aycoder.MessageDone{}, c.estimate())
	c.began, c.heard = false, 0
	c.pot.mu.Lock()
	defer c.pot.mu.Unlock()
	count()
	c.pot.estimated++
}

// end ends the reservation of a call that has not ended well, also if the host's prices panic.
func (c *call) end(ctx context.Context) {
	defer c.settle(ctx)
	if !c.done {
		defer c.pay(func(*Pot) {})
		c.brokeOff()
	}
}

// pay counts a cost and ends the reservation, at the same moment, so that no other request comes between.
func (c *call) pay(count func(*Pot)) {
	p := c.pot
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	count(p)
	_ = p.sync() // or else the next request fails
	if !c.done {
		c.done, c.began = true, false
		p.release(c.need)
	}
}

// cost returns the cost of an answer, and whether it is known.
func (c *call) cost(d *aycoder.MessageDone, u aycoder.Usage) (int64, bool) {
	if told(d.Cost) {
		return nanos(*d.Cost), true
	}
	provider := cmp.Or(d.Provider, c.model.Provider)
	info, _ := c.info(provider, cmp.Or(d.Model, c.model.Name))
	if info.Price == nil && provider == c.model.Provider { // the answer names a version of the model
		info, _ = c.info(provider, c.model.Name)
	}
	if info.Price == nil {
		return 0, false
	}
	return nanos(u.Cost(*info.Price)), true
}

// lacksPrice notes a model whose answers cost an unknown amount. The mutex is held.
func (p *Pot) lacksPrice(name string) {
	if len(p.unpriced) < maxUnpriced && !slices.Contains(p.unpriced, name) {
		p.unpriced = append(p.unpriced, name)
	}
}

// plausible returns a usage without numbers that no request can have.
func plausible(u aycoder.Usage) aycoder.Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite} {
		*n = min(max(*n, 0), maxUsage)
	}
	return u
}
