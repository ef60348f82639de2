// Package bedrock provides an [aycoder.ModelClient] for the Converse API of Amazon
// Bedrock, which is the same for all models of that service.
//
//	client, err := bedrock.New("us.anthropic.claude-sonnet-4-5-20250929-v1:0",
//		bedrock.WithRegion("us-east-1")) // key from AWS_BEARER_TOKEN_BEDROCK
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// Bedrock also serves Claude through Anthropic's own API: see the package anthropic.
//
// # Authentication
//
// A request has a Bedrock key as its bearer token, or is signed by an [http.Client] of
// the caller ([WithHTTPClient]), whose transport adds the signature. The transport may
// read the body, which [http.Request.GetBody] returns again. The package does not need an
// SDK of AWS.
//
// # Requests
//
// The messages come last in the body of a request, and everything before them is the same
// in every step of a conversation. Consecutive messages of one role become one message.
// Models that have a prompt cache (Claude and Nova) get breakpoints behind the system
// prompt, the tools and the last user message before the tail; apart from the last
// breakpoint and the tail, a body begins with the bytes of the previous one.
// [aycoder.Request.NoCache] turns them off.
//
// The tail is a message of the user. For models that forget their thinking after a text of
// the user, it is a part of the last output of a tool if the model has thought since the
// last prompt.
//
// A system message in the middle of a conversation is sent as a user's text inside
// <system> tags. Thinking without a signature, blocks of other providers and text that is
// only white space are left out, since models refuse them. Ids of calls and names of
// tools that the API does not accept are mapped. Images, documents and videos are sent if
// the API knows their type, also from s3:// addresses; others are replaced by a text that
// names them. The API has no way to forbid calls: with [aycoder.ToolNone] the tools are
// left out, unless the conversation has calls, for which the API requires them.
//
// [aycoder.Request.Thinking] becomes a budget for Claude, and an effort for Nova 2 and
// gpt-oss: low up to 4096 tokens, medium up to 16384, high above (Nova: medium, since
// high excludes other settings). For other models it is ignored. [aycoder.Request.Extra]
// holds other settings of a model, as "additionalModelRequestFields" or
// "guardrailConfig".
//
// # Responses
//
// Text with citations keeps them in its Extra. Server-side blocks (redacted thinking,
// server-side tools and their results, and kinds that are added later) become
// [aycoder.Opaque] and are sent back byte for byte. An answer in which a guardrail
// intervened has [aycoder.StopRefusal]. The tokens of [aycoder.Usage] are those that the
// service counts: its input excludes tokens that were read from or written to a cache.
package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/option"
)

const (
	provider = "bedrock"
	keyEnv   = "AWS_BEARER_TOKEN_BEDROCK"

	// noHome is a placeholder until the region is known.
	noHome = "https://bedrock-runtime.amazonaws.com"
)

// Client is a client of the Converse API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
}

type config struct {
	api.Config
	region string
	signs  bool // the HTTP client was set by the caller
}

// Option sets a property of a [Client]. A repeated option overrides the earlier one,
// unless its comment says that repeated options add up.
type Option func(*config) error

// WithRegion sets the AWS region, such as "us-east-1". Default: the environment variable
// AWS_REGION, or else AWS_DEFAULT_REGION.
func WithRegion(region string) Option {
	return func(c *config) error { return c.setRegion("WithRegion", region) }
}

// setRegion takes a region, which becomes a part of the host's name.
func (c *config) setRegion(option, region string) error {
	if !api.HostLabel(region) {
		return &aycoder.ConfigError{Option: option,
			Err: fmt.Errorf("region %q is not valid", region)}
	}
	c.region = region
	return nil
}

// WithAPIKey sets the API key of Bedrock. Default: [New] reads the environment variable
// AWS_BEARER_TOKEN_BEDROCK. With [WithHTTPClient] a key is optional, because the HTTP
// client may sign the requests.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithTokenSource sets a function that returns the bearer token of a request, for
// services with short-lived tokens. The token replaces an API key. The client calls the
// function for each request, with the request's context, possibly from several goroutines
// at once. An error of the function ends the request with an [*aycoder.AuthError]. With a
// token source, [New] does not look for an API key in the environment. Default: no token
// source.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithTokenSource", token) }
}

// WithBaseURL sets the URL of the service, such as that of a gateway or of an endpoint in
// a private network. The client appends a path that begins with "/model/" to the URL. If
// the option sets the URL, the region and an API key are optional, and a key in the
// environment is not sent, because that key belongs to Amazon.
//
// Default: the environment variable AWS_ENDPOINT_URL_BEDROCK_RUNTIME, or else
// AWS_ENDPOINT_URL, or else the endpoint of the region. The variables differ from the
// option: a key in the environment is sent to a variable's URL.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header that is sent with every request. It overrides a header of the
// same name that the client sets. The header "authorization" also replaces the API key.
// Repeated options with different names add up. Default: no additional headers.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the HTTP client, for example to sign requests, to use a proxy or to
// record requests. [New] copies hc. The copy follows redirects only to the same host.
// Default: a client with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.signs = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. Default: the limit of the model.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. The time in
// which the caller handles an event does not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// New returns a client that uses model for requests whose [aycoder.Request.Model] is
// empty. Model is the id or the ARN of a model or of an inference profile. If options are
// invalid, the error joins an [*aycoder.ConfigError] for each of them. If the API key is
// missing, the error is an [*aycoder.AuthError]. New does not send a request.
func New(model string, opts ...Option) (*Client, error) {
	client := &Client{model: model, cfg: config{Config: api.NewConfig(provider, noHome)}}
	c := &client.cfg
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(c, opts))
	errs = append(errs, c.settle(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new bedrock client: %w", err)
	}
	return client, nil
}

// settle determines the URL and the key once all options are applied.
func (c *config) settle(model string) error {
	if os.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") != "true" {
		if err := c.FindBaseURL(nil, "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"); err != nil {
			return err
		}
	}
	if c.BaseURL == noHome {
		if err := c.findRegion(); err != nil {
			return err
		}
		c.SetHome(provider, "https://bedrock-runtime."+c.region+".amazonaws.com")
	}
	err := c.FindKey(model, []string{"Authorization"}, keyEnv)
	if _, missing := errors.AsType[*aycoder.AuthError](err); missing && c.signs {
		return nil // the caller's client authenticates the requests
	}
	return err
}

// findRegion looks for the region in the variables that Amazon's own tools read.
func (c *config) findRegion() error {
	if c.region != "" {
		return nil
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region := os.Getenv(name); region != "" {
			return c.setRegion(name, region)
		}
	}
	return &aycoder.ConfigError{Option: "WithRegion",
		Err: errors.New("no region: set AWS_REGION or pass WithRegion")}
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.exchange(req).Stream(ctx)
}

// Open implements [aycoder.ModelOpener].
func (c *Client) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	return c.exchange(req).Open(ctx)
}

// Opens implements [aycoder.ModelOpener].
func (c *Client) Opens(m aycoder.ModelClient) bool { return m == c }

// exchange returns the exchange of a request.
func (c *Client) exchange(req *aycoder.Request) *api.Exchange {
	model := cmp.Or(req.Model, c.model)
	name := strings.ReplaceAll(url.PathEscape(model), ":", "%3A")
	return &api.Exchange{
		Config: &c.cfg.Config, Model: model, MaxResponse: req.MaxResponse,
		URL:        c.cfg.BaseURL + "/model/" + name + "/converse-stream",
		Encode:     func() (*api.Payload, error) { return c.encode(req) },
		SetHeaders: c.setHeaders,
		Decode:     func(k *api.Call) api.Decoder { return &decoder{call: k, names: api.Renamed(req.Tools, maxName)} },
		Frames:     eventstream.Events, OrJSON: true,
	}
}

// setHeaders sets the key, unless the caller's transport signs the request.
func (c *Client) setHeaders(h http.Header) {
	c.cfg.SetHeaders(h, "Authorization", "Bearer ")
	if c.cfg.Header().Get("Accept") == "" {
		h.Set("Accept", "application/vnd.amazon.eventstream, application/json")
	}
}

// FormatsOutput implements [aycoder.OutputFormatter]. It returns true for Claude models
// from version 4.5 on. It returns false for all other models, because they do not support
// structured output on Bedrock.
func (c *Client) FormatsOutput(model string) bool {
	model = cmp.Or(model, c.model)
	return api.ClaudeFormatsOutput(model) && !strings.Contains(model, "opus-4-1")
}

// FormatsWithTools reports whether [aycoder.Request.Output] also constrains the answer in a request
// with tools. It returns what [Client.FormatsOutput] returns, as the service documents.
func (c *Client) FormatsWithTools(model string) bool { return c.FormatsOutput(model) }

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
