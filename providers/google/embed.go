package google

import (
	"context"
	"errors"
	"net/http"

	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// dimensions are the dimensions of Google's embedding models.
var dimensions = map[string]int{"gemini-embedding-001": 3072, "text-embedding-004": 768}

// Embed returns a vector for each text, in the order of the texts, from the model that was passed to [New], which
// must be an embedding model. The vectors are for texts that are searched; see [Client.EmbedQuery]. The service
// accepts up to 100 texts at once. The errors are those of [Client.Stream]. With [WithVertex], which has
// another method for this, the error is [errors.ErrUnsupported].
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return c.embed(ctx, texts, "RETRIEVAL_DOCUMENT")
}

// EmbedQuery returns a vector for a question about code, to find those of [Client.Embed].
func (c *Client) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	v, err := c.embed(ctx, []string{text}, "CODE_RETRIEVAL_QUERY")
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

func (c *Client) embed(ctx context.Context, texts []string, task string) ([][]float32, error) {
	if c.cfg.project != "" {
		return nil, errors.ErrUnsupported
	}
	x := &api.Exchange{
		Config: &c.cfg.Config, Model: c.model, URL: c.endpoint(c.model, ":batchEmbedContents"), ModelsPath: c.list(),
		Encode: func() (*api.Payload, error) {
			b := []byte(`{"requests":[`)
			for i, text := range texts {
				if i > 0 {
					b = append(b, ',')
				}
				b = rawjson.AppendField(append(b, '{'), "model", c.resource(c.model))
				b = rawjson.AppendField(append(b, ','), "taskType", task)
				b = rawjson.AppendField(append(b, `,"content":{"parts":[{`...), "text", text)
				b = append(b, "}]}}"...)
			}
			return &api.Payload{Pieces: [][]byte{append(b, "]}"...)}}, nil
		},
		SetHeaders: func(h http.Header) { c.cfg.SetHeaders(h, keyHeader, "") },
	}
	return x.Embed(ctx, len(texts), "embeddings", "values")
}

// EmbeddingModel returns the model that was passed to [New], and the dimension of its vectors. If the dimension is
// not known, EmbeddingModel asks the service for a vector.
func (c *Client) EmbeddingModel(ctx context.Context) (name string, dimension int, err error) {
	if n := dimensions[c.model]; n > 0 {
		return c.model, n, nil
	}
	v, err := c.Embed(ctx, []string{"dimension"})
	if err != nil {
		return "", 0, err
	}
	return c.model, len(v[0]), nil
}
