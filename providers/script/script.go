// Package script provides a model that follows a script. It is meant for tests of
// programs that use aycoder, and for demonstrations: it needs neither a network nor a
// key, and its stream looks like that of a real provider.
//
// # Steps
//
// [New] takes one [Step] for each request, in order. Some steps say something, and
// [Reply] combines several of them into one answer:
//
//	m := script.New(
//		script.Reply(
//			script.Think("The test fails in parse."),
//			script.Say("Let me look."),
//			script.Call("read_file", map[string]any{"path": "parse.go"}),
//		),
//		script.Say("It is an off-by-one."),
//	)
//
// The stop reason follows from the content: tool_use after a [Call], max_tokens after a
// [Cut], otherwise end_turn. [Step.WithStop] and [Step.WithUsage] override stop reason
// and usage.
//
// [Func] chooses the step when the request is made; [LastOutput] returns the last output
// of a tool:
//
//	script.Func(func(req *aycoder.Request) script.Step {
//		if script.LastOutput(req).IsError {
//			return script.Say("That did not work.")
//		}
//		return script.Call("bash", map[string]any{"command": "go test ./..."})
//	})
//
// A request after the last step is an error, unless the model loops ([WithLoop]).
//
// # Failures
//
// [Fail] answers with an error, and [Break] breaks the stream off after some events.
// [RateLimited], [Overloaded] and [TooLarge] return the errors of a real provider.
//
// # Requests
//
// [Model.Requests] returns every request that was made.
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// Step is the answer to one request, or a part of an answer. Step is a value: its methods
// return a changed copy. The zero Step is an answer without content.
type Step struct {
	blocks []block
	stop   aycoder.StopReason
	usage  *aycoder.Usage
	choose func(*aycoder.Request) Step
	err    error // ends the stream
	broken bool  // the stream breaks off after limit events
	limit  int
	bad    error // an error in the script
}

// A block is a part and the way in which it is streamed.
type block struct {
	part aycoder.Part
	cut  bool
}

// Say returns a step whose answer is text.
func Say(text string) Step { return Block(&aycoder.Text{Text: text}) }

// Think returns a step in which the model thinks text. The model adds a signature.
func Think(text string) Step { return Block(&aycoder.Thinking{Text: text}) }

// Call returns a step in which the model calls a tool. If args is a string, a []byte or a
// [json.RawMessage], args is the JSON text of the arguments. The text is used unchanged,
// even if it is not valid JSON. Any other value is encoded as JSON, and nil becomes {}.
// The call gets an id unless [Step.WithID] sets one; the first call of a model gets
// "call_1".
func Call(tool string, args any) Step {
	raw, err := encode(args)
	if err != nil {
		return Step{bad: fmt.Errorf("arguments of %s: %w", tool, err)}
	}
	return Block(&aycoder.ToolUse{Name: tool, Args: raw})
}

// Cut returns a step in which the token limit cuts off a tool call. Args is the part of
// the JSON arguments that the model wrote before the limit.
func Cut(tool, args string) Step {
	call := &aycoder.ToolUse{Name: tool, Args: json.RawMessage(args)}
	return Step{blocks: []block{{part: call, cut: true}}}
}

// Block returns a step whose answer is the part p, which may be of any type, such as an
// [aycoder.Opaque]. The part must not be modified afterwards.
func Block(p aycoder.Part) Step { return Step{blocks: []block{{part: p}}} }

// Reply returns a step that combines the content of several steps into one answer. If
// more than one of them sets the stop reason, the usage or the error, the last value
// applies. A step from [Func] or [Break] cannot be combined; the request then ends with
// an error.
func Reply(steps ...Step) Step {
	var all Step
	for _, s := range steps {
		all.blocks = append(all.blocks, s.blocks...)
		if s.stop != "" {
			all.stop = s.stop
		}
		if s.usage != nil {
			all.usage = s.usage
		}
		if s.err != nil {
			all.err = s.err
		}
		if s.choose != nil || s.broken {
			all.bad = errors.New("reply has a Func or a Break in it")
		}
		if s.bad != nil {
			all.bad = s.bad
		}
	}
	return all
}

// Func returns a step that calls f when the request is made, and answers with the step
// that f returns. The goroutine that ranges over the stream calls f.
func Func(f func(*aycoder.Request) Step) Step {
	if f == nil {
		return Step{bad: errors.New("nil Func")}
	}
	return Step{choose: f}
}

// Fail returns a step whose stream ends with err. In a [Reply], the content of the other
// steps comes before the error.
func Fail(err error) Step { return Step{err: err} }

// Break returns a step whose stream breaks off: it yields the first events of reply, and
// then ends with an error. The parameter events is the number of events before the error.
// If reply has fewer events, the error comes in place of [aycoder.MessageDone]. The error
// is err, or an [*aycoder.StreamBrokenError] if err is nil.
func Break(events int, err error, reply ...Step) Step {
	s := Reply(reply...)
	s.broken, s.limit = true, max(events, 0)
	if err != nil {
		s.err = err
	}
	return s
}

// WithStop returns a copy of the step with this stop reason.
func (s Step) WithStop(reason aycoder.StopReason) Step {
	s.stop = reason
	return s
}

// WithUsage returns a copy of the step with this token usage, which replaces the
// estimate.
func (s Step) WithUsage(u aycoder.Usage) Step {
	s.usage = &u
	return s
}

// WithID returns a copy of the step in which all tool calls have this id. A test can thus
// repeat an id that already occurs in the conversation, as some models do.
func (s Step) WithID(id string) Step {
	blocks := make([]block, len(s.blocks))
	for i, b := range s.blocks {
		if call, ok := b.part.(*aycoder.ToolUse); ok {
			c := *call
			c.ID = id
			b.part = &c
		}
		blocks[i] = b
	}
	s.blocks = blocks
	return s
}

func encode(args any) (json.RawMessage, error) {
	switch args := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case string:
		return json.RawMessage(args), nil
	case []byte:
		return args, nil
	case json.RawMessage:
		return args, nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // models do not write \u003c
	if err := e.Encode(args); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), nil
}

// LastOutput returns the last tool output in the messages after the model's last message.
// If these messages have no tool output, LastOutput returns an empty output that is not
// an error.
func LastOutput(req *aycoder.Request) *aycoder.ToolOutput {
	for p := range sinceAnswer(req) {
		if o, ok := p.(*aycoder.ToolOutput); ok {
			return o
		}
	}
	return &aycoder.ToolOutput{}
}

// LastText returns the last text in the messages after the model's last message. This is
// a text of the user or of a tool output. If these messages have no text, LastText
// returns "".
func LastText(req *aycoder.Request) string {
	for p := range sinceAnswer(req) {
		switch p := p.(type) {
		case *aycoder.Text:
			return p.Text
		case *aycoder.ToolOutput:
			return p.Text()
		}
	}
	return ""
}

// sinceAnswer yields the parts after the model's last message. It goes backward, so that
// its cost does not depend on the length of the history.
func sinceAnswer(req *aycoder.Request) func(yield func(aycoder.Part) bool) {
	return func(yield func(aycoder.Part) bool) {
		for i := len(req.Messages) - 1; i >= 0; i-- {
			m := req.Messages[i]
			if m.Role == aycoder.RoleAssistant {
				return
			}
			for j := len(m.Parts) - 1; j >= 0; j-- {
				if !yield(m.Parts[j]) {
					return
				}
			}
		}
	}
}

// RateLimited returns the [*aycoder.RateLimitError] of a provider that asks the client to
// wait for the given time. Use it with [Fail].
func RateLimited(wait time.Duration) error {
	return &aycoder.RateLimitError{ModelError: scripted(429, "rate_limit_error"), RetryAfter: wait}
}

// Overloaded returns the [*aycoder.OverloadedError] of a provider without free capacity.
// Use it with [Fail].
func Overloaded() error {
	return &aycoder.OverloadedError{ModelError: scripted(529, "overloaded_error")}
}

// TooLarge returns the [*aycoder.ContextTooLargeError] for a request that does not fit
// into the model's context. Actual is the size of the request, and limit is the size of
// the context, both in tokens. Use it with [Fail].
func TooLarge(actual, limit int64) error {
	return &aycoder.ContextTooLargeError{
		ModelError: scripted(400, "invalid_request_error"), Actual: actual, Max: limit,
	}
}

func scripted(status int, kind string) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "script", Model: "script", Status: status, Kind: kind,
		Err: errors.New("the script says so")}
}
