// Package script is a model that says what a script tells it to. It is for tests of
// programs that use aycoder, and for demonstrations: it needs no network and no key,
// and what it streams looks like what a real provider streams.
//
// # Steps
//
// [New] takes one [Step] for each request, in order. Some steps say something, and
// [Reply] puts several of them into one answer:
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
// Why the model stopped follows from what it said: tool_use after a [Call],
// max_tokens after a [Cut], else end_turn. [Step.WithStop] and [Step.WithUsage] say
// otherwise.
//
// [Func] chooses the step when the request is there; [LastOutput] tells it what the
// last tool gave:
//
//	script.Func(func(req *aycoder.Request) script.Step {
//		if script.LastOutput(req).IsError {
//			return script.Say("That did not work.")
//		}
//		return script.Call("bash", map[string]any{"command": "go test ./..."})
//	})
//
// A request after the last step is an error that says so, unless the model loops
// ([WithLoop]).
//
// # What goes wrong
//
// [Fail] answers with an error, [Break] breaks the stream off after some events.
// [RateLimited], [Overloaded] and [TooLarge] are the errors that a provider's answer
// would have become.
//
// # Looking at requests
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

// Step answers one request, or is a part of such an answer. It is a value: the
// methods return a changed copy. The zero Step is an answer without content.
type Step struct {
	blocks []block
	stop   aycoder.StopReason
	usage  *aycoder.Usage
	choose func(*aycoder.Request) Step
	err    error // ends the stream
	broken bool  // the stream ends after limit events
	limit  int
	bad    error // the script is wrong
}

// A block is a part and how it comes.
type block struct {
	part aycoder.Part
	cut  bool
}

// Say returns a step that says text.
func Say(text string) Step { return Block(&aycoder.Text{Text: text}) }

// Think returns a step that thinks text, with a made-up signature.
func Think(text string) Step { return Block(&aycoder.Thinking{Text: text}) }

// Call returns a step that calls a tool. Args is the JSON text of the arguments as a
// string, []byte or [json.RawMessage], which is taken as it is, valid or not, or any
// other value, which is encoded; nil is {}. The call's id is made up, call_1 for the
// first call of a model, unless [Step.WithID] sets it.
func Call(tool string, args any) Step {
	raw, err := encode(args)
	if err != nil {
		return Step{bad: fmt.Errorf("arguments of %s: %w", tool, err)}
	}
	return Block(&aycoder.ToolUse{Name: tool, Args: raw})
}

// Cut returns a step that calls a tool, and is cut off by the token limit after args,
// the beginning of a JSON text.
func Cut(tool, args string) Step {
	call := &aycoder.ToolUse{Name: tool, Args: json.RawMessage(args)}
	return Step{blocks: []block{{part: call, cut: true}}}
}

// Block returns a step that says any part, such as an [aycoder.Opaque] block. The
// part must not be changed afterwards.
func Block(p aycoder.Part) Step { return Step{blocks: []block{{part: p}}} }

// Reply returns a step that does all of steps in one answer. The last stop reason,
// usage and error that one of them sets counts. [Func] and [Break] stand alone.
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

// Func returns a step that f chooses when the request is there. It is called on the
// goroutine that ranges over the stream.
func Func(f func(*aycoder.Request) Step) Step {
	if f == nil {
		return Step{bad: errors.New("nil Func")}
	}
	return Step{choose: f}
}

// Fail returns a step that ends with err, after what it says if it is in a [Reply].
func Fail(err error) Step { return Step{err: err} }

// Break returns a step whose stream breaks off after that many events of reply, at
// the latest before its [aycoder.MessageDone]. The model yields err, and an
// [aycoder.StreamBrokenError] if err is nil.
func Break(events int, err error, reply ...Step) Step {
	s := Reply(reply...)
	s.broken, s.limit = true, max(events, 0)
	if err != nil {
		s.err = err
	}
	return s
}

// WithStop returns the step with another reason why the model stopped.
func (s Step) WithStop(reason aycoder.StopReason) Step {
	s.stop = reason
	return s
}

// WithUsage returns the step with the tokens it counts, instead of an estimate.
func (s Step) WithUsage(u aycoder.Usage) Step {
	s.usage = &u
	return s
}

// WithID returns the step with the id of its calls. An id that a conversation has
// already makes the wrong input that some models make.
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

// LastOutput returns the last output of a tool since the model spoke last, or an
// empty one that is no error if there is none.
func LastOutput(req *aycoder.Request) *aycoder.ToolOutput {
	for p := range sinceAnswer(req) {
		if o, ok := p.(*aycoder.ToolOutput); ok {
			return o
		}
	}
	return &aycoder.ToolOutput{}
}

// LastText returns the last text that a user or a tool has said since the model
// spoke last, or "".
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

// sinceAnswer goes backwards through what came after the model's last message, so
// that looking costs the same however long the history is.
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

// RateLimited returns the [aycoder.RateLimitError] of a provider that asks to wait.
func RateLimited(wait time.Duration) error {
	return &aycoder.RateLimitError{ModelError: scripted(429, "rate_limit_error"), RetryAfter: wait}
}

// Overloaded returns the [aycoder.OverloadedError] of a provider without capacity.
func Overloaded() error {
	return &aycoder.OverloadedError{ModelError: scripted(529, "overloaded_error")}
}

// TooLarge returns the [aycoder.ContextTooLargeError] of a request with that many
// tokens to a model that takes limit of them.
func TooLarge(actual, limit int64) error {
	return &aycoder.ContextTooLargeError{
		ModelError: scripted(400, "invalid_request_error"), Actual: actual, Max: limit,
	}
}

func scripted(status int, kind string) *aycoder.ModelError {
	return &aycoder.ModelError{Provider: "script", Model: "script", Status: status, Kind: kind,
		Err: errors.New("the script says so")}
}
