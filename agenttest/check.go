package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/edit"
	"github.com/aycoder/aycoder/internal/part"
)

// This file checks the rules that hold for every run. A scenario says what should happen, but most
// faults are things that must never happen: an output without a call, a result that no tool has
// returned, an event of a call that has ended. So every run of every scenario is checked for these,
// whichever way the loop ends.

// check checks the rules that hold for every run, however the run ended.
func (tr *trace) check(in aycoder.Input) {
	tr.checkEnd()
	checkHistory(tr.found, tr.String(), tr.res.Messages)
	if len(tr.res.Messages) < len(in.Messages) || tr.res.End == "" {
		tr.found.add(ruleInto, "%s: %d messages, end %q", tr, len(tr.res.Messages), tr.res.End)
		return
	}
	tr.checkCalls(tr.res.Messages[len(in.Messages):])
	tr.checkEvents()
}

// checkEnd checks how the run ended. A panic of the loop body must come through to the host, and
// a cancelled run must say that it was cancelled. Any other run ends with RunFinished or an
// error.
func (tr *trace) checkEnd() {
	// A bug in the host must stay visible: an agent that recovers the panic would hide it.
	switch p := tr.panicked; {
	case p == nil && tr.left && tr.way.name == "panic":
		tr.found.add(rulePanic, "%s: the panic is swallowed", tr)
	case p != nil && !(tr.left && p == error(errBody)):
		tr.found.add(rulePanic, "%s: panic: %v", tr, p)
	}
	if tr.cancelled && !tr.left && tr.res.End == aycoder.EndCancelled && !errors.Is(tr.err,
		context.Canceled) {
		tr.found.add(ruleCancel, "%s: error %v", tr, tr.err)
	}
	// A run may still end normally if it was cancelled at its very last event.
	if tr.cancelled && tr.err == nil && tr.res.End != aycoder.EndDone {
		tr.found.add(ruleCancel, "%s: end %q and no error", tr, tr.res.End)
	}
	if !tr.left && tr.panicked == nil && tr.err == nil && !tr.finished() {
		tr.found.add(ruleEvents, "%s: neither *RunFinished nor an error is last", tr)
	}
}

// finished reports whether the last event is RunFinished with a result.
func (tr *trace) finished() bool {
	if len(tr.events) == 0 {
		return false
	}
	f, ok := tr.events[len(tr.events)-1].(*aycoder.RunFinished)
	return ok && f.Result != nil
}

// checkHistory checks that a history passes [aycoder.CheckHistory], that the outputs are in the
// order of their calls, and that a host can store all of the text.
func checkHistory(found *findings, where string, messages []*aycoder.Message) {
	if err := aycoder.CheckHistory(messages); err != nil {
		found.add(ruleHistory, "%s: %v", where, err)
		return
	}
	for i, m := range messages {
		// If the last message has calls, the index stays at that message, which has no outputs.
		if calls := m.Calls(); len(calls) > 0 {
			checkOutputs(found, where, calls, messages[min(i+1, len(messages)-1)])
		}
		checkText(found, where, m)
	}
}

// checkOutputs checks that each output answers the call at the same position. Providers refuse a
// history in which a call has no output.
func checkOutputs(found *findings, where string, calls []*aycoder.ToolUse, m *aycoder.Message) {
	outputs := part.Outputs(m)
	if len(calls) != len(outputs) {
		found.add(ruleOutput, "%s: %d calls, %d outputs", where, len(calls), len(outputs))
		return
	}
	for i, c := range calls {
		if o := outputs[i]; o.ID != c.ID || o.Name != c.Name {
			found.add(ruleOutput, "%s: output %d is of %q (%s), the call is %q (%s)", where,
				i, o.ID, o.Name, c.ID, c.Name)
		}
	}
}

// maxStored is the size of the largest message that checkText stores. A larger one takes seconds,
// and shows nothing that a smaller one does not show.
const maxStored = 4 << 20

// checkText checks that a message can be stored as JSON, and is the same when it is read back.
func checkText(found *findings, where string, m *aycoder.Message) {
	size := 0
	for _, s := range texts(m.Parts) {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			found.add(ruleClean, "%s: the history of role %s holds %s", where, m.Role, shown(s))
			return
		}
		size += len(s)
	}
	if size > maxStored {
		return
	}
	data, err := json.Marshal(m)
	if err != nil {
		found.add(ruleClean, "%s: %v", where, err)
		return
	}
	// The runs of a scenario share most of their messages.
	if !found.first(data) {
		return
	}
	var back aycoder.Message
	if err := json.Unmarshal(data, &back); err != nil {
		found.add(ruleClean, "%s: %v", where, err)
		return
	}
	if again, err := json.Marshal(&back); err != nil || !bytes.Equal(data, again) {
		found.add(ruleClean, "%s: a message of role %s is not the same when it was stored: %v", where,
			m.Role, err)
	}
}

// texts returns all strings in the parts that end up in the stored form.
func texts(parts []aycoder.Part) []string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case *aycoder.Text:
			out = append(out, p.Text)
		case *aycoder.Thinking:
			out = append(out, p.Text, p.Signature)
		case *aycoder.ToolUse:
			out = append(out, p.ID, p.Name, string(p.Args))
		case *aycoder.ToolOutput:
			out = append(append(out, p.ID, p.Name), texts(p.Parts)...)
		case *aycoder.Media:
			out = append(out, p.Type, p.Name, p.URL)
		case *aycoder.Opaque:
			out = append(out, p.Provider, string(p.Raw))
		}
	}
	return out
}

// A pair is a call in the history with its output. The output is nil if the call has none.
type pair struct {
	use *aycoder.ToolUse
	out *aycoder.ToolOutput
}

// pairs returns the calls of a history with their outputs, which are in the following message.
func pairs(messages []*aycoder.Message) []pair {
	var out []pair
	for i, m := range messages {
		var outputs []*aycoder.ToolOutput
		if i+1 < len(messages) {
			outputs = part.Outputs(messages[i+1])
		}
		for j, c := range m.Calls() {
			p := pair{use: c}
			if j < len(outputs) {
				p.out = outputs[j]
			}
			out = append(out, p)
		}
	}
	return out
}

// checkCalls compares the messages that a run added to the history with the log of the tools. The
// model only knows the history: an output that no tool returned would mislead it, and a missing
// output would make it call the tool again.
func (tr *trace) checkCalls(added []*aycoder.Message) {
	if tr.res.End == aycoder.EndSuspended {
		return // the history does not have the message yet
	}
	byID := map[string]pair{}
	for _, p := range pairs(added) {
		byID[p.use.ID] = p
	}
	for _, c := range tr.world.log() {
		p, ok := byID[c.id]
		if !ok {
			tr.found.add(ruleOutput, "%s: call %d ran, and its id %q is not in the history", tr,
				c.n, c.id)
			continue
		}
		if args := string(p.use.Args); args != c.args {
			tr.found.add(ruleArgs, "%s: call %q ran with %s, the history has %s", tr, c.id,
				shown(c.args), shown(args))
		}
		if p.out != nil {
			tr.checkOutput(c, p.out)
		}
		// The calls that remain in byID did not run.
		delete(byID, c.id)
	}
	for _, p := range byID {
		if p.out != nil && !p.out.IsError {
			tr.found.add(ruleOutput, "%s: call %q did not run, and its output is not an error: %s", tr,
				p.use.ID, shown(p.out.Text()))
		}
	}
}

// checkOutput checks that the result of a call that returned is in the history. The results of
// "dirty" and "huge" may differ, since the agent has to clean or shorten them.
func (tr *trace) checkOutput(c *callLog, out *aycoder.ToolOutput) {
	ok := c.returned && c.err == nil
	if ok == out.IsError {
		tr.found.add(ruleOutput, "%s: call %d (%s): returned %t with error %v, its output is %s", tr,
			c.n, c.tool, c.returned, c.err, shown(out.Text()))
		return
	}
	if ok && c.text != out.Text() && c.tool != "dirty" && c.tool != "huge" {
		tr.found.add(ruleOutput, "%s: call %d gave %s, its output is %s", tr, c.n, shown(c.text),
			shown(out.Text()))
	}
}

// checkEvents checks that the events of calls and turns come in a possible order, and that they
// agree with the history.
func (tr *trace) checkEvents() {
	started, done := map[string]bool{}, map[string]*aycoder.ToolFinished{}
	turns := 0
	// Which events come between start and end of a call differs from agent to agent; only their
	// order and number are fixed.
	for i, ev := range tr.events {
		switch ev := ev.(type) {
		case *aycoder.ToolStarted:
			if started[ev.Call.ID] || done[ev.Call.ID] != nil {
				tr.found.add(ruleEvents, "%s: event %d: call %q starts again", tr, i, ev.Call.ID)
			}
			started[ev.Call.ID] = true
		case *aycoder.ToolProgress:
			if !started[ev.CallID] || done[ev.CallID] != nil {
				tr.found.add(ruleEvents, "%s: event %d: progress of call %q, which does not run", tr, i,
					ev.CallID)
			}
		case *aycoder.ChildEvent:
			if !started[ev.CallID] || done[ev.CallID] != nil {
				tr.found.add(ruleEvents, "%s: event %d: a run in call %q, which does not run", tr, i,
					ev.CallID)
			}
		case *aycoder.ToolFinished:
			if done[ev.Call.ID] != nil {
				tr.found.add(ruleEvents, "%s: event %d: call %q ends again", tr, i, ev.Call.ID)
			}
			done[ev.Call.ID] = ev
		case *aycoder.Merged:
			tr.checkChange(i, ev.Call, ev.File, done)
		case *aycoder.Conflicted:
			tr.checkChange(i, ev.Call, ev.File, done)
		case *aycoder.TurnFinished:
			if turns++; ev.Turn != turns {
				tr.found.add(ruleEvents, "%s: event %d: turn %d, want %d", tr, i, ev.Turn, turns)
			}
		case *aycoder.RunFinished:
			if i != len(tr.events)-1 {
				tr.found.add(ruleEvents, "%s: event %d of %d is *RunFinished", tr, i,
					len(tr.events))
			}
		}
		// Hosts write events to logs and sockets as JSON.
		if _, err := json.Marshal(ev); err != nil {
			tr.found.add(ruleEvents, "%s: event %d does not encode: %v", tr, i, err)
		}
	}
	tr.checkFinished(started, done)
	if !tr.left && turns != tr.res.Turns {
		tr.found.add(ruleEvents, "%s: %d turns ended, the result has %d", tr, turns, tr.res.Turns)
	}
}

// checkChange checks that an event about a file comes before the end of the call that changed the
// file, since a host may close its view of a call as soon as the call ends.
func (tr *trace) checkChange(i int, call *aycoder.ToolUse, file *edit.FileResult,
	done map[string]*aycoder.ToolFinished) {
	if call == nil || file == nil {
		tr.found.add(ruleEvents, "%s: event %d: %T is of no call or of no file", tr, i,
			tr.events[i])
		return
	}
	if done[call.ID] != nil {
		tr.found.add(ruleEvents, "%s: event %d: %T after the end of call %q", tr, i, tr.events[i],
			call.ID)
	}
}

// checkFinished checks that the events and the history contain the same outputs. A host that only
// reads the events must not come to a different conclusion than the model.
func (tr *trace) checkFinished(started map[string]bool, done map[string]*aycoder.ToolFinished) {
	for _, p := range pairs(tr.res.Messages) {
		fin := done[p.use.ID]
		if fin != nil && p.out != nil && (fin.Output.Text() != p.out.Text() ||
			fin.Output.IsError != p.out.IsError) {
			tr.found.add(ruleEvents, "%s: call %q ended with %s, the history has %s", tr, p.use.ID,
				shown(fin.Output.Text()), shown(p.out.Text()))
		}
	}
	if tr.left {
		return
	}
	for _, c := range tr.world.log() {
		if !started[c.id] || done[c.id] == nil {
			tr.found.add(ruleEvents, "%s: call %d ran: start seen %t, end seen %t", tr, c.n,
				started[c.id], done[c.id] != nil)
		}
	}
}

// said returns the text of all deltas.
func (tr *trace) said() string {
	var b strings.Builder
	for _, ev := range tr.events {
		if d, ok := ev.(*aycoder.TextDelta); ok {
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

// text returns the text of all messages of the model in a history.
func text(messages []*aycoder.Message) string {
	var b strings.Builder
	for _, m := range messages {
		if m.Role == aycoder.RoleAssistant {
			b.WriteString(m.Text())
		}
	}
	return b.String()
}

// retried reports whether the model was asked again after a failure.
func (tr *trace) retried() bool {
	return slices.ContainsFunc(tr.events, func(ev aycoder.Event) bool {
		_, ok := ev.(*aycoder.Retrying)
		return ok
	})
}
