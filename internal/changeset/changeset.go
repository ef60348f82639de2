// Package changeset keeps account of what changes files, and tells the changes of a run from those of
// everybody else. For each file, it holds the steps from the first change of the run on. The file as it
// would be without the run, or without one of its agents, follows from them: the steps of others are
// applied to it, those that are wanted are not, and a three-way merge brings the two together.
package changeset

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder/edit"
)

// The kinds of a [State]. There are no directories.
const (
	File  = "file"
	Link  = "link"
	Other = "other"
)

// State is what has a name at some time, with the meaning of FileState in package session. The zero
// value is that of a name of which there is nothing.
type State struct {
	Kind    string      `json:"kind,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	Size    int64       `json:"size,omitempty"`
	Hash    string      `json:"hash,omitempty"`
	Git     string      `json:"git,omitempty"`
	NotHeld string      `json:"not_held,omitempty"`
	Time    time.Time   `json:"time,omitzero"`
}

// Same reports whether two states look alike to a reader of the files.
func (s State) Same(o State) bool {
	return s.Kind == o.Kind && s.Mode == o.Mode && s.Hash == o.Hash &&
		(s.Hash != "" || s.Size == o.Size && s.NotHeld == o.NotHeld && s.Time.Equal(o.Time))
}

// Authors are those of whom one has made a change: agents of the run, or of another run that works on the
// files at the same time. If there are none, it was somebody else, such as the user.
type Authors struct {
	By    []edit.ChangedBy `json:"by,omitempty"`
	Other bool             `json:"other,omitempty"`
}

// A Step is a change of one file.
type Step struct {
	From State `json:"from,omitzero"`
	To   State `json:"to,omitzero"`
	Authors
}

// A Ledger says step by step how the files have become what they are since a run has begun. The zero
// value is ready to use. It is not safe for concurrent use.
type Ledger struct {
	steps map[string][]Step // by name
	saved map[string]int    // how many of them are recorded
}

// Names returns the names of the files that the run has changed, sorted.
func (l *Ledger) Names() (names []string) {
	for name, steps := range l.steps {
		if own(steps) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// own reports whether the run may have made one of the steps.
func own(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return len(s.By) > 0 })
}

// Clone returns a copy.
func (l *Ledger) Clone() *Ledger {
	c := &Ledger{steps: maps.Clone(l.steps)}
	for name, steps := range c.steps {
		c.steps[name] = slices.Clone(steps)
	}
	return c
}

// Add adds a change. That of somebody else counts only after one of a run.
func (l *Ledger) Add(name string, from, to State, by Authors) {
	if from.Same(to) || len(l.steps[name]) == 0 && len(by.By) == 0 && !by.Other {
		return
	}
	l.Settle(name, from)
	if l.steps == nil {
		l.steps, l.saved = map[string][]Step{}, map[string]int{}
	}
	l.steps[name] = append(l.steps[name], Step{from, to, by})
}

// Settle adds what somebody else has changed unnoticed.
func (l *Ledger) Settle(name string, now State) {
	if steps := l.steps[name]; len(steps) > 0 {
		if last := steps[len(steps)-1].To; !last.Same(now) {
			l.steps[name] = append(steps, Step{last, now, Authors{}})
		}
	}
}

// Held notes that the content of a state is held at last.
func (l *Ledger) Held(name string, was, now State) {
	for i := range l.steps[name] {
		for _, s := range []*State{&l.steps[name][i].From, &l.steps[name][i].To} {
			if s.NotHeld != "" && s.Same(was) {
				*s = now
			}
		}
	}
}

// Split says that the last step, by these authors, led only to mid, and that others went on from there.
func (l *Ledger) Split(name string, mid State, by, rest Authors) {
	if n := len(l.steps[name]); n > 0 {
		last := &l.steps[name][n-1]
		to := last.To
		last.To, last.Authors = mid, by
		l.Add(name, mid, to, rest)
	}
}

// Unsaved returns the steps that it has not returned yet, by [Key]. Only the first step of a file has From:
// each later one begins where the one before has ended.
func (l *Ledger) Unsaved() (out map[string][]Step) {
	for name, steps := range l.steps {
		if n := l.saved[name]; n < len(steps) && own(steps) {
			if out == nil {
				out = map[string][]Step{}
			}
			some := slices.Clone(steps[n:])
			for i := range some {
				if n+i > 0 {
					some[i].From = State{}
				}
			}
			out[Key(name)] = some
			l.saved[name] = len(steps)
		}
	}
	return out
}

// Restore adds steps that Unsaved has returned, before there are others. It reports whether commands
// have made some.
func (l *Ledger) Restore(all map[string][]Step) (commands bool) {
	l.steps, l.saved = map[string][]Step{}, map[string]int{}
	for key, steps := range all {
		name := Name(key)
		steps = slices.Clone(steps)
		l.steps[name], l.saved[name] = steps, len(steps)
		for i, s := range steps {
			if i > 0 {
				steps[i].From = steps[i-1].To
			}
			commands = commands || slices.ContainsFunc(s.By, func(by edit.ChangedBy) bool { return by.Command })
		}
	}
	return commands
}

// Join returns steps with those after them.
func Join(a, b map[string][]Step) map[string][]Step {
	if len(b) == 0 {
		return a
	}
	out := maps.Clone(a)
	if out == nil {
		out = map[string][]Step{}
	}
	for key, steps := range b {
		out[key] = append(slices.Clip(out[key]), steps...)
	}
	return out
}

// AddBy adds agents, each run once.
func AddBy(by []edit.ChangedBy, more ...edit.ChangedBy) []edit.ChangedBy {
	by = slices.Clone(by)
	for _, m := range more {
		i := slices.IndexFunc(by, func(o edit.ChangedBy) bool { return o.Run == m.Run })
		if i < 0 {
			by = append(by, m)
			continue
		}
		by[i].Tool, by[i].Command = by[i].Tool || m.Tool, by[i].Command || m.Command
	}
	return by
}

// Key returns the form of a name that encodes as JSON: the name, or the name in quotes if it is not valid
// UTF-8.
func Key(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

// Name returns the name of a key.
func Name(key string) string {
	if name, err := strconv.Unquote(key); err == nil && !utf8.ValidString(name) {
		return name
	}
	return key
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
