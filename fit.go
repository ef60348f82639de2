package aycoder

import (
	"encoding/json"
	"slices"
)

// A conversation that has become too large for its model is sent in part, while the
// history stays whole. How much fits is known when the model has refused a request; it
// is kept as a bound in bytes, since nobody can count another's tokens. All that
// follows from the history and the bound alone: a run that goes on with the history
// sends what the run before has sent, and the cut stays where it is while the history
// grows, so that prompt caches hit. Of what is sent nothing is left out that the model
// cannot do without: the first request, what the user has said in the exchange that is
// under way, and the calls that the model has not seen the outputs of. A message of
// more than a quarter of the bound is shortened.

const (
	// minLimit is the least bound. What does not fit into it cannot be made to fit.
	minLimit = 1 << 10
	// overhead is what a message or a part takes beside its text.
	overhead = 16
	// imageSize is what an image counts: its bytes say nothing about its tokens.
	imageSize = 6 << 10
	// maxPrompts bounds what is kept of what the user has said meanwhile.
	maxPrompts = 8
)

// A cut says which part of a conversation is sent.
type cut struct {
	limit int64 // of what is sent, in bytes; 0 is none
	from  int   // messages before are left out, but for those that a view keeps
	seen  int   // messages that were looked at
	size  int64 // of what is sent of them
}

// at returns the cut for a conversation that the one before is the beginning of. It
// goes through the points at which the model was asked.
func (c cut) at(messages []*Message) cut {
	if c.limit == 0 {
		return c
	}
	for i, m := range messages[c.seen:] {
		if m.Role == RoleAssistant {
			c.move(messages[:c.seen+i])
		}
		c.size += shortSize(m, c.limit)
	}
	c.seen = len(messages)
	c.move(messages)
	return c
}

// move leaves more out if too much is sent. It leaves room to grow, since a cut that
// moves costs a prompt cache.
func (c *cut) move(messages []*Message) {
	if c.size <= c.limit {
		return
	}
	head, open := headOf(messages), openCalls(messages)
	room := max(c.limit/2-sizeOf(messages[:head], c.limit), c.limit/4)
	from, tail := len(messages), int64(0)
	for i := len(messages) - 1; i >= max(head, c.from); i-- {
		tail += shortSize(messages[i], c.limit)
		if tail > room && from <= open {
			break
		}
		if !slices.ContainsFunc(messages[i].Parts, isOutput) { // which belong to the calls before
			from = i
		}
	}
	if from < len(messages) {
		c.from = from
	}
	c.size = sizeOf(excerpt(messages, c.from, c.limit), 0)
}

// shrunk returns a cut with which less is sent, if there is one. It aims at a bound, or
// at three quarters of what was sent if that is 0.
func (c cut) shrunk(messages []*Message, limit int64) (cut, bool) {
	sent := sizeOf(excerpt(messages, c.from, c.limit), 0)
	if limit <= 0 {
		limit = sent * 3 / 4
	}
	if c.limit > 0 {
		limit = min(limit, c.limit-c.limit/16)
	}
	for ; ; limit = limit * 3 / 4 {
		limit = max(limit, minLimit)
		next := cut{limit: limit}.at(messages)
		if sizeOf(excerpt(messages, next.from, limit), 0) < sent {
			return next, true
		}
		if limit == minLimit {
			return c, false
		}
	}
}

// excerpt returns what is sent of a conversation: messages itself if that is all of it.
func excerpt(messages []*Message, from int, limit int64) []*Message {
	head := headOf(messages)
	if from = min(from, len(messages)); from <= head {
		from = head
	}
	var out []*Message
	add := func(m *Message) { out = append(out, shortened(m, limit/4)) }
	for _, m := range messages[:head] {
		add(m)
	}
	if from > head {
		out = withNote(out)
		prompts := promptsIn(messages, head, from)
		for _, m := range prompts {
			out = append(out, shortened(m, limit/4/int64(len(prompts))))
		}
	}
	for _, m := range messages[from:] {
		add(m)
	}
	if slices.Equal(out, messages) {
		return messages
	}
	return out
}

// headOf returns how many messages belong to the first request: instructions, a word
// of welcome, and what the user said first.
func headOf(messages []*Message) int {
	n := 0
	for i, m := range messages {
		if m.Role == RoleSystem || i == 0 && m.Role == RoleAssistant && len(m.Calls()) == 0 {
			n++
			continue
		}
		if isPrompt(m) {
			n++
		}
		break
	}
	return n
}

// openCalls returns the index of the last message of the model if it has calls, so that
// it has not seen their outputs, and else that of the last message.
func openCalls(messages []*Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role == RoleAssistant {
			if slices.ContainsFunc(m.Parts, isCall) {
				return i
			}
			break
		}
	}
	return len(messages) - 1
}

// promptsIn returns what the user has said between two messages in the exchange that
// is under way: since the model last had nothing more to do.
func promptsIn(messages []*Message, head, from int) []*Message {
	var out []*Message
	for i, m := range slices.Backward(messages) {
		if i < head || m.Role == RoleAssistant && !slices.ContainsFunc(m.Parts, isCall) {
			break
		}
		if i < from && m.Role != RoleAssistant && !slices.ContainsFunc(m.Parts, isOutput) {
			out = append(out, m)
		}
	}
	slices.Reverse(out)
	if len(out) > maxPrompts { // what began it, and the last
		out = append(out[:1], out[len(out)-maxPrompts+1:]...)
	}
	return out
}

// A mark is how a history says which limit it has come to: a part of the message in
// which the model answered the first request that kept to it. No provider is sent it.
type mark struct {
	Limit int64  `json:"limit"`
	Model string `json:"model,omitempty"`
}

// markProvider is the provider of marks.
const markProvider = "aycoder"

func markOf(limit int64, model string) Part {
	raw, _ := json.Marshal(mark{limit, model}) // never fails
	return &Opaque{Provider: markProvider, Raw: raw}
}

// limitIn returns the limit that a history has come to with a model, or 0.
func limitIn(messages []*Message, model string) int64 {
	for _, m := range slices.Backward(messages) {
		if m.Role != RoleAssistant || len(m.Parts) == 0 {
			continue
		}
		o, ok := m.Parts[len(m.Parts)-1].(*Opaque)
		if !ok || o.Provider != markProvider {
			continue
		}
		var found mark
		if json.Unmarshal(o.Raw, &found) == nil && found.Model == model && found.Limit >= minLimit {
			return found.Limit
		}
	}
	return 0
}

const elided = "[The middle of this conversation is left out here, as it was too long.]"

// withNote says at the end of the first request that something is left out.
func withNote(head []*Message) []*Message {
	n := len(head) - 1
	if n < 0 || head[n].Role != RoleUser {
		return append(head, User(elided))
	}
	parts := append(slices.Clip(head[n].Parts), &Text{Text: elided})
	return append(head[:n:n], &Message{Role: RoleUser, Parts: parts})
}
