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
	"github.com/aycoder/aycoder/internal/option"
)

const (
	provider       = "openai"
	keyEnv         = "OPENAI_API_KEY"
	baseEnv        = "OPENAI_BASE_URL"
	openaiHost     = "api.openai.com"
	defaultBaseURL = "https://" + openaiHost + "/v1"
)

// Client is a client of the Chat Completions API or, with [WithResponses], of the
// Responses API. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

// A config is the result of the options.
type config struct {
	api.Config
	keyEnv    []string
	baseEnv   []string
	adaptBase func(string) string // of baseEnv
	keyHeader string              // the header of the key, and the prefix of its value
	keyPrefix string
	responses bool
	stream    streamer
	preset    bool               // the preset determines the service
	named     bool               // by WithProvider
	tokens    bool               // replaces the key
	xml       textTools          // nil if the API's own tools are used
	thinkTags func() thinkFilter // nil if tags are plain text
	echo      string
	effort    string
	query     url.Values
	extra     map[string]json.RawMessage
	dialect   dialect
}

// A streamer implements one of the APIs. It is a value so that a program does not link
// the API that it does not use.
type streamer func(c *Client, ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error]

// Option sets a property of a [Client]. Options are applied in order; the last one wins
// unless its comment says otherwise.
type Option func(*config) error

// WithAPIKey sets the key. Default: the environment variable OPENAI_API_KEY, or that of
// the preset, as [New] reads it.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithTokenSource sets a function that returns the bearer token of each request, for
// services with short-lived tokens such as Azure's Entra ID or Copilot. The token
// replaces the key. The function must be safe for concurrent use. Default: none, the key
// is used.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(c *config) error {
		c.tokens = true
		return c.SetToken("WithTokenSource", token)
	}
}

// WithBaseURL sets the URL of the service, including its version, without the appended
// "/chat/completions" or "/responses". With another URL than the default a key is
// optional, and the key in the environment is not sent, because it belongs to the default
// service. Default: the environment variable OPENAI_BASE_URL, in which case the key in
// the environment belongs to that service, or else https://api.openai.com/v1. Of the
// presets, Groq reads GROQ_BASE_URL and Together reads TOGETHER_BASE_URL.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithProvider sets the name of the service in errors, in [Client.ModelName], and in the
// parts that the service wants back: such parts are sent back only to the name that they
// came from. Default: "openai", the name of the preset, or the host and port of a base
// URL that is neither OpenAI's nor a preset's.
func WithProvider(name string) Option {
	return func(c *config) error {
		if !api.Token(name) {
			return &aycoder.ConfigError{Option: "WithProvider", Err: errors.New("name is not a word")}
		}
		c.Provider, c.named = name, true
		return nil
	}
}

// WithHeader sets a header of every request. It overrides the headers of the client, and
// an authorization or api-key header replaces the key. Repeated options with different
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

// WithHTTPClient sets the HTTP client, for proxies, certificates or recording. It is
// copied. Redirects are followed only to the same host, whatever its CheckRedirect says.
// Default: a client with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error { return c.SetHTTPClient("WithHTTPClient", hc) }
}

// WithMaxTokens limits the answers to requests that do not set a limit. Default: the
// limit of the service.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits the time without data from the service, including the wait for
// the response header. When it has passed, the request ends with an
// [aycoder.TimeoutError]. Time that the caller spends handling an event does not count.
// Comments, blank lines and events without data, which some services send while a request
// waits in a queue, do not count as data. Default: 5 minutes, and 10 for [DeepSeek] and
// for the servers of open models ([VLLM], [LlamaCpp], [LMStudio]), which load a model
// first.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithThinking sets how much a model thinks, which OpenAI calls its reasoning effort:
// "minimal", "low", "medium", "high", or another level that the model knows. It applies
// to requests whose [aycoder.Request.Thinking] leaves it open. Default: set by the model.
func WithThinking(level string) Option {
	return func(c *config) error {
		if !api.Token(level) {
			return &aycoder.ConfigError{Option: "WithThinking", Err: errors.New("level is not a word")}
		}
		c.effort = level
		return nil
	}
}

// WithExtra sets an additional top-level field in the body of every request, such as
// "search_parameters" of xAI or "provider" of OpenRouter. [aycoder.Request.Extra]
// overrides it. Repeated options with different names add up. Default: none.
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

// WithQuery sets a query parameter of the URL, such as Azure's "api-version". Repeated
// options with different names add up. Default: none.
func WithQuery(name, value string) Option {
	return func(c *config) error {
		q := url.Values{}
		maps.Copy(q, c.query)
		q.Set(name, value)
		c.query = q
		if !strings.Contains(name, "version") {
			c.AddSecret(value) // some gateways expect their keys there
		}
		return nil
	}
}

// WithResponses selects the Responses API. The service does not store the conversation: a
// model's reasoning is sent back encrypted, which is how a model keeps it between its
// calls. Server-side items are [aycoder.Opaque] parts, which are sent back unchanged; so
// are items that a host creates, such as an approval. The lists "tools" and "include" of
// [aycoder.Request.Extra] extend the client's own, and null removes a field that the
// client sets by itself, such as "store". The API does not support stop sequences: a
// request with them is an error. Default: Chat Completions.
func WithResponses(on bool) Option {
	return func(c *config) error {
		if c.responses, c.stream = on, (*Client).streamChat; on {
			c.stream = (*Client).streamResponses
		}
		return nil
	}
}

// WithXMLTools describes the tools in the prompt and reads the calls from the text, for
// models that were not trained to call tools. It applies to Chat Completions. Default: false,
// which uses the tool calls of the API.
func WithXMLTools(on bool) Option {
	return func(c *config) error {
		if c.xml = nil; on {
			c.xml = xmlTools{}
		}
		return nil
	}
}

// WithThinkTags reads "<think>…</think>" at the beginning of an answer as
// [aycoder.Thinking], for servers that leave it in the text because they do not know the
// model's tags. The same tags further on stay text. It applies to Chat Completions.
// Default: off, except for some presets.
func WithThinkTags(on bool) Option {
	return func(c *config) error {
		if c.thinkTags = nil; on {
			c.thinkTags = newChatThink
		}
		return nil
	}
}

// WithThinkingField names the message field, such as "reasoning_content", in which the
// model's thinking before its calls is sent back. Services need it to let a model
// continue its thinking between calls. It applies to Chat Completions. Default: set by
// the preset, otherwise none; "reasoning_details" are sent back in any case.
func WithThinkingField(name string) Option {
	return func(c *config) error {
		// the fields of an assistant message that have another meaning
		known := []string{"role", "content", "name", "refusal", "tool_calls", "reasoning_details"}
		if !api.Token(name) || slices.Contains(known, name) {
			return &aycoder.ConfigError{Option: "WithThinkingField", Err: fmt.Errorf("%q is not a field for this", name)}
		}
		c.echo = name
		return nil
	}
}

// New returns a client that uses model for requests that do not name one. It reports all
// invalid options at once, as an [aycoder.ConfigError], and a missing key as an
// [aycoder.AuthError]. It does not send a request.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, defaultBaseURL), stream: (*Client).streamChat, keyEnv: []string{keyEnv},
		keyHeader: "Authorization", keyPrefix: "Bearer "}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(&c, opts))
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

// identify determines the service of a base URL, unless a preset does.
func (c *config) identify() {
	if c.preset || c.BaseURL == defaultBaseURL {
		return
	}
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil: // it was validated before
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

// endpoint returns the URL of an API.
func (c *Client) endpoint(path string) string {
	u := c.cfg.BaseURL + path
	if len(c.cfg.query) > 0 {
		u += "?" + c.cfg.query.Encode()
	}
	return u
}

// modelsURL returns the URL of the list of models. A deployment of Azure has none.
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

// String returns the provider, the model and the endpoint, without the key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
