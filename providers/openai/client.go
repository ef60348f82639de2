package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

const (
	provider       = "openai"
	keyEnv         = "OPENAI_API_KEY"
	baseEnv        = "OPENAI_BASE_URL"
	openaiHost     = "api.openai.com"
	defaultBaseURL = "https://" + openaiHost + "/v1"
)

// Client asks a model through Chat Completions, or through Responses with
// [WithResponses]. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

// A config is what the options set.
type config struct {
	api.Config
	keyEnv    []string
	baseEnv   []string
	adaptBase func(string) string // of baseEnv
	keyHeader string              // the header of the key, and what stands before it
	keyPrefix string
	responses bool
	stream    streamer
	preset    bool               // says what the service is
	named     bool               // with WithProvider
	tokens    bool               // take the place of the key
	xml       textTools          // nil if the service is told of tools in its own way
	thinkTags func() thinkFilter // nil if tags are text
	echo      string
	effort    string
	query     url.Values
	extra     map[string]json.RawMessage
	dialect   dialect
}

// A streamer asks through one of the APIs. It is a value so that a program which does
// not use the other one does not link it.
type streamer func(c *Client, ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error]

// Option sets a property of a [Client]. Options are applied in order; the last one
// wins where nothing else is said.
type Option func(*config) error

// WithAPIKey sets the key. Default: that in the environment variable OPENAI_API_KEY,
// or the one of the service, which [New] reads.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithTokenSource sets where the bearer token of each request comes from, for services
// whose tokens do not live long: Azure's Entra ID, Copilot. It takes the place of the
// key. It must be safe for concurrent use. Default: the key.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(c *config) error {
		c.tokens = true
		return c.SetToken("WithTokenSource", token)
	}
}

// WithBaseURL sets where the service is, with its version and without the
// "/chat/completions" or "/responses" that is appended. With a base URL other than the
// default no key is needed, and the one in the environment is not sent: it belongs to
// the service. Default: that in the environment variable OPENAI_BASE_URL, to which the
// key in the environment belongs then, or else https://api.openai.com/v1. Of the presets
// Groq reads GROQ_BASE_URL and Together TOGETHER_BASE_URL; others read none.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithProvider sets what the service is called in errors, in [Client.ModelName] and in
// the parts that it wants back: those of a conversation go back only to the name that
// they came from. Default: "openai", the name of the preset, or the host and port of
// the base URL where that is neither OpenAI's nor a preset's.
func WithProvider(name string) Option {
	return func(c *config) error {
		if !api.Token(name) {
			return &aycoder.ConfigError{Option: "WithProvider", Err: errors.New("name is not a word")}
		}
		c.Provider, c.named = name, true
		return nil
	}
}

// WithHeader sets a header of every request. It wins over what the client sets
// itself, and an authorization or api-key header takes the place of the key. Several
// names add up. Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithOrganization bills the requests to an organisation. Default: that of the key.
func WithOrganization(id string) Option {
	return func(c *config) error { return c.SetHeader("WithOrganization", "OpenAI-Organization", id) }
}

// WithProject bills the requests to a project. Default: that of the key.
func WithProject(id string) Option {
	return func(c *config) error { return c.SetHeader("WithProject", "OpenAI-Project", id) }
}

// WithHTTPClient sets the client that requests go through: proxies, certificates,
// recording. It is copied. Redirects are followed only to the same host, whatever its
// CheckRedirect says. Default: one with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error { return c.SetHTTPClient("WithHTTPClient", hc) }
}

// WithMaxTokens bounds the answers to requests that set no bound. Default: the
// service's own bound.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout sets the longest silence of the service. After it the request ends
// with an [aycoder.TimeoutError]. Time that the caller takes to handle an event does
// not count. Comments, blank lines and events without data, which some services send
// while a request waits in a queue, do not end a silence. The wait for the head of the
// response is one, too. Default: 5 minutes, and 10 for [DeepSeek] and for the servers of
// open models ([VLLM], [LlamaCpp], [LMStudio]), which load a model first.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithReasoningEffort sets how much a reasoning model thinks: "minimal", "low",
// "medium", "high", or what else a model knows. Default: the model's.
func WithReasoningEffort(effort string) Option {
	return func(c *config) error {
		if !api.Token(effort) {
			return &aycoder.ConfigError{Option: "WithReasoningEffort", Err: errors.New("effort is not a word")}
		}
		c.effort = effort
		return nil
	}
}

// WithExtra sets a further top-level field of every request's body, such as
// "search_parameters" of xAI or "provider" of OpenRouter. [aycoder.Request.Extra] wins
// over it. Several names add up. Default: none.
func WithExtra(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil {
			return &aycoder.ConfigError{Option: "WithExtra", Err: fmt.Errorf("field %q: %w", name, err)}
		}
		c.extra = maps.Clone(c.extra)
		if c.extra == nil {
			c.extra = map[string]json.RawMessage{}
		}
		c.extra[name] = data
		return nil
	}
}

// WithQuery sets a parameter of the address, such as Azure's "api-version". Several
// names add up. Default: none.
func WithQuery(name, value string) Option {
	return func(c *config) error {
		q := url.Values{}
		maps.Copy(q, c.query)
		q.Set(name, value)
		c.query = q
		if !strings.Contains(name, "version") {
			c.AddSecret(value) // some gateways take their keys there
		}
		return nil
	}
}

// WithResponses asks through the Responses API. The service stores nothing: what a model
// thought goes back to it encrypted, which is how models keep it between their calls.
// Items of the service's own tools are [aycoder.Opaque] parts, which go back as they
// came; so does what a host makes for them, such as an approval. The lists "tools" and
// "include" of [aycoder.Request.Extra] add to the client's own, and a null takes a field
// away that the client sets by itself, such as "store". The API has no stop sequences:
// a request with some is an error. Default: Chat Completions.
func WithResponses() Option {
	return func(c *config) error {
		c.responses, c.stream = true, (*Client).streamResponses
		return nil
	}
}

// WithXMLTools describes the tools in the prompt and reads the calls from the text,
// for models that were not made to call tools. It is of Chat Completions. Default: the
// service's own way.
func WithXMLTools() Option {
	return func(c *config) error { c.xml = xmlTools{}; return nil }
}

// WithThinkTags reads "<think>…</think>" at the beginning of an answer as
// [aycoder.Thinking]: some servers leave it in the text where they were not told how a
// model thinks. The same tags further on stay text. It is of Chat Completions.
// Default: off, but for the presets that say so.
func WithThinkTags() Option {
	return func(c *config) error { c.thinkTags = newChatThink; return nil }
}

// WithReasoningField sends what the model thought before it called tools back in this
// field of its messages, such as "reasoning_content", as services want it that let a
// model go on thinking between calls. It is of Chat Completions. Default: what the
// preset says, and nothing without one: "reasoning_details" go back either way.
func WithReasoningField(name string) Option {
	return func(c *config) error {
		if !api.Token(name) || slices.Contains(chatMessageFields, name) {
			return &aycoder.ConfigError{Option: "WithReasoningField", Err: fmt.Errorf("%q is no field for this", name)}
		}
		c.echo = name
		return nil
	}
}

// New returns a client that asks model where a request names none. All options that
// are wrong are reported at once, as [aycoder.ConfigError]. A missing key is an
// [aycoder.AuthError]. It sends nothing.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, defaultBaseURL), stream: (*Client).streamChat, keyEnv: []string{keyEnv},
		keyHeader: "Authorization", keyPrefix: "Bearer "}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
	if !c.preset {
		c.baseEnv = []string{baseEnv}
	}
	errs = append(errs, c.FindBaseURL(c.adaptBase, c.baseEnv...))
	c.identify()
	errs = append(errs, c.FindKey(model, []string{"Authorization", "Api-Key"}, c.keyEnv...))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new %s client: %w", c.Provider, err)
	}
	return &Client{model: model, cfg: c, http: c.HTTP()}, nil
}

// identify finds out whose service a base URL is, where no preset says so.
func (c *config) identify() {
	if c.preset || c.BaseURL == defaultBaseURL {
		return
	}
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil: // was checked
	case u.Scheme == "https" && (u.Host == openaiHost || strings.HasSuffix(u.Host, "."+openaiHost)):
		c.SetHome(c.Provider, c.BaseURL) // of a region: "https://eu.api.openai.com/v1"
	default:
		if c.dialect = compatible(); !c.named {
			c.Provider = u.Host
		}
	}
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.cfg.stream(c, ctx, req)
}

// endpoint is the address of an API.
func (c *Client) endpoint(path string) string {
	u := c.cfg.BaseURL + path
	if len(c.cfg.query) > 0 {
		u += "?" + c.cfg.query.Encode()
	}
	return u
}

// modelsURL is where the service lists its models. A deployment of Azure has no list.
func (c *Client) modelsURL() string {
	if strings.Contains(c.cfg.BaseURL, "/openai/deployments/") {
		return ""
	}
	return c.endpoint("/models")
}

// setHeaders sets all headers of a request.
func (c *Client) setHeaders(h http.Header) {
	c.cfg.SetHeaders(h, c.cfg.keyHeader, c.cfg.keyPrefix)
	if c.cfg.tokens && c.cfg.Header().Get(c.cfg.keyHeader) == "" {
		h.Del(c.cfg.keyHeader)
	}
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return c.cfg.Provider, c.model }

// String names provider, model and endpoint. It shows no key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
