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

// The events of the Responses API come in three forms of the same content: pieces, the
// whole of a part, and complete items; the last event has all items once more. Services
// that imitate the API leave out any of the three, number them differently, or send them
// out of order. So each form is compared with what is known already: it may confirm it,
// complete it, or contradict it, and a call that was contradicted is not run.

// A respDecoder reads one response. Items of the output normally follow one another. They
// and their pieces are emitted in the order in which the items began, whichever is
// complete first.
type respDecoder struct {
	call   *api.Call
	latest *respItem // of the last event
	front  *respItem // the item whose pieces are emitted as they come
	again  respAgain

	owner   string
	names   map[string]string // original names of renamed tools, by their names on the wire
	done    aycoder.MessageDone
	r       rawjson.Reader
	all     []*respItem
	open    []*respItem // that were not emitted yet
	byIndex map[int64]*respItem
	whole   int  // number of complete items
	ended   bool // the response has ended

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
	// maxItems is the maximum number of items of a response.
	maxItems = 10_000
	// maxOpenItems is the maximum number of incomplete items, and of the parts of an
	// item.
	maxOpenItems = 1000
)

var errRespMany = errors.New("too many items or parts")

// A respEvent has the fields of an event. Raw fields are JSON text.
type respEvent struct {
	delta string
	item  string // its id
	index int64  // of the item; negative if absent
	sub   int64  // of the part in the item

	typ    string
	text   string // the whole text, after the deltas
	raw    string // the item or the response
	failed bool   // there is an error that is not empty

	// the places of the delta and of values that say nothing
	place, number, noise rawjson.Place
}

// A respAgain has the form of the last event with a delta. One of the same form says the same with
// another delta.
type respAgain struct {
	form  rawjson.Form
	kind  respKind
	place respPlace
	event respEvent
}

// learn takes the form of an event that was read. Its type is in its data.
func (a *respAgain) learn(data string, e *respEvent, kind respKind, place respPlace) {
	if e.delta == "" || e.text != "" || e.raw != "" {
		return
	}
	if a.event.item != e.item {
		a.event.item = strings.Clone(e.item)
	}
	a.event.index, a.event.sub, a.kind, a.place = e.index, e.sub, kind, place
	a.form.Learn(data, e.place, e.number, e.noise)
}

// Event implements [api.Decoder].
func (d *respDecoder) Event(ev sse.Event) (bool, error) {
	if ev.Data == "[DONE]" {
		return false, nil // not part of this API; does not end a message
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
		// Services and gateways have different event types for errors. An error with an
		// index concerns an item, such as a call of a server-side tool.
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

// View implements [api.ViewDecoder]. View is a fast path that does not copy the whole
// event. It handles the events from which the decoder keeps at most one text, and copies
// only this text. For any other event it returns false, and [respDecoder.Event] handles a
// copy of the event.
func (d *respDecoder) View(ev sse.Event) (taken bool, err error) {
	if keepsData(ev.Type) && ev.Type != "" { // large events, which need not be read twice
		return false, nil
	}
	if delta, ok := d.again.form.Match(ev.Data); ok && delta != "" {
		e := &d.again.event
		e.delta = delta
		return true, d.delta(e, d.again.kind, d.again.place)
	}
	e, err := d.read(ev.Data)
	if err != nil || e.failed {
		return false, nil
	}
	if kind, place, ok := piece(e.typ); ok {
		d.again.learn(ev.Data, &e, kind, place)
	}
	e.typ = cmp.Or(e.typ, ev.Type)
	if kind, place, ok := piece(e.typ); ok {
		return true, d.delta(&e, kind, place)
	}
	if keepsData(e.typ) {
		return false, nil
	}
	return true, d.other(&e)
}

// keepsData reports whether more than a text may be kept of an event of this type.
func keepsData(typ string) bool {
	switch typ {
	case "response.output_item.done", "response.completed", "response.incomplete",
		"response.failed", "response.cancelled", "error", "keepalive", "":
		return true
	}
	return false
}

// piece returns the kind and the place of the text to which a delta event adds a piece.
// It returns false for all other events.
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

// other handles the events that come once for an item or a part.
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
		return d.completed(d.finished(e.index, e.raw), e.index, e.raw)
	case "response.created", "response.in_progress", "response.queued":
		_, err := d.response(e.raw)
		return err
	}
	return nil // progress of server-side tools, and unknown events
}

// read parses an event in one pass.
func (d *respDecoder) read(data string) (respEvent, error) {
	e := respEvent{index: -1}
	r := &d.r
	r.Reset(data)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			e.typ, _ = r.Str()
		case "delta":
			e.place.From = r.Offset()
			e.delta, _ = r.Str()
			e.place.To = r.Offset()
		case "sequence_number":
			e.number = r.Here()
		case "obfuscation":
			e.noise = r.Here()
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

// respFault reads an error. An empty value is not an error: {}, "", false and null occur
// in complete responses.
func respFault(r *rawjson.Reader) string {
	kind, raw := r.Kind(), r.Raw()
	if kind != '{' && kind != '"' || len(raw) < 3 || strings.TrimSpace(raw[1:len(raw)-1]) == "" {
		return ""
	}
	return raw
}

// respFailure parses an error: {"type":"error","error":{…}} in events, and
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

// incomplete reads the reason why a response is incomplete, which determines the stop
// reason.
func (d *respDecoder) incomplete(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		if r.Key() == "reason" {
			respString(r, &d.reason)
		}
	}
}

// respString reads a string into to, unless it is empty or not a string. It makes a copy,
// since a substring would keep the whole event in memory.
func respString(r *rawjson.Reader, to *string) {
	if s, ok := r.Str(); ok && s != "" && s != *to {
		*to = strings.Clone(s)
	}
}

// usage reads the token counts. Cache reads and writes are part of input_tokens, and
// reasoning is part of output_tokens.
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

// terminal handles the last event. It repeats all items, unless the service omits them.
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

// finish emits the remaining items, and ends the message. If the response was cut off and
// its last item is a call without arguments, that call was cut off before they came.
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
	done := d.done // a copy, since the decoder would keep the whole response in memory
	done.Stop = stop
	return d.call.Emit(&done)
}

// entire reports whether the service says that the response is complete. Services that do
// not send a status count as well, since only the last event gets here.
func (d *respDecoder) entire() bool {
	return d.reason == "" && (d.status == "completed" || d.status == "complete" || d.status == "")
}

// stop returns the stop reason. The API has none: it follows from the status, the reason
// for an incomplete response, and the presence of calls or refusals.
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
		return aycoder.StopMaxTokens, nil // the usual reason, if the service gives none
	case !d.entire():
		return aycoder.StopReason(d.status), nil // "queued": it runs in the background
	case d.calls > 0:
		return aycoder.StopToolUse, nil
	}
	return aycoder.StopEndTurn, nil
}

// End implements [api.Decoder]. It always returns an error, because a response without its
// last event is not complete. The error contains the last known status of the response: a
// status such as "queued" or "in_progress" may explain the failure.
func (d *respDecoder) End() error {
	if d.status != "" {
		return fmt.Errorf("response is %s: %w", d.call.Config().Show(d.status, 50), api.ErrUnfinished)
	}
	return api.ErrUnfinished
}
