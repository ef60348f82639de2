package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
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

// StatusCode returns the status of the answer, for hosts that use [Follow] and [Stream] in their handlers.
func (p *problem) StatusCode() int { return p.Status }

func refuse(status int, kind, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Kind: kind, Detail: detail}
}

// later refuses what may be possible after a while.
func later(status int, kind, detail string, after time.Duration) *problem {
	p := refuse(status, kind, detail)
	p.after = after
	return p
}

// notFound is the answer for what is not there, and for what belongs to another principal.
func notFound() *problem { return refuse(http.StatusNotFound, "not_found", "there is nothing here") }

func invalid(detail string) *problem { return refuse(http.StatusBadRequest, "invalid_request", detail) }

// problemOf says what kind of error err is. Texts of unknown errors stay in the log: they may name files of the host.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if errors.Is(err, fs.ErrNotExist) {
		return notFound()
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "the body has more than "+strconv.FormatInt(e.Limit, 10)+" bytes")
	}
	for _, k := range kinds {
		if k.is(err) {
			p := refuse(k.status, k.kind, cmp.Or(k.detail, err.Error()))
			if e, ok := errors.AsType[*aycoder.RateLimitError](err); ok {
				p.after = e.RetryAfter
			} else if k.kind == unavailable {
				p.after = 5 * time.Second
			}
			return p
		}
	}
	return refuse(http.StatusInternalServerError, "internal", "the log of the server says more")
}

// kinds are what errors of the library are to clients. The first one counts. The detail takes the place of a text that would
// tell what is on the host.
var kinds = []struct {
	is           func(error) bool
	status       int
	kind, detail string
}{
	{asA[*aycoder.RateLimitError], http.StatusServiceUnavailable, "model_rate_limit", ""},
	{asA[*session.CommandError], http.StatusConflict, "busy", ""},
	{asA[*journal.BusyError], http.StatusConflict, "busy", ""},
	{isA(aycoder.ErrDecided), http.StatusConflict, "decided", ""},
	{asA[*aycoder.StaleApprovalError], http.StatusConflict, "stale_approval", ""},
	{asA[*aycoder.ResultError], http.StatusUnprocessableEntity, "result_invalid", ""},
	{asA[*aycoder.ToolArgsError], http.StatusUnprocessableEntity, "tool_args", ""},
	{asA[*aycoder.RuleError], http.StatusUnprocessableEntity, "rule", ""},
	{asA[*aycoder.ToolDeniedError], http.StatusForbidden, "tool_denied", ""},
	{asA[*aycoder.ToolError], http.StatusUnprocessableEntity, "tool", ""},
	{asA[*aycoder.OverloadedError], http.StatusServiceUnavailable, "model_overloaded", ""},
	{asA[*aycoder.AuthError], http.StatusBadGateway, "model_auth", "the provider of the model does not accept the key of this server"},
	{asA[*aycoder.ContextTooLargeError], http.StatusUnprocessableEntity, "context_too_large", ""},
	{asA[*aycoder.RefusalError], http.StatusUnprocessableEntity, "model_refused", ""},
	{asA[*aycoder.TimeoutError], http.StatusGatewayTimeout, "model_timeout", ""},
	{asA[*aycoder.ModelError], http.StatusBadGateway, "model", ""},
	{asA[*aycoder.LimitError], http.StatusUnprocessableEntity, "limit", ""},
	{isA(context.Canceled), http.StatusConflict, "cancelled", "the run was cancelled"},
	{asA[*journal.OpError], http.StatusInternalServerError, "journal", "the session cannot be read or written"},
	{tooLate, http.StatusServiceUnavailable, unavailable, "another machine has not answered in time"},
	{isA(os.ErrDeadlineExceeded), http.StatusServiceUnavailable, unavailable, ""},
}

// unavailable is the kind of an error that another machine is not there, such as that with the workspace.
const unavailable = "unavailable"

func isA(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// tooLate reports whether another machine has not answered, whose address the text tells.
func tooLate(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Timeout()
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
		body = object("error", chatError(p))
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
