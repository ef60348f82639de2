package aycoder

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder/internal/runes"
)

// Control lets other goroutines send messages into a run and look at its state, see [WithControl].
// It serves one run at a time. If a run ends before the model has seen a message, the next run with
// the same Control sends it. The zero value is ready to use. Methods are safe for concurrent use.
type Control struct {
	state atomic.Pointer[machine]

	mu    sync.Mutex
	queue []*Steered
	busy  bool
}

// Steer sends a message to the model while the run works. The next request to the model contains
// it. Steer ignores parts other than [Text], [Media] and [Opaque].
func (c *Control) Steer(text string, parts ...Part) { c.say(text, parts, false) }

// FollowUp sends a message to the model when the run would otherwise end, so that the run
// continues. FollowUp ignores parts other than [Text], [Media] and [Opaque].
func (c *Control) FollowUp(text string, parts ...Part) { c.say(text, parts, true) }

func (c *Control) say(text string, parts []Part, followUp bool) {
	m := &Message{Role: RoleUser, Parts: cleanParts(parts)}
	if text != "" {
		m.Parts = append(m.Parts, &Text{Text: runes.Clean(text)})
	}
	m.Parts = slices.DeleteFunc(m.Parts, func(p Part) bool {
		return checkUser(&Message{Role: RoleUser, Parts: []Part{p}}) != nil
	})
	if len(m.Parts) == 0 {
		return
	}
	c.giveBack(&Steered{Message: m, FollowUp: followUp})
}

// Queued returns the messages of Steer and FollowUp that have not reached the run yet.
func (c *Control) Queued() []*Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Message
	for _, q := range c.queue {
		out = append(out, q.Message)
	}
	return out
}

// Drain removes and returns the messages of [Control.Queued]. They never reach the model.
func (c *Control) Drain() []*Message {
	var out []*Message
	for _, q := range c.take(true) {
		out = append(out, q.Message)
	}
	return out
}

// State returns the state of the current run, or of the last run if none is active. The state is
// an immutable snapshot that is read without a lock, so a display may call State while the run
// works. Before the first run, State returns the zero State.
func (c *Control) State() State {
	if s := c.state.Load(); s != nil {
		return State{*s}
	}
	return State{}
}

func (c *Control) giveBack(m *Steered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, m)
}

func (c *Control) take(end bool) []*Steered {
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

// A controller is the [Control] of a run. Only WithControl refers to Control: programs without this
// option do not link it.
type controller interface {
	attach(s *machine) error
	publish(s *machine)
	// take removes and returns the messages that are due. Follow-ups are due only at the end of a run.
	take(end bool) []*Steered
	giveBack(m *Steered)
	detach(s *machine)
}

func (c *Control) attach(s *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		return &ConfigError{Option: "WithControl", Err: errors.New("the control serves another run")}
	}
	c.busy = true
	c.publish(s)
	return nil
}

func (c *Control) detach(s *machine) {
	c.publish(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.queue = append(slices.Clone(s.queue), c.queue...)
}

func (c *Control) publish(s *machine) {
	c.state.Store(new(*s))
}
