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

// An Answer assembles a message for services that send text, thinking and whole calls one
// after the other. A block is complete when another one begins, or when the message ends.
type Answer struct {
	// Done is the end of the message; its fields are set as they become known.
	Done aycoder.MessageDone

	call     *Call
	text     strings.Builder
	thinking strings.Builder
	sig      string
	extra    *aycoder.Opaque
	calls    int
}

// NewAnswer returns an empty answer that emits its events to the call.
func NewAnswer(k *Call) *Answer { return &Answer{call: k} }

// Text adds visible text.
func (a *Answer) Text(s string) error {
	if s == "" {
		return nil
	}
	if a.thinking.Len() > 0 || a.sig != "" {
		if err := a.Close(); err != nil {
			return err
		}
	}
	a.text.WriteString(s)
	return a.call.Emit(&aycoder.TextDelta{Text: s})
}

// Extra sets the data that the service wants back with the open text.
func (a *Answer) Extra(raw json.RawMessage) {
	a.extra = &aycoder.Opaque{Provider: a.call.x.Config.Provider, Raw: raw}
}

// Thinking adds to the thinking of the model.
func (a *Answer) Thinking(s string) error {
	if s == "" {
		return nil
	}
	if a.text.Len() > 0 || a.extra != nil {
		if err := a.Close(); err != nil {
			return err
		}
	}
	a.thinking.WriteString(s)
	return a.call.Emit(&aycoder.ThinkingDelta{Text: s})
}

// Sign sets the signature of the open thinking, or of one without a text.
func (a *Answer) Sign(signature string) { a.sig = signature }

// Close completes the open block, if there is one.
func (a *Answer) Close() error {
	var p aycoder.Part
	switch {
	case a.thinking.Len() > 0 || a.sig != "":
		p = &aycoder.Thinking{Text: fitted(&a.thinking), Signature: a.sig, Provider: a.call.x.Config.Provider}
	case a.text.Len() > 0 || a.extra != nil:
		p = &aycoder.Text{Text: fitted(&a.text), Extra: a.extra}
	default:
		return nil
	}
	a.text, a.thinking, a.sig, a.extra = strings.Builder{}, strings.Builder{}, "", nil
	return a.call.Emit(&aycoder.BlockDone{Part: p})
}

// fitted returns the text of b without much spare capacity: it is kept for as long as the
// conversation, and a growing builder may have twice the capacity that it needs.
func fitted(b *strings.Builder) string {
	if b.Cap()-b.Len() > b.Len()/8 {
		return strings.Clone(b.String())
	}
	return b.String()
}

// Opaque adds a server-side block.
func (a *Answer) Opaque(raw json.RawMessage) error {
	if err := a.Close(); err != nil {
		return err
	}
	o := &aycoder.Opaque{Provider: a.call.x.Config.Provider, Raw: raw}
	return a.call.Emit(&aycoder.BlockDone{Part: o})
}

// Call adds a call that came whole. Arguments that are empty or null are {}.
func (a *Answer) Call(u *aycoder.ToolUse) error {
	if err := a.Close(); err != nil {
		return err
	}
	if u.Name == "" {
		return errors.New("call without a name")
	}
	a.calls++
	if len(u.Args) == 0 || string(u.Args) == "null" {
		u.Args = json.RawMessage(`{}`)
	}
	if err := a.call.Emit(&aycoder.ToolDelta{ID: u.ID, Name: u.Name, Args: string(u.Args)}); err != nil {
		return err
	}
	return a.call.Emit(&aycoder.BlockDone{Part: u})
}

// Cut adds a truncated call, with as much of its arguments as arrived.
func (a *Answer) Cut(u *aycoder.ToolUse) error {
	if err := a.Close(); err != nil {
		return err
	}
	if err := a.call.Emit(&aycoder.ToolDelta{ID: u.ID, Name: u.Name, Args: string(u.Args)}); err != nil {
		return err
	}
	return a.call.Emit(&aycoder.BlockTruncated{Call: u})
}

// Calls returns the number of complete calls.
func (a *Answer) Calls() int { return a.calls }

// End completes the last block and the message. If a message with calls has the stop
// reason of one without, it gets that for calls: services differ, so the presence of
// calls decides.
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

// maxSeed is the number of bytes of a seed that are used, because the seed is hashed for
// each call.
const maxSeed = 512

// MakeID generates the id of a call without one. The id is the same each time the same
// response is read, and differs between responses. Of a long seed, both ends and the
// length are used.
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

// Count limits a number of tokens from a service: it is not negative, and sums of such
// numbers cannot overflow.
func Count(n int64) int64 { return min(max(n, 0), maxCount) }
