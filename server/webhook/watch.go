package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
)

// The types of events that this package makes. Their data begins with the id of the session, and "call" is the id of
// the call that a nested run, such as a subagent's, belongs to.
const (
	SessionStart      = "session.start"      // a host began to work with a session
	SessionEnd        = "session.end"        // and ended, with the cost of all answers since
	MessageSent       = "message.sent"       // a message to the model; the text is content
	MessageReceived   = "message.received"   // an answer of it, with model, tokens and cost
	ToolCalled        = "tool.called"        // a call has started; the arguments are content
	ToolCompleted     = "tool.completed"     // a call has ended, or was not run; the output is content
	FileRead          = "file.read"          // the tool read_file has read a file; commands that read are not seen
	FileWrite         = "file.write"         // a tool has created, changed or deleted a file
	ApprovalRequested = "approval.requested" // a question waits for a decision
	Error             = "error"              // a run has ended with an error; its text is content
	CostThreshold     = "cost.threshold"     // the cost of a session has reached a threshold in US dollars
)

// maxText bounds each text in the content of an event, in bytes. The specification advises small bodies. Twice as much is
// masked, since nothing would tell what a part of a secret is.
const maxText = 16 << 10

// A Watch makes events of what one session does. It is for one goroutine, but for [Watch.Agent].
type Watch struct {
	s          *Sender
	session    string
	cost       float64
	thresholds []float64
	text       map[string][]byte // of the answer of each run, by the call that it belongs to
	err        error
	mu         sync.Mutex // of agents
}

// Watch sends session.start, and returns a watch for the session. Cost is what the session has cost before, in US
// dollars. When its cost reaches one of the thresholds, the event cost.threshold is sent, but not for those that the
// session had reached before.
func (s *Sender) Watch(session string, cost float64, thresholds ...float64) *Watch {
	w := &Watch{s: s, session: session, cost: cost, text: map[string][]byte{}}
	for _, t := range slices.Sorted(slices.Values(thresholds)) {
		if t > cost {
			w.thresholds = append(w.thresholds, t)
		}
	}
	w.send(SessionStart, "", nil, nil)
	return w
}

// Close sends session.end, and returns the first error of an event that could not be stored: the methods that make
// events do not return it, since a run goes on without them.
func (w *Watch) Close() error {
	w.send(SessionEnd, "", object{"cost": w.cost}, nil)
	return w.err
}

// Agent wraps the agent of the session: the watch sees the prompt, the events and the error of each run. Runs may work at the
// same time, but their answers may then be mixed up in message.received. Errors that wrap [context.Canceled] are not sent,
// since somebody wanted them.
func (w *Watch) Agent(next aycoder.Agent) aycoder.Agent { return &agent{w, next} }

type agent struct {
	w    *Watch
	next aycoder.Agent
}

// Run implements [aycoder.Agent].
func (a *agent) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	facts := false // tell the costs, and not the events
	events, prompt := a.next.Run(ctx, in, append(slices.Clip(opts), a.w.count(&facts))...), in.Prompt
	if n := len(in.Messages); prompt == "" && len(in.Parts) == 0 && n > 0 && in.Messages[n-1].Role == aycoder.RoleUser {
		prompt = in.Messages[n-1].Text()
	}
	return func(yield func(aycoder.Event, error) bool) {
		begun := false
		for ev, err := range events {
			a.w.mu.Lock()
			if !begun && err == nil && prompt != "" {
				a.w.Prompt(prompt)
			}
			begun = true
			switch {
			case err == nil && facts:
				a.w.event("", ev)
			case err == nil:
				a.w.Event(ev)
			case !errors.Is(err, context.Canceled) && !errors.Is(err, aycoder.ErrConsumed):
				a.w.Failed(err)
			}
			a.w.mu.Unlock()
			if !yield(ev, err) {
				return
			}
		}
	}
}

// count returns a [aycoder.RunOption] that counts what a run costs, and notes that there are facts.
func (w *Watch) count(facts *bool) aycoder.RunOption {
	return func(c *aycoder.RunConfig) error {
		then := c.Facts
		return aycoder.WithFacts(func(ctx context.Context, rec *aycoder.FactRecord) error {
			w.mu.Lock()
			*facts = true
			w.fact(rec.Fact)
			w.mu.Unlock()
			if then == nil {
				return nil
			}
			return then(ctx, rec)
		})(c)
	}
}

// object is a JSON object.
type object = map[string]any

// send sends an event. The call is that of a nested run.
func (w *Watch) send(typ, call string, data, content object) {
	all := object{"session": w.session}
	if call != "" {
		all["call"] = call
	}
	for key, v := range data {
		if v != "" && v != nil {
			all[key] = v
		}
	}
	ev := Event{Type: typ, Data: all}
	if content != nil {
		for key, v := range content {
			if text, ok := v.(string); ok {
				content[key] = runes.Shorten(w.s.o.Mask(runes.Shorten(text, 2*maxText)), maxText)
			}
		}
		ev.Content = content
	}
	if _, err := w.s.Send(ev); w.err == nil {
		w.err = err
	}
}

// Prompt sends message.sent for a message of the user.
func (w *Watch) Prompt(text string) { w.send(MessageSent, "", nil, object{"text": text}) }

// Failed sends error for the error of a run. It ignores nil.
func (w *Watch) Failed(err error) {
	if err != nil {
		w.send(Error, "", object{"kind": aycoder.ErrorType(err)}, object{"text": err.Error()})
	}
}

// Event sends what an event of a run is worth to others, also one of a nested run. No event tells what else calls and jobs have cost,
// so only [Watch.Agent] counts that.
func (w *Watch) Event(ev aycoder.Event) {
	w.event("", ev)
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		ev = child.Innermost()
	}
	switch ev := ev.(type) {
	case *aycoder.TurnFinished:
		if ev.Cost != nil {
			w.spent(*ev.Cost)
		}
	case *aycoder.Compacted:
		w.fact(ev)
	}
}

// fact counts what a run has cost, with its calls and jobs.
func (w *Watch) fact(f aycoder.Fact) {
	for _, s := range part.Spent(f) {
		w.spent(s.Cost)
	}
}

func (w *Watch) event(call string, ev aycoder.Event) {
	switch ev := ev.(type) {
	case *aycoder.ChildEvent:
		w.event(ev.CallID, ev.Event)
	case *aycoder.TextDelta:
		if len(w.text[call]) <= 2*maxText {
			w.text[call] = append(w.text[call], ev.Text...)
		}
	case *aycoder.Retrying:
		delete(w.text, call) // the answer begins anew
	case *aycoder.TurnFinished:
		if ev.Provider == part.NoModel { // it is a call without a model, see [harness.Runtime.Caller]
			return
		}
		data := object{"turn": ev.Turn, "stop": ev.Stop, "usage": ev.Usage, "provider": ev.Provider, "model": ev.Model}
		if ev.Cost != nil {
			data["cost"] = *ev.Cost
		}
		w.send(MessageReceived, call, data, object{"text": string(w.text[call])})
		delete(w.text, call)
	case *aycoder.ToolStarted:
		w.send(ToolCalled, call, object{"id": ev.Call.ID, "tool": ev.Call.Name},
			object{"args": arguments(ev.Args), "subject": ev.Subject})
	case *aycoder.ToolFinished:
		w.finished(call, ev)
	case *aycoder.ApprovalRequested:
		q := ev.Request
		w.send(ApprovalRequested, call, object{"id": q.CallID, "tool": q.Tool, "key": q.Key, "run": q.Run, "agent": q.Agent,
			"class": q.Class, "digest": q.Digest}, object{"args": arguments(q.Args), "subject": q.Subject, "preview": q.Preview})
	}
}

// arguments returns arguments as they are, or the start of their text if they are too long.
func arguments(args json.RawMessage) any {
	if len(args) > maxText || !json.Valid(args) {
		return string(args)
	}
	return args
}

// finished sends the end of a call, and what it did to files.
func (w *Watch) finished(call string, ev *aycoder.ToolFinished) {
	delete(w.text, ev.Call.ID) // of a run in it
	of := object{"id": ev.Call.ID, "tool": ev.Call.Name}
	data := object{"id": ev.Call.ID, "tool": ev.Call.Name, "ms": ev.Elapsed.Milliseconds(),
		"is_error": ev.Output != nil && ev.Output.IsError, "kind": aycoder.ErrorType(ev.Err)}
	content := object{"subject": ev.Subject, "summary": ev.Summary}
	if ev.Output != nil {
		content["output"] = ev.Output.Text()
	}
	w.send(ToolCompleted, call, data, content)
	if ev.Call.Name == "read_file" && data["is_error"] == false && ev.Subject != "" {
		of["path"] = ev.Subject
		w.send(FileRead, call, of, nil)
	}
	if ev.Changes == nil {
		return
	}
	for _, f := range ev.Changes.Files {
		if f.Written {
			of["path"], of["change"], of["outcome"] = f.Path, f.Kind, f.Outcome
			w.send(FileWrite, call, of, nil)
		}
	}
}

// spent adds a cost, and sends the thresholds that are reached with it.
func (w *Watch) spent(cost float64) {
	w.cost += cost
	for len(w.thresholds) > 0 && w.cost >= w.thresholds[0] {
		w.send(CostThreshold, "", object{"threshold": w.thresholds[0], "cost": w.cost}, nil)
		w.thresholds = w.thresholds[1:]
	}
}
