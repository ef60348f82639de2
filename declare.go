package aycoder

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/schema"
)

// DeclareTool declares a tool that has no function: its calls are carried out outside of the loop, for
// example by a browser, by a person, or by a job that takes days. In is a struct whose fields are the
// arguments, as for [NewTool].
//
// A call is checked against the schema and put to the [Approver] like any other call. Then the host gets
// a [CallRequested], and may give the result while the run lives. If it does not, the run goes on with
// the other calls, and ends with [EndSuspended] when it needs the result: the call is in [Pending.Calls]
// then, and [Input.Results] answers it, also in another process.
//
// Whatever carries a call out does not belong to the run, and is not stopped with it. The effect of the
// tool (see [WithEffect]) says what it may do. A call waits until the message of the model is
// complete, and for the calls of tools with functions before it, unless it and they only read; the calls
// of such tools behind it wait for its result in the same way. But calls of declared tools do not wait
// for one another: their requests come together, in the order of the calls, and who carries them out
// should keep that order if they change something.
//
// [ToolMiddleware] gets the call when its result is there: the result is what next returns, so that
// it can be masked. Only an Approver can refuse a call before. The model reads of a result what it would
// read of that of a function, see [Limits].ToolOutput.
func DeclareTool[In any](name, description string, opts ...ToolOption) (Tool, error) {
	spec := ToolSpec{Name: name, Description: description}
	if err := spec.describe(reflect.TypeFor[In](), opts); err != nil {
		return nil, fmt.Errorf("declare tool %q: %w", name, err)
	}
	return DeclareSpec(spec)
}

// DeclareSpec is [DeclareTool] for a spec whose Schema, and Result if there is one, come from elsewhere,
// such as from a client that has the tool.
func DeclareSpec(spec ToolSpec) (Tool, error) {
	spec.Schema, spec.Result = bytes.Clone(spec.Schema), bytes.Clone(spec.Result)
	compiled, err := checkSpec(&spec, nil)
	if err == nil && spec.Result != nil {
		if _, err = schema.Compile(spec.Result); err != nil {
			err = fmt.Errorf("result: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("declare tool %q: %w", spec.Name, err)
	}
	spec.declared = outsideOf
	t := &funcTool{tool{spec: spec, schema: compiled}}
	t.impl = t
	t.call = func(_ context.Context, inv *Invocation) (*ToolResult, error) {
		if res, ok := inv.answer.(*ToolResult); ok {
			return new(*res), nil
		}
		return nil, &ToolError{Tool: spec.Name, CallID: inv.ID, Err: errNoFunction}
	}
	return t, nil
}

var errNoFunction = errors.New("the tool is only declared: it has no function to call")

// WithResult sets the schema of the results of a declared tool, which then are the text of a JSON
// object: that of T, which is a struct as for [NewTool]. A result with IsError need not match it.
// Default: any result is allowed.
func WithResult[T any]() ToolOption {
	return func(s *ToolSpec) (err error) {
		if s.Result, err = schema.Reflect(reflect.TypeFor[T]()); err != nil {
			return fmt.Errorf("WithResult: %w", err)
		}
		return nil
	}
}

// CallRequest asks for the result of a call of a declared tool, see [DeclareTool]. It is plain data
// and encodes as JSON.
type CallRequest struct {
	// Key identifies the call in its run, for example "t3/tool/toolu_01". Together with Run it can
	// serve as an idempotency key: a call whose request comes again has the same Key.
	Key string `json:"key"`
	// Run is the id of the run, and Agent the name of its agent: see [WithName].
	Run   string `json:"run"`
	Agent string `json:"agent,omitempty"`
	// CallID, Tool and Args are the call's id, tool name and arguments. The arguments match the
	// schema, and values that the model wrote as text ("3" for 3) are converted. Subject is what the
	// call acts on, such as a path or a command.
	CallID  string          `json:"id"`
	Tool    string          `json:"name"`
	Args    json.RawMessage `json:"args"`
	Subject string          `json:"subject,omitempty"`
	// Digest is a hash of Run, Key, Tool and Args. A [CallResult] must have the same Digest.
	Digest string `json:"digest"`
	// Created is the time at which the loop first made the request.
	Created time.Time `json:"created"`
}

// Result returns the answer to the request, for [Input.Results]. It takes Parts, IsError, Summary and
// Untrusted of res, and none of its other fields.
func (q *CallRequest) Result(res *ToolResult) CallResult {
	out := CallResult{CallID: q.CallID, Digest: q.Digest}
	if res != nil {
		out.Parts, out.IsError, out.Summary, out.Untrusted = res.Parts, res.IsError, res.Summary, res.Untrusted
	}
	return out
}

func (q *CallRequest) digest() string {
	return digest(q.Run, q.Key, q.Tool, jsontext.Canonical(q.Args))
}

// digest returns a hash of texts and of where each ends.
func digest(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CallResult is the result of a call that was carried out outside, in answer to a [CallRequest]. It
// encodes as JSON, so that another process can send it to [Input.Results]. [CallRequest.Result] makes
// one. The fields from Parts on are those of [ToolResult].
type CallResult struct {
	// CallID and Digest are those of the [CallRequest].
	CallID, Digest string
	Parts          []Part
	IsError        bool
	Summary        string
	Untrusted      bool
}

type callResultJSON struct {
	CallID    string     `json:"call_id"`
	Digest    string     `json:"digest"`
	Parts     []leafPart `json:"parts"`
	IsError   bool       `json:"is_error,omitempty"`
	Summary   string     `json:"summary,omitempty"`
	Untrusted bool       `json:"untrusted,omitempty"`
}

// MarshalJSON encodes the result with the keys "call_id", "digest", "parts", "is_error", "summary" and
// "untrusted". The parts have the form that they have in [Message.MarshalJSON].
func (c CallResult) MarshalJSON() ([]byte, error) {
	w, err := encodeOutput(&ToolOutput{Parts: c.Parts})
	if err != nil {
		return nil, fmt.Errorf("encode result of call %q: %w", c.CallID, err)
	}
	return json.Marshal(&callResultJSON{c.CallID, c.Digest, w.Parts, c.IsError, c.Summary, c.Untrusted})
}

// UnmarshalJSON decodes the output of [CallResult.MarshalJSON].
func (c *CallResult) UnmarshalJSON(data []byte) error {
	var w callResultJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode result of a call: %w", err)
	}
	p, err := decodePart(&wirePart{Type: "tool_output", Parts: w.Parts})
	if err != nil {
		return fmt.Errorf("decode result of call %q: %w", w.CallID, err)
	}
	*c = CallResult{w.CallID, w.Digest, p.(*ToolOutput).Parts, w.IsError, w.Summary, w.Untrusted}
	return nil
}

// ResultError reports that the result of a call was refused. The call and the run are as before.
type ResultError struct {
	CallID string
	// Kind says why. "not_open" means that the call waits for no result, for example because it has
	// one or the run has ended; "twice" that two results for it were given at once. The error then
	// unwraps to [ErrDecided]. "other_call" means that Digest is that of another call, "schema" that
	// the result does not match [ToolSpec].Result, "too_large" that it has more than 16 MiB, of which
	// each part takes 1 KiB beside its content, and "invalid" that it has a part which is neither a [Text]
	// nor a [Media].
	Kind string
	Err  error
}

// Error implements error.
func (e *ResultError) Error() string { return fmt.Sprintf("result of call %q: %v", e.CallID, e.Err) }

// Unwrap returns e.Err.
func (e *ResultError) Unwrap() error { return e.Err }

var (
	errDigest  = errors.New("the digest is that of another call")
	errContent = errors.New("it is nil, or has a part that is neither a text nor media")
)

func notOpen(id string) error {
	return &ResultError{id, "not_open", fmt.Errorf("the call waits for no result: %w", ErrDecided)}
}
