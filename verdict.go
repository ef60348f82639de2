package aycoder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/runes"
)

// This file has the decisions about calls: the verdict of a policy, its grounds, the rules
// that users make with an answer, and who decided.

// Approver decides whether a call may run. The loop asks Decide about each call before it runs.
// It asks again if the user edits the arguments or makes a rule, if the call is in a resumed run,
// and if the directory in which an allowed command would start has changed. Calls of read-only
// tools are decided while the model is still writing its message. Decide may take its time, but
// must return when ctx is cancelled. It must be safe for concurrent use. Package policy has an
// Approver that decides by rules.
//
// An Approver may also implement the optional interfaces [RuleKeeper] and [Auditor]. If it wraps
// another Approver, it should have a method Unwrap() Approver that returns the other, so that the
// loop finds the interfaces of the other.
type Approver interface {
	Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict
}

// ApproverFunc is an adapter to use a function as an [Approver].
type ApproverFunc func(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict

// Decide calls f.
func (f ApproverFunc) Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	return f(ctx, call, spec)
}

// SuspendAsks returns an Approver that decides like the Approver a, but suspends the run instead
// of asking the user. It is for runs that nobody watches. A suspended run ends, with its
// questions in [Result.Pending]. If a is a [RuleKeeper] or [Auditor], it keeps that role.
func SuspendAsks(a Approver) Approver {
	return &asker{a, func(v Verdict) Verdict {
		return Verdict{kind: verdictSuspend, why: v.why}
	}}
}

// DenyAsks returns an Approver that decides like the Approver a, but denies the call instead of
// asking the user. It is for runs that nobody watches and that should go on. The model reads an
// error of the kind "approval_required". If a rule would allow the call, the error names it.
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

// RuleKeeper is an optional interface of an [Approver] that keeps the rules of users. The loop
// calls KeepRule when the user answers with [ApprovalRequested.AllowFor]. The rule is a text from
// Suggested of an Approver's [Grounds], and says which calls to allow. When KeepRule returns nil,
// the rule is in force and, for the scope [Saved], also stored for later processes. If KeepRule
// returns an error, the rule must not be in force. KeepRule must be safe for concurrent use.
type RuleKeeper interface {
	KeepRule(ctx context.Context, scope Scope, rule string) error
}

// RuleError reports that a [RuleKeeper] could not keep a rule. The call that the user allowed
// with this rule runs all the same.
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

// AllowFor lets the call run. With the scope [Session] or [Saved], it also gives rule, one of
// Request.Suggested, to the [RuleKeeper]. From then on, the rule answers similar questions,
// including open ones. If the question was answered before, the error is [ErrDecided] and no rule
// is made. If the rule could not be kept, the error is a [*RuleError], but the call is allowed.
// If the rule or scope is not valid or the [Approver] is not a RuleKeeper, the error is a
// [*ConfigError] and the question stays open.
func (a *ApprovalRequested) AllowFor(scope Scope, rule string) error {
	return a.question.allowFor(scope, rule)
}

var (
	errNotSuggested = errors.New("rule is not one of the suggested")
	errNoKeeper     = errors.New("the approver keeps no rules")
)

func (q *openQuestion) allowFor(scope Scope, rule string) error {
	switch {
	case scope == Once, q == nil:
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

// makeRule gives a user's rule to the keepers of the question's run and of the runs around it.
func (r *run) makeRule(q *openQuestion, scope Scope, rule string) error {
	var errs []error
	for o := r; o != nil; o = o.parent {
		if k, ok := approverAs[RuleKeeper](o.loop.approver); ok {
			errs = append(errs, keepRule(r.work, k, scope, rule)) // the runs around one in the background may be over
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

// keepRule calls KeepRule. If that panics, the rule is not kept.
func keepRule(ctx context.Context, k RuleKeeper, scope Scope, rule string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rule keeper panicked: %v", p)
		}
	}()
	return k.KeepRule(ctx, scope, rule)
}

// reconsider asks the policy once more about the questions that are open. The user still answers about
// a file that runs code, unless the rule names it.
func (r *run) reconsider() {
	r.mu.Lock()
	open := slices.Collect(maps.Values(r.open))
	r.mu.Unlock()
	for _, q := range open {
		v := r.policy(q.preparedCall)
		runs := q.req.Plan != nil && reasonsOf(*q.req.Plan, nil) != nil
		if v.kind == verdictAllow && v.args == nil && (!runs || v.Grounds().Named) {
			_ = q.answer(v, ByRule)
		}
	}
}

type verdictKind uint8

const (
	verdictAsk verdictKind = iota // the zero Verdict asks
	verdictAllow
	verdictDeny
	verdictSuspend
)

// verdictNames are the kinds in JSON, in their order.
var verdictNames = [...]string{"", "allow", "deny", "suspend"}

// Verdict is the answer of an [Approver] or a user about a call. [Allow], [AllowWith],
// [AllowPlan], [Deny], [Ask] and [Suspend] make one. The zero value asks the user. The JSON form
// of a Verdict includes ReadOnly of its [Grounds], but not their other fields.
type Verdict struct {
	kind   verdictKind
	reason string
	args   json.RawMessage
	plan   *edit.Plan
	why    *Grounds
}

// Grounds explain a [Verdict] to the user who is asked, and in the audit log.
type Grounds struct {
	// Class is the name of a class of calls that the [Approver] defines, for example "network".
	Class string
	// Reasons say why the call is of Class, or why the user is asked, such as "writes out.txt".
	Reasons []string
	// Rule is the rule that decided, as a text for users and logs. It is "" if no rule did.
	Rule string
	// Named says that Rule names the files that the call writes, or that they are the tool's own (see
	// File of [Subject]) and the [Approver] lets it write them. This matters for files that run code by
	// themselves, such as git hooks (see package workspace): if Named is false, the loop asks the user
	// before such a file is written, even if the Approver allows the call.
	Named bool
	// Suggested are rules that would allow this call and similar ones from now on, the narrowest
	// first, in the form that [RuleKeeper] takes. It is empty if there are no such rules.
	Suggested []string
	// ReadOnly says that the call is allowed only because it changes nothing, and not by a rule.
	// The tool then prevents writing if it can, see [Invocation].ReadOnly. In a verdict that does
	// not allow the call, ReadOnly has no effect.
	ReadOnly bool
}

// WithRationale returns a copy of v with the grounds g.
func (v Verdict) WithRationale(g Grounds) Verdict {
	v.why = &g
	return v
}

// Grounds returns the grounds that [Verdict.WithRationale] has set, or else the zero Grounds.
//
//go:noinline
func (v Verdict) Grounds() Grounds {
	if v.why == nil {
		return Grounds{}
	}
	return *v.why
}

// Allows reports whether the verdict lets the call run unchanged, as that of [Allow] does.
func (v Verdict) Allows() bool { return v.kind == verdictAllow && v.args == nil && v.plan == nil }

// Allow returns a verdict that lets a call run unchanged, with the arguments and plan as shown.
func Allow() Verdict { return Verdict{kind: verdictAllow} }

// AllowWith returns a verdict that lets a call run with other arguments. They are checked against
// the tool's schema, and the model is told about them.
func AllowWith(args json.RawMessage) Verdict {
	return Verdict{kind: verdictAllow, args: append(json.RawMessage{}, args...)}
}

// AllowPlan returns a verdict that lets a call carry out a reviewed plan. It is for
// [Input.Decisions]. plan is the result of a review of [ApprovalRequest.Plan], for example with
// [edit.Plan.Keep] or [edit.Plan.WithProposed]. The model is told what the review removed. If an
// [Approver] returns this verdict, the call is denied, since no plan was shown to the Approver.
func AllowPlan(plan edit.Plan) Verdict { return Verdict{kind: verdictAllow, plan: &plan} }

// Deny returns a verdict that refuses a call. The run goes on: the model reads the reason as the
// output of the call, and may try something else.
func Deny(reason string) Verdict { return Verdict{kind: verdictDeny, reason: reason} }

// Ask returns a verdict that leaves the decision to the reader of the events, who gets an
// [ApprovalRequested]. It is the zero Verdict.
func Ask() Verdict { return Verdict{} }

// Suspend returns a verdict that ends the run with the question open. The question can be
// answered later and in another process: see [Result.Pending] and [Input.Decisions].
func Suspend() Verdict { return Verdict{kind: verdictSuspend} }

type verdictJSON struct {
	Kind   string          `json:"kind"`
	Reason string          `json:"reason,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Plan   *edit.Plan      `json:"plan,omitempty"`
	// ReadOnly is true if the verdict allows the call and its [Grounds] have ReadOnly set.
	ReadOnly bool `json:"read_only,omitempty"`
}

// MarshalJSON encodes v with the keys "kind", "reason", "args", "plan" and "read_only".
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(verdictJSON{verdictNames[v.kind], v.reason, v.args, v.plan, v.readOnly()})
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
	if string(w.Args) == "null" {
		w.Args = nil
	}
	next, err := w.verdict()
	if err == nil {
		*v = next
	}
	return err
}

func (w *verdictJSON) verdict() (Verdict, error) {
	kind := slices.Index(verdictNames[:], w.Kind)
	if kind < 0 {
		return Verdict{}, fmt.Errorf("decode verdict: no such kind: %q", w.Kind)
	}
	v := Verdict{kind: verdictKind(kind), reason: w.Reason, args: w.Args, plan: w.Plan}
	if w.ReadOnly {
		v = v.held()
	}
	return v, nil
}

// DecidedBy says who decided about a call. Only [ByUser] means that somebody answered the
// question about this very call.
type DecidedBy string

// The possible deciders. Exactly one decides about a call.
const (
	// ByPolicy means that the [Approver] decided without the user, or that it denied arguments
	// that the user had edited.
	ByPolicy DecidedBy = "policy"
	// ByRule means that a rule answered the question while it was open. The user had made the
	// rule with [ApprovalRequested.AllowFor] in answer to another question.
	ByRule DecidedBy = "rule"
	// ByUser means that a person answered the question: with a method of [ApprovalRequested] or
	// [Approval], or in [Input.Decisions].
	ByUser DecidedBy = "user"
	// ByIgnored means that the loop body neither answered the question nor called
	// [ApprovalRequested.Detach]. The call is denied.
	ByIgnored DecidedBy = "ignored"
	// ByAbandoned means that the program called Detach of [ApprovalRequested], but then kept no
	// reference to the [Approval], so nobody could answer the question. The call is denied.
	ByAbandoned DecidedBy = "abandoned"
	// ByTimeout means that nobody answered within [Limits].Approval. The call is denied.
	ByTimeout DecidedBy = "timeout"
)

// Decision is a verdict about one call, together with the decider. It encodes as JSON, so that
// another process can send it to [Input.Decisions].
type Decision struct {
	CallID string `json:"call_id"`
	// Digest is the Digest of the [ApprovalRequest] that was shown. [Input.Decisions] requires
	// it, so that only the approved call runs.
	Digest  string  `json:"digest,omitempty"`
	Verdict Verdict `json:"verdict"`
	// By says who decided. It is ignored in [Input.Decisions], since these come from the user.
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

// Scope says how long the answer to a question applies. A scope longer than [Once] makes a rule,
// see [ApprovalRequested.AllowFor].
type Scope int

// The scopes of [ApprovalRequested.AllowFor].
const (
	// Once means that the answer applies to this call only, and not to the next call like it.
	Once Scope = iota
	// Session means that the answer applies for the life of the [RuleKeeper], usually the process.
	Session
	// Saved means that the answer also applies in later processes.
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
