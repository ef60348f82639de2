package server

import (
	"encoding/json"
	"slices"

	"github.com/aycoder/aycoder"
)

// A form tells the steps of a run to clients of some kind, as any number of JSON objects, which it adds by their keys and
// values: see [object].
type form struct {
	tell func(s step, add func(pairs ...any))
	last string // what is behind the last object, or ""
}

// A step is what clients are told of a run. A turn has pieces of text, each of one kind, and calls between them.
type step struct {
	what  what
	turn  int    // turns that are over
	kind  string // of the present piece: "text" or "reasoning"
	piece int    // the number of the piece in the turn, counted from 1, which is the same whenever the run is told
	texts int    // the number of pieces that are text, up to this one

	text      string
	call      aycoder.ToolUse
	ticket    string // of a call that the client answers, or ""
	output    *aycoder.ToolOutput
	questions []asked
	end       *runEnd
	data      json.RawMessage // an event for which there is no step
}

type what int

const (
	stepBegin  what = iota // the stream
	stepStart              // of a piece
	stepText               // of the piece
	stepStop               // of the piece
	stepCall               // once in a turn
	stepOutput             // of a call that was told
	stepTurn               // it is over
	stepAsk                // the run waits, and the stream is over
	stepEnd                // the run is over, and so is the stream
	stepOther
)

// An asked is a question that a client of a form gets.
type asked struct {
	*question
	ticket string
}

// A runEnd is what a run_end says.
type runEnd struct {
	Reason aycoder.EndReason  `json:"reason"`
	Stop   aycoder.StopReason `json:"stop"`
	Text   string             `json:"text"`
	Usage  aycoder.Usage      `json:"usage"`
	Error  *problem           `json:"error"`
}

// input returns the number of all tokens that the model has read.
func (e *runEnd) input() int64 { return e.Usage.Input + e.Usage.CacheRead + e.Usage.CacheWrite }

// finish returns the reason in the words of OpenAI.
func (e *runEnd) finish() string {
	switch {
	case e.Reason == aycoder.EndRefused:
		return "content_filter"
	case e.Stop == aycoder.StopMaxTokens || e.Reason == aycoder.EndTurns:
		return "length"
	}
	return "stop"
}

// A telling is how far a run was told in a form.
type telling struct {
	form  *form // nil for the events as they are
	now   step
	known []string // calls of the turn that the client knows
	over  bool     // how the run ends was told, or what it asks
}

// discarded is what people read behind a text that does not count.
const discarded = "\n\n[The connection to the model broke off. It answers again.]\n\n"

// event tells an event, given as its JSON form, too.
func (d *sender) event(ev aycoder.Event, data []byte) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		d.says("text", ev.Text)
	case *aycoder.ThinkingDelta:
		d.says("reasoning", ev.Text)
	case *aycoder.ToolStarted:
		d.calls(aycoder.ToolUse{ID: ev.Call.ID, Name: ev.Call.Name, Args: ev.Args}, "")
	case *aycoder.ToolFinished:
		d.calls(*ev.Call, "")
		d.tell(step{what: stepOutput, output: ev.Output})
	case *aycoder.Retrying:
		if ev.Discarded {
			if d.now.texts > 0 {
				d.says("text", discarded)
			}
			d.stops()
			d.known = nil
		}
	case *aycoder.TurnFinished:
		d.stops()
		d.tell(step{what: stepTurn})
		d.now, d.known = step{turn: ev.Turn}, nil
	case *aycoder.RunFinished:
		d.ends(data)
	case *aycoder.ToolDelta, *aycoder.ApprovalRequested, *aycoder.CallRequested:
	default:
		d.tell(step{what: stepOther, data: data})
	}
}

// tell tells a step of the present piece.
func (d *sender) tell(s step) {
	s.turn, s.kind, s.piece, s.texts = d.now.turn, d.now.kind, d.now.piece, d.now.texts
	d.form.tell(s, func(pairs ...any) { d.message("", object(pairs...)) })
}

// says tells a text, in a new piece if it is of another kind.
func (d *sender) says(kind, text string) {
	if d.now.kind != kind {
		d.stops()
		d.now.kind = kind
		if d.now.piece++; kind == "text" {
			d.now.texts++
		}
		d.tell(step{what: stepStart})
	}
	d.tell(step{what: stepText, text: text})
}

// stops ends the present piece.
func (d *sender) stops() {
	if d.now.kind != "" {
		d.tell(step{what: stepStop})
	}
	d.now.kind = ""
}

// calls tells a call, once.
func (d *sender) calls(call aycoder.ToolUse, ticket string) {
	d.stops()
	if !slices.Contains(d.known, call.ID) {
		d.known = append(d.known, call.ID)
		d.tell(step{what: stepCall, call: call, ticket: ticket})
	}
}

// asks tells what the run waits for. It is the last of the stream.
func (d *sender) asks(questions []*question) {
	var all []asked
	for _, q := range questions {
		a := asked{q, opaque(ticket{d.run.id, q.outer, q.call, q.digest, d.at})}
		switch {
		case q.request != nil:
			d.calls(aycoder.ToolUse{ID: q.call, Name: q.request.Tool, Args: q.request.Args}, a.ticket)
		case q.outer == q.call:
			d.calls(aycoder.ToolUse{ID: q.call, Name: q.ask.Tool, Args: q.ask.Args}, "")
		}
		all = append(all, a)
	}
	d.stops()
	d.tell(step{what: stepAsk, questions: all})
	d.over = true
}

// ends tells the end of the run, given as JSON. One that was suspended is not over.
func (d *sender) ends(data []byte) {
	d.stops()
	end := new(runEnd)
	if json.Unmarshal(data, end) == nil && end.Reason != aycoder.EndSuspended {
		d.over = true
		d.tell(step{what: stepEnd, end: end})
	}
}
