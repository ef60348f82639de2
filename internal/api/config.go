// Package api is what the clients of model services over HTTP have in common: the
// settings they share, one request with its response under a watch, typed errors from
// what services say went wrong, and the putting together of an answer.
//
// A client says how a request is encoded and what its events mean; see [Exchange] and
// [Decoder].
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	// DefaultIdle is the longest silence of a service where none is set.
	DefaultIdle = 5 * time.Minute
	// DefaultMaxResponse is the most that is held of one response, in bytes, and the
	// least that may come of it between two pieces of an answer.
	DefaultMaxResponse = 64 << 20

	// minSecret is from where on the value of a caller's own header is kept out of
	// error texts: "yes" is in too many of them.
	minSecret = 8
)

// Config holds the settings that all clients have. It holds no secret as a value: the
// key is inside of a function, where no kind of printing reaches it.
type Config struct {
	// Provider is the name of the service in errors and parts.
	Provider string
	// BaseURL has no slash at its end.
	BaseURL string
	// MaxTokens bounds the answers to requests that set no bound, 0 leaves it to the
	// service.
	MaxTokens int
	// Idle is the longest silence of the service.
	Idle time.Duration
	// MaxResponse is the most that is held of one response, in bytes, unless the request
	// says otherwise.
	MaxResponse int64

	home   string // the base URL that the key in the environment belongs to
	chosen bool   // an option sets the base URL
	found  bool   // the environment does
	client *http.Client
	auth   func() string
	token  func(context.Context) (string, error)
	recent func() *tokens
	header func() http.Header
	hidden func() []string
}

// tokens are those that went out last, to keep them out of error texts.
type tokens struct {
	mu   sync.Mutex
	last []string
}

const maxTokens = 8

func (t *tokens) add(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.last, token) {
		t.last = append(t.last[max(0, len(t.last)-maxTokens+1):], token)
	}
}

func (t *tokens) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.last)
}

// NewConfig returns the defaults of a service whose own address is base.
func NewConfig(provider, base string) Config {
	return Config{
		Provider: provider, BaseURL: base, home: base, Idle: DefaultIdle, MaxResponse: DefaultMaxResponse,
		header: func() http.Header { return http.Header{} },
		hidden: func() []string { return nil },
	}
}

// SetKey sets the API key. The option is who asks, for the error, as in all setters.
func (c *Config) SetKey(option, key string) error {
	if !Token(key) {
		return &aycoder.ConfigError{Option: option,
			Err: errors.New("key is empty or has white space or control characters")}
	}
	c.auth = func() string { return key }
	return nil
}

// SetToken sets where the bearer token of a request comes from, for services whose
// tokens do not live long. It is asked for each request, with its context.
func (c *Config) SetToken(option string, token func(context.Context) (string, error)) error {
	if token == nil {
		return &aycoder.ConfigError{Option: option, Err: errors.New("function is nil")}
	}
	recent := &tokens{}
	c.token, c.recent = token, func() *tokens { return recent }
	return nil
}

// Authorised reports whether there is a key, a source of tokens, or an Authorization
// header of the caller's.
func (c *Config) Authorised() bool {
	return c.auth != nil || c.token != nil || c.header().Get("Authorization") != ""
}

// authorise adds the token to the headers of a request, unless the caller's own take
// its place.
func (c *Config) authorise(ctx context.Context, h http.Header) error {
	if c.token == nil || c.header().Get("Authorization") != "" {
		return nil
	}
	token, err := c.token(ctx)
	if err != nil {
		return fmt.Errorf("get token: %w", err)
	}
	if !Token(token) {
		return errors.New("get token: it is empty or has white space or control characters")
	}
	c.recent().add(token)
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// Token reports whether s is of visible ASCII characters, and some.
func Token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Key returns the API key, or "".
func (c *Config) Key() string {
	if c.auth == nil {
		return ""
	}
	return c.auth()
}

// SetBaseURL sets where the service is.
func (c *Config) SetBaseURL(option, base string) error {
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
		return &aycoder.ConfigError{Option: option, Err: err}
	}
	c.BaseURL, c.chosen = strings.TrimRight(base, "/"), true
	return nil
}

// FindBaseURL takes the base URL from the first of the environment variables that is set,
// those that the service's own clients read, unless an option sets one. The key in the
// environment is meant for that address then, and may be missing. Adapt makes of a value
// what [Config.SetBaseURL] takes; it may be nil.
func (c *Config) FindBaseURL(adapt func(string) string, env ...string) error {
	if c.chosen {
		return nil
	}
	for _, name := range env {
		base := strings.TrimRight(strings.TrimSpace(os.Getenv(name)), "/")
		if base == "" {
			continue
		}
		if adapt != nil {
			base = adapt(base)
		}
		if err := c.SetBaseURL(name, base); err != nil {
			return err
		}
		c.home, c.found = c.BaseURL, true
		return nil
	}
	return nil
}

// WithVersion is base with a version behind it, unless it ends with one: the variables of
// some services have none.
func WithVersion(base, version string) string {
	last := base[strings.LastIndexByte(base, '/')+1:]
	if len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9' {
		return base
	}
	return base + "/" + version
}

// SetHome makes base the service's own address, and the one that is asked: that of a
// service that speaks another's API.
func (c *Config) SetHome(provider, base string) {
	c.Provider, c.BaseURL, c.home = provider, base, base
}

// SetHeader sets a header of every request.
func (c *Config) SetHeader(option, name, value string) error {
	if !validHeader(name, value) {
		return &aycoder.ConfigError{Option: option,
			Err: fmt.Errorf("name %q or its value is not valid in HTTP", name)}
	}
	h := c.header().Clone()
	h.Set(name, value)
	c.header = func() http.Header { return h }
	return nil
}

func validHeader(name, value string) bool {
	token := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	return name != "" && !strings.ContainsFunc(name, token) && !strings.ContainsAny(value, "\r\n\x00")
}

// SetHTTPClient sets the client that requests go through. It is copied by [Config.HTTP].
func (c *Config) SetHTTPClient(option string, hc *http.Client) error {
	if hc == nil {
		return &aycoder.ConfigError{Option: option, Err: errors.New("client is nil")}
	}
	c.client = hc
	return nil
}

// AddSecret keeps a further value out of error texts, such as a parameter of the
// address, unless it is so short that it is in too many of them.
func (c *Config) AddSecret(value string) {
	all := slices.Clone(c.hidden())
	for _, v := range []string{value, url.QueryEscape(value)} {
		if len(v) >= minSecret {
			all = append(all, v)
		}
	}
	c.hidden = func() []string { return all }
}

// SetMaxTokens sets [Config.MaxTokens].
func (c *Config) SetMaxTokens(option string, n int) error {
	if n < 1 {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf("%d is less than 1", n)}
	}
	c.MaxTokens = n
	return nil
}

// SetIdle sets [Config.Idle].
func (c *Config) SetIdle(option string, d time.Duration) error {
	if d <= 0 {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf("%s is not more than 0", d)}
	}
	c.Idle = d
	return nil
}

// AtHome reports whether requests go where the key in the environment belongs to.
func (c *Config) AtHome() bool { return c.BaseURL == c.home }

// Header returns the caller's own headers. They must not be changed.
func (c *Config) Header() http.Header { return c.header() }

// FindKey takes the key from the first of the environment variables that is set,
// where neither an option nor one of the named headers gives one. At an address other
// than the service's own no key is needed, and none is taken from the environment: it
// belongs to the service.
func (c *Config) FindKey(model string, headers []string, env ...string) error {
	own := c.header()
	given := func(name string) bool { return own.Get(name) != "" }
	if c.auth != nil || c.token != nil || slices.ContainsFunc(headers, given) || !c.AtHome() {
		return nil
	}
	for _, name := range env {
		key := strings.TrimSpace(os.Getenv(name))
		if key == "" {
			continue
		}
		return c.SetKey(name, key)
	}
	if len(env) == 0 || c.found {
		return nil
	}
	return &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: c.Provider, Model: model,
		Err: fmt.Errorf("no API key: set %s or pass WithAPIKey", env[0])}}
}

// HTTP returns the client to send requests with. It follows redirects only to the
// same host: net/http takes Authorization off a request to another host, but not
// other headers with keys, and not the conversation.
func (c *Config) HTTP() *http.Client {
	if c.client == nil {
		return &http.Client{CheckRedirect: sameHost}
	}
	hc := *c.client
	hc.CheckRedirect = sameHost
	if next := c.client.CheckRedirect; next != nil {
		hc.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if moves(req, via) {
				return http.ErrUseLastResponse
			}
			return next(req, via)
		}
	}
	return &hc
}

// sameHost is the CheckRedirect of a client that has none.
func sameHost(req *http.Request, via []*http.Request) error {
	if moves(req, via) {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// moves reports whether a redirect leads to another host or changes the method.
func moves(req *http.Request, via []*http.Request) bool {
	first := via[0]
	return req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method
}

// SetHeaders sets the headers of a request: the common ones, the key in the header
// keyName behind prefix, unless the caller's own take its place, and then those.
func (c *Config) SetHeaders(h http.Header, keyName, prefix string) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream, application/json")
	h.Set("User-Agent", "aycoder")
	own := c.header()
	if key := c.Key(); key != "" && own.Get("Authorization") == "" {
		h.Set(keyName, prefix+key)
	}
	maps.Copy(h, own)
}

// Describe names provider, model and address. It shows no key.
func (c *Config) Describe(model string) string {
	return fmt.Sprintf("%s.Client(%s at %s)", c.Provider, model, c.BaseURL)
}

// LogValue is [Config.Describe] for [slog].
func (c *Config) LogValue(model string) slog.Value {
	return slog.GroupValue(slog.String("provider", c.Provider),
		slog.String("model", model), slog.String("base_url", c.BaseURL))
}

// Show is what can be shown of a text that the service wrote: no keys, and at most
// about n bytes. What is cut first may end in a part of a key that nobody finds.
func (c *Config) Show(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for _, k := range c.secrets() {
		s = strings.ReplaceAll(s, k, "[key]")
	}
	return runes.Shorten(s, n)
}

// secrets are the keys, what the caller's own headers say, as proxies have keys of
// their own, and what [Config.AddSecret] was told. The longest comes first: another may
// be a part of it.
func (c *Config) secrets() []string {
	var keys []string
	own := c.header()
	_, token, _ := strings.Cut(own.Get("Authorization"), " ")
	keys = append(keys, own.Get("X-Api-Key"), own.Get("Api-Key"), own.Get("X-Goog-Api-Key"),
		own.Get("Authorization"), strings.TrimSpace(token), c.Key())
	if c.recent != nil {
		keys = append(keys, c.recent().all()...)
	}
	keys = append(keys, c.hidden()...)
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
