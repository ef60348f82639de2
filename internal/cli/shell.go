package cli

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/aycoder/aycoder"
)

// maxHeard bounds what the next prompt brings of the outputs of the user's commands, in bytes.
const maxHeard = 128 << 10

// shell runs a command of the user in the shell of the model, under the same rules, but for the question: who types a
// command and sends it has decided. The model gets its output with the next prompt.
func (c *chat) shell(ctx context.Context, command string) error {
	if command == "" {
		return errors.New("say a command: !git status")
	}
	was := c.verbose
	c.verbose, c.own = true, command
	defer func() { c.verbose, c.own = was, "" }()
	c.number = 0
	err := c.during(ctx, func(ctx context.Context) iter.Seq2[aycoder.Event, error] { return c.session.Command(ctx, command) })
	if c.number > 0 { // it has ended, and its output is the last one
		out := c.shown.list[len(c.shown.list)-1].text
		heard := c.heard + "\n\nI have run a command:\n\n$ " + command + "\n" + strings.TrimRight(out, "\n") + "\n"
		c.prose(faint, "The model gets this with your next line.")
		c.heard = strings.ToValidUTF8(heard[max(len(heard)-maxHeard, 0):], "")
	}
	if c.stopping {
		c.line(c.Glyph("—", "--") + " interrupted.")
		return nil
	}
	return err
}

// decidedByTyping reports whether a request is about the command that the user has just sent, and nothing else.
func (c *chat) decidedByTyping(r *aycoder.ApprovalRequest) bool {
	var args map[string]string
	return c.own != "" && r.Tool == "bash" && json.Unmarshal(r.Args, &args) == nil && len(args) == 1 && args["command"] == c.own
}
