package bedrock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/eventstream"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

// The events of ConverseStream, one JSON document each, whose type is in a header of the
// message. The field of a start or a delta names its kind; one that is not known is kept as
// it is, for the next request.

// event has the fields of an event's payload that are used.
type event struct {
	index int
	// Kind is the name of the content in a start or a delta, such as "toolUse". The
	// following fields are that content; raw is JSON text, and the whole start or delta
	// if its kind is unknown.
	kind string
	call start
	text string // of a text, of reasoning, or of arguments
	sig  string
	raw  string
	stop string
	use  *aycoder.Usage
}

// start is the start of a call.
type start struct{ id, name, kind string }

// read parses a payload in one pass.
func (e *event) read(data string) error {
	r := rawjson.NewReader(data)
	if r.Kind() != '{' {
		return errors.New("not a JSON object")
	}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "contentBlockIndex":
			n, _ := r.Int()
			e.index = int(n)
		case "delta":
			e.delta(r)
		case "start":
			e.start(r)
		case "stopReason":
			e.stop, _ = r.Str()
		case "usage":
			e.use = readUsage(r)
		}
	}
	return r.End()
}

// delta reads a piece of a block. The key of its only field is its kind. The arguments of a
// call come as pieces of JSON text in a string, and are put together like a text.
func (e *event) delta(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		e.kind = r.Key()
		switch e.kind {
		case "text":
			e.text, _ = r.Str()
		case "toolUse":
			for r.Object(); r.Next(); {
				if r.Key() == "input" {
					e.text, _ = r.Str()
				}
			}
		case "reasoningContent":
			e.reasoning(r)
		default:
			e.raw = r.Raw()
		}
	}
}

// reasoning reads a delta: text, a signature, or redacted content. Redacted content becomes
// a separate kind, because it is sent back unread, while a text is shown and its signature
// is attached to it.
func (e *event) reasoning(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "text":
			e.text, _ = r.Str()
		case "signature":
			e.sig, _ = r.Str()
		case "redactedContent":
			e.kind, e.raw = "redactedContent", r.Raw()
		}
	}
}

// start reads the start of a block, and keeps it: of unknown kinds, all of it is needed
// later.
func (e *event) start(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		e.kind = r.Key()
		e.raw = r.Raw()
		if e.kind != "toolUse" {
			continue
		}
		e.call.read(e.raw)
	}
}

// read reads what identifies a call.
func (s *start) read(raw string) {
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "toolUseId":
			s.id, _ = r.Str()
		case "name":
			s.name, _ = r.Str()
		case "type":
			s.kind, _ = r.Str()
		}
	}
}

// readUsage reads the token counts. "inputTokens" excludes cached tokens: totalTokens is
// the sum of all four.
func readUsage(r *rawjson.Reader) *aycoder.Usage {
	u := &aycoder.Usage{}
	for r.Object(); r.Next(); {
		n, _ := r.Int()
		n = api.Count(n)
		switch r.Key() {
		case "inputTokens":
			u.Input = n
		case "outputTokens":
			u.Output = n
		case "cacheReadInputTokens":
			u.CacheRead = n
		case "cacheWriteInputTokens":
			u.CacheWrite = n
		}
	}
	return u
}

// A decoder converts one response to model events.
type decoder struct {
	call *api.Call

	done    aycoder.MessageDone
	open    []*block // in the order in which they began, until they are emitted
	ids     map[string]bool
	names   map[string]string // original names of renamed tools, by their names on the wire
	begun   bool
	called  bool // there was a call
	stopped bool
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
		return false, d.call.Garbled(fmt.Sprintf("event %q", d.call.Config().Show(ev.Type, 50)), err, ev.Data)
	}
	switch ev.Type {
	case "contentBlockDelta":
		return false, d.addDelta(&e)
	case "messageStart":
		d.begun = true
	case "contentBlockStart":
		return false, d.startBlock(&e)
	case "contentBlockStop":
		return false, d.stopBlock(e.index)
	case "messageStop":
		return false, d.stop(e.stop)
	case "metadata":
		if e.use != nil {
			d.done.Usage = *e.use
		}
		if d.stopped {
			return true, d.finish()
		}
	}
	return false, nil
}

// End implements [api.Decoder]. The message is complete if its stop event has arrived,
// even if the event with the usage, which comes later, is missing.
func (d *decoder) End() error {
	if !d.stopped {
		return api.ErrUnfinished
	}
	return d.finish()
}

// stop records the stop reason, and completes all blocks.
func (d *decoder) stop(reason string) error {
	if !d.begun {
		return errors.New("messageStop before messageStart")
	}
	d.stopped = true
	switch reason {
	case "model_context_window_exceeded":
		reason = string(aycoder.StopMaxTokens)
	case "guardrail_intervened", "content_filtered":
		reason = string(aycoder.StopRefusal)
	}
	d.done.Stop = aycoder.StopReason(reason)
	return d.giveAll()
}

// finish ends the message. Models behind this API report "end_turn" for calls now and then.
func (d *decoder) finish() error {
	if d.done.Stop == "" {
		d.done.Stop = aycoder.StopEndTurn
	}
	if d.called && d.done.Stop == aycoder.StopEndTurn {
		d.done.Stop = aycoder.StopToolUse // the presence of calls decides
	}
	if strings.HasPrefix(string(d.done.Stop), "malformed_") && !d.called {
		// "malformed_tool_use", "malformed_model_output": there is no answer.
		stop := string(d.done.Stop)
		return &aycoder.StreamBrokenError{ModelError: d.call.Base(stop, errors.New(stop)),
			After: d.call.Elapsed()}
	}
	d.done.Model, d.done.ID = d.call.Model(), d.call.RequestID
	return d.call.Emit(&d.done)
}

// cutsOff reports whether a message with this stop reason may end in an incomplete call.
func cutsOff(r aycoder.StopReason) bool {
	return r == aycoder.StopMaxTokens || r == aycoder.StopRefusal ||
		strings.HasPrefix(string(r), "malformed_")
}

// Whole implements [api.Decoder].
func (d *decoder) Whole(data string) error {
	var content []string
	reason, found := "", false
	r := rawjson.NewReader(data)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "output":
			content, found = readOutput(r)
		case "stopReason":
			reason, _ = r.Str()
		case "usage":
			d.done.Usage = *readUsage(r)
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	switch {
	case !found:
		return d.call.Refuse([]byte(data))
	case reason == "":
		return api.ErrUnfinished
	}
	d.begun = true
	for i, raw := range content {
		if err := d.wholeBlock(i, raw); err != nil {
			return err
		}
	}
	if err := d.stop(reason); err != nil {
		return err
	}
	return d.finish()
}

// readOutput returns the blocks of the message as JSON text.
func readOutput(r *rawjson.Reader) (content []string, found bool) {
	for r.Object(); r.Next(); {
		if r.Key() != "message" {
			continue
		}
		found = r.Kind() == '{'
		for r.Object(); r.Next(); {
			if r.Key() != "content" {
				continue
			}
			for r.Array(); r.Next(); {
				content = append(content, r.Raw())
			}
		}
	}
	return content, found
}
