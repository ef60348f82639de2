package openai

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// respQuirks is how a service that speaks Responses differs from OpenAI's.
type respQuirks struct {
	// ids says that reasoning and calls go back with an id. OpenAI looks ids up, and
	// finds none: "Items are not persisted when `store` is set to false."
	ids bool
	// bare says that lengths and temperatures are refused, and instructions needed.
	bare bool
	// developer says that messages of the role system are refused.
	developer bool
	// callsLast says that nothing may stand between the calls of a turn: "No tool
	// output found for tool call".
	callsLast bool
}

// respServices are the services that differ, by host and by the name of the provider.
var respServices = []struct {
	host, provider string
	quirks         respQuirks
}{
	{"openrouter.ai", "openrouter", respQuirks{ids: true}},
	{"chatgpt.com", "chatgpt", respQuirks{bare: true, developer: true}},
	{"api.deepseek.com", "deepseek", respQuirks{callsLast: true}},
}

func (c *Client) respQuirks() respQuirks {
	u, err := url.Parse(c.cfg.BaseURL)
	for _, s := range respServices {
		if s.provider == c.cfg.Provider || err == nil && strings.EqualFold(u.Hostname(), s.host) {
			return s.quirks
		}
	}
	return respQuirks{}
}

// respOwner is the provider of parts that only this API of the service understands:
// Chat Completions has other ones.
func (c *Client) respOwner() string { return c.cfg.Provider + "/responses" }

// WithPromptCacheKey names what the requests of a conversation have in common, so that
// the service sends them to a machine that has the beginning of the prompt in its cache.
// [WithExtra] with "prompt_cache_key" is the same. Default: the service goes by the
// prompt's first words.
func WithPromptCacheKey(key string) Option { return WithExtra("prompt_cache_key", key) }

func (c *Client) streamResponses(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	x := &api.Exchange{
		Config: &c.cfg.Config, HTTP: c.http, Model: c.modelOf(req), URL: c.respURL(),
		Encode:     func() (*api.Payload, error) { return c.encodeResponses(req) },
		SetHeaders: c.setHeaders, ModelsURL: c.modelsURL(), MaxResponse: req.MaxResponse,
		Decode: func(k *api.Call) api.Decoder { return newRespDecoder(k, c.respOwner(), mappedNames(req.Tools)) },
	}
	return x.Stream(ctx)
}

// respURL is the address of the API. Azure's versions with a date have it beside the
// deployments, one of which the model names.
func (c *Client) respURL() string {
	u := c.endpoint("/responses")
	if before, after, ok := strings.Cut(u, "/openai/deployments/"); ok {
		_, rest, _ := strings.Cut(after, "/")
		return before + "/openai/" + rest
	}
	return u
}
