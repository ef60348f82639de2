package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
)

// The UI message stream of Vercel's AI SDK, for useChat and the like: https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol.
// The tools run here. A question ends the stream, and the client sends the answer in the message that asks.

// A uiInput is the body of POST /api/chat, as far as the server uses it.
type uiInput struct {
	ID       string      `json:"id"`
	Trigger  string      `json:"trigger"`
	Messages []uiMessage `json:"messages"`
}

type uiMessage struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []uiPart `json:"parts"`
}

type uiPart struct {
	foreignPart
	State     string          `json:"state"`
	Output    json.RawMessage `json:"output"`
	ErrorText string          `json:"errorText"`
	Approval  struct {
		ID       string `json:"id"`
		Approved bool   `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
	Metadata struct {
		Aycoder struct {
			Ticket string `json:"ticket"`
		} `json:"aycoder"`
	} `json:"callProviderMetadata"`
}

// request says in the terms of the server what a client wants.
func (in *uiInput) request() (*frontRequest, error) {
	q := &frontRequest{thread: in.ID}
	if in.Trigger != "" && in.Trigger != "submit-message" {
		return nil, refuse(http.StatusUnprocessableEntity, "trigger", "the session keeps its history: continue at another node with checkout")
	}
	if len(in.Messages) == 0 {
		return nil, invalid("there is no message")
	}
	if m := &in.Messages[len(in.Messages)-1]; m.Role == "assistant" {
		for i := range m.Parts {
			if err := q.answerIn(&m.Parts[i]); err != nil {
				return nil, err
			}
		}
		if len(q.said) == 0 {
			return nil, invalid("the newest message must be one of the user, or answer a question")
		}
		return q, nil
	}
	var list messageList
	for i := range in.Messages {
		m := &in.Messages[i]
		var parts []aycoder.Part
		for j := range m.Parts {
			if p := &m.Parts[j]; p.Type == "text" || p.Type == "file" && m.Role == "user" {
				part, err := p.part()
				if err != nil {
					return nil, err
				}
				parts = append(parts, part)
			}
		}
		if err := list.add(m.Role, parts); err != nil {
			return nil, err
		}
		q.key = m.ID
	}
	q.history, q.message = list.done()
	return q, nil
}

// answerIn takes what a part of the last message of the agent says to a question.
func (q *frontRequest) answerIn(p *uiPart) error {
	ticket := p.Metadata.Aycoder.Ticket
	switch {
	case p.State == "approval-responded" && p.Approval.Approved:
		return q.says(p.Approval.ID, &answer{Decision: "allow"}, nil)
	case p.State == "approval-responded":
		return q.says(p.Approval.ID, &answer{Decision: "deny", Reason: p.Approval.Reason}, nil)
	case p.State == "output-available" && ticket != "":
		text := string(p.Output)
		_ = json.Unmarshal(p.Output, &text) // what is not a text stays as it is
		return q.says(ticket, nil, resultOf(text, false))
	case p.State == "output-error" && ticket != "":
		return q.says(ticket, nil, resultOf(p.ErrorText, true))
	}
	return nil
}

// uiChat answers in the form of a UI message stream.
func (s *Server) uiChat(w http.ResponseWriter, r *http.Request, in *uiInput) error {
	q, err := in.request()
	if err != nil {
		return err
	}
	x, err := s.front(r, q)
	if err != nil {
		return err
	}
	defer s.release(x.c)
	return s.uiTells(w, r, x)
}

// uiResume streams the run that works in a session from its beginning. If there is none, it answers with the status 204.
func (s *Server) uiResume(w http.ResponseWriter, r *http.Request) error {
	c, err := s.thread(r, r.PathValue("session"), false)
	if err != nil && problemOf(err).Status == http.StatusNotFound {
		w.WriteHeader(http.StatusNoContent) // it has said nothing yet
		return nil
	}
	if err != nil {
		return err
	}
	defer s.release(c)
	c.mu.Lock()
	x := attached{run: c.newest()}
	if p := c.rt.Session.Pending(); p != nil && !x.working() {
		x.run, err = c.find(p.Run)
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !x.working() && c.rt.Session.Pending() == nil:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.uiTells(w, r, x)
}

func (s *Server) uiTells(w http.ResponseWriter, r *http.Request, x attached) error {
	w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	f := &uiForm{run: x.id, begun: len(x.known) > 0} // then the client has the beginning of the step
	return s.tells(w, r, x, form{f.tell, done})
}

// A uiForm encodes a run as chunks of a UI message stream.
type uiForm struct {
	run   string
	begun bool // the step, which is a turn
}

// tell is that of a [form].
func (f *uiForm) tell(s step, add func(...any)) {
	part := strconv.Itoa(s.turn) + "." + strconv.Itoa(s.piece)
	switch s.what {
	case stepBegin:
		add("type", "start", "messageId", f.run)
	case stepStart:
		f.begin(add)
		add("type", s.kind+"-start", "id", part)
	case stepText:
		add("type", s.kind+"-delta", "id", part, "delta", s.text)
	case stepStop:
		add("type", s.kind+"-end", "id", part)
	case stepCall:
		f.begin(add)
		key, value := "providerExecuted", any(true)
		if s.ticket != "" {
			key, value = "providerMetadata", aycoderOnly("ticket", s.ticket)
		}
		add("type", "tool-input-available", "toolCallId", s.call.ID, "toolName", s.call.Name, "input", s.call.Args, "dynamic", true, key, value)
	case stepOutput:
		if s.output.IsError {
			add("type", "tool-output-error", "toolCallId", s.output.ID, "errorText", s.output.Text(), "dynamic", true)
		} else {
			add("type", "tool-output-available", "toolCallId", s.output.ID, "output", s.output.Text(), "dynamic", true)
		}
	case stepTurn:
		f.finish(add)
	case stepAsk:
		var about []string
		for _, q := range s.questions {
			if q.ask != nil && !slices.Contains(about, q.outer) { // a part can have one question
				about = append(about, q.outer)
				add("type", "tool-approval-request", "toolCallId", q.outer, "approvalId", q.ticket, "approvalDescriptor", q.ask)
			}
		}
		f.finish(add)
		add("type", "finish", "finishReason", "tool-calls")
	case stepEnd:
		f.finish(add)
		switch {
		case s.end.Reason == aycoder.EndCancelled:
			add("type", "abort", "reason", "the run was cancelled")
		case s.end.Error != nil:
			add("type", "error", "errorText", s.end.Error.Detail)
		default:
			add("type", "finish", "finishReason", strings.ReplaceAll(s.end.finish(), "_", "-"))
		}
	case stepOther:
		add("type", "data-aycoder", "data", s.data, "transient", true)
	}
}

func (f *uiForm) begin(add func(...any)) {
	if !f.begun {
		add("type", "start-step")
	}
	f.begun = true
}

func (f *uiForm) finish(add func(...any)) {
	if f.begun {
		add("type", "finish-step")
	}
	f.begun = false
}
