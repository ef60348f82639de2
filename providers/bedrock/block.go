package bedrock

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// The blocks of an answer. The Converse API numbers them, and starts only calls explicitly;
// texts and reasoning begin with their first piece. They are emitted in the order in which
// they began, each when those before it are complete.

// maxOpen is the maximum number of blocks that are open or wait for their turn.
const maxOpen = 1000

// A block is a content block under construction.
type block struct {
	index int
	kind  string // the field that it came in: "text", "toolUse", "reasoningContent" …
	call  start
	raw   json.RawMessage // the start, or the whole block if it came whole

	text  []byte // text, reasoning, arguments, or redacted content in pieces
	sig   []byte
	extra []byte // citations, or the list of unknown deltas; with commas

	whole   bool // it came in one piece
	stopped bool // stopped, but it waits for its turn
	// doubt says that another block began under the same index before this one stopped,
	// so it is unknown to which of them later deltas belong.
	doubt bool
}

// ours reports whether a call is for the client to make: server-side calls have the type
// "server_tool_use".
func (s *start) ours() bool { return s.kind == "" || s.kind == "tool_use" }

// find returns the open block at an index. Indexes are used again after a block has ended.
func (d *decoder) find(index int) *block {
	for _, b := range slices.Backward(d.open) {
		if b.index == index && !b.stopped {
			return b
		}
	}
	return nil
}

// begin opens a block. A block that was held back is then known to be complete.
func (d *decoder) begin(b *block) error {
	if !d.begun || d.stopped {
		return fmt.Errorf("content block %d is outside of a message", b.index)
	}
	if err := d.give(true); err != nil {
		return err
	}
	if old := d.find(b.index); old != nil {
		old.doubt = true
	}
	if len(d.open) >= maxOpen {
		return fmt.Errorf("content block %d: more than %d blocks are open", b.index, maxOpen)
	}
	d.open = append(d.open, b)
	return nil
}

// startBlock begins a block. Texts have no start in this API, only calls and unknown kinds
// do.
func (d *decoder) startBlock(e *event) error {
	b := &block{index: e.index, kind: e.kind, call: e.call, raw: json.RawMessage(e.raw)}
	if err := d.begin(b); err != nil {
		return err
	}
	if b.kind != "toolUse" || !b.call.ours() {
		return nil
	}
	d.identify(b)
	return d.call.Emit(&aycoder.ToolDelta{ID: b.call.id, Name: b.call.name})
}

// identify makes sure that a call has the name of its tool and a unique id.
func (d *decoder) identify(b *block) {
	d.called = true
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	for n := len(d.ids); b.call.id == "" || d.ids[b.call.id]; n++ {
		b.call.id = api.MakeID(d.call.RequestID+"/"+strconv.Itoa(b.index)+"/"+b.call.name, n)
	}
	d.ids[b.call.id] = true
	b.call.name = cmp.Or(d.names[b.call.name], b.call.name)
}

// addDelta adds a delta to its block. Texts and reasoning begin with a delta.
func (d *decoder) addDelta(e *event) error {
	b := d.find(e.index)
	if b == nil {
		b = &block{index: e.index, kind: kindOf(e.kind)}
		if b.kind == "toolUse" {
			return fmt.Errorf("arguments for block %d, which is not open", e.index)
		}
		if err := d.begin(b); err != nil {
			return err
		}
	}
	switch {
	case e.kind == "text" && b.kind == "text":
		return d.addText(b, e.text)
	case e.kind == "reasoningContent" && b.kind == "reasoningContent":
		b.sig = append(b.sig, e.sig...)
		return d.addThinking(b, e.text)
	case e.kind == "toolUse" && b.kind == "toolUse":
		return d.addArgs(b, e.text)
	case e.kind == "text", e.kind == "reasoningContent", e.kind == "toolUse":
		return fmt.Errorf("%s for a block of type %q", e.kind, d.call.Config().Show(b.kind, 50))
	}
	if b.kind == "redactedContent" && len(b.extra) > 0 {
		return b.join(e.raw)
	}
	b.add(e.raw)
	return nil
}

// kindOf returns the kind of the block that a delta begins.
func kindOf(delta string) string {
	if delta == "citation" {
		return "text"
	}
	return delta
}

// add appends JSON text unchanged: an element of a list, or a whole list.
func (b *block) add(raw string) {
	if len(raw) >= 2 && raw[0] == '[' {
		raw = raw[1 : len(raw)-1]
	}
	if raw != "" && raw != "null" {
		b.extra = append(append(b.extra, raw...), ',')
	}
}

// join appends a piece of redacted content. Each piece is encoded separately in base64.
func (b *block) join(raw string) error {
	pieces := []string{raw}
	if len(b.text) == 0 {
		pieces = []string{string(b.extra[:len(b.extra)-1]), raw}
	}
	for _, quoted := range pieces {
		text, _ := rawjson.NewReader(quoted).Str()
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("decode redacted content: %w", err)
		}
		b.text = append(b.text, data...)
	}
	return nil
}

// addText adds a piece of a text, and passes it on at once.
func (d *decoder) addText(b *block, s string) error {
	if s == "" {
		return nil
	}
	b.text = append(b.text, s...)
	return d.call.Emit(&aycoder.TextDelta{Text: s})
}

// addThinking adds a piece of reasoning, and passes it on at once.
func (d *decoder) addThinking(b *block, s string) error {
	if s == "" {
		return nil
	}
	b.text = append(b.text, s...)
	return d.call.Emit(&aycoder.ThinkingDelta{Text: s})
}

// addArgs adds a piece of arguments. Those of the service's own tools are only kept.
func (d *decoder) addArgs(b *block, s string) error {
	b.text = append(b.text, s...)
	if s == "" || !b.call.ours() {
		return nil
	}
	return d.call.Emit(&aycoder.ToolDelta{ID: b.call.id, Name: b.call.name, Args: s})
}

// stopBlock ends a block. Blocks are emitted in order, so the block may have to wait for
// those before it.
func (d *decoder) stopBlock(index int) error {
	if b := d.find(index); b != nil {
		b.stopped = true
	}
	return d.give(false)
}

// give emits the stopped blocks whose turn it is. A call that the end of the message may
// have cut off is held back until more comes.
func (d *decoder) give(more bool) error {
	for len(d.open) > 0 {
		b := d.open[0]
		if !b.stopped || len(d.open) == 1 && !more && b.mayBeCut() {
			return nil
		}
		d.open = slices.Delete(d.open, 0, 1)
		if err := d.emit(b, false); err != nil {
			return err
		}
	}
	return nil
}

// giveAll emits the remaining blocks at the end of the message.
func (d *decoder) giveAll() error {
	for i, b := range d.open {
		last := i == len(d.open)-1
		cut := !b.stopped || last && b.mayBeCut() && cutsOff(d.done.Stop)
		if err := d.emit(b, cut); err != nil {
			return err
		}
	}
	d.open = nil
	return nil
}

// mayBeCut reports whether only the end of the message tells if a call is complete: a
// call without arguments may have been cut off right after its name, and a call in a
// whole message was repaired by the service.
func (b *block) mayBeCut() bool {
	return b.kind == "toolUse" && b.call.ours() && (b.whole || len(b.text) == 0)
}

// emit emits a block. Cut says that the message ended before the block did.
func (d *decoder) emit(b *block, cut bool) error {
	switch b.kind {
	case "text":
		return d.emitPart(b.textPart())
	case "reasoningContent":
		return d.emitPart(&aycoder.Thinking{Text: string(b.text), Signature: string(b.sig), Provider: provider})
	case "toolUse":
		if b.call.ours() {
			return d.emitCall(b, cut)
		}
	}
	if o := b.opaque(); o != nil {
		return d.emitPart(o)
	}
	return nil // a server-side call that was cut off is useless
}

func (d *decoder) emitPart(p aycoder.Part) error { return d.call.Emit(&aycoder.BlockDone{Part: p}) }

// textPart returns the text, with its citations for the next request.
func (b *block) textPart() aycoder.Part {
	t := &aycoder.Text{Text: string(b.text)}
	if n := len(b.extra); n > 0 {
		t.Extra = &aycoder.Opaque{Provider: provider,
			Raw: slices.Concat([]byte(`{"citations":[`), b.extra[:n-1], []byte(`]}`))}
	}
	return t
}

// emitCall passes a call on. Arguments that are not complete JSON were cut off, whatever
// the service says.
func (d *decoder) emitCall(b *block, cut bool) error {
	call := &aycoder.ToolUse{ID: b.call.id, Name: b.call.name, Args: json.RawMessage(`{}`)}
	if len(b.text) > 0 && string(b.text) != "null" {
		call.Args = b.text
	}
	if cut || b.doubt || !rawjson.Valid(call.Args) {
		return d.call.Emit(&aycoder.BlockTruncated{Call: call})
	}
	return d.emitPart(call)
}

// opaque returns a server-side block in the form it has in a whole message, or nil if
// that is not possible.
func (b *block) opaque() *aycoder.Opaque {
	raw := []byte(b.raw)
	if !b.whole {
		raw = b.assemble()
	}
	if !rawjson.IsObject(raw) {
		return nil
	}
	return &aycoder.Opaque{Provider: provider, Raw: raw}
}

// assemble joins the pieces of a block that is sent back unchanged.
func (b *block) assemble() []byte {
	list := b.extra[:max(len(b.extra)-1, 0)]
	if b.kind == "redactedContent" {
		if len(b.text) > 0 {
			list = rawjson.AppendBase64(nil, b.text)
		}
		return slices.Concat([]byte(`{"reasoningContent":{"redactedContent":`), list, []byte(`}}`))
	}
	o, _ := rawjson.Parse(b.raw) // empty if the block had no start
	switch b.kind {
	case "toolUse":
		args := b.text
		if len(args) == 0 {
			args = []byte(`{}`)
		}
		o.Set("input", args)
	case "toolResult":
		o.Set("content", slices.Concat([]byte{'['}, list, []byte{']'}))
	default:
		if len(o) == 0 {
			return slices.Concat(rawjson.AppendKey([]byte{'{'}, b.kind), list, []byte{'}'})
		}
		more, _ := rawjson.Parse(list) // empty if there was no delta
		o.Merge(more)
	}
	return append(o.AppendTo(rawjson.AppendKey([]byte{'{'}, b.kind)), '}')
}

// wholeBlock handles a block that came in one piece.
func (d *decoder) wholeBlock(index int, raw string) error {
	b := &block{index: index, raw: json.RawMessage(raw), whole: true}
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		if b.kind == "" {
			b.kind = r.Key()
		}
		switch r.Key() {
		case "text":
			s, _ := r.Str()
			b.text = []byte(s)
		case "reasoningContent":
			b.readReasoning(r)
		case "toolUse":
			b.readCall(r)
		case "citationsContent":
			b.readCitations(r)
		}
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("decode content block %d: %w", index, err)
	}
	if err := d.begin(b); err != nil {
		return err
	}
	b.stopped = true
	if err := d.emitWhole(b); err != nil {
		return err
	}
	return d.give(false)
}

// emitWhole emits the events that deltas would have produced.
func (d *decoder) emitWhole(b *block) error {
	switch {
	case b.kind == "text" && len(b.text) > 0:
		return d.call.Emit(&aycoder.TextDelta{Text: string(b.text)})
	case b.kind == "reasoningContent" && len(b.text) > 0:
		return d.call.Emit(&aycoder.ThinkingDelta{Text: string(b.text)})
	case b.kind == "toolUse" && b.call.ours():
		d.identify(b)
		return d.call.Emit(&aycoder.ToolDelta{ID: b.call.id, Name: b.call.name, Args: string(b.text)})
	}
	return nil
}

// readReasoning reads reasoning from a whole answer.
func (b *block) readReasoning(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		if r.Key() != "reasoningText" {
			b.kind = r.Key() // redactedContent, or an unknown kind: kept unchanged
			continue
		}
		for r.Object(); r.Next(); {
			switch r.Key() {
			case "text":
				s, _ := r.Str()
				b.text = []byte(s)
			case "signature":
				s, _ := r.Str()
				b.sig = []byte(s)
			}
		}
	}
}

// readCall reads a call from a whole answer.
func (b *block) readCall(r *rawjson.Reader) {
	raw := r.Raw()
	b.call.read(raw)
	in := rawjson.NewReader(raw)
	for in.Object(); in.Next(); {
		if in.Key() == "input" {
			b.text = []byte(in.Raw())
		}
	}
}

// readCitations reads a text with citations. Citations without a text are kept unchanged.
func (b *block) readCitations(r *rawjson.Reader) {
	var text []byte
	citations := ""
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "content":
			text = readTexts(r)
		case "citations":
			citations = r.Raw()
		}
	}
	if len(text) > 0 {
		b.kind, b.text = "text", text
		b.add(citations)
	}
}

// readTexts joins the texts of a list of blocks.
func readTexts(r *rawjson.Reader) (text []byte) {
	for r.Array(); r.Next(); {
		for r.Object(); r.Next(); {
			if r.Key() == "text" {
				s, _ := r.Str()
				text = append(text, s...)
			}
		}
	}
	return text
}
