package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/harness"
)

// A User is at the terminal of the program, and answers what the parts of an [Extension] ask.
type User struct{ asks *asks }

// A Form is what somebody asks the user, such as a server. Its texts are a stranger's.
type Form struct {
	Server  string // who asks
	Message string
	Schema  json.RawMessage // of the answer: an object of plain values. It may be nil.
	URL     string          // that the user is asked to visit, or ""
}

// A Reply is the answer to a [Form]. The zero value dismisses it.
type Reply struct {
	Accept, Decline bool
	Content         json.RawMessage // matches the schema
}

// Ask asks the user. While no run works, nobody is asked, and the form is dismissed.
func (u *User) Ask(ctx context.Context, f Form) (Reply, error) {
	return put(ctx, u.asks, func(c *chat) Reply { return c.form(&f) }), context.Cause(ctx)
}

// Sample asks the user whether a server may ask the model of the conversation, and asks it. The answer has at most 4096
// tokens.
func (u *User) Sample(ctx context.Context, server string, req *aycoder.Request) (*aycoder.Response, error) {
	model := put(ctx, u.asks, func(c *chat) aycoder.ModelClient { return c.lend(server, req) })
	if model == nil {
		return nil, errors.Join(errors.New("the user has not allowed it"), context.Cause(ctx))
	}
	bounded := *req
	bounded.MaxTokens = min(max(bounded.MaxTokens, 1), 4096)
	return aycoder.Complete(ctx, model, &bounded)
}

// asks are what other goroutines ask the user, who answers on the goroutine of the chat.
type asks struct {
	c   chan func(*chat)              // what the chat is to do
	run atomic.Pointer[chan struct{}] // closed when the run is over; nil while none works, since nobody would answer
}

func newAsks() *asks { return &asks{c: make(chan func(*chat))} }

// work says that a run works, until the returned function is called.
func (a *asks) work() (ended func()) {
	over := make(chan struct{})
	a.run.Store(&over)
	return func() {
		a.run.Store(nil)
		close(over)
	}
}

// put has the chat ask something, and returns the answer: the zero value if no run works, or if it or ctx ends before.
func put[T any](ctx context.Context, a *asks, ask func(*chat) T) (none T) {
	over := a.run.Load()
	if over == nil {
		return none
	}
	done := make(chan T, 1)
	select {
	case a.c <- func(c *chat) { done <- ask(c) }:
	case <-*over: // the next run is not asked for this one
		return none
	case <-ctx.Done():
		return none
	}
	select {
	case answer := <-done:
		return answer
	case <-ctx.Done():
		return none
	}
}

// options are those of extensions that ask the user.
func (a *asks) options(extensions []Extension) (opts []harness.Option) {
	for _, e := range extensions {
		if e.Asking != nil {
			opts = append(opts, e.Asking(&User{a})...)
		}
	}
	return opts
}

var toForm = choices{"y answer", "n refuse"}

// agrees shows who asks what, and asks whether the user wants that.
func (c *chat) agrees(server, does, message, what string) (yes, no bool) {
	c.saidAll()
	c.fresh()
	c.headline("server "+cleanLine(server), "  "+does)
	c.whole = true
	c.plain(message)
	c.whole = false
	key, err := c.answerKey(what, toForm)
	if c.halted(err) || err != nil {
		return false, false
	}
	return key == 'y', key == 'n'
}

// lend returns the model if a server may ask it.
func (c *chat) lend(server string, req *aycoder.Request) aycoder.ModelClient {
	var text strings.Builder
	for _, t := range req.System {
		text.WriteString(t.Text + "\n")
	}
	for _, m := range req.Messages {
		fmt.Fprintf(&text, "%s: %s\n", m.Role, m.Text())
		for _, p := range m.Parts {
			if media, ok := p.(*aycoder.Media); ok {
				fmt.Fprintf(&text, "%s: [%s, %d bytes]\n", m.Role, media.Type, len(media.Data))
			}
		}
	}
	if yes, _ := c.agrees(server, "wants an answer of your model to this", text.String(), "Let it ask?"); !yes {
		return nil
	}
	return c.session.Client
}

// form asks the user what a server wants to know.
func (c *chat) form(f *Form) Reply {
	does, message := "asks you", f.Message
	if f.URL != "" {
		does, message = "asks you to open an address", f.Message+"\n"+f.URL
	}
	yes, no := c.agrees(f.Server, does, message, "Answer it?")
	switch {
	case !yes:
		return Reply{Decline: no}
	case f.URL != "":
		c.prose(faint, "  Open the address yourself, if you know where it leads.")
		return Reply{Accept: true}
	}
	fields, err := fieldsOf(f.Schema)
	if err != nil {
		c.prose(red, "  "+clean(err.Error()))
		return Reply{}
	}
	if len(fields) > 0 {
		c.prose(faint, "  The server gets what you type. Give it no passwords.")
	}
	for {
		content, err := c.fillIn(fields)
		if c.halted(err) || err != nil {
			return Reply{}
		}
		spec := aycoder.ToolSpec{Name: "answer", Schema: f.Schema}
		if len(f.Schema) > 0 {
			if content, err = spec.CheckArgs(content); err != nil {
				c.prose(red, "  "+clean(err.Error()))
				if len(fields) == 0 {
					return Reply{}
				}
				continue
			}
		}
		return Reply{Accept: true, Content: content}
	}
}

// A formField is a property of the schema of a form.
type formField struct {
	name     string
	required bool
	many     bool // of the options
	options  []formOption
	formSchema
}

type formOption struct {
	Const json.RawMessage
	Title string
}

type formSchema struct {
	Type, Title, Description string
	Default                  json.RawMessage
	Enum                     []json.RawMessage
	EnumNames                []string
	OneOf, AnyOf             []formOption
	Items                    *formSchema
}

const maxFields = 32

// fieldsOf returns the fields of a schema in its order.
func fieldsOf(schema json.RawMessage) (fields []formField, err error) {
	if len(schema) == 0 {
		return nil, nil
	}
	var all struct {
		Properties json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal(schema, &all); err != nil {
		return nil, fmt.Errorf("the question is not understood: %w", err)
	}
	if len(all.Properties) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(all.Properties))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the question is not understood: its properties are not an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := formField{name: name.(string), required: slices.Contains(all.Required, name.(string))}
		if err := dec.Decode(&f.formSchema); err != nil {
			return nil, fmt.Errorf("the question is not understood: %w", err)
		}
		if fields = append(fields, f); len(fields) > maxFields {
			return nil, fmt.Errorf("the question has more than %d fields", maxFields)
		}
	}
	for i := range fields {
		fields[i].choose()
	}
	return fields, nil
}

// choose finds the options, in each of the forms that the protocol has for them.
func (f *formField) choose() {
	s := &f.formSchema
	if f.Type == "array" && f.Items != nil {
		s, f.many = f.Items, true
	}
	f.options = slices.Concat(s.OneOf, s.AnyOf)
	for i, value := range s.Enum {
		o := formOption{Const: value}
		if i < len(s.EnumNames) {
			o.Title = s.EnumNames[i]
		}
		f.options = append(f.options, o)
	}
	if f.Type == "boolean" {
		f.options = []formOption{{json.RawMessage("true"), "yes"}, {json.RawMessage("false"), "no"}}
	}
}

// label describes an option to people.
func (o *formOption) label() string {
	if o.Title != "" {
		return o.Title
	}
	return plainValue(o.Const)
}

// plainValue returns a JSON value as the user would type it.
func plainValue(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// fillIn asks for the value of each field, and returns the object of them.
func (c *chat) fillIn(fields []formField) (json.RawMessage, error) {
	content := map[string]json.RawMessage{}
	for i := range fields {
		value, err := c.fillOne(&fields[i])
		if err != nil {
			return nil, err
		}
		if value != nil {
			content[fields[i].name] = value
		}
	}
	return json.Marshal(content)
}

// fillOne asks for a value, which is nil if the user leaves it out.
func (c *chat) fillOne(f *formField) (json.RawMessage, error) {
	name := f.name
	if f.Title != "" {
		name = f.Title
	}
	if f.Description != "" {
		c.prose("", "  "+cleanLine(f.Description))
	}
	for i, o := range f.options {
		c.prose("", fmt.Sprintf("  %d  %s", i+1, cleanLine(o.label())))
	}
	hint := ""
	switch {
	case f.many:
		hint = ", numbers"
	case len(f.options) > 0:
		hint = ", a number"
	}
	if !f.required {
		hint += ", Enter to leave it out"
	}
	for {
		line, err := c.readLine(fmt.Sprintf("  %s (%s%s): ", cleanLine(name), cleanLine(f.Type), hint), f.suggested())
		if err != nil {
			return nil, err
		}
		if line = strings.TrimSpace(line); line == "" && !f.required {
			return nil, nil
		}
		value, err := f.value(line)
		if line == "" {
			err = errors.New("the server needs it")
		}
		if err == nil {
			return value, nil
		}
		c.prose(red, "  "+clean(err.Error()))
	}
}

// suggested returns the default as the user would type it.
func (f *formField) suggested() string {
	if len(f.Default) == 0 {
		return ""
	}
	var defaults []json.RawMessage
	if !f.many {
		defaults = append(defaults, f.Default)
	} else if json.Unmarshal(f.Default, &defaults) != nil {
		return ""
	}
	var words []string
	for _, d := range defaults {
		word := cleanLine(plainValue(d))
		if i := slices.IndexFunc(f.options, func(o formOption) bool { return plainValue(o.Const) == plainValue(d) }); i >= 0 {
			word = strconv.Itoa(i + 1)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// value returns what a line says.
func (f *formField) value(line string) (json.RawMessage, error) {
	switch {
	case f.many:
		all := []json.RawMessage{}
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' }) {
			value, err := f.option(word)
			if err != nil {
				return nil, err
			}
			all = append(all, value)
		}
		return json.Marshal(all)
	case len(f.options) > 0:
		return f.option(line)
	case f.Type == "integer" || f.Type == "number":
		if _, err := strconv.ParseFloat(line, 64); err != nil || !json.Valid([]byte(line)) {
			return nil, fmt.Errorf("%s is not a number", line)
		}
		return json.RawMessage(line), nil
	}
	return json.Marshal(line)
}

// option returns the option that a word names, by its number or its text.
func (f *formField) option(word string) (json.RawMessage, error) {
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(f.options) {
		return f.options[n-1].Const, nil
	}
	for _, o := range f.options {
		if strings.EqualFold(word, o.label()) || word == plainValue(o.Const) {
			return o.Const, nil
		}
	}
	return nil, fmt.Errorf("%s is none of them: type a number from 1 to %d", word, len(f.options))
}
