package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
)

// WithStrictPrefix makes a run end with a [*ContextError] if a request does not begin with the system
// prompt, the tools and the messages of the request before, unless its builder has announced that with
// [ContextInput.Compact]. Such a request costs more, because the provider's prompt cache does not hit.
// Default: false, so that the run goes on, and the logger gets a warning.
func WithStrictPrefix(strict bool) Option {
	return option("WithStrictPrefix", true, "", func(c *config) { c.strict = strict })
}

var errPrefix = errors.New("the request does not begin with the one before")

// checkPrefix compares a request with the one before, unless nobody would learn of it.
func (r *run) checkPrefix(ctx context.Context, a *CallModel, req *Request) error {
	r.mu.Lock()
	before, last, declared := r.request, r.asked, r.declared
	r.asked, r.declared = *a, false
	r.mu.Unlock()
	if before == nil || declared || last.Elide != a.Elide || last.Limit != a.Limit ||
		!r.loop.strict && r.loop.trace == nil || begins(before, req) {
		return nil
	}
	if !r.loop.strict {
		r.loop.log(ctx, slog.LevelWarn, errPrefix.Error(), "run", r.id, "turn", a.Turn)
		return nil
	}
	return &ContextError{Op: "check request", Err: errPrefix}
}

// shows reports whether the last request has all of a call, or, for "", of all calls.
func (r *run) shows(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.state.history.All()
	last := all
	if r.request != nil {
		last = r.request.Messages
	} else if !r.whole {
		return false
	}
	if id == "" && same(all, last) {
		return true
	}
	sent, known := callsIn(last, id), callsIn(all, id)
	for id, c := range known {
		if c.out != nil && !c.equal(sent[id]) {
			return false
		}
	}
	return id == "" || known[id].out != nil
}

// An exchange is a call with its output.
type exchange struct {
	use *ToolUse
	out *ToolOutput
}

// callsIn returns the calls in messages by their ids, or only that with one id.
func callsIn(messages []*Message, only string) map[string]exchange {
	calls := map[string]exchange{}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *ToolUse:
				if only == "" || only == p.ID {
					calls[p.ID] = exchange{use: p}
				}
			case *ToolOutput:
				if c, ok := calls[p.ID]; ok {
					c.out = p
					calls[p.ID] = c
				}
			}
		}
	}
	return calls
}

// equal reports whether the other one has the same texts. A builder may have added parts to its output.
func (c exchange) equal(d exchange) bool {
	n := len(c.out.Parts)
	return c == d || d.use != nil && d.out != nil && string(c.use.Args) == string(d.use.Args) &&
		n <= len(d.out.Parts) && c.out.Text() == (&ToolOutput{Parts: d.out.Parts[:n]}).Text()
}

// begins reports whether a request begins with another one.
func begins(a, b *Request) bool {
	n := len(a.Messages)
	return n <= len(b.Messages) && alike(a.Messages, b.Messages[:n]) && alike(a.System, b.System) && alike(a.Tools, b.Tools)
}

// alike reports whether two lists of pointers have the same content. Lists that share it need no look at
// it. The type parameter is the pointer, for which the compiler makes the code only once.
func alike[P comparable](a, b []P) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.EqualFunc(a, b, func(x, y P) bool {
		if x == y {
			return true
		}
		p, err1 := json.Marshal(x)
		q, err2 := json.Marshal(y)
		return err1 == nil && err2 == nil && string(p) == string(q)
	})
}
