// Package generate asks for values of Go types instead of for text: [Value] asks a model, with one
// request, and [RunAs] runs an agent, with its tools, until it has answered with a value.
package generate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/internal/schema"
)

// Option configures one call of [Value] or [RunAs].
type Option func(*settings) error

// settings are what the options of a call set.
type settings struct {
	document
	into *aycoder.Response
	opts []aycoder.RunOption
}

// WithRepairs sets how many more times the model is asked if its answer is not valid. With each
// repeated request, the model is told what is wrong with its last answer. Default: 2.
func WithRepairs(n int) Option {
	return func(g *settings) error {
		if n < 0 {
			return &aycoder.ConfigError{Option: "WithRepairs", Err: errors.New("is negative")}
		}
		g.repairs = n
		return nil
	}
}

// WithName sets the name of the document that the model is asked for; the model sees this name.
// It must have 1 to 64 letters, digits, "_" and "-". Default: the name of the type T,
// or "answer" if T has no name that is valid here. In [RunAs], no tool of the agent may have it.
func WithName(name string) Option {
	return func(g *settings) error {
		if err := schema.CheckName(name); err != nil {
			return &aycoder.ConfigError{Option: "WithName", Err: err}
		}
		g.format.Name = name
		return nil
	}
}

// WithSchema sets the JSON Schema of the document, in place of that of the type T, which must be
// [json.RawMessage]: the value is then a document that fits the schema. The schema must describe an
// object. Default: the schema of T.
func WithSchema(raw json.RawMessage) Option {
	return func(g *settings) error {
		g.given = bytes.Clone(raw)
		if g.given == nil {
			g.given = json.RawMessage{} // which is invalid
		}
		return nil
	}
}

// IntoResponse stores the model's last answer in r, whether [Value] succeeds or fails. The usage
// and the cost in r are the sums over all requests of the call; the cost is nil if it is unknown
// for one of them. If r is nil, nothing is stored. It is not for
// [RunAs], whose result comes with [aycoder.Into]. Default: nil.
func IntoResponse(r *aycoder.Response) Option {
	return func(g *settings) error {
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
	g, err := newGeneration(m, req, documentName(reflect.TypeFor[T]()), opts)
	if err == nil {
		err = typed(&g.document, &value)
	}
	if err == nil {
		g.chooseWay()
		err = g.run(ctx)
	}
	return value, err
}

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
	settings
	client aycoder.ModelClient
	req    aycoder.Request // the next request
	native bool

	usage    aycoder.Usage
	cost     float64
	unpriced bool // the cost of a request is unknown
	attempts int
}

func newGeneration(m aycoder.ModelClient, req *aycoder.Request, name string, opts []Option) (*generation, error) {
	g := &generation{client: m, settings: settings{document: newDocument(name)}}
	errs := []error{checkGenerate(m, req), option.Apply(&g.settings, opts)}
	if len(g.opts) > 0 {
		errs = append(errs, refuse("WithRun", "is for RunAs"))
	}
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

func refuse(what, why string) error {
	return &aycoder.ConfigError{Option: what, Err: errors.New(why)}
}

func checkGenerate(m aycoder.ModelClient, req *aycoder.Request) error {
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

// chooseWay decides whether the model is asked for the document in Request.Output or as the
// arguments of a tool.
func (g *generation) chooseWay() {
	if g.native = formats(g.client, &g.req); g.native {
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
		cut := resp.Stop == aycoder.StopMaxTokens
		v := g.judge(resp.Message, g.judgeCall, cut, false)
		switch {
		case v.store != nil:
			v.store()
			return nil
		case cut:
			limit := cmp.Or(int64(g.req.MaxTokens), resp.Usage.Output)
			return g.failed(g.raw(resp.Message, resp.Cut), cutOff(limit), g.attempts)
		case g.attempts > g.repairs:
			return g.failed(g.raw(resp.Message, nil), v.wrong, g.attempts)
		}
		g.repair(resp, v.wrong)
	}
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
		g.spend(resp)
		if err != nil || resp.Stop != aycoder.StopPaused || len(resp.Message.Calls()) > 0 {
			return resp, err
		}
		if len(resp.Message.Parts) > 0 {
			g.say(resp.Message)
		}
	}
	return nil, &aycoder.LimitError{Limit: "pauses of one answer", Max: maxPauses}
}

// spend adds up what the requests took, and stores the last answer with it.
func (g *generation) spend(resp *aycoder.Response) {
	g.usage = g.usage.Add(resp.Usage)
	if resp.Cost != nil {
		g.cost += *resp.Cost
	} else {
		g.unpriced = g.unpriced || resp.Usage != (aycoder.Usage{})
	}
	if g.into == nil {
		return
	}
	*g.into = *resp
	g.into.Usage = g.usage
	if g.into.Cost = nil; !g.unpriced && (resp.Cost != nil || g.usage != (aycoder.Usage{})) {
		g.into.Cost = new(g.cost)
	}
}

func (g *generation) say(m *aycoder.Message) { g.req.Messages = append(g.req.Messages, m) }

// repair appends the answer and its problems to the request. Each call in the answer gets an
// output, since providers refuse a call without one.
func (g *generation) repair(resp *aycoder.Response, wrong *misfit) {
	answer := resp.Message.Parts
	if g.native { // APIs refuse calls in a request without tools
		answer = slices.DeleteFunc(slices.Clone(answer), isCall)
	}
	var told []aycoder.Part
	for _, c := range (&aycoder.Message{Parts: answer}).Calls() {
		wrong := g.judgeCall(c).wrong
		told = append(told, &aycoder.ToolOutput{
			ID: c.ID, Name: c.Name, IsError: true,
			Parts: []aycoder.Part{&aycoder.Text{Text: g.complaint(wrong, g.native)}},
		})
	}
	if told == nil {
		told = []aycoder.Part{&aycoder.Text{Text: g.complaint(wrong, g.native)}}
	}
	if slices.ContainsFunc(answer, func(p aycoder.Part) bool { return !isThinking(p) }) {
		g.say(&aycoder.Message{Role: aycoder.RoleAssistant, Parts: answer})
	}
	g.say(&aycoder.Message{Role: aycoder.RoleUser, Parts: told})
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
