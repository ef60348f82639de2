package aycoder

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
)

// ContextBuilder chooses what the model sees: it builds the request of each turn.
// The result is checked with [CheckHistory], so that no builder can break a
// session. Requests should only grow at their end, so that prompt caches hit. It is
// safe for concurrent use. An error ends the run with a [*ContextError].
type ContextBuilder interface {
	Build(ctx context.Context, in ContextInput) (*Request, error)
}

// ContextFunc is a function that is a [ContextBuilder].
type ContextFunc func(ctx context.Context, in ContextInput) (*Request, error)

// Build calls f.
func (f ContextFunc) Build(ctx context.Context, in ContextInput) (*Request, error) {
	return f(ctx, in)
}

// ContextMiddleware wraps a builder: it changes what goes in, or what comes out.
type ContextMiddleware func(ContextBuilder) ContextBuilder

// ContextInput is what a [ContextBuilder] builds from. It is read-only.
type ContextInput struct {
	// Run is the id of the run, Turn the number of the turn, from 1.
	Run  string
	Turn int
	// Messages is the whole history.
	Messages []*Message
	// Elide is the number of oldest messages that are to be left out or shortened,
	// Limit the most bytes of text that the others may have, both 0 as long as all
	// fits. They follow from what the model has refused as too large, in this run or in
	// those before. Elide only grows during a run, Limit only falls.
	Elide int
	Limit int64
	// Window is the most tokens of a request with its answer, 0 if that is not known.
	Window int64
	// Usage is that of the last answer in this run.
	Usage Usage
	// Overflow is what the model said about the request before, if that was too large
	// and this one takes its place: it must be smaller, and is not sent otherwise.
	Overflow *ContextTooLargeError
	// Base holds everything else of the request as the options of [New] set it:
	// system prompt, tools, limits.
	Base *Request
}

// plainContext is the default builder.
type plainContext struct{}

func (plainContext) Build(_ context.Context, in ContextInput) (*Request, error) {
	req := *in.Base
	req.Messages = in.Messages
	if in.Elide > 0 || in.Limit > 0 {
		req.Messages = excerpt(in.Messages, in.Elide, in.Limit)
	}
	return &req, nil
}

// CheckHistory reports what is wrong with a conversation: a call without its
// output, an output without its call, an id used twice, a part in the wrong role.
// Outputs stand in the user message right after the calls. The error is a
// [*ContextError].
func CheckHistory(messages []*Message) error {
	_, err := checkHistory(messages)
	return err
}

// checkHistory is CheckHistory, and returns where the calls are.
func checkHistory(messages []*Message) (*callIDs, error) {
	if ids := checkLong(messages); ids != nil {
		return ids, nil
	}
	c := checker{callIDs: newCallIDs(messages)}
	for i, m := range messages {
		c.index = i
		if err := c.message(m); err != nil {
			return nil, &ContextError{Op: "check history", Err: fmt.Errorf("message %d: %w", i, err)}
		}
	}
	if err := c.answered(); err != nil {
		return nil, &ContextError{Op: "check history", Err: err}
	}
	if n := len(messages) - 1; n >= longHistory && isPrompt(messages[n]) {
		c.past = (&past{seed: maphash.MakeSeed()}).extend(messages[:n])
	}
	return c.callIDs, nil
}

// longHistory is how many messages a history has whose last one knows its past.
const longHistory = 64

// A past says of the messages up to the one that has it that they were checked. What it
// knows is compared with what they are now, but for one thing, which takes a map of all
// calls: that no id is used twice.
type past struct {
	n    int // messages
	seed maphash.Seed
	ids  uint64 // hash of the ids of their calls, in their order
}

// extend returns the past of more messages, of which those of p are the first, and
// leaves it with the last of them.
func (p *past) extend(messages []*Message) *past {
	next := *p
	for _, m := range messages[p.n:] {
		next.add(m)
	}
	next.n = len(messages)
	messages[next.n-1].past.Store(&next)
	return &next
}

func (p *past) add(m *Message) {
	for _, part := range m.Parts {
		if use, ok := part.(*ToolUse); ok {
			p.ids = p.ids*0x9E3779B97F4A7C15 + maphash.String(p.seed, use.ID)
		}
	}
}

// checkLong is checkHistory for a history whose last message but one, or the last, was
// the last of a history that was checked. It returns nil if it finds anything else.
func checkLong(messages []*Message) *callIDs {
	var known *past
	for n := len(messages); n > 0 && n >= len(messages)-1; n-- {
		if m := messages[n-1]; m != nil && known == nil {
			if p := m.past.Load(); p != nil && p.n == n {
				known = p
			}
		}
	}
	if known == nil {
		return nil
	}
	c := checker{callIDs: &callIDs{past: known, later: messages}}
	now := past{seed: known.seed}
	for i, m := range messages {
		if c.message(m) != nil || i >= known.n && slices.ContainsFunc(m.Parts, isCall) {
			return nil
		}
		now.add(m)
	}
	if c.answered() != nil || now.ids != known.ids {
		return nil
	}
	return c.callIDs
}

// RepairHistory returns what can be kept of a conversation that [CheckHistory] refuses,
// such as one that was stored while a tool worked: messages itself if nothing is wrong
// with it. A call without its output gets one that says that its outcome is unknown, and
// an output that comes late is moved to its call. What has no place is left out: an
// output without its call, a call with an id that was used before, a part in the wrong
// role, a message that is empty or of an unknown role.
func RepairHistory(messages []*Message) []*Message {
	if CheckHistory(messages) == nil {
		return messages
	}
	outputs := map[string]*ToolOutput{} // the first of each id
	for _, m := range messages {
		for _, o := range outputsOf(m) {
			if outputs[o.ID] == nil {
				outputs[o.ID] = o
			}
		}
	}
	c := checker{callIDs: newCallIDs(messages)}
	var out []*Message
	for _, m := range messages {
		if m = c.repaired(m); m == nil {
			continue
		}
		out = append(out, m)
		if calls := m.Calls(); len(calls) > 0 {
			answers := &Message{Role: RoleUser}
			for _, use := range calls {
				o := outputs[use.ID]
				if o == nil || checkOutput(o) != nil {
					o = errorOutput(use, outLost)
				}
				answers.Parts = append(answers.Parts, o)
			}
			out = append(out, answers)
		}
	}
	return out
}

// outputsOf returns the outputs that a message of the user holds.
func outputsOf(m *Message) []*ToolOutput {
	var out []*ToolOutput
	if m == nil || m.Role != RoleUser {
		return nil
	}
	for _, p := range m.Parts {
		if o, ok := p.(*ToolOutput); ok && o != nil {
			out = append(out, o)
		}
	}
	return out
}

// repaired returns what is left of a message without its outputs, or nil.
func (c *checker) repaired(m *Message) *Message {
	if m == nil {
		return nil
	}
	kept := &Message{Role: m.Role}
	for _, p := range m.Parts {
		if isNil(p) || isOutput(p) {
			continue
		}
		one := &Message{Role: m.Role, Parts: []Part{p}}
		if m.Role == RoleAssistant && c.assistant(one) == nil || checkUser(one) == nil {
			kept.Parts = append(kept.Parts, p)
		}
	}
	switch {
	case len(kept.Parts) == 0:
		return nil
	case slices.Equal(kept.Parts, m.Parts):
		return m
	}
	return kept
}

// A checker goes through a history. It makes one map of a long one.
type checker struct {
	*callIDs
	index int        // of the message
	calls []*ToolUse // of the last message that had any; nil where the output has come
	open  int        // how many are not nil
	next  int        // the call behind the one whose output came last
}

func (c *checker) message(m *Message) error {
	if m == nil {
		return errors.New("is nil")
	}
	if len(m.Parts) == 0 {
		return errors.New("is empty")
	}
	if slices.ContainsFunc(m.Parts, isNil) {
		return errors.New("a part is nil")
	}
	switch m.Role {
	case RoleAssistant:
		if err := c.answered(); err != nil {
			return err
		}
		return c.assistant(m)
	case RoleUser:
		if err := c.user(m); err != nil {
			return err
		}
		return c.answered()
	case RoleSystem:
		if err := c.answered(); err != nil {
			return err
		}
		return checkUser(m)
	}
	return fmt.Errorf("no such role: %q", m.Role)
}

func (c *checker) assistant(m *Message) error {
	c.calls, c.next = c.calls[:0], 0
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *ToolUse:
			before := len(c.at)
			if c.past == nil {
				c.at[p.ID] = callPlace{int32(c.index), int32(len(c.calls))}
			}
			if c.past == nil && len(c.at) == before || p.ID == "" {
				return fmt.Errorf("call id %q is empty or used twice", p.ID)
			}
			c.calls = append(c.calls, p)
		case *ToolOutput:
			return errors.New("an assistant message holds no tool output")
		}
	}
	c.open = len(c.calls)
	return nil
}

func (c *checker) user(m *Message) error {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *ToolOutput:
			if !c.answer(p.ID) {
				return fmt.Errorf("output %q has no call before it", p.ID)
			}
			if err := checkOutput(p); err != nil {
				return err
			}
		case *ToolUse, *Thinking:
			return fmt.Errorf("a user message holds no %T", p)
		}
	}
	return nil
}

// answer takes an output, most often that of the next call. It reports whether there is
// such a call that has none.
func (c *checker) answer(id string) bool {
	if c.open == 0 {
		return false
	}
	i := c.next
	if i >= len(c.calls) || c.calls[i] == nil || c.calls[i].ID != id {
		at, ok := c.at[id]
		if i = int(at.call); !ok || i >= len(c.calls) || c.calls[i] == nil || c.calls[i].ID != id {
			return false
		}
	}
	c.calls[i] = nil
	c.open--
	c.next = i + 1
	return true
}

// answered reports the first call that has no output.
func (c *checker) answered() error {
	if c.open == 0 {
		return nil
	}
	first := slices.IndexFunc(c.calls, func(u *ToolUse) bool { return u != nil })
	return fmt.Errorf("call %q has no output", c.calls[first].ID)
}

// checkOutput reports whether o holds what a tool can give.
func checkOutput(o *ToolOutput) error {
	for _, p := range o.Parts {
		if isNil(p) {
			return errors.New("a part of an output is nil")
		}
		switch p.(type) {
		case *Text, *Media, *Opaque:
		default:
			return fmt.Errorf("an output holds no %T", p)
		}
	}
	return nil
}

// isPrompt reports whether the user, and not a tool, speaks in m.
func isPrompt(m *Message) bool {
	return m.Role == RoleUser && !slices.ContainsFunc(m.Parts, isOutput)
}

func isOutput(p Part) bool {
	_, ok := p.(*ToolOutput)
	return ok
}

// isNil reports whether p is nil, or a nil pointer.
func isNil(p Part) bool {
	v := reflect.ValueOf(p)
	return p == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// checkUser reports whether m is what a user or host can say.
func checkUser(m *Message) error {
	if m.Role != RoleUser && m.Role != RoleSystem || len(m.Parts) == 0 {
		return errors.New("is not a message of the user")
	}
	for _, p := range m.Parts {
		if isNil(p) {
			return errors.New("a part is nil")
		}
		switch p.(type) {
		case *Text, *Media, *Opaque:
		default:
			return fmt.Errorf("a %s message holds no %T", m.Role, p)
		}
	}
	return nil
}
