package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/journal"
	"github.com/aycoder/aycoder/session"
)

// A problem is an error as RFC 9457 describes it. Its Kind is a stable word.
type problem struct {
	Type   string `json:"type"` // always "about:blank": Kind says more than a link
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Kind   string `json:"kind"`

	after time.Duration // for Retry-After
}

// Error implements the error interface.
func (p *problem) Error() string { return p.Kind + ": " + p.Detail }

func refuse(status int, kind, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Kind: kind, Detail: detail}
}

// notFound is the answer for what is not there, and for what belongs to another principal.
func notFound() *problem { return refuse(http.StatusNotFound, "not_found", "there is nothing here") }

func invalid(detail string) *problem { return refuse(http.StatusBadRequest, "invalid_request", detail) }

// problemOf says what kind of error err is. Texts of unknown errors stay in the log: they may name files of the host.
func problemOf(err error) *problem {
	is := func(status int, kind string) *problem { return refuse(status, kind, err.Error()) }
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notFound()
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "the body has more than "+strconv.FormatInt(e.Limit, 10)+" bytes")
	}
	if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
		p := is(http.StatusServiceUnavailable, "model_rate_limit")
		p.after = e.RetryAfter
		return p
	}
	switch {
	case asA[*session.CommandError](err), asA[*journal.BusyError](err):
		return is(http.StatusConflict, "busy")
	case errors.Is(err, aycoder.ErrDecided):
		return is(http.StatusConflict, "decided")
	case asA[*aycoder.StaleApprovalError](err):
		return is(http.StatusConflict, "stale_approval")
	case asA[*aycoder.ResultError](err):
		return is(http.StatusUnprocessableEntity, "result_invalid")
	case asA[*aycoder.ToolArgsError](err):
		return is(http.StatusUnprocessableEntity, "tool_args")
	case asA[*aycoder.RuleError](err):
		return is(http.StatusUnprocessableEntity, "rule")
	case asA[*aycoder.ToolDeniedError](err):
		return is(http.StatusForbidden, "tool_denied")
	case asA[*aycoder.ToolError](err):
		return is(http.StatusUnprocessableEntity, "tool")
	case asA[*aycoder.OverloadedError](err):
		return is(http.StatusServiceUnavailable, "model_overloaded")
	case asA[*aycoder.AuthError](err):
		return refuse(http.StatusBadGateway, "model_auth", "the provider of the model does not accept the key of this server")
	case asA[*aycoder.ContextTooLargeError](err):
		return is(http.StatusUnprocessableEntity, "context_too_large")
	case asA[*aycoder.RefusalError](err):
		return is(http.StatusUnprocessableEntity, "model_refused")
	case asA[*aycoder.TimeoutError](err):
		return is(http.StatusGatewayTimeout, "model_timeout")
	case asA[*aycoder.ModelError](err):
		return is(http.StatusBadGateway, "model")
	case asA[*aycoder.LimitError](err):
		return is(http.StatusUnprocessableEntity, "limit")
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusConflict, "cancelled", "the run was cancelled")
	case asA[*journal.OpError](err):
		return refuse(http.StatusInternalServerError, "journal", "the session cannot be read or written")
	}
	return refuse(http.StatusInternalServerError, "internal", "the log of the server says more")
}

func asA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		s.logger.WarnContext(r.Context(), "request failed", "path", r.URL.Path, "kind", p.Kind, "error", err)
	}
	h := w.Header()
	body, _ := json.Marshal(p) // texts always encode
	h.Set("Content-Type", "application/problem+json")
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		body = chatError(p)
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.after.Seconds())+1))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone
}

// reply answers with a JSON value. A client that takes nothing for a while is cut off.
func reply(w http.ResponseWriter, status int, v any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stalled)) // not every ResponseWriter can
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
