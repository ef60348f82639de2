package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
)

// This file has the decisions about calls: the verdict of a policy, its grounds, the rules
// that users make with an answer, and who decided.

// Approver is the policy: it decides about a call before it runs. It is asked once for each call.
// It is asked again if a user edits the arguments, and if a command that it allowed would by then
// start in a different directory. About read-only tools, it is asked while the model is still
// talking. It may take its time, but must return when ctx is cancelled. It must be safe for
// concurrent use. Package policy has one that decides by rules.
//
// An Approver may have more abilities, which are optional interfaces: [RuleKeeper] and [Auditor].
// If an Approver wraps another, these are found by its method Unwrap() Approver.
type Approver interface {
	Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict
}

// ApproverFunc is an adapter that makes a function an [Approver].
type ApproverFunc func(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict

// Decide calls f.
func (f ApproverFunc) Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	return f(ctx, call, spec)
}

// SuspendAsks returns an Approver for runs that nobody watches. If a would ask, the run
// is suspended instead and ends with [Result.Pending]. It wraps a, with its abilities.
func SuspendAsks(a Approver) Approver {
	return &asker{a, func(v Verdict) Verdict {
		return Verdict{kind: verdictSuspend, why: v.why}
	}}
}

// DenyAsks returns an Approver for runs that nobody watches and that should go on. If a
// would ask, the call is denied instead, with a text of kind "approval_required" that
// names the rule which would allow it, if a suggests one.
func DenyAsks(a Approver) Approver { return &asker{a, headless} }

func headless(v Verdict) Verdict {
	g := v.Grounds()
	why := approvalRequired + ": nobody can be asked here"
	if len(g.Reasons) > 0 {
		why += " (" + strings.Join(g.Reasons, ", ") + ")"
	}
	if len(g.Suggested) > 0 {
		why += "; the host can allow it with the rule " + g.Suggested[0]
	}
	return Verdict{kind: verdictDeny, reason: why, why: v.why}
}

const approvalRequired = "approval_required"

// An asker is an approver whose questions a function answers.
type asker struct {
	Approver
	answer func(Verdict) Verdict
}

func (a *asker) Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	v := a.Approver.Decide(ctx, call, spec).named(call, spec)
	if v.kind == verdictAsk {
		return a.answer(v)
	}
	return v
}

func (a *asker) Unwrap() Approver { return a.Approver }

// approverAs returns a, or an Approver that it wraps, as a T.
func approverAs[T any](a Approver) (T, bool) {
	for a != nil {
		if t, ok := a.(T); ok {
			return t, true
		}
		w, ok := a.(interface{ Unwrap() Approver })
		if !ok {
			break
		}
		a = w.Unwrap()
	}
	var none T
	return none, false
}

// RuleKeeper is an optional ability of an [Approver]: it keeps the rules that users make with
// [ApprovalRequested.AllowFor], and from then on decides by them. The rule is a text that an
// Approver has suggested in [Grounds], and it allows calls. KeepRule returns when the rule is in
// force, and for the scope [Saved] also stored for the next process. If it returns an error, the
// rule is not in force. It must be safe for concurrent use.
type RuleKeeper interface {
	KeepRule(ctx context.Context, scope Scope, rule string) error
}

// RuleError reports that a rule could not be made. The call for which it was to be made
// is allowed all the same.
type RuleError struct {
	Rule  string
	Scope Scope
	Err   error
}

// Error implements error.
func (e *RuleError) Error() string {
	return fmt.Sprintf("keep rule %s (%s): %v", runes.Shorten(e.Rule, 500), e.Scope, e.Err)
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }

// AllowFor lets the call run and, with scope [Session] or [Saved], gives the
// [RuleKeeper] a rule that answers the same question from now on, and those that are
// open. The rule is one of Request.Suggested. The error is [ErrDecided] if the question
// was answered before; the rule is then not made. It is a [*RuleError] if the
// RuleKeeper could not keep the rule: the call is allowed then. It is a [*ConfigError], and the
// question stays open, for another rule or scope, and if the [Approver] is not a RuleKeeper.
func (a *ApprovalRequested) AllowFor(scope Scope, rule string) error {
	return a.question.allowFor(scope, rule)
}

var (
	errNotSuggested = errors.New("rule is not one of the suggested")
	errNoKeeper     = errors.New("the approver keeps no rules")
)

func (q *openQuestion) allowFor(scope Scope, rule string) error {
	switch {
	case scope == Once:
		return q.answer(Allow(), ByUser)
	case scope != Session && scope != Saved:
		return &ConfigError{"AllowFor", fmt.Errorf("no such scope: %d", int(scope))}
	case !slices.Contains(q.req.Suggested, rule):
		return &ConfigError{"AllowFor", errNotSuggested}
	case !q.run.keeps():
		return &ConfigError{"AllowFor", errNoKeeper}
	}
	if err := q.answer(Allow(), ByUser); err != nil {
		return err
	}
	return q.run.makeRule(q, scope, rule)
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
func (r *run) makeRule(q *openQuestion, scope Scope, rule string) error {
	var errs []error
	for o := r; o != nil; o = o.parent {
		if k, ok := approverAs[RuleKeeper](o.loop.approver); ok {
			o.within(func(ctx context.Context) { errs = append(errs, keepRule(ctx, k, scope, rule)) })
		}
	}
	err := errors.Join(errs...)
	if r.recorder != nil {
		r.mu.Lock()
		r.recorder.ruled(r, q, scope, rule, err)
		r.mu.Unlock()
	}
	for o := r; o != nil && o.keeps(); o = o.parent {
		o.loop.keptRules.Add(1)
		o.reconsider()
	}
	if err != nil {
		return &RuleError{Rule: rule, Scope: scope, Err: err}
	}
	return nil
}

// keepRule asks a keeper; one that panics has not kept the rule.
func keepRule(ctx context.Context, k RuleKeeper, scope Scope, rule string) (err error) {
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
	for _, q := range open {
		if v := r.policy(q.preparedCall); v.kind == verdictAllow && v.args == nil {
			_ = q.answer(v, ByRule)
		}
	}
}

type verdictKind string

const (
	verdictAsk     verdictKind = "" // the zero Verdict asks
	verdictAllow   verdictKind = "allow"
	verdictDeny    verdictKind = "deny"
	verdictSuspend verdictKind = "suspend"
)

// Verdict is the answer of an [Approver]. [Allow], [AllowWith], [Deny], [Ask] and [Suspend] make
// one; the zero value asks. It encodes as JSON, but of its [Grounds] only ReadOnly.
type Verdict struct {
	kind   verdictKind
	reason string
	args   json.RawMessage
	plan   *EditPlan
	why    *Grounds
}

// Grounds explain a [Verdict], for the user who is asked and for the audit log.
type Grounds struct {
	// Class is the class of the call, such as "network", in the terms of the [Approver].
	Class string
	// Reasons say why the call has this class or why the user is asked: "writes out.txt".
	Reasons []string
	// Rule is the rule that decided, as a text for users and logs.
	Rule string
	// Named says that the rule names the files that the call writes. Without it, the
	// loop asks about any call that would write a file that runs code by itself (see
	// package workspace), whatever the [Approver] allows.
	Named bool
	// Suggested are rules that would answer such a question from now on, the narrowest
	// first, in the form that [RuleKeeper] takes. None if no rule can answer it.
	Suggested []string
	// ReadOnly says that the call is allowed only because it changes nothing, and not by
	// a rule. The tool then keeps the call from writing if it can, see [Invocation]. It
	// has no meaning unless the verdict allows the call.
	ReadOnly bool
}

// WithRationale returns the verdict with these grounds.
func (v Verdict) WithRationale(g Grounds) Verdict {
	v.why = &g
	return v
}

// Grounds returns the grounds of the verdict, as far as it has any.
func (v Verdict) Grounds() Grounds {
	if v.why == nil {
		return Grounds{}
	}
	return *v.why
}

// Allow lets a call run with the arguments or the plan that were shown to the [Approver] or to
// the user.
func Allow() Verdict { return Verdict{kind: verdictAllow} }

// AllowWith lets a call run with other arguments. They are checked against the tool's
// schema, and the model is told about them.
func AllowWith(args json.RawMessage) Verdict {
	return Verdict{kind: verdictAllow, args: append(json.RawMessage{}, args...)}
}

// AllowPlan lets a call make a plan that is the result of a review of
// [ApprovalRequest.Plan], see [EditPlan.Keep] and [EditPlan.WithProposed]. The model is
// told what the review removed. It answers a question, in [Input.Decisions]. An
// [Approver] must not return it: it has not seen the plan, so the call is denied.
func AllowPlan(plan EditPlan) Verdict { return Verdict{kind: verdictAllow, plan: &plan} }

// Deny refuses a call. The run goes on: the model reads the reason as the output of the
// call, and may try something else.
func Deny(reason string) Verdict { return Verdict{kind: verdictDeny, reason: reason} }

// Ask leaves the decision to the reader of the events, who gets an [ApprovalRequested]. It
// is the zero Verdict.
func Ask() Verdict { return Verdict{} }

// Suspend ends the run with the question open. It can be answered later and in another
// process: see [Result.Pending] and [Input.Decisions].
func Suspend() Verdict { return Verdict{kind: verdictSuspend} }

type verdictJSON struct {
	Kind   verdictKind     `json:"kind"`
	Reason string          `json:"reason,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Plan   *EditPlan       `json:"plan,omitempty"`
	// ReadOnly is the one of the grounds.
	ReadOnly bool `json:"read_only,omitempty"`
}

// MarshalJSON encodes v as {"kind", "reason", "args", "plan", "read_only"}.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(verdictJSON{v.kind, v.reason, v.args, v.plan, v.readOnly()})
}

// readOnly reports whether the call is allowed only because it changes nothing.
func (v Verdict) readOnly() bool { return v.kind == verdictAllow && v.why != nil && v.why.ReadOnly }

// held returns the verdict with ReadOnly set in its grounds.
func (v Verdict) held() Verdict {
	g := v.Grounds()
	g.ReadOnly = true
	return v.WithRationale(g)
}

// UnmarshalJSON decodes the output of [Verdict.MarshalJSON].
func (v *Verdict) UnmarshalJSON(data []byte) error {
	var w verdictJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode verdict: %w", err)
	}
	switch w.Kind {
	case verdictAsk, verdictAllow, verdictDeny, verdictSuspend:
		if string(w.Args) == "null" {
			w.Args = nil
		}
		*v = Verdict{kind: w.Kind, reason: w.Reason, args: w.Args, plan: w.Plan}
		if w.ReadOnly {
			*v = v.held()
		}
		return nil
	}
	return fmt.Errorf("decode verdict: no such kind: %q", w.Kind)
}

// DecidedBy says who decided about a call. Only [ByUser] means that somebody answered the
// question about this very call.
type DecidedBy string

// The possible deciders. Exactly one decides about a call.
const (
	// ByPolicy means that the [Approver] decided without the user, or that it denied the
	// arguments that the user had put in place of the model's.
	ByPolicy DecidedBy = "policy"
	// ByRule means that the decision came from a rule, which the user made in this session
	// with [ApprovalRequested.AllowFor].
	ByRule DecidedBy = "rule"
	// ByUser means that the question was answered: by a method of [ApprovalRequested] or
	// [Approval], or in [Input.Decisions].
	ByUser DecidedBy = "user"
	// ByIgnored means that the loop body returned without an answer and without
	// [ApprovalRequested.Detach]. The call is denied.
	ByIgnored DecidedBy = "ignored"
	// ByAbandoned means that the program lost the [Approval] of a detached question, so
	// nobody could answer it any more. The call is denied.
	ByAbandoned DecidedBy = "abandoned"
	// ByTimeout means that nobody answered within the time that [Limits] sets for an
	// approval. The call is denied.
	ByTimeout DecidedBy = "timeout"
)

// Decision is a verdict about one call, and who decided. It encodes as JSON, so that
// another process can send it to [Input.Decisions].
type Decision struct {
	CallID string `json:"call_id"`
	// Digest is the digest of the request that was shown. It ensures that the call that
	// runs is the one that was approved, and is required in [Input.Decisions].
	Digest  string  `json:"digest,omitempty"`
	Verdict Verdict `json:"verdict"`
	// By is not read in [Input.Decisions]: a user has decided.
	By DecidedBy `json:"by"`

	prepared *preparedCall // if it may run
}

// text returns what the model reads about a denial.
func (d *Decision) text() string {
	s := "denied"
	switch d.By {
	case ByUser:
		s = "the user refused this call"
	case ByIgnored, ByAbandoned, ByTimeout:
		s = "this call needs approval, and nobody gave it (" + string(d.By) + ")"
	}
	if d.By == ByPolicy && strings.HasPrefix(d.Verdict.reason, approvalRequired) {
		return runes.Shorten(runes.Clean(d.Verdict.reason), maxQuoted)
	}
	if d.Verdict.reason != "" {
		s += ": " + runes.Shorten(runes.Clean(d.Verdict.reason), maxQuoted)
	}
	return s
}

// Scope says how long an answer applies. Longer scopes make a [Rule], see
// [ApprovalRequested.AllowFor].
type Scope int

// The scopes of [ApprovalRequested.AllowFor].
const (
	// Once means that the answer applies to this call only, so the next call like it is
	// asked about again.
	Once Scope = iota
	// Session means that the answer applies as long as the [RuleKeeper] lives.
	Session
	// Saved means that the answer applies in later processes, too.
	Saved
)

// String returns "once", "session" or "saved".
func (s Scope) String() string {
	switch s {
	case Once:
		return "once"
	case Session:
		return "session"
	case Saved:
		return "saved"
	}
	return fmt.Sprintf("scope %d", int(s))
}

// This part asks before a call writes a file that runs code although nobody runs it by
// name, or one that tells agents what they may do. [ignore.Runs] has the list. Three
// checks enforce it, and each sees names that the one before cannot see:
//
//   - the verdict checks the names in the arguments: if a call is allowed by a rule
//     that does not name the file, the user is asked;
//   - the question checks the names in the plan, and says why it is asked;
//   - Workspace.Apply of package workspace checks the names on the disk, and writes no
//     such file without WithApproved.

// written returns the names of the files that a call writes, as far as its arguments show.
func written(call *ToolUse, spec *ToolSpec) []string {
	subject, ok := subjectOf(call, spec)
	return spec.written(subject, ok)
}

const maxReasons = 8 // in a question, of each kind

// named turns a verdict into a question if it allows files to be written that run code
// and that no rule names.
func (v Verdict) named(call *ToolUse, spec *ToolSpec) Verdict {
	if v.kind != verdictAllow || v.why != nil && v.why.Named {
		return v
	}
	if v.args != nil {
		call = &ToolUse{ID: call.ID, Name: call.Name, Args: v.args}
	}
	why := ignore.WhyRuns(written(call, spec), maxReasons)
	if why == nil {
		return v
	}
	g := v.Grounds()
	return Ask().WithRationale(Grounds{Class: g.Class, Reasons: append(slices.Clip(g.Reasons), why...)})
}
