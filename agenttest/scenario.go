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

// A scenario is a conversation that is played in every way: to its end, left,
// cancelled and panicked out of at each event.
type scenario struct {
	name    string
	answers func() [][]any
	// asks makes the approver ask about calls that write; answer answers.
	asks   bool
	answer func(a *aycoder.ApprovalRequested, tr *trace)

	// The outcome of a whole run.
	text  string // of the last message
	runs  []int  // the calls that run
	err   func(error) bool
	asked int // requests; 0 does not matter

	// never are the calls that run in no case.
	never []int
}

// The scenarios. Each is a script for the model, with what has to come of it: the last
// text, the error, the calls that run and those that must not. Steps that are functions
// wait for the tools, so that the order in which things happen is fixed without sleeps.
// Every scenario is played once for each way to leave the loop, at each event.

// call is a call whose arguments say which one it is, so that the log of the tools can be
// compared.
func call(id, tool string, n int) *aycoder.BlockDone {
	return callArgs(id, tool, fmt.Sprintf(`{"n":%d}`, n))
}

// callArgs is a call with any arguments.
func callArgs(id, tool, args string) *aycoder.BlockDone {
	return &aycoder.BlockDone{Part: &aycoder.ToolUse{ID: id, Name: tool,
		Args: json.RawMessage(args)}}
}

func delta(s string) *aycoder.TextDelta { return &aycoder.TextDelta{Text: s} }

func block(s string) *aycoder.BlockDone { return &aycoder.BlockDone{Part: &aycoder.Text{Text: s}} }

// done ends a message.
func done(stop aycoder.StopReason) *aycoder.MessageDone {
	return &aycoder.MessageDone{Stop: stop, Usage: aycoder.Usage{Input: 10, Output: 5}}
}

// says is an answer of text alone.
func says(s string) []any {
	half := len(s) / 2
	return []any{delta(s[:half]), delta(s[half:]), block(s), done(aycoder.StopEndTurn)}
}

// calls is an answer that ends with the wish to have tools called.
func calls(steps ...any) []any { return append(steps, done(aycoder.StopToolUse)) }

func fixed(answers ...[]any) func() [][]any { return func() [][]any { return answers } }

// longCall is a call behind a text that can be left out or shortened.
func longCall() []any {
	long := strings.Repeat("long ", 4000)
	return calls(delta(long), block(long), call("a", "read", 1))
}

// tooLarge is the answer to a request that is too large for the model.
func tooLarge() []any {
	return []any{&aycoder.ContextTooLargeError{ModelError: modelError("large"), Actual: 2, Max: 1}}
}

// broken is the error of a connection that was lost.
func broken() error {
	return &aycoder.StreamBrokenError{ModelError: modelError("connection reset")}
}

// modelError is an error of the suite's provider.
func modelError(text string) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "agenttest", Err: errors.New(text)}
}

// is reports whether an error has a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func noError(err error) bool { return err == nil }

// scenarios returns the conversations of the suite.
func scenarios() []scenario {
	return append(append(plain(), tooled()...), append(failing(), hostile()...)...)
}

// plain are conversations in which nothing goes wrong. They show the order in which calls
// start: reads early and side by side, writes after the message and alone.
func plain() []scenario {
	return []scenario{
		{name: "text", answers: fixed(says("Hello")), text: "Hello", err: noError, asked: 1},
		{name: "thousand deltas", answers: manyDeltas, text: strings.Repeat("ab", 1000), err: noError},
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
				&aycoder.BlockDone{Part: &aycoder.Thinking{Text: "hm", Signature: "sig", Provider: "p"}},
				&aycoder.BlockDone{Part: &aycoder.Opaque{Provider: "p", Raw: json.RawMessage(`{"a": 1}`)}},
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

// manyDeltas is an answer in so many pieces that a consumer which is slow falls behind.
func manyDeltas() [][]any {
	var steps []any
	for range 1000 {
		steps = append(steps, delta("ab"), pace)
	}
	return [][]any{append(steps, block(strings.Repeat("ab", 1000)), done(aycoder.StopEndTurn))}
}

// tooled are conversations in which tools, or those who approve, do not do what they
// should.
func tooled() []scenario {
	writes := fixed(calls(call("a", "write", 1), call("b", "write", 2), call("c", "read", 3),
		call("d", "write", 4), call("e", "write", 5)), says("asked"))
	return []scenario{
		{name: "approval", asks: true, answers: writes, answer: allowSome, err: noError, text: "asked",
			runs: []int{1, 3, 5}, never: []int{2, 4}},
		{name: "approval from elsewhere", asks: true, answers: writes, answer: allowDetached,
			err: noError, text: "asked", runs: []int{1, 2, 3, 4, 5}},
		{name: "approval ignored", asks: true, answers: writes, err: noError, text: "asked",
			runs: []int{3}, never: []int{1, 2, 4, 5}},
		{name: "failing tool", answers: fixed(calls(call("a", "fail", 1), call("b", "read", 2)),
			says("so")), err: noError, text: "so", runs: []int{1, 2}},
		{name: "panicking tool", answers: fixed(calls(call("a", "panic", 1),
			call("b", "panic_write", 2), call("c", "read", 3)), says("so")), err: noError, text: "so",
			runs: []int{1, 2, 3}},
		{name: "tool that waits", answers: fixed(calls(delta("go"), block("go"), call("a", "wait", 1),
			await(1), call("b", "wait_write", 2)), says("so")), err: noError, text: "so",
			runs: []int{1, 2}},
		{name: "tool that ignores cancel",
			answers: fixed(calls(delta("go"), block("go"), call("a", "stuck", 1), await(1),
				call("b", "stuck_write", 2)), says("so")), err: noError, text: "so", runs: []int{1, 2}},
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
				calls(call("a", "read", 5), call("", "write", 6), call("a", "write", 7)), says("so"))},
	}
}

// allowSome allows the calls with odd numbers, and answers twice.
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

// allowDetached answers on another goroutine, after the loop body has returned.
func allowDetached(a *aycoder.ApprovalRequested, tr *trace) {
	later := a.Detach()
	tr.helpers.Go(func() { later.Allow() })
}

// failing are conversations in which the model or the connection fails, before and after a
// tool has begun: after that, nothing may be done twice.
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
			answers: fixed([]any{&aycoder.BlockTruncated{Call: &aycoder.ToolUse{ID: "b", Name: "read",
				Args: json.RawMessage(`{"n":2}`)}},
				done(aycoder.StopMaxTokens)}, says("shorter"))},
		{name: "refusal", err: is[*aycoder.RefusalError], never: []int{2}, asked: 1,
			answers: fixed([]any{delta("no"), block("no"), call("a", "read", 1), call("b", "write", 2),
				done(aycoder.StopRefusal)}, says("never"))},
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
				[]any{&aycoder.RateLimitError{ModelError: modelError("slow"), RetryAfter: 7 * time.Second}},
				calls(call("a", "write", 1)),
				[]any{&aycoder.RateLimitError{ModelError: modelError("slow"), RetryAfter: 7 * time.Second}},
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

// hostile are answers that no honest client gives. The agent must survive them, with a
// history that can be stored.
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
		{name: "nil part", err: is[*aycoder.ModelError], answers: fixed([]any{&aycoder.BlockDone{}})},
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

// hang is a step that waits for a long time, or until it is cancelled.
func hang(ctx context.Context, _ *world) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
	}
}
