package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

// event has the fields of an event that are used.
type event struct {
	kind    string
	index   int
	block   string // content_block, as sent
	delta   delta
	message message
	usage   usage
	failed  bool // an error is described, whatever the type
}

// A delta is one increment of a block, or of the message.
type delta struct {
	kind string
	// text is the first string among the fields, mostly the one that belongs to the kind:
	// see textField.
	text, field string
	citation    string // as sent
	stop        string
	bad         string // a field that should be a string and is not
}

// textField returns the field with the text of a frequent kind of delta, or "".
func textField(kind string) string {
	switch kind {
	case "text_delta":
		return "text"
	case "input_json_delta":
		return "partial_json"
	case "thinking_delta":
		return "thinking"
	case "signature_delta":
		return "signature"
	}
	return ""
}

// message is that of message_start, or a whole answer.
type message struct {
	kind, id, model, stop string
	content               []string // as sent
	usage                 usage
	failed                bool
}

// usage holds the token counts that an event has. A count that is null or absent must not
// change an earlier one.
type usage struct {
	input, output, cacheRead, cacheWrite, thinking count
	// compaction is what summaries of the conversation took, or nil if that was not sent: "The
	// top-level input_tokens and output_tokens do not include compaction iteration usage."
	compaction *aycoder.Usage
}

// A count is a number of tokens, or absent. A later event overwrites only the counts that
// it has, because message_delta repeats only some counts of message_start.
type count struct {
	n    int64
	said bool
}

// read takes a number. A count below 0 or beyond all sense is a mistake of the service.
func (c *count) read(r *rawjson.Reader) {
	if n, ok := r.Int(); ok {
		c.n, c.said = api.Count(n), true
	}
}

// addTo overwrites n if the count was sent, even if it is 0.
func (c *count) addTo(n *int64) {
	if c.said {
		*n = c.n
	}
}

// addTo overwrites the counts that were sent: "The token counts shown in the usage field
// of the message_delta event are cumulative." Zeros for all of the prompt, which some gateways
// send at the end, cannot be true.
func (u *usage) addTo(t *aycoder.Usage) {
	if u.input.n+u.cacheRead.n+u.cacheWrite.n > 0 {
		u.input.addTo(&t.Input)
		u.cacheRead.addTo(&t.CacheRead)
		u.cacheWrite.addTo(&t.CacheWrite)
	}
	u.output.addTo(&t.Output)
	u.thinking.addTo(&t.Reasoning)
}

// readAll reads the counts of tokens, which are cumulative. The thinking tokens are part
// of the output tokens, and are not added to them.
func (u *usage) readAll(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		if key := r.Key(); key == "iterations" && r.Kind() == '[' {
			u.readIterations(r)
		} else {
			u.read(r, key)
		}
	}
}

// read reads the value of one field.
func (u *usage) read(r *rawjson.Reader, key string) {
	switch key {
	case "input_tokens":
		u.input.read(r)
	case "output_tokens":
		u.output.read(r)
	case "cache_read_input_tokens":
		u.cacheRead.read(r)
	case "cache_creation_input_tokens":
		u.cacheWrite.read(r)
	case "output_tokens_details":
		for r.Object(); r.Next(); {
			if r.Key() == "thinking_tokens" {
				u.thinking.read(r)
			}
		}
	}
}

// readIterations adds up the iterations in which the service has summarised the conversation.
func (u *usage) readIterations(r *rawjson.Reader) {
	var sum aycoder.Usage
	for r.Array(); r.Next(); {
		var one usage
		kind := ""
		for r.Object(); r.Next(); {
			if key := r.Key(); key == "type" {
				kind, _ = r.Str()
			} else {
				one.read(r, key)
			}
		}
		if kind == "compaction" {
			var n aycoder.Usage
			one.addTo(&n)
			sum = sum.Add(n)
		}
	}
	u.compaction = &sum
}

// read parses the data of an event in one pass.
func (e *event) read(data string) error {
	r := rawjson.NewReader(data)
	if r.Kind() != '{' {
		return errors.New("not a JSON object")
	}
	var bad error
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			e.kind, _ = r.Str()
		case "index":
			n, ok := r.Int()
			if e.index = int(n); !ok {
				bad = errors.New("index is not a number")
			}
		case "message":
			e.message.read(r)
		case "content_block":
			e.block = r.Raw()
		case "delta":
			e.delta.read(r)
		case "usage":
			e.usage.readAll(r)
		case "error":
			e.failed = r.Kind() == '{' || r.Kind() == '"'
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	return bad
}

// read reads a delta of any type; unknown fields are left out.
func (d *delta) read(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch key := r.Key(); key {
		case "type":
			d.kind, _ = r.Str()
		case "text", "partial_json", "thinking", "signature":
			d.readText(r, key)
		case "citation":
			d.citation = r.Raw()
		case "stop_reason":
			d.stop, _ = r.Str()
		}
	}
}

// readText takes the text of the field that belongs to the type of the delta. The text of
// another field counts only if that field is missing.
func (d *delta) readText(r *rawjson.Reader, key string) {
	kind := r.Kind()
	text, ok := r.Str()
	switch {
	case ok && (d.field == "" || textField(d.kind) == key):
		d.text, d.field = text, key
	case !ok && kind != 'n':
		d.bad = key
	}
}

// read reads the message of message_start, or a whole answer.
func (m *message) read(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			m.kind, _ = r.Str()
		case "id":
			m.id, _ = r.Str()
		case "model":
			m.model, _ = r.Str()
		case "stop_reason":
			m.stop, _ = r.Str()
		case "content":
			for r.Array(); r.Next(); {
				m.content = append(m.content, r.Raw())
			}
		case "usage":
			m.usage.readAll(r)
		case "error":
			m.failed = r.Kind() == '{' || r.Kind() == '"'
		}
	}
}

// A decoder converts one response to model events.
type decoder struct {
	call   *api.Call
	newest *block   // the last one that began, or nil
	open   []*block // in the order in which they began, until they are emitted
	held   *block   // the block that stopped last, if it may be cut off; see looksWhole
	done   aycoder.MessageDone
	begun  bool
	called bool // there was a call
	// compaction is what summaries of the conversation took so far, beside the answer.
	compaction aycoder.Usage
	ids        map[string]bool
	names      map[string]string // original names of renamed tools, by their names on the wire
}

// Event implements [api.Decoder].
func (d *decoder) Event(ev sse.Event) (done bool, err error) {
	if name, failed := strings.CutPrefix(ev.Type, eventstream.Failure); failed {
		f := api.ParseFailure([]byte(ev.Data), nil)
		f.Type = name
		return true, d.call.Fail(f)
	}
	var e event
	if err := e.read(ev.Data); err != nil {
		if ev.Data == "[DONE]" {
			return false, nil
		}
		if ev.Type == "error" {
			return true, d.call.Fail(api.ParseFailure([]byte(ev.Data), nil))
		}
		kind := d.call.Config().Show(ev.Type, 50)
		return false, d.call.Garbled(fmt.Sprintf("event %q", kind), err, ev.Data)
	}
	if e.kind == "" {
		e.kind = ev.Type
	}
	return d.handle(&e, ev.Data)
}

// View implements [api.ViewDecoder]. View is a fast path that does not copy the whole
// event. It handles the usual events, and copies only what the decoder keeps. For any other
// event it returns false, and [decoder.Event] handles a copy of the event.
func (d *decoder) View(ev sse.Event) (taken bool, err error) {
	var p delta
	if index, ok := p.scan(ev.Data); ok {
		return true, d.delta(index, &p, ev.Data)
	}
	switch ev.Type {
	case "message_start", "content_block_start", "content_block_stop", "message_delta", "ping":
		return d.frame(ev)
	}
	return false, nil
}

// frame handles an event that begins or ends something, if its data agrees with its type.
func (d *decoder) frame(ev sse.Event) (taken bool, err error) {
	var e event
	if e.read(ev.Data) != nil || e.kind != ev.Type || e.failed {
		return false, nil
	}
	_, err = d.handle(&e, ev.Data)
	return true, err
}

// handle handles an event. Unknown types are ignored, as the API's versioning policy asks
// for.
func (d *decoder) handle(e *event, data string) (done bool, err error) {
	if e.failed {
		e.kind = "error"
	}
	switch e.kind {
	case "content_block_delta":
		return false, d.delta(e.index, &e.delta, data)
	case "message_start":
		return false, d.start(&e.message)
	case "content_block_start":
		return false, d.startBlock(e.index, e.block)
	case "content_block_stop":
		return false, d.stopBlock(e.index)
	case "message_delta":
		return false, d.messageDelta(e)
	case "message_stop":
		return true, d.finish()
	case "ping":
		d.call.Ping()
	case "error":
		return true, d.call.Fail(api.ParseFailure([]byte(data), nil))
	case "":
		if !d.begun {
			return true, d.call.Refuse([]byte(data))
		}
	}
	// "New event types may be added in the future. Your code should handle unknown
	// event types gracefully."
	return false, nil
}

// start handles message_start. Blocks in it are complete.
func (d *decoder) start(m *message) error {
	d.begun = true
	d.done.ID, d.done.Model = strings.Clone(m.id), strings.Clone(m.model)
	d.stopped(m.stop)
	d.used(&m.usage)
	for _, raw := range m.content {
		if err := d.startBlock(-1, raw); err != nil {
			return err
		}
		if err := d.stopBlock(-1); err != nil {
			return err
		}
	}
	return nil
}

// Whole implements [api.Decoder].
func (d *decoder) Whole(data string) error {
	r := rawjson.NewReader(data)
	var m message
	m.read(r)
	if err := r.End(); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	if m.kind == "error" || m.failed || m.kind == "" && m.content == nil {
		return d.call.Refuse([]byte(data))
	}
	if m.kind != "message" || m.stop == "" {
		return fmt.Errorf("decode message: not a complete message, type %q", d.call.Config().Show(m.kind, 50))
	}
	if err := d.start(&m); err != nil {
		return err
	}
	return d.finish()
}

// End implements [api.Decoder].
func (d *decoder) End() error { return api.ErrUnfinished }

// stopped records the stop reason in the terms that all providers share.
func (d *decoder) stopped(reason string) {
	switch aycoder.StopReason(reason) {
	case "":
	case "model_context_window_exceeded":
		d.done.Stop = aycoder.StopMaxTokens
	case "pause_turn":
		d.done.Stop = aycoder.StopPaused
	case aycoder.StopEndTurn:
		d.done.Stop = aycoder.StopEndTurn
	case aycoder.StopToolUse:
		d.done.Stop = aycoder.StopToolUse
	default:
		d.done.Stop = aycoder.StopReason(strings.Clone(reason))
	}
}

func (d *decoder) messageDelta(e *event) error {
	if !d.begun {
		return errors.New("message_delta before message_start")
	}
	d.stopped(e.delta.stop)
	d.used(&e.usage)
	return nil
}

// used takes the counts of an event.
func (d *decoder) used(u *usage) {
	if u.addTo(&d.done.Usage); u.compaction != nil {
		d.compaction = *u.compaction
	}
}

// finish ends the message. A text without an end is usable, like the rest of a truncated
// message; a call without an end is not.
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
	d.done.Usage = d.done.Usage.Add(d.compaction)
	return d.call.Emit(&d.done)
}

// cutsOff reports whether a message with this stop reason may end in an incomplete call.
func cutsOff(r aycoder.StopReason) bool {
	return r == aycoder.StopMaxTokens || r == aycoder.StopRefusal
}

// looksWhole reports whether only the next event shows if b is complete. A call without
// arguments may have been cut off right after its name. Arguments that came in one piece
// may have been completed by the service. Any other truncated call is recognized by its
// arguments, which are not valid JSON.
func looksWhole(b *block) bool {
	return b.head.Type == "tool_use" &&
		(b.index < 0 || b.text.Len() == 0)
}

// emptyArgs reports whether the input at the start of a call is empty.
func emptyArgs(raw json.RawMessage) bool {
	if rawjson.IsNull(raw) {
		return true
	}
	o, err := rawjson.Parse(raw)
	return err == nil && len(o) == 0
}
