// Package part finds parts of messages that several packages look for: outputs of calls, and marks of the
// loop. It also has what several packages do to requests and to sequences of events.
package part

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/aycoder/aycoder"
)

// Loop is the provider of parts that the loop, or a package around it, keeps in messages. No client sends
// them.
const Loop = "aycoder"

// Mark is the content of such a part, apart from what only the loop reads.
type Mark struct {
	// Calls are the ids of calls for which the message stands, see package callid. They come first.
	Calls []byte `json:"calls,omitempty"`
	// Compact is what a command of package compaction asks to keep, or nil.
	Compact *string `json:"compact,omitempty"`
	// Note is the note of a compaction, see [aycoder.Compacted].
	Note json.RawMessage `json:"note,omitempty"`
	// Untrusted says that the message stands for untrusted text, and Outline that it stands for one whose
	// contents are not in memory.
	Untrusted bool `json:"untrusted,omitempty"`
	Outline   bool `json:"outline,omitempty"`
}

// Part returns the part. Note must be valid JSON.
func (m Mark) Part() aycoder.Part {
	raw, _ := json.Marshal(m) // never fails
	return &aycoder.Opaque{Provider: Loop, Raw: raw}
}

// MarkOf returns the mark in a part, if it is one.
func MarkOf(p aycoder.Part) (m Mark, ok bool) {
	if IsMark(p) {
		ok = json.Unmarshal(p.(*aycoder.Opaque).Raw, &m) == nil
	}
	return m, ok
}

// IsMark reports whether no client sends a part.
func IsMark(p aycoder.Part) bool {
	o, ok := p.(*aycoder.Opaque)
	return ok && o != nil && o.Provider == Loop
}

// IsOutput reports whether a part is the output of a call.
func IsOutput(p aycoder.Part) bool {
	o, ok := p.(*aycoder.ToolOutput)
	return ok && o != nil
}

// Outputs returns the outputs in a message, in order.
func Outputs(m *aycoder.Message) (out []*aycoder.ToolOutput) {
	for _, p := range m.Parts {
		if o, ok := p.(*aycoder.ToolOutput); ok {
			out = append(out, o)
		}
	}
	return out
}

// Untrusted reports whether strangers have written some of a message, or of what it stands for.
func Untrusted(m *aycoder.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p aycoder.Part) bool {
		o, ok := p.(*aycoder.ToolOutput)
		mark, _ := MarkOf(p)
		return ok && o.Untrusted || mark.Untrusted
	})
}

// Tail is a builder that adds a text to the tail of each request of next (see [aycoder.Request]), unless it is "".
func Tail(next aycoder.ContextBuilder, text func(context.Context, aycoder.ContextInput) string) aycoder.ContextBuilder {
	return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
		req, err := next.Build(ctx, in)
		if err != nil || req == nil {
			return req, err
		}
		add := text(ctx, in)
		if add == "" {
			return req, nil
		}
		longer := *req
		longer.Tail = append(slices.Clip(req.Tail), &aycoder.Text{Text: add})
		return &longer, nil
	})
}

// Once returns a sequence that calls run when it is ranged over, and that yields only [aycoder.ErrConsumed] the second
// time.
func Once[E any](run func(yield func(E, error) bool)) iter.Seq2[E, error] {
	var used atomic.Bool
	return func(yield func(E, error) bool) {
		if used.Swap(true) {
			var none E
			yield(none, aycoder.ErrConsumed)
			return
		}
		run(yield)
	}
}
