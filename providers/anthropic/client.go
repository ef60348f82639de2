// Package anthropic provides an [aycoder.ModelClient] for Anthropic's Messages API, and
// for services that speak it.
//
//	client, err := anthropic.New("claude-sonnet-4-5") // key from ANTHROPIC_API_KEY
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// # Requests
//
// The messages come last in the body of a request, and everything before them is the same
// in every step of a conversation. The body of a step therefore begins with the bytes of
// the previous body, and the provider's prompt cache hits. Breakpoints are set on the
// last tool and the last system block. The breakpoint for the growing history is the
// request's own cache_control field, which moves by itself. [aycoder.Request.NoCache]
// turns all of them off.
//
// A system message in the middle of a conversation is sent as a user's text inside
// <system> tags, because only some models accept the role "system" there. Blocks of other
// providers, thinking without a signature and text that is only white space are left out,
// since the API refuses them.
//
// Models from 4.7 on decide themselves how much they think. For them a budget becomes the
// closest effort (low to 4,096 tokens, medium to 16,384, high above), and a temperature
// is left out, since they refuse both.
//
// Settings that exclude each other are left out, too: a request that forces a call
// ([aycoder.ToolAny], [aycoder.ToolNamed]) does not ask for thinking, and a request that
// asks for thinking has no temperature other than 1. An image or a document in the output
// of a failed call is replaced by a text that names it, and so is an image or a document
// without data.
//
// # Responses
//
// Text with citations keeps them in its Extra. Server-side blocks (redacted thinking,
// server tools and their results, and kinds that are added later) become [aycoder.Opaque]
// and are sent back byte for byte. A service that ignores the request for a stream and
// answers with one JSON document produces the same events.
//
// # Endpoints
//
// [WithBaseURL] selects a gateway that speaks the API. [WithVertex] uses Google Cloud and
// [WithBedrock] uses AWS, whose framing of the events is decoded here. Neither needs an
// SDK: a function provides the token ([WithTokenSource]), or an [http.Client] of the caller
// signs the requests ([WithHTTPClient]).
//
//	client, err := anthropic.New("us.anthropic.claude-sonnet-4-5-20250929-v1:0",
//		anthropic.WithBedrock("us-east-1")) // key from AWS_BEARER_TOKEN_BEDROCK
//
// The clouds do not support the cache breakpoint that moves by itself. There it is set on
// the last user message; apart from that mark, a body begins with the bytes of the
// previous one.
//
// # Structured output
//
// [aycoder.Request.Output] constrains the answer to a schema, if the model and the host
// support it; see [Client.FormatsOutput]. Objects are closed and bounds are moved into
// descriptions, since the API accepts only such schemas. A schema that cannot be
// expressed this way, for example that of a map, is put into the system prompt instead.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/option"
)

const (
	provider = "anthropic"
	keyEnv   = "ANTHROPIC_API_KEY"
	tokenEnv = "ANTHROPIC_AUTH_TOKEN"

	defaultBaseURL   = "https://api.anthropic.com"
	defaultVersion   = "2023-06-01"
	defaultMaxTokens = 8192
	defaultTTL       = 5 * time.Minute
)

// Client is a client of the Messages API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

// The same client speaks to Anthropic, to Amazon Bedrock and to Google's Vertex AI, which
// differ in addresses and credentials.
type config struct {
	api.Config
	version string
	betas   []string
	ttl     time.Duration
	at      host
	signs   bool // the HTTP client was set by the caller
}

// Option sets a property of a [Client]. Options are applied in order; the last one wins
// unless its comment says otherwise.
type Option func(*config) error

// WithAPIKey sets the key. Default: the environment variable ANTHROPIC_API_KEY, or else
// the bearer token in ANTHROPIC_AUTH_TOKEN, as [New] reads them.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithBaseURL sets the URL of the service, without the "/v1/messages" that is appended.
// With another URL than the default a key is optional, and the key in the environment is
// not sent, because it belongs to Anthropic. Default: the environment variable
// ANTHROPIC_BASE_URL, in which case the key in the environment belongs to that service,
// or else https://api.anthropic.com. With [WithBedrock] and [WithVertex] the default is
// ANTHROPIC_BEDROCK_BASE_URL or ANTHROPIC_VERTEX_BASE_URL, or else the endpoint of the
// cloud.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header of every request. It overrides the headers of the client, and
// an x-api-key or authorization header replaces the key. Repeated options with different
// names add up. Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the HTTP client, for proxies, certificates or recording. It is
// copied. Redirects are followed only to the same host, whatever its CheckRedirect says.
// Default: a client with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.signs = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithVersion sets the anthropic-version header. Default: 2023-06-01.
func WithVersion(version string) Option {
	return func(c *config) error {
		if !api.Token(version) {
			return &aycoder.ConfigError{Option: "WithVersion", Err: errors.New("version is not valid")}
		}
		c.version = version
		return nil
	}
}

// WithBeta enables beta features by name. Repeated options add up. Default: none.
func WithBeta(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			if !api.Token(n) {
				return &aycoder.ConfigError{Option: "WithBeta", Err: fmt.Errorf("name %q is not valid", n)}
			}
		}
		c.betas = append(slices.Clip(c.betas), names...)
		return nil
	}
}

// WithMaxTokens limits the answers to requests that do not set a limit. Default: 8192.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits the time without data from the service; pings do not count as
// data. When it has passed, the request ends with an [aycoder.TimeoutError]. Time that
// the caller spends handling an event does not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithCacheTTL sets the lifetime of prompt cache entries: 5 minutes or an hour. Default:
// 5 minutes.
func WithCacheTTL(d time.Duration) Option {
	return func(c *config) error {
		if d != defaultTTL && d != time.Hour {
			return &aycoder.ConfigError{Option: "WithCacheTTL", Err: fmt.Errorf("%s is neither 5m nor 1h", d)}
		}
		c.ttl = d
		return nil
	}
}

// New returns a client that uses model for requests that do not name one. It reports all
// invalid options at once, as an [aycoder.ConfigError], and a missing key as an
// [aycoder.AuthError]. It does not send a request.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, defaultBaseURL), version: defaultVersion, ttl: defaultTTL}
	c.MaxTokens = defaultMaxTokens
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(&c, opts))
	errs = append(errs, c.settle(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new anthropic client: %w", err)
	}
	return &Client{model: model, cfg: c, http: c.HTTP()}, nil
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	model := c.modelOf(req)
	x := &api.Exchange{
		Config: &c.cfg.Config, HTTP: c.http, Model: model, URL: c.cfg.url(model),
		ModelsURL: c.cfg.modelsURL(), MaxResponse: req.MaxResponse,
		Encode:     func() (*api.Payload, error) { return c.encode(req) },
		SetHeaders: c.cfg.setHeaders,
		Decode:     func(k *api.Call) api.Decoder { return &decoder{call: k} },
	}
	if c.cfg.at.bedrock {
		x.Frames, x.OrJSON = chunks, true
	}
	return x.Stream(ctx)
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return provider, c.model }

// String returns the provider, the model and the endpoint, without the key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }

// modelOf returns the model for req.
func (c *Client) modelOf(req *aycoder.Request) string { return cmp.Or(req.Model, c.model) }
