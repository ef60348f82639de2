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

// A respKind is a kind of items.
type respKind int

const (
	respOther respKind = iota // the service's own tools, and what is new
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

// A respPlace is where in an item a text stands.
type respPlace int

const (
	respSummary respPlace = iota // of reasoning
	respPlain                    // the text, reasoning or arguments
	respRefusal
)

// A respItem is an item of the output. What it holds goes when it is given away.
type respItem struct {
	index    int64
	kind     respKind
	typ      string // of what is no kind
	itemID   string
	texts    []*respText
	raw      string // when it is complete
	complete bool
	cut      bool // the response ended before the item did

	sum  uint64 // of what was given away, see [respDecoder.sumOf]
	told bool   // the last event has it

	// of a call
	callID, name string // as the service has them
	id           string // as it is given out
	named        bool   // an event has told of it
	final        string // the arguments, as the service says them in the end
	extra        json.RawMessage
	partial      bool // the service says that it is incomplete
}

// A respText is a text in an item.
type respText struct {
	place respPlace
	sub   int64
	buf   []byte
	sent  int // bytes of buf that were given away
	over  bool
	found bool // in the item that is complete
	extra json.RawMessage
}

// text returns a text of an item, a new one if need be.
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

// match returns the text that is told in the complete item as well. Some services count
// the parts of the item in one way and those of its events in another.
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

// find returns the item with an index, or nil. An event without an index is of the item
// with its id, or else of the last one: some services make up other ids for every event.
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

// finished returns the item that an event without an index says is complete, or nil if it
// has not begun. A call is known by its id.
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

// of returns the item that a piece of this kind belongs to, and its text.
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
		sub = 0 // there is one
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

// rest takes the whole of a text. Some services send no pieces of it.
func (d *respDecoder) rest(e *respEvent, kind respKind, place respPlace) error {
	it, t, err := d.of(e, kind, place)
	if err != nil || it.complete || t.over {
		return err
	}
	t.settle(e.text)
	if kind == respCall {
		it.final = cmp.Or(e.text, it.final)
	}
	if it != d.front {
		return nil
	}
	return d.flush(it)
}

// settle makes the text what the service says it is in the end. What was given away
// already cannot be taken back.
func (t *respText) settle(text string) {
	if n := len(t.buf); len(text) > n && text[:n] == string(t.buf) {
		t.buf = append(t.buf, text[n:]...)
	} else if t.sent == 0 && text != "" {
		t.buf = append(t.buf[:0], text...)
	}
}

// emit gives away a piece, which is the next one of t.
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

// toolName is the name of a tool as the host knows it.
func (d *respDecoder) toolName(sent string) string { return cmp.Or(d.names[sent], sent) }

// catchUp gives away what has come of t.
func (d *respDecoder) catchUp(it *respItem, t *respText) error {
	if len(t.buf) == t.sent {
		return nil
	}
	return d.emit(it, t, string(t.buf[t.sent:]))
}

// flush gives away what has come of the item at the front. Pieces of a part come after
// the part before it, which reasoning ends where another begins.
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

// endThought gives away a part of the reasoning.
func (d *respDecoder) endThought(t *respText, signature string) error {
	if t.over {
		return nil
	}
	t.over = true
	th := &aycoder.Thinking{Text: string(t.buf), Signature: signature, Provider: d.owner}
	return d.call.Emit(&aycoder.BlockDone{Part: th})
}

// announce tells of a call, as soon as its id and name are known.
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

// added takes the beginning of an item. One at an index that is taken is another one,
// unless it is the same told twice, and the one before gets no more.
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
	it.final = "" // this is not the end
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

// head keeps what [respHead] returns. Strings are copies: they would hold the event.
func (it *respItem) head(typ, id string) {
	if it.kind == respOther {
		it.typ = strings.Clone(typ)
	}
	if id != "" {
		it.itemID = strings.Clone(id)
	}
}

// completed takes an item that is complete. It may be one that has not begun.
func (d *respDecoder) completed(it *respItem, index int64, raw string) error {
	typ, id := respHead(raw)
	kind := respKindOf(typ)
	if it != nil && it.complete {
		return nil // it comes twice
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

// advance gives away the items that are complete and whose turn it is, and what has
// come of the one after them.
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
// one behind it: a call without arguments, which may have been cut off before the first
// of them came. Not all services say so of the call.
func (d *respDecoder) held() bool { return !d.ended && len(d.open) == 1 && d.open[0].noArgs() }

// noArgs reports whether the item is a call without arguments.
func (it *respItem) noArgs() bool { return it.kind == respCall && isNoArgs(it.said()) }

func isNoArgs(args []byte) bool { return len(args) == 0 || string(args) == "null" }

// said is all that the texts of the item say.
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

// give gives away an item that is complete.
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
		return nil // the service's own call, cut off: nobody can use it
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

// giveReasoning gives away what is left of the reasoning. The last part has the item
// as its signature, since that is what the service wants back.
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
			signature = strings.Clone(it.raw) // it would hold the whole event
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

// giveCall gives away a call. One that is no whole JSON text was cut off. Nor does one
// run of which the pieces say something else than the complete item: pieces were lost on
// the way. It has the arguments of the item then.
func (d *respDecoder) giveCall(it *respItem) error {
	if it.name == "" {
		if it.cut {
			return nil // nothing is known of it
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
		return d.call.Emit(&aycoder.BlockCut{Call: u})
	}
	return d.call.Emit(&aycoder.BlockDone{Part: u})
}

// sameJSON reports whether a and b are the same value, however they are written, or the
// same bytes.
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
		dec.UseNumber() // large ones would be rounded
		if !json.Valid(p.data) || dec.Decode(p.to) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
