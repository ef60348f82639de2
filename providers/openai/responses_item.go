package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

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

// respKindOf returns the kind of a type. All others are kept as they are.
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
	complete bool
	cut      bool // the response ended before the item did
	texts    []*respText
	first    [1]*respText // the array of texts, which mostly has only one
	typ      string       // if the kind is unknown
	itemID   string
	raw      string // set once it is complete

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
	buf   strings.Builder
	sent  int // number of emitted bytes of buf
	over  bool
	found bool // it is in the complete item
	extra json.RawMessage
}

// text returns a text of an item, and creates the text if it is new. The search begins at
// the end, since pieces nearly always belong to the last text.
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
	if it.texts == nil {
		it.texts = it.first[:0]
	}
	it.texts = append(it.texts, t)
	return t, nil
}

// match returns the streamed text that corresponds to a text of the complete item. Some
// services number the parts of an item differently in its events.
func (it *respItem) match(place respPlace, sub int64, text string) (t *respText, err error) {
	same := func(t *respText) bool { return t.place == place && t.sub == sub }
	alike := func(t *respText) bool {
		return t.place == place && !t.found && t.buf.Len() > 0 && strings.HasPrefix(text, t.buf.String())
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

// finished returns the item that an event completes, or nil if it has not begun. Without an
// index, or with that of a complete item, which some services use for all items, a call is
// identified by its id.
func (d *respDecoder) finished(index int64, raw string) *respItem {
	typ, id := respHead(raw)
	it := d.find(index, id)
	if it == nil || index >= 0 && !it.complete || it.kind != respCall || respKindOf(typ) != respCall {
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

// begin adds an item, and completes a call that was held back until another item follows
// it.
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

// delta adds a piece to a text. Only the item at the front is emitted at once; the texts
// of other items wait, so that the parts of the message stay in order.
func (d *respDecoder) delta(e *respEvent, kind respKind, place respPlace) error {
	it, t, err := d.of(e, kind, place)
	if err != nil || it.complete || t.over || e.delta == "" {
		return err
	}
	waiting := t.buf.Len() - t.sent
	piece := api.Grow(&t.buf, e.delta)
	if it != d.front {
		return nil
	}
	if waiting == 0 && t.sent > 0 && it.texts[len(it.texts)-1] == t {
		return d.emit(it, t, piece)
	}
	return d.flush(it)
}

// rest handles an event with a whole text. Some services send only this event, without
// pieces.
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
	if rest, more := strings.CutPrefix(text, t.buf.String()); more {
		t.buf.WriteString(rest)
	} else if t.sent == 0 && text != "" {
		t.buf.Reset()
		t.buf.WriteString(text)
	}
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

// completed handles a complete item, even if the stream did not announce the item before.
func (d *respDecoder) completed(it *respItem, index int64, raw string) error {
	typ, id := respHead(raw)
	kind := respKindOf(typ)
	if it != nil && it.complete && it.kind == kind {
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
