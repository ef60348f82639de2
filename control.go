package aycoder

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Control lets other goroutines look at a run and speak into it: see
// [WithControl]. It serves one run at a time, and can serve the next; what was said
// and not heard is said in that one. The zero value is ready to use. Its methods
// are safe for concurrent use.
type Control struct {
	state atomic.Pointer[State]

	mu    sync.Mutex
	queue []*Steered
	busy  bool
}

// Steer says something to the model at the next turn boundary, while it works.
// Parts are [Text], [Media] and [Opaque]; others are left out.
func (c *Control) Steer(text string, parts ...Part) { c.say(text, parts, false) }

// FollowUp says something to the model when it would end.
func (c *Control) FollowUp(text string, parts ...Part) { c.say(text, parts, true) }

func (c *Control) say(text string, parts []Part, followUp bool) {
	m := &Message{Role: RoleUser, Parts: cleanParts(parts)}
	if text != "" {
		m.Parts = append(m.Parts, &Text{Text: cleanText(text)})
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool {
		return checkUser(&Message{Role: RoleUser, Parts: []Part{p}}) != nil
	})
	if len(m.Parts) == 0 {
		return
	}
	c.giveBack(&Steered{Message: m, FollowUp: followUp})
}

// Queued returns what was said and not heard yet.
func (c *Control) Queued() []*Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Message
	for _, q := range c.queue {
		out = append(out, q.Message)
	}
	return out
}

// Drain is Queued, and takes the messages away: nobody will hear them.
func (c *Control) Drain() []*Message {
	var out []*Message
	for _, q := range c.take(true) {
		out = append(out, q.Message)
	}
	return out
}

// State returns where the run stands, or stood last. It is an immutable snapshot,
// read without a lock: a display may ask for it while the run works. Before the
// first run it is the zero State.
func (c *Control) State() State {
	if s := c.state.Load(); s != nil {
		return *s
	}
	return State{}
}

func (c *Control) giveBack(m *Steered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, m)
}

// take returns what is to be said now, and at the end of a run everything.
func (c *Control) take(end bool) []*Steered {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var now, later []*Steered
	for _, q := range c.queue {
		if q.FollowUp && !end {
			later = append(later, q)
			continue
		}
		now = append(now, &Steered{Message: q.Message})
	}
	c.queue = later
	return now
}

func (c *Control) attach(s *State) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		return &ConfigError{Option: "WithControl", Err: errors.New("the control serves another run")}
	}
	c.busy = true
	c.publish(s)
	return nil
}

func (c *Control) detach(s *State) {
	if c == nil {
		return
	}
	c.publish(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.queue = append(slices.Clone(s.queue), c.queue...)
}

func (c *Control) publish(s *State) {
	if c != nil {
		c.state.Store(new(*s))
	}
}
