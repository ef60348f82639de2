package ollama

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/sse"
)

const (
	provider = "ollama"
	keyEnv   = "OLLAMA_API_KEY"
	hostEnv  = "OLLAMA_HOST"

	cloudURL = "https://ollama.com"

	// defaultIdle is longer than the time that Ollama allows itself to load a model, 5
	// minutes (OLLAMA_LOAD_TIMEOUT), after which it still has to read the prompt.
	defaultIdle = 10 * time.Minute
)

// Client is a client of an Ollama server. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	seen  *shown
}

// A config is the result of the options.
type config struct {
	api.Config
	context   int64
	keepAlive string // as JSON, or empty
	think     string
	truncate  bool
	pull      func(PullProgress) // nil if a missing model is an error
	options   map[string]json.RawMessage
}

// Option sets a property of a [Client]. A repeated option overrides the earlier one,
// unless its comment says that repeated options add up.
type Option func(*config) error

// WithBaseURL sets the URL of the Ollama server, to which the client appends a path such
// as "/api/chat". Default: the environment variable OLLAMA_HOST, or else
// http://127.0.0.1:11434.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithAPIKey sets the API key for a hosted service. Default: for https://ollama.com,
// [New] reads the environment variable OLLAMA_API_KEY; other servers get no key.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithHeader sets a header that is sent with every request. It overrides a header of the
// same name that the client sets. The header "authorization" also replaces the API key.
// Repeated options with different names add up. Default: no additional headers.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the HTTP client, for example to use a proxy or to record requests.
// [New] copies hc. The copy follows redirects only to the same host. Default: a client
// with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error { return c.SetHTTPClient("WithHTTPClient", hc) }
}

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. Default: the limit in the model's parameters. Most
// models do not set a limit. Their answers may fill the rest of the context.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. The limit also
// applies while the server loads a model or reads the prompt. The time in which the
// caller handles an event does not count. Default: 10 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithContextLength sets the length of the context, in tokens, which the prompt and the
// answer share. Ollama calls this setting num_ctx; the package comment says how to choose
// it. Default: the length in the model's parameters, or else the default of the server.
func WithContextLength(tokens int) Option {
	return func(c *config) error {
		if tokens < 1 {
			return &aycoder.ConfigError{Option: "WithContextLength",
				Err: fmt.Errorf("%d is less than 1", tokens)}
		}
		c.context = int64(tokens)
		return nil
	}
}

// WithKeepAlive sets how long the server keeps the model in memory after a request. 0
// unloads the model at once, and a negative value keeps it indefinitely. Default: the
// server decides; normally it keeps the model for 5 minutes.
func WithKeepAlive(d time.Duration) Option {
	return func(c *config) error {
		switch {
		case d < 0:
			c.keepAlive = "-1"
		case d == 0:
			c.keepAlive = "0"
		default:
			c.keepAlive = strconv.Quote(d.String())
		}
		return nil
	}
}

// WithThinking sets how much the model thinks: "off", "on", or one of the levels "low",
// "medium", "high" and "max". With "on", the model decides how much it thinks. Older
// servers do not accept "max". A model that cannot think accepts only "off". Models of the
// gpt-oss family always think, and do not accept "max". For these models, the client
// replaces "off" with "low", and "on" with a level.
//
// The option applies to requests whose [aycoder.Request.Thinking] is 0. If Thinking is
// negative, the effect is that of "off". If Thinking is positive, the effect is that of
// the level that the option sets, or else that of "on". Default: the model thinks if it
// can.
func WithThinking(level string) Option {
	return func(c *config) error {
		if !slices.Contains([]string{thinkOn, thinkOff, "low", "medium", "high", "max"}, level) {
			return &aycoder.ConfigError{Option: "WithThinking",
				Err: fmt.Errorf("no level %q; there are on, off, low, medium, high and max", level)}
		}
		c.think = level
		return nil
	}
}

const (
	thinkOn  = "on"
	thinkOff = "off"
)

// WithTruncation selects whether Ollama may silently drop messages of a conversation that
// does not fit into the context. If it is false, a request with such a conversation ends
// with an [*aycoder.ContextTooLargeError]. Ollama's own default is to drop messages, but
// an agent could lose its task that way; see the package comment. Default: false.
func WithTruncation(on bool) Option {
	return func(c *config) error { c.truncate = on; return nil }
}

// WithOption sets an option of the model for every request, such as "seed", "top_k" or
// "num_gpu". Four options can also be set in other ways, which take precedence: num_ctx
// by [WithContextLength], num_predict by [WithMaxTokens] or [aycoder.Request.MaxTokens],
// temperature by [aycoder.Request.Temperature], and stop by [aycoder.Request.Stop].
// Repeated options with different names add up. Default: no options.
func WithOption(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil || name == "" {
			err = cmp.Or(err, errors.New("it has no name"))
			return &aycoder.ConfigError{Option: "WithOption",
				Err: fmt.Errorf("option %q: %w", name, err)}
		}
		options := map[string]json.RawMessage{name: data}
		maps.Copy(options, without(c.options, name))
		c.options = options
		return nil
	}
}

func without(m map[string]json.RawMessage, name string) map[string]json.RawMessage {
	m = maps.Clone(m)
	delete(m, name)
	return m
}

// New returns a client that uses model for requests whose [aycoder.Request.Model] is
// empty. If options are invalid, the error joins an [*aycoder.ConfigError] for each of
// them. An invalid environment variable OLLAMA_HOST is reported in the same way. If the
// API key for https://ollama.com is missing, the error is an [*aycoder.AuthError]. New
// does not send a request, and does not check that the model exists.
func New(model string, opts ...Option) (*Client, error) {
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	c, err := configure(opts)
	errs = append(errs, err)
	if c.BaseURL == "" {
		errs = append(errs, c.SetBaseURL(hostEnv, hostURL(os.Getenv(hostEnv))))
	}
	errs = append(errs, c.FindKey(model, []string{"Authorization"}, keyEnv))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new %s client: %w", provider, err)
	}
	return newClient(model, c), nil
}

// configure applies the options. The base URL is empty if none sets it.
func configure(opts []Option) (config, error) {
	c := config{Config: api.NewConfig(provider, cloudURL)}
	c.BaseURL, c.Idle = "", defaultIdle
	err := option.Apply(&c, opts)
	return c, err
}

func newClient(model string, c config) *Client {
	return &Client{model: model, cfg: c, seen: &shown{}}
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
	x := c.exchange(cmp.Or(req.Model, c.model), "/api/chat")
	x.MaxResponse = req.MaxResponse
	x.Encode = func() (*api.Payload, error) { return c.encode(req) }
	x.Decode = func(k *api.Call) api.Decoder { return newDecoder(k, c.cfg.context, len(req.Messages)) }
	return x
}

// exchange returns the settings that all requests share.
func (c *Client) exchange(model, path string) *api.Exchange {
	return &api.Exchange{
		Config: &c.cfg.Config, Model: model, URL: c.cfg.BaseURL + path,
		SetHeaders: c.setHeaders, ModelsPath: "/api/tags", Failure: c.failure,
		Frames: func(r io.Reader) func() (sse.Event, error) { return lines(r, sse.DefaultLimit) },
	}
}

// setHeaders sets all headers of a request.
func (c *Client) setHeaders(h http.Header) {
	c.cfg.SetHeaders(h, "Authorization", "Bearer ")
	if c.cfg.Header().Get("Accept") == "" {
		h.Set("Accept", "application/x-ndjson, application/json")
	}
}

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return provider, c.model }

// FormatsOutput implements [aycoder.OutputFormatter]. It returns false for models in
// Ollama's cloud, which currently does not support structured output. It returns true for
// all other models.
func (c *Client) FormatsOutput(model string) bool { return !c.inCloud(cmp.Or(model, c.model)) }

// inCloud reports whether a model runs in Ollama's cloud, as its tag says:
// "gpt-oss:120b-cloud" or "glm-4.6:cloud".
func (c *Client) inCloud(model string) bool {
	tag := model[strings.LastIndexByte(model, ':')+1:]
	return c.cfg.BaseURL == cloudURL || strings.HasSuffix(tag, "-cloud") ||
		strings.HasSuffix(model, ":cloud")
}

// ModelInfo implements [aycoder.ModelInfoer]. It does not send a request. The information
// comes from [WithContextLength] and from the last call of [Client.Show] for the model. If
// neither was used, ModelInfo returns false.
//
// The context length in the information is the length that requests use. The model may
// support a longer one. If the server decides the length, it is 0.
func (c *Client) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	model = cmp.Or(model, c.model)
	d, ok := c.seen.details(model)
	info := aycoder.ModelInfo{
		Provider: provider, Model: model, Output: c.FormatsOutput(model), Context: c.contextOf(d),
		Tools: d.Has("tools"), Thinking: d.Has("thinking"), Images: d.Has("vision"),
	}
	return info, ok || c.cfg.context > 0
}

// contextOf returns the context length for a model, or 0 if the server decides.
func (c *Client) contextOf(d Details) int64 {
	n := cmp.Or(c.cfg.context, d.NumCtx)
	if n == 0 && d.RemoteModel != "" {
		return d.Context // "Cloud models are set to their maximum context length by default."
	}
	if d.Context > 0 {
		n = min(n, d.Context)
	}
	return n
}

// shown holds the results of [Client.Show].
type shown struct {
	mu     sync.Mutex
	models map[string]Details
}

// maxShown is the number of models that are remembered.
const maxShown = 100

func (s *shown) details(model string) (Details, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.models[model]
	return d, ok
}

func (s *shown) keep(model string, d Details) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.models == nil || len(s.models) >= maxShown {
		s.models = map[string]Details{}
	}
	// large, and not needed for ModelInfo
	d.Template, d.System, d.License, d.Settings = "", "", "", nil
	s.models[model] = d
}

// AnswerLimit returns the limit that [WithMaxTokens] describes, or 0.
func (c *Client) AnswerLimit() int64 { return int64(c.cfg.MaxTokens) }

// String returns the name of the provider, the model and the URL, but not the API key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same text as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the API key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
