package agenttest

import (
	"encoding/json"
	"reflect"
	"strings"
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
	// Call returns a client whose model writes text and then calls the tool. The message ends
	// with StopToolUse.
	Call func(t testing.TB, text string, call *aycoder.ToolUse) Client
	// Cut is cut off by the token limit in the middle of a call: Args are the
	// beginning of a JSON text. It is nil if the service only sends whole calls.
	Cut func(t testing.TB, call *aycoder.ToolUse) Client
	// Refused returns a client whose model writes text and then refuses to continue, or is cut
	// off by a filter. The message ends with StopRefusal.
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
	// RateLimited answers with the provider's rate-limit error, which says to try again in 7
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

// A modelRule is a subtest. Some need a feature that a provider lacks.
type modelRule struct {
	field string // of Clients, whose client is tested
	name  string
	check func(*modelSuite)
}

// A modelSuite is the state of one subtest.
type modelSuite struct {
	t        testing.TB
	found    *findings
	patience time.Duration // how long goroutines may take to be gone
}

// pieces are cut where a client that counts bytes or UTF-16 units goes wrong.
var pieces = []string{"Hello", ", ", "wörld", "! ", "\u2603\U0001F600", " bye"}

// testCall has a number and a slash in its arguments, which encoders write in several ways.
func testCall() *aycoder.ToolUse {
	return &aycoder.ToolUse{ID: "call_7", Name: "read",
		Args: json.RawMessage(`{"path":"a/b.go","n":7}`)}
}

// modelRules is the list of all checks. Leaving, cancelling and failing are tried at each
// event, because that is where clients forget to let go.
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
