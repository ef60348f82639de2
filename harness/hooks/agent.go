package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// maxStops bounds how often hooks of Stop make one run go on.
const maxStops = 8

// Agent returns an agent whose runs have the hooks of UserPromptSubmit, Stop, PreCompact and Notification,
// and which ends when a hook answers {"continue": false}. The error is then a [*StoppedError]; so it is for
// a prompt that is refused, which does not become part of the history.
func (r *Runner) Agent(next aycoder.Agent) aycoder.Agent { return &agent{next, r} }

type agent struct {
	next aycoder.Agent
	r    *Runner
}

// Run implements [aycoder.Agent].
func (a *agent) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		if ctx == nil {
			a.next.Run(ctx, in, opts...)(yield)
			return
		}
		ctx := context.WithValue(ctx, stoppedKey{a.r}, new(atomic.Pointer[StoppedError]))
		in, refused := a.r.prompted(ctx, in)
		if refused != nil {
			yield(nil, unstarted(in, opts, refused))
			return
		}
		s := &stops{r: a.r, ctx: ctx}
		for ev, err := range a.next.Run(ctx, in, append(slices.Clip(opts), s.extend)...) {
			if q, ok := question(ev); ok {
				a.r.Notify(ctx, "permission_prompt", "Permission is needed to use "+q.Request.Tool)
			}
			if !yield(ev, err) {
				return
			}
		}
	})
}

// question returns a question to the user, also one of an inner run.
func question(ev aycoder.Event) (*aycoder.ApprovalRequested, bool) {
	if c, ok := ev.(*aycoder.ChildEvent); ok {
		ev = c.Innermost()
	}
	q, ok := ev.(*aycoder.ApprovalRequested)
	return q, ok
}

// unstarted returns the error of a run that does not begin, and fills its result.
func unstarted(in aycoder.Input, opts []aycoder.RunOption, by *StoppedError) error {
	var c aycoder.RunConfig
	for _, o := range opts {
		if o == nil {
			return &aycoder.ConfigError{Option: "RunOption", Err: errors.New("is nil")}
		}
		if err := o(&c); err != nil {
			return err
		}
	}
	if c.Into != nil {
		*c.Into = aycoder.Result{Messages: in.Messages, End: aycoder.EndFailed}
	}
	return by
}

// prompted asks the hooks about the user's prompt, and adds what they tell the model.
func (r *Runner) prompted(ctx context.Context, in aycoder.Input) (aycoder.Input, *StoppedError) {
	if in.Prompt == "" && len(in.Parts) == 0 || in.Pending != nil {
		return in, nil
	}
	text := in.Prompt + (&aycoder.Message{Parts: in.Parts}).Text()
	notes, refused := r.tell(ctx, UserPromptSubmit, aycoder.Place{}, map[string]any{"prompt": text})
	if refused = cmp.Or(r.stopped(ctx), refused); refused != nil {
		return in, refused
	}
	in.Parts = slices.Clip(in.Parts)
	for _, n := range notes {
		in.Parts = append(in.Parts, &aycoder.Text{Text: "<hook_context>\n" + n.text + "\n</hook_context>"})
	}
	return in, nil
}

// stops asks the hooks when a run would end.
type stops struct {
	r   *Runner
	ctx context.Context
	n   int
}

// extend is an option of the run.
func (s *stops) extend(c *aycoder.RunConfig) error {
	var x aycoder.RunExtension
	if host, ok := c.Extension.(*aycoder.RunExtension); ok && host != nil {
		x = *host
	}
	wrap, proceed := x.Context, x.Continue
	x.Context = func(b aycoder.ContextBuilder) aycoder.ContextBuilder {
		if wrap != nil {
			b = wrap(b)
		}
		if b == nil {
			return nil
		}
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			return s.r.build(ctx, b, in)
		})
	}
	x.Continue = func(res *aycoder.Result) *aycoder.Message {
		if proceed != nil {
			if m := proceed(res); m != nil {
				return m
			}
		}
		return s.goOn(res)
	}
	c.Extension = &x
	return nil
}

// build builds a request, unless a hook has stopped the run. It runs the hooks before a compaction and after it.
func (r *Runner) build(
	ctx context.Context, b aycoder.ContextBuilder, in aycoder.ContextInput,
) (*aycoder.Request, error) {
	if by := r.stopped(ctx); by != nil {
		return nil, by
	}
	if begin := in.Compacting; begin != nil {
		in.Compacting = func(c *aycoder.Compacting) error {
			trigger := "auto"
			if c.Reason == "command" {
				trigger = "manual"
			}
			refused := r.preCompact(ctx, aycoder.Place{Run: in.Run}, trigger, "")
			switch {
			case refused == nil:
			case !c.Needed:
				r.refusal(refused, "")
				return refused
			default:
				r.refusal(refused, ", but the conversation does not fit otherwise, so it is made")
			}
			return begin(c)
		}
	}
	compacted := false
	if record := in.Compact; record != nil {
		in.Compact = func(ctx context.Context, c *aycoder.Compacted) error {
			err := record(ctx, c)
			compacted = compacted || err == nil && c.Note != nil
			return err
		}
	}
	req, err := b.Build(ctx, in)
	if err != nil || req == nil {
		return req, err
	}
	if compacted {
		r.SessionStart(ctx, "compact")
	}
	if text := r.remembered(); text != "" {
		other := *req
		other.Tail = append([]*aycoder.Text{{Text: "<hook_context>\n" + text + "\n</hook_context>\n"}}, req.Tail...)
		return &other, nil
	}
	return req, nil
}

// PreCompact runs the hooks of this event before a compaction between two runs, for which the user has asked with words
// about what to keep. The error is a [*StoppedError] if one refuses it.
func (r *Runner) PreCompact(ctx context.Context, keep string) error {
	if refused := r.preCompact(ctx, aycoder.Place{}, "manual", keep); refused != nil {
		return refused
	}
	return nil
}

func (r *Runner) preCompact(ctx context.Context, at aycoder.Place, trigger, keep string) *StoppedError {
	_, refused := r.tell(ctx, PreCompact, at, map[string]any{"trigger": trigger, "custom_instructions": keep}, trigger)
	return refused
}

// refusal reports that a hook refuses a compaction, and what comes of it.
func (r *Runner) refusal(by *StoppedError, outcome string) {
	text := fmt.Sprintf("the compaction is refused%s: %s", outcome, cmp.Or(by.Reason, "no reason given"))
	r.conf.Report(Report{Event: PreCompact, Hook: by.Hook, Text: text})
}

// goOn returns a message with which the run goes on, or nil.
func (s *stops) goOn(res *aycoder.Result) *aycoder.Message {
	if s.n >= maxStops || s.ctx.Err() != nil || s.r.stopped(s.ctx) != nil {
		return nil
	}
	add := map[string]any{"stop_hook_active": s.n > 0, "last_assistant_message": res.Text()}
	notes, refused := s.r.tell(s.ctx, Stop, aycoder.Place{}, add)
	if refused == nil || s.r.stopped(s.ctx) != nil {
		return nil
	}
	s.n++
	text := fmt.Sprintf("A hook says that the work is not done: %s", cmp.Or(refused.Reason, refused.Hook.title()))
	return aycoder.User(strings.Join(append([]string{text}, notes.texts()...), "\n"))
}
