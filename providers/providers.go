// Package providers opens a client of any provider by name, for programs whose users
// choose the model in a flag or a file.
//
//	client, err := providers.Open("anthropic/claude-sonnet-4-5")
//	client, err = providers.Open("openrouter/moonshotai/kimi-k2", providers.WithAPIKey(key))
//	client, err = providers.Open("ollama/qwen3:8b", providers.WithBaseURL("http://gpu:11434"))
//
// The text before the first slash names the provider; the rest is the model's name at
// that provider. [Names] lists the providers.
//
// A program that imports this package links every provider. A program that needs only one
// should import the package of that provider, which is smaller and has more options.
package providers

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/providers/anthropic"
	"github.com/aycoder/aycoder/providers/bedrock"
	"github.com/aycoder/aycoder/providers/google"
	"github.com/aycoder/aycoder/providers/ollama"
	"github.com/aycoder/aycoder/providers/openai"
)

// Option sets a property that the clients of all providers have. A repeated option
// overrides the earlier one, unless its comment says that repeated options add up. Each
// option sets the option of the same name in the provider's package. If the provider does
// not accept the value, [Open] returns the provider's [*aycoder.ConfigError].
type Option func(*settings) error

type settings struct {
	key, base *string
	http      **http.Client
	idle      *time.Duration
	maxTokens *int
	headers   [][2]string
}

// set returns an option for a setting whose value the provider itself checks.
func set(f func(*settings)) Option {
	return func(s *settings) error {
		f(s)
		return nil
	}
}

// WithAPIKey sets the API key. Default: the environment variable of the provider, such as
// ANTHROPIC_API_KEY.
func WithAPIKey(key string) Option { return set(func(s *settings) { s.key = &key }) }

// WithBaseURL sets the URL of the service. Default: the default URL of the provider.
func WithBaseURL(base string) Option { return set(func(s *settings) { s.base = &base }) }

// WithHTTPClient sets the HTTP client, for example to use a proxy or to record requests.
// The provider copies hc. Default: a client with [http.DefaultTransport].
func WithHTTPClient(hc *http.Client) Option { return set(func(s *settings) { s.http = &hc }) }

// WithIdleTimeout limits how long the client waits for the next data from the service.
// When the time is over, the request ends with an [*aycoder.TimeoutError]. Default: the
// default of the provider. This is 10 minutes for Ollama, DeepSeek and local servers, and
// 5 minutes for the others.
func WithIdleTimeout(d time.Duration) Option { return set(func(s *settings) { s.idle = &d }) }

// WithMaxTokens limits the length of an answer, in tokens, for requests whose
// [aycoder.Request.MaxTokens] is 0. Default: the default of the provider.
func WithMaxTokens(n int) Option { return set(func(s *settings) { s.maxTokens = &n }) }

// WithHeader sets a header that is sent with every request. Repeated options with
// different names add up. Default: no additional headers.
func WithHeader(name, value string) Option {
	return set(func(s *settings) { s.headers = append(s.headers, [2]string{name, value}) })
}

// An entry is a provider with the function that opens its client.
type entry struct {
	name string
	open func(model string, s *settings) (aycoder.ModelClient, error)
}

// table lists the providers in the order of [Names].
var table = []entry{
	{"anthropic", plain(anthropic.New, anthropicOptions)},
	{"openai", plain(openai.New, openaiOptions, openai.WithResponses(true))},
	{"openai-chat", plain(openai.New, openaiOptions)},
	{"google", plain(google.New, googleOptions)},
	{"bedrock", plain(bedrock.New, bedrockOptions)},
	{"ollama", plain(ollama.New, ollamaOptions)},
	{"openrouter", plain(openai.OpenRouter, openaiOptions)},
	{"xai", plain(openai.XAI, openaiOptions)},
	{"groq", plain(openai.Groq, openaiOptions)},
	{"deepseek", plain(openai.DeepSeek, openaiOptions)},
	{"moonshot", plain(openai.Moonshot, openaiOptions)},
	{"mistral", plain(openai.Mistral, openaiOptions)},
	{"zai", plain(openai.ZAI, openaiOptions)},
	{"together", plain(openai.Together, openaiOptions)},
	{"azure", azure},
	{"copilot", plain(openai.Copilot, openaiOptions)},
	{"vllm", plain(openai.VLLM, openaiOptions)},
	{"llamacpp", plain(openai.LlamaCpp, openaiOptions)},
	{"lmstudio", plain(openai.LMStudio, openaiOptions)},
}

// Names returns the names of all providers that [Open] accepts, in a fixed order.
func Names() []string {
	names := make([]string, len(table))
	for i, e := range table {
		names[i] = e.name
	}
	return names
}

// Open returns a client for a name of the form "provider/model". The API key comes from
// [WithAPIKey], or else from the environment variable of the provider, such as
// ANTHROPIC_API_KEY or OPENAI_API_KEY.
//
// The provider "openai" uses OpenAI's Responses API. The provider "openai-chat" and the
// services that are compatible with OpenAI use Chat Completions. The provider "azure"
// takes the name of the deployment as the model. It needs an endpoint from [WithBaseURL]
// or AZURE_OPENAI_ENDPOINT, and reads the version of the API from OPENAI_API_VERSION.
//
// If the name is invalid, the error is an [*aycoder.ConfigError] that lists the valid
// providers. Other errors are those of the provider's New function. Open does not send a
// request.
func Open(name string, opts ...Option) (aycoder.ModelClient, error) {
	provider, model, ok := strings.Cut(name, "/")
	if !ok || provider == "" || model == "" {
		return nil, nameError(name, "is not of the form provider/model")
	}
	var s settings
	if err := option.Apply(&s, opts); err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	for _, e := range table {
		if e.name == provider {
			return e.open(model, &s)
		}
	}
	return nil, nameError(name, "names an unknown provider")
}

func nameError(name, what string) error {
	err := fmt.Errorf("%q %s; providers: %s", name, what, strings.Join(Names(), ", "))
	return fmt.Errorf("open model: %w", &aycoder.ConfigError{Option: "name", Err: err})
}

// options are the constructors of a provider's options.
type options[O any] struct {
	key, base func(string) O
	header    func(name, value string) O
	http      func(*http.Client) O
	idle      func(time.Duration) O
	maxTokens func(int) O
}

// of converts the settings to the provider's options.
func (o options[O]) of(s *settings) (list []O) {
	if s.key != nil {
		list = append(list, o.key(*s.key))
	}
	if s.base != nil {
		list = append(list, o.base(*s.base))
	}
	if s.http != nil {
		list = append(list, o.http(*s.http))
	}
	if s.idle != nil {
		list = append(list, o.idle(*s.idle))
	}
	if s.maxTokens != nil {
		list = append(list, o.maxTokens(*s.maxTokens))
	}
	for _, h := range s.headers {
		list = append(list, o.header(h[0], h[1]))
	}
	return list
}

// plain opens a provider whose New takes the model and options.
func plain[C aycoder.ModelClient, O any](open func(string, ...O) (C, error), o options[O],
	more ...O) func(string, *settings) (aycoder.ModelClient, error) {
	return func(model string, s *settings) (aycoder.ModelClient, error) {
		return client(open(model, append(o.of(s), more...)...))
	}
}

// client converts the results of a provider's New. On an error it returns a nil
// interface: a nil pointer of type C in the interface would not equal nil.
func client[C aycoder.ModelClient](c C, err error) (aycoder.ModelClient, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

func azure(deployment string, s *settings) (aycoder.ModelClient, error) {
	rest, endpoint := *s, os.Getenv("AZURE_OPENAI_ENDPOINT")
	if s.base != nil {
		endpoint, rest.base = *s.base, nil
	}
	if endpoint == "" {
		err := errors.New("azure has no common address: pass WithBaseURL or set AZURE_OPENAI_ENDPOINT")
		return nil, fmt.Errorf("open model: %w", &aycoder.ConfigError{Option: "WithBaseURL", Err: err})
	}
	return client(openai.Azure(endpoint, deployment, os.Getenv("OPENAI_API_VERSION"), openaiOptions.of(&rest)...))
}

var anthropicOptions = options[anthropic.Option]{
	anthropic.WithAPIKey, anthropic.WithBaseURL, anthropic.WithHeader, anthropic.WithHTTPClient,
	anthropic.WithIdleTimeout, anthropic.WithMaxTokens,
}

var openaiOptions = options[openai.Option]{
	openai.WithAPIKey, openai.WithBaseURL, openai.WithHeader, openai.WithHTTPClient,
	openai.WithIdleTimeout, openai.WithMaxTokens,
}

var googleOptions = options[google.Option]{
	google.WithAPIKey, google.WithBaseURL, google.WithHeader, google.WithHTTPClient,
	google.WithIdleTimeout, google.WithMaxTokens,
}

var ollamaOptions = options[ollama.Option]{
	ollama.WithAPIKey, ollama.WithBaseURL, ollama.WithHeader, ollama.WithHTTPClient,
	ollama.WithIdleTimeout, ollama.WithMaxTokens,
}

var bedrockOptions = options[bedrock.Option]{
	bedrock.WithAPIKey, bedrock.WithBaseURL, bedrock.WithHeader, bedrock.WithHTTPClient,
	bedrock.WithIdleTimeout, bedrock.WithMaxTokens,
}
