package codegraph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/mask"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/part"
)

// MiddlewareOption configures [Middleware].
type MiddlewareOption func(*middlewareConfig) error

type middlewareConfig struct {
	once, all int64
	mask      func(string) string
	report    func(Report)
}

// WithBudget sets how many tokens may be added to one message, and to all messages of a request. The second is
// at most an eighth of the model's window, if that is known. Default: 2,000 and 8,000.
func WithBudget(once, all int64) MiddlewareOption {
	return func(c *middlewareConfig) error {
		if c.once, c.all = once, all; once < 1 || all < once {
			return &aycoder.ConfigError{Option: "WithBudget", Err: fmt.Errorf("%d and %d are not budgets", once, all)}
		}
		return nil
	}
}

// WithMask sets a function that hides the secrets in a text: the method Mask of a masker of package tools, for
// example. It must be safe for concurrent use. Default: secrets are hidden as by such a masker with a random key.
func WithMask(mask func(text string) string) MiddlewareOption {
	return func(c *middlewareConfig) error {
		if c.mask = mask; mask == nil {
			return &aycoder.ConfigError{Option: "WithMask", Err: errors.New("mask is nil")}
		}
		return nil
	}
}

// WithReport sets a function that is told when files have come into play or have changed, and of errors. It is
// called before the request is sent, by the goroutines of any runs. Default: none.
func WithReport(report func(Report)) MiddlewareOption {
	return func(c *middlewareConfig) error {
		if c.report = report; report == nil {
			return &aycoder.ConfigError{Option: "WithReport", Err: errors.New("report is nil")}
		}
		return nil
	}
}

// Report says what [Middleware] has added to a request, and why.
type Report struct {
	// Run and Turn are those of the request.
	Run  string
	Turn int
	// InPlay are the files that have come into play, and Changed those that were shown and have changed since.
	InPlay, Changed []string
	// Context is what was added, or nil if there was an error. Its items are as the model sees them, and its
	// Tokens are those of the whole text.
	Context *Context
	// Err says why the request goes out without something, or why an addition could not be kept for the next
	// program. It does not end the run.
	Err error
}

// Middleware returns a middleware for [aycoder.WithContextMiddleware] by which the model sees what the files in
// play use of other files, and, if there is room, what uses them. In play are the files that calls of tools and the
// user have named in the conversation, by their paths. The text of a file that is in play is not added, because the
// model reads it with its tools.
//
// Declarations that the user's last words mention rank higher: a name in backticks, or one that is written as
// newClient, new_client or Client.Stream.
//
// When files come into play, their context (see [Graph.Context]) is added to the newest message, if that is one
// of the user, or to its last output of a tool. From then on, it stands there in every request, unchanged. A file that
// was shown is not shown again, unless more of it is needed, or it was changed by somebody else; then it is
// added to the newest message once more. The history has no additions. They are found again by the messages
// that come before: branches of a conversation share them, and they begin anew after a compaction. With
// [WithCache], they are also kept in that directory, up to 16 MiB, for the programs that go on with the
// conversation; what is added to a request of no run is not. If the newest message was sent by another run, and a
// shown file has changed since, what was added to this message is made anew.
//
// The text says that the program has added it and that it is not an instruction. It has no files
// that the workspace refuses, and no secrets that [WithMask] hides. Middleware that shortens requests (package
// compaction) must come before this one, so that it counts the additions. Without such a one, nothing is added
// to requests of conversations that the model has refused as too large.
//
// A request waits for the graph up to five seconds. If that was too short, requests go out without additions until
// somebody else has called [Graph.Refresh]: a host with a very large workspace does when it starts.
func Middleware(g *Graph, opts ...MiddlewareOption) (aycoder.ContextMiddleware, error) {
	if g == nil {
		return nil, &aycoder.ConfigError{Option: "Middleware", Err: errors.New("graph is nil")}
	}
	masker := mask.New(mask.Environment(os.Environ())...)
	e := &enricher{g: g, sent: &sent{dir: g.cache}, middlewareConfig: middlewareConfig{once: 2000, all: 8000,
		mask:   func(text string) string { return mask.Visible(masker.Excerpt(text)) },
		report: func(Report) {}}}
	if err := option.Apply(&e.middlewareConfig, opts); err != nil {
		return nil, err
	}
	return e.wrap, nil
}

// An enricher adds to requests.
type enricher struct {
	g *Graph
	middlewareConfig
	sent *sent
	slow atomic.Int64 // one more than the files of the graph when a look at the whole workspace took too long, or 0

	mu     sync.Mutex
	chains []*chain // the last used first
}

func (e *enricher) wrap(next aycoder.ContextBuilder) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req, err := next.Build(ctx, in)
		if err != nil || req == nil || len(req.Messages) == 0 || in.Elide > 0 || in.Limit > 0 {
			return req, err
		}
		return e.enrich(ctx, in, req), nil
	})
}

// enrich returns a request with the additions. Each run looks once at what to add to a message, so that a
// request that is sent again has the same bytes.
func (e *enricher) enrich(ctx context.Context, in aycoder.ContextInput, req *aycoder.Request) *aycoder.Request {
	c, last := e.follow(in.Run, req.Messages)
	n := len(req.Messages) - 1
	if last.run != in.Run || in.Run == "" {
		if takes(req.Messages[n]) {
			l := look{enricher: e, in: in, link: last, known: c.known(n)}
			if a := l.addition(ctx); a != last.addition {
				last.addition, last.shown = a, weak.Pointer[aycoder.Message]{}
			}
		}
		last.run = in.Run
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.links[n] = &last
	if in.Run != "" { // or else nobody sends it
		e.keep(c)
	}
	return c.request(req)
}

// takes reports whether a text can be added to a message: no client sends one that has only marks.
func takes(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool { return !part.IsMark(p) })
}
