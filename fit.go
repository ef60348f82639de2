package aycoder

import (
	"encoding/json"
	"slices"
)

// When a conversation becomes too large for its model, only a part is sent, while the stored
// history stays whole. Nobody knows how much fits until the model refuses a request. The size that
// fits is then recorded as a limit in bytes, as only the provider can count its tokens.
//
// The part that is sent depends only on the history and the limit. A run that continues a history
// therefore sends the same messages as the previous run. The cut stays in place while the history
// grows, so that prompt caches hit.
//
// The part always includes what the model cannot do without: the first request, the prompts of the
// current exchange, and the calls whose outputs the model has not seen. A message of more than a
// quarter of the limit is shortened. Thinking and blocks of a provider cannot be: if such a call is
// too large with them, it is left out from the next prompt on.

const (
	// minLimit is the smallest limit. A conversation that cannot be cut to it cannot be sent.
	minLimit = 1 << 10
	// overhead is the size that a message or part is assumed to have in addition to its text.
	overhead = 16
	// imageSize is the size assumed for an image, whose bytes do not tell how many tokens it has.
	imageSize = 6 << 10
	// maxPrompts is the maximum number of prompts of the current exchange that are sent.
	maxPrompts = 8
)

// A cut says which part of a conversation is sent.
type cut struct {
	limit int64 // in bytes of what is sent; 0 means no limit
	from  int   // first message that is sent, apart from those that excerpt keeps
	seen  int   // number of messages that at has processed
	size  int64 // of the part of them that is sent
}

// at returns the cut for a conversation that starts with the messages of the previous cut. It
// repeats the decision for each request, so that a resumed conversation is cut at the same place.
func (c cut) at(messages []*Message) cut {
	if c.limit == 0 {
		return c
	}
	for i, m := range messages[c.seen:] {
		if m.Role == RoleAssistant {
			c = c.move(messages[:c.seen+i])
		}
		c.size += shortSize(m, c.limit)
	}
	c.seen = len(messages)
	return c.move(messages)
}

// move returns a cut that leaves out more messages, if too much would be sent. It leaves room to
// grow, because each move of the cut invalidates the prompt cache.
func (c cut) move(messages []*Message) cut {
	if c.size <= c.limit {
		return c
	}
	head, open := headOf(messages), openCalls(messages)
	room := max(c.limit/2-sizeOf(messages[:head], c.limit), c.limit/4)
	from, tail := len(messages), int64(0)
	for i := len(messages) - 1; i >= max(head, c.from); i-- {
		tail += shortSize(messages[i], c.limit)
		if tail > room && from <= open {
			break
		}
		// Outputs must not be separated from their calls.
		if !slices.ContainsFunc(messages[i].Parts, isOutput) {
			from = i
		}
	}
	if from < len(messages) {
		c.from = from
	}
	c.size = sizeOf(excerpt(messages, c.from, c.limit), 0)
	if last := len(messages) - 1; c.size > c.limit && c.from < last && isPrompt(messages[last]) {
		c.from = last
		c.size = sizeOf(excerpt(messages, last, c.limit), 0)
	}
	return c
}

// shrunk returns a cut that sends less, and true, or false if there is no such cut. It aims at the
// given limit, or at three quarters of what was sent if limit is 0.
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

// excerpt returns the part of a conversation that is sent, or messages itself if that is all.
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

// headOf returns the number of messages that belong to the first request: instructions,
// a welcome by the model, and the user's first prompt.
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

// openCalls returns the index of the model's last message if that has calls, because the model has
// not seen their outputs yet. Otherwise it returns the index of the last message.
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

// promptsIn returns the user's prompts in messages[head:from] that belong to the current exchange,
// which begins after the last message in which the model finished its work.
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
	if len(out) > maxPrompts { // the one that began it, and the last ones
		out = append(out[:1], out[len(out)-maxPrompts+1:]...)
	}
	return out
}

// A mark records in the history which limit was found for a model, and the note of the last
// [Compacted]. It is a part of the first message with which the model answered under that limit, or
// with that note. If the run ended before, a message of the user has it alone. Marks are never sent to a
// provider.
type mark struct {
	// Calls are the ids of the calls for which an outline stands, see package callid.
	Calls []byte          `json:"calls,omitempty"`
	Limit int64           `json:"limit"`
	Model string          `json:"model,omitempty"`
	Note  json.RawMessage `json:"note,omitempty"`
	// Untrusted says that the message stands for text of an untrusted source, and Outline that it stands
	// for one whose contents are not in memory. Package session sets them.
	Untrusted bool `json:"untrusted,omitempty"`
	Outline   bool `json:"outline,omitempty"`
}

// maxNote is the size of the largest note, in bytes.
const maxNote = 4 << 20

// markProvider is the name of the provider in marks.
const markProvider = "aycoder"

func markOf(m mark) Part {
	raw, _ := json.Marshal(m) // never fails: the note is valid
	return &Opaque{Provider: markProvider, Raw: raw}
}

// markIn returns the limit that the history records for a model, or 0, and the last note.
func markIn(messages []*Message, model string) (limit int64, note json.RawMessage) {
	last := true
	for _, m := range slices.Backward(messages) {
		if len(m.Parts) == 0 {
			continue
		}
		o, ok := m.Parts[len(m.Parts)-1].(*Opaque)
		if !ok || o.Provider != markProvider {
			continue
		}
		var found mark
		if json.Unmarshal(o.Raw, &found) != nil {
			continue
		}
		if last && (found.Note != nil || m.Role == RoleAssistant) { // the user's may be a command of package compaction
			note, last = found.Note, false
		}
		if found.Model == model && found.Limit >= minLimit {
			return found.Limit, note
		}
	}
	return 0, note
}

// isOutline reports whether a message has no contents. The outlines of outputs follow those of their calls.
func isOutline(m *Message) bool {
	if len(m.Parts) == 0 {
		return false
	}
	if o, ok := m.Parts[0].(*Opaque); ok && o.Provider == markProvider {
		var found mark
		return json.Unmarshal(o.Raw, &found) == nil && found.Outline
	}
	return false
}

const elided = "[The middle of this conversation is left out here, as it was too long.]"

// withNote adds a note to the end of the first request which says that messages are left out.
func withNote(head []*Message) []*Message {
	n := len(head) - 1
	if n < 0 || head[n].Role != RoleUser {
		return append(head, User(elided))
	}
	parts := append(slices.Clip(head[n].Parts), &Text{Text: elided})
	return append(head[:n:n], &Message{Role: RoleUser, Parts: parts})
}
