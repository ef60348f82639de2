package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
)

// Send sends a message to the agent of another branch of the session. The agent gets it like a
// message of [Branch.Steer], with a first line that names this branch. The message is recorded, and
// arrives once and in order, also after a crash.
func (b *Branch) Send(ctx context.Context, to, text string) error {
	other := b.session.BranchOf(to)
	if other == nil || other == b {
		return &CommandError{Command: "send", Phase: b.Phase(), Reason: fmt.Sprintf("there is no other branch %q", to)}
	}
	return other.say(ctx, "send", "", fmt.Sprintf("Message from the agent %q:\n%s", b.name, text), nil, false)
}

type sendArgs struct {
	To   string `json:"to" jsonschema:"description=Name of the agent"`
	Text string `json:"text" jsonschema:"description=The message"`
}

// SendTool returns the tool send_message, with which the agent of the branch calls [Branch.Send].
func (b *Branch) SendTool() (aycoder.Tool, error) {
	return aycoder.NewTool("send_message",
		"Sends a message to another agent that works on the same task. It reads the message before its next step.",
		func(ctx context.Context, _ *aycoder.Invocation, in sendArgs) (*aycoder.ToolResult, error) {
			if err := b.Send(ctx, in.To, in.Text); err != nil {
				return aycoder.ErrorResult(fmt.Sprintf("%v; the agents are: %s", err, strings.Join(b.others(), ", "))), nil
			}
			return aycoder.TextResult("sent"), nil
		}, aycoder.WithEffect(aycoder.EffectWrite))
}

// others returns the names of the other branches, quoted.
func (b *Branch) others() []string {
	var out []string
	for _, name := range b.session.View().Branches() {
		if name != b.name {
			out = append(out, fmt.Sprintf("%q", name))
		}
	}
	return out
}
