package openai

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

// A respDecoder reads one response. The items of the output come one after the other,
// as a rule. They are given away in the order in which they began, whichever is
// complete first, and so are their pieces.
type respDecoder struct {
	call  *api.Call
	owner string
	names map[string]string // of tools that had to be mapped, as they are on the wire
	done  aycoder.MessageDone

	r       rawjson.Reader
	all     []*respItem
	open    []*respItem // that were not given away
	front   *respItem   // the one of them whose pieces are given away as they come
	byIndex map[int64]*respItem
	latest  *respItem // of the last event
	whole   int       // items that were complete
	ended   bool      // no more comes

	status, reason string
	refused        bool
	calls          int
	ids            map[string]bool // of calls
	seed           maphash.Seed    // of sums
}

func newRespDecoder(k *api.Call, owner string, names map[string]string) *respDecoder {
	return &respDecoder{call: k, owner: owner, names: names, seed: maphash.MakeSeed()}
}

const (
	// maxItems is how many items a response may have.
	maxItems = 10_000
	// maxOpenItems is how many of them may have begun without being complete, and how
	// many parts an item may have.
	maxOpenItems = 1000
)

var errRespMany = errors.New("too many items or parts")

// A respEvent is what is read of an event. What is raw is JSON as it stands.
type respEvent struct {
	typ   string
	delta string
	text  string // all of what the deltas said
	raw   string // the item or the response
	item  string // its id
	index int64  // of the item; less than 0 if there is none
	sub   int64  // of the part in the item

	failed bool // there is an error that says something
}

// Event implements [api.Decoder].
func (d *respDecoder) Event(ev sse.Event) (bool, error) {
	if ev.Data == "[DONE]" {
		return false, nil // has no place in this API; it does not end a message
	}
	if ev.Type == "error" {
		return true, d.call.Fail(respFailure(ev.Data))
	}
	e, err := d.read(ev.Data)
	if err != nil {
		return false, d.call.Garbled("event", err, ev.Data)
	}
	if e.typ == "" {
		e.typ = ev.Type
	}
	if e.failed && e.index < 0 && e.raw == "" {
		// Whatever its type: services and gateways have names of their own for it. One
		// with an index is of an item, such as a call of the service's own tools.
		return true, d.call.Fail(respFailure(ev.Data))
	}
	if kind, place, ok := piece(e.typ); ok {
		return false, d.delta(&e, kind, place)
	}
	switch e.typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true, d.terminal(&e)
	case "error":
		return true, d.call.Fail(respFailure(ev.Data))
	case "keepalive":
		d.call.Ping()
	case "":
		if d.status == "" && len(d.all) == 0 {
			return true, d.call.Refuse([]byte(ev.Data))
		}
	default:
		return false, d.other(&e)
	}
	return false, nil
}

// View implements [api.ViewDecoder]: it takes the pieces.
func (d *respDecoder) View(ev sse.Event) (taken bool, err error) {
	e, err := d.read(ev.Data)
	if err != nil || e.failed {
		return false, nil
	}
	kind, place, ok := piece(cmp.Or(e.typ, ev.Type))
	if !ok || ev.Type == "error" {
		return false, nil
	}
	e.delta = strings.Clone(e.delta)
	return true, d.delta(&e, kind, place)
}

// piece says of what an event brings a piece, if it does.
func piece(typ string) (kind respKind, place respPlace, ok bool) {
	switch typ {
	case "response.output_text.delta":
		return respMessage, respPlain, true
	case "response.reasoning_summary_text.delta":
		return respReasoning, respSummary, true
	case "response.reasoning_text.delta":
		return respReasoning, respPlain, true
	case "response.function_call_arguments.delta":
		return respCall, respPlain, true
	}
	return 0, 0, false
}

// other takes the events that come once for an item or a part.
func (d *respDecoder) other(e *respEvent) error {
	switch e.typ {
	case "response.refusal.delta":
		return d.delta(e, respMessage, respRefusal)
	case "response.output_text.done":
		return d.rest(e, respMessage, respPlain)
	case "response.refusal.done":
		return d.rest(e, respMessage, respRefusal)
	case "response.reasoning_summary_text.done":
		return d.rest(e, respReasoning, respSummary)
	case "response.reasoning_text.done":
		return d.rest(e, respReasoning, respPlain)
	case "response.function_call_arguments.done":
		return d.rest(e, respCall, respPlain)
	case "response.output_item.added":
		return d.added(e)
	case "response.output_item.done":
		if e.index < 0 {
			return d.completed(d.finished(e.raw), e.index, e.raw)
		}
		return d.completed(d.find(e.index, ""), e.index, e.raw)
	case "response.created", "response.in_progress", "response.queued":
		_, err := d.response(e.raw)
		return err
	}
	return nil // what the service's own tools are doing, and what is new
}

// read takes an event apart, in one pass.
func (d *respDecoder) read(data string) (respEvent, error) {
	e := respEvent{index: -1}
	r := &d.r
	r.Reset(data)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			e.typ, _ = r.Str()
		case "delta":
			e.delta, _ = r.Str()
		case "output_index":
			if n, ok := r.Int(); ok && n >= 0 {
				e.index = n
			}
		case "content_index", "summary_index":
			e.sub, _ = r.Int()
		case "item_id":
			e.item, _ = r.Str()
		case "item", "response":
			e.raw = r.Raw()
		case "text", "arguments", "refusal":
			e.text, _ = r.Str()
		case "error":
			e.failed = respFault(r) != ""
		}
	}
	return e, r.End()
}

// respFault reads an error. What says nothing is none: {}, "", false and null are in
// responses that are complete.
func respFault(r *rawjson.Reader) string {
	kind, raw := r.Kind(), r.Raw()
	if kind != '{' && kind != '"' || len(raw) < 3 || strings.TrimSpace(raw[1:len(raw)-1]) == "" {
		return ""
	}
	return raw
}

// respFailure takes an error apart: {"type":"error","error":{…}} in events, and
// {"type":"error","code":…,"message":…} in the API's description.
func respFailure(data string) api.Failure {
	r := rawjson.NewReader(data)
	for r.Object(); r.Next(); {
		if r.Key() != "error" {
			continue
		}
		if raw := respFault(r); raw != "" {
			return api.ParseFailure([]byte(raw), nil)
		}
	}
	f := api.ParseFailure([]byte(data), nil)
	if f.Type == "error" {
		f.Type = ""
	}
	return f
}

// response reads the fields of a response, and returns its items.
func (d *respDecoder) response(raw string) (items []string, err error) {
	r := rawjson.NewReader(raw)
	failure := ""
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "id":
			respString(r, &d.done.ID)
		case "model":
			respString(r, &d.done.Model)
		case "status":
			respString(r, &d.status)
		case "incomplete_details":
			d.incomplete(r)
		case "error":
			failure = respFault(r)
		case "usage":
			d.usage(r)
		case "output":
			for r.Array(); r.Next(); {
				items = append(items, r.Raw())
			}
		}
	}
	switch err := r.End(); {
	case err != nil:
		return nil, d.call.Garbled("response", err, raw)
	case failure != "":
		return nil, d.call.Fail(api.ParseFailure([]byte(failure), nil))
	}
	return items, nil
}

// incomplete reads why a response is not complete.
func (d *respDecoder) incomplete(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		if r.Key() == "reason" {
			respString(r, &d.reason)
		}
	}
}

// respString reads a string; anything else, and an empty one, changes nothing. It is a
// copy, since the string would hold the whole event.
func respString(r *rawjson.Reader, to *string) {
	if s, ok := r.Str(); ok && s != "" {
		*to = strings.Clone(s)
	}
}

// usage reads the tokens. Those from and for the cache are part of input_tokens, and
// those of reasoning of output_tokens.
func (d *respDecoder) usage(r *rawjson.Reader) {
	if r.Kind() != '{' {
		return
	}
	u := chatUsage{}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "input_tokens":
			u.input = tokenCount(r)
		case "output_tokens":
			u.output = tokenCount(r)
		case "total_tokens":
			u.total = tokenCount(r)
		case "input_tokens_details", "output_tokens_details":
			for r.Object(); r.Next(); {
				switch r.Key() {
				case "cached_tokens":
					u.cached = tokenCount(r)
				case "cache_write_tokens":
					u.cacheWrite = tokenCount(r)
				case "reasoning_tokens":
					u.reasoning = tokenCount(r)
				}
			}
		}
	}
	if u.total == 0 || u.total == u.input+u.output {
		u.output = max(u.output, u.reasoning)
	}
	d.done.Usage = u.usage()
}

// Whole implements [api.Decoder].
func (d *respDecoder) Whole(data string) error {
	items, err := d.response(data)
	if err != nil {
		return err
	}
	if d.status == "" && items == nil {
		return d.call.Refuse([]byte(data))
	}
	for i, raw := range items {
		if err := d.completed(nil, int64(i), raw); err != nil {
			return err
		}
	}
	return d.finish()
}

// terminal takes the last event. It has all items again, where the service does not
// leave them out.
func (d *respDecoder) terminal(e *respEvent) error {
	items, err := d.response(e.raw)
	if err != nil {
		return err
	}
	if e.typ == "response.failed" {
		return d.call.Fail(api.ParseFailure([]byte(e.raw), nil))
	}
	if d.status == "" || d.status == "in_progress" || d.status == "queued" {
		d.status = e.typ[len("response."):]
	}
	if err := d.backfill(items); err != nil {
		return err
	}
	return d.finish()
}

// finish gives away what is left, and ends the message. If it was cut off, so was its
// last item if that is a call without arguments: none of them had come.
func (d *respDecoder) finish() error {
	d.ended = true
	for i, it := range d.open {
		if !it.complete || i == len(d.open)-1 && it.noArgs() && !d.entire() {
			it.complete, it.cut = true, true
		}
	}
	if err := d.advance(); err != nil {
		return err
	}
	stop, err := d.stop()
	if err != nil {
		return err
	}
	done := d.done // of its own, since it would hold all that came
	done.Stop = stop
	return d.call.Emit(&done)
}

// entire reports whether the service says that nothing is missing.
func (d *respDecoder) entire() bool {
	return d.reason == "" && (d.status == "completed" || d.status == "complete" || d.status == "")
}

// stop is why the model stopped.
func (d *respDecoder) stop() (aycoder.StopReason, error) {
	switch {
	case d.status == "failed":
		return "", d.call.Broken(errors.New("the response failed, without a reason"))
	case d.reason == "max_output_tokens", d.reason == "max_tokens", d.reason == "length":
		return aycoder.StopMaxTokens, nil
	case d.reason == "content_filter", d.refused:
		return aycoder.StopRefusal, nil
	case d.reason != "":
		return aycoder.StopReason(d.reason), nil
	case d.status == "incomplete":
		return aycoder.StopMaxTokens, nil // the usual reason, where none is said
	case !d.entire():
		return aycoder.StopReason(d.status), nil // "queued": it works in the background
	case d.calls > 0:
		return aycoder.StopToolUse, nil
	}
	return aycoder.StopEndTurn, nil
}

// End implements [api.Decoder].
func (d *respDecoder) End() error {
	if d.status != "" {
		return fmt.Errorf("response is %s: %w", d.call.Config().Show(d.status, 50), api.ErrUnfinished)
	}
	return api.ErrUnfinished
}
