package harness

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/internal/proc"
	"github.com/aycoder/aycoder/middleware"
)

// keyTime bounds a command that prints a key.
const keyTime = 30 * time.Second

// models opens the models of the roles. Clients that are given draw on the budgets like others.
func (b *builder) models(ctx context.Context) error {
	var errs []error
	for _, r := range b.roles(b.in.settings.Roles) {
		m := aycoder.ModelClient(nil)
		switch {
		case r.given != nil:
			m = b.counted(r.given)
		case r.name != "":
			var err error
			m, err = b.model(ctx, r.name, nil)
			if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err) // several roles may have the same model
			}
		case r.follows():
			m = current(b.Client)
		}
		if m != nil && r.given == nil && b.in.reloader != nil {
			m = exchangeable(m)
		}
		*r.client = m
	}
	return errors.Join(errs...)
}

// model opens a model with its fallbacks. Names are those of the models that it is a fallback of.
func (b *builder) model(ctx context.Context, name string, names []string) (aycoder.ModelClient, error) {
	if slices.Contains(names, name) {
		return nil, wrong("models."+name+".fallbacks", "the model is a fallback of itself")
	}
	c, err := b.find(name)
	if err != nil {
		return nil, err
	}
	if b.in.open == nil { // New has checked only the names of then
		return nil, wrong("models."+name, "%w: pass WithOpener, such as that of package linked", ErrNotLinked)
	}
	spec, err := b.spec(ctx, name, c)
	if err != nil {
		return nil, err
	}
	m, err := b.in.open(ctx, spec)
	if err != nil {
		return nil, wrong("models."+name, "%w", err)
	}
	m = b.counted(m)
	if c.RequestsPerMinute > 0 || c.TokensPerMinute > 0 {
		m = middleware.RateLimit(middleware.Limits{Requests: int64(c.RequestsPerMinute), Tokens: int64(c.TokensPerMinute)})(m)
	}
	return b.withFallbacks(ctx, m, c, append(names, name))
}

func (b *builder) withFallbacks(ctx context.Context, m aycoder.ModelClient, c config.Model, names []string) (aycoder.ModelClient, error) {
	var others []aycoder.ModelClient
	for _, name := range c.Fallbacks {
		if slices.Contains(names[:len(names)-1], name) { // two models may stand in for each other
			continue
		}
		other, err := b.model(ctx, name, names)
		if err != nil {
			return nil, err
		}
		others = append(others, other)
	}
	if len(others) == 0 {
		return m, nil
	}
	return middleware.Fallback(others...)(m), nil
}

// find returns the model of a name of the configuration, or of "provider/model".
func (b *builder) find(name string) (config.Model, error) {
	if c, ok := b.in.settings.Models[name]; ok {
		return c, nil
	}
	provider, model, ok := strings.Cut(name, "/")
	if !ok || provider == "" || model == "" {
		return config.Model{}, wrong("models", "there is no model %q, and it is not provider/model", name)
	}
	return config.Model{Provider: provider, Model: model}, nil
}

func (b *builder) spec(ctx context.Context, name string, c config.Model) (ModelSpec, error) {
	key, err := b.key(ctx, name, c)
	if err != nil {
		return ModelSpec{}, err
	}
	spec := ModelSpec{
		Provider: c.Provider, Model: c.Model, Key: key, BaseURL: c.BaseURL, Headers: c.Headers,
		MaxTokens: c.MaxTokens, IdleTimeout: c.IdleTimeout,
	}
	if c.Proxy != "" {
		proxy, err := url.Parse(c.Proxy)
		if err != nil {
			return ModelSpec{}, wrong("models."+name+".proxy", "is not an address")
		}
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = http.ProxyURL(proxy)
		spec.HTTP = &http.Client{Transport: t}
		b.closers = append(b.closers, func() error { t.CloseIdleConnections(); return nil })
	}
	return spec, nil
}

// key returns the API key of a model: that of its variable, or what its command prints. It is never part of an error.
func (b *builder) key(ctx context.Context, name string, c config.Model) (string, error) {
	switch {
	case c.KeyEnv != "":
		if key, ok := b.in.lookup(c.KeyEnv); ok && key != "" {
			return key, nil
		}
		return "", wrong("models."+name+".key_env", "the variable %s is not set", c.KeyEnv)
	case c.KeyCommand != "":
		return keyOf(ctx, name, c.KeyCommand)
	}
	return "", nil
}

func keyOf(ctx context.Context, name, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second
	if tty, err := os.Open("/dev/tty"); err == nil { // it may ask there, which only this process and its group can
		_ = tty.Close()
	} else {
		proc.Alone(cmd)
	}
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = cmd.Cancel() // it has left something that holds its output
	}
	if err != nil {
		return "", wrong("models."+name+".key_command", "%w", errors.Join(err, context.Cause(ctx)))
	}
	key := string(bytes.TrimSpace(out))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", wrong("models."+name+".key_command", "it printed no key of one line")
	}
	return key, nil
}

// counted makes a client draw on the budget of the agent.
func (b *builder) counted(m aycoder.ModelClient) aycoder.ModelClient {
	for _, name := range b.drawn() {
		m = b.Budgets[name].Model(m)
	}
	return &known{m, b}
}

// A known client is one whose window and prices the catalog tells. Its answers have their cost as the session records it:
// by a price, or else as the client says.
type known struct {
	aycoder.ModelClient
	b *builder
}

// Unwrap returns the client that is wrapped.
func (k *known) Unwrap() aycoder.ModelClient { return k.ModelClient }

// ModelInfo implements [aycoder.ModelInfoer]. The window of the configuration is that of the compactor.
func (k *known) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	info, ok := k.info(model)
	if _, own := aycoder.As[aycoder.ModelInfoer](k.ModelClient); !own && k.b.window.Load() > 0 {
		info.Context = 0
	}
	return info, ok
}

// info describes a model. A client that tells about its models knows better than the catalog: the service may use less of
// a window than the model has.
func (k *known) info(model string) (aycoder.ModelInfo, bool) {
	if own, ok := aycoder.As[aycoder.ModelInfoer](k.ModelClient); ok {
		return own.ModelInfo(model)
	}
	n, ok := aycoder.As[aycoder.ModelNamer](k.ModelClient)
	if !ok {
		return aycoder.ModelInfo{}, false
	}
	provider, name := n.ModelName()
	info, ok := k.b.in.models.Lookup(provider, cmp.Or(model, name))
	if info.Provider == "openai" { // keeps the longest answer free in each request
		info.Context = max(info.Context-info.MaxOutput, 0)
	}
	return info, ok
}

// A summarizer has the window of its model, whatever the configuration sets for conversations.
type summarizer struct{ aycoder.ModelClient }

// Unwrap returns the client that is wrapped.
func (s summarizer) Unwrap() aycoder.ModelClient { return s.ModelClient }

// ModelInfo implements [aycoder.ModelInfoer].
func (s summarizer) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	k, _ := aycoder.As[*known](s.ModelClient) // which counted has put there
	return k.info(model)
}

// Stream implements [aycoder.ModelClient].
func (k *known) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) {
		for ev, err := range k.ModelClient.Stream(ctx, req) {
			if d, ok := ev.(*aycoder.MessageDone); ok && d != nil {
				if price, ok := k.b.price(d.Provider, d.Model); ok {
					done := *d
					done.Cost = new(d.Usage.Cost(price))
					ev = &done
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Window returns the window of the main model in tokens, in which the runtime keeps requests and their answers, and
// what sets it: "context.max_tokens" of the configuration, or "the model", as its service tells or the catalog of
// [WithCatalog]. For models of OpenAI, it is without the longest answer, which is not for requests. The window is 0 if
// nobody knows it, and may be larger than the one that the compactor learns when the model refuses a request. Window is
// safe for concurrent use.
func (r *Runtime) Window() (tokens int64, source string) {
	own := windowOf(r.Client, "")
	k, _ := aycoder.As[*known](r.Client)
	if most := k.b.window.Load(); most > 0 && (own == 0 || most < own) {
		return most, "context.max_tokens"
	}
	if own == 0 {
		return 0, ""
	}
	return own, "the model"
}

func windowOf(m aycoder.ModelClient, model string) int64 {
	i, ok := aycoder.As[aycoder.ModelInfoer](m)
	if !ok {
		return 0
	}
	info, _ := i.ModelInfo(model)
	return info.Context
}

// tellUnpriced tells the user, once, of each model that a limit of money does not stop, because nobody knows its price.
func (r *Runtime) tellUnpriced() {
	for _, name := range slices.Sorted(maps.Keys(r.Budgets)) {
		s := r.Budgets[name].Status()
		for _, model := range s.Unpriced {
			if _, told := r.unknown.Load(name + " " + model); told || s.Max.Money == 0 {
				continue
			}
			r.unknown.Store(name+" "+model, true)
			r.Notify("budget", fmt.Sprintf("budget %s does not count the cost of %s, whose price is not known", name, model))
		}
	}
}

// drawn are the names of the budgets of the agent.
func (b *builder) drawn() []string {
	var names []string
	for _, name := range []string{b.in.settings.Agent.Budget, conversation} {
		if b.Budgets[name] != nil {
			names = append(names, name)
		}
	}
	return names
}
