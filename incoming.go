package aycoder

import (
	"bytes"
	"errors"
)

// This file tracks a response as it arrives. A client that loses or repeats deltas, or sends them
// without end, must not cost the user the text that was shown, nor the host its memory.

// emptyEvent is the number of bytes that an event without text counts, and the least that one counts which
// ends the deltas of a kind. So a stream of nothing else ends after half a million events.
const emptyEvent = 64

var errLostCall = errors.New("client told of a call and ended the message " +
	"without BlockDone or BlockTruncated for it")

// An incoming is the part of a response that was received so far: how many bytes of it are in
// memory, and the text of the deltas that no block has repeated yet.
type incoming struct {
	max int64

	blocks, open int64 // bytes of blocks, and of deltas since the last block
	text         []byte
	told, called bool // whether deltas, or a block, belonged to a call
	lost         bool // whether the last retry has discarded deltas

	kind int    // of the last event, 0 if it was no delta
	id   string // of its call
}

// next prepares in for the next message. It reuses the buffer, unless that is unusually large.
func (in *incoming) next() {
	text := in.text[:0]
	if cap(text) > maxSpare {
		text = nil
	}
	*in = incoming{max: in.max, text: text}
}

const maxSpare = 8 << 10

// note records an event. It returns text of earlier deltas for which the client has sent no block,
// and an error if the response is too large.
func (in *incoming) note(ev ModelEvent) (missed *Text, err error) {
	open := in.open
	if in.count(ev); in.blocks+in.open > in.max {
		return in.rest(), &LimitError{Limit: "response bytes", Max: in.max}
	}
	switch ev := ev.(type) {
	case *TextDelta:
		if in.text == nil {
			in.text = make([]byte, 0, max(512, len(ev.Text)))
		}
		in.text = append(in.text, ev.Text...)
	case *ToolDelta:
		in.told = true
	case *BlockTruncated:
		in.called = true
	case *BlockDone:
		switch p := ev.Part.(type) {
		case *ToolUse:
			in.called = true
		case *Text:
			return in.close(p), nil
		}
	case *Retrying: // the client sends the request again
		in.lost = open > 0
		in.text, in.told = in.text[:0], false
	case *MessageDone:
		if in.told && !in.called {
			return nil, errLostCall
		}
		return in.rest(), nil
	}
	return nil, nil
}

// count adds an event to the bytes in memory. Deltas count until a block repeats them. Even an
// event without text counts, so that an endless stream of such events ends.
func (in *incoming) count(ev ModelEvent) {
	kind, id := 0, ""
	switch ev := ev.(type) {
	case *TextDelta:
		kind = 1
	case *ThinkingDelta:
		kind = 2
	case *ToolDelta:
		kind, id = 3, ev.ID
	}
	n := eventSize(ev)
	if n == 0 || in.kind > 0 && (kind != in.kind || id != in.id) { // the outbox does not join it
		n = max(n, emptyEvent)
	}
	in.kind, in.id = kind, id
	switch ev.(type) {
	case *BlockDone, *BlockTruncated, *Retrying:
		in.blocks += max(n, in.open)
		in.open = 0
	default:
		in.open += n
	}
}

// close removes the text of a block from the text of the deltas. It returns the text before it,
// for which there is no block, or nil.
func (in *incoming) close(p *Text) *Text {
	text := in.text
	in.text = in.text[:0]
	if p == nil || len(text) <= len(p.Text) {
		return nil
	}
	before, block := text[:len(text)-len(p.Text)], text[len(text)-len(p.Text):]
	if string(block) != p.Text || len(bytes.TrimSpace(before)) == 0 {
		return nil
	}
	return &Text{Text: string(before)}
}

// rest returns the text of the deltas that no block has repeated.
func (in *incoming) rest() *Text {
	text := string(in.text)
	in.text = in.text[:0]
	if text == "" {
		return nil
	}
	return &Text{Text: text}
}
