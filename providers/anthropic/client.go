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
// request's own cache_control field, which moves by itself. If the request has a tail, the
// breakpoint is on the last message of the user before the tail instead.
// [aycoder.Request.NoCache] turns all of them off.
//
// The tail is a message of the user. For models that forget their thinking after a text of
// the user (all before Opus 4.5 and Sonnet 4.6, and Haiku), it is a part of the last output
// of a tool if the model has thought since the last prompt.
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
// If two settings exclude each other, one of them is left out: a request that forces a
// call ([aycoder.ToolAny], [aycoder.ToolNamed]) does not ask for thinking, and a request
// that asks for thinking has no temperature other than 1. An image or a document in the output
// of a failed call is replaced by a text that names it, and so is an image or a document
// without data.
//
// # Responses
//
// Text with citations keeps them in its Extra. Server-side blocks (redacted thinking,
// server tools and their results, and kinds that are added later) become [aycoder.Opaque]
// and are sent back byte for byte; blocks in which the service has summarised the conversation only
// if the request lets it do so, see [Client.CompactFrom]. The tokens of such a summary count as those
// of the answer in which it comes. A service that ignores the request for a stream and
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
}

// A config holds the options. The same client talks to Anthropic, to Amazon Bedrock and
// to Google's Vertex AI, which differ in addresses and credentials.
type config struct {
	api.Config
	version string
	betas   []string
	ttl     time.Duration
	at      host
	signs   bool // the HTTP client was set by the caller
}

// Option sets a property of a [Client]. A repeated option overrides the earlier one,
// unless its comment says that repeated options add up.
type Option func(*config) error

// WithAPIKey sets the API key. Default: [New] reads the environment variable
// ANTHROPIC_API_KEY, or else a bearer token from ANTHROPIC_AUTH_TOKEN. With
// [WithBedrock], it reads AWS_BEARER_TOKEN_BEDROCK.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithBaseURL sets the URL of the service, to which the client appends a path such as
// "/v1/messages". If the option sets a URL that is not the default, an API key is
// optional, and a key in the environment is not sent, because that key belongs to
// Anthropic.
//
// Default: the environment variable ANTHROPIC_BASE_URL, or else https://api.anthropic.com.
// The variable differs from the option: a key in the environment is sent to the variable's
// URL. With [WithBedrock], the default is ANTHROPIC_BEDROCK_BASE_URL, or else the endpoint
// of the region. With [WithVertex], the default is ANTHROPIC_VERTEX_BASE_URL, or else the
// endpoint of the location.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header that is sent with every request. It overrides a header of the
// same name that the client sets. The headers "x-api-key" and "authorization" also
// replace the API key. Repeated options with different names add up. Default: no
// additional headers.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the HTTP client, for example to use a proxy or to record requests.
// [New] copies hc. The copy follows redirects only to the same host. Default: a client
// with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.signs = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithVersion sets the version of the API, which is sent in the anthropic-version header.
// It has no effect with [WithBedrock] and [WithVertex]. Default: 2023-06-01.
func WithVersion(version string) Option {
	return func(c *config) error {
		if !api.Token(version) {
			return &aycoder.ConfigError{Option: "WithVersion",
				Err: errors.New("version is not valid")}
		}
		c.version = version
		return nil
	}
}

// WithBeta enables beta features of the API by their names. Repeated options add up.
// Default: no beta features.
func WithBeta(names ...string) Option {
	return func(c *config) error {
		for _, n := range names {
			if !api.Token(n) {
				return &aycoder.ConfigError{Option: "WithBeta",
					Err: fmt.Errorf("name %q is not valid", n)}
			}
		}
		c.betas = append(slices.Clip(c.betas), names...)
		return nil
	}
}

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. Default: 8192.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. Pings do not
// count as data. The time in which the caller handles an event does not count. Default: 5
// minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithCacheTTL sets how long the service keeps the entries of its prompt cache: either 5
// minutes or 1 hour. Default: 5 minutes.
func WithCacheTTL(d time.Duration) Option {
	return func(c *config) error {
		if d != defaultTTL && d != time.Hour {
			return &aycoder.ConfigError{Option: "WithCacheTTL",
				Err: fmt.Errorf("%s is neither 5m nor 1h", d)}
		}
		c.ttl = d
		return nil
	}
}

// New returns a client that uses model for requests whose [aycoder.Request.Model] is
// empty. If options are invalid, the error joins an [*aycoder.ConfigError] for each of
// them. If the API key is missing, the error is an [*aycoder.AuthError]. New does not
// send a request.
func New(model string, opts ...Option) (*Client, error) {
	client := &Client{model: model, cfg: config{Config: api.NewConfig(provider, defaultBaseURL), version: defaultVersion, ttl: defaultTTL}}
	c := &client.cfg
	c.MaxTokens = defaultMaxTokens
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(c, opts))
	errs = append(errs, c.settle(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new anthropic client: %w", err)
	}
	return client, nil
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.answer(req).Stream(ctx)
}

// Open implements [aycoder.ModelOpener].
func (c *Client) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	return c.answer(req).Open(ctx)
}

// Opens implements [aycoder.ModelOpener].
func (c *Client) Opens(m aycoder.ModelClient) bool { return m == c }

// answer returns the exchange of a request that is answered.
func (c *Client) answer(req *aycoder.Request) *api.Exchange {
	x := c.exchange(req)
	if c.cfg.at.bedrock {
		x.Frames, x.OrJSON = chunks, true
	}
	return x
}

// CountTokens returns the number of input tokens of req, for which it asks the service. For any
// other service than Anthropic's own, it returns [errors.ErrUnsupported].
func (c *Client) CountTokens(ctx context.Context, req *aycoder.Request) (int64, error) {
	if !c.isOwn() {
		return 0, errors.ErrUnsupported
	}
	x := c.exchange(req)
	x.URL += "/count_tokens"
	return x.Count(ctx, "input_tokens", "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config",
		"context_management", "mcp_servers")
}

// isOwn reports whether the service is Anthropic's own.
func (c *Client) isOwn() bool { return c.cfg.at.option == "" && c.cfg.BaseURL == defaultBaseURL }

// exchange returns the exchange of a request.
func (c *Client) exchange(req *aycoder.Request) *api.Exchange {
	model := c.modelOf(req)
	setHeaders := c.cfg.setHeaders
	if compacts(req) && !c.cfg.at.bedrock {
		setHeaders = func(h http.Header) {
			c.cfg.setHeaders(h)
			addBeta(h, compactBeta)
		}
	}
	return &api.Exchange{
		Config: &c.cfg.Config, Model: model, URL: c.cfg.url(model),
		ModelsPath: c.cfg.modelsPath(), MaxResponse: req.MaxResponse,
		Encode:     func() (*api.Payload, error) { return c.encode(req) },
		SetHeaders: setHeaders,
		Decode:     func(k *api.Call) api.Decoder { return &decoder{call: k, names: api.Renamed(req.Tools, maxName)} },
	}
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return provider, c.model }

// AnswerLimit returns the limit that [WithMaxTokens] describes, or 0.
func (c *Client) AnswerLimit() int64 { return int64(c.cfg.MaxTokens) }

// String returns the name of the provider, the model and the URL, but not the API key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same text as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the API key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }

// modelOf returns the model for req.
func (c *Client) modelOf(req *aycoder.Request) string { return cmp.Or(req.Model, c.model) }
