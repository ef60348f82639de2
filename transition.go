package aycoder

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder/internal/persist"
)

// This file has the transitions of a [State], one function for each [Fact]. A function
// returns the actions that the fact makes possible, or the reason why the fact does not
// fit. It works on a copy, which Apply drops if there is a reason. Those from an answer to the
// start of a tool are beside the answers, in approval.go.
//
// A message in progress is kept apart from the history, in parts and calls, until every call is
// settled. Only commit adds it, together with the outputs. So the history is valid whenever the
// run is left, and a message can be discarded as a whole as long as none of its tools has begun.

// The texts that the model reads in place of a call's output. They say whether the call
// had an effect, because the model decides by them whether to make it again.
const (
	outCut        = "not run: the response was cut off in the middle of this call"
	outRefused    = "not run: the response ended in a refusal"
	outBroken     = "not run: the response broke off before it was complete; make the call again if it is still needed"
	outTooMany    = "not run: too many calls in one message; make it again in a later message"
	outCancelled  = "not run: the run was cancelled"
	outUnrecorded = "not run: the start of this call could not be recorded"
	outStopped    = "stopped: the run was cancelled while this call worked"
	outUnanswered = "stopped: the run was cancelled before the result of this call came"
	outNobody     = "no result: nobody has given the result of this call, and a run inside another call cannot wait for it"
	outUnknown    = "; its outcome is unknown"
	outLost       = "interrupted: the program ended while this call worked; its outcome is unknown, check before doing it again"
)

// stopped is what the model reads of a call that was stopped at work. A call that only
// reads leaves nothing behind that could be unknown.
func stopped(text string, e Effect) string {
	if e == EffectReadOnly {
		return text
	}
	return text + outUnknown
}

//go:noinline
func (s *machine) callModel() *CallModel {
	return &CallModel{Turn: s.turn + 1, Attempt: s.attempt, Elide: s.cut.from, Limit: s.cut.limit}
}

// callDone records a complete call. One that may write is held until the message is
// complete: the rest of the message may fail or be a refusal, and an effect cannot be
// taken back. A call above the limit only gets an output, see [State.outputs].
func (s *machine) callDone(use *ToolUse) ([]Action, string) {
	if s.full() {
		return nil, ""
	}
	use = s.named(use)
	s.parts = s.parts.Append(use)
	if len(s.calls) >= s.rules.maxCalls {
		return nil, ""
	}
	effect, _ := s.rules.find(use.Name)
	c := call{use: use, attempt: s.attempt, effect: effect, status: callHeld}
	writes := slices.ContainsFunc(s.calls, func(c call) bool { return c.effect != EffectReadOnly })
	eager := c.effect == EffectReadOnly && !writes
	if eager {
		c.status = callAsked
	}
	s.calls = append(slices.Clip(s.calls), c)
	if !eager {
		return nil, ""
	}
	return []Action{s.ask(len(s.calls) - 1)}, ""
}

// blockCut records a call that was cut off. It stays in the message, so that the model
// sees what it did not finish, but it is settled and never runs.
func (s *machine) blockCut(use *ToolUse) ([]Action, string) {
	if !s.talking() {
		return nil, "the model is not talking"
	}
	if use == nil {
		return nil, "no call"
	}
	if s.full() {
		return nil, ""
	}
	use = s.named(use)
	s.parts = s.parts.Append(use)
	if len(s.calls) < s.rules.maxCalls {
		c := call{use: use, attempt: s.attempt, status: callSettled, output: errorOutput(use, outCut)}
		s.calls = append(slices.Clip(s.calls), c)
	}
	return nil, ""
}

// full reports whether further calls are left out of the message. The calls of a message and their outputs
// are sent until the model has answered, and those of a model that repeats itself would not fit.
func (s *machine) full() bool {
	if len(s.calls) < s.rules.maxCalls {
		return false
	}
	n := 0
	for _, p := range s.parts.Items {
		if isCall(p) {
			n++
		}
	}
	return n >= 2*s.rules.maxCalls
}

// named gives a call a unique id if the model gave none, or one that the conversation
// already has: outputs are matched to calls by id. The id follows from the place of the call, so that
// a run that is resumed gives the same. If a model has made it up, another one follows soon.
func (s *machine) named(use *ToolUse) *ToolUse {
	id := use.ID
	for n := uint64(len(s.parts.Items) + 1); id == "" || s.history.has(id) || hasCall(s.parts.Items, id); n *= 3 {
		id = "call_" + strconv.Itoa(len(s.history.Items)) + "_" + strconv.FormatUint(n, 10)
	}
	if id == use.ID {
		return use
	}
	return &ToolUse{ID: id, Name: use.Name, Args: use.Args, Extra: use.Extra}
}

// messageDone ends the message, and asks about the calls that were held. After a
// refusal, calls that have not begun do not run.
func (s *machine) messageDone(f *MessageDone) ([]Action, string) {
	if !s.talking() {
		return nil, "the model is not talking"
	}
	s.phase, s.stop, s.attempt = phaseTools, f.Stop, 0
	s.usage = s.usage.Add(f.Usage)
	s.answered(f.Provider, f.Model, f.Usage, f.Cost)
	s.own()
	var actions []Action
	for i := range s.calls {
		c := &s.calls[i]
		if f.Stop == StopRefusal {
			c.give(outRefused)
		} else if c.status == callHeld {
			c.status = callAsked
			actions = append(actions, s.ask(i))
		}
	}
	return s.advance(actions)
}

// give settles a call that has not begun with an error output.
func (c *call) give(text string) {
	if c.status != callBegun && c.status != callSettled {
		c.settle(errorOutput(c.use, text))
	}
}

func (c *call) settle(o *ToolOutput) {
	c.status, c.output, c.plan, c.prepared = callSettled, o, nil, nil
}

//go:noinline
func errorOutput(use *ToolUse, text string) *ToolOutput {
	return &ToolOutput{ID: use.ID, Name: use.Name, Parts: []Part{&Text{Text: text}}, IsError: true}
}

// modelFailed discards the message if no tool has begun and nothing of it is to be kept. Otherwise the
// complete blocks are kept with their results, and the run continues from there, so that no tool runs twice.
func (s *machine) modelFailed(f *ModelFailed) ([]Action, string) {
	if !s.talking() {
		return nil, "the model is not talking"
	}
	s.attempt++
	if f.Began {
		s.brokeOff()
	}
	if f.Shrink {
		f = s.shrink(f)
	}
	s.broken, s.stop = f, ""
	if (!f.Keep || onlyThinking(s.parts.Items)) && !slices.ContainsFunc(s.calls, func(c call) bool { return c.ran }) {
		s.parts, s.calls = persist.List[Part]{}, nil
		return s.again(nil)
	}
	s.own()
	for i := range s.calls {
		s.calls[i].give(outBroken)
	}
	s.phase = phaseTools
	return s.advance(nil)
}

// shrink leaves out more of the conversation. If that is impossible, the model is not asked again.
func (s *machine) shrink(f *ModelFailed) *ModelFailed {
	next, ok := s.cut.shrunk(s.history.Items, f.Limit)
	if !ok {
		failed := *f
		failed.Retry = false
		return &failed
	}
	s.cut = next
	return f
}

// again asks the model again after a failure, at once or later, or gives up.
func (s *machine) again(actions []Action) ([]Action, string) {
	switch {
	case !s.broken.Retry:
		return s.over(EndFailed, actions)
	case s.turn >= s.rules.maxTurns:
		return s.over(EndTurns, actions)
	case s.broken.After > 0:
		s.phase = phaseWait
		return append(actions, &Wait{Turn: s.turn + 1, Attempt: s.attempt, For: s.broken.After}), ""
	}
	s.phase, s.broken = phaseModel, nil
	return append(actions, s.callModel()), ""
}

func (s *machine) waited() ([]Action, string) {
	if s.phase != phaseWait {
		return nil, "nothing waits"
	}
	s.phase, s.broken = phaseModel, nil
	return []Action{s.callModel()}, ""
}

func (s *machine) toolDone(f *ToolDone) ([]Action, string) {
	i := s.find(f.ID)
	if i >= 0 {
		switch s.calls[i].status {
		case callSettled:
			return nil, "the call has its output"
		case callHeld, callSuspended:
			return nil, "the call is not to be run"
		case callDeferred:
			revive(s)
		}
		if f.Output == nil || f.Output.ID != f.ID || checkOutput(f.Output) != nil {
			return nil, "the output is not of this call"
		}
		s.own()
		s.calls[i].settle(f.Output)
		s.calls[i].final = f.Final && !f.Output.IsError
	} else if f.ID != "" || f.Output != nil || len(f.Spent) == 0 || s.phase == phaseDone && s.end != EndDone {
		return nil, "no such call: " + f.ID
	}
	if len(f.Spent) > 0 {
		s.spent, s.lastSpent = s.allSpent(), Spent{} // in the order of their JSON form
	}
	for i := range f.Spent {
		s.usage = s.usage.Add(f.Spent[i].Usage)
		s.spent = spend(s.spent, &f.Spent[i])
	}
	if i < 0 {
		return nil, ""
	}
	return s.advance(nil)
}

// steered accepts a message at any time: it joins the history at once if the model has not answered
// anything yet, and otherwise at the next boundary. A run that is done continues with it.
func (s *machine) steered(f *Steered) ([]Action, string) {
	if f.Message == nil || checkUser(f.Message) != nil {
		return nil, "not a message of a user"
	}
	switch {
	case s.phase == phaseDone && s.end != EndDone:
		return nil, "the run is over"
	case s.phase == phaseDone:
		s.end = ""
		s.queue = []*Steered{f}
		return s.finish(nil)
	}
	if s.phase == phaseModel && len(s.parts.Items) == 0 && !f.FollowUp {
		s.history = s.history.append(f.Message)
		return nil, ""
	}
	s.queue = append(slices.Clip(s.queue), f)
	return nil, ""
}

// compacted takes the note of a builder, which the model's next message will carry, or only the
// tokens of a summary that came to nothing.
func (s *machine) compacted(f *Compacted) ([]Action, string) {
	switch {
	case s.phase != phaseModel || len(s.parts.Items) > 0:
		return nil, "the model is not about to be asked"
	case f.Note != nil && (len(f.Note) > maxNote || !json.Valid(f.Note)):
		return nil, "the note is too long, or no JSON"
	}
	if f.Usage != (Usage{}) || f.Model != "" {
		s.usage = s.usage.Add(f.Usage)
		s.answered(f.Provider, f.Model, f.Usage, f.Cost)
	}
	if f.Note != nil {
		s.note, s.noted = f.Note, false
	}
	return nil, ""
}

// cancelled settles every open call and commits the message, so that the history is valid.
func (s *machine) cancelled(f *Cancelled) ([]Action, string) {
	if s.phase == phaseDone && s.end != EndSuspended {
		return nil, "the run is over"
	}
	s.own()
	if f.Began {
		s.brokeOff()
	}
	for i := range s.calls {
		c, text := &s.calls[i], outCancelled
		switch c.status {
		case callSettled:
			continue
		case callBegun:
			text = stopped(outStopped, c.effect)
		case callOutside, callDeferred:
			text = stopped(outUnanswered, c.effect)
		}
		c.settle(errorOutput(c.use, text))
	}
	s.end = ""
	s.commit()
	return s.over(EndCancelled, nil)
}

// resumed settles the calls that had begun as lost: they may have had an effect, so they must not
// run again, unless they only read and f says so. Suspended approvals are asked for again.
func (s *machine) resumed(f *Resumed) ([]Action, string) {
	if s.phase == phaseDone && s.end != EndSuspended {
		return nil, "the run is over"
	}
	s.resumeWith(f)
	s.own()
	for i := range s.calls {
		c := &s.calls[i]
		switch {
		case s.lost(i, f):
			c.settle(errorOutput(c.use, outLost))
		case c.status == callSuspended:
			c.status = callAsked
		case c.status == callDeferred:
			c.status = callOutside
		}
		c.prepared = nil // the tools may be others now
	}
	revive(s)
	if s.phase == phaseModel && len(s.parts.Items) > 0 {
		s.modelFailed(&ModelFailed{Retry: true})
	} else {
		s.advance(nil)
	}
	for i := range s.calls {
		if s.calls[i].status == callBegun { // a read to repeat
			s.calls[i].status = callIssued
		}
	}
	return s.outstanding(), ""
}

// resumeWith takes the settings of the program that continues the run.
func (s *machine) resumeWith(f *Resumed) {
	next := *s.rules
	if f.MaxTurns > 0 {
		next.maxTurns = f.MaxTurns
	}
	next.model = cmp.Or(f.Model, next.model)
	s.replace(&next)
}

// replace replaces the rules. Another model has the limit that the history records for it.
func (s *machine) replace(next *rules) {
	if next.model != s.rules.model {
		s.marked, _ = markIn(s.history.Items, next.model)
		s.cut = cut{limit: s.marked}.at(s.history.Items)
	}
	s.rules = next
}

// setupChanged takes the settings of the turns that follow.
func (s *machine) setupChanged(f *SetupChanged) ([]Action, string) {
	switch {
	case s.phase != phaseModel || len(s.parts.Items) > 0:
		return nil, "the model is not about to be asked"
	case f.MaxTurns <= 0 || f.MaxCalls <= 0:
		return nil, "a limit is not positive"
	}
	next := &rules{model: f.Model, maxTurns: f.MaxTurns, maxCalls: f.MaxCalls}
	for _, name := range slices.Sorted(maps.Keys(f.Tools)) {
		next.effects = append(next.effects, toolEffect{name, f.Tools[name]})
	}
	s.replace(next)
	if s.turn >= f.MaxTurns {
		return s.over(EndTurns, nil)
	}
	return nil, ""
}

// lost reports whether a call was interrupted and does not run again.
func (s *machine) lost(i int, f *Resumed) bool {
	c := &s.calls[i]
	return c.status == callBegun && !(f.RepeatReads && c.effect == EffectReadOnly)
}

// next commits the message and decides how the run continues.
func (s *machine) next(actions []Action) ([]Action, string) {
	calls := len(s.calls) > 0 && !s.final()
	s.commit()
	s.turn++
	switch {
	case s.broken != nil:
		return s.again(actions)
	case s.stop == StopRefusal:
		return s.over(EndRefused, actions)
	case calls || s.stop == StopPaused:
		return s.boundary(actions)
	}
	return s.finish(actions)
}

// final reports whether a call has ended the run. The model still has to learn of calls that failed.
func (s *machine) final() (final bool) {
	all := 0
	for _, p := range s.parts.Items {
		if isCall(p) {
			all++
		}
	}
	for i := range s.calls {
		if s.calls[i].output.IsError {
			return false
		}
		final = final || s.calls[i].final
	}
	return final && all == len(s.calls)
}

// boundary asks the model again, after it has added the steering messages.
func (s *machine) boundary(actions []Action) ([]Action, string) {
	if s.turn >= s.rules.maxTurns {
		return s.over(EndTurns, actions)
	}
	s.take(false)
	return s.askAgain(actions)
}

// finish ends the run, unless queued messages make it continue.
func (s *machine) finish(actions []Action) ([]Action, string) {
	if len(s.queue) == 0 {
		return s.over(EndDone, actions)
	}
	if s.turn >= s.rules.maxTurns {
		return s.over(EndTurns, actions)
	}
	before := len(s.queue)
	if s.take(false); len(s.queue) == before {
		s.take(true)
	}
	return s.askAgain(actions)
}

// askAgain asks the model about the current history.
func (s *machine) askAgain(actions []Action) ([]Action, string) {
	s.phase, s.cut = phaseModel, s.cut.at(s.history.Items)
	return append(actions, s.callModel()), ""
}

func (s *machine) take(followUps bool) {
	var rest []*Steered
	for _, q := range s.queue {
		if q.FollowUp && !followUps {
			rest = append(rest, q)
			continue
		}
		s.history = s.history.append(q.Message)
	}
	s.queue = rest
}

// commit adds the message in progress and the outputs of its calls to the history. An
// empty message is dropped, and so is one that was cut short and has only thinking.
func (s *machine) commit() {
	parts := s.parts.Items
	outputs := s.outputs(make([]Part, 0, 4)) // does not escape
	s.parts, s.calls = persist.List[Part]{}, nil
	short := s.phase == phaseModel || s.broken != nil
	if len(parts) == 0 || short && len(outputs) == 0 && onlyThinking(parts) {
		return
	}
	if s.cut.limit != s.marked || !s.noted {
		parts = append(slices.Clip(parts), s.mark())
	}
	s.history = s.history.append(newMessage(RoleAssistant, parts))
	if len(outputs) > 0 {
		s.history = s.history.append(newMessage(RoleUser, outputs))
	}
}

// mark returns the mark of a message that joins the history.
func (s *machine) mark() Part {
	s.marked, s.noted = s.cut.limit, true
	return markOf(mark{Limit: s.marked, Model: s.rules.model, Note: s.note})
}

// outputs appends one output for each call to out, in the order of the calls.
func (s *machine) outputs(out []Part) []Part {
	n := 0
	for _, p := range s.parts.Items {
		use, ok := p.(*ToolUse)
		if !ok {
			continue
		}
		if n < len(s.calls) && s.calls[n].use == use {
			out = append(out, s.calls[n].output)
			n++
			continue
		}
		out = append(out, errorOutput(use, outTooMany))
	}
	return out
}

func onlyThinking(parts []Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool {
		_, thinking := p.(*Thinking)
		return !thinking
	})
}
