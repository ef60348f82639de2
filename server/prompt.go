package server

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/session"
)

// taking makes an operation of one that takes a body. Unknown keys in it are mistakes.
func taking[T any](serve func(w http.ResponseWriter, r *http.Request, in *T) error) operation {
	return decoding(serve, true)
}

// takingForeign is for a body in a form of others, which may have keys that the server does not know.
func takingForeign[T any](serve func(w http.ResponseWriter, r *http.Request, in *T) error) operation {
	return decoding(serve, false)
}

func decoding[T any](serve func(w http.ResponseWriter, r *http.Request, in *T) error, strict bool) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in T
		if err := decode(r, &in, strict); err != nil {
			return err
		}
		return serve(w, r, &in)
	}
}

// decode reads the body of a request.
func decode(r *http.Request, into any, strict bool) error {
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
	Type string `json:"type"` // such as "image/png"; its data count
	Data []byte `json:"data"` // in base64
}

func (p *promptRequest) input() (aycoder.Input, error) {
	in := aycoder.Input{Prompt: p.Prompt}
	for _, m := range p.Images {
		image, err := shown(m.Type, m.Data)
		if err != nil {
			return in, err
		}
		in.Parts = append(in.Parts, image)
	}
	if strings.TrimSpace(in.Prompt) == "" && len(in.Parts) == 0 {
		return in, invalid("the prompt is empty")
	}
	return in, nil
}

const maxKey = 256 // bytes of an Idempotency-Key

// prompt starts a run, or joins the one that the same Idempotency-Key has started, and streams its events.
func (s *Server) prompt(w http.ResponseWriter, r *http.Request, req *promptRequest) error {
	key := r.Header.Get("Idempotency-Key")
	at, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	in, err := req.input()
	if err != nil {
		return err
	}
	if len(key) > maxKey {
		return invalid("the Idempotency-Key is too long")
	}
	c, err := s.open(r.Context(), principalOf(r), req.Session, key)
	if err != nil {
		return err
	}
	defer s.release(c)
	body, _ := json.Marshal(req) // what was decoded encodes
	x, _, err := c.prompt(in, key, string(body))
	if err != nil {
		return err
	}
	return s.answer(w, r, x, at)
}

// answer answers with the events of a run, or with its ids if a client wants no stream.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, x *run, at cursor) error {
	names(w, x)
	w.Header().Set("Location", "/api/runs/"+x.id+"/events")
	if accepts(r, "application/json") {
		reply(w, http.StatusAccepted, map[string]string{"run": x.id, "session": x.c.id})
		return nil
	}
	d := newSender(w, at, x, nil)
	d.message("", x.start())
	return s.send(r, d)
}

// names tells the ids of a run in the headers of an answer.
func names(w http.ResponseWriter, x *run) {
	w.Header().Set("Aycoder-Run", x.id)
	w.Header().Set("Aycoder-Session", x.c.id)
}

// accepts reports whether a client asks for a media type and not for a stream.
func accepts(r *http.Request, media string) bool {
	a := r.Header.Get("Accept")
	return strings.Contains(a, media) && !strings.Contains(a, "text/event-stream")
}

// prompt starts a run, or joins the one that an earlier request with the same key has started, and reports which. The body
// is what both requests must have in common.
func (c *conversation) prompt(in aycoder.Input, key, body string) (x *run, again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x = c.newRun(position{})
	if key != "" {
		x.started = startedRun{Key: hashOf(c.principal, key), Body: hashOf(body)}
		var known startedRun
		if c.kept(startedValue+x.started.Key, &known) {
			if known.Body != x.started.Body {
				return nil, false, refuse(http.StatusUnprocessableEntity, "idempotency_key", "the Idempotency-Key was used for another request")
			}
			x, err = c.find(known.Run)
			return x, true, err
		}
	}
	if p := c.rt.Session.Pending(); p != nil && len(c.asksAgain(p.Run)) > 0 {
		if _, err := c.resume(); err == nil { // a message does not take back what another process has asked
			return nil, false, busy()
		}
	}
	return x, false, c.begin(c.rt, in, x)
}

// find returns the run with an id. One that was interrupted by the end of its process goes on. The mutex is held.
func (c *conversation) find(id string) (*run, error) {
	whole := c.id + "." + id
	if last := c.newest(); last != nil && last.id == whole {
		return last, nil
	}
	if p := c.rt.Session.Pending(); p != nil && p.Run == id {
		return c.resume()
	}
	if !c.known(id) {
		return nil, notFound()
	}
	return &run{c: c, id: whole}, nil
}

// inRun makes an operation of one on the run in the path.
func (s *Server) inRun(serve func(w http.ResponseWriter, r *http.Request, x *run) error) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		session, id, ok := splitRun(r.PathValue("run"))
		if !ok {
			return notFound()
		}
		c, err := s.open(r.Context(), principalOf(r), session, "")
		if err != nil {
			return err
		}
		defer s.release(c)
		c.mu.Lock()
		x, err := c.find(id)
		c.mu.Unlock()
		if err != nil {
			return err
		}
		return serve(w, r, x)
	}
}

// events streams the events of a run from where a client stopped.
func (s *Server) events(w http.ResponseWriter, r *http.Request, x *run) error {
	at, err := parseCursor(r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	return s.send(r, newSender(w, at, x, nil))
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

func (s *Server) runState(w http.ResponseWriter, _ *http.Request, x *run) error {
	st := runState{Run: x.id, Session: x.c.id, Phase: session.PhaseIdle, Asks: []*aycoder.ApprovalRequest{}, Calls: []*aycoder.CallRequest{}}
	if x.working() {
		st.Working, st.Phase = true, x.c.rt.Session.Phase()
		for _, q := range x.questions() {
			if q.ask != nil {
				st.Asks = append(st.Asks, q.ask)
			} else {
				st.Calls = append(st.Calls, q.request)
			}
		}
	}
	reply(w, http.StatusOK, &st)
	return nil
}
