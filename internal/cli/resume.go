package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/cli/line"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/workspace"
)

// resume goes on with another session of this directory. The one before is closed when the other one is open.
func (c *chat) resume(ctx context.Context, words string) (string, error) {
	all, err := c.otherSessions(ctx)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		c.prose("", "There is no other conversation of this directory.")
		return "", nil
	}
	var list []line.Candidate
	for _, e := range all {
		list = append(list, line.Candidate{Text: titleOf(&e), Note: e.Used.Local().Format(time.DateTime) + " " + e.ID})
	}
	n, err := -1, error(nil)
	if typed := strings.Fields(words); len(typed) > 0 { // completion ends with the id
		n = slices.IndexFunc(all, func(e journal.Entry) bool { return e.ID == typed[len(typed)-1] })
	}
	if n < 0 {
		n, err = c.choose("Go on with", list, words)
	}
	if n < 0 {
		return "", err
	}
	o := *c.options
	o.last, o.noSession, o.resume = false, false, all[n].ID
	s, err := c.app.open(ctx, &o, c.settings)
	if err != nil {
		return "", err
	}
	c.exchange(s)
	c.goesOn()
	return "", c.goOn(ctx)
}

// goOn asks what a session that was opened waits for.
func (c *chat) goOn(ctx context.Context) error {
	if err := c.unfinished(ctx); err != nil {
		return err
	}
	if c.talk().Pending() != nil {
		c.turn(ctx, "") // asks again what nobody could be asked
	}
	return nil
}

// unfinished asks about changes of files that a crash left half done. Without a yes, the files stay as they are, and
// the next start asks again.
func (c *chat) unfinished(ctx context.Context) error {
	if c.session.Workspace == nil {
		return nil
	}
	for _, p := range c.session.Workspace.Interrupted() {
		c.prose(notice, "! "+unfinished(p))
		c.wholeDiff(takenBack(p).Preview())
		switch key, err := c.answerKey("Take that back?", yesNo); {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case key != 'y':
			c.prose("", "The files stay as they are. The next start asks again.")
			continue
		}
		res, err := p.TakeBack(ctx)
		c.complain(err)
		if err != nil {
			continue
		}
		for _, f := range res.Files {
			text := string(f.Outcome) + " " + f.Path
			if f.Reason != "" {
				text += ": " + f.Reason
			}
			text = strings.Join(append([]string{text}, f.Sidecars...), "; your text is in ")
			c.prose(faint, "  "+cleanLine(text))
		}
	}
	return nil
}

// takenBack returns what taking back a plan does to the files that it has changed.
func takenBack(p *workspace.InterruptedPlan) edit.Plan {
	var all []edit.File
	opposite := map[edit.Kind]edit.Kind{edit.Create: edit.Delete, edit.Delete: edit.Create}
	for _, f := range p.Plan.Files() {
		if slices.Contains(p.Open, f.Path) {
			continue
		}
		all = append(all, edit.File{Path: f.Path, Kind: cmp.Or(opposite[f.Kind], f.Kind), Base: f.Proposed, Proposed: f.Base})
	}
	plan, _ := edit.NewPlan(all...) // as the plan was one, this is one
	return plan
}

// otherSessions returns the other sessions of this directory.
func (c *chat) otherSessions(ctx context.Context) ([]journal.Entry, error) {
	if c.session.demo {
		return nil, errors.New("there are no other conversations here")
	}
	store, err := c.app.store(c.settings)
	if err != nil {
		return nil, err
	}
	all, err := sessionsHere(ctx, store, false)
	return slices.DeleteFunc(all, func(e journal.Entry) bool { return e.ID == c.session.id() }), err
}
