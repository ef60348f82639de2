package ollama

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
	"github.com/aycoder/aycoder/internal/sse"
)

var errNoObject = errors.New("not a JSON object")

// A decoder converts the lines of one answer to events. Besides /api/chat it supports the
// form of /api/generate, which has "response" in place of "message".
type decoder struct {
	k       *api.Call
	a       *api.Answer
	r       rawjson.Reader
	context int64 // the length of the context, if it was set

	created string // of the first line
	number  int    // of messages in the request
	seed    string // for the generated ids
	ids     map[string]bool
	said    bool // something came
}

func newDecoder(k *api.Call, context int64, messages int) *decoder {
	return &decoder{k: k, a: api.NewAnswer(k), context: context, number: messages}
}

// A line has the fields of one line of an answer.
type line struct {
	model, created    string
	content, thinking string
	calls             string // JSON
	failed            bool
	known             bool // some field of an answer is present
	done              bool
	reason            string
	in, out           int64
}

// Event implements [api.Decoder].
func (d *decoder) Event(ev sse.Event) (bool, error) {
	d.r.Reset(ev.Data)
	switch {
	case d.r.Kind() == '{':
	case !d.said:
		return false, d.k.Refuse([]byte(ev.Data))
	default:
		return false, d.k.Garbled("line", errNoObject, ev.Data)
	}
	l := readLine(&d.r)
	if err := d.r.End(); err != nil {
		return false, d.k.Garbled("line", err, ev.Data)
	}
	if l.failed {
		return false, d.k.Fail(failureOf([]byte(ev.Data), nil, d.context))
	}
	if !l.known && !d.said {
		return false, d.k.Refuse([]byte(ev.Data))
	}
	d.head(&l)
	if err := d.add(&l); err != nil || !l.done {
		return false, err
	}
	return true, d.end(&l)
}

// head records the fields that concern the whole answer, as copies: substrings would keep
// the whole line from being freed.
func (d *decoder) head(l *line) {
	if d.created == "" {
		d.created = strings.Clone(l.created)
	}
	if l.model != "" && l.model != d.a.Done.Model {
		d.a.Done.Model = strings.Clone(l.model)
	}
}

// Whole implements [api.Decoder]. The client does not call it: if a response is one
// document, the reader of lines passes the document to [decoder.Event] as one line.
func (d *decoder) Whole(data string) error {
	done, err := d.Event(sse.Event{Data: data})
	if err == nil && !done {
		err = api.ErrUnfinished
	}
	return err
}

// End implements [api.Decoder].
func (d *decoder) End() error { return api.ErrUnfinished }

func readLine(r *rawjson.Reader) (l line) {
	for r.Object(); r.Next(); {
		key, kind := r.Key(), r.Kind()
		l.known = l.known || key == "message" && kind == '{' || key == "response" && kind == '"' || key == "done"
		switch key {
		case "model":
			l.model, _ = r.Str()
		case "created_at":
			l.created, _ = r.Str()
		case "message":
			l.readMessage(r)
		case "response":
			l.content, _ = r.Str()
		case "thinking":
			l.thinking, _ = r.Str()
		case "done":
			l.done, _ = r.Bool()
		case "done_reason":
			l.reason, _ = r.Str()
		case "prompt_eval_count":
			l.in = count(r)
		case "eval_count":
			l.out = count(r)
		case "error":
			l.failed = isError(r)
		}
	}
	return l
}

func count(r *rawjson.Reader) int64 {
	n, _ := r.Int()
	return api.Count(n)
}

// isError reports whether the field contains an error.
func isError(r *rawjson.Reader) bool {
	raw := r.Raw()
	return raw != "" && raw != "null" && raw != `""`
}

func (l *line) readMessage(r *rawjson.Reader) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "content":
			// structured output that is an object instead of a string
			if kind := r.Kind(); kind == '{' || kind == '[' {
				l.content = r.Raw()
				continue
			}
			l.content, _ = r.Str()
		case "thinking":
			l.thinking, _ = r.Str()
		case "tool_calls":
			l.calls = r.Raw()
		}
	}
}

// add adds the content of a line to the answer.
func (d *decoder) add(l *line) error {
	if err := d.a.Thinking(l.thinking); err != nil {
		return err
	}
	if err := d.a.Text(l.content); err != nil {
		return err
	}
	d.said = d.said || l.thinking != "" || l.content != ""
	if l.calls == "" {
		return nil
	}
	r := rawjson.NewReader(l.calls)
	for r.Array(); r.Next(); {
		if err := d.call(readCall(r)); err != nil {
			return err
		}
	}
	return nil
}

// readCall reads {"id": "…", "function": {"name": "…", "arguments": {…}}}.
func readCall(r *rawjson.Reader) *aycoder.ToolUse {
	u := &aycoder.ToolUse{}
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "id":
			id, _ := r.Str()
			u.ID = strings.Clone(id)
		case "function":
			readFunction(r, u)
		}
	}
	return u
}

func readFunction(r *rawjson.Reader, u *aycoder.ToolUse) {
	for r.Object(); r.Next(); {
		switch r.Key() {
		case "name":
			name, _ := r.Str()
			u.Name = strings.Clone(name)
		case "arguments":
			u.Args = readArgs(r)
		}
	}
}

// readArgs reads an object. Servers that imitate Ollama send a string of JSON.
func readArgs(r *rawjson.Reader) json.RawMessage {
	if r.Kind() == '"' {
		s, _ := r.Str()
		return json.RawMessage(s)
	}
	return json.RawMessage(r.Raw())
}

func (d *decoder) call(u *aycoder.ToolUse) error {
	d.said = true
	if d.a.Repeats(u.ID, u) {
		return nil
	}
	d.name(u)
	if len(u.Args) == 0 || rawjson.Valid(u.Args) {
		return d.a.Call(u)
	}
	return d.a.Cut(u)
}

// name generates an id for a call that has none, or has the same as another: versions
// before November 2025 send none.
func (d *decoder) name(u *aycoder.ToolUse) {
	if d.ids == nil {
		d.ids = map[string]bool{}
	}
	if d.seed == "" {
		d.seed = strings.Join([]string{d.a.Done.Model, d.created, strconv.Itoa(d.number)}, "\n")
	}
	for n := len(d.ids); u.ID == "" || d.ids[u.ID]; n++ {
		u.ID = api.MakeID(d.seed, n)
	}
	d.ids[u.ID] = true
}

// end ends the message. If the context ended before the answer began, the conversation
// was too long.
func (d *decoder) end(l *line) error {
	if l.reason == "length" && !d.said && d.context > 0 && l.in+l.out >= d.context {
		return &aycoder.ContextTooLargeError{Actual: l.in, Max: d.context,
			ModelError: d.k.Base("length", errors.New("the prompt leaves no room for an answer"))}
	}
	d.a.Done.Stop = stopReason(l.reason)
	d.a.Done.Usage = aycoder.Usage{Input: l.in, Output: l.out}
	return d.a.End()
}

// stopReason converts a done_reason. Old versions send none.
func stopReason(s string) aycoder.StopReason {
	switch s {
	case "", "stop":
		return aycoder.StopEndTurn
	case "length":
		return aycoder.StopMaxTokens
	}
	return aycoder.StopReason(s) // "load", "unload"
}
