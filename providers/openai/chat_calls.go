package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatCustomCall marks a call of a custom tool, whose argument is a plain string.
const chatCustomCall = `{"type":"custom"}`

const (
	// chatLookBack is the maximum number of calls or details that are open at the same
	// time.
	chatLookBack = 256
	// chatMany is the maximum number of calls, details or alternative answers: each takes
	// much more memory than the few bytes that begin one.
	chatMany = 1000
)

// chatExtraContent is the field of a call with data that a service wants back with it,
// such as the thought_signature of Gemini, without which it refuses the next request.
const chatExtraContent = "extra_content"

var (
	errChatNoName = errors.New("call without a name")
	errChatLate   = errors.New("arguments after the end of a call")
)

// chatCalls are the calls of an answer.
type chatCalls struct {
	decoder *chatDecoder
	all     []*chatCall
	next    int  // index of the first incomplete call
	n       int  // number of calls that were completed or truncated
	tried   bool // no piece came since the last search for completed calls
	ids     map[string]bool
}

// A chatCall is a call under construction.
type chatCall struct {
	chatPiece
	id   string // as emitted
	args chatArgs
	sent int // bytes of args
	done bool
	// renamed says that a piece came under another id; doubt says that it is unknown
	// which pieces belong to this call, in which case it is emitted as truncated.
	renamed, doubt bool
}

// A chatPiece is a piece of a call.
type chatPiece struct {
	index        int64 // -1 if absent
	sentID, name string
	text         string // of the arguments
	extra        string // JSON: see chatExtraContent
	custom       bool
	place        rawjson.Place // of text, in calls
}

// takeCalls handles the pieces of calls in a choice. Neither form says where a call ends.
func (d *chatDecoder) takeCalls(c *chatChoice) error {
	r := rawjson.NewReader(c.calls)
	n := 0
	for r.Array(); r.Next(); n++ {
		p := readChatPiece(r)
		d.again.first, d.again.piece = p.index, rawjson.Place{}
		if n == 0 && p.continues() {
			d.again.piece = p.place
		}
		if err := d.calls.take(p); err != nil {
			return err
		}
	}
	if c.function == "" {
		return nil
	}
	p := chatPiece{} // function_call, the predecessor of tool_calls, holds one call
	p.function(rawjson.NewReader(c.function))
	return d.calls.take(p)
}

// readChatPiece reads a piece of a call. Some services send null or the text "null" where
// the API leaves a field out.
func readChatPiece(r *rawjson.Reader) chatPiece {
	p := chatPiece{index: -1}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "index":
			if i, ok := r.Int(); ok {
				p.index = i
			}
		case "id":
			if p.sentID, _ = r.Str(); p.sentID == "null" {
				p.sentID = ""
			}
		case "function":
			p.function(r)
		case "custom":
			p.customInput(r)
		case chatExtraContent:
			chatRaw(r, &p.extra)
		}
	}
	return p
}

// function reads the name and the arguments. Some services send the arguments as an object
// instead of its text.
func (p *chatPiece) function(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "name":
			if s, _ := r.Str(); s != "" {
				p.name = s
			}
		case "arguments":
			from := r.Offset()
			if p.text != "" {
				r.Skip()
			} else if s, ok := chatStr(r); ok {
				p.text, p.place = s, rawjson.Place{From: from, To: r.Offset()}
			} else if chatRaw(r, &p.text); p.text == "" {
				continue
			}
		}
	}
}

// continues reports whether the piece has nothing but a text of arguments.
func (p *chatPiece) continues() bool {
	return *p == chatPiece{index: p.index, text: p.text, place: p.place} && p.text != "" && p.place.To > 0
}

// customInput reads a call of a custom tool. Some services add an empty one to each
// piece.
func (p *chatPiece) customInput(r *rawjson.Reader) {
	var name, input string
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "name":
			name, _ = r.Str()
		case "input":
			input, _ = r.Str()
		}
	}
	if name != "" || input != "" {
		// An empty one must not make a custom call of a function.
		p.name, p.text, p.custom = name, input, true
	}
}

// take adds a piece to its call, or begins a new call with it.
func (cs *chatCalls) take(p chatPiece) error {
	c := cs.find(&p)
	if c == nil {
		if p.name == "" && p.text == "" && p.sentID == "" {
			return nil
		}
		if err := cs.begins(); err != nil {
			return err
		}
		c = &chatCall{chatPiece: chatPiece{index: p.index}}
		cs.all = append(cs.all, c)
	}
	cs.tried = false
	if c.done {
		if blank(p.text) {
			return nil
		}
		return cs.decoder.call.Broken(errChatLate)
	}
	c.add(&p)
	return cs.announce(c, p.text)
}

// begins makes room for another call, and completes those before it where possible.
func (cs *chatCalls) begins() error {
	if len(cs.all) == chatMany {
		return &aycoder.LimitError{Limit: "calls of an answer", Max: chatMany}
	}
	return cs.complete(chatNext)
}

// add adds a piece. It copies the texts, which would otherwise keep the whole chunk in
// memory.
func (c *chatCall) add(p *chatPiece) {
	if c.name == "" {
		c.name = strings.Clone(p.name)
	}
	switch {
	case c.sentID == "":
		c.sentID = strings.Clone(p.sentID)
	case p.sentID == c.sentID:
		c.doubt = c.doubt || c.renamed // the pieces under the other id belonged to another call
	case p.sentID != "":
		c.renamed = true
	}
	if p.extra != "" {
		c.extra = strings.Clone(p.extra)
	}
	c.custom = c.custom || p.custom
	if c.sent == 0 && !c.custom && strings.HasPrefix(p.text, "{") && c.args.placeholder() {
		c.args = chatArgs{}
	}
	c.args.add(p.text)
}

// find returns the call to which a piece belongs, or nil if the piece begins a new one.
// The index identifies the call, but some services omit it or use the same for all calls,
// and some change or repeat ids and names.
func (cs *chatCalls) find(p *chatPiece) *chatCall {
	c := cs.addressed(p)
	switch {
	case c == nil, p.name == "":
		return c
	case p.sentID != "" && c.sentID != "" && p.sentID != c.sentID:
		if c.name != "" && c.name != p.name || c.closed() {
			return nil
		}
		if c.args.text.Len() > 0 {
			return c
		}
		// This is another call of the same tool, or the same call under another id.
		c.doubt = c.doubt || p.text != ""
		return nil
	case p.sentID == c.sentID && p.index < 0 && c.name != "" && c.name != p.name:
		return nil // two calls have the same id
	case p.text == "" || !c.closed():
		return c
	case p.sentID != "" && p.sentID == c.sentID && !c.done && c.args.placeholder():
		return c
	case (p.sentID != "" || p.index >= 0) && p.text == c.args.text.String():
		p.text = "" // a repetition
		return c
	}
	return nil
}

// addressed returns the call that a piece addresses: by index and id, as far as it has
// them, or by name. A piece without any of these belongs to the last call.
func (cs *chatCalls) addressed(p *chatPiece) *chatCall {
	byIndex := func(c *chatCall) bool { return p.index >= 0 && c.index == p.index }
	byID := func(c *chatCall) bool { return p.sentID != "" && c.sentID == p.sentID }
	both := func(c *chatCall) bool { return byIndex(c) && byID(c) }
	for _, of := range []func(*chatCall) bool{both, byIndex} {
		if c := cs.among(p, of); c != nil {
			return c
		}
	}
	if p.index < 0 || p.name == "" {
		if c := cs.among(p, byID); c != nil {
			return c
		}
	}
	switch {
	case p.index >= 0:
		return cs.counted(p)
	case p.name == "":
		return cs.among(p, func(*chatCall) bool { return true })
	case p.sentID != "":
		return nil
	}
	return cs.named(p)
}

// among returns the last call that matches a piece, and prefers an open one. If several
// open calls match, the contents of all of them are uncertain.
func (cs *chatCalls) among(p *chatPiece, of func(*chatCall) bool) (found *chatCall) {
	var open *chatCall
	tells := p.name != "" || blank(p.text)
	for i := len(cs.all) - 1; i >= max(0, len(cs.all)-chatLookBack); i-- {
		c := cs.all[i]
		if !of(c) {
			continue
		}
		if found == nil {
			found = c
		}
		switch {
		case !c.takes(p.text):
		case open == nil:
			open = c
		case !tells:
			open.doubt, c.doubt = true, true
		}
	}
	return cmp.Or(open, found)
}

// counted returns the n-th call for an index n, where calls began without an index.
func (cs *chatCalls) counted(p *chatPiece) *chatCall {
	if p.name != "" || p.index >= int64(len(cs.all)) || cs.all[p.index].index >= 0 {
		return nil
	}
	return cs.all[p.index]
}

// named returns the call for a piece that has only a name: the last one, or one that has
// an id and still waits for its arguments, since a service that assigns ids sends them at
// the start of a call.
func (cs *chatCalls) named(p *chatPiece) *chatCall {
	if len(cs.all) == 0 {
		return nil
	}
	if last := cs.all[len(cs.all)-1]; last.name == "" || last.name == p.name {
		return last
	}
	return cs.among(p, func(c *chatCall) bool { return c.sentID != "" && c.name == p.name && !c.closed() })
}

// takes reports whether a text can continue the arguments. Arguments that are empty so
// far, or a placeholder, continue with the beginning of a value.
func (c *chatCall) takes(text string) bool {
	if c.custom || !c.closed() && !c.args.none() {
		return true
	}
	text = strings.TrimLeft(text, chatSpace)
	return !c.done && (text == "" || strings.IndexByte(`{"n`, text[0]) >= 0) &&
		(c.args.none() || c.args.placeholder())
}

// closed reports whether the arguments are a complete object, so that no more can follow.
func (c *chatCall) closed() bool { return !c.custom && c.args.closed() }

// announce emits the new part of a call. Arguments that do not begin as an object are
// held back, because they may be null, which stands for none. So is {}, because the real
// arguments may follow.
func (cs *chatCalls) announce(c *chatCall, text string) error {
	if c.name == "" || c.custom {
		return nil
	}
	object := c.args.first == '{'
	if object && c.args.placeholder() {
		return nil
	}
	if c.id != "" && (!object || text == "") {
		return nil
	}
	if c.id == "" {
		if err := cs.begin(c); err != nil {
			return err
		}
	}
	text = ""
	if object {
		text = c.args.text.String()[c.sent:]
		c.sent += len(text)
	}
	return cs.decoder.call.EmitArgs(c.id, cs.decoder.toolName(c.name), text)
}

// begin assigns the id of a call. Calls before it are then complete.
func (cs *chatCalls) begin(c *chatCall) error {
	c.id = cs.decoder.newID(c.sentID)
	return cs.decoder.answer.Close()
}

// toolName returns the host's name of a tool.
func (d *chatDecoder) toolName(sent string) string { return cmp.Or(d.names[sent], sent) }

// newID returns the id that a service sent, or generates one that is the same each time
// the response is read.
func (d *chatDecoder) newID(sent string) string {
	cs := &d.calls
	if cs.ids == nil {
		cs.ids = map[string]bool{}
	}
	id, seed := sent, sent+d.answer.Done.ID
	if seed == "" {
		seed = d.data
	}
	for n := len(cs.ids); id == "" || cs.ids[id]; n++ {
		id = api.MakeID(seed, n)
	}
	cs.ids[id] = true
	return id
}

// pause completes the calls before other content.
func (cs *chatCalls) pause() error {
	if cs.tried || cs.next == len(cs.all) {
		return nil
	}
	cs.tried = true
	return cs.complete(chatPause)
}

// The reasons to complete calls.
const (
	chatNext  = iota // another call begins
	chatPause        // other content follows
	chatEnd          // the answer ends
)

// complete emits the completed calls in order, or at the end of the answer all calls.
// Arguments may still replace {} while other calls begin. No call is emitted while
// details are open that must be sent back with it: a conversation that has one without
// the other may be refused.
func (cs *chatCalls) complete(before int) error {
	for ; cs.next < len(cs.all); cs.next++ {
		c := cs.all[cs.next]
		held := before == chatNext && c.args.placeholder()
		if before != chatEnd && (!c.closed() || held || c.name == "" || !cs.decoder.details.empty()) {
			return nil
		}
		if err := cs.finish(c); err != nil {
			return err
		}
	}
	return nil
}

// finish emits a call, complete or truncated.
func (cs *chatCalls) finish(c *chatCall) error {
	d := cs.decoder
	if c.name == "" {
		if c.args.none() {
			return nil
		}
		return d.call.Broken(errChatNoName)
	}
	cs.n++
	c.done = true
	if c.id == "" {
		if err := cs.begin(c); err != nil {
			return err
		}
	}
	use := &aycoder.ToolUse{ID: c.id, Name: d.toolName(c.name), Extra: d.extra(c)}
	args, whole := c.whole(c.doubt || !d.complete())
	use.Args = args
	if s := string(args[min(c.sent, len(args)):]); s != "" && (c.custom || !c.args.none()) {
		if err := d.call.EmitArgs(c.id, use.Name, s); err != nil {
			return err
		}
	}
	if !whole || c.doubt {
		return d.call.Emit(&aycoder.BlockTruncated{Call: use})
	}
	return d.call.Emit(&aycoder.BlockDone{Part: use})
}

// whole returns the arguments, and whether they are complete. A closed object is
// complete. Other arguments have no visible end, so they count as incomplete if the
// answer was cut off in this call.
func (c *chatCall) whole(cut bool) (json.RawMessage, bool) {
	text := c.args.text.String()
	switch {
	case c.custom:
		c.sent = 0
		return append(rawjson.AppendField([]byte{'{'}, "input", text), '}'), !cut
	case c.args.closed():
		return json.RawMessage(text), true
	case cut:
		return json.RawMessage(text), false
	case c.args.none():
		return json.RawMessage(`{}`), true
	}
	if o := c.args.quoted(); o != nil {
		return o, true
	}
	return json.RawMessage(text), false
}

// extra returns the data that must be sent back with a call, or nil.
func (d *chatDecoder) extra(c *chatCall) *aycoder.Opaque {
	switch {
	case c.custom:
		return &aycoder.Opaque{Provider: d.call.Config().Provider, Raw: json.RawMessage(chatCustomCall)}
	case c.extra != "":
		raw := append(rawjson.AppendKey([]byte{'{'}, chatExtraContent), c.extra...)
		return &aycoder.Opaque{Provider: d.call.Config().Provider, Raw: append(raw, '}')}
	}
	return nil
}

// extraContent writes the data that must be sent back with a call. OpenAI itself never
// sends such data and refuses unknown fields, so it gets none, although its client has
// the same name.
func (w *chatWriter) extraContent(u *aycoder.ToolUse) {
	if u.Extra == nil || u.Extra.Provider != w.provider || w.dialect == (dialect{}) || !utf8.Valid(u.Extra.Raw) {
		return
	}
	o, err := rawjson.Parse(u.Extra.Raw)
	if v := o.Value(chatExtraContent); err == nil && !rawjson.IsNull(v) {
		w.b = append(rawjson.AppendKey(w.b, chatExtraContent), v...)
	}
}
