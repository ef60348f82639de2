package retrieval

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/lru"
)

// Embedder makes vectors of texts, such that texts with similar meanings have similar vectors. It is an
// optional ability of clients of models, and of middleware around them:
//
//	e, ok := aycoder.As[retrieval.Embedder](client)
//
// An Embedder is safe for concurrent use.
type Embedder interface {
	// Embed returns one vector for each text, in the order of the texts. Errors are as those of
	// [aycoder.ModelClient].
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// EmbeddingModel returns the name of the model, which tells apart vectors that cannot be compared, and
	// the dimension of its vectors. It may ask the service.
	EmbeddingModel(ctx context.Context) (name string, dimension int, err error)
}

// QueryEmbedder is an optional ability of an [Embedder] whose model treats queries unlike the texts that they
// are to find.
type QueryEmbedder interface {
	EmbedQuery(ctx context.Context, text string) ([]float32, error)
}

// LocalEmbedder is an optional ability of an [Embedder]. EmbedsLocally reports whether the texts stay on this
// machine.
type LocalEmbedder interface {
	EmbedsLocally() bool
}

// The sizes of a request to an embedder.
const (
	batchTexts = 64
	batchBytes = 128 << 10

	// cacheBytes bounds the vectors that are kept for texts that come again.
	cacheBytes = 32 << 20
)

// batcher embeds any number of texts with an embedder.
type batcher struct {
	Embedder
	model string
	dim   int
	mask  func(string) string // for queries; texts are masked already
	cache *lru.Cache
}

func newBatcher(ctx context.Context, e Embedder, mask func(string) string) (*batcher, error) {
	model, dim, err := e.EmbeddingModel(ctx)
	if err != nil {
		return nil, fmt.Errorf("embedder: %w", err)
	}
	return &batcher{Embedder: e, model: model, dim: dim, mask: mask, cache: lru.New(cacheBytes)}, nil
}

// texts returns the vectors of texts. Equal texts are sent once.
func (b *batcher) texts(ctx context.Context, texts []string) ([][]float32, error) {
	out, places := make([][]float32, len(texts)), map[string][]int{}
	var missing []string
	for i, text := range texts {
		if out[i] = b.cached("text", text); out[i] != nil {
			continue
		}
		if places[text] == nil {
			missing = append(missing, text)
		}
		places[text] = append(places[text], i)
	}
	for len(missing) > 0 {
		n, size := 0, 0
		for n < len(missing) && n < batchTexts && (n == 0 || size+len(missing[n]) <= batchBytes) {
			size += len(missing[n])
			n++
		}
		vectors, err := b.batch(ctx, missing[:n])
		if err != nil {
			return nil, err
		}
		for i, v := range vectors {
			b.keep("text", missing[i], v)
			for _, place := range places[missing[i]] {
				out[place] = v
			}
		}
		missing = missing[n:]
	}
	return out, nil
}

// batch returns the vectors of the texts of one request.
func (b *batcher) batch(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	err = b.retry(ctx, func() error {
		vectors, err = b.Embed(ctx, texts)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("embed: %d vectors for %d texts", len(vectors), len(texts))
	}
	return vectors, b.check(vectors...)
}

// query returns the vector of a query.
func (b *batcher) query(ctx context.Context, text string) ([]float32, error) {
	text = b.mask(text)
	if v := b.cached("query", text); v != nil {
		return v, nil
	}
	q, ok := b.Embedder.(QueryEmbedder)
	if !ok {
		v, err := b.texts(ctx, []string{text})
		if err != nil {
			return nil, err
		}
		return v[0], nil
	}
	var v []float32
	err := b.retry(ctx, func() (err error) {
		v, err = q.EmbedQuery(ctx, text)
		return err
	})
	if err == nil {
		err = b.check(v)
	}
	if err != nil {
		return nil, err
	}
	b.keep("query", text, v)
	return v, nil
}

// check refuses vectors that an index would refuse.
func (b *batcher) check(vectors ...[]float32) error {
	for _, v := range vectors {
		if len(v) != b.dim {
			return fmt.Errorf("embed: %w", &MismatchError{Model: b.model, Dimension: b.dim, GotDimension: len(v)})
		}
		if _, err := normal(v); err != nil {
			return fmt.Errorf("embed: %w", err)
		}
	}
	return nil
}

// retry calls do until it does not fail, or as long as a run would ask a model again.
func (b *batcher) retry(ctx context.Context, do func() error) error {
	var waited time.Duration
	for attempt := 0; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		next := aycoder.RetryPolicy{}.Decide(aycoder.Failure{
			Err: err, Attempt: attempt, Waited: waited, Now: time.Now(), Random: rand.Float64(), Shrunk: true})
		if !next.Retry || ctx.Err() != nil {
			return fmt.Errorf("embed: %w", err)
		}
		if stopped := sleep(ctx, next.After); stopped != nil {
			return fmt.Errorf("embed: %w", errors.Join(stopped, err))
		}
		waited += next.After
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// cached returns the vector of a text that was embedded before, or nil.
func (b *batcher) cached(use, text string) []float32 {
	if data, ok := b.cache.Get(cacheKey(use, text)); ok {
		return vectorOf(data)
	}
	return nil
}

func (b *batcher) keep(use, text string, vector []float32) {
	b.cache.Put(cacheKey(use, text), appendVector(nil, vector))
}

func cacheKey(use, text string) string {
	sum := sha256.Sum256([]byte(text))
	return use + string(sum[:])
}
