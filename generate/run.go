package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/internal/option"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/runes"
)

// ToolFormatter is an optional ability of a model client, beside [aycoder.OutputFormatter]: it can make
// the model answer with a JSON document in a request that has tools, so that the model may first call
// them. Clients of package providers implement it where the service documents it.
type ToolFormatter interface {
	// FormatsWithTools reports whether the named model does so. An empty name means the client's
	// default model.
	FormatsWithTools(model string) bool
}

// WithRun appends options of the run to those of earlier options, such as [aycoder.Into] or
// [aycoder.WithParent]. It is for [RunAs]. Default: none.
func WithRun(opts ...aycoder.RunOption) Option {
	return func(s *settings) error {
		s.opts = append(s.opts, opts...)
		return nil
	}
}

// RunAs runs an agent, with its tools, until it has answered with a value of type T. It yields the
// events of the run, under the contract of [aycoder.Agent], and stores the value in *into before it
// yields the [aycoder.RunFinished]:
//
//	var report Report
//	for ev, err := range generate.RunAs(ctx, agent, aycoder.Input{Prompt: "Review the change."}, &report) {
//		…
//	}
//
// T may be what it may be for [Value], and an answer is checked in the same way. There are two ways to
// get it. If the client of the agent is a [ToolFormatter] for the model, or if there are no tools, each
// request of the run has the schema in [aycoder.Request.Output]. Otherwise the run has another tool,
// behind those of the agent, that takes the answer as its arguments. The run ends when that tool has
// got a valid answer, unless another call of the same message has failed: the model then has to answer
// again. Its name is that of [WithName], and the agent's [aycoder.Approver] decides about its calls,
// which are read-only. Either way the system prompt and the tools stay the same during the run, so that
// prompt caches hit.
//
// If an answer is not valid, the model is told what is wrong, in the output of its call. If it has ended
// its work with a text that is not the document, it is told so in a message, and must call the tool.
// Both count as repairs, see [WithRepairs], also those before a run was suspended. They are turns of the
// same run, so that its limits apply and its usage includes them.
//
// If the repairs are used up, or the turns when the model has ended its work, the error is an [*Error]
// with the result of the run. Other errors are those of the run, such as an [*aycoder.RefusalError] or
// an [*aycoder.LimitError]. In any case the history is valid, and *into is not changed.
//
// If the run is suspended, there is no error and no value: [aycoder.Result].Pending is set. Call RunAs
// with the same T and [aycoder.Input].Pending to resume it, also in another process.
//
// RunAs works with any agent that passes [aycoder.RunConfig] on, such as a session. An agent that ignores
// it is not told of the schema, and is not asked again.
func RunAs[T any](ctx context.Context, agent aycoder.Agent, in aycoder.Input, into *T, opts ...Option) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		g := &answering{settings: settings{document: newDocument(documentName(reflect.TypeFor[T]()))}}
		errs := []error{option.Apply(&g.settings, opts)}
		if agent == nil {
			errs = append(errs, refuse("agent", "is nil"))
		}
		if into == nil {
			errs = append(errs, refuse("into", "is nil"))
		}
		if g.into != nil {
			errs = append(errs, refuse("IntoResponse", "is for Value"))
		}
		err := errors.Join(errs...)
		if err != nil {
			err = fmt.Errorf("generate: %w", err)
		} else {
			err = typed(&g.document, into)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		g.run(ctx, agent.Run(ctx, in, append(slices.Clip(g.opts), g.extend)...), yield)
	})
}

// answering is the state of one call of RunAs. Its decisions follow from the history alone, so that
// another process can go on.
type answering struct {
	settings
	native atomic.Bool // of the last request
	taken  sync.Map    // the arguments that the tool got, by call id
	gaveUp *Error      // with which the run ended
	tokens int64       // of the last message
	begun  bool        // from is known
	from   int         // the first message behind the prompt
	result aycoder.Result
	host   *aycoder.Result // where the host wants it
}

// extend is the last option of the run.
func (g *answering) extend(c *aycoder.RunConfig) error {
	var x aycoder.RunExtension
	if host, ok := c.Extension.(*aycoder.RunExtension); ok && host != nil {
		x = *host
	}
	host := x
	x.Tools = append(slices.Clip(host.Tools), answerTool{g})
	x.Context = func(b aycoder.ContextBuilder) aycoder.ContextBuilder {
		if host.Context != nil {
			b = host.Context(b)
		}
		if b == nil {
			return nil
		}
		return aycoder.ContextFunc(func(ctx context.Context, in aycoder.ContextInput) (*aycoder.Request, error) {
			return g.build(ctx, b, in)
		})
	}
	x.Continue = func(res *aycoder.Result) *aycoder.Message {
		if host.Continue != nil {
			if m := host.Continue(res); m != nil {
				return m
			}
		}
		return g.next(res)
	}
	c.Extension = &x
	g.host, c.Into = c.Into, &g.result
	return nil
}

// run passes the events of the run on, and takes its answer.
func (g *answering) run(ctx context.Context, events iter.Seq2[aycoder.Event, error], yield func(aycoder.Event, error) bool) {
	defer func() {
		if g.host != nil {
			*g.host = g.result
		}
	}()
	var failed error
	for ev, err := range events {
		switch ev := ev.(type) {
		case *aycoder.TurnFinished:
			g.tokens = ev.Usage.Output
		case *aycoder.RunFinished:
			err = g.finish(ctx, ev.Result)
		}
		if failed = err; err != nil {
			break // the result is complete when this loop has ended
		}
		if !yield(ev, nil) {
			return
		}
	}
	if failed != nil && g.gaveUp != nil {
		g.gaveUp.Result = new(g.result)
		failed = g.gaveUp
	}
	if failed != nil {
		yield(nil, failed)
	}
}

// finish stores the value of a run that is done.
func (g *answering) finish(ctx context.Context, res *aycoder.Result) error {
	if res.Pending != nil {
		return nil
	}
	m, v := g.answer(res.Messages, res.Stop)
	switch {
	case v.store != nil:
		v.store()
		return nil
	case ctx.Err() != nil: // or else the model might have been asked again
		return fmt.Errorf("run: %w: %w", ctx.Err(), context.Cause(ctx))
	}
	g.gaveUp = g.failed(g.raw(m, nil), v.wrong, g.misses(res.Messages, res.Turns)+1)
	return g.gaveUp
}

// next returns the message for a model that has ended its work without an answer, or nil.
func (g *answering) next(res *aycoder.Result) *aycoder.Message {
	_, v := g.answer(res.Messages, res.Stop)
	if v.store != nil || g.misses(res.Messages, res.Turns) >= g.repairs {
		return nil
	}
	return aycoder.User(g.complaint(v.wrong, g.native.Load()))
}

// build makes the request of a turn. If the model may not be asked again, the run ends.
func (g *answering) build(ctx context.Context, b aycoder.ContextBuilder, in aycoder.ContextInput) (*aycoder.Request, error) {
	if n := g.misses(in.Messages, in.Turn-1); n > g.repairs {
		m, v := g.answer(in.Messages, "")
		g.gaveUp = g.failed(g.raw(m, nil), cmp.Or(v.wrong, newMisfit("document: no answer before was valid")), n)
		return nil, g.gaveUp
	}
	req, err := b.Build(ctx, in)
	if err != nil || req == nil {
		return req, err
	}
	mine := *req
	own := func(s *aycoder.ToolSpec) bool { return s.Name == g.format.Name }
	mine.Tools = slices.DeleteFunc(slices.Clone(req.Tools), own)
	native := formats(in.Client, &mine)
	g.native.Store(native)
	if native {
		mine.Output = &g.format
		return &mine, nil
	}
	at := slices.IndexFunc(in.Base.Tools, own)
	mine.Tools = append(mine.Tools, in.Base.Tools[at])
	if isComplaint(in.Messages[len(in.Messages)-1]) {
		mine.ToolChoice = aycoder.ToolChoice{Mode: aycoder.ToolNamed, Name: g.format.Name}
	}
	return &mine, nil
}

// formats reports whether a client makes the model answer with a document in a request, whose history
// may have calls only beside tools.
func formats(m aycoder.ModelClient, req *aycoder.Request) bool {
	f, ok := aycoder.As[aycoder.OutputFormatter](m)
	switch {
	case !ok || !f.FormatsOutput(req.Model):
		return false
	case len(req.Tools) == 0:
		return !slices.ContainsFunc(req.Messages, hasCalls)
	}
	t, ok := aycoder.As[ToolFormatter](m)
	return ok && t.FormatsWithTools(req.Model)
}

// answer judges the message of the model with which a history ends, apart from the outputs of its
// calls, or else an empty one.
func (g *answering) answer(messages []*aycoder.Message, stop aycoder.StopReason) (*aycoder.Message, verdict) {
	at := len(messages) - 1
	if at > 0 && len(messages[at-1].Calls()) > 0 {
		at--
	}
	if at < 0 || messages[at].Role != aycoder.RoleAssistant {
		return &aycoder.Message{}, g.judge(&aycoder.Message{}, nil, false, false)
	}
	call := func(c *aycoder.ToolUse) verdict {
		if c.Name != g.format.Name {
			return verdict{} // of the agent's work
		}
		args := c.Args
		if taken, ok := g.taken.Load(c.ID); ok {
			args = taken.([]byte)
		}
		v := g.fit(args)
		for _, c := range messages[at].Calls() { // a failed one lets the run go on
			if out := output(messages, at, c.ID); out.IsError {
				v.store = nil
				v.wrong = cmp.Or(v.wrong, newMisfit("call of "+c.Name+": "+runes.Shorten(out.Text(), maxProblem)))
			}
		}
		return v
	}
	cut := stop == aycoder.StopMaxTokens
	v := g.judge(messages[at], call, cut, !g.native.Load() && (at == 0 || !isComplaint(messages[at-1])))
	if v.store == nil && cut {
		v.wrong = cutOff(g.tokens)
	}
	return messages[at], v
}

// output returns the output of a call of a message. In a valid history, each call has one.
func output(messages []*aycoder.Message, at int, id string) *aycoder.ToolOutput {
	if at+1 < len(messages) {
		for _, p := range messages[at+1].Parts {
			if o, ok := p.(*aycoder.ToolOutput); ok && o.ID == id {
				return o
			}
		}
	}
	return &aycoder.ToolOutput{IsError: true}
}

// misses returns how many messages of the model, in this run, gave an answer that was not valid, and
// after which the run went on. turns is the number of messages that the model has sent.
func (g *answering) misses(messages []*aycoder.Message, turns int) (n int) {
	if !g.begun {
		g.begun, g.from = true, start(messages, turns)
	}
	for at := g.from; at < len(messages); at++ {
		if isComplaint(messages[at]) || g.missed(messages, at) {
			n++
		}
	}
	return n
}

// start returns where the last messages of the model begin, of which the history does not have those
// that are empty. A complaint behind no message of the model is about an empty one.
func start(messages []*aycoder.Message, turns int) int {
	at := len(messages)
	for ; at > 0 && turns > 0; at-- {
		empty := at == 1 || messages[at-2].Role != aycoder.RoleAssistant
		if m := messages[at-1]; m.Role == aycoder.RoleAssistant || isComplaint(m) && empty {
			turns--
		}
	}
	return at
}

// missed reports whether a message has calls with the answer, of which none was valid.
func (g *answering) missed(messages []*aycoder.Message, at int) bool {
	missed := false
	for _, c := range messages[at].Calls() {
		if c.Name == g.format.Name && !output(messages, at, c.ID).IsError {
			return false
		}
		missed = missed || c.Name == g.format.Name
	}
	return missed
}

func isComplaint(m *aycoder.Message) bool {
	return m.Role == aycoder.RoleUser && strings.HasPrefix(m.Text(), complaintStart)
}

// answerTool takes the answer.
type answerTool struct{ g *answering }

func (t answerTool) Spec() aycoder.ToolSpec {
	return aycoder.ToolSpec{
		Name: t.g.format.Name, Schema: t.g.format.Schema, Effect: aycoder.EffectReadOnly,
		Description: "Takes the answer to the task. When the work is done, call it once, with the whole answer as " +
			"the arguments. Do not write the answer as text.",
	}
}

func (t answerTool) Call(_ context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
	v := t.g.fit(inv.Args)
	if v.store == nil {
		return aycoder.ErrorResult(t.g.complaint(v.wrong, false)), nil
	}
	t.g.taken.Store(inv.ID, []byte(inv.Args))
	res := aycoder.TextResult("The answer is taken. If another call of this message has failed, answer again.")
	res.Summary, res.Final = "answer", true
	return res, nil
}
