package session

import (
	"errors"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
)

// Compactor says which messages of a long conversation the requests to the model need. The Compactor of
// package compaction is one. It must be safe for concurrent use.
type Compactor interface {
	// Needed gets the number of messages of a history, and a function that returns message i of them. It
	// returns a function that reports whether requests with this history, or a longer one that begins
	// with it, need message i.
	Needed(n int, message func(i int) (*aycoder.Message, error)) (func(i int) bool, error)
}

// WithCompactor makes runs begin without the messages that c has replaced by a summary, so that memory
// does not grow with them: in the history of such a run, and in its [aycoder.Result], messages
// without contents take their place. The tree has them all, and requests are the same. The messages
// of a run stay in memory until the next one begins. c must be the Compactor of all agents of the session:
// the run of another one ends with a [*aycoder.ContextError] before such a message is sent.
// Default: runs begin with the whole conversation.
func WithCompactor(c Compactor) Option {
	return func(cfg *config) error {
		if cfg.compactor = c; c == nil {
			return &aycoder.ConfigError{Option: "WithCompactor", Err: errors.New("is nil")}
		}
		return nil
	}
}

// history returns what a run gets of the conversation that leads to a node. The mutex is held, or the
// session is new.
func (s *Session) history(id ID) ([]*aycoder.Message, error) {
	v := s.tree.view()
	context, ids := v.conversation(id)
	message := func(i int) (*aycoder.Message, error) {
		if i < len(context) {
			return context[i], nil
		}
		return v.node(ids[i-len(context)]).load()
	}
	needed, err := func(int) bool { return true }, error(nil)
	if c := s.config.compactor; c != nil && !v.damaged {
		needed, err = c.Needed(len(context)+len(ids), message)
	}
	if err != nil {
		return nil, err
	}
	out, idle := slices.Clip(context), []ID(nil)
	needs := func(i int) bool { return i == len(ids)-1 || needed(len(context)+i) } // the last one may have calls without outputs
	whole := v.whole(ids, needs)
	for i, m := range v.outlines(ids, whole) {
		if whole(i) {
			m, err = v.node(ids[i]).load()
		} else if !needs(v.partner(ids, i)) {
			idle = append(idle, ids[i])
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	s.release(v, idle)
	return v.repaired(id, out), nil
}

// originals finds the messages of which a run that continues at a node has only outlines.
func (v *View) originals(id ID) original.Finder {
	context, ids := v.conversation(id)
	return func(i int, m *aycoder.Message) (*aycoder.Message, error) {
		if i -= len(context); i < 0 || i >= len(ids) || v.nodes[ids[i]].outline.Role != m.Role {
			return m, nil
		}
		return v.node(ids[i]).load()
	}
}
