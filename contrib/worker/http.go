package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/server"
)

const (
	maxBody  = 8 << 20 // bytes of a request
	bodyTime = 30 * time.Second
)

func (n *Node) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(w http.ResponseWriter, r *http.Request, tenant string) error{
		"POST /api/prompt":                              n.prompt,
		"GET /api/sessions/{session}":                   n.status,
		"GET /api/sessions/{session}/events":            n.events,
		"POST /api/sessions/{session}/approvals/{call}": n.approve,
		"POST /api/sessions/{session}/steer":            n.steer,
		"POST /api/sessions/{session}/cancel":           n.cancel,
		"GET /metrics":                                  n.metrics,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			tenant, err := n.config.Principal(r)
			if err == nil {
				err = checkTenant(tenant)
			}
			if err != nil {
				n.fail(w, refused{http.StatusUnauthorized, "who is it?"})
				return
			}
			if id := r.PathValue("session"); id != "" && !owns(tenant, id) {
				err = fs.ErrNotExist
			} else {
				if r.ContentLength != 0 {
					_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // not every ResponseWriter can
				}
				r.Body = http.MaxBytesReader(w, r.Body, maxBody)
				err = serve(w, r, tenant)
			}
			if err != nil {
				n.fail(w, err)
			}
		})
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		err := n.ready()
		if err == nil {
			_, err = n.config.Temporal.CheckHealth(ctx, nil)
		}
		if err == nil {
			_, err = n.config.Store.Tenant("ready").Status(ctx)
		}
		if err != nil {
			n.fail(w, refused{http.StatusServiceUnavailable, "not ready"})
			return
		}
		reply(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	return mux
}

// owns reports whether a session is one of a tenant.
func owns(tenant, id string) bool {
	return journal.CheckID(id) == nil && tenantOf(id) == tenant && strings.Contains(id, "-")
}

// refused is an error for a client.
type refused struct {
	status int
	text   string
}

// Error implements error.
func (e refused) Error() string { return e.text }

// fail answers with an error. Texts of other errors stay in the log.
func (n *Node) fail(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[refused](err)
	_, missing := errors.AsType[*serviceerror.NotFound](err)
	_, invalid := errors.AsType[*sdk.ApplicationError](err)
	var said interface {
		error
		StatusCode() int
	}
	switch {
	case ok:
	case errors.As(err, &said): // of package server
		e = refused{said.StatusCode(), said.Error()}
	case errors.Is(err, fs.ErrNotExist) || missing:
		e = refused{http.StatusNotFound, "there is none"}
	case invalid:
		e = refused{http.StatusConflict, "no such question is open"}
	default:
		n.config.Logger.Error("a request failed", "error", err)
		e = refused{http.StatusInternalServerError, "it did not work: see the log"}
	}
	reply(w, e.status, map[string]string{"error": e.text})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refused{http.StatusBadRequest, "the body is not as it must be"}
	}
	return nil
}

func (n *Node) ready() error {
	if n.draining.Load() {
		return refused{http.StatusServiceUnavailable, "the process ends: ask another one"}
	}
	return nil
}

func (n *Node) prompt(w http.ResponseWriter, r *http.Request, tenant string) error {
	var in struct{ Prompt, Session string }
	if err := errors.Join(n.ready(), decode(r, &in)); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return refused{http.StatusBadRequest, "the prompt is empty"}
	case in.Session != "" && !owns(tenant, in.Session):
		return fs.ErrNotExist
	case in.Session == "":
		var err error
		if in.Session, err = n.create(r.Context(), tenant); err != nil {
			return err
		}
	default:
		j, err := n.config.Store.Open(r.Context(), in.Session, false)
		if err != nil {
			return err
		}
		_ = j.Close() // it was not changed
	}
	if err := n.say(r.Context(), in.Session, in.Prompt); err != nil {
		return err
	}
	reply(w, http.StatusAccepted, map[string]string{"session": in.Session})
	return nil
}

func (n *Node) status(w http.ResponseWriter, r *http.Request, _ string) error {
	id := r.PathValue("session")
	p, err := n.client.Pending(r.Context(), id)
	if err != nil {
		return err
	}
	out := struct {
		Works    bool                      `json:"works"`
		Running  []string                  `json:"running,omitempty"`
		Asks     []aycoder.ApprovalRequest `json:"approvals,omitempty"`
		Children []string                  `json:"children,omitempty"`
	}{}
	if p != nil {
		for _, q := range p.Requests {
			q.Plan = nil // holds whole files
			out.Asks = append(out.Asks, q)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	d, err := n.config.Temporal.DescribeWorkflowExecution(ctx, id, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); err != nil && !missing {
		return err
	} else if err == nil && d.GetWorkflowExecutionInfo().GetCloseTime() == nil {
		out.Works = true
		for _, a := range d.GetPendingActivities() {
			out.Running = append(out.Running, a.GetActivityId())
		}
		for _, c := range d.GetPendingChildren() {
			out.Children = append(out.Children, c.GetWorkflowId())
		}
	}
	reply(w, http.StatusOK, out)
	return nil
}

func (n *Node) events(w http.ResponseWriter, r *http.Request, _ string) error {
	select {
	case n.readers <- struct{}{}:
		defer func() { <-n.readers }()
	default:
		return refused{http.StatusServiceUnavailable, "too many streams are open: ask another process"}
	}
	id := r.PathValue("session")
	err := server.Stream(w, r, func(ctx context.Context) iter.Seq2[server.Followed, error] {
		ctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(n.streams, cancel)
		all := server.Follow(ctx, n.config.Store, n.config.Store, id, "", r.Header.Get("Last-Event-ID"))
		return func(yield func(server.Followed, error) bool) {
			defer cancel()
			defer stop()
			all(yield)
		}
	})
	if errors.Is(err, context.Canceled) { // before the first event
		err = n.ready()
	}
	return err
}

func (n *Node) approve(w http.ResponseWriter, r *http.Request, _ string) error {
	var in struct{ Decision, Digest, Reason string }
	if err := decode(r, &in); err != nil {
		return err
	}
	d := aycoder.Decision{CallID: r.PathValue("call"), Digest: in.Digest}
	switch in.Decision {
	case "allow":
		d.Verdict = aycoder.Allow()
	case "deny":
		d.Verdict = aycoder.Deny(in.Reason)
	default:
		return refused{http.StatusBadRequest, `the decision is "allow" or "deny"`}
	}
	id := r.PathValue("session")
	p, err := n.client.Pending(r.Context(), id)
	if err != nil {
		return err
	}
	if p == nil || !slices.ContainsFunc(p.Requests, func(q aycoder.ApprovalRequest) bool { return q.CallID == d.CallID && q.Digest == d.Digest }) {
		return refused{http.StatusConflict, "no such question is open"}
	}
	if err := n.client.Decide(r.Context(), id, p, d); err != nil {
		return err
	}
	n.config.Logger.Info("decided", "session", id, "call", d.CallID, "decision", in.Decision)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (n *Node) steer(w http.ResponseWriter, r *http.Request, _ string) error {
	var in struct{ Text string }
	if err := decode(r, &in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Text) == "" {
		return refused{http.StatusBadRequest, "the text is empty"}
	}
	if err := n.client.Steer(r.Context(), r.PathValue("session"), &aycoder.Steered{Message: aycoder.User(in.Text)}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (n *Node) cancel(w http.ResponseWriter, r *http.Request, _ string) error {
	if err := n.config.Temporal.CancelWorkflow(r.Context(), r.PathValue("session"), ""); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
