package google

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/rawjson"
)

const (
	provider       = "google"
	vertexProvider = "vertex"
	defaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"
	keyHeader      = "X-Goog-Api-Key"
)

// Client is a client of the Gemini API or, with [WithVertex], of Vertex AI. It is safe
// for concurrent use.
type Client struct {
	model string
	cfg   config
}

// A config is the result of the options.
type config struct {
	api.Config
	project, location string // of Vertex AI
	ownClient         bool   // the caller's HTTP client, which may authorize requests
	thoughts          bool
	extra             map[string]json.RawMessage
}

// Option sets a property of a [Client]. A repeated option overrides the earlier one,
// unless its comment says that repeated options add up.
type Option func(*config) error

// WithAPIKey sets the API key, which is sent in the header x-goog-api-key and never in
// the URL. Default: [New] reads the environment variable GEMINI_API_KEY, or else
// GOOGLE_API_KEY. With [WithVertex] there is no default.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithBaseURL sets the URL of the service, including the version of the API. The client
// appends a path that begins with "/models/" or, with [WithVertex], with "/projects/". If
// the option sets a URL that is not the default, an API key is optional, and a key in the
// environment is not sent, because that key belongs to Google.
//
// Default: the environment variable GOOGLE_GEMINI_BASE_URL, or else
// https://generativelanguage.googleapis.com/v1beta. With [WithVertex], the default is the
// environment variable GOOGLE_VERTEX_BASE_URL, or else the endpoint of the location. The
// variables differ from the option: a URL in a variable may omit the version, and a key in
// the environment is sent to the URL in GOOGLE_GEMINI_BASE_URL.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header that is sent with every request. It overrides a header of the
// same name that the client sets. The headers "x-goog-api-key" and "authorization" also
// replace the API key. Repeated options with different names add up. Default: no
// additional headers.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the HTTP client, for example to use a proxy, to record requests or
// to authorize them with a client of golang.org/x/oauth2. [New] copies hc. The copy
// follows redirects only to the same host. Default: a client with
// [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.ownClient = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. The tokens of the thinking count as well. Default:
// the limit of the service.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. The time in
// which the caller handles an event does not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithVertex selects Vertex AI on Google Cloud, in a project and a location. The location
// is a region such as "europe-west4", a multi-region ("us" or "eu"), or "global". Requests
// need a credential from [WithTokenSource], [WithHTTPClient], [WithHeader] or
// [WithAPIKey]. Default: the Gemini API.
//
// The provider's name in messages and errors is "vertex" for Vertex AI, and "google" for
// the Gemini API. The client does not send the thought signatures of one of these services
// to the other, where a signature may not be valid.
func WithVertex(project, location string) Option {
	return func(c *config) error {
		for _, s := range []string{project, location} {
			if !api.Token(s) || strings.ContainsAny(s, "/?#%") {
				return &aycoder.ConfigError{Option: "WithVertex",
					Err: fmt.Errorf("%q is not the name of a project or a location", s)}
			}
		}
		c.project, c.location = project, location
		return nil
	}
}

// WithTokenSource sets a function that returns the bearer token of a request, for
// services with short-lived tokens. The token replaces an API key. The function should
// cache a token while the token is valid. The client calls the function for each request,
// with the request's context, possibly from several goroutines at once. An error of the
// function ends the request with an [*aycoder.AuthError]. With a token source, [New] does
// not look for an API key in the environment. Default: no token source.
func WithTokenSource(token func(ctx context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithTokenSource", token) }
}

// WithThinkingSummaries selects whether the client requests summaries of the model's
// thinking. The option applies to requests whose [aycoder.Request.Thinking] is 0, which
// means that the model decides how much it thinks. In other requests the option has no
// effect: the client always requests summaries if Thinking is positive, and never if
// Thinking is negative. Default: false.
func WithThinkingSummaries(on bool) Option {
	return func(c *config) error { c.thoughts = on; return nil }
}

// WithExtra sets an additional top-level field in the body of every request, such as
// "safetySettings" or "cachedContent". The same field in [aycoder.Request.Extra]
// overrides it. The fields "tools" and "generationConfig" are merged with those of the
// client, as the package comment describes. Repeated options with different names add up.
// Default: no additional fields.
func WithExtra(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil {
			return &aycoder.ConfigError{Option: "WithExtra",
				Err: fmt.Errorf("field %q: %w", name, err)}
		}
		extra := map[string]json.RawMessage{}
		maps.Copy(extra, c.extra)
		extra[name] = data
		c.extra = extra
		return nil
	}
}

// New returns a client that uses model, such as "gemini-3-flash-preview", for requests
// whose [aycoder.Request.Model] is empty. If options are invalid, the error joins an
// [*aycoder.ConfigError] for each of them. If the API key is missing, the error is an
// [*aycoder.AuthError]. New does not send a request.
func New(model string, opts ...Option) (*Client, error) {
	client := &Client{model: model, cfg: config{Config: api.NewConfig(provider, defaultBaseURL)}}
	c := &client.cfg
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	errs = append(errs, option.Apply(c, opts))
	if c.project != "" {
		c.setVertex()
	}
	env, version := "GOOGLE_GEMINI_BASE_URL", "v1beta"
	if c.project != "" {
		env, version = "GOOGLE_VERTEX_BASE_URL", "v1beta1"
	}
	errs = append(errs, c.FindBaseURL(func(base string) string { return api.WithVersion(base, version) }, env))
	errs = append(errs, c.findKey(model))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new %s client: %w", c.Provider, err)
	}
	return client, nil
}

// setVertex selects Vertex AI, at the caller's base URL if there is one.
func (c *config) setVertex() {
	base := c.BaseURL
	c.SetHome(vertexProvider, vertexBase(c.location))
	if base != defaultBaseURL {
		c.BaseURL = base
	}
}

// vertexBase returns the base URL of a location. Its version is v1beta1, because v1
// supports neither ids of calls nor JSON Schema.
func vertexBase(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com/v1beta1"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com/v1beta1"
	}
	return "https://" + location + "-aiplatform.googleapis.com/v1beta1"
}

// findKey checks that requests have a credential. Vertex AI has no key in the
// environment, and the caller's HTTP client may add a credential itself.
func (c *config) findKey(model string) error {
	headers := []string{"Authorization", keyHeader}
	if c.project == "" {
		return c.FindKey(model, headers, "GEMINI_API_KEY", "GOOGLE_API_KEY")
	}
	if c.ownClient || c.Authorised() || c.Header().Get(keyHeader) != "" || c.BaseURL != vertexBase(c.location) {
		return nil
	}
	return &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: c.Provider, Model: model,
		Err: errors.New("nothing authorises requests: pass WithTokenSource or WithHTTPClient")}}
}

// Stream implements [aycoder.ModelClient].
func (c *Client) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return c.exchange(req, streamMethod).Stream(ctx)
}

// Open implements [aycoder.ModelOpener].
func (c *Client) Open(ctx context.Context, req *aycoder.Request) aycoder.ModelReader {
	return c.exchange(req, streamMethod).Open(ctx)
}

// Opens implements [aycoder.ModelOpener].
func (c *Client) Opens(m aycoder.ModelClient) bool { return m == c }

const streamMethod = ":streamGenerateContent?alt=sse"

// CountTokens returns the number of input tokens of req, for which it asks the service. If [WithBaseURL]
// has set another one than Google's own, it returns [errors.ErrUnsupported].
func (c *Client) CountTokens(ctx context.Context, req *aycoder.Request) (int64, error) {
	if !c.cfg.AtHome() {
		return 0, errors.ErrUnsupported
	}
	x, field := c.exchange(req, ":countTokens"), "totalTokens"
	if c.cfg.project != "" {
		return x.Count(ctx, field, "contents", "systemInstruction", "tools", "generationConfig")
	}
	encode := x.Encode
	x.Encode = func() (*api.Payload, error) {
		p, err := encode()
		if err != nil {
			return nil, err
		}
		head := rawjson.AppendField([]byte(`{"generateContentRequest":{`), "model", c.resource(x.Model))
		head = append(append(head, ','), p.Pieces[0][1:]...)
		return &api.Payload{Pieces: append(append([][]byte{head}, p.Pieces[1:]...), []byte{'}'})}, nil
	}
	return x.Count(ctx, field, "generateContentRequest")
}

// exchange returns the exchange of a request with a method of its model.
func (c *Client) exchange(req *aycoder.Request, method string) *api.Exchange {
	name := cmp.Or(req.Model, c.model)
	return &api.Exchange{
		Config: &c.cfg.Config, Model: name, URL: c.endpoint(name, method), ModelsPath: c.list(),
		MaxResponse: req.MaxResponse,
		Encode:      func() (*api.Payload, error) { return c.encode(req, parseModel(name)) },
		SetHeaders:  func(h http.Header) { c.cfg.SetHeaders(h, keyHeader, "") },
		Decode:      func(k *api.Call) api.Decoder { return newDecoder(k, renamed(req.Tools)) },
	}
}

// list returns the path of the list of models. Vertex AI does not have one.
func (c *Client) list() string {
	if c.cfg.project != "" {
		return ""
	}
	return "/models?pageSize=1000"
}

// endpoint returns the URL of a model's method.
func (c *Client) endpoint(model, method string) string {
	u := append(make([]byte, 0, 256), c.cfg.BaseURL...)
	for s := range strings.SplitSeq(c.resource(model), "/") {
		u = append(append(u, '/'), url.PathEscape(s)...)
	}
	return string(append(u, method...))
}

// resource returns the full resource name of a model. The given name may have a part of
// that already: "models/…", "tunedModels/…", "publishers/…", "projects/…".
func (c *Client) resource(model string) string {
	if c.cfg.project == "" {
		if strings.Contains(model, "/") {
			return model
		}
		return "models/" + model
	}
	if strings.HasPrefix(model, "projects/") {
		return model
	}
	if !strings.HasPrefix(model, "publishers/") {
		model = strings.TrimPrefix(strings.TrimPrefix(model, "google/"), "models/")
		model = "publishers/google/models/" + model
	}
	return "projects/" + c.cfg.project + "/locations/" + c.cfg.location + "/" + model
}

// ModelName implements [aycoder.ModelNamer]. The provider's name is "google" or, with
// [WithVertex], "vertex". The model is the one that was passed to [New].
func (c *Client) ModelName() (providerName, model string) { return c.cfg.Provider, c.model }

// FormatsOutput implements [aycoder.OutputFormatter]. It returns true for models from
// Gemini 2 on, except for models that generate images or audio. It returns false for
// earlier models, because they do not accept JSON Schema. Gemini 2 and 2.5 accept a schema
// only in a request without tools. If a request to them has tools, the client writes the
// schema into the system prompt.
func (c *Client) FormatsOutput(model string) bool {
	return parseModel(cmp.Or(model, c.model)).formats()
}

// FormatsWithTools reports whether [aycoder.Request.Output] also constrains the answer in a request
// with tools. It returns true for models from Gemini 3 on for which [Client.FormatsOutput] does.
func (c *Client) FormatsWithTools(model string) bool {
	m := parseModel(cmp.Or(model, c.model))
	return m.formats() && m.strict()
}

// AnswerLimit returns the limit that [WithMaxTokens] describes, or 0.
func (c *Client) AnswerLimit() int64 { return int64(c.cfg.MaxTokens) }

// String returns the name of the provider, the model and the URL, but not the API key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString returns the same text as [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. The value does not contain the API key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
