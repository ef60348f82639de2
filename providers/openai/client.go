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
	cfg   settings
}

// A config is the result of the options.
type config struct {
	*settings
	keyEnv    string              // may be empty
	baseEnv   string              // may be empty
	adaptBase func(string) string // of baseEnv
	preset    bool                // the preset determines the service
	named     bool                // by WithProvider
}

// settings is the part of them that a Client keeps.
type settings struct {
	api.Config
	bareKey   bool // the key is the header Api-Key, and not a bearer token
	responses bool
	exchange  exchanger
	xml       textTools          // nil if the API's own tools are used
	thinkTags func() thinkFilter // nil if tags are plain text
	echo      string
	effort    string
	query     string // encoded
	extra     map[string]json.RawMessage
	dialect   dialect
}

// An exchanger returns the exchange of a request to one of the two APIs. It is a function value, so that the
// linker can leave out the API that a program does not use.
type exchanger func(c *Client, req *aycoder.Request) *api.Exchange

// Option sets a property of a [Client]. A repeated option overrides the earlier one,
// unless its comment says that repeated options add up.
type Option func(*config) error

// WithAPIKey sets the API key. Default: [New] reads the environment variable
// OPENAI_API_KEY. A preset such as [OpenRouter] reads a variable of its service instead.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithTokenSource sets a function that returns the bearer token of a request, for
// services with short-lived tokens, such as Microsoft Entra ID for Azure. The token
// replaces an API key. The client calls the function for each request, with the request's
// context, possibly from several goroutines at once. An error of the function ends the
// request with an [*aycoder.AuthError]. With a token source, [New] does not look for an
// API key in the environment. Default: no token source.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithTokenSource", token) }
}

// WithBaseURL sets the URL of the service, including the version of the API. The client
// appends "/chat/completions" or "/responses" to the URL. If the option sets the URL of a
// service that is not the default, an API key is optional, and a key in the environment is
// not sent, because that key belongs to the default service.
//
// Default: the environment variable OPENAI_BASE_URL, or else https://api.openai.com/v1.
// The variable differs from the option: a key in the environment is sent to the variable's
// URL. For a preset such as [OpenRouter], the default is the URL of its service, and
// OPENAI_BASE_URL is not read. [Groq] reads GROQ_BASE_URL, and [Together] reads
// TOGETHER_BASE_URL.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithProvider sets the name of the service, which appears in errors and in the result of
// [Client.ModelName]. The name also marks the parts of messages that only the service
// understands, such as encrypted reasoning. The client does not send parts that are
// marked with another name. Default: "openai" for OpenAI, the preset's name for a preset,
// and the host and port of the base URL for any other service.
func WithProvider(name string) Option {
	return func(c *config) error {
		if !api.Token(name) {
			return &aycoder.ConfigError{Option: "WithProvider",
				Err: errors.New("name is not a word")}
		}
		c.Provider, c.named = name, true
		return nil
	}
}

// WithHeader sets a header that is sent with every request. It overrides a header of the
// same name that the client sets. The headers "authorization" and "api-key" also replace
// the API key. Repeated options with different names add up. Default: no additional
// headers.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithOrganization sets the OpenAI organization to which the requests are billed.
// Default: the default organization of the API key.
func WithOrganization(id string) Option {
	return func(c *config) error { return c.SetHeader("WithOrganization", "OpenAI-Organization", id) }
}

// WithProject sets the OpenAI project to which the requests are billed. Default: the
// default project of the API key.
func WithProject(id string) Option {
	return func(c *config) error { return c.SetHeader("WithProject", "OpenAI-Project", id) }
}

// WithHTTPClient sets the HTTP client, for example to use a proxy or to record requests.
// [New] copies hc. The copy follows redirects only to the same host. Default: a client
// with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error { return c.SetHTTPClient("WithHTTPClient", hc) }
}

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. Default: the limit of the service.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. The wait for
// the header of the response counts, too. Some services send comments, blank lines and
// events without data while a request waits in a queue; these do not count as data. The
// time in which the caller handles an event does not count.
//
// Default: 5 minutes. For [DeepSeek], [VLLM], [LlamaCpp] and [LMStudio], the default is
// 10 minutes, because a request may wait there in a queue or until a model is loaded.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithThinking sets how much the model thinks. OpenAI calls this the reasoning effort.
// The level is "minimal", "low", "medium", "high", or another level that the model
// accepts. The option applies to requests whose [aycoder.Request.Thinking] is 0. Default:
// the model decides.
func WithThinking(level string) Option {
	return func(c *config) error {
		if !api.Token(level) {
			return &aycoder.ConfigError{Option: "WithThinking",
				Err: errors.New("level is not a word")}
		}
		c.effort = level
		return nil
	}
}

// WithExtra sets an additional top-level field in the body of every request, such as
// "search_parameters" for xAI or "provider" for OpenRouter. The same field in
// [aycoder.Request.Extra] overrides it. Repeated options with different names add up.
// Default: no additional fields.
func WithExtra(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil {
			return &aycoder.ConfigError{Option: "WithExtra",
				Err: fmt.Errorf("field %q: %w", name, err)}
		}
		c.extra = maps.Clone(c.extra)
		if c.extra == nil {
			c.extra = map[string]json.RawMessage{}
		}
		c.extra[name] = data
		return nil
	}
}

// WithQuery adds a parameter to the query of the URL, such as Azure's "api-version".
// Repeated options with different names add up. Default: no parameters.
func WithQuery(name, value string) Option {
	return func(c *config) error {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			return err
		}
		q.Set(name, value)
		c.query = q.Encode()
		if !strings.Contains(name, "version") {
			c.AddSecret(value) // some gateways expect their keys there
		}
		return nil
	}
}

// WithResponses selects the Responses API instead of Chat Completions. The client asks the
// service not to store the conversation. Instead, the client sends the model's encrypted
// reasoning back with each request, so that the model can continue its reasoning after a
// tool call. An item of a response that only the service understands becomes an
// [aycoder.Opaque] part, which the client sends back unchanged. A host may add Opaque
// parts to a message, for example to approve a call of a server-side tool.
//
// If [aycoder.Request.Extra] has a list "tools" or "include", the client appends its
// elements to the client's own list. A null in Extra removes a field that the client sets,
// such as "store". The API has no stop sequences, so a request with [aycoder.Request.Stop]
// is an error. Default: false, which selects Chat Completions.
func WithResponses(on bool) Option {
	return func(c *config) error {
		if c.responses, c.exchange = on, (*Client).chatExchange; on {
			c.exchange = (*Client).respExchange
		}
		return nil
	}
}

// WithXMLTools makes tools available to models that were not trained to call them. The
// client describes the tools in the system prompt, and reads the model's calls from its
// text. The option applies only to Chat Completions. Default: false, which uses the tool
// calls of the API.
func WithXMLTools(on bool) Option {
	return func(c *config) error {
		if c.xml = nil; on {
			c.xml = xmlTools{}
		}
		return nil
	}
}

// WithThinkTags makes the client read "<think>…</think>" at the beginning of an answer as
// [aycoder.Thinking]. The option is for servers that leave these tags in the text, because
// they do not know the tags of their model. Tags that are not at the beginning of an
// answer are ordinary text. The option applies only to Chat Completions. Default: true for
// [Groq], [Together], [VLLM] and [LMStudio], otherwise false.
func WithThinkTags(on bool) Option {
	return func(c *config) error {
		if c.thinkTags = nil; on {
			c.thinkTags = newChatThink
		}
		return nil
	}
}

// WithThinkingField makes the client send the model's thinking back to the service. The
// name is that of the field in the model's messages, such as "reasoning_content". Only
// messages with tool calls get the field. Some services need it: without the thinking before a tool call, the
// model cannot continue its thinking after the call. The option applies only to Chat
// Completions. It does not concern the field "reasoning_details", which is always sent
// back. Default: the field that the preset's service needs, otherwise no field.
func WithThinkingField(name string) Option {
	return func(c *config) error {
		// the fields of an assistant message that have another meaning
		known := []string{"role", "content", "name", "refusal", "tool_calls", "reasoning_details"}
		if !api.Token(name) || slices.Contains(known, name) {
			return &aycoder.ConfigError{Option: "WithThinkingField",
				Err: fmt.Errorf("%q is not a field for this", name)}
		}
		c.echo = name
		return nil
	}
}

// New returns a client that uses model for requests whose [aycoder.Request.Model] is
// empty. If options are invalid, the error joins an [*aycoder.ConfigError] for each of
// them. If the API key is missing, the error is an [*aycoder.AuthError]. New does not
// send a request.
func New(model string, opts ...Option) (*Client, error) {
	client := &Client{model: model, cfg: settings{Config: api.NewConfig(provider, defaultBaseURL), exchange: (*Client).chatExchange}}
	c := &config{settings: &client.cfg, keyEnv: keyEnv}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(c, opts))
	if !c.preset {
		c.baseEnv = baseEnv
	}
	errs = append(errs, c.FindBaseURL(c.adaptBase, c.baseEnv))
	c.identify()
	errs = append(errs, c.FindKey(model, []string{"Authorization", "Api-Key"}, c.keyEnv))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new %s client: %w", c.Provider, err)
	}
	return client, nil
}

// identify determines from the base URL which service the client talks to. A preset
// already knows its service. An unknown host gets the dialect that most services
// understand, because many of them refuse the newer fields of OpenAI.
func (c *config) identify() {
	if c.preset || c.BaseURL == defaultBaseURL {
		return
	}
	u, err := url.Parse(c.BaseURL)
	if err == nil && isOpenAI(u) {
		c.SetHome(c.Provider, c.BaseURL)
		return
	}
	c.dialect = compatible()
	if err == nil && !c.named { // it was validated before
		c.Provider = u.Host
	}
}

// isOpenAI reports whether the service is OpenAI's own, also in a region: "https://eu.api.openai.com/v1".
func (c *settings) isOpenAI() bool {
	u, err := url.Parse(c.BaseURL)
	return err == nil && isOpenAI(u)
}

func isOpenAI(u *url.URL) bool {
	return u.Scheme == "https" && (u.Host == openaiHost || strings.HasSuffix(u.Host, "."+openaiHost))
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.cfg.exchange(c, req).Stream(ctx)
}

// Open implements [aycoder.ModelOpener].
func (c *Client) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	return c.cfg.exchange(c, req).Open(ctx)
}

// Opens implements [aycoder.ModelOpener].
func (c *Client) Opens(m aycoder.ModelClient) bool { return m == c }

// endpoint returns the URL of an API.
func (c *Client) endpoint(path string) string { return c.cfg.BaseURL + c.queried(path) }

// queried returns a path with the query of all requests.
func (c *Client) queried(path string) string {
	if c.cfg.query != "" {
		path += "?" + c.cfg.query
	}
	return path
}

// modelsPath returns the path of the list of models. A deployment of Azure has none.
func (c *Client) modelsPath() string {
	if strings.Contains(c.cfg.BaseURL, "/openai/deployments/") {
		return ""
	}
	return c.queried("/models")
}

// setHeaders sets all headers of a request.
func (c *Client) setHeaders(h http.Header) {
	name, prefix := "Authorization", "Bearer "
	if c.cfg.bareKey {
		name, prefix = "Api-Key", ""
	}
	c.cfg.SetHeaders(h, name, prefix)
}

// ModelName implements [aycoder.ModelNamer]. It returns the name of the service, as
// [WithProvider] describes it, and the model that was passed to [New].
func (c *Client) ModelName() (providerName, model string) { return c.cfg.Provider, c.model }

// AnswerLimit returns the limit that [WithMaxTokens] describes, or 0.
func (c *Client) AnswerLimit() int64 { return int64(c.cfg.MaxTokens) }

// String returns the name of the provider, the model and the URL, but not the API key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same text as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the API key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
