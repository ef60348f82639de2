package aycoder

import (
	"context"
	"errors"
	"fmt"
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
	// Elide is the number of oldest messages that are to be left out or shortened:
	// the context was too large. It only grows during a run.
	Elide int
	// Base holds everything else of the request as the options of [New] set it:
	// system prompt, tools, limits.
	Base *Request
}

// PlainContext returns the default builder: the whole history. When the context
// was too large it keeps the first message, says that some are left out, and goes
// on with the first message of the model after them.
func PlainContext() ContextBuilder { return plainContext{} }

type plainContext struct{}

func (plainContext) Build(_ context.Context, in ContextInput) (*Request, error) {
	req := *in.Base
	req.Messages = in.Messages
	if in.Elide > 0 {
		req.Messages = elide(in.Messages, in.Elide)
	}
	return &req, nil
}

const elided = "[The middle of this conversation is left out here, as it was too long.]"

// elide cuts before a message of the model: its outputs follow it, and the cut
// stays where it is while the history grows.
func elide(messages []*Message, n int) []*Message {
	for i := max(n, 2); i < len(messages); i++ {
		if messages[i].Role == RoleAssistant {
			head := []*Message{withNote(messages[0])}
			return append(head, messages[i:]...)
		}
	}
	return messages
}

// withNote is the first message, if it is not the model's, and the note.
func withNote(m *Message) *Message {
	if m.Role == RoleAssistant {
		return User(elided)
	}
	parts := append([]Part{}, m.Parts...)
	return &Message{Role: m.Role, Parts: append(parts, &Text{Text: elided})}
}

// CheckHistory reports what is wrong with a conversation: a call without its
// output, an output without its call, an id used twice, a part in the wrong role.
// Outputs stand in the user message right after the calls. The error is a
// [*ContextError].
func CheckHistory(messages []*Message) error {
	c := checker{open: map[string]bool{}, seen: map[string]bool{}}
	for i, m := range messages {
		if err := c.message(m); err != nil {
			return &ContextError{Op: "check history", Err: fmt.Errorf("message %d: %w", i, err)}
		}
	}
	if err := c.answered(); err != nil {
		return &ContextError{Op: "check history", Err: err}
	}
	return nil
}

// A checker holds the calls that wait for their output.
type checker struct {
	open, seen map[string]bool
	order      []string
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
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *ToolUse:
			if p.ID == "" || c.seen[p.ID] {
				return fmt.Errorf("call id %q is empty or used twice", p.ID)
			}
			c.seen[p.ID], c.open[p.ID] = true, true
			c.order = append(c.order, p.ID)
		case *ToolOutput:
			return errors.New("an assistant message holds no tool output")
		}
	}
	return nil
}

func (c *checker) user(m *Message) error {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *ToolOutput:
			if !c.open[p.ID] {
				return fmt.Errorf("output %q has no call before it", p.ID)
			}
			if err := checkOutput(p); err != nil {
				return err
			}
			delete(c.open, p.ID)
		case *ToolUse, *Thinking:
			return fmt.Errorf("a user message holds no %T", p)
		}
	}
	return nil
}

// answered reports the first call that has no output.
func (c *checker) answered() error {
	for _, id := range c.order {
		if c.open[id] {
			return fmt.Errorf("call %q has no output", id)
		}
	}
	c.order = c.order[:0]
	return nil
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
