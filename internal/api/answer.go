package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
)

// An Answer assembles a message for a service that sends texts, thinking and complete
// tool calls one after the other. The Answer completes a block when the next block
// begins, or when the message ends. It is not safe for concurrent use.
type Answer struct {
	call     *Call
	text     strings.Builder
	thinking strings.Builder
	sig      string
	extra    *aycoder.Opaque
	calls    int
	sent     map[sentCall]bool

	// Done is the event that [Answer.End] emits. The decoder sets its fields, such as the
	// usage and the stop reason, while it reads the response.
	Done aycoder.MessageDone
}

// NewAnswer returns an empty answer that emits its events to k.
func NewAnswer(k *Call) *Answer { return &Answer{call: k} }

// Text appends to the visible text. It completes open thinking first.
func (a *Answer) Text(s string) error {
	if s == "" {
		return nil
	}
	if a.thinking.Len() > 0 || a.sig != "" {
		if err := a.Close(); err != nil {
			return err
		}
	}
	return a.call.EmitText(Grow(&a.text, s))
}

// Extra attaches data of the service to the open text block. The client sends the data
// back to the service with the text.
func (a *Answer) Extra(raw json.RawMessage) {
	a.extra = &aycoder.Opaque{Provider: a.call.x.Config.Provider, Raw: raw}
}

// Thinking appends to the thinking of the model. It completes an open text first.
func (a *Answer) Thinking(s string) error {
	if s == "" {
		return nil
	}
	if a.text.Len() > 0 || a.extra != nil {
		if err := a.Close(); err != nil {
			return err
		}
	}
	return a.call.EmitThinking(Grow(&a.thinking, s))
}

// Sign sets the signature of the open thinking block. Without such a block, it opens one
// that consists only of the signature.
func (a *Answer) Sign(signature string) { a.sig = signature }

// Close completes the open block. Without an open block, it does nothing.
func (a *Answer) Close() error {
	var p aycoder.Part
	switch {
	case a.thinking.Len() > 0 || a.sig != "":
		p = &aycoder.Thinking{Text: Fitted(&a.thinking), Signature: a.sig, Provider: a.call.x.Config.Provider}
	case a.text.Len() > 0 || a.extra != nil:
		p = &aycoder.Text{Text: Fitted(&a.text), Extra: a.extra}
	default:
		return nil
	}
	a.text, a.thinking, a.sig, a.extra = strings.Builder{}, strings.Builder{}, "", nil
	return a.call.Emit(&aycoder.BlockDone{Part: p})
}

// Opaque adds a server-side block, which only the service itself can interpret.
func (a *Answer) Opaque(raw json.RawMessage) error {
	if err := a.Close(); err != nil {
		return err
	}
	o := &aycoder.Opaque{Provider: a.call.x.Config.Provider, Raw: raw}
	return a.call.Emit(&aycoder.BlockDone{Part: o})
}

// Call adds a tool call whose arguments are complete. It replaces empty and null
// arguments by {}. A call without a name is an error.
func (a *Answer) Call(u *aycoder.ToolUse) error {
	if err := a.Close(); err != nil {
		return err
	}
	if u.Name == "" {
		return errors.New("call without a name")
	}
	a.calls++
	u.Args = orEmpty(u.Args)
	if err := a.call.EmitArgs(u.ID, u.Name, string(u.Args)); err != nil {
		return err
	}
	return a.call.Emit(&aycoder.BlockDone{Part: u})
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 || string(args) == "null" {
		return json.RawMessage(`{}`)
	}
	return args
}

// sentCall is a call with the id that the service gave it.
type sentCall struct{ id, name, args string }

// Repeats reports whether the service has sent u before, as some gateways do: under the same id,
// with the same name and arguments. Calls that only have the id in common are different ones.
func (a *Answer) Repeats(id string, u *aycoder.ToolUse) bool {
	if id == "" {
		return false
	}
	if a.sent == nil {
		a.sent = map[sentCall]bool{}
	}
	c := sentCall{id, u.Name, string(orEmpty(u.Args))}
	repeats := a.sent[c]
	a.sent[c] = true
	return repeats
}

// Cut adds a truncated tool call. The arguments of u are the part that arrived.
func (a *Answer) Cut(u *aycoder.ToolUse) error {
	if err := a.Close(); err != nil {
		return err
	}
	if err := a.call.EmitArgs(u.ID, u.Name, string(u.Args)); err != nil {
		return err
	}
	return a.call.Emit(&aycoder.BlockTruncated{Call: u})
}

// Calls returns the number of complete tool calls so far.
func (a *Answer) Calls() int { return a.calls }

// End completes the open block and emits [Answer.Done]. If the message has tool calls,
// but its stop reason is empty or that of a normal end, End sets [aycoder.StopToolUse]:
// some services send the wrong reason.
func (a *Answer) End() error {
	if err := a.Close(); err != nil {
		return err
	}
	if a.calls > 0 && cmp.Or(a.Done.Stop, aycoder.StopEndTurn) == aycoder.StopEndTurn {
		a.Done.Stop = aycoder.StopToolUse
	}
	done := a.Done // a copy, since it would otherwise keep the whole answer in memory
	return a.call.Emit(&done)
}

// maxSeed is the number of bytes of a seed that [MakeID] hashes. It bounds the cost,
// because every call of a response hashes the seed again.
const maxSeed = 512

// MakeID generates an id for the nth tool call of a response, for services that send no
// ids. The seed comes from the response: the same response always gives the same ids, and
// different responses give different ids. MakeID uses only the length and both ends of a
// seed of more than 512 bytes.
func MakeID(seed string, n int) string {
	if len(seed) > maxSeed {
		seed = seed[:maxSeed/2] + strconv.Itoa(len(seed)) + seed[len(seed)-maxSeed/2:]
	}
	h := fnv.New64a()
	h.Write([]byte(seed)) // never returns an error
	return "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + strconv.Itoa(n)
}

// maxCount is the largest plausible number of tokens.
const maxCount = 1 << 40

// Count clamps a number of tokens from a service to the range from 0 to 2^40, so that the
// sum of such numbers cannot overflow.
func Count(n int64) int64 { return min(max(n, 0), maxCount) }
