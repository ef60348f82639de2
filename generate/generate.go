// Package generate asks a model for a value of a Go type instead of for text.
package generate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/schema"
)

// Option configures one call of [Value].
type Option func(*generation) error

// WithRepairs sets how many more times the model is asked if its answer is not valid. With each
// repeated request, the model is told what is wrong with its last answer. Default: 2.
func WithRepairs(n int) Option {
	return func(g *generation) error {
		if n < 0 {
			return &aycoder.ConfigError{Option: "WithRepairs", Err: errors.New("is negative")}
		}
		g.repairs = n
		return nil
	}
}

// WithName sets the name of the document that the model is asked for; the model sees this name.
// It must have 1 to 64 letters, digits, "_" and "-". Default: the name of the type T of [Value],
// or "answer" if T has no name that is valid here.
func WithName(name string) Option {
	return func(g *generation) error {
		if err := schema.CheckName(name); err != nil {
			return &aycoder.ConfigError{Option: "WithName", Err: err}
		}
		g.format.Name = name
		return nil
	}
}

// IntoResponse stores the model's last answer in r, whether [Value] succeeds or fails. The usage
// in r is the sum over all requests of the call. If r is nil, nothing is stored. Default: nil.
func IntoResponse(r *aycoder.Response) Option {
	return func(g *generation) error {
		g.into = r
		return nil
	}
}

// Value asks m for a value of type T and returns it:
//
//	city, err := generate.Value[City](ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is the largest city of Norway?")},
//	})
//
// The model answers with a JSON document. Its schema is derived from T, as [aycoder.NewTool]
// derives the schema of arguments: json tags name the fields, and jsonschema tags constrain and
// describe them. T may also be a slice, a map, a scalar or a pointer. Providers accept only
// objects as documents. If the JSON form of T is not an object, Value therefore wraps it in an
// object with the property "value".
//
// Value asks for the document in one of two ways. If the client is an [aycoder.OutputFormatter]
// for the model, and the messages contain no tool calls, Value sends the schema in
// [aycoder.Request.Output]. Otherwise Value offers a tool that the model must call with the
// document as arguments. If the messages contain tool calls, the tool is needed, since some
// providers accept such messages only in a request that has tools.
//
// If the answer is text, Value finds the document in it, with or without a code fence. If an
// optional property is null, Value treats it as omitted, since some models must write all
// properties.
//
// Value checks the answer against the schema and, if T has one, with its UnmarshalJSON method. If
// something is wrong, Value tells the model what and where, and asks again. When the number of
// repairs set by [WithRepairs] is used up, the error is an [*Error].
//
// These failures are not repaired:
//
//   - If the token limit cut the answer off, the error is an [*Error] that unwraps to an
//     [*aycoder.LimitError].
//   - If the model refuses to answer, the error is an [*aycoder.RefusalError].
//   - If the provider pauses one answer again and again, the error is an [*aycoder.LimitError].
//   - Errors of m are returned unchanged. To retry them, wrap m in an [aycoder.ModelMiddleware].
//
// Value runs no tools and does not change req. The fields Tools, ToolChoice and Output of req
// must be empty. If req, T or an option is invalid, the error is an [*aycoder.ConfigError], or an
// [*aycoder.ContextError] for the messages, and the model is not asked.
func Value[T any](ctx context.Context, m aycoder.ModelClient, req *aycoder.Request,
	opts ...Option) (T, error) {
	var value T
	t := reflect.TypeFor[T]()
	g, err := newGeneration(m, req, t, opts)
	if err != nil {
		return value, err
	}
	raw, err := schema.Reflect[boxed[T]]()
	if err == nil {
		err = g.setSchema(raw)
	}
	if err != nil {
		return value, typeError(t, reflect.TypeFor[boxed[T]](), err)
	}
	g.decode = func(data []byte) (err error) {
		if !g.boxed {
			value, err = schema.Decode[T](g.schema, data)
			return err
		}
		box, err := schema.Decode[boxed[T]](g.schema, data)
		value = box.Value
		return err
	}
	if err := g.run(ctx); err != nil {
		return *new(T), err // value may be partly decoded
	}
	return value, nil
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

// Error reports that a model did not return a valid document for [Value].
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
	// Attempts is the number of answers that the model gave.
	Attempts int
	// Err is an [*aycoder.LimitError] if the answer was cut off. If the document matches the
	// schema but cannot be decoded into T, Err is the error from decoding. In all other cases Err
	// is nil, for example if the document does not match the schema.
	Err error
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

const (
	// maxPauses bounds how often a provider may pause one answer.
	maxPauses = 16
	// maxRaw bounds the answer that an error quotes, in bytes.
	maxRaw = 4 << 10
	// maxProblem bounds the error text of an UnmarshalJSON method, in bytes, that the model gets.
	maxProblem = 1 << 10
)

// A generation is the state of one call of Value. It does not depend on T.
type generation struct {
	client  aycoder.ModelClient
	req     aycoder.Request // the next request
	format  aycoder.OutputFormat
	schema  *schema.Schema
	boxed   bool
	native  bool
	repairs int
	into    *aycoder.Response
	decode  func(data []byte) error // decodes into the value of type T

	usage    aycoder.Usage
	attempts int
}

func newGeneration(m aycoder.ModelClient, req *aycoder.Request, t reflect.Type,
	opts []Option) (*generation, error) {
	g := &generation{client: m, repairs: 2, format: aycoder.OutputFormat{Name: documentName(t)}}
	errs := []error{checkGenerate(m, req), option.Apply(g, opts)}
	if g.into != nil {
		*g.into = aycoder.Response{Message: &aycoder.Message{Role: aycoder.RoleAssistant}}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	g.req = *req
	g.req.Messages = slices.Clip(req.Messages)
	return g, nil
}

// documentName returns the name of the type, since a descriptive name helps the model.
func documentName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != "" && schema.CheckName(t.Name()) == nil {
		return t.Name()
	}
	return "answer"
}

func checkGenerate(m aycoder.ModelClient, req *aycoder.Request) error {
	refuse := func(what, why string) error {
		return &aycoder.ConfigError{Option: what, Err: errors.New(why)}
	}
	switch {
	case m == nil:
		return refuse("model", "is nil")
	case req == nil:
		return refuse("Request", "is nil")
	case len(req.Messages) == 0:
		return refuse("Request.Messages", "is empty: nothing to answer")
	case len(req.Tools) > 0:
		return refuse("Request.Tools", "must be empty: no tools are run")
	case req.ToolChoice != aycoder.ToolChoice{}:
		return refuse("Request.ToolChoice", "must be empty: no tools are run")
	case req.Output != nil:
		return refuse("Request.Output", "must be nil: it is made of the type")
	}
	return aycoder.CheckHistory(req.Messages)
}

// setSchema sets the schema of the document. If the value is an object, the document needs no
// box.
func (g *generation) setSchema(raw json.RawMessage) (err error) {
	var box struct {
		Properties struct {
			Value json.RawMessage `json:"value"`
		} `json:"properties"`
	}
	var inner struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &box); err != nil {
		return err
	}
	if err := json.Unmarshal(box.Properties.Value, &inner); err != nil {
		return err
	}
	g.boxed = inner.Type != "object"
	if !g.boxed {
		raw = box.Properties.Value
	}
	g.format.Schema = raw
	if g.schema, err = schema.Compile(raw); err == nil {
		g.chooseWay()
	}
	return err
}

// chooseWay decides whether the model is asked for the document in Request.Output or as the
// arguments of a tool.
func (g *generation) chooseWay() {
	f, ok := aycoder.As[aycoder.OutputFormatter](g.client)
	if g.native = ok && !slices.ContainsFunc(g.req.Messages, hasCalls) &&
		f.FormatsOutput(g.req.Model); g.native {
		g.req.Output = &g.format
		return
	}
	g.req.ToolChoice = aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: g.format.Name}
	g.req.Tools = []*aycoder.ToolSpec{{
		Name: g.format.Name, Schema: g.format.Schema, Effect: aycoder.EffectReadOnly,
		Description: "Takes the answer. Call it once, with the whole answer as the arguments.",
	}}
}

// run asks the model until an answer is valid or the repairs are used up.
func (g *generation) run(ctx context.Context) error {
	for {
		resp, err := g.ask(ctx)
		if err != nil {
			return err
		}
		g.attempts++
		if resp.Stop == aycoder.StopRefusal {
			return g.refused(resp)
		}
		wrong := g.judge(resp)
		switch {
		case wrong == nil:
			return nil
		case resp.Stop == aycoder.StopMaxTokens:
			return g.failed(resp, g.cutOff(resp))
		case g.attempts > g.repairs:
			return g.failed(resp, wrong)
		}
		g.repair(resp, wrong)
	}
}

// cutOff returns the problem of an answer that the token limit cut off.
func (g *generation) cutOff(resp *aycoder.Response) *misfit {
	limit := &aycoder.LimitError{Limit: "output tokens",
		Max: cmp.Or(int64(g.req.MaxTokens), resp.Usage.Output)}
	return &misfit{problems: []string{"the answer was cut off: " + limit.Error()}, err: limit}
}

// ask gets one answer. If the provider pauses the answer, ask sends the request again with the
// part that has arrived, and the provider continues.
func (g *generation) ask(ctx context.Context) (*aycoder.Response, error) {
	for range maxPauses {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		req := g.req
		resp, err := aycoder.Complete(ctx, g.client, &req)
		g.usage = g.usage.Add(resp.Usage)
		if g.into != nil {
			*g.into = *resp
			g.into.Usage = g.usage
		}
		if err != nil || resp.Stop != aycoder.StopPaused || len(resp.Message.Calls()) > 0 {
			return resp, err
		}
		if len(resp.Message.Parts) > 0 {
			g.say(resp.Message)
		}
	}
	return nil, &aycoder.LimitError{Limit: "pauses of one answer", Max: maxPauses}
}

func (g *generation) say(m *aycoder.Message) { g.req.Messages = append(g.req.Messages, m) }

// A misfit says what is wrong with a document.
type misfit struct {
	problems []string
	err      error // the cause, if the document itself is not to blame
}

func newMisfit(problem string) *misfit { return &misfit{problems: []string{problem}} }

// judge looks for a valid document, first in calls and then in text. If there is none, it returns
// the problems of the most likely candidate.
func (g *generation) judge(resp *aycoder.Response) *misfit {
	var first *misfit
	for _, c := range resp.Message.Calls() {
		wrong := g.judgeCall(c)
		if wrong == nil {
			return nil
		}
		first = cmp.Or(first, wrong)
	}
	for _, c := range jsontext.Find(resp.Text(), resp.Stop == aycoder.StopMaxTokens) {
		wrong := g.judgeText(c)
		if wrong == nil {
			return nil
		}
		first = cmp.Or(first, wrong)
	}
	return cmp.Or(first, newMisfit("document: there is none in the answer"))
}

func (g *generation) judgeCall(c *aycoder.ToolUse) *misfit {
	if c.Name != g.format.Name {
		return newMisfit(fmt.Sprintf("call of %q: there is no such tool",
			runes.Shorten(c.Name, 80)))
	}
	return g.fit(c.Args)
}

// judgeText checks a document in a text. It also accepts a value without its box, because models
// often omit the box if they are not forced to write it.
func (g *generation) judgeText(c jsontext.Candidate) *misfit {
	wrong := g.fit([]byte(c.Text))
	if wrong != nil && g.boxed && !c.Inside && json.Valid([]byte(c.Text)) {
		if g.fit(fmt.Appendf(nil, `{"value":%s}`, c.Text)) == nil {
			return nil
		}
	}
	return wrong
}

// fit decodes a document, or returns its problems.
func (g *generation) fit(data []byte) *misfit {
	wrong := &misfit{problems: g.schema.ValidateLoose(data)}
	if len(wrong.problems) == 0 {
		if wrong.err = g.decode(data); wrong.err == nil {
			return nil
		}
		wrong.problems = []string{runes.Shorten(runes.Clean(schema.Problem(wrong.err)), maxProblem)}
	}
	for i, p := range wrong.problems {
		if rest, ok := strings.CutPrefix(p, "arguments: "); ok {
			wrong.problems[i] = "document: " + rest
		}
	}
	return wrong
}

// repair appends the answer and its problems to the request. Each call in the answer gets an
// output, since providers refuse a call without one.
func (g *generation) repair(resp *aycoder.Response, wrong *misfit) {
	answer := resp.Message.Parts
	if g.native { // APIs refuse calls in a request without tools
		answer = slices.DeleteFunc(slices.Clone(answer), isCall)
	}
	var told []aycoder.Part
	for _, c := range (&aycoder.Message{Parts: answer}).Calls() {
		told = append(told, &aycoder.ToolOutput{
			ID: c.ID, Name: c.Name, IsError: true,
			Parts: []aycoder.Part{&aycoder.Text{Text: g.complaint(g.judgeCall(c))}},
		})
	}
	if told == nil {
		told = []aycoder.Part{&aycoder.Text{Text: g.complaint(wrong)}}
	}
	if slices.ContainsFunc(answer, func(p aycoder.Part) bool { return !isThinking(p) }) {
		g.say(&aycoder.Message{Role: aycoder.RoleAssistant, Parts: answer})
	}
	g.say(&aycoder.Message{Role: aycoder.RoleUser, Parts: told})
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

// complaint returns the text that tells the model what is wrong with its answer.
func (g *generation) complaint(wrong *misfit) string {
	how := "Answer again with the whole document as JSON and nothing else."
	if !g.native {
		how = "Call " + g.format.Name + " with the whole document."
	}
	return "This is not the document that was asked for:\n- " +
		strings.Join(wrong.problems, "\n- ") + "\n" + how
}

func (g *generation) failed(resp *aycoder.Response, wrong *misfit) error {
	raw := resp.Text()
	for _, c := range slices.Concat(resp.Message.Calls(), resp.Cut) {
		if c != nil && c.Name == g.format.Name {
			raw = string(c.Args)
			break
		}
	}
	return &Error{
		Name: g.format.Name, Raw: runes.Shorten(runes.Clean(raw), maxRaw), Problems: wrong.problems,
		Attempts: g.attempts, Err: wrong.err,
	}
}

// refused returns the error for a refusal, with the text of the model.
func (g *generation) refused(resp *aycoder.Response) error {
	base := &aycoder.ModelError{}
	if n, ok := aycoder.As[aycoder.ModelNamer](g.client); ok {
		base.Provider, base.Model = n.ModelName()
	}
	base.Model = cmp.Or(resp.Model, g.req.Model, base.Model)
	if text := strings.TrimSpace(resp.Text()); text != "" {
		base.Err = errors.New(runes.Shorten(text, maxProblem))
	}
	return &aycoder.RefusalError{ModelError: base}
}
