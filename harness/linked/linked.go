// Package linked has options for package harness that link all providers, the code graph and package insight, for programs
// that do not mind their size.
package linked

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
	"github.com/aycoder/aycoder/providers"
)

// Options returns [Open], [Code], [Checks] and [Insight] as options.
func Options() []harness.Option {
	return []harness.Option{harness.WithOpener(Open), harness.WithCode(Code(nil, MapWait, nil)), harness.WithChecks(Checks), harness.WithInsight(Insight(nil))}
}

// Open is a [harness.Opener] for all providers of package providers.
func Open(_ context.Context, spec harness.ModelSpec) (aycoder.ModelClient, error) {
	if !slices.Contains(providers.Names(), spec.Provider) {
		return nil, fmt.Errorf("provider %s: %w; there are %s", spec.Provider, harness.ErrNotLinked, strings.Join(providers.Names(), ", "))
	}
	var opts []providers.Option
	add := func(there bool, o providers.Option) {
		if there {
			opts = append(opts, o)
		}
	}
	add(spec.Key != "", providers.WithAPIKey(spec.Key))
	add(spec.BaseURL != "", providers.WithBaseURL(spec.BaseURL))
	for name, value := range spec.Headers {
		add(true, providers.WithHeader(name, value))
	}
	add(spec.MaxTokens > 0, providers.WithMaxTokens(spec.MaxTokens))
	add(spec.IdleTimeout > 0, providers.WithIdleTimeout(spec.IdleTimeout))
	add(spec.HTTP != nil, providers.WithHTTPClient(spec.HTTP))
	return providers.Open(spec.Provider+"/"+spec.Model, opts...)
}
