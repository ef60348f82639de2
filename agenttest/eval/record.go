package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/snapshot"
)

// FromSession makes a case of the conversation of a session: its prompts, and the files as they were before the
// agent first saw them, as far as the session holds them: see [session.WithFiles]. missing says what it does not hold. The
// case has no checks; [SameFiles] makes one of the files as the session left them.
func FromSession(ctx context.Context, store journal.Store, id string) (c *Case, missing []string, err error) {
	return recorded(ctx, store, id, func(s *snapshot.State) *snapshot.State { return s.First })
}

// SameFiles returns a check for the files as a recorded session left them: those that differ from the beginning.
// missing says which of them the session does not hold, so that they are not checked.
func SameFiles(ctx context.Context, store journal.Store, id string) (check Check, missing []string, err error) {
	c, _, err := FromSession(ctx, store, id)
	if err != nil {
		return nil, nil, err
	}
	end, missing, err := recorded(ctx, store, id, func(s *snapshot.State) *snapshot.State { return s })
	if err != nil {
		return nil, nil, err
	}
	var checks []Check
	for _, name := range slices.Sorted(maps.Keys(end.Files)) {
		if was, ok := c.Files[name]; !ok || was != end.Files[name] {
			checks = append(checks, FileIs(name, end.Files[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if _, ok := end.Files[name]; !ok && !slices.ContainsFunc(missing, func(m string) bool { return len(m) > len(name) && m[:len(name)+1] == name+":" }) {
			checks = append(checks, NoFile(name))
		}
	}
	return func(ctx context.Context, o *Outcome) error {
		for _, check := range checks {
			if err := check(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}, missing, nil
}

// recorded reads a session with the files of one moment.
func recorded(ctx context.Context, store journal.Store, id string, at func(*snapshot.State) *snapshot.State) (*Case, []string, error) {
	v, damage, err := session.Read(ctx, store, id)
	if err != nil {
		return nil, nil, fmt.Errorf("case of session %s: %w", id, err)
	}
	j, err := store.Open(ctx, id, false)
	if err != nil {
		return nil, nil, fmt.Errorf("case of session %s: %w", id, err)
	}
	defer j.Close()
	head := v.Head("")
	c := &Case{Name: id, Files: map[string]string{}}
	run := ""
	for _, n := range v.Path(head) {
		if m := n.Message(); m != nil && m.Role == aycoder.RoleUser && n.Run != run && m.Text() != "" {
			c.Prompts = append(c.Prompts, m.Text())
		}
		run = n.Run
	}
	if len(c.Prompts) == 0 {
		return nil, nil, fmt.Errorf("case of session %s: nothing was said", id)
	}
	var missing []string
	for _, d := range damage {
		missing = append(missing, d.Error())
	}
	files := v.Files(head)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		last := files[name]
		s := at(&last)
		switch {
		case s == nil:
			missing = append(missing, name+": it is unknown")
		case s.Kind != snapshot.KindFile:
		case s.NotHeld != "":
			missing = append(missing, name+": "+s.NotHeld)
		case s.Git != "":
			missing = append(missing, name+": only a repository has it")
		default:
			data, err := j.Get(ctx, s.Hash)
			if err != nil {
				missing = append(missing, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			if c.Files[name] = string(data); s.Mode&0o100 != 0 {
				c.Executable = append(c.Executable, name)
			}
		}
	}
	return c, missing, nil
}
