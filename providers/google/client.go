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
)

const (
	provider       = "google"
	vertexProvider = "vertex"
	defaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"
	keyHeader      = "X-Goog-Api-Key"
)

// Client asks a model through the Gemini API, or through Vertex AI with [WithVertex].
// It is safe for concurrent use.
type Client struct {
	model string
	cfg   config
	http  *http.Client
}

// A config is what the options set.
type config struct {
	api.Config
	project, location string // of Vertex AI
	ownClient         bool   // the caller's HTTP client may authorise requests
	thoughts          bool
	extra             map[string]json.RawMessage
}

// Option sets a property of a [Client]. Options are applied in order; the last one
// wins where nothing else is said.
type Option func(*config) error

// WithAPIKey sets the key. It goes out in the header x-goog-api-key, never in the
// address. Default: that in the environment variable GEMINI_API_KEY, or else in
// GOOGLE_API_KEY, which [New] reads; with [WithVertex] there is none.
func WithAPIKey(key string) Option {
	return func(c *config) error { return c.SetKey("WithAPIKey", key) }
}

// WithBaseURL sets where the service is, with its version and without the "/models/…"
// or, with [WithVertex], the "/projects/…" that is appended. With a base URL other than
// the default no key is needed, and the one in the environment is not sent: it belongs
// to the service. Default: that in the environment variable GOOGLE_GEMINI_BASE_URL, to
// which the key in the environment belongs then, or else
// https://generativelanguage.googleapis.com/v1beta; with [WithVertex] that in
// GOOGLE_VERTEX_BASE_URL, or else the address of the location. A variable may leave the
// version out.
func WithBaseURL(base string) Option {
	return func(c *config) error { return c.SetBaseURL("WithBaseURL", base) }
}

// WithHeader sets a header of every request. It wins over what the client sets
// itself, and an authorization header takes the place of key and token. Several names
// add up. Default: none.
func WithHeader(name, value string) Option {
	return func(c *config) error { return c.SetHeader("WithHeader", name, value) }
}

// WithHTTPClient sets the client that requests go through: proxies, certificates,
// recording, or one that authorises requests, as the packages around
// golang.org/x/oauth2 make them. It is copied. Redirects are followed only to the same
// host, whatever its CheckRedirect says. Default: one with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option {
	return func(c *config) error {
		c.ownClient = true
		return c.SetHTTPClient("WithHTTPClient", hc)
	}
}

// WithMaxTokens bounds the answers to requests that set no bound. What the model
// thinks counts. Default: the service's own bound.
func WithMaxTokens(n int) Option {
	return func(c *config) error { return c.SetMaxTokens("WithMaxTokens", n) }
}

// WithIdleTimeout sets the longest silence of the service. After it the request ends
// with an [aycoder.TimeoutError]. Time that the caller takes to handle an event does
// not count. Default: 5 minutes.
func WithIdleTimeout(d time.Duration) Option {
	return func(c *config) error { return c.SetIdle("WithIdleTimeout", d) }
}

// WithVertex asks Vertex AI, for a project and a location: a region such as
// "europe-west4", a multi-region ("us", "eu"), or "global". The requests are authorised
// by one of [WithTokenSource], [WithHTTPClient], [WithHeader] and [WithAPIKey]. The name
// of the provider is then "vertex": signatures of one service are not known to be good
// at the other. Default: the Gemini API.
func WithVertex(project, location string) Option {
	return func(c *config) error {
		for _, s := range []string{project, location} {
			if !api.Token(s) || strings.ContainsAny(s, "/?#%") {
				return &aycoder.ConfigError{Option: "WithVertex",
					Err: fmt.Errorf("%q is no name of a project or a location", s)}
			}
		}
		c.project, c.location = project, location
		return nil
	}
}

// WithTokenSource sets a function that returns the bearer token for a request. It is
// called when a request starts, by several goroutines at once, and should keep tokens
// while they are valid. Its errors end the request with an [aycoder.AuthError].
// Default: none.
func WithTokenSource(token func(ctx context.Context) (string, error)) Option {
	return func(c *config) error { return c.SetToken("WithTokenSource", token) }
}

// WithThoughts asks for summaries of what a model thinks also where
// [aycoder.Request.Thinking] leaves it to the model how much it does. Default: they are
// asked for where Thinking is more than 0.
func WithThoughts() Option {
	return func(c *config) error { c.thoughts = true; return nil }
}

// WithExtra sets a further top-level field of every request's body, such as
// "safetySettings" or "cachedContent". [aycoder.Request.Extra] wins over it, and says
// what becomes of "tools" and "generationConfig" there; see the package comment.
// Several names add up. Default: none.
func WithExtra(name string, value any) Option {
	return func(c *config) error {
		data, err := json.Marshal(value)
		if err != nil {
			return &aycoder.ConfigError{Option: "WithExtra", Err: fmt.Errorf("field %q: %w", name, err)}
		}
		extra := map[string]json.RawMessage{}
		maps.Copy(extra, c.extra)
		extra[name] = data
		c.extra = extra
		return nil
	}
}

// New returns a client that asks model ("gemini-3-flash-preview") where a request names
// none. All options that are wrong are reported at once, as [aycoder.ConfigError]. A
// missing key is an [aycoder.AuthError]. It sends nothing.
func New(model string, opts ...Option) (*Client, error) {
	c := config{Config: api.NewConfig(provider, defaultBaseURL)}
	var errs []error
	if model == "" {
		errs = append(errs, &aycoder.ConfigError{Option: "model", Err: errors.New("name is empty")})
	}
	for _, opt := range opts {
		errs = append(errs, opt(&c))
	}
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
	return &Client{model: model, cfg: c, http: c.HTTP()}, nil
}

// setVertex makes Vertex AI the service, at a base URL of the caller's if there is one.
func (c *config) setVertex() {
	base := c.BaseURL
	c.SetHome(vertexProvider, vertexBase(c.location))
	if base != defaultBaseURL {
		c.BaseURL = base
	}
}

// vertexBase is the address of a location. It is of version v1beta1: v1 knows no ids
// of calls and no JSON Schema.
func vertexBase(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com/v1beta1"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com/v1beta1"
	}
	return "https://" + location + "-aiplatform.googleapis.com/v1beta1"
}

// findKey looks for what authorises requests. There is no key in the environment for
// Vertex AI, and what a caller's HTTP client does is its own affair.
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
	name := cmp.Or(req.Model, c.model)
	x := &api.Exchange{
		Config: &c.cfg.Config, HTTP: c.http, Model: name, URL: c.endpoint(name), ModelsURL: c.list(),
		MaxResponse: req.MaxResponse,
		Encode:      func() (*api.Payload, error) { return c.encode(req, parseModel(name)) },
		SetHeaders:  func(h http.Header) { c.cfg.SetHeaders(h, keyHeader, "") },
		Decode:      func(k *api.Call) api.Decoder { return newDecoder(k, renamed(req.Tools)) },
	}
	return x.Stream(ctx)
}

// list is where the models are listed. Vertex AI has no such list of its own.
func (c *Client) list() string {
	if c.cfg.project != "" {
		return ""
	}
	return c.cfg.BaseURL + "/models?pageSize=1000"
}

// endpoint is the address of a model's method.
func (c *Client) endpoint(model string) string {
	segments := strings.Split(c.resource(model), "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return c.cfg.BaseURL + "/" + strings.Join(segments, "/") + ":streamGenerateContent?alt=sse"
}

// resource is the name of a model with all that a service wants before it. A name may
// have some of that already: "models/…", "tunedModels/…", "publishers/…", "projects/…".
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

// ModelName implements [aycoder.ModelNamer].
func (c *Client) ModelName() (providerName, model string) { return c.cfg.Provider, c.model }

// FormatsOutput implements [aycoder.OutputFormatter]. Models before Gemini 2 do not
// take JSON Schema, and before Gemini 3 not beside tools, where the schema is in the
// system prompt.
func (c *Client) FormatsOutput(model string) bool {
	return parseModel(cmp.Or(model, c.model)).formats()
}

// String names provider, model and endpoint. It shows no key.
func (c *Client) String() string { return c.cfg.Describe(c.model) }

// GoString is [Client.String].
func (c *Client) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer]. It shows no key.
func (c *Client) LogValue() slog.Value { return c.cfg.LogValue(c.model) }
