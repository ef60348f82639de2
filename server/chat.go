package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aycoder/aycoder"
)

// The form of OpenAI's chat completions, for programs that know it: https://platform.openai.com/docs/api-reference/chat.
// The agent answers, and its tools are not visible. The client sends the whole conversation each time, so each request is
// a session.

// A chatRequest is the body of POST /v1/chat/completions, as far as the server uses it.
type chatRequest struct {
	Model    string           `json:"model"`
	Messages []foreignMessage `json:"messages"`
	Stream   bool             `json:"stream"`
	Options  streamOptions    `json:"stream_options"`
	Tools    json.RawMessage  `json:"tools"`
	N        int              `json:"n"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

// input makes the input of a run. Instructions of the client come before its first message: those of the agent stay.
func (c *chatRequest) input() (in aycoder.Input, err error) {
	if err := noTools(c.Tools); err != nil {
		return in, err
	}
	if c.N > 1 {
		return in, invalid("there is one choice")
	}
	var list messageList
	for _, m := range c.Messages {
		if err := list.take(&m); err != nil {
			return in, err
		}
	}
	in.Messages = list.all
	if n := len(in.Messages); n == 0 || in.Messages[n-1].Role != aycoder.RoleUser {
		return in, invalid("the newest message must be one of the user")
	}
	return in, nil
}

// chat answers in the form of chat completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, req *chatRequest) error {
	in, err := req.input()
	if err != nil {
		return err
	}
	c, err := s.open(r.Context(), principalOf(r), "", "")
	if err != nil {
		return err
	}
	defer s.release(c)
	x := c.newRun(position{})
	x.unattended = true
	c.mu.Lock()
	err = c.begin(c.rt, in, x)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	f := &chatForm{id: "chatcmpl-" + x.id, model: cmp.Or(req.Model, "aycoder"), created: time.Now().Unix(), usage: req.Options.Usage}
	if req.Stream {
		return s.tells(w, r, attached{run: x}, form{f.tell, done})
	}
	names(w, x)
	select {
	case <-x.done:
	case <-r.Context().Done():
		return nil
	}
	return f.whole(w, x)
}

// A chatForm encodes a run as chunks.
type chatForm struct {
	id, model string
	created   int64
	usage     bool
	said      bool // a turn before this one has said something
	between   bool // the next text is that of another turn
}

// tell is that of a [form].
func (f *chatForm) tell(s step, add func(...any)) {
	chunk := func(delta map[string]any, finish any) {
		add(f.with("chat.completion.chunk", "choices", []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}})...)
	}
	switch s.what {
	case stepBegin:
		chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	case stepText:
		if s.kind != "text" {
			return
		}
		text := s.text
		if f.between && f.said {
			text = "\n\n" + text
		}
		f.between, f.said = false, true
		chunk(map[string]any{"content": text}, nil)
	case stepTurn:
		f.between = true
	case stepEnd:
		if s.end.Error != nil {
			add("error", chatError(s.end.Error))
			return
		}
		chunk(map[string]any{}, s.end.finish())
		if f.usage {
			add(f.with("chat.completion.chunk", "choices", []any{}, "usage", f.tokens(s.end))...)
		}
	}
}

// with adds the keys that all objects have.
func (f *chatForm) with(kind string, pairs ...any) []any {
	return append(pairs, "id", f.id, "object", kind, "created", f.created, "model", f.model)
}

func (f *chatForm) tokens(e *runEnd) map[string]int64 {
	return map[string]int64{"prompt_tokens": e.input(), "completion_tokens": e.Usage.Output, "total_tokens": e.input() + e.Usage.Output}
}

// whole answers in one piece, with what the agent said last.
func (f *chatForm) whole(w http.ResponseWriter, x *run) error {
	var end runEnd
	if x.end == nil || json.Unmarshal(x.end, &end) != nil {
		return drains()
	}
	if end.Error != nil {
		return end.Error
	}
	reply(w, http.StatusOK, json.RawMessage(object(f.with("chat.completion", "usage", f.tokens(&end), "choices", []any{map[string]any{
		"index": 0, "finish_reason": end.finish(), "message": map[string]any{"role": "assistant", "content": end.Text}}})...)))
	return nil
}

// chatError is the form of an error.
func chatError(p *problem) map[string]any {
	kind := "invalid_request_error"
	if p.Status >= 500 {
		kind = "server_error"
	}
	return map[string]any{"message": p.Detail, "type": kind, "code": p.Kind, "param": nil}
}

// models lists the one model that the form knows.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "aycoder", "object": "model", "created": 0, "owned_by": "aycoder"}}})
	return nil
}
