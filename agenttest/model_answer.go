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

// The shape of one answer. Programs show deltas while they come and keep blocks when they
// are complete, so the two must tell the same; and nothing may come after the end, because
// nobody looks any more.

// An answer is what came of one request.
type answer struct {
	events []aycoder.ModelEvent
	err    error
	label  string
	over   time.Duration // how long the sequence took after leave said so
}

// ask ranges over one answer with the checks of every answer. The function leave
// is called with the number of each event; it may cancel, and returns false to
// leave the loop.
func (s *modelSuite) ask(c Client, leave func(i int, cancel func()) bool) *answer {
	a := &answer{}
	req, before := request(), request()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel) // not before gone: leaving the loop must be enough
	a.label = labelled(ctx, func(ctx context.Context) {
		left, i, home := false, 0, goroutineID()
		var at time.Time
		body := func(ev aycoder.ModelEvent, err error) bool {
			if left {
				s.found.add(ruleModelAgain, "%T and error %v come after event %d ended the loop", ev, err,
					i-1)
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

// take checks an event against those before it: nothing comes after an error or after the
// end.
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

func stay(int, func()) bool { return true }

// changed names the field in which two requests differ.
func changed(a, b *aycoder.Request) string {
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		name := va.Type().Field(i).Name
		if name != "Messages" && !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
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

// gone checks that nothing works any more for an answer.
func (s *modelSuite) gone(c Client, a *answer, where string) {
	if c.Idle != nil {
		c.Idle()
	}
	if left := goneWithin(a.label, s.patience); left != "" {
		s.found.add(ruleModelGone, "%s: these goroutines remain:\n%s", where, left)
	}
}

// whole ranges over a whole answer that ends well.
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

// order checks that the end of the message comes exactly once.
func (s *modelSuite) order(a *answer) {
	done := 0
	for _, ev := range a.events {
		if _, ok := ev.(*aycoder.MessageDone); ok {
			done++
		}
	}
	if done != 1 {
		s.found.add(ruleModelOrder, "%d MessageDone, want one", done)
	}
}

// deltas checks that the deltas before each block join to it. A retry makes those
// before it void.
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
		s.found.add(ruleModelOrder, "no BlockDone follows the ThinkingDelta %s", shown(thinking.String()))
	}
	for id, got := range args {
		s.found.add(ruleModelOrder, "no BlockDone follows the ToolDelta %s of call %q", shown(got), id)
	}
}

// joined compares a complete block with the pieces of it that came before. A consumer that
// shows the pieces must have shown the block.
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
			s.found.add(ruleModelDeltas, "the deltas think %s, the block %s", shown(thinking.String()),
				shown(p.Text))
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

// text checks an answer that is a text.
func (s *modelSuite) text(c Client, want string) {
	s.whole(c)
	s.complete(c, want, aycoder.StopEndTurn)
}

// complete asks with [aycoder.Complete].
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

// thinking checks that thoughts are a part of the message, with the provider that can read
// their signature.
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

// call checks a call: its id and name as the provider sent them, its arguments as a value.
func (s *modelSuite) call(c Client, want *aycoder.ToolUse) {
	s.whole(c)
	calls := s.complete(c, "Let me see.", aycoder.StopToolUse).Message.Calls()
	if len(calls) != 1 || calls[0].ID != want.ID || calls[0].Name != want.Name || !sameJSON(calls[0].Args, want.Args) {
		s.found.add(ruleModelWhole, "calls %+v, want %+v", calls, *want)
	}
}

// sameJSON compares values, since a client may not keep the spelling of a provider that
// sends objects.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
