package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// StaleApprovalError says that a command was not run because it would not do what was
// shown when it was approved: the folder it starts in, say, is another by now.
type StaleApprovalError struct{ *ToolError }

// Error implements error.
func (e *StaleApprovalError) Error() string {
	return e.describe("not run, as what it would do has changed since it was approved; make the call again")
}

// Unwrap returns the base.
func (e *StaleApprovalError) Unwrap() error { return e.ToolError.base() }

// unfit returns why a call that was allowed must not start: it is not on record, or a
// command is not the one that was shown. What an edit would do now is merged instead. If
// the call may start only because it changes nothing by now, the action says so after.
func unfit(ctx context.Context, r *run, a *RunTool, t *tool) error {
	base := &ToolError{Tool: a.Call.Name, CallID: a.Call.ID}
	if r.trail != nil {
		err := r.trail.flush(ctx, r, false)
		if err != nil && t.spec.Effect != EffectReadOnly {
			base.Err = err
			return &AuditError{base}
		}
	}
	r.mu.Lock()
	req, by := r.approved[a.Call.ID], r.by[a.Call.ID]
	r.mu.Unlock()
	_, shows := t.impl.(Previewer)
	switch {
	case t.spec.Subject.Kind != SubjectCommand || t.spec.Subject.Arg == "":
		return nil
	case req == nil && shows && by == "": // allowed before the run was suspended
		if !r.allowsNow(a, t.fitArgs(a), t) {
			return &StaleApprovalError{base}
		}
		return nil
	case req == nil:
		return nil
	}
	now := *req
	now.Preview = t.preview(ctx, r.showing(req))
	if now.digest() == req.Digest {
		return nil
	}
	if by == ByPolicy { // it has not seen where the command starts by now
		if r.allowsNow(a, req.Args, t) {
			return nil
		}
	}
	return &StaleApprovalError{base}
}

// allowsNow asks the policy once more whether a call may run as it is. What it says now
// can only hold the call to more.
func (r *run) allowsNow(a *RunTool, args json.RawMessage, t *tool) bool {
	v := r.policy(&ToolUse{ID: a.Call.ID, Name: a.Call.Name, Args: args}, &t.spec)
	a.ReadOnly = a.ReadOnly || v.readOnly()
	return v.kind == verdictAllow && v.args == nil
}

// pin remembers what a command would show that is allowed unasked.
func (r *run) pin(ctx context.Context, q *posed) {
	_, ok := q.tool.impl.(Previewer)
	if r.unfit == nil || !ok || q.tool.spec.Subject.Kind != SubjectCommand {
		return
	}
	if req, err := r.question(ctx, q); err == nil {
		r.approve(req)
	}
}

// showing is the call of a question, for a preview.
func (r *run) showing(req *ApprovalRequest) *Invocation {
	return &Invocation{ID: req.CallID, Name: req.Tool, Key: req.Key, Run: r.id, Depth: r.depth, Args: req.Args}
}

// approve remembers what was shown of a call.
func (r *run) approve(req *ApprovalRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	put(&r.approved, req.CallID, req)
}

// keeps reports whether the approver of the run, or of one around it, keeps rules.
func (r *run) keeps() bool {
	for ; r != nil; r = r.parent {
		if _, ok := approverAs[RuleKeeper](r.loop.approver); ok {
			return true
		}
	}
	return false
}

// makeRule makes a rule of a user's in the run of a question and those around it.
func (r *run) makeRule(c *cell, scope Scope, rule Rule) error {
	var errs []error
	for o := r; o != nil; o = o.parent {
		k, ok := approverAs[RuleKeeper](o.loop.approver)
		if !ok {
			o.loop.addRule(rule)
			o.applyRule(rule)
			continue
		}
		o.within(func(ctx context.Context) { errs = append(errs, keepRule(ctx, k, scope, rule)) })
	}
	err := errors.Join(errs...)
	r.noteRule(c, scope, rule, err)
	for o := r; o != nil && o.keeps(); o = o.parent {
		o.loop.kept.Add(1)
		o.reconsider()
	}
	if err != nil {
		return &RuleError{Rule: rule, Scope: scope, Err: err}
	}
	return nil
}

// keepRule asks a keeper; one that panics has not kept the rule.
func keepRule(ctx context.Context, k RuleKeeper, scope Scope, rule Rule) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rule keeper panicked: %v", p)
		}
	}()
	return k.KeepRule(ctx, scope, rule)
}

// reconsider asks the policy once more about the questions that are open.
func (r *run) reconsider() {
	r.mu.Lock()
	open := slices.Collect(maps.Values(r.open))
	r.mu.Unlock()
	for _, c := range open {
		if v := r.policy(c.call, &c.tool.spec); v.kind == verdictAllow && v.args == nil {
			_ = c.answer(v, ByRule)
		}
	}
}

// noteRule records that a user made a rule, or could not.
func (r *run) noteRule(c *cell, scope Scope, rule Rule, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trail != nil {
		r.trail.ruled(r, c, scope, rule, err)
	}
}
