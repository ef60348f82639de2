package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/generate"
	"github.com/aycoder/aycoder/internal/envelope"
	"github.com/aycoder/aycoder/internal/runes"
	"github.com/aycoder/aycoder/workspace"
)

const (
	subagentTurns   = 30
	subagentTimeout = 10 * time.Minute
	maxTask         = 64 << 10 // bytes
	maxReport       = 50_000   // bytes of a subagent's answer
)

const subagentDescription = `Give a task to another agent, which works on it alone and reports back.
It knows nothing of this conversation: write down everything that it has to know and to report. Use
it for a search or a review that would fill this conversation, and for several tasks at once, each
in a separate call.`

type subagentArgs struct {
	Task        string   `json:"task" jsonschema_description:"What it is to do and to report, with all it has to know."`
	Description string   `json:"description,omitempty" jsonschema_description:"The task in a few words, for the user."`
	Tools       []string `json:"tools,omitempty" jsonschema_description:"The names of the tools it gets. Default: all that it can have."`
}

// SubagentConfig configures the agents that [Subagent] starts. Only Model is required.
type SubagentConfig struct {
	// Name and Description are the name and the description of the tool. Default: "subagent",
	// with a description that fits any task.
	Name, Description string
	// Model is the model that the agents use.
	Model aycoder.ModelClient
	// Tools are the tools that an agent can have. A call of the tool may select some of them.
	Tools []aycoder.Tool
	// Options are further options for [aycoder.New], such as a system prompt or an
	// [aycoder.Approver]. An Approver in Options can only add restrictions, because the outer
	// run's Approver still decides about each call too. Pass tools in Tools, not here.
	Options []aycoder.Option
	// MaxTurns, MaxTokens and Timeout limit one call. MaxTokens limits the sum of input and
	// output tokens, and is checked after each turn. Default: 30 turns, no limit for tokens, 10
	// minutes.
	MaxTurns  int
	MaxTokens int64
	Timeout   time.Duration
	// MaxDepth limits how deeply agents may be nested. With 1, the agents cannot start further
	// agents. With 2, they have this tool too, but the agents that they start do not have it.
	// Each higher number adds one level. Default: 1.
	MaxDepth int
	// Background lets a call start an agent that goes on when the call has returned: the tool then has the
	// argument background. The group owns these agents, and the tools [JobOutput] and [JobStop] read and
	// stop them, with the option [WithBackground]. Timeout then counts from the start of the agent.
	// Default: no group, and no such argument.
	Background *background.Group
}

// Subagent returns a tool with which the model gives a task to a separate agent. The agent works
// in a nested run (see [aycoder.WithParent]), which ends before the call returns. The agent reads
// only the task, not the conversation of the outer run, and counts as another reader of the files
// (see [workspace.WithReader]).
//
// Each tool call of the agent needs the permission of the outer run's [aycoder.Approver], even if
// an Approver in the Options of c allows the call. Approval requests of the agent go to the
// consumer of the outer run, as an [aycoder.ChildEvent], and the agent's tokens count for the
// outer run. If all Tools of c are read-only, this tool is read-only as well, and several agents
// can work in parallel.
func Subagent(c SubagentConfig) (aycoder.Tool, error) { return newSubagents(c, runText) }

// SubagentAs returns a tool like that of [Subagent], whose agents answer with a value of type T, as
// [generate.RunAs] describes. The outer model gets the value as JSON when it is valid, and an error
// otherwise. opts are options of RunAs.
func SubagentAs[T any](c SubagentConfig, opts ...generate.Option) (aycoder.Tool, error) {
	return newSubagents(c, func(ctx context.Context, a aycoder.Agent, in aycoder.Input, w *follower) iter.Seq2[aycoder.Event, error] {
		var value T
		w.answer = func() string {
			var b strings.Builder
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(value); err != nil {
				return err.Error()
			}
			return b.String()
		}
		return generate.RunAs(ctx, a, in, &value, append(slices.Clip(opts), generate.WithRun(w.opts...))...)
	})
}

// runText runs an agent that answers with text.
func runText(ctx context.Context, a aycoder.Agent, in aycoder.Input, w *follower) iter.Seq2[aycoder.Event, error] {
	w.answer = w.res.Text
	return a.Run(ctx, in, w.opts...)
}

func newSubagents(c SubagentConfig, run runner) (aycoder.Tool, error) {
	s := &subagents{SubagentConfig: c, start: run}
	s.Tools = slices.Clone(c.Tools)
	s.Options = slices.Clone(c.Options)
	s.Name = cmp.Or(c.Name, "subagent")
	s.MaxTurns = cmp.Or(c.MaxTurns, subagentTurns)
	s.Timeout = cmp.Or(c.Timeout, subagentTimeout)
	s.MaxDepth = cmp.Or(c.MaxDepth, 1)
	if s.MaxTurns < 0 || s.Timeout < 0 || s.MaxDepth < 0 || s.MaxTokens < 0 {
		return nil, fmt.Errorf("new tool %q: a bound is negative", s.Name)
	}
	loop, err := s.loop(s.Tools)
	if err == nil {
		err = s.probe(loop)
	}
	if err != nil {
		return nil, fmt.Errorf("new tool %q: %w", s.Name, err)
	}
	effect, open := aycoder.EffectReadOnly, false
	for _, t := range s.Tools {
		spec := t.Spec()
		if spec.Effect != aycoder.EffectReadOnly {
			effect = aycoder.EffectUnknown
		}
		open = open || spec.OpenWorld
	}
	s.self, err = s.tool(aycoder.WithEffect(effect), aycoder.WithHints(false, open))
	return s.self, err
}

func (s *subagents) tool(opts ...aycoder.ToolOption) (aycoder.Tool, error) {
	description := cmp.Or(s.Description, subagentDescription)
	if s.Background == nil {
		return aycoder.NewTool(s.Name, description, guard(s.run), opts...)
	}
	return aycoder.NewTool(s.Name, description, guard(s.runOrStart), opts...)
}

// subagents is the tool. It refers to itself, so that it can be one of the tools of a nested
// agent.
type subagents struct {
	SubagentConfig
	self  aycoder.Tool
	start runner
}

// A runner starts a run whose result is in the follower when it has ended.
type runner func(context.Context, aycoder.Agent, aycoder.Input, *follower) iter.Seq2[aycoder.Event, error]

// probe returns what would make each run fail, such as a type without a schema. A run without input asks
// no model.
func (s *subagents) probe(a aycoder.Agent) error {
	for _, err := range s.start(context.Background(), a, aycoder.Input{}, &follower{}) {
		if e, ok := errors.AsType[*aycoder.ConfigError](err); !ok || e.Option != "Input" {
			return err
		}
	}
	return nil
}

// loop makes the agent, with the options of the host.
func (s *subagents) loop(tools []aycoder.Tool) (*aycoder.Loop, error) {
	opts := append([]aycoder.Option{aycoder.WithName(s.Name)}, s.Options...)
	return aycoder.New(s.Model, append(opts, aycoder.WithTools(tools...), aycoder.WithLimits(aycoder.Limits{Turns: s.MaxTurns}))...)
}

// run gives the task to an agent and returns its report. Its events go to the consumer of
// the run around it, so questions are answered there.
func (s *subagents) run(ctx context.Context, inv *invocation, in subagentArgs) (*result, error) {
	child, err := s.agent(inv, &in)
	if err != nil {
		return nil, err
	}
	return s.work(ctx, child, in.Task, &follower{inv: inv, emit: inv.Emit})
}

// agent makes the agent for a call.
func (s *subagents) agent(inv *invocation, in *subagentArgs) (*aycoder.Loop, error) {
	switch {
	case strings.TrimSpace(in.Task) == "":
		return nil, problemf("invalid_arguments", "the task is empty")
	case len(in.Task) > maxTask:
		return nil, problemf("too_long", "the task has %d bytes, at most %d are taken; write it to a file and name that",
			len(in.Task), maxTask)
	case inv.Depth >= s.MaxDepth:
		return nil, problemf("depth_limit", "agents may be %d deep inside of each other, and this one is; "+
			"do the task yourself", s.MaxDepth)
	}
	tools, err := s.choose(in.Tools, inv.Depth)
	if err != nil {
		return nil, err
	}
	return s.loop(tools)
}

// work runs an agent and returns its report.
func (s *subagents) work(ctx context.Context, child *aycoder.Loop, task string, w *follower) (*result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, errSubagentTimeout)
	defer cancel()
	w.maxTokens = s.MaxTokens
	w.opts = []aycoder.RunOption{aycoder.Into(&w.res), aycoder.WithParent(w.inv)}
	if s.Background != nil {
		w.opts = append(w.opts, s.Background.AttachInner())
	}
	ctx = workspace.WithReader(ctx, new(workspace.Reader))
	for ev, err := range s.start(ctx, child, aycoder.Input{Prompt: task}, w) {
		if w.err = err; err == nil {
			w.err = w.see(ctx, ev)
		}
		if w.err != nil {
			break
		}
	}
	return s.report(ctx, w)
}

var (
	errSubagentTimeout = errors.New("the time of the agent is over")
	errTokens          = errors.New("the tokens of the agent are used up")
)

// choose returns the tools of an agent at a depth.
func (s *subagents) choose(names []string, depth int) ([]aycoder.Tool, error) {
	all := slices.Clone(s.Tools)
	if depth+1 < s.MaxDepth && !slices.ContainsFunc(all, named(s.Name)) {
		all = append(all, s.self)
	}
	if len(names) == 0 {
		return all, nil
	}
	var chosen []aycoder.Tool
	for _, n := range names {
		i := slices.IndexFunc(all, named(n))
		if i < 0 {
			return nil, problemf("invalid_arguments", "the agent cannot have the tool %s; it can have: %s",
				showHost(n), strings.Join(toolNames(all), ", "))
		}
		if !slices.ContainsFunc(chosen, named(n)) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, nil
}

// named is a test for a tool's name.
func named(name string) func(aycoder.Tool) bool {
	return func(t aycoder.Tool) bool { return t.Spec().Name == name }
}

// toolNames returns the names of tools.
func toolNames(tools []aycoder.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Spec().Name
	}
	return names
}

// A follower consumes the events of a run and forwards them.
type follower struct {
	inv       *invocation
	emit      func(context.Context, aycoder.Event) error
	opts      []aycoder.RunOption
	maxTokens int64

	res       aycoder.Result
	answer    func() string // of a run that has ended well
	err       error         // why the run ended early
	tokens    int64
	calls     int
	denied    []string // names of tools
	untrusted bool
}

// see passes an event on and counts what the agent uses. An error ends the agent.
func (w *follower) see(ctx context.Context, ev aycoder.Event) error {
	if err := w.emit(ctx, ev); err != nil {
		return err
	}
	if child, ok := ev.(*aycoder.ChildEvent); ok {
		switch ev := child.Innermost().(type) {
		case *aycoder.TurnFinished:
			return w.count(ev.Usage)
		case *aycoder.Compacted:
			return w.count(ev.Usage)
		}
		return nil
	}
	switch ev := ev.(type) {
	case *aycoder.ToolStarted:
		w.inv.Progress(aycoder.Progress{Current: w.tokens, Message: strings.TrimSpace(ev.Call.Name + " " + ev.Subject)})
	case *aycoder.ToolFinished:
		w.calls++
		w.untrusted = w.untrusted || ev.Output.Untrusted
		if _, ok := errors.AsType[*aycoder.ToolDeniedError](ev.Err); ok && !slices.Contains(w.denied, ev.Call.Name) {
			w.denied = append(w.denied, ev.Call.Name)
		}
	case *aycoder.TurnFinished:
		return w.count(ev.Usage)
	case *aycoder.Compacted:
		return w.count(ev.Usage)
	}
	return nil
}

// count adds up tokens, including those of nested agents and of summaries.
func (w *follower) count(used aycoder.Usage) error {
	w.tokens += tokens(used)
	if w.maxTokens > 0 && w.tokens > w.maxTokens {
		return errTokens
	}
	return nil
}

// tokens counts cached input too: it is cheaper, but it fills the context of the model all the
// same.
func tokens(u aycoder.Usage) int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// report describes the outcome of a run.
func (s *subagents) report(ctx context.Context, w *follower) (*result, error) {
	if _, ok := errors.AsType[*aycoder.ToolError](w.err); ok {
		return nil, w.err // an error that ends all runs, including the outer one
	}
	text := w.res.Text()
	if w.err == nil {
		text = w.answer()
	}
	text = shortened(text, max(maxReport, w.inv.Whole))
	if w.untrusted && text != "" {
		text = envelope.Wrap("an agent that read what strangers wrote", text)
	} else if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	account := w.account()
	text += account
	r := textResult(text, plural(w.res.Turns, "turn"))
	if why := s.ended(ctx, w); why != "" {
		kind, _, _ := strings.Cut(why, ":")
		r = textResult(why+"\n"+text, strings.ReplaceAll(kind, "_", " "))
		r.IsError = true
	}
	showEnds(r, 0, len(r.Text())-len(account), maxReport*3/4, maxReport/4)
	r.Untrusted, r.Usage = w.untrusted, w.res.Usage
	return r, nil
}

// shortened truncates a long answer.
func shortened(text string, most int) string {
	text = printable(text)
	if len(text) <= most {
		return text
	}
	return runes.Cut(text, most) + fmt.Sprintf("\n[%d bytes of the answer are left out]", len(text)-most)
}

// account formats the last line of a report.
func (w *follower) account() string {
	line := fmt.Sprintf("[%s, %s, %s", plural(w.res.Turns, "turn"), plural(w.calls, "call"),
		plural(int(tokens(w.res.Usage)), "token"))
	if len(w.denied) > 0 {
		line += "; denied: " + strings.Join(w.denied, ", ")
	}
	return line + "]\n"
}

// ended tells the model why a run ended early; it is "" if the run was completed.
func (s *subagents) ended(ctx context.Context, w *follower) string {
	err := w.err
	limit, limited := errors.AsType[*aycoder.LimitError](err)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errTokens):
		return fmt.Sprintf("token_limit: the agent used more than %d tokens; what it said last:", s.MaxTokens)
	case context.Cause(ctx) == errSubagentTimeout:
		return fmt.Sprintf("timeout: the agent was not done after %s; what it said last:", s.Timeout)
	case ctx.Err() != nil:
		return "cancelled: the agent was stopped"
	case limited && w.res.End == aycoder.EndTurns:
		return fmt.Sprintf("turn_limit: the agent was not done after %d turns; give it a smaller task. "+
			"What it said last:", limit.Max)
	}
	return "agent_failed: " + runes.Shorten(EscapeInvisible(err.Error()), 1000)
}
