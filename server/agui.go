package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
)

// The events of AG-UI 1.0, for front ends that know it: https://docs.ag-ui.com/concepts/events. The tools run here. A
// question ends the client's run with an interrupt, as https://docs.ag-ui.com/concepts/interrupts describes.

// An aguiInput is the body of POST /api/agui, as far as the server uses it.
type aguiInput struct {
	Thread   string          `json:"threadId"`
	Run      string          `json:"runId"`
	Messages []aguiMessage   `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Context  []struct {
		Description string `json:"description"`
		Value       string `json:"value"`
	} `json:"context"`
	Resume []aguiAnswer `json:"resume"`
}

type aguiAnswer struct {
	ID      string `json:"interruptId"`
	Status  string `json:"status"` // "resolved" or "cancelled"
	Payload struct {
		Approved *bool     `json:"approved"`
		Args     arguments `json:"editedArgs"`
		Rule     string    `json:"rule"`
		Reason   string    `json:"reason"`
		Text     *string   `json:"text"`
		IsError  bool      `json:"isError"`
	} `json:"payload"`
}

type aguiMessage struct {
	ID      string
	Role    string
	Content json.RawMessage

	raw json.RawMessage
}

// UnmarshalJSON keeps the message as it is, too.
func (m *aguiMessage) UnmarshalJSON(data []byte) error {
	m.raw = append(m.raw[:0], data...)
	var x struct {
		ID      string          `json:"id"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	err := json.Unmarshal(data, &x)
	m.ID, m.Role, m.Content = x.ID, x.Role, x.Content
	return err
}

func (m *aguiMessage) parts() (out []aycoder.Part, err error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []aycoder.Part{&aycoder.Text{Text: text}}, nil
	}
	var parts []struct {
		Type, Text string
		Source     struct{ Type, Value, MimeType string }
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil, invalid("the content of a message is a text or a list of parts")
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			out = append(out, &aycoder.Text{Text: p.Text})
		case "image":
			image, err := imageOf(p.Source.MimeType, p.Source.Value, p.Source.Type == "data")
			if err != nil {
				return nil, err
			}
			out = append(out, image)
		default:
			return nil, invalid("parts of the type " + p.Type + " are not supported")
		}
	}
	return out, nil
}

// request says in the terms of the server what a client wants.
func (in *aguiInput) request() (*frontRequest, error) {
	q := &frontRequest{thread: in.Thread, key: in.Run}
	if in.Run == "" {
		return nil, invalid("the run needs an id")
	}
	if len(in.Tools) > 0 && string(in.Tools) != "null" && string(in.Tools) != "[]" {
		return nil, invalid("tools of the client are not supported: the agent has its own")
	}
	for _, a := range in.Resume {
		if err := q.answer(&a); err != nil {
			return nil, err
		}
	}
	if len(q.said) > 0 {
		return q, nil
	}
	var list messageList
	for i := range in.Messages {
		m := &in.Messages[i]
		if m.Role == "tool" || m.Role == "reasoning" || m.Role == "activity" {
			continue
		}
		parts, err := m.parts()
		if err != nil && m.Role != "assistant" {
			return nil, err
		}
		if err := list.add(m.Role, parts); err != nil {
			return nil, err
		}
	}
	for _, c := range in.Context {
		list.before = append(list.before, &aycoder.Text{Text: c.Description + ": " + c.Value})
	}
	q.history, q.message = list.done()
	return q, nil
}

func (q *frontRequest) answer(a *aguiAnswer) error {
	t, err := parseTicket(a.ID)
	if err != nil {
		return err
	}
	what, p := said{call: t.call, digest: t.digest}, &a.Payload
	switch {
	case a.Status == "cancelled":
		const why = "the user gave no answer"
		what.answer, what.result = &answer{Decision: "deny", Reason: why}, aycoder.ErrorResult(why) // it is one of them
	case a.Status != "resolved":
		return invalid(`the status of an answer is "resolved" or "cancelled"`)
	case p.Approved != nil && *p.Approved:
		what.answer = &answer{Decision: "allow", Args: p.Args, Rule: p.Rule}
	case p.Approved != nil:
		what.answer = &answer{Decision: "deny", Reason: p.Reason}
	case p.Text != nil && p.IsError:
		what.result = aycoder.ErrorResult(*p.Text)
	case p.Text != nil:
		what.result = aycoder.TextResult(*p.Text)
	default:
		return invalid("an answer needs approved, or text for the result of a call")
	}
	q.tickets, q.said = append(q.tickets, t), append(q.said, what)
	return nil
}

// agui answers in the form of AG-UI. A request that the protocol allows and that cannot be carried out has an event as its
// answer, as the protocol demands.
func (s *Server) agui(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	var in aguiInput
	if err := decodeLoosely(r, &in); err != nil {
		return err
	}
	q, err := in.request()
	var x attached
	if err == nil {
		x, err = s.front(r, q)
	}
	if err != nil {
		p := problemOf(err)
		if p.Status != http.StatusConflict && p.Status != http.StatusUnprocessableEntity && p.Status != http.StatusBadRequest {
			return err
		}
		d := newSender(w, cursor{}, nil)
		d.message("", aguiError(p))
		_ = d.flush() // the client is gone
		return nil
	}
	defer s.release(x.c)
	form := &aguiForm{thread: in.Thread, runID: in.Run, run: x.id, session: x.c.id, known: x.known}
	form.text.next(x.at.turn)
	if x.again {
		form.had = in.Messages
	}
	s.tells(w, r, x, form)
	return nil
}

func aguiError(p *problem) []byte {
	return object("type", "RUN_ERROR", "message", p.Detail, "code", p.Kind)
}

// An aguiForm encodes the events of a run as those of AG-UI.
type aguiForm struct {
	thread, runID string // as the client names them
	run, session  string
	known         []string // calls that the client knows
	had           []aguiMessage
	text          frontText
	texts         int // pieces of the turn besides thoughts
}

// message returns the id of a message of the run.
func (f *aguiForm) message(kind, more string) string {
	return f.run + "." + kind + strconv.Itoa(f.text.turn) + more
}

// spoken returns the id of the present piece of text. The first one of a turn, and the calls, are one message.
func (f *aguiForm) spoken() string {
	if f.texts > 1 {
		return f.message("m", "."+strconv.Itoa(f.texts))
	}
	return f.message("m", "")
}

func (f *aguiForm) thought() string { return f.message("t", "."+strconv.Itoa(f.text.blocks)) }

// begin implements [encoding]. A client that joins the run again loses the part that it has, and gets the run from the beginning.
func (f *aguiForm) begin() [][]byte {
	out := [][]byte{object("type", "RUN_STARTED", "threadId", f.thread, "runId", f.runID, "protocolVersion", "1.0",
		"metadata", map[string]any{"aycoder": map[string]string{"run": f.run, "session": f.session}})}
	var keep []any
	lost := false
	for _, m := range f.had {
		switch {
		case !strings.HasPrefix(m.ID, f.run+"."):
			keep = append(keep, m.raw)
		case m.Role == "reasoning": // clients keep those that they are not told of
			lost = true
			keep = append(keep, map[string]string{"id": m.ID, "role": m.Role, "content": ""})
		default:
			lost = true
		}
	}
	if lost {
		out = append(out, object("type", "MESSAGES_SNAPSHOT", "messages", keep))
	}
	f.had = nil // which may be large, and a stream long
	return out
}

// event implements [encoding].
func (f *aguiForm) event(ev aycoder.Event, data []byte) (out [][]byte) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return f.says(ev.Text)
	case *aycoder.ThinkingDelta:
		if f.text.kind != "thinking" {
			out = f.close()
			f.text.begin("thinking")
			out = append(out, object("type", "REASONING_START", "messageId", f.thought()),
				object("type", "REASONING_MESSAGE_START", "messageId", f.thought(), "role", "reasoning"))
		}
		return append(out, object("type", "REASONING_MESSAGE_CONTENT", "messageId", f.thought(), "delta", ev.Text))
	case *aycoder.ToolStarted:
		return f.call(ev.Call.ID, ev.Call.Name, ev.Args)
	case *aycoder.ToolFinished:
		out = f.call(ev.Call.ID, ev.Call.Name, ev.Call.Args)
		return append(out, object("type", "TOOL_CALL_RESULT", "messageId", f.message("o", "."+ev.Call.ID), "toolCallId", ev.Call.ID,
			"content", ev.Output.Text(), "metadata", map[string]any{"aycoder": map[string]any{"isError": ev.Output.IsError}}))
	case *aycoder.Retrying:
		if !ev.Discarded {
			return nil
		}
		if f.texts > 0 {
			out = f.says(discarded)
		}
		out = append(out, f.close()...)
		f.known = nil
		return out
	case *aycoder.TurnFinished:
		out = f.close()
		f.known = nil
		f.texts = 0
		f.text.next(ev.Turn)
		return out
	case *aycoder.RunFinished:
		return append(f.close(), f.finished(data))
	case *aycoder.ToolDelta, *aycoder.ApprovalRequested, *aycoder.CallRequested:
		return nil
	}
	return [][]byte{object("type", "RAW", "source", "aycoder", "event", json.RawMessage(data))}
}

func (f *aguiForm) says(text string) (out [][]byte) {
	if f.text.kind != "text" {
		out = f.close()
		f.text.begin("text")
		f.texts++
		out = append(out, object("type", "TEXT_MESSAGE_START", "messageId", f.spoken(), "role", "assistant"))
	}
	return append(out, object("type", "TEXT_MESSAGE_CONTENT", "messageId", f.spoken(), "delta", text))
}

// close ends the present piece of text.
func (f *aguiForm) close() (out [][]byte) {
	switch f.text.kind {
	case "text":
		out = [][]byte{object("type", "TEXT_MESSAGE_END", "messageId", f.spoken())}
	case "thinking":
		out = [][]byte{object("type", "REASONING_MESSAGE_END", "messageId", f.thought()), object("type", "REASONING_END", "messageId", f.thought())}
	}
	f.text.kind = ""
	return out
}

// call tells of a call, once.
func (f *aguiForm) call(id, name string, args json.RawMessage) (out [][]byte) {
	out = f.close()
	if !remember(&f.known, id) {
		return out
	}
	return append(out, object("type", "TOOL_CALL_START", "toolCallId", id, "toolCallName", name, "parentMessageId", f.message("m", "")),
		object("type", "TOOL_CALL_ARGS", "toolCallId", id, "delta", string(args)), object("type", "TOOL_CALL_END", "toolCallId", id))
}

// remember adds a text to a set, and reports whether it was not there.
func remember(set *[]string, text string) bool {
	if slices.Contains(*set, text) {
		return false
	}
	*set = append(*set, text)
	return true
}

// asks implements [encoding].
func (f *aguiForm) asks(questions []question) (out [][]byte) {
	var all []any
	for _, q := range questions {
		x := map[string]any{"id": q.ticket, "reason": "tool_call", "toolCallId": q.outer}
		more := map[string]any{}
		if q.ask != nil {
			if q.outer == q.ask.CallID {
				out = append(out, f.call(q.outer, q.ask.Tool, q.ask.Args)...)
			}
			x["message"] = strings.TrimSpace("Allow " + q.ask.Tool + " " + q.ask.Subject + "?")
			x["responseSchema"] = approvalSchema(q.ask.Suggested)
			more["approval"] = q.ask
		} else {
			out = append(out, f.call(q.outer, q.call.Tool, q.call.Args)...)
			x["reason"] = "input_required"
			x["message"] = "The result of " + q.call.Tool
			x["responseSchema"] = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"isError":{"type":"boolean"}},"required":["text"]}`)
			more["call"] = q.call
		}
		x["metadata"] = map[string]any{"aycoder": more}
		all = append(all, x)
	}
	out = append(out, f.close()...)
	return append(out, f.outcome(map[string]any{"type": "interrupt", "interrupts": all}))
}

func approvalSchema(rules []string) map[string]any {
	text := map[string]any{"type": "string"}
	p := map[string]any{"approved": map[string]any{"type": "boolean"}, "reason": text,
		"editedArgs": map[string]any{"type": "object", "description": "Full replacement of the arguments."}}
	if len(rules) > 0 {
		p["rule"] = map[string]any{"type": "string", "enum": rules, "description": "Allows such calls in this session from now on."}
	}
	return map[string]any{"type": "object", "properties": p, "required": []string{"approved"}}
}

func (f *aguiForm) outcome(outcome map[string]any, more ...any) []byte {
	return object(append([]any{"type", "RUN_FINISHED", "threadId", f.thread, "runId", f.runID, "outcome", outcome}, more...)...)
}

func (f *aguiForm) finished(data []byte) []byte {
	var end chatEnd
	if json.Unmarshal(data, &end) != nil {
		return nil
	}
	if end.Error != nil && end.Reason != aycoder.EndCancelled {
		return aguiError(end.Error)
	}
	u := end.Usage
	in := u.Input + u.CacheRead + u.CacheWrite
	usage := []any{map[string]int64{"inputTokens": in, "outputTokens": u.Output, "totalTokens": in + u.Output, "reasoningTokens": u.Reasoning,
		"cachedInputTokens": u.CacheRead, "cacheWriteInputTokens": u.CacheWrite}}
	outcome := "success"
	if end.Reason == aycoder.EndCancelled {
		outcome = "cancelled"
	}
	return f.outcome(map[string]any{"type": outcome}, "result", map[string]any{"reason": end.Reason, "stop": end.Stop}, "usage", usage)
}

// end implements [encoding].
func (f *aguiForm) end() [][]byte { return nil }
