package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
)

// The events of AG-UI 1.0, for front ends that know it: https://docs.ag-ui.com/concepts/events. The tools run here. A
// question ends the client's run with an interrupt, as https://docs.ag-ui.com/concepts/interrupts describes.

// An aguiInput is the body of POST /api/agui, as far as the server uses it.
type aguiInput struct {
	Thread   string            `json:"threadId"`
	Run      string            `json:"runId"`
	Messages []json.RawMessage `json:"messages"`
	Tools    json.RawMessage   `json:"tools"`
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
		Approved *bool           `json:"approved"`
		Args     json.RawMessage `json:"editedArgs"`
		Rule     string          `json:"rule"`
		Reason   string          `json:"reason"`
		Text     *string         `json:"text"`
		IsError  bool            `json:"isError"`
	} `json:"payload"`
}

// request says in the terms of the server what a client wants.
func (in *aguiInput) request() (*frontRequest, error) {
	q := &frontRequest{thread: in.Thread, key: in.Run}
	if in.Run == "" {
		return nil, invalid("the run needs an id")
	}
	if err := noTools(in.Tools); err != nil {
		return nil, err
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
	for _, raw := range in.Messages {
		var m foreignMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil, invalid("a message is not as it must be")
		}
		if m.Role == "tool" || m.Role == "reasoning" || m.Role == "activity" {
			continue
		}
		if err := list.take(&m); err != nil {
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
	p := &a.Payload
	switch {
	case a.Status == "cancelled":
		const why = "the user gave no answer"
		return q.says(a.ID, &answer{Decision: "deny", Reason: why}, aycoder.ErrorResult(why)) // it is one of them
	case a.Status != "resolved":
		return invalid(`the status of an answer is "resolved" or "cancelled"`)
	case p.Approved != nil && *p.Approved:
		return q.says(a.ID, &answer{Decision: "allow", Args: p.Args, Rule: p.Rule}, nil)
	case p.Approved != nil:
		return q.says(a.ID, &answer{Decision: "deny", Reason: p.Reason}, nil)
	case p.Text != nil:
		return q.says(a.ID, nil, resultOf(*p.Text, p.IsError))
	}
	return invalid("an answer needs approved, or text for the result of a call")
}

// agui answers in the form of AG-UI. A request that the protocol allows and that cannot be carried out has an event as its
// answer, as the protocol demands.
func (s *Server) agui(w http.ResponseWriter, r *http.Request, in *aguiInput) error {
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
		d := newSender(w, cursor{}, nil, nil)
		d.message("", object(aguiError(p)...))
		_ = d.flush() // the client is gone
		return nil
	}
	defer s.release(x.c)
	f := &aguiForm{thread: in.Thread, runID: in.Run, run: x.id, session: x.c.id}
	if x.again {
		f.had = in.Messages
	}
	return s.tells(w, r, x, form{f.tell, ""})
}

func aguiError(p *problem) []any {
	return []any{"type", "RUN_ERROR", "message", p.Detail, "code", p.Kind}
}

// An aguiForm encodes a run as events of AG-UI.
type aguiForm struct {
	thread, runID string // as the client names them
	run, session  string
	had           []json.RawMessage // messages that the client has, and gets again
}

// tell is that of a [form]. The first text of a turn, and the calls, are one message.
func (f *aguiForm) tell(s step, add func(...any)) {
	id := func(kind string, more ...string) string {
		return strings.Join(append([]string{f.run, kind + strconv.Itoa(s.turn)}, more...), ".")
	}
	prefix, role, message := "TEXT_MESSAGE_", "assistant", id("m")
	switch {
	case s.kind == "reasoning":
		prefix, role, message = "REASONING_MESSAGE_", "reasoning", id("t", strconv.Itoa(s.piece))
	case s.texts > 1:
		message = id("m", strconv.Itoa(s.texts))
	}
	switch s.what {
	case stepBegin:
		f.begin(add)
	case stepStart:
		if s.kind == "reasoning" {
			add("type", "REASONING_START", "messageId", message)
		}
		add("type", prefix+"START", "messageId", message, "role", role)
	case stepText:
		add("type", prefix+"CONTENT", "messageId", message, "delta", s.text)
	case stepStop:
		add("type", prefix+"END", "messageId", message)
		if s.kind == "reasoning" {
			add("type", "REASONING_END", "messageId", message)
		}
	case stepCall:
		add("type", "TOOL_CALL_START", "toolCallId", s.call.ID, "toolCallName", s.call.Name, "parentMessageId", id("m"))
		add("type", "TOOL_CALL_ARGS", "toolCallId", s.call.ID, "delta", string(s.call.Args))
		add("type", "TOOL_CALL_END", "toolCallId", s.call.ID)
	case stepOutput:
		add("type", "TOOL_CALL_RESULT", "messageId", id("o", s.output.ID), "toolCallId", s.output.ID,
			"content", s.output.Text(), "metadata", aycoderOnly("isError", s.output.IsError))
	case stepAsk:
		var all []any
		for _, q := range s.questions {
			all = append(all, aguiInterrupt(q))
		}
		f.finished(add, map[string]any{"type": "interrupt", "interrupts": all})
	case stepEnd:
		f.end(add, s.end)
	case stepOther:
		add("type", "RAW", "source", "aycoder", "event", s.data)
	}
}

// aycoderOnly is what only programs that know this server read.
func aycoderOnly(key string, v any) map[string]any {
	return map[string]any{"aycoder": map[string]any{key: v}}
}

// begin tells that the run has begun. A client that joins it again loses the part that it has, and gets the run from the beginning.
func (f *aguiForm) begin(add func(...any)) {
	add("type", "RUN_STARTED", "threadId", f.thread, "runId", f.runID, "protocolVersion", "1.0",
		"metadata", map[string]any{"aycoder": map[string]string{"run": f.run, "session": f.session}})
	var keep []any
	lost := false
	for _, raw := range f.had {
		var m foreignMessage
		switch _ = json.Unmarshal(raw, &m); { // it was decoded before
		case !strings.HasPrefix(m.ID, f.run+"."):
			keep = append(keep, raw)
		case m.Role == "reasoning": // clients keep those that they are not told of
			lost = true
			keep = append(keep, map[string]string{"id": m.ID, "role": m.Role, "content": ""})
		default:
			lost = true
		}
	}
	if lost {
		add("type", "MESSAGES_SNAPSHOT", "messages", keep)
	}
	f.had = nil // which may be large, and a stream long
}

func aguiInterrupt(q asked) map[string]any {
	if q.ask != nil {
		return map[string]any{"id": q.ticket, "reason": "tool_call", "toolCallId": q.outer, "metadata": aycoderOnly("approval", q.ask),
			"message": strings.TrimSpace("Allow " + q.ask.Tool + " " + q.ask.Subject + "?"), "responseSchema": approvalSchema(q.ask.Suggested)}
	}
	return map[string]any{"id": q.ticket, "reason": "input_required", "toolCallId": q.outer, "metadata": aycoderOnly("call", q.request),
		"message":        "The result of " + q.request.Tool,
		"responseSchema": json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"isError":{"type":"boolean"}},"required":["text"]}`)}
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

func (f *aguiForm) finished(add func(...any), outcome map[string]any, more ...any) {
	add(append([]any{"type", "RUN_FINISHED", "threadId", f.thread, "runId", f.runID, "outcome", outcome}, more...)...)
}

func (f *aguiForm) end(add func(...any), end *runEnd) {
	outcome := "success"
	if end.Reason == aycoder.EndCancelled {
		outcome = "cancelled"
	} else if end.Error != nil {
		add(aguiError(end.Error)...)
		return
	}
	u, in := end.Usage, end.input()
	usage := []any{map[string]int64{"inputTokens": in, "outputTokens": u.Output, "totalTokens": in + u.Output, "reasoningTokens": u.Reasoning,
		"cachedInputTokens": u.CacheRead, "cacheWriteInputTokens": u.CacheWrite}}
	f.finished(add, map[string]any{"type": outcome}, "result", map[string]any{"reason": end.Reason, "stop": end.Stop}, "usage", usage)
}
