package api

import (
	"strings"

	"github.com/aycoder/aycoder"
)

// A response has thousands of deltas. So they are allocated several at a time, and their texts are
// parts of the buffer in which the decoder puts the block together: see [Grow].

// few is the number of deltas that are allocated at a time.
const few = 8

// deltas are those that are allocated and not emitted yet.
type deltas struct {
	texts    []aycoder.TextDelta
	thoughts []aycoder.ThinkingDelta
	tools    []aycoder.ToolDelta
}

// take returns a new value.
func take[T any](spare *[]T) *T {
	if len(*spare) == 0 {
		*spare = make([]T, few)
	}
	v := &(*spare)[0]
	*spare = (*spare)[1:]
	return v
}

// Grow appends s to the text of a block, and returns s in the memory of that text.
func Grow(b *strings.Builder, s string) string {
	const least = 128
	if b.Cap() == 0 {
		b.Grow(max(least, len(s)))
	}
	n := b.Len()
	b.WriteString(s)
	return b.String()[n:]
}

// Fitted returns the text of b without much spare capacity. The text is kept for as long
// as the conversation, and the buffer of a growing builder may be twice as large as its
// text.
func Fitted(b *strings.Builder) string {
	if b.Cap()-b.Len() > b.Len()/8 {
		return strings.Clone(b.String())
	}
	return b.String()
}

// EmitText emits a piece of the visible text.
func (k *Call) EmitText(s string) error {
	ev := take(&k.spare.texts)
	ev.Text = s
	return k.Emit(ev)
}

// EmitThinking emits a piece of the model's thinking.
func (k *Call) EmitThinking(s string) error {
	ev := take(&k.spare.thoughts)
	ev.Text = s
	return k.Emit(ev)
}

// EmitArgs emits the beginning of a tool call, or a piece of its arguments.
func (k *Call) EmitArgs(id, name, args string) error {
	ev := take(&k.spare.tools)
	ev.ID, ev.Name, ev.Args = id, name, args
	return k.Emit(ev)
}
