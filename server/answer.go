package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/aycoder/aycoder"
)

// An answer is the body of POST /api/runs/{run}/approvals/{call}. Digest is that of the question, so that nothing else is
// decided about than what was shown.
type answer struct {
	Decision string          `json:"decision"` // "allow" or "deny"
	Digest   string          `json:"digest"`
	Reason   string          `json:"reason,omitempty"` // of deny
	Args     json.RawMessage `json:"args,omitempty"`   // of allow, in place of those of the model
	Rule     string          `json:"rule,omitempty"`   // of allow, for the rest of the session: one of those that are suggested
}

// approve answers a question.
func (s *Server) approve(w http.ResponseWriter, r *http.Request) error {
	var a answer
	if err := decode(r, &a); err != nil {
		return err
	}
	if a.Decision != "allow" && a.Decision != "deny" || a.Digest == "" {
		return invalid(`the body needs a decision, "allow" or "deny", and the digest of the question`)
	}
	call := r.PathValue("call")
	if done, err := s.approveSuspended(r, call, &a); done || err != nil {
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	if x == nil {
		return decided()
	}
	q := x.asked(call, a.Digest)
	if q == nil {
		return decided()
	}
	if err := a.give(q); err != nil {
		return err
	}
	s.decided(r, x, q.Request, a.Decision)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// approveSuspended answers a question of a run that was suspended when its process ended, and goes on with the run.
func (s *Server) approveSuspended(r *http.Request, call string, a *answer) (bool, error) {
	id, run, ok := splitRun(r.PathValue("run"))
	if !ok {
		return false, notFound()
	}
	c, err := s.open(r.Context(), principalOf(r), id, "")
	if err != nil {
		return false, err
	}
	defer s.release(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.rt.Session.Pending()
	if p == nil || p.Run != run || a.Rule != "" {
		return false, nil
	}
	i := slices.IndexFunc(p.Requests, func(q aycoder.ApprovalRequest) bool { return q.CallID == call && q.Digest == a.Digest })
	if i < 0 {
		return false, nil
	}
	q := p.Requests[i]
	d := aycoder.Decision{CallID: call, Digest: a.Digest, Verdict: aycoder.Allow()}
	switch {
	case a.Decision == "deny":
		d.Verdict = aycoder.Deny(cmp.Or(a.Reason, "the user said no"))
	case a.Args != nil:
		d.Verdict = aycoder.AllowWith(a.Args)
	}
	x, err := c.resume(r.Context(), aycoder.Input{Decisions: []aycoder.Decision{d}})
	if err != nil {
		return false, err
	}
	s.decided(r, x, &q, a.Decision)
	return true, nil
}

func decided() *problem {
	return refuse(http.StatusConflict, "decided", "no such question of this run is open: it was answered, the run is over, or the digest is another one")
}

func (a *answer) give(q *aycoder.Approval) error {
	won := true
	var err error
	switch {
	case a.Decision == "deny":
		won = q.Deny(cmp.Or(a.Reason, "the user said no"))
	case a.Args != nil:
		err = q.AllowWith(a.Args)
	case a.Rule != "":
		err = q.AllowFor(aycoder.Session, a.Rule)
	default:
		won = q.Allow()
	}
	switch {
	case !won:
		return decided()
	case err != nil && problemOf(err).Kind == "internal": // a rule that the policy does not take
		return refuse(http.StatusUnprocessableEntity, "answer", err.Error())
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
	if done, err := s.resultSuspended(r, &a, res); done || err != nil {
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	var o *aycoder.OpenCall
	if x != nil {
		x.mu.Lock()
		o = x.calls[r.PathValue("call")+" "+a.Digest]
		x.mu.Unlock()
	}
	if o == nil || o.Decided() {
		return decided()
	}
	if err := o.Answer(res); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// resultSuspended gives the result of a call of a run that was suspended when its process ended, and goes on with the run.
func (s *Server) resultSuspended(r *http.Request, a *callResult, res *aycoder.ToolResult) (bool, error) {
	id, run, ok := splitRun(r.PathValue("run"))
	if !ok {
		return false, notFound()
	}
	c, err := s.open(r.Context(), principalOf(r), id, "")
	if err != nil {
		return false, err
	}
	defer s.release(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.rt.Session.Pending()
	if p == nil || p.Run != run {
		return false, nil
	}
	for i := range p.Calls {
		if q := &p.Calls[i]; q.CallID == r.PathValue("call") && q.Digest == a.Digest {
			_, err := c.resume(r.Context(), aycoder.Input{Results: []aycoder.CallResult{q.Result(res)}})
			return err == nil, err
		}
	}
	return false, nil
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
