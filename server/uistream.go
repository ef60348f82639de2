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
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	URL       string          `json:"url"`
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
			if err := q.part(&m.Parts[i]); err != nil {
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
			switch p := &m.Parts[j]; {
			case p.Type == "text":
				parts = append(parts, &aycoder.Text{Text: p.Text})
			case p.Type == "file" && m.Role == "user":
				image, err := mediaOf(p.URL)
				if err != nil {
					return nil, err
				}
				parts = append(parts, image)
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

// part takes what a part of the last message of the agent says to a question.
func (q *frontRequest) part(p *uiPart) error {
	var what said
	id := p.Approval.ID
	switch {
	case p.State == "approval-responded" && p.Approval.Approved:
		what.answer = &answer{Decision: "allow"}
	case p.State == "approval-responded":
		what.answer = &answer{Decision: "deny", Reason: p.Approval.Reason}
	case p.Metadata.Aycoder.Ticket == "":
		return nil
	case p.State == "output-available":
		id = p.Metadata.Aycoder.Ticket
		text := string(p.Output)
		_ = json.Unmarshal(p.Output, &text) // what is not a text stays as it is
		what.result = aycoder.TextResult(text)
	case p.State == "output-error":
		id = p.Metadata.Aycoder.Ticket
		what.result = aycoder.ErrorResult(p.ErrorText)
	default:
		return nil
	}
	t, err := parseTicket(id)
	if err != nil {
		return err
	}
	what.call, what.digest = t.call, t.digest
	q.tickets, q.said = append(q.tickets, t), append(q.said, what)
	return nil
}

// uiChat answers in the form of a UI message stream.
func (s *Server) uiChat(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	var in uiInput
	if err := decodeLoosely(r, &in); err != nil {
		return err
	}
	q, err := in.request()
	if err != nil {
		return err
	}
	x, err := s.front(r, q)
	if err != nil {
		return err
	}
	s.uiTells(w, r, x)
	return nil
}

// uiResume streams the run that works in a session from its beginning. If there is none, it answers with the status 204.
func (s *Server) uiResume(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	c, err := s.thread(r, r.PathValue("session"), false)
	if err != nil && problemOf(err).Status == http.StatusNotFound {
		w.WriteHeader(http.StatusNoContent) // it has said nothing yet
		return nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	x := attached{run: c.last}
	if p := c.rt.Session.Pending(); p != nil && (x.run == nil || !x.working()) {
		x.run, err = c.find(r, p.Run)
	}
	c.mu.Unlock()
	if err != nil || x.run == nil || !x.working() && c.rt.Session.Pending() == nil {
		s.release(c)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}
	s.uiTells(w, r, x)
	return nil
}

func (s *Server) uiTells(w http.ResponseWriter, r *http.Request, x attached) {
	defer s.release(x.c)
	w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	form := &uiForm{run: x.id, known: x.known}
	form.text.next(x.at.turn)
	form.step = len(x.known) > 0 // the client has the beginning of the step
	s.tells(w, r, x, form)
}

// A uiForm encodes the events of a run as the chunks of a UI message stream.
type uiForm struct {
	run   string
	known []string // calls that the client knows
	text  frontText
	step  bool // it has begun
	said  bool // a text of the turn
}

// part returns the id of the present piece of text.
func (f *uiForm) part() string { return strconv.Itoa(f.text.turn) + "." + strconv.Itoa(f.text.blocks) }

// begin implements [encoding].
func (f *uiForm) begin() [][]byte { return [][]byte{object("type", "start", "messageId", f.run)} }

// event implements [encoding].
func (f *uiForm) event(ev aycoder.Event, data []byte) (out [][]byte) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		f.said = true
		return f.piece("text", ev.Text)
	case *aycoder.ThinkingDelta:
		return f.piece("reasoning", ev.Text)
	case *aycoder.ToolStarted:
		return f.call(ev.Call.ID, ev.Call.Name, ev.Args, "")
	case *aycoder.ToolFinished:
		out = f.call(ev.Call.ID, ev.Call.Name, ev.Call.Args, "")
		if ev.Output.IsError {
			return append(out, object("type", "tool-output-error", "toolCallId", ev.Call.ID, "errorText", ev.Output.Text(), "dynamic", true))
		}
		return append(out, object("type", "tool-output-available", "toolCallId", ev.Call.ID, "output", ev.Output.Text(), "dynamic", true))
	case *aycoder.Retrying:
		if !ev.Discarded {
			return nil
		}
		if f.said {
			out = f.piece("text", discarded)
		}
		f.known = nil
		return append(out, f.close()...)
	case *aycoder.TurnFinished:
		out = f.finishStep()
		f.known, f.said = nil, false
		f.text.next(ev.Turn)
		return out
	case *aycoder.RunFinished:
		return append(f.finishStep(), f.finished(data))
	case *aycoder.ToolDelta, *aycoder.ApprovalRequested, *aycoder.CallRequested:
		return nil
	}
	return [][]byte{object("type", "data-aycoder", "data", json.RawMessage(data), "transient", true)}
}

func (f *uiForm) begun() (out [][]byte) {
	if !f.step {
		f.step = true
		out = append(out, object("type", "start-step"))
	}
	return out
}

func (f *uiForm) piece(kind, text string) (out [][]byte) {
	if f.text.kind != kind {
		out = append(f.begun(), f.close()...)
		f.text.begin(kind)
		out = append(out, object("type", kind+"-start", "id", f.part()))
	}
	return append(out, object("type", kind+"-delta", "id", f.part(), "delta", text))
}

// close ends the present piece of text.
func (f *uiForm) close() (out [][]byte) {
	if f.text.kind != "" {
		out = append(out, object("type", f.text.kind+"-end", "id", f.part()))
	}
	f.text.kind = ""
	return out
}

func (f *uiForm) finishStep() [][]byte {
	out := f.close()
	if f.step {
		out = append(out, object("type", "finish-step"))
	}
	f.step = false
	return out
}

// call tells of a call, once. One that the client answers has a ticket.
func (f *uiForm) call(id, name string, args json.RawMessage, ticket string) [][]byte {
	out := append(f.begun(), f.close()...)
	if !remember(&f.known, id) {
		return out
	}
	pairs := []any{"type", "tool-input-available", "toolCallId", id, "toolName", name, "input", args, "dynamic", true}
	if ticket != "" {
		return append(out, object(append(pairs, "providerMetadata", map[string]any{"aycoder": map[string]string{"ticket": ticket}})...))
	}
	return append(out, object(append(pairs, "providerExecuted", true)...))
}

// asks implements [encoding]. A part of a message can have one question, so of several about one call, the first is told.
func (f *uiForm) asks(questions []question) (out [][]byte) {
	var asked []string
	for _, q := range questions {
		if slices.Contains(asked, q.outer) {
			continue
		}
		asked = append(asked, q.outer)
		if q.ask == nil {
			out = append(out, f.call(q.outer, q.call.Tool, q.call.Args, q.ticket)...)
			continue
		}
		if q.outer == q.ask.CallID {
			out = append(out, f.call(q.outer, q.ask.Tool, q.ask.Args, "")...)
		}
		out = append(out, object("type", "tool-approval-request", "toolCallId", q.outer, "approvalId", q.ticket, "approvalDescriptor", q.ask))
	}
	out = append(out, f.finishStep()...)
	return append(out, object("type", "finish", "finishReason", "tool-calls"))
}

func (f *uiForm) finished(data []byte) []byte {
	var end chatEnd
	if json.Unmarshal(data, &end) != nil {
		return nil
	}
	switch {
	case end.Reason == aycoder.EndCancelled:
		return object("type", "abort", "reason", "the run was cancelled")
	case end.Error != nil:
		return object("type", "error", "errorText", end.Error.Detail)
	}
	return object("type", "finish", "finishReason", strings.ReplaceAll(end.finish(), "_", "-"))
}

// end implements [encoding].
func (f *uiForm) end() [][]byte { return [][]byte{[]byte("[DONE]")} }
