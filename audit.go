package aycoder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/aycoder/aycoder/internal/runes"
)

// Auditor receives a record of everything that is asked, decided and done in a run: see
// [WithAudit]. The records of one run come one at a time and in order. Those of several runs may
// come at the same time, so Audit must be safe for concurrent use. Audit must return soon, at the
// latest when ctx is cancelled, and must not change the record.
//
// If Audit returns an error, the loop passes the same record again before the next one. Until
// Audit accepts the record, only read-only tools start. At most 4,096 records wait: the oldest of
// more are lost, as are those that Audit has not accepted at the end of the run.
type Auditor interface {
	Audit(ctx context.Context, rec *AuditRecord) error
}

// AuditKind says what an [AuditRecord] is about.
type AuditKind string

// The kinds of an [AuditRecord].
const (
	AuditRequest  AuditKind = "request"  // the user was asked about a call, or the run is suspended
	AuditDecision AuditKind = "decision" // a call was allowed, denied or suspended
	AuditRule     AuditKind = "rule"     // the user made a rule, or the rule could not be kept
	AuditEffect   AuditKind = "effect"   // a call has ended, or could not run
	AuditSecurity AuditKind = "security" // something was refused, masked or is missing, see Event
)

// AuditRecord is a record for an [Auditor]. It is plain data, and its JSON form is stable: fields
// may be added, but none changes its meaning. A record contains no output, and only a digest of
// the arguments. Subject is as the model wrote it, so it may contain a secret.
type AuditRecord struct {
	// Seq numbers the records of a run, from 1; it is 0 if the record is not of a run, as those of package server. A record that is passed again after an error of
	// the [Auditor] keeps its Seq.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	Kind AuditKind `json:"kind"`
	Place
	// Key is the Key of the [Action] that the record is about, such as "t1/tool/<call id>".
	Key    string `json:"key,omitempty"`
	CallID string `json:"id,omitempty"`
	Tool   string `json:"name,omitempty"`
	// Subject is what the call acts on, such as a path, cut to 4 KiB. Digest is the SHA-256 of
	// the arguments, in hexadecimal.
	Subject string `json:"subject,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Class, Rule and Reason say why the call was allowed or denied: see [Grounds] and [Deny].
	Class  string `json:"class,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Verdict is "allow", "deny" or "suspend". By says who decided. If the user made a rule,
	// Scope says how long it applies.
	Verdict string    `json:"verdict,omitempty"`
	By      DecidedBy `json:"by,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	// Outcome says how a call ended: "ok", "error", "not_run" or "abandoned". ErrorKind is a stable
	// word for the error, such as "timeout". Millis is how long the tool ran, in milliseconds.
	Outcome   string `json:"outcome,omitempty"`
	ErrorKind string `json:"error_kind,omitempty"`
	Millis    int64  `json:"ms,omitempty"`
	// Event names a security event: "denied", "protected_path", "untrusted_history", or an event
	// that a tool reported with [Invocation.Alert].
	Event string `json:"event,omitempty"`
	// Untrusted says that somebody unknown may have written the output, see [ToolResult].
	Untrusted bool `json:"untrusted,omitempty"`
}

// WithAudit adds an [Auditor], which receives a record of everything that is asked, decided and
// done in a run. A tool that may write starts only after its approval is recorded; one that only reads may
// start before. If recording
// fails, the tool does not run and the call ends with an [*AuditError]. An [Approver] that is an
// Auditor receives the records without this option. Default: no auditor.
func WithAudit(a Auditor) Option {
	return option("WithAudit", a != nil, "is nil", func(c *config) {
		c.watch()
		before := c.hooks.record
		c.hooks.record = func(r *run) recorder {
			t, ok := before(r).(*trail)
			if !ok {
				t = &trail{turn: semaphore.NewWeighted(1)}
			}
			t.sinks = append(t.sinks, sink{to: a})
			return t
		}
	})
}

// watch has the runs recorded, and approvals checked again before a call starts. Only options refer
// to this code, and no type of it is in config: programs without these options do not link it.
func (c *config) watch() {
	if c.hooks == nil {
		c.hooks = &hooks{newTrail, checkStart, Verdict.named}
	}
}

// AuditError reports that a call was not run because an [Auditor] could not record its approval.
type AuditError struct{ *ToolError }

// Error implements error.
func (e *AuditError) Error() string { return e.describe("not run, as its approval was not recorded") }

// Unwrap returns the embedded [*ToolError].
func (e *AuditError) Unwrap() error { return e.ToolError.base() }

// isSecurity reports whether error results of a kind are security events.
func isSecurity(kind string) bool {
	return slices.Contains([]string{"outside_workspace", "protected_path", "sensitive_path",
		"masked_secret", "blocked_address", "no_sandbox"}, kind)
}

// maxNotes bounds the records that wait while an auditor fails. The oldest are dropped first:
// only read-only tools start meanwhile.
const maxNotes = 4096

// A recorder notes what happens in a run and tells auditors. All methods but flush are called
// with the run's mutex held. A program without [Approver] and [Auditor] does not link one.
type recorder interface {
	// child returns the recorder of a run inside a call of this one, whose own may be nil.
	child(own recorder) recorder
	history(r *run, messages []*Message)
	asked(r *run, c *openQuestion)
	decided(r *run, call *ToolUse, v Verdict, by DecidedBy)
	ended(r *run, key string, call *ToolUse, fin *ToolFinished, outcome string)
	ruled(r *run, c *openQuestion, scope Scope, rule string, err error)
	listen(r *run, a *RunTool, inv *Invocation)
	// flush passes on what is noted; with last, at the end of a run, even after a cancel. It
	// returns an error if an auditor has not accepted everything yet.
	flush(ctx context.Context, r *run, last bool) error
}

// flush passes on what is noted. The mutex is not held.
func (r *run) flush(ctx context.Context) {
	if r.recorder != nil {
		_ = r.recorder.flush(ctx, r, false)
	}
}

// A trail is the only recorder: it keeps records until each auditor has accepted them.
type trail struct {
	notes []*AuditRecord // guarded by run.mu, as is seq
	seq   int64

	turn  *semaphore.Weighted // taken while somebody is told; run.mu is never held then
	sinks []sink
}

type sink struct {
	to    Auditor
	queue []*AuditRecord
}

// newTrail returns nil if the approver is not an auditor.
func newTrail(r *run) recorder {
	if a, ok := approverAs[Auditor](r.loop.approver); ok {
		return &trail{turn: semaphore.NewWeighted(1), sinks: []sink{{to: a}}}
	}
	return nil
}

func (t *trail) child(own recorder) recorder {
	c, ok := own.(*trail)
	if !ok {
		c = &trail{turn: semaphore.NewWeighted(1)}
	}
	for i := range t.sinks {
		to := t.sinks[i].to
		if !slices.ContainsFunc(c.sinks, func(s sink) bool { return sameAuditor(s.to, to) }) {
			c.sinks = append(c.sinks, sink{to: to})
		}
	}
	return c
}

// sameAuditor reports whether two auditors are one.
func sameAuditor(a, b Auditor) bool { return reflect.TypeOf(a).Comparable() && a == b }

func (t *trail) note(r *run, kind AuditKind, call *ToolUse, rec AuditRecord) {
	t.seq++
	rec.Seq, rec.Time, rec.Kind, rec.Place = t.seq, r.loop.clock.Now(), kind, r.place()
	if call != nil {
		sum := sha256.Sum256(call.Args)
		rec.CallID, rec.Tool, rec.Digest = call.ID, call.Name, hex.EncodeToString(sum[:])
		rec.Subject = runes.Shorten(runes.Clean(r.setup.Load().subject(call)), 4<<10)
	}
	rec.Reason = runes.Shorten(runes.Clean(rec.Reason), 1<<10)
	if len(t.notes) == maxNotes {
		t.notes = t.notes[1:]
	}
	t.notes = append(t.notes, &rec)
}

// decided records what was decided about a call.
func (t *trail) decided(r *run, call *ToolUse, v Verdict, by DecidedBy) {
	key, g := r.state.ask(r.state.find(call.ID)).Key(), v.Grounds()
	rec := AuditRecord{
		Key: key, Verdict: verdictNames[v.kind], By: by, Class: g.Class, Rule: g.Rule, Reason: v.reason,
	}
	if rec.Reason == "" {
		rec.Reason = strings.Join(g.Reasons, "; ")
	}
	if v.args != nil {
		call = &ToolUse{ID: call.ID, Name: call.Name, Args: v.args}
	}
	t.note(r, AuditDecision, call, rec)
	if v.kind == verdictDeny && by == ByPolicy {
		t.note(r, AuditSecurity, call,
			AuditRecord{Key: key, Event: "denied", Rule: g.Rule, Class: g.Class})
	}
}

// ended records how a call ended, also one that did not run.
func (t *trail) ended(r *run, key string, call *ToolUse, fin *ToolFinished, outcome string) {
	if key == "" {
		key = r.state.runTool(r.state.find(call.ID)).Key()
	}
	kind := errorKind(fin)
	switch {
	case outcome != "":
	case fin.Output.IsError:
		outcome = "error"
	default:
		outcome = "ok"
	}
	t.note(r, AuditEffect, call, AuditRecord{
		Key: key, Outcome: outcome, ErrorKind: kind, Millis: fin.Elapsed.Milliseconds(),
		Untrusted: fin.Output.Untrusted,
	})
	if isSecurity(kind) {
		t.note(r, AuditSecurity, call, AuditRecord{Key: key, Event: kind})
	}
}

// history notes that the conversation has untrusted content, which an earlier run took in.
func (t *trail) history(r *run, messages []*Message) {
	for _, m := range messages {
		if slices.ContainsFunc(m.Parts, taints) {
			t.note(r, AuditSecurity, nil, AuditRecord{Event: "untrusted_history", Untrusted: true})
			return
		}
	}
}

// taints reports whether a part is of an untrusted source, or marks a message that has taken the place
// of such parts.
func taints(p Part) bool {
	switch p := p.(type) {
	case *ToolOutput:
		return p.Untrusted
	case *Opaque:
		var m mark
		return p.Provider == markProvider && json.Unmarshal(p.Raw, &m) == nil && m.Untrusted
	}
	return false
}

// asked records that a question is asked.
func (t *trail) asked(r *run, c *openQuestion) {
	t.note(r, AuditRequest, c.call, AuditRecord{
		Key: c.req.Key, Class: c.req.Class, Reason: strings.Join(c.req.Reasons, "; "),
	})
}

// ruled records that a user made a rule, or could not.
func (t *trail) ruled(r *run, c *openQuestion, scope Scope, rule string, err error) {
	rec := AuditRecord{
		Key: c.req.Key, Verdict: verdictNames[verdictAllow], By: ByUser, Rule: rule, Scope: scope.String(),
		Outcome: "ok",
	}
	if err != nil {
		rec.Outcome, rec.Reason = "error", err.Error()
	}
	t.note(r, AuditRule, c.call, rec)
}

// listen lets a tool report security events while it works.
func (t *trail) listen(r *run, a *RunTool, inv *Invocation) {
	inv.alert = func(event, detail string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.stopping && slices.Contains(r.running, a) {
			t.note(r, AuditSecurity, a.Call, AuditRecord{Key: a.Key(), Event: event, Reason: detail})
		}
	}
}

// errorKind is the stable word for what went wrong, or "".
func errorKind(fin *ToolFinished) string {
	switch fin.Err.(type) {
	case nil:
	case *ToolCancelledError:
		return "cancelled"
	case *ToolTimeoutError:
		return "timeout"
	case *ToolPanicError:
		return "panic"
	case *ToolArgsError:
		return "invalid_arguments"
	case *ToolNotFoundError:
		return "no_such_tool"
	case *AuditError:
		return "not_recorded"
	case *StaleApprovalError:
		return "stale_approval"
	}
	if !fin.Output.IsError {
		return ""
	}
	kind, _, ok := strings.Cut(fin.Output.Text(), ":")
	if !ok || len(kind) > 40 || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "error"
	}
	return kind
}

func (t *trail) flush(ctx context.Context, r *run, last bool) error {
	if last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer r.loop.clock.AfterFunc(r.setup.Load().Limits.Grace, cancel)()
	}
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.turn.Release(1)
	r.mu.Lock()
	notes := t.notes
	t.notes = nil
	r.mu.Unlock()
	var errs []error
	for i := range t.sinks {
		errs = append(errs, t.sinks[i].tell(ctx, notes))
	}
	err := errors.Join(errs...)
	if err != nil && last {
		r.loop.log(ctx, slog.LevelError, "records of a run were not kept", "run", r.id, "err", err)
	}
	return err
}

func (s *sink) tell(ctx context.Context, notes []*AuditRecord) error {
	s.queue = append(s.queue, notes...)
	for len(s.queue) > 0 {
		if err := audit(ctx, s.to, s.queue[0]); err != nil {
			s.queue = s.queue[max(0, len(s.queue)-maxNotes):]
			return err
		}
		s.queue = s.queue[1:]
	}
	s.queue = nil
	return nil
}

func audit(ctx context.Context, a Auditor, rec *AuditRecord) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("auditor panicked: %v", p)
		}
	}()
	return a.Audit(ctx, rec)
}
