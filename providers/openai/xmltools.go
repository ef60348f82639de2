package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/rawjson"
)

// Tools in the text, for models that were not trained to call them:
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
	// Some models wrap each call in these tags.
	xmlWrapOpen  = "<tool_call>"
	xmlWrapClose = "</tool_call>"

	xmlSpace = " \t\r\n"
	// maxXMLName is the length in bytes from which on a name is taken for text.
	maxXMLName = 128
	// maxXMLParams is the maximum number of parameters of a call.
	maxXMLParams = 1000
	// maxHeld is the maximum amount of white space that is held back before a possible
	// tag.
	maxHeld = 512
)

// textTools describe tools, calls and results in text. It is an interface, so that the
// linker can leave out the implementation if a program does not use [WithXMLTools].
type textTools interface {
	prompt(tools []*aycoder.ToolSpec, choice aycoder.ToolChoice) string
	call(u *aycoder.ToolUse) string
	result(o *aycoder.ToolOutput, text string) string
	reader(d *chatDecoder, tools []*aycoder.ToolSpec) callReader
}

// A callReader finds calls in a streamed text.
type callReader interface {
	write(s string) error
	end() error
}

// xmlTools implements [WithXMLTools].
type xmlTools struct{}

// prompt describes the tools and the syntax of a call. The syntax has no escapes, so that
// a model can write a value, such as source code, as it is.
func (xmlTools) prompt(tools []*aycoder.ToolSpec, choice aycoder.ToolChoice) string {
	if choice.Mode == aycoder.ToolNone {
		return "You must not call a tool in this answer."
	}
	var b strings.Builder
	b.WriteString("You can call tools. To call one, write exactly this, with the tool's name and one " +
		"parameter block for each argument:\n\n" +
		"<function=tool_name>\n<parameter=argument_name>\nvalue\n</parameter>\n</function>\n\n" +
		"A value that is text is written as it is, without quotes or escapes. Any other value is JSON. " +
		"If a value contains one of these tags, write all arguments as one JSON object instead:\n\n" +
		"<function=tool_name>\n{\"argument_name\": \"value\"}\n</function>\n\n" +
		"You can make several calls, one after the other, and explain before the first what you do. " +
		"Write nothing after the last call: what the tools put out comes in the next message, in " +
		"<function_result> blocks.\n\nThe tools:\n")
	for _, s := range tools {
		b.WriteString("\n<tool name=\"" + toolName(s.Name) + "\">\n" + strings.TrimSpace(s.Description) + "\nArguments: ")
		schema := validSchema(s.Schema)
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

// call writes a call as the model wrote it, or with arguments in JSON if parameters would
// not be parsed as the same values.
func (xmlTools) call(u *aycoder.ToolUse) string {
	var b strings.Builder
	b.WriteString("\n" + xmlCallOpen + toolName(u.Name) + ">\n")
	args, err := rawjson.Parse(u.Args)
	switch {
	case err != nil: // of a truncated call
	case !xmlWritable(args):
		b.Write(u.Args)
		b.WriteByte('\n')
	default:
		for _, f := range args {
			value, _ := xmlValueOf(f)
			b.WriteString(xmlParamOpen + f.Key + ">\n" + value + "\n" + xmlParamClose + "\n")
		}
	}
	b.WriteString(xmlCallClose)
	return b.String()
}

// xmlWritable reports whether arguments that are written as parameters are parsed as the
// same values, whatever their types in the schema.
func xmlWritable(args rawjson.Object) bool {
	seen := map[string]bool{}
	for _, f := range args {
		value, ok := xmlValueOf(f)
		if !ok || seen[f.Key] || !xmlKey(f.Key) || hasXMLTag(value) {
			return false
		}
		seen[f.Key] = true
	}
	return len(args) <= maxXMLParams
}

// xmlValueOf returns a value in the form between tags. It reports false if that form
// would be parsed differently.
func xmlValueOf(f rawjson.Field) (value string, ok bool) {
	if len(f.Val) == 0 || f.Val[0] != '"' {
		return string(f.Val), !rawjson.IsNull(f.Val) // null would be parsed as a string
	}
	value, err := rawjson.Str(f.Key, f.Val)
	plain := json.Valid([]byte(strings.TrimSpace(value)))
	return value, err == nil && !plain && xmlLines("\n"+value+"\n") == value
}

// xmlKey reports whether a parameter name can be written in its tag.
func xmlKey(key string) bool {
	return key != "" && len(key) <= maxXMLName && strings.Trim(key, "\"' ") == key &&
		!strings.ContainsAny(key, "<>\r\n")
}

// hasXMLTag reports whether s contains a tag of a call.
func hasXMLTag(s string) bool {
	return slices.ContainsFunc([]string{xmlCallOpen, xmlCallClose, xmlParamOpen, xmlParamClose, xmlWrapOpen, xmlWrapClose},
		func(tag string) bool { return strings.Contains(s, tag) })
}

// xmlLines removes one line break at each end of a value. The prompt shows a value on
// separate lines, so these two line breaks do not belong to the value.
func xmlLines(value string) string {
	value = strings.TrimPrefix(strings.TrimPrefix(value, "\r"), "\n")
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
}

// result writes the output of a tool.
func (xmlTools) result(o *aycoder.ToolOutput, text string) string {
	state := ""
	if o.IsError {
		state = ` error="true"`
	}
	return `<function_result name="` + toolName(o.Name) + `"` + state + ">\n" + text + "\n</function_result>"
}
