package openai

import (
	"context"

	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// dimensionOf returns the dimension of the vectors of one of OpenAI's embedding models, or 0.
func dimensionOf(model string) int {
	switch model {
	case "text-embedding-3-small", "text-embedding-ada-002":
		return 1536
	case "text-embedding-3-large":
		return 3072
	}
	return 0
}

// Embed returns a vector for each text, in the order of the texts, from the model that was passed to [New], which
// must be an embedding model. The texts must not be empty, and services limit their number and length: OpenAI
// accepts 2,048 texts, with 300,000 tokens together. The errors are those of [Client.Stream].
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	x := &api.Exchange{
		Config: &c.cfg.Config, Model: c.model, URL: c.endpoint("/embeddings"),
		SetHeaders: c.setHeaders, ModelsPath: c.modelsPath(),
		Encode: func() (*api.Payload, error) {
			b := rawjson.AppendField([]byte{'{'}, "model", c.model)
			b = rawjson.AppendField(append(b, ','), "encoding_format", "float")
			b = append(b, `,"input":[`...)
			for i, text := range texts {
				if i > 0 {
					b = append(b, ',')
				}
				b = rawjson.AppendString(b, text)
			}
			return &api.Payload{Pieces: [][]byte{append(b, "]}"...)}}, nil
		},
	}
	return x.Embed(ctx, len(texts), "data", "embedding")
}

// EmbeddingModel returns the model that was passed to [New], and the dimension of its vectors. If the dimension is
// not known, EmbeddingModel asks the service for a vector.
func (c *Client) EmbeddingModel(ctx context.Context) (name string, dimension int, err error) {
	if n := dimensionOf(c.model); n > 0 {
		return c.model, n, nil
	}
	v, err := c.Embed(ctx, []string{"dimension"})
	if err != nil {
		return "", 0, err
	}
	return c.model, len(v[0]), nil
}

// EmbedsLocally reports whether [Client.Embed] sends the texts to this machine only.
func (c *Client) EmbedsLocally() bool { return c.cfg.Loopback() }
