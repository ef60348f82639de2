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
	Model    string          `json:"model"`
	Messages []chatMessage   `json:"messages"`
	Stream   bool            `json:"stream"`
	Options  streamOptions   `json:"stream_options"`
	Tools    json.RawMessage `json:"tools"`
	N        int             `json:"n"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a text, or parts
}

type chatPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

func (m *chatMessage) parts() (out []aycoder.Part, err error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []aycoder.Part{&aycoder.Text{Text: text}}, nil
	}
	var parts []chatPart
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil, invalid("the content of a message is a text or a list of parts")
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			out = append(out, &aycoder.Text{Text: p.Text})
		case "image_url":
			image, err := mediaOf(p.Image.URL)
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

// input makes the input of a run. Instructions of the client come before its first message: those of the agent stay.
func (c *chatRequest) input() (in aycoder.Input, err error) {
	if len(c.Tools) > 0 && string(c.Tools) != "null" && string(c.Tools) != "[]" {
		return in, invalid("tools of the client are not supported: the agent has its own")
	}
	if c.N > 1 {
		return in, invalid("there is one choice")
	}
	var list messageList
	for i := range c.Messages {
		m := &c.Messages[i]
		parts, err := m.parts()
		if err == nil {
			err = list.add(m.Role, parts)
		}
		if err != nil {
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
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.stream(r)
	if err != nil {
		return err
	}
	defer leave()
	var req chatRequest
	if err := decodeLoosely(r, &req); err != nil {
		return err
	}
	in, err := req.input()
	if err != nil {
		return err
	}
	c, err := s.open(r.Context(), principalOf(r), "", "")
	if err != nil {
		return err
	}
	defer s.release(c)
	x := c.newRun(position{}, 0)
	x.unattended = true
	c.mu.Lock()
	err = c.begin(in, x, "", "")
	c.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Aycoder-Run", x.id)
	form := &chatForm{id: "chatcmpl-" + x.id, model: cmp.Or(req.Model, "aycoder"), created: time.Now().Unix(), usage: req.Options.Usage}
	if req.Stream {
		_ = s.follow(r.Context(), newSender(w, cursor{}, form), x) // the client is gone
		return nil
	}
	select {
	case <-x.done:
	case <-r.Context().Done():
		return nil
	}
	return form.whole(w, x)
}

// A chatForm encodes the events of a run as chunks.
type chatForm struct {
	id, model string
	created   int64
	usage     bool
	said      bool // a turn before this one has said something
	between   bool // the next text is that of another turn
}

// A chatEnd is what a run_end says.
type chatEnd struct {
	Reason aycoder.EndReason  `json:"reason"`
	Stop   aycoder.StopReason `json:"stop"`
	Text   string             `json:"text"`
	Usage  aycoder.Usage      `json:"usage"`
	Error  *problem           `json:"error"`
}

func (e *chatEnd) finish() string {
	switch {
	case e.Reason == aycoder.EndRefused:
		return "content_filter"
	case e.Stop == aycoder.StopMaxTokens || e.Reason == aycoder.EndTurns:
		return "length"
	}
	return "stop"
}

func (e *chatEnd) tokens() map[string]int64 {
	in := e.Usage.Input + e.Usage.CacheRead + e.Usage.CacheWrite
	return map[string]int64{"prompt_tokens": in, "completion_tokens": e.Usage.Output, "total_tokens": in + e.Usage.Output}
}

func (f *chatForm) chunk(delta map[string]any, finish any) []byte {
	return f.object("chat.completion.chunk", "choices", []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}})
}

// object encodes a value with the fields that all have.
func (f *chatForm) object(kind string, more ...any) []byte {
	v := map[string]any{"id": f.id, "object": kind, "created": f.created, "model": f.model}
	for i := 0; i < len(more); i += 2 {
		v[more[i].(string)] = more[i+1]
	}
	data, _ := json.Marshal(v) // texts and numbers always encode
	return data
}

// begin implements [encoding].
func (f *chatForm) begin() [][]byte {
	return [][]byte{f.chunk(map[string]any{"role": "assistant", "content": ""}, nil)}
}

// asks implements [encoding]. Nobody can be asked.
func (f *chatForm) asks([]question) [][]byte { return nil }

// event implements [encoding].
func (f *chatForm) event(ev aycoder.Event, data []byte) (out [][]byte) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		text := ev.Text
		if f.between && f.said {
			text = "\n\n" + text
		}
		f.between, f.said = false, true
		return [][]byte{f.chunk(map[string]any{"content": text}, nil)}
	case *aycoder.Retrying:
		if ev.Discarded && f.said && !f.between {
			return [][]byte{f.chunk(map[string]any{"content": discarded}, nil)}
		}
	case *aycoder.TurnFinished:
		f.between = true
	case *aycoder.RunFinished:
		var end chatEnd
		if json.Unmarshal(data, &end) != nil {
			return nil
		}
		if end.Error != nil {
			return [][]byte{chatError(end.Error)}
		}
		out = append(out, f.chunk(map[string]any{}, end.finish()))
		if f.usage {
			out = append(out, f.object("chat.completion.chunk", "choices", []any{}, "usage", end.tokens()))
		}
	}
	return out
}

// end implements [encoding].
func (f *chatForm) end() [][]byte { return [][]byte{[]byte("[DONE]")} }

// whole answers in one piece, with what the agent said last.
func (f *chatForm) whole(w http.ResponseWriter, x *run) error {
	var end chatEnd
	if x.end == nil || json.Unmarshal(x.end, &end) != nil {
		return drains()
	}
	if end.Error != nil {
		return end.Error
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(f.object("chat.completion", "usage", end.tokens(), "choices", []any{map[string]any{
		"index": 0, "finish_reason": end.finish(), "message": map[string]any{"role": "assistant", "content": end.Text}}}))
	return nil
}

// chatError is the form of an error.
func chatError(p *problem) []byte {
	kind := "invalid_request_error"
	if p.Status >= 500 {
		kind = "server_error"
	}
	data, _ := json.Marshal(map[string]any{"error": map[string]any{"message": p.Detail, "type": kind, "code": p.Kind, "param": nil}})
	return data
}

// models lists the one model that the form knows.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "aycoder", "object": "model", "created": 0, "owned_by": "aycoder"}}})
	return nil
}
