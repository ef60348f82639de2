package tools

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/egress"
	"github.com/aycoder/aycoder/internal/runes"
)

// WithProxy makes the commands of bash, and the tool fetch, reach the network only through p. For
// bash it needs a [WithSandbox] that can hand the connections of a command to a proxy, as
// [Landlock] and [Bubblewrap] can on Linux 5.13 and newer; otherwise bash does not start the
// command. All commands get the proxy, with or without the argument network, except those that
// only read, which have no network. [WithExec] cannot be combined with WithProxy.
//
// If no rule of p decides about a host, the [aycoder.Approver] of the run decides about a call of a
// tool named "network", in a nested run inside the call of bash (see [aycoder.WithParent]). So the
// question reaches the consumer of the run in an [aycoder.ChildEvent]. Its answer is for the rest
// of this command, or makes a rule, which package policy writes as "network:example.com". If the
// user denies the question, ignores it, or cancels the run, or if the command ends, the
// connection is refused. The timeout of the command continues while a question is open. Nobody can
// be asked outside of a run, or once the call of a background command has returned. The result
// of the command lists the hosts that were denied.
//
// For fetch, the approval of the call is the answer, unless a rule of p denies the host.
//
// Default: no proxy.
func WithProxy(p *egress.Proxy) Option {
	return func(c *config) error {
		if p == nil {
			return &aycoder.ConfigError{Option: "WithProxy", Err: errors.New("is nil")}
		}
		c.proxy = p
		return nil
	}
}

type networkArgs struct {
	URL     string `json:"url" jsonschema_description:"Where a command wants to connect."`
	Command string `json:"command,omitempty" jsonschema_description:"The command."`
}

// networkTool stands for a connection in the question about it. To run it is to allow that.
type networkTool struct{ aycoder.Tool }

// Preview implements [aycoder.Previewer].
func (networkTool) Preview(_ context.Context, inv *aycoder.Invocation) (string, error) {
	var in networkArgs
	err := json.Unmarshal(inv.Args, &in)
	return "connect to " + in.URL + " for: " + in.Command, err
}

const networkDescription = "Let a command connect to a host."

// askNetwork returns a function that asks, for a command, whether it may connect to a host. The
// question is a call of a tool in a nested run, so that it is decided, asked, recorded and
// resolved by what does that for every other call.
func askNetwork(inv *invocation, command string) egress.AskFunc {
	return func(ctx context.Context, d egress.Destination) (bool, string) {
		allowed := false
		tool, err := aycoder.NewTool("network", networkDescription,
			func(_ context.Context, _ *invocation, in networkArgs) (*result, error) {
				if allowed = in.URL == d.URL(); !allowed {
					return nil, errors.New("another host was allowed")
				}
				return textResult("allowed", ""), nil
			}, aycoder.WithHints(false, true), aycoder.WithSubject(aycoder.SubjectURL, "url"))
		if err != nil {
			return false, err.Error()
		}
		args, err := json.Marshal(networkArgs{d.URL(), runes.Shorten(EscapeInvisible(command), 1000)})
		if err != nil {
			return false, err.Error()
		}
		agent, err := aycoder.New(oneCall("network", args), aycoder.WithTools(networkTool{tool}))
		if err != nil {
			return false, err.Error()
		}
		reason := ""
		for ev, err := range agent.Run(ctx, aycoder.Input{Prompt: networkDescription}, aycoder.WithParent(inv)) {
			switch ev := ev.(type) {
			case *aycoder.ApprovalRequested:
				err = inv.Emit(ctx, ev)
			case *aycoder.ToolFinished:
				return allowed && ev.Err == nil, denial(ev, d)
			}
			if err != nil {
				reason = err.Error()
				break
			}
		}
		return false, reason
	}
}

// denial says why a connection is denied, and what would allow it if nobody can be asked.
func denial(ev *aycoder.ToolFinished, d egress.Destination) string {
	text := ev.Output.Text()
	denied, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err)
	if ok && denied.By == aycoder.ByPolicy && strings.HasPrefix(text, "approval_required") && !strings.Contains(text, " rule ") {
		text += "; a rule of the proxy for " + strings.TrimPrefix(strings.TrimPrefix(d.URL(), "http://"), "https://") + " would allow it"
	}
	return text
}

// oneCall is a model that makes one call.
func oneCall(name string, args json.RawMessage) aycoder.ModelFunc {
	return func(context.Context, *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		return func(yield func(aycoder.ModelEvent, error) bool) {
			call := &aycoder.ToolUse{ID: name, Name: name, Args: args}
			if yield(&aycoder.BlockDone{Part: call}, nil) {
				yield(&aycoder.MessageDone{Stop: aycoder.StopToolUse}, nil)
			}
		}
	}
}
