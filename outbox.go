package aycoder

import "github.com/aycoder/aycoder/internal/view"

// An outbox holds the events that the consumer has not seen. Adjacent deltas are joined, and only
// the newest progress of each call is stored, so the size of the response bounds that of the
// outbox.
type outbox struct {
	items []outItem
	room  []outItem // items with its whole array, which is reused when items is empty
}

type outItem struct {
	ev   Event
	text []byte // of ev and the deltas that were joined to it, if any were
}

func (o *outbox) push(ev Event) {
	switch ev := ev.(type) {
	case *ToolProgress:
		if o.replace(ev) {
			return
		}
	case *TextDelta, *ThinkingDelta, *ToolDelta:
		if eventSize(ev.(ModelEvent)) == 0 {
			return
		}
		if n := len(o.items); n > 0 && o.items[n-1].join(ev) {
			return
		}
	}
	start := len(o.items) == 0
	if o.items == nil {
		o.items = make([]outItem, 0, 4)
	}
	o.items = append(o.items, outItem{ev: ev})
	if start {
		o.room = o.items
	}
}

func (o *outbox) replace(p *ToolProgress) bool {
	for i := range o.items {
		if q, ok := o.items[i].ev.(*ToolProgress); ok && q.CallID == p.CallID {
			o.items[i].ev = p
			return true
		}
	}
	return false
}

// join appends a delta to the item, and reports whether both are of the same kind.
func (i *outItem) join(ev Event) bool {
	first, text := "", ""
	switch ev := ev.(type) {
	case *TextDelta:
		d, ok := i.ev.(*TextDelta)
		if !ok {
			return false
		}
		first, text = d.Text, ev.Text
	case *ThinkingDelta:
		d, ok := i.ev.(*ThinkingDelta)
		if !ok {
			return false
		}
		first, text = d.Text, ev.Text
	case *ToolDelta:
		d, ok := i.ev.(*ToolDelta)
		if !ok || d.ID != ev.ID {
			return false
		}
		first, text = d.Args, ev.Args
	}
	if i.text == nil {
		i.text = append(make([]byte, 0, max(128, len(first)+len(text))), first...)
	}
	i.text = append(i.text, text...)
	return true
}

func (o *outbox) pop() Event {
	if len(o.items) == 0 {
		return nil
	}
	ev := o.items[0].whole()
	o.items[0] = outItem{}
	if o.items = o.items[1:]; len(o.items) == 0 {
		o.items = o.room[:0]
	}
	return ev
}

func (i *outItem) whole() Event {
	if i.text == nil {
		return i.ev
	}
	switch ev := i.ev.(type) {
	case *TextDelta:
		return &TextDelta{view.String(i.text)}
	case *ThinkingDelta:
		return &ThinkingDelta{view.String(i.text)}
	case *ToolDelta:
		return &ToolDelta{ev.ID, ev.Name, view.String(i.text)}
	}
	return i.ev
}
