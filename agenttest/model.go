package agenttest

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
)

// Client is a model client under test that is set up to answer in a known way. It must give the
// same answer to every request, and must be safe for concurrent use.
type Client struct {
	Model aycoder.ModelClient
	// Idle closes everything that the client keeps open for its next request, for example with
	// http.Client.CloseIdleConnections. The suite calls Idle before it looks for goroutines that
	// remain. Idle may be nil.
	Idle func()
}

// Clients holds functions that make the clients under test. Each client answers in a known way;
// usually a test server plays the provider. If the provider lacks a feature, leave the field for
// that feature nil. The subtests of the field are then reported as skipped. Their names begin
// with the name of the field.
type Clients struct {
	// Text returns a client whose model answers with one text block and StopEndTurn. Each piece
	// arrives as a separate TextDelta.
	Text func(t testing.TB, pieces ...string) Client
	// Thinking returns a client whose model writes a thinking block and then a text block. The
	// message ends with StopEndTurn.
	Thinking func(t testing.TB, thinking, text string) Client
	// Call returns a client whose model writes text and then makes the given tool call. The
	// message ends with StopToolUse.
	Call func(t testing.TB, text string, call *aycoder.ToolUse) Client
	// Cut returns a client whose model reaches its token limit in the middle of a tool call. The
	// Args of call are the part of the JSON text that arrived. Leave Cut nil if the service sends
	// only complete calls.
	Cut func(t testing.TB, call *aycoder.ToolUse) Client
	// Refused returns a client whose model writes text and then refuses to continue, or is
	// stopped by a content filter. The message ends with StopRefusal.
	Refused func(t testing.TB, text string) Client
	// Broken returns a client whose model writes the pieces, after which the connection is lost.
	Broken func(t testing.TB, pieces ...string) Client
	// Hang returns a client whose model writes the pieces and then sends nothing more, while the
	// connection stays open.
	Hang func(t testing.TB, pieces ...string) Client
	// Silent returns a client whose server accepts the request and never answers.
	Silent func(t testing.TB) Client
	// Refuse returns a client whose provider answers every request with its error for overload.
	Refuse func(t testing.TB) Client
	// Garbage returns a client whose server answers with bytes that are not in the provider's
	// format.
	Garbage func(t testing.TB) Client
	// RateLimited returns a client whose provider answers with its error for a rate limit, which
	// says to try again in 7 seconds.
	RateLimited func(t testing.TB) Client
	// TooLarge returns a client whose provider answers with its error for a request that does not
	// fit into the context of the model.
	TooLarge func(t testing.TB) Client
	// NoModel returns a client whose provider answers with its error for a model that does not
	// exist.
	NoModel func(t testing.TB) Client
	// BadKey returns a client that uses key as its API key. Its server rejects the key with an
	// error text that contains the key.
	BadKey func(t testing.TB, key string) Client
	// Wire returns a client whose model answers "Hello". The second result is a function that
	// returns the HTTP body of the last request that the client sent.
	Wire func(t testing.TB) (c Client, body func() []byte)
	// Signed returns a client whose model makes the given tool call. Before the call, the answer
	// contains the data in mark, which the client must send back to the provider with the next
	// request. An example is the signature of a thinking block. The second result is a function
	// that returns the HTTP body of the last request that the client sent.
	Signed func(t testing.TB, mark string, call *aycoder.ToolUse) (c Client, body func() []byte)
}

// soon is how long a client may take to end its goroutines, measured from the end of its sequence
// or from the cancellation. It is a bound for slow machines, not a promise to users.
const soon = 5 * time.Second

// TestModelClient tests that model clients keep the contract of [aycoder.ModelClient], and of
// [aycoder.ModelOpener] if they have this ability. Clients may use the network, so the test runs in
// real time. Run it with -race.
func TestModelClient(t *testing.T, clients Clients) {
	t.Helper() // failures name the caller's line
	given := reflect.ValueOf(clients)
	for _, r := range slices.Concat(modelRules(&clients, nil), openRules(t, &clients)) {
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

// A modelRule is a subtest for the client that one field of Clients makes.
type modelRule struct {
	field string // the field of Clients that makes the client under test
	name  string
	check func(*modelSuite)
}

// A modelSuite is the state of one subtest.
type modelSuite struct {
	t        testing.TB
	found    *findings
	patience time.Duration // how long goroutines may take to end
}

// pieces contain characters of two, three and four bytes in UTF-8. Clients that count in bytes or
// in UTF-16 units get the text wrong.
var pieces = []string{"Hello", ", ", "wörld", "! ", "\u2603\U0001F600", " bye"}

// testCall returns a call with a number and a slash in its arguments. JSON encoders write both in
// several ways, so the call shows whether a client compares values or bytes.
func testCall() *aycoder.ToolUse {
	return &aycoder.ToolUse{ID: "call_7", Name: "read",
		Args: json.RawMessage(`{"path":"a/b.go","n":7}`)}
}

// modelRules returns all checks. Leaving the loop and cancelling are tried at each event, because
// clients that forget to close a connection usually do so only in some places.
func modelRules(c *Clients, wrap func(Client) Client) []modelRule {
	if wrap == nil {
		wrap = func(c Client) Client { return c }
	}
	cut := &aycoder.ToolUse{ID: "call_8", Name: "write", Args: json.RawMessage(`{"path":"a/b`)}
	text := func(s *modelSuite) Client { return wrap(c.Text(s.t, pieces...)) }
	call := func(s *modelSuite) Client { return wrap(c.Call(s.t, "Let me see.", testCall())) }
	broken := func(s *modelSuite) Client { return wrap(c.Broken(s.t, pieces[:3]...)) }
	hang := func(s *modelSuite) Client { return wrap(c.Hang(s.t, pieces[:3]...)) }
	return []modelRule{
		{"Text", "whole answer", func(s *modelSuite) { s.text(text(s), strings.Join(pieces, "")) }},
		{"Thinking", "whole answer", func(s *modelSuite) { s.thinking(c.Thinking(s.t, "Hm.", "So."), "Hm.", "So.") }},
		{"Call", "whole answer", func(s *modelSuite) { s.call(call(s), testCall()) }},
		{"Cut", "call that is cut off", func(s *modelSuite) { s.cut(c.Cut(s.t, cut), cut) }},
		{"Refused", "answer that is refused",
			func(s *modelSuite) { s.refused(c.Refused(s.t, "I can"), "I can") }},
		{"Text", "lazy", func(s *modelSuite) { s.lazy(text(s)) }},
		{"Text", "leave at every event", func(s *modelSuite) { s.leave(text(s)) }},
		{"Call", "leave at every event", func(s *modelSuite) { s.leave(call(s)) }},
		{"Broken", "leave at every event", func(s *modelSuite) { s.leave(broken(s)) }},
		{"Text", "cancel at every event", func(s *modelSuite) { s.cancel(text(s), false) }},
		{"Hang", "cancel at every event", func(s *modelSuite) { s.cancel(hang(s), true) }},
		{"Silent", "cancel before the answer", func(s *modelSuite) { s.silent(wrap(c.Silent(s.t))) }},
		{"Text", "cancelled before the request", func(s *modelSuite) { s.cancelled(text(s)) }},
		{"Broken", "answer that breaks off", func(s *modelSuite) { s.broken(broken(s)) }},
		{"Refuse", "error", func(s *modelSuite) { s.fails(c.Refuse(s.t)) }},
		{"Garbage", "error", func(s *modelSuite) { s.fails(c.Garbage(s.t)) }},
		{"RateLimited", "error", func(s *modelSuite) { s.rateLimited(c.RateLimited(s.t)) }},
		{"TooLarge", "error", func(s *modelSuite) { failsAs[*aycoder.ContextTooLargeError](s, c.TooLarge(s.t)) }},
		{"NoModel", "error", func(s *modelSuite) { failsAs[*aycoder.UnknownModelError](s, c.NoModel(s.t)) }},
		{"BadKey", "error", func(s *modelSuite) { s.badKey(c.BadKey(s.t, secret)) }},
		{"Wire", "nothing is sent early", func(s *modelSuite) { s.unsent(c.Wire(s.t)) }},
		{"Wire", "everything is sent", func(s *modelSuite) { s.sends(c.Wire(s.t)) }},
		{"Wire", "growing request", func(s *modelSuite) { s.grows(c.Wire(s.t)) }},
		{"Wire", "conversation of another provider", func(s *modelSuite) { s.moved(c.Wire(s.t)) }},
		{"Wire", "answer of a schema", func(s *modelSuite) { s.format(c.Wire(s.t)) }},
		{"Signed", "what must go back", func(s *modelSuite) { s.back(c.Signed(s.t, mark, testCall())) }},
		{"Text", "concurrent requests", func(s *modelSuite) { s.concurrent(text(s), strings.Join(pieces, "")) }},
		{"Call", "concurrent requests", func(s *modelSuite) { s.concurrent(call(s), "Let me see.") }},
	}
}

// openRules returns the rules for answers that are read event by event, if a client can do that.
func openRules(t testing.TB, c *Clients) (rules []modelRule) {
	if c.Text == nil {
		return nil
	}
	m := c.Text(t, pieces...).Model
	if o, ok := m.(aycoder.ModelOpener); !ok || !o.Opens(m) {
		return nil
	}
	for _, r := range modelRules(c, func(c Client) Client { return Client{Model: opened{c.Model}, Idle: c.Idle} }) {
		if slices.Contains([]string{"Text", "Call", "Broken", "Hang", "Silent"}, r.field) {
			r.name += ", event by event"
			rules = append(rules, r)
		}
	}
	return rules
}

// opened is a client whose answers are read event by event.
type opened struct{ aycoder.ModelClient }

// Stream implements [aycoder.ModelClient].
func (o opened) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	return part.Once(func(yield func(aycoder.ModelEvent, error) bool) {
		r := o.ModelClient.(aycoder.ModelOpener).Open(ctx, req)
		defer r.Stop()
		for {
			ev, err := r.Next()
			if err == io.EOF || !yield(ev, err) || err != nil {
				r.Stop() // and once more
				return
			}
		}
	})
}

// request returns a request with everything that a conversation in progress contains. A client
// that only works for the first message of a conversation fails.
func request() *aycoder.Request {
	old := &aycoder.ToolUse{ID: "call_1", Name: "read",
		Args: json.RawMessage(`{"path":"x", "n": 1}`)}
	return &aycoder.Request{
		System: []*aycoder.Text{{Text: "You are a test."}},
		Tools: []*aycoder.ToolSpec{{Name: "read", Description: "Reads.",
			Effect: aycoder.EffectReadOnly,
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}}}`)}},
		Messages: []*aycoder.Message{
			aycoder.User("Hello \u2603 <&>"),
			{Role: aycoder.RoleAssistant,
				Parts: []aycoder.Part{&aycoder.Text{Text: "I look."}, old}},
			{Role: aycoder.RoleUser, Parts: []aycoder.Part{
				&aycoder.ToolOutput{ID: "call_1", Name: "read",
					Parts: []aycoder.Part{&aycoder.Text{Text: "x"}}},
				&aycoder.Text{Text: "And now?"},
			}},
		},
		MaxTokens: 1000,
	}
}
