package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/snapshot"
	"github.com/aycoder/aycoder/workspace"
)

// LayOut writes the files of a session into another workspace, as they are at the head of its first branch, for a process on
// another machine that goes on with the session: call it before [Open]. It neither opens the session for writing nor ends
// its run. Files get their contents, modes and links. No file that is there and differs is changed.
//
// The session holds the files that its runs have changed or read through the tools, and those that commands have changed; the
// contents of the others come from the git repository of the workspace, if it has one. So the workspace should be a clone, or
// hold everything that the session does not. missing are the files that could not be laid out, with the Reason of each. Changes
// of a turn that was not over when the machine was lost are not held. If records of the session are damaged, the rest is laid out,
// and the error has a [*journal.DamageError] for each.
func LayOut(ctx context.Context, store journal.Store, id string, ws *workspace.Workspace) (missing []snapshot.Change, err error) {
	v, damage, err := Read(ctx, store, id)
	if err != nil {
		return nil, fmt.Errorf("lay out session %q: %w", id, err)
	}
	j, err := store.Open(ctx, id, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close(), errors.Join(damage...)) }()
	t, _, err := snapshot.New(ws).Attach(ctx, &depot{store: store, id: id, journal: j, spare: true}, nil) // what is there besides stays in memory
	if err != nil {
		return nil, err
	}
	defer t.Detach()
	plan, err := t.Plan(ctx, v.Files(v.Head("")))
	if err != nil {
		return nil, err
	}
	for i := range plan {
		c := &plan[i]
		if c.Now.Kind != "" && c.Action != snapshot.ActionKeep {
			c.Action, c.Reason = snapshot.ActionKeep, "another file is there"
		}
		if c.Action == snapshot.ActionKeep {
			missing = append(missing, *c)
		}
	}
	_, err = t.Checkout(ctx, plan)
	return missing, err
}
