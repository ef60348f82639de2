package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/internal/closest"
	"github.com/aycoder/aycoder/internal/part"
	"github.com/aycoder/aycoder/internal/program"
	"github.com/aycoder/aycoder/internal/runes"
)

// KindCommand is the kind of the questions about commands of a project that run a shell.
const KindCommand config.Kind = "command"

// Typed is what a user has typed, made into the input of a run by [Runtime.Expand].
type Typed struct {
	// Input is the input. A host adds the messages of the conversation if there is no session.
	Input aycoder.Input
	// Command is the name of the command or skill that was called, or "".
	Command string

	r      *Runtime
	limits *toolLimits
	model  aycoder.ModelClient
}

// UnknownCommandError reports that a user has called a command that is not there.
type UnknownCommandError struct {
	// Name is what the user called, without the slash. Similar are names that may have been meant.
	Name    string
	Similar []string
}

// Error implements the error interface.
func (e *UnknownCommandError) Error() string {
	text := "there is no command /" + runes.Path(e.Name)
	if len(e.Similar) > 0 {
		text += "; did you mean /" + strings.Join(e.Similar, ", /") + "?"
	}
	return text
}

// UntrustedError reports that a command of the project runs a shell, and that the user does not trust it. If Refused
// is false, the user has not been asked: a host shows the Question, passes the answer to [config.Trust.Decide], and
// expands the command again.
type UntrustedError struct {
	Question config.Question
	Refused  bool
}

// Error implements the error interface.
func (e *UntrustedError) Error() string {
	if e.Refused {
		return runes.Path(e.Question.File) + " runs commands that the user does not trust"
	}
	return runes.Path(e.Question.File) + " runs commands, and the user has not been asked whether to trust them"
}

// Expand makes the input of a run of what a user has typed, and puts it into into. "/name arguments" calls a command
// or a skill of [Runtime].Library; what [project.Command.Expand] describes is replaced in its text. Any other text is
// the prompt as it is, also one that begins with a path such as /etc/hosts. A prompt of a server is a command, too, and
// a text gets the resources of servers that it mentions: see [TextSource]. Secrets in the text that is made of a
// command are masked, as they are in the outputs of tools.
//
// The shell commands in a text are calls of the tool bash, which the runtime's approver, hooks and stages see, in a
// separate run. Its events are those of the sequence: a host answers the questions among them as those of a run. A
// command of the project that runs a shell needs the trust of the user first (see [WithTrust]); without, nothing
// runs, and the error is an [*UntrustedError]. It is an [*UnknownCommandError] for a name that is not there, and a
// [*project.ExpandError] for a shell command that was refused or could not run. The sequence can be used once, and its
// error is the last element; into is set only if there is none.
func (r *Runtime) Expand(ctx context.Context, text string, into *Typed) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		x := &expansion{r: r, yield: yield}
		typed, err := x.expand(ctx, text)
		switch {
		case x.left:
		case err != nil:
			yield(nil, err)
		default:
			*into = *typed
		}
	})
}

type typedKey struct{}

// Run lets the agent answer, like [Runtime.Run]. A command that names a model gets it for this run, and one that
// lists its allowed tools has no others in it, nor have the agents that it starts: a call of another tool is denied.
// To resume a suspended run under the same limits, set Input and call Run again.
func (t *Typed) Run(ctx context.Context, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	if t.Command != "" {
		ctx = context.WithValue(ctx, typedKey{}, t)
	}
	return t.r.Run(ctx, t.Input, opts...)
}

func typedFrom(ctx context.Context) *Typed {
	t, _ := ctx.Value(typedKey{}).(*Typed)
	return t
}

// prepareCommands opens the models that the commands of the library name.
func (b *builder) prepareCommands(ctx context.Context) {
	if b.Library == nil {
		return
	}
	for _, c := range b.Library.Now().Commands {
		if c.Model != "" {
			b.modelOf(ctx, c.Model, c.File)
		}
	}
}

// namedModel returns the model that files name so, if it was opened, or nil.
func (r *Runtime) namedModel(name string) aycoder.ModelClient {
	m, _ := r.named.Load(name)
	client, _ := m.(aycoder.ModelClient)
	return client
}

// An expansion makes one input.
type expansion struct {
	r     *Runtime
	yield func(aycoder.Event, error) bool
	left  bool // the consumer has left the loop
}

func (x *expansion) expand(ctx context.Context, text string) (*Typed, error) {
	name, args, ok := called(text)
	if !ok {
		parts, err := x.r.mentioned(ctx, text)
		return &Typed{Input: aycoder.Input{Prompt: text, Parts: parts}, r: x.r}, err
	}
	if in, err := x.r.serverPrompt(ctx, name, args); in != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return &Typed{Input: *in, r: x.r}, nil
	}
	c, err := x.r.command(ctx, name)
	if err != nil {
		return nil, err
	}
	dir := x.r.Shell.Dir()
	if err := x.r.trusts(c, dir); err != nil {
		return nil, err
	}
	t := &Typed{Command: c.Name, r: x.r, model: x.r.namedModel(c.Model), limits: x.r.restrict("the command "+c.Name, c.File, c.AllowedTools)}
	e := project.Expansion{Files: x.r.Files}
	if bash := x.r.bash(t); bash != nil {
		still := func(next aycoder.ToolFunc) aycoder.ToolFunc {
			return func(ctx context.Context, inv *aycoder.Invocation) (*aycoder.ToolResult, error) {
				if err := x.r.trusts(c, dir); err != nil { // a script may have changed while a question was open
					return nil, err
				}
				return next(ctx, inv)
			}
		}
		e.Run = func(ctx context.Context, script string) (string, error) { return x.run(ctx, bash, still, script) }
	}
	prompt, err := c.Expand(ctx, args, e)
	t.Input.Prompt = x.r.masked(prompt)
	return t, err
}

// called splits a call of a command. A path is not a call.
func called(text string) (name, args string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "/")
	if i := strings.IndexAny(rest, " \t\r\n"); i >= 0 {
		rest, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	return rest, args, ok && rest != "" && !strings.Contains(rest, "/")
}

// command returns the command of a name, or the skill as one.
func (r *Runtime) command(ctx context.Context, name string) (*project.Command, error) {
	if r.Library == nil {
		return nil, &UnknownCommandError{Name: name}
	}
	if c := r.Library.Command(name); c != nil {
		return c, nil
	}
	if s := r.Library.Skill(name); s != nil {
		return s.Command(ctx)
	}
	var names []string
	for _, c := range r.Library.Now().Commands {
		names = append(names, c.Name)
	}
	for _, s := range r.Library.Now().Skills {
		names = append(names, s.Name)
	}
	return nil, &UnknownCommandError{Name: name, Similar: closest.Closest(name, names, 3)}
}

var errElsewhere = errors.New("its commands cannot be trusted, because the workspace is on another machine")

// trusts returns an error if a command of the project would run what the user does not trust. It runs in dir, where the
// model may have left the shell, and there its scripts are others.
func (r *Runtime) trusts(c *project.Command, dir string) error {
	scripts := c.Scripts()
	if len(scripts) == 0 {
		return nil
	}
	if c.User {
		return r.pluginAllows(c)
	}
	if r.Workspace == nil {
		return &project.ExpandError{Command: c.Name, File: c.File, Line: scripts[0].Line, Err: errElsewhere}
	}
	q := config.Question{Kind: KindCommand, Root: r.Files.Dir(), File: c.File, Line: scripts[0].Line}
	var lines []string
	if dir != "." {
		lines = append(lines, "cd "+program.Quote(dir))
	}
	for _, s := range scripts {
		lines = append(lines, s.Text)
	}
	q.Command = strings.Join(lines, "\n")
	q, err := q.Bind()
	if err != nil {
		return fmt.Errorf("trust %s: %w", runes.Path(c.File), err)
	}
	trusted, known, err := r.trust.Decided(q)
	switch {
	case err != nil:
		return err
	case !trusted:
		return &UntrustedError{Question: q, Refused: known}
	}
	return nil
}

// bash returns the tool that runs the shell commands of a text, or nil.
func (r *Runtime) bash(t *Typed) aycoder.Tool {
	if t.limits != nil && !t.limits.has("bash") {
		return nil
	}
	return r.tool("bash")
}

// tool returns the tool of a name, or nil.
func (r *Runtime) tool(name string) aycoder.Tool {
	all := r.ToolsNow()
	if i := slices.IndexFunc(all, func(t aycoder.Tool) bool { return t.Spec().Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

var (
	errLeft       = errors.New("the consumer has left")
	errUnanswered = errors.New("nobody decided about it")
)

// run runs a shell command of a text. last is around the tool alone.
func (x *expansion) run(ctx context.Context, bash aycoder.Tool, last aycoder.ToolMiddleware, script string) (string, error) {
	var done *aycoder.ToolFinished
	for ev, err := range x.r.call(ctx, bash, commandArgs(script), aycoder.WithToolMiddleware(last)) {
		if err != nil {
			return "", err
		}
		if f, ok := ev.(*aycoder.ToolFinished); ok {
			done = f
		}
		if !x.yield(ev, nil) {
			x.left = true
			return "", errLeft
		}
	}
	return output(done)
}

// Command runs a shell command that the user has typed: a call of the tool bash outside of the conversation, which the
// runtime's approver, hooks and stages see like one of the model. The sequence has its [aycoder.ToolStarted],
// [aycoder.ToolProgress] and [aycoder.ToolFinished], the notices, and the questions about it, which a host answers. It
// can be used once, and its error is the last element. The shell is that of the model, so that the directory in which
// it is left is where the model goes on: no run must be at work.
func (r *Runtime) Command(ctx context.Context, command string) iter.Seq2[aycoder.Event, error] {
	return r.Call(ctx, "bash", commandArgs(command))
}

// commandArgs are the arguments of the tool bash.
func commandArgs(command string) json.RawMessage {
	args, _ := json.Marshal(map[string]string{"command": command}) // a text can always be encoded
	return args
}

// Call makes a call of one of the runtime's tools outside of the conversation, as [Runtime.Command] does of bash: for a
// host that offers the tools to others, such as a server. Calls of tools that may write must not overlap.
func (r *Runtime) Call(ctx context.Context, tool string, args json.RawMessage) iter.Seq2[aycoder.Event, error] {
	return part.Once(func(yield func(aycoder.Event, error) bool) {
		t := r.tool(tool)
		if t == nil {
			yield(nil, wrong("tool "+tool, "is not there"))
			return
		}
		r.call(ctx, t, args)(yield)
	})
}

// Caller returns an agent that answers each message with one call of a tool, and then says that the call is over. It is for a
// host that keeps calls in a session: see [session.Session.NewBranch]. The middleware of [WithAgentMiddleware] is around this
// agent, too. No model is asked, so its answers have the provider "none".
func (r *Runtime) Caller(tool string, args json.RawMessage) (aycoder.Agent, error) {
	t := r.tool(tool)
	if t == nil {
		return nil, wrong("tool "+tool, "is not there")
	}
	loop, err := r.caller(t, args)
	if err != nil {
		return nil, err
	}
	return r.wrap(loop)
}

// caller returns an agent that makes a call, with everything around calls that the runtime has.
func (r *Runtime) caller(t aycoder.Tool, args json.RawMessage, more ...aycoder.Option) (*aycoder.Loop, error) {
	opts := append(slices.Clip(r.plain), aycoder.WithTools(t))
	for _, s := range r.stages {
		if s.AroundTool != nil {
			opts = append(opts, aycoder.WithToolMiddleware(s.AroundTool))
		}
	}
	return aycoder.New(oneCall(t.Spec().Name, args), append(opts, more...)...)
}

// call makes a call in a separate run, so that everything around calls applies to it.
func (r *Runtime) call(ctx context.Context, t aycoder.Tool, args json.RawMessage, more ...aycoder.Option) iter.Seq2[aycoder.Event, error] {
	return func(yield func(aycoder.Event, error) bool) {
		loop, err := r.caller(t, args, more...)
		if err != nil {
			yield(nil, err)
			return
		}
		for ev, err := range loop.Run(ctx, aycoder.Input{Prompt: "Run it."}) {
			switch ev.(type) {
			case nil, *aycoder.ToolStarted, *aycoder.ToolProgress, *aycoder.ToolFinished, *aycoder.ApprovalRequested, *aycoder.Notice:
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}

// output returns what the model is to read of a call.
func output(done *aycoder.ToolFinished) (string, error) {
	switch {
	case done == nil:
		return "", errUnanswered
	case done.Err != nil:
		return "", done.Err
	}
	text := (&aycoder.Message{Parts: done.Output.Parts}).Text()
	if done.Output.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

// oneCall is a model that makes one call.
func oneCall(tool string, args json.RawMessage) aycoder.ModelClient {
	return aycoder.ModelFunc(func(_ context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
		block, stop := aycoder.Part(&aycoder.ToolUse{ID: "command", Name: tool, Args: args}), aycoder.StopToolUse
		if last := req.Messages[len(req.Messages)-1]; slices.ContainsFunc(last.Parts, part.IsOutput) {
			block, stop = &aycoder.Text{Text: "The call is over."}, aycoder.StopEndTurn
		}
		return func(yield func(aycoder.ModelEvent, error) bool) {
			if text, ok := block.(*aycoder.Text); ok && !yield(&aycoder.TextDelta{Text: text.Text}, nil) {
				return
			}
			_ = yield(&aycoder.BlockDone{Part: block}, nil) && yield(&aycoder.MessageDone{Stop: stop, Provider: part.NoModel}, nil)
		}
	})
}

// A limitApprover denies calls of tools that were switched off meanwhile, such as those of agents at work, and what the
// command of a run does not allow.
type limitApprover struct {
	next aycoder.Approver
	r    *Runtime
}

// Unwrap returns the wrapped Approver, whose optional interfaces the loop finds.
func (a *limitApprover) Unwrap() aycoder.Approver { return a.next }

// Decide implements [aycoder.Approver].
func (a *limitApprover) Decide(ctx context.Context, call *aycoder.ToolUse, spec *aycoder.ToolSpec) aycoder.Verdict {
	if a.r.switchedOff(call.Name) {
		return aycoder.Deny("the configuration has switched this tool off")
	}
	if t := typedFrom(ctx); t != nil && t.limits != nil {
		if v := t.limits.Decide(ctx, call, spec); !v.Grounds().Named {
			return v
		}
	}
	return a.next.Decide(ctx, call, spec)
}

// commandModel asks the model of the command of a run.
func commandModel(next aycoder.ModelClient) aycoder.ModelClient { return &chosenModel{next} }

type chosenModel struct{ next aycoder.ModelClient }

// Unwrap returns the wrapped client, whose abilities [aycoder.As] finds.
func (m *chosenModel) Unwrap() aycoder.ModelClient { return m.next }

// Stream implements [aycoder.ModelClient].
func (m *chosenModel) Stream(ctx context.Context, req *aycoder.Request) iter.Seq2[aycoder.ModelEvent, error] {
	t := typedFrom(ctx)
	if t == nil || t.model == nil {
		return m.next.Stream(ctx, req)
	}
	other := *req
	other.Model = "" // it names one of the main client
	return t.model.Stream(ctx, &other)
}
