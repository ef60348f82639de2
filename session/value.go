package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
)

// Value is something that belongs to a conversation beside its messages and files. A
// [github.com/aycoder/aycoder/policy.Policy] is one, with its mode and the rules that the user made
// for the session, and so are the TodoList and the Shell of package tools. MarshalJSON returns the
// value, and UnmarshalJSON replaces it. Both must be safe for concurrent use, and quick: the session
// calls MarshalJSON with each record.
type Value interface {
	json.Marshaler
	json.Unmarshaler
}

// WithValue makes the session keep a value, which [Open] restores. A Checkout or Undo does not change
// it. A value that cannot be restored stays as it is, and is in [Session.Changes]. For a value
// that goes back with the conversation, use [Branch.Keep].
func WithValue(name string, v Value) Option {
	return func(c *config) error {
		if v == nil {
			return &aycoder.ConfigError{Option: "WithValue", Err: errors.New("is nil")}
		}
		c.values[name] = v
		return nil
	}
}

// Keep makes the branch keep a value, such as a list of tasks: the value becomes what it was at the
// head of the branch, if that is recorded, and each Checkout, Undo and Redo makes it what it was
// there. Call Keep after [New], [Open] and [Session.NewBranch], with a different value for each
// branch.
func (b *Branch) Keep(name string, v Value) error {
	return b.session.do("keep", func() error {
		if v == nil {
			return &aycoder.ConfigError{Option: "value", Err: errors.New("is nil")}
		}
		first, err := v.MarshalJSON()
		if err != nil {
			return fmt.Errorf("keep %s: %w", name, err)
		}
		b.values[name] = &kept{Value: v, first: first, last: first}
		return b.restore()
	})
}

// Save records the values that have changed since the last record, see [WithValue]. Runs, commands and
// Close do so too. Call it when the user has changed one, for example the mode of a policy.
func (s *Session) Save(ctx context.Context) error {
	return s.do("save", func() error { return s.write(ctx, true) })
}

// SetValues records values of the host under names, in one record, which is as large as they are. So it is
// for many small values of which each changes rarely, where [WithValue] would record all of them with each change. A nil
// value removes the one that the name has. A Checkout or Undo does not change them, and a Fork does not have them. A name
// of WithValue is refused with a [*aycoder.ConfigError].
func (s *Session) SetValues(ctx context.Context, values map[string]json.RawMessage) error {
	return s.do("set values", func() error {
		for name := range values {
			if s.values[name] != nil {
				return &aycoder.ConfigError{Option: "SetValues", Err: fmt.Errorf("%s is a name of WithValue", name)}
			}
		}
		return s.write(ctx, true, &record{Kind: kindValue, Values: maps.Clone(values)})
	})
}

// Value returns what [Session.SetValues] has recorded under a name, or nil. The caller must not change it.
func (s *Session) Value(name string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.recorded[name]; string(v) != "null" {
		return v
	}
	return nil
}

// kept is a value of the host.
type kept struct {
	Value
	first, last json.RawMessage // as it was in the beginning, and as it is recorded
}

// news returns records of the values that have changed. The mutex is held.
func (s *Session) news() ([]*record, error) {
	var out []*record
	changed := func(kind, branch string, values map[string]*kept) error {
		var r *record
		for name, k := range values {
			now, err := k.MarshalJSON()
			if err != nil {
				return fmt.Errorf("keep %s: %w", name, err)
			}
			if string(now) == string(k.last) {
				continue
			}
			if r == nil {
				r = &record{Kind: kind, Branch: branch, Values: map[string]json.RawMessage{}}
				out = append(out, r)
			}
			r.Values[name] = now
		}
		return nil
	}
	err := changed(kindValue, "", s.values)
	for _, b := range s.branches {
		err = errors.Join(err, changed(kindKeep, b.name, b.values))
	}
	return out, err
}

// noteValues remembers what is recorded of values.
func noteValues(values map[string]*kept, recorded map[string]json.RawMessage) {
	for name, data := range recorded {
		if k := values[name]; k != nil {
			k.last = data
		}
	}
}

// restore gives the values of the branch what they were at its head.
func (b *Branch) restore() error {
	v := b.session.tree.view()
	at := map[string]json.RawMessage{}
	for _, id := range v.path(v.Head(b.name)) {
		maps.Copy(at, v.nodes[id].values)
	}
	maps.Copy(at, b.fresh)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		k := b.values[name]
		then, ok := at[name]
		if !ok {
			then = k.first
		}
		if string(then) == string(k.last) {
			continue
		}
		if err := k.UnmarshalJSON(then); err != nil {
			errs = append(errs, fmt.Errorf("restore %s: %w", name, err))
			continue
		}
		k.last = then
	}
	return errors.Join(errs...)
}

// restoreValues gives the values of the session what is recorded, and keeps them from now on.
func (s *Session) restoreValues() {
	s.values = map[string]*kept{}
	for _, name := range slices.Sorted(maps.Keys(s.config.values)) {
		k := &kept{Value: s.config.values[name], last: s.recorded[name]}
		if k.last != nil {
			if err := k.UnmarshalJSON(k.last); err != nil {
				s.changes = append(s.changes, Change{Kind: ChangedValue, Name: name, Reason: "it cannot be restored: " + err.Error()})
			}
		}
		s.values[name] = k
	}
}
