package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
)

// An answer is the body of POST /api/runs/{run}/approvals/{call}. Digest is that of the question, so that nothing else is
// decided about than what was shown.
type answer struct {
	Decision string    `json:"decision"` // "allow" or "deny"
	Digest   string    `json:"digest"`
	Reason   string    `json:"reason,omitempty"` // of deny
	Args     arguments `json:"args,omitempty"`   // of allow, in place of those of the model
	Rule     string    `json:"rule,omitempty"`   // of allow, for the rest of the session: one of those that are suggested
}

// arguments replace those of the model. JSON's null is none, as if they were missing.
type arguments json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (a *arguments) UnmarshalJSON(data []byte) error {
	if *a = nil; string(data) != "null" {
		*a = append(arguments{}, data...)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (a arguments) MarshalJSON() ([]byte, error) { return json.RawMessage(a).MarshalJSON() }

// approve answers a question.
func (s *Server) approve(w http.ResponseWriter, r *http.Request) error {
	var a answer
	if err := decode(r, &a); err != nil {
		return err
	}
	if a.Decision != "allow" && a.Decision != "deny" || a.Digest == "" {
		return invalid(`the body needs a decision, "allow" or "deny", and the digest of the question`)
	}
	return s.tellRun(w, r, said{call: r.PathValue("call"), digest: a.Digest, answer: &a})
}

// A said is what a client says about a call: the answer to the question, or the result. With both, it is what the call
// waits for.
type said struct {
	call, digest string

	answer *answer
	result *aycoder.ToolResult
}

// tellRun tells a run what the body of a request says.
func (s *Server) tellRun(w http.ResponseWriter, r *http.Request, what said) error {
	id, run, ok := splitRun(r.PathValue("run"))
	if !ok {
		return notFound()
	}
	c, err := s.open(r.Context(), principalOf(r), id, "")
	if err != nil {
		return err
	}
	defer s.release(c)
	if _, err := s.tell(r, c, run, what); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// tell tells a run what a client says, and goes on with it if its process has ended. If none of the calls waits for what
// is said about it, the error is that of decided.
func (s *Server) tell(r *http.Request, c *conversation, run string, all ...said) (*run, error) {
	x, err := s.tellSuspended(r, c, run, all)
	if x != nil || err != nil {
		return x, err
	}
	c.mu.Lock()
	again := c.asksAgain(run)
	x, err = c.find(r, run)
	c.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		return nil, decided()
	}
	given := 0
	for _, a := range all {
		if again[a.call] {
			x.awaitQuestion(r.Context(), a.call)
		}
		switch err := s.give(r, x, a); {
		case err == nil:
			given++
		case problemOf(err).Kind != "decided":
			return nil, err
		}
	}
	if given == 0 {
		return nil, decided()
	}
	return x, nil
}

// asksAgain returns the calls about which the pending run asks again when it goes on. The mutex is held.
func (c *conversation) asksAgain(run string) map[string]bool {
	p := c.rt.Session.Pending()
	if p == nil || p.Run != run {
		return nil
	}
	calls := map[string]bool{}
	for _, a := range p.State.Outstanding() {
		if q, ok := a.(*aycoder.AskApproval); ok {
			calls[q.Call.ID] = true
		}
	}
	for _, q := range p.State.OpenCalls() {
		calls[q.CallID] = true
	}
	return calls
}

// give tells a run that works what a client says about a call.
func (s *Server) give(r *http.Request, x *run, a said) error {
	if o := x.requested(a.call, a.digest); o != nil && a.result != nil {
		return o.Answer(a.result)
	}
	q := x.asked(a.call, a.digest)
	if q == nil || a.answer == nil {
		return decided()
	}
	if err := a.answer.give(q); err != nil {
		return err
	}
	s.decided(r, x, q.Request, a.answer.Decision)
	return nil
}

// tellSuspended tells a run that was suspended what a client says, and goes on with it. It returns nil if the run is not
// suspended, or waits for nothing of that.
func (s *Server) tellSuspended(r *http.Request, c *conversation, run string, all []said) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.rt.Session.Pending()
	if p == nil || p.Run != run {
		return nil, nil
	}
	var in aycoder.Input
	answered := map[*aycoder.ApprovalRequest]string{}
	for _, a := range all {
		for i := range p.Requests {
			q := &p.Requests[i]
			if a.answer == nil || q.CallID != a.call || q.Digest != a.digest {
				continue
			}
			d := aycoder.Decision{CallID: q.CallID, Digest: q.Digest}
			var err error
			if d.Verdict, err = a.answer.verdict(r.Context(), c, q); err != nil {
				return nil, err
			}
			in.Decisions = append(in.Decisions, d)
			answered[q] = a.answer.Decision
		}
		for i := range p.Calls {
			if q := &p.Calls[i]; a.result != nil && q.CallID == a.call && q.Digest == a.digest {
				in.Results = append(in.Results, q.Result(a.result))
			}
		}
	}
	if len(in.Decisions)+len(in.Results) == 0 {
		return nil, nil
	}
	x, err := c.resume(r.Context(), in)
	if err != nil {
		return nil, err
	}
	for q, verdict := range answered {
		s.decided(r, x, q, verdict)
	}
	return x, nil
}

// verdict returns the verdict about a question of a suspended run. A rule is kept before the run goes on.
func (a *answer) verdict(ctx context.Context, c *conversation, q *aycoder.ApprovalRequest) (aycoder.Verdict, error) {
	switch {
	case a.Decision == "deny":
		return aycoder.Deny(cmp.Or(a.Reason, saidNo)), nil
	case a.Args != nil:
		return aycoder.AllowWith(json.RawMessage(a.Args)), nil
	case a.Rule == "":
		return aycoder.Allow(), nil
	case !slices.Contains(q.Suggested, a.Rule):
		return aycoder.Verdict{}, notKept("rule is not one of the suggested")
	}
	for p := c.rt.Approver; p != nil; {
		if k, ok := p.(aycoder.RuleKeeper); ok {
			if err := k.KeepRule(ctx, aycoder.Session, a.Rule); err != nil {
				return aycoder.Verdict{}, notKept(err.Error())
			}
			return aycoder.Allow(), nil
		}
		w, ok := p.(interface{ Unwrap() aycoder.Approver })
		if !ok {
			break
		}
		p = w.Unwrap()
	}
	return aycoder.Verdict{}, notKept("the approver keeps no rules")
}

const saidNo = "the user said no"

func notKept(why string) *problem { return refuse(http.StatusUnprocessableEntity, "answer", why) }

func decided() *problem {
	return refuse(http.StatusConflict, "decided", "no such question of this run is open: it was answered, the run is over, or the digest is another one")
}

func (a *answer) give(q *aycoder.Approval) error {
	won := true
	var err error
	switch {
	case a.Decision == "deny":
		won = q.Deny(cmp.Or(a.Reason, saidNo))
	case a.Args != nil:
		err = q.AllowWith(json.RawMessage(a.Args))
	case a.Rule != "":
		err = q.AllowFor(aycoder.Session, a.Rule)
	default:
		won = q.Allow()
	}
	switch {
	case !won:
		return decided()
	case err != nil && problemOf(err).Kind == "internal": // a rule that the policy does not take
		return notKept(err.Error())
	}
	return err
}

// decided tells the audit log who has answered.
func (s *Server) decided(r *http.Request, x *run, q *aycoder.ApprovalRequest, verdict string) {
	s.logger.InfoContext(r.Context(), "decided", "principal", principalOf(r), "run", x.id, "call", q.CallID, "tool", q.Tool, "verdict", verdict)
	if s.auditor == nil {
		return
	}
	rec := &aycoder.AuditRecord{Time: time.Now(), Kind: aycoder.AuditDecision, Key: q.Key, CallID: q.CallID, Tool: q.Tool, Subject: q.Subject,
		Digest: q.Digest, Verdict: verdict, By: aycoder.ByUser, Reason: "answered by " + principalOf(r)}
	rec.Run = q.Run
	if err := s.auditor.Audit(r.Context(), rec); err != nil {
		s.logger.ErrorContext(r.Context(), "audit", "error", err)
	}
}

// A callResult is the body of POST /api/runs/{run}/results/{call}.
type callResult struct {
	Digest  string `json:"digest"`
	Text    string `json:"text"`
	IsError bool   `json:"is_error,omitempty"`
}

// result gives the result of a call of a declared tool.
func (s *Server) result(w http.ResponseWriter, r *http.Request) error {
	var a callResult
	if err := decode(r, &a); err != nil {
		return err
	}
	res := aycoder.TextResult(a.Text)
	if a.IsError {
		res = aycoder.ErrorResult(a.Text)
	}
	return s.tellRun(w, r, said{call: r.PathValue("call"), digest: a.Digest, result: res})
}

// A message is the body of POST /api/runs/{run}/steer.
type message struct {
	Text     string `json:"text"`
	FollowUp bool   `json:"follow_up,omitempty"` // for when the run would end
}

// steer sends a message into a run.
func (s *Server) steer(w http.ResponseWriter, r *http.Request) error {
	var m message
	if err := decode(r, &m); err != nil {
		return err
	}
	if m.Text == "" {
		return invalid("the text is empty")
	}
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	if x == nil || !x.working() {
		return over()
	}
	if x.call {
		return refuse(http.StatusConflict, "call", "the run is a call of a tool, which reads no messages")
	}
	send := c.rt.Session.Steer
	if m.FollowUp {
		send = c.rt.Session.FollowUp
	}
	if err := send(r.Context(), m.Text); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func over() *problem { return refuse(http.StatusConflict, "over", "the run is over") }

// cancel ends a run.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	if x == nil || !x.working() {
		return over()
	}
	x.stop(errCancelled)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
