package google

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
	"github.com/aycoder/aycoder/internal/view"
)

const (
	signatureField = "thoughtSignature"

	// maxForeign is the number of bytes that are kept of a document from another service.
	maxForeign = 16 << 10

	// maxReason is the number of bytes that are shown of the service's explanation of a
	// finish reason.
	maxReason = 500
)

// metadataFields describe the sources of an answer. They become one [aycoder.Opaque] at
// its end, under these names.
var metadataFields = []string{"groundingMetadata", "citationMetadata", "urlContextMetadata"}

var errNotObject = errors.New("not a JSON object")

// A decoder converts the events of one response to model events.
type decoder struct {
	call   *api.Call
	answer api.Answer
	shape  shape
	open   *openCall // the incomplete call
	said   bool      // a part was received
	usage  []byte    // the latest usage

	provider     string
	names        map[string]string // of tools, by their names on the wire
	ids          map[string]bool   // of the calls in this answer
	made         int               // number of generated ids
	doc, content rawjson.Reader
	finish       string
	message      string            // explanation of finish
	meta         map[string]string // of metadataFields
	foreign      string            // a document that is not an answer of the service
}

func newDecoder(k *api.Call, names map[string]string) *decoder {
	return &decoder{call: k, answer: *api.NewAnswer(k), provider: k.Config().Provider, names: names}
}

// A chunk has the fields of one event. Unless noted, they are JSON text as sent, or
// empty.
type chunk struct {
	model, id string // decoded
	usage     string
	feedback  string
	content   string // of the first candidate
	finish    string // decoded
	message   string // explanation of finish
	meta      [3]string
	failed    bool
	known     bool // some field of an answer is present
}

// Event implements [api.Decoder]. It reports the end only for the marker "[DONE]", which
// some gateways send. The service itself does not mark the last event: parts may still
// follow an event with a finish reason.
func (d *decoder) Event(ev sse.Event) (bool, error) {
	switch {
	case ev.Type == "error":
		return false, d.call.Fail(api.ParseFailure([]byte(ev.Data), nil))
	case ev.Data == "[DONE]":
		return true, d.End()
	case ev.Data[0] == '[':
		return false, d.all(ev.Data)
	}
	return false, d.one(ev.Data)
}

// Whole implements [api.Decoder]. It handles the response of a service that ignores the
// parameter "alt=sse", and sends one JSON array instead of a stream. Each element of the
// array is a document that an event of the stream would contain.
func (d *decoder) Whole(data string) error {
	if err := d.all(data); err != nil {
		return err
	}
	return d.End()
}

// all handles a document, or a list of them.
func (d *decoder) all(data string) error {
	r := rawjson.NewReader(data)
	docs := []string{data}
	if r.Kind() == '[' {
		docs = nil
		for r.Array(); r.Next(); {
			docs = append(docs, r.Raw())
		}
	}
	if err := r.End(); err != nil {
		return d.call.Garbled("response", err, data)
	}
	for _, doc := range docs {
		if err := d.one(doc); err != nil {
			return err
		}
	}
	return nil
}

// one handles one document. It is validated completely before any of it is used.
func (d *decoder) one(data string) error {
	if p, usage, ok := d.shape.match(data); ok {
		return d.same(&p, usage)
	}
	return d.whole(data)
}

// same handles a document that has the shape of the previous one.
func (d *decoder) same(p *part, usage string) error {
	if usage != "" {
		d.usage = append(d.usage[:0], usage...)
	}
	return d.part(p)
}

// View implements [api.ViewDecoder]. View is a fast path that does not copy the whole
// event. It handles an event that differs from an earlier event only in the text and the
// token counts, because such an event need not be parsed completely. For any other event
// it returns false, and [decoder.Event] handles a copy of the event.
func (d *decoder) View(ev sse.Event) (taken bool, err error) {
	p, usage, ok := d.shape.match(ev.Data)
	if !ok || ev.Type == "error" {
		return false, nil
	}
	return true, d.same(&p, usage)
}

// whole parses a document.
func (d *decoder) whole(data string) error {
	var c chunk
	d.doc.Reset(data)
	if d.doc.Kind() != '{' {
		return d.call.Garbled("event", errNotObject, data)
	}
	for d.doc.Object(); d.doc.Next(); {
		c.field(&d.doc)
	}
	if err := d.doc.End(); err != nil {
		return d.call.Garbled("event", err, data)
	}
	if c.failed {
		return d.call.Fail(api.ParseFailure([]byte(data), nil))
	}
	if c == (chunk{}) && d.foreign == "" {
		d.foreign = strings.Clone(data[:min(len(data), maxForeign)])
	}
	d.head(&c)
	n, last, err := d.parts(c.content)
	if err != nil {
		return err
	}
	if n == 1 && len(data) <= maxShape && last.isText() && c.finish == "" && c.feedback == "" && c.meta == [3]string{} {
		d.shape.learn(data, &last)
	}
	return d.blocked(c.feedback)
}

func (c *chunk) field(r *rawjson.Reader) {
	switch r.Key() {
	case "candidates":
		c.known = true
		for r.Array(); r.Next(); {
			c.candidate(r)
		}
	case "usageMetadata":
		c.usage = object(r)
	case "modelVersion":
		c.model, _ = r.Str()
	case "responseId":
		c.id, _ = r.Str()
	case "promptFeedback":
		c.feedback = object(r)
	case "error":
		c.failed = r.Kind() == '{' || r.Kind() == '"'
	}
}

// object reads an object as JSON text; any other value counts as absent.
func object(r *rawjson.Reader) string {
	if r.Kind() != '{' {
		return ""
	}
	return r.Raw()
}

// candidate reads one of the candidates, and keeps the first. The index that identifies
// it comes last, and some services omit it.
func (c *chunk) candidate(r *rawjson.Reader) {
	var k chunk
	index := int64(0)
	for r.Object(); r.Next(); {
		switch key := r.Key(); key {
		case "index":
			index, _ = r.Int()
		case "content":
			k.content = object(r)
		case "finishReason":
			k.finish = reason(r)
		case "finishMessage":
			k.message, _ = r.Str()
		default:
			for i, name := range metadataFields {
				if key == name {
					k.meta[i] = object(r)
				}
			}
		}
	}
	if index == 0 && c.content == "" && c.finish == "" {
		c.content, c.finish, c.message, c.meta = k.content, k.finish, k.message, k.meta
	}
}

// reason reads a finish reason: a word, or its number.
func reason(r *rawjson.Reader) string {
	if r.Kind() == '0' {
		return r.Raw()
	}
	s, _ := r.Str()
	return s
}

// head handles the fields that concern the whole answer. Each value replaces the previous
// one. Values are copied where they would keep a large event from being freed.
func (d *decoder) head(c *chunk) {
	done := &d.answer.Done
	if c.id != "" && c.id != done.ID {
		done.ID = strings.Clone(c.id)
	}
	switch c.model {
	case "", done.Model:
	case d.call.Model():
		done.Model = d.call.Model()
	default:
		done.Model = strings.Clone(c.model)
	}
	if c.usage != "" && parseUsage(c.usage) != (aycoder.Usage{}) { // some gateways end with zeros
		d.usage = append(d.usage[:0], c.usage...)
	}
	switch word := finishWord(c.finish, d.provider); word {
	case "":
	case "STOP":
		d.finish = "STOP"
	default:
		d.finish = strings.Clone(word)
	}
	if c.message != "" {
		d.message = strings.Clone(c.message)
	}
	for i, raw := range c.meta {
		if len(raw) > len("{}") {
			if d.meta == nil {
				d.meta = map[string]string{}
			}
			d.meta[metadataFields[i]] = strings.Clone(raw)
		}
	}
}

// blocked ends the answer to a prompt that a filter refused: "If set, the prompt was
// blocked and no candidates are returned."
func (d *decoder) blocked(feedback string) error {
	if feedback == "" {
		return nil
	}
	why, text := "", ""
	r := rawjson.NewReader(feedback)
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "blockReason":
			why = reason(r)
		case "blockReasonMessage":
			text, _ = r.Str()
		}
	}
	if why == "" || why == "0" || strings.HasSuffix(why, "_UNSPECIFIED") {
		return nil
	}
	why = d.call.Config().Show(why, 100)
	err := fmt.Errorf("prompt was blocked: %s", why)
	if text != "" {
		err = fmt.Errorf("%w: %s", err, d.call.Config().Show(text, 1000))
	}
	return &aycoder.RefusalError{ModelError: d.call.Base(why, err)}
}

// A part is one piece of a candidate's content.
type part struct {
	text      string
	signature string // JSON text
	call      string // JSON text
	raw       string // JSON text of the whole part, if it is server-side
	thought   bool
	plain     bool // it has a text or a signature
	other     bool // it has something else
}

// opaque reports whether only the service understands the part.
func (p *part) opaque() bool { return p.other && p.call == "" && p.text == "" }

// isText reports whether a part is only text or a thought.
func (p *part) isText() bool { return p.text != "" && p.signature == "" && p.call == "" && !p.other }

// parts handles the parts of a content. It returns their number, and the last one.
func (d *decoder) parts(content string) (n int, last part, err error) {
	r := &d.content
	r.Reset(content)
	for r.Object(); r.Next(); {
		if r.Key() != "parts" {
			continue
		}
		for r.Array(); r.Next(); n++ {
			at := *r // where the part begins
			if last = readPart(r); last.opaque() {
				last.raw = at.Raw()
			}
			if err := d.part(&last); err != nil {
				return n, last, err
			}
		}
	}
	return n, last, nil
}

func readPart(r *rawjson.Reader) (p part) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "text":
			p.text, p.plain = r.Str()
		case "thought":
			p.thought, _ = r.Bool()
		case signatureField:
			if r.Kind() == '"' {
				p.signature = r.Raw()
			}
		case "functionCall":
			p.call = object(r)
		default:
			p.other = true
		}
	}
	p.plain = p.plain || p.signature != ""
	return p
}

func (d *decoder) part(p *part) error {
	switch {
	case p.call != "":
		return d.function(p)
	case p.text == "" && p.signature == "" && !p.other:
		return nil
	}
	d.said = true
	if err := d.cutCall(); err != nil {
		return err
	}
	if p.opaque() {
		return d.answer.Opaque(json.RawMessage(p.raw))
	}
	return d.words(p)
}

// words handles a text or a thought. A signed one is a separate block: "Don't merge one
// part with a signature with another part without a signature."
func (d *decoder) words(p *part) error {
	add := d.answer.Text
	if p.thought {
		add = d.answer.Thinking
	}
	if p.signature == "" {
		return add(p.text)
	}
	if err := d.answer.Close(); err != nil {
		return err
	}
	if err := add(p.text); err != nil {
		return err
	}
	if p.thought {
		sig, _ := rawjson.Unquote(p.signature[1 : len(p.signature)-1]) // it was validated before
		d.answer.Sign(sig)
	} else {
		d.answer.Extra(signatureObject(p.signature))
	}
	return d.answer.Close()
}

// End implements [api.Decoder]. An answer is complete if it has a finish reason.
func (d *decoder) End() error {
	switch {
	case d.finish == "" && d.foreign != "":
		return d.call.Refuse([]byte(d.foreign))
	case d.finish == "":
		return api.ErrUnfinished
	}
	if d.failed() {
		return d.failure()
	}
	done := &d.answer.Done
	done.Stop = stopReason(d.finish)
	done.Usage = parseUsage(view.String(d.usage))
	if done.Model == "" {
		done.Model = d.call.Model()
	}
	if err := d.cutCall(); err != nil {
		return err
	}
	if err := d.metadata(); err != nil {
		return err
	}
	return d.answer.End()
}

// failed reports whether the candidate finished without an answer. Complete calls are an
// answer all the same.
func (d *decoder) failed() bool {
	switch {
	case d.finish == unsigned:
		return true
	case d.answer.Calls() > 0, d.finish == undeclared:
		return false
	}
	return slices.Contains(failures, d.finish) || !d.said && stopReason(d.finish) == aycoder.StopReason(d.finish)
}

// failure returns the error for such a candidate.
func (d *decoder) failure() error {
	err := errors.New(d.finish)
	if d.message != "" {
		err = fmt.Errorf("%w: %s", err, d.call.Config().Show(d.message, maxReason))
	}
	base := d.call.Base(d.finish, err)
	if d.finish == unsigned {
		return &aycoder.BadRequestError{ModelError: base}
	}
	return &aycoder.StreamBrokenError{ModelError: base, After: d.call.Elapsed()}
}

// metadata emits the sources of the answer.
func (d *decoder) metadata() error {
	if d.meta == nil {
		return nil
	}
	b := []byte{'{'}
	for _, name := range metadataFields {
		if raw := d.meta[name]; raw != "" {
			b = append(rawjson.AppendKey(b, name), raw...)
		}
	}
	return d.answer.Opaque(append(b, '}'))
}

// parseUsage counts tokens. The prompt's count includes cached tokens, but not the
// results of server-side tools; the candidates' count excludes thoughts.
func parseUsage(raw string) aycoder.Usage {
	var prompt, cached, tools, candidates, thoughts int64
	r := rawjson.NewReader(raw)
	for r.Object(); r.Next(); {
		var to *int64
		switch r.Key() {
		case "promptTokenCount":
			to = &prompt
		case "cachedContentTokenCount":
			to = &cached
		case "toolUsePromptTokenCount":
			to = &tools
		case "candidatesTokenCount":
			to = &candidates
		case "thoughtsTokenCount":
			to = &thoughts
		default:
			continue
		}
		n, _ := r.Int()
		*to = api.Count(n)
	}
	cached = min(cached, prompt)
	return aycoder.Usage{Input: prompt + tools - cached, CacheRead: cached,
		Output: candidates + thoughts, Reasoning: thoughts}
}
