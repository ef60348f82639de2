package server

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/session"
)

func nodeID(i int) session.ID { return session.ID(i) }

// decode reads the body of a request. Unknown keys are mistakes.
func decode(r *http.Request, into any) error { return decodeAs(r, into, true) }

// decodeLoosely reads a body in a form of others, which may have keys that the server does not know.
func decodeLoosely(r *http.Request, into any) error { return decodeAs(r, into, false) }

func decodeAs(r *http.Request, into any, strict bool) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "media_type", "the body must be application/json")
	}
	d := json.NewDecoder(r.Body)
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return invalid("the body has more than one JSON value")
		}
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, "slow_body", "the body has not come in time")
	}
	if asA[*http.MaxBytesError](err) {
		return err
	}
	return invalid("the body is not as it must be: " + err.Error())
}

// A promptRequest is the body of POST /api/prompt.
type promptRequest struct {
	Session string  `json:"session,omitempty"` // a new one if it is missing
	Prompt  string  `json:"prompt"`
	Images  []image `json:"images,omitempty"`
}

type image struct {
	Type string `json:"type"` // such as "image/png"
	Data []byte `json:"data"` // in base64
}

func (p *promptRequest) input() (aycoder.Input, error) {
	in := aycoder.Input{Prompt: p.Prompt}
	for _, m := range p.Images {
		if !strings.HasPrefix(m.Type, "image/") || len(m.Data) == 0 {
			return in, invalid("an image needs its type, such as image/png, and data in base64")
		}
		in.Parts = append(in.Parts, &aycoder.Media{Type: m.Type, Data: m.Data})
	}
	if strings.TrimSpace(in.Prompt) == "" && len(in.Parts) == 0 {
		return in, invalid("the prompt is empty")
	}
	return in, nil
}

const maxKey = 256 // bytes of an Idempotency-Key

// prompt starts a run, or joins the one that the same Idempotency-Key has started, and streams its events.
func (s *Server) prompt(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	var req promptRequest
	if err := decode(r, &req); err != nil {
		return err
	}
	at, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	run, err := s.startRun(r, &req, r.Header.Get("Idempotency-Key"))
	if err != nil {
		return err
	}
	defer s.release(run.c)
	h := w.Header()
	h.Set("Aycoder-Run", run.id)
	h.Set("Aycoder-Session", run.c.id)
	h.Set("Location", "/api/runs/"+run.id+"/events")
	if accepts(r, "application/json") {
		reply(w, http.StatusAccepted, map[string]string{"run": run.id, "session": run.c.id})
		return nil
	}
	d := newSender(w, at, nil)
	d.message("", run.start())
	if run.log == nil {
		_, id, _ := splitRun(run.id)
		_ = s.past(r.Context(), d, run.c, id)
		return nil
	}
	_ = s.follow(r.Context(), d, run) // the client is gone
	return nil
}

// accepts reports whether a client asks for a media type and not for a stream.
func accepts(r *http.Request, media string) bool {
	a := r.Header.Get("Accept")
	return strings.Contains(a, media) && !strings.Contains(a, "text/event-stream")
}

// startRun starts a run. The caller must release its session.
func (s *Server) startRun(r *http.Request, req *promptRequest, key string) (*run, error) {
	in, err := req.input()
	if err != nil {
		return nil, err
	}
	if len(key) > maxKey {
		return nil, invalid("the Idempotency-Key is too long")
	}
	c, err := s.open(r.Context(), principalOf(r), req.Session, key)
	if err != nil {
		return nil, err
	}
	body, _ := json.Marshal(req) // what was decoded encodes
	x, _, err := c.prompt(r, in, key, string(body))
	if err != nil {
		s.release(c)
		return nil, err
	}
	return x, nil
}

// prompt starts a run, or joins the one that an earlier request with the same key has started, and reports which. The body
// is what both requests must have in common.
func (c *conversation) prompt(r *http.Request, in aycoder.Input, key, body string) (x *run, again bool, err error) {
	if key != "" {
		key, body = hashOf(c.principal, key), hashOf(body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.started.find(key); key != "" && ok {
		if known.Body != body {
			return nil, false, refuse(http.StatusUnprocessableEntity, "idempotency_key", "the Idempotency-Key was used for another request")
		}
		x, err := c.joins(r, known.Run)
		return x, true, err
	}
	if after := c.started.room(time.Now()); key != "" && after > 0 {
		p := refuse(http.StatusTooManyRequests, "too_many_keys", "this session can remember no more keys: send requests without a key, or in another session")
		p.after = after
		return nil, false, p
	}
	x = c.newRun(position{}, 0)
	return x, false, c.begin(in, x, key, body)
}

// joins returns a run by its id, without a log if it is over and this process has none. The mutex is held.
func (c *conversation) joins(r *http.Request, id string) (*run, error) {
	x, err := c.find(r, id)
	if err == nil && x == nil {
		x = &run{c: c, id: c.id + "." + id}
	}
	return x, err
}

// find returns the run with an id, or nil if it is over and this process has no log of it. One that was interrupted by the
// end of its process goes on. The mutex is held.
func (c *conversation) find(r *http.Request, id string) (*run, error) {
	if c.last != nil && c.last.id == c.id+"."+id {
		return c.last, nil
	}
	if p := c.rt.Session.Pending(); p != nil && p.Run == id {
		return c.resume(r.Context(), aycoder.Input{})
	}
	if !c.known(id) {
		return nil, notFound()
	}
	return nil, nil
}

// lookUp returns a run by the id in the path, with its session, which the caller must release. The run is nil if it is over
// and this process has no log of it.
func (s *Server) lookUp(r *http.Request) (*conversation, *run, error) {
	session, id, ok := splitRun(r.PathValue("run"))
	if !ok {
		return nil, nil, notFound()
	}
	c, err := s.open(r.Context(), principalOf(r), session, "")
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	x, err := c.find(r, id)
	c.mu.Unlock()
	if err != nil {
		s.release(c)
		return nil, nil, err
	}
	return c, x, nil
}

// events streams the events of a run from where a client stopped.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	at, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	d := newSender(w, at, nil)
	if x == nil {
		_, id, _ := splitRun(r.PathValue("run"))
		_ = s.past(r.Context(), d, c, id)
		return nil
	}
	_ = s.follow(r.Context(), d, x)
	return nil
}

// A runState is what GET /api/runs/{run} returns.
type runState struct {
	Run     string                     `json:"run"`
	Session string                     `json:"session"`
	Working bool                       `json:"working"`
	Phase   session.Phase              `json:"phase"`
	Asks    []*aycoder.ApprovalRequest `json:"approvals"`
	Calls   []*aycoder.CallRequest     `json:"calls"`
}

func (s *Server) runState(w http.ResponseWriter, r *http.Request) error {
	c, x, err := s.lookUp(r)
	if err != nil {
		return err
	}
	defer s.release(c)
	st := runState{Run: r.PathValue("run"), Session: c.id, Phase: session.PhaseIdle, Asks: []*aycoder.ApprovalRequest{}, Calls: []*aycoder.CallRequest{}}
	if x != nil && x.working() {
		st.Working, st.Phase = true, c.rt.Session.Phase()
		asks, calls := x.questions()
		st.Asks, st.Calls = append(st.Asks, asks...), append(st.Calls, calls...)
	}
	reply(w, http.StatusOK, &st)
	return nil
}
