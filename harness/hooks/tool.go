package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/runes"
)

const maxResponse = 256 << 10 // bytes of a result that a hook reads

// insideKey marks the context of a call whose hooks a Runner runs already.
type insideKey struct{ *Runner }

// Tool runs the hooks after a call, which can replace its output and tell the model something. It is an
// [aycoder.ToolMiddleware]. Put middleware that masks secrets outside of it.
func (r *Runner) Tool(next aycoder.ToolFunc) aycoder.ToolFunc {
	return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
		if ctx.Value(insideKey{r}) == inv.Run+"/"+inv.ID { // of the inner agent, too
			return next(ctx, inv)
		}
		inner := context.WithValue(ctx, insideKey{r}, inv.Run+"/"+inv.ID)
		agent := slices.Contains(r.conf.Subagents, inv.Name)
		if agent {
			if err := r.subagent(ctx, SubagentStart, inv, nil); err != nil {
				return nil, err
			}
		}
		res, err := next(inner, inv)
		var notes []string
		if agent && ctx.Err() == nil {
			if err := r.subagent(ctx, SubagentStop, inv, res); err != nil {
				notes = append(notes, err.Error())
			}
		}
		return r.after(ctx, inv, res, err, notes)
	}
}

// subagent tells hooks that an agent starts or stops. The error says that one of them objects.
func (r *Runner) subagent(ctx context.Context, e Event, inv *aycoder.Invocation, res *aycoder.ToolResult) error {
	var args map[string]any
	_ = json.Unmarshal(inv.Args, &args) // the tool reports what is wrong
	name, _ := args["agent"].(string)
	name = cmp.Or(name, inv.Name)
	add := map[string]any{"agent_id": inv.ID, "agent_type": name}
	if e == SubagentStop {
		add["stop_hook_active"], add["last_assistant_message"] = false, runes.HeadTail(textOf(res), maxResponse)
	}
	if _, refused := r.tell(ctx, e, inv.Place, add, name, inv.Name); refused != nil {
		return refused
	}
	return nil
}

// after runs the hooks after a call and returns its result as they leave it.
func (r *Runner) after(
	ctx context.Context, inv *aycoder.Invocation, res *aycoder.ToolResult, err error, notes []string,
) (*aycoder.ToolResult, error) {
	notes = append(r.notes(inv), notes...)
	e := PostToolUse
	if err != nil || res != nil && res.IsError {
		e = PostToolUseFailure
	}
	for _, h := range r.of(e, dialect.Names(inv.Name)...) {
		if ctx.Err() != nil {
			break // a cancelled call must return soon
		}
		res, notes = r.afterHook(ctx, h, inv, res, err, notes)
	}
	return annotated(res, err, notes)
}

// notes returns what the hooks before the call want the model to know.
func (r *Runner) notes(inv *aycoder.Invocation) []string {
	r.mu.Lock()
	j := r.known[key("tool", inv.Run, inv.ID, inv.Name, inv.Args)]
	r.mu.Unlock()
	if j == nil || !j.made.Load() {
		return nil
	}
	return slices.Clone(j.notes)
}

func (r *Runner) afterHook(
	ctx context.Context, h *hook, inv *aycoder.Invocation, res *aycoder.ToolResult, failed error, notes []string,
) (*aycoder.ToolResult, []string) {
	views, err := dialect.Views(r.conf.Root, inv.Name, inv.Args)
	if err != nil {
		r.fail(h, inv.Agent, &Error{Hook: h.Hook, Err: err})
	}
	for _, v := range views {
		in := r.input(ctx, h.Event, inv.Place)
		in["tool_name"], in["tool_input"], in["tool_use_id"] = v.Name, v.Input, inv.ID
		text := runes.HeadTail(textOf(res), maxResponse)
		if failed != nil {
			text = runes.HeadTail(failed.Error(), maxResponse)
		}
		if in["tool_response"] = response(v, text, h.Event == PostToolUseFailure); h.Event == PostToolUseFailure {
			in["error"], in["is_interrupt"] = text, false
		}
		o, err := r.ask(ctx, h, in, inv.Agent)
		if err != nil {
			continue
		}
		if o.refuse {
			notes = append(notes, fmt.Sprintf("a hook objects: %s", cmp.Or(o.reason, h.title())))
		}
		if o.context != "" {
			notes = append(notes, o.context)
		}
		if o.output != nil && res != nil {
			res = replaced(res, replacement(o.output))
		}
	}
	return res, notes
}

// replaced returns a result with another text. Images stay.
func replaced(res *aycoder.ToolResult, text string) *aycoder.ToolResult {
	out := *res
	out.Parts = []aycoder.Part{&aycoder.Text{Text: text}}
	for _, p := range res.Parts {
		if _, ok := p.(*aycoder.Text); !ok {
			out.Parts = append(out.Parts, p)
		}
	}
	return &out
}

// annotated adds to a result what hooks want the model to know.
func annotated(res *aycoder.ToolResult, err error, notes []string) (*aycoder.ToolResult, error) {
	if len(notes) == 0 {
		return res, err
	}
	text := "\n[hook] " + strings.Join(notes, "\n[hook] ")
	if err != nil {
		return res, fmt.Errorf("%w%s", err, text)
	}
	var out aycoder.ToolResult
	if res != nil {
		out = *res
	}
	out.Parts = append(slices.Clip(out.Parts), &aycoder.Text{Text: text})
	return &out, nil
}
