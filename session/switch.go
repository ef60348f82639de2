package session

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/aycoder/aycoder"
)

// Switch is a model client that can be exchanged while runs work: the next request goes to the new
// one. The agent is made with the Switch as its model. Its methods are safe for concurrent use.
type Switch struct {
	to atomic.Pointer[aycoder.ModelClient]
}

// NewSwitch returns a Switch that sends its requests to m.
func NewSwitch(m aycoder.ModelClient) (*Switch, error) {
	s := new(Switch)
	return s, s.Set(m)
}

// Set lets m answer from the next request on. A message that is on its way is not interrupted.
// Messages of another provider stay in the history, and clients translate them.
func (s *Switch) Set(m aycoder.ModelClient) error {
	if m == nil {
		return &aycoder.ConfigError{Option: "model", Err: errors.New("is nil")}
	}
	s.to.Store(&m)
	return nil
}

// Stream implements [aycoder.ModelClient].
func (s *Switch) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return s.Unwrap().Stream(ctx, req)
}

// Unwrap returns the present client, so that [aycoder.As] finds its abilities.
func (s *Switch) Unwrap() aycoder.ModelClient { return *s.to.Load() }
