// Package original finds the messages of which a run has only outlines.
package original

import (
	"context"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// A Finder returns message i of a conversation if m is its outline, and m otherwise.
type Finder func(i int, m *aycoder.Message) (*aycoder.Message, error)

type key struct{}

// With returns a context for a run whose history has outlines.
func With(ctx context.Context, f Finder) context.Context { return context.WithValue(ctx, key{}, f) }

// Message returns message i of the history of a run, given what the run has of it.
func Message(ctx context.Context, i int, m *aycoder.Message) (*aycoder.Message, error) {
	if f, _ := ctx.Value(key{}).(Finder); f != nil && IsOutline(m) { // a run inside of that one has other messages
		return f(i, m)
	}
	return m, nil
}

// In returns a function that calls Message with ctx.
func In(ctx context.Context) Finder {
	return func(i int, m *aycoder.Message) (*aycoder.Message, error) { return Message(ctx, i, m) }
}

// Mark returns the first part of an outline, or of the outputs in it. The loop sends no message with it.
func Mark() aycoder.Part { return part.Mark{Outline: true}.Part() }

// IsOutline reports whether a message is an outline.
func IsOutline(m *aycoder.Message) bool {
	if len(m.Parts) == 0 {
		return false
	}
	if o, ok := m.Parts[0].(*aycoder.ToolOutput); ok {
		return slices.ContainsFunc(o.Parts, isMark)
	}
	return isMark(m.Parts[0])
}

func isMark(p aycoder.Part) bool {
	m, _ := part.MarkOf(p)
	return m.Outline
}
