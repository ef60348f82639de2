// Package harness composes a coding agent: the model with its middleware, the workspace, the tools, the policy,
// the context, the session and the rest, from a configuration or from none.
//
//	rt, err := harness.New(ctx, dir, harness.WithClient(model))
//	…
//	defer rt.Close()
//	for ev, err := range rt.Run(ctx, aycoder.Input{Prompt: "fix the test"}) { … }
//
// It is the one place that does so: the command line, a server and a test that use it get the same agent from
// the same configuration. A [Runtime] has the parts as fields, so that a host can use them one by one, and each
// part can be replaced by an option.
//
// # Nothing unasked
//
// Without options, a runtime reads and writes nothing outside of its directory: no home directory, no
// configuration, no variables but those that programs need to run (see [tools.WithEnv]), those whose names
// suggest a secret, in order to mask their values (tools.mask), and HOME, in order to know what ~ means in a
// command. Inside the directory, it reads what the model asks for. Each thing that it takes from its surroundings has a name, and a host
// switches it on with [WithAmbient]. Two runtimes in one process share nothing.
//
// # Links
//
// A program links only what it needs. Providers come by [WithOpener], from package linked or from the host, and
// what knows the code by [WithCode]. If the configuration needs something that the program does not link, the
// error of [New] lists everything that is missing, with the option to add.
//
// # Changes
//
// With [WithReloader], a runtime looks before each turn whether files of the configuration have changed. A change takes
// effect there, as a whole, and notices say what has changed. It is the same with instructions, skills and agents of
// files. See also [Runtime.Config] and [Runtime.Reload].
//
// # Commands
//
// With the ambient Skills, [Runtime.Expand] makes the input of a run of what a user has typed, such as "/review a.go",
// and the tool subagent can start the agents of the project and of the user.
//
//	var typed harness.Typed
//	for ev, err := range rt.Expand(ctx, line, &typed) { … } // may ask whether a command may run
//	for ev, err := range typed.Run(ctx) { … }
//
// # Plugins
//
// With [WithPlugins], the plugins that the user trusts bring commands, agents, skills, hooks, servers and tools: see
// package plugin. Go code is not loaded: a Go module that brings tools, stages or servers has a function that returns
// an Option, and the host passes it to [New].
//
// # Stages
//
// The work around a turn is a list of named stages, which [Runtime.Stages] returns and a host can print. A
// [Stage] of a host goes to the outside of the list, or replaces the one with its name.
package harness

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/background"
	"github.com/aycoder/aycoder/budget"
	"github.com/aycoder/aycoder/compaction"
	"github.com/aycoder/aycoder/config"
	"github.com/aycoder/aycoder/harness/hooks"
	"github.com/aycoder/aycoder/harness/plugin"
	"github.com/aycoder/aycoder/harness/project"
	"github.com/aycoder/aycoder/memory"
	"github.com/aycoder/aycoder/policy"
	"github.com/aycoder/aycoder/session"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

// Runtime is a composed agent with its parts. The parts must not be closed one by one: [Runtime.Close] does that.
// A part that is not there is nil, as the options and the configuration say.
type Runtime struct {
	// Agent answers. It is the Session, if there is one, with what [WithAgentMiddleware] puts around it.
	Agent aycoder.Agent
	// Loop is the loop inside the agent.
	Loop *aycoder.Loop
	// Session keeps the conversation: see [WithStore].
	Session *session.Session

	// Client is the model of the role main. Small and Summary are those of the other roles; Summary is nil if rules
	// write summaries. With [WithReloader], those of the configuration follow its changes.
	Client, Small, Summary aycoder.ModelClient

	// Files are the files of the workspace, on which the tools work. Workspace is the same if it is on this machine.
	Files     tools.FS
	Workspace *workspace.Workspace
	// Ignored are patterns, as in .gitignore, of files that searches leave out besides those of the workspace: those of
	// [WithIgnored], and after them tools.ignore of the configuration.
	Ignored string
	// Tools are all that the model may call at the beginning: see [Runtime.ToolsNow].
	Tools []aycoder.Tool
	// OtherAgents are those of the Tools that give tasks to other agents: see [WithAgentServers].
	OtherAgents []aycoder.Tool
	// Approver decides about calls. Policy is inside of it, unless an option has replaced it.
	Approver aycoder.Approver
	Policy   *policy.Policy

	Shell     *tools.Shell
	Jobs      *background.Group
	Todos     *tools.TodoList
	Compactor *compaction.Compactor
	Budgets   map[string]*budget.Pot
	Memory    *memory.Memory
	// Library follows changes with [WithReloader]: its method Now returns the newest one.
	Library *project.Library
	Hooks   *hooks.Runner

	// Sections are the parts of the system prompt, in order.
	Sections []Section

	served  sourceList
	loaded  atomic.Pointer[config.Loaded]
	reload  *reload      // nil without WithReloader
	runs    atomic.Int32 // at work, without those inside of calls
	stages  []Stage
	around  []func(aycoder.Agent) aycoder.Agent
	plain   []aycoder.Option               // of loops that run only tools
	named   sync.Map                       // the models that files of agents and commands name, by these names
	off     atomic.Pointer[[]string]       // names of tools that the model does not get; nil for none
	offered atomic.Pointer[[]aycoder.Tool] // after changes of the configuration; nil for the Tools
	masker  *tools.Masker                  // nil if secrets are not masked
	trust   *config.Trust
	plugins []*plugin.Plugin // that may be used
	store   *plugin.Store    // of the plugins
	notices notices
	pin     func(context.Context) // the environment, as a run begins; or nil
	unknown sync.Map              // the models without a price that the user was told of, by budget
	closing sync.Once
	closers []func() error
	closed  error
}

// New composes a runtime for a directory. Its error joins all faults of options, or else lists all that the configuration
// needs and the program does not link, or else is the first other fault. Faults of options and of keys are an
// [*aycoder.ConfigError] each. If New returns an error, it leaves nothing open. ctx is for New alone.
func New(ctx context.Context, dir string, opts ...Option) (*Runtime, error) {
	b, err := newBuilder(dir, opts)
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		b.check, b.told, b.budgets, b.models, b.workspace, b.readPlugins, b.ambient, b.tools, b.hooks, b.approver, b.context, b.reloads, b.loop, b.session, b.wrapped,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b.Runtime, nil
}

// Run lets the agent answer: see [aycoder.Agent].
func (r *Runtime) Run(ctx context.Context, in aycoder.Input, opts ...aycoder.RunOption) iter.Seq2[aycoder.Event, error] {
	return r.Agent.Run(ctx, in, opts...)
}

// Compact makes a conversation smaller between two runs, as [compaction.Compactor.Compact] does, unless a hook of
// PreCompact refuses that: the error is then a [*hooks.StoppedError]. Those of SessionStart run after it. If there is a
// Session, it is for its method Compact.
func (r *Runtime) Compact(ctx context.Context, messages []*aycoder.Message, keep string) (
	[]*aycoder.Message, *aycoder.Compacted, error,
) {
	if r.Hooks != nil {
		if err := r.Hooks.PreCompact(ctx, keep); err != nil {
			return messages, &aycoder.Compacted{}, err
		}
	}
	left, done, err := r.Compactor.Compact(ctx, messages, keep)
	if err == nil && r.Hooks != nil {
		r.Hooks.SessionStart(ctx, "compact")
	}
	return left, done, err
}

// Notify tells the user something: the run that works, or else the next one, yields it as an [aycoder.Notice].
// It does not wait. Of more than 100 notices that nobody has got, the oldest are dropped.
func (r *Runtime) Notify(source, text string) {
	r.notices.add(&aycoder.Notice{Source: source, Text: text})
}

// Close ends everything that belongs to the runtime, in the reverse order of its making: the session, the jobs in
// the background, the shell, the sandbox, files. The second call returns the error of the first. No run may work, and none
// may begin afterwards.
func (r *Runtime) Close() error {
	r.closing.Do(func() {
		var errs []error
		for _, f := range slices.Backward(r.closers) {
			errs = append(errs, f())
		}
		r.closed = errors.Join(errs...)
	})
	return r.closed
}

func (r *Runtime) onClose(c io.Closer) { r.closers = append(r.closers, c.Close) }

// maxNotices bounds those that wait for a run.
const maxNotices = 100

// notices wait for the next event of a run.
type notices struct {
	mu   sync.Mutex
	wait []*aycoder.Notice
}

func (n *notices) add(x *aycoder.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wait = append(n.wait, x)
	n.wait = n.wait[max(len(n.wait)-maxNotices, 0):]
}

func (n *notices) take() []*aycoder.Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.wait
	n.wait = nil
	return out
}
