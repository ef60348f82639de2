package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/sse"
)

// event is the data of any event that is not a plain delta.
type event struct {
	Type         string
	Index        int
	Message      *message
	ContentBlock json.RawMessage
	Delta        json.RawMessage
	Usage        *usage
}

// message is that of message_start, and a whole answer.
type message struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      *usage            `json:"usage"`
}

// usage has pointers since null and absent numbers leave what was said before.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Details    *struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// addTo overwrites what u says: "The token counts shown in the usage field of the
// message_delta event are cumulative."
func (u *usage) addTo(t *aycoder.Usage) {
	if u == nil {
		return
	}
	set := func(to, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	set(&t.Input, u.Input)
	set(&t.Output, u.Output)
	set(&t.CacheRead, u.CacheRead)
	set(&t.CacheWrite, u.CacheWrite)
	if u.Details != nil {
		set(&t.Reasoning, u.Details.Thinking)
	}
}

// A decoder turns one response into model events.
type decoder struct {
	yield func(aycoder.ModelEvent, error) bool
	call  *call

	done   aycoder.MessageDone
	open   []*block // in the order in which they began, until they are given away
	held   *block   // the last that stopped, if it is one of them, see looksWhole
	begun  bool
	called bool // there was a call
	heard  bool // an event came that is no ping
}

func (d *decoder) emit(ev aycoder.ModelEvent) error {
	if !d.yield(ev, nil) {
		return errStopped
	}
	return nil
}

// event takes one event and reports whether it was the last.
func (d *decoder) event(ev sse.Event) (done bool, err error) {
	if ev.Data == "" {
		return false, nil
	}
	if !utf8.ValidString(ev.Data) {
		ev.Data = strings.ToValidUTF8(ev.Data, "\uFFFD")
	}
	if delta, ok := scanDelta(ev.Data); ok {
		d.heard = true
		return false, d.delta(&delta)
	}
	e, err := parseEvent([]byte(ev.Data))
	if err != nil {
		if ev.Data == "[DONE]" {
			return false, nil
		}
		kind, text := d.call.c.cfg.show(ev.Type, 50), d.call.c.cfg.show(ev.Data, 200)
		return false, fmt.Errorf("decode event %q: %w: %s", kind, err, text)
	}
	if e.Type == "" {
		e.Type = ev.Type
	}
	d.heard = d.heard || e.Type != "ping"
	return d.handle(&e, ev.Data)
}

// parseEvent splits an event; what is in its fields is decoded where it is used.
func parseEvent(data []byte) (e event, err error) {
	o, err := parseObject(data)
	if err != nil {
		return e, err
	}
	for _, f := range o {
		switch f.key {
		case "type":
			e.Type, err = str("type", f.val)
		case "index":
			if e.Index, err = strconv.Atoi(string(f.val)); err != nil {
				err = errors.New("index is not a number")
			}
		case "message":
			err = json.Unmarshal(f.val, &e.Message)
		case "content_block":
			e.ContentBlock = f.val
		case "delta":
			e.Delta = f.val
		case "usage":
			err = json.Unmarshal(f.val, &e.Usage)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

func (d *decoder) handle(e *event, data string) (done bool, err error) {
	switch e.Type {
	case "message_start":
		return false, d.start(e.Message)
	case "content_block_start":
		return false, d.startBlock(e.Index, e.ContentBlock)
	case "content_block_delta":
		return false, d.anyDelta(e)
	case "content_block_stop":
		return false, d.stopBlock(e.Index)
	case "message_delta":
		return false, d.messageDelta(e)
	case "message_stop":
		return true, d.finish()
	case "error":
		return true, d.apiError([]byte(data))
	}
	// "New event types may be added in the future. Your code should handle unknown
	// event types gracefully."
	return false, nil
}

func (d *decoder) apiError(data []byte) error {
	var e errorEvent
	if err := json.Unmarshal(data, &e); err != nil || e.Error == (apiError{}) {
		e.Error.Message = d.call.c.cfg.show(string(data), 200)
	}
	if d.call.requestID == "" {
		d.call.requestID = d.call.c.cfg.show(e.RequestID, maxID)
	}
	err := d.call.classify(&e.Error, nil)
	if base, ok := err.(*aycoder.ModelError); ok { // of a kind that says nothing
		return d.call.broken(base)
	}
	return err
}

// start takes message_start. Blocks that are in it are complete.
func (d *decoder) start(m *message) error {
	d.begun = true
	if m == nil {
		return nil
	}
	d.done.ID, d.done.Model = m.ID, m.Model
	d.stopped(m.StopReason)
	m.Usage.addTo(&d.done.Usage)
	return d.blocks(m.Content)
}

func (d *decoder) blocks(content []json.RawMessage) error {
	for _, raw := range content {
		if err := d.startBlock(-1, raw); err != nil {
			return err
		}
		if err := d.stopBlock(-1); err != nil {
			return err
		}
	}
	return nil
}

// whole takes an answer that is one JSON document.
func (d *decoder) whole(data []byte) error {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return wrap("decode message", err)
	}
	if m.Type == "error" {
		return d.apiError(data)
	}
	if m.Type != "message" || m.StopReason == "" {
		return fmt.Errorf("decode message: not a complete message, type %q", d.call.c.cfg.show(m.Type, 50))
	}
	if err := d.start(&m); err != nil {
		return err
	}
	return d.finish()
}

// stopped keeps why the model stopped, in the words that all providers share.
func (d *decoder) stopped(reason string) {
	switch reason {
	case "":
		return
	case "pause_turn":
		reason = string(aycoder.StopPaused)
	}
	d.done.Stop = aycoder.StopReason(reason)
}

func (d *decoder) messageDelta(e *event) error {
	if !d.begun {
		return errors.New("message_delta before message_start")
	}
	var delta struct {
		StopReason string `json:"stop_reason"`
	}
	if len(e.Delta) > 0 {
		if err := json.Unmarshal(e.Delta, &delta); err != nil {
			return wrap("decode message_delta", err)
		}
	}
	d.stopped(delta.StopReason)
	e.Usage.addTo(&d.done.Usage)
	return nil
}

// finish ends the message. Text that never stopped is as good as the rest of a
// message that was cut off; a call is not.
func (d *decoder) finish() error {
	if !d.begun {
		return errors.New("message_stop before message_start")
	}
	slices.SortStableFunc(d.open, blockOrder)
	for _, b := range d.open {
		cut := !b.stopped || b == d.held && cutsOff(d.done.Stop)
		if err := d.emitPart(b, cut); err != nil {
			return err
		}
	}
	d.open, d.held = nil, nil
	if d.done.Stop == "" {
		d.done.Stop = aycoder.StopEndTurn
		if d.called {
			d.done.Stop = aycoder.StopToolUse
		}
	}
	return d.emit(&d.done)
}

// cutsOff reports whether a message that stopped so may end in an incomplete call.
func cutsOff(r aycoder.StopReason) bool {
	return r == aycoder.StopMaxTokens || r == aycoder.StopRefusal || r == "model_context_window_exceeded"
}

// looksWhole reports whether b may be complete or not, which is known only when it
// is known what comes next: a call without arguments may have been cut off right
// after its name. Any other call that was cut off has arguments that are not valid
// JSON, except in a whole message, where the service has repaired them.
func looksWhole(b *block) bool {
	return b.head.Type == "tool_use" &&
		(b.index < 0 || len(b.text) == 0 && emptyArgs(b.head.Input))
}
