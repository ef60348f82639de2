// Package original finds the messages of which a run has only outlines.
package original

import (
	"context"

	"github.com/aycoder/aycoder"
)

// A Finder returns message i of a conversation if m is its outline, and m otherwise.
type Finder func(i int, m *aycoder.Message) (*aycoder.Message, error)

type key struct{}

// With returns a context for a run whose history has outlines. With a nil f, it has none, as in a run inside
// of that one.
func With(ctx context.Context, f Finder) context.Context { return context.WithValue(ctx, key{}, f) }

// Message returns message i of the history of a run, given what the run has of it.
func Message(ctx context.Context, i int, m *aycoder.Message) (*aycoder.Message, error) {
	if f, _ := ctx.Value(key{}).(Finder); f != nil {
		return f(i, m)
	}
	return m, nil
}
