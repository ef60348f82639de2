package cli

import (
	"context"
	"errors"
	"time"

	"github.com/aycoder/aycoder/insight/usage"
	"github.com/aycoder/aycoder/journal"
)

// cost tells what the conversation has used, or all conversations of this directory.
func (c *chat) cost(ctx context.Context, words string) (string, error) {
	work := new(usage.Work)
	switch {
	case words == "":
		work.Add(new(journal.Entry), c.talk().View())
	case words != "all":
		return "", errors.New("say /cost, or /cost all")
	case c.working:
		return "", errors.New("not while the agent works; /cost alone tells about this conversation")
	default:
		err := c.apart(ctx, func(ctx context.Context) (err error) {
			work, err = c.app.spending(ctx, c.settings, false)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if work.Total().Answers == 0 {
		c.line("No model has answered yet.")
		return "", nil
	}
	for _, by := range []usage.By{usage.Model, usage.Day, usage.Agent, usage.Tool} {
		rows := work.By(by, time.Local)
		if len(rows) > 0 {
			c.line(c.paint(faint, "by "+string(by)))
		}
		for i := range rows {
			c.prose("", "  "+rows[i].Label()+"  "+rows[i].Line())
		}
	}
	return "", nil
}
