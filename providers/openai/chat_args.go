package openai

import (
	"encoding/json"
	"strings"

	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatSpace is what JSON calls so.
const chatSpace = " \t\r\n"

// chatArgs are the arguments of a call, which come in pieces. Where they end is looked
// for in each byte once, however often it is asked.
type chatArgs struct {
	text  []byte
	first byte // of text that is no space, or 0

	passed           int // how much of text was looked at
	depth            int // how many containers are open there
	inString, escape bool
	end              int  // where the first value ended, or 0
	object           bool // it is a valid object
	more             bool // something other than space follows it
}

// add adds a piece.
func (a *chatArgs) add(s string) {
	a.text = append(a.text, s...)
	if a.first == 0 {
		if s = strings.TrimLeft(s, chatSpace); s != "" {
			a.first = s[0]
		}
	}
}

// closed reports whether the arguments are a whole object, to which nothing can be
// added.
func (a *chatArgs) closed() bool {
	if a.first != '{' {
		return false
	}
	for ; a.passed < len(a.text) && !a.more; a.passed++ {
		a.pass(a.text[a.passed])
	}
	return a.object && !a.more
}

// pass looks at the next byte.
func (a *chatArgs) pass(c byte) {
	switch {
	case a.end > 0:
		a.more = strings.IndexByte(chatSpace, c) < 0
	case a.escape:
		a.escape = false
	case a.inString:
		a.escape, a.inString = c == '\\', c != '"'
	case c == '"':
		a.inString = true
	case c == '{', c == '[':
		a.depth++
	case c == '}', c == ']':
		if a.depth--; a.depth == 0 {
			a.end = a.passed + 1
			a.object = json.Valid(a.text[:a.end])
		}
	}
}

// maxPlaceholder is how long what stands for no arguments is with its spaces.
const maxPlaceholder = 16

// placeholder reports whether the arguments are what some services send before those
// that the model writes.
func (a *chatArgs) placeholder() bool {
	if len(a.text) > maxPlaceholder {
		return false
	}
	s := strings.Trim(string(a.text), chatSpace)
	return s == "{}" || s == "null" || s == `""`
}

// none reports whether there are no arguments.
func (a *chatArgs) none() bool { return a.first == 0 || a.first != '{' && a.placeholder() }

// quoted returns the object in arguments that are a JSON string of it, or nil.
func (a *chatArgs) quoted() json.RawMessage {
	r := rawjson.NewReader(string(a.text))
	s, ok := r.Str()
	if !ok || r.End() != nil || !rawjson.IsObject([]byte(s)) {
		return nil
	}
	return json.RawMessage(s)
}
