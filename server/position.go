package server

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

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
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return fmt.Sprintf("%s%06x", kind, h.Sum32()&0xffffff)
}

const fnvOffset, fnvPrime = 2166136261, 16777619

func hashMore(h uint32, text string) uint32 {
	if h == 0 {
		h = fnvOffset
	}
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * fnvPrime
	}
	return h
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

// String encodes the position.
func (p position) String() string {
	return fmt.Sprintf("%d.%d.%d.%x.%x.%d.%s", p.turn, p.text, p.think, p.hash[0], p.hash[1], p.other, strings.Join(p.calls, ""))
}

const maxCursor = 64 << 10 // bytes of an id that a client sends

// A cursor is the id of an event: the log in which the event is, its number there, and the position.
type cursor struct {
	log string
	seq int64
	position
}

func (c cursor) String() string {
	return c.log + "." + strconv.FormatInt(c.seq, 10) + "." + c.position.String()
}

// parseCursor decodes the id of an event. That of no event is "".
func parseCursor(s string) (c cursor, err error) {
	if s == "" {
		return c, nil
	}
	bad := invalid("Last-Event-ID is not the id of an event")
	f := strings.Split(s, ".")
	if len(s) > maxCursor || len(f) != 9 || len(f[8])%callMark != 0 {
		return c, bad
	}
	c.log = f[0]
	number := func(text string, base, bits int) uint64 {
		n, e := strconv.ParseUint(text, base, bits)
		if e != nil {
			err = bad
		}
		return n
	}
	const whole = strconv.IntSize - 1 // what an int can hold on this machine
	c.seq = int64(number(f[1], 10, 63))
	c.turn, c.text, c.think = int(number(f[2], 10, whole)), int(number(f[3], 10, whole)), int(number(f[4], 10, whole))
	c.hash = [2]uint32{uint32(number(f[5], 16, 32)), uint32(number(f[6], 16, 32))}
	c.other = int(number(f[7], 10, whole))
	for marks := range slices.Chunk([]byte(f[8]), callMark) {
		c.calls = append(c.calls, string(marks))
	}
	return c, err
}
