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
package anthropic

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

const (
	provider = "anthropic"
	keyEnv   = "ANTHROPIC_API_KEY"

	defaultBaseURL   = "https://api.anthropic.com"
	defaultVersion   = "2023-06-01"
	defaultMaxTokens = 8192
	defaultIdle      = 5 * time.Minute
	defaultTTL       = 5 * time.Minute

	// maxResponse is the most that is read of one response.
	maxResponse = 64 << 20

	// minSecret is from where on the value of a caller's own header is kept out of
	// error texts: "yes" is in too many of them.
	minSecret = 8
)

// Client asks a model through the Messages API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

// A config holds no secret as a value: the key is inside of auth, where no kind of
// printing reaches it.
type config struct {
	baseURL     string
	endpoint    string
	version     string
	betas       []string
	client      *http.Client
	maxTokens   int
	idle        time.Duration
	ttl         time.Duration
	maxResponse int64

	auth   func() (key string)
	header func() http.Header
}

// Option sets a property of a [Client]. Options are applied in order; the last one
// wins where nothing else is said.
type Option func(*config) error

// WithAPIKey sets the key. Default: that in the environment variable
// ANTHROPIC_API_KEY, which [New] reads.
func WithAPIKey(key string) Option {
	return func(c *config) error {
		if key == "" || strings.ContainsFunc(key, notKey) {
			return &aycoder.ConfigError{Option: "WithAPIKey",
				Err: errors.New("key is empty or has white space or control characters")}
		}
		c.auth = func() string { return key }
		return nil
	}
}

func notKey(r rune) bool { return r <= ' ' || r >= 0x7f }

// WithBaseURL sets where the service is, without the "/v1/messages" that is
// appended. With a base URL other than the default no key is needed, and the one in
// the environment is not sent: it belongs to Anthropic. Default:
// https://api.anthropic.com.
func WithBaseURL(base string) Option {
	return func(c *config) error {
		u, err := url.Parse(base)
		switch {
		case err != nil:
			err = errors.New("not a URL")
		case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
			err = errors.New("not an absolute http or https URL")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			err = errors.New("has a user, a query or a fragment")
		}
		if err != nil {
			return &aycoder.ConfigError{Option: "WithBaseURL", Err: err}
		}
		c.baseURL = strings.TrimRight(base, "/")
		return nil
	}
}

// WithHeader sets a header of every request. It wins over what the client sets
// itself, and an x-api-key or authorization header takes the place of the key.
// Several names add up. Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error {
		if !validHeader(name, value) {
			return &aycoder.ConfigError{Option: "WithHeader",
				Err: fmt.Errorf("name %q or its value is not valid in HTTP", name)}
		}
		h := c.header().Clone()
		h.Set(name, value)
		c.header = func() http.Header { return h }
		return nil
	}
}

func validHeader(name, value string) bool {
	token := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	return name != "" && !strings.ContainsFunc(name, token) && !strings.ContainsAny(value, "\r\n\x00")
}

// WithHTTPClient sets the client that requests go through: proxies, certificates,
// recording. It is copied. Redirects are followed only to the same host, whatever
// its CheckRedirect says. Default: one with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		if hc == nil {
			return &aycoder.ConfigError{Option: "WithHTTPClient", Err: errors.New("client is nil")}
		}
		c.client = hc
		return nil
	}
}

// WithVersion sets the anthropic-version header. Default: 2023-06-01.
func WithVersion(version string) Option {
	return func(c *config) error {
		if version == "" || strings.ContainsFunc(version, notKey) {
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
			if n == "" || strings.ContainsFunc(n, notKey) {
				return &aycoder.ConfigError{Option: "WithBeta", Err: fmt.Errorf("name %q is not valid", n)}
			}
		}
		c.betas = append(slices.Clip(c.betas), names...)
		return nil
	}
}

// WithMaxTokens bounds the answers to requests that set no bound. Default: 8192.
func WithMaxTokens(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return &aycoder.ConfigError{Option: "WithMaxTokens", Err: fmt.Errorf("%d is less than 1", n)}
		}
		c.maxTokens = n
		return nil
	}
}

// WithIdleTimeout sets the longest silence of the service, in which pings do not
// count. After it the request ends with an [aycoder.TimeoutError]. Time that the
// caller takes to handle an event does not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return &aycoder.ConfigError{Option: "WithIdleTimeout", Err: fmt.Errorf("%s is not more than 0", d)}
		}
		c.idle = d
		return nil
	}
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
	c := config{
		baseURL: defaultBaseURL, version: defaultVersion, client: &http.Client{},
		maxTokens: defaultMaxTokens, idle: defaultIdle, ttl: defaultTTL, maxResponse: maxResponse,
		header: func() http.Header { return http.Header{} },
	}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
	errs = append(errs, c.findKey(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new anthropic client: %w", err)
	}
	c.endpoint = c.baseURL + "/v1/messages"
	hc := *c.client
	hc.CheckRedirect = sameHost(c.client.CheckRedirect)
	return &Client{model: model, cfg: c, http: &hc}, nil
}

// findKey takes the key from the environment where nothing else gives one.
func (c *config) findKey(model string) error {
	h := c.header()
	if c.auth != nil || h.Get("X-Api-Key") != "" || h.Get("Authorization") != "" {
		return nil
	}
	if c.baseURL != defaultBaseURL {
		return nil
	}
	key := strings.TrimSpace(os.Getenv(keyEnv))
	if key == "" {
		base := &aycoder.ModelError{Provider: provider, Model: model,
			Err: fmt.Errorf("no API key: set %s or pass WithAPIKey", keyEnv)}
		return &aycoder.AuthError{ModelError: base}
	}
	if err := WithAPIKey(key)(c); err != nil {
		return &aycoder.ConfigError{Option: keyEnv, Err: errors.Unwrap(err)}
	}
	return nil
}

// sameHost keeps the key and the conversation with the host they were meant for:
// net/http takes Authorization off a request to another host, but not x-api-key.
func sameHost(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host || req.Method != via[0].Method {
			return http.ErrUseLastResponse
		}
		if next != nil {
			return next(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return provider, c.model }

// String names provider, model and endpoint. It shows no key.
func (c *Client) String() string {
	return fmt.Sprintf("anthropic.Client(%s at %s)", c.model, c.cfg.baseURL)
}

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value {
	return slog.GroupValue(slog.String("provider", provider),
		slog.String("model", c.model), slog.String("base_url", c.cfg.baseURL))
}

// setHeaders sets all headers of a request.
func (c *config) setHeaders(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream, application/json")
	h.Set("User-Agent", "aycoder")
	h.Set("Anthropic-Version", c.version)
	if len(c.betas) > 0 {
		h.Set("Anthropic-Beta", strings.Join(c.betas, ","))
	}
	own := c.header()
	if c.auth != nil && own.Get("Authorization") == "" {
		h.Set("X-Api-Key", c.auth())
	}
	maps.Copy(h, own)
}

// show is what can be shown of a text that the service wrote: no keys, and at most
// about n bytes. What is cut first may end in a part of a key that nobody finds.
func (c *config) show(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for _, k := range c.secrets() {
		s = strings.ReplaceAll(s, k, "[key]")
	}
	return clip(s, n)
}

// secrets are the keys and what the caller's own headers say, as proxies have keys
// of their own. The longest comes first: another may be a part of it.
func (c *config) secrets() []string {
	own := c.header()
	_, token, _ := strings.Cut(own.Get("Authorization"), " ")
	keys := []string{own.Get("X-Api-Key"), own.Get("Authorization"), strings.TrimSpace(token)}
	if c.auth != nil {
		keys = append(keys, c.auth())
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return len(k) < 4 })
	for _, values := range own {
		for _, v := range values {
			if v = strings.TrimSpace(v); len(v) >= minSecret {
				keys = append(keys, v)
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return keys
}

// modelOf returns the model that req asks.
func (c *Client) modelOf(req *aycoder.Request) string { return cmp.Or(req.Model, c.model) }
