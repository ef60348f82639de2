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
	// secret is an API key that must not be shown, and mark a signature that must be sent back.
	secret = "sk-SECRET-0123456789abcdef"
	mark   = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="

	// foreign is a part of all data that only another provider understands.
	foreign = "OnlyAnotherProviderReadsThis"
)

// failsAs checks that a request fails with an error of type E. Programs choose by the type
// whether to retry, to shorten the conversation, or to ask the user for a key.
func failsAs[E error](s *modelSuite, c Client) E {
	s.fails(c)
	_, err := aycoder.Complete(s.t.Context(), c.Model, request())
	e, ok := errors.AsType[E](err)
	if !ok {
		s.found.add(ruleModelType, "error %v (%T), want %T", err, err, e)
	}
	return e
}

// rateLimited checks that the error contains the wait that the provider asked for. Without it a
// program would send the request again too early.
func (s *modelSuite) rateLimited(c Client) {
	e := failsAs[*aycoder.RateLimitError](s, c)
	if !s.found.empty() {
		return
	}
	// Some providers give the time at which the limit is full again, and not a wait.
	wait := e.RetryAfter
	if wait == 0 {
		wait = time.Until(e.ResetAt)
	}
	if wait < time.Second || wait > 8*time.Second {
		s.found.add(ruleModelType, "retry after %s or at %s, want 7s", e.RetryAfter, e.ResetAt)
	}
}

// badKey checks that neither the error nor the client shows the API key, however it is formatted.
// Providers quote a wrong key in their answer, and programs log errors.
func (s *modelSuite) badKey(c Client) {
	failsAs[*aycoder.AuthError](s, c)
	_, err := aycoder.Complete(s.t.Context(), c.Model, request())
	var shown strings.Builder
	fmt.Fprintf(&shown, "%v %+v %#v %v %+v %#v", err, err, err, c.Model, c.Model, c.Model)
	// Loggers print the errors in a chain one by one, so each of them must be safe.
	for e := err; e != nil; e = errors.Unwrap(e) {
		fmt.Fprintf(&shown, " %v %+v", e, e)
	}
	if strings.Contains(shown.String(), secret) {
		s.found.add(ruleModelSecret, "it is in an error, or the client shows it")
	}
}

// sends checks that all content for the model is in the request. Each part of the request has a
// word that occurs nowhere else, so a part that the client drops is found by its missing word.
func (s *modelSuite) sends(c Client, body func() []byte) {
	ask := func(failed bool) []byte {
		req := fullRequest(failed)
		if _, err := aycoder.Complete(s.t.Context(), c.Model, req); err != nil {
			s.found.add(ruleModelSends, "error %v", err)
		}
		return body()
	}
	sent := ask(false)
	for _, w := range []struct{ word, what string }{
		{"promptfirst", "the first text of Request.System"},
		{"promptsecond", "the second text of Request.System"},
		{"namefirst", "the Name of the first of Request.Tools"},
		{"aboutfirst", "the Description of the first of Request.Tools"},
		{"schemafirst", "the Schema of the first of Request.Tools"},
		{"namesecond", "the Name of the second of Request.Tools"},
		{"aboutsecond", "the Description of the second of Request.Tools"},
		{"schemasecond", "the Schema of the second of Request.Tools"},
		{"usersays", "a text of RoleUser"},
		{"hostsays", "a text of RoleSystem among the messages"},
		{"looksfirst", "a text of RoleAssistant"},
		{"namecalled", "the Name of a ToolUse"},
		{"callarg", "the Args of a ToolUse"},
		{"outputfirst", "the first text of a ToolOutput"},
		{"outputsecond", "the second text of a ToolOutput"},
		{"asksnext", "a text after a ToolOutput"},
		{"tailsays", "a text of Request.Tail"},
	} {
		if !bytes.Contains(sent, []byte(w.word)) {
			s.found.add(ruleModelSends, "%s, %q, is not in the body", w.what, w.word)
		}
	}
	if tail := bytes.Index(sent, []byte("tailsays")); tail >= 0 && tail < bytes.Index(sent, []byte("asksnext")) {
		s.found.add(ruleModelSends, "Request.Tail is before the last message")
	}
	if s.found.empty() && bytes.Equal(sent, ask(true)) {
		s.found.add(ruleModelSends, "IsError of a ToolOutput changes nothing in the body; a service without such a field "+
			"can get it as a text, such as \"Error: …\"")
	}
}

// fullRequest returns a request with a different word in each part that the model must get. If
// failed is set, the output of the tool is an error.
func fullRequest(failed bool) *aycoder.Request {
	tool := func(n string) *aycoder.ToolSpec {
		return &aycoder.ToolSpec{Name: "name" + n, Description: "about" + n,
			Effect: aycoder.EffectReadOnly,
			Schema: json.RawMessage(`{"type":"object","properties":{"schema` + n +
				`":{"type":"string"}}}`)}
	}
	text := func(s string) *aycoder.Text { return &aycoder.Text{Text: s} }
	message := func(role aycoder.Role, parts ...aycoder.Part) *aycoder.Message {
		return &aycoder.Message{Role: role, Parts: parts}
	}
	return &aycoder.Request{
		System: []*aycoder.Text{text("promptfirst"), text("promptsecond")},
		Tools:  []*aycoder.ToolSpec{tool("first"), tool("second")},
		Messages: []*aycoder.Message{
			aycoder.User("usersays"),
			message(aycoder.RoleAssistant, text("looksfirst"),
				&aycoder.ToolUse{ID: "call_1", Name: "namecalled",
					Args: json.RawMessage(`{"x":"callarg"}`)}),
			message(aycoder.RoleUser, &aycoder.ToolOutput{ID: "call_1", Name: "namecalled",
				IsError: failed, Parts: []aycoder.Part{text("outputfirst"), text("outputsecond")}}),
			message(aycoder.RoleSystem, text("hostsays")),
			aycoder.User("asksnext"),
		},
		Tail: []*aycoder.Text{text("tailsays")},
	}
}

// grows sends a conversation that becomes longer by one turn at a time. Each request must begin
// with the bytes of the one before: a provider's prompt cache only matches equal beginnings.
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
		// The closing brackets move as the list of messages grows, so only the part before them
		// must be equal.
		if before = bytes.TrimRight(before, "]} \n"); !bytes.HasPrefix(sent, before) {
			s.found.add(ruleModelGrows, "request %d does not begin with request %d without its closing brackets: %s", step+1, step,
				difference(sent, before))
		}
		if _, err := aycoder.Complete(s.t.Context(), c.Model, req); err != nil {
			s.found.add(ruleModelWhole, "step %d again: error %v", step, err)
		} else if again := body(); !bytes.Equal(sent, again) {
			s.found.add(ruleModelGrows, "the same request is sent in other bytes: %s",
				difference(again, sent))
		}
		before = sent
		next := *req
		next.Messages = append(next.Messages[:len(next.Messages):len(next.Messages)], res.Message,
			aycoder.User(fmt.Sprintf("And %d?", step)))
		req = &next
	}
}

// difference shows where got begins to differ from want, with the 40 bytes before that place.
func difference(got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(at-40, 0)
	return fmt.Sprintf("at byte %d, it has\n%s\nand not\n%s", at, shown(string(got[from:])),
		shown(string(want[from:])))
}

// moved continues a conversation that another provider's models have led. Its signatures and
// opaque blocks must not be sent, and its call ids may have characters that this provider
// refuses.
func (s *modelSuite) moved(c Client, body func() []byte) {
	opaque := &aycoder.Opaque{Provider: foreign, Raw: json.RawMessage(`{"type":"` + foreign + `"}`)}
	// These are ids as three kinds of service write them; many APIs allow only letters, digits,
	// "_" and "-", or limit the length.
	ids := []string{"functions.read:0", "toolu_01A/b c", strings.Repeat("long", 40)}
	req := request()
	for _, id := range ids {
		req.Messages = append(req.Messages,
			&aycoder.Message{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{
				&aycoder.Thinking{Text: "hm", Signature: foreign, Provider: foreign}, opaque,
				&aycoder.Text{Text: "I read.", Extra: opaque},
				&aycoder.ToolUse{ID: id, Name: "read", Args: json.RawMessage(`{"path":"x"}`),
					Extra: opaque},
			}},
			&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: id, Name: "read",
					Parts: []aycoder.Part{&aycoder.Text{Text: "is there"}}},
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
	sent := body()
	if at := bytes.Index(sent, []byte(foreign)); at >= 0 {
		s.found.add(ruleModelMoved, "it sends what only another provider reads: %s",
			shown(string(sent[max(at-40, 0):])))
	}
	if !json.Valid(sent) {
		s.found.add(ruleModelMoved, "the body is not JSON: %s", shown(string(sent)))
	}
	if n := bytes.Count(sent, []byte("is there")); n != len(ids) {
		s.found.add(ruleModelMoved, "it sends %d of %d outputs, to calls with the ids %q", n,
			len(ids), ids)
	}
	if after, err := json.Marshal(req.Messages); err != nil || !bytes.Equal(before, after) {
		s.found.add(ruleModelReq, "the history differs after the request")
	}
}

// format checks that a client sends the schema of the answer if and only if its FormatsOutput
// method says so.
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
		bytes.Contains(body(), []byte(`\"colour\"`)) // some APIs take the schema in a JSON string
	if err != nil || sent != native {
		s.found.add(ruleModelFormat, "error %v, the schema is sent: %v, FormatsOutput says %v", err,
			sent, native)
	}
	s.formatBesideTools(c, req, body)
}

// formatBesideTools checks that a client which says that it sends the schema beside tools does so: see
// ToolFormatter of package generate.
func (s *modelSuite) formatBesideTools(c Client, req *aycoder.Request, body func() []byte) {
	f, ok := aycoder.As[interface{ FormatsWithTools(model string) bool }](c.Model)
	if !ok || !f.FormatsWithTools("") {
		return
	}
	with := *req
	with.Tools = request().Tools
	_, err := aycoder.Complete(s.t.Context(), c.Model, &with)
	sent := bytes.Contains(body(), []byte("colour")) && bytes.Contains(body(), []byte(with.Tools[0].Name))
	if err != nil || !sent {
		s.found.add(ruleModelFormat, "error %v, the schema and the tools are sent: %v, FormatsWithTools says true", err, sent)
	}
}

// back stores an answer as JSON, reads it back, and sends it to the provider. The signature must
// survive, since hosts store conversations between two turns.
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
	req.Messages = append(req.Messages, &stored,
		&aycoder.Message{Role: aycoder.RoleUser, Parts: []aycoder.Part{
			&aycoder.ToolOutput{ID: stored.Calls()[0].ID, Name: "read",
				Parts: []aycoder.Part{&aycoder.Text{Text: "is there"}}},
		}})
	if _, err := aycoder.Complete(context.WithoutCancel(s.t.Context()), c.Model, req); err != nil {
		s.found.add(ruleModelBack, "error %v", err)
		return
	}
	if sent := body(); !bytes.Contains(sent, []byte(mark)) {
		s.found.add(ruleModelBack, "the mark %q is not in the body", mark)
	}
}
