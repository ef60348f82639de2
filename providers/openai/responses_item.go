package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// A respKind is a kind of item.
type respKind int

const (
	respOther respKind = iota // server-side tools, and unknown items
	respMessage
	respReasoning
	respCall
)

func respKindOf(typ string) respKind {
	switch typ {
	case "message":
		return respMessage
	case "reasoning":
		return respReasoning
	case "function_call":
		return respCall
	}
	return respOther
}

// A respPlace is the place of a text in an item.
type respPlace int

const (
	respSummary respPlace = iota // of reasoning
	respPlain                    // the text, reasoning or arguments
	respRefusal
)

// A respItem is an item of the output. Its contents are released when it is emitted.
type respItem struct {
	index    int64
	kind     respKind
	typ      string // if the kind is unknown
	itemID   string
	texts    []*respText
	raw      string // set once it is complete
	complete bool
	cut      bool // the response ended before the item did

	sum  uint64 // of the emitted content, see [respDecoder.sumOf]
	told bool   // it is in the last event

	// of a call
	callID, name string // as on the wire
	id           string // as emitted
	named        bool   // an event has announced it
	final        string // the final arguments, as sent by the service
	extra        json.RawMessage
	partial      bool // the service marks it as incomplete
}

// A respText is a text in an item.
type respText struct {
	place respPlace
	sub   int64
	buf   []byte
	sent  int // number of emitted bytes of buf
	over  bool
	found bool // it is in the complete item
	extra json.RawMessage
}

// text returns a text of an item, and creates it if necessary.
func (it *respItem) text(place respPlace, sub int64) (*respText, error) {
	for i := len(it.texts) - 1; i >= 0; i-- {
		if t := it.texts[i]; t.place == place && t.sub == sub {
			return t, nil
		}
	}
	if len(it.texts) >= maxOpenItems {
		return nil, errRespMany
	}
	t := &respText{place: place, sub: sub}
	it.texts = append(it.texts, t)
	return t, nil
}

// match returns the streamed text that corresponds to a text of the complete item. Some
// services number the parts of an item differently in its events.
func (it *respItem) match(place respPlace, sub int64, text string) (t *respText, err error) {
	same := func(t *respText) bool { return t.place == place && t.sub == sub }
	alike := func(t *respText) bool {
		n := len(t.buf)
		return t.place == place && !t.found && n > 0 && n <= len(text) && string(t.buf) == text[:n]
	}
	if i := slices.IndexFunc(it.texts, alike); i >= 0 && !slices.ContainsFunc(it.texts, same) {
		t = it.texts[i]
	} else if t, err = it.text(place, sub); err != nil {
		return nil, err
	}
	t.found = true
	return t, nil
}

// find returns the item with an index, or nil. An event without an index belongs to the
// item with its id, or else to the last one, since some services generate new ids for
// every event.
func (d *respDecoder) find(index int64, id string) *respItem {
	if it := d.latest; it != nil && it.index == index && index >= 0 {
		return it
	}
	if index >= 0 {
		return d.byIndex[index]
	}
	for _, it := range d.open {
		if id != "" && it.itemID == id && !it.complete {
			return it
		}
	}
	return d.latest
}

// finished returns the item that an event without an index completes, or nil if it has
// not begun. A call is identified by its id.
func (d *respDecoder) finished(raw string) *respItem {
	typ, id := respHead(raw)
	it := d.find(-1, id)
	if it == nil || it.kind != respCall || respKindOf(typ) != respCall {
		return it
	}
	said := &respItem{kind: respCall}
	if err := said.readCall(raw); err != nil || said.callID == "" || it.callID == "" || said.callID == it.callID {
		return it
	}
	for _, other := range d.open {
		if other.callID == said.callID && !other.complete {
			return other
		}
	}
	return nil
}

// begin adds an item.
func (d *respDecoder) begin(index int64, kind respKind) (*respItem, error) {
	if len(d.open) >= maxOpenItems || len(d.all) >= maxItems {
		return nil, errRespMany
	}
	it := &respItem{index: index, kind: kind}
	d.all = append(d.all, it)
	d.open = append(d.open, it)
	if index >= 0 {
		if d.byIndex == nil {
			d.byIndex = map[int64]*respItem{}
		}
		d.byIndex[index] = it
	}
	d.latest = it
	if d.open[0].complete { // it was held back
		return it, d.advance()
	}
	if d.front == nil && kind != respOther {
		d.front = it
	}
	return it, nil
}

// of returns the item of this kind to which an event belongs, and its text.
func (d *respDecoder) of(e *respEvent, kind respKind, place respPlace) (*respItem, *respText, error) {
	it := d.find(e.index, e.item)
	if it == nil || it.kind != kind {
		var err error
		if it, err = d.begin(e.index, kind); err != nil {
			return nil, nil, err
		}
	}
	d.latest = it
	if it.complete {
		return it, nil, nil
	}
	sub := e.sub
	if kind == respCall {
		sub = 0 // there is only one
	}
	t, err := it.text(place, sub)
	return it, t, err
}

// delta adds a piece of a text.
func (d *respDecoder) delta(e *respEvent, kind respKind, place respPlace) error {
	it, t, err := d.of(e, kind, place)
	if err != nil || it.complete || t.over || e.delta == "" {
		return err
	}
	waiting := len(t.buf) - t.sent
	t.buf = append(t.buf, e.delta...)
	if it != d.front {
		return nil
	}
	if waiting == 0 && t.sent > 0 && it.texts[len(it.texts)-1] == t {
		return d.emit(it, t, e.delta)
	}
	return d.flush(it)
}

// rest handles the whole of a text, of which some services do not send pieces.
func (d *respDecoder) rest(e *respEvent, kind respKind, place respPlace) error {
	it, t, err := d.of(e, kind, place)
	if err != nil || it.complete || t.over {
		return err
	}
	t.settle(e.text)
	if kind == respCall {
		it.final = cmp.Or(strings.Clone(e.text), it.final)
	}
	if it != d.front {
		return nil
	}
	return d.flush(it)
}

// settle sets the text to its final value. Bytes that were already emitted cannot be
// taken back.
func (t *respText) settle(text string) {
	if n := len(t.buf); len(text) > n && text[:n] == string(t.buf) {
		t.buf = append(t.buf, text[n:]...)
	} else if t.sent == 0 && text != "" {
		t.buf = append(t.buf[:0], text...)
	}
}

// emit emits the next piece of t.
func (d *respDecoder) emit(it *respItem, t *respText, piece string) error {
	t.sent += len(piece)
	switch it.kind {
	case respMessage:
		return d.call.Emit(&aycoder.TextDelta{Text: piece})
	case respReasoning:
		return d.call.Emit(&aycoder.ThinkingDelta{Text: piece})
	}
	return d.call.Emit(&aycoder.ToolDelta{ID: it.id, Name: d.toolName(it.name), Args: piece})
}

// toolName returns the host's name of a tool.
func (d *respDecoder) toolName(sent string) string { return cmp.Or(d.names[sent], sent) }

// catchUp emits the new text of t.
func (d *respDecoder) catchUp(it *respItem, t *respText) error {
	if len(t.buf) == t.sent {
		return nil
	}
	return d.emit(it, t, string(t.buf[t.sent:]))
}

// flush emits the new text of the item at the front. A part of a reasoning item is
// emitted only after the previous part, which ends where this one begins.
func (d *respDecoder) flush(it *respItem) error {
	if err := d.announce(it); err != nil || it.kind == respCall && !it.named {
		return err
	}
	for i, t := range it.texts {
		if err := d.catchUp(it, t); err != nil || i == len(it.texts)-1 {
			return err
		}
		if it.kind != respReasoning || it != d.open[0] {
			return nil
		}
		if err := d.endThought(t, ""); err != nil {
			return err
		}
	}
	return nil
}

// endThought emits the end of a part of the reasoning.
func (d *respDecoder) endThought(t *respText, signature string) error {
	if t.over {
		return nil
	}
	t.over = true
	th := &aycoder.Thinking{Text: string(t.buf), Signature: signature, Provider: d.owner}
	return d.call.Emit(&aycoder.BlockDone{Part: th})
}

// announce announces a call, as soon as its id and name are known.
func (d *respDecoder) announce(it *respItem) error {
	if it.kind != respCall || it.named || it.name == "" || it.callID == "" && !it.complete {
		return nil
	}
	it.id = cmp.Or(it.callID, it.itemID)
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	for n := d.calls; it.id == "" || d.ids[it.id]; n++ {
		it.id = api.MakeID(d.done.ID, n)
	}
	it.named = true
	d.ids[it.id] = true
	d.calls++
	return d.call.Emit(&aycoder.ToolDelta{ID: it.id, Name: d.toolName(it.name)})
}

// added handles the beginning of an item. A second one at the same index is a different
// item, unless it repeats the first, and the first gets no more content.
func (d *respDecoder) added(e *respEvent) (err error) {
	typ, id := respHead(e.raw)
	kind, it := respKindOf(typ), d.byIndex[e.index]
	again := it != nil && !it.complete && it.kind == kind && len(it.texts) == 0
	if !again {
		if it != nil && !it.complete {
			it.complete, it.cut = true, true
			if err := d.advance(); err != nil {
				return err
			}
		}
		if it, err = d.begin(e.index, kind); err != nil {
			return err
		}
	}
	it.head(typ, id)
	if kind != respCall {
		return nil
	}
	if err := it.readCall(e.raw); err != nil {
		return d.call.Garbled("item", err, e.raw)
	}
	it.final = "" // these are not the final arguments
	if it != d.front {
		return nil
	}
	return d.flush(it)
}

// respHead returns the type and the id of an item.
func respHead(raw string) (typ, id string) {
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "type":
			typ, _ = r.Str()
		case "id":
			id, _ = r.Str()
		}
	}
	return typ, id
}

// head records the result of [respHead] as copies, because substrings would keep the
// event in memory.
func (it *respItem) head(typ, id string) {
	if it.kind == respOther {
		it.typ = strings.Clone(typ)
	}
	if id != "" {
		it.itemID = strings.Clone(id)
	}
}

// completed handles a complete item, even one that has not begun.
func (d *respDecoder) completed(it *respItem, index int64, raw string) error {
	typ, id := respHead(raw)
	kind := respKindOf(typ)
	if it != nil && it.complete {
		return nil // a repetition
	}
	if it == nil || it.kind != kind {
		var err error
		if it, err = d.begin(index, kind); err != nil {
			return err
		}
	}
	it.head(typ, id)
	if err := it.read(raw); err != nil {
		return d.call.Garbled("item", err, raw)
	}
	it.complete, it.raw = true, raw
	d.whole++
	return d.advance()
}

// advance emits the complete items whose turn it is, and the text so far of the item
// behind them.
func (d *respDecoder) advance() error {
	for len(d.open) > 0 && d.open[0].complete && !d.held() {
		it := d.open[0]
		it.sum = d.sumOf(it)
		if err := d.give(it); err != nil {
			return err
		}
		d.open = d.open[1:]
		it.texts, it.raw, it.final, it.extra = nil, "", "", nil
	}
	d.front = nil
	for _, it := range d.open {
		if it.kind != respOther {
			d.front = it
			return d.flush(it)
		}
	}
	return nil
}

// held reports whether the item at the front waits for the end of the response, or for
// another item behind it. That is a call without arguments, which may have been cut off
// before the first of them came; not all services mark such a call.
func (d *respDecoder) held() bool { return !d.ended && len(d.open) == 1 && d.open[0].noArgs() }

// noArgs reports whether the item is a call without arguments.
func (it *respItem) noArgs() bool { return it.kind == respCall && isNoArgs(it.said()) }

func isNoArgs(args []byte) bool { return len(args) == 0 || string(args) == "null" }

// said returns all texts of the item.
func (it *respItem) said() []byte {
	if len(it.texts) == 1 {
		return it.texts[0].buf
	}
	var b []byte
	for _, t := range it.texts {
		b = append(b, t.buf...)
	}
	return b
}

// give emits a complete item.
func (d *respDecoder) give(it *respItem) error {
	switch it.kind {
	case respMessage:
		return d.giveMessage(it)
	case respReasoning:
		return d.giveReasoning(it)
	case respCall:
		return d.giveCall(it)
	}
	if it.cut {
		return nil // a server-side call that was cut off is useless
	}
	return d.call.Emit(&aycoder.BlockDone{Part: d.opaque(it.raw)})
}

func (d *respDecoder) opaque(raw string) *aycoder.Opaque {
	return &aycoder.Opaque{Provider: d.owner, Raw: json.RawMessage(raw)}
}

func (d *respDecoder) giveMessage(it *respItem) error {
	for _, t := range it.texts {
		d.refused = d.refused || t.place == respRefusal
		if err := d.catchUp(it, t); err != nil {
			return err
		}
		part := &aycoder.Text{Text: string(t.buf)}
		if len(t.extra) > 0 {
			part.Extra = d.opaque(string(t.extra))
		}
		if part.Text == "" && part.Extra == nil {
			continue
		}
		if err := d.call.Emit(&aycoder.BlockDone{Part: part}); err != nil {
			return err
		}
	}
	return nil
}

// giveReasoning emits the rest of the reasoning. The last part has the item as its
// signature, because the service wants the item back.
func (d *respDecoder) giveReasoning(it *respItem) error {
	left := slices.DeleteFunc(it.texts, func(t *respText) bool { return t.over || len(t.buf) == 0 })
	if len(left) == 0 {
		left = []*respText{{}}
	}
	for i, t := range left {
		if err := d.catchUp(it, t); err != nil {
			return err
		}
		signature := ""
		if i == len(left)-1 {
			signature = strings.Clone(it.raw) // a substring would keep the whole event in memory
		}
		if signature == "" && len(t.buf) == 0 {
			continue
		}
		if err := d.endThought(t, signature); err != nil {
			return err
		}
	}
	return nil
}

// giveCall emits a call. Arguments that are not complete JSON were cut off. If the pieces
// differ from the complete item, some pieces were lost: then the call has the arguments
// of the item, but does not run.
func (d *respDecoder) giveCall(it *respItem) error {
	if it.name == "" {
		if it.cut {
			return nil // nothing is known about it
		}
		return d.call.Garbled("item", errRespNoName, it.raw)
	}
	if err := d.flush(it); err != nil {
		return err
	}
	u := &aycoder.ToolUse{ID: it.id, Name: d.toolName(it.name), Args: bytes.Clone(it.said())}
	if len(it.extra) > 0 {
		u.Extra = d.opaque(string(it.extra))
	}
	cut := it.cut || it.partial
	switch {
	case cut:
	case it.final != "" && !sameJSON(u.Args, []byte(it.final)):
		cut, u.Args = true, json.RawMessage(it.final)
	case isNoArgs(u.Args):
		u.Args = json.RawMessage(`{}`)
	default:
		cut = !json.Valid(u.Args)
	}
	if cut {
		return d.call.Emit(&aycoder.BlockTruncated{Call: u})
	}
	return d.call.Emit(&aycoder.BlockDone{Part: u})
}

// sameJSON reports whether a and b are the same JSON value, or the same bytes.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	for _, p := range []struct {
		data []byte
		to   *any
	}{{a, &x}, {b, &y}} {
		dec := json.NewDecoder(bytes.NewReader(p.data))
		dec.UseNumber() // large numbers would be rounded
		if !json.Valid(p.data) || dec.Decode(p.to) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
