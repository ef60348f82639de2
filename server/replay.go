package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/session"
)

// A replay makes the events of a run again from the facts in the journal, one turn at a time. Texts come in one piece,
// and the journal holds no progress, no events of runs inside calls, no notices, and of the end of a call only the output.
type replay struct {
	output func(call string) *aycoder.ToolOutput // the newest one in the conversation, or nil
	turn   int                                   // turns that are over

	events []aycoder.Event // of the present turn
	calls  []*replayedCall
	done   *aycoder.MessageDone
	usage  aycoder.Usage
	last   *aycoder.MessageDone
	end    aycoder.EndReason
	text   string
}

type replayedCall struct {
	use   *aycoder.ToolUse
	args  []byte
	by    aycoder.DecidedBy
	began bool
	over  bool // it waits for nothing
	told  bool // how it ended
}

// take applies a fact. It returns the events of the turn that ends with it.
func (p *replay) take(f aycoder.Fact) []aycoder.Event {
	var before []aycoder.Event
	switch f.(type) {
	case *aycoder.BlockDone, *aycoder.BlockTruncated, *aycoder.ModelFailed, *aycoder.Compacted, *aycoder.SetupChanged:
		before = p.finish() // the turn before is over, however its calls ended
	}
	switch f := f.(type) {
	case *aycoder.BlockDone:
		p.block(f.Part)
	case *aycoder.BlockTruncated:
		p.calls = append(p.calls, &replayedCall{use: f.Call, args: f.Call.Args, over: true})
	case *aycoder.MessageDone:
		p.done = f
	case *aycoder.ModelFailed:
		switch {
		case !f.Retry:
			p.end = aycoder.EndFailed
		case !p.began():
			p.events, p.calls = nil, nil
		}
	case *aycoder.Decided:
		p.decided(&f.Decision)
	case *aycoder.ToolBegan:
		if c := p.call(f.ID); c != nil && !c.began {
			c.began = true
			p.events = append(p.events, &aycoder.ToolStarted{Call: c.use, Args: c.args, By: c.by})
		}
	case *aycoder.CallRequested:
		p.events = append(p.events, f)
	case *aycoder.ToolDone:
		p.toolDone(f)
	case *aycoder.Compacted:
		p.usage = p.usage.Add(f.Usage)
		p.events = append(p.events, f)
	case *aycoder.SetupChanged:
		p.events = append(p.events, f)
	case *aycoder.Cancelled:
		p.end = aycoder.EndCancelled
	}
	if p.done == nil || slices.ContainsFunc(p.calls, func(c *replayedCall) bool { return !c.over }) {
		return before
	}
	return append(before, p.finish()...)
}

func (p *replay) block(part aycoder.Part) {
	switch part := part.(type) {
	case *aycoder.Text:
		p.events = append(p.events, &aycoder.TextDelta{Text: part.Text})
	case *aycoder.Thinking:
		p.events = append(p.events, &aycoder.ThinkingDelta{Text: part.Text})
	case *aycoder.ToolUse:
		p.calls = append(p.calls, &replayedCall{use: part, args: part.Args})
	}
}

func (p *replay) decided(d *aycoder.Decision) {
	c := p.call(d.CallID)
	if c == nil {
		return
	}
	var v struct {
		Kind string
		Args json.RawMessage
	}
	if data, err := d.Verdict.MarshalJSON(); err != nil || json.Unmarshal(data, &v) != nil {
		return
	}
	if c.by = d.By; v.Args != nil {
		c.args = v.Args
	}
	c.over = v.Kind == "deny"
}

func (p *replay) toolDone(f *aycoder.ToolDone) {
	for _, s := range f.Spent {
		p.usage = p.usage.Add(s.Usage)
	}
	c := p.call(f.ID)
	if c == nil || f.Output == nil || c.over {
		return
	}
	c.over, c.told = true, true
	p.events = append(p.events, &aycoder.ToolFinished{Call: c.use, Output: f.Output})
}

func (p *replay) began() bool {
	return slices.ContainsFunc(p.calls, func(c *replayedCall) bool { return c.began })
}

func (p *replay) call(id string) *replayedCall {
	i := slices.IndexFunc(p.calls, func(c *replayedCall) bool { return c.use.ID == id })
	if i < 0 {
		return nil
	}
	return p.calls[i]
}

// finish ends the present turn if its message is complete, and returns its events.
func (p *replay) finish() []aycoder.Event {
	if p.done == nil {
		return nil
	}
	p.turn++
	d := p.done
	p.usage = p.usage.Add(d.Usage)
	out := append(p.events, p.outputs()...)
	out = append(out, &aycoder.TurnFinished{Turn: p.turn, Stop: d.Stop, Usage: d.Usage, Cost: d.Cost,
		Provider: d.Provider, Model: d.Model, ID: d.ID, RequestID: d.RequestID})
	p.text, _ = textOf(p.events)
	p.last, p.events, p.calls, p.done = d, nil, nil, nil
	return out
}

// textOf returns the texts of events, and the thoughts.
func textOf(events []aycoder.Event) (text, think string) {
	var all [2]strings.Builder
	for _, ev := range events {
		if text, thinks, ok := textIn(ev); thinks {
			all[1].WriteString(text)
		} else if ok {
			all[0].WriteString(text)
		}
	}
	return all[0].String(), all[1].String()
}

// outputs returns the ends of the calls that did not run: their outputs are in the conversation.
func (p *replay) outputs() (out []aycoder.Event) {
	for _, c := range p.calls {
		if c.told {
			continue
		}
		if o := p.output(c.use.ID); o != nil {
			out = append(out, &aycoder.ToolFinished{Call: c.use, Output: o})
		}
	}
	return out
}

// outputIn returns the newest output of a call of a run in the conversation, or nil.
func outputIn(v *session.View, run, call string) (found *aycoder.ToolOutput) {
	for n := range allNodes(v) {
		if n.Run != run || n.Message() == nil {
			continue
		}
		for _, part := range n.Message().Parts {
			if o, ok := part.(*aycoder.ToolOutput); ok && o.ID == call {
				found = o
			}
		}
	}
	return found
}

// result returns how a run ended that does not work and does not wait.
func (p *replay) result() *aycoder.Result {
	res := &aycoder.Result{End: p.end, Turns: p.turn, Usage: p.usage}
	if p.last != nil {
		res.Stop, res.Messages = p.last.Stop, []*aycoder.Message{aycoder.Assistant(p.text)}
	}
	switch {
	case res.End != "":
	case res.Stop == aycoder.StopRefusal:
		res.End = aycoder.EndRefused
	case res.Stop == aycoder.StopToolUse:
		res.End = aycoder.EndTurns
	default:
		res.End = aycoder.EndDone
	}
	return res
}

// missed returns those of the events of a turn that somebody with a position has not seen. If the position is not one in
// this turn, for example because the model was asked again, all of them follow an event that discards what was seen.
func missed(turn int, events []aycoder.Event, seen position) []aycoder.Event {
	switch {
	case seen.turn > turn:
		return nil
	case seen.turn < turn || seen.fresh():
		return events
	}
	text, think := textOf(events)
	if !begins(text, seen.text, seen.hash[0]) || !begins(think, seen.think, seen.hash[1]) {
		again := &aycoder.Retrying{Discarded: true, Attempt: 1, Err: errAgain}
		return append([]aycoder.Event{again}, events...)
	}
	var out []aycoder.Event
	for _, ev := range events {
		if ev = unseen(ev, &seen); ev != nil {
			out = append(out, ev)
		}
	}
	return out
}

var errAgain = errors.New("the model was asked again")

func begins(text string, n int, hash uint32) bool {
	return n == 0 || n <= len(text) && hashMore(0, text[:n]) == hash
}

// unseen returns an event, or the rest of it, or nil. It takes what was seen off the position.
func unseen(ev aycoder.Event, seen *position) aycoder.Event {
	if text, thinks, ok := textIn(ev); ok {
		n := &seen.text
		if thinks {
			n = &seen.think
		}
		cut := min(len(text), *n)
		*n -= cut
		return textEvent(text[cut:], thinks)
	}
	switch x := ev.(type) {
	case *aycoder.ToolStarted:
		if slices.Contains(seen.calls, mark("s", x.Call.ID)) {
			return nil
		}
	case *aycoder.ToolFinished:
		if slices.Contains(seen.calls, mark("f", x.Call.ID)) {
			return nil
		}
	case *aycoder.Compacted, *aycoder.SetupChanged, *aycoder.CallRequested:
		if seen.other > 0 {
			seen.other--
			return nil
		}
	}
	return ev
}

// replayed yields what somebody with a position misses of a run, up to a number of whole turns, or to the end. It returns
// the replay as it is then.
func (c *conversation) replayed(ctx context.Context, run string, seen position, turns int, yield func(aycoder.Event) error) (*replay, error) {
	view := c.rt.Session.View()
	p := &replay{output: func(call string) *aycoder.ToolOutput { return outputIn(view, run, call) }}
	send := func(turn int, events []aycoder.Event) error {
		if len(events) == 0 {
			return nil
		}
		for _, ev := range missed(turn, events, seen) {
			if err := yield(ev); err != nil {
				return err
			}
		}
		return nil
	}
	for rec, err := range session.Facts(ctx, c.store, c.id, run) {
		turn := p.turn
		if err == nil {
			err = send(turn, p.take(rec.Fact))
		}
		if err != nil {
			return nil, err
		}
		if p.turn >= turns {
			return p, nil
		}
	}
	return p, send(p.turn, p.events)
}
