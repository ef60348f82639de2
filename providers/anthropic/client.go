// Package anthropic is a [aycoder.ModelClient] for Anthropic's Messages API, and
// for services that speak it.
//
//	client, err := anthropic.New("claude-sonnet-4-5") // key from ANTHROPIC_API_KEY
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// # What goes out
//
// A request's body ends with its messages, and everything before them is the same
// in every step of a conversation. The body of a step so begins with the bytes of
// the body of the step before, and the provider's prompt cache hits. Breakpoints
// are set on the last tool and the last system block; the one for the growing
// history is the request's own cache_control field, which moves by itself.
// [aycoder.Request.NoCache] turns all of them off.
//
// A system message in the middle of a conversation is sent as a user's text inside
// <system> tags: only some models take the role "system" there. Blocks of other
// providers, thinking without a signature and text of nothing but white space are
// left out, since the API refuses them.
//
// Models from 4.7 on decide themselves how much they think: a budget becomes the effort
// that is closest to it (low to 4,096 tokens, medium to 16,384, high above), and a
// temperature is left out, since they refuse both.
//
// So are settings that exclude each other: a request that forces a call
// ([aycoder.ToolAny], [aycoder.ToolNamed]) does not ask for thinking, and one that
// asks for thinking has no temperature other than 1. An image or a document in the
// output of a call that failed is named in a text, as is one without data.
//
// # What comes back
//
// Text with citations keeps them in its Extra. Blocks of the server's own (redacted
// thinking, server tools and their results, and whatever is added later) are
// [aycoder.Opaque] and go back byte for byte. A service that ignores the wish for a
// stream and answers with one JSON document gives the same events.
//
// # Where it is asked
//
// A gateway that speaks the API is asked with [WithBaseURL]. [WithVertex] asks on
// Google Cloud and [WithBedrock] on AWS, whose frames around the events are read here.
// No SDK is needed for either: the token comes from a function ([WithToken]), or an
// [http.Client] of the caller's signs the requests ([WithHTTPClient]).
//
//	client, err := anthropic.New("us.anthropic.claude-sonnet-4-5-20250929-v1:0",
//		anthropic.WithBedrock("us-east-1")) // key from AWS_BEARER_TOKEN_BEDROCK
//
// The clouds do not know the breakpoint of the prompt cache that moves by itself. The
// last message of the user has one there, which is all that a body of the next step
// does not begin with.
//
// # Answers of a schema
//
// [aycoder.Request.Output] binds the answer to a schema, with models and at hosts that
// know that; see [Client.FormatsOutput]. Objects are closed and bounds are told in
// descriptions, since the API takes no others. A schema that cannot be written so, of a
// map for example, is told in the system prompt.
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

// Client asks a model through the Messages API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

type config struct {
	api.Config
	version string
	betas   []string
	ttl     time.Duration
	at      host
	signs   bool // the HTTP client is the caller's
}

// Option sets a property of a [Client]. Options are applied in order; the last one
// wins where nothing else is said.
type Option func(*config) error

// WithAPIKey sets the key. Default: that in the environment variable
// ANTHROPIC_API_KEY, or else the bearer token in ANTHROPIC_AUTH_TOKEN, which [New] reads.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithBaseURL sets where the service is, without the "/v1/messages" that is
// appended. With a base URL other than the default no key is needed, and the one in
// the environment is not sent: it belongs to Anthropic. Default: that in the environment
// variable ANTHROPIC_BASE_URL, to which the key in the environment belongs then, or else
// https://api.anthropic.com; with [WithBedrock] and [WithVertex] that in
// ANTHROPIC_BEDROCK_BASE_URL and ANTHROPIC_VERTEX_BASE_URL, or else the cloud's own.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header of every request. It wins over what the client sets
// itself, and an x-api-key or authorization header takes the place of the key.
// Several names add up. Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the client that requests go through: proxies, certificates,
// recording. It is copied. Redirects are followed only to the same host, whatever
// its CheckRedirect says. Default: one with [http.DefaultTransport].
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

// WithBeta asks for features in beta by their names. Several add up. Default: none.
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

// WithMaxTokens bounds the answers to requests that set no bound. Default: 8192.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout sets the longest silence of the service, in which pings do not
// count. After it the request ends with an [aycoder.TimeoutError]. Time that the
// caller takes to handle an event does not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithCacheTTL sets how long the prompt cache lives: 5 minutes or an hour. Default:
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

// New returns a client that asks model where a request names none. All options that
// are wrong are reported at once, as [aycoder.ConfigError]. A missing key is an
// [aycoder.AuthError]. It sends nothing.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, defaultBaseURL), version: defaultVersion, ttl: defaultTTL}
	c.MaxTokens = defaultMaxTokens
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
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

// String names provider, model and endpoint. It shows no key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }

// modelOf returns the model that req asks.
func (c *Client) modelOf(req *aycoder.Request) string { return cmp.Or(req.Model, c.model) }
