package compaction

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/original"
)

// A conversation is what is remembered of a conversation between two requests, so that only new
// messages cost anything. It can be made anew from the history and the note.
type conversation struct {
	*Compactor

	// The mutex of the Compactor guards these.
	run  string          // the last run
	done <-chan struct{} // is closed when that is over; nil if it is

	held atomic.Int64 // bytes of messages

	mu       sync.Mutex
	messages []*aycoder.Message // the history
	head     int                // messages of the first request
	note     note
	text     json.RawMessage // of note, or nil
	reads    map[string]bool // calls that read what a later one has read again, before note.At
	original original.Finder // of the run

	out       []*aycoder.Message // of the request
	size      int64              // of these, in bytes, about
	shortened int                // how many texts the note shortens

	digest *digest // or nil. It is not a part of the note: it can be made again.
	heard

	sent     *aycoder.Request // the last one
	sentTurn int

	service
}

// conversation returns what is known of a conversation, for a run that is over when done is closed. find
// returns messages of which the run has only outlines. The caller unlocks it.
func (c *Compactor) conversation(in *aycoder.ContextInput, done <-chan struct{}, find original.Finder) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.used, func(v *conversation) bool { return (v.run == in.Run || v.over()) && v.lockIf(in, find) })
	var v *conversation
	if i < 0 {
		v = &conversation{Compactor: c}
		v.mu.Lock()
	} else {
		v = c.used[i]
		c.used = slices.Delete(c.used, i, i+1)
	}
	if in.Run == "" || in.Run != v.run { // the list may be that of the host, who may change it
		in.Messages = slices.Clone(in.Messages)
	}
	v.run, v.done = in.Run, done
	known, bytes := 0, int64(0)
	c.used = slices.DeleteFunc(c.used, func(v *conversation) bool {
		if known++; !v.over() {
			return known >= maxRuns
		}
		bytes += v.held.Load()
		return known >= maxKnown || bytes > maxIdle
	})
	c.used = slices.Insert(c.used, 0, v)
	return v
}

// over reports whether the last run of v is over. Recall needs those that are not, and these have their
// messages in memory anyway.
func (v *conversation) over() bool {
	select {
	case <-v.done:
		return true
	default:
		return v.done == nil
	}
}

// lockIf locks v if the history begins with that of v, and reports whether it does. It stays locked until
// it has the new history: another run may continue the old one in another way.
func (v *conversation) lockIf(in *aycoder.ContextInput, find original.Finder) bool {
	if !v.mu.TryLock() { // another run of the same conversation
		return false
	}
	n := len(v.messages)
	if n > 0 && n <= len(in.Messages) && (v.run == in.Run && &v.messages[0] == &in.Messages[0] || v.begins(in.Messages, find)) {
		return true
	}
	v.mu.Unlock()
	return false
}

// begins reports whether a history begins with that of v. It may have outlines of messages that were whole
// then: find returns the same messages as long as they are in use. The outlines of one message may differ: the
// messages after it say that it is the same conversation.
func (v *conversation) begins(messages []*aycoder.Message, find original.Finder) bool {
	for i, m := range v.messages {
		now := messages[i]
		if m == now || original.IsOutline(now) && original.IsOutline(m) {
			continue
		}
		if now, _ = find(i, now); m != now {
			return false
		}
	}
	return true
}

// follow takes the present history and its note.
func (v *conversation) follow(messages []*aycoder.Message, raw json.RawMessage) {
	known := len(v.messages)
	if known == 0 {
		v.held.Store(0)
	}
	for _, m := range messages[known:] {
		v.held.Add(sizeOf(m.Parts))
	}
	if known < len(messages) {
		v.messages = messages
	}
	if string(raw) != string(v.text) || known == 0 {
		v.text = raw
		v.load()
		return
	}
	for i := known; i < len(messages); i++ {
		v.show(i)
	}
}
