package openai

import (
	"cmp"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

var (
	errChatNoChoice = errors.New("answer without a choice")
	errChatFailed   = errors.New("service says that it failed, and not why")
)

// An answer is a stream of chunks, or one JSON document of nearly the same form. Most
// chunks differ from the one before in a few bytes, and there are thousands: so the part in
// front of the choices is read once, and then only compared.

// A chatDecoder assembles the chunks of an answer.
//
// The API does not mark the end of a call. A call is known to be complete when the next
// one begins and its arguments are a closed object, or at the end of the answer. Even a
// finish_reason is not an end, since some services send further calls after it.
type chatDecoder struct {
	call  *api.Call
	calls chatCalls

	// The fields that each chunk needs are together, from the end of the first to the beginning of the last, since
	// those of a waiting stream are in no processor's cache.
	again  chatAgain // the form of the last chunk
	filter chatFilter
	think  thinkFilter
	xml    callReader
	finish string // the last finish_reason
	begun  bool   // a choice was received
	pieces bool   // a delta had content
	whole  bool   // the last chunk is the whole answer
	answer api.Answer

	// Data beside the text; each is the value in the last chunk that has it.
	annotations, citations, results string

	refusal strings.Builder
	r       rawjson.Reader
	same    rawjson.Reader // at the end of the prefix that all chunks share
	fault   chatFault      // of the chunk
	data    string         // the last chunk
	choice  chatChoice     // the current choice
	details chatDetails
	names   map[string]string // original names of renamed tools, by their names on the wire
	usage   chatUsage
}

// A chatChoice is a choice of a chunk. Rare fields are kept as JSON. Texts and calls are valid only
// while the chunk is handled.
type chatChoice struct {
	index   int64
	opens   bool // it has a role
	said    bool // it has a delta or a message
	content string
	// The names of reasoning, in order of preference where a chunk has the same text
	// under several.
	reasoningContent, reasoning string

	parts, details, calls, function, annotations, failure string
	refusal, finish                                       string

	callsAt int           // where calls is in the chunk
	place   rawjson.Place // of the text in the chunk
}

// says returns the kinds of content in the choice. A refusal is shown to the user like a
// text.
func (c *chatChoice) says() (kinds chatKinds) {
	if c.content != "" || c.parts != "" || c.refusal != "" {
		kinds |= chatText
	}
	if c.reasoningContent != "" || c.reasoning != "" || c.details != "" {
		kinds |= chatReasoning
	}
	if c.calls != "" || c.function != "" {
		kinds |= chatToolCalls
	}
	return kinds
}

// newChatDecoder prepares the filters that the preset of the service needs.
func (c *Client) newChatDecoder(k *api.Call, req *aycoder.Request) *chatDecoder {
	d := &chatDecoder{call: k, answer: *api.NewAnswer(k)}
	d.calls.decoder, d.names = d, mappedNames(req.Tools)
	d.filter.several = asksSeveral(c.cfg.extra, req.Extra)
	if c.cfg.thinkTags != nil {
		d.think = c.cfg.thinkTags()
	}
	if c.cfg.xml != nil && len(req.Tools) > 0 {
		d.xml = c.cfg.xml.reader(d, req.Tools)
	}
	return d
}

// Event implements [api.Decoder].
func (d *chatDecoder) Event(ev sse.Event) (done bool, err error) {
	if ev.Type == "error" {
		return false, d.call.Fail(api.ParseFailure([]byte(ev.Data), nil))
	}
	if ev.Data[0] != '{' && strings.TrimSpace(ev.Data) == "[DONE]" {
		return true, d.end()
	}
	return false, d.chunk(ev.Data)
}

// View implements [api.ViewDecoder]. View is a fast path that does not copy the whole
// event. It handles all chunks of the answer, normally without an allocation. For any
// other event, of the type "error" or with the data "[DONE]", it returns false, and
// [chatDecoder.Event] handles a copy of the event.
func (d *chatDecoder) View(ev sse.Event) (taken bool, err error) {
	if ev.Type == "error" || ev.Data[0] != '{' {
		return false, nil
	}
	if text, ok := d.again.form.Match(ev.Data); ok && text != "" {
		return true, d.repeat(text)
	}
	return true, d.chunk(ev.Data)
}

// Whole implements [api.Decoder].
func (d *chatDecoder) Whole(data string) error {
	d.whole = true
	if err := d.chunk(data); err != nil {
		return err
	}
	switch {
	case d.begun:
	case d.fault.answers:
		return d.call.Broken(errChatNoChoice)
	default:
		return d.call.Refuse([]byte(data))
	}
	return d.end()
}

// End implements [api.Decoder]. A stream that ends after a finish_reason is complete even
// without "[DONE]", which some services do not send.
func (d *chatDecoder) End() error {
	if d.finish == "" {
		return api.ErrUnfinished
	}
	return d.end()
}

// chunk reads a chunk or a whole answer, which differ only in the name of the message
// field.
func (d *chatDecoder) chunk(data string) error {
	r := &d.r
	if d.answer.Done.ID == "" {
		d.data = data
	}
	more := r.Resume(&d.same, data)
	plain := !more // the fields before the choices are the same in every chunk
	if !more {
		r.ResetOver(data)
		r.Object()
		more = r.Next()
	}
	d.fault = chatFault{}
	d.again.reset()
	for ; more; more = r.Next() {
		if r.Key() != "choices" {
			plain = d.field(r) && plain
			continue
		}
		if plain {
			// The next chunk is compared with this one up to here, see
			// [rawjson.Reader.Resume].
			d.same = *r
			d.same.Detach()
		}
		d.fault.answers = d.fault.answers || r.Kind() == '['
		for r.Array(); r.Next(); {
			d.again.choices++
			if err := d.readChoice(); err != nil {
				return err
			}
		}
	}
	switch err := r.End(); {
	case err != nil:
		return d.call.Garbled("chunk", err, data)
	case d.fault.found() && d.whole:
		return d.call.Refuse([]byte(data))
	case d.fault.found():
		return d.call.Fail(api.ParseFailure([]byte(data), nil))
	}
	if d.answer.Done.ID != "" {
		d.again.learn(data, &d.choice)
		d.data = ""
	}
	d.data = strings.Clone(d.data)
	return nil
}

// field reads another field of a chunk, and reports whether the same field in a later chunk
// is known to add nothing. So it may skip an id or a model that was read before, but never
// a usage, whose counts grow.
func (d *chatDecoder) field(r *rawjson.Reader) (idle bool) {
	switch r.Key() {
	case "id":
		chatFirst(r, &d.answer.Done.ID)
	case "model":
		chatFirst(r, &d.answer.Done.Model)
	case "usage":
		if r.Kind() == '{' {
			d.usage.take(r)
			d.fault.answers, d.again.other = true, true
			return false
		}
	case "x_groq":
		d.groq(r)
		d.again.other = true
		return false
	case "obfuscation":
		d.again.noise = r.Here()
	case "citations":
		chatRaw(r, &d.citations)
	case "search_results":
		chatRaw(r, &d.results)
	default:
		d.fault.field(r)
	}
	return true
}

// A chatFault describes an error in a chunk.
type chatFault struct {
	_         [0]func() // not comparable, which would be code in each program
	failure   string    // JSON
	complaint string    // JSON: an error if the chunk is not part of an answer
	answers   bool      // the chunk has choices or a usage
}

// field notes a field that only errors have, in whatever form a gateway writes them.
func (f *chatFault) field(r *rawjson.Reader) {
	switch r.Key() {
	case "error":
		chatRaw(r, &f.failure)
	case "object":
		if s, _ := r.View(); s == "error" {
			f.failure = "error"
		}
	case "message", "msg", "error_message", "detail", "statusCode", "status_code":
		chatRaw(r, &f.complaint) // some gateways do not use an envelope
	}
}

// found reports whether the chunk is an error. Some services send "error": false with every
// chunk.
func (f *chatFault) found() bool {
	return f.failure != "" && f.failure != "false" || f.complaint != "" && !f.answers
}

// chatFirst reads a string unless one was read before.
func chatFirst(r *rawjson.Reader, to *string) {
	if *to != "" {
		r.Skip()
		return
	}
	s, _ := r.View()
	*to = strings.Clone(s) // a substring would keep the whole chunk in memory
}

// chatRaw keeps a value as JSON for later, since it is rarely there. Null and empty
// values count as absent.
func chatRaw(r *rawjson.Reader, to *string) {
	if r.Kind() == 'n' {
		r.Skip()
		return
	}
	if s := r.Raw(); s != "[]" && s != "{}" && s != `""` {
		*to = s
	}
}

// chatView is [chatRaw] for a value that is valid only while the chunk is handled.
func chatView(r *rawjson.Reader, to *string) {
	if s := r.RawView(); s != "" && s != "null" && s != "[]" && s != "{}" && s != `""` {
		*to = s
	}
}

// groq reads Groq's own field: the usage, in streams for which usage was not requested, and "an
// error string indicating why a stream was stopped early".
func (d *chatDecoder) groq(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch {
		case r.Key() == "usage" && r.Kind() == '{' && !d.usage.seen:
			d.usage.take(r)
		case r.Key() == "error":
			chatRaw(r, &d.fault.failure)
		}
	}
}

// readChoice reads a choice and handles it. It ignores a choice that the filter leaves
// out, such as a second answer.
func (d *chatDecoder) readChoice() error {
	c, r := &d.choice, &d.r
	*c = chatChoice{}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "index":
			c.index, _ = r.Int()
		case "delta":
			d.said(d.whole)
			d.pieces = d.pieces || !d.whole && c.says() != 0
		case "message":
			if !d.pieces { // or else it is all of them once more, at the end of a stream
				d.said(!d.whole)
			}
		case "finish_reason":
			if s, ok := r.Str(); ok {
				c.finish = s
			}
		case "finish_details":
			c.finish = cmp.Or(c.finish, chatFinishType(r))
		case "usage":
			if r.Kind() == '{' {
				d.usage.take(r)
				d.again.other = true
			}
		case "error":
			chatRaw(r, &c.failure)
		}
	}
	if r.Err() != nil {
		return nil // of the chunk
	}
	if c.failure != "" {
		return d.call.Fail(api.ParseFailure([]byte(c.failure), nil))
	}
	return d.handle(c)
}

// handle handles a choice unless the filter leaves it out.
func (d *chatDecoder) handle(c *chatChoice) error {
	kinds := c.says()
	opens := c.opens && kinds == 0 && c.finish == ""
	if !d.filter.takes(c.index, kinds, opens, d.finish != "") {
		return d.filter.bound()
	}
	d.begun = true
	return d.take(c)
}

// chatFinishType reads the finish reason in finish_details, the form that OpenAI's first
// vision models had.
func chatFinishType(r *rawjson.Reader) (typ string) {
	for r.Object(); r.Next(); {
		if r.Key() == "type" {
			typ, _ = r.Str()
		}
	}
	return typ
}

// said reads a delta or a message. If a choice has both, the message is the accumulated
// content and replaces the delta. In a whole answer, spare says that a delta beside the
// message is superfluous.
func (d *chatDecoder) said(spare bool) {
	c, r := &d.choice, &d.r
	if spare && c.said || r.Kind() != '{' {
		r.Skip()
		return
	}
	if c.said {
		*c = chatChoice{index: c.index, finish: c.finish, failure: c.failure}
	}
	c.said = true
	for r.Object(); r.Next(); {
		c.field(r)
	}
}

// field reads a field of a delta or a message. Texts come as a string, or as a list of
// parts.
func (c *chatChoice) field(r *rawjson.Reader) {
	switch r.Key() {
	case "content":
		if r.Kind() == '"' {
			c.text(r, &c.content)
			return
		}
		chatRaw(r, &c.parts)
	case "reasoning_content":
		c.text(r, &c.reasoningContent)
	case "reasoning":
		c.text(r, &c.reasoning)
	case "reasoning_details":
		chatRaw(r, &c.details)
	case "tool_calls":
		c.callsAt = r.Offset()
		chatView(r, &c.calls)
	case "function_call":
		chatView(r, &c.function)
	case "refusal":
		c.refusal, _ = r.View()
	case "annotations":
		chatRaw(r, &c.annotations)
	case "role":
		c.opens = r.Kind() == '"'
	}
}

// text reads a text.
func (c *chatChoice) text(r *rawjson.Reader, to *string) {
	from, before := r.Offset(), *to
	if *to, _ = r.View(); *to != "" {
		c.place = rawjson.Place{From: from, To: r.Offset()}
	} else if before != "" { // the name is there twice
		c.place = rawjson.Place{}
	}
}

// take handles the contents of a choice. The order is that in which models think, speak and
// call, since a whole answer has all of them in one object.
func (d *chatDecoder) take(c *chatChoice) error {
	if s := cmp.Or(c.reasoningContent, c.reasoning); s != "" {
		if err := d.answer.Thinking(s); err != nil {
			return err
		}
	}
	if c.details != "" {
		if err := d.takeDetails(c); err != nil {
			return err
		}
	}
	if err := d.content(c.content); err != nil {
		return err
	}
	if c.parts != "" {
		if err := d.takeParts(c.parts); err != nil {
			return err
		}
	}
	if c.refusal != "" {
		d.refusal.WriteString(c.refusal)
	}
	d.annotations = cmp.Or(c.annotations, d.annotations)
	if c.calls != "" || c.function != "" {
		if err := d.takeCalls(c); err != nil {
			return err
		}
	}
	d.finish = cmp.Or(c.finish, d.finish)
	return nil
}

// content handles a text that is valid only while the chunk is handled.
func (d *chatDecoder) content(s string) error {
	if d.think != nil || d.xml != nil { // which may hold a text back
		s = strings.Clone(s)
	}
	return d.text(s)
}
