package openai

import (
	"strings"

	"github.com/aycoder/aycoder"
)

// An xmlReader finds calls in a streamed text. Text before the first call is emitted as
// soon as it cannot be the beginning of one. All text from there on is parsed at the end,
// because only the whole text shows whether a closing tag belongs to a value, as in a
// file about calls.
type xmlReader struct {
	out   *chatDecoder
	tools map[string]*xmlTool
	held  string           // text before the first call that was not emitted
	code  xmlCode          // the state at the beginning of held
	first *aycoder.ToolUse // nil before the first call
	name  string           // of its tool, on the wire
	body  strings.Builder  // the text behind the name of the first call
}

// reader reads the calls of one answer.
func (xmlTools) reader(d *chatDecoder, tools []*aycoder.ToolSpec) callReader {
	x := &xmlReader{out: d, tools: map[string]*xmlTool{}}
	for _, s := range tools {
		if s != nil {
			x.tools[toolName(s.Name)] = newXMLTool(s.Schema)
		}
	}
	return x
}

// write handles a piece of the text. The longest ending that may still become a call is
// held back.
func (x *xmlReader) write(s string) error {
	if x.first != nil {
		x.body.WriteString(s)
		return nil
	}
	s, x.held = x.held+s, ""
	at := x.find(s, x.code)
	n := len(s) - wrapOverlap(s)
	if at.state != xmlNone {
		n = at.i - wrapLen(s[:at.i])
	}
	if err := x.text(s[:n]); err != nil {
		return err
	}
	if at.state == xmlFound {
		return x.begin(at.name, s[at.body:])
	}
	x.code.feed(s[:n])
	x.held = s[n:]
	return nil
}

// An xmlPlace is the place of a call in a text.
type xmlPlace struct {
	state   xmlState
	i, body int // offsets of its tag, and of the text behind the tag
	name    string
}

type xmlState int

const (
	xmlNone  xmlState = iota
	xmlMaybe          // undecided until more comes
	xmlFound
)

// find finds the first call in s. Tags in code are an example, and stay text.
func (x *xmlReader) find(s string, code xmlCode) xmlPlace {
	for from := 0; ; {
		i := strings.Index(s[from:], xmlCallOpen)
		if i < 0 {
			return xmlPlace{}
		}
		i += from
		code.feed(s[from:i])
		from = i + len(xmlCallOpen)
		at := x.open(s[from:])
		if at.state != xmlNone && !code.inside() {
			at.i, at.body = i, at.body+from
			return at
		}
		code.feed(xmlCallOpen)
	}
}

// open parses the rest of an opening tag. It begins a call only if arguments or the end
// of the call follow, because models also write about calls.
func (x *xmlReader) open(s string) xmlPlace {
	end := strings.IndexByte(s[:min(len(s), maxXMLName+1)], '>')
	if end < 0 {
		if len(s) <= maxXMLName {
			return xmlPlace{state: xmlMaybe}
		}
		return xmlPlace{}
	}
	at := xmlPlace{body: end + 1, name: strings.Trim(s[:end], "\"' ")}
	rest := strings.TrimLeft(s[at.body:], xmlSpace)
	switch {
	case x.tools[at.name] == nil, len(s)-at.body-len(rest) > maxHeld:
	case strings.HasPrefix(rest, "{"), strings.HasPrefix(rest, xmlParamOpen),
		strings.HasPrefix(rest, xmlCallClose):
		at.state = xmlFound
	case xmlMayBegin(rest):
		at.state = xmlMaybe
	}
	return at
}

// xmlMayBegin reports whether s is a prefix of a parameter or of the end of the call.
func xmlMayBegin(s string) bool {
	return strings.HasPrefix(xmlParamOpen, s) || strings.HasPrefix(xmlCallClose, s)
}

// wrapLen returns the length of an opening wrapper at the end of s, including white
// space.
func wrapLen(s string) int {
	t := strings.TrimRight(s, xmlSpace)
	if u, ok := strings.CutSuffix(t, xmlWrapOpen); ok {
		t = strings.TrimRight(u, xmlSpace)
	}
	return len(s) - len(t)
}

// wrapOverlap returns the length of the suffix of s that may be the beginning of a call,
// including a wrapper and the white space before it.
func wrapOverlap(s string) int {
	n := overlap(s, xmlCallOpen)
	if n == 0 {
		n = overlap(s, xmlWrapOpen)
	}
	if wrap := n + wrapLen(s[:len(s)-n]); wrap <= maxHeld {
		return wrap
	}
	return n
}

// trimWrap removes a closing wrapper and white space from the text after a call.
func trimWrap(s string) string {
	s = strings.TrimLeft(s, xmlSpace)
	return strings.TrimLeft(strings.TrimPrefix(s, xmlWrapClose), xmlSpace)
}

func (x *xmlReader) text(s string) error { return x.out.answer.Text(s) }

// begin begins the first call.
func (x *xmlReader) begin(name, rest string) (err error) {
	x.body.WriteString(rest)
	x.name = name
	x.first, err = x.announce(name)
	return err
}

// announce announces a call.
func (x *xmlReader) announce(name string) (*aycoder.ToolUse, error) {
	d := x.out
	if err := d.answer.Close(); err != nil {
		return nil, err
	}
	d.calls.n++
	use := &aycoder.ToolUse{ID: d.newID(""), Name: d.toolName(name)}
	return use, d.call.Emit(&aycoder.ToolDelta{ID: use.ID, Name: use.Name})
}

// end handles the end of the text. A call that the end cut off counts as complete only if
// the answer ended by itself and not at its limit.
func (x *xmlReader) end() error {
	if x.first == nil {
		held := x.held
		x.held = ""
		at := x.find(held, x.code)
		if at.state == xmlNone || at.name == "" {
			return x.text(held)
		}
		if err := x.text(held[:at.i-wrapLen(held[:at.i])]); err != nil {
			return err
		}
		if err := x.begin(at.name, held[at.body:]); err != nil {
			return err
		}
	}
	stop := x.out.stop()
	ended := x.out.finish != "" && (stop == aycoder.StopEndTurn || stop == aycoder.StopToolUse)
	for _, it := range x.read(x.body.String(), ended) {
		if err := x.give(it); err != nil {
			return err
		}
	}
	return nil
}

// give emits a call, and the text behind it.
func (x *xmlReader) give(it *xmlCall) (err error) {
	use := x.first
	if x.first = nil; use == nil {
		if use, err = x.announce(it.name); err != nil {
			return err
		}
	}
	use.Args = it.args
	if it.cut {
		if err := x.out.call.Emit(&aycoder.BlockTruncated{Call: use}); err != nil {
			return err
		}
		return x.text(it.after)
	}
	if err := x.out.call.Emit(&aycoder.ToolDelta{ID: use.ID, Name: use.Name, Args: string(it.args)}); err != nil {
		return err
	}
	if err := x.out.call.Emit(&aycoder.BlockDone{Part: use}); err != nil {
		return err
	}
	return x.text(it.after)
}

// read parses the calls, starting behind the name of the first. If the text behind a call
// contains another end of a value, it is unclear which of the earlier ends were real, so
// none of the calls up to there is accepted. A model can write such values in JSON.
func (x *xmlReader) read(s string, ended bool) []*xmlCall {
	var calls []*xmlCall
	name, params := x.name, false
	for {
		c := &xmlCall{name: name, tool: x.tools[name]}
		rest, byParams := c.read(s, ended)
		calls, params = append(calls, c), params || byParams
		rest = trimWrap(rest)
		at := x.find(rest, xmlCode{})
		if at.state != xmlFound && (at.state != xmlMaybe || at.name == "") {
			at.i = len(rest)
		} else {
			at.state = xmlFound
		}
		c.after = rest[:at.i]
		if params && hasValueEnd(c.after) {
			for _, c := range calls {
				c.cut = true
			}
		}
		if at.state != xmlFound {
			if strings.HasPrefix(xmlWrapClose, c.after) {
				c.after = ""
			}
			return calls
		}
		c.after = c.after[:at.i-wrapLen(c.after)]
		name, s = at.name, rest[at.body:]
	}
}

// hasValueEnd reports whether s contains the end of a value followed by the end of its
// call.
func hasValueEnd(s string) bool {
	for {
		_, rest, ok := strings.Cut(s, xmlParamClose)
		if !ok {
			return false
		}
		if s = strings.TrimLeft(rest, xmlSpace); strings.HasPrefix(s, xmlCallClose) {
			return true
		}
	}
}
