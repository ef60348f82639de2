package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
)

var toHunk = choices{"y take it", "n leave it", "a take the rest", "d leave the rest"}

// mayCall returns the keys that answer a request: a change of several hunks can be picked from, unless it may move
// text from a file that it deletes to one that it creates.
func mayCall(r *aycoder.ApprovalRequest) choices {
	if r.Plan == nil || len(r.Plan.Hunks()) < 2 {
		return toCall
	}
	kinds := map[edit.Kind]bool{}
	for _, f := range r.Plan.Files() {
		kinds[f.Kind] = true
	}
	if kinds[edit.Create] && kinds[edit.Delete] {
		return toCall
	}
	return slices.Insert(slices.Clone(toCall), 2, "p pick")
}

// pickHunks asks about each hunk of a change, and lets those be made that the user takes. It reports whether the
// request is settled.
func (c *chat) pickHunks(a *aycoder.ApprovalRequested) bool {
	plan := *a.Request.Plan
	all := plan.Hunks()
	var taken []string
	rest := byte(0) // the answer for all that follow
	for i, h := range all {
		key := rest
		if key == 0 {
			if err := c.showHunk(plan, h); err != nil {
				c.complain(err)
				return false
			}
			var err error
			if key, err = c.answerKey(fmt.Sprintf("%d of %d?", i+1, len(all)), toHunk); err != nil || key == endOfInput {
				return c.unanswered(a, err)
			}
		}
		if key == 'a' || key == 'd' {
			rest = key
		}
		if key == 'y' || key == 'a' {
			taken = append(taken, h.ID)
		}
	}
	c.line(fmt.Sprintf("  %d of %s taken", len(taken), count(len(all), "hunk")))
	switch len(taken) {
	case 0:
		return c.refuse(a)
	case len(all):
		a.Allow()
		return true
	}
	kept, err := plan.Keep(taken...)
	if err == nil {
		err = a.AllowPlan(kept)
	}
	c.complain(err)
	return err == nil || errors.Is(err, aycoder.ErrDecided)
}

// showHunk shows all of one hunk of a plan, with the lines around it and what nobody would see.
func (c *chat) showHunk(plan edit.Plan, h edit.Hunk) error {
	one, err := plan.Keep(h.ID)
	if err != nil {
		return err
	}
	c.line("")
	if len(plan.Files()) > 1 {
		c.line("  " + c.paint(bold, cleanLine(h.Path)))
	}
	c.wholeDiff(one.Preview())
	return nil
}

// unanswered settles a request whose question was interrupted, or whose user has gone.
func (c *chat) unanswered(a *aycoder.ApprovalRequested, err error) bool {
	if c.halted(err) {
		c.fresh()
		return true
	}
	c.line("no (end of input)")
	a.Deny("end of input: nobody is there to approve")
	return true
}
