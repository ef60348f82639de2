// Package bedrock is a [aycoder.ModelClient] for the Converse API of Amazon Bedrock,
// which asks all models there in one way.
//
//	client, err := bedrock.New("us.anthropic.claude-sonnet-4-5-20250929-v1:0",
//		bedrock.WithRegion("us-east-1")) // key from AWS_BEARER_TOKEN_BEDROCK
//	resp, err := aycoder.Complete(ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is a monad?")},
//	})
//
// Claude can be asked there in its own words, too: see the package anthropic.
//
// # Keys and signatures
//
// A request carries a key of Bedrock's as a bearer token, or is signed by an
// [http.Client] of the caller's ([WithHTTPClient]), whose transport adds what it takes;
// it may read the body, which can be had again with [http.Request.GetBody]. No SDK of
// AWS is needed here.
//
// # What goes out
//
// A request's body ends with its messages, and everything before them is the same in
// every step of a conversation. Messages of one role in a row are one message there.
// Models that have a prompt cache (Claude and Nova) get breakpoints behind the system
// prompt, the tools and the last message of the user; the last is all that a body of
// the next step does not begin with. [aycoder.Request.NoCache] turns them off.
//
// A system message in the middle of a conversation is sent as a user's text inside
// <system> tags. Thinking without a signature, blocks of other providers and text of
// nothing but white space are left out, since models refuse them. Ids of calls and
// names of tools that the API does not take are mapped. Images, documents and videos of
// the kinds the API knows are sent, also from s3:// addresses; others are named in a
// text. The API has no way to forbid calls: with [aycoder.ToolNone] the tools are left
// out, unless the conversation has calls, for which it wants the tools.
//
// [aycoder.Request.Thinking] goes to Claude as a budget, and to Nova 2 and gpt-oss as
// an effort: low up to 4096 tokens, medium up to 16384, high above (Nova: medium, since
// high excludes other settings). Other models take no such wish. What else a model
// takes goes into [aycoder.Request.Extra], as "additionalModelRequestFields" or
// "guardrailConfig".
//
// # What comes back
//
// Text with citations keeps them in its Extra. Blocks of the service's own (redacted
// thinking, tools on its side and their results, and whatever is added later) are
// [aycoder.Opaque] and go back byte for byte. An answer that a guardrail has touched
// stops with [aycoder.StopRefusal]. The tokens of [aycoder.Usage] are as the service
// counts them: its input is that which no cache had.
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
)

const (
	provider = "bedrock"
	keyEnv   = "AWS_BEARER_TOKEN_BEDROCK"

	// noHome stands for the address until the region is known.
	noHome = "https://bedrock-runtime.amazonaws.com"
)

// Client asks a model through the Converse API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

type config struct {
	api.Config
	region string
	signs  bool // the HTTP client is the caller's
}

// Option sets a property of a [Client]. Options are applied in order; the last one
// wins where nothing else is said.
type Option func(*config) error

// WithRegion sets the region, such as "us-east-1". Default: that in the environment
// variables AWS_REGION or AWS_DEFAULT_REGION, which [New] reads.
func WithRegion(region string) Option {
	return func(c *config) error { return c.setRegion("WithRegion", region) }
}

func (c *config) setRegion(option, region string) error {
	if !api.HostLabel(region) {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf("region %q is not valid", region)}
	}
	c.region = region
	return nil
}

// WithAPIKey sets a key of Bedrock's. Default: that in the environment variable
// AWS_BEARER_TOKEN_BEDROCK, which [New] reads. None is needed with [WithHTTPClient].
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithToken sets where the bearer token of a request comes from, in the place of a key
// that lasts. The function is called for each request with its context, and by several
// goroutines at once; an error of it is an [aycoder.AuthError]. Default: none.
func WithToken(token func(context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithToken", token) }
}

// WithBaseURL sets where the service is, without the "/model/…" that is appended: a
// gateway, or an endpoint of a private network. No region and no key is needed then,
// and the key in the environment is not sent. Default: that in the environment variables
// AWS_ENDPOINT_URL_BEDROCK_RUNTIME or AWS_ENDPOINT_URL, to which the key in the
// environment belongs then, or else that of the region.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header of every request. It wins over what the client sets itself,
// and an authorization header takes the place of the key. Several names add up.
// Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the client that requests go through: signatures, proxies,
// certificates, recording. It is copied. Redirects are followed only to the same host,
// whatever its CheckRedirect says. Default: one with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.signs = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithMaxTokens bounds the answers to requests that set no bound. Default: the model's
// own bound.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout sets the longest silence of the service. After it the request ends
// with an [aycoder.TimeoutError]. Time that the caller takes to handle an event does
// not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// New returns a client that asks model where a request names none: the id of a model or
// an inference profile, or its ARN. All options that are wrong are reported at once, as
// [aycoder.ConfigError]. A missing key is an [aycoder.AuthError]. It sends nothing.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, noHome)}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
	errs = append(errs, c.settle(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new bedrock client: %w", err)
	}
	return &Client{model: model, cfg: c, http: c.HTTP()}, nil
}

// settle finds the address and the key once all options are known.
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
		return nil // the caller's client adds what it takes
	}
	return err
}

func (c *config) findRegion() error {
	if c.region != "" {
		return nil
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region := os.Getenv(name); region != "" {
			return c.setRegion(name, region)
		}
	}
	return &aycoder.ConfigError{Option: "WithRegion", Err: errors.New("no region: set AWS_REGION or pass WithRegion")}
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	model := cmp.Or(req.Model, c.model)
	name := strings.ReplaceAll(url.PathEscape(model), ":", "%3A")
	x := &api.Exchange{
		Config: &c.cfg.Config, HTTP: c.http, Model: model, MaxResponse: req.MaxResponse,
		URL:        c.cfg.BaseURL + "/model/" + name + "/converse-stream",
		Encode:     func() (*api.Payload, error) { return c.encode(req) },
		SetHeaders: c.setHeaders,
		Decode:     func(k *api.Call) api.Decoder { return &decoder{call: k} },
		Frames:     eventstream.Events, OrJSON: true,
	}
	return x.Stream(ctx)
}

func (c *Client) setHeaders(h http.Header) {
	c.cfg.SetHeaders(h, "Authorization", "Bearer ")
	if c.cfg.Header().Get("Accept") == "" {
		h.Set("Accept", "application/vnd.amazon.eventstream, application/json")
	}
}

// FormatsOutput implements [aycoder.OutputFormatter]. Claude does since 4.5.
func (c *Client) FormatsOutput(model string) bool {
	model = cmp.Or(model, c.model)
	return api.ClaudeFormatsOutput(model) && !strings.Contains(model, "opus-4-1")
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return provider, c.model }

// String names provider, model and address. It shows no key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
