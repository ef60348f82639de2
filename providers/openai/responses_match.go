package openai

import (
	"hash/maphash"
	"strings"
)

// The last event normally repeats all items. Some services stream it without items that
// were in the stream, so the others have different positions in it.

// A respKey identifies an item: equal keys mean the same item.
type respKey struct {
	kind respKind
	call bool // id is the id of the call
	id   string
	sum  uint64
}

// A respLast is an item of the last event.
type respLast struct {
	*respItem
	was *respItem // the same item in the stream, or nil
}

// take remembers an item that the last event has.
func (l *respLast) take(it *respItem) {
	if l.was = it; it != nil {
		it.told = true
	}
}

// backfill handles the items of the last event, and skips those that were complete.
func (d *respDecoder) backfill(items []string) error {
	// Most services get here: the items are then not even parsed.
	if len(items) <= d.whole && d.whole == len(d.all) {
		return nil // all items were in the stream
	}
	if len(items) > maxItems {
		return errRespMany
	}
	last := make([]respLast, len(items))
	for i, raw := range items {
		typ, id := respHead(raw)
		it := &respItem{index: int64(i), kind: respKindOf(typ), raw: raw}
		it.head(typ, id)
		if err := it.read(raw); err != nil {
			return d.call.Garbled("item", err, raw)
		}
		last[i].respItem = it
	}
	d.match(last)
	for _, l := range last {
		if l.was != nil && l.was.complete {
			continue
		}
		if err := d.completed(l.was, l.index, l.raw); err != nil {
			return err
		}
	}
	return nil
}

// match finds the items in the stream. It tries the most reliable key first: the id of a
// call, then the id of an item, which some services regenerate for every event, then the
// content.
func (d *respDecoder) match(last []respLast) {
	keys := []func(*respItem) respKey{
		func(it *respItem) respKey { return respKey{kind: it.kind, call: true, id: it.callID} },
		func(it *respItem) respKey { return respKey{kind: it.kind, id: it.itemID} },
		func(it *respItem) respKey { return respKey{kind: it.kind, sum: d.sumOf(it)} },
	}
	for _, key := range keys {
		d.matchBy(last, key)
	}
	for i := range last {
		if l := &last[i]; l.was == nil {
			l.take(d.alike(l.respItem))
		}
	}
}

// matchBy matches items that have the same key as one in the stream. Each item of the
// stream is matched once, so that of two equal ones both are found.
func (d *respDecoder) matchBy(last []respLast, key func(*respItem) respKey) {
	known := map[respKey][]*respItem{}
	for _, it := range d.all {
		if k := key(it); !it.told && (k.id != "" || k.sum != 0) {
			known[k] = append(known[k], it)
		}
	}
	for i := range last {
		l := &last[i]
		if l.was != nil {
			continue
		}
		k := key(l.respItem)
		if same := known[k]; len(same) > 0 {
			l.take(same[0])
			known[k] = same[1:]
		}
	}
}

// alike returns a compatible item of the stream: the one at the same position, or the first
// incomplete one that it continues. An item whose events had no index has the position in
// which it came.
func (d *respDecoder) alike(it *respItem) *respItem {
	was := d.byIndex[it.index]
	if i := int(it.index); was == nil && i < len(d.all) && d.all[i].index < 0 {
		was = d.all[i]
	}
	if was != nil && was.canBe(it) {
		return was
	}
	for _, was := range d.open {
		if !was.complete && was.canBe(it) {
			return was
		}
	}
	return nil
}

// canBe reports whether the item may be the given one of the last event. An item that is
// not complete has been received in part, so its text must be a beginning of the other's.
func (it *respItem) canBe(last *respItem) bool {
	if it.told || it.kind != last.kind || it.typ != last.typ {
		return false
	}
	if differ(it.callID, last.callID) || differ(it.name, last.name) {
		return false
	}
	return it.complete || len(it.texts) == 0 || len(last.texts) == 0 ||
		strings.HasPrefix(last.texts[0].buf.String(), it.texts[0].buf.String())
}

// differ reports whether two names are known and different. Early events of an item often
// have no name yet.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// sumOf returns a hash of the content of an item, or 0 if that is empty. Two items of equal
// content are matched in the order in which they came.
func (d *respDecoder) sumOf(it *respItem) uint64 {
	if it.sum != 0 {
		return it.sum
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	said := 0
	for _, t := range it.texts {
		n, _ := h.WriteString(t.buf.String()) // never returns an error
		said += n
	}
	if it.kind == respOther {
		said, _ = h.WriteString(it.raw)
	}
	if it.kind == respCall {
		said++ // a call without arguments is identified by its name
		h.WriteString("\n" + it.name)
	}
	if said == 0 {
		return 0
	}
	return h.Sum64()
}
