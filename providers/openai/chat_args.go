package openai

import (
	"encoding/json"
	"strings"

	"github.com/aycoder/aycoder/internal/api"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// chatSpace is the white space of JSON.
const chatSpace = " \t\r\n"

// chatArgs are the arguments of a call, which arrive in pieces. Each byte is scanned once
// for their end, however often the end is asked for.
type chatArgs struct {
	text  strings.Builder
	first byte // first byte of text that is not white space, or 0

	passed           int // number of scanned bytes of text
	depth            int // number of open containers at that point
	inString, escape bool
	end              int  // end of the first value, or 0
	object           bool // the first value is a valid object
	more             bool // something other than white space follows it
}

// add adds a piece.
func (a *chatArgs) add(s string) {
	api.Grow(&a.text, s)
	if a.first == 0 {
		if s = strings.TrimLeft(s, chatSpace); s != "" {
			a.first = s[0]
		}
	}
}

// closed reports whether the arguments are a complete object, so that no more can follow.
func (a *chatArgs) closed() bool {
	if a.first != '{' {
		return false
	}
	for text := a.text.String(); a.passed < len(text) && !a.more; a.passed++ {
		a.pass(text[a.passed])
	}
	return a.object && !a.more
}

// pass scans the next byte.
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
			a.object = rawjson.Valid([]byte(a.text.String()[:a.end]))
		}
	}
}

// maxPlaceholder is the maximum length of a placeholder for absent arguments, with white
// space.
const maxPlaceholder = 16

// placeholder reports whether the arguments are a placeholder that some services send
// before the real ones.
func (a *chatArgs) placeholder() bool {
	if a.text.Len() > maxPlaceholder {
		return false
	}
	s := strings.Trim(a.text.String(), chatSpace)
	return s == "{}" || s == "null" || s == `""`
}

// none reports whether the arguments are absent.
func (a *chatArgs) none() bool { return a.first == 0 || a.first != '{' && a.placeholder() }

// quoted returns the object in arguments that are a JSON string containing it, or nil.
func (a *chatArgs) quoted() json.RawMessage {
	r := rawjson.NewReader(a.text.String())
	s, ok := r.Str()
	if !ok || r.End() != nil || !rawjson.IsObject([]byte(s)) {
		return nil
	}
	return json.RawMessage(s)
}
