package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/runes"
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

// args returns the arguments, or nil. JSON's null is none, as if they were missing.
func (a *answer) args() json.RawMessage {
	if string(a.Args) == "null" {
		return nil
	}
	return a.Args
}

// approve answers a question.
func (s *Server) approve(w http.ResponseWriter, r *http.Request, a *answer) error {
	if a.Decision != "allow" && a.Decision != "deny" || a.Digest == "" {
		return invalid(`the body needs a decision, "allow" or "deny", and the digest of the question`)
	}
	return s.tellRun(w, r, said{ticket: ticket{Call: r.PathValue("call"), Digest: a.Digest}, answer: a})
}

// A callResult is the body of POST /api/runs/{run}/results/{call}.
type callResult struct {
	Digest  string `json:"digest"`
	Text    string `json:"text"`
	IsError bool   `json:"is_error,omitempty"`
}

// result gives the result of a call of a declared tool.
func (s *Server) result(w http.ResponseWriter, r *http.Request, a *callResult) error {
	return s.tellRun(w, r, said{ticket: ticket{Call: r.PathValue("call"), Digest: a.Digest}, result: resultOf(a.Text, a.IsError)})
}

func resultOf(text string, isError bool) *aycoder.ToolResult {
	if isError {
		return aycoder.ErrorResult(text)
	}
	return aycoder.TextResult(text)
}

// A question is one that a run waits for: an approval, or the result of a call.
type question struct {
	call, digest string // what is asked about, and what was shown
	key          string // sorts questions in the same way whenever they are asked
	outer        string // the call of the run in which it came up
	ask          *aycoder.ApprovalRequest
	request      *aycoder.CallRequest // or nil for an approval
	handle       handle
}

// A handle is an [*aycoder.Approval] or an [*aycoder.OpenCall].
type handle interface {
	Decided() bool
	Leave() bool
}

func approvalQuestion(req *aycoder.ApprovalRequest, outer string, h handle) *question {
	shown := *req
	shown.Plan = nil // holds whole files, which may have secrets
	return &question{call: req.CallID, digest: req.Digest, key: req.Key + " " + req.Run, outer: cmp.Or(outer, req.CallID), ask: &shown, handle: h}
}

func callQuestion(req *aycoder.CallRequest, outer string, h handle) *question {
	return &question{call: req.CallID, digest: req.Digest, key: req.Key, outer: cmp.Or(outer, req.CallID), request: req, handle: h}
}

// A said is what a client says about a call: the answer to the question, or the result. With both, it is what the call
// waits for.
type said struct {
	ticket
	answer *answer
	result *aycoder.ToolResult
}

// match returns the question that waits for each thing that is said, or nil. If several runs inside of calls ask the same, it
// is the first one.
func match(all []said, questions []*question) []*question {
	open := make([]*question, len(all))
	for i, a := range all {
		for _, q := range questions {
			if q.call == a.Call && q.digest == a.Digest && (a.Outer == "" || a.Outer == q.outer) &&
				(q.ask != nil && a.answer != nil || q.request != nil && a.result != nil) && !slices.Contains(open, q) {
				open[i] = q
				break
			}
		}
	}
	return open
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
	if _, err := c.tell(r, run, []said{what}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// tell tells a run what a client says, and goes on with it if its process has ended. If one of the calls does not wait for
// what is said about it, nothing is taken, and the error names it.
func (c *conversation) tell(r *http.Request, run string, all []said) (*run, error) {
	c.mu.Lock()
	again := c.asksAgain(run)
	x, err := c.find(run)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if slices.Contains(again, a.Call) {
			x.awaitQuestion(r.Context(), a.Call)
		}
	}
	open := match(all, x.questions())
	if err := late(all, open); err != nil {
		return nil, err
	}
	for i := range all {
		if err := c.s.give(r, x, &all[i], open[i]); err != nil && i > 0 {
			p := *problemOf(err)
			p.Detail = fmt.Sprintf("%s: %s (what was said about %d calls before it was taken)", all[i].Call, p.Detail, i)
			return nil, &p
		} else if err != nil {
			return nil, err
		}
	}
	return x, nil
}

// late returns the error of what is said about calls that do not wait for it: those without a question.
func late(all []said, open []*question) error {
	var calls []string
	for i, q := range open {
		if q == nil {
			calls = append(calls, all[i].Call)
		}
	}
	if calls == nil {
		return nil
	}
	p := decided()
	if len(all) > 1 {
		p.Detail = "nothing was taken, because of " + strings.Join(calls, ", ") + ": " + p.Detail
	}
	return p
}

// asksAgain returns the calls about which the pending run asks again when it goes on. The mutex is held.
func (c *conversation) asksAgain(run string) (calls []string) {
	p := c.rt.Session.Pending()
	if p == nil || p.Run != run {
		return nil
	}
	for _, q := range p.Requests {
		calls = append(calls, q.CallID)
	}
	for _, a := range p.State.Outstanding() {
		if q, ok := a.(*aycoder.AskApproval); ok {
			calls = append(calls, q.Call.ID)
		}
	}
	for _, q := range p.State.OpenCalls() {
		calls = append(calls, q.CallID)
	}
	return calls
}

// give tells a run that works what a client says to a question.
func (s *Server) give(r *http.Request, x *run, a *said, q *question) error {
	switch h := q.handle.(type) {
	case *aycoder.OpenCall:
		return h.Answer(a.result)
	case *aycoder.Approval:
		if err := a.answer.give(h); err != nil {
			return err
		}
		s.decided(r, x, q.ask, a.answer.Decision)
	}
	return nil
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
	case a.args() != nil && a.Rule != "":
		return notKept("an answer has other arguments or a rule, not both")
	case a.args() != nil:
		err = q.AllowWith(a.args())
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
	sum := sha256.Sum256(q.Args)
	rec := &aycoder.AuditRecord{Time: time.Now(), Kind: aycoder.AuditDecision, Key: q.Key, CallID: q.CallID, Tool: q.Tool,
		Subject: runes.Shorten(runes.Clean(q.Subject), 4<<10), Digest: hex.EncodeToString(sum[:]), Verdict: verdict, By: aycoder.ByUser, Reason: "answered by " + principalOf(r)}
	rec.Run = q.Run
	if err := s.auditor.Audit(context.WithoutCancel(r.Context()), rec); err != nil { // the client may be gone
		s.logger.ErrorContext(r.Context(), "audit", "error", err)
	}
}

// A message is the body of POST /api/runs/{run}/steer.
type message struct {
	Text     string `json:"text"`
	FollowUp bool   `json:"follow_up,omitempty"` // for when the run would end
}

// steer sends a message into a run.
func (s *Server) steer(w http.ResponseWriter, r *http.Request, m *message) error {
	if m.Text == "" {
		return invalid("the text is empty")
	}
	return s.toWorking(func(x *run) error {
		if x.call {
			return refuse(http.StatusConflict, "call", "the run is a call of a tool, which reads no messages")
		}
		if m.FollowUp {
			return x.c.rt.Session.FollowUp(r.Context(), m.Text)
		}
		return x.c.rt.Session.Steer(r.Context(), m.Text)
	})(w, r)
}

// cancel ends a run.
func (s *Server) cancel(w http.ResponseWriter, r *http.Request) error {
	return s.toWorking(func(x *run) error {
		x.stop(errCancelled)
		return nil
	})(w, r)
}

// toWorking makes an operation of what is done to the run in the path, which must work.
func (s *Server) toWorking(do func(*run) error) operation {
	return s.inRun(func(w http.ResponseWriter, _ *http.Request, x *run) error {
		if !x.working() {
			return refuse(http.StatusConflict, "over", "the run is over")
		}
		if err := do(x); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}
