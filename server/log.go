package server

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"

	"github.com/aycoder/aycoder"
)

// A log has the newest events of a run, for any number of readers, each with its own place. It waits for nobody: a reader
// that is slow gets older events from the journal. So a reader costs its place, and a run costs at most about maxLog
// bytes, or what its present turn has if that is more.
type log struct {
	name string

	mu      sync.Mutex // guards all that follows
	entries []entry
	seq     int64 // of the newest entry
	bytes   int
	joins   bool // texts are joined
	check   int  // bytes at which the log is made smaller
	dropped int64
	base    position // of a reader that has seen all that was dropped, and all before the log: whole turns
	pos     position
	closed  bool
	changed chan struct{} // closed with the next change
}

const maxLog = 1 << 20

type entry struct {
	seq  int64
	pos  position // of a reader that has seen it
	data []byte   // the event as JSON
	ev   aycoder.Event

	spare bool // it can be dropped: progress, or a part of a run inside a call
}

func (e *entry) size() int { return len(e.data) + callMark*len(e.pos.calls) + 200 }

func newLog(base position) *log {
	return &log{name: rand.Text()[:8], base: base, pos: base, check: maxLog, changed: make(chan struct{})}
}

// spare reports whether an event may be missing if its reader is late.
func spare(ev aycoder.Event) bool {
	switch ev := ev.(type) {
	case *aycoder.ToolDelta, *aycoder.ToolProgress:
		return true
	case *aycoder.ChildEvent:
		_, asked := ev.Innermost().(*aycoder.ApprovalRequested)
		return !asked
	}
	return false
}

// add adds an event with its JSON form.
func (l *log) add(ev aycoder.Event, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.pos = l.pos.after(ev)
	e := entry{seq: l.seq, pos: l.pos, data: data, spare: spare(ev)}
	switch ev.(type) {
	case *aycoder.TextDelta, *aycoder.ThinkingDelta, *aycoder.TurnFinished:
		e.ev = ev
	}
	l.put(e)
	if l.bytes > l.check {
		l.shrink()
		l.check = max(maxLog, l.bytes*5/4)
	}
	l.wake()
}

// at returns the position of a reader that has seen all.
func (l *log) at() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pos
}

func (l *log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// close says that nothing follows.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// shrink drops whole turns, which the journal has, then what may be missing, and at last joins texts. The mutex is held.
func (l *log) shrink() {
	for l.bytes > maxLog/2 {
		end := slices.IndexFunc(l.entries, func(e entry) bool { _, ok := e.ev.(*aycoder.TurnFinished); return ok })
		if end < 0 {
			break
		}
		l.dropped, l.base = l.entries[end].seq, l.entries[end].pos
		for _, e := range l.entries[:end+1] {
			l.bytes -= e.size()
		}
		l.entries = slices.Clone(l.entries[end+1:])
	}
	if l.bytes > maxLog/2 {
		all := l.entries
		l.entries, l.bytes, l.joins = nil, 0, true
		for _, e := range all {
			if !e.spare {
				l.put(e)
			}
		}
	}
}

const maxJoined = 4 << 10 // bytes of a text that is joined

// put appends an entry, or, in a log that is large, joins it with the text before it. The mutex is held.
func (l *log) put(e entry) {
	if n := len(l.entries); l.joins && n > 0 {
		last := &l.entries[n-1]
		before, _, _ := textIn(last.ev)
		if both := joined(last.ev, e.ev); both != nil && len(before) < maxJoined {
			l.bytes -= last.size()
			l.entries = l.entries[:n-1]
			e.ev, e.data = both, encode(both)
		}
	}
	l.bytes += e.size()
	l.entries = append(l.entries, e)
}

// textIn returns the text of an event that has nothing else.
func textIn(ev aycoder.Event) (text string, thinks, ok bool) {
	switch ev := ev.(type) {
	case *aycoder.TextDelta:
		return ev.Text, false, true
	case *aycoder.ThinkingDelta:
		return ev.Text, true, true
	}
	return "", false, false
}

// textEvent is the reverse of textIn. An event without text is nil.
func textEvent(text string, thinks bool) aycoder.Event {
	switch {
	case text == "":
		return nil
	case thinks:
		return &aycoder.ThinkingDelta{Text: text}
	}
	return &aycoder.TextDelta{Text: text}
}

// joined returns one event for two texts that follow each other, or nil unless both are, of the same kind.
func joined(a, b aycoder.Event) aycoder.Event {
	before, thought, ok := textIn(a)
	text, thinks, too := textIn(b)
	if !ok || !too || thinks != thought {
		return nil
	}
	return textEvent(before+text, thinks)
}

// encode returns the JSON form of an event. Events always encode.
func encode(ev aycoder.Event) []byte {
	data, _ := json.Marshal(ev)
	return data
}

const batch = 64 // entries that a reader gets at once

// A page is what a reader gets of a log.
type page struct {
	entries []entry
	behind  bool // the place is none in the log: see [log.turn]
	closed  bool
	changed <-chan struct{}
}

// read returns what follows a place.
func (l *log) read(at cursor) page {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := page{closed: l.closed, changed: l.changed}
	if at.log != l.name || at.seq < l.dropped {
		p.behind = true
		return p
	}
	i, _ := slices.BinarySearchFunc(l.entries, at.seq+1, func(e entry, seq int64) int { return cmp.Compare(e.seq, seq) })
	p.entries = slices.Clone(l.entries[i:min(len(l.entries), i+batch)])
	if len(p.entries) > 0 {
		p.closed = false
		p.entries[0].trim(at.position)
	}
	return p
}

// turn returns where the log begins, what it has of the turn in which a reader is, and the place behind that. For a reader who
// has seen nothing of it, it is the place before the turn.
func (l *log) turn(seen position) (base position, events []aycoder.Event, at cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at = cursor{log: l.name, seq: l.dropped, position: l.base}
	for _, e := range l.entries {
		if at.turn > seen.turn || at.turn == seen.turn && seen.fresh() {
			break
		}
		ev, err := aycoder.DecodeEvent(e.data)
		if r, ok := ev.(*aycoder.Retrying); ok && r.Discarded {
			events = slices.DeleteFunc(events, func(ev aycoder.Event) bool { return position{}.after(ev).other == 0 })
		} else if err == nil && at.turn == seen.turn {
			events = append(events, ev)
		}
		at.seq, at.position = e.seq, e.pos
	}
	return l.base, events, at
}

// trim cuts off what a reader has seen of a text that was joined since.
func (e *entry) trim(seen position) {
	text, thinks, ok := textIn(e.ev)
	rest := e.pos.text - seen.text
	if thinks {
		rest = e.pos.think - seen.think
	}
	if ok && rest > 0 && rest < len(text) && e.pos.turn == seen.turn {
		e.data = encode(textEvent(text[len(text)-rest:], thinks))
	}
}
