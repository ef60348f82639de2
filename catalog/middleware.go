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

// maxSimilar bounds the number of similar models that are named if a model does not exist.
const maxSimilar = 10

// Middleware returns a wrapper that makes a client an [aycoder.ModelInfoer]. The wrapper looks
// models up under the provider that the client's [aycoder.ModelNamer] returns. If the client
// itself is a ModelInfoer, its data takes precedence, since the client may have asked the
// service. The catalog only fills in the fields of [aycoder.ModelInfo] that are zero in the
// client's data. An ability such as Tools counts as zero if it is false. The result is therefore
// true if the client or the catalog says true.
//
// Requests are passed on unchanged, and so are answers and errors, with one exception. If an
// [*aycoder.UnknownModelError] lists no available models, the wrapper looks in the catalog for
// models of the provider whose names are similar to the requested name, and lists these models in
// a copy of the error.
//
// The wrapper panics if the client is nil.
func (c *Catalog) Middleware() aycoder.ModelMiddleware {
	return func(m aycoder.ModelClient) aycoder.ModelClient {
		if m == nil {
			panic("catalog: Middleware of a nil client")
		}
		return &client{m, c}
	}
}

// client adds the data of the catalog to the client that it wraps.
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

// merge returns a, with the fields that are unknown in a taken from b.
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

// explain adds similar models to an error about a model that does not exist. It changes a copy of
// the error, because a client may return the same error value twice.
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

// similar returns models of the provider whose names resemble the one that was requested. The
// names in the error take precedence, because several clients may be behind this one.
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

// An unknownModel replaces an error that wraps an UnknownModelError. Its tree contains a copy of
// the UnknownModelError with similar models.
type unknownModel struct {
	error
	explained *aycoder.UnknownModelError
}

// Error implements error.
func (e *unknownModel) Error() string {
	return e.error.Error() + "; known: " + strings.Join(e.explained.Available, ", ")
}

// Unwrap returns the copy of the error that lists similar models, and then the original error.
// The copy is the first, so that errors.AsType finds it.
func (e *unknownModel) Unwrap() []error { return []error{e.explained, e.error} }
