package api

import (
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// WithTail returns the messages of a request with its tail behind them, and how many of them are
// the same in the next request, so that a cache breakpoint may stand behind those.
//
// The tail is a message of the user. But most services remove the thinking of all turns before the
// last text of the user, which would be the tail of each step: "When a non-tool-result user block
// is included, it designates a new assistant loop and all previous thinking blocks are removed
// from context" (Anthropic, Prompt caching). "You should pass back all reasoning items … since the
// last user message" (OpenAI, Reasoning models). So if the model has thought in the current
// exchange, the tail is a part of the last output of a tool, unless keeps says that the model keeps
// its thinking anyway. A request that ends with a message of the model, which has to be continued,
// gets no tail.
func WithTail(req *aycoder.Request, keeps bool) (messages []*aycoder.Message, stable int) {
	messages = req.Messages
	n := len(messages)
	var tail []aycoder.Part
	for _, t := range req.Tail {
		if t != nil && strings.TrimSpace(t.Text) != "" {
			tail = append(tail, t)
		}
	}
	if len(tail) == 0 || n > 0 && (messages[n-1] == nil || messages[n-1].Role == aycoder.RoleAssistant) {
		return messages, n
	}
	if !keeps && thought(messages) {
		if last := insideOutput(messages[n-1], tail); last != nil {
			return append(messages[:n-1:n-1], last), n - 1
		}
	}
	return append(messages[:n:n], &aycoder.Message{Role: aycoder.RoleUser, Parts: tail}), n
}

// thought reports whether the model has thought since the last text of the user.
func thought(messages []*aycoder.Message) bool {
	for _, m := range slices.Backward(messages) {
		if m == nil || m.Role != aycoder.RoleAssistant && slices.ContainsFunc(m.Parts, notOutput) {
			return false
		}
		if slices.ContainsFunc(m.Parts, isThinking) {
			return true
		}
	}
	return false
}

func notOutput(p aycoder.Part) bool { return !part.IsOutput(p) }

func isThinking(p aycoder.Part) bool {
	t, ok := p.(*aycoder.Thinking)
	return ok && t != nil
}

// insideOutput returns a message like m, with more parts in its last output, or nil if that output
// has no text to which they can be added.
func insideOutput(m *aycoder.Message, more []aycoder.Part) *aycoder.Message {
	at := len(m.Parts) - 1
	if at < 0 || !part.IsOutput(m.Parts[at]) {
		return nil
	}
	out := *m.Parts[at].(*aycoder.ToolOutput)
	for _, p := range out.Parts {
		if t, ok := p.(*aycoder.Text); !ok || t == nil || strings.TrimSpace(t.Text) == "" {
			return nil
		}
	}
	if len(out.Parts) == 0 {
		return nil
	}
	out.Parts = slices.Concat(out.Parts, more)
	parts := slices.Clone(m.Parts)
	parts[at] = &out
	return &aycoder.Message{Role: m.Role, Parts: parts}
}
