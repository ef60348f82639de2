package openai

import (
	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// chatExchange returns the exchange of a request to the Chat Completions API.
func (c *Client) chatExchange(req *aycoder.Request) *api.Exchange {
	return &api.Exchange{
		Config: &c.cfg.Config, Model: c.modelOf(req), URL: c.endpoint("/chat/completions"),
		Encode:     func() (*api.Payload, error) { return c.encodeChat(req) },
		SetHeaders: c.setHeaders, ModelsPath: c.modelsPath(), MaxResponse: req.MaxResponse,
		Decode: func(k *api.Call) api.Decoder { return c.newChatDecoder(k, req) },
	}
}
