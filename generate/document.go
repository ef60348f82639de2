package generate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/schema"
)

// A document is what a model is asked for: a value as JSON. Apart from decode, it does not depend on
// the type of the value.
type document struct {
	format  aycoder.OutputFormat
	schema  *schema.Schema
	given   json.RawMessage // in place of the schema of the type, or nil
	boxed   bool
	repairs int
	decode  func(data []byte) (store func(), err error)
}

func newDocument(name string) document {
	return document{repairs: 2, format: aycoder.OutputFormat{Name: name}}
}

// typed makes d describe the values of type T, which are stored in *into.
func typed[T any](d *document, into *T) error {
	if d.given != nil {
		return d.as(into)
	}
	raw, err := schema.Reflect(reflect.TypeFor[boxed[T]]())
	if err == nil {
		err = d.setSchema(raw)
	}
	if err != nil {
		return typeError(reflect.TypeFor[T](), reflect.TypeFor[boxed[T]](), err)
	}
	d.decode = func(data []byte) (func(), error) {
		if !d.boxed {
			var value T
			err := schema.Decode(d.schema, data, &value)
			return func() { *into = value }, err
		}
		var box boxed[T]
		err := schema.Decode(d.schema, data, &box)
		return func() { *into = box.Value }, err
	}
	return nil
}

// as makes d describe the documents of the given schema, which are stored as they are.
func (d *document) as(into any) error {
	raw, ok := into.(*json.RawMessage)
	var object struct {
		Type any `json:"type"`
	}
	err := json.Unmarshal(d.given, &object)
	switch {
	case !ok:
		err = errors.New("the type of the value is not json.RawMessage")
	case err == nil && object.Type != "object":
		err = errors.New(`the type of the document is not "object"`)
	case err == nil:
		d.format.Schema = d.given
		d.schema, err = schema.Compile(d.given)
	}
	if err != nil {
		return fmt.Errorf("generate: %w", &aycoder.ConfigError{Option: "WithSchema", Err: err})
	}
	d.decode = func(data []byte) (func(), error) {
		value, problems := d.schema.Fit(data) // without what is looser for Go types, such as null for nothing
		if len(problems) > 0 {
			return nil, errors.New(problems[0])
		}
		value = bytes.Clone(value)
		return func() { *raw = value }, nil
	}
	return nil
}

// boxed is the object that wraps a value which is not an object itself.
type boxed[T any] struct {
	Value T `json:"value"`
}

// typeError reports what is wrong with a type. It removes the name of the box, which callers do
// not know.
func typeError(t, box reflect.Type, err error) error {
	text := strings.TrimPrefix(err.Error(), "schema of "+box.String()+": ")
	text = strings.ReplaceAll(text, box.Name()+".Value", cmp.Or(t.Name(), "value"))
	return fmt.Errorf("generate: %w", &aycoder.ConfigError{Option: "type " + t.String(),
		Err: errors.New(text)})
}

// documentName returns the name of the type, since a descriptive name helps the model.
func documentName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != "" && t != reflect.TypeFor[json.RawMessage]() && schema.CheckName(t.Name()) == nil {
		return t.Name()
	}
	return "answer"
}

// setSchema sets the schema of the document. If the value is an object, the document needs no
// box.
func (d *document) setSchema(raw json.RawMessage) (err error) {
	var box struct {
		Properties struct {
			Value json.RawMessage `json:"value"`
		} `json:"properties"`
	}
	var inner struct {
		Type any `json:"type"` // a string or a list
	}
	if err := json.Unmarshal(raw, &box); err != nil {
		return err
	}
	if err := json.Unmarshal(box.Properties.Value, &inner); err != nil {
		return err
	}
	d.boxed = inner.Type != "object"
	if !d.boxed {
		raw = box.Properties.Value
	}
	d.format.Schema = raw
	d.schema, err = schema.Compile(raw)
	return err
}

// A misfit says what is wrong with a document.
type misfit struct {
	problems []string
	err      error // the cause, if the document itself is not to blame
}

func newMisfit(problem string) *misfit { return &misfit{problems: []string{problem}} }

// A verdict on a document is a function that stores its value, or what is wrong with it. The other
// one is nil.
type verdict struct {
	store func()
	wrong *misfit
}

// judge looks for a valid document, first in calls and then in text. If there is none, it returns
// the problems of the most likely candidate. If the text was cut off, only a whole object counts. If
// the model was not asked for text (unasked), a text counts only if it is nothing but the document.
func (d *document) judge(m *aycoder.Message, call func(*aycoder.ToolUse) verdict, cut, unasked bool) verdict {
	var first *misfit
	for _, c := range m.Calls() {
		v := call(c)
		if v.store != nil {
			return v
		}
		first = cmp.Or(first, v.wrong)
	}
	text := m.Text()
	for _, c := range jsontext.Find(text, cut) {
		if unasked && !alone(c, text) {
			continue
		}
		v := d.judgeText(c)
		if v.store != nil {
			return v
		}
		first = cmp.Or(first, v.wrong)
	}
	return verdict{wrong: cmp.Or(first, newMisfit("document: there is none in the answer"))}
}

// alone reports whether a text has nothing but a candidate and the fence around it.
func alone(c jsontext.Candidate, text string) bool {
	before, after, _ := strings.Cut(text, c.Text)
	for line := range strings.Lines(before + "\n" + after) {
		if line = strings.Trim(line, " \t\r\n\uFEFF"); line != "" && !strings.HasPrefix(line, "```") && !strings.HasPrefix(line, "~~~") {
			return false
		}
	}
	return !c.Inside
}

func (d *document) judgeCall(c *aycoder.ToolUse) verdict {
	if c.Name != d.format.Name {
		return verdict{wrong: newMisfit(fmt.Sprintf("call of %q: there is no such tool", runes.Shorten(c.Name, 80)))}
	}
	return d.fit(c.Args)
}

// judgeText checks a document in a text. It also accepts a value without its box, because models
// often omit the box if they are not forced to write it.
func (d *document) judgeText(c jsontext.Candidate) verdict {
	v := d.fit([]byte(c.Text))
	if v.store == nil && d.boxed && !c.Inside && json.Valid([]byte(c.Text)) {
		if in := d.fit(fmt.Appendf(nil, `{"value":%s}`, c.Text)); in.store != nil {
			return in
		}
	}
	return v
}

// fit decodes a document, or returns its problems.
func (d *document) fit(data []byte) verdict {
	wrong := &misfit{problems: d.schema.ValidateLoose(data)}
	if len(wrong.problems) == 0 {
		store, err := d.decodeSafely(data)
		if err == nil {
			return verdict{store: store}
		}
		wrong.err = err
		wrong.problems = []string{runes.Shorten(runes.Clean(schema.Problem(err)), maxProblem)}
	}
	for i, p := range wrong.problems {
		if rest, ok := strings.CutPrefix(p, "arguments: "); ok {
			wrong.problems[i] = "document: " + rest
		}
	}
	return verdict{wrong: wrong}
}

// decodeSafely turns a panic of a method of the type into an error: the model wrote what it panics at.
func (d *document) decodeSafely(data []byte) (store func(), err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding panicked: %v", p)
		}
	}()
	return d.decode(data)
}

func cutOff(limit int64) *misfit {
	err := &aycoder.LimitError{Limit: "output tokens", Max: limit}
	return &misfit{problems: []string{"the answer was cut off: " + err.Error()}, err: err}
}

// complaintStart begins the text that tells the model what is wrong with its answer.
const complaintStart = "This is not the document that was asked for:\n- "

// complaint returns that text.
func (d *document) complaint(wrong *misfit, native bool) string {
	how := "Answer again with the whole document as JSON and nothing else."
	if !native {
		how = "Call " + d.format.Name + " with the whole document."
	}
	return complaintStart + strings.Join(wrong.problems, "\n- ") + "\n" + how
}

// raw returns the answer that an error quotes.
func (d *document) raw(m *aycoder.Message, cut []*aycoder.ToolUse) string {
	for _, c := range slices.Concat(m.Calls(), cut) {
		if c != nil && c.Name == d.format.Name {
			return string(c.Args)
		}
	}
	return m.Text()
}

func (d *document) failed(raw string, wrong *misfit, attempts int) *Error {
	return &Error{Name: d.format.Name, Raw: runes.Shorten(runes.Clean(raw), maxRaw), Problems: wrong.problems,
		Attempts: attempts, Err: wrong.err}
}

func hasCalls(m *aycoder.Message) bool { return len(m.Calls()) > 0 }

func isThinking(p aycoder.Part) bool {
	_, ok := p.(*aycoder.Thinking)
	return ok
}

func isCall(p aycoder.Part) bool {
	_, ok := p.(*aycoder.ToolUse)
	return ok
}

// Error reports that a model did not return a valid document for [Value] or [RunAs].
type Error struct {
	// Name is the name of the document (see [WithName]).
	Name string
	// Raw is the last answer of the model, shortened to about 4 KiB. If the model called the tool
	// that [Value] offered, Raw is the arguments of the call. Otherwise it is the text of the
	// answer.
	Raw string
	// Problems lists what is wrong with the last answer. A problem with a part of the document
	// begins with the path of that part: `/size: required`. If the JSON form of T is not an
	// object, all paths begin with /value.
	Problems []string
	// Attempts is the number of answers that the model gave. For RunAs, answers with other calls than
	// that of the answer do not count.
	Attempts int
	// Err is an [*aycoder.LimitError] if the answer was cut off. If the document matches the
	// schema but cannot be decoded into T, Err is the error from decoding. In all other cases Err
	// is nil, for example if the document does not match the schema.
	Err error
	// Result is the result of the run for RunAs, and nil for Value. Its Messages are valid, so that
	// another run can continue the conversation.
	Result *aycoder.Result
}

// Error implements error.
func (e *Error) Error() string {
	s := "document " + e.Name + ": " + strings.Join(e.Problems, "; ")
	if e.Attempts > 1 {
		s += fmt.Sprintf(" (after %d attempts)", e.Attempts)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
