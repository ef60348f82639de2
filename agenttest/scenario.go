package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// A scenario is a conversation that is played with each behaviour of the loop body in ways: to
// its end, and ended early at each event. It holds the script of the model and the expected
// outcome: the last text, the error, the calls that run and those that must not.
//
// Steps that are functions wait for the tools. They fix the order of events without sleeps.
type scenario struct {
	name    string
	answers func() [][]any
	// asks makes the approver ask the host about calls that write. The function answer gives the
	// answer to such a question; if it is nil, the question stays unanswered.
	asks   bool
	answer func(a *aycoder.ApprovalRequested, tr *trace)

	// The expected outcome of a run that is not ended early.
	text  string // the text of the last message
	runs  []int  // the numbers of the calls that run
	err   func(error) bool
	asked int // the number of requests; 0 means any number

	// never are the numbers of calls that must not run, even if the run ends early.
	never []int
}

// call returns a call that has a number as its argument. The log of the tools identifies calls by
// this number, since ids may be missing or occur twice.
func call(id, tool string, n int) *aycoder.BlockDone {
	return callArgs(id, tool, fmt.Sprintf(`{"n":%d}`, n))
}

// callArgs returns a call with arbitrary arguments.
func callArgs(id, tool, args string) *aycoder.BlockDone {
	return &aycoder.BlockDone{Part: &aycoder.ToolUse{ID: id, Name: tool,
		Args: json.RawMessage(args)}}
}

// delta returns a piece of a text.
func delta(s string) *aycoder.TextDelta { return &aycoder.TextDelta{Text: s} }

// block returns a complete text block.
func block(s string) *aycoder.BlockDone { return &aycoder.BlockDone{Part: &aycoder.Text{Text: s}} }

// done returns the end of a message, with some usage.
func done(stop aycoder.StopReason) *aycoder.MessageDone {
	return &aycoder.MessageDone{Stop: stop, Usage: aycoder.Usage{Input: 10, Output: 5}}
}

// says returns an answer that is one text.
func says(s string) []any {
	half := len(s) / 2
	return []any{delta(s[:half]), delta(s[half:]), block(s), done(aycoder.StopEndTurn)}
}

// calls returns an answer that ends with StopToolUse, after which the agent must send the
// outputs.
func calls(steps ...any) []any { return append(steps, done(aycoder.StopToolUse)) }

// fixed returns a script that is the same each time the scenario is played.
func fixed(answers ...[]any) func() [][]any { return func() [][]any { return answers } }

// longCall returns a call that follows a long text. If the context is too large, the agent can
// shorten that text.
func longCall() []any {
	long := strings.Repeat("long ", 4000)
	return calls(delta(long), block(long), call("a", "read", 1))
}

// tooLarge returns the provider's answer to a request that is too large for the model.
func tooLarge() []any {
	return []any{&aycoder.ContextTooLargeError{ModelError: modelError("large"), Actual: 2, Max: 1}}
}

// broken returns the error of a lost connection.
func broken() error {
	return &aycoder.StreamBrokenError{ModelError: modelError("connection reset")}
}

// modelError returns an error of the suite's provider.
func modelError(text string) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "agenttest", Err: errors.New(text)}
}

// is reports whether an error wraps an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func noError(err error) bool { return err == nil }

// scenarios returns all conversations.
func scenarios() []scenario {
	return append(append(plain(), tooled()...), append(failing(), hostile()...)...)
}

// plain returns conversations in which nothing goes wrong. They check the order in which calls
// start: calls that only read may start early and in parallel, while a call that writes starts
// after the message is complete, and alone.
func plain() []scenario {
	return []scenario{
		{name: "text", answers: fixed(says("Hello")), text: "Hello", err: noError, asked: 1},
		{name: "thousand deltas", answers: manyDeltas, text: strings.Repeat("ab", 1000),
			err: noError},
		{name: "read-only calls", err: noError, text: "read", runs: []int{1, 2, 3}, asked: 2,
			answers: fixed(calls(call("a", "read", 1), call("b", "read", 2), call("c", "read", 3)),
				says("read"))},
		{name: "reads while the model talks", err: noError, text: "read", runs: []int{1, 2},
			answers: fixed(calls(delta("I "), call("a", "read", 1), await(1), delta("look"),
				block("I look"), call("b", "read", 2), await(2)), says("read"))},
		{name: "write calls", err: noError, text: "written", runs: []int{1, 2, 3},
			answers: fixed(calls(call("a", "write", 1), call("b", "unknown_effect", 2),
				call("c", "write", 3), idle), says("written"))},
		{name: "mixed calls", err: noError, text: "both", runs: []int{1, 2, 3, 4, 5, 6},
			answers: fixed(
				calls(delta("go"), block("go"), call("a", "read", 1), call("b", "write", 2),
					call("c", "read", 3), call("d", "write", 4), idle),
				calls(call("e", "write", 5), call("f", "read", 6), idle), says("both"))},
		{name: "many reads", err: noError, text: "read", runs: count(40),
			answers: func() [][]any { return [][]any{calls(manyCalls("read", 40)...), says("read")} }},
		{name: "thinking and opaque blocks", err: noError, text: "thought", runs: []int{1},
			answers: fixed(calls(&aycoder.ThinkingDelta{Text: "hm"},
				&aycoder.BlockDone{Part: &aycoder.Thinking{Text: "hm", Signature: "sig",
					Provider: "p"}},
				&aycoder.BlockDone{Part: &aycoder.Opaque{Provider: "p",
					Raw: json.RawMessage(`{"a": 1}`)}},
				&aycoder.ToolDelta{ID: "a", Name: "read", Args: `{"n"`},
				&aycoder.ToolDelta{ID: "a", Name: "read", Args: `:1}`},
				call("a", "read", 1)), says("thought"))},
	}
}

// count returns the numbers from 1 to n.
func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// manyCalls returns n calls of one tool.
func manyCalls(tool string, n int) []any {
	var out []any
	for i := range n {
		out = append(out, call(fmt.Sprintf("c%d", i+1), tool, i+1))
	}
	return out
}

// manyDeltas returns an answer in a thousand pieces. A slow consumer falls behind, and an agent
// must neither lose a piece nor keep all of them apart.
func manyDeltas() [][]any {
	var steps []any
	for range 1000 {
		steps = append(steps, delta("ab"), pace)
	}
	return [][]any{append(steps, block(strings.Repeat("ab", 1000)), done(aycoder.StopEndTurn))}
}

// tooled returns conversations in which tools, or the user who approves calls, misbehave.
func tooled() []scenario {
	writes := fixed(calls(call("a", "write", 1), call("b", "write", 2), call("c", "read", 3),
		call("d", "write", 4), call("e", "write", 5)), says("asked"))
	return []scenario{
		{name: "approval", asks: true, answers: writes, answer: allowSome, err: noError,
			text: "asked", runs: []int{1, 3, 5}, never: []int{2, 4}},
		{name: "approval from elsewhere", asks: true, answers: writes, answer: allowDetached,
			err: noError, text: "asked", runs: []int{1, 2, 3, 4, 5}},
		{name: "approval ignored", asks: true, answers: writes, err: noError, text: "asked",
			runs: []int{3}, never: []int{1, 2, 4, 5}},
		{name: "failing tool", answers: fixed(calls(call("a", "fail", 1), call("b", "read", 2)),
			says("so")), err: noError, text: "so", runs: []int{1, 2}},
		{name: "panicking tool", answers: fixed(calls(call("a", "panic", 1),
			call("b", "panic_write", 2), call("c", "read", 3)), says("so")), err: noError,
			text: "so",
			runs: []int{1, 2, 3}},
		{name: "tool that waits", answers: fixed(calls(delta("go"), block("go"),
			call("a", "wait", 1),
			await(1), call("b", "wait_write", 2)), says("so")), err: noError, text: "so",
			runs: []int{1, 2}},
		{name: "tool that ignores cancel",
			answers: fixed(calls(delta("go"), block("go"), call("a", "stuck", 1), await(1),
				call("b", "stuck_write", 2)), says("so")), err: noError, text: "so",
			runs: []int{1, 2}},
		{name: "tool that reports progress",
			answers: fixed(calls(call("a", "report", 1), call("b", "report", 2)), says("so")),
			err:     noError, text: "so", runs: []int{1, 2}},
		{name: "unknown tool", answers: fixed(calls(call("a", "reed", 1), call("b", "read", 2)),
			says("so")), err: noError, text: "so", runs: []int{2}, never: []int{1}},
		{name: "invalid arguments", err: noError, text: "so", runs: []int{7}, never: []int{-1, 0},
			answers: fixed(calls(callArgs("a", "read", `{}`), callArgs("b", "read", `{"n":"x"}`),
				callArgs("c", "read", `{"n":`),
				callArgs("d", "read", `[]`), callArgs("e", "read", ``),
				callArgs("f", "read", `{"n":0,"m":1}`), callArgs("g", "write", `{"n":0.5}`),
				call("h", "read", 7)), says("so"))},
		{name: "duplicate and empty call ids", err: noError, text: "so",
			runs: []int{1, 2, 3, 4, 5, 6, 7},
			answers: fixed(calls(call("a", "read", 1), call("a", "read", 2), call("", "read", 3),
				call("", "write", 4)),
				calls(call("a", "read", 5), call("", "write", 6),
					call("a", "write", 7)), says("so"))},
	}
}

// allowSome allows the calls with odd numbers and denies the others. It answers each question
// twice: the second answer must be refused, or a late click could undo a denial.
func allowSome(a *aycoder.ApprovalRequested, tr *trace) {
	if numberOf(a.Request.Args)%2 == 1 {
		if a.Allow(); a.Deny("too late") {
			tr.found.add(ruleLate, "Deny after Allow reports true")
		}
		return
	}
	if a.Deny("no"); a.Allow() {
		tr.found.add(ruleLate, "Allow after Deny reports true")
	}
}

// allowDetached answers on another goroutine, after the loop body has returned, as a host does
// that shows the question in a window.
func allowDetached(a *aycoder.ApprovalRequested, tr *trace) {
	later := a.Detach()
	tr.helpers.Go(func() { later.Allow() })
}

// failing returns conversations in which the model or the connection fails before or after a tool
// has begun. An agent that repeats the request must not repeat a call that already ran.
func failing() []scenario {
	never := func(context.Context, *world) {}
	return []scenario{
		{name: "call cut off by max_tokens", err: noError, text: "shorter", runs: []int{1},
			never: []int{2},
			answers: fixed([]any{delta("long"), block("long"), call("a", "read", 1),
				&aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "b", Name: "write",
					Args: json.RawMessage(`{"n":2`)}},
				done(aycoder.StopMaxTokens)}, says("shorter"))},
		{name: "complete-looking call cut off", err: noError, text: "shorter", never: []int{2},
			answers: fixed([]any{&aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "b",
				Name: "read", Args: json.RawMessage(`{"n":2}`)}},
				done(aycoder.StopMaxTokens)}, says("shorter"))},
		{name: "refusal", err: is[*aycoder.RefusalError], never: []int{2}, asked: 1,
			answers: fixed([]any{delta("no"), block("no"), call("a", "read", 1),
				call("b", "write", 2), done(aycoder.StopRefusal)}, says("never"))},
		{name: "stream broken before a tool began", err: noError, text: "again", never: []int{1},
			asked:   2,
			answers: fixed([]any{delta("hal"), call("a", "write", 1), broken()}, says("again"))},
		{name: "same call again after a broken stream", err: noError, text: "again", runs: []int{2},
			never: []int{1}, asked: 3,
			answers: fixed([]any{call("a", "write", 1), broken()}, calls(call("a", "write", 2)),
				says("again"))},
		{name: "stream broken after a tool began", err: noError, text: "again", runs: []int{1},
			never: []int{2}, asked: 2,
			answers: fixed([]any{delta("I"), block("I"), call("a", "read", 1), await(1),
				call("b", "write", 2), delta("and"), broken()}, says("again"))},
		{name: "stream broken while a tool works", err: noError, text: "again", runs: []int{1},
			asked:   2,
			answers: fixed([]any{call("a", "wait", 1), await(1), broken()}, says("again"))},
		{name: "stream that ends without MessageDone", err: noError, text: "again", asked: 2,
			answers: fixed([]any{delta("hal"), never}, says("again"))},
		{name: "overload and rate limit", err: noError, text: "at last", runs: []int{1}, asked: 5,
			answers: fixed([]any{&aycoder.OverloadedError{ModelError: modelError("busy")}},
				[]any{&aycoder.RateLimitError{ModelError: modelError("slow"),
					RetryAfter: 7 * time.Second}},
				calls(call("a", "write", 1)),
				[]any{&aycoder.RateLimitError{ModelError: modelError("slow"),
					RetryAfter: 7 * time.Second}},
				says("at last"))},
		{name: "context too large", err: noError, text: "smaller", runs: []int{1}, asked: 3,
			answers: fixed(longCall(), tooLarge(), says("smaller"))},
		{name: "context too large twice", err: noError, text: "smallest", runs: []int{1}, asked: 4,
			answers: fixed(longCall(), tooLarge(), tooLarge(), says("smallest"))},
		{name: "context too large for ever", err: is[*aycoder.ContextTooLargeError], runs: []int{1},
			answers: fixed(longCall(), tooLarge())},
		{name: "request that cannot be smaller", err: is[*aycoder.ContextTooLargeError], asked: 1,
			answers: fixed(tooLarge())},
		{name: "wrong key", err: is[*aycoder.AuthError], asked: 1,
			answers: fixed([]any{&aycoder.AuthError{ModelError: modelError("key")}})},
		{name: "bad request", err: is[*aycoder.BadRequestError], asked: 1,
			answers: fixed([]any{&aycoder.BadRequestError{ModelError: modelError("bad")}})},
		{name: "endless overload", err: is[*aycoder.OverloadedError],
			answers: fixed([]any{&aycoder.OverloadedError{ModelError: modelError("busy")}})},
		{name: "auth error after a tool began", err: is[*aycoder.AuthError], runs: []int{1},
			never: []int{2}, asked: 1,
			answers: fixed([]any{call("a", "read", 1), await(1), call("b", "write", 2),
				&aycoder.AuthError{ModelError: modelError("key")}})},
	}
}

// hostile returns answers that no correct client gives. The agent must survive them, and its
// history must still be valid and possible to store.
func hostile() []scenario {
	return []scenario{
		{name: "invalid UTF-8 and NUL", err: noError, runs: []int{1, 2},
			answers: fixed(calls(delta(dirt), block(dirt),
				&aycoder.BlockDone{Part: &aycoder.Thinking{Text: dirt}},
				&aycoder.ToolDelta{ID: dirt, Name: dirt, Args: dirt},
				callArgs("x"+dirt, "dirty", `{"n":1}`), call("b", "dirty", 2),
				callArgs("c", "r"+dirt, `{"n":"`+dirt+`"}`)), says("so"+dirt))},
		{name: "event and error both nil", err: is[*aycoder.ModelError],
			answers: fixed([]any{delta("a"), nil})},
		{name: "panicking client", err: is[*aycoder.ModelError],
			answers: fixed([]any{delta("a"),
				func(context.Context, *world) { panic("a client of the suite panics") }})},
		{name: "nil part", err: is[*aycoder.ModelError],
			answers: fixed([]any{&aycoder.BlockDone{}})},
		{name: "nil call", err: is[*aycoder.ModelError],
			answers: fixed([]any{&aycoder.BlockDone{Part: (*aycoder.ToolUse)(nil)}})},
		{name: "nil cut call", err: is[*aycoder.ModelError],
			answers: fixed([]any{&aycoder.BlockTruncated{}})},
		{name: "part of the wrong role", err: is[*aycoder.ModelError],
			answers: fixed([]any{&aycoder.BlockDone{Part: &aycoder.ToolOutput{ID: "a"}}})},
		{name: "client that hangs", err: noError, text: "at last",
			answers: fixed([]any{delta("a"), hang, delta("t last"), block("at last"),
				done(aycoder.StopEndTurn)})},
	}
}

// hang is a step that waits for an hour of simulated time, or until the context ends. A slow
// client is not a fault, so an agent that nobody cancels must wait for the rest of the answer.
func hang(ctx context.Context, _ *world) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
	}
}
