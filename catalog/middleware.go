package catalog

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/closest"
)

// maxSimilar bounds how many models are named to somebody who asked for one that
// does not exist.
const maxSimilar = 10

// Middleware returns a wrapper that makes a client an [aycoder.ModelInfoer]. The client's own
// data on a model come first, since it may have asked the service, and the catalog has what it
// leaves out. An ability is there if either says so. The provider is that of the client's
// [aycoder.ModelNamer].
//
// Requests go through as they are. So do answers, but for an
// [*aycoder.UnknownModelError] that names no models: it gets those of the provider
// that are spelt in a similar way.
//
// The wrapper panics if the client is nil, as those of package middleware do.
func (c *Catalog) Middleware() aycoder.ModelMiddleware {
	return func(m aycoder.ModelClient) aycoder.ModelClient {
		if m == nil {
			panic("catalog: Middleware of a nil client")
		}
		return &client{m, c}
	}
}

// client gives what it wraps the ability to tell about models.
type client struct {
	inner   aycoder.ModelClient
	catalog *Catalog
}

// Unwrap returns the client that is wrapped.
func (c *client) Unwrap() aycoder.ModelClient { return c.inner }

// ModelInfo implements [aycoder.ModelInfoer].
func (c *client) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	provider, own := c.name()
	info, ok := c.catalog.Lookup(provider, cmp.Or(model, own))
	if asked, can := aycoder.As[aycoder.ModelInfoer](c.inner); can {
		if first, known := asked.ModelInfo(model); known {
			return merge(clone(first), info), true
		}
	}
	return info, ok
}

func (c *client) name() (provider, model string) {
	if n, ok := aycoder.As[aycoder.ModelNamer](c.inner); ok {
		return n.ModelName()
	}
	return "", ""
}

// merge returns a with what only b knows.
func merge(a, b aycoder.ModelInfo) aycoder.ModelInfo {
	a.Provider, a.Model = cmp.Or(a.Provider, b.Provider), cmp.Or(a.Model, b.Model)
	a.Context, a.MaxOutput = cmp.Or(a.Context, b.Context), cmp.Or(a.MaxOutput, b.MaxOutput)
	a.Price = cmp.Or(a.Price, b.Price)
	a.Tools, a.Thinking = a.Tools || b.Tools, a.Thinking || b.Thinking
	a.Images, a.Output = a.Images || b.Images, a.Output || b.Output
	return a
}

// Stream implements [aycoder.ModelClient].
func (c *client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent,
	error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range c.inner.Stream(ctx, req) {
			if !yield(ev, c.explain(req, err)) {
				return
			}
		}
	}
}

// explain adds similar models to an error about one that does not exist. The error
// is copied: a client may hand out the same one twice.
func (c *client) explain(req *aycoder.Request, err error) error {
	u, ok := errors.AsType[*aycoder.UnknownModelError](err)
	if !ok || u == nil || len(u.Available) > 0 {
		return err
	}
	e := *u
	if e.Available = c.similar(req, u.ModelError); len(e.Available) == 0 {
		return err
	}
	if err == error(u) {
		return &e
	}
	return &unknownModel{error: err, explained: &e}
}

// similar returns models of the provider whose names are like that of the one that was
// asked. The error says best who that was: there may be several behind the client.
func (c *client) similar(req *aycoder.Request, e *aycoder.ModelError) []string {
	provider, model := c.name()
	if req != nil {
		model = cmp.Or(req.Model, model)
	}
	if e != nil {
		provider, model = cmp.Or(e.Provider, provider), cmp.Or(e.Model, model)
	}
	if provider == "" {
		return nil
	}
	var names []string
	for _, info := range c.catalog.Models(provider) {
		names = append(names, info.Model)
	}
	return closest.Closest(model, names, maxSimilar)
}

// An unknownModel is an error around one about a model that does not exist, which
// is found in it with similar models.
type unknownModel struct {
	error
	explained *aycoder.UnknownModelError
}

// Error implements error.
func (e *unknownModel) Error() string {
	return e.error.Error() + "; known: " + strings.Join(e.explained.Available, ", ")
}

// Unwrap returns the one with the models first.
func (e *unknownModel) Unwrap() []error { return []error{e.explained, e.error} }
