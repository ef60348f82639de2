package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
)

// Client is a client that is set up to answer in a known way. It must give the same answer to
// each request, and must be safe for concurrent use.
type Client struct {
	Model aycoder.ModelClient
	// Idle closes what the client keeps for its next request, such as connections
	// (http.Client.CloseIdleConnections). It may be nil.
	Idle func()
}

// Clients makes clients that answer in a known way, for example with a test server for the
// provider. A nil field stands for a feature that the provider lacks. Its tests, whose names
// begin with the name of the field, are reported as skipped.
type Clients struct {
	// Text answers with the pieces as one text, each piece a separate event, and StopEndTurn.
	Text func(t testing.TB, pieces ...string) Client
	// Thinking thinks the first text, and says the second.
	Thinking func(t testing.TB, thinking, text string) Client
	// Call says the text, and calls the tool, with StopToolUse.
	Call func(t testing.TB, text string, call *aycoder.ToolUse) Client
	// Cut is cut off by the token limit in the middle of a call: Args are the
	// beginning of a JSON text. It is nil if the service only sends whole calls.
	Cut func(t testing.TB, call *aycoder.ToolUse) Client
	// Refused says the text, and then the model refuses to go on, or a filter ends the
	// answer. The message ends with StopRefusal.
	Refused func(t testing.TB, text string) Client
	// Broken says the pieces, and then the connection is lost.
	Broken func(t testing.TB, pieces ...string) Client
	// Hang says the pieces, and then nothing more, but keeps the connection.
	Hang func(t testing.TB, pieces ...string) Client
	// Silent takes the request and never answers.
	Silent func(t testing.TB) Client
	// Refuse answers with the error of a provider that is overloaded.
	Refuse func(t testing.TB) Client
	// Garbage answers with bytes that are none of the provider's format.
	Garbage func(t testing.TB) Client
	// RateLimited answers as the provider does where a limit is full again in 7
	// seconds.
	RateLimited func(t testing.TB) Client
	// TooLarge answers as the provider does to a request that is larger than the
	// model's context.
	TooLarge func(t testing.TB) Client
	// NoModel answers as the provider does where there is no such model.
	NoModel func(t testing.TB) Client
	// BadKey returns a client made with key, whose server rejects it with a text that
	// contains the key.
	BadKey func(t testing.TB, key string) Client
	// Wire says "Hello". The function returns the body of the last request.
	Wire func(t testing.TB) (c Client, body func() []byte)
	// Signed calls the tool, behind something that the provider needs back: the mark is
	// a signature of what the model thought, say. The function returns the body of the
	// last request.
	Signed func(t testing.TB, mark string, call *aycoder.ToolUse) (c Client, body func() []byte)
}

// soon is how long a client may take to be gone after its sequence has ended, or
// after a cancel. It is a bound for slow machines, not a promise.
const soon = 5 * time.Second

// TestModelClient tests that a client keeps the contract of [aycoder.ModelClient]. Since a
// client may use the network, it runs in real time. Run it with -race.
func TestModelClient(t *testing.T, clients Clients) {
	t.Helper() // failures name the caller's line
	given := reflect.ValueOf(clients)
	for _, r := range modelRules(&clients) {
		t.Run(r.field+": "+r.name, func(t *testing.T) {
			t.Helper()
			if given.FieldByName(r.field).IsNil() {
				t.Skipf("agenttest: Clients.%s is nil: skipped", r.field)
			}
			found := &findings{}
			r.check(&modelSuite{t, found, soon})
			found.report(t)
		})
	}
}

type modelRule struct {
	field string // of Clients, whose client is tested
	name  string
	check func(*modelSuite)
}

type modelSuite struct {
	t        testing.TB
	found    *findings
	patience time.Duration // how long goroutines may take to be gone
}

var pieces = []string{"Hello", ", ", "wörld", "! ", "\u2603\U0001F600", " bye"}

func testCall() *aycoder.ToolUse {
	return &aycoder.ToolUse{ID: "call_7", Name: "read",
		Args: json.RawMessage(`{"path":"a/b.go","n":7}`)}
}

func modelRules(c *Clients) []modelRule {
	cut := &aycoder.ToolUse{ID: "call_8", Name: "write", Args: json.RawMessage(`{"path":"a/b`)}
	text := func(s *modelSuite) Client { return c.Text(s.t, pieces...) }
	call := func(s *modelSuite) Client { return c.Call(s.t, "Let me see.", testCall()) }
	broken := func(s *modelSuite) Client { return c.Broken(s.t, pieces[:3]...) }
	hang := func(s *modelSuite) Client { return c.Hang(s.t, pieces[:3]...) }
	return []modelRule{
		{"Text", "whole answer", func(s *modelSuite) { s.text(text(s), strings.Join(pieces, "")) }},
		{"Thinking", "whole answer", func(s *modelSuite) { s.thinking(c.Thinking(s.t, "Hm.", "So."), "Hm.", "So.") }},
		{"Call", "whole answer", func(s *modelSuite) { s.call(call(s), testCall()) }},
		{"Cut", "call that is cut off", func(s *modelSuite) { s.cut(c.Cut(s.t, cut), cut) }},
		{"Refused", "answer that is refused", func(s *modelSuite) { s.refused(c.Refused(s.t, "I can"), "I can") }},
		{"Text", "lazy", func(s *modelSuite) { s.lazy(text(s)) }},
		{"Text", "leave at every event", func(s *modelSuite) { s.leave(text(s)) }},
		{"Call", "leave at every event", func(s *modelSuite) { s.leave(call(s)) }},
		{"Broken", "leave at every event", func(s *modelSuite) { s.leave(broken(s)) }},
		{"Text", "cancel at every event", func(s *modelSuite) { s.cancel(text(s), false) }},
		{"Hang", "cancel at every event", func(s *modelSuite) { s.cancel(hang(s), true) }},
		{"Silent", "cancel before the answer", func(s *modelSuite) { s.silent(c.Silent(s.t)) }},
		{"Text", "cancelled before the request", func(s *modelSuite) { s.cancelled(text(s)) }},
		{"Broken", "answer that breaks off", func(s *modelSuite) { s.broken(broken(s)) }},
		{"Refuse", "error", func(s *modelSuite) { s.fails(c.Refuse(s.t)) }},
		{"Garbage", "error", func(s *modelSuite) { s.fails(c.Garbage(s.t)) }},
		{"RateLimited", "error", func(s *modelSuite) { s.rateLimited(c.RateLimited(s.t)) }},
		{"TooLarge", "error", func(s *modelSuite) { failsAs[*aycoder.ContextTooLargeError](s, c.TooLarge(s.t)) }},
		{"NoModel", "error", func(s *modelSuite) { failsAs[*aycoder.UnknownModelError](s, c.NoModel(s.t)) }},
		{"BadKey", "error", func(s *modelSuite) { s.badKey(c.BadKey(s.t, secret)) }},
		{"Wire", "everything is sent", func(s *modelSuite) { s.sends(c.Wire(s.t)) }},
		{"Wire", "growing request", func(s *modelSuite) { s.grows(c.Wire(s.t)) }},
		{"Wire", "conversation of another provider", func(s *modelSuite) { s.moved(c.Wire(s.t)) }},
		{"Wire", "answer of a schema", func(s *modelSuite) { s.format(c.Wire(s.t)) }},
		{"Signed", "what must go back", func(s *modelSuite) { s.back(c.Signed(s.t, mark, testCall())) }},
		{"Text", "concurrent requests", func(s *modelSuite) { s.concurrent(text(s), strings.Join(pieces, "")) }},
		{"Call", "concurrent requests", func(s *modelSuite) { s.concurrent(call(s), "Let me see.") }},
	}
}

// request is a request with everything in it that a conversation has.
func request() *aycoder.Request {
	old := &aycoder.ToolUse{ID: "call_1", Name: "read",
		Args: json.RawMessage(`{"path":"x", "n": 1}`)}
	return &aycoder.Request{
		System: []*aycoder.Text{{Text: "You are a test."}},
		Tools: []*aycoder.ToolSpec{{Name: "read", Description: "Reads.", Effect: aycoder.EffectReadOnly,
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}}}`)}},
		Messages: []*aycoder.Message{
			aycoder.User("Hello \u2603 <&>"),
			{Role: aycoder.RoleAssistant, Parts: []aycoder.Part{&aycoder.Text{Text: "I look."}, old}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: "call_1", Name: "read",
					Parts: []aycoder.Part{&aycoder.Text{Text: "x"}}},
				&aycoder.Text{Text: "And now?"},
			}},
		},
		MaxTokens: 1000,
	}
}

// An answer is what came of one request.
type answer struct {
	events []aycoder.ModelEvent
	err    error
	label  string
	over   time.Duration // how long the sequence took after leave said so
}

// ask ranges over one answer with the checks of every answer. The function leave
// is called with the number of each event; it may cancel, and returns false to
// leave the loop.
func (s *modelSuite) ask(c Client, leave func(i int, cancel func()) bool) *answer {
	a := &answer{}
	req, before := request(), request()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel) // not before gone: leaving the loop must be enough
	a.label = labelled(ctx, func(ctx context.Context) {
		left, i, home := false, 0, goroutineID()
		var at time.Time
		body := func(ev aycoder.ModelEvent, err error) bool {
			if left {
				s.found.add(ruleModelAgain, "%T and error %v come after event %d ended the loop", ev, err,
					i-1)
				return false
			}
			if goroutineID() != home {
				s.found.add(ruleModelAgain, "%T comes on another goroutine", ev)
			}
			s.take(a, ev, err)
			i++
			at = time.Now()
			left = !leave(i-1, cancel)
			return !left
		}
		c.Model.Stream(ctx, req)(body)
		left = true
		if !at.IsZero() {
			a.over = time.Since(at)
		}
	})
	if what := changed(before, req); what != "" {
		s.found.add(ruleModelReq, "%s differs after the request", what)
	}
	return a
}

func (s *modelSuite) take(a *answer, ev aycoder.ModelEvent, err error) {
	switch {
	case a.err != nil:
		s.found.add(ruleModelError, "%T comes after error %v", ev, a.err)
	case err != nil && ev != nil:
		s.found.add(ruleModelError, "error %v comes with %T", err, ev)
	case err == nil && ev == nil:
		s.found.add(ruleModelError, "event %d is nil and so is its error", len(a.events))
	}
	if n := len(a.events); n > 0 {
		if _, done := a.events[n-1].(*aycoder.MessageDone); done {
			s.found.add(ruleModelOrder, "%T and error %v come after MessageDone", ev, err)
		}
	}
	if err != nil {
		a.err = err
		return
	}
	if ev != nil {
		a.events = append(a.events, ev)
	}
}

func stay(int, func()) bool { return true }

// changed names the field in which two requests differ.
func changed(a, b *aycoder.Request) string {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		name := va.Type().Field(i).Name
		if name != "Messages" && !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return name
		}
	}
	if len(a.Messages) != len(b.Messages) {
		return "Messages"
	}
	for i := range a.Messages {
		x, errX := json.Marshal(a.Messages[i])
		y, errY := json.Marshal(b.Messages[i])
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			return fmt.Sprintf("Messages[%d]", i)
		}
	}
	return ""
}

// gone checks that nothing works any more for an answer.
func (s *modelSuite) gone(c Client, a *answer, where string) {
	if c.Idle != nil {
		c.Idle()
	}
	if left := goneWithin(a.label, s.patience); left != "" {
		s.found.add(ruleModelGone, "%s: these goroutines remain:\n%s", where, left)
	}
}

// whole ranges over a whole answer that ends well.
func (s *modelSuite) whole(c Client) *answer {
	a := s.ask(c, stay)
	if a.err != nil {
		s.found.add(ruleModelWhole, "error %v", a.err)
		return a
	}
	s.order(a)
	s.deltas(a)
	s.gone(c, a, "whole answer")
	return a
}

func (s *modelSuite) order(a *answer) {
	done := 0
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			done++
		}
	}
	if done != 1 {
		s.found.add(ruleModelOrder, "%d MessageDone, want one", done)
	}
}

// deltas checks that the deltas before each block join to it. A retry makes those
// before it void.
func (s *modelSuite) deltas(a *answer) {
	var text, thinking strings.Builder
	args := map[string]string{}
	blocks := 0
	for _, ev := range a.events {
		switch ev := ev.(type) {
		case *aycoder.Retrying:
			if blocks > 0 {
				s.found.add(ruleModelOrder, "Retrying comes after a block was complete")
			}
			text.Reset()
			thinking.Reset()
			clear(args)
		case *aycoder.BlockTruncated:
			blocks++
			if ev.Call != nil {
				delete(args, ev.Call.ID)
			}
		case *aycoder.TextDelta:
			text.WriteString(ev.Text)
		case *aycoder.ThinkingDelta:
			thinking.WriteString(ev.Text)
		case *aycoder.ToolDelta:
			args[ev.ID] += ev.Args
		case *aycoder.BlockDone:
			blocks++
			s.joined(ev.Part, &text, &thinking, args)
		}
	}
	if text.Len() > 0 {
		s.found.add(ruleModelOrder, "no BlockDone follows the TextDelta %s", shown(text.String()))
	}
	if thinking.Len() > 0 {
		s.found.add(ruleModelOrder, "no BlockDone follows the ThinkingDelta %s", shown(thinking.String()))
	}
	for id, got := range args {
		s.found.add(ruleModelOrder, "no BlockDone follows the ToolDelta %s of call %q", shown(got), id)
	}
}

func (s *modelSuite) joined(p aycoder.Part, text, thinking *strings.Builder,
	args map[string]string) {
	switch p := p.(type) {
	case *aycoder.Text:
		if text.String() != p.Text {
			s.found.add(ruleModelDeltas, "the deltas say %s, the block %s", shown(text.String()),
				shown(p.Text))
		}
		text.Reset()
	case *aycoder.Thinking:
		if thinking.String() != p.Text {
			s.found.add(ruleModelDeltas, "the deltas think %s, the block %s", shown(thinking.String()),
				shown(p.Text))
		}
		thinking.Reset()
	case *aycoder.ToolUse:
		if got, ok := args[p.ID]; ok && got != "" && got != string(p.Args) {
			s.found.add(ruleModelDeltas, "the deltas of call %q are %s, its arguments %s", p.ID,
				shown(got), shown(string(p.Args)))
		}
		delete(args, p.ID)
		if !json.Valid(p.Args) {
			s.found.add(ruleModelOrder, "the arguments of call %q are not JSON: %s", p.ID,
				shown(string(p.Args)))
		}
	case nil:
		s.found.add(ruleModelOrder, "a BlockDone has no part")
	}
}

func (s *modelSuite) text(c Client, want string) {
	s.whole(c)
	s.complete(c, want, aycoder.StopEndTurn)
}

// complete asks with [aycoder.Complete].
func (s *modelSuite) complete(c Client, text string, stop aycoder.StopReason) *aycoder.Response {
	res, err := aycoder.Complete(s.t.Context(), c.Model, request())
	if err != nil || res.Text() != text || res.Stop != stop {
		s.found.add(ruleModelWhole, "text %s, stop %q, error %v, want %s and %q", shown(res.Text()),
			res.Stop, err, shown(text), stop)
	}
	if res.Usage.Input < 0 || res.Usage.Output < 0 {
		s.found.add(ruleModelWhole, "usage %+v", res.Usage)
	}
	return res
}

func (s *modelSuite) thinking(c Client, thinking, text string) {
	s.whole(c)
	res := s.complete(c, text, aycoder.StopEndTurn)
	for _, p := range res.Message.Parts {
		if th, ok := p.(*aycoder.Thinking); ok {
			if th.Text != thinking || th.Provider == "" {
				s.found.add(ruleModelWhole, "thinking %s of provider %q, want %s", shown(th.Text),
					th.Provider, shown(thinking))
			}
			return
		}
	}
	s.found.add(ruleModelWhole, "no thinking in the answer")
}

func (s *modelSuite) call(c Client, want *aycoder.ToolUse) {
	s.whole(c)
	calls := s.complete(c, "Let me see.", aycoder.StopToolUse).Message.Calls()
	if len(calls) != 1 || calls[0].ID != want.ID || calls[0].Name != want.Name || !sameJSON(calls[0].Args, want.Args) {
		s.found.add(ruleModelWhole, "calls %+v, want %+v", calls, *want)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func (s *modelSuite) cut(c Client, want *aycoder.ToolUse) {
	res, err := aycoder.Complete(s.t.Context(), c.Model, request())
	if err != nil || res.Stop != aycoder.StopMaxTokens {
		s.found.add(ruleModelCut, "stop %q, error %v", res.Stop, err)
	}
	if n := len(res.Message.Calls()); n > 0 {
		s.found.add(ruleModelCut, "%d calls are BlockDone", n)
	}
	if len(res.Cut) != 1 || res.Cut[0].ID != want.ID || res.Cut[0].Name != want.Name {
		s.found.add(ruleModelCut, "cut calls %+v, want %+v", res.Cut, *want)
	}
}

func (s *modelSuite) refused(c Client, text string) {
	s.whole(c)
	s.complete(c, text, aycoder.StopRefusal)
}

func (s *modelSuite) lazy(c Client) {
	ctx, cancel := context.WithCancel(s.t.Context())
	label := labelled(ctx, func(ctx context.Context) { c.Model.Stream(ctx, request()) })
	if left := goneWithin(label, 0); left != "" {
		s.found.add(ruleModelLazy, "goroutines work before the sequence is ranged over:\n%s", left)
	}
	seq := c.Model.Stream(ctx, request())
	cancel()
	for ev := range seq {
		if ev != nil {
			s.found.add(ruleModelLazy,
				"%T comes though the context was cancelled before the sequence was ranged over", ev)
		}
	}
}

// leave leaves the loop at each event.
func (s *modelSuite) leave(c Client) {
	for at, more := 0, true; more && s.found.empty(); at++ {
		more = false
		a := s.ask(c, func(i int, _ func()) bool {
			more = more || i == at
			return i != at
		})
		s.gone(c, a, fmt.Sprintf("left at event %d", at))
	}
}

// cancel cancels at each event. If the answer hangs, nothing else ends it.
func (s *modelSuite) cancel(c Client, hangs bool) {
	limit := -1
	if hangs {
		limit = s.pieces(c)
	}
	for at, more := 0, true; more && s.found.empty() && (limit < 0 || at < limit); at++ {
		more = false
		a := s.ask(c, func(i int, cancel func()) bool {
			if i == at {
				more = true
				cancel()
			}
			return true
		})
		s.ended(a, more, hangs, fmt.Sprintf("cancelled at event %d", at))
		s.gone(c, a, fmt.Sprintf("cancelled at event %d", at))
	}
}

// pieces returns how many events come before an answer hangs: as many as come
// until the text is there.
func (s *modelSuite) pieces(c Client) int {
	ctx, cancel := context.WithTimeout(s.t.Context(), soon)
	defer cancel()
	said, n := "", 0
	each(s.found, ruleModelAgain, c.Model.Stream(ctx, request()), func(ev aycoder.ModelEvent, err error) bool {
		if err != nil {
			s.found.add(ruleModelWhole, "of the pieces only %s comes: %v", shown(said), err)
			n = 0
			return false
		}
		if d, ok := ev.(*aycoder.TextDelta); ok {
			said += d.Text
		}
		n++
		return said != strings.Join(pieces[:3], "")
	})
	return n
}

func (s *modelSuite) ended(a *answer, cancelled, hangs bool, where string) {
	if cancelled && a.over > soon {
		s.found.add(ruleModelCancel, "%s: it takes %s to end", where, a.over)
	}
	whole := false
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			whole = true
		}
	}
	if cancelled && !whole && !errors.Is(a.err, context.Canceled) {
		s.found.add(ruleModelCancel, "%s: error %v", where, a.err)
	}
	if hangs && whole {
		s.found.add(ruleModelBroken, "%s: MessageDone, and the answer was not complete", where)
	}
}

// silent cancels a request that nobody answers.
func (s *modelSuite) silent(c Client) {
	ctx, cancel := context.WithCancel(s.t.Context())
	type end struct {
		err   error
		label string
	}
	over, started := make(chan end), make(chan struct{})
	go func() {
		var e end
		e.label = labelled(ctx, func(ctx context.Context) {
			close(started)
			for _, err := range c.Model.Stream(ctx, request()) {
				e.err = err
			}
		})
		over <- e
	}()
	<-started
	cancel()
	select {
	case e := <-over:
		if !errors.Is(e.err, context.Canceled) {
			s.found.add(ruleModelCancel, "cancelled before the answer: error %v", e.err)
		}
		s.gone(c, &answer{label: e.label}, "cancelled before the answer")
	case <-time.After(soon):
		s.found.add(ruleModelCancel, "cancelled before the answer: it does not end within %s", soon)
	}
}

func (s *modelSuite) cancelled(c Client) {
	a := &answer{}
	a.label = labelled(s.t.Context(), func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for ev, err := range c.Model.Stream(ctx, request()) {
			s.take(a, ev, err)
		}
	})
	if len(a.events) > 0 || !errors.Is(a.err, context.Canceled) {
		s.found.add(ruleModelCancel, "cancelled before the request: %d events, error %v", len(a.events),
			a.err)
	}
	s.gone(c, a, "cancelled before the request")
}

func (s *modelSuite) broken(c Client) {
	a := s.ask(c, stay)
	if _, ok := errors.AsType[*aycoder.StreamBrokenError](a.err); !ok {
		s.found.add(ruleModelBroken, "error %v (%T)", a.err, a.err)
	}
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			s.found.add(ruleModelBroken, "MessageDone comes")
		}
	}
	s.gone(c, a, "broken answer")
	if _, err := aycoder.Complete(s.t.Context(), c.Model, request()); err == nil {
		s.found.add(ruleModelBroken, "Complete gives no error")
	}
}

func (s *modelSuite) fails(c Client) {
	a := s.ask(c, stay)
	if _, ok := errors.AsType[*aycoder.ModelError](a.err); !ok {
		s.found.add(ruleModelError, "error %v (%T), want one that unwraps to *ModelError", a.err, a.err)
	}
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			s.found.add(ruleModelBroken, "MessageDone comes")
		}
	}
	s.gone(c, a, "request that fails")
}

func (s *modelSuite) concurrent(c Client, want string) {
	req := request()
	before := request()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := aycoder.Complete(s.t.Context(), c.Model, req)
			if err != nil || res.Text() != want {
				s.found.add(ruleModelShared, "text %s, error %v, want %s", shown(res.Text()), err,
					shown(want))
			}
		})
	}
	wg.Wait()
	if what := changed(before, req); what != "" {
		s.found.add(ruleModelReq, "%s differs after concurrent requests", what)
	}
}
