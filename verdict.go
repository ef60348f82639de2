package aycoder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder/internal/ignore"
	"github.com/aycoder/aycoder/internal/patch"
	"github.com/aycoder/aycoder/internal/runes"
)

// What a policy says about a call, on what grounds, and who may decide.

// Approver decides about a call before it runs: it is the policy. It is asked once
// for each call, and again for arguments that a user edited, and for a command that it
// allowed and that would start in another folder by now; for read-only tools while the
// model is still talking. It may take its time, until ctx is cancelled.
// It is safe for concurrent use. [Rules] is one.
//
// Optional abilities of an Approver are interfaces of their own: [RuleKeeper] and
// [Auditor]. One that wraps another has a method Unwrap() Approver, by which they are
// found.
type Approver interface {
	Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict
}

// ApproverFunc is a function that is an [Approver].
type ApproverFunc func(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict

// Decide calls f.
func (f ApproverFunc) Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	return f(ctx, call, spec)
}

// SuspendAsks is for runs that nobody watches: what a would ask about is suspended,
// so that the run ends with [Result.Pending] instead of a denial.
func SuspendAsks(a Approver) Approver {
	return &asker{a, func(v Verdict, _ *ToolUse, _ *ToolSpec) Verdict {
		return Verdict{kind: verdictSuspend, why: v.why}
	}}
}

// DenyAsks is for runs that nobody watches and that are to go on: what a would ask
// about is denied, with a text of kind "approval_required" that names the rule which
// would allow it.
func DenyAsks(a Approver) Approver { return &asker{a, headless} }

func headless(v Verdict, call *ToolUse, spec *ToolSpec) Verdict {
	g := v.Grounds()
	why := approvalRequired + ": nobody can be asked here"
	if len(g.Reasons) > 0 {
		why += " (" + strings.Join(g.Reasons, ", ") + ")"
	}
	if g.Suggested == nil {
		g.Suggested = suggest(call, spec)
	}
	if len(g.Suggested) > 0 {
		why += "; the host can allow it with the rule " + g.Suggested[0].String()
	}
	return Verdict{kind: verdictDeny, reason: why, why: v.why}
}

const approvalRequired = "approval_required"

// An asker is an approver whose questions are answered by a function.
type asker struct {
	Approver
	answer func(v Verdict, call *ToolUse, spec *ToolSpec) Verdict
}

func (a *asker) Decide(ctx context.Context, call *ToolUse, spec *ToolSpec) Verdict {
	v := a.Approver.Decide(ctx, call, spec).named(call, spec)
	if v.kind == verdictAsk {
		return a.answer(v, call, spec)
	}
	return v
}

func (a *asker) Unwrap() Approver { return a.Approver }

// approverAs returns a, or what it wraps, as a T.
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

// RuleKeeper is an optional ability of an [Approver]: it keeps the rules that users
// make with [ApprovalRequested.AllowFor], and decides by them from then on. KeepRule
// returns when the rule holds, with scope [Saved] also for the next process; an error
// says that it does not. It is safe for concurrent use.
type RuleKeeper interface {
	KeepRule(ctx context.Context, scope Scope, rule Rule) error
}

// RuleError says that a rule was not made. The call that it was to be made for is
// allowed all the same.
type RuleError struct {
	Rule  Rule
	Scope Scope
	Err   error
}

// Error implements error.
func (e *RuleError) Error() string {
	return fmt.Sprintf("keep rule %s (%s): %v", runes.Shorten(e.Rule.String(), 500), e.Scope, e.Err)
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }

type verdictKind string

const (
	verdictAsk     verdictKind = "" // the zero Verdict asks
	verdictAllow   verdictKind = "allow"
	verdictDeny    verdictKind = "deny"
	verdictSuspend verdictKind = "suspend"
)

// Verdict is what an [Approver] says: made by [Allow], [AllowWith], [Deny], [Ask]
// or [Suspend]. The zero value asks. It encodes as JSON, of its [Grounds] with ReadOnly
// alone.
type Verdict struct {
	kind   verdictKind
	reason string
	args   json.RawMessage
	plan   *EditPlan
	why    *Grounds
}

// Grounds are what a [Verdict] rests on: for whoever is asked, and for the audit log.
type Grounds struct {
	// Class says how far the call reaches, such as "network", in the words of the
	// [Approver].
	Class string
	// Reasons say what made it that class, or why there is a question: "writes out.txt".
	Reasons []string
	// Rule is the rule that decided, as [Rule.String] writes it.
	Rule string
	// Named says that the rule names the files that the call writes. Of those that run
	// code though nobody runs them by name, see [Workspace], the loop asks about any call
	// that is allowed without it, whatever the [Approver] is.
	Named bool
	// Suggested are rules that would answer the question from now on, the narrowest
	// first. Nil leaves them to the loop; none is an empty list.
	Suggested []Rule
	// ReadOnly says that the call is allowed only because it changes nothing, and by no
	// rule: the tool then holds the call to that where it can, see [Invocation]. It means
	// nothing unless the verdict allows the call.
	ReadOnly bool
}

// WithRationale returns the verdict with what it rests on.
func (v Verdict) WithRationale(g Grounds) Verdict {
	v.why = &g
	return v
}

// Grounds returns what the verdict rests on, as far as it says.
func (v Verdict) Grounds() Grounds {
	if v.why == nil {
		return Grounds{}
	}
	return *v.why
}

// Allow lets a call run.
func Allow() Verdict { return Verdict{kind: verdictAllow} }

// AllowWith lets a call run with other arguments. They are checked against the
// tool's schema, and the model is told.
func AllowWith(args json.RawMessage) Verdict {
	return Verdict{kind: verdictAllow, args: append(json.RawMessage{}, args...)}
}

// unless is the verdict about a call with certain arguments: those that it gives only
// count if they are others.
func (v Verdict) unless(args json.RawMessage) Verdict {
	if v.args != nil && sameJSON(v.args, args) {
		v.args = nil
	}
	return v
}

// sameJSON reports whether two texts without duplicate keys say the same, whatever the
// order of their keys and their white space.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	return reflect.DeepEqual(decoded(a), decoded(b)) && json.Valid(a)
}

func decoded(text json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number has all its digits
	_ = d.Decode(&v)
	return v
}

// AllowPlan lets a call make a plan that is what is left of [ApprovalRequest.Plan]
// after a review: [EditPlan.Keep], [EditPlan.WithProposed]. The model is told what is
// not in it. It answers a question, in [Input.Decisions]; an [Approver] that gives it
// has not seen the plan, and denies the call.
func AllowPlan(plan EditPlan) Verdict { return Verdict{kind: verdictAllow, plan: &plan} }

// Deny refuses a call. The reason goes to the model.
func Deny(reason string) Verdict { return Verdict{kind: verdictDeny, reason: reason} }

// Ask leaves it to whoever reads the events: see [ApprovalRequested].
func Ask() Verdict { return Verdict{} }

// Suspend ends the run with the question open, to be answered later and elsewhere:
// see [Result.Pending] and [Input.Decisions].
func Suspend() Verdict { return Verdict{kind: verdictSuspend} }

type verdictJSON struct {
	Kind   verdictKind     `json:"kind"`
	Reason string          `json:"reason,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Plan   *EditPlan       `json:"plan,omitempty"`
	// ReadOnly is that of the grounds.
	ReadOnly bool `json:"read_only,omitempty"`
}

// MarshalJSON encodes v as {"kind", "reason", "args", "plan", "read_only"}.
func (v Verdict) MarshalJSON() ([]byte, error) {
	return json.Marshal(verdictJSON{v.kind, v.reason, v.args, v.plan, v.readOnly()})
}

// readOnly reports whether the call is allowed only because it changes nothing.
func (v Verdict) readOnly() bool { return v.kind == verdictAllow && v.why != nil && v.why.ReadOnly }

// held returns the verdict with ReadOnly among its grounds.
func (v Verdict) held() Verdict {
	g := v.Grounds()
	g.ReadOnly = true
	return v.WithRationale(g)
}

// UnmarshalJSON decodes what [Verdict.MarshalJSON] wrote.
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

// DecidedBy says who decided about a call.
type DecidedBy string

// Who can decide. Exactly one does.
const (
	ByPolicy    DecidedBy = "policy"    // the Approver
	ByRule      DecidedBy = "rule"      // a rule that the user made in this session
	ByUser      DecidedBy = "user"      // a method of ApprovalRequested or Approval, or Input.Decisions
	ByIgnored   DecidedBy = "ignored"   // the loop body returned without an answer
	ByAbandoned DecidedBy = "abandoned" // the detached handle was lost
	ByTimeout   DecidedBy = "timeout"   // Limits.Approval
)

// Decision is a verdict about one call, and whose it is.
type Decision struct {
	CallID string `json:"call_id"`
	// Digest is that of the request that was shown: what runs is what was approved.
	Digest  string    `json:"digest,omitempty"`
	Verdict Verdict   `json:"verdict"`
	By      DecidedBy `json:"by"`
}

// text is what the model reads of a denial.
func (d *Decision) text() string {
	s := "denied"
	switch d.By {
	case ByUser:
		s = "the user refused this call"
	case ByIgnored, ByAbandoned, ByTimeout:
		s = "this call needs approval, and nobody gave it (" + string(d.By) + ")"
	}
	if d.By == ByPolicy && strings.HasPrefix(d.Verdict.reason, approvalRequired) {
		return runes.Shorten(cleanText(d.Verdict.reason), maxQuoted)
	}
	if d.Verdict.reason != "" {
		s += ": " + runes.Shorten(cleanText(d.Verdict.reason), maxQuoted)
	}
	return s
}

// Scope says how long an answer holds.
type Scope int

// The scopes of [ApprovalRequested.AllowFor].
const (
	Once    Scope = iota // this call
	Session              // as long as the Loop or the [RuleKeeper] lives
	Saved                // for the next process, too; a [RuleKeeper] can do that
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

// This file keeps files that run code though nobody runs them by name, and those that
// tell agents what they may do, from being written unasked. The list is [ignore.Runs].
// Three places hold to it, each for what the one before cannot see:
//
//   - [Rule.Covers] and the verdict: what is allowed without naming such a file is asked
//     about, by the names in the arguments;
//   - the question: it says why, by the names in the plan;
//   - Workspace.Apply of package workspace: it writes none without WithApproved, by the names on the disk.

// written returns the names of the files that a call writes, as far as its arguments say.
func written(call *ToolUse, spec *ToolSpec) []string {
	subject, ok := subjectOf(call, spec)
	switch {
	case !ok || spec.Effect == EffectReadOnly:
		return nil
	case spec.Subject.Kind == SubjectPath:
		return []string{subject}
	case spec.Subject.Kind == SubjectPatch:
		names, _ := patch.Paths(subject)
		return names
	}
	return nil
}

// runsCode returns those of the files that run code, with the reasons, and nil if there
// is none.
func runsCode(names []string) []string {
	var why []string
	for _, name := range names {
		if w := ignore.Runs(name); w != "" && len(why) < maxReasons {
			why = append(why, "writes "+runes.Path(name)+": "+w)
		}
	}
	return why
}

const maxReasons = 8 // of one kind, in a question

// named makes a question of a verdict that allows files to be written which it does not
// name.
func (v Verdict) named(call *ToolUse, spec *ToolSpec) Verdict {
	if v.kind != verdictAllow || v.why != nil && v.why.Named {
		return v
	}
	if v.args != nil {
		call = &ToolUse{ID: call.ID, Name: call.Name, Args: v.args}
	}
	why := runsCode(written(call, spec))
	if why == nil {
		return v
	}
	g := v.Grounds()
	return Ask().WithRationale(Grounds{Class: g.Class, Reasons: append(slices.Clip(g.Reasons), why...)})
}

// allNamed marks what a rule allows: it names what it covers, see [Rule.Covers].
func (v Verdict) allNamed(call *ToolUse, spec *ToolSpec) Verdict {
	if v.kind == verdictAllow && runsCode(written(call, spec)) != nil {
		return v.WithRationale(Grounds{Named: true})
	}
	return v
}
