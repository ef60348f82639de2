package hooks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/dialect"
	"github.com/aycoder/aycoder/internal/jsontext"
)

// Approver returns an Approver that decides like next and then asks the hooks of PreToolUse, which can
// only be stricter. Hooks run once for each call and its arguments, however often the loop asks. Put
// [aycoder.DenyAsks] and [aycoder.SuspendAsks] around it.
func (r *Runner) Approver(next aycoder.Approver) aycoder.Approver { return &approver{next, r} }

type approver struct {
	next aycoder.Approver
	r    *Runner
}

// Unwrap returns the wrapped Approver, whose optional interfaces the loop finds.
func (a *approver) Unwrap() aycoder.Approver { return a.next }

// Decide implements [aycoder.Approver].
func (a *approver) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	if by := a.r.stopped(ctx); by != nil {
		return aycoder.Deny(by.Error())
	}
	v := a.next.Decide(ctx, call, spec)
	at, _ := aycoder.PlaceFromContext(ctx)
	said := read(v)
	if said.Kind == "deny" {
		a.denied(ctx, at, call, said.Reason)
		return v
	}
	replaced := said.Args != nil && jsontext.Canonical(said.Args) != jsontext.Canonical(call.Args)
	if said.Args != nil { // of the wrapped Approver: the hooks see what would run
		call = &aycoder.ToolUse{ID: call.ID, Name: call.Name, Args: said.Args}
	}
	j := a.r.judge(ctx, at, call, spec)
	switch {
	case ctx.Err() != nil:
		return aycoder.Deny(context.Cause(ctx).Error())
	case j.denial != "":
		return aycoder.Deny(j.denial)
	case j.args != nil:
		edited := a.edited(ctx, call, spec, j)
		if read(edited).Kind != "allow" {
			return edited
		}
		v, said.Kind = edited, "allow"
	}
	switch {
	case replaced && (j.ask || j.suspend):
		return otherInput(call.Args)
	case j.suspend:
		return aycoder.Suspend().WithRationale(j.grounds(v))
	case j.ask && said.Kind == "allow":
		v, said.Kind = aycoder.Ask().WithRationale(j.grounds(v)), ""
	}
	if said.Kind == "" {
		return a.request(ctx, at, call, v)
	}
	return v
}

// verdict is the JSON form of a verdict, which tells more than its methods.
type verdict struct {
	Kind   string          `json:"kind"`
	Reason string          `json:"reason"`
	Args   json.RawMessage `json:"args"`
}

func read(v aycoder.Verdict) (out verdict) {
	data, err := json.Marshal(v)
	if err != nil || json.Unmarshal(data, &out) != nil {
		return verdict{Kind: "deny", Reason: "the verdict is not understood"}
	}
	return out
}

// grounds are those of a verdict with what the hook says.
func (j *judged) grounds(v aycoder.Verdict) aycoder.Grounds {
	g := v.Grounds()
	return aycoder.Grounds{Class: g.Class, Reasons: append(slices.Clip(g.Reasons), j.reason)}
}

// otherInput denies a call that may run only with other arguments, about which the user is to be asked. Nobody but the
// model can put them into a question, so that the user sees them.
func otherInput(args json.RawMessage) aycoder.Verdict {
	return aycoder.Deny("another input is required. Make the call again with exactly this one: " + string(args))
}

// edited decides about a call whose input a hook has replaced.
func (a *approver) edited(
	ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec, j judged,
) aycoder.Verdict {
	v := a.next.Decide(ctx, &aycoder.ToolUse{ID: call.ID, Name: call.Name, Args: j.args}, spec)
	said := read(v)
	switch {
	case said.Kind == "deny":
		return aycoder.Deny("a hook changed the input of this call, and the policy denies it as it is then: " +
			said.Reason)
	case said.Kind != "allow" || said.Args != nil || j.ask || j.suspend:
		return otherInput(j.args)
	}
	return aycoder.AllowWith(j.args).WithRationale(v.Grounds())
}

// request asks the hooks of PermissionRequest, which can deny what the user would be asked.
func (a *approver) request(
	ctx context.Context, at aycoder.Place, call *aycoder.ToolUse, v aycoder.Verdict,
) aycoder.Verdict {
	j, err := a.r.tellOnce(ctx, PermissionRequest, at, call, nil)
	if err == nil && j.denial != "" {
		return aycoder.Deny(j.denial)
	}
	return v
}

// denied tells the hooks of PermissionDenied.
func (a *approver) denied(ctx context.Context, at aycoder.Place, call *aycoder.ToolUse, reason string) {
	_, _ = a.r.tellOnce(ctx, PermissionDenied, at, call, map[string]any{"reason": reason})
}

// tellOnce tells the hooks of an event about a call, once for each call. A refusal is a denial.
func (r *Runner) tellOnce(
	ctx context.Context, e Event, at aycoder.Place, call *aycoder.ToolUse, more map[string]any,
) (*judgment, error) {
	return r.once(ctx, string(e), at, call, func() (j judged, _ error) {
		views, err := dialect.Views(r.conf.Root, call.Name, call.Args)
		for _, w := range views {
			add := map[string]any{"tool_name": w.Name, "tool_input": w.Input, "tool_use_id": call.ID}
			maps.Copy(add, more)
			if _, refused := r.tell(ctx, e, at, add, dialect.Names(call.Name)...); refused != nil {
				j.denial = fmt.Sprintf("a hook refused this call: %s", cmp.Or(refused.Reason, refused.Hook.title()))
			}
		}
		return j, err
	})
}

// A judgment is what the hooks before a tool say about a call.
type judgment struct {
	judged

	making chan struct{} // has an element while somebody makes the judgment
	made   atomic.Bool   // judged does not change any more
}

type judged struct {
	denial       string // for the model, or ""
	ask, suspend bool
	reason       string
	args         json.RawMessage // other arguments, or nil
	notes        []string        // for the model, with the result
}

// maxKnown bounds the judgments that a Runner remembers.
const maxKnown = 512

// key identifies a call and its arguments.
func key(about, run, id, tool string, args json.RawMessage) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q%q%q%q%q", about, run, id, tool, jsontext.Canonical(args)))
	return string(sum[:])
}

// once makes a judgment about a call, unless it was made before. If it comes to nothing, as after a cancel or a
// panic, the next one who asks makes it again.
func (r *Runner) once(
	ctx context.Context, about string, at aycoder.Place, call *aycoder.ToolUse, decide func() (judged, error),
) (*judgment, error) {
	j := r.judgment(key(about, at.Run, call.ID, call.Name, call.Args))
	select {
	case j.making <- struct{}{}:
		defer func() { <-j.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if j.made.Load() {
		return j, nil
	}
	said, err := decide()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		j.judged = said
		j.made.Store(true)
	}
	return j, err
}

// judgment returns the judgment with a key, which may not be made yet. It forgets the oldest one.
func (r *Runner) judgment(k string) *judgment {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.known[k]
	if j != nil {
		return j
	}
	if len(r.order) >= maxKnown {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	j = &judgment{making: make(chan struct{}, 1)}
	r.known[k], r.order = j, append(r.order, k)
	return j
}

// judge asks the hooks of PreToolUse about a call.
func (r *Runner) judge(
	ctx context.Context, at aycoder.Place, call *aycoder.ToolUse, spec *aycoder.ToolSpec,
) judged {
	if len(r.of(PreToolUse, dialect.Names(call.Name)...)) == 0 {
		return judged{}
	}
	j, err := r.once(ctx, "tool", at, call, func() (judged, error) { return r.preTool(ctx, at, call, spec), nil })
	if err != nil {
		return judged{denial: "the hooks before this call did not finish: " + err.Error()}
	}
	if j.args != nil && j.denial == "" { // what the hooks made of it needs no hook again
		edited := &aycoder.ToolUse{ID: call.ID, Name: call.Name, Args: j.args}
		same := j.judged
		same.args = nil
		_, _ = r.once(ctx, "tool", at, edited, func() (judged, error) { return same, nil })
	}
	return j.judged
}

// preTool runs the hooks one after the other. After a change of the input, all but the one that has asked for it see the
// new one, too. They must not change it again; another change by those that have made one before does not count.
func (r *Runner) preTool(
	ctx context.Context, at aycoder.Place, call *aycoder.ToolUse, spec *aycoder.ToolSpec,
) (j judged) {
	list, args := r.of(PreToolUse, dialect.Names(call.Name)...), call.Args
	changed := []*hook{nil} // the last one has asked for args
	for pass := range 2 {
		last := changed[len(changed)-1]
		for _, h := range list {
			if pass > 0 && h == last {
				continue
			}
			next, err := r.preToolHook(ctx, h, at, call, args, spec, &j)
			switch {
			case err != nil:
				return judged{denial: "not run: " + err.Error()}
			case j.denial != "":
				return j
			case next == nil || pass > 0 && slices.Contains(changed, h):
			case pass > 0:
				return judged{denial: "not run: the hooks before this call do not agree about its input"}
			default:
				args, j.args, changed = next, next, append(changed, h)
			}
		}
		if j.args == nil {
			break
		}
	}
	return j
}

// preToolHook asks one hook, and returns the arguments by which it replaces those that it got, or nil.
func (r *Runner) preToolHook(ctx context.Context, h *hook, at aycoder.Place, call *aycoder.ToolUse,
	args json.RawMessage, spec *aycoder.ToolSpec, j *judged,
) (json.RawMessage, error) {
	views, err := dialect.Views(r.conf.Root, call.Name, args)
	if err != nil {
		return nil, err
	}
	var replaced json.RawMessage
	for _, v := range views {
		in := r.input(ctx, PreToolUse, at)
		in["tool_name"], in["tool_input"], in["tool_use_id"] = v.Name, v.Input, call.ID
		o, err := r.ask(ctx, h, in, at.Agent)
		if err != nil {
			return nil, err
		}
		if o.refuse {
			j.denial = fmt.Sprintf("a hook refused this call: %s", cmp.Or(o.reason, h.title()))
			return nil, nil
		}
		j.ask, j.suspend = j.ask || o.ask, j.suspend || o.suspend
		if o.ask || o.suspend {
			j.reason = cmp.Or(o.reason, "the hook "+h.title()+" asks")
		}
		if o.context != "" && !slices.Contains(j.notes, o.context) {
			j.notes = append(j.notes, o.context)
		}
		if o.input == nil {
			continue
		}
		next, err := dialect.Inward(r.conf.Root, call.Name, v, o.input)
		if err == nil {
			next, err = spec.CheckArgs(next)
		}
		if err != nil {
			return nil, &Error{Hook: h.Hook, Err: fmt.Errorf("its input for the tool is not valid: %w", err)}
		}
		if jsontext.Canonical(next) != jsontext.Canonical(args) {
			replaced = next
		}
	}
	return replaced, nil
}
