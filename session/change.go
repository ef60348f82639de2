package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/snapshot"
)

// Change says that something is not as it was when the session was used last: see [Session.Changes].
type Change struct {
	Kind ChangeKind
	// Name is the path of the file or directory, or the name of the tool, the model or the value, or
	// the command, or the task of the agent. Branch is that whose agent is concerned.
	Name, Branch string
	// Reason says what is different, in words for the user.
	Reason string
}

// ChangeKind says what a [Change] is about.
type ChangeKind string

// The kinds of a [Change].
const (
	// ChangedFile means that a file was changed, created or removed. The next run or Checkout makes a
	// node of it.
	ChangedFile ChangeKind = "file"
	// ChangedWorkspace means that the directory of the session is gone, or that another one was given.
	ChangedWorkspace ChangeKind = "workspace"
	// ChangedTool means that the agent of the last run had a tool that this one does not have, or has
	// with another effect.
	ChangedTool ChangeKind = "tool"
	// ChangedModel means that the agent asks another model than that of the last run. Its client
	// translates the messages that are there.
	ChangedModel ChangeKind = "model"
	// LostCommand is a command in the background, which has ended with its process.
	LostCommand ChangeKind = "command"
	// LostAgent is an agent in the background, which has ended with its process.
	LostAgent ChangeKind = "agent"
	// ChangedValue is a value that could not be restored: see [WithValue].
	ChangedValue ChangeKind = "value"
)

// String returns a line for the user.
func (c Change) String() string { return fmt.Sprintf("%s %s: %s", c.Kind, c.Name, c.Reason) }

// Changes returns what is not as it was when the session was used last, as [Open] has found it. Tools and
// models are compared with those of the present agents, as far as these tell them: a
// [aycoder.Loop] does.
func (s *Session) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.changes)
	for _, name := range slices.Sorted(maps.Keys(s.branches)) {
		out = append(out, s.branches[name].changes()...)
	}
	return out
}

// changes compares the agent of the branch with that of its last run. The mutex is held.
func (b *Branch) changes() []Change {
	agent, ok := b.agent.(interface{ StartInput() aycoder.StartInput })
	if !ok || b.start == nil {
		return nil
	}
	in := agent.StartInput()
	now := startOf(&in)
	var out []Change
	if was := b.start.Model; was != "" && was != now.Model {
		out = append(out, Change{ChangedModel, was, b.name, "the agent asks " + cmp.Or(now.Model, "a model without a name")})
	}
	for _, name := range slices.Sorted(maps.Keys(b.start.Tools)) {
		if slices.Contains(b.start.Own, name) {
			continue
		}
		was := aycoder.Effect(b.start.Tools[name])
		effect, ok := now.Tools[name]
		switch is := aycoder.Effect(effect); {
		case !ok:
			out = append(out, Change{ChangedTool, name, b.name, "the agent does not have it any more"})
		case was != is:
			out = append(out, Change{ChangedTool, name, b.name, "its effect was " + effects[was] + " and is " + effects[is]})
		}
	}
	return out
}

var effects = map[aycoder.Effect]string{
	aycoder.EffectUnknown: "unknown", aycoder.EffectReadOnly: "read only", aycoder.EffectWrite: "write",
}

// compare finds out what has changed while the session was closed. known are the last recorded states
// of the files.
func (s *Session) compare(ctx context.Context, known map[string]snapshot.State) error {
	was, dir := s.entry.Dir, cmp.Or(s.config.dir, s.entry.Dir)
	if _, err := os.Stat(was); was != "" && errors.Is(err, fs.ErrNotExist) {
		s.changes = append(s.changes, Change{Kind: ChangedWorkspace, Name: was, Reason: "the directory is gone"})
	}
	if was != "" && was != dir {
		s.changes = append(s.changes, Change{Kind: ChangedWorkspace, Name: was, Reason: "the session continues in " + dir})
	}
	if s.files == nil {
		return nil
	}
	if err := s.files.Refresh(ctx); err != nil {
		return err
	}
	now, _, err := s.files.Diff(ctx, known, nil)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, is := known[name], now[name]
		if _, ok := known[name]; !ok || was.Same(is) {
			continue
		}
		reason := "it was changed"
		switch {
		case is.Kind == "":
			reason = "it was removed"
		case was.Kind == "":
			reason = "it was created"
		}
		s.changes = append(s.changes, Change{Kind: ChangedFile, Name: name, Reason: reason})
	}
	return err
}

// lostCommands returns the commands that an interrupted run has started in the background.
func lostCommands(branch string, messages []*aycoder.Message) []Change {
	var out []Change
	failed := map[string]bool{}
	for _, m := range messages {
		for _, part := range m.Parts {
			if o, ok := part.(*aycoder.ToolOutput); ok {
				failed[o.ID] = o.IsError
			}
		}
	}
	for _, m := range messages {
		for _, c := range m.Calls() {
			var args struct {
				Command    string
				Background bool
			}
			if c.Name == "bash" && json.Unmarshal(c.Args, &args) == nil && args.Background && !failed[c.ID] {
				out = append(out, Change{LostCommand, args.Command, branch, "it has ended with the process that started it"})
			}
		}
	}
	return out
}
