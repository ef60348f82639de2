package openai

import (
	"context"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// respQuirks describes how a service that speaks Responses differs from OpenAI.
type respQuirks struct {
	// ids says that reasoning and calls are sent back with an id. OpenAI looks ids up,
	// and does not find them: "Items are not persisted when `store` is set to false."
	ids bool
	// bare says that limits and temperatures are refused, and instructions required.
	bare bool
	// developer says that messages of the role system are refused.
	developer bool
	// callsLast says that the calls of a turn must be adjacent: "No tool output found for
	// tool call".
	callsLast bool
}

// respServices are the services with quirks, by host and by the name of the provider.
var respServices = []struct {
	host, provider string
	quirks         respQuirks
}{
	{"openrouter.ai", "openrouter", respQuirks{ids: true}},
	{"chatgpt.com", "chatgpt", respQuirks{bare: true, developer: true}},
	{"api.deepseek.com", "deepseek", respQuirks{callsLast: true}},
}

// respQuirks returns the quirks of the service that the client talks to.
func (c *Client) respQuirks() respQuirks {
	_, host, _ := strings.Cut(c.cfg.BaseURL, "://") // it has no user
	host, _, _ = strings.Cut(host, "/")
	host, _, _ = strings.Cut(host, ":")
	for _, s := range respServices {
		if s.provider == c.cfg.Provider || strings.EqualFold(host, s.host) {
			return s.quirks
		}
	}
	return respQuirks{}
}

// respOwner returns the provider's name for parts that only the Responses API
// understands. The name differs from that of Chat Completions, so that a conversation
// that moves from one API to the other does not send parts that the other API refuses.
func (c *Client) respOwner() string { return c.cfg.Provider + "/responses" }

// WithPromptCacheKey sets a key that all requests of a conversation share. The service
// sends requests with the same key to the same machine. The prompt cache of this machine
// then holds the beginning of the conversation. The option is short for [WithExtra] with
// the field "prompt_cache_key". Default: no key; the service chooses the machine by the
// beginning of the prompt.
func WithPromptCacheKey(key string) Option { return WithExtra("prompt_cache_key", key) }

// CountTokens returns the number of input tokens of req, for which it asks the service. Only OpenAI's
// own Responses API can do that; for others, it returns [errors.ErrUnsupported].
func (c *Client) CountTokens(ctx context.Context, req *aycoder.Request) (int64, error) {
	if !c.cfg.responses || !c.cfg.isOpenAI() {
		return 0, errors.ErrUnsupported
	}
	x := c.respExchange(req)
	x.URL = c.endpoint("/responses/input_tokens")
	return x.Count(ctx, "input_tokens", "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning",
		"text", "truncation", "conversation", "previous_response_id")
}

// respExchange returns the exchange of a request to the Responses API.
func (c *Client) respExchange(req *aycoder.Request) *api.Exchange {
	return &api.Exchange{
		Config: &c.cfg.Config, Model: c.modelOf(req), URL: c.respURL(),
		Encode:     func() (*api.Payload, error) { return c.encodeResponses(req) },
		SetHeaders: c.setHeaders, ModelsPath: c.modelsPath(), MaxResponse: req.MaxResponse,
		Decode: func(k *api.Call) api.Decoder { return newRespDecoder(k, c.respOwner(), mappedNames(req.Tools)) },
	}
}

// respURL returns the URL of the Responses API. In Azure's dated versions the model, and
// not the path, names the deployment.
func (c *Client) respURL() string {
	u := c.endpoint("/responses")
	if before, after, ok := strings.Cut(u, "/openai/deployments/"); ok {
		_, rest, _ := strings.Cut(after, "/")
		return before + "/openai/" + rest
	}
	return u
}
