package catalog_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/catalog"
	"github.com/aycoder/aycoder/providers/script"
)

// named is a client that tells who it is, and perhaps what it knows.
type named struct {
	aycoder.ModelClient
	provider, model string
}

func (n named) ModelName() (string, string) { return n.provider, n.model }

type knowing struct {
	named
	info aycoder.ModelInfo
}

func (k knowing) ModelInfo(model string) (aycoder.ModelInfo, bool) {
	return k.info, model == "" || model == k.info.Model
}

func info(t *testing.T, m aycoder.ModelClient, model string) (aycoder.ModelInfo, bool) {
	t.Helper()
	i, ok := aycoder.As[aycoder.ModelInfoer](catalog.Default().Middleware()(m))
	require.True(t, ok)
	return i.ModelInfo(model)
}

func TestMiddlewareInfo(t *testing.T) {
	m := named{script.New(), "anthropic", "claude-haiku-4-5"}
	got, ok := info(t, m, "")
	require.True(t, ok)
	assert.Equal(t, "claude-haiku-4-5", got.Model)
	assert.EqualValues(t, 200_000, got.Context)
	got, ok = info(t, m, "claude-opus-4-8")
	require.True(t, ok)
	assert.EqualValues(t, 1_000_000, got.Context)
	_, ok = info(t, m, "unheard-of")
	assert.False(t, ok)
	_, ok = info(t, aycoder.ModelFunc(script.New().Stream), "")
	assert.False(t, ok, "nobody says who that is")
}

func TestMiddlewareClientKnowsBetter(t *testing.T) {
	m := knowing{
		named: named{script.New(), "ollama", "qwen3:4b"},
		info:  aycoder.ModelInfo{Model: "qwen3:4b", Context: 8192, Output: false},
	}
	got, ok := info(t, m, "")
	require.True(t, ok)
	assert.Equal(t, aycoder.ModelInfo{
		Provider: "ollama", Model: "qwen3:4b", Context: 8192, Price: &aycoder.Price{},
		Tools: true, Thinking: true, Output: true,
	}, got, "the server's context, the catalog's price and abilities")
	got, ok = info(t, m, "llama3.1")
	require.True(t, ok, "the client does not know that one")
	assert.EqualValues(t, 131_072, got.Context)

	m.provider, m.info.Model = "nobody", "own"
	got, ok = info(t, m, "own")
	require.True(t, ok, "the catalog does not know that one")
	assert.EqualValues(t, 8192, got.Context)
}

// TestMiddlewareTransparent checks that the request is the same one, not a copy, and
// that the events are those of the client, with its end.
func TestMiddlewareTransparent(t *testing.T) {
	var got *aycoder.Request
	events := []aycoder.ModelEvent{&aycoder.TextDelta{Text: "a"}, &aycoder.TextDelta{Text: "b"}}
	broken := errors.New("broken")
	m := catalog.Default().Middleware()(aycoder.ModelFunc(
		func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
			got = req
			return func(yield func(aycoder.ModelEvent, error) bool) {
				for _, ev := range events {
					if !yield(ev, nil) {
						return
					}
				}
				yield(nil, broken)
			}
		}))
	req := &aycoder.Request{Model: "claude-sonnet-4-5", MaxTokens: 1 << 30}
	var seen []aycoder.ModelEvent
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil {
			assert.Same(t, broken, err)
			assert.Nil(t, ev)
			continue
		}
		seen = append(seen, ev)
	}
	assert.Same(t, req, got)
	assert.Equal(t, events, seen)
	for range m.Stream(t.Context(), req) {
		break
	}
}

func TestMiddlewareUnknownModel(t *testing.T) {
	base := &aycoder.ModelError{Provider: "anthropic", Model: "claude-sonet-4-5", Status: 404}
	fail := &aycoder.UnknownModelError{ModelError: base}
	m := named{failing{fail}, "anthropic", "claude-sonet-4-5"}
	_, err := aycoder.Complete(t.Context(), catalog.Default().Middleware()(m), &aycoder.Request{})
	e, ok := errors.AsType[*aycoder.UnknownModelError](err)
	require.True(t, ok)
	require.NotEmpty(t, e.Available)
	assert.Equal(t, "claude-sonnet-4-5", e.Available[0])
	assert.LessOrEqual(t, len(e.Available), 10)
	assert.Same(t, base, e.ModelError)
	assert.Empty(t, fail.Available, "the client's error is not changed")

	known := &aycoder.UnknownModelError{ModelError: base, Available: []string{"x"}}
	nobodys := &aycoder.UnknownModelError{ModelError: &aycoder.ModelError{Model: "claude-sonet-4-5"}}
	bare := &aycoder.UnknownModelError{}
	foreign := &aycoder.UnknownModelError{ModelError: &aycoder.ModelError{Provider: "acme", Model: "m"}}
	for _, same := range []error{known, nobodys, bare, foreign, (*aycoder.UnknownModelError)(nil)} {
		_, err = aycoder.Complete(t.Context(), catalog.Default().Middleware()(failing{same}), &aycoder.Request{})
		assert.Same(t, same, err, "whose models would that be?")
	}
}

// An error that wraps this one says more, and its text is kept. The error names who was asked,
// which need not be the first client.
func TestMiddlewareUnknownModelInside(t *testing.T) {
	fail := &aycoder.UnknownModelError{ModelError: &aycoder.ModelError{Provider: "anthropic", Model: "claude-sonet-4-5"}}
	limit := &aycoder.RateLimitError{ModelError: &aycoder.ModelError{Provider: "openai"}}
	wrapped := errors.Join(limit, fail)
	m := catalog.Default().Middleware()(named{failing{wrapped}, "openai", "gpt-5"})
	_, err := aycoder.Complete(t.Context(), m, &aycoder.Request{Model: "gpt-5"})
	require.ErrorIs(t, err, wrapped)
	require.ErrorAs(t, err, new(*aycoder.RateLimitError))
	e, ok := errors.AsType[*aycoder.UnknownModelError](err)
	require.True(t, ok)
	require.NotEmpty(t, e.Available)
	assert.Equal(t, "claude-sonnet-4-5", e.Available[0])
	assert.ErrorContains(t, err, wrapped.Error()+"; known: claude-sonnet-4-5, ")
	assert.Empty(t, fail.Available)
}

func TestMiddlewareOfNothing(t *testing.T) {
	assert.Panics(t, func() { catalog.Default().Middleware()(nil) })
}

type failing struct{ err error }

func (f failing) Stream(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return func(yield func(aycoder.ModelEvent, error) bool) { yield(nil, f.err) }
}
