package budget

import (
	"context"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
)

// A waiter is a request that waits until its reservation fits.
type waiter struct {
	*call
	done chan error // has room for the one answer
}

// total returns what was spent. The mutex is held, as in all that follows but reserve.
func (p *Pot) total() amounts {
	t := p.filed
	t.add(p.spent)
	return t
}

// exhausted returns an error if one of the limits is reached.
func (p *Pot) exhausted(of ...int) error {
	total := p.total()
	for _, i := range of {
		if p.max[i] > 0 && total[i] >= p.max[i] {
			return &ExhaustedError{Budget: p.conf.Name, Kind: kinds[i], Key: p.conf.Key(kinds[i]),
				Max: p.max.public(), Spent: total.public()}
		}
	}
	return nil
}

// fits reports whether a reservation fits beside those that are held. With none beside it, it does.
func (p *Pot) fits(need amounts) bool {
	sum := p.total()
	sum.add(p.held)
	sum.add(need)
	for i, most := range p.max {
		if most > 0 && p.held[i] > 0 && sum[i] > most {
			return false
		}
	}
	return true
}

// serve answers the requests that wait, in order, as far as they fit. When the budget is used up, it
// answers all of them.
func (p *Pot) serve() {
	for len(p.queue) > 0 {
		w := p.queue[0]
		err := p.exhausted(money, tokenCount, work)
		p.guess(w.call)
		if err == nil && !p.fits(w.need) {
			return
		}
		if err == nil {
			p.held.add(w.need)
			p.calls++
		}
		w.done <- err
		p.queue = p.queue[1:]
	}
	p.queue = nil
}

// reserve waits until the need of c fits. If it returns nil, release must be called with that.
func (p *Pot) reserve(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	w := &waiter{c, make(chan error, 1)}
	p.mu.Lock()
	p.advance()
	p.inner(ctx)
	if err := p.sync(); err != nil {
		p.mu.Unlock()
		return err
	}
	p.queue = append(p.queue, w)
	p.serve()
	p.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.serve() // the one behind it may be smaller
	} else if err := <-w.done; err == nil {
		p.release(c.need)
	}
	return context.Cause(ctx)
}

// release ends a reservation.
func (p *Pot) release(need amounts) {
	p.held.sub(need)
	p.calls--
	p.serve()
}

// A span is a stretch of work. It is inside of another one if its context is.
type span struct{ stop context.CancelCauseFunc }

// spanKey is the key of the span of a pot in a context.
type spanKey struct{ *Pot }

// inner ends the count of the span that ctx is inside of: of spans inside of each other the innermost
// counts, and the outer one waits for it and for whatever people do in its run.
func (p *Pot) inner(ctx context.Context) {
	if outer, ok := ctx.Value(spanKey{p}).(*span); ok && p.running[outer] {
		delete(p.running, outer)
		p.arm()
	}
}

// begin begins to count the time of a call, whose context is cancelled when the time is used up.
func (p *Pot) begin(ctx context.Context) (work context.Context, end func()) {
	s := new(span)
	work, s.stop = context.WithCancelCause(context.WithValue(ctx, spanKey{p}, s))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.inner(ctx)
	p.running[s] = true
	p.arm()
	return work, func() { p.end(s) }
}

func (p *Pot) end(s *span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	delete(p.running, s)
	p.arm()
	if time.Duration(p.spent[work]) >= time.Second {
		_ = p.sync() // or else the next request fails
	}
	p.serve()
	s.stop(nil)
}

// advance counts the time until now.
func (p *Pot) advance() {
	now := p.conf.Clock.Now()
	if n := int64(len(p.running)); n > 0 {
		p.spent.add(amounts{work: n * int64(max(now.Sub(p.since), 0))})
	}
	p.since = now
}

// arm sets the timer for the moment at which the time is used up, if all goes on as it does.
func (p *Pot) arm() {
	if p.unarm != nil {
		p.unarm()
		p.unarm = nil
	}
	n := int64(len(p.running))
	if n == 0 || p.max[work] == 0 {
		return
	}
	left := max(p.max[work]-p.total()[work], 0)
	p.unarm = p.conf.Clock.AfterFunc(time.Duration(left/n+min(left%n, 1)), p.expire)
}

// expire cancels the calls that work, if the time is used up.
func (p *Pot) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	err := p.exhausted(work)
	if err == nil {
		p.arm() // something has ended since
		return
	}
	for s := range p.running {
		s.stop(err)
	}
	p.serve()
}

// Tool counts the time of tools. It is an [aycoder.ToolMiddleware]. A call for which no working time is left
// is not run, and its error is an [*ExhaustedError].
func (p *Pot) Tool(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if slices.Contains(p.conf.Idle, inv.Name) {
			return next(ctx, inv)
		}
		p.mu.Lock()
		p.advance()
		err := p.exhausted(work)
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		ctx, end := p.begin(ctx)
		defer end()
		return next(ctx, inv)
	}
}
