package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
)

// A Feed carries live messages from the process in which a run works to those that show it: contrib/postgres has one. It may
// lose messages, delay or repeat them, and change their order: all that must not be lost is in the journal. Its methods are
// safe for concurrent use.
type Feed interface {
	// Publish sends a message of at most [MaxMessage] bytes to all who have subscribed to a session. It must not wait.
	Publish(session string, message []byte)
	// Subscribe yields the messages of a session until ctx ends. An error is the last element; [Follow] subscribes again
	// then. It must not keep messages without a bound for a reader that is slow.
	Subscribe(ctx context.Context, session string) iter.Seq2[[]byte, error]
}

// MaxMessage is the largest size of a message of a [Feed], in bytes: somewhat less than a notification of PostgreSQL holds.
const MaxMessage = 7900

const (
	gather      = 50 * time.Millisecond // for which events are collected
	forget      = 10 * time.Minute      // without an event after which an attempt of a step is taken to have failed
	maxGathered = 4 << 10               // bytes of events in a message, apart from a larger one
)

// A Publisher tells a [Feed] what the journal does not have, or not yet: parts of messages, progress, and events of runs inside
// calls. It also says that it is time to look into the journal, from which [Follow] takes all the rest. Texts are joined, and split if
// they are too large for a message; another event that is too large is left out. Whenever the texts of a message of the model have
// become twice as long, they are published from the beginning, for readers who have come meanwhile. Its methods are safe for
// concurrent use.
type Publisher struct {
	feed Feed
	name string

	mu       sync.Mutex
	n        int64 // messages
	sessions map[string]*outgoing
}

// outgoing are the events of a session that are being collected.
type outgoing struct {
	session string
	message liveMessage     // without its events
	events  []aycoder.Event // in which neighboring texts are one
	bytes   int
	whole   []aycoder.Event // the texts of the message so far
	told    int             // bytes of them when they were published again
	timer   *time.Timer
	waits   bool      // the timer publishes; else it forgets
	last    time.Time // when an event came
}

// A liveMessage is what a feed carries. Text, Think and Hash are those of a position before its events.
type liveMessage struct {
	From   string            `json:"f"` // the publisher
	N      int64             `json:"n"` // its number there
	Run    string            `json:"r"`
	Turn   int               `json:"t,omitempty"` // turns of the run that are over
	Text   int               `json:"x,omitempty"`
	Think  int               `json:"k,omitempty"`
	Hash   [2]uint32         `json:"h,omitzero"`
	Look   bool              `json:"l,omitempty"` // the journal has something to show
	Events []json.RawMessage `json:"e,omitempty"`
}

// NewPublisher returns a publisher for the runs of this process.
func NewPublisher(f Feed) *Publisher {
	return &Publisher{feed: f, name: rand.Text()[:10], sessions: map[string]*outgoing{}}
}

// Event takes an event of a run. turn is the number of turns of the run that are over. It does not wait. It has the form of
// the field Events of the configuration of contrib/temporal.
func (p *Publisher) Event(session, run string, turn int, ev aycoder.Event) {
	look, transient := false, true
	switch ev := ev.(type) {
	case *aycoder.ApprovalRequested, *aycoder.CallRequested:
		look, transient = true, false
	case *aycoder.RunFinished: // which a durable engine has after each step
		look, transient = ev.Result == nil || ev.Result.End != aycoder.EndSuspended, false
	case *aycoder.TurnFinished, *aycoder.ToolStarted, *aycoder.ToolFinished, *aycoder.Compacted, *aycoder.SetupChanged:
		transient = false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.sessions[session]
	if o != nil && (o.message.Run != run || o.message.Turn != turn) {
		p.forget(o)
		o = nil
	}
	if o == nil {
		if !look && !transient {
			return
		}
		o = &outgoing{session: session, message: liveMessage{From: p.name, Run: run, Turn: turn}}
		p.sessions[session] = o
		o.timer = time.AfterFunc(forget, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if left := forget - time.Since(o.last); o.waits {
				p.flush(o)
			} else if left > 0 {
				o.timer.Reset(left)
			} else {
				p.forget(o)
			}
		})
	}
	o.last = time.Now()
	if o.message.Look = o.message.Look || look; transient {
		o.add(ev)
	}
	_, turned := ev.(*aycoder.TurnFinished)
	_, ended := ev.(*aycoder.RunFinished)
	switch {
	case turned || ended:
		p.forget(o)
	case o.bytes > maxGathered || look:
		p.flush(o)
	case len(o.events) > 0 && !o.waits:
		o.waits = true
		o.timer.Reset(gather)
	}
}

// size is a guess of the size of an event in a message.
func size(ev aycoder.Event) int {
	if text, _, ok := textIn(ev); ok {
		return len(text) + 30
	}
	return len(encode(ev))
}

func (o *outgoing) add(ev aycoder.Event) {
	o.bytes += size(ev)
	if n := len(o.events); n > 0 {
		if both := joined(o.events[n-1], ev); both != nil {
			o.events[n-1] = both
			return
		}
	}
	if p, ok := ev.(*aycoder.ToolProgress); ok { // the newest one of each call is enough
		i := slices.IndexFunc(o.events, func(ev aycoder.Event) bool {
			before, ok := ev.(*aycoder.ToolProgress)
			return ok && before.CallID == p.CallID
		})
		if i >= 0 {
			o.bytes -= size(o.events[i])
			o.events = slices.Delete(o.events, i, i+1)
		}
	}
	o.events = append(o.events, ev)
}

// forget publishes what was collected, and removes the session. The mutex is held.
func (p *Publisher) forget(o *outgoing) {
	p.flush(o)
	o.timer.Stop()
	if p.sessions[o.session] == o {
		delete(p.sessions, o.session)
	}
}

// flush publishes what was collected. The mutex is held.
func (p *Publisher) flush(o *outgoing) {
	o.timer.Reset(forget)
	events := o.events
	o.events, o.bytes, o.waits = nil, 0, false
	from := position{text: o.message.Text, think: o.message.Think, hash: o.message.Hash}
	at := p.publish(o, from, events)
	o.message.Text, o.message.Think, o.message.Hash = at.text, at.think, at.hash
	for _, ev := range events {
		o.remember(ev)
	}
	if n := at.text + at.think; n >= max(minTold, 2*o.told) && n <= maxTold {
		o.told = n
		p.publish(o, position{}, o.whole)
	}
}

// remember keeps a text, or forgets all after the model was asked again.
func (o *outgoing) remember(ev aycoder.Event) {
	if r, ok := ev.(*aycoder.Retrying); ok && r.Discarded {
		o.whole, o.told = nil, 0
	}
	if _, _, ok := textIn(ev); !ok {
		return
	}
	for i, before := range o.whole {
		if both := joined(before, ev); both != nil {
			o.whole[i] = both
			return
		}
	}
	o.whole = append(o.whole, ev)
}

// Bounds of the texts that are published from the beginning.
const (
	minTold = 500
	maxTold = 256 << 10
)

// publish publishes events that begin at a position, and returns the position behind them.
func (p *Publisher) publish(o *outgoing, at position, events []aycoder.Event) position {
	var pieces []aycoder.Event
	for _, ev := range events {
		if text, thinks, ok := textIn(ev); ok {
			pieces = append(pieces, split(text, thinks)...)
		} else {
			pieces = append(pieces, ev)
		}
	}
	next := at
	var batch []json.RawMessage
	total := 0
	send := func() {
		if len(batch) == 0 && !o.message.Look {
			return
		}
		m := o.message
		p.n++
		m.N, m.Events, m.Text, m.Think, m.Hash = p.n, batch, at.text, at.think, at.hash
		data, err := json.Marshal(m)
		if err == nil && len(data) <= MaxMessage {
			p.feed.Publish(o.session, data)
		}
		o.message.Look, batch, total, at = false, nil, 0, next
	}
	for _, ev := range pieces {
		data := encode(ev)
		if len(data) > maxPiece {
			continue // nobody depends on it
		}
		if total+len(data) > maxPiece {
			send()
		}
		batch, total = append(batch, data), total+len(data)+1
		next = next.after(ev)
	}
	send()
	return next
}

const maxPiece = MaxMessage - 500 // bytes of the events of a message

// split returns a text in events that fit into a message.
func split(text string, thinks bool) (list []aycoder.Event) {
	ev := textEvent(text, thinks)
	if ev == nil {
		return nil
	}
	if len(text) < 2 || len(encode(ev)) <= maxPiece {
		return []aycoder.Event{ev}
	}
	at := len(text) / 2
	for n := 1; n < utf8.UTFMax && !utf8.RuneStart(text[at]); n++ { // no valid text has more bytes that do not begin a character
		at++
	}
	return append(split(text[:at], thinks), split(text[at:], thinks)...)
}
