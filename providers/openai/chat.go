package openai

import (
	"context"
	"iter"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
)

// streamChat streams an answer of the Chat Completions API.
func (c *Client) streamChat(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	x := &api.Exchange{
		Config: &c.cfg.Config, Model: c.modelOf(req), URL: c.endpoint("/chat/completions"),
		Encode:     func() (*api.Payload, error) { return c.encodeChat(req) },
		SetHeaders: c.setHeaders, ModelsPath: c.modelsPath(), MaxResponse: req.MaxResponse,
		Decode: func(k *api.Call) api.Decoder { return c.newChatDecoder(k, req) },
	}
	return x.Stream(ctx)
}
