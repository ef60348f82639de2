package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
)

// This file checks the form of one answer. Programs show deltas as they arrive, and keep blocks
// when these are complete, so both must have the same content. Nothing may come after the end of
// an answer, because programs stop reading there.

// An answer holds the events of one request and the error that ended it.
type answer struct {
	events []aycoder.ModelEvent
	err    error
	label  string
	over   time.Duration // time from the last event until the sequence ended
}

// ask sends a request and checks the rules that hold for every answer. The function leave is
// called with the number of each event. It may call cancel, and returns false to leave the loop.
//
// The body is called directly, without a for statement. If a client calls the body again after
// the end, a for statement would panic, but here that becomes a finding.
func (s *modelSuite) ask(c Client, leave func(i int, cancel func()) bool) *answer {
	a := &answer{}
	req, before := request(), request()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel) // only after gone, since leaving the loop must be enough
	a.label = labelled(ctx, func(ctx context.Context) {
		left, i, home := false, 0, goroutineID()
		var at time.Time
		body := func(ev aycoder.ModelEvent, err error) bool {
			if left {
				s.found.add(ruleModelAgain, "%T and error %v come after event %d ended the loop",
					ev, err, i-1)
				return false
			}
			if goroutineID() != home {
				s.found.add(ruleModelAgain, "%T comes on another goroutine", ev)
			}
			s.take(a, ev, err)
			i++
			at = time.Now()
			left = !leave(i-1, cancel)
			return !left
		}
		c.Model.Stream(ctx, req)(body)
		left = true
		if !at.IsZero() {
			a.over = time.Since(at)
		}
	})
	if what := changed(before, req); what != "" {
		s.found.add(ruleModelReq, "%s differs after the request", what)
	}
	return a
}

// take checks an event against the events before it. Nothing may come after an error or after
// MessageDone: agents stop reading there, so the event would be lost.
func (s *modelSuite) take(a *answer, ev aycoder.ModelEvent, err error) {
	switch {
	case a.err != nil:
		s.found.add(ruleModelError, "%T comes after error %v", ev, a.err)
	case err != nil && ev != nil:
		s.found.add(ruleModelError, "error %v comes with %T", err, ev)
	case err == nil && ev == nil:
		s.found.add(ruleModelError, "event %d is nil and so is its error", len(a.events))
	}
	if n := len(a.events); n > 0 {
		if _, done := a.events[n-1].(*aycoder.MessageDone); done {
			s.found.add(ruleModelOrder, "%T and error %v come after MessageDone", ev, err)
		}
	}
	if err != nil {
		a.err = err
		return
	}
	if ev != nil {
		a.events = append(a.events, ev)
	}
}

// stay is a leave function for ask that reads the whole answer.
func stay(int, func()) bool { return true }

// changed returns the name of a field in which two requests differ, or "". Messages are compared
// one by one, so that the finding names the first that differs.
func changed(a, b *aycoder.Request) string {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		name := va.Type().Field(i).Name
		if name != "Messages" && !reflect.DeepEqual(va.Field(i).Interface(),
			vb.Field(i).Interface()) {
			return name
		}
	}
	if len(a.Messages) != len(b.Messages) {
		return "Messages"
	}
	for i := range a.Messages {
		x, errX := json.Marshal(a.Messages[i])
		y, errY := json.Marshal(b.Messages[i])
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			return fmt.Sprintf("Messages[%d]", i)
		}
	}
	return ""
}

// gone checks that no goroutine of an answer remains. Connections that the client keeps for the
// next request are closed first, because keeping them is not a fault.
func (s *modelSuite) gone(c Client, a *answer, where string) {
	if c.Idle != nil {
		c.Idle()
	}
	if left := goneWithin(a.label, s.patience); left != "" {
		s.found.add(ruleModelGone, "%s: these goroutines remain:\n%s", where, left)
	}
}

// whole reads an answer to its end and checks the rules for complete answers.
func (s *modelSuite) whole(c Client) *answer {
	a := s.ask(c, stay)
	if a.err != nil {
		s.found.add(ruleModelWhole, "error %v", a.err)
		return a
	}
	s.order(a)
	s.deltas(a)
	s.gone(c, a, "whole answer")
	return a
}

// order checks that there is exactly one MessageDone.
func (s *modelSuite) order(a *answer) {
	if n := a.completions(); n != 1 {
		s.found.add(ruleModelOrder, "%d MessageDone, want one", n)
	}
}

// completions counts the MessageDone events.
func (a *answer) completions() (n int) {
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			n++
		}
	}
	return n
}

// deltas checks that the deltas before each block add up to the block. A Retrying discards the
// deltas before it, because the answer starts again from the beginning.
func (s *modelSuite) deltas(a *answer) {
	var text, thinking strings.Builder
	args := map[string]string{}
	blocks := 0
	for _, ev := range a.events {
		switch ev := ev.(type) {
		case *aycoder.Retrying:
			if blocks > 0 {
				s.found.add(ruleModelOrder, "Retrying comes after a block was complete")
			}
			text.Reset()
			thinking.Reset()
			clear(args)
		case *aycoder.BlockTruncated:
			blocks++
			if ev.Call != nil {
				delete(args, ev.Call.ID)
			}
		case *aycoder.TextDelta:
			text.WriteString(ev.Text)
		case *aycoder.ThinkingDelta:
			thinking.WriteString(ev.Text)
		case *aycoder.ToolDelta:
			args[ev.ID] += ev.Args
		case *aycoder.BlockDone:
			blocks++
			s.joined(ev.Part, &text, &thinking, args)
		}
	}
	if text.Len() > 0 {
		s.found.add(ruleModelOrder, "no BlockDone follows the TextDelta %s", shown(text.String()))
	}
	if thinking.Len() > 0 {
		s.found.add(ruleModelOrder, "no BlockDone follows the ThinkingDelta %s",
			shown(thinking.String()))
	}
	for id, got := range args {
		s.found.add(ruleModelOrder, "no BlockDone follows the ToolDelta %s of call %q",
			shown(got), id)
	}
}

// joined compares a complete block with the deltas that came before it. A consumer that shows the
// deltas must have shown the same content as the block. A client may omit the deltas of a call,
// but not send different ones.
func (s *modelSuite) joined(p aycoder.Part, text, thinking *strings.Builder,
	args map[string]string) {
	switch p := p.(type) {
	case *aycoder.Text:
		if text.String() != p.Text {
			s.found.add(ruleModelDeltas, "the deltas say %s, the block %s", shown(text.String()),
				shown(p.Text))
		}
		text.Reset()
	case *aycoder.Thinking:
		if thinking.String() != p.Text {
			s.found.add(ruleModelDeltas, "the deltas think %s, the block %s",
				shown(thinking.String()), shown(p.Text))
		}
		thinking.Reset()
	case *aycoder.ToolUse:
		if got, ok := args[p.ID]; ok && got != "" && got != string(p.Args) {
			s.found.add(ruleModelDeltas, "the deltas of call %q are %s, its arguments %s", p.ID,
				shown(got), shown(string(p.Args)))
		}
		delete(args, p.ID)
		if !json.Valid(p.Args) {
			s.found.add(ruleModelOrder, "the arguments of call %q are not JSON: %s", p.ID,
				shown(string(p.Args)))
		}
	case nil:
		s.found.add(ruleModelOrder, "a BlockDone has no part")
	}
}

// text checks an answer that is one text.
func (s *modelSuite) text(c Client, want string) {
	s.whole(c)
	s.complete(c, want, aycoder.StopEndTurn)
}

// complete asks again with [aycoder.Complete], and checks the resulting text and stop reason.
func (s *modelSuite) complete(c Client, text string, stop aycoder.StopReason) *aycoder.Response {
	res, err := aycoder.Complete(s.t.Context(), c.Model, request())
	if err != nil || res.Text() != text || res.Stop != stop {
		s.found.add(ruleModelWhole, "text %s, stop %q, error %v, want %s and %q", shown(res.Text()),
			res.Stop, err, shown(text), stop)
	}
	if res.Usage.Input < 0 || res.Usage.Output < 0 {
		s.found.add(ruleModelWhole, "usage %+v", res.Usage)
	}
	return res
}

// thinking checks that the message contains the thinking block and names its provider, since only
// the same provider can read the signature of the block in later requests.
func (s *modelSuite) thinking(c Client, thinking, text string) {
	s.whole(c)
	res := s.complete(c, text, aycoder.StopEndTurn)
	for _, p := range res.Message.Parts {
		if th, ok := p.(*aycoder.Thinking); ok {
			if th.Text != thinking || th.Provider == "" {
				s.found.add(ruleModelWhole, "thinking %s of provider %q, want %s", shown(th.Text),
					th.Provider, shown(thinking))
			}
			return
		}
	}
	s.found.add(ruleModelWhole, "no thinking in the answer")
}

// call checks that a call has the id and the name that the provider sent, and arguments of the
// same value.
func (s *modelSuite) call(c Client, want *aycoder.ToolUse) {
	s.whole(c)
	calls := s.complete(c, "Let me see.", aycoder.StopToolUse).Message.Calls()
	if len(calls) != 1 || calls[0].ID != want.ID || calls[0].Name != want.Name ||
		!sameJSON(calls[0].Args, want.Args) {
		s.found.add(ruleModelWhole, "calls %+v, want %+v", calls, *want)
	}
}

// sameJSON reports whether two JSON texts have the same value. Some providers send arguments as
// an object and not as text, so a client cannot always keep the original spelling.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
