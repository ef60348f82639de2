package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Tools in the text, for models that were not made to call them:
//
//	<function=name>
//	<parameter=key>
//	value
//	</parameter>
//	</function>
const (
	xmlCallOpen   = "<function="
	xmlCallClose  = "</function>"
	xmlParamOpen  = "<parameter="
	xmlParamClose = "</parameter>"
	// Some models put each call into these.
	xmlWrapOpen  = "<tool_call>"
	xmlWrapClose = "</tool_call>"

	xmlSpace = " \t\r\n"
	// maxXMLName is from where on what should be a name is text.
	maxXMLName = 128
	// maxXMLParams is how many parameters a call may have.
	maxXMLParams = 1000
	// maxHeld is how much space is held back before what may be a tag.
	maxHeld = 512
)

// xmlPrompt describes tools and how they are called.
func xmlPrompt(tools []*aycoder.ToolSpec, choice aycoder.ToolChoice) string {
	if choice.Mode == aycoder.ToolNone {
		return "You must not call a tool in this answer."
	}
	var b strings.Builder
	b.WriteString("You can call tools. To call one, write exactly this, with the tool's name and one " +
		"parameter block for each argument:\n\n" +
		"<function=tool_name>\n<parameter=argument_name>\nvalue\n</parameter>\n</function>\n\n" +
		"A value that is text is written as it is, without quotes or escapes. Any other value is JSON. " +
		"You can make several calls, one after the other, and explain before the first what you do. " +
		"Write nothing after the last call: what the tools put out comes in the next message, in " +
		"<function_result> blocks.\n\nThe tools:\n")
	for _, s := range tools {
		b.WriteString("\n<tool name=\"" + toolName(s.Name) + "\">\n" + strings.TrimSpace(s.Description) + "\nArguments: ")
		schema, _ := schemaOf(s.Schema) // was checked
		b.Write(schema)
		b.WriteString("\n</tool>\n")
	}
	switch choice.Mode {
	case aycoder.ToolAny:
		b.WriteString("\nYou must call a tool in this answer.")
	case aycoder.ToolNamed:
		b.WriteString("\nYou must call the tool " + toolName(choice.Name) + " in this answer.")
	}
	return b.String()
}

// xmlCall writes a call as the model wrote it.
func xmlCall(u *aycoder.ToolUse) string {
	var b strings.Builder
	b.WriteString("\n" + xmlCallOpen + toolName(u.Name) + ">\n")
	if args, err := rawjson.Parse(u.Args); err == nil {
		for _, f := range args {
			b.WriteString(xmlParamOpen + f.Key + ">\n")
			if s, err := rawjson.Str(f.Key, f.Val); err == nil && !rawjson.IsNull(f.Val) {
				b.WriteString(s)
			} else {
				b.Write(f.Val)
			}
			b.WriteString("\n" + xmlParamClose + "\n")
		}
	}
	b.WriteString(xmlCallClose)
	return b.String()
}

// xmlResult writes what a tool put out.
func xmlResult(o *aycoder.ToolOutput, text string) string {
	state := ""
	if o.IsError {
		state = ` error="true"`
	}
	return `<function_result name="` + toolName(o.Name) + `"` + state + ">\n" + text + "\n</function_result>"
}

// An xmlReader finds calls in a text that comes in pieces. What is before a call is
// given out as soon as it cannot be the beginning of one.
type xmlReader struct {
	out   *chatDecoder
	tools map[string]map[string]bool // the parameters of each tool that are texts
	held  string                     // not given out, outside of a call
	call  *xmlOpen
	after bool // a call ended, and nothing but space came
}

// An xmlOpen is a call whose end has not come.
type xmlOpen struct {
	use    *aycoder.ToolUse
	texts  map[string]bool // its parameters that are texts
	body   strings.Builder
	at     int  // what is before it was looked at
	inside bool // of a value
	closed int  // where a value may have ended, and nothing but space came; or 0
}

func newXMLReader(d *chatDecoder, tools []*aycoder.ToolSpec) *xmlReader {
	x := &xmlReader{out: d, tools: map[string]map[string]bool{}}
	for _, s := range tools {
		if s != nil {
			x.tools[toolName(s.Name)] = xmlTexts(s.Schema)
		}
	}
	return x
}

// xmlTexts are the parameters that may be a text.
func xmlTexts(schema json.RawMessage) map[string]bool {
	var s struct {
		Properties map[string]struct {
			Type json.RawMessage
			Enum []any
		}
	}
	_ = json.Unmarshal(schema, &s) // a schema that says nothing about types
	texts := map[string]bool{}
	for name, p := range s.Properties {
		var types []string
		if json.Unmarshal(p.Type, &types) != nil {
			types = []string{strings.Trim(string(p.Type), `"`)}
		}
		for _, typ := range types {
			texts[name] = texts[name] || typ == "string"
		}
		for _, v := range p.Enum {
			_, isText := v.(string)
			texts[name] = texts[name] || isText && len(p.Type) == 0
		}
	}
	return texts
}

// write takes a piece of the text.
func (x *xmlReader) write(s string) error {
	for s != "" {
		if x.call == nil {
			var err error
			if s, err = x.outside(s); err != nil {
				return err
			}
			continue
		}
		x.call.body.WriteString(s)
		rest, ok := x.call.end()
		if !ok {
			return nil
		}
		if err := x.finish(); err != nil {
			return err
		}
		s = rest
	}
	return nil
}

// outside reads text up to a call, and returns what is behind its name.
func (x *xmlReader) outside(s string) (rest string, err error) {
	s, x.held = x.held+s, ""
	if x.after {
		if s, x.after = trimWrap(s); x.after {
			x.held = s
			return "", nil
		}
	}
	for from := 0; ; {
		i := strings.Index(s[from:], xmlCallOpen)
		if i < 0 {
			n := len(s) - wrapOverlap(s)
			x.held = s[n:]
			return "", x.text(s[:n])
		}
		i += from
		name, behind, ok := strings.Cut(s[i+len(xmlCallOpen):], ">")
		if !ok && len(name) <= maxXMLName {
			n := i - wrapLen(s[:i])
			x.held = s[n:]
			return "", x.text(s[:n])
		}
		name = strings.Trim(name, "\"' ")
		if _, known := x.tools[name]; !ok || !known {
			from = i + len(xmlCallOpen) // it stays text
			continue
		}
		if err := x.text(s[:i-wrapLen(s[:i])]); err != nil {
			return "", err
		}
		return behind, x.begin(name)
	}
}

// wrapLen is the length of an opening wrapper, and the space around it, at the end of s.
func wrapLen(s string) int {
	t := strings.TrimRight(s, xmlSpace)
	if u, ok := strings.CutSuffix(t, xmlWrapOpen); ok {
		t = strings.TrimRight(u, xmlSpace)
	}
	return len(s) - len(t)
}

// wrapOverlap is the length of what may be the beginning of a call at the end of s, with
// a wrapper and the space before it.
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

// trimWrap takes a closing wrapper and space off the text after a call, and reports
// whether more of them may come.
func trimWrap(s string) (rest string, more bool) {
	s = strings.TrimLeft(s, xmlSpace)
	if t, ok := strings.CutPrefix(s, xmlWrapClose); ok {
		s = strings.TrimLeft(t, xmlSpace)
	}
	return s, strings.HasPrefix(xmlWrapClose, s)
}

func (x *xmlReader) text(s string) error {
	return x.out.answer.Text(s)
}

func (x *xmlReader) begin(name string) error {
	d := x.out
	if err := d.answer.Close(); err != nil {
		return err
	}
	x.call = &xmlOpen{texts: x.tools[name], use: &aycoder.ToolUse{ID: d.newID(""), Name: d.toolName(name)}}
	return d.call.Emit(&aycoder.ToolDelta{ID: x.call.use.ID, Name: x.call.use.Name})
}

// end looks for the end of the call in what was not looked at yet. The body is cut
// there, and what is behind it returned. An end inside of a value is none.
func (o *xmlOpen) end() (rest string, ok bool) {
	body := o.body.String()
	for {
		if o.inside && !o.valueEnd(body) {
			return "", false
		}
		i := strings.IndexByte(body[o.at:], '<')
		if i < 0 {
			o.at = len(body)
			return "", false
		}
		o.at += i
		switch tag := body[o.at:]; {
		case strings.HasPrefix(tag, xmlCallClose):
			o.body.Reset()
			o.body.WriteString(body[:o.at])
			return tag[len(xmlCallClose):], true
		case strings.HasPrefix(tag, xmlParamOpen):
			o.inside = true
			o.at += len(xmlParamOpen)
		case xmlMayBegin(tag):
			return "", false
		default:
			o.at++
		}
	}
}

// xmlMayBegin reports whether s is the beginning of what follows a value.
func xmlMayBegin(s string) bool {
	return strings.HasPrefix(xmlParamOpen, s) || strings.HasPrefix(xmlCallClose, s)
}

// valueEnd looks for the end of a value: a closing tag that a parameter or the end of
// the call follows, so that a text may hold the tag itself.
func (o *xmlOpen) valueEnd(body string) bool {
	for {
		if o.closed == 0 {
			i := strings.Index(body[o.at:], xmlParamClose)
			if i < 0 {
				o.at = max(o.at, len(body)-len(xmlParamClose)+1)
				return false
			}
			o.at += i + len(xmlParamClose)
			o.closed = o.at
		}
		rest := strings.TrimLeft(body[o.at:], xmlSpace)
		o.at = len(body) - len(rest)
		switch {
		case strings.HasPrefix(rest, xmlParamOpen), strings.HasPrefix(rest, xmlCallClose):
			o.inside, o.closed = false, 0
			return true
		case xmlMayBegin(rest):
			return false
		}
		o.at, o.closed = o.closed, 0
	}
}

// finish gives out a call that is complete.
func (x *xmlReader) finish() error {
	use, body, texts := x.call.use, x.call.body.String(), x.call.texts
	x.call, x.after = nil, true
	x.out.calls.n++
	args, err := xmlArgs(body, texts)
	if err != nil { // it is no call that can be run, and the model is told so
		use.Args = json.RawMessage(body)
		return x.out.call.Emit(&aycoder.BlockCut{Call: use})
	}
	use.Args = args
	if err := x.out.call.Emit(&aycoder.ToolDelta{ID: use.ID, Name: use.Name, Args: string(args)}); err != nil {
		return err
	}
	return x.out.call.Emit(&aycoder.BlockDone{Part: use})
}

// end takes the end of the text. A call without an end was cut off, but for one that
// only lacks the end of its last value.
func (x *xmlReader) end() error {
	if x.call != nil {
		use, body := x.call.use, x.call.body.String()
		body = strings.TrimSuffix(strings.TrimRight(body, xmlSpace), xmlWrapClose)
		body, ended := strings.CutSuffix(strings.TrimRight(body, xmlSpace), xmlCallClose)
		if ended && x.out.stop() != aycoder.StopMaxTokens {
			x.call.body.Reset()
			x.call.body.WriteString(body)
			return x.finish()
		}
		args, _ := xmlArgs(x.call.body.String(), x.call.texts)
		use.Args = cutJSON(args)
		x.call = nil
		x.out.calls.n++
		return x.out.call.Emit(&aycoder.BlockCut{Call: use})
	}
	held := x.held
	x.held = ""
	if x.after && strings.HasPrefix(xmlWrapClose, strings.TrimLeft(held, xmlSpace)) {
		return nil
	}
	return x.text(held)
}

// cutJSON takes the end off an object.
func cutJSON(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return args
	}
	return args[:len(args)-1]
}

var errXMLArgs = errors.New("arguments are neither parameters nor JSON")

// xmlArgs reads the parameters of a call, or the JSON that some models write in their
// place.
func xmlArgs(body string, texts map[string]bool) (json.RawMessage, error) {
	body = strings.TrimSpace(body)
	if rawjson.IsObject([]byte(body)) {
		return json.RawMessage(body), nil
	}
	var args rawjson.Object
	for body != "" {
		rest, ok := strings.CutPrefix(body, xmlParamOpen)
		key, value, named := strings.Cut(rest, ">")
		if !ok || !named || len(args) == maxXMLParams {
			return args.AppendTo(nil), errXMLArgs
		}
		value, body = xmlValue(value)
		key = strings.Trim(key, "\"' ")
		args.Set(key, xmlJSON(value, texts[key]))
	}
	return args.AppendTo(nil), nil
}

// xmlValue cuts a value off. Its closing tag is the one that a parameter or the end
// follows, so that a text may hold the tag itself; it may also be missing.
func xmlValue(s string) (value, rest string) {
	for from := 0; ; {
		i := strings.Index(s[from:], xmlParamClose)
		if i < 0 {
			break
		}
		i += from
		rest = strings.TrimLeft(s[i+len(xmlParamClose):], xmlSpace)
		if rest == "" || strings.HasPrefix(rest, xmlParamOpen) {
			return s[:i], rest
		}
		from = i + len(xmlParamClose)
	}
	if i := strings.Index(s, "\n"+xmlParamOpen); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// xmlJSON makes JSON of a value. The line breaks around it are no part of it.
func xmlJSON(value string, text bool) json.RawMessage {
	value = strings.TrimPrefix(strings.TrimPrefix(value, "\r"), "\n")
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if plain := strings.TrimSpace(value); !text && json.Valid([]byte(plain)) {
		return json.RawMessage(plain)
	}
	return rawjson.AppendString(nil, value)
}
