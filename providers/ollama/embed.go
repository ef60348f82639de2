package ollama

import (
	"context"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// embedders are known embedding models, with the dimension of their vectors and what they expect in front of a
// text that is searched and of a query.
var embedders = map[string]struct {
	dimension   int
	text, query string
}{
	"nomic-embed-text":       {768, "search_document: ", "search_query: "},
	"mxbai-embed-large":      {1024, "", "Represent this sentence for searching relevant passages: "},
	"snowflake-arctic-embed": {1024, "", "Represent this sentence for searching relevant passages: "},
	"all-minilm":             {384, "", ""},
	"bge-m3":                 {1024, "", ""},
}

// WithPull makes [Client.Embed] download the model if the server does not have it, and report the progress, from the
// goroutine that calls Embed. See [Client.Pull]. Default: a missing model is an error.
func WithPull(progress func(PullProgress)) Option {
	return func(c *config) error {
		if progress == nil {
			return &aycoder.ConfigError{Option: "WithPull", Err: errors.New("function is nil")}
		}
		c.pull = progress
		return nil
	}
}

// Embed returns a vector for each text, in the order of the texts, from the model that was passed to [New], which
// must be an embedding model. The vectors are for texts that are searched; see [Client.EmbedQuery]. A text that is
// longer than the context of the model is cut. The errors are those of [Client.Stream], or of [Client.Pull]
// with [WithPull].
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return c.embed(ctx, texts, embedders[c.family()].text)
}

// EmbedQuery returns a vector for a query, to find those of [Client.Embed]. Some models expect words in front of a
// query, which EmbedQuery adds.
func (c *Client) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	v, err := c.embed(ctx, []string{text}, embedders[c.family()].query)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

func (c *Client) embed(ctx context.Context, texts []string, before string) ([][]float32, error) {
	v, err := c.embedOnce(ctx, texts, before)
	if _, unknown := errors.AsType[*aycoder.UnknownModelError](err); !unknown || c.cfg.pull == nil {
		return v, err
	}
	for p, err := range c.Pull(ctx, c.model) {
		if err != nil {
			return nil, err
		}
		c.cfg.pull(p)
	}
	return c.embedOnce(ctx, texts, before)
}

func (c *Client) embedOnce(ctx context.Context, texts []string, before string) ([][]float32, error) {
	x := c.exchange(c.model, "/api/embed")
	x.Encode = func() (*api.Payload, error) {
		b := rawjson.AppendField([]byte{'{'}, "model", c.model)
		if c.cfg.keepAlive != "" {
			b = append(append(b, `,"keep_alive":`...), c.cfg.keepAlive...)
		}
		b = append(b, `,"input":[`...)
		for i, text := range texts {
			if i > 0 {
				b = append(b, ',')
			}
			b = rawjson.AppendString(b, before+text)
		}
		return &api.Payload{Pieces: [][]byte{append(b, "]}"...)}}, nil
	}
	return x.Embed(ctx, len(texts), "embeddings", "")
}

// family returns the name of the model without its tag. Models with other tags than "latest" may be of other
// dimensions, such as "snowflake-arctic-embed:22m", and are not known.
func (c *Client) family() string { return strings.TrimSuffix(c.model, ":latest") }

// EmbeddingModel returns the model that was passed to [New], without the tag "latest", and the dimension of its
// vectors. If the dimension is not known, EmbeddingModel asks the server for a vector.
func (c *Client) EmbeddingModel(ctx context.Context) (name string, dimension int, err error) {
	name = c.family()
	if e := embedders[name]; e.dimension > 0 {
		return name, e.dimension, nil
	}
	v, err := c.Embed(ctx, []string{"dimension"})
	if err != nil {
		return "", 0, err
	}
	return name, len(v[0]), nil
}

// EmbedsLocally reports whether [Client.Embed] sends the texts to this machine only: the server has a loopback
// address, and the name of the model does not say that it is in Ollama's cloud.
func (c *Client) EmbedsLocally() bool { return c.cfg.Loopback() && !c.inCloud(c.model) }
