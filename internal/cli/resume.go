package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/journal"
)

// resume goes on with another session of this directory. The one before is closed when the other one is open.
func (c *chat) resume(ctx context.Context, words string) (string, error) {
	if c.session.demo {
		return "", errors.New("there are no other conversations here")
	}
	store, err := c.app.store(c.settings)
	if err != nil {
		return "", err
	}
	all, err := sessionsHere(ctx, store)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(e journal.Entry) bool { return e.ID == c.session.id() })
	if len(all) == 0 {
		c.prose("", "There is no other conversation of this directory.")
		return "", nil
	}
	var list []line.Candidate
	for _, e := range all {
		list = append(list, line.Candidate{Text: titleOf(&e), Note: e.Used.Local().Format(time.DateTime) + " " + e.ID})
	}
	n, err := c.choose("Go on with", list, words)
	if n < 0 {
		return "", err
	}
	o := *c.options
	o.last, o.noSession, o.resume = false, false, all[n].ID
	s, err := c.app.open(ctx, &o, c.settings)
	if err != nil {
		return "", err
	}
	before := c.session
	c.enter(s)
	before.close()
	c.shown, c.heard = outputs{}, ""
	c.goesOn()
	if c.talk().Pending() != nil {
		c.turn(ctx, "") // asks again what nobody could be asked
	}
	return "", nil
}
