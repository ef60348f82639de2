package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
)

// ContextBuilder builds the request of each turn, and so chooses what the model sees. The loop
// checks the request with [CheckHistory], so that a builder cannot break a session. If the check
// or the builder returns an error, the run ends with a [*ContextError]. Each request should
// repeat the previous one and append messages, so that prompt caches hit. Builders must be safe
// for concurrent use.
type ContextBuilder interface {
	Build(ctx context.Context, in ContextInput) (*Request, error)
}

// ContextFunc is an adapter that lets a function serve as a [ContextBuilder].
type ContextFunc func(ctx context.Context, in ContextInput) (*Request, error)

// Build calls f(ctx, in).
func (f ContextFunc) Build(ctx context.Context, in ContextInput) (*Request, error) {
	return f(ctx, in)
}

// ContextMiddleware wraps a [ContextBuilder], to change the builder's input or its request.
type ContextMiddleware func(ContextBuilder) ContextBuilder

// ContextInput is the input of a [ContextBuilder], which must not change it.
type ContextInput struct {
	// Run is the id of the run. Turn is the number of the turn in the run, counted from 1.
	Run  string
	Turn int
	// Messages is the whole history of the conversation.
	Messages []*Message
	// Elide is how many messages, from the oldest on, the request should leave out or shorten.
	// Limit is the maximum size of the text of all messages in the request, in bytes. Both are 0
	// until the model has refused a request as too large, in this run or in an earlier one. The
	// loop derives both from such refusals. During a run, Elide never falls, and Limit never
	// grows once it is set.
	Elide int
	Limit int64
	// Window is the model's context size in tokens, for request plus answer, or 0 if unknown.
	Window int64
	// Usage counts the tokens of the previous request in this run and of the answer to it.
	Usage Usage
	// Overflow is the error with which the model refused the previous request as too large, or
	// nil. After such an error, the loop sends the new request only if it is smaller.
	Overflow *ContextTooLargeError
	// Note is the note of the last [Compacted], in this run or, as the history records it, in an
	// earlier one, or nil.
	Note json.RawMessage
	// Compacting tells the consumer that the builder begins to leave out more than before. A middleware
	// may wrap it, and refuse that with an error: then the builder leaves out nothing more, unless
	// Needed of c is set. Compact announces that it does: it returns when the note is recorded (see
	// [WithFacts]), and its error must be returned. From then on, Note is the one of c: also in later
	// runs, however this one ends. If it was cancelled meanwhile, only the usage of c counts. Both are
	// nil outside of a run.
	Compacting func(c *Compacting) error
	Compact    func(ctx context.Context, c *Compacted) error
	// Client is the model client that gets the request, with its middleware.
	Client ModelClient
	// Base is the request without messages: system prompt, tools and limits, as the options of
	// [New], or [WithSetup], set them.
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

// CheckHistory returns a [*ContextError] if a conversation is not valid. In a valid one, every
// call has a unique id. The message after a call is a user message with the call's output. Every
// output belongs to a call of the message before, and every part fits its message's role.
func CheckHistory(messages []*Message) error {
	_, err := checkHistory(messages)
	return err
}

// checkHistory does the work of [CheckHistory]. It also returns the places of the calls.
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

// longHistory is the number of messages from which on the last message stores a [past].
const longHistory = 64

// A past records, in a message, that the history up to that message was checked. A later check
// repeats all rules but one, which would need a map of all calls: that no id is used twice.
// Instead of that rule, it compares the hash of the ids.
type past struct {
	n    int // messages
	seed maphash.Seed
	ids  uint64 // hash of the ids of their calls, in order
}

// extend returns the past of a longer history that starts with the messages of p, and
// stores it in the last message.
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

// checkLong is checkHistory for a history of which all messages, or all but the last, were checked
// before. For any other history it returns nil.
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

// RepairHistory makes a valid history from a conversation that [CheckHistory] refuses, such as one
// that was stored while a tool was running. A call without an output gets an output saying that
// the outcome is unknown. An output in the wrong place moves to its call. RepairHistory removes
// outputs without a call, calls whose id was used before, parts in the wrong role, and messages
// that are empty or have an unknown role. It returns messages itself if the conversation is valid.
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

// outputsOf returns the outputs in a user message.
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

// repaired returns a message with the valid parts of m, except outputs, or nil if there are none.
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

// A checker checks the messages of a history in order. It makes only one map for all of them.
type checker struct {
	*callIDs
	index int        // of the message
	calls []*ToolUse // of the last message that had any; nil once the output has come
	open  int        // number of calls that are not nil
	next  int        // the call after the one whose output came last
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
	if o, ok := m.Parts[0].(*Opaque); ok {
		c.outlined(o)
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

// answer records the output of the call with this id, which is usually the next call. It returns
// false if no call without an output has this id.
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

// answered returns an error that names the first call without an output.
func (c *checker) answered() error {
	if c.open == 0 {
		return nil
	}
	first := slices.IndexFunc(c.calls, func(u *ToolUse) bool { return u != nil })
	return fmt.Errorf("call %q has no output", c.calls[first].ID)
}

// checkOutput returns an error if o holds a part that a tool cannot return.
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

// isPrompt reports whether m is a message by the user, rather than one with outputs of tools.
func isPrompt(m *Message) bool {
	return m.Role == RoleUser && !slices.ContainsFunc(m.Parts, isOutput)
}

func isCall(p Part) bool {
	_, ok := p.(*ToolUse)
	return ok
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

// checkUser returns an error if a user or a host cannot have written m.
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
