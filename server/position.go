package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/aycoder/aycoder"
)

// A position says what somebody has seen of a run, in terms of the conversation and not of a process: how many turns are
// over, and what came of the present turn. So it is also understood after a restart, where the events are made again from
// the journal, and it is the largest part of the id of each event. Texts are identified by their length and a hash,
// because a new attempt of the model may say something else.
type position struct {
	turn        int // turns that are over
	text, think int // bytes of the present turn
	hash        [2]uint32
	other       int      // further events that the journal knows
	calls       []string // "s" or "f", for started or finished, and a hash of the id of the call
}

const callMark = 7 // bytes of an element of calls

func mark(kind string, id string) string {
	return fmt.Sprintf("%s%06x", kind, hashMore(0, id)&0xffffff)
}

// hashMore returns the hash of a text with the given one before it.
func hashMore(before uint32, text string) uint32 {
	return crc32.Update(before, crc32.IEEETable, []byte(text))
}

// after returns the position of somebody who has seen one more event.
func (p position) after(ev aycoder.Event) position {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		p.text, p.hash[0] = p.text+len(ev.Text), hashMore(p.hash[0], ev.Text)
	case *aycoder.ThinkingDelta:
		p.think, p.hash[1] = p.think+len(ev.Text), hashMore(p.hash[1], ev.Text)
	case *aycoder.ToolStarted:
		p.calls = append(slices.Clip(p.calls), mark("s", ev.Call.ID))
	case *aycoder.ToolFinished:
		p.calls = append(slices.Clip(p.calls), mark("f", ev.Call.ID))
	case *aycoder.Compacted, *aycoder.SetupChanged, *aycoder.CallRequested:
		p.other++
	case *aycoder.Retrying:
		if ev.Discarded {
			p = position{turn: p.turn, other: p.other}
		}
	case *aycoder.TurnFinished:
		p = position{turn: ev.Turn}
	}
	return p
}

// fresh reports whether nothing of the present turn was seen.
func (p position) fresh() bool { return p.text+p.think+p.other == 0 && len(p.calls) == 0 }

const maxCursor = 64 << 10 // bytes of an id that a client sends

// A cursor is the id of an event: its run, the log in which the event is, its number there, and the position.
type cursor struct {
	run uint32 // a hash of the run's id
	log string
	seq int64
	position
}

// A wireCursor is the form of a cursor for clients, who do not look into it.
type wireCursor struct {
	Run   uint32    `json:"r,omitempty"`
	Log   string    `json:"l,omitempty"`
	Seq   int64     `json:"n,omitempty"`
	Turn  int       `json:"t,omitempty"`
	Text  int       `json:"x,omitempty"`
	Think int       `json:"k,omitempty"`
	Hash  [2]uint32 `json:"h,omitzero"`
	Other int       `json:"o,omitempty"`
	Calls []string  `json:"c,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (c cursor) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireCursor{c.run, c.log, c.seq, c.turn, c.text, c.think, c.hash, c.other, c.calls})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *cursor) UnmarshalJSON(data []byte) error {
	var w wireCursor
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.Seq < 0 || min(w.Turn, w.Text, w.Think, w.Other) < 0 {
		return errors.New("a number is negative")
	}
	*c = cursor{w.Run, w.Log, w.Seq, position{w.Turn, w.Text, w.Think, w.Hash, w.Other, w.Calls}}
	return nil
}

func (c cursor) String() string { return opaque(c) }

// in returns the cursor for a run with an id: that of another run says nothing about it.
func (c cursor) in(run string) cursor {
	if mark := hashMore(0, run); c.run != mark {
		return cursor{run: mark}
	}
	return c
}

// parseCursor decodes the id of an event. That of no event is "".
func parseCursor(s string) (c cursor, err error) {
	if s != "" && (len(s) > maxCursor || transparent(s, &c) != nil) {
		return c, invalid("Last-Event-ID is not the id of an event")
	}
	return c, nil
}

// opaque encodes a value as a text for clients that only give it back, and transparent decodes it.
func opaque(v any) string {
	data, _ := json.Marshal(v) // texts and numbers always encode
	return base64.RawURLEncoding.EncodeToString(data)
}

func transparent(text string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
