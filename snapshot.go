package aycoder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/persist"
)

// stateJSON is the JSON form of a State. A stored state may be damaged, or come from
// another version of the program. So decoding checks that each field is in range and
// that the fields agree; otherwise Apply could index out of range or run a call twice.
type stateJSON struct {
	Effects  []toolEffect `json:"effects,omitempty"`
	MaxTurns int          `json:"max_turns"`
	MaxCalls int          `json:"max_calls"`
	History  []*Message   `json:"history"`
	Parts    *Message     `json:"parts,omitempty"`
	Calls    []callJSON   `json:"calls,omitempty"`
	Queue    []*Steered   `json:"queue,omitempty"`
	Phase    string       `json:"phase"`
	End      EndReason    `json:"end,omitempty"`
	Turn     int          `json:"turn"`
	Attempt  int          `json:"attempt,omitempty"`
	Model    string       `json:"model,omitempty"`
	Limit    int64        `json:"limit,omitempty"`
	Elide    int          `json:"elide,omitempty"`
	Seen     int          `json:"seen,omitempty"`
	Size     int64        `json:"size,omitempty"`
	Marked   int64        `json:"marked,omitempty"`

	Note   json.RawMessage `json:"note,omitempty"`
	Fresh  bool            `json:"fresh,omitempty"` // the history does not record the note
	Stop   StopReason      `json:"stop,omitempty"`
	Usage  Usage           `json:"usage"`
	Spent  []Spent         `json:"spent,omitempty"`
	Broken *ModelFailed    `json:"broken,omitempty"`
}

// statusNames are the statuses of calls in JSON, in their order.
var statusNames = [...]string{"held", "asked", "approved", "issued", "begun", "outside", "deferred", "suspended", "settled"}

// callJSON is the JSON form of a call. ID finds the call itself in the parts of the message,
// which are encoded without loss.
type callJSON struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt,omitempty"`
	Effect  Effect `json:"effect"`
	Status  string `json:"status"`
	Ran     bool   `json:"ran,omitempty"`
	Final   bool   `json:"final,omitempty"`
	// Edited is a string that holds JSON, since encoding/json would change the white
	// space of a json.RawMessage.
	Edited   string     `json:"edited,omitempty"`
	Plan     *edit.Plan `json:"plan,omitempty"`
	ReadOnly bool       `json:"read_only,omitempty"`
	By       DecidedBy  `json:"by,omitempty"`
	Outside  bool       `json:"outside,omitempty"`
	// Request is for the result of the call, if that comes from outside.
	Request *CallRequest `json:"request,omitempty"`
	// Output holds the output as the only part of a message, since messages encode without loss.
	Output *Message `json:"output,omitempty"`
}

// MarshalJSON encodes the state with its whole history. The zero State encodes as null.
func (s State) MarshalJSON() ([]byte, error) {
	if s.rules == nil {
		return []byte("null"), nil
	}
	w := stateJSON{
		Effects: s.rules.effects, MaxTurns: s.rules.maxTurns, MaxCalls: s.rules.maxCalls,
		History: s.history.Items, Queue: s.queue, Phase: phaseNames[s.phase], End: s.end, Turn: s.turn,
		Attempt: s.attempt, Stop: s.stop, Usage: s.usage, Spent: s.allSpent(), Broken: s.broken, Marked: s.marked,
		Note: s.note, Fresh: !s.noted, Model: s.rules.model, Limit: s.cut.limit, Elide: s.cut.from, Seen: s.cut.seen, Size: s.cut.size,
	}
	if len(s.parts.Items) > 0 {
		w.Parts = &Message{Role: RoleAssistant, Parts: s.parts.Items}
	}
	for i := range s.calls {
		c := &s.calls[i]
		cj := callJSON{
			ID: c.use.ID, Attempt: c.attempt, Effect: c.effect, Status: statusNames[c.status], Ran: c.ran, Final: c.final,
			Edited: string(c.edited), Plan: c.plan, ReadOnly: c.readOnly, By: c.by,
			Outside: c.outside, Request: c.request,
		}
		if c.output != nil {
			cj.Output = &Message{Role: RoleUser, Parts: []Part{c.output}}
		}
		w.Calls = append(w.Calls, cj)
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes the output of [State.MarshalJSON]. It refuses impossible states.
func (s *State) UnmarshalJSON(data []byte) error {
	var w *stateJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode state: %w", err)
	}
	if w == nil {
		*s = State{}
		return nil
	}
	next, err := w.state()
	if err != nil {
		return fmt.Errorf("decode state: %w", err)
	}
	s.machine = next
	return nil
}

func (w *stateJSON) state() (machine, error) {
	ids, err := checkHistory(w.History)
	if err != nil {
		return machine{}, err
	}
	if w.MaxTurns <= 0 || w.MaxCalls <= 0 || w.Turn < 0 || w.Attempt < 0 {
		return machine{}, errors.New("a count is out of range")
	}
	if w.Limit < 0 || w.Elide < 0 || w.Size < 0 || w.Seen < w.Elide || w.Seen > len(w.History) {
		return machine{}, errors.New("what is left out of the history is out of range")
	}
	at := slices.Index(phaseNames[1:], w.Phase) + 1
	if at == 0 {
		return machine{}, fmt.Errorf("no such phase: %q", w.Phase)
	}
	s := machine{
		rules:  &rules{w.Model, w.Effects, w.MaxTurns, w.MaxCalls},
		cut:    cut{limit: w.Limit, from: w.Elide, seen: w.Seen, size: w.Size},
		marked: w.Marked, note: w.Note, noted: !w.Fresh,
		history: newTranscript(w.History, ids), queue: w.Queue, phase: uint8(at), end: w.End,
		turn: w.Turn, attempt: w.Attempt, stop: w.Stop, usage: w.Usage, spent: w.Spent, broken: w.Broken,
	}
	if w.Parts != nil {
		s.parts = persist.New(w.Parts.Parts)
	}
	for _, q := range w.Queue {
		if q == nil || q.Message == nil || checkUser(q.Message) != nil {
			return machine{}, errors.New("a queued message is not the user's")
		}
	}
	if err := s.checkParts(); err != nil {
		return machine{}, err
	}
	if err := s.takeCalls(w.Calls); err != nil {
		return machine{}, err
	}
	return s, s.sane()
}

// checkParts checks the parts of the message in progress as [State.blockDone] does.
func (s *machine) checkParts() error {
	seen := map[string]bool{}
	for _, p := range s.parts.Items {
		switch p := p.(type) {
		case *ToolUse:
			if p.ID == "" || s.history.has(p.ID) || seen[p.ID] {
				return fmt.Errorf("call id %q is empty or used twice", p.ID)
			}
			seen[p.ID] = true
		case *Text, *Thinking, *Media, *Opaque:
		default:
			return fmt.Errorf("an assistant message holds no %T", p)
		}
	}
	return nil
}

// takeCalls matches each call to its part: both are in the same order.
func (s *machine) takeCalls(calls []callJSON) error {
	at := 0
	for i := range calls {
		cj := &calls[i]
		n := slices.IndexFunc(s.parts.Items[at:], func(p Part) bool {
			u, ok := p.(*ToolUse)
			return ok && u.ID == cj.ID
		})
		if n < 0 {
			return fmt.Errorf("call %q is not in the message", cj.ID)
		}
		status := slices.Index(statusNames[:], cj.Status)
		if status < 0 {
			return fmt.Errorf("no such status: %q", cj.Status)
		}
		c := call{
			use: s.parts.Items[at+n].(*ToolUse), attempt: cj.Attempt, effect: cj.Effect, status: callStatus(status),
			ran: cj.Ran, final: cj.Final, edited: raw(cj.Edited), plan: cj.Plan, readOnly: cj.ReadOnly, by: cj.By,
			outside: cj.Outside, request: cj.Request,
		}
		at += n + 1
		if cj.Output != nil && len(cj.Output.Parts) == 1 {
			c.output, _ = cj.Output.Parts[0].(*ToolOutput)
		}
		if (c.status == callSettled) != (c.output != nil && c.output.ID == cj.ID) {
			return fmt.Errorf("call %q is settled without its output, or has one too early", cj.ID)
		}
		s.calls = append(s.calls, c)
	}
	return nil
}

// sane returns an error if no sequence of facts leads to the state.
func (s *machine) sane() error {
	live := s.phase != phaseDone && s.end == ""
	ends := []EndReason{EndDone, EndTurns, EndRefused, EndFailed, EndCancelled, EndSuspended}
	if !live && !(s.phase == phaseDone && slices.Contains(ends, s.end)) {
		return fmt.Errorf("phase %q does not go with end %q", phaseNames[s.phase], s.end)
	}
	if s.phase == phaseTools && len(s.calls) == 0 {
		return errors.New("waits for no call")
	}
	if s.phase == phaseWait && s.broken == nil {
		return errors.New("waits for nothing")
	}
	open := len(s.parts.Items) > 0 || len(s.calls) > 0
	if open && s.phase != phaseModel && s.phase != phaseTools && s.end != EndSuspended {
		return fmt.Errorf("a message is on its way in phase %q", phaseNames[s.phase])
	}
	for _, c := range s.calls {
		switch c.status {
		case callHeld:
			if s.phase != phaseModel {
				return errors.New("a call is held after its message")
			}
		case callOutside, callDeferred:
			if !c.outside || s.phase == phaseModel || !requestedBy(c.request, &c) {
				return errors.New("a call waits for a result without its request")
			}
		}
	}
	return nil
}
