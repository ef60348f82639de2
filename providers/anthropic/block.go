package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// maxOpen is the number of blocks that may be open or wait for their turn, since all of
// them are searched whenever one stops.
const maxOpen = 1000

// A block is a content block under construction.
type block struct {
	index   int
	stopped bool // stopped, but it waits for its turn
	// doubt says that another block began under the same index before this one stopped,
	// so it is unknown to which of them later deltas belong.
	doubt bool
	text  strings.Builder // text, thinking, or the arguments
	head  blockHead
	raw   json.RawMessage // the start of the block, as sent

	sig   []byte
	cites []byte // citations from deltas, with a comma after each
	// the fields of the block with other deltas applied; nil without such deltas
	rest rawjson.Object
}

// A blockHead has the fields of a block that decide how the block is handled.
type blockHead struct {
	Type, ID, Name            string
	Text, Thinking, Signature string
	Input                     json.RawMessage
	// more says that there are other fields, which go back with the part.
	more bool
}

// startBlock begins a block. A second one at the same index, which a broken proxy may send,
// makes the first one doubtful: its call is not run.
func (d *decoder) startBlock(index int, raw string) error {
	if !d.begun {
		return fmt.Errorf("content_block_start %d before message_start", index)
	}
	if err := d.giveHeld(); err != nil {
		return err
	}
	if len(d.open) >= maxOpen {
		return fmt.Errorf("content_block_start %d: more than %d blocks are open", index, maxOpen)
	}
	if old := d.find(index); old != nil {
		old.doubt = true
	}
	b := &block{index: index, raw: json.RawMessage(raw)}
	if err := decodeHead(b.raw, &b.head); err != nil {
		return fmt.Errorf("decode content_block_start: %w", err)
	}
	d.open, d.newest = append(d.open, b), b
	switch b.head.Type {
	case "text":
		return d.addText(b, b.head.Text)
	case "thinking":
		b.sig = append(b.sig, b.head.Signature...)
		return d.addThinking(b, b.head.Thinking)
	case "tool_use":
		if err := d.identify(b); err != nil {
			return err
		}
		args := ""
		if !emptyArgs(b.head.Input) {
			args = string(b.head.Input)
		}
		return d.call.EmitArgs(b.head.ID, b.head.Name, args)
	}
	return nil
}

// identify makes sure that a call has the name of its tool and a unique id.
func (d *decoder) identify(b *block) error {
	if b.head.Name == "" {
		return fmt.Errorf("content_block_start %d: call without a name", b.index)
	}
	d.called = true
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	for n := len(d.ids); b.head.ID == "" || d.ids[b.head.ID]; n++ {
		b.head.ID = api.MakeID(d.done.ID, n)
	}
	d.ids[b.head.ID] = true
	b.head.Name = cmp.Or(d.names[b.head.Name], b.head.Name)
	return nil
}

// decodeHead decodes the head of a block. The fields of an unknown block may have other
// types than ours.
func decodeHead(raw json.RawMessage, h *blockHead) error {
	o, err := rawjson.Parse(raw)
	if err != nil {
		return err
	}
	if h.Type, err = rawjson.Str("type", o.Value("type")); err != nil {
		return err
	}
	i := slices.Index(knownTypes, h.Type)
	if i < 0 {
		return nil
	}
	h.Type = knownTypes[i] // each delta compares it, and the start of the block is not in the processor's cache then
	texts := []struct {
		key string
		to  *string
	}{{"id", &h.ID}, {"name", &h.Name}, {"text", &h.Text}, {"thinking", &h.Thinking}, {"signature", &h.Signature}}
	for _, t := range texts {
		if *t.to, err = rawjson.Str(t.key, o.Value(t.key)); err != nil {
			return err
		}
	}
	h.Input = o.Value("input")
	h.more = slices.ContainsFunc(o, func(f rawjson.Field) bool {
		return !rawjson.IsNull(f.Val) && f.Key != "type" &&
			!slices.Contains(partFields(h.Type), f.Key)
	})
	return nil
}

var knownTypes = []string{"text", "thinking", "tool_use"}

// partFields returns the fields of a block for which the part has a field.
func partFields(kind string) []string {
	if kind == "tool_use" {
		return []string{"id", "name", "input"}
	}
	return []string{"text"}
}

// find returns the block that is open under an index.
func (d *decoder) find(index int) *block {
	if b := d.newest; b != nil && b.index == index && !b.stopped {
		return b
	}
	for _, b := range slices.Backward(d.open) {
		if b.index == index && !b.stopped {
			return b
		}
	}
	return nil
}

// delta adds a delta to its block.
func (d *decoder) delta(index int, p *delta, data string) error {
	field := textField(p.kind)
	b := d.find(index)
	switch {
	case b == nil:
		return fmt.Errorf("%s for block %d, which is not open", d.call.Config().Show(p.kind, 50), index)
	case field == "":
		return b.add(p, data)
	case p.bad == field:
		return fmt.Errorf("decode content_block_delta: %s is not a string", field)
	case p.field != field:
		p.text = lateText(data, field)
	}
	switch kind := b.head.Type; {
	case p.kind == "text_delta" && kind == "text":
		return d.addText(b, p.text)
	case p.kind == "thinking_delta" && kind == "thinking":
		return d.addThinking(b, p.text)
	case p.kind == "signature_delta" && kind == "thinking":
		b.sig = append(b.sig, p.text...)
		return nil
	case p.kind == "input_json_delta" && kind != "text" && kind != "thinking":
		return d.addArgs(b, p.text)
	}
	return fmt.Errorf("%s for a block of type %q", p.kind, d.call.Config().Show(b.head.Type, 50))
}

// addText adds a piece of a text, and passes it on at once.
func (d *decoder) addText(b *block, s string) error {
	if s == "" {
		return nil
	}
	return d.call.EmitText(api.Grow(&b.text, s))
}

// addThinking adds a piece of thinking, and passes it on at once.
func (d *decoder) addThinking(b *block, s string) error {
	if s == "" {
		return nil
	}
	return d.call.EmitThinking(api.Grow(&b.text, s))
}

// addArgs adds a piece of arguments. The arguments of server-side tools are only kept,
// because the host does not run these tools.
func (d *decoder) addArgs(b *block, s string) error {
	if s == "" {
		return nil
	}
	s = api.Grow(&b.text, s)
	if b.head.Type != "tool_use" {
		return nil
	}
	return d.call.EmitArgs(b.head.ID, b.head.Name, s)
}

// lateText returns the text of a delta in which other strings precede the text.
func lateText(data, field string) string {
	e := rawjson.Split([]byte(data))
	if delta := e.Value("delta"); rawjson.IsObject(delta) {
		text, _ := rawjson.Str(field, rawjson.Split(delta).Value(field))
		return text
	}
	return ""
}

// add adds a citation, or a delta of an unknown kind with the given data.
func (b *block) add(p *delta, data string) error {
	if p.kind == "citations_delta" && p.citation != "" && p.citation != "null" {
		b.cites = append(append(b.cites, p.citation...), ',')
		return nil
	}
	e, err := rawjson.Parse([]byte(data))
	if err != nil {
		return fmt.Errorf("decode content_block_delta: %w", err)
	}
	more, err := rawjson.Parse(e.Value("delta"))
	if err != nil {
		return fmt.Errorf("decode content_block_delta: %w", err)
	}
	if err := b.parse(); err != nil {
		return err
	}
	b.rest.Merge(more)
	return nil
}

// parse splits the start of a block into its fields. It is called only if the end of the
// block needs them, because most blocks are rebuilt without them.
func (b *block) parse() error {
	if b.rest != nil {
		return nil
	}
	o, err := rawjson.Parse(b.raw)
	if err != nil {
		return fmt.Errorf("decode content_block_start: %w", err)
	}
	b.rest = o
	return nil
}

// stopBlock ends a block. A call that may have been cut off is held back until the next
// event: if the connection is lost here, the bytes are the same.
func (d *decoder) stopBlock(index int) error {
	b := d.find(index)
	if b == nil {
		return nil // a second stop loses nothing
	}
	if err := d.giveHeld(); err != nil {
		return err
	}
	b.stopped = true
	if looksWhole(b) {
		d.held = b
	}
	return d.give()
}

// giveHeld emits the block that was held back: more came, so it was not cut off.
func (d *decoder) giveHeld() error {
	if d.held == nil {
		return nil
	}
	d.held = nil
	return d.give()
}

// give emits the stopped blocks whose turn it is: the parts of the message are in the
// order of the indexes, whichever block stops first.
func (d *decoder) give() error {
	for len(d.open) > 0 {
		b := slices.MinFunc(d.open, blockOrder)
		if !b.stopped || b == d.held {
			return nil
		}
		d.open = slices.DeleteFunc(d.open, func(o *block) bool { return o == b })
		if err := d.emitPart(b, false); err != nil {
			return err
		}
	}
	return nil
}

// blockOrder sorts by index. A stopped block precedes an open one of the same index: the
// index was reused, and the older block may never stop.
func blockOrder(a, b *block) int {
	switch order := cmp.Compare(a.index, b.index); {
	case order != 0 || a.stopped == b.stopped:
		return order
	case a.stopped:
		return -1
	}
	return 1
}

// emitPart emits a block. Cut says that the message ended before the block did.
func (d *decoder) emitPart(b *block, cut bool) error {
	part, whole, err := b.part()
	if err != nil {
		return err
	}
	if call, ok := part.(*aycoder.ToolUse); ok && (cut || !whole || b.doubt) {
		return d.call.Emit(&aycoder.BlockTruncated{Call: call})
	}
	if !whole {
		return nil // a server-side call that was cut off is useless
	}
	return d.call.Emit(&aycoder.BlockDone{Part: part})
}

// part converts the block to a part, and reports whether its arguments are complete.
func (b *block) part() (part aycoder.Part, whole bool, err error) {
	switch b.head.Type {
	case "text":
		extra, err := b.extra()
		return &aycoder.Text{Text: api.Fitted(&b.text), Extra: extra}, true, err
	case "thinking":
		return &aycoder.Thinking{Text: api.Fitted(&b.text), Signature: string(b.sig), Provider: provider}, true, nil
	case "tool_use":
		extra, err := b.extra()
		args := b.args()
		call := &aycoder.ToolUse{ID: b.head.ID, Name: b.head.Name, Args: args, Extra: extra}
		return call, rawjson.IsObject(args), err
	}
	return b.opaque()
}

// args returns the arguments as the model wrote them.
func (b *block) args() json.RawMessage {
	switch {
	case b.text.Len() > 0 && b.text.String() != "null":
		return json.RawMessage(b.text.String())
	case b.text.Len() == 0 && !rawjson.IsNull(b.head.Input):
		return b.head.Input
	}
	return json.RawMessage(`{}`)
}

// extra returns the fields of the block for which the part has no field, or nil.
func (b *block) extra() (*aycoder.Opaque, error) {
	if !b.head.more && b.rest == nil && len(b.cites) == 0 {
		return nil, nil
	}
	if err := b.parse(); err != nil {
		return nil, err
	}
	b.addCitations()
	o := b.rest.Without(append(partFields(b.head.Type), "type")...)
	if len(o) == 0 {
		return nil, nil
	}
	return &aycoder.Opaque{Provider: provider, Raw: o.AppendTo(nil)}, nil
}

// addCitations joins the citations of a text to those it began with.
func (b *block) addCitations() {
	if n := len(b.cites); n > 0 {
		list := slices.Concat([]byte("["), b.cites[:n-1], []byte("]"))
		b.rest.Set("citations", rawjson.MergeValue(b.rest.Value("citations"), list))
		b.cites = nil
	}
}

// opaque returns a server-side block: the bytes it came in or, if deltas followed, its
// fields with the deltas applied.
func (b *block) opaque() (*aycoder.Opaque, bool, error) {
	if b.rest == nil && b.text.Len() == 0 && len(b.cites) == 0 {
		return &aycoder.Opaque{Provider: provider, Raw: b.raw}, true, nil
	}
	if err := b.parse(); err != nil {
		return nil, false, err
	}
	b.addCitations()
	if input := []byte(b.text.String()); len(input) > 0 {
		if !rawjson.Valid(input) {
			return nil, false, nil
		}
		b.rest.Set("input", input)
	}
	return &aycoder.Opaque{Provider: provider, Raw: b.rest.AppendTo(nil)}, true, nil
}
