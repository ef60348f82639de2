package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

const (
	// secret is a key that must not be seen, mark a signature that must.
	secret = "sk-SECRET-0123456789abcdef"
	mark   = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="

	// foreign is in everything that only another provider understands.
	foreign = "OnlyAnotherProviderReadsThis"
)

// failsAs checks the type of an error.
func failsAs[E error](s *modelSuite, c Client) E {
	s.fails(c)
	_, err := aycoder.Complete(s.t.Context(), c.Model, request())
	e, ok := errors.AsType[E](err)
	if !ok {
		s.found.add(ruleModelType, "error %v (%T), want %T", err, err, e)
	}
	return e
}

func (s *modelSuite) rateLimited(c Client) {
	e := failsAs[*aycoder.RateLimitError](s, c)
	if !s.found.empty() {
		return
	}
	wait := e.RetryAfter
	if wait == 0 {
		wait = time.Until(e.ResetAt)
	}
	if wait < time.Second || wait > 8*time.Second {
		s.found.add(ruleModelType, "retry after %s or at %s, want 7s", e.RetryAfter, e.ResetAt)
	}
}

func (s *modelSuite) badKey(c Client) {
	failsAs[*aycoder.AuthError](s, c)
	_, err := aycoder.Complete(s.t.Context(), c.Model, request())
	var shown strings.Builder
	fmt.Fprintf(&shown, "%v %+v %#v %v %+v %#v", err, err, err, c.Model, c.Model, c.Model)
	for e := err; e != nil; e = errors.Unwrap(e) {
		fmt.Fprintf(&shown, " %v %+v", e, e)
	}
	if strings.Contains(shown.String(), secret) {
		s.found.add(ruleModelSecret, "it is in an error, or the client shows it")
	}
}

// grows takes a conversation through three steps.
func (s *modelSuite) grows(c Client, body func() []byte) {
	req := request()
	var before []byte
	for step := range 3 {
		res, err := aycoder.Complete(s.t.Context(), c.Model, req)
		if err != nil {
			s.found.add(ruleModelWhole, "step %d: error %v", step, err)
			return
		}
		sent := body()
		if !bytes.HasPrefix(sent, bytes.TrimRight(before, "]} \n")) {
			s.found.add(ruleModelGrows, "step %d sends\n%s\nafter\n%s", step, shown(string(sent)), shown(string(before)))
		}
		if _, err := aycoder.Complete(s.t.Context(), c.Model, req); err != nil || !bytes.Equal(sent, body()) {
			s.found.add(ruleModelGrows, "the same request is other bytes, or error %v", err)
		}
		before = sent
		next := *req
		next.Messages = append(next.Messages[:len(next.Messages):len(next.Messages)], res.Message,
			aycoder.User(fmt.Sprintf("And %d?", step)))
		req = &next
	}
}

// moved asks with a conversation that others have led.
func (s *modelSuite) moved(c Client, body func() []byte) {
	opaque := &aycoder.Opaque{Provider: foreign, Raw: json.RawMessage(`{"type":"` + foreign + `"}`)}
	ids := []string{"functions.read:0", "toolu_01A/b c", strings.Repeat("long", 40)}
	req := request()
	for _, id := range ids {
		req.Messages = append(req.Messages,
			&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.Thinking{Text: "hm", Signature: foreign, Provider: foreign}, opaque,
				&aycoder.Text{Text: "I read.", Extra: opaque},
				&aycoder.ToolUse{ID: id, Name: "read", Args: json.RawMessage(`{"path":"x"}`), Extra: opaque},
			}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: id, Name: "read", Parts: []aycoder.Part{&aycoder.Text{Text: "is there"}}},
			}})
	}
	before, err := json.Marshal(req.Messages)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := aycoder.Complete(s.t.Context(), c.Model, req); err != nil {
		s.found.add(ruleModelMoved, "error %v", err)
		return
	}
	if sent := body(); bytes.Contains(sent, []byte(foreign)) || !json.Valid(sent) ||
		bytes.Count(sent, []byte("is there")) != len(ids) {
		s.found.add(ruleModelMoved, "it sends %s", shown(string(sent)))
	}
	if after, err := json.Marshal(req.Messages); err != nil || !bytes.Equal(before, after) {
		s.found.add(ruleModelReq, "the history differs after the request")
	}
}

func (s *modelSuite) format(c Client, body func() []byte) {
	req := request()
	req.Tools = nil
	req.Messages = []*aycoder.Message{aycoder.User("Which colour?")}
	req.Output = &aycoder.OutputFormat{Name: "paint",
		Schema: json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string"}},"required":["colour"]}`)}
	_, err := aycoder.Complete(s.t.Context(), c.Model, req)
	f, ok := aycoder.As[aycoder.OutputFormatter](c.Model)
	native := ok && f.FormatsOutput("")
	sent := bytes.Contains(body(), []byte(`"colour"`)) ||
		bytes.Contains(body(), []byte(`\"colour\"`)) // in a text, as some APIs want it
	if err != nil || sent != native {
		s.found.add(ruleModelFormat, "error %v, the schema is sent: %v, FormatsOutput says %v", err, sent, native)
	}
}

// back takes an answer through its stored form, and sends it back.
func (s *modelSuite) back(c Client, body func() []byte) {
	res, err := aycoder.Complete(s.t.Context(), c.Model, request())
	if err != nil || len(res.Message.Calls()) != 1 {
		s.found.add(ruleModelWhole, "%d calls, error %v", len(res.Message.Calls()), err)
		return
	}
	data, err := json.Marshal(res.Message)
	var stored aycoder.Message
	if err != nil || json.Unmarshal(data, &stored) != nil {
		s.t.Fatalf("message cannot be stored: %v", err)
	}
	req := request()
	req.Messages = append(req.Messages, &stored, &aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
		&aycoder.ToolOutput{ID: stored.Calls()[0].ID, Name: "read", Parts: []aycoder.Part{&aycoder.Text{Text: "is there"}}},
	}})
	if _, err := aycoder.Complete(context.WithoutCancel(s.t.Context()), c.Model, req); err != nil {
		s.found.add(ruleModelBack, "error %v", err)
		return
	}
	if sent := body(); !bytes.Contains(sent, []byte(mark)) {
		s.found.add(ruleModelBack, "it sends %s", shown(string(sent)))
	}
}
