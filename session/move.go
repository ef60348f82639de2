package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/snapshot"
)

// Checkout makes the conversation of the branch continue at another node. The nodes that it leaves
// stay in the tree, so another Checkout leads back to them.
func (b *Branch) Checkout(ctx context.Context, id ID, opts ...MoveOption) (*Move, error) {
	return b.move(ctx, "checkout", opts, func() (*record, error) {
		if !b.session.View().has(id) {
			return nil, noNode("checkout", PhaseIdle, id)
		}
		return &record{Kind: kindHead, ID: id}, nil
	})
}

// Undo takes back the last message of the user with everything that followed it. If there is none,
// the error is a [*CommandError].
func (b *Branch) Undo(ctx context.Context, opts ...MoveOption) (*Move, error) {
	return b.move(ctx, "undo", opts, func() (*record, error) {
		v := b.session.View()
		for n := v.node(v.Head(b.name)); n.ID != Root; n = v.node(n.Parent) {
			if v.prompts(n) {
				return &record{Kind: kindUndo, ID: n.Parent}, nil
			}
		}
		return nil, &CommandError{Command: "undo", Phase: PhaseIdle, Reason: "there is no message of the user"}
	})
}

// Redo takes back the last Undo. It is possible until the conversation goes on elsewhere.
func (b *Branch) Redo(ctx context.Context, opts ...MoveOption) (*Move, error) {
	return b.move(ctx, "redo", opts, func() (*record, error) {
		if len(b.redo) == 0 {
			return nil, &CommandError{Command: "redo", Phase: PhaseIdle, Reason: "nothing was undone"}
		}
		return &record{Kind: kindRedo, ID: b.redo[len(b.redo)-1]}, nil
	})
}

// prompts reports whether a node is a message of the user that began a run.
func (v *View) prompts(n *Node) bool {
	if n.outline == nil || n.outline.Role != aycoder.RoleUser {
		return false
	}
	return !slices.ContainsFunc(n.outline.Parts, part.IsOutput) && (n.Run == "" || v.node(n.Parent).Run != n.Run)
}

// Move is what a [Branch.Checkout], [Branch.Undo] or [Branch.Redo] did.
type Move struct {
	// From and To are the heads of the branch before and after. If the user has changed files, these
	// changes are a separate node, which is then From: checking it out brings them back.
	From, To ID
	// Files are the files that are not as they were at To, with what was done to them. Those that
	// cannot be restored, or that the user has created, are kept: see Reason.
	Files []snapshot.Change
}

// move lets the branch continue at the node that the record of target names.
func (b *Branch) move(ctx context.Context, command string, opts []MoveOption, target func() (*record, error)) (*Move, error) {
	c, err := moveOptions(opts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	s := b.session
	s.mu.Lock()
	defer s.mu.Unlock()
	work, release, err := b.occupy(ctx, command, c)
	if err != nil {
		return nil, err
	}
	defer release()
	r, err := target()
	if err != nil {
		return nil, err
	}
	if !c.dry {
		if err := b.settle(ctx); err != nil {
			return nil, err
		}
	}
	move := &Move{From: s.tree.heads[b.name], To: r.ID}
	r.Branch = b.name
	if s.files != nil && !c.onlyChat {
		s.mu.Unlock()
		err := b.checkoutFiles(work, r, c, move)
		s.mu.Lock()
		if err != nil {
			return move, fmt.Errorf("%s: %w", command, err)
		}
	}
	if c.dry {
		return move, nil
	}
	ctx = context.WithoutCancel(ctx)    // the conversation follows the files
	if s.files != nil && !c.onlyFiles { // the model knows what it was shown before that node
		b.reviewShown()
	}
	if c.onlyFiles {
		r = b.next(&record{})
		if _, err := b.addFiles(ctx, r); err != nil {
			return move, err
		}
		move.To = r.ID
	}
	if err := s.write(ctx, true, r); err != nil {
		return move, err
	}
	if !c.onlyFiles {
		s.checkHead(s.tree.heads[b.name])
		err = b.restore()
	}
	return move, errors.Join(err, s.describe(ctx))
}

func moveOptions(opts []MoveOption) (*moveConfig, error) {
	c := new(moveConfig)
	return c, option.Apply(c, opts)
}
