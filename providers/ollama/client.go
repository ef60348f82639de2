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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/sse"
)

const (
	provider = "ollama"
	keyEnv   = "OLLAMA_API_KEY"
	hostEnv  = "OLLAMA_HOST"

	cloudURL = "https://ollama.com"

	// defaultIdle is longer than Ollama itself takes at most to load a model: 5 minutes
	// (OLLAMA_LOAD_TIMEOUT), before it reads the prompt.
	defaultIdle = 10 * time.Minute
)

// Client asks a model of Ollama. It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
	seen  *shown
}

// A config is what the options set.
type config struct {
	api.Config
	context   int64
	keepAlive string // as it is sent, or empty
	think     Thinking
	truncate  bool
	options   map[string]json.RawMessage
}

// Option sets a property of a [Client]. Options are applied in order; the last one wins
// where nothing else is said.
type Option func(*config) error

// WithBaseURL sets where Ollama is, without the "/api" that is appended. Default: what
// OLLAMA_HOST says, or http://127.0.0.1:11434.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithAPIKey sets the key that hosted services want. Default: none, but at
// https://ollama.com that in the environment variable OLLAMA_API_KEY, which [New] reads.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithHeader sets a header of every request. It wins over what the client sets itself,
// and an authorization header takes the place of the key. Several names add up.
// Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the client that requests go through: proxies, certificates,
// recording. It is copied. Redirects are followed only to the same host, whatever its
// CheckRedirect says. Default: one with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error { return c.SetHTTPClient("WithHTTPClient", hc) }
}

// WithMaxTokens bounds the answers to requests that set no bound. Default: the model's
// own bound, which is mostly the end of the context.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout sets the longest silence of the service. After it the request ends
// with an [aycoder.TimeoutError]. The first answer of a model takes as long as it takes
// to load it and to read the prompt. Time that the caller takes to handle an event does
// not count. Default: 10 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithContextLength sets how many tokens the model sees at most, its answer included,
// which is Ollama's num_ctx: see the package comment. Default: what the model's
// parameters or the server say.
func WithContextLength(tokens int) Option {
	return func(c *config) error {
		if tokens < 1 {
			return &aycoder.ConfigError{Option: "WithContextLength", Err: fmt.Errorf("%d is less than 1", tokens)}
		}
		c.context = int64(tokens)
		return nil
	}
}

// WithKeepAlive sets how long the model stays in memory after a request: 0 unloads it
// at once, less than 0 keeps it. Default: the server's, which is 5 minutes.
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

// Thinking says whether and how much a model thinks before it answers.
type Thinking string

// The words for thinking. Models of the kind gpt-oss take the levels only and always
// think; others that think take all.
const (
	// ThinkOn turns thinking on, as much as the model likes.
	ThinkOn Thinking = "true"
	// ThinkOff turns it off.
	ThinkOff Thinking = "false"
	// ThinkLow is the least that a model with levels thinks.
	ThinkLow Thinking = "low"
	// ThinkMedium is what a model with levels thinks if nobody says anything.
	ThinkMedium Thinking = "medium"
	// ThinkHigh is the most that gpt-oss thinks.
	ThinkHigh Thinking = "high"
	// ThinkMax is the most that a model thinks; older servers refuse the word.
	ThinkMax Thinking = "max"
)

// WithThinking sets how models think where [aycoder.Request.Thinking] leaves it open,
// and how much where that turns it on. A model that does not think refuses all but
// [ThinkOff]. Default: the model's, which is that it thinks if it can.
func WithThinking(t Thinking) Option {
	return func(c *config) error {
		switch t {
		case ThinkOn, ThinkOff, ThinkLow, ThinkMedium, ThinkHigh, ThinkMax:
			c.think = t
			return nil
		}
		return &aycoder.ConfigError{Option: "WithThinking", Err: fmt.Errorf("%q is none of the words for it", string(t))}
	}
}

// WithTruncation lets Ollama drop what does not fit into the context, as it does when
// nobody tells it otherwise: see the package comment. Default: false.
func WithTruncation(on bool) Option {
	return func(c *config) error { c.truncate = on; return nil }
}

// WithOption sets an option of the model, such as "seed", "top_k" or "num_gpu", for
// every request. What a request or another option says of temperature, stop, num_ctx
// and num_predict wins over it. Several names add up. Default: none.
func WithOption(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil || name == "" {
			err = cmp.Or(err, errors.New("it has no name"))
			return &aycoder.ConfigError{Option: "WithOption", Err: fmt.Errorf("option %q: %w", name, err)}
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

// New returns a client that asks model where a request names none. All options that are
// wrong are reported at once, as [aycoder.ConfigError], and so is an OLLAMA_HOST that is
// no address. It sends nothing: the model is not looked for.
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
	var errs []error
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
	return c, errors.Join(errs...)
}

func newClient(model string, c config) *Client {
	return &Client{model: model, cfg: c, http: c.HTTP(), seen: &shown{}}
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	x := c.exchange(cmp.Or(req.Model, c.model), "/api/chat")
	x.MaxResponse = req.MaxResponse
	x.Encode = func() (*api.Payload, error) { return c.encode(req) }
	x.Decode = func(k *api.Call) api.Decoder { return newDecoder(k, c.cfg.context, len(req.Messages)) }
	return x.Stream(ctx)
}

// exchange is what all requests have in common.
func (c *Client) exchange(model, path string) *api.Exchange {
	return &api.Exchange{
		Config: &c.cfg.Config, HTTP: c.http, Model: model, URL: c.cfg.BaseURL + path,
		SetHeaders: c.setHeaders, ModelsURL: c.cfg.BaseURL + "/api/tags", Failure: c.failure,
		Frames: func(r io.Reader) iter.Seq2[sse.Event, error] { return lines(r, sse.DefaultLimit) },
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

// FormatsOutput implements [aycoder.OutputFormatter]. It is false for models that
// Ollama has in its cloud: "Ollama's Cloud currently does not support structured
// outputs."
func (c *Client) FormatsOutput(model string) bool { return !c.inCloud(cmp.Or(model, c.model)) }

// inCloud reports whether a model is not where Ollama is: those have a tag that says
// so, "gpt-oss:120b-cloud" or "glm-4.6:cloud".
func (c *Client) inCloud(model string) bool {
	tag := model[strings.LastIndexByte(model, ':')+1:]
	return c.cfg.BaseURL == cloudURL || strings.HasSuffix(tag, "-cloud") || strings.HasSuffix(model, ":cloud")
}

// ModelInfo implements [aycoder.ModelInfoer]. It asks nobody: what it knows is from
// [WithContextLength] and from what [Client.Show] has brought of this model. The context
// is the one that is in force, as far as that is known, and not the longest that the
// model can have.
func (c *Client) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	model = cmp.Or(model, c.model)
	d, ok := c.seen.details(model)
	info := aycoder.ModelInfo{
		Provider: provider, Model: model, Output: c.FormatsOutput(model), Context: c.contextOf(d),
		Tools: d.Has("tools"), Thinking: d.Has("thinking"), Images: d.Has("vision"),
	}
	return info, ok || c.cfg.context > 0
}

// contextOf is the length of the context of a model, 0 if the server decides.
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

// shown is what [Client.Show] has brought.
type shown struct {
	mu     sync.Mutex
	models map[string]Details
}

// maxShown is how many models are kept in mind.
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
	d.Template, d.System, d.License, d.Settings = "", "", "", nil // large, and not asked for
	s.models[model] = d
}

// String names provider, model and address. It shows no key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
