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

// An Answer puts the pieces of a message together for services that send text,
// thinking and whole calls one after the other. A block is complete when something
// else begins, or the message ends.
type Answer struct {
	// Done is the end of the message, filled as it becomes known.
	Done aycoder.MessageDone

	call     *Call
	text     strings.Builder
	thinking strings.Builder
	sig      string
	extra    *aycoder.Opaque
	calls    int
}

// NewAnswer returns an empty answer, which emits to the call.
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

// Extra is what the service wants back with the text that is open.
func (a *Answer) Extra(raw json.RawMessage) {
	a.extra = &aycoder.Opaque{Provider: a.call.x.Config.Provider, Raw: raw}
}

// Thinking adds to what the model thinks.
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

// Sign sets the signature of the thinking that is open, or of one without a text.
func (a *Answer) Sign(signature string) { a.sig = signature }

// Close completes the block that is open, if there is one.
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

// fitted is what was built, in little more room than it takes: it is kept for as long as
// the conversation, and what grows in pieces has up to twice the room.
func fitted(b *strings.Builder) string {
	if b.Cap()-b.Len() > b.Len()/8 {
		return strings.Clone(b.String())
	}
	return b.String()
}

// Opaque adds a block of the service's own.
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

// Cut adds a call that did not come to its end, with what came of its arguments.
func (a *Answer) Cut(u *aycoder.ToolUse) error {
	if err := a.Close(); err != nil {
		return err
	}
	if err := a.call.Emit(&aycoder.ToolDelta{ID: u.ID, Name: u.Name, Args: string(u.Args)}); err != nil {
		return err
	}
	return a.call.Emit(&aycoder.BlockCut{Call: u})
}

// Calls returns how many whole calls were added.
func (a *Answer) Calls() int { return a.calls }

// End completes the last block and the message. A message with calls that stopped as
// if it had none stopped for them: services differ, so the calls decide.
func (a *Answer) End() error {
	if err := a.Close(); err != nil {
		return err
	}
	if a.calls > 0 && cmp.Or(a.Done.Stop, aycoder.StopEndTurn) == aycoder.StopEndTurn {
		a.Done.Stop = aycoder.StopToolUse
	}
	done := a.Done // of its own, since it would hold all that came
	return a.call.Emit(&done)
}

// maxSeed is how much of a seed counts, in bytes: a long one is read for each call.
const maxSeed = 512

// MakeID makes up the id of a call whose service gave none: the same one each time
// the same response is read, and another for another response. Of a long seed both ends
// count, and how long it is.
func MakeID(seed string, n int) string {
	if len(seed) > maxSeed {
		seed = seed[:maxSeed/2] + strconv.Itoa(len(seed)) + seed[len(seed)-maxSeed/2:]
	}
	h := fnv.New64a()
	h.Write([]byte(seed)) // never returns an error
	return "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + strconv.Itoa(n)
}

// maxCount bounds what is believed of a count of tokens.
const maxCount = 1 << 40

// Count is what is believed of a count of tokens that a service gives: not less than 0,
// and not so many that sums of them overflow.
func Count(n int64) int64 { return min(max(n, 0), maxCount) }
