// Package api contains the common code of the clients for model services over HTTP: their
// shared settings, the request and its response with a timeout, typed errors for the
// failures of services, and the assembly of an answer.
//
// A client encodes its requests and interprets the events; see [Exchange] and [Decoder].
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/runes"
)

const (
	// DefaultIdle is the default of [Config.Idle].
	DefaultIdle = 5 * time.Minute
	// DefaultMaxResponse is the default of [Config.MaxResponse], in bytes.
	DefaultMaxResponse = 64 << 20

	// minSecret is the minimum length, in bytes, of a header value that is removed from
	// error texts. Shorter values, such as "yes", also occur in texts that are not
	// secret.
	minSecret = 8
)

// Config holds the settings that all clients share. The API key is stored in a closure
// and not as a string, so that printing a Config never shows the key.
type Config struct {
	// Provider is the name of the service in errors and in the parts of messages.
	Provider string
	// BaseURL is the URL of the service, without a slash at its end.
	BaseURL string
	// MaxTokens limits the length of an answer, in tokens, if the request does not set a
	// limit. If it is 0, the service sets the limit.
	MaxTokens int
	// Idle is the longest time that a client waits for the next data from the service.
	Idle time.Duration
	// MaxResponse is the maximum size of an answer, in bytes, if the request does not set
	// a limit. It also limits the bytes that may arrive between two events of an answer.
	MaxResponse int64

	home   string // the base URL to which the key in the environment belongs
	chosen bool   // an option has set the base URL
	found  bool   // the environment has set it
	// do is Do of the HTTP client, or nil if that is the default. As a field, the client itself would link
	// the code that prints cookies, and more.
	do     func(*http.Request) (*http.Response, error)
	auth   func() string
	tokens func() *tokens
	own    func() own // nil if there are none
}

// own are the headers that the caller set, and the values that are removed from error texts.
type own struct {
	header http.Header
	hidden []string
}

// tokens are a source of bearer tokens, and the most recently sent ones, which are removed
// from error texts.
type tokens struct {
	source func(context.Context) (string, error)

	mu   sync.Mutex
	last []string
}

// maxTokens is the number of sent bearer tokens that a client remembers, in order to
// remove them from error texts. A token source returns new tokens while the client lives.
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

// NewConfig returns the default settings for a provider whose service is at the URL base.
func NewConfig(provider, base string) Config {
	return Config{Provider: provider, BaseURL: base, home: base, Idle: DefaultIdle, MaxResponse: DefaultMaxResponse}
}

// SetKey sets the API key. As in all setters, option is the name of the option that an
// error mentions.
func (c *Config) SetKey(option, key string) error {
	if !Token(key) {
		return &aycoder.ConfigError{Option: option,
			Err: errors.New("key is empty or has white space or control characters")}
	}
	c.auth = func() string { return key }
	return nil
}

// SetToken sets a function that returns the bearer token of a request, for services with
// short-lived tokens. The client calls the function for each request, with the request's
// context.
func (c *Config) SetToken(option string, token func(context.Context) (string, error)) error {
	if token == nil {
		return &aycoder.ConfigError{Option: option, Err: errors.New("function is nil")}
	}
	t := &tokens{source: func(ctx context.Context) (string, error) {
		return apart(ctx, func() (string, error) { return token(ctx) }, func(string) {})
	}}
	c.tokens = func() *tokens { return t }
	return nil
}

// Authorised reports whether requests have credentials: an API key, a token source, or an
// Authorization header that the caller set.
func (c *Config) Authorised() bool {
	return c.auth != nil || c.tokens != nil || c.Header().Get("Authorization") != ""
}

// authorise calls the token source and adds its token to the headers of a request. An
// Authorization header of the caller takes precedence.
func (c *Config) authorise(ctx context.Context, h http.Header) error {
	if c.tokens == nil || c.Header().Get("Authorization") != "" {
		return nil
	}
	tokens := c.tokens()
	token, err := tokens.source(ctx)
	if err != nil {
		return fmt.Errorf("get token: %w", err)
	}
	if !Token(token) {
		return errors.New("get token: it is empty or has white space or control characters")
	}
	tokens.add(token)
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// Token reports whether s can be a key or a token: it is not empty and consists of
// visible ASCII characters.
func Token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Key returns the API key, or "" if none is set.
func (c *Config) Key() string {
	if c.auth == nil {
		return ""
	}
	return c.auth()
}

// SetBaseURL sets the URL of the service. The URL must be absolute, with the scheme http
// or https, and without user, query and fragment.
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

// FindBaseURL sets the base URL from the first of the environment variables env that is
// not empty. If an option has already set the URL, FindBaseURL does nothing. If a
// variable sets the URL, a key in the environment belongs to the service at that URL, and
// is optional. If adapt is not nil, it converts the value of the variable before
// [Config.SetBaseURL] gets it.
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

// WithVersion appends a version such as "v1" to base, unless base already ends with a
// version. For some services, the URL in the environment variable usually has no version,
// because the service's own client appends it.
func WithVersion(base, version string) string {
	last := base[strings.LastIndexByte(base, '/')+1:]
	if len(last) > 1 && last[0] == 'v' && last[1] >= '0' && last[1] <= '9' {
		return base
	}
	return base + "/" + version
}

// SetHome replaces the provider's name and URL. Clients use it if one service offers the
// API of another. The key in the environment then belongs to the service at base.
func (c *Config) SetHome(provider, base string) {
	c.Provider, c.BaseURL, c.home = provider, base, base
}

// SetHeader sets a header that is sent with every request.
func (c *Config) SetHeader(option, name, value string) error {
	if !validHeader(name, value) {
		return &aycoder.ConfigError{Option: option,
			Err: fmt.Errorf("name %q or its value is not valid in HTTP", name)}
	}
	all := c.owned()
	if all.header = all.header.Clone(); all.header == nil {
		all.header = http.Header{}
	}
	all.header.Set(name, value)
	c.own = func() own { return all }
	return nil
}

// validHeader reports whether a header can be sent (RFC 9110, sections 5.1 and 5.5). A line
// break in a value would begin another header.
func validHeader(name, value string) bool {
	token := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}
	return name != "" && !strings.ContainsFunc(name, token) &&
		!strings.ContainsAny(value, "\r\n\x00")
}

// SetHTTPClient sets the HTTP client to a copy of hc. The copy follows redirects only to the
// same scheme and host: on a redirect to another host, net/http would remove the
// Authorization header, but it would send the conversation and other headers with keys.
func (c *Config) SetHTTPClient(option string, hc *http.Client) error {
	if hc == nil {
		return &aycoder.ConfigError{Option: option, Err: errors.New("client is nil")}
	}
	limited := *hc
	limited.CheckRedirect = sameHost
	if next := hc.CheckRedirect; next != nil {
		limited.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if moves(req, via) {
				return http.ErrUseLastResponse
			}
			return next(req, via)
		}
	}
	if _, known := hc.Transport.(*http.Transport); hc.Transport != nil && !known {
		limited.Transport = hostTransport{hc.Transport}
	}
	c.do = limited.Do
	return nil
}

// AddSecret adds a value, such as a parameter of the URL, that must not appear in error
// texts. A value of less than 8 bytes is ignored, because it would match too many texts.
func (c *Config) AddSecret(value string) {
	all := c.owned()
	all.hidden = slices.Clip(all.hidden)
	for _, v := range []string{value, url.QueryEscape(value)} {
		if len(v) >= minSecret {
			all.hidden = append(all.hidden, v)
		}
	}
	c.own = func() own { return all }
}

// SetMaxTokens sets [Config.MaxTokens]. A value of less than 1 is an error.
func (c *Config) SetMaxTokens(option string, n int) error {
	if n < 1 {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf("%d is less than 1", n)}
	}
	c.MaxTokens = n
	return nil
}

// SetIdle sets [Config.Idle]. The duration must be positive.
func (c *Config) SetIdle(option string, d time.Duration) error {
	if d <= 0 {
		return &aycoder.ConfigError{Option: option, Err: fmt.Errorf("%s is not more than 0", d)}
	}
	c.Idle = d
	return nil
}

// AtHome reports whether the key in the environment belongs to the service at BaseURL. It
// returns false if an option has set another URL than the default.
func (c *Config) AtHome() bool { return c.BaseURL == c.home }

// Loopback reports whether the host of BaseURL is a loopback address of this machine.
func (c *Config) Loopback() bool {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return false
	}
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}

// Header returns the headers that the caller set. The map must not be modified.
func (c *Config) Header() http.Header { return c.owned().header }

func (c *Config) owned() own {
	if c.own == nil {
		return own{}
	}
	return c.own()
}

// FindKey sets the API key from the first of the environment variables env that is not
// empty. It does nothing if an option has set a key or a token source, or if the caller
// has set one of the named headers. It also does nothing if [Config.AtHome] is false,
// because the key in the environment must not be sent to another service. If no variable
// has a key, the result is an [aycoder.AuthError] for model. A missing key is not an
// error if the environment has set the base URL, because such a service may not need a
// key.
func (c *Config) FindKey(model string, headers []string, env ...string) error {
	given := func(name string) bool { return c.Header().Get(name) != "" }
	if c.auth != nil || c.tokens != nil || slices.ContainsFunc(headers, given) || !c.AtHome() {
		return nil
	}
	for _, name := range env {
		key := strings.TrimSpace(os.Getenv(name))
		if key == "" {
			continue
		}
		return c.SetKey(name, key)
	}
	if cmp.Or(env...) == "" || c.found {
		return nil
	}
	return &aycoder.AuthError{ModelError: &aycoder.ModelError{Provider: c.Provider, Model: model,
		Err: fmt.Errorf("no API key: set %s or pass WithAPIKey", env[0])}}
}

// send sends a request with the HTTP client.
func (c *Config) send(r *http.Request) (*http.Response, error) {
	if c.do == nil {
		return (&http.Client{CheckRedirect: sameHost}).Do(r)
	}
	return c.do(r)
}

// sameHost is the CheckRedirect function for a client that does not have one.
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
	return req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host ||
		req.Method != first.Method
}

// SetHeaders sets the headers of a request in h: first the common headers, then the
// header keyName with prefix and the API key, and last the caller's headers, which
// override the others. It omits the key if the caller has set an Authorization header or a
// token source, because a service should get only one credential.
func (c *Config) SetHeaders(h http.Header, keyName, prefix string) {
	v := [...]string{"application/json", "text/event-stream, application/json", "aycoder", prefix + c.Key()}
	h["Content-Type"], h["Accept"], h["User-Agent"] = v[0:1:1], v[1:2:2], v[2:3:3]
	own := c.Header()
	if c.Key() != "" && c.tokens == nil && own.Get("Authorization") == "" {
		h[http.CanonicalHeaderKey(keyName)] = v[3:]
	}
	maps.Copy(h, own)
}

// Describe returns a text with the provider, the model and the URL, but without the key.
func (c *Config) Describe(model string) string {
	return fmt.Sprintf("%s.Client(%s at %s)", c.Provider, model, c.BaseURL)
}

// LogValue returns the content of [Config.Describe] as a [slog.Value].
func (c *Config) LogValue(model string) slog.Value {
	return slog.GroupValue(slog.String("provider", c.Provider),
		slog.String("model", model), slog.String("base_url", c.BaseURL))
}

// Show makes a text from the service safe to quote in an error: it removes keys, and then
// shortens the text to about n bytes. It removes keys first, because shortening could
// leave a part of a key that is no longer recognized.
func (c *Config) Show(s string, n int) string {
	if s == "" {
		return ""
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	keys := c.secrets()
	plain, _ := rawjson.Unquote(s) // services that quote JSON may escape characters of a key
	for _, k := range keys {
		if strings.Contains(plain, k) {
			s = plain
		}
	}
	for _, k := range keys {
		s = strings.ReplaceAll(s, k, "[key]")
	}
	return runes.Shorten(s, n)
}

// secrets returns the texts that [Config.Show] removes: the keys, the values of the
// caller's headers, since proxies have separate keys, and the values of
// [Config.AddSecret]. The longest comes first, because one secret may contain another.
func (c *Config) secrets() []string {
	var keys []string
	all := c.owned()
	own := all.header
	_, token, _ := strings.Cut(own.Get("Authorization"), " ")
	keys = append(keys, own.Get("X-Api-Key"), own.Get("Api-Key"), own.Get("X-Goog-Api-Key"),
		own.Get("Authorization"), strings.TrimSpace(token), c.Key())
	if c.tokens != nil {
		keys = append(keys, c.tokens().all()...)
	}
	keys = append(keys, all.hidden...)
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
