package aycoder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aycoder/aycoder/internal/jsontext"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/schema"
)

// GenerateOption configures one call of [Generate].
type GenerateOption func(*generation) error

// WithRepairs sets how often the model is told what is wrong with its answer and asked
// again. Default: 2.
func WithRepairs(n int) GenerateOption {
	return func(g *generation) error {
		if n < 0 {
			return &ConfigError{Option: "WithRepairs", Err: errors.New("is negative")}
		}
		g.repairs = n
		return nil
	}
}

// WithOutputName sets the name of the document, which the model sees: 1 to 64 letters,
// digits, "_" and "-". Default: the name of the type, or "answer" if that is not valid.
func WithOutputName(name string) GenerateOption {
	return func(g *generation) error {
		if !isToolName(name) {
			err := errors.New("name must be 1 to 64 letters, digits, _ and -")
			return &ConfigError{Option: "WithOutputName", Err: err}
		}
		g.format.Name = name
		return nil
	}
}

// IntoResponse fills r with the last answer of the model, however [Generate] ends. Its
// usage is the sum over all requests. Default: nil, which fills nothing.
func IntoResponse(r *Response) GenerateOption {
	return func(g *generation) error {
		g.into = r
		return nil
	}
}

// Generate asks m for a value of type T and returns it:
//
//	city, err := aycoder.Generate[City](ctx, client, &aycoder.Request{
//		Messages: []*aycoder.Message{aycoder.User("What is the largest city of Norway?")},
//	})
//
// The schema of the answer is derived from T in the same way as [NewTool] derives that
// of arguments: json tags name the fields, jsonschema tags constrain and describe them.
// T may also be a slice, a map, a scalar or a pointer. Providers take only objects, so
// such a value is wrapped in an object under the name "value".
//
// If the client is an [OutputFormatter], Generate uses [Request.Output]. Otherwise, or
// if the messages hold tool calls, which some providers take only with tools, it offers
// a tool that the model must call. In an answer that is text, it looks for the document
// with and without a code fence. A null counts as an omitted property, since some
// models must write all properties and use null for that.
//
// The answer is checked against the schema, and by the UnmarshalJSON method of T if
// there is one. If something is wrong, the model is told what, with paths, and is asked
// again. After the number of repairs that [WithRepairs] sets, the error is an
// [*OutputError]. An answer that the token limit cut off is not retried; its error is
// an [*OutputError] that unwraps to a [*LimitError]. A refusal is a [*RefusalError]. An
// answer that the provider pauses again and again is a [*LimitError]. Errors of m are
// returned unchanged and are not retried; use a [ModelMiddleware] for that.
//
// Generate runs no tools and does not change req, whose Tools, ToolChoice and Output
// must be empty. If req, T or an option is wrong, the error is a [*ConfigError], or a
// [*ContextError] for the messages, and the model is not asked.
func Generate[T any](ctx context.Context, m ModelClient, req *Request, opts ...GenerateOption) (T, error) {
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
			value, err = decode[T](g.schema, data)
			return err
		}
		box, err := decode[boxed[T]](g.schema, data)
		value = box.Value
		return err
	}
	if err := g.run(ctx); err != nil {
		return *new(T), err // not a partly decoded value
	}
	return value, nil
}

// boxed is the object that wraps a value which is not an object.
type boxed[T any] struct {
	Value T `json:"value"`
}

// typeError says what is wrong with a type, without mentioning the box.
func typeError(t, box reflect.Type, err error) error {
	text := strings.TrimPrefix(err.Error(), "schema of "+box.String()+": ")
	text = strings.ReplaceAll(text, box.Name()+".Value", cmp.Or(t.Name(), "value"))
	return fmt.Errorf("generate: %w", &ConfigError{Option: "type " + t.String(), Err: errors.New(text)})
}

// OutputError reports that a model did not return a valid document for [Generate].
type OutputError struct {
	// Name is the name of the document.
	Name string
	// Raw is the last answer, cut to about 4 KiB: the arguments of the call, or the
	// text.
	Raw string
	// Problems lists what is wrong with the answer, each with its path: `/size:
	// required`. If the type is not an object, the paths begin with /value.
	Problems []string
	// Attempts is the number of answers.
	Attempts int
	// Err is the cause if it is not the answer itself: a [*LimitError], or the error of
	// decoding a document that matches the schema.
	Err error
}

// Error implements error.
func (e *OutputError) Error() string {
	s := "document " + e.Name + ": " + strings.Join(e.Problems, "; ")
	if e.Attempts > 1 {
		s += fmt.Sprintf(" (after %d attempts)", e.Attempts)
	}
	return s
}

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

const (
	// maxPauses bounds how often a provider may pause one answer.
	maxPauses = 16
	// maxProblem bounds the text of an UnmarshalJSON method that the model reads, in
	// bytes.
	maxProblem = 1 << 10
)

// A generation is one call of Generate. It is independent of T.
type generation struct {
	client  ModelClient
	req     Request // the next request
	format  OutputFormat
	schema  *schema.Schema
	boxed   bool
	native  bool
	repairs int
	into    *Response
	decode  func(data []byte) error // decodes into the value of type T

	usage    Usage
	attempts int
	ids      map[string]bool // of the calls in req.Messages
	made     int             // number of generated ids
}

func newGeneration(m ModelClient, req *Request, t reflect.Type, opts []GenerateOption) (*generation, error) {
	g := &generation{client: m, repairs: 2, format: OutputFormat{Name: documentName(t)}, ids: map[string]bool{}}
	errs := []error{checkGenerate(m, req)}
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, &ConfigError{Option: "option", Err: errors.New("is nil")})
			continue
		}
		errs = append(errs, opt(g))
	}
	if g.into != nil {
		*g.into = Response{Message: &Message{Role: RoleAssistant}}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	g.req = *req
	g.req.Messages = slices.Clip(req.Messages)
	for _, msg := range req.Messages {
		for _, c := range msg.Calls() {
			g.ids[c.ID] = true
		}
	}
	return g, nil
}

// documentName returns the name of the type, which tells the model something.
func documentName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() != "" && isToolName(t.Name()) {
		return t.Name()
	}
	return "answer"
}

func checkGenerate(m ModelClient, req *Request) error {
	refuse := func(what, why string) error {
		return &ConfigError{Option: what, Err: errors.New(why)}
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
	case req.ToolChoice != ToolChoice{}:
		return refuse("Request.ToolChoice", "must be empty: no tools are run")
	case req.Output != nil:
		return refuse("Request.Output", "must be nil: it is made of the type")
	}
	return CheckHistory(req.Messages)
}

// setSchema sets the schema: that of the box, or that of its value if the value is an
// object.
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

// chooseWay chooses whether to ask for the document natively or as arguments of a tool.
func (g *generation) chooseWay() {
	f, ok := As[OutputFormatter](g.client)
	if g.native = ok && len(g.ids) == 0 && f.FormatsOutput(g.req.Model); g.native {
		g.req.Output = &g.format
		return
	}
	g.req.ToolChoice = ToolChoice{Mode: ToolNamed, Name: g.format.Name}
	g.req.Tools = []*ToolSpec{{
		Name: g.format.Name, Schema: g.format.Schema, Effect: EffectReadOnly,
		Description: "Takes the answer. Call it once, with the whole answer as the arguments.",
	}}
}

// run asks the model until an answer is valid.
func (g *generation) run(ctx context.Context) error {
	for {
		resp, err := g.ask(ctx)
		if err != nil {
			return err
		}
		g.attempts++
		if resp.Stop == StopRefusal {
			return g.refused(resp)
		}
		wrong := g.judge(resp)
		switch {
		case wrong == nil:
			return nil
		case resp.Stop == StopMaxTokens:
			return g.failed(resp, g.cutOff(resp))
		case g.attempts > g.repairs:
			return g.failed(resp, wrong)
		}
		g.repair(resp, wrong)
	}
}

// cutOff returns the misfit of an answer that the token limit ended.
func (g *generation) cutOff(resp *Response) *misfit {
	limit := &LimitError{Limit: "output tokens", Max: cmp.Or(int64(g.req.MaxTokens), resp.Usage.Output)}
	return &misfit{problems: []string{"the answer was cut off: " + limit.Error()}, err: limit}
}

// ask gets one answer. If the provider pauses it, ask lets it continue.
func (g *generation) ask(ctx context.Context) (*Response, error) {
	for range maxPauses {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		req := g.req
		resp, err := Complete(ctx, g.client, &req)
		g.usage = g.usage.Add(resp.Usage)
		resp.Message.Parts = g.clean(resp.Message.Parts)
		if g.into != nil {
			*g.into = *resp
			g.into.Usage = g.usage
		}
		if err != nil || resp.Stop != StopPaused || len(resp.Message.Calls()) > 0 {
			return resp, err
		}
		if len(resp.Message.Parts) > 0 {
			g.say(resp.Message)
		}
	}
	return nil, &LimitError{Limit: "pauses of one answer", Max: maxPauses}
}

func (g *generation) say(m *Message) { g.req.Messages = append(g.req.Messages, m) }

// clean makes an answer valid for the history: it removes parts that an assistant
// message cannot have, and gives each call a unique id.
func (g *generation) clean(parts []Part) []Part {
	var out []Part
	for _, p := range parts {
		if isNil(p) {
			continue
		}
		p, ok := cleanPart(p)
		if _, output := p.(*ToolOutput); output || !ok {
			continue
		}
		if c, ok := p.(*ToolUse); ok { // cleanPart has returned a copy
			for c.ID == "" || g.ids[c.ID] {
				g.made++
				c.ID = "answer_" + strconv.Itoa(g.made)
			}
			g.ids[c.ID] = true
		}
		out = append(out, p)
	}
	return out
}

// A misfit says what is wrong with a document.
type misfit struct {
	problems []string
	err      error // the cause, if it is not the document itself
}

func newMisfit(problem string) *misfit { return &misfit{problems: []string{problem}} }

// judge looks for a valid document, first in calls and then in text. If there is none,
// it returns the misfit of the most likely candidate.
func (g *generation) judge(resp *Response) *misfit {
	var first *misfit
	for _, c := range resp.Message.Calls() {
		wrong := g.judgeCall(c)
		if wrong == nil {
			return nil
		}
		first = cmp.Or(first, wrong)
	}
	for _, c := range jsontext.Find(resp.Text(), resp.Stop == StopMaxTokens) {
		wrong := g.judgeText(c)
		if wrong == nil {
			return nil
		}
		first = cmp.Or(first, wrong)
	}
	return cmp.Or(first, newMisfit("document: there is none in the answer"))
}

func (g *generation) judgeCall(c *ToolUse) *misfit {
	if c.Name != g.format.Name {
		return newMisfit(fmt.Sprintf("call of %q: there is no such tool", runes.Shorten(c.Name, 80)))
	}
	return g.fit(c.Args)
}

// judgeText also accepts a value without its box.
func (g *generation) judgeText(c jsontext.Candidate) *misfit {
	wrong := g.fit([]byte(c.Text))
	if wrong != nil && g.boxed && !c.Inside && json.Valid([]byte(c.Text)) {
		if g.fit(fmt.Appendf(nil, `{"value":%s}`, c.Text)) == nil {
			return nil
		}
	}
	return wrong
}

// fit decodes a document, or returns its misfit.
func (g *generation) fit(data []byte) *misfit {
	wrong := &misfit{problems: g.schema.ValidateLoose(data)}
	if len(wrong.problems) == 0 {
		if wrong.err = g.decode(data); wrong.err == nil {
			return nil
		}
		wrong.problems = []string{runes.Shorten(cleanText(schema.Problem(wrong.err)), maxProblem)}
	}
	for i, p := range wrong.problems {
		if rest, ok := strings.CutPrefix(p, "arguments: "); ok {
			wrong.problems[i] = "document: " + rest
		}
	}
	return wrong
}

// repair appends the answer and what is wrong with it to the request. Each call of the
// answer gets an output.
func (g *generation) repair(resp *Response, wrong *misfit) {
	answer := resp.Message.Parts
	if g.native { // without tools in the request, an API does not accept calls
		answer = slices.DeleteFunc(slices.Clone(answer), isCall)
	}
	var told []Part
	for _, c := range (&Message{Parts: answer}).Calls() {
		told = append(told, errorOutput(c, g.complaint(g.judgeCall(c))))
	}
	if told == nil {
		told = []Part{&Text{Text: g.complaint(wrong)}}
	}
	if !onlyThinking(answer) {
		g.say(&Message{Role: RoleAssistant, Parts: answer})
	}
	g.say(&Message{Role: RoleUser, Parts: told})
}

func isCall(p Part) bool {
	_, ok := p.(*ToolUse)
	return ok
}

// complaint returns what the model reads about its answer.
func (g *generation) complaint(wrong *misfit) string {
	how := "Answer again with the whole document as JSON and nothing else."
	if !g.native {
		how = "Call " + g.format.Name + " with the whole document."
	}
	return "This is not the document that was asked for:\n- " + strings.Join(wrong.problems, "\n- ") + "\n" + how
}

func (g *generation) failed(resp *Response, wrong *misfit) error {
	raw := resp.Text()
	for _, c := range slices.Concat(resp.Message.Calls(), resp.Cut) {
		if c != nil && c.Name == g.format.Name {
			raw = string(c.Args)
			break
		}
	}
	return &OutputError{
		Name: g.format.Name, Raw: runes.Shorten(cleanText(raw), maxQuoted), Problems: wrong.problems,
		Attempts: g.attempts, Err: wrong.err,
	}
}

// refused returns the error for a refusal, with the model's words.
func (g *generation) refused(resp *Response) error {
	base := &ModelError{}
	if n, ok := As[ModelNamer](g.client); ok {
		base.Provider, base.Model = n.ModelName()
	}
	base.Model = cmp.Or(resp.Model, g.req.Model, base.Model)
	if text := strings.TrimSpace(resp.Text()); text != "" {
		base.Err = errors.New(runes.Shorten(text, maxProblem))
	}
	return &RefusalError{ModelError: base}
}
